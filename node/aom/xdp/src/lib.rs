//! aom sequencer in the kernel: an XDP program that stamps requests before they reach the network stack.
//!
//! Suite 1 (SipHash-2-4) with up to four receivers for each group, because an XDP program sends the packet that it
//! received and no second one with other content. Frames leave unchanged but for the aom header, the UDP port and the UDP
//! checksum, so senders use an address that all receivers accept, such as an IP multicast group.
//!
//! `bpf/aom_core.h` is the whole logic. [`native`] runs it in this process, for tests. With the feature `xdp`, [`loader`]
//! puts it into the kernel. `README.md` beside this crate has limits and measurements.

use std::net::{Ipv4Addr, SocketAddrV4};

#[cfg(feature = "xdp")]
pub mod loader;
pub mod native;

/// Receivers of a group, at most.
pub const MAX_RECEIVERS: usize = 4;

/// Result for one frame, as `enum aom_outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Outcome {
    /// Got a number and tags, and went to all ports.
    Stamped = 0,
    /// Left to the kernel: not aom, or the start of an epoch, which is for the control plane.
    Pass = 1,
    /// Dropped, as all below: the datagram is shorter than a header.
    Short = 2,
    /// The payload is longer than the group allows, or than 8,800 bytes.
    Long = 3,
    Magic = 4,
    Version = 5,
    /// Not a request.
    Kind = 6,
    /// The reserved byte is not 0.
    Reserved = 7,
    /// Unknown group.
    Group = 8,
    /// The group has no current epoch.
    Inactive = 9,
    /// The epoch has used all its numbers.
    Exhausted = 10,
    /// IP options.
    Options = 11,
    /// First fragment of a datagram.
    Fragment = 12,
    /// Lengths of IP, UDP and frame contradict each other.
    Length = 13,
    /// Other processors took the number at each of four tries. No number was used.
    Contended = 14,
    /// Not the group's address of requests.
    Address = 15,
}

impl Outcome {
    /// In the order of their values.
    pub const ALL: [Self; 16] = [
        Self::Stamped,
        Self::Pass,
        Self::Short,
        Self::Long,
        Self::Magic,
        Self::Version,
        Self::Kind,
        Self::Reserved,
        Self::Group,
        Self::Inactive,
        Self::Exhausted,
        Self::Options,
        Self::Fragment,
        Self::Length,
        Self::Contended,
        Self::Address,
    ];
}

/// UDP ports of a sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPorts {
    /// Destination of requests.
    pub requests: u16,
    /// Destination that stamped packets get. If it is that of requests, receivers on the host of a sender see its requests, too.
    pub packets: u16,
}

/// Requests that a group accepts. All others get no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRules {
    /// Destination, such as the group's multicast address.
    pub address: Ipv4Addr,
    /// Maximum size of a payload. The program's own limit of 8,800 bytes remains.
    pub max_payload_bytes: u16,
}

/// State of a group in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Next sequence number; 0 after the last one.
    pub next: u64,
    pub epoch: u32,
    pub active: bool,
    pub rules: RequestRules,
    /// Tag keys by receiver, 1 to [`MAX_RECEIVERS`] of them.
    pub keys: Vec<[u8; 16]>,
}

/// Size of `struct aom_group`.
pub const GROUP_BYTES: usize = 88;

impl Group {
    /// The group as `struct aom_group` in memory. Keys beyond [`MAX_RECEIVERS`] are left out, but counted, so that the program
    /// refuses the group.
    pub fn to_bytes(&self) -> [u8; GROUP_BYTES] {
        let mut bytes = [0; GROUP_BYTES];
        bytes[..8].copy_from_slice(&self.next.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.epoch.to_ne_bytes());
        bytes[12] = u8::try_from(self.keys.len()).unwrap_or(u8::MAX);
        bytes[13] = self.active.into();
        bytes[14..16].copy_from_slice(&self.rules.max_payload_bytes.to_ne_bytes());
        bytes[16..20].copy_from_slice(&u32::from(self.rules.address).to_ne_bytes());
        for (place, key) in bytes[24..].chunks_exact_mut(16).zip(&self.keys) {
            place.copy_from_slice(key);
        }
        bytes
    }
}

/// A datagram to a multicast address in UDP, IPv4 and Ethernet, without a UDP checksum.
///
/// # Panics
/// If the datagram does not fit into an IPv4 packet.
pub fn frame(source: Ipv4Addr, destination: SocketAddrV4, datagram: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u16::try_from(bytes).expect("a datagram fits into a packet").to_be_bytes();
    let [_, group @ ..] = destination.ip().octets();
    // RFC 1112, section 6.4: the low 23 bits of the group.
    let mut frame = vec![0x01, 0x00, 0x5E, group[0] & 0x7F, group[1], group[2]];
    frame.extend([2, 0, 0, 0, 0, 1, 0x08, 0x00]);
    let mut ip = vec![0x45, 0];
    ip.extend(length(28 + datagram.len()));
    // No identification, "do not fragment", TTL 1, UDP, and the checksum.
    ip.extend([0, 0, 0x40, 0, 1, 17, 0, 0]);
    ip.extend(source.octets());
    ip.extend(destination.ip().octets());
    let sum: u32 = ip.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let checksum = !((folded & 0xFFFF) + (folded >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(ip);
    frame.extend(destination.port().to_be_bytes());
    frame.extend(destination.port().to_be_bytes());
    frame.extend(length(8 + datagram.len()));
    frame.extend([0, 0]);
    frame.extend(datagram);
    frame
}
