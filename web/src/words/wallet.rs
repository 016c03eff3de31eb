//! Texts of the script that passes calls to a wallet.

/// Texts by the names the script uses. The script replaces `{}` by a value.
pub const SCRIPT: [(&str, &str); 21] = [
    ("none", "No wallet was found in this browser. A form answers with the bytes to send by other means."),
    ("offer", "A wallet is there. It signs and sends what the forms below say; this explorer never sees its keys."),
    ("connected", "Connected: {}"),
    ("waiting", "Waiting for the wallet…"),
    ("encoding", "Preparing the call…"),
    ("refused", "The wallet did not send it: {}"),
    ("unconnected", "The wallet did not connect: {}"),
    ("declined", "You declined it in the wallet. Nothing was sent."),
    ("busy", "The wallet still waits for your answer to an earlier request: open it, then try again."),
    ("noAccount", "The wallet shares no account with this page."),
    ("noChain", "The wallet does not know the chain {}: add it there, then come back."),
    ("wrongChain", "The wallet is still on another chain. This contract is on chain {}. Nothing was sent."),
    ("anyway", "Send anyway"),
    ("undone", "As things stand, this would revert: {}"),
    ("sent", "Sent:"),
    ("reverted", super::status::REVERTED),
    ("quiet", "The explorer does not answer. The transaction may well go on; its page says more."),
    ("unheard", "The explorer's node has not heard of it. The wallet may have sent it elsewhere."),
    ("later", "It is still on its way, and this page no longer asks. Its own page goes on."),
    ("answered", "The explorer answered with {}."),
    ("unreachable", "The explorer does not answer. Nothing was sent."),
];
