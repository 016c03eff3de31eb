//! Secrets as text: lower-case hexadecimal, as key files hold them.

use alloy_primitives::hex;

/// Why text is not a key. Never repeats the text.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SecretError {
    /// Not exactly so many bytes of hexadecimal.
    #[error("a secret key is {bytes} bytes of hexadecimal")]
    Encoding {
        /// How many a key of this kind has.
        bytes: usize,
    },
    /// Zero, or not below the group order.
    #[error("not a secret key of this curve")]
    OutOfRange,
}

/// Reads exactly `N` bytes, with or without `0x`, surrounding white space ignored.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Result<[u8; N], SecretError> {
    hex::decode_to_array(text.trim()).map_err(|_| SecretError::Encoding { bytes: N })
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    hex::encode(bytes)
}
