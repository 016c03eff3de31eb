//! Groups of receivers on loopback sockets.

use corniche_aom_sequencer::{BackEnd, Config, GroupConfig, MulticastConfig, ReceiverConfig, Secrets, Sequencer, StartError};
use corniche_aom_wire::{
    ExchangeKey, Header, Kind, MAX_PACKET_BYTES, Packet, SigningKey, Suite, TagScope, derive_tag_key, encode_request,
    genesis_hash,
};
use socket2::{Domain, Socket, Type};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    path::PathBuf,
    time::Duration,
};
use tempfile::TempDir;
use zeroize::Zeroizing;

pub const GROUP: u32 = 7;
pub const CHAIN_ID: u64 = 86;
const SECRET: [u8; 32] = [5; 32];
/// A test that waits so long has failed.
const DEADLOCK: Duration = Duration::from_secs(60);
/// Longer than any test: no heartbeat comes.
pub const NEVER_US: u64 = 1 << 40;

/// Receivers, a configuration for them, and a data directory.
pub struct World {
    pub receivers: Vec<UdpSocket>,
    pub config: Config,
    pub secrets: Secrets,
    directory: TempDir,
    sender: UdpSocket,
}

impl World {
    /// Opens `n` receivers of one group. Fails only if the system refuses multicast.
    pub fn new(back_end: BackEnd, suite: Suite, n: u16) -> io::Result<Self> {
        let (receivers, multicast) = if back_end == BackEnd::Multicast { join(n)? } else { (bind(n)?, None) };
        let receiver = |(index, socket): (u16, &UdpSocket)| ReceiverConfig {
            address: Some(socket.local_addr().unwrap()),
            exchange_key: Some(hex::encode(exchange_key(index).public())),
        };
        let group = GroupConfig {
            group: GROUP,
            chain_id: CHAIN_ID,
            epoch: 1,
            suite: suite as u8,
            active: true,
            key: PathBuf::new(),
            multicast,
            receivers: (0..).zip(&receivers).map(receiver).collect(),
        };
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            admin: None,
            back_end,
            check_digests: true,
            max_payload_bytes: 8800,
            sign_every: 32,
            sign_after_us: NEVER_US,
            heartbeat_after_us: NEVER_US,
            multicast: MulticastConfig { interface: Some(Ipv4Addr::LOCALHOST), ttl: 1 },
            groups: vec![group],
        };
        let secrets = [(GROUP, Zeroizing::new(SECRET))].into();
        let (directory, sender) = (tempfile::tempdir()?, UdpSocket::bind("127.0.0.1:0")?);
        Ok(Self { receivers, config, secrets, directory, sender })
    }

    /// Opens receivers to which the sequencer sends one by one.
    pub fn unicast(suite: Suite, n: u16) -> Self {
        Self::new(BackEnd::Unicast, suite, n).unwrap()
    }

    pub fn start(&self) -> Result<Sequencer, StartError> {
        Sequencer::start(&self.config, &self.secrets, self.directory.path())
    }

    /// Sends a datagram to the sequencer.
    pub fn send(&self, sequencer: &Sequencer, datagram: &[u8]) {
        self.sender.send_to(datagram, sequencer.address()).unwrap();
    }

    pub fn request(&self, sequencer: &Sequencer, payload: &[u8]) {
        self.send(sequencer, &encode_request(GROUP, payload).unwrap());
    }

    /// Waits for the next datagram of a receiver and checks it as far as one packet permits.
    pub fn receive(&self, receiver: u16) -> (Header, Vec<u8>) {
        let mut datagram = vec![0; MAX_PACKET_BYTES + 1];
        let length = self.receivers[usize::from(receiver)].recv(&mut datagram).expect("a packet arrives");
        let packet = Packet::decode(&datagram[..length]).unwrap();
        assert_eq!(packet.verify_digest(), Ok(()));
        let Header { group, epoch, suite, receivers, subgroup, .. } = packet.header;
        let expected = &self.config.groups[0];
        assert_eq!((group, epoch, suite as u8), (GROUP, expected.epoch, expected.suite));
        match suite.kind() {
            Kind::Hm => {
                assert_eq!(usize::from(receivers), self.receivers.len());
                if receiver / 4 == u16::from(subgroup) {
                    let public = ExchangeKey::from_bytes(SECRET).public();
                    let scope = TagScope { chain_id: CHAIN_ID, group, epoch, receiver, suite };
                    let key = derive_tag_key(&exchange_key(receiver).agree(public).unwrap(), scope).unwrap();
                    assert_eq!(packet.header.verify_tag(&key), Ok(()));
                }
            }
            Kind::Pk if packet.header.is_signed() => {
                let key = SigningKey::from_bytes(suite, &SECRET).unwrap().verifying_key();
                assert_eq!(packet.header.verify_signature(&key), Ok(()));
            }
            Kind::Pk => {}
        }
        (packet.header, packet.payload.to_vec())
    }

    /// Checks that PK headers are one chain from the beginning of the epoch.
    pub fn check_chain<'a>(&self, headers: impl Iterator<Item = &'a Header>) {
        let group = &self.config.groups[0];
        let (mut prev_seq, mut prev_hash) = (0, genesis_hash(CHAIN_ID, GROUP, group.epoch));
        for header in headers.filter(|header| header.suite.kind() == Kind::Pk) {
            assert_eq!((header.prev_seq, header.prev_hash), (prev_seq, prev_hash));
            (prev_seq, prev_hash) = (header.seq, header.hash());
        }
    }
}

/// Stops a sequencer and waits for its end.
pub fn stop(sequencer: Sequencer) {
    sequencer.stop_handle().stop();
    sequencer.wait().unwrap();
}

fn exchange_key(receiver: u16) -> ExchangeKey {
    ExchangeKey::from_bytes([receiver as u8 + 100; 32])
}

fn bind(n: u16) -> io::Result<Vec<UdpSocket>> {
    (0..n).map(|_| UdpSocket::bind("127.0.0.1:0").and_then(patient)).collect()
}

/// Opens sockets that are members of one multicast group on the loopback interface.
fn join(n: u16) -> io::Result<(Vec<UdpSocket>, Option<SocketAddr>)> {
    let group = Ipv4Addr::new(239, 86, 65, 79);
    let mut address = SocketAddr::V4(SocketAddrV4::new(group, 0));
    let mut sockets = Vec::new();
    for _ in 0..n {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_reuse_address(true)?;
        // The first socket gets a free port, and the others share it.
        socket.bind(&address.into())?;
        socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
        let socket = patient(socket.into())?;
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok((sockets, Some(address)))
}

fn patient(socket: UdpSocket) -> io::Result<UdpSocket> {
    socket.set_read_timeout(Some(DEADLOCK))?;
    Ok(socket)
}
