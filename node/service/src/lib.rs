//! A node as a library: connects store, state, virtual machine, pipeline, network and RPC. [`Node::start`] runs one in
//! any program; `examples/embed.rs` shows how.
//!
//! The program chooses the ordering engine: it passes an [`EngineBuilder`]. The library handles no signals, exits no process
//! and sets up no logging.

mod backend;
mod block_server;
mod certificates;
mod chain;
mod clock;
mod config;
mod execution;
mod execution_stats;
mod fair_queue;
mod genesis;
mod inbox;
mod journal;
mod keys;
mod metrics;
mod node;
mod peers;
mod pool_view;
mod running;
mod shared;
#[cfg(test)]
mod testing;
mod threads;
mod verify;
mod warm_up;
mod writer;

pub use backend::Readers;
pub use chain::{Chain, EngineBuilder, EngineParts, Halted, NodeContext, Validator, fresh_seed};
pub use clock::now;
pub use config::{Faucet, Limits, METRICS_ABOVE_RPC, MetricsAddress, NodeConfig, Serve};
pub use corniche_pipeline::EngineFactory;
pub use genesis::{Network, NetworkSpec, funded, make_genesis, make_network};
pub use journal::Journal;
pub use keys::{NetworkKey, ValidatorKeys};
pub use node::{Node, NodeHandle, NodeSetup, runtime};
pub use pool_view::PoolView;
pub use running::{RunningChain, SuspendedChain};
