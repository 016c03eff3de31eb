//! Texts of account pages.

pub mod contract;
pub mod wallet;

pub const TITLE: &str = "Account";
pub const CONTRACT: &str = "Contract";
pub const OVERVIEW: &str = "Overview";
pub const NONCE_NOTE: &str = "(transactions sent, or contracts created)";
pub const TRANSACTIONS: &str = "Transactions";
pub const TRANSACTIONS_NOTE: &str = "Transactions that this address sent or received, that created it, called it, emitted its events or transferred \
     tokens from or to it.";
pub const NEWEST_TRANSACTIONS: &str = "Latest transactions";
pub const ALL_TRANSACTIONS: &str = "All transactions";
pub const MADE_BY: &str = "Creator";
pub const FIRST_SEEN: &str = "First block";
pub const NEVER_SEEN: &str = "not in any indexed transaction";
pub const UNKNOWN: &str = "node unavailable";
pub const TOKEN: &str = "Token";
pub const HOLDINGS: &str = "Token holdings";
pub const HOLDINGS_NOTE: &str =
    "Balances are computed from the events of the tokens. Anyone can create a token and send it to any address.";
pub const STANDARD: &str = "Standard";
pub const ID: &str = "Token ID";
pub const ALL_IDS: &str = "all IDs";
pub const AMOUNT: &str = "Amount";
pub const INCONSISTENT: &str = "inconsistent events";
pub const INCONSISTENT_NOTE: &str = "The events of this token transfer more than its holders had.";
pub const TRANSFERS: &str = "Token transfers";
pub const TRANSFERS_NOTE: &str = "Tokens received and sent, according to the events of the tokens.";
pub const DIRECTION: &str = "Direction";
pub const IN: &str = "in";
pub const OUT: &str = "out";
pub const TO_ITSELF: &str = "self";
pub const MINTED: &str = "mint";
pub const BURNED: &str = "burn";
pub const APPROVALS: &str = "Token approvals";
pub const APPROVALS_NOTE: &str = "Addresses approved to spend this account's tokens, by the newest approval of each kind. Amounts spent since then \
     are not subtracted.";
pub const SPENDER: &str = "Spender";
pub const MAY: &str = "Allowance";
pub const SINCE: &str = "Approved";
pub const REVOKE: &str = "Revoke";
pub const MAY_NOTHING: &str = "none (revoked)";
pub const UNLIMITED: &str = "unlimited";
pub const MAY_EVERYTHING: &str = "all tokens of this contract, present and future";
pub const MAY_ALL_IDS: &str = "all token IDs of this contract, present and future";
pub const MAY_UP_TO: &str = "up to";
pub const MAY_ID: &str = "token ID";
pub const CALLS: &str = "Internal transactions";
pub const CALLS_NOTE: &str = "Calls from and to this address inside transactions. They require a node that serves traces.";
pub const AS_FILE: &str = "Download CSV";
pub const FIRST: &str = "First page";
pub const MORE: &str = "Next page";
pub const BAD_CURSOR: &str = "Invalid cursor: expected one from a link of this list. Open the first page of the list.";
pub const BAD_ADDRESS: &str = "Invalid address: expected 0x and 40 hexadecimal digits.";
/// Accessible name of the QR code; the address follows.
pub const QR: &str = "QR code of";
