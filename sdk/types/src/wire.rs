//! Our own bytes on the wire and on disk: one version byte, then strict borsh with nothing after it.

use borsh::{BorshDeserialize, BorshSerialize};

/// Version written in front of every encoding of our own.
pub const VERSION: u8 = 1;

/// Why bytes are not an encoding of ours.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    /// The version byte is missing or of a version this build does not read.
    #[error("encoding version {found:?}, this build reads {VERSION}")]
    Version {
        /// The first byte; `None`: there is not one.
        found: Option<u8>,
    },
    /// The body is not the expected structure, or bytes follow it.
    #[error("malformed encoding: {0}")]
    Malformed(String),
}

/// Encodes `value` behind the version byte.
pub fn encode<T: BorshSerialize>(value: &T) -> Vec<u8> {
    // Counted first: growing into a full block copies it several times over.
    let length = borsh::object_length(value).expect("counting cannot fail");
    let mut out = Vec::with_capacity(1 + length);
    out.push(VERSION);
    value.serialize(&mut out).expect("writing into memory cannot fail");
    out
}

/// Decodes exactly one `T`; trailing bytes are an error.
pub fn decode<T: BorshDeserialize>(bytes: &[u8]) -> Result<T, WireError> {
    match bytes.split_first() {
        Some((&VERSION, body)) => T::try_from_slice(body).map_err(|error| WireError::Malformed(error.to_string())),
        other => Err(WireError::Version { found: other.map(|(version, _)| *version) }),
    }
}
