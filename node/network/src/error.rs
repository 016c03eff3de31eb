//! Errors at the start of a network.

use libp2p::Multiaddr;

/// Reason why the network could not start.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: Multiaddr, reason: String },
    #[error("cannot set up the transport: {0}")]
    Transport(String),
}
