//! What Ethereum's execution API describes and a node of this chain does not serve, with the reason.

/// Names of methods, and why they are not served.
pub const NOT_SERVED: &[(&[&str], &str)] = &[
    (
        &["eth_sign", "eth_signTransaction"],
        "A node holds no keys (but `corniche dev`, which takes `eth_sendTransaction`). Sign in the wallet and send with `eth_sendRawTransaction`.",
    ),
    (
        &["eth_fillTransaction"],
        "It belongs to nodes that sign. Libraries that probe for it fall back to asking for nonce, fees and gas themselves.",
    ),
    (
        &["eth_coinbase"],
        "Tips go to the fee addresses of those who proposed the transactions, of which the genesis has one per validator.",
    ),
    (
        &["hardhat_setCoinbase", "anvil_setCoinbase"],
        "A development chain's one validator proposes all transactions, and the genesis says where its tips go. Another address in the header would get nothing.",
    ),
    (&["eth_blobBaseFee"], "There are no blobs: transactions of type 3 are refused."),
    (
        &["eth_getBlockAccessList", "debug_getRawBlockAccessList"],
        "Blocks carry no access lists: dependencies between transactions are found while they run.",
    ),
    (&["eth_config"], "It tells of Ethereum's forks, which this chain does not have. What holds here stands in the genesis."),
    (&["eth_capabilities"], "It is a draft that no client library asks for."),
    (
        &["debug_getBadBlocks"],
        "There are none: a block is what a committee agreed on and every node executed. A node that comes to another result halts.",
    ),
    (
        &["erigon_getHeaderByNumber", "erigon_getLatestLogs", "erigon_getBlockByTimestamp"],
        "They are Erigon's alone. Otterscan finds a node by `ots_getApiLevel` and needs none of them.",
    ),
    (
        &["trace_transaction", "trace_block", "trace_call", "trace_filter", "trace_replayTransaction"],
        "`debug_traceTransaction` and its siblings tell the same calls with the `callTracer`.",
    ),
];
