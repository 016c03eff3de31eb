//! Bytes in, bytes out, between nodes that know whom they talk to.
//!
//! This crate connects a node with its peers over libp2p and knows nothing of what the bytes mean.
//!
//! - A **link** is the one connection that two nodes agreed to use ([`driver`] tells how). [`Event::PeerUp`] and
//!   [`Event::PeerDown`] alternate strictly per peer, and messages come only between them.
//! - A link has two **channels**, [`Channel::Votes`] and [`Channel::Bulk`]: long-lived streams with flow control of their own.
//!   Per channel, messages arrive in the order sent. A message for a full queue is dropped and counted, never waited for; what
//!   a link loses by ending is lost. Whoever needs certainty fetches what is missing.
//! - A **request** gets one answer or one error, in bounded time, whatever the peer does.
//! - **Who** a peer is the transport proves: a [`PeerKey`] is an ed25519 key, and a validator is a peer whose key stands in the
//!   genesis. Validators have reserved slots, everybody else shares a limited number of them, by address.
//! - **Rates** of messages and requests are limited per peer: beyond its rate a peer's stream is not read, so a flood stays with its sender
//!   and costs no decoding. The limit of validators is several times what an honest one sends.
//! - **Slots** cannot be used up by strangers: an address has a share, what is slow or idle makes room for newcomers, and addresses
//!   of validators have slots of their own before anybody has proven a key ([`inbound`], [`gate`]).
//! - **Faults** cost points; a peer without points left is disconnected and banned for a while ([`Fault`]).
//!
//! What always holds: nothing a peer sends makes this crate panic, and every queue, table and message has a bound in
//! [`Limits`]. Both ends of a link agree on protocol version, chain and genesis, or there is no link.
//!
//! ```text
//!  node ── send, request ─▶ NetworkHandle ─▶ Link: queue ─▶ stream ─▶ ┐
//!                                                                    │ connection (swarm) ─▶ peer
//!  node ◀── Events ◀── inbox permits ◀── Link: reader ◀── stream ◀── ┘
//!                         Driver: connections, links, dialling, bans
//! ```

mod config;
mod dial;
mod driver;
mod event;
mod fault;
mod fetch;
mod frame;
mod gate;
mod handle;
mod handshake;
mod hangup;
mod inbound;
mod key;
mod link;
mod observed;
mod origin;
mod shared;
mod stats;
mod streams;
mod transport;

pub use config::{ChainIdentity, ChannelLimits, Limits, NetworkConfig, Rate, Timing, Transport};
pub use event::{Channel, Event, Events, Peer, Reply};
pub use fault::Fault;
pub use fetch::RequestError;
pub use handle::NetworkHandle;
pub use key::{AddressError, NetworkIdentity, PeerAddress, PeerKey};
pub use libp2p::Multiaddr;
pub use link::Sent;
pub use observed::{AGENT_VERSION, PeerInfo};
pub use stats::{ChannelStats, GeneralStats, Stats};

/// The messages in a peer's stream, up to what is none. For fuzzing.
#[doc(hidden)]
pub async fn read_frames(mut stream: &[u8], limit: usize) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Ok(message) = frame::read(&mut stream, limit).await {
        messages.push(message);
    }
    messages
}

use driver::{Behaviour, Driver, Ending};
use libp2p::{Swarm, identify, ping, swarm};
use shared::Shared;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Why the network could not start.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: Multiaddr, reason: String },
    #[error("cannot set up the transport: {0}")]
    Transport(String),
}

/// Starts networks.
pub struct Network;

impl Network {
    /// Binds all listening addresses, then connects and serves in the background on the current tokio runtime.
    ///
    /// The network ends when told to ([`NetworkHandle::shutdown`]), when all handles are dropped, or when the events are.
    pub async fn start(config: NetworkConfig) -> Result<(NetworkHandle, Events), NetworkError> {
        let keypair = config.identity.keypair().clone();
        let ping = ping::Config::new().with_interval(config.timing.ping).with_timeout(config.timing.ping);
        let (event_sender, events) = event::queue();
        let shared = Arc::new(Shared::new(config, event_sender));
        let transport = transport::build(&shared)?;
        let identify = identify::Config::new("/corniche/1".into(), keypair.public()).with_agent_version(AGENT_VERSION.into());
        let behaviour = Behaviour {
            gate: gate::Gate::new(shared.clone()),
            streams: streams::Behaviour::new(),
            identify: identify::Behaviour::new(identify),
            ping: ping::Behaviour::new(ping),
        };
        let swarm_config = swarm::Config::with_tokio_executor().with_max_negotiating_inbound_streams(32);
        let swarm = Swarm::new(transport, behaviour, keypair.public().to_peer_id(), swarm_config);

        let (commands, command_receiver) = mpsc::unbounded_channel();
        let (ended_sender, ended) = watch::channel(false);
        let ending = Ending { events: shared.events.clone(), ended: ended_sender };
        let mut driver = Driver::new(swarm, shared.clone(), command_receiver, ending);
        driver.listen().await?;
        tokio::spawn(driver.run());
        Ok((NetworkHandle { shared, commands, ended }, events))
    }
}
