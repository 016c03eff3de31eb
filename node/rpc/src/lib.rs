//! JSON-RPC server of the node: Ethereum's methods for wallets and tools, `corniche_*` for additions of this
//! chain. Serves HTTP, WebSocket and `/health` on one port, and `/metrics` on another.
//!
//! ```text
//!            ┌ POST ───────┐
//! connection ┤             ├▶ requests ▶ dispatch ▶ handlers ▶ Backend
//! (listener) └ websocket ──┘ (bodies)     (table)      └▶ fair_executor: bounded threads for calls and reads
//!                  ▲ session: positions of subscriptions
//! ```
//!
//! - [`backend`]: interface to the node; the server stores no chain data.
//! - [`server`]: HTTP, CORS, limits on bodies and responses; [`listener`]: limits on connections, clients
//!   behind proxies; [`budget`], [`rate_limit`], [`fair_executor`], [`deadline`]: each client's share of common resources.
//! - [`jsonrpc`]: framing; [`requests`]: bodies and batches; [`dispatch`]: the method table.
//! - [`overrides`]: state and block overrides; [`replay`]: re-execution of blocks, for [`trace`].
//! - [`simulate`]: simulated blocks of calls.
//! - [`reads`], [`access_list`], [`call`], [`proofs`], [`dag`], [`fees`], [`logs`], [`filters`], [`session`],
//!   [`submit`], [`txpool`], [`raw`], [`ots`], [`convert`]: handlers.
//!
//! Invariants: every request gets a response, is counted, and costs bounded work. Everything that accumulates
//! has a limit in [`RpcConfig`]. No input from a client causes a panic. Error texts are in `corniche_api`,
//! because clients match them.

mod access_list;
pub mod backend;
mod budget;
mod call;
mod client;
mod config;
mod console;
mod convert;
mod dag;
mod deadline;
mod dev;
mod dispatch;
mod fair_executor;
mod faucet;
mod fees;
mod filter_polls;
mod filters;
mod jsonrpc;
mod listener;
mod log_match;
mod logs;
mod metrics;
mod node;
mod ots;
mod overrides;
mod prepare;
mod proofs;
mod rate_limit;
mod raw;
mod reads;
mod replay;
mod requests;
mod server;
mod session;
mod simulate;
mod submit;
mod token_bucket;
mod trace;
mod txpool;
mod websocket;

pub use backend::{
    AccountChange, Backend, ChainBlock, ChainEvent, ChangedKeys, DagEvents, DevChain, DevCommand, DropTarget, Reverted,
    SyncProgress,
};
pub use config::{FaucetConfig, RpcConfig};
pub use metrics::Metrics;
pub use node::Clock;
pub use server::{RpcServer, ServerParts};
#[doc(hidden)]
pub use websocket::read_websocket;
