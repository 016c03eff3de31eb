//! Methods of Ethereum's execution API and of other nodes that this node does not serve, with the reason.

/// Method names, and the reason why they are not served.
pub const NOT_SERVED: &[(&[&str], &str)] = &[
    (
        &["eth_sign", "eth_signTransaction"],
        "A node holds no keys (except `corniche dev`, which accepts `eth_sendTransaction`). Sign in the wallet and send with `eth_sendRawTransaction`.",
    ),
    (
        &["eth_fillTransaction"],
        "It is for nodes that sign. Libraries that probe for it fall back to requesting nonce, fees and gas themselves.",
    ),
    (
        &["eth_coinbase"],
        "Tips go to the fee addresses of the validators that proposed the transactions. The genesis has one address per validator.",
    ),
    (
        &["hardhat_setCoinbase", "anvil_setCoinbase"],
        "The one validator of a development chain proposes all transactions, and its fee address is fixed in the genesis. Another address in the header would receive nothing.",
    ),
    (&["eth_blobBaseFee"], "There are no blobs: transactions of type 3 are rejected."),
    (
        &["eth_getBlockAccessList", "debug_getRawBlockAccessList"],
        "Blocks carry no access lists: dependencies between transactions are found while they run.",
    ),
    (
        &["eth_config"],
        "It describes Ethereum's forks, which this chain does not have. The genesis contains this chain's parameters.",
    ),
    (&["eth_capabilities"], "It is a draft that no client library uses."),
    (
        &["debug_getBadBlocks"],
        "There are none: every node executes the blocks that the committee agreed on. A node with a different result halts.",
    ),
    (
        &["erigon_getHeaderByNumber", "erigon_getLatestLogs", "erigon_getBlockByTimestamp"],
        "Only Erigon has them. Otterscan detects a node by `ots_getApiLevel` and does not need them.",
    ),
    (
        &["trace_transaction", "trace_block", "trace_call", "trace_filter", "trace_replayTransaction"],
        "`debug_traceTransaction` and the related methods return the same calls with the `callTracer`.",
    ),
];
