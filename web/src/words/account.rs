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
pub const NONCE_NOTE: &str = "transactions it has sent, or contracts it has made";
/// Row label and tab title.
pub const TRANSACTIONS: &str = "Transactions";
/// Explains [`TRANSACTIONS`].
pub const TRANSACTIONS_NOTE: &str = "Every transaction that this address had a part in: it sent it, received it or was made \
     by it, logged something or was called in it, or tokens moved to or from it.";
/// Heading above the newest transactions on the overview.
pub const NEWEST_TRANSACTIONS: &str = "Newest transactions";
/// Link to the full list.
pub const ALL_TRANSACTIONS: &str = "All transactions";
/// Row label.
pub const MADE_BY: &str = "Made by";
/// Row label.
pub const FIRST_SEEN: &str = "First seen in block";
/// Value of [`FIRST_SEEN`] for an address that appears in no block.
pub const NEVER_SEEN: &str = "in no transaction that this explorer has read";
/// Replaces a value while the node does not respond.
pub const UNKNOWN: &str = "the node does not answer";
/// Column header and row label.
pub const TOKEN: &str = "Token";
/// Tab title.
pub const HOLDINGS: &str = "Tokens held";
/// Explains [`HOLDINGS`].
pub const HOLDINGS_NOTE: &str = "Added up from the tokens' own events. Anybody can make a token and give it to anybody.";
/// Column header.
pub const STANDARD: &str = "Standard";
/// Column header.
pub const ID: &str = "Id";
/// Replaces the id in a row that sums over all ids of a token.
pub const ALL_IDS: &str = "all ids together";
/// Column header.
pub const AMOUNT: &str = "Amount";
/// Tag for a token whose events contradict each other.
pub const INCONSISTENT: &str = "does not add up";
/// Explains [`INCONSISTENT`].
pub const INCONSISTENT_NOTE: &str = "Its events moved more than there was.";
/// Tab title.
pub const TRANSFERS: &str = "Token transfers";
/// Explains [`TRANSFERS`].
pub const TRANSFERS_NOTE: &str = "Tokens that came or went, as the tokens' own events say.";
/// Column header.
pub const DIRECTION: &str = "Direction";
/// Direction of a transfer.
pub const IN: &str = "in";
/// Direction of a transfer.
pub const OUT: &str = "out";
/// Direction of a transfer.
pub const TO_ITSELF: &str = "to itself";
/// Replaces the sender of a mint.
pub const MINTED: &str = "minted";
/// Replaces the recipient of a burn.
pub const BURNED: &str = "burnt";
/// Tab title.
pub const APPROVALS: &str = "Approvals";
/// Explains [`APPROVALS`].
pub const APPROVALS_NOTE: &str = "Who may take this account's tokens without asking again, by the newest approval of each \
     kind. Of an amount, a part may have been taken since.";
/// Column header.
pub const SPENDER: &str = "Who";
/// Column header.
pub const MAY: &str = "May take";
/// Column header.
pub const SINCE: &str = "Since";
/// Column header and link label.
pub const REVOKE: &str = "Take back";
/// Allowance in the table of approvals.
pub const MAY_NOTHING: &str = "nothing any more";
/// Allowance in the table of approvals.
pub const UNLIMITED: &str = "unlimited";
/// Allowance in the table of approvals.
pub const MAY_EVERYTHING: &str = "everything of this token, now and whatever comes later";
/// Allowance in the table of approvals.
pub const MAY_ALL_IDS: &str = "every id of this token, now and whatever comes later";
/// Allowance in the table of approvals.
pub const MAY_UP_TO: &str = "up to";
/// Allowance in the table of approvals.
pub const MAY_ID: &str = "one piece,";
/// Tab title.
pub const CALLS: &str = "Inner calls";
/// Explains [`CALLS`].
pub const CALLS_NOTE: &str =
    "Calls between contracts inside transactions, from and to this address. They are known where the node serves traces.";
/// Link to the list as a CSV file.
pub const AS_FILE: &str = "As a file for spreadsheets (CSV)";
/// Link to the first page of a list.
pub const FIRST: &str = "First";
/// Link to the next page of a list.
pub const MORE: &str = "More";
/// Error: invalid address.
pub const BAD_ADDRESS: &str = "An address is 0x and 40 digits.";
/// Accessible name of the QR code; the address follows.
pub const QR: &str = "QR code of";
