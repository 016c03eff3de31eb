//! aom sequencer in the kernel: an XDP program that stamps requests before they reach the network stack.
//!
//! Suite 1 (SipHash-2-4) with up to four receivers for each group, because an XDP program sends the packet that it
//! received and no second one with other content. Frames leave unchanged but for the aom header and the UDP checksum, so
//! senders use an address that all receivers accept, such as an IP multicast group.
//!
//! `bpf/aom_core.h` is the whole logic. [`native`] runs it in this process, for tests. With the feature `xdp`, [`loader`]
//! puts it into the kernel. `README.md` beside this crate has limits and measurements.

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
    /// Not aom: left to the kernel.
    Pass = 1,
    /// Dropped, as all below: the datagram is shorter than a header.
    Short = 2,
    /// The payload is longer than 8,800 bytes.
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
}

impl Outcome {
    /// In the order of their values.
    pub const ALL: [Self; 15] = [
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
    ];
}

/// State of a group in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Next sequence number; 0 after the last one.
    pub next: u64,
    pub epoch: u32,
    pub active: bool,
    /// Tag keys by receiver, 1 to [`MAX_RECEIVERS`] of them.
    pub keys: Vec<[u8; 16]>,
}

/// Size of `struct aom_group`.
pub const GROUP_BYTES: usize = 80;

impl Group {
    /// The group as `struct aom_group` in memory. Keys beyond [`MAX_RECEIVERS`] are left out, but counted, so that the program
    /// refuses the group.
    pub fn to_bytes(&self) -> [u8; GROUP_BYTES] {
        let mut bytes = [0; GROUP_BYTES];
        bytes[..8].copy_from_slice(&self.next.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.epoch.to_ne_bytes());
        bytes[12] = u8::try_from(self.keys.len()).unwrap_or(u8::MAX);
        bytes[13] = self.active.into();
        for (place, key) in bytes[16..].chunks_exact_mut(16).zip(&self.keys) {
            place.copy_from_slice(key);
        }
        bytes
    }
}
