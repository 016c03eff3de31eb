//! The chain's own encoding for network and disk: one version byte, then strict borsh without trailing bytes.

use borsh::{BorshDeserialize, BorshSerialize};
use std::io::{self, Read};

/// Version at the start of every encoding.
pub const VERSION: u8 = 1;

/// Why bytes are not a valid encoding.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    /// The version byte is missing, or the version is not supported.
    #[error("expected encoding version {VERSION}, got {found:?}")]
    Version {
        /// The first byte; `None` if there are no bytes.
        found: Option<u8>,
    },
    /// The body does not have the expected structure, or has trailing bytes.
    #[error("malformed encoding: {0}")]
    Malformed(String),
}

/// Encodes `value` after the version byte.
pub fn encode<T: BorshSerialize>(value: &T) -> Vec<u8> {
    // Compute the length first: a growing buffer would copy a full block several times.
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

/// Decodes a list of at most `MAX` elements, for `#[borsh(deserialize_with)]`. A longer list is refused before its elements
/// are read, because they may take much more memory than bytes.
pub fn at_most<const MAX: usize, T: BorshDeserialize, R: Read>(reader: &mut R) -> io::Result<Vec<T>> {
    let count = u32::deserialize_reader(reader)?;
    if count as usize > MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("list: expected at most {MAX} elements, got {count}")));
    }
    (0..count).map(|_| T::deserialize_reader(reader)).collect()
}
