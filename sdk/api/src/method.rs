//! The methods a node answers: one table, from which the server, the OpenRPC document and `docs/rpc.md` are made.

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal $signature:literal,)*) => {
        /// A method a node answers. The server matches on it without a default arm, so a method listed here and not
        /// implemented does not compile.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Method {
            $($(#[doc = $doc])+ $variant,)*
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

            /// Parameters and result, as [`crate::openrpc`] reads them.
            pub const fn signature(self) -> &'static str {
                match self {
                    $(Self::$variant => $signature,)*
                }
            }

            /// What it is for, in one sentence or two.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)*
                }
            }

            /// The word before the underscore.
            pub fn namespace(self) -> &'static str {
                self.name().split_once('_').map_or("", |(namespace, _)| namespace)
            }

            /// The namespace that has to be served for it: what changes the chain at a word is switched on with `evm`.
            pub fn switch(self) -> &'static str {
                match self {
                    Self::EthSendTransaction => Self::EvmMine.namespace(),
                    method => method.namespace(),
                }
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
    // web3
    /// What this node calls itself.
    Web3ClientVersion = "web3_clientVersion" "() -> Text",
    /// Keccak-256 of the data.
    Web3Sha3 = "web3_sha3" "(data: Bytes) -> Hash",
    // net
    /// The chain id in decimal digits.
    NetVersion = "net_version" "() -> Text",
    /// Always true.
    NetListening = "net_listening" "() -> Boolean",
    /// Peers this node is connected to.
    NetPeerCount = "net_peerCount" "() -> Quantity",
    // rpc
    /// This document: the methods that this node serves, in the words of OpenRPC.
    RpcDiscover = "rpc_discover" "() -> OpenRpc",
    /// The namespaces that this node serves, each with a version.
    RpcModules = "rpc_modules" "() -> Modules",
    // eth
    /// The chain id.
    EthChainId = "eth_chainId" "() -> Quantity",
    /// How far catching up has come; false at the head of the chain.
    EthSyncing = "eth_syncing" "() -> SyncProgress | Boolean",
    /// Whose transactions the node signs: the funded ones of a development chain, elsewhere none.
    EthAccounts = "eth_accounts" "() -> Address[]",
    /// Number of the newest block.
    EthBlockNumber = "eth_blockNumber" "() -> Quantity",
    /// What an account owns, in wei.
    EthGetBalance = "eth_getBalance" "(account: Address, block?: BlockId) -> Quantity",
    /// An account's next nonce. `pending` counts what waits in the pool.
    EthGetTransactionCount = "eth_getTransactionCount" "(account: Address, block?: BlockId) -> Quantity",
    /// An account's code exactly as it was deployed.
    EthGetCode = "eth_getCode" "(account: Address, block?: BlockId) -> Bytes",
    /// 32 bytes of a contract's storage.
    EthGetStorageAt = "eth_getStorageAt" "(account: Address, slot: Slot, block?: BlockId) -> Bytes32",
    /// Values of storage slots of several accounts at once, at most 1,024.
    EthGetStorageValues = "eth_getStorageValues" "(slots: SlotsByAccount, block?: BlockId) -> ValuesByAccount",
    /// What an account and at most 1,024 of its slots hold, with what shows it to whoever has the block's header: paths of this chain's
    /// own tree, checked by `corniche_types::proof`. For the newest 256 blocks.
    EthGetProof = "eth_getProof" "(account: Address, slots: Slot[], block?: BlockId) -> AccountProof",
    /// Runs a call on a state and answers what it returns.
    EthCall = "eth_call" "(call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides) -> Bytes",
    /// A gas limit with which a transaction succeeds.
    EthEstimateGas = "eth_estimateGas" "(call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides) -> Quantity",
    /// What a call would have to declare so that nothing it reaches is cold, and the gas that it uses then.
    EthCreateAccessList = "eth_createAccessList" "(call: Call, block?: BlockId, state?: StateOverrides, supposed?: BlockOverrides) -> AccessListResult",
    /// Runs blocks of calls, each on the state that the one before left, on top of a block that is there.
    EthSimulateV1 = "eth_simulateV1" "(blocks: Simulation, block?: BlockId) -> SimulatedBlock[]",
    /// Base fee and a tip: the price for a transaction of type 0 or 1.
    EthGasPrice = "eth_gasPrice" "() -> Quantity",
    /// Wei per gas in the next block.
    EthBaseFee = "eth_baseFee" "() -> Quantity",
    /// A tip that recent blocks paid.
    EthMaxPriorityFeePerGas = "eth_maxPriorityFeePerGas" "() -> Quantity",
    /// Base fees, fullness and tips of recent blocks.
    EthFeeHistory = "eth_feeHistory" "(count: Count, newest?: BlockId, percentiles?: Numbers) -> FeeHistory",
    /// Signs a transaction of one of the accounts, or takes one of an impersonated account, and hands it to the pool. What is left out is filled in. Development chains only.
    EthSendTransaction = "eth_sendTransaction" "(transaction: Call) -> Hash",
    /// Hands a signed transaction to the pool.
    EthSendRawTransaction = "eth_sendRawTransaction" "(transaction: Bytes) -> Hash",
    /// The same, answered with the receipt. It waits for so many milliseconds: 2,000 unless said otherwise, 20,000 at most (EIP-7966).
    EthSendRawTransactionSync = "eth_sendRawTransactionSync" "(transaction: Bytes, timeout?: Count) -> Receipt",
    /// A transaction of a block or of the pool.
    EthGetTransactionByHash = "eth_getTransactionByHash" "(hash: Hash) -> Transaction | null",
    /// A transaction by its place in a block.
    EthGetTransactionByBlockHashAndIndex = "eth_getTransactionByBlockHashAndIndex" "(block: Hash, index: Count) -> Transaction | null",
    /// A transaction by its place in a block.
    EthGetTransactionByBlockNumberAndIndex = "eth_getTransactionByBlockNumberAndIndex" "(block: BlockName, index: Count) -> Transaction | null",
    /// A transaction of a block or of the pool as it was signed (EIP-2718); empty when there is none, as geth answers.
    EthGetRawTransactionByHash = "eth_getRawTransactionByHash" "(hash: Hash) -> Bytes",
    /// A transaction by its place in a block as it was signed; empty when there is none.
    EthGetRawTransactionByBlockHashAndIndex = "eth_getRawTransactionByBlockHashAndIndex" "(block: Hash, index: Count) -> Bytes",
    /// A transaction by its place in a block as it was signed; empty when there is none.
    EthGetRawTransactionByBlockNumberAndIndex = "eth_getRawTransactionByBlockNumberAndIndex" "(block: BlockName, index: Count) -> Bytes",
    /// What became of an executed transaction.
    EthGetTransactionReceipt = "eth_getTransactionReceipt" "(hash: Hash) -> Receipt | null",
    /// A block with its transactions' hashes, or the transactions themselves.
    EthGetBlockByNumber = "eth_getBlockByNumber" "(block: BlockName, full?: Boolean) -> Block | null",
    /// A block with its transactions' hashes, or the transactions themselves.
    EthGetBlockByHash = "eth_getBlockByHash" "(block: Hash, full?: Boolean) -> Block | null",
    /// The receipts of a block's transactions, in order.
    EthGetBlockReceipts = "eth_getBlockReceipts" "(block: BlockId) -> Receipt[] | null",
    /// How many transactions a block holds.
    EthGetBlockTransactionCountByNumber = "eth_getBlockTransactionCountByNumber" "(block: BlockName) -> Quantity | null",
    /// How many transactions a block holds.
    EthGetBlockTransactionCountByHash = "eth_getBlockTransactionCountByHash" "(block: Hash) -> Quantity | null",
    /// 0: there are no uncles.
    EthGetUncleCountByBlockNumber = "eth_getUncleCountByBlockNumber" "(block: BlockName) -> Quantity | null",
    /// 0: there are no uncles.
    EthGetUncleCountByBlockHash = "eth_getUncleCountByBlockHash" "(block: Hash) -> Quantity | null",
    /// Null: there are no uncles.
    EthGetUncleByBlockNumberAndIndex = "eth_getUncleByBlockNumberAndIndex" "(block: BlockName, index: Count) -> null",
    /// Null: there are no uncles.
    EthGetUncleByBlockHashAndIndex = "eth_getUncleByBlockHashAndIndex" "(block: Hash, index: Count) -> null",
    /// Logs of a range of blocks by address and topics.
    EthGetLogs = "eth_getLogs" "(filter: LogFilter) -> Log[]",
    /// A filter for logs; see eth_getFilterChanges.
    EthNewFilter = "eth_newFilter" "(filter: LogFilter) -> Quantity",
    /// A filter for new blocks.
    EthNewBlockFilter = "eth_newBlockFilter" "() -> Quantity",
    /// A filter for transactions that enter the pool: their hashes, or with `full` the transactions.
    EthNewPendingTransactionFilter = "eth_newPendingTransactionFilter" "(full?: Boolean) -> Quantity",
    /// What is new since the last time this was asked. A filter that nobody asks for is dropped after five minutes.
    EthGetFilterChanges = "eth_getFilterChanges" "(filter: Quantity) -> Hash[] | Log[] | Transaction[]",
    /// All that a filter for logs matches.
    EthGetFilterLogs = "eth_getFilterLogs" "(filter: Quantity) -> Log[]",
    /// Drops a filter; false when there was none.
    EthUninstallFilter = "eth_uninstallFilter" "(filter: Quantity) -> Boolean",
    /// WebSocket only: tells what happens from now on. `logs` takes a filter, `newPendingTransactions` whether to tell them in full. `syncing`
    /// and `corniche_dag` begin with how it stands. `corniche_dag` tells a validator's newest round whenever `corniche_getDag` has more to show, ten
    /// times a second at most.
    EthSubscribe = "eth_subscribe" "(topic: Topic, how?: LogFilter | Boolean) -> Quantity",
    /// Ends a subscription.
    EthUnsubscribe = "eth_unsubscribe" "(subscription: Quantity) -> Boolean",
    // txpool
    /// How many transactions of the pool can be executed now, and how many wait for an earlier nonce.
    TxpoolStatus = "txpool_status" "() -> PoolStatus",
    /// The pool's transactions by sender and nonce. A pool too large for one answer is refused.
    TxpoolContent = "txpool_content" "() -> PoolContent",
    /// One sender's transactions in the pool by nonce.
    TxpoolContentFrom = "txpool_contentFrom" "(sender: Address) -> PoolContentFrom",
    /// The pool's transactions by sender and nonce, a line for each.
    TxpoolInspect = "txpool_inspect" "() -> PoolLines",
    // debug
    /// A header in RLP: its keccak-256 is the block's hash.
    DebugGetRawHeader = "debug_getRawHeader" "(block: BlockId) -> Bytes",
    /// A block in RLP: header, transactions and no uncles.
    DebugGetRawBlock = "debug_getRawBlock" "(block: BlockId) -> Bytes",
    /// The receipts of a block as they are hashed into the header's root.
    DebugGetRawReceipts = "debug_getRawReceipts" "(block: BlockId) -> Bytes[]",
    /// A transaction of a block or of the pool as it was signed; empty when there is none.
    DebugGetRawTransaction = "debug_getRawTransaction" "(hash: Hash) -> Bytes",
    /// What a transaction did on its way, found by running its block again. The state before it must still be held.
    DebugTraceTransaction = "debug_traceTransaction" "(hash: Hash, tracer?: Tracer) -> Trace",
    /// What the transactions of a block did on their way.
    DebugTraceBlockByNumber = "debug_traceBlockByNumber" "(block: BlockName, tracer?: Tracer) -> TracedTransaction[]",
    /// What the transactions of a block did on their way.
    DebugTraceBlockByHash = "debug_traceBlockByHash" "(block: Hash, tracer?: Tracer) -> TracedTransaction[]",
    /// What a call would do on its way.
    DebugTraceCall = "debug_traceCall" "(call: Call, block?: BlockId, tracer?: Tracer) -> Trace",
    // ots: of Otterscan, in Erigon's shapes
    /// Which of Erigon's methods for Otterscan there are: 8.
    OtsGetApiLevel = "ots_getApiLevel" "() -> PlainNumber",
    /// Whether an account has code.
    OtsHasCode = "ots_hasCode" "(account: Address, block?: BlockId) -> Boolean",
    /// What a failed transaction returned; empty if it did not fail.
    OtsGetTransactionError = "ots_getTransactionError" "(hash: Hash) -> Bytes",
    /// The calls of a transaction in the order in which they were made, found by running its block again.
    OtsTraceTransaction = "ots_traceTransaction" "(hash: Hash) -> OtsCall[]",
    /// Wei that moved and contracts that were made inside a transaction.
    OtsGetInternalOperations = "ots_getInternalOperations" "(hash: Hash) -> OtsOperation[]",
    /// A block without its transactions, and the fees they paid.
    OtsGetBlockDetails = "ots_getBlockDetails" "(block: BlockName | PlainNumber) -> OtsBlockDetails | null",
    /// A block without its transactions, and the fees they paid.
    OtsGetBlockDetailsByHash = "ots_getBlockDetailsByHash" "(block: Hash) -> OtsBlockDetails | null",
    /// A page of a block's transactions, counted from the block's end, with the first bytes of their input; receipts come without logs.
    OtsGetBlockTransactions = "ots_getBlockTransactions" "(block: BlockName | PlainNumber, page: Count, size: Count) -> OtsBlockTransactions | null",
    /// Transactions before a block (0: all) that an account sent, was sent, was made by or logged in. Blocks are searched for five seconds.
    OtsSearchTransactionsBefore = "ots_searchTransactionsBefore" "(account: Address, block: Count, size: Count) -> OtsPage",
    /// The same after a block.
    OtsSearchTransactionsAfter = "ots_searchTransactionsAfter" "(account: Address, block: Count, size: Count) -> OtsPage",
    /// An account's transaction with this nonce. Where states are not kept any more, blocks are searched for five seconds.
    OtsGetTransactionBySenderAndNonce = "ots_getTransactionBySenderAndNonce" "(sender: Address, nonce: Count) -> Hash | null",
    /// Who made a contract, and by which transaction; null for what the genesis has. One made by a contract is found where states are kept.
    OtsGetContractCreator = "ots_getContractCreator" "(account: Address) -> OtsCreator | null",
    // evm
    /// Makes a block, or so many, at this time if one is named. The answer is always 0.
    EvmMine = "evm_mine" "(how?: Count | MineOptions) -> Quantity",
    /// Sets the clock ahead by so many seconds, from the next block on. The answer is by how many it was set ahead so far.
    EvmIncreaseTime = "evm_increaseTime" "(seconds: Count) -> Count",
    /// The next block has this time, and the clock goes on from there.
    EvmSetNextBlockTimestamp = "evm_setNextBlockTimestamp" "(timestamp: Count) -> Count",
    /// Remembers the chain as it is, for evm_revert: blocks, clock and what waits in the pool. What was sent before is in a block first.
    EvmSnapshot = "evm_snapshot" "() -> Quantity",
    /// Goes back to a snapshot: blocks, clock and pool are as they were. It is used up, and so are later ones; false when there was none.
    EvmRevert = "evm_revert" "(snapshot: Quantity) -> Boolean",
    /// Whether transactions make blocks by themselves.
    EvmSetAutomine = "evm_setAutomine" "(automine: Boolean) -> Boolean",
    /// Makes a block every so many milliseconds; 0: none.
    EvmSetIntervalMining = "evm_setIntervalMining" "(ms: Count) -> Boolean",
    // hardhat
    /// Whether transactions make blocks by themselves.
    HardhatGetAutomine = "hardhat_getAutomine" "() -> Boolean",
    /// Makes so many blocks, so many seconds apart (one where nothing is said).
    HardhatMine = "hardhat_mine" "(blocks?: Count, apart?: Count) -> Boolean",
    /// Sets what an account owns, in a block of its own.
    HardhatSetBalance = "hardhat_setBalance" "(account: Address, wei: Quantity) -> Boolean",
    /// Sets an account's next nonce, in a block of its own.
    HardhatSetNonce = "hardhat_setNonce" "(account: Address, nonce: Quantity) -> Boolean",
    /// Sets an account's code, which is WebAssembly or empty, in a block of its own.
    HardhatSetCode = "hardhat_setCode" "(account: Address, code: Bytes) -> Boolean",
    /// Sets 32 bytes of a contract's storage, in a block of its own.
    HardhatSetStorageAt = "hardhat_setStorageAt" "(account: Address, slot: Slot, value: Slot) -> Boolean",
    /// From now on `eth_sendTransaction` takes transactions of this account, whose key nobody needs and which may be a contract.
    HardhatImpersonateAccount = "hardhat_impersonateAccount" "(account: Address) -> Boolean",
    /// Ends that.
    HardhatStopImpersonatingAccount = "hardhat_stopImpersonatingAccount" "(account: Address) -> Boolean",
    /// Begins again at the genesis, as after a start: snapshots, impersonation and what waits are gone. A chain to fork is refused.
    HardhatReset = "hardhat_reset" "(how?: ResetOptions) -> Boolean",
    /// The next block's base fee, which need not follow from the block before. A setter's block is not meant.
    HardhatSetNextBlockBaseFeePerGas = "hardhat_setNextBlockBaseFeePerGas" "(wei: Count) -> Boolean",
    /// What transactions of the next block read as its randomness. A setter's block is not meant.
    HardhatSetPrevRandao = "hardhat_setPrevRandao" "(randomness: Slot) -> Boolean",
    /// Takes a transaction out of the pool; false when it was not there, an error when it is in a block.
    HardhatDropTransaction = "hardhat_dropTransaction" "(hash: Hash) -> Boolean",
    /// What this node is and how far its chain is.
    HardhatMetadata = "hardhat_metadata" "() -> HardhatMetadata",
    // anvil
    /// Whether transactions make blocks by themselves.
    AnvilGetAutomine = "anvil_getAutomine" "() -> Boolean",
    /// Makes so many blocks, so many seconds apart (one where nothing is said).
    AnvilMine = "anvil_mine" "(blocks?: Count, apart?: Count) -> null",
    /// Sets what an account owns, in a block of its own.
    AnvilSetBalance = "anvil_setBalance" "(account: Address, wei: Quantity) -> null",
    /// Sets an account's next nonce, in a block of its own.
    AnvilSetNonce = "anvil_setNonce" "(account: Address, nonce: Quantity) -> null",
    /// Sets an account's code, which is WebAssembly or empty, in a block of its own.
    AnvilSetCode = "anvil_setCode" "(account: Address, code: Bytes) -> null",
    /// Sets 32 bytes of a contract's storage, in a block of its own.
    AnvilSetStorageAt = "anvil_setStorageAt" "(account: Address, slot: Slot, value: Slot) -> null",
    /// From now on `eth_sendTransaction` takes transactions of this account, whose key nobody needs and which may be a contract.
    AnvilImpersonateAccount = "anvil_impersonateAccount" "(account: Address) -> null",
    /// Ends that.
    AnvilStopImpersonatingAccount = "anvil_stopImpersonatingAccount" "(account: Address) -> null",
    /// Begins again at the genesis, as after a start: snapshots, impersonation and what waits are gone. A chain to fork is refused.
    AnvilReset = "anvil_reset" "(how?: ResetOptions) -> null",
    /// The next block's base fee, which need not follow from the block before. A setter's block is not meant.
    AnvilSetNextBlockBaseFeePerGas = "anvil_setNextBlockBaseFeePerGas" "(wei: Count) -> null",
    /// Takes a transaction out of the pool, and names it; null when it was not there.
    AnvilDropTransaction = "anvil_dropTransaction" "(hash: Hash) -> Hash | null",
    /// Takes all transactions out of the pool.
    AnvilDropAllTransactions = "anvil_dropAllTransactions" "() -> null",
    /// Takes an account's transactions out of the pool.
    AnvilRemovePoolTransactions = "anvil_removePoolTransactions" "(account: Address) -> null",
    /// How far the chain is and what its next block costs.
    AnvilNodeInfo = "anvil_nodeInfo" "() -> AnvilNodeInfo",
    // corniche
    /// How a block was ordered, and what was skipped; null for the genesis block.
    CornicheGetOrdering = "corniche_getOrdering" "(block?: BlockId) -> Ordering | null",
    /// The certificate that proves a block final, which may be a later block's.
    CornicheGetCertificate = "corniche_getCertificate" "(block?: BlockId) -> Certificate | null",
    /// Where a transaction stands or how it left, and when.
    CornicheGetTransactionStatus = "corniche_getTransactionStatus" "(hash: Hash) -> TransactionStatus | null",
    /// The newest executed block and the newest certified one.
    CornicheGetHeads = "corniche_getHeads" "() -> Heads",
    /// The committee: who orders and signs, and how many signatures make a certificate.
    CornicheGetValidators = "corniche_getValidators" "() -> Validators",
    /// This node, and the peers it is connected with: version, validator, time of a ping there and back. Where they are is not told.
    CornicheGetPeers = "corniche_getPeers" "() -> Peers",
    /// What this node's execution did since it started: runs, runs again, results that were ready when they were ordered.
    CornicheGetStatistics = "corniche_getStatistics" "() -> Statistics",
    /// What running a block took on this node, which is no fact of the chain: lanes, runs again, time. Null for blocks that are not
    /// among the newest 1,024 (fewer where they are large), and for those from before the node started.
    CornicheGetExecution = "corniche_getExecution" "(block?: BlockId) -> Execution | null",
    /// What a validator's ordering did lately: rounds from and to, or `latest` and how many.
    CornicheGetDag = "corniche_getDag" "(first: FirstRound, last: Quantity) -> Dag",
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
