//! Methods of a node: one table, from which the server, the OpenRPC document and `docs/rpc.md` are generated.

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal $signature:literal,)*) => {
        /// A method of a node. The server matches on it without a default arm, so a listed method without an implementation
        /// does not compile.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Method {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Method {
            /// Every method, in the order of the table below.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name in a request.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Parameters and result, in the notation of [`crate::openrpc`].
            pub const fn signature(self) -> &'static str {
                match self {
                    $(Self::$variant => $signature,)*
                }
            }

            /// Description in one or a few sentences.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)*
                }
            }

            /// Prefix before the underscore.
            pub fn namespace(self) -> &'static str {
                self.name().split_once('_').map_or("", |(namespace, _)| namespace)
            }

            /// Namespace that enables it. Methods that change the chain are enabled with `evm`.
            pub fn config_name(self) -> &'static str {
                match self {
                    Self::EthSendTransaction => Self::EvmMine.namespace(),
                    method => method.namespace(),
                }
            }

            /// `None` for an unknown method. Its error is [`crate::ErrorCode::MethodNotFound`], on which clients that probe for
            /// optional methods rely.
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
    // web3
    /// Name and version of the node's software.
    Web3ClientVersion = "web3_clientVersion" "() -> Text",
    /// Keccak-256 hash of the data.
    Web3Sha3 = "web3_sha3" "(data: Bytes) -> Hash",
    // net
    /// Chain id in decimal digits.
    NetVersion = "net_version" "() -> Text",
    /// Always true.
    NetListening = "net_listening" "() -> Boolean",
    /// Number of connected peers.
    NetPeerCount = "net_peerCount" "() -> Quantity",
    // rpc
    /// This document: the methods that this node serves, in OpenRPC format.
    RpcDiscover = "rpc_discover" "() -> OpenRpc",
    /// Namespaces that this node serves, each with its version.
    RpcModules = "rpc_modules" "() -> Modules",
    // eth
    /// Chain id.
    EthChainId = "eth_chainId" "() -> Quantity",
    /// Progress of synchronization; false at the head of the chain.
    EthSyncing = "eth_syncing" "() -> SyncProgress | Boolean",
    /// Accounts for which the node signs: the funded accounts of a development chain; empty on other chains.
    EthAccounts = "eth_accounts" "() -> Address[]",
    /// Number of the newest block.
    EthBlockNumber = "eth_blockNumber" "() -> Quantity",
    /// Balance of an account in wei.
    EthGetBalance = "eth_getBalance" "(account: Address, block?: BlockId) -> Quantity",
    /// Next nonce of an account. `pending` includes transactions in the pool.
    EthGetTransactionCount = "eth_getTransactionCount" "(account: Address, block?: BlockId) -> Quantity",
    /// Code of an account, exactly as it was deployed.
    EthGetCode = "eth_getCode" "(account: Address, block?: BlockId) -> Bytes",
    /// Value of a storage slot: 32 bytes.
    EthGetStorageAt = "eth_getStorageAt" "(account: Address, slot: Slot, block?: BlockId) -> Bytes32",
    /// Values of at most 1,024 storage slots of several accounts.
    EthGetStorageValues = "eth_getStorageValues" "(slots: SlotsByAccount, block?: BlockId) -> ValuesByAccount",
    /// Values of an account and of at most 1,024 of its slots, with proofs against the state root in the block's header. Proofs are paths of
    /// this chain's own tree; `corniche_types::proof` verifies them. Available for the newest 256 blocks.
    EthGetProof = "eth_getProof" "(account: Address, slots: Slot[], block?: BlockId) -> AccountProof",
    /// Executes a call on the state of a block and returns its output. Creates no transaction.
    EthCall = "eth_call" "(call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides) -> Bytes",
    /// Gas limit with which a transaction succeeds.
    EthEstimateGas = "eth_estimateGas" "(call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides) -> Quantity",
    /// Access list (EIP-2930) of everything that a call accesses, and the gas used with this list.
    EthCreateAccessList = "eth_createAccessList" "(call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides) -> AccessListResult",
    /// Simulates blocks of calls on top of an existing block. Each block starts from the state after the previous one.
    EthSimulateV1 = "eth_simulateV1" "(blocks: Simulation, block?: BlockId) -> SimulatedBlock[]",
    /// Suggested gas price for transactions of type 0 and 1: base fee plus a tip, in wei.
    EthGasPrice = "eth_gasPrice" "() -> Quantity",
    /// Base fee of the next block, in wei per gas.
    EthBaseFee = "eth_baseFee" "() -> Quantity",
    /// Suggested tip in wei per gas, from recent blocks.
    EthMaxPriorityFeePerGas = "eth_maxPriorityFeePerGas" "() -> Quantity",
    /// Base fees, gas used ratios and tips of recent blocks.
    EthFeeHistory = "eth_feeHistory" "(count: Count, newest?: BlockId, percentiles?: Numbers) -> FeeHistory",
    /// Signs a transaction of a node's account, or accepts one of an impersonated account, and adds it to the pool. Missing fields are filled
    /// in. Development chains only.
    EthSendTransaction = "eth_sendTransaction" "(transaction: Call) -> Hash",
    /// Adds a signed transaction to the pool and returns its hash.
    EthSendRawTransaction = "eth_sendRawTransaction" "(transaction: Bytes) -> Hash",
    /// Adds a signed transaction to the pool and waits for its receipt (EIP-7966). The timeout is in milliseconds: 2,000 by default, 20,000 at
    /// most.
    EthSendRawTransactionSync = "eth_sendRawTransactionSync" "(transaction: Bytes, timeout?: Count) -> Receipt",
    /// Transaction of a block or of the pool; null if unknown.
    EthGetTransactionByHash = "eth_getTransactionByHash" "(hash: Hash) -> Transaction | null",
    /// Transaction by its position in a block; null if there is none.
    EthGetTransactionByBlockHashAndIndex = "eth_getTransactionByBlockHashAndIndex" "(block: Hash, index: Count) -> Transaction | null",
    /// Transaction by its position in a block; null if there is none.
    EthGetTransactionByBlockNumberAndIndex = "eth_getTransactionByBlockNumberAndIndex" "(block: BlockName, index: Count) -> Transaction | null",
    /// Signed encoding (EIP-2718) of a transaction of a block or of the pool; empty if unknown, as in geth.
    EthGetRawTransactionByHash = "eth_getRawTransactionByHash" "(hash: Hash) -> Bytes",
    /// Signed encoding (EIP-2718) of a transaction by its position in a block; empty if there is none.
    EthGetRawTransactionByBlockHashAndIndex = "eth_getRawTransactionByBlockHashAndIndex" "(block: Hash, index: Count) -> Bytes",
    /// Signed encoding (EIP-2718) of a transaction by its position in a block; empty if there is none.
    EthGetRawTransactionByBlockNumberAndIndex = "eth_getRawTransactionByBlockNumberAndIndex" "(block: BlockName, index: Count) -> Bytes",
    /// Receipt of an executed transaction; null if it was not executed.
    EthGetTransactionReceipt = "eth_getTransactionReceipt" "(hash: Hash) -> Receipt | null",
    /// Block with the hashes of its transactions, or with `full` the transactions; null if unknown.
    EthGetBlockByNumber = "eth_getBlockByNumber" "(block: BlockName, full?: Boolean) -> Block | null",
    /// Block with the hashes of its transactions, or with `full` the transactions; null if unknown.
    EthGetBlockByHash = "eth_getBlockByHash" "(block: Hash, full?: Boolean) -> Block | null",
    /// Receipts of a block's transactions, in order; null if the block is unknown.
    EthGetBlockReceipts = "eth_getBlockReceipts" "(block: BlockId) -> Receipt[] | null",
    /// Number of transactions in a block; null if the block is unknown.
    EthGetBlockTransactionCountByNumber = "eth_getBlockTransactionCountByNumber" "(block: BlockName) -> Quantity | null",
    /// Number of transactions in a block; null if the block is unknown.
    EthGetBlockTransactionCountByHash = "eth_getBlockTransactionCountByHash" "(block: Hash) -> Quantity | null",
    /// Always 0, because there are no uncles; null if the block is unknown.
    EthGetUncleCountByBlockNumber = "eth_getUncleCountByBlockNumber" "(block: BlockName) -> Quantity | null",
    /// Always 0, because there are no uncles; null if the block is unknown.
    EthGetUncleCountByBlockHash = "eth_getUncleCountByBlockHash" "(block: Hash) -> Quantity | null",
    /// Always null, because there are no uncles.
    EthGetUncleByBlockNumberAndIndex = "eth_getUncleByBlockNumberAndIndex" "(block: BlockName, index: Count) -> null",
    /// Always null, because there are no uncles.
    EthGetUncleByBlockHashAndIndex = "eth_getUncleByBlockHashAndIndex" "(block: Hash, index: Count) -> null",
    /// Logs of a range of blocks, filtered by address and topics.
    EthGetLogs = "eth_getLogs" "(filter: LogFilter) -> Log[]",
    /// Creates a filter for logs; see eth_getFilterChanges.
    EthNewFilter = "eth_newFilter" "(filter: LogFilter) -> Quantity",
    /// Creates a filter for the hashes of new blocks; see eth_getFilterChanges.
    EthNewBlockFilter = "eth_newBlockFilter" "() -> Quantity",
    /// Creates a filter for transactions that enter the pool: their hashes, or with `full` the transactions.
    EthNewPendingTransactionFilter = "eth_newPendingTransactionFilter" "(full?: Boolean) -> Quantity",
    /// Returns the new items of a filter since its last poll. A filter expires after five minutes without a poll.
    EthGetFilterChanges = "eth_getFilterChanges" "(filter: Quantity) -> Hash[] | Log[] | Transaction[]",
    /// Returns all logs that match a log filter.
    EthGetFilterLogs = "eth_getFilterLogs" "(filter: Quantity) -> Log[]",
    /// Removes a filter; false if it did not exist.
    EthUninstallFilter = "eth_uninstallFilter" "(filter: Quantity) -> Boolean",
    /// WebSocket only: subscribes to new events and returns the subscription's id. The second parameter of `logs` is a filter, that of
    /// `newPendingTransactions` is true for full transactions. `syncing` and `corniche_dag` first send the current state. `corniche_dag` sends
    /// the validator's newest round when `corniche_getDag` has new data, at most ten times per second. `epochs` sends each epoch that
    /// begins, as `corniche_getEpoch` does.
    EthSubscribe = "eth_subscribe" "(topic: Topic, how?: LogFilter | Boolean) -> Quantity",
    /// Ends a subscription.
    EthUnsubscribe = "eth_unsubscribe" "(subscription: Quantity) -> Boolean",
    // txpool
    /// Number of pool transactions that can be executed now, and number that wait for an earlier nonce.
    TxpoolStatus = "txpool_status" "() -> PoolStatus",
    /// Transactions in the pool, by sender and nonce. An error if they exceed the size limit of a response.
    TxpoolContent = "txpool_content" "() -> PoolContent",
    /// Transactions of one sender in the pool, by nonce.
    TxpoolContentFrom = "txpool_contentFrom" "(sender: Address) -> PoolContentFrom",
    /// Text summary of the transactions in the pool, one line each, by sender and nonce.
    TxpoolInspect = "txpool_inspect" "() -> PoolLines",
    // debug
    /// RLP encoding of a block's header; its keccak-256 is the block's hash.
    DebugGetRawHeader = "debug_getRawHeader" "(block: BlockId) -> Bytes",
    /// RLP encoding of a block: header, transactions and an empty list of uncles.
    DebugGetRawBlock = "debug_getRawBlock" "(block: BlockId) -> Bytes",
    /// Encoded receipts of a block, as hashed into the header's receipts root.
    DebugGetRawReceipts = "debug_getRawReceipts" "(block: BlockId) -> Bytes[]",
    /// Signed encoding (EIP-2718) of a transaction of a block or of the pool; empty if unknown.
    DebugGetRawTransaction = "debug_getRawTransaction" "(hash: Hash) -> Bytes",
    /// Trace of a transaction, by executing its block again. The state before the block must still be available.
    DebugTraceTransaction = "debug_traceTransaction" "(hash: Hash, tracer?: Tracer) -> Trace",
    /// Traces of a block's transactions, by executing the block again. The state before the block must still be available.
    DebugTraceBlockByNumber = "debug_traceBlockByNumber" "(block: BlockName, tracer?: Tracer) -> TracedTransaction[]",
    /// Traces of a block's transactions, by executing the block again. The state before the block must still be available.
    DebugTraceBlockByHash = "debug_traceBlockByHash" "(block: Hash, tracer?: Tracer) -> TracedTransaction[]",
    /// Trace of a simulated call.
    DebugTraceCall = "debug_traceCall" "(call: Call, block?: BlockId, tracer?: Tracer) -> Trace",
    // ots: Otterscan's API, in Erigon's format
    /// API level of Otterscan's methods: 8.
    OtsGetApiLevel = "ots_getApiLevel" "() -> PlainNumber",
    /// True if the account has code.
    OtsHasCode = "ots_hasCode" "(account: Address, block?: BlockId) -> Boolean",
    /// Return data of a failed transaction; empty if it succeeded.
    OtsGetTransactionError = "ots_getTransactionError" "(hash: Hash) -> Bytes",
    /// Calls of a transaction in execution order, by executing its block again.
    OtsTraceTransaction = "ots_traceTransaction" "(hash: Hash) -> OtsCall[]",
    /// Value transfers and contract creations inside a transaction.
    OtsGetInternalOperations = "ots_getInternalOperations" "(hash: Hash) -> OtsOperation[]",
    /// Block without its transactions, and their total fees; null if unknown.
    OtsGetBlockDetails = "ots_getBlockDetails" "(block: BlockName | PlainNumber) -> OtsBlockDetails | null",
    /// Block without its transactions, and their total fees; null if unknown.
    OtsGetBlockDetailsByHash = "ots_getBlockDetailsByHash" "(block: Hash) -> OtsBlockDetails | null",
    /// A page of a block's transactions, counted from the end of the block. Inputs are cut to their first bytes, receipts have no logs.
    OtsGetBlockTransactions = "ots_getBlockTransactions" "(block: BlockName | PlainNumber, page: Count, size: Count) -> OtsBlockTransactions | null",
    /// Transactions before a block (0: all blocks) of an account: as sender, recipient, created contract or emitter of a log. The search takes
    /// at most five seconds.
    OtsSearchTransactionsBefore = "ots_searchTransactionsBefore" "(account: Address, block: Count, size: Count) -> OtsPage",
    /// Transactions after a block of an account: as sender, recipient, created contract or emitter of a log. The search takes at most five
    /// seconds.
    OtsSearchTransactionsAfter = "ots_searchTransactionsAfter" "(account: Address, block: Count, size: Count) -> OtsPage",
    /// Hash of an account's transaction with this nonce; null if there is none. Blocks whose states are not kept are searched for at most five
    /// seconds.
    OtsGetTransactionBySenderAndNonce = "ots_getTransactionBySenderAndNonce" "(sender: Address, nonce: Count) -> Hash | null",
    /// Creator of a contract, and the transaction that created it; null for accounts without code and for contracts of the genesis. A contract
    /// created by another contract is found only among blocks whose states are kept.
    OtsGetContractCreator = "ots_getContractCreator" "(account: Address) -> OtsCreator | null",
    // evm
    /// Mines blocks (default 1), with this timestamp if one is given. Returns 0.
    EvmMine = "evm_mine" "(how?: Count | MineOptions) -> Quantity",
    /// Advances the clock by this number of seconds, from the next block on. Returns the total advance in seconds.
    EvmIncreaseTime = "evm_increaseTime" "(seconds: Count) -> Count",
    /// Sets the timestamp of the next block in Unix seconds. The clock continues from there.
    EvmSetNextBlockTimestamp = "evm_setNextBlockTimestamp" "(timestamp: Count) -> Count",
    /// Takes a snapshot of the chain for evm_revert: blocks, clock and pool. Waits until executable transactions sent before are in a block.
    /// Returns the snapshot's id.
    EvmSnapshot = "evm_snapshot" "() -> Quantity",
    /// Reverts blocks, clock and pool to a snapshot, and removes this snapshot and all later ones; false if it does not exist.
    EvmRevert = "evm_revert" "(snapshot: Quantity) -> Boolean",
    /// Turns automatic mining on or off: new transactions trigger blocks.
    EvmSetAutomine = "evm_setAutomine" "(automine: Boolean) -> Boolean",
    /// Mines a block at this interval in milliseconds; 0 turns it off.
    EvmSetIntervalMining = "evm_setIntervalMining" "(ms: Count) -> Boolean",
    // hardhat
    /// True if automatic mining is on.
    HardhatGetAutomine = "hardhat_getAutomine" "() -> Boolean",
    /// Mines blocks (default 1) with this interval between their timestamps in seconds (default 1).
    HardhatMine = "hardhat_mine" "(blocks?: Count, apart?: Count) -> Boolean",
    /// Sets the balance of an account in wei, in a separate block.
    HardhatSetBalance = "hardhat_setBalance" "(account: Address, wei: Quantity) -> Boolean",
    /// Sets the next nonce of an account, in a separate block.
    HardhatSetNonce = "hardhat_setNonce" "(account: Address, nonce: Quantity) -> Boolean",
    /// Sets the code of an account, WebAssembly or empty, in a separate block.
    HardhatSetCode = "hardhat_setCode" "(account: Address, code: Bytes) -> Boolean",
    /// Sets the value of a storage slot, in a separate block.
    HardhatSetStorageAt = "hardhat_setStorageAt" "(account: Address, slot: Slot, value: Slot) -> Boolean",
    /// Lets `eth_sendTransaction` send transactions of this account without its key. The account may be a contract.
    HardhatImpersonateAccount = "hardhat_impersonateAccount" "(account: Address) -> Boolean",
    /// Stops the impersonation of this account.
    HardhatStopImpersonatingAccount = "hardhat_stopImpersonatingAccount" "(account: Address) -> Boolean",
    /// Resets the chain to its genesis. Removes snapshots, impersonations and the pool. Forking another chain is not supported.
    HardhatReset = "hardhat_reset" "(how?: ResetOptions) -> Boolean",
    /// Sets the base fee of the next block in wei per gas. Blocks of setters do not count as next.
    HardhatSetNextBlockBaseFeePerGas = "hardhat_setNextBlockBaseFeePerGas" "(wei: Count) -> Boolean",
    /// Sets the randomness that transactions of the next block read. Blocks of setters do not count as next.
    HardhatSetPrevRandao = "hardhat_setPrevRandao" "(randomness: Slot) -> Boolean",
    /// Removes a transaction from the pool; false if it is not in the pool, an error if it is in a block.
    HardhatDropTransaction = "hardhat_dropTransaction" "(hash: Hash) -> Boolean",
    /// Software, chain id, instance and newest block of this node.
    HardhatMetadata = "hardhat_metadata" "() -> HardhatMetadata",
    // anvil
    /// True if automatic mining is on.
    AnvilGetAutomine = "anvil_getAutomine" "() -> Boolean",
    /// Mines blocks (default 1) with this interval between their timestamps in seconds (default 1).
    AnvilMine = "anvil_mine" "(blocks?: Count, apart?: Count) -> null",
    /// Sets the balance of an account in wei, in a separate block.
    AnvilSetBalance = "anvil_setBalance" "(account: Address, wei: Quantity) -> null",
    /// Sets the next nonce of an account, in a separate block.
    AnvilSetNonce = "anvil_setNonce" "(account: Address, nonce: Quantity) -> null",
    /// Sets the code of an account, WebAssembly or empty, in a separate block.
    AnvilSetCode = "anvil_setCode" "(account: Address, code: Bytes) -> null",
    /// Sets the value of a storage slot, in a separate block.
    AnvilSetStorageAt = "anvil_setStorageAt" "(account: Address, slot: Slot, value: Slot) -> null",
    /// Lets `eth_sendTransaction` send transactions of this account without its key. The account may be a contract.
    AnvilImpersonateAccount = "anvil_impersonateAccount" "(account: Address) -> null",
    /// Stops the impersonation of this account.
    AnvilStopImpersonatingAccount = "anvil_stopImpersonatingAccount" "(account: Address) -> null",
    /// Resets the chain to its genesis. Removes snapshots, impersonations and the pool. Forking another chain is not supported.
    AnvilReset = "anvil_reset" "(how?: ResetOptions) -> null",
    /// Sets the base fee of the next block in wei per gas. Blocks of setters do not count as next.
    AnvilSetNextBlockBaseFeePerGas = "anvil_setNextBlockBaseFeePerGas" "(wei: Count) -> null",
    /// Removes a transaction from the pool and returns its hash; null if it is not in the pool.
    AnvilDropTransaction = "anvil_dropTransaction" "(hash: Hash) -> Hash | null",
    /// Removes all transactions from the pool.
    AnvilDropAllTransactions = "anvil_dropAllTransactions" "() -> null",
    /// Removes an account's transactions from the pool.
    AnvilRemovePoolTransactions = "anvil_removePoolTransactions" "(account: Address) -> null",
    /// Newest block, gas limit, base fee of the next block, and suggested gas price.
    AnvilNodeInfo = "anvil_nodeInfo" "() -> AnvilNodeInfo",
    // corniche
    /// Ordering record of a block, with its skipped transactions; null for the genesis block.
    CornicheGetOrdering = "corniche_getOrdering" "(block?: BlockId) -> Ordering | null",
    /// Certificate that proves that a block is final; it may be that of a later block. Null if there is none yet.
    CornicheGetCertificate = "corniche_getCertificate" "(block?: BlockId) -> Certificate | null",
    /// Proofs of the committees after this epoch and the following ones, for clients that check certificates: at most 64, by default all
    /// that are left. Empty if the epoch has not ended.
    CornicheGetEpochChanges = "corniche_getEpochChanges" "(epoch: Quantity, count?: Quantity) -> EpochChange[]",
    /// An epoch: its blocks, times, committee and protocol version. Null if it has not begun, or if this node does not know its beginning.
    CornicheGetEpoch = "corniche_getEpoch" "(epoch: EpochId) -> EpochInfo | null",
    /// Committee of the running or of a past epoch. A node keeps only BLS keys and votes of past ones. Null if the epoch has not begun, or
    /// if this node does not have its committee.
    CornicheGetCommittee = "corniche_getCommittee" "(epoch: EpochId) -> CommitteeInfo | null",
    /// Status of a transaction, with its times; null if unknown.
    CornicheGetTransactionStatus = "corniche_getTransactionStatus" "(hash: Hash) -> TransactionStatus | null",
    /// Newest executed block and newest certified block.
    CornicheGetHeads = "corniche_getHeads" "() -> Heads",
    /// The committee: validators with their keys, and the number of signatures in a certificate.
    CornicheGetValidators = "corniche_getValidators" "() -> Validators",
    /// Stake after a block: the running epoch, and all validators with stake, votes, keys and endpoints. Null on chains without staking.
    CornicheGetStaking = "corniche_getStaking" "(block?: BlockId) -> Staking | null",
    /// Convictions for what validators signed in this epoch and later ones. The state has those of the newest 64 epochs. A response ends
    /// after the epoch with the 300th conviction; `next` is the epoch from which to continue. Null on chains without staking.
    CornicheGetOffences = "corniche_getOffences" "(epoch: Quantity) -> Offences | null",
    /// Blocks of this node and its snapshots: where it began, and whether it follows.
    CornicheGetSyncStatus = "corniche_getSyncStatus" "() -> SyncStatus",
    /// This node and its connected peers: version, validator, round-trip time. Network addresses are not included.
    CornicheGetPeers = "corniche_getPeers" "() -> Peers",
    /// Execution statistics since this node started: executions, re-executions, and results that were ready when ordered.
    CornicheGetStatistics = "corniche_getStatistics" "() -> Statistics",
    /// Execution statistics of a block on this node: lanes, re-executions, duration. They are not part of consensus. Null for blocks older
    /// than the newest 1,024 (fewer if they are large), and for blocks from before the node started.
    CornicheGetExecution = "corniche_getExecution" "(block?: BlockId) -> Execution | null",
    /// Shards with their replicas, gateways, and counts of this gateway. Null on chains without shards.
    CornicheGetShards = "corniche_getShards" "() -> Shards | null",
    /// Number of the shard with this account and its storage. Null on chains without shards.
    CornicheGetShard = "corniche_getShard" "(account: Address) -> Quantity | null",
    /// Way of a committed transaction over the shards: timestamp, dependencies, attempts, recovery. Null if it is unknown, and on chains
    /// without shards.
    CornicheGetShardedTransaction = "corniche_getShardedTransaction" "(hash: Hash) -> ShardedTransaction | null",
    /// Signatures of replicas of all shards that prove a block's transactions. Null if there are none yet, and on chains without shards.
    CornicheGetShardCertificate = "corniche_getShardCertificate" "(block?: BlockId) -> ShardCertificate | null",
    /// Recent consensus DAG of a validator. Parameters: first and last round, or `latest` and the number of rounds.
    CornicheGetDag = "corniche_getDag" "(first: FirstRound, last: Quantity) -> Dag",
}

/// Method name in notifications of a subscription.
pub const SUBSCRIPTION: &str = "eth_subscription";

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn method_names_round_trip() {
        for &method in Method::ALL {
            assert_eq!(Method::from_name(method.name()), Some(method));
        }
        for probe in [
            "eth_fillTransaction",
            "anvil_autoImpersonateAccount",
            "eth_getAccountInfo",
            "eth_mining",
            "erigon_getHeaderByNumber",
            "",
            "ETH_CHAINID",
        ] {
            assert_eq!(Method::from_name(probe), None, "{probe}");
        }
    }
}
