//! Keys and signatures of the suites with a hash chain.

use crate::{AUTHENTICATOR_BYTES, Error, Header, Suite};
use std::fmt;

/// Secret key of a sequencer, for suite 4 or 5.
#[derive(Clone)]
pub enum SigningKey {
    /// Suite 4.
    #[cfg(feature = "ecdsa")]
    Ecdsa(secp256k1::SecretKey),
    /// Suite 5.
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

impl SigningKey {
    /// Takes 32 secret bytes. Fails if the suite has no signatures, is not in this build, or has no such key.
    pub fn from_bytes(suite: Suite, bytes: &[u8; 32]) -> Result<Self, Error> {
        match suite {
            #[cfg(feature = "ecdsa")]
            Suite::Ecdsa => secp256k1::SecretKey::from_secret_bytes(*bytes).map(Self::Ecdsa).map_err(|_| Error::Key(suite)),
            #[cfg(not(feature = "ecdsa"))]
            Suite::Ecdsa => Err(Error::NotBuilt),
            Suite::Ed25519 => Ok(Self::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(bytes)))),
            _ => Err(Error::Key(suite)),
        }
    }

    /// Returns the suite.
    pub fn suite(&self) -> Suite {
        match self {
            #[cfg(feature = "ecdsa")]
            Self::Ecdsa(_) => Suite::Ecdsa,
            Self::Ed25519(_) => Suite::Ed25519,
        }
    }

    /// Returns the public key.
    pub fn verifying_key(&self) -> VerifyingKey {
        match self {
            #[cfg(feature = "ecdsa")]
            Self::Ecdsa(key) => VerifyingKey::Ecdsa(secp256k1::PublicKey::from_secret_key(key)),
            Self::Ed25519(key) => VerifyingKey::Ed25519(key.verifying_key()),
        }
    }

    /// Signs a header hash. Both suites derive the nonce from key and hash: a restart repeats none.
    pub(crate) fn sign(&self, hash: &[u8; 32]) -> [u8; AUTHENTICATOR_BYTES] {
        match self {
            #[cfg(feature = "ecdsa")]
            Self::Ecdsa(key) => key.sign_ecdsa(secp256k1::Message::from_digest(*hash)).serialize_compact(),
            Self::Ed25519(key) => ed25519_dalek::Signer::sign(&**key, hash).to_bytes(),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("suite", &self.suite()).finish_non_exhaustive()
    }
}

/// Public key of a sequencer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyingKey {
    /// Suite 4.
    #[cfg(feature = "ecdsa")]
    Ecdsa(secp256k1::PublicKey),
    /// Suite 5.
    Ed25519(ed25519_dalek::VerifyingKey),
}

impl VerifyingKey {
    /// Takes a public key: 33 bytes (compressed point) for suite 4, 32 for suite 5. Fails as [`SigningKey::from_bytes`], and
    /// for ed25519 keys of low order.
    pub fn from_bytes(suite: Suite, bytes: &[u8]) -> Result<Self, Error> {
        match suite {
            #[cfg(feature = "ecdsa")]
            Suite::Ecdsa => {
                let bytes = bytes.try_into().map_err(|_| Error::Key(suite))?;
                secp256k1::PublicKey::from_byte_array_compressed(bytes).map(Self::Ecdsa).map_err(|_| Error::Key(suite))
            }
            #[cfg(not(feature = "ecdsa"))]
            Suite::Ecdsa => Err(Error::NotBuilt),
            Suite::Ed25519 => {
                let key = ed25519_dalek::VerifyingKey::try_from(bytes).map_err(|_| Error::Key(suite))?;
                if key.is_weak() { Err(Error::Key(suite)) } else { Ok(Self::Ed25519(key)) }
            }
            _ => Err(Error::Key(suite)),
        }
    }

    /// Returns the key as bytes: 33 for suite 4, 32 for suite 5.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            #[cfg(feature = "ecdsa")]
            Self::Ecdsa(key) => key.serialize().to_vec(),
            Self::Ed25519(key) => key.to_bytes().to_vec(),
        }
    }

    /// Returns the suite.
    pub fn suite(&self) -> Suite {
        match self {
            #[cfg(feature = "ecdsa")]
            Self::Ecdsa(_) => Suite::Ecdsa,
            Self::Ed25519(_) => Suite::Ed25519,
        }
    }

    fn verify(&self, hash: &[u8; 32], signature: &[u8; AUTHENTICATOR_BYTES]) -> bool {
        match self {
            // The library refuses the higher `s`, so that nobody can make a second signature from a valid one.
            #[cfg(feature = "ecdsa")]
            Self::Ecdsa(key) => secp256k1::ecdsa::Signature::from_compact(signature)
                .is_ok_and(|signature| key.verify(secp256k1::Message::from_digest(*hash), &signature).is_ok()),
            Self::Ed25519(key) => key.verify_strict(hash, &ed25519_dalek::Signature::from_bytes(signature)).is_ok(),
        }
    }
}

impl Header {
    /// Returns true if a PK header has a signature, which may be invalid.
    pub fn is_signed(&self) -> bool {
        self.suite.kind() == crate::Kind::Pk && self.authenticator != [0; AUTHENTICATOR_BYTES]
    }

    /// Verifies the signature. Fails with [`Error::Unsigned`] if there is none.
    ///
    /// A signature covers the header with its group and epoch, and prev_hash: the signed packet proves all earlier ones to
    /// which the hash chain leads. The chain begins with [`genesis_hash`](crate::genesis_hash), which binds the chain id.
    pub fn verify_signature(&self, key: &VerifyingKey) -> Result<(), Error> {
        if self.suite != key.suite() {
            return Err(Error::Suite { expected: key.suite(), found: self.suite });
        }
        if !self.is_signed() {
            return Err(Error::Unsigned);
        }
        if key.verify(&self.hash(), &self.authenticator) { Ok(()) } else { Err(Error::Signature) }
    }
}
