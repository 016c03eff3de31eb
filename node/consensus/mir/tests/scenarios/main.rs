//! Scenarios of the Mir-BFT engine, one story each.

mod cluster;
mod common_case;
mod delays;
mod epochs;
mod hostile;
mod real_crypto;
mod recovery;
mod statements;
mod weights;
