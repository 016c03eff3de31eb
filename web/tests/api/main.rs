//! Tests of the API: a database that the indexer's code filled from hand-made blocks, and the real router on a socket.

#![allow(clippy::unwrap_used)] // the lint spares test functions, not their helpers

mod both;
mod chain;
mod dag;
mod endpoints;
mod etherscan;
mod explorer;
mod files;
mod pages;
mod peers;
#[path = "../indexing/postgres.rs"]
mod postgres;
mod reference;
mod search;
