//! Sends stamped packets to the receivers.

use crate::{MulticastConfig, Outbox, StartError};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{SendFlags, sendto},
};
use serde::Deserialize;
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

/// Time without progress for which a full send buffer may block the writer, in each batch.
const SEND_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// How packets are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackEnd {
    /// One datagram for each receiver and packet.
    #[default]
    Unicast,
    /// One datagram for each packet, to the group's multicast address: switches copy it.
    Multicast,
    /// One system call for up to 64 packets (UDP_SEGMENT), to the group's multicast address, or else to each receiver.
    /// Linux only.
    Gso,
    /// An XDP program stamps and sends in the kernel, before the network stack. Linux, suite 1, up to four receivers; as root,
    /// in builds with the feature `xdp`.
    Xdp,
}

/// Addresses to which each packet of a group goes.
pub(crate) type Destinations = Vec<SocketAddr>;

/// Numbers of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Datagrams that were passed to the system.
    pub datagrams: u64,
    /// Datagrams that the system refused.
    pub errors: u64,
    /// Datagrams that were sent one by one because the system refused to segment them.
    pub fallbacks: u64,
    /// A send buffer stayed full for [`SEND_TIMEOUT`]. The rest of the batch does not wait.
    is_stuck: bool,
}

/// Sockets and destinations of all groups.
#[derive(Debug)]
pub(crate) struct Sender {
    back_end: BackEnd,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    destinations: BTreeMap<u32, Destinations>,
}

impl Sender {
    /// Opens sockets for the families of the destinations. Packets come from the address `source` if it has their family.
    pub fn open(
        back_end: BackEnd,
        destinations: Vec<(u32, Destinations)>,
        source: IpAddr,
        multicast: &MulticastConfig,
    ) -> Result<Self, StartError> {
        let destinations: BTreeMap<_, _> = destinations.into_iter().collect();
        let has = |is_v4: bool| destinations.values().flatten().any(|address| address.is_ipv4() == is_v4);
        let open = |is_v4: bool| {
            let any = if is_v4 { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
            let source = if source.is_ipv4() == is_v4 { source } else { any };
            socket(source, multicast).map_err(StartError::io("open a socket for sending from", source))
        };
        let v4 = has(true).then(|| open(true)).transpose()?;
        let v6 = has(false).then(|| open(false)).transpose()?;
        Ok(Self { back_end, v4, v6, destinations })
    }

    /// Sends all packets, and passes the numbers of each run to `sent`. An error affects its own datagram only.
    pub fn send(&self, outbox: &Outbox, mut sent: impl FnMut(u32, Sent)) {
        let mut is_stuck = false;
        for (run, bytes) in outbox.runs() {
            let mut numbers = Sent { is_stuck, ..Sent::default() };
            for destination in self.destinations.get(&run.group).into_iter().flatten() {
                let socket = if destination.is_ipv4() { &self.v4 } else { &self.v6 };
                let Some(socket) = socket else { continue };
                match self.back_end {
                    BackEnd::Unicast | BackEnd::Multicast => {
                        send_each(socket, bytes, run.packet_bytes, *destination, &mut numbers)
                    }
                    // The kernel sends for `Xdp`, so it has no sender.
                    BackEnd::Gso | BackEnd::Xdp => send_segments(socket, bytes, run.packet_bytes, *destination, &mut numbers),
                }
            }
            is_stuck = numbers.is_stuck;
            sent(run.group, numbers);
        }
    }
}

/// Opens a socket for sending.
pub(crate) fn socket(source: IpAddr, multicast: &MulticastConfig) -> io::Result<UdpSocket> {
    let socket = Socket::new(if source.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 }, Type::DGRAM, Some(Protocol::UDP))?;
    // The system caps the size; a smaller buffer only blocks sooner.
    let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
    if source.is_ipv4() {
        socket.set_multicast_ttl_v4(multicast.ttl)?;
        if let Some(interface) = &multicast.interface {
            socket.set_multicast_if_v4(interface)?;
        }
    } else {
        socket.set_multicast_hops_v6(multicast.ttl)?;
    }
    socket.bind(&SocketAddr::new(source, 0).into())?;
    Ok(socket.into())
}

fn send_each(socket: &UdpSocket, bytes: &[u8], packet_bytes: usize, destination: SocketAddr, sent: &mut Sent) {
    for packet in bytes.chunks(packet_bytes) {
        match send(socket, packet, destination, &mut sent.is_stuck) {
            Ok(()) => sent.datagrams += 1,
            Err(_) => sent.errors += 1,
        }
    }
}

/// Sends one datagram, or several segments.
fn send(socket: &UdpSocket, bytes: &[u8], destination: SocketAddr, is_stuck: &mut bool) -> Result<(), Errno> {
    loop {
        match sendto(socket, bytes, SendFlags::DONTWAIT, &destination) {
            Err(Errno::AGAIN) if !*is_stuck => {
                *is_stuck = poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&SEND_TIMEOUT)) == Ok(0);
            }
            Err(Errno::INTR) => {}
            result => return result.map(|_| ()),
        }
    }
}

/// Sends packets of one size with one call for each part that the system accepts.
fn send_segments(socket: &UdpSocket, bytes: &[u8], packet_bytes: usize, destination: SocketAddr, sent: &mut Sent) {
    /// UDP_MAX_SEGMENTS of old kernels.
    const MAX_SEGMENTS: usize = 64;
    /// Payload of the largest IPv4 datagram.
    const MAX_BYTES: usize = 65_507;

    let part_bytes = (MAX_BYTES / packet_bytes).clamp(1, MAX_SEGMENTS) * packet_bytes;
    for part in bytes.chunks(part_bytes) {
        let packets = (part.len() / packet_bytes) as u64;
        if packets > 1 && set_segment_bytes(socket, packet_bytes as u16).is_ok() {
            let result = send(socket, part, destination, &mut sent.is_stuck);
            let reset = set_segment_bytes(socket, 0);
            debug_assert!(reset.is_ok(), "zero is valid if another size was: {reset:?}");
            match result {
                Ok(()) => sent.datagrams += packets,
                Err(Errno::AGAIN) => sent.errors += packets,
                // A segment exceeds the MTU, or the system cannot segment.
                Err(_) => {
                    sent.fallbacks += packets;
                    send_each(socket, part, packet_bytes, destination, sent);
                }
            }
            continue;
        }
        // A single packet needs no segments, and old systems have none.
        if packets > 1 {
            sent.fallbacks += packets;
        }
        send_each(socket, part, packet_bytes, destination, sent);
    }
}

/// Makes the system split later datagrams into segments of this size; 0 ends it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "neither the standard library nor rustix or socket2 knows UDP_SEGMENT")]
fn set_segment_bytes(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let value = libc::c_int::from(bytes);
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is open while `socket` is borrowed, and the system reads `size` bytes of `value`.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const value).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn set_segment_bytes(_: &UdpSocket, _: u16) -> io::Result<()> {
    // `Config` refuses this back end here.
    Err(io::ErrorKind::Unsupported.into())
}
