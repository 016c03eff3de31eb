//! Secrets as text: lower-case hexadecimal, as in key files.

use alloy_primitives::hex;

/// Why a text is not a key. Never contains the text.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SecretError {
    /// Not hexadecimal of exactly this length.
    #[error("secret key: expected {bytes} bytes of hexadecimal")]
    Encoding {
        /// Number of bytes of this kind of key.
        bytes: usize,
    },
    /// Zero, or not below the group order.
    #[error("not a secret key of this curve")]
    OutOfRange,
}

/// Parses exactly `N` bytes, with or without `0x`. Ignores surrounding white space.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Result<[u8; N], SecretError> {
    hex::decode_to_array(text.trim()).map_err(|_| SecretError::Encoding { bytes: N })
}

/// Parses exactly this many bytes, like [`from_hex`].
pub(crate) fn from_hex_of(text: &str, bytes: usize) -> Result<Vec<u8>, SecretError> {
    hex::decode(text.trim()).ok().filter(|decoded| decoded.len() == bytes).ok_or(SecretError::Encoding { bytes })
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    hex::encode(bytes)
}
