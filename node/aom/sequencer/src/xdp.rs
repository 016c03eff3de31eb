//! Control of the sequencer in the kernel ([`corniche_aom_xdp`]): epochs, heartbeats and counters.

use crate::{Config, DropReason, Group, Metrics, StartError, XdpConfig, XdpMode, back_end, core::MAX_HEARTBEATS};
use corniche_aom_wire::{Packet, Suite, TagKey, encode_request};
use corniche_aom_xdp::{
    MAX_RECEIVERS, Outcome, RequestRules, UdpPorts, frame,
    loader::{self, LoaderError},
};
use socket2::{InterfaceIndexOrAddress, SockRef};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    time::Duration,
};

/// Time between two reads of the counters.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// Ethernet, IPv4 and UDP.
const FRAME_HEADER_BYTES: usize = 42;

/// The program, and the groups as this thread saw them last.
pub(crate) struct Kernel {
    sequencer: loader::Sequencer,
    /// Sends heartbeats.
    sender: UdpSocket,
    heartbeat_after: Duration,
    groups: BTreeMap<u32, Watched>,
    /// Time of the next look at the groups; `None` before the first epoch.
    next_tick: Option<Duration>,
    next_count: Duration,
    ports: UdpPorts,
    counted: [u64; Outcome::ALL.len()],
}

struct Watched {
    /// Destination of packets.
    packets: SocketAddrV4,
    max_payload_bytes: u16,
    serves: bool,
    /// Number of the next packet, as seen last, and the time when it changed.
    next: u64,
    since: Duration,
    /// Heartbeats since the last request, and how many of them were not seen in `next` yet.
    heartbeats: u8,
    unseen: u64,
}

impl Kernel {
    /// Loads the program and attaches it. `socket` gets the starts of epochs at `port`, so it joins the groups.
    pub fn open(config: &Config, xdp: &XdpConfig, groups: &[Group], socket: &UdpSocket, port: u16) -> Result<Self, StartError> {
        let fail = |text: String| StartError::Config(text);
        let mut watched = BTreeMap::new();
        let mut packets = None;
        for group in groups {
            let address = destination(group).map_err(|text| fail(format!("group {}: {text}", group.group)))?;
            if packets.is_some_and(|port| port != address.port()) {
                return Err(fail(format!("group {}: multicast: expected one port for all groups", group.group)));
            }
            packets = Some(address.port());
            // The limit is at most 8,800: the core refuses others.
            let max_payload_bytes = u16::try_from(group.max_payload_bytes).unwrap_or(u16::MAX);
            watched.insert(group.group, Watched::new(address, max_payload_bytes));
        }
        let ports = UdpPorts { requests: port, packets: packets.unwrap_or(port) };
        if ports.requests == ports.packets {
            return Err(fail("groups.multicast: expected another port than that of `listen`".into()));
        }
        let mut sequencer = loader::Sequencer::load(ports, true).map_err(kernel_error)?;
        let mode = match xdp.mode {
            XdpMode::Native => loader::XdpMode::Driver,
            XdpMode::Generic => loader::XdpMode::Skb,
        };
        let arrival = interface_index(socket, &xdp.interface)?;
        let attached = sequencer.attach(&xdp.interface, mode);
        attached.map_err(|error| fail(format!("xdp.interface {}: {}", xdp.interface, kernel_error(error))))?;
        for group in watched.values() {
            let joined =
                SockRef::from(socket).join_multicast_v4_n(group.packets.ip(), &InterfaceIndexOrAddress::Index(arrival));
            match joined {
                // Two groups may share an address.
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    return Err(StartError::io("join", group.packets)(error));
                }
                _ => {}
            }
        }
        let sender = back_end::socket(IpAddr::V4(Ipv4Addr::UNSPECIFIED), &config.multicast);
        let sender = sender.map_err(StartError::io("open a socket for", "heartbeats"))?;
        let (heartbeat_after, next_count) = (config.timing().heartbeat_after, Duration::ZERO);
        let (groups, counted) = (watched, [0; Outcome::ALL.len()]);
        Ok(Self { sequencer, sender, heartbeat_after, groups, next_tick: None, next_count, ports, counted })
    }

    /// Begins an epoch at number 1. If the kernel refuses it, the group has no epoch.
    pub fn begin(&mut self, now: Duration, group: u32, epoch: u32, keys: &[TagKey]) -> Result<(), LoaderError> {
        let keys: Vec<[u8; 16]> = keys.iter().filter_map(|key| key.as_bytes().try_into().ok()).collect();
        let Some(watched) = self.groups.get_mut(&group) else { return Ok(()) };
        let Watched { packets, max_payload_bytes, .. } = *watched;
        let rules = RequestRules { address: *packets.ip(), max_payload_bytes };
        let begun = self.sequencer.begin_epoch(group, epoch, rules, &keys);
        if begun.is_err() {
            // The old epoch is over in any case.
            self.sequencer.end_epoch(group)?;
        }
        *watched = Watched { serves: begun.is_ok(), since: now, ..Watched::new(packets, max_payload_bytes) };
        self.next_tick = Some(now + self.heartbeat_after);
        begun
    }

    /// Sends a heartbeat (Q4). The program stamps it without an interface, because the system accepts no frame for one.
    pub fn heartbeat(&mut self, group: u32) {
        let Some(watched) = self.groups.get_mut(&group).filter(|group| group.serves) else { return };
        let Ok(request) = encode_request(group, b"") else { return };
        let requests = SocketAddrV4::new(*watched.packets.ip(), self.ports.requests);
        let Ok((_, frame, _)) = self.sequencer.test_run(&frame(Ipv4Addr::UNSPECIFIED, requests, &request)) else { return };
        // Without a number left, the request is as it was.
        let Some(packet) = frame.get(FRAME_HEADER_BYTES..).filter(|packet| Packet::decode(packet).is_ok()) else { return };
        watched.heartbeats = watched.heartbeats.saturating_add(1);
        watched.unseen += 1;
        // A packet that the system refuses is a lost one.
        let _ = self.sender.send_to(packet, watched.packets);
    }

    /// Returns the time of the next [`Self::tick`].
    pub fn deadline(&self) -> Option<Duration> {
        self.next_tick
    }

    /// Looks at each group, sends the heartbeats that are due, and counts.
    pub fn tick(&mut self, now: Duration, metrics: &Metrics) {
        if self.next_tick.is_none_or(|next| now < next) {
            return;
        }
        self.next_tick = Some(now + self.heartbeat_after);
        let mut quiet = Vec::new();
        for (number, group) in self.groups.iter_mut().filter(|(_, group)| group.serves) {
            let next = match self.sequencer.next(*number) {
                Ok(Some(next)) => next,
                Ok(None) => {
                    // No number is left, so nothing can follow.
                    metrics.count_kernel(*number, u64::MAX, 0, 0);
                    continue;
                }
                Err(_) => continue,
            };
            let new = next.saturating_sub(group.next);
            if new > 0 {
                let heartbeats = group.unseen.min(new);
                if new > heartbeats {
                    group.heartbeats = 0;
                }
                metrics.count_kernel(*number, next - 1, new - heartbeats, heartbeats);
                (group.next, group.since, group.unseen) = (next, now, 0);
            } else if group.heartbeats < MAX_HEARTBEATS && now >= group.since + self.heartbeat_after {
                quiet.push(*number);
            }
        }
        for group in quiet {
            self.heartbeat(group);
        }
        if now >= self.next_count {
            self.next_count = now + COUNT_INTERVAL;
            self.count(metrics);
        }
    }

    fn count(&mut self, metrics: &Metrics) {
        let Ok(outcomes) = self.sequencer.outcomes() else { return };
        for (outcome, (counted, total)) in Outcome::ALL.into_iter().zip(self.counted.iter_mut().zip(outcomes)) {
            // The daemon counts what reaches its socket, and the rest of `Pass` is not aom.
            if outcome != Outcome::Pass {
                metrics.count_frames(drop_reason(outcome), total - *counted);
            }
            *counted = total;
        }
    }
}

impl Watched {
    fn new(packets: SocketAddrV4, max_payload_bytes: u16) -> Self {
        Self { packets, max_payload_bytes, serves: false, next: 1, since: Duration::ZERO, heartbeats: 0, unseen: 0 }
    }
}

/// Returns the multicast address of a group that the program can serve.
fn destination(group: &Group) -> Result<SocketAddrV4, String> {
    if group.suite != Suite::SipHash64 {
        return Err(format!("the back end \"xdp\" needs suite 1, and the genesis has suite {}", group.suite));
    }
    let receivers = group.exchange_keys.len();
    if receivers > MAX_RECEIVERS {
        return Err(format!("the back end \"xdp\" serves at most {MAX_RECEIVERS} receivers, and the genesis has {receivers}"));
    }
    match group.destinations[..] {
        [SocketAddr::V4(address)] if address.ip().is_multicast() => Ok(address),
        _ => Err("multicast: expected an IPv4 multicast address for the back end \"xdp\"".into()),
    }
}

fn interface_index(socket: &UdpSocket, name: &str) -> Result<u32, StartError> {
    rustix::net::netdevice::name_to_index(socket, name)
        .map_err(|error| StartError::io("find the network interface", name)(error.into()))
}

fn kernel_error(error: LoaderError) -> StartError {
    StartError::Config(format!("back end \"xdp\": {error}; it needs root on Linux, or CAP_BPF and CAP_NET_ADMIN"))
}

/// Returns the reason of a drop, as the software sequencer names it.
fn drop_reason(outcome: Outcome) -> Option<DropReason> {
    Some(match outcome {
        Outcome::Stamped | Outcome::Pass => return None,
        Outcome::Short => DropReason::Short,
        Outcome::Long => DropReason::Long,
        Outcome::Magic => DropReason::Magic,
        Outcome::Version => DropReason::Version,
        Outcome::Kind => DropReason::Kind,
        Outcome::Reserved => DropReason::Reserved,
        Outcome::Group => DropReason::Group,
        Outcome::Inactive => DropReason::Standby,
        Outcome::Exhausted => DropReason::Exhausted,
        Outcome::Options | Outcome::Fragment | Outcome::Length => DropReason::Frame,
        Outcome::Contended => DropReason::Contended,
        Outcome::Address => DropReason::Address,
    })
}
