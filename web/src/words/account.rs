//! Of accounts.

/// Heading.
pub const TITLE: &str = "Account";
/// Heading of one with code.
pub const CONTRACT: &str = "Contract";
/// Parts of the page.
pub const OVERVIEW: &str = "Overview";
/// Rows.
pub const BALANCE: &str = "Balance";
/// Rows.
pub const NONCE: &str = "Nonce";
/// What it means.
pub const NONCE_NOTE: &str = "transactions it has sent, or contracts it has made";
/// Rows, and parts of the page.
pub const TRANSACTIONS: &str = "Transactions";
/// What the list holds.
pub const TRANSACTIONS_NOTE: &str = "Every transaction that this address had a part in: it sent it, received it or was made \
     by it, logged something or was called in it, or tokens moved to or from it.";
/// The first of them.
pub const NEWEST_TRANSACTIONS: &str = "Newest transactions";
/// The way to all of them.
pub const ALL_TRANSACTIONS: &str = "All transactions";
/// Rows.
pub const MADE_BY: &str = "Made by";
/// Rows.
pub const FIRST_SEEN: &str = "First seen in block";
/// In no block.
pub const NEVER_SEEN: &str = "in no transaction that this explorer has read";
/// The node did not answer.
pub const UNKNOWN: &str = "the node does not answer";
/// Rows and columns.
pub const TOKEN: &str = "Token";
/// Parts of the page.
pub const HOLDINGS: &str = "Tokens held";
/// What the list holds.
pub const HOLDINGS_NOTE: &str = "Added up from the tokens' own events. Anybody can make a token and give it to anybody.";
/// Columns.
pub const STANDARD: &str = "Standard";
/// Columns.
pub const ID: &str = "Id";
/// In place of one id.
pub const ALL_IDS: &str = "all ids together";
/// Columns.
pub const AMOUNT: &str = "Amount";
/// A token that contradicts itself.
pub const INCONSISTENT: &str = "does not add up";
/// What it means.
pub const INCONSISTENT_NOTE: &str = "Its events moved more than there was.";
/// Parts of the page.
pub const TRANSFERS: &str = "Token transfers";
/// What the list holds.
pub const TRANSFERS_NOTE: &str = "Tokens that came or went, as the tokens' own events say.";
/// Columns.
pub const DIRECTION: &str = "Direction";
/// Of a transfer.
pub const IN: &str = "in";
/// Of a transfer.
pub const OUT: &str = "out";
/// Of a transfer.
pub const TO_ITSELF: &str = "to itself";
/// In place of a sender.
pub const MINTED: &str = "minted";
/// In place of a recipient.
pub const BURNED: &str = "burnt";
/// Parts of the page.
pub const APPROVALS: &str = "Approvals";
/// What the list holds.
pub const APPROVALS_NOTE: &str = "Who may take this account's tokens without asking again, by the newest approval of each \
     kind. Of an amount, a part may have been taken since.";
/// Columns.
pub const SPENDER: &str = "Who";
/// Columns.
pub const MAY: &str = "May take";
/// Columns.
pub const SINCE: &str = "Since";
/// Columns and links.
pub const REVOKE: &str = "Take back";
/// Of an allowance.
pub const MAY_NOTHING: &str = "nothing any more";
/// Of an allowance.
pub const UNLIMITED: &str = "unlimited";
/// Of an allowance.
pub const MAY_EVERYTHING: &str = "everything of this token, now and whatever comes later";
/// Of an allowance.
pub const MAY_ALL_IDS: &str = "every id of this token, now and whatever comes later";
/// Of an allowance.
pub const MAY_UP_TO: &str = "up to";
/// Of an allowance.
pub const MAY_ID: &str = "one piece,";
/// Parts of the page.
pub const CALLS: &str = "Inner calls";
/// What the list holds.
pub const CALLS_NOTE: &str =
    "Calls between contracts inside transactions, from and to this address. They are known where the node serves traces.";
/// Of a list that is a file as well.
pub const AS_FILE: &str = "As a file for spreadsheets (CSV)";
/// Back to the beginning of a list.
pub const FIRST: &str = "First";
/// Further on in a list.
pub const MORE: &str = "More";
/// What cannot be read.
pub const BAD_ADDRESS: &str = "An address is 0x and 40 digits.";
/// Before an address that is drawn for a camera.
pub const QR: &str = "QR code of";
