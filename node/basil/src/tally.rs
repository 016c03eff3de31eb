//! Votes of the shards of one transaction, and what they allow (P1, P2). Pure.

use crate::attestation::{Attestation, Decision, Statement};
use crate::certificate::{Certificate, Committed, Justification};
use crate::shards::{ReplicaId, ShardId, Shards};
use crate::transaction::TransactionId;
use std::collections::{BTreeMap, BTreeSet};

/// Result of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pending,
    FastCommit,
    SlowCommit,
    FastAbort,
    SlowAbort,
}

/// Result of all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tallied {
    /// More votes are needed, or a timer.
    Pending,
    /// The decision is durable: no ST2 is needed.
    Fast(Certificate),
    /// The decision must be logged first.
    Slow(Decision, Justification),
}

/// Votes of one transaction.
#[derive(Debug)]
pub struct Tally {
    id: TransactionId,
    shards: BTreeMap<ShardId, Votes>,
    /// A committed transaction that conflicts.
    conflict: Option<Committed>,
}

#[derive(Debug, Default)]
struct Votes {
    commits: BTreeMap<ReplicaId, Attestation>,
    aborts: BTreeMap<ReplicaId, Attestation>,
}

impl Tally {
    pub fn new(id: TransactionId, involved: &BTreeSet<ShardId>) -> Self {
        let shards = involved.iter().map(|shard| (*shard, Votes::default())).collect();
        Self { id, shards, conflict: None }
    }

    /// Counts a verified vote. A replica's first vote counts: returns false for others.
    pub fn insert(&mut self, vote: Attestation) -> bool {
        let Statement::Vote { id, vote: decision } = vote.statement else { return false };
        if id != self.id || self.has(vote.replica) {
            return false;
        }
        let Some(votes) = self.shards.get_mut(&vote.replica.shard) else { return false };
        match decision {
            Decision::Commit => votes.commits.insert(vote.replica, vote),
            Decision::Abort => votes.aborts.insert(vote.replica, vote),
        };
        true
    }

    /// Takes a verified committed transaction that forbids this one (pitfall 9 is the caller's).
    pub fn insert_conflict(&mut self, other: Committed) {
        self.conflict.get_or_insert(other);
    }

    /// True if this replica voted.
    pub fn has(&self, replica: ReplicaId) -> bool {
        self.shards
            .get(&replica.shard)
            .is_some_and(|votes| votes.commits.contains_key(&replica) || votes.aborts.contains_key(&replica))
    }

    /// True if every shard has as many votes as a client can wait for.
    pub fn is_settled(&self, shards: &Shards) -> bool {
        self.shards.values().all(|votes| votes.count() >= shards.reachable())
    }

    /// P1 and P2. `patience_over`: votes that are still missing are not waited for.
    pub fn result(&self, shards: &Shards, patience_over: bool) -> Tallied {
        if let Some(other) = &self.conflict {
            return Tallied::Fast(Certificate::Conflict(other.clone()));
        }
        let verdicts: Vec<_> = self.shards.values().map(|votes| (votes.verdict(shards, patience_over), votes)).collect();
        let find = |wanted: Verdict| verdicts.iter().find(|(verdict, _)| *verdict == wanted).map(|(_, votes)| *votes);
        if let Some(votes) = find(Verdict::FastAbort) {
            return Tallied::Fast(Certificate::FastAbort(votes.aborts.values().cloned().collect()));
        }
        if let Some(votes) = find(Verdict::SlowAbort) {
            return Tallied::Slow(Decision::Abort, Justification::Votes(votes.aborts.values().cloned().collect()));
        }
        if find(Verdict::Pending).is_some() {
            return Tallied::Pending;
        }
        let commits = self.shards.values().flat_map(|votes| votes.commits.values().cloned()).collect();
        if find(Verdict::SlowCommit).is_some() {
            return Tallied::Slow(Decision::Commit, Justification::Votes(commits));
        }
        Tallied::Fast(Certificate::FastCommit(commits))
    }
}

impl Votes {
    fn count(&self) -> usize {
        self.commits.len() + self.aborts.len()
    }

    fn verdict(&self, shards: &Shards, patience_over: bool) -> Verdict {
        let (commits, aborts, missing) = (self.commits.len(), self.aborts.len(), shards.all() - self.count());
        if aborts >= shards.fast_abort() {
            return Verdict::FastAbort;
        }
        if commits == shards.all() {
            return Verdict::FastCommit;
        }
        let fast_is_possible = aborts == 0 || aborts + missing >= shards.fast_abort();
        // At 3f + 1 votes normal delays look like conflicts (pitfall 12).
        if self.count() < shards.reachable() || fast_is_possible && missing > 0 && !patience_over {
            return Verdict::Pending;
        }
        // Commit is preferred if both quorums are there (pitfall 13).
        if commits >= shards.commit_quorum() { Verdict::SlowCommit } else { Verdict::SlowAbort }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::B256;

    fn verdict(commits: u16, aborts: u16, patience_over: bool) -> Verdict {
        let shards = Shards::new(1, 0, 1, vec![(0..6).map(B256::with_last_byte).collect()]).unwrap();
        let attestation = |member: u16| {
            let replica = ReplicaId { shard: ShardId(0), member };
            let statement = Statement::View { id: B256::ZERO, view: 0 };
            let proof = crate::attestation::BatchProof { signature: [0; 64], index: 0, count: 1, path: Vec::new() };
            (replica, Attestation { replica, statement, proof })
        };
        let votes = Votes {
            commits: (0..commits).map(attestation).collect(),
            aborts: (commits..commits + aborts).map(attestation).collect(),
        };
        votes.verdict(&shards, patience_over)
    }

    /// Every combination of six votes.
    #[test]
    fn verdicts_of_six_replicas() {
        for commits in 0..=6 {
            for aborts in 0..=6 - commits {
                for patience_over in [false, true] {
                    let (count, missing) = (commits + aborts, 6 - commits - aborts);
                    let expected = match (commits, aborts) {
                        (_, 4..) => Verdict::FastAbort,
                        (6, _) => Verdict::FastCommit,
                        _ if count < 5 => Verdict::Pending,
                        // One vote is missing, and a fast path needs it.
                        (5, 0) | (2, 3) if missing == 1 && !patience_over => Verdict::Pending,
                        (4.., _) => Verdict::SlowCommit,
                        _ => Verdict::SlowAbort,
                    };
                    assert_eq!(verdict(commits, aborts, patience_over), expected, "{commits} {aborts} {patience_over}");
                }
            }
        }
    }
}
