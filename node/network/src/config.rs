//! What a node decides about its own networking. Nothing here affects validity: that is the genesis' business.

use crate::{AddressError, Channel, NetworkIdentity, PeerAddress, PeerKey};
use corniche_types::{B256, Genesis};
use libp2p::{Multiaddr, multiaddr::Protocol};
use std::time::Duration;

/// How a node takes part in a network.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    pub identity: NetworkIdentity,
    pub chain: ChainIdentity,
    /// Network keys of the committee; a validator's position is its index.
    pub validators: Vec<PeerKey>,
    /// Where to listen, TCP (`/ip4/0.0.0.0/tcp/9000`) and QUIC (`/ip4/0.0.0.0/udp/9000/quic-v1`). Empty: only dial.
    pub listen: Vec<Multiaddr>,
    /// Addresses to announce besides the ones listened on, for nodes behind address translation.
    pub external: Vec<Multiaddr>,
    /// Peers to stay connected with. Our own address among them is ignored, so all nodes can share one list.
    pub bootstrap: Vec<PeerAddress>,
    /// Whether a validator is also dialled where it says it listens, not only at its `bootstrap` addresses.
    pub learn_addresses: bool,
    /// Tried first when a peer has addresses of both kinds.
    pub preferred_transport: Transport,
    pub limits: Limits,
    pub timing: Timing,
}

/// What two peers must agree on to talk at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainIdentity {
    pub chain_id: u64,
    pub genesis_hash: B256,
}

/// The ways to carry a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP, noise, yamux: 1.8 times the throughput of QUIC per core on loopback.
    Tcp,
    Quic,
}

impl Transport {
    pub(crate) fn of(address: &Multiaddr) -> Self {
        if address.iter().any(|part| part == Protocol::QuicV1) { Self::Quic } else { Self::Tcp }
    }
}

/// Bounds of everything a peer can make this node hold or do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Inbound connections with peers outside the committee. Validators have slots of their own on top.
    pub guests: usize,
    /// Those from one address (IPv6: one /64). Loopback is an address like any other.
    pub guests_per_address: usize,
    /// Inbound connections whose peer has not proven its key yet: of TCP, and again of QUIC, whose source addresses can be forged.
    /// Addresses of validators have slots of their own on top.
    pub pending_inbound: usize,
    /// Those from one address (IPv6: one /64).
    pub pending_per_address: usize,
    pub votes: ChannelLimits,
    pub bulk: ChannelLimits,
    /// Largest message of a sender outside the committee, on either channel. Both ends must know it, so nodes of one network
    /// should not lower it on their own.
    pub guest_frame_bytes: usize,
    pub request_bytes: usize,
    pub response_bytes: usize,
    /// Per peer, and in each direction.
    pub requests_in_flight: usize,
    /// Answers to one peer at once, from the making to the last byte; its further requests wait for their turn.
    pub answers_per_peer: usize,
    /// Answers to all peers outside the committee at once. Each may hold [`Self::response_bytes`] of memory.
    pub guest_answers: usize,
    /// Bytes of answers to one validator, on average; its requests wait until earlier answers are paid for.
    pub validator_answer_bytes_per_second: u32,
    /// Bytes of answers to one peer outside the committee, likewise.
    pub guest_answer_bytes_per_second: u32,
    /// Bytes of answers to all peers outside the committee, likewise.
    pub guests_answer_bytes_per_second: u32,
    /// Messages and requests of one peer outside the committee, on average; beyond it, reading slows down.
    pub guest_rate: Rate,
    /// Messages and requests of one validator, likewise. An honest one sends some hundred a second, and after a pause what its queues hold.
    pub validator_rate: Rate,
    /// How long a peer whose score ran out stays away.
    pub ban: Duration,
    /// The same for a validator: nobody else can take its seat, so it may try again sooner.
    pub validator_ban: Duration,
}

/// An average. As much as a second's worth may come at once.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub frames_per_second: u32,
    pub bytes_per_second: u32,
}

/// Bounds of one channel of one peer.
#[derive(Clone, Copy, Debug)]
pub struct ChannelLimits {
    /// Largest message, both ways.
    pub frame_bytes: usize,
    /// Messages waiting to be written.
    pub queue_frames: usize,
    /// Bytes waiting to be written.
    pub queue_bytes: usize,
    /// Bytes read and not yet taken by the consumer: per validator, and together for all peers outside the committee.
    pub inbox_bytes: usize,
}

impl Limits {
    pub fn channel(&self, channel: Channel) -> &ChannelLimits {
        match channel {
            Channel::Votes => &self.votes,
            Channel::Bulk => &self.bulk,
        }
    }

    /// Largest message on `channel` from a sender that is, or is not, of the committee.
    pub fn frame_bytes(&self, channel: Channel, from_validator: bool) -> usize {
        let limit = self.channel(channel).frame_bytes;
        if from_validator { limit } else { limit.min(self.guest_frame_bytes) }
    }
}

impl Default for Limits {
    fn default() -> Self {
        const KIB: usize = 1024;
        const MIB: usize = 1024 * KIB;
        Self {
            guests: 64,
            guests_per_address: 8,
            pending_inbound: 128,
            pending_per_address: 8,
            votes: ChannelLimits { frame_bytes: MIB, queue_frames: 8192, queue_bytes: 4 * MIB, inbox_bytes: 2 * MIB },
            bulk: ChannelLimits { frame_bytes: 8 * MIB, queue_frames: 8192, queue_bytes: 32 * MIB, inbox_bytes: 16 * MIB },
            guest_frame_bytes: MIB,
            request_bytes: 64 * KIB,
            response_bytes: 16 * MIB,
            requests_in_flight: 8,
            answers_per_peer: 1,
            guest_answers: 32,
            validator_answer_bytes_per_second: 64 * 1024 * 1024,
            guest_answer_bytes_per_second: 8 * 1024 * 1024,
            guests_answer_bytes_per_second: 32 * 1024 * 1024,
            guest_rate: Rate { frames_per_second: 1_000, bytes_per_second: 16 * 1024 * 1024 },
            validator_rate: Rate { frames_per_second: 5_000, bytes_per_second: 256 * 1024 * 1024 },
            ban: Duration::from_secs(600),
            validator_ban: Duration::from_secs(60),
        }
    }
}

/// How long things may take.
#[derive(Clone, Debug)]
pub struct Timing {
    /// An outbound connection, from the dial to the proven key.
    pub dial: Duration,
    /// An inbound connection, from the accepted socket to the proven key.
    pub authentication: Duration,
    /// From a connection to an agreed link.
    pub handshake: Duration,
    /// After this long an inbound connection without a proven key gives its slot to a newcomer that finds none. A correct peer needs
    /// three round trips.
    pub pending_grace: Duration,
    /// A guest that sent no message and no request for this long gives its slot to a newcomer that finds none.
    pub guest_idle: Duration,
    /// A connection is checked for life this often, and given as long to answer.
    pub ping: Duration,
    /// A peer that takes nothing for so long, while something is to be written, is disconnected.
    pub stall: Duration,
    /// A request, from the call to the whole response; and the time its answerer has.
    pub request: Duration,
    /// First pause before dialling again; doubles up to `redial_max`, which is what a partition costs beyond its length.
    pub redial_min: Duration,
    pub redial_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            dial: Duration::from_secs(10),
            authentication: Duration::from_secs(5),
            handshake: Duration::from_secs(5),
            pending_grace: Duration::from_secs(1),
            guest_idle: Duration::from_secs(60),
            ping: Duration::from_secs(20),
            stall: Duration::from_secs(30),
            request: Duration::from_secs(10),
            redial_min: Duration::from_millis(250),
            redial_max: Duration::from_secs(3),
        }
    }
}

impl NetworkConfig {
    /// A node with the default limits that neither listens nor dials yet.
    pub fn new(identity: NetworkIdentity, chain: ChainIdentity, validators: Vec<PeerKey>) -> Self {
        Self {
            identity,
            chain,
            validators,
            listen: Vec::new(),
            external: Vec::new(),
            bootstrap: Vec::new(),
            learn_addresses: true,
            preferred_transport: Transport::Tcp,
            limits: Limits::default(),
            timing: Timing::default(),
        }
    }

    /// The same, with the chain and the committee of `genesis`.
    pub fn from_genesis(identity: NetworkIdentity, genesis: &Genesis) -> Self {
        let chain = ChainIdentity { chain_id: genesis.chain_id, genesis_hash: genesis.hash() };
        let validators = genesis.validators.iter().map(|validator| PeerKey(validator.network_key)).collect();
        Self::new(identity, chain, validators)
    }

    /// Adds a bootstrap peer from its text.
    pub fn with_bootstrap(mut self, address: &str) -> Result<Self, AddressError> {
        self.bootstrap.push(address.parse()?);
        Ok(self)
    }
}
