//! A node as a library: connects store, state, virtual machine, pipeline, network and RPC. [`Node::start`] runs one in
//! any program; `examples/embed.rs` shows how.
//!
//! The program chooses the ordering engine: it passes an [`EngineBuilder`]. The library handles no signals, exits no process
//! and sets up no logging.
//!
//! The pipeline's thread runs [`corniche_pipeline::Driver`], the same loop as the simulator. `effects` implements what differs:
//! other threads, files, sockets and the clock.
//!
//! Modules in layers, lowest first; each uses only modules in its row or above:
//!
//! | module | content |
//! |---|---|
//! | `config`, `clock`, `keys`, `genesis` | configuration file; time that never goes back; a validator's keys; a new genesis |
//! | `fair_queue`, `certificates` | queue that is fair to its sources; certificates from peers, each verified once |
//! | `journal` | users' transactions over a restart |
//! | `pool_view`, `newest_blocks`, `execution_stats`, `peers` | for RPC: copies of pool and newest blocks, statistics, peers |
//! | `inbox` | queue of the pipeline's thread |
//! | `shared` | state shared by the threads and RPC |
//! | `epochs` | verifiers of the running epoch's committee |
//! | `verify`, `execution`, `writer` | threads: check messages; execute and hash blocks; write to disk |
//! | `block_server` | threads that answer followers |
//! | `backend`, `metrics` | data for RPC and `/metrics` |
//! | `warm_up`, `chain` | compiles contracts; opens a chain |
//! | `multicast` | socket and keys of a multicast group |
//! | `effects`, `threads` | effects of the driver; all threads of a chain |
//! | `running` | a running chain, and its exchange for another state |
//! | `node` | a node from its start to its stop |

mod backend;
mod block_server;
mod certificates;
mod chain;
mod clock;
mod config;
mod effects;
mod epoch_gap;
mod epoch_log;
mod epochs;
mod execution;
mod execution_stats;
mod fair_queue;
mod genesis;
mod inbox;
mod journal;
mod keys;
mod metrics;
mod multicast;
mod newest_blocks;
mod node;
mod open_files;
mod peers;
mod pool_view;
mod recovered;
mod running;
mod shared;
mod snapshots;
mod status;
#[cfg(test)]
mod testing;
mod threads;
mod verify;
mod warm_up;
mod writer;

pub use backend::{Readers, own_version, refusal_error};
pub use chain::{Chain, EngineBuilder, EngineParts, NodeContext, Validator, VerifierFactory, fresh_seed, open_vm};
pub use clock::now;
pub use config::{
    Faucet, Limits, METRICS_ABOVE_RPC, MetricsAddress, Multicast, NodeConfig, Serve, SignerAddress, Sync, SyncMode, Trust,
};
pub use corniche_pipeline::{EngineFactory, EngineStart, HaltCause, Halted};
pub use corniche_signer::{RemoteSigner, Statement as SignedStatement};
pub use genesis::{Network, NetworkSpec, VerifiedGenesis, funded, make_genesis, make_network};
pub use journal::Journal;
pub use keys::{Keyring, MemberKeys, NetworkKey, RemoteKeys, Signing, StakeKeys, ValidatorKeys};
pub use newest_blocks::NewestBlocks;
pub use node::{Node, NodeHandle, NodeSetup, runtime, start_network};
pub use open_files::{check as check_open_files, raise_open_files};
pub use peers::peers_response;
pub use pool_view::PoolView;
pub use running::{RunningChain, SuspendedChain};
pub use snapshots::{FetchProgress, FetchSetup, SnapshotCopy, fetch_state, list_snapshots, make_snapshot};
