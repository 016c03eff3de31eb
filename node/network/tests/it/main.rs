//! Nodes on real loopback sockets. Every wait is for a condition and has a timeout.

#![allow(clippy::unwrap_used)]

mod adversary;
mod bans;
mod channels;
mod handshake;
mod limits;
mod links;
mod observed;
mod requests;
mod slots;
mod support;
