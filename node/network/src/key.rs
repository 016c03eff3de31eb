//! Identity of a peer: its ed25519 key, proven by the noise or TLS handshake.

use corniche_types::B256;
use libp2p::{Multiaddr, PeerId, identity::Keypair, multiaddr::Protocol, multihash::Multihash};
use std::{fmt, str::FromStr};

/// Identity multihash: the digest is the encoded key itself.
const IDENTITY_HASH: u64 = 0;

/// Prefix of libp2p's protobuf `PublicKey` before the key: field 1 (type) = 1 (ed25519), field 2 (data) of 32
/// bytes.
const ED25519_PREFIX: [u8; 4] = [0x08, 0x01, 0x12, 0x20];

/// Identity of a peer: its 32-byte ed25519 public key. For a validator this is the genesis' `network_key`.
///
/// Displayed as libp2p's peer id (`12D3Koo…`), an encoding of the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey(pub B256);

impl PeerKey {
    /// Peer id of this key. Bytes that are no curve point have one too, but no peer can prove it.
    pub fn to_peer_id(self) -> PeerId {
        let mut encoded = [0u8; 36];
        encoded[..4].copy_from_slice(&ED25519_PREFIX);
        encoded[4..].copy_from_slice(self.0.as_slice());
        let hash = Multihash::wrap(IDENTITY_HASH, &encoded).expect("36 bytes fit a 64-byte multihash");
        PeerId::from_multihash(hash).expect("a peer id may be an identity multihash of up to 42 bytes")
    }

    /// `None` if the peer id is not that of an ed25519 key.
    pub fn from_peer_id(peer_id: &PeerId) -> Option<Self> {
        let hash = peer_id.as_ref();
        if hash.code() != IDENTITY_HASH {
            return None;
        }
        let key = hash.digest().strip_prefix(&ED25519_PREFIX)?;
        (key.len() == 32).then(|| Self(B256::from_slice(key)))
    }
}

impl From<B256> for PeerKey {
    fn from(key: B256) -> Self {
        Self(key)
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_peer_id().fmt(f)
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reason why a text is not a [`PeerKey`] or a [`PeerAddress`].
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    #[error("{text:?} is not a peer id: {reason}")]
    PeerId { text: String, reason: String },
    #[error("{text:?} is not a multiaddr: {reason}")]
    Multiaddr { text: String, reason: String },
    /// The address lacks the identity of the expected peer.
    #[error("the address {text:?} does not end in /p2p/<peer id>")]
    MissingPeerId { text: String },
    #[error("the key of peer {text} is not ed25519")]
    NotEd25519 { text: String },
}

impl FromStr for PeerKey {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let peer_id =
            PeerId::from_str(text).map_err(|error| AddressError::PeerId { text: text.into(), reason: error.to_string() })?;
        Self::from_peer_id(&peer_id).ok_or_else(|| AddressError::NotEd25519 { text: text.into() })
    }
}

/// Address of a peer with its identity, written as a multiaddr that ends with `/p2p/<peer id>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    pub key: PeerKey,
    /// Without the `/p2p` part.
    pub address: Multiaddr,
}

impl FromStr for PeerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut address = Multiaddr::from_str(text)
            .map_err(|error| AddressError::Multiaddr { text: text.into(), reason: error.to_string() })?;
        let Some(Protocol::P2p(peer_id)) = address.pop() else {
            return Err(AddressError::MissingPeerId { text: text.into() });
        };
        let key = PeerKey::from_peer_id(&peer_id).ok_or_else(|| AddressError::NotEd25519 { text: peer_id.to_string() })?;
        Ok(Self { key, address })
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/p2p/{}", self.address, self.key)
    }
}

/// Secret key with which a node proves its [`PeerKey`].
#[derive(Clone)]
pub struct NetworkIdentity {
    keypair: Keypair,
    key: PeerKey,
}

impl NetworkIdentity {
    /// Identity with the ed25519 secret `seed`.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let keypair = Keypair::ed25519_from_bytes(seed).expect("every 32 bytes are an ed25519 seed");
        let key = PeerKey::from_peer_id(&keypair.public().to_peer_id()).expect("the key is ed25519");
        Self { keypair, key }
    }

    pub fn key(&self) -> PeerKey {
        self.key
    }

    pub(crate) fn keypair(&self) -> &Keypair {
        &self.keypair
    }
}

/// Never prints the secret.
impl fmt::Debug for NetworkIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkIdentity({})", self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_key_and_peer_id_convert() {
        let identity = NetworkIdentity::from_seed([7; 32]);
        assert_eq!(identity.key().to_peer_id(), identity.keypair().public().to_peer_id());
        assert_eq!(identity.key().to_string().parse(), Ok(identity.key()));
        assert!(identity.key().to_string().starts_with("12D3Koo"));
    }

    #[test]
    fn debug_output_hides_secret() {
        assert!(!format!("{:?}", NetworkIdentity::from_seed([7; 32])).contains("07070707"));
    }

    #[test]
    fn address_has_location_and_peer() {
        let key = NetworkIdentity::from_seed([7; 32]).key();
        let text = format!("/ip4/127.0.0.1/tcp/9000/p2p/{key}");
        let parsed: PeerAddress = text.parse().expect("valid");
        assert_eq!((parsed.key, parsed.address.to_string().as_str()), (key, "/ip4/127.0.0.1/tcp/9000"));
        assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn invalid_addresses_are_explained() {
        let parse = |text: &str| text.parse::<PeerAddress>().expect_err("invalid");
        assert!(matches!(parse("/ip4/127.0.0.1/tcp/9000"), AddressError::MissingPeerId { .. }));
        assert!(matches!(parse("nonsense"), AddressError::Multiaddr { .. }));
        let rsa = "QmcgpsyWgH8Y8ajJz1Cu72KnS5uo2Aa2LpzU7kinSupNKC";
        assert!(matches!(parse(&format!("/ip4/127.0.0.1/tcp/1/p2p/{rsa}")), AddressError::NotEd25519 { .. }));
        assert!(matches!("x".parse::<PeerKey>(), Err(AddressError::PeerId { .. })));
    }
}
