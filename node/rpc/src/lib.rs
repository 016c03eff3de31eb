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
//! Modules in layers, lowest first; each uses only modules above it in this list, or earlier ones of its line.
//!
//! - Interface and limits: [`backend`] (interface to the node; the server stores no chain data), [`config`],
//!   [`metrics`].
//! - Each client's share of common resources: [`budget`], [`deadline`], [`priority`], [`fair_executor`], [`token_bucket`],
//!   [`client`] (also behind proxies), [`rate_limit`].
//! - Formats: [`jsonrpc`] (framing), [`convert`], [`log_match`].
//! - State of all requests: [`filters`] (positions of polling clients), [`node`].
//! - Execution: [`overrides`] (of state and block), [`prepare`] (calls), [`replay`] (blocks), [`console`].
//! - Handlers: [`access_list`], [`call`], [`dag`], [`fees`], [`logs`], [`txpool`], [`filter_polls`], [`proofs`],
//!   [`raw`], [`reads`], [`submit`], [`dev`], [`trace`], [`ots`], [`simulate`], [`faucet`].
//! - Requests: [`session`] (positions of subscriptions), [`dispatch`] (the method table; one submodule for each
//!   group of methods), [`requests`] (bodies and batches).
//! - Connections: [`listener`] (limits on connections), [`websocket`], [`server`] (HTTP, CORS, limits on bodies and
//!   responses), [`starting`] (server of a node without a chain yet).
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
mod priority;
mod proofs;
mod rate_limit;
mod raw;
mod reads;
mod replay;
mod requests;
mod server;
mod session;
mod simulate;
mod staking;
mod starting;
mod submit;
mod token_bucket;
mod trace;
mod txpool;
mod websocket;

pub use backend::{
    AccountChange, Backend, ChainBlock, ChainEvent, ChangedKeys, DagEvents, DevChain, DevCommand, DropTarget, EarlyTransaction,
    Reverted, SyncProgress,
};
pub use config::{FaucetConfig, RpcConfig};
pub use metrics::Metrics;
pub use node::Clock;
pub use priority::yield_to_ordering;
pub use server::{RpcServer, ServerParts, serve_metrics};
pub use starting::{StartingParts, StartingServer};
#[doc(hidden)]
pub use websocket::read_websocket;
