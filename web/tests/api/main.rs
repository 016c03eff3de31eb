//! What programs are answered: a database filled by the indexer's own code from blocks made by hand, and the real router on a real socket.

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
