//! What programs are answered: a database filled by the indexer's own code from blocks made by hand, and the real router on a real socket.

mod chain;
mod endpoints;
mod etherscan;
mod explorer;
mod files;
mod reference;
mod search;
