//! Texts of the script that passes calls to a wallet.

/// Texts by the names the script uses. The script replaces `{}` by a value.
pub const SCRIPT: [(&str, &str); 21] = [
    ("none", "No wallet found in this browser. The forms show the calldata to send by other means."),
    ("offer", "Wallet found. It signs and sends the calls of the forms below; the explorer never sees its keys."),
    ("connected", "Connected: {}"),
    ("waiting", "Waiting for the wallet…"),
    ("encoding", "Preparing the call…"),
    ("refused", "Not sent: the wallet reported: {}"),
    ("unconnected", "Not connected: the wallet reported: {}"),
    ("declined", "Request rejected in the wallet. Nothing was sent."),
    ("busy", "The wallet has an open request. Confirm or reject it in the wallet, then retry."),
    ("noAccount", "The wallet shared no account with this page."),
    ("noChain", "The wallet does not know chain {}. Add the chain in the wallet, then retry."),
    ("wrongChain", "Wrong chain: the wallet must be on chain {}. Nothing was sent."),
    ("anyway", "Send anyway"),
    ("undone", "This transaction would revert: {}"),
    ("sent", "Sent:"),
    ("reverted", crate::texts::status::REVERTED),
    ("quiet", "The explorer does not respond. The transaction may still be executed; see its page."),
    ("unheard", "The explorer's node does not know the transaction. The wallet may have sent it to another network."),
    ("later", "Still pending. This page stopped polling; open the page of the transaction."),
    ("answered", "The explorer responded with status {}."),
    ("unreachable", "The explorer does not respond. Nothing was sent."),
];
