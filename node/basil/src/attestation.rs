//! Signed replies of replicas, one signature for a batch of them (§4.4, rules B1 and B2).
//!
//! A replica builds a Merkle tree over a batch of replies and signs the root. Each client gets the root's signature, its reply and
//! the sibling path. Leaves and nodes are hashed under different tags. A leaf contains the replica, the position and the size of
//! the batch, so a reply proves one thing only. A receiver checks each root once.

use crate::shards::{ClientId, ReplicaId, Shards};
use crate::transaction::{Signature, TransactionId};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::B256;
use std::collections::{BTreeSet, VecDeque};

/// Maximum number of replies in one batch.
pub const MAX_REPLIES: usize = 64;
/// Number of roots, and of transactions, that a [`Checker`] remembers.
const MAX_CHECKED: usize = 4_096;

/// A view of a transaction's fallback. View 0 belongs to the clients.
pub type View = u32;

/// A vote, or a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub enum Decision {
    Commit,
    Abort,
}

/// The content of a signed reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub enum Statement {
    /// ST1R: the replica's one vote.
    Vote { id: TransactionId, vote: Decision },
    /// ST2R: a decision that the replica logged, the view in which it did so, and its view now.
    Logged { id: TransactionId, decision: Decision, decision_view: View, current_view: View },
    /// The view of a replica without a decision.
    View { id: TransactionId, view: View },
    /// ElectFb: a logged decision, for the leader of `view`. The sender accepts no decision of a lower view afterwards.
    Elect { id: TransactionId, decision: Decision, view: View },
    /// The replica votes Abort for every transaction below `below_us` that it does not know. `list` is the hash of those from
    /// `from_us` on that may commit (A5). Times are in µs.
    Closed { from_us: u64, below_us: u64, list: B256 },
}

impl Statement {
    /// The transaction that it is about.
    pub fn id(&self) -> Option<TransactionId> {
        match self {
            Self::Vote { id, .. } | Self::Logged { id, .. } | Self::View { id, .. } | Self::Elect { id, .. } => Some(*id),
            Self::Closed { .. } => None,
        }
    }
}

/// Signature of a batch of replies, and the way from one reply to the root.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct BatchProof {
    /// ed25519 of the replica over the root.
    pub signature: Signature,
    pub index: u16,
    pub count: u16,
    /// Siblings from the leaf upwards.
    pub path: Vec<B256>,
}

/// A statement that a replica signed.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Attestation {
    pub replica: ReplicaId,
    pub statement: Statement,
    pub proof: BatchProof,
}

/// A secret key. Deterministic: a restarted process signs the same bytes.
pub trait Signer: Send + Sync {
    fn sign(&self, digest: &B256) -> Signature;
}

/// Verifies signatures of replicas and clients. All processes must agree bit for bit on which ones are valid.
pub trait Signatures: Send + Sync {
    fn verify(&self, key: &B256, digest: &B256, signature: &Signature) -> bool;

    /// True for a key that may own transactions. Otherwise a replica could propose some, too.
    fn is_client(&self, _key: &ClientId) -> bool {
        true
    }
}

/// Signs a batch of statements with one signature.
///
/// # Panics
/// There are no statements, or more than [`MAX_REPLIES`].
pub fn attest(shards: &Shards, replica: ReplicaId, signer: &dyn Signer, statements: Vec<Statement>) -> Vec<Attestation> {
    assert!((1..=MAX_REPLIES).contains(&statements.len()), "a batch has 1 to {MAX_REPLIES} replies");
    let count = u16::try_from(statements.len()).expect("at most MAX_REPLIES");
    let leaf = |(index, statement): (u16, &Statement)| leaf(shards, replica, index, count, statement);
    let mut levels = vec![(0..).zip(&statements).map(leaf).collect::<Vec<_>>()];
    while levels[levels.len() - 1].len() > 1 {
        let level = &levels[levels.len() - 1];
        levels.push(level.chunks(2).map(|pair| pair.get(1).map_or(pair[0], |right| node(pair[0], *right))).collect());
    }
    let signature = signer.sign(&root_digest(shards, replica, levels[levels.len() - 1][0]));
    let path = |mut index: usize| {
        let mut path = Vec::new();
        for level in &levels {
            path.extend(level.get(index ^ 1));
            index /= 2;
        }
        path
    };
    (0..)
        .zip(statements)
        .map(|(index, statement)| {
            let proof = BatchProof { signature, index, count, path: path(usize::from(index)) };
            Attestation { replica, statement, proof }
        })
        .collect()
}

fn leaf(shards: &Shards, replica: ReplicaId, index: u16, count: u16, statement: &Statement) -> B256 {
    shards.digest("corniche-basil-reply", &(replica, index, count, statement))
}

fn node(left: B256, right: B256) -> B256 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"corniche-basil-node");
    hasher.update(left.as_slice());
    hasher.update(right.as_slice());
    B256::from(*hasher.finalize().as_bytes())
}

fn root_digest(shards: &Shards, replica: ReplicaId, root: B256) -> B256 {
    shards.digest("corniche-basil-replies", &(replica, root))
}

impl Attestation {
    /// The root that its path leads to; `None` if the path does not fit the position.
    fn root(&self, shards: &Shards) -> Option<B256> {
        let BatchProof { index, count, path, .. } = &self.proof;
        if *index >= *count || usize::from(*count) > MAX_REPLIES {
            return None;
        }
        let mut digest = leaf(shards, self.replica, *index, *count, &self.statement);
        let (mut position, mut width) = (usize::from(*index), usize::from(*count));
        let mut siblings = path.iter();
        while width > 1 {
            // The last node of an odd level has no sibling.
            if position ^ 1 < width {
                let sibling = *siblings.next()?;
                digest = if position % 2 == 0 { node(digest, sibling) } else { node(sibling, digest) };
            }
            (position, width) = (position / 2, width.div_ceil(2));
        }
        siblings.next().is_none().then_some(digest)
    }
}

/// Checks signatures, and remembers the roots that it checked. Each thread that verifies has its own.
pub struct Checker<'a> {
    pub shards: &'a Shards,
    signatures: &'a dyn Signatures,
    roots: &'a mut CheckedRoots,
}

/// The newest roots and transactions whose signature was valid.
#[derive(Default)]
pub struct CheckedRoots {
    checked: Newest<(ReplicaId, B256, Signature)>,
    transactions: Newest<(ClientId, TransactionId, Signature)>,
    /// Number of signatures of replicas that were checked, for tests and metrics.
    pub verifications: u64,
}

impl<'a> Checker<'a> {
    pub fn new(shards: &'a Shards, signatures: &'a dyn Signatures, roots: &'a mut CheckedRoots) -> Self {
        Self { shards, signatures, roots }
    }

    /// True if the replica signed the statement. A remembered root saves the signature check, never that of the path.
    pub fn is_signed(&mut self, attestation: &Attestation) -> bool {
        let Some(key) = self.shards.key(attestation.replica) else { return false };
        let Some(root) = attestation.root(self.shards) else { return false };
        let checked = (attestation.replica, root, attestation.proof.signature);
        if self.roots.checked.contains(&checked) {
            return true;
        }
        self.roots.verifications += 1;
        let digest = root_digest(self.shards, attestation.replica, root);
        if !self.signatures.verify(key, &digest, &attestation.proof.signature) {
            return false;
        }
        self.roots.checked.insert(checked);
        true
    }

    /// True if the client signed its transaction. Each transaction comes at least twice: with ST1 and with its certificate.
    pub fn is_signed_by(&mut self, client: &ClientId, id: &TransactionId, signature: &Signature) -> bool {
        let checked = (*client, *id, *signature);
        if self.roots.transactions.contains(&checked) {
            return true;
        }
        let is_signed = self.signatures.is_client(client) && self.signatures.verify(client, id, signature);
        if is_signed {
            self.roots.transactions.insert(checked);
        }
        is_signed
    }
}

/// A set that forgets its oldest members beyond [`MAX_CHECKED`].
struct Newest<T> {
    members: BTreeSet<T>,
    order: VecDeque<T>,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self { members: BTreeSet::new(), order: VecDeque::new() }
    }
}

impl<T: Copy + Ord> Newest<T> {
    fn contains(&self, member: &T) -> bool {
        self.members.contains(member)
    }

    fn insert(&mut self, member: T) {
        if self.order.len() == MAX_CHECKED
            && let Some(oldest) = self.order.pop_front()
        {
            self.members.remove(&oldest);
        }
        if self.members.insert(member) {
            self.order.push_back(member);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::shards::ShardId;

    /// Modelled signatures: a hash with the public key.
    pub(crate) struct Keys;

    pub(crate) struct Secret(pub(crate) B256);

    fn model(key: &B256, digest: &B256) -> Signature {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(blake3::hash(&[key.as_slice(), digest.as_slice()].concat()).as_bytes());
        signature
    }

    impl Signatures for Keys {
        fn verify(&self, key: &B256, digest: &B256, signature: &Signature) -> bool {
            model(key, digest) == *signature
        }
    }

    impl Signer for Secret {
        fn sign(&self, digest: &B256) -> Signature {
            model(&self.0, digest)
        }
    }

    /// Three shards of six replicas each.
    pub(crate) fn shards(chain_id: u64) -> Shards {
        let member = |shard: u8, index: u8| B256::left_padding_from(&[shard + 1, index]);
        let members = (0..3).map(|shard| (0..6).map(|index| member(shard, index)).collect()).collect();
        Shards::new(chain_id, 0, 1, members).unwrap()
    }

    pub(crate) fn replica(shard: u16, member: u16) -> ReplicaId {
        ReplicaId { shard: ShardId(shard), member }
    }

    pub(crate) fn sign(shards: &Shards, replica: ReplicaId, statements: Vec<Statement>) -> Vec<Attestation> {
        attest(shards, replica, &Secret(*shards.key(replica).unwrap()), statements)
    }

    fn vote(number: u16) -> Statement {
        let id = B256::left_padding_from(&number.to_be_bytes());
        Statement::Vote { id, vote: if number.is_multiple_of(3) { Decision::Abort } else { Decision::Commit } }
    }

    fn batch(shards: &Shards, count: u16) -> Vec<Attestation> {
        sign(shards, replica(0, 2), (0..count).map(vote).collect())
    }

    fn is_signed(shards: &Shards, roots: &mut CheckedRoots, attestation: &Attestation) -> bool {
        Checker::new(shards, &Keys, roots).is_signed(attestation)
    }

    #[test]
    fn one_signature_proves_every_reply_of_a_batch() {
        let shards = shards(1);
        for count in 1..=64 {
            let mut roots = CheckedRoots::default();
            let batch = batch(&shards, count);
            assert_eq!(batch.len(), usize::from(count));
            for (number, attestation) in (0..).zip(&batch) {
                assert_eq!(attestation.statement, vote(number));
                assert!(is_signed(&shards, &mut roots, attestation), "reply {number} of {count}");
                assert_eq!(attestation.proof.signature, batch[0].proof.signature);
                assert!(attestation.proof.path.len() <= 6, "log2 of 64");
            }
            assert_eq!(roots.verifications, 1, "{count} replies");
            // A receiver of one reply needs no others.
            for attestation in &batch {
                assert!(is_signed(&shards, &mut CheckedRoots::default(), attestation));
            }
        }
    }

    /// Every change of a reply is refused, whether its root was checked before or not.
    #[test]
    fn a_changed_reply_is_refused() {
        let shards = shards(1);
        for count in [1, 2, 3, 4, 5, 7, 8, 16, 33, 63, 64] {
            let batch = batch(&shards, count);
            let mut known = CheckedRoots::default();
            assert!(is_signed(&shards, &mut known, &batch[0]));
            for original in &batch {
                for (change, changed) in changes(original, count) {
                    let position = original.proof.index;
                    let mut unknown = CheckedRoots::default();
                    assert!(!is_signed(&shards, &mut unknown, &changed), "{change} of reply {position} of {count}");
                    assert!(!is_signed(&shards, &mut known, &changed), "{change} of reply {position} of {count}, known root");
                }
                assert!(is_signed(&shards, &mut known, original), "refused replies do not harm the valid one");
            }
        }
    }

    fn changes(original: &Attestation, count: u16) -> Vec<(String, Attestation)> {
        let mut changes = Vec::new();
        let mut add = |name: String, change: &dyn Fn(&mut Attestation)| {
            let mut changed = original.clone();
            change(&mut changed);
            changes.push((name, changed));
        };
        add("another statement".into(), &|changed| changed.statement = vote(900));
        add("the other vote".into(), &|changed| {
            if let Statement::Vote { vote, .. } = &mut changed.statement {
                *vote = if *vote == Decision::Commit { Decision::Abort } else { Decision::Commit };
            }
        });
        add("another kind".into(), &|changed| {
            let id = changed.statement.id().unwrap();
            changed.statement = Statement::View { id, view: 0 };
        });
        for index in (0..=count).filter(|index| *index != original.proof.index) {
            add(format!("index {index}"), &|changed| changed.proof.index = index);
        }
        for other in [0, count - 1, count + 1, 64, 65, u16::MAX].into_iter().filter(|other| *other != count) {
            add(format!("count {other}"), &|changed| changed.proof.count = other);
        }
        for position in 0..original.proof.path.len() {
            add(format!("sibling {position}"), &|changed| changed.proof.path[position].0[31] ^= 1);
            add(format!("without sibling {position}"), &|changed| _ = changed.proof.path.remove(position));
            add(format!("sibling {position} twice"), &|changed| {
                let sibling = changed.proof.path[position];
                changed.proof.path.insert(position, sibling);
            });
        }
        add("a longer path".into(), &|changed| changed.proof.path.push(B256::ZERO));
        for byte in [0, 31, 63] {
            add(format!("signature byte {byte}"), &|changed| changed.proof.signature[byte] ^= 1);
        }
        for other in [replica(0, 3), replica(1, 2), replica(0, 6), replica(3, 2)] {
            add(format!("{other:?}"), &|changed| changed.replica = other);
        }
        changes
    }

    #[test]
    fn a_reply_has_no_place_in_another_batch() {
        let shards = shards(1);
        let [first, second] = [4, 4].map(|count| batch(&shards, count));
        let mut longer = sign(&shards, replica(0, 2), (0..5).map(vote).collect());
        let mut roots = CheckedRoots::default();
        assert!(is_signed(&shards, &mut roots, &first[0]) && is_signed(&shards, &mut roots, &second[0]));
        assert!(is_signed(&shards, &mut roots, &longer[0]));
        longer[0].proof.path = first[0].proof.path.clone();
        assert!(!is_signed(&shards, &mut roots, &longer[0]));
        longer[0].proof = first[0].proof.clone();
        assert!(is_signed(&shards, &mut roots, &longer[0]), "equal statements at equal places are the same reply");
    }

    #[test]
    fn a_signature_is_valid_in_one_chain() {
        let [first, second] = [1, 2].map(shards);
        let batch = batch(&first, 3);
        assert!(is_signed(&first, &mut CheckedRoots::default(), &batch[0]));
        assert!(!is_signed(&second, &mut CheckedRoots::default(), &batch[0]));
    }

    #[test]
    fn refused_signatures_are_not_remembered() {
        let shards = shards(1);
        let mut wrong = batch(&shards, 2);
        wrong[0].proof.signature[0] ^= 1;
        let mut roots = CheckedRoots::default();
        for checks in 1..=3 {
            assert!(!is_signed(&shards, &mut roots, &wrong[0]));
            assert_eq!((roots.verifications, roots.checked.members.len()), (checks, 0));
        }
    }

    #[test]
    fn the_newest_roots_are_remembered() {
        let shards = shards(1);
        let single = |number: u16| sign(&shards, replica(0, 2), vec![vote(number)]).remove(0);
        let mut roots = CheckedRoots::default();
        let count = u16::try_from(MAX_CHECKED).unwrap() + 10;
        for number in 0..count {
            assert!(is_signed(&shards, &mut roots, &single(number)));
            assert!(roots.checked.members.len() <= MAX_CHECKED);
            assert_eq!(roots.checked.members.len(), roots.checked.order.len());
        }
        let checks = roots.verifications;
        assert_eq!(checks, u64::from(count));
        assert!(is_signed(&shards, &mut roots, &single(10)) && is_signed(&shards, &mut roots, &single(count - 1)));
        assert_eq!(roots.verifications, checks, "the newest {MAX_CHECKED} need no check");
        assert!(is_signed(&shards, &mut roots, &single(9)));
        assert_eq!(roots.verifications, checks + 1, "an older one is checked again");
    }

    #[test]
    #[should_panic(expected = "a batch has 1 to 64 replies")]
    fn an_empty_batch_is_a_bug() {
        batch(&shards(1), 0);
    }

    #[test]
    #[should_panic(expected = "a batch has 1 to 64 replies")]
    fn a_batch_of_65_is_a_bug() {
        batch(&shards(1), 65);
    }
}
