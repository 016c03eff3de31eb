//! The error type.

use crate::{HEADER_BYTES, MAGIC, MAX_PACKET_BYTES, MAX_PAYLOAD_BYTES, MAX_RECEIVERS, Suite, VERSION};

/// Reason why bytes are not an acceptable packet, or why no packet was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The datagram cannot hold a header.
    #[error("packet: expected at least {HEADER_BYTES} bytes, got {0}")]
    TooShort(usize),
    /// The datagram exceeds the maximum size.
    #[error("packet: expected at most {MAX_PACKET_BYTES} bytes, got {0}")]
    TooLong(usize),
    /// The payload of a new request exceeds the maximum size.
    #[error("payload: expected at most {MAX_PAYLOAD_BYTES} bytes, got {0}; send the digest of the data instead")]
    PayloadTooLong(usize),
    /// The packet is of another protocol.
    #[error("magic: expected {MAGIC:#06x}, got {0:#06x}")]
    Magic(u16),
    /// The packet has another version of the format.
    #[error("version: expected {VERSION}, got {0}")]
    Version(u8),
    /// The kind is unknown, or not the one that is accepted here.
    #[error("kind: expected {expected}, got {found}")]
    Kind {
        /// Names of accepted kinds.
        expected: &'static str,
        /// Byte of the packet.
        found: u8,
    },
    /// No suite has this number.
    #[error("suite: expected 1 to 5, got {0}")]
    UnknownSuite(u8),
    /// The suite belongs to another kind of packets.
    #[error("suite: {suite} does not belong to packets of kind {kind}")]
    SuiteOfOtherKind {
        /// Suite of the packet.
        suite: Suite,
        /// Kind byte of the packet.
        kind: u8,
    },
    /// A byte that is reserved, unused or of the other kind is not zero.
    #[error("{0}: expected zero")]
    NotZero(&'static str),
    /// The number of receivers is out of range.
    #[error("receivers: expected 1 to {MAX_RECEIVERS}, got {0}")]
    Receivers(usize),
    /// The vector has no such subgroup.
    #[error("subgroup: expected less than {subgroups}, got {found}")]
    Subgroup {
        /// Subgroups of the vector.
        subgroups: u8,
        /// Index in the packet.
        found: u8,
    },
    /// Sequence numbers start at 1.
    #[error("seq: expected at least 1, got 0")]
    ZeroSeq,
    /// A packet can only continue an earlier one.
    #[error("prev_seq: expected less than seq {seq}, got {prev_seq}")]
    PrevSeq {
        /// Number of the packet.
        seq: u64,
        /// Number of its predecessor.
        prev_seq: u64,
    },
    /// The digest is not the one of the payload. Receivers treat such a packet as not received (L2).
    #[error("digest: does not match the payload")]
    Digest,
    /// The packet is of another group.
    #[error("group: expected {expected}, got {found}")]
    Group {
        /// Group of the key or stamper.
        expected: u32,
        /// Group of the packet.
        found: u32,
    },
    /// The packet is of another epoch.
    #[error("epoch: expected {expected}, got {found}")]
    Epoch {
        /// Epoch of the key.
        expected: u32,
        /// Epoch of the packet.
        found: u32,
    },
    /// The packet or key is of another suite.
    #[error("suite: expected {expected}, got {found}")]
    Suite {
        /// Suite that is used here.
        expected: Suite,
        /// Suite of the packet or key.
        found: Suite,
    },
    /// The packet has no tag of this receiver.
    #[error("tag: subgroup {subgroup} of {receivers} receivers has no tag of receiver {receiver}")]
    NoTag {
        /// Index of the receiver.
        receiver: u16,
        /// Subgroup of the packet.
        subgroup: u8,
        /// Number of receivers.
        receivers: u8,
    },
    /// The tag does not match.
    #[error("tag: does not match")]
    Tag,
    /// The packet has no signature.
    #[error("signature: the packet is unsigned")]
    Unsigned,
    /// The signature does not match.
    #[error("signature: does not match")]
    Signature,
    /// The bytes are no key of this suite.
    #[error("key: not a key of suite {0}")]
    Key(Suite),
    /// The key of a stamper is for another receiver.
    #[error("keys: expected the key of receiver {expected}, got that of receiver {found}")]
    KeyOrder {
        /// Position in the list.
        expected: u16,
        /// Receiver of the key.
        found: u16,
    },
    /// The other side's exchange key has no contribution to the shared secret.
    #[error("exchange key: the point has low order; get a valid key")]
    LowOrder,
    /// A signature in every zeroth packet is not possible.
    #[error("sign_every: expected at least 1, got 0")]
    SignEvery,
    /// This build has no suite 4.
    #[error("suite: 4 is not in this build; enable the feature `ecdsa`")]
    NotBuilt,
    /// All numbers of the epoch are used.
    #[error("seq: all numbers of epoch {0} are used; start a new epoch")]
    Exhausted(u32),
}
