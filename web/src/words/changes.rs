//! Of what a transaction changed.

/// Heading.
pub const TITLE: &str = "State changes";
/// Columns.
pub const ACCOUNT: &str = "Account";
/// Columns.
pub const WHAT: &str = "What";
/// Columns.
pub const BEFORE: &str = "Before";
/// Columns.
pub const AFTER: &str = "After";
/// Code was put there.
pub const CODE: &str = "Code";
/// 32 bytes of storage.
pub const SLOT: &str = "Slot";
/// The node did not tell.
pub const UNKNOWN: &str = "The node does not say: it serves no traces, or no longer holds the state before this block.";
/// Of a long list.
pub const MORE: &str = "There are more; the node's debug_traceTransaction tells them all.";
