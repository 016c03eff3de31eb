//! A node as a library: connects store, state, virtual machine, pipeline, network and RPC.

mod backend;
mod block_server;
mod certificates;
mod chain;
mod clock;
mod config;
mod core;
mod development;
mod execution;
mod execution_stats;
mod fair_queue;
mod genesis;
mod inbox;
mod journal;
mod keys;
mod metrics;
mod open;
mod peers;
mod pool_view;
mod shared;
#[cfg(test)]
mod testing;
mod verify;
mod warm_up;
mod writer;

pub use chain::{EngineBuilder, EngineParts, Halted, Validator};
pub use config::{Faucet, Limits, METRICS_ABOVE_RPC, MetricsAddress, NodeConfig, Serve};
pub use development::remove_old_data;
pub use genesis::{Network, NetworkSpec, funded, make_genesis, make_network};
pub use keys::{NetworkKey, ValidatorKeys};
pub use open::{Node, NodeHandle, NodeSetup, runtime};
