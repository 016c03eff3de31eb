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
use corniche_types::{Bytes, Genesis, MulticastGroup, ValidatorIndex};
use socket2::{Domain, Protocol, Socket, Type};
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
    /// Addresses of the sequencers, in the order of the genesis.
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
        let Some(index) = keys.index_in(genesis)? else { return Ok(None) };
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
            index: index.0,
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

    /// This validator in the committee, which is fixed in networks with a group.
    pub fn index(&self) -> ValidatorIndex {
        ValidatorIndex(self.index)
    }

    /// Takes the part that receives packets.
    pub fn take_receiver(&mut self) -> Option<PacketReceiver> {
        self.receiver.take()
    }
}

fn open_socket(config: &Multicast) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(config.listen), Type::DGRAM, Some(Protocol::UDP))?;
    // Validators of one host may share a multicast address and its port.
    socket.set_reuse_address(config.listen.ip().is_multicast())?;
    if let Some(interface) = config.interface {
        socket.set_multicast_if_v4(&interface)?;
    }
    socket.bind(&config.listen.into())?;
    let socket = UdpSocket::from(socket);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Network, NetworkSpec, inbox::Received, make_network, testing};
    use corniche_aom_wire::{Request, SigningKey, Stamper, TagKey, encode_request, exchange_public};
    use corniche_engine::Committee;
    use corniche_pipeline::Event;
    use std::sync::Arc;

    const SECRET: [u8; 32] = [5; 32];
    const EPOCH: u32 = 6;

    fn network(suite: u8, key: Vec<u8>) -> Network {
        let multicast = Some(MulticastGroup { group: 9, suite, sequencers: vec![vec![1; key.len()].into(), key.into()] });
        make_network(&NetworkSpec { multicast, seed: [1; 32], ..testing::spec() }).unwrap()
    }

    fn tagged() -> Network {
        network(2, ExchangeKey::from_bytes(SECRET).public().to_vec())
    }

    fn loopback() -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket
    }

    fn config(sequencers: &[&UdpSocket]) -> Multicast {
        let sequencers = sequencers.iter().map(|socket| socket.local_addr().unwrap()).collect();
        Multicast { listen: (Ipv4Addr::LOCALHOST, 0).into(), join: None, interface: None, sequencers }
    }

    fn member(network: &Network, index: usize, config: &Multicast) -> GroupMember {
        let keys = network.validators[index].clone().into();
        GroupMember::start(Some(config), &network.genesis, Some(&keys)).unwrap().unwrap()
    }

    fn received(socket: &UdpSocket) -> Vec<u8> {
        let mut buffer = vec![0; 2_000];
        let (length, _) = socket.recv_from(&mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    /// The sequencer derives its keys from the genesis alone, as `corniche sequencer` does.
    fn sequencer(genesis: &Genesis, epoch: u32) -> Stamper {
        let suite = Suite::SipHash128;
        let key = |(receiver, validator): (usize, &corniche_types::ValidatorInfo)| -> TagKey {
            let public = exchange_public(&validator.network_key).unwrap();
            let shared = ExchangeKey::from_bytes(SECRET).agree(public).unwrap();
            let receiver = receiver as u16;
            derive_tag_key(&shared, TagScope { chain_id: genesis.chain_id, group: 9, epoch, receiver, suite }).unwrap()
        };
        Stamper::hm(genesis.validators.iter().enumerate().map(key).collect()).unwrap()
    }

    #[test]
    fn keys_are_those_of_the_sequencer() {
        let network = tagged();
        let (socket, genesis) = (loopback(), &network.genesis);
        for index in 0..4 {
            let keys = member(&network, index, &config(&[&socket, &socket])).ask(7, b"certificate");
            assert_eq!(keys.iter().map(|key| key.epoch).collect::<Vec<_>>(), [4, 5, 6, 7]);
            for epoch in [5, 7] {
                let packets = sequencer(genesis, epoch).stamp(&Request::new(9, b"request").unwrap()).unwrap();
                let given = keys.iter().find(|key| key.epoch == epoch).unwrap();
                assert_eq!((given.group, given.suite), (9, 2));
                let (chain_id, receiver, suite) = (genesis.chain_id, index as u16, Suite::SipHash128);
                let scope = TagScope { chain_id, group: 9, epoch, receiver, suite };
                let key = TagKey::from_bytes(scope, &given.key).unwrap();
                assert_eq!(Packet::decode(&packets[0]).unwrap().header.verify_tag(&key), Ok(()));
            }
        }
    }

    #[test]
    fn signed_packets_need_the_listed_key() {
        let public = SigningKey::from_bytes(Suite::Ed25519, &SECRET).unwrap().verifying_key().to_bytes();
        let network = network(5, public.clone());
        let socket = loopback();
        let keys = member(&network, 0, &config(&[&socket, &socket])).ask(1, b"certificate");
        assert_eq!(keys.last().map(|key| key.key.to_vec()), Some(public));
        assert_eq!(keys.len(), 2, "epoch 0 is the first");
    }

    /// E2: the certificate goes to the sequencer of the epoch, and so do the requests from then on.
    #[test]
    fn sequencer_of_the_epoch_is_asked() {
        let (network, first, second) = (tagged(), loopback(), loopback());
        let mut member = member(&network, 0, &config(&[&first, &second]));
        member.multicast(b"early");
        assert_eq!(received(&first), b"early");
        member.ask(1, b"certificate");
        let datagram = received(&second);
        assert_eq!(EpochStart::decode(&datagram), Ok(EpochStart { group: 9, epoch: 1, certificate: b"certificate" }));
        member.multicast(b"later");
        assert_eq!(received(&second), b"later");
    }

    /// The inbox gets well-formed packets of the group, in order, and nothing is lost while it is full.
    #[test]
    fn packets_reach_the_inbox() {
        let (network, socket) = (tagged(), loopback());
        let mut member = member(&network, 0, &config(&[&socket, &socket]));
        let address = member.socket.local_addr().unwrap();
        let receiver = member.take_receiver().unwrap();
        let shared = Arc::new(Shared::new(1, 1, Committee::from_genesis(&network.genesis)));
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || receiver.run(&shared)
        });
        let mut stamper = sequencer(&network.genesis, EPOCH);
        let packets: Vec<_> = (0..3).flat_map(|_| stamper.stamp(&Request::new(9, b"request").unwrap()).unwrap()).collect();
        let other_group = sequencer_of_group(8).stamp(&Request::new(8, b"").unwrap()).unwrap();
        for datagram in [&b""[..], b"short", &encode_request(9, b"request").unwrap(), &other_group[0]] {
            socket.send_to(datagram, address).unwrap();
        }
        packets.iter().for_each(|packet| _ = socket.send_to(packet, address).unwrap());
        for packet in &packets {
            match shared.inbox.receive(None, true) {
                Received::Item(Event::Input(Input::Packet(datagram))) => assert_eq!(datagram, Bytes::from(packet.clone())),
                _ => panic!("expected a packet"),
            }
        }
        shared.inbox.close();
        thread.join().unwrap();
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!((read(&shared.counters.packets_received), read(&shared.counters.packets_refused)), (3, 4));
    }

    fn sequencer_of_group(group: u32) -> Stamper {
        let scope = TagScope { chain_id: 1, group, epoch: 1, receiver: 0, suite: Suite::SipHash128 };
        Stamper::hm(vec![TagKey::from_bytes(scope, &[1; 16]).unwrap()]).unwrap()
    }

    #[test]
    fn configuration_must_fit_the_genesis() {
        let (network, socket) = (tagged(), loopback());
        let keys: MemberKeys = network.validators[0].clone().into();
        let start = |config: Option<&Multicast>, genesis: &Genesis, keys: Option<&MemberKeys>| {
            GroupMember::start(config, genesis, keys).map(|member| member.is_some()).map_err(|error| error.to_string())
        };
        let good = config(&[&socket, &socket]);
        assert_eq!(start(Some(&good), &network.genesis, Some(&keys)), Ok(true));
        assert_eq!(start(Some(&good), &network.genesis, None), Ok(false), "a full node");
        let error = start(None, &network.genesis, Some(&keys)).unwrap_err();
        assert!(error.contains("add [multicast]") && error.contains("its 2 sequencers"), "{error}");
        let error = start(Some(&config(&[&socket])), &network.genesis, Some(&keys)).unwrap_err();
        assert!(error.contains("expected the 2 addresses"), "{error}");
        let error = start(Some(&good), &testing::genesis(), Some(&keys)).unwrap_err();
        assert!(error.contains("has no multicast group"), "{error}");
        let taken = Multicast { listen: socket.local_addr().unwrap(), ..good.clone() };
        let error = start(Some(&taken), &network.genesis, Some(&keys)).unwrap_err();
        assert!(error.contains("cannot receive on"), "{error}");
        let mixed = Multicast { join: Some(IpAddr::V6("ff02::1".parse().unwrap())), ..good };
        assert!(start(Some(&mixed), &network.genesis, Some(&keys)).is_err());
    }
}
