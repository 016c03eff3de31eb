//! Texts about the state changes of a transaction.

pub const TITLE: &str = "State changes";
pub const ACCOUNT: &str = "Account";
pub const WHAT: &str = "Value";
pub const BEFORE: &str = "Before";
pub const AFTER: &str = "After";
pub const CODE: &str = "Code";
pub const SLOT: &str = "Slot";
pub const UNKNOWN: &str =
    "No state changes available: the node serves no traces, or it has pruned the state before this block.";
pub const MORE: &str = "The list is truncated. The node's debug_traceTransaction returns all changes.";
