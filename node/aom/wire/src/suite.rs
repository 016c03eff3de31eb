//! Suites: kinds of authenticators.

use crate::Error;
use std::fmt;

/// Kind of a stamped packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// One keyed hash for each receiver.
    Hm = 1,
    /// Signatures and a hash chain.
    Pk = 2,
}

/// Kind byte of a packet that no sequencer has stamped.
pub(crate) const KIND_REQUEST: u8 = 0;
/// Kind of a request to begin an epoch.
pub(crate) const KIND_START: u8 = 3;

/// Algorithm of the authenticator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Suite {
    /// Tags of 8 bytes: SipHash-2-4 with 64 bits. Keys of 16 bytes.
    SipHash64 = 1,
    /// Tags of 16 bytes: SipHash-2-4 with 128 bits. Keys of 16 bytes.
    SipHash128 = 2,
    /// Tags of 8 bytes: HalfSipHash-2-4 with 64 bits. Keys of 8 bytes, which is weak: only for switches with 32-bit units.
    HalfSipHash64 = 3,
    /// ECDSA on secp256k1 over the header hash: r, then s, which is the lower one of both.
    Ecdsa = 4,
    /// Ed25519 over the header hash.
    Ed25519 = 5,
}

impl Suite {
    /// All suites, by number.
    pub const ALL: [Self; 5] = [Self::SipHash64, Self::SipHash128, Self::HalfSipHash64, Self::Ecdsa, Self::Ed25519];

    /// Returns the kind of packets with this suite.
    pub const fn kind(self) -> Kind {
        match self {
            Self::SipHash64 | Self::SipHash128 | Self::HalfSipHash64 => Kind::Hm,
            Self::Ecdsa | Self::Ed25519 => Kind::Pk,
        }
    }

    /// Returns the size of one tag in bytes; 0 for signatures.
    pub const fn tag_bytes(self) -> usize {
        match self {
            Self::SipHash64 | Self::HalfSipHash64 => 8,
            Self::SipHash128 => 16,
            Self::Ecdsa | Self::Ed25519 => 0,
        }
    }

    /// Returns the size of a tag key in bytes; 0 for signatures.
    pub const fn tag_key_bytes(self) -> usize {
        match self {
            Self::SipHash64 | Self::SipHash128 => 16,
            Self::HalfSipHash64 => 8,
            Self::Ecdsa | Self::Ed25519 => 0,
        }
    }
}

impl TryFrom<u8> for Suite {
    type Error = Error;

    fn try_from(byte: u8) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|suite| *suite as u8 == byte).ok_or(Error::UnknownSuite(byte))
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::SipHash64 => "SipHash-2-4",
            Self::SipHash128 => "SipHash-2-4-128",
            Self::HalfSipHash64 => "HalfSipHash-2-4",
            Self::Ecdsa => "ECDSA secp256k1",
            Self::Ed25519 => "ed25519",
        };
        write!(f, "{} ({name})", *self as u8)
    }
}
