//! Texts about the state changes of a transaction.

/// Heading.
pub const TITLE: &str = "State changes";
/// Column header.
pub const ACCOUNT: &str = "Account";
/// Column header.
pub const WHAT: &str = "Value";
/// Column header.
pub const BEFORE: &str = "Before";
/// Column header.
pub const AFTER: &str = "After";
/// Row label for deployed code.
pub const CODE: &str = "Code";
/// Row label for a storage slot of 32 bytes.
pub const SLOT: &str = "Slot";
/// Note if the node does not return the changes.
pub const UNKNOWN: &str =
    "No state changes available: the node serves no traces, or it has pruned the state before this block.";
/// Note below a list that is cut off.
pub const MORE: &str = "The list is truncated. The node's debug_traceTransaction returns all changes.";
