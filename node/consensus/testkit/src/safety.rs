//! Omniscient checker: at every step, compares with everything that all correct validators did before.

use crate::MessageChecker;
use corniche_engine::{Offence, Ordered, Resume, VertexId};
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// A user's transaction; encoded in a batch as 8 bytes, little endian.
pub type TransactionId = u64;

/// The state of one run, shared by its processes.
#[derive(Default)]
pub struct SafetyChecker {
    /// The commits as the first correct validator delivered them.
    pub log: Vec<Ordered>,
    /// Block length, ms. The first transaction opens a block. It closes at the first commit at least this long after
    /// the previous block. A node with an open block wants further commits even without transactions.
    pub block_ms: u64,
    /// For each commit: true if a block is open after it.
    block_open: Vec<bool>,
    last_block: TimestampMs,
    /// Status of each validator, by identity.
    status: Vec<ValidatorStatus>,
    /// The first proposal that each correct validator sent per round; a second one is a violation.
    proposals: BTreeMap<(ValidatorIndex, u64), B256>,
    transactions: BTreeMap<TransactionId, TransactionState>,
    /// Batches that each validator's engine returned.
    returned: BTreeSet<(usize, Bytes)>,
    /// Accusations, without duplicates.
    pub accusations: BTreeSet<(ValidatorIndex, &'static str)>,
    violations: Vec<String>,
    /// Checks the messages of correct validators.
    pub message_checker: Option<Box<dyn MessageChecker>>,
}

/// Guarantees expected from a validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidatorStatus {
    Correct,
    /// Lost its records. It must agree with the others, but may contradict what it signed before the loss.
    LostRecords,
    Byzantine,
}

#[derive(Default)]
struct TransactionState {
    /// How often engines received it without returning it.
    batched: u32,
    delivered: u32,
    /// Index of the first commit that contains it.
    index: u64,
    /// A correct validator accepted it, so it must be delivered.
    must_deliver: bool,
}

impl SafetyChecker {
    pub fn new(size: usize) -> Self {
        Self { status: vec![ValidatorStatus::Correct; size], ..Self::default() }
    }

    pub fn status(&self, identity: usize) -> ValidatorStatus {
        self.status[identity]
    }

    /// Lowers a validator's status, which never improves.
    pub fn set_status(&mut self, identity: usize, status: ValidatorStatus) {
        self.status[identity] = status;
    }

    pub fn add_violation(&mut self, text: String) {
        self.violations.push(text);
    }

    /// Returns the first safety violation.
    pub fn verdict(&self) -> Result<(), String> {
        self.violations.first().map_or(Ok(()), |text| Err(text.clone()))
    }

    /// Records a commit of a validator that is not Byzantine.
    pub fn record_delivery(&mut self, identity: usize, ordered: &Ordered) {
        let position = ordered.index.0 as usize;
        match self.log.get(position.wrapping_sub(1)) {
            Some(first) if first == ordered => {}
            Some(first) => self.violations.push(format!(
                "agreement: validator {identity} delivered another commit {}: leader {} at {}, {} batches; first was leader {} at {}, {} batches{}",
                ordered.index, ordered.leader, ordered.time.0, ordered.batches.len(), first.leader, first.time.0, first.batches.len(),
                if first.checkpoint == ordered.checkpoint { "" } else { "; checkpoints differ" },
            )),
            None if position == self.log.len() + 1 => self.extend(ordered),
            None => self.violations.push(format!("gap: validator {identity} delivered commit {}", ordered.index)),
        }
    }

    fn extend(&mut self, ordered: &Ordered) {
        if self.log.last().is_some_and(|last| last.time > ordered.time) {
            self.violations.push(format!("time goes back at commit {}", ordered.index));
        }
        for (author, batch) in &ordered.batches {
            for id in transactions(&batch.bytes) {
                let state = self.transactions.entry(id).or_default();
                state.delivered += 1;
                if state.delivered == 1 {
                    state.index = ordered.index.0;
                }
                if state.delivered > state.batched && self.status[author.as_usize()] == ValidatorStatus::Correct {
                    let (delivered, batched) = (state.delivered, state.batched);
                    self.violations
                        .push(format!("integrity: transaction {id} delivered {delivered} times, batched {batched} times"));
                }
            }
        }
        let holds_some = self.is_block_open(self.log.len() as u64) || !ordered.batches.is_empty();
        let closes = holds_some && ordered.time.0 >= self.last_block.0 + self.block_ms;
        if closes {
            self.last_block = ordered.time;
        }
        self.block_open.push(holds_some && !closes);
        if let Some(message_checker) = &mut self.message_checker {
            message_checker.on_delivered(ordered);
        }
        self.log.push(ordered.clone());
    }

    /// Returns true if transactions up to this commit wait for a later commit to close their block.
    pub fn is_block_open(&self, index: u64) -> bool {
        (index as usize).checked_sub(1).and_then(|position| self.block_open.get(position)).is_some_and(|open| *open)
    }

    /// A validator accepted a user's transaction.
    pub fn record_submitted(&mut self, id: TransactionId, must_deliver: bool) {
        self.transactions.entry(id).or_default().must_deliver = must_deliver;
    }

    pub fn record_batched(&mut self, id: TransactionId) {
        self.transactions.entry(id).or_default().batched += 1;
    }

    /// The engine promised never to order this handed-over batch. After a restart with an older state it may repeat the
    /// promise; that counts once.
    pub fn record_requeued(&mut self, identity: usize, batch: &Bytes) {
        if self.returned.insert((identity, batch.clone())) {
            for id in transactions(batch) {
                let state = self.transactions.entry(id).or_default();
                state.batched = state.batched.saturating_sub(1);
            }
        }
    }

    /// Removes the obligation to deliver these transactions.
    pub fn waive_delivery(&mut self, ids: impl IntoIterator<Item = TransactionId>) {
        ids.into_iter().for_each(|id| self.record_submitted(id, false));
    }

    pub fn is_delivered(&self, id: TransactionId) -> bool {
        self.transactions.get(&id).is_some_and(|state| state.delivered > 0)
    }

    /// Transactions that correct validators accepted and that are not ordered yet.
    pub fn missing(&self) -> impl Iterator<Item = TransactionId> {
        self.transactions.iter().filter(|(_, state)| state.must_deliver && state.delivered == 0).map(|(id, _)| *id)
    }

    /// Commit up to which every validator must deliver so that no transaction is missing and no block is open. `None`
    /// while a transaction is missing or every later commit leaves a block open.
    pub fn target_commit(&self) -> Option<u64> {
        let must_deliver = || self.transactions.values().filter(|state| state.must_deliver);
        if !must_deliver().all(|state| state.delivered > 0) {
            return None;
        }
        let last = must_deliver().map(|state| state.index).max().unwrap_or(0);
        (last..=self.log.len() as u64).find(|index| !self.is_block_open(*index))
    }

    /// A validator sends its own proposal. `durable`: the record is on the sender's disk.
    pub fn record_proposal(&mut self, identity: usize, proposal: VertexId, durable: bool) {
        if self.status[identity] != ValidatorStatus::Correct {
            return;
        }
        if !durable {
            self.violations
                .push(format!("W1: validator {identity} sent its proposal of round {} before it was durable", proposal.round));
        }
        let first = *self.proposals.entry((proposal.author, proposal.round)).or_insert(proposal.digest);
        if first != proposal.digest {
            self.violations.push(format!("equivocation: validator {identity} sent two proposals for round {}", proposal.round));
        }
    }

    /// A validator sends a message.
    pub fn check_message(&mut self, identity: usize, message: &Bytes) {
        let message_checker = self.message_checker.as_mut().filter(|_| self.status[identity] == ValidatorStatus::Correct);
        if let Some(Err(violation)) = message_checker.map(|message_checker| message_checker.check(identity, message)) {
            self.violations.push(format!("conduct: validator {identity}: {violation}"));
        }
    }

    pub fn record_accusation(&mut self, by: usize, validator: ValidatorIndex, offence: Offence) {
        self.accusations.insert((validator, offence_name(offence)));
        if self.status[validator.as_usize()] == ValidatorStatus::Correct {
            self.violations
                .push(format!("accusation: validator {by} accuses correct validator {validator} of {}", offence_name(offence)));
        }
    }

    /// Resume point after commit `index`.
    pub fn resume(&self, index: u64) -> Resume {
        let last = (index as usize).checked_sub(1).and_then(|position| self.log.get(position));
        last.map_or_else(Resume::default, |ordered| Resume {
            index: CommitIndex(index),
            checkpoint: ordered.checkpoint.clone(),
            ..Resume::default()
        })
    }

    /// Hash of the sequence of commits; not collision-resistant.
    pub fn digest(&self) -> u64 {
        let fold = |hash: u64, bytes: &[u8]| {
            bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3))
        };
        self.log.iter().fold(0xCBF2_9CE4_8422_2325, |hash, ordered| {
            let hash = fold(hash, &ordered.time.0.to_le_bytes());
            let hash = fold(hash, &ordered.checkpoint);
            ordered.batches.iter().fold(hash, |hash, (_, batch)| fold(hash, &batch.bytes))
        })
    }
}

/// Splits a batch into transactions.
pub fn transactions(batch: &[u8]) -> impl Iterator<Item = TransactionId> {
    batch.chunks_exact(8).map(|chunk| TransactionId::from_le_bytes(chunk.try_into().expect("eight bytes")))
}

fn offence_name(offence: Offence) -> &'static str {
    match offence {
        Offence::Equivocation => "equivocation",
        Offence::BadSignature => "bad-signature",
        Offence::BadCoinShare => "bad-coin-share",
    }
}
