//! Local network settings of a node. None of them affects validity, which the genesis defines.

use crate::{AddressError, Channel, NetworkIdentity, PeerAddress, PeerKey};
use corniche_types::{B256, Genesis};
use libp2p::{Multiaddr, multiaddr::Protocol};
use std::time::Duration;

/// Network settings of a node.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    pub identity: NetworkIdentity,
    pub chain: ChainIdentity,
    /// Network keys of the first validators.
    pub validators: Vec<PeerKey>,
    /// Listening addresses, TCP (`/ip4/0.0.0.0/tcp/9000`) and QUIC (`/ip4/0.0.0.0/udp/9000/quic-v1`). Empty:
    /// only dials.
    pub listen: Vec<Multiaddr>,
    /// Further addresses to announce, for nodes behind NAT.
    pub external: Vec<Multiaddr>,
    /// Peers to stay connected with. The node's own address is ignored, so that all nodes can share one list.
    pub bootstrap: Vec<PeerAddress>,
    /// True if validators are also dialled at the addresses they announce, not only at their `bootstrap`
    /// addresses.
    pub learn_addresses: bool,
    /// Tried first if a peer has addresses of both kinds.
    pub preferred_transport: Transport,
    pub limits: Limits,
    pub timing: Timing,
}

/// Two peers must agree on these values to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainIdentity {
    pub chain_id: u64,
    pub genesis_hash: B256,
}

/// Transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP with noise and yamux: 1.8 times the throughput of QUIC per core on loopback.
    Tcp,
    Quic,
}

impl Transport {
    pub(crate) fn of(address: &Multiaddr) -> Self {
        if address.iter().any(|part| part == Protocol::QuicV1) { Self::Quic } else { Self::Tcp }
    }
}

/// Limits on everything that a peer can make this node store or do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Inbound connections from peers outside the committee (guests), default 64. Validators have separate
    /// slots.
    pub guests: usize,
    /// Guests per address (IPv6: per /64), default 8. Loopback counts as one address.
    pub guests_per_address: usize,
    /// Inbound connections without a proven key, default 128: separately for TCP and for QUIC, whose source
    /// addresses can be forged. Addresses of validators have separate slots.
    pub pending_inbound: usize,
    /// Connections without a proven key per address (IPv6: per /64), default 8.
    pub pending_per_address: usize,
    pub votes: ChannelLimits,
    pub bulk: ChannelLimits,
    /// Maximum message of a sender outside the committee, on either channel, default 1 MiB. Both ends must
    /// know it, so all nodes of a network should use the same value.
    pub guest_frame_bytes: usize,
    pub request_bytes: usize,
    pub response_bytes: usize,
    /// Per peer and direction, default 8.
    pub requests_in_flight: usize,
    /// Concurrent responses to one peer, from their creation to the last byte, default 1; its further
    /// requests wait.
    pub answers_per_peer: usize,
    /// Concurrent responses to all guests together, default 32. Each may use [`Self::response_bytes`] of
    /// memory.
    pub guest_answers: usize,
    /// Average bytes of responses per second to one validator, default 64 MiB. Its requests wait until
    /// earlier responses are within this rate.
    pub validator_answer_bytes_per_second: u32,
    /// Average bytes of responses per second to one guest, default 8 MiB.
    pub guest_answer_bytes_per_second: u32,
    /// Average bytes of responses per second to all guests together, default 32 MiB.
    pub guests_answer_bytes_per_second: u32,
    /// Average rate of messages and requests of one guest, default 1,000 and 16 MiB a second; above that, the node
    /// reads more slowly.
    pub guest_rate: Rate,
    /// Average rate of one validator, default 5,000 messages and 32 MiB a second, with [`NetworkConfig::from_genesis`] at
    /// least 32 full batches. An honest one sends some hundred messages and few full batches a second, and after a pause the
    /// contents of its queues.
    pub validator_rate: Rate,
    /// Duration of a ban, default 600 s.
    pub ban: Duration,
    /// Duration of a ban for validators, default 60 s. Shorter, because no other peer can take a validator's
    /// place.
    pub validator_ban: Duration,
}

/// Average rate. A burst may be as large as a second's worth.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub frames_per_second: u32,
    pub bytes_per_second: u32,
}

/// Limits on one channel of one peer.
#[derive(Clone, Copy, Debug)]
pub struct ChannelLimits {
    /// Maximum size of a message, in both directions.
    pub frame_bytes: usize,
    /// Maximum number of messages in the send queue.
    pub queue_frames: usize,
    /// Maximum bytes in the send queue.
    pub queue_bytes: usize,
    /// Maximum bytes that were read and not yet taken by the consumer: per validator, and for all guests
    /// together.
    pub inbox_bytes: usize,
}

impl Limits {
    pub fn channel(&self, channel: Channel) -> &ChannelLimits {
        match channel {
            Channel::Votes => &self.votes,
            Channel::Bulk => &self.bulk,
        }
    }

    /// Maximum message on `channel` from a sender inside or outside the committee.
    pub fn frame_bytes(&self, channel: Channel, from_validator: bool) -> usize {
        let limit = self.channel(channel).frame_bytes;
        if from_validator { limit } else { limit.min(self.guest_frame_bytes) }
    }
}

/// Full batches that a validator may send per second.
const BATCHES_PER_SECOND: u32 = 32;

impl Rate {
    /// Raises the rate so that it suffices for batches of this size.
    fn for_batches(self, batch_bytes: u32) -> Self {
        Self { bytes_per_second: self.bytes_per_second.max(batch_bytes.saturating_mul(BATCHES_PER_SECOND)), ..self }
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
            validator_rate: Rate { frames_per_second: 5_000, bytes_per_second: 32 * 1024 * 1024 },
            ban: Duration::from_secs(600),
            validator_ban: Duration::from_secs(60),
        }
    }
}

/// Timeouts and intervals.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Timeout of an outbound connection from the dial to the proven key, default 10 s.
    pub dial: Duration,
    /// Timeout of an inbound connection from the accepted socket to the proven key, default 5 s.
    pub authentication: Duration,
    /// Timeout from a connection to an agreed link, default 5 s.
    pub handshake: Duration,
    /// Time after which an inbound connection without a proven key may lose its slot to a new connection,
    /// default 1 s. A correct peer needs three round trips.
    pub pending_grace: Duration,
    /// Time without a message or request after which a guest may lose its slot to a new connection, default
    /// 60 s.
    pub guest_idle: Duration,
    /// Interval and timeout of pings, default 20 s.
    pub ping: Duration,
    /// Time after which a peer that accepts no pending data is disconnected, default 30 s.
    pub stall: Duration,
    /// Timeout of a request from the call to the whole response, default 10 s, unless the caller has another one; also the time for
    /// the peer to answer. It has more time to send a large response.
    pub request: Duration,
    /// First pause before redialling, default 250 ms. It doubles up to `redial_max`, default 3 s, which
    /// bounds the delay after a partition ends.
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
    /// Settings with the default limits, without listening and bootstrap addresses.
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

    /// Like [`Self::new`], with the chain and the committee of `genesis`.
    pub fn from_genesis(identity: NetworkIdentity, genesis: &Genesis) -> Self {
        let chain = ChainIdentity { chain_id: genesis.chain_id, genesis_hash: genesis.hash() };
        let validators = genesis.validators.iter().map(|validator| PeerKey(validator.network_key)).collect();
        let mut config = Self::new(identity, chain, validators);
        config.limits.validator_rate = config.limits.validator_rate.for_batches(genesis.batch_bytes);
        config
    }

    /// Parses and adds a bootstrap peer.
    pub fn with_bootstrap(mut self, address: &str) -> Result<Self, AddressError> {
        self.bootstrap.push(address.parse()?);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validators_rate_follows_the_batches_of_the_chain() {
        const MIB: u32 = 1 << 20;
        let rate = Limits::default().validator_rate;
        for (batch_bytes, expected) in [(MIB / 2, 32 * MIB), (MIB, 32 * MIB), (16 * MIB, 512 * MIB), (u32::MAX, u32::MAX)] {
            assert_eq!(rate.for_batches(batch_bytes).bytes_per_second, expected, "batches of {batch_bytes} bytes");
        }
    }
}
