//! Of wallets: what the script says that carries calls to one.

/// By the names that the script has for them. It puts a value in the place of `{}`.
pub const SCRIPT: [(&str, &str); 14] = [
    ("none", "No wallet was found in this browser. A form answers with the bytes to send by other means."),
    ("offer", "A wallet is there. It signs and sends what the forms below say; this explorer never sees its keys."),
    ("connected", "Connected: {}"),
    ("waiting", "Waiting for the wallet…"),
    ("encoding", "Preparing the call…"),
    ("refused", "The wallet did not send it: {}"),
    ("noChain", "The wallet does not know the chain {}: add it there, then come back."),
    ("wrongChain", "The wallet is on another chain, and did not change."),
    ("anyway", "Send anyway"),
    ("undone", "As things stand, this would be undone: {}"),
    ("sent", "Sent:"),
    ("reverted", super::status::REVERTED),
    ("quiet", "The explorer does not answer. The transaction may well go on; its page says more."),
    ("answered", "The explorer answered with {}."),
];
