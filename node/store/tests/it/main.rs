//! The store from outside, one subject a file.

mod crash;
mod directory;
mod group_commit;
mod model;
mod power;
mod restart;
mod safety;
mod support;
mod tails;
