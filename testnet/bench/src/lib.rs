//! `corniche bench network` and `corniche bench order` as a library: what a network of validators on this machine does, with
//! everything that a transfer needs, and with the ordering alone.

pub mod network;
pub mod order;
