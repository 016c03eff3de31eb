//! Groups of receivers on loopback sockets.

use corniche_aom_sequencer::{BackEnd, Config, DropReason, Group, MulticastConfig, Sequencer, StartError};
use corniche_aom_wire::{
    EpochStart, ExchangeKey, Header, Kind, MAX_PACKET_BYTES, MAX_PAYLOAD_BYTES, Packet, SigningKey, Suite, TagScope,
    derive_tag_key, encode_request, genesis_hash,
};
use socket2::{Domain, Socket, Type};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    time::{Duration, Instant},
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
    pub suite: Suite,
    /// Number of sequencers of the group, and the position of this one.
    pub sequencers: u32,
    pub index: u32,
    /// Epoch that the receivers expect.
    pub epoch: u32,
    pub destinations: Vec<SocketAddr>,
    pub directory: TempDir,
    sender: UdpSocket,
}

/// Returns the certificate that the group of the tests accepts: real ones belong to the engine.
pub fn certificate(epoch: u32) -> Vec<u8> {
    match epoch {
        0 => Vec::new(),
        epoch => format!("the receivers agreed to begin epoch {epoch}").into_bytes(),
    }
}

/// Returns the datagram by which the receivers begin an epoch.
pub fn epoch_start(epoch: u32) -> Vec<u8> {
    EpochStart { group: GROUP, epoch, certificate: &certificate(epoch) }.encode().unwrap()
}

/// Returns a group with these destinations and with `receivers` exchange keys.
pub fn group(suite: Suite, receivers: u16, destinations: Vec<SocketAddr>) -> Group {
    let exchange_keys = match suite.kind() {
        Kind::Hm => (0..receivers).map(|index| exchange_key(index).public()).collect(),
        Kind::Pk => Vec::new(),
    };
    Group {
        chain_id: CHAIN_ID,
        group: GROUP,
        suite,
        sequencers: 1,
        index: 0,
        secret: Zeroizing::new(SECRET),
        exchange_keys,
        max_payload_bytes: MAX_PAYLOAD_BYTES,
        destinations,
        authority: Box::new(|epoch, given| given == certificate(epoch)),
    }
}

impl World {
    /// Opens `n` receivers of one group. Fails only if the system refuses multicast.
    pub fn new(back_end: BackEnd, suite: Suite, n: u16) -> io::Result<Self> {
        let (receivers, multicast) = if back_end == BackEnd::Multicast { join(n)? } else { (bind(n)?, None) };
        let destinations = match multicast {
            Some(address) => vec![address],
            None => receivers.iter().map(|socket| socket.local_addr().unwrap()).collect(),
        };
        let config = Config {
            back_end,
            sign_after_us: NEVER_US,
            heartbeat_after_us: NEVER_US,
            multicast: MulticastConfig { interface: Some(Ipv4Addr::LOCALHOST), ttl: 1 },
            ..Config::new("127.0.0.1:0".parse().unwrap())
        };
        let (directory, sender) = (tempfile::tempdir()?, UdpSocket::bind("127.0.0.1:0")?);
        Ok(Self { receivers, config, suite, sequencers: 1, index: 0, epoch: 0, destinations, directory, sender })
    }

    /// Opens receivers to which the sequencer sends one by one.
    pub fn unicast(suite: Suite, n: u16) -> Self {
        Self::new(BackEnd::Unicast, suite, n).unwrap()
    }

    pub fn group(&self) -> Group {
        let group = group(self.suite, self.receivers.len() as u16, self.destinations.clone());
        Group { sequencers: self.sequencers, index: self.index, ..group }
    }

    /// Starts a sequencer, which is on standby.
    pub fn start(&self) -> Result<Sequencer, StartError> {
        Sequencer::start(&self.config, vec![self.group()], self.directory.path())
    }

    /// Starts a sequencer and begins the expected epoch. The next packet has number 2.
    pub fn serve(&self) -> Sequencer {
        let sequencer = self.start().unwrap();
        self.begin(&sequencer);
        sequencer
    }

    /// Begins the expected epoch, and takes its heartbeat from each receiver. Asks again if the last check was too recent.
    pub fn begin(&self, sequencer: &Sequencer) {
        let metrics = sequencer.metrics();
        while metrics.epoch(GROUP) != Some(self.epoch) {
            let refused = metrics.dropped(DropReason::Rate);
            self.send(sequencer, &epoch_start(self.epoch));
            wait_until(|| metrics.epoch(GROUP) == Some(self.epoch) || metrics.dropped(DropReason::Rate) > refused);
        }
        for receiver in 0..self.receivers.len() as u16 {
            for _ in 0..self.packets() {
                let (header, payload) = self.receive(receiver);
                assert_eq!((header.seq, payload.len()), (1, 0));
                assert_eq!(header.is_signed(), self.suite.kind() == Kind::Pk);
                self.check_chain([&header].into_iter());
            }
        }
    }

    /// Number of packets for each request.
    pub fn packets(&self) -> u16 {
        if self.suite.kind() == Kind::Hm { (self.receivers.len() as u16).div_ceil(4) } else { 1 }
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
        assert_eq!((group, epoch, suite), (GROUP, self.epoch, self.suite));
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
        let (mut prev_seq, mut prev_hash) = (0, genesis_hash(CHAIN_ID, GROUP, self.epoch));
        for header in headers.filter(|header| header.suite.kind() == Kind::Pk) {
            assert_eq!((header.prev_seq, header.prev_hash), (prev_seq, prev_hash));
            (prev_seq, prev_hash) = (header.seq, header.hash());
        }
    }
}

/// Waits for another thread.
pub fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLOCK, "the sequencer does nothing");
        std::thread::yield_now();
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
