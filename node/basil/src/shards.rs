//! Shards, their replicas, and the quorum sizes by name (§1.3).

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{Address, B256, Bytes, wire};

/// Number of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct ShardId(pub u16);

/// A replica: its shard, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct ReplicaId {
    pub shard: ShardId,
    pub member: u16,
}

/// A client. Its name is its ed25519 public key.
pub type ClientId = B256;

/// One item of an account: the account itself, its code, or a storage slot. All items of an account are on one shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Key {
    pub account: Address,
    /// Name of the item within the account, at most [`MAX_ITEM_BYTES`] bytes. The protocol does not interpret it.
    pub item: Bytes,
}

/// Maximum length of [`Key::item`].
pub const MAX_ITEM_BYTES: usize = 64;
/// Maximum number of shards.
pub const MAX_SHARDS: usize = 64;
/// Maximum f.
pub const MAX_FAULTY: usize = 33;

/// The replicas of all shards in one configuration epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    faulty: usize,
    members: Vec<Vec<B256>>,
    hash: B256,
}

/// Why a list of replicas is not a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardsError {
    #[error("shards: expected 1 to {MAX_SHARDS}, got {0}")]
    Count(usize),
    #[error("shard {shard}: expected 5f + 1 = {expected} replicas, got {got}")]
    Members { shard: usize, expected: usize, got: usize },
    #[error("faulty replicas per shard: expected 0 to {MAX_FAULTY}, got {0}")]
    Faulty(usize),
    #[error("replica key {0} is used twice")]
    Repeated(B256),
}

impl Shards {
    /// Public keys of each shard's 5f + 1 replicas.
    ///
    /// # Errors
    /// A count is out of range, or a key is used twice.
    pub fn new(chain_id: u64, epoch: u64, faulty: usize, members: Vec<Vec<B256>>) -> Result<Self, ShardsError> {
        if members.is_empty() || members.len() > MAX_SHARDS {
            return Err(ShardsError::Count(members.len()));
        }
        if faulty > MAX_FAULTY {
            return Err(ShardsError::Faulty(faulty));
        }
        let expected = 5 * faulty + 1;
        let mut seen = std::collections::BTreeSet::new();
        for (shard, keys) in members.iter().enumerate() {
            if keys.len() != expected {
                return Err(ShardsError::Members { shard, expected, got: keys.len() });
            }
            if let Some(key) = keys.iter().find(|key| !seen.insert(**key)) {
                return Err(ShardsError::Repeated(*key));
            }
        }
        let hash = digest_of("corniche-basil-shards", &(chain_id, epoch, faulty as u64, &members));
        Ok(Self { faulty, members, hash })
    }

    /// Part of every digest that is signed, so that a signature is valid in one chain and configuration only.
    pub fn hash(&self) -> B256 {
        self.hash
    }

    /// n = 5f + 1: replicas of a shard. All of them commit on the fast path: another client that misses f and hears f
    /// liars still sees a commit quorum.
    pub fn all(&self) -> usize {
        5 * self.faulty + 1
    }

    /// 4f + 1: most replicas that a client can wait for. A decision is logged by as many.
    pub fn reachable(&self) -> usize {
        4 * self.faulty + 1
    }

    /// 3f + 1: votes that commit on the slow path. Two such quorums share a correct replica.
    pub fn commit_quorum(&self) -> usize {
        3 * self.faulty + 1
    }

    /// 3f + 1: votes that abort on the fast path. No commit quorum can form beside them.
    pub fn fast_abort(&self) -> usize {
        3 * self.faulty + 1
    }

    /// f + 1: votes that abort on the slow path. One of them is correct.
    pub fn abort_quorum(&self) -> usize {
        self.faulty + 1
    }

    /// f + 1: fewest replicas of which one is correct.
    pub fn validity(&self) -> usize {
        self.faulty + 1
    }

    /// 3f + 1: of as many views, 2f + 1 are of correct replicas (rule R1 of F4).
    pub fn view_quorum(&self) -> usize {
        3 * self.faulty + 1
    }

    /// 2f + 1: replicas that a client asks for a value, so that f + 1 respond.
    pub fn read_fanout(&self) -> usize {
        2 * self.faulty + 1
    }

    pub fn count(&self) -> usize {
        self.members.len()
    }

    pub fn ids(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..u16::try_from(self.members.len()).expect("at most MAX_SHARDS")).map(ShardId)
    }

    pub fn replicas(&self, shard: ShardId) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..u16::try_from(self.all()).expect("at most 5 MAX_FAULTY + 1")).map(move |member| ReplicaId { shard, member })
    }

    pub fn key(&self, replica: ReplicaId) -> Option<&B256> {
        self.members.get(usize::from(replica.shard.0))?.get(usize::from(replica.member))
    }

    /// The shard of an account and of everything in it.
    pub fn shard_of(&self, key: &Key) -> ShardId {
        let digest = B256::from(*blake3::hash(key.account.as_slice()).as_bytes());
        ShardId(u16::try_from(number_of(&digest) % self.members.len() as u64).expect("at most MAX_SHARDS"))
    }

    /// Hash of `payload` under a tag, for this chain and configuration.
    pub fn digest<T: BorshSerialize>(&self, tag: &str, payload: &T) -> B256 {
        digest_of(tag, &(self.hash, payload))
    }
}

/// The first 8 bytes of a digest as a little-endian number.
pub fn number_of(digest: &B256) -> u64 {
    u64::from_le_bytes(digest[..8].try_into().expect("8 of 32 bytes"))
}

fn digest_of<T: BorshSerialize>(tag: &str, payload: &T) -> B256 {
    B256::from(*blake3::hash(&wire::encode(&(tag, payload))).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_checked() {
        let keys =
            |shard: u8, count: u8| (0..count).map(|member| B256::with_last_byte(shard * 16 + member)).collect::<Vec<_>>();
        assert!(Shards::new(1, 0, 1, vec![keys(0, 6), keys(1, 6)]).is_ok());
        assert_eq!(Shards::new(1, 0, 1, vec![]), Err(ShardsError::Count(0)));
        assert_eq!(Shards::new(1, 0, 1, vec![keys(0, 5)]), Err(ShardsError::Members { shard: 0, expected: 6, got: 5 }));
        assert!(matches!(Shards::new(1, 0, 1, vec![keys(0, 6), keys(0, 6)]), Err(ShardsError::Repeated(_))));
    }

    #[test]
    fn accounts_spread_over_shards() {
        let keys = |shard: u8| (0..6).map(|member| B256::with_last_byte(shard * 16 + member)).collect::<Vec<_>>();
        let shards = Shards::new(1, 0, 1, (0..4).map(keys).collect()).unwrap();
        let mut counts = [0; 4];
        for account in 0..1_000u64 {
            let account = Address::left_padding_from(&account.to_be_bytes());
            let [balance, slot] = ["", "slot"].map(|item| Key { account, item: Bytes::from_static(item.as_bytes()) });
            assert_eq!(shards.shard_of(&balance), shards.shard_of(&slot));
            counts[usize::from(shards.shard_of(&balance).0)] += 1;
        }
        assert!(counts.iter().all(|count| (200..300).contains(count)), "{counts:?}");
    }
}
