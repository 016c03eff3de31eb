//! Requests to a node in memory. One program, because each links the node and takes long to build. Tests that measure their process
//! are programs of their own.

#[path = "../common/mod.rs"]
mod common;

mod bad_requests;
mod clients;
mod dag;
mod epochs;
mod faucet;
mod logs;
mod methods;
mod old_states;
mod ots;
mod pool;
mod proofs;
mod protocol;
mod pruned;
mod shares;
mod simulations;
mod staking;
mod suppositions;
mod traces;
mod websocket;
