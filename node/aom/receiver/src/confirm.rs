//! CONFIRMs of a Byzantine network (L4).

use crate::{ConfirmVote, MAX_CONFIRMED};
use corniche_types::{ValidatorIndex, Weights};
use std::{collections::BTreeMap, sync::Arc};

/// CONFIRMs of the current epoch.
#[derive(Debug, Default)]
pub(crate) struct Confirms {
    /// The first vote of each member that covers a number. A vote for many numbers is held once.
    votes: BTreeMap<u64, BTreeMap<ValidatorIndex, Arc<ConfirmVote>>>,
    /// Digests that this receiver saw first and has not asked to confirm yet.
    due: BTreeMap<u64, [u8; 32]>,
    /// Every number to which this receiver gave its word, with the digest. At most one digest for each, for ever (pitfall 16).
    own: BTreeMap<u64, [u8; 32]>,
    /// Nothing at or below this number is confirmed any more.
    silent_through: u64,
}

impl Confirms {
    /// The first authentic packet with this number.
    pub fn note(&mut self, seq: u64, digest: [u8; 32]) {
        if seq > self.silent_through && !self.own.contains_key(&seq) {
            self.due.entry(seq).or_insert(digest);
        }
    }

    /// Takes the next batch: digests of numbers without a gap.
    pub fn next_batch(&mut self) -> Option<(u64, Vec<[u8; 32]>)> {
        let from = *self.due.first_key_value()?.0;
        let mut digests = Vec::new();
        while digests.len() < MAX_CONFIRMED {
            let seq = from + digests.len() as u64;
            let Some(digest) = self.due.remove(&seq) else { break };
            self.own.insert(seq, digest);
            digests.push(digest);
        }
        Some((from, digests))
    }

    /// Word given before a restart.
    pub fn restore(&mut self, vote: &ConfirmVote) {
        self.own.extend((vote.from..).zip(vote.digests.iter().copied()));
        self.insert(vote, u64::MAX);
    }

    /// Stores a vote for the numbers below `end`.
    pub fn insert(&mut self, vote: &ConfirmVote, end: u64) {
        let shared = Arc::new(vote.clone());
        for (seq, _) in (vote.from..end).zip(&vote.digests) {
            if seq > self.silent_through {
                self.votes.entry(seq).or_default().entry(vote.member).or_insert_with(|| shared.clone());
            }
        }
    }

    /// Votes of members with a quorum for this digest.
    pub fn quorum(&self, seq: u64, digest: [u8; 32], weights: &Weights) -> Option<Vec<ConfirmVote>> {
        let votes = self.votes.get(&seq)?;
        let matching = || votes.values().filter(|vote| vote.digest(seq) == Some(digest));
        (weights.weigh(matching().map(|vote| vote.member)) >= weights.quorum())
            .then(|| matching().map(|vote| (**vote).clone()).collect())
    }

    /// The vote of a member that covers a number.
    pub fn vote(&self, seq: u64, member: ValidatorIndex) -> Option<&ConfirmVote> {
        self.votes.get(&seq)?.get(&member).map(Arc::as_ref)
    }

    pub fn release(&mut self, through: u64) {
        self.silent_through = self.silent_through.max(through);
        let first = self.silent_through.saturating_add(1);
        self.votes = self.votes.split_off(&first);
        self.due = self.due.split_off(&first);
        self.own = self.own.split_off(&first);
    }

    pub fn count(&self) -> usize {
        self.votes.len() + self.due.len() + self.own.len()
    }
}
