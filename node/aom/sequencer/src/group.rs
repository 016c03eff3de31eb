//! One group, as its genesis and the sequencer's key define it.

use crate::StartError;
use corniche_aom_wire::{
    Error, ExchangeKey, Kind, MAX_PAYLOAD_BYTES, MAX_RECEIVERS, SigningKey, Stamper, Suite, TagKey, TagScope, derive_tag_key,
};
use std::{fmt, net::SocketAddr};
use zeroize::Zeroizing;

const MAX_DESTINATIONS: usize = 256;

/// Checks the certificate of an epoch above 0: true if the receivers' quorum agreed to begin exactly this epoch. It runs on the
/// writer thread, so it must not block.
pub type Authority = Box<dyn Fn(u32, &[u8]) -> bool + Send>;

/// A group, with everything that its genesis defines.
pub struct Group {
    /// Chain of the group.
    pub chain_id: u64,
    /// Number of the group; unique in a sequencer, because requests do not name their chain.
    pub group: u32,
    /// Suite, except 3.
    pub suite: Suite,
    /// Number of sequencers in the genesis, at least 1. Sequencer e mod their number serves epoch e.
    pub sequencers: u32,
    /// Position of this sequencer among them, from 0.
    pub index: u32,
    /// Secret key, see [`public_key`].
    pub secret: Zeroizing<[u8; 32]>,
    /// X25519 public keys of the receivers by index, 1 to 64; empty for suites with signatures.
    pub exchange_keys: Vec<[u8; 32]>,
    /// Maximum size of a payload in bytes, up to 8,800.
    pub max_payload_bytes: usize,
    /// Addresses to which each packet goes, 1 to 256: a multicast address, or that of each receiver.
    pub destinations: Vec<SocketAddr>,
    /// Checks certificates of epochs.
    pub authority: Authority,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain_id, group, suite, sequencers, index, .. } = self;
        let fields = (chain_id, group, suite, sequencers, index);
        f.debug_tuple("Group").field(&fields).finish_non_exhaustive()
    }
}

/// Returns the public key of a sequencer's 32 secret bytes: X25519 for suites with tags, else the key that verifies signatures (33 bytes
/// for suite 4, 32 for suite 5). Fails if the suite has no such key.
pub fn public_key(suite: Suite, secret: &[u8; 32]) -> Result<Vec<u8>, Error> {
    match suite.kind() {
        Kind::Hm => Ok(ExchangeKey::from_bytes(*secret).public().to_vec()),
        Kind::Pk => Ok(SigningKey::from_bytes(suite, secret)?.verifying_key().to_bytes()),
    }
}

/// Keys of a group, checked. They make the stamper of any epoch.
#[derive(Debug)]
pub(crate) struct Keys {
    chain_id: u64,
    group: u32,
    authenticator: Authenticator,
}

#[derive(Debug)]
enum Authenticator {
    /// Secrets shared with the receivers. An exchange is slow, so it is done once.
    Hm {
        suite: Suite,
        shared: Vec<Zeroizing<[u8; 32]>>,
    },
    Pk {
        key: SigningKey,
        sign_every: u32,
    },
}

impl Group {
    /// Checks all fields and returns the keys.
    pub(crate) fn keys(&self, sign_every: u32) -> Result<Keys, StartError> {
        let Self { chain_id, group, suite, .. } = *self;
        let fail = |text: String| Err(StartError::Config(format!("group {group}: {text}")));
        if suite == Suite::HalfSipHash64 {
            return fail("suite 3 has keys of 8 bytes and is only for switches; use suite 1 or 2, and new keys".into());
        }
        if self.index >= self.sequencers {
            return fail(format!("index: expected less than {} sequencers, got {}", self.sequencers, self.index));
        }
        if self.max_payload_bytes > MAX_PAYLOAD_BYTES {
            return fail(format!("max_payload_bytes: expected at most {MAX_PAYLOAD_BYTES}, got {}", self.max_payload_bytes));
        }
        if !(1..=MAX_DESTINATIONS).contains(&self.destinations.len()) {
            return fail(format!("receivers: expected 1 to {MAX_DESTINATIONS} addresses, got {}", self.destinations.len()));
        }
        let receivers = self.exchange_keys.len();
        let authenticator = match suite.kind() {
            Kind::Hm => {
                if !(1..=MAX_RECEIVERS).contains(&receivers) {
                    return fail(format!("receivers: expected 1 to {MAX_RECEIVERS} keys for suite {suite}, got {receivers}"));
                }
                let own = ExchangeKey::from_bytes(*self.secret);
                let mut shared = Vec::new();
                for (index, public) in self.exchange_keys.iter().enumerate() {
                    match own.agree(*public) {
                        Ok(secret) => shared.push(secret),
                        Err(error) => return fail(format!("receiver {index}: {error}")),
                    }
                }
                Authenticator::Hm { suite, shared }
            }
            Kind::Pk => match SigningKey::from_bytes(suite, &self.secret) {
                Ok(key) => Authenticator::Pk { key, sign_every },
                Err(error) => return fail(error.to_string()),
            },
        };
        Ok(Keys { chain_id, group, authenticator })
    }
}

impl Keys {
    /// Makes the stamper of an epoch.
    pub fn stamper(&self, epoch: u32) -> Result<Stamper, Error> {
        let Self { chain_id, group, .. } = *self;
        match &self.authenticator {
            Authenticator::Hm { suite, shared } => Stamper::hm(self.derive(*suite, shared, epoch)?),
            Authenticator::Pk { key, sign_every } => Stamper::pk(chain_id, group, epoch, key.clone(), *sign_every),
        }
    }

    /// Returns the tag keys of an epoch by receiver; `None` for suites with signatures.
    pub fn tag_keys(&self, epoch: u32) -> Option<Vec<TagKey>> {
        match &self.authenticator {
            Authenticator::Hm { suite, shared } => self.derive(*suite, shared, epoch).ok(),
            Authenticator::Pk { .. } => None,
        }
    }

    fn derive(&self, suite: Suite, shared: &[Zeroizing<[u8; 32]>], epoch: u32) -> Result<Vec<TagKey>, Error> {
        let Self { chain_id, group, .. } = *self;
        let key = |(receiver, shared): (u16, &Zeroizing<[u8; 32]>)| {
            derive_tag_key(shared, TagScope { chain_id, group, epoch, receiver, suite })
        };
        (0..).zip(shared).map(key).collect()
    }
}
