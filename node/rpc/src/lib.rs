//! The node's JSON-RPC server, in writing; [`Backend`] is what it needs from the node.

pub mod backend;

pub use backend::{Backend, ChainBlock, ChainEvent, SyncProgress};
