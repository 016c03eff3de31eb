//! This validator's part of a multicast group: the socket for packets, and the configuration service (E2, E3).
//!
//! There is no service to run. The genesis lists the sequencers in their order, and every key follows from keys that exist:
//! those of the sequencers, and the validators' network keys. A sequencer begins an epoch when it gets the certificate of a
//! quorum, which any validator can send. So a validator's part is to answer its own engine, and to send that certificate.

use crate::{
    config::Multicast,
    keys::MemberKeys,
    shared::{Shared, count},
};
use anyhow::{Context, bail};
use corniche_aom_wire::{EpochStart, ExchangeKey, Kind, MAX_PACKET_BYTES, Packet, Suite, TagScope, derive_tag_key};
use corniche_engine::SequencerKey;
use corniche_pipeline::Input;
use corniche_types::{Bytes, Genesis, MulticastGroup};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    time::Duration,
};

/// The engine checks old packets that its peers show it. So it gets the keys of this many epochs before the newest.
const OLD_EPOCHS: u32 = 3;
/// Time after which the receiving thread looks whether the node stops.
const STOP_CHECK: Duration = Duration::from_millis(200);
/// Time until a packet is offered again to a full inbox. Meanwhile the system buffers, and then drops.
const FULL_INBOX_WAIT: Duration = Duration::from_millis(1);

/// Socket and keys of a validator in a group.
pub struct GroupMember {
    socket: UdpSocket,
    /// Until the receiving thread has it.
    receiver: Option<PacketReceiver>,
    chain_id: u64,
    group: MulticastGroup,
    suite: Suite,
    /// Of the sequencers, in the order of the genesis.
    addresses: Vec<SocketAddr>,
    exchange: ExchangeKey,
    /// Index of this validator.
    index: u16,
    /// Epoch that the engine asked for last.
    epoch: u32,
}

impl GroupMember {
    /// Opens the socket of a validator of the genesis. `None` if the genesis has no group, or the keys are no validator's.
    ///
    /// # Errors
    ///
    /// The configuration has no group or another number of sequencers, or the address is in use.
    pub fn start(config: Option<&Multicast>, genesis: &Genesis, keys: Option<&MemberKeys>) -> anyhow::Result<Option<Self>> {
        let Some(group) = &genesis.multicast else {
            return match config {
                Some(_) => bail!("[multicast] is set, but the genesis has no multicast group; remove it"),
                None => Ok(None),
            };
        };
        let Some(keys) = keys else { return Ok(None) };
        let position = genesis.validators.iter().position(|validator| validator.consensus_key == keys.consensus_key());
        let Some(index) = position.and_then(|position| u16::try_from(position).ok()) else { return Ok(None) };
        let expected = group.sequencers.len();
        let Some(config) = config else {
            bail!(
                "the genesis has a multicast group: add [multicast] with `listen`, and the UDP addresses of its {expected} sequencers in `sequencers`"
            );
        };
        if config.sequencers.len() != expected {
            let got = config.sequencers.len();
            bail!(
                "[multicast] sequencers: expected the {expected} addresses of the genesis' sequencers, in its order, got {got}"
            );
        }
        let suite = Suite::try_from(group.suite).context("the genesis' suite is unknown")?;
        let socket = open_socket(config).with_context(|| format!("[multicast] cannot receive on {}", config.listen))?;
        let receiver = Some(PacketReceiver { socket: socket.try_clone()?, group: group.group });
        Ok(Some(Self {
            socket,
            receiver,
            chain_id: genesis.chain_id,
            group: group.clone(),
            suite,
            addresses: config.sequencers.clone(),
            exchange: ExchangeKey::from_ed25519(&keys.network.seed()),
            index,
            epoch: 0,
        }))
    }

    /// Sends a request to the sequencer of the newest epoch. It may be lost.
    pub fn multicast(&self, request: &[u8]) {
        self.send(request);
    }

    /// E2: asks the sequencer of an epoch to begin it. Returns the keys that the engine needs for it (E3): the newest last.
    pub fn ask(&mut self, epoch: u32, certificate: &[u8]) -> Vec<SequencerKey> {
        self.epoch = epoch;
        if let Ok(datagram) = (EpochStart { group: self.group.group, epoch, certificate }).encode() {
            self.send(&datagram);
        }
        (epoch.saturating_sub(OLD_EPOCHS)..=epoch).filter_map(|epoch| self.key(epoch)).collect()
    }

    fn send(&self, datagram: &[u8]) {
        if let Some(address) = self.addresses.get(self.group.sequencer(self.epoch)) {
            // A datagram that the system refuses is a lost one.
            let _ = self.socket.send_to(datagram, address);
        }
    }

    fn key(&self, epoch: u32) -> Option<SequencerKey> {
        let (group, suite) = (self.group.group, self.suite);
        let public = self.group.sequencers.get(self.group.sequencer(epoch))?;
        let key: Bytes = match suite.kind() {
            Kind::Pk => public.clone(),
            Kind::Hm => {
                let scope = TagScope { chain_id: self.chain_id, group, epoch, receiver: self.index, suite };
                let shared = self.exchange.agree(public.as_ref().try_into().ok()?).ok()?;
                derive_tag_key(&shared, scope).ok()?.as_bytes().to_vec().into()
            }
        };
        Some(SequencerKey { group, epoch, suite: suite as u8, key })
    }

    /// Takes the part that receives packets.
    pub fn take_receiver(&mut self) -> Option<PacketReceiver> {
        self.receiver.take()
    }
}

fn open_socket(config: &Multicast) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(config.listen)?;
    match (config.join, config.listen.ip()) {
        (Some(IpAddr::V4(address)), IpAddr::V4(_)) => {
            socket.join_multicast_v4(&address, &config.interface.unwrap_or(Ipv4Addr::UNSPECIFIED))?;
        }
        (Some(IpAddr::V6(address)), IpAddr::V6(_)) => socket.join_multicast_v6(&address, 0)?,
        (Some(_), _) => return Err(io::Error::other("`join` and `listen` are of different families")),
        (None, _) => {}
    }
    socket.set_read_timeout(Some(STOP_CHECK))?;
    Ok(socket)
}

/// Receives packets on a thread of its own.
pub struct PacketReceiver {
    socket: UdpSocket,
    group: u32,
}

impl PacketReceiver {
    /// Passes packets of the group to the pipeline until the inbox is closed. Nothing is verified here but the form.
    pub fn run(self, shared: &Shared) {
        let mut buffer = vec![0; MAX_PACKET_BYTES + 1];
        while !shared.inbox.is_closed() {
            // The only errors are timeouts, and refusals of earlier sends.
            let Ok((length, _)) = self.socket.recv_from(&mut buffer) else { continue };
            let datagram = buffer.get(..length).unwrap_or_default();
            if !Packet::decode(datagram).is_ok_and(|packet| packet.header.group == self.group) {
                count(&shared.counters.packets_refused, 1);
                continue;
            }
            count(&shared.counters.packets_received, 1);
            let mut event = Input::Packet(Bytes::copy_from_slice(datagram)).into();
            // Packets have one turn among the validators.
            while let Err(refused) = shared.inbox.push_message(PACKETS, event) {
                if shared.inbox.is_closed() {
                    return;
                }
                event = refused;
                std::thread::sleep(FULL_INBOX_WAIT);
            }
        }
    }
}

/// Source of packets in the inbox. It is no node's key.
const PACKETS: [u8; 32] = [0; 32];
