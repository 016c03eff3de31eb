//! The methods a node answers.

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A method a node answers. The server matches on it without a default arm, so a method listed here and not
        /// implemented does not compile.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Method {
            $($(#[$doc])* $variant,)*
        }

        impl Method {
            /// Every method, in the order of the table below.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name as it stands in a request.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The word before the underscore.
            pub fn namespace(self) -> &'static str {
                self.name().split_once('_').map_or("", |(namespace, _)| namespace)
            }

            /// `None`: answered with [`crate::ErrorCode::MethodNotFound`], which clients that probe for optional methods
            /// rely on.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

methods! {
    Web3ClientVersion = "web3_clientVersion",
    Web3Sha3 = "web3_sha3",
    NetVersion = "net_version",
    NetListening = "net_listening",
    NetPeerCount = "net_peerCount",
    EthChainId = "eth_chainId",
    EthSyncing = "eth_syncing",
    EthAccounts = "eth_accounts",
    EthBlockNumber = "eth_blockNumber",
    EthGetBalance = "eth_getBalance",
    EthGetTransactionCount = "eth_getTransactionCount",
    EthGetCode = "eth_getCode",
    EthGetStorageAt = "eth_getStorageAt",
    /// Parameters: call, block, state overrides.
    EthCall = "eth_call",
    /// Parameters: call, block, state overrides.
    EthEstimateGas = "eth_estimateGas",
    EthGasPrice = "eth_gasPrice",
    EthMaxPriorityFeePerGas = "eth_maxPriorityFeePerGas",
    EthFeeHistory = "eth_feeHistory",
    EthSendRawTransaction = "eth_sendRawTransaction",
    EthGetTransactionByHash = "eth_getTransactionByHash",
    EthGetTransactionByBlockHashAndIndex = "eth_getTransactionByBlockHashAndIndex",
    EthGetTransactionByBlockNumberAndIndex = "eth_getTransactionByBlockNumberAndIndex",
    EthGetTransactionReceipt = "eth_getTransactionReceipt",
    EthGetBlockByNumber = "eth_getBlockByNumber",
    EthGetBlockByHash = "eth_getBlockByHash",
    EthGetBlockReceipts = "eth_getBlockReceipts",
    EthGetBlockTransactionCountByNumber = "eth_getBlockTransactionCountByNumber",
    EthGetBlockTransactionCountByHash = "eth_getBlockTransactionCountByHash",
    EthGetUncleCountByBlockNumber = "eth_getUncleCountByBlockNumber",
    EthGetUncleCountByBlockHash = "eth_getUncleCountByBlockHash",
    EthGetUncleByBlockNumberAndIndex = "eth_getUncleByBlockNumberAndIndex",
    EthGetUncleByBlockHashAndIndex = "eth_getUncleByBlockHashAndIndex",
    EthGetLogs = "eth_getLogs",
    EthNewFilter = "eth_newFilter",
    EthNewBlockFilter = "eth_newBlockFilter",
    EthNewPendingTransactionFilter = "eth_newPendingTransactionFilter",
    EthGetFilterChanges = "eth_getFilterChanges",
    EthGetFilterLogs = "eth_getFilterLogs",
    EthUninstallFilter = "eth_uninstallFilter",
    /// WebSocket only: `newHeads`, `logs`, `newPendingTransactions`.
    EthSubscribe = "eth_subscribe",
    EthUnsubscribe = "eth_unsubscribe",
    /// Parameter: block. Result: [`crate::Ordering`] or null.
    CornicheGetOrdering = "corniche_getOrdering",
    /// Parameter: block. Result: the [`crate::Certificate`] that covers it, which may be a later block's, or null.
    CornicheGetCertificate = "corniche_getCertificate",
    /// Parameter: transaction hash. Result: [`crate::TransactionStatus`] or null.
    CornicheGetTransactionStatus = "corniche_getTransactionStatus",
    /// Parameters: first and last round, or `"latest"` and a number of rounds. Result: [`crate::Dag`]. Validators only.
    CornicheGetDag = "corniche_getDag",
}

/// The method named in notifications of a subscription.
pub const SUBSCRIPTION: &str = "eth_subscription";

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn names_lead_back_to_their_methods() {
        for &method in Method::ALL {
            assert_eq!(Method::from_name(method.name()), Some(method));
        }
        for probe in ["eth_fillTransaction", "anvil_nodeInfo", "eth_getAccountInfo", "eth_mining", "", "ETH_CHAINID"] {
            assert_eq!(Method::from_name(probe), None, "{probe}");
        }
    }
}
