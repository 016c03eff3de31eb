//! Texts of account pages.

/// Heading.
pub const TITLE: &str = "Account";
/// Heading for an account with code.
pub const CONTRACT: &str = "Contract";
/// Section heading.
pub const OVERVIEW: &str = "Overview";
/// Row label.
pub const BALANCE: &str = "Balance";
/// Row label.
pub const NONCE: &str = "Nonce";
/// Explains [`NONCE`].
pub const NONCE_NOTE: &str = "transactions sent, or contracts created";
/// Row label and tab title.
pub const TRANSACTIONS: &str = "Transactions";
/// Explains [`TRANSACTIONS`].
pub const TRANSACTIONS_NOTE: &str = "Transactions that this address sent or received, that created it, called it, emitted its events or transferred \
     tokens from or to it.";
/// Heading above the newest transactions on the overview.
pub const NEWEST_TRANSACTIONS: &str = "Latest transactions";
/// Link to the full list.
pub const ALL_TRANSACTIONS: &str = "All transactions";
/// Row label.
pub const MADE_BY: &str = "Creator";
/// Row label.
pub const FIRST_SEEN: &str = "First block";
/// Value of [`FIRST_SEEN`] for an address that appears in no block.
pub const NEVER_SEEN: &str = "not in any indexed transaction";
/// Replaces a value while the node does not respond.
pub const UNKNOWN: &str = "node unavailable";
/// Column header and row label.
pub const TOKEN: &str = "Token";
/// Tab title.
pub const HOLDINGS: &str = "Token holdings";
/// Explains [`HOLDINGS`].
pub const HOLDINGS_NOTE: &str =
    "Balances are computed from the events of the tokens. Anyone can create a token and send it to any address.";
/// Column header.
pub const STANDARD: &str = "Standard";
/// Column header.
pub const ID: &str = "Token ID";
/// Replaces the id in a row that sums over all ids of a token.
pub const ALL_IDS: &str = "all IDs";
/// Column header.
pub const AMOUNT: &str = "Amount";
/// Tag for a token whose events contradict each other.
pub const INCONSISTENT: &str = "inconsistent events";
/// Explains [`INCONSISTENT`].
pub const INCONSISTENT_NOTE: &str = "The events of this token transfer more than its holders had.";
/// Tab title.
pub const TRANSFERS: &str = "Token transfers";
/// Explains [`TRANSFERS`].
pub const TRANSFERS_NOTE: &str = "Tokens received and sent, according to the events of the tokens.";
/// Column header.
pub const DIRECTION: &str = "Direction";
/// Direction of a transfer.
pub const IN: &str = "in";
/// Direction of a transfer.
pub const OUT: &str = "out";
/// Direction of a transfer.
pub const TO_ITSELF: &str = "self";
/// Replaces the sender of a mint.
pub const MINTED: &str = "mint";
/// Replaces the recipient of a burn.
pub const BURNED: &str = "burn";
/// Tab title.
pub const APPROVALS: &str = "Token approvals";
/// Explains [`APPROVALS`].
pub const APPROVALS_NOTE: &str = "Addresses approved to spend this account's tokens, by the newest approval of each kind. Amounts spent since then \
     are not subtracted.";
/// Column header.
pub const SPENDER: &str = "Spender";
/// Column header.
pub const MAY: &str = "Allowance";
/// Column header.
pub const SINCE: &str = "Approved";
/// Column header and link label.
pub const REVOKE: &str = "Revoke";
/// Allowance in the table of approvals.
pub const MAY_NOTHING: &str = "none (revoked)";
/// Allowance in the table of approvals.
pub const UNLIMITED: &str = "unlimited";
/// Allowance in the table of approvals.
pub const MAY_EVERYTHING: &str = "all tokens of this contract, present and future";
/// Allowance in the table of approvals.
pub const MAY_ALL_IDS: &str = "all token IDs of this contract, present and future";
/// Allowance in the table of approvals.
pub const MAY_UP_TO: &str = "up to";
/// Allowance in the table of approvals.
pub const MAY_ID: &str = "token ID";
/// Tab title.
pub const CALLS: &str = "Internal transactions";
/// Explains [`CALLS`].
pub const CALLS_NOTE: &str = "Calls from and to this address inside transactions. They require a node that serves traces.";
/// Link to the list as a CSV file.
pub const AS_FILE: &str = "Download CSV";
/// Link to the first page of a list.
pub const FIRST: &str = "First page";
/// Link to the next page of a list.
pub const MORE: &str = "Next page";
/// Error: invalid address.
pub const BAD_ADDRESS: &str = "Invalid address: expected 0x and 40 hexadecimal digits.";
/// Accessible name of the QR code; the address follows.
pub const QR: &str = "QR code of";
