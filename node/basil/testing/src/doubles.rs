//! Replicas and clients that lie. Each distorts what an honest state machine sends; signatures are their own.

use crate::{Random, Secret};
use corniche_basil::attestation::{Attestation, Decision, Statement, attest};
use corniche_basil::certificate::{Justification, Proposal};
use corniche_basil::closed::list_hash;
use corniche_basil::message::{Committed, Message, Peer, Versioned};
use corniche_basil::shards::{ReplicaId, Shards};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{SignedTransaction, Timestamp, TransactionId, Version};
use corniche_types::{B256, Bytes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A replica's lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Sends nothing.
    Silent,
    /// Votes Abort always.
    VoteAbort,
    /// Votes one way to some, and the other way to others.
    VoteBoth,
    /// Invents values, versions and constants.
    InventVersions,
    /// Replies that no key was ever written, also to a replica that copies the state; and has no constants.
    StaleReads,
    /// Claims another decision, to some.
    LogBoth,
    /// Elects another decision, and never reconciles as a leader.
    BadElections,
    /// Lists transactions that do not exist below a watermark, and none of the others.
    FakeLists,
}

pub const LIES: [Lie; 8] = [
    Lie::Silent,
    Lie::VoteAbort,
    Lie::VoteBoth,
    Lie::InventVersions,
    Lie::StaleReads,
    Lie::LogBoth,
    Lie::BadElections,
    Lie::FakeLists,
];

#[derive(Clone, Debug)]
pub struct Liar {
    pub lies: Vec<Lie>,
}

impl Liar {
    pub fn new(lie: Lie) -> Self {
        Self { lies: vec![lie] }
    }

    pub fn distort(
        &mut self,
        id: ReplicaId,
        shards: &Shards,
        random: &mut Random,
        to: Peer,
        message: Arc<Message>,
    ) -> Vec<(Peer, Arc<Message>)> {
        let lie = self.lies[usize::try_from(random.below(self.lies.len() as u64)).unwrap()];
        let sign = |statement| {
            let secret = Secret(*shards.key(id).unwrap());
            attest(shards, id, &secret, vec![statement]).remove(0)
        };
        let flip = |decision: Decision| if decision == Decision::Commit { Decision::Abort } else { Decision::Commit };
        let distorted = match (lie, &*message) {
            (Lie::Silent, _) => return Vec::new(),
            (Lie::BadElections, Message::Decide { .. }) => return Vec::new(),
            (Lie::VoteAbort, Message::Vote { vote, .. }) => {
                let id = vote.statement.id().unwrap();
                Message::Vote { vote: sign(Statement::Vote { id, vote: Decision::Abort }), conflict: None }
            }
            (Lie::VoteBoth, Message::Vote { vote, .. }) => {
                let id = vote.statement.id().unwrap();
                let vote = if random.chance(50) { Decision::Abort } else { Decision::Commit };
                Message::Vote { vote: sign(Statement::Vote { id, vote }), conflict: None }
            }
            (Lie::InventVersions, Message::ReadReply { timestamp, key, .. }) => {
                let version = Version {
                    timestamp: Timestamp { time_us: timestamp.time_us - 1, client: timestamp.client },
                    writer: B256::with_last_byte(random.below(200) as u8 + 1),
                };
                let value = Some(Bytes::from_static(b"invented"));
                let prepared = Some(Versioned { version, value: value.clone() });
                Message::ReadReply { timestamp: *timestamp, key: key.clone(), committed: Committed::Genesis(value), prepared }
            }
            (Lie::InventVersions, Message::Constant { key, .. }) => {
                Message::Constant { key: key.clone(), value: Bytes::from_static(b"invented") }
            }
            (Lie::StaleReads, Message::Constant { .. }) => return Vec::new(),
            (Lie::StaleReads, Message::ReadReply { timestamp, key, .. }) => Message::ReadReply {
                timestamp: *timestamp,
                key: key.clone(),
                committed: Committed::Genesis(None),
                prepared: None,
            },
            (Lie::StaleReads, Message::State { below_us, after, .. }) => {
                Message::State { below_us: *below_us, after: *after, transactions: Vec::new(), is_last: true }
            }
            (Lie::LogBoth, Message::Logged(attestation)) if random.chance(50) => match attestation.statement {
                Statement::Logged { id, decision, decision_view, current_view } => {
                    let decision = flip(decision);
                    Message::Logged(sign(Statement::Logged { id, decision, decision_view, current_view }))
                }
                _ => return vec![(to, message)],
            },
            (Lie::FakeLists, Message::Closed { closed, .. }) => match closed.statement {
                Statement::Closed { from_us, below_us, .. } => {
                    let transactions: Vec<_> = (1..=3).map(B256::with_last_byte).collect();
                    let list = list_hash(shards, &transactions);
                    Message::Closed { closed: sign(Statement::Closed { from_us, below_us, list }), transactions }
                }
                _ => return vec![(to, message)],
            },
            (Lie::BadElections, Message::Elect(attestation)) => match attestation.statement {
                Statement::Elect { id, decision, view } => {
                    Message::Elect(sign(Statement::Elect { id, decision: flip(decision), view }))
                }
                _ => return vec![(to, message)],
            },
            _ => return vec![(to, message)],
        };
        vec![(to, Arc::new(distorted))]
    }
}

/// A client's lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientLie {
    /// Prepares, and then stops (stall-early).
    StallEarly,
    /// Decides, and keeps it for itself (stall-late).
    StallLate,
    /// Sends its transaction to some replicas only.
    PartialPrepare,
    /// Proposes both decisions where votes allow it (equivocation).
    Equivocate,
    /// Equivocates where votes allow it, and follows the protocol in every other transaction (the paper's "real" equivocation).
    EquivocateIfPossible,
    /// Writes what its program does not.
    WrongWrites,
}

/// The lies of seeded schedules.
pub const CLIENT_LIES: [ClientLie; 5] =
    [ClientLie::StallEarly, ClientLie::StallLate, ClientLie::PartialPrepare, ClientLie::Equivocate, ClientLie::WrongWrites];

/// Votes that a lying client saw.
#[derive(Default)]
pub struct SeenVotes(BTreeMap<TransactionId, BTreeMap<(ReplicaId, Decision), Attestation>>);

impl SeenVotes {
    pub fn insert(&mut self, vote: &Attestation) {
        if let Statement::Vote { id, vote: decision } = vote.statement {
            self.0.entry(id).or_default().insert((vote.replica, decision), vote.clone());
        }
    }

    /// True if the votes allow both decisions.
    pub fn allow_both(&self, shards: &Shards, transaction: &Shared<SignedTransaction>) -> bool {
        [Decision::Commit, Decision::Abort].iter().all(|decision| self.proposal(shards, transaction, *decision).is_some())
    }

    /// A justified proposal of `decision`, if the votes allow one.
    pub fn proposal(
        &self,
        shards: &Shards,
        transaction: &Shared<SignedTransaction>,
        decision: Decision,
    ) -> Option<Arc<Message>> {
        let votes = self.0.get(&transaction.id(shards))?;
        let mut counts: BTreeMap<_, usize> = BTreeMap::new();
        for (replica, _) in votes.keys().filter(|(_, vote)| *vote == decision) {
            *counts.entry(replica.shard).or_default() += 1;
        }
        let involved = transaction.involved(shards);
        let count = |shard| counts.get(shard).copied().unwrap_or(0);
        let allowed = match decision {
            Decision::Commit => involved.iter().all(|shard| count(shard) >= shards.commit_quorum()),
            Decision::Abort => involved.iter().any(|shard| count(shard) >= shards.abort_quorum()),
        };
        let chosen: Vec<_> =
            votes.iter().filter(|((_, vote), _)| *vote == decision).map(|(_, attestation)| attestation.clone()).collect();
        allowed.then(|| {
            let justification = Justification::Votes(chosen);
            Arc::new(Message::Log(Shared::new(Proposal { transaction: Shared::clone(transaction), decision, justification })))
        })
    }
}

/// Returns what a lying client sends instead.
pub fn distort_client(
    lie: ClientLie,
    seen: &SeenVotes,
    shards: &Shards,
    random: &mut Random,
    to: Peer,
    message: Arc<Message>,
) -> Vec<(Peer, Arc<Message>)> {
    match (lie, &*message) {
        (ClientLie::StallEarly, Message::Read { .. } | Message::Prepare(_) | Message::Abandon { .. }) => vec![(to, message)],
        (ClientLie::StallEarly, _) => Vec::new(),
        (ClientLie::StallLate, Message::Writeback(_)) => Vec::new(),
        (ClientLie::PartialPrepare, Message::Prepare(_)) if random.chance(50) => Vec::new(),
        (ClientLie::PartialPrepare, Message::Recover(_) | Message::Log(_) | Message::Writeback(_)) => Vec::new(),
        (ClientLie::Equivocate, Message::Log(proposal)) => {
            let decision = if random.chance(50) { Decision::Commit } else { Decision::Abort };
            let other = seen.proposal(shards, &proposal.transaction, decision);
            vec![(to, other.unwrap_or(message))]
        }
        (ClientLie::Equivocate, Message::Writeback(_) | Message::InvokeFallback { .. }) => Vec::new(),
        (ClientLie::EquivocateIfPossible, Message::Log(proposal)) if seen.allow_both(shards, &proposal.transaction) => {
            let decision = if random.chance(50) { Decision::Commit } else { Decision::Abort };
            seen.proposal(shards, &proposal.transaction, decision).map(|message| (to, message)).into_iter().collect()
        }
        (ClientLie::EquivocateIfPossible, Message::Writeback(decided)) if seen.allow_both(shards, &decided.transaction) => {
            Vec::new()
        }
        (ClientLie::EquivocateIfPossible, Message::InvokeFallback { proposal, .. })
            if seen.allow_both(shards, &proposal.transaction) =>
        {
            Vec::new()
        }
        (ClientLie::WrongWrites, Message::Prepare(signed)) => {
            let mut wrong = (**signed).clone();
            for write in &mut wrong.transaction.writes {
                write.value = Some(Bytes::from_static(b"stolen"));
            }
            wrong.signature =
                corniche_basil::attestation::Signer::sign(&Secret(wrong.timestamp.client), &wrong.transaction.id(shards));
            vec![(to, Arc::new(Message::Prepare(Shared::new(wrong))))]
        }
        _ => vec![(to, message)],
    }
}
