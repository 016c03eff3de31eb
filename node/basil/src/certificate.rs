//! Decisions that prove themselves: c-cert, a-cert, and the justification of a decision that is to be logged (§4.2, §4.3).
//!
//! A commit and an abort of one transaction cannot both have a certificate (Lemma 2). Every count is one of distinct members of one
//! shard, and a member that is there twice makes the proof invalid: its size is bounded by the number of replicas. Shards come from the
//! transaction's keys.

use crate::attestation::{Attestation, Checker, Decision, Statement, View};
use crate::shards::{ReplicaId, ShardId, Shards};
use crate::shared::Shared;
use crate::transaction::{SignedTransaction, TransactionError, TransactionId};
use borsh::{BorshDeserialize, BorshSerialize};
use std::collections::{BTreeMap, BTreeSet};

/// Proof of a decision.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Certificate {
    /// Commit votes of all 5f + 1 replicas of every involved shard.
    FastCommit(Vec<Attestation>),
    /// Abort votes of 3f + 1 replicas of one involved shard.
    FastAbort(Vec<Attestation>),
    /// A committed transaction that forbids this one.
    Conflict(Committed),
    /// ST2R of 4f + 1 replicas of the logging shard, of one decision and one view.
    Logged(Decision, Vec<Attestation>),
}

/// A transaction with the proof of its decision: the message WRITEBACK.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Decided {
    pub transaction: Shared<SignedTransaction>,
    pub certificate: Certificate,
}

/// A committed transaction with its proof. A type of its own, so that proofs do not nest.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Committed {
    pub transaction: Shared<SignedTransaction>,
    pub proof: CommitProof,
}

/// Proof of a commit; see [`Certificate`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum CommitProof {
    Fast(Vec<Attestation>),
    Logged(Vec<Attestation>),
}

impl From<Committed> for Decided {
    fn from(Committed { transaction, proof }: Committed) -> Self {
        let certificate = match proof {
            CommitProof::Fast(votes) => Certificate::FastCommit(votes),
            CommitProof::Logged(logged) => Certificate::Logged(Decision::Commit, logged),
        };
        Self { transaction, certificate }
    }
}

/// A reason for a decision that is to be logged: the body of ST2.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Justification {
    /// Commit: at least 3f + 1 commit votes from every involved shard. Abort: at least f + 1 abort votes from one.
    Votes(Vec<Attestation>),
    /// ST2R of f + 1 replicas for this decision, of any views: a correct replica saw votes for it.
    Logged(Vec<Attestation>),
}

/// ST2: a decision for the logging shard.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Proposal {
    pub transaction: Shared<SignedTransaction>,
    pub decision: Decision,
    pub justification: Justification,
}

/// Why a certificate proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("{0}")]
    Transaction(#[from] TransactionError),
    #[error("certificate: expected {expected} votes of shard {}, got {got}", shard.0)]
    Votes { shard: ShardId, expected: usize, got: usize },
    #[error("certificate: replica {} of shard {} did not sign it", .0.member, .0.shard.0)]
    Signature(ReplicaId),
    #[error("certificate: expected statements of one decision of this transaction by involved shards")]
    Foreign,
    #[error("certificate: expected a transaction that forbids this one")]
    NoConflict,
}

impl Certificate {
    /// The decision that it claims to prove.
    pub fn decision(&self) -> Decision {
        match self {
            Self::FastCommit(_) => Decision::Commit,
            Self::FastAbort(_) | Self::Conflict(_) => Decision::Abort,
            Self::Logged(decision, _) => *decision,
        }
    }
}

impl Decided {
    pub fn decision(&self) -> Decision {
        self.certificate.decision()
    }

    /// The proof of a commit, for those that it aborts; `None` for an abort.
    pub fn committed(&self) -> Option<Committed> {
        let proof = match &self.certificate {
            Certificate::FastCommit(votes) => CommitProof::Fast(votes.clone()),
            Certificate::Logged(Decision::Commit, logged) => CommitProof::Logged(logged.clone()),
            _ => return None,
        };
        Some(Committed { transaction: self.transaction.clone(), proof })
    }

    /// Checks the transaction and the proof.
    ///
    /// # Errors
    /// The missing proof.
    pub fn check(&self, checker: &mut Checker) -> Result<(), CertificateError> {
        let id = check_transaction(&self.transaction, checker)?;
        let involved = self.transaction.involved(checker.shards);
        match &self.certificate {
            Certificate::FastCommit(votes) => {
                let counts = count_votes(id, Decision::Commit, votes, checker)?;
                let all = checker.shards.all();
                involved.iter().try_for_each(|shard| expect(&counts, *shard, all))?;
                only(&counts, &involved)
            }
            Certificate::FastAbort(votes) => {
                let counts = count_votes(id, Decision::Abort, votes, checker)?;
                only(&counts, &involved)?;
                expect_one(&counts, checker.shards.fast_abort())
            }
            Certificate::Conflict(other) => {
                if !other.transaction.forbids(&self.transaction) {
                    return Err(CertificateError::NoConflict);
                }
                Self::from(other.clone()).check(checker)
            }
            Certificate::Logged(decision, logged) => {
                let shard = self.transaction.logging_shard(&id, checker.shards);
                check_logged(id, *decision, shard, logged, checker)
            }
        }
    }
}

impl Proposal {
    /// Checks the transaction and that its votes allow the decision (P1, W1).
    ///
    /// # Errors
    /// The missing proof.
    pub fn check(&self, checker: &mut Checker) -> Result<(), CertificateError> {
        let id = check_transaction(&self.transaction, checker)?;
        let involved = self.transaction.involved(checker.shards);
        match &self.justification {
            Justification::Votes(votes) => {
                let counts = count_votes(id, self.decision, votes, checker)?;
                only(&counts, &involved)?;
                match self.decision {
                    Decision::Commit => {
                        let quorum = checker.shards.commit_quorum();
                        involved.iter().try_for_each(|shard| expect(&counts, *shard, quorum))
                    }
                    Decision::Abort => expect_one(&counts, checker.shards.abort_quorum()),
                }
            }
            Justification::Logged(logged) => {
                let shard = self.transaction.logging_shard(&id, checker.shards);
                let mut members = BTreeSet::new();
                for attestation in logged {
                    let same = matches!(attestation.statement, Statement::Logged { id: of, decision, .. }
                        if of == id && decision == self.decision);
                    let is_new = members.insert(attestation.replica);
                    ensure_signed(attestation, is_new && same && attestation.replica.shard == shard, checker)?;
                }
                at_least(shard, members.len(), checker.shards.validity())
            }
        }
    }
}

/// Checks the client's signature and everything that needs no state. Returns the id.
///
/// # Errors
/// The rule that it breaks.
pub fn check_transaction(signed: &SignedTransaction, checker: &mut Checker) -> Result<TransactionId, TransactionError> {
    signed.check()?;
    let id = signed.id(checker.shards);
    let is_signed = checker.is_signed_by(&signed.timestamp.client, &id, &signed.signature);
    if is_signed { Ok(id) } else { Err(TransactionError::Signature) }
}

/// 4f + 1 equal ST2R. The view of the decision must be equal too: Lemma 6 starts there.
fn check_logged(
    id: TransactionId,
    decision: Decision,
    shard: ShardId,
    logged: &[Attestation],
    checker: &mut Checker,
) -> Result<(), CertificateError> {
    let mut members = BTreeSet::new();
    let mut views = BTreeSet::new();
    for attestation in logged {
        let view = logged_in(attestation, id, decision, shard);
        let is_new = members.insert(attestation.replica);
        ensure_signed(attestation, is_new && view.is_some(), checker)?;
        views.extend(view);
    }
    if views.len() > 1 {
        return Err(CertificateError::Foreign);
    }
    at_least(shard, members.len(), checker.shards.reachable())
}

fn logged_in(attestation: &Attestation, id: TransactionId, expected: Decision, shard: ShardId) -> Option<View> {
    match attestation.statement {
        Statement::Logged { id: of, decision, decision_view, .. }
            if of == id && decision == expected && attestation.replica.shard == shard =>
        {
            Some(decision_view)
        }
        _ => None,
    }
}

/// Distinct members that voted `decision`, for each shard.
fn count_votes(
    id: TransactionId,
    decision: Decision,
    votes: &[Attestation],
    checker: &mut Checker,
) -> Result<BTreeMap<ShardId, usize>, CertificateError> {
    count_members(votes, |vote| vote.statement == Statement::Vote { id, vote: decision }, checker)
}

/// Distinct members of each shard that signed a statement which belongs here. All must.
pub(crate) fn count_members(
    attestations: &[Attestation],
    belongs: impl Fn(&Attestation) -> bool,
    checker: &mut Checker,
) -> Result<BTreeMap<ShardId, usize>, CertificateError> {
    let mut members: BTreeMap<ShardId, BTreeSet<ReplicaId>> = BTreeMap::new();
    for attestation in attestations {
        let is_new = members.entry(attestation.replica.shard).or_default().insert(attestation.replica);
        ensure_signed(attestation, is_new && belongs(attestation), checker)?;
    }
    Ok(members.into_iter().map(|(shard, members)| (shard, members.len())).collect())
}

fn ensure_signed(attestation: &Attestation, belongs: bool, checker: &mut Checker) -> Result<(), CertificateError> {
    match belongs {
        false => Err(CertificateError::Foreign),
        true if checker.is_signed(attestation) => Ok(()),
        true => Err(CertificateError::Signature(attestation.replica)),
    }
}

fn only(counts: &BTreeMap<ShardId, usize>, involved: &BTreeSet<ShardId>) -> Result<(), CertificateError> {
    if counts.keys().all(|shard| involved.contains(shard)) { Ok(()) } else { Err(CertificateError::Foreign) }
}

pub(crate) fn expect(counts: &BTreeMap<ShardId, usize>, shard: ShardId, expected: usize) -> Result<(), CertificateError> {
    at_least(shard, counts.get(&shard).copied().unwrap_or(0), expected)
}

/// One shard has enough.
fn expect_one(counts: &BTreeMap<ShardId, usize>, expected: usize) -> Result<(), CertificateError> {
    let most = counts.iter().max_by_key(|(_, count)| **count);
    most.map_or(Err(CertificateError::Foreign), |(shard, count)| at_least(*shard, *count, expected))
}

fn at_least(shard: ShardId, got: usize, expected: usize) -> Result<(), CertificateError> {
    if got >= expected { Ok(()) } else { Err(CertificateError::Votes { shard, expected, got }) }
}

/// Checks statements that carry views of one transaction, for InvokeFB. Returns each member's view.
///
/// # Errors
/// A statement is of another transaction or shard, or is not signed.
pub fn check_views(
    id: TransactionId,
    shard: ShardId,
    views: &[Attestation],
    checker: &mut Checker,
) -> Result<BTreeMap<ReplicaId, View>, CertificateError> {
    let mut of_members = BTreeMap::new();
    for attestation in views {
        let view = view_of(&attestation.statement, id).filter(|_| attestation.replica.shard == shard);
        let is_new = view.is_some_and(|view| of_members.insert(attestation.replica, view).is_none());
        ensure_signed(attestation, is_new, checker)?;
    }
    Ok(of_members)
}

/// The view that a statement about this transaction reports.
pub fn view_of(statement: &Statement, transaction: TransactionId) -> Option<View> {
    match *statement {
        Statement::Logged { id, current_view, .. } if id == transaction => Some(current_view),
        Statement::View { id, view } if id == transaction => Some(view),
        _ => None,
    }
}

/// DecFb is proven by 4f + 1 ElectFb of one view. Returns their majority (F6); their number is odd, so it exists.
///
/// # Errors
/// Elections are too few, of another view, transaction or shard, or not signed.
pub fn check_elections(
    id: TransactionId,
    shard: ShardId,
    view: View,
    elections: &[Attestation],
    checker: &mut Checker,
) -> Result<Decision, CertificateError> {
    let mut of_members = BTreeMap::new();
    for attestation in elections {
        let decision = match attestation.statement {
            Statement::Elect { id: of, decision, view: in_view } if of == id && in_view == view => Some(decision),
            _ => None,
        };
        let decision = decision.filter(|_| attestation.replica.shard == shard);
        let is_new = decision.is_some_and(|decision| of_members.insert(attestation.replica, decision).is_none());
        ensure_signed(attestation, is_new, checker)?;
    }
    let expected = checker.shards.reachable();
    if of_members.len() != expected {
        return Err(CertificateError::Votes { shard, expected, got: of_members.len() });
    }
    Ok(majority(of_members.values().copied(), checker.shards))
}

/// The decision of most of 4f + 1 replicas.
pub fn majority(decisions: impl Iterator<Item = Decision>, shards: &Shards) -> Decision {
    let commits = decisions.filter(|decision| *decision == Decision::Commit).count();
    if 2 * commits > shards.reachable() { Decision::Commit } else { Decision::Abort }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attestation::tests::{Keys, Secret, replica, shards, sign};
    use crate::attestation::{CheckedRoots, Signer};
    use crate::shards::Key;
    use crate::transaction::{self, Timestamp, Transaction, Version, Write};
    use Decision::{Abort, Commit};
    use corniche_types::{Address, B256, Bytes};

    const CLIENT: B256 = B256::with_last_byte(0xc1);
    const FIRST: u16 = 0;
    const SECOND: u16 = 1;
    /// A shard without a key of the transaction.
    const FOREIGN: u16 = 2;

    /// A key of each shard.
    fn key(shards: &Shards, shard: u16) -> Key {
        let key = |number: u64| Key { account: Address::left_padding_from(&number.to_be_bytes()), item: Bytes::new() };
        (0..).map(key).find(|key| shards.shard_of(key) == ShardId(shard)).unwrap()
    }

    fn signed(shards: &Shards, time_us: u64, reads: &[(u16, u64)], writes: &[u16]) -> Shared<SignedTransaction> {
        let version = |time_us| match time_us {
            0 => Version::GENESIS,
            _ => Version { timestamp: Timestamp { time_us, client: CLIENT }, writer: B256::with_last_byte(1) },
        };
        let read = |(shard, time_us): &(u16, u64)| transaction::Read {
            key: key(shards, *shard),
            version: version(*time_us),
            value: None,
        };
        let mut reads: Vec<_> = reads.iter().map(read).collect();
        let mut writes: Vec<_> = writes.iter().map(|shard| Write { key: key(shards, *shard), value: None }).collect();
        reads.sort_by(|a, b| a.key.cmp(&b.key));
        writes.sort_by(|a, b| a.key.cmp(&b.key));
        let transaction = Transaction { timestamp: Timestamp { time_us, client: CLIENT }, reads, writes, call: Bytes::new() };
        let signature = Secret(CLIENT).sign(&transaction.id(shards));
        Shared::new(SignedTransaction { transaction, signature })
    }

    /// A transaction at 100 that reads and writes on two of three shards.
    struct Scene {
        shards: Shards,
        transaction: Shared<SignedTransaction>,
        id: TransactionId,
    }

    impl Scene {
        fn new() -> Self {
            let shards = shards(1);
            let transaction = signed(&shards, 100, &[(FIRST, 0), (SECOND, 0)], &[FIRST, SECOND]);
            let id = transaction.id(&shards);
            Self { shards, transaction, id }
        }

        /// A statement of each of these members.
        fn of(&self, shard: u16, members: impl IntoIterator<Item = u16>, statement: &Statement) -> Vec<Attestation> {
            let sign = |member| sign(&self.shards, replica(shard, member), vec![statement.clone()]).remove(0);
            members.into_iter().map(sign).collect()
        }

        /// Votes of the first `counts.0` members of the first shard, and of `counts.1` of the second one.
        fn votes(&self, vote: Decision, counts: (u16, u16)) -> Vec<Attestation> {
            let vote = Statement::Vote { id: self.id, vote };
            [self.of(FIRST, 0..counts.0, &vote), self.of(SECOND, 0..counts.1, &vote)].concat()
        }

        fn logging(&self) -> u16 {
            self.transaction.logging_shard(&self.id, &self.shards).0
        }

        fn logged(&self, decision: Decision, decision_view: View) -> Statement {
            Statement::Logged { id: self.id, decision, decision_view, current_view: 9 }
        }

        fn check(&self, certificate: Certificate) -> Result<(), CertificateError> {
            let transaction = Shared::clone(&self.transaction);
            Decided { transaction, certificate }.check(&mut Checker::new(&self.shards, &Keys, &mut CheckedRoots::default()))
        }

        fn propose(&self, decision: Decision, justification: Justification) -> Result<(), CertificateError> {
            let transaction = Shared::clone(&self.transaction);
            let proposal = Proposal { transaction, decision, justification };
            proposal.check(&mut Checker::new(&self.shards, &Keys, &mut CheckedRoots::default()))
        }

        /// Proves that another transaction is committed.
        fn committed(&self, transaction: &Shared<SignedTransaction>) -> Decided {
            let vote = Statement::Vote { id: transaction.id(&self.shards), vote: Commit };
            let involved = transaction.involved(&self.shards);
            let votes = involved.iter().flat_map(|shard| self.of(shard.0, 0..6, &vote)).collect();
            Decided { transaction: Shared::clone(transaction), certificate: Certificate::FastCommit(votes) }
        }
    }

    fn too_few(shard: u16, expected: usize, got: usize) -> Result<(), CertificateError> {
        Err(CertificateError::Votes { shard: ShardId(shard), expected, got })
    }

    const FOREIGN_STATEMENT: Result<(), CertificateError> = Err(CertificateError::Foreign);

    #[test]
    fn all_replicas_of_all_shards_commit_fast() {
        let scene = Scene::new();
        let check = |counts| scene.check(Certificate::FastCommit(scene.votes(Commit, counts)));
        assert_eq!(check((6, 6)), Ok(()));
        assert_eq!(check((5, 6)), too_few(FIRST, 6, 5));
        assert_eq!(check((6, 5)), too_few(SECOND, 6, 5));
    }

    #[test]
    fn a_commit_needs_every_shard() {
        let scene = Scene::new();
        assert_eq!(scene.check(Certificate::FastCommit(scene.votes(Commit, (6, 0)))), too_few(SECOND, 6, 0));
        assert_eq!(scene.check(Certificate::FastCommit(scene.votes(Commit, (0, 6)))), too_few(FIRST, 6, 0));
        assert_eq!(scene.check(Certificate::FastCommit(Vec::new())), too_few(FIRST, 6, 0));
        let votes = Justification::Votes(scene.votes(Commit, (6, 0)));
        assert_eq!(scene.propose(Commit, votes), too_few(SECOND, 4, 0));
    }

    #[test]
    fn three_f_plus_one_of_one_shard_abort_fast() {
        let scene = Scene::new();
        let check = |counts| scene.check(Certificate::FastAbort(scene.votes(Abort, counts)));
        assert_eq!((check((4, 0)), check((0, 4)), check((1, 4))), (Ok(()), Ok(()), Ok(())));
        assert_eq!(check((3, 0)), too_few(FIRST, 4, 3));
        assert_eq!(check((0, 3)), too_few(SECOND, 4, 3));
        assert!(check((3, 3)).is_err(), "votes of two shards do not add up");
        assert_eq!(check((0, 0)), FOREIGN_STATEMENT);
    }

    #[test]
    fn a_commit_is_proposed_with_3f_plus_1_of_every_shard() {
        let scene = Scene::new();
        let propose = |counts| scene.propose(Commit, Justification::Votes(scene.votes(Commit, counts)));
        assert_eq!(propose((4, 4)), Ok(()));
        assert_eq!(propose((3, 4)), too_few(FIRST, 4, 3));
        assert_eq!(propose((6, 3)), too_few(SECOND, 4, 3));
    }

    #[test]
    fn an_abort_is_proposed_with_f_plus_1_of_one_shard() {
        let scene = Scene::new();
        let propose = |counts| scene.propose(Abort, Justification::Votes(scene.votes(Abort, counts)));
        assert_eq!((propose((2, 0)), propose((0, 2))), (Ok(()), Ok(())));
        assert_eq!(propose((1, 0)), too_few(FIRST, 2, 1));
        assert!(propose((1, 1)).is_err(), "votes of two shards do not add up");
        assert_eq!(propose((0, 0)), FOREIGN_STATEMENT);
    }

    #[test]
    fn a_decision_is_proposed_again_with_f_plus_1_that_logged_it() {
        let scene = Scene::new();
        let propose = |logged| scene.propose(Commit, Justification::Logged(logged));
        let of = |members: &[u16], statement: &Statement| scene.of(scene.logging(), members.iter().copied(), statement);
        assert_eq!(propose(of(&[0, 1], &scene.logged(Commit, 0))), Ok(()));
        let of_two_views = [of(&[0], &scene.logged(Commit, 0)), of(&[1], &scene.logged(Commit, 3))].concat();
        assert_eq!(propose(of_two_views), Ok(()), "of any views");
        assert_eq!(propose(of(&[0], &scene.logged(Commit, 0))), too_few(scene.logging(), 2, 1));
        assert_eq!(propose(of(&[0, 0], &scene.logged(Commit, 0))), FOREIGN_STATEMENT);
        let mixed = [of(&[0], &scene.logged(Commit, 0)), of(&[1], &scene.logged(Abort, 0))].concat();
        assert_eq!(propose(mixed), FOREIGN_STATEMENT);
        let other_shard = 1 - scene.logging();
        assert_eq!(propose(scene.of(other_shard, 0..6, &scene.logged(Commit, 0))), FOREIGN_STATEMENT);
        assert_eq!(propose(of(&[0, 1], &Statement::Elect { id: scene.id, decision: Commit, view: 1 })), FOREIGN_STATEMENT);
    }

    #[test]
    fn four_f_plus_one_of_the_logging_shard_decide() {
        let scene = Scene::new();
        for decision in [Commit, Abort] {
            let check = |logged| scene.check(Certificate::Logged(decision, logged));
            let of = |members: &[u16], statement: &Statement| scene.of(scene.logging(), members.iter().copied(), statement);
            for view in [0, 5] {
                assert_eq!(check(of(&[0, 1, 2, 3, 4], &scene.logged(decision, view))), Ok(()));
                assert_eq!(check(of(&[1, 2, 3, 4, 5], &scene.logged(decision, view))), Ok(()));
                assert_eq!(check(of(&[0, 1, 2, 3], &scene.logged(decision, view))), too_few(scene.logging(), 5, 4));
                assert_eq!(check(of(&[0, 1, 2, 3, 3], &scene.logged(decision, view))), FOREIGN_STATEMENT);
            }
            let other_decision = if decision == Commit { Abort } else { Commit };
            assert_eq!(check(of(&[0, 1, 2, 3, 4], &scene.logged(other_decision, 0))), FOREIGN_STATEMENT);
            let other_shard = 1 - scene.logging();
            assert_eq!(check(scene.of(other_shard, 0..6, &scene.logged(decision, 0))), FOREIGN_STATEMENT);
            let elections = Statement::Elect { id: scene.id, decision, view: 0 };
            assert_eq!(check(of(&[0, 1, 2, 3, 4], &elections)), FOREIGN_STATEMENT);
        }
    }

    /// Pitfall 8: views in which the decision was logged must be equal; views now may differ.
    #[test]
    fn decisions_of_two_views_decide_nothing() {
        let scene = Scene::new();
        let of = |members: std::ops::Range<u16>, statement: &Statement| scene.of(scene.logging(), members, statement);
        let mixed = [of(0..4, &scene.logged(Commit, 1)), of(4..6, &scene.logged(Commit, 2))].concat();
        assert_eq!(scene.check(Certificate::Logged(Commit, mixed)), FOREIGN_STATEMENT);
        let enough_and_one = [of(0..5, &scene.logged(Commit, 1)), of(5..6, &scene.logged(Commit, 0))].concat();
        assert_eq!(scene.check(Certificate::Logged(Commit, enough_and_one)), FOREIGN_STATEMENT);
        let now = |current_view| Statement::Logged { id: scene.id, decision: Commit, decision_view: 1, current_view };
        let moved_on = [of(0..2, &now(1)), of(2..5, &now(4))].concat();
        assert_eq!(scene.check(Certificate::Logged(Commit, moved_on)), Ok(()));
    }

    #[test]
    fn a_repeated_signer_is_refused() {
        let scene = Scene::new();
        let vote = |vote, members: &[u16]| scene.of(FIRST, members.iter().copied(), &Statement::Vote { id: scene.id, vote });
        let commits = [vote(Commit, &[0, 1, 2, 3, 4, 4, 0]), scene.votes(Commit, (0, 6))].concat();
        assert_eq!(scene.check(Certificate::FastCommit(commits)), FOREIGN_STATEMENT);
        assert_eq!(scene.check(Certificate::FastAbort(vote(Abort, &[0, 1, 2, 2]))), FOREIGN_STATEMENT);
        let commits = [vote(Commit, &[0, 1, 2, 2]), scene.votes(Commit, (0, 4))].concat();
        assert_eq!(scene.propose(Commit, Justification::Votes(commits)), FOREIGN_STATEMENT);
        assert_eq!(scene.propose(Abort, Justification::Votes(vote(Abort, &[3, 3]))), FOREIGN_STATEMENT);
        // Two signatures of one member, in batches of different sizes.
        let twice = vec![Statement::Vote { id: scene.id, vote: Abort }; 2];
        let batch = sign(&scene.shards, replica(FIRST, 3), twice);
        assert_eq!(scene.propose(Abort, Justification::Votes(batch)), FOREIGN_STATEMENT);
    }

    #[test]
    fn votes_of_a_foreign_shard_prove_nothing() {
        let scene = Scene::new();
        let foreign = |vote| scene.of(FOREIGN, 0..6, &Statement::Vote { id: scene.id, vote });
        assert_eq!(scene.check(Certificate::FastAbort(foreign(Abort))), FOREIGN_STATEMENT);
        assert_eq!(scene.propose(Abort, Justification::Votes(foreign(Abort))), FOREIGN_STATEMENT);
        let with_foreign = [scene.votes(Commit, (6, 6)), foreign(Commit)].concat();
        assert_eq!(scene.check(Certificate::FastCommit(with_foreign.clone())), FOREIGN_STATEMENT);
        assert_eq!(scene.propose(Commit, Justification::Votes(with_foreign)), FOREIGN_STATEMENT);
        let instead = [scene.votes(Commit, (6, 0)), foreign(Commit)].concat();
        assert!(scene.check(Certificate::FastCommit(instead)).is_err());
    }

    #[test]
    fn votes_about_another_transaction_prove_nothing() {
        let scene = Scene::new();
        let id = signed(&scene.shards, 101, &[], &[FIRST, SECOND]).id(&scene.shards);
        let vote = |vote| scene.of(FIRST, 0..6, &Statement::Vote { id, vote });
        let commits = [vote(Commit), scene.votes(Commit, (0, 6))].concat();
        assert_eq!(scene.check(Certificate::FastCommit(commits.clone())), FOREIGN_STATEMENT);
        assert_eq!(scene.propose(Commit, Justification::Votes(commits)), FOREIGN_STATEMENT);
        assert_eq!(scene.check(Certificate::FastAbort(vote(Abort))), FOREIGN_STATEMENT);
        assert_eq!(scene.propose(Abort, Justification::Votes(vote(Abort))), FOREIGN_STATEMENT);
        let logged = Statement::Logged { id, decision: Commit, decision_view: 0, current_view: 0 };
        let logged = scene.of(scene.logging(), 0..6, &logged);
        assert_eq!(scene.check(Certificate::Logged(Commit, logged.clone())), FOREIGN_STATEMENT);
        assert_eq!(scene.propose(Commit, Justification::Logged(logged)), FOREIGN_STATEMENT);
    }

    #[test]
    fn the_opposite_votes_prove_nothing() {
        let scene = Scene::new();
        assert_eq!(scene.check(Certificate::FastCommit(scene.votes(Abort, (6, 6)))), FOREIGN_STATEMENT);
        assert_eq!(scene.check(Certificate::FastAbort(scene.votes(Commit, (6, 6)))), FOREIGN_STATEMENT);
        assert_eq!(scene.propose(Commit, Justification::Votes(scene.votes(Abort, (6, 6)))), FOREIGN_STATEMENT);
        assert_eq!(scene.propose(Abort, Justification::Votes(scene.votes(Commit, (6, 6)))), FOREIGN_STATEMENT);
    }

    #[test]
    fn every_vote_is_signed() {
        let scene = Scene::new();
        for position in [0, 5, 6, 11] {
            let mut votes = scene.votes(Commit, (6, 6));
            let stranger = votes[(position + 1) % 12].proof.clone();
            votes[position].proof = stranger;
            let expected = Err(CertificateError::Signature(votes[position].replica));
            assert_eq!(scene.check(Certificate::FastCommit(votes)), expected);
        }
        let mut logged = scene.of(scene.logging(), 0..6, &scene.logged(Commit, 0));
        logged[5].proof.signature[0] ^= 1;
        let expected = Err(CertificateError::Signature(logged[5].replica));
        assert_eq!(scene.check(Certificate::Logged(Commit, logged)), expected);
    }

    /// Certificates of a transaction that its client did not sign, or that is never valid.
    #[test]
    fn the_transaction_itself_is_checked() {
        let scene = Scene::new();
        let certificate = Certificate::FastCommit(scene.votes(Commit, (6, 6)));
        let check = |transaction: SignedTransaction| {
            let decided = Decided { transaction: Shared::new(transaction), certificate: certificate.clone() };
            decided.check(&mut Checker::new(&scene.shards, &Keys, &mut CheckedRoots::default()))
        };
        assert_eq!(check((*scene.transaction).clone()), Ok(()));
        let mut unsigned = (*scene.transaction).clone();
        unsigned.signature[0] ^= 1;
        assert_eq!(check(unsigned), Err(TransactionError::Signature.into()));
        let mut changed = (*scene.transaction).clone();
        changed.transaction.call = Bytes::from_static(b"other");
        assert_eq!(check(changed), Err(TransactionError::Signature.into()));
        let mut reversed = (*scene.transaction).clone();
        reversed.transaction.writes.reverse();
        assert_eq!(check(reversed), Err(TransactionError::Order.into()));
    }

    #[test]
    fn a_committed_conflict_aborts() {
        let scene = Scene::new();
        let conflict =
            |other: &Shared<SignedTransaction>| scene.check(Certificate::Conflict(scene.committed(other).committed().unwrap()));
        let missed = signed(&scene.shards, 50, &[], &[FIRST]);
        assert_eq!(conflict(&missed), Ok(()), "K3: it read the genesis, and this one wrote before it");
        let reader = signed(&scene.shards, 150, &[(SECOND, 50)], &[]);
        assert_eq!(conflict(&reader), Ok(()), "K4: it would write below this read");
    }

    /// Pitfall 9.
    #[test]
    fn an_unrelated_commit_aborts_nothing() {
        let scene = Scene::new();
        let conflict =
            |other: &Shared<SignedTransaction>| scene.check(Certificate::Conflict(scene.committed(other).committed().unwrap()));
        let unrelated = [
            ("another key", signed(&scene.shards, 50, &[], &[FOREIGN])),
            ("a later write", signed(&scene.shards, 150, &[], &[FIRST])),
            ("an earlier read", signed(&scene.shards, 50, &[(FIRST, 0)], &[])),
            ("a read of this write", signed(&scene.shards, 150, &[(FIRST, 100)], &[])),
            ("itself", Shared::clone(&scene.transaction)),
        ];
        for (name, other) in unrelated {
            assert_eq!(conflict(&other), Err(CertificateError::NoConflict), "{name}");
        }
    }

    #[test]
    fn a_conflict_must_be_committed() {
        let scene = Scene::new();
        let other = signed(&scene.shards, 50, &[], &[FIRST]);
        let id = other.id(&scene.shards);
        let conflict = |proof| {
            let transaction = Shared::clone(&other);
            scene.check(Certificate::Conflict(Committed { transaction, proof }))
        };
        let of = |members, statement| scene.of(FIRST, 0..members, &statement);
        let votes = |members, vote| CommitProof::Fast(of(members, Statement::Vote { id, vote }));
        let logged = |members, decision| {
            CommitProof::Logged(of(members, Statement::Logged { id, decision, decision_view: 0, current_view: 0 }))
        };
        assert_eq!(conflict(votes(6, Commit)), Ok(()));
        assert_eq!(conflict(logged(5, Commit)), Ok(()));
        assert_eq!(conflict(votes(5, Commit)), too_few(FIRST, 6, 5));
        assert_eq!(conflict(logged(4, Commit)), too_few(FIRST, 5, 4));
        assert_eq!(conflict(votes(6, Abort)), Err(CertificateError::Foreign));
        assert_eq!(conflict(logged(5, Abort)), Err(CertificateError::Foreign));
    }

    #[test]
    fn exactly_4f_plus_1_elections_of_one_view_decide() {
        let scene = Scene::new();
        let shard = ShardId(scene.logging());
        let elect = |members: std::ops::Range<u16>, decision, view| {
            scene.of(shard.0, members, &Statement::Elect { id: scene.id, decision, view })
        };
        let check = |elections: Vec<Attestation>| {
            let mut roots = CheckedRoots::default();
            check_elections(scene.id, shard, 3, &elections, &mut Checker::new(&scene.shards, &Keys, &mut roots))
        };
        let too_few = |got| Err(CertificateError::Votes { shard, expected: 5, got });
        for commits in 0..=5 {
            let expected = if commits >= 3 { Commit } else { Abort };
            let elections = [elect(0..commits, Commit, 3), elect(commits..5, Abort, 3)].concat();
            assert_eq!(check(elections), Ok(expected), "{commits} of 5");
        }
        assert_eq!(check(elect(0..4, Commit, 3)), too_few(4));
        assert_eq!(check(elect(0..6, Commit, 3)), too_few(6), "an even number has no majority");
        assert_eq!(
            check([elect(0..4, Commit, 3), elect(3..4, Commit, 3)].concat()),
            Err(CertificateError::Foreign),
            "a repeated signer"
        );
        assert_eq!(check([elect(0..4, Commit, 3), elect(4..5, Commit, 2)].concat()), Err(CertificateError::Foreign));
        let other_shard = scene.of(1 - shard.0, 0..5, &Statement::Elect { id: scene.id, decision: Commit, view: 3 });
        assert_eq!(check(other_shard), Err(CertificateError::Foreign));
        assert_eq!(check(scene.of(shard.0, 0..5, &scene.logged(Commit, 3))), Err(CertificateError::Foreign));
        let mut unsigned = elect(0..5, Commit, 3);
        unsigned[2].proof.signature[0] ^= 1;
        assert_eq!(check(unsigned), Err(CertificateError::Signature(replica(shard.0, 2))));
    }

    #[test]
    fn views_are_of_members_of_the_logging_shard() {
        let scene = Scene::new();
        let shard = ShardId(scene.logging());
        let check = |views: Vec<Attestation>| {
            let mut roots = CheckedRoots::default();
            check_views(scene.id, shard, &views, &mut Checker::new(&scene.shards, &Keys, &mut roots))
        };
        let bare = |view| Statement::View { id: scene.id, view };
        let views = [scene.of(shard.0, [1], &bare(2)), scene.of(shard.0, [4], &scene.logged(Abort, 1))].concat();
        assert_eq!(check(views), Ok(BTreeMap::from([(replica(shard.0, 1), 2), (replica(shard.0, 4), 9)])));
        assert_eq!(check(Vec::new()), Ok(BTreeMap::new()));
        assert_eq!(check(scene.of(1 - shard.0, [1], &bare(2))), Err(CertificateError::Foreign));
        let other = Statement::View { id: B256::ZERO, view: 2 };
        assert_eq!(check(scene.of(shard.0, [1], &other)), Err(CertificateError::Foreign));
        let election = Statement::Elect { id: scene.id, decision: Abort, view: 2 };
        assert_eq!(check(scene.of(shard.0, [1], &election)), Err(CertificateError::Foreign));
        let mut unsigned = scene.of(shard.0, [1], &bare(2));
        unsigned[0].proof.signature[0] ^= 1;
        assert_eq!(check(unsigned), Err(CertificateError::Signature(replica(shard.0, 1))));
    }
}
