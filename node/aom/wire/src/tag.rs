//! Tag keys of receivers, and tags.

use crate::{AUTHENTICATED_BYTES, Error, Header, Kind, MAX_RECEIVERS, Suite, TAGS_PER_PACKET, halfsip::half_sip_hash};
use hkdf::Hkdf;
use sha2::Sha256;
use siphasher::{sip, sip128};
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Everything that a tag key depends on, beside the shared secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagScope {
    /// Chain of the group.
    pub chain_id: u64,
    /// Group.
    pub group: u32,
    /// Epoch; each one has keys of its own.
    pub epoch: u32,
    /// Index of the receiver in the group, from 0.
    pub receiver: u16,
    /// Suite 1, 2 or 3.
    pub suite: Suite,
}

/// Key of one receiver for the tags of one epoch. The sequencer has the same key.
#[derive(Clone)]
pub struct TagKey {
    scope: TagScope,
    /// Keys of 8 bytes are followed by zeros.
    bytes: Zeroizing<[u8; 16]>,
}

impl TagKey {
    /// Takes a key as bytes. Fails unless the suite has tags, `bytes` has the size of its keys, and the receiver is below 64.
    pub fn from_bytes(scope: TagScope, bytes: &[u8]) -> Result<Self, Error> {
        if scope.suite.kind() != Kind::Hm || bytes.len() != scope.suite.tag_key_bytes() {
            return Err(Error::Key(scope.suite));
        }
        if usize::from(scope.receiver) >= MAX_RECEIVERS {
            return Err(Error::Receivers(usize::from(scope.receiver) + 1));
        }
        let mut key = Zeroizing::new([0; 16]);
        for (to, from) in key.iter_mut().zip(bytes) {
            *to = *from;
        }
        Ok(Self { scope, bytes: key })
    }

    /// Returns the scope.
    pub fn scope(&self) -> &TagScope {
        &self.scope
    }

    /// Returns the key as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.scope.suite.tag_key_bytes()]
    }

    /// Writes the tag of a header; `tag` has the suite's size.
    pub(crate) fn write_tag(&self, authenticated: &[u8; AUTHENTICATED_BYTES], tag: &mut [u8]) {
        match self.scope.suite {
            Suite::SipHash64 => {
                tag.copy_from_slice(&sip::SipHasher24::new_with_key(&self.bytes).hash(authenticated).to_le_bytes());
            }
            Suite::SipHash128 => {
                tag.copy_from_slice(&sip128::SipHasher24::new_with_key(&self.bytes).hash(authenticated).as_bytes());
            }
            Suite::HalfSipHash64 => {
                let [a, b, c, d, e, f, g, h, ..] = *self.bytes;
                tag.copy_from_slice(&half_sip_hash([a, b, c, d, e, f, g, h], authenticated));
            }
            Suite::Ecdsa | Suite::Ed25519 => unreachable!("`from_bytes` refuses suites without tags"),
        }
    }
}

impl fmt::Debug for TagKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagKey").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// Derives the tag key of a receiver from the shared secret of an X25519 exchange ([`ExchangeKey::agree`]).
///
/// HKDF-SHA256 with salt `"corniche/aom/1/key"` and info `chain_id u64 ‖ group u32 ‖ epoch u32 ‖ receiver u16 ‖ suite u8`.
/// Fails as [`TagKey::from_bytes`].
pub fn derive_tag_key(shared_secret: &[u8; 32], scope: TagScope) -> Result<TagKey, Error> {
    let info = [
        &scope.chain_id.to_be_bytes()[..],
        &scope.group.to_be_bytes(),
        &scope.epoch.to_be_bytes(),
        &scope.receiver.to_be_bytes(),
        &[scope.suite as u8],
    ];
    let mut bytes = Zeroizing::new([0; 16]);
    let key = &mut bytes[..scope.suite.tag_key_bytes()];
    let hkdf = Hkdf::<Sha256>::new(Some(b"corniche/aom/1/key"), shared_secret);
    hkdf.expand_multi_info(&info, key).expect("HKDF-SHA256 expands to 16 bytes");
    TagKey::from_bytes(scope, key)
}

/// X25519 secret key of the sequencer or of a receiver. Erased when dropped.
#[derive(Clone)]
pub struct ExchangeKey(x25519_dalek::StaticSecret);

impl ExchangeKey {
    /// Takes 32 secret random bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes.into())
    }

    /// Converts the seed of an ed25519 key, so that a node needs no further key. [`exchange_public`] converts its public key.
    pub fn from_ed25519(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed).to_scalar_bytes().into())
    }

    /// Returns the public key.
    pub fn public(&self) -> [u8; 32] {
        x25519_dalek::PublicKey::from(&self.0).to_bytes()
    }

    /// Returns the secret shared with the owner of the public key `other`. Fails if `other` has low order: anyone could
    /// compute that secret.
    pub fn agree(&self, other: [u8; 32]) -> Result<Zeroizing<[u8; 32]>, Error> {
        let shared = self.0.diffie_hellman(&other.into());
        if shared.was_contributory() { Ok(Zeroizing::new(shared.to_bytes())) } else { Err(Error::LowOrder) }
    }
}

/// Converts an ed25519 public key to the X25519 public key of [`ExchangeKey::from_ed25519`] (RFC 7748, section 4.1, the birational
/// map). Fails if it is no point of the curve.
pub fn exchange_public(ed25519: &[u8; 32]) -> Result<[u8; 32], Error> {
    let key = ed25519_dalek::VerifyingKey::from_bytes(ed25519).map_err(|_| Error::Key(Suite::Ed25519))?;
    Ok(key.to_montgomery().to_bytes())
}

impl fmt::Debug for ExchangeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExchangeKey").finish_non_exhaustive()
    }
}

impl Header {
    /// Verifies the tag of the key's receiver.
    ///
    /// The header must have the key's group, epoch and suite. The caller compares `receivers` with the group's configuration:
    /// the tag proves only that the sequencer wrote it.
    pub fn verify_tag(&self, key: &TagKey) -> Result<(), Error> {
        let TagScope { group, epoch, receiver, suite, .. } = key.scope;
        if self.suite != suite {
            return Err(Error::Suite { expected: suite, found: self.suite });
        }
        if self.group != group {
            return Err(Error::Group { expected: group, found: self.group });
        }
        if self.epoch != epoch {
            return Err(Error::Epoch { expected: epoch, found: self.epoch });
        }
        let (subgroup, position) = (usize::from(receiver) / TAGS_PER_PACKET, usize::from(receiver) % TAGS_PER_PACKET);
        if receiver >= u16::from(self.receivers) || subgroup != usize::from(self.subgroup) {
            return Err(Error::NoTag { receiver, subgroup: self.subgroup, receivers: self.receivers });
        }
        let size = suite.tag_bytes();
        let mut expected = [0; 16];
        key.write_tag(&self.authenticated(), &mut expected[..size]);
        let found = &self.authenticator[position * size..][..size];
        if bool::from(expected[..size].ct_eq(found)) { Ok(()) } else { Err(Error::Tag) }
    }
}
