//! The node's JSON-RPC server: Ethereum's methods for wallets and tools, `corniche_*` for what this chain adds, over HTTP
//! and WebSocket on one port, beside `/health`; `/metrics` on another.
//!
//! ```text
//!            ┌ POST ───────┐
//! connection ┤             ├▶ answer ▶ dispatch ▶ handlers ▶ Backend
//! (listener) └ websocket ──┘ (bodies)   (table)      └▶ work: bounded threads for calls and reads
//!                  ▲ session: what a subscriber has not been told yet
//! ```
//!
//! - [`backend`]: what the server needs from the node; the server itself keeps no chain data.
//! - [`server`]: HTTP, CORS, limits on bodies and answers; [`listener`]: limits on connections, clients behind proxies;
//!   [`budget`], [`rates`], [`work`], [`time`]: what one client may take of what all share.
//! - [`jsonrpc`]: framing; [`answer`]: bodies and batches; [`dispatch`]: the table of methods.
//! - [`overrides`]: what clients suppose; [`replay`]: blocks run again, for [`trace`].
//! - [`simulate`]: blocks of calls on blocks that are there.
//! - [`reads`], [`access_list`], [`call`], [`proofs`], [`dag`], [`fees`], [`logs`], [`filters`], [`session`], [`submit`], [`txpool`], [`raw`], [`ots`], [`convert`]: the handlers that
//!   need more than a line.
//!
//! What always holds: every request is answered, counted, and costs bounded work; whatever accumulates has a limit in
//! [`RpcConfig`]; nothing a client sends reaches a panic. Refusals are worded in `corniche_api`, because clients match them.

mod access_list;
mod answer;
pub mod backend;
mod budget;
mod call;
mod config;
mod console;
mod convert;
mod dag;
mod dev;
mod dispatch;
mod faucet;
mod fees;
mod filters;
mod jsonrpc;
mod listener;
mod logs;
mod metrics;
mod node;
mod ots;
mod overrides;
mod proofs;
mod rates;
mod raw;
mod reads;
mod replay;
mod server;
mod session;
mod simulate;
mod submit;
mod time;
mod trace;
mod txpool;
mod websocket;
mod work;

pub use backend::{
    AccountChange, Backend, ChainBlock, ChainEvent, Changed, DagEvents, DevChain, DevOrder, DropOrder, Reverted, SyncProgress,
};
pub use config::RpcConfig;
pub use faucet::FaucetConfig;
pub use metrics::Metrics;
pub use node::Clock;
pub use server::{RpcServer, ServerParts};
#[doc(hidden)]
pub use websocket::read_websocket;
