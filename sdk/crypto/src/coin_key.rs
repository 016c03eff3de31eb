//! A validator's own key of the coin: other validators encrypt its shares to it.

use crate::{
    bls::BLS_SIGNATURE_BYTES,
    scalar::Scalar,
    secret::{self, SecretError},
};
use blst::min_pk::{PublicKey, SecretKey};
use zeroize::Zeroizing;

/// Bytes of a compressed public coin key.
pub const COIN_KEY_BYTES: usize = BLS_SIGNATURE_BYTES;

/// Seed of a validator's coin key. It outlives every generation of the coin, unlike a [`CoinSecretShare`](crate::CoinSecretShare).
#[derive(Clone)]
pub struct CoinKey(Zeroizing<[u8; 32]>);

impl CoinKey {
    /// The key of 32 secret bytes.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(Zeroizing::new(seed))
    }

    /// Parses the output of [`Self::to_hex`].
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        secret::from_hex(text).map(Self::from_seed)
    }

    /// Returns the seed, for a key file.
    pub fn to_hex(&self) -> String {
        secret::to_hex(&*self.0)
    }

    /// Returns the public key k·g₁, compressed.
    pub fn public(&self) -> [u8; COIN_KEY_BYTES] {
        public_key(self.scalar()).compress()
    }

    pub(crate) fn scalar(&self) -> Scalar {
        let mut hasher = blake3::Hasher::new_derive_key("corniche 2026 coin key");
        Scalar::from_stream(&mut hasher.update(self.seed()).finalize_xof())
    }

    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Multiplies the generator of G1. Constant time.
pub(crate) fn public_key(scalar: Scalar) -> PublicKey {
    let secret = SecretKey::from_bytes(&scalar.to_be_bytes());
    secret.expect("a uniform scalar is zero once in 2^255 seeds").sk_to_pk()
}

impl std::fmt::Debug for CoinKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CoinKey({})", secret::to_hex(&self.public()))
    }
}

/// Returns whether these bytes are a public coin key: a compressed point of G1's prime-order group, not the identity.
pub fn is_coin_key(bytes: &[u8]) -> bool {
    parse_coin_key(bytes).is_some()
}

pub(crate) fn parse_coin_key(bytes: &[u8]) -> Option<PublicKey> {
    // Other lengths would be other encodings.
    let compressed = Some(bytes).filter(|bytes| bytes.len() == COIN_KEY_BYTES)?;
    PublicKey::key_validate(compressed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_keys_are_points() {
        let keys = [0u8, 1, 255].map(|byte| CoinKey::from_seed([byte; 32]));
        for key in &keys {
            assert!(is_coin_key(&key.public()));
            assert_eq!(CoinKey::from_hex(&key.to_hex()).unwrap().public(), key.public());
            assert!(!format!("{key:?}").contains(&key.to_hex()));
        }
        assert_ne!(keys[0].public(), keys[1].public());
    }

    #[test]
    fn other_bytes_are_no_keys() {
        let mut identity = [0u8; COIN_KEY_BYTES];
        identity[0] = 0xc0;
        assert!(!is_coin_key(&identity));
        assert!(!is_coin_key(&[]) && !is_coin_key(&[0x80; 47]) && !is_coin_key(&[0xff; 48]));
        // Uncompressed, of the right group.
        assert!(!is_coin_key(&[0; 96]));
    }
}
