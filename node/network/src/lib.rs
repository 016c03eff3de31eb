//! Peer-to-peer network with authenticated peers. Transports bytes.
//!
//! This crate connects a node with its peers over libp2p and does not interpret the bytes.
//!
//! - A **link** is the one connection that two nodes agreed to use (see [`driver`]). [`Event::PeerUp`] and
//!   [`Event::PeerDown`] alternate strictly per peer, and messages arrive only between them.
//! - A link has two **channels**, [`Channel::Votes`] and [`Channel::Bulk`]: long-lived streams with separate
//!   flow control. Per channel, messages arrive in the order of sending. If a queue is full, the message is
//!   dropped and counted; sending never blocks. Messages in flight are lost when a link ends. For reliable
//!   delivery, request the missing data.
//! - A **request** gets one response or one error, in bounded time, for any behaviour of the peer.
//! - **Identity**: the transport proves it. A [`PeerKey`] is an ed25519 key, and a validator is a peer with a key
//!   that the node named: those of the genesis, later those of [`NetworkHandle::set_validators`]. Validators have
//!   reserved slots. All other peers share a limited number of slots, by address.
//! - **Rates** of messages and requests are limited per peer. Beyond its rate a peer's stream is not read, so a
//!   flood stays with its sender and costs no decoding. The limit of validators is several times the rate of an
//!   honest one.
//! - **Slots** cannot be exhausted by strangers. An address has a share, and slow or idle connections lose
//!   their slots to new ones. Addresses of validators have separate slots before any key is proven
//!   ([`inbound`], [`gate`]).
//! - **Faults** cost points; a peer at the limit is disconnected and banned for a while ([`Fault`]).
//!
//! Invariants: no data from a peer makes this crate panic, and every queue, table and message has a limit in
//! [`Limits`]. Both ends of a link agree on protocol version, chain and genesis, or there is no link.
//!
//! ```text
//!  node ── send, request ─▶ NetworkHandle ─▶ Link: queue ─▶ stream ─▶ ┐
//!                                                                    │ connection (swarm) ─▶ peer
//!  node ◀── Events ◀── inbox permits ◀── Link: reader ◀── stream ◀── ┘
//!                         Driver: connections, links, dialling, bans
//! ```
//!
//! Modules in layers, lowest first; each uses only modules in its line or above:
//!
//! - Types and formats: `key`, `event`, `config`, `error`, `frame`, `handshake`.
//! - Parts without I/O: `fault` (points and bans), `origin`, `observed`, `stats`, `throttle` (rates), `dial` (when to redial).
//! - libp2p: `streams`, `bounded_close`.
//! - `shared`: state of the whole network.
//! - Links: `link`, `link_table`, `fetch` (requests).
//! - Connections: [`inbound`], [`gate`], `transport`, [`driver`], `handle`.

mod bounded_close;
mod config;
mod dial;
mod driver;
mod error;
mod event;
mod fault;
mod fetch;
mod frame;
mod gate;
mod handle;
mod handshake;
mod inbound;
mod key;
mod link;
mod link_table;
mod observed;
mod origin;
mod shared;
mod stats;
mod streams;
mod throttle;
mod transport;

pub use config::{ChainIdentity, ChannelLimits, Limits, NetworkConfig, Rate, Timing, Transport};
pub use error::NetworkError;
pub use event::{Channel, Event, Events, Peer, Reply};
pub use fault::Fault;
pub use fetch::RequestError;
pub use handle::NetworkHandle;
pub use key::{AddressError, NetworkIdentity, PeerAddress, PeerKey};
pub use libp2p::Multiaddr;
pub use link::Sent;
pub use observed::{AGENT_VERSION, PeerInfo};
pub use stats::{ChannelStats, GeneralStats, Stats};

/// Parses a peer's stream into messages, until the first error. For fuzzing.
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
use link_table::LinkTable;
use shared::Shared;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Starts networks.
pub struct Network;

impl Network {
    /// Binds all listening addresses, then connects and serves in the background on the current tokio
    /// runtime.
    ///
    /// The network ends after [`NetworkHandle::shutdown`], when all handles are dropped, or when the events
    /// are dropped.
    pub async fn start(config: NetworkConfig) -> Result<(NetworkHandle, Events), NetworkError> {
        let keypair = config.identity.keypair().clone();
        let ping = ping::Config::new().with_interval(config.timing.ping).with_timeout(config.timing.ping);
        let (event_sender, events) = event::queue();
        let shared = Arc::new(Shared::new(config, event_sender));
        let links = Arc::new(LinkTable::default());
        let transport = transport::build(&shared)?;
        let identify = identify::Config::new("/corniche/1".into(), keypair.public()).with_agent_version(AGENT_VERSION.into());
        let behaviour = Behaviour {
            gate: gate::Gate::new(shared.clone(), links.clone()),
            streams: streams::Behaviour::new(),
            identify: identify::Behaviour::new(identify),
            ping: ping::Behaviour::new(ping),
        };
        let swarm_config = swarm::Config::with_tokio_executor().with_max_negotiating_inbound_streams(32);
        let swarm = Swarm::new(transport, behaviour, keypair.public().to_peer_id(), swarm_config);

        let (commands, command_receiver) = mpsc::unbounded_channel();
        let (ended_sender, ended) = watch::channel(false);
        let ending = Ending { events: shared.events.clone(), ended: ended_sender };
        let mut driver = Driver::new(swarm, shared.clone(), links.clone(), command_receiver, ending);
        driver.listen().await?;
        tokio::spawn(driver.run());
        Ok((NetworkHandle { shared, links, commands, ended }, events))
    }
}
