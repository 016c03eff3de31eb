//! A chain with real certificates and states, and a network of its peers in virtual time.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod chain;
pub mod network;
