//! Omniscient checker: at every step, compares with everything that all correct validators did before.

use crate::Judge;
use corniche_engine::{Offence, Ordered, Resume, VertexId};
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// A user's transaction; encoded in a batch as 8 bytes, little endian.
pub type TransactionId = u64;

/// The state of one run, shared by its processes.
#[derive(Default)]
pub struct Ledger {
    /// The commits as the first correct validator delivered them.
    pub log: Vec<Ordered>,
    /// Block length, ms. The first transaction opens a block. It closes at the first commit at least this long after
    /// the previous block. A node with an open block wants further commits even without transactions.
    pub block_ms: u64,
    /// For each commit: true if a block is open after it.
    open: Vec<bool>,
    last_block: TimestampMs,
    /// Standing of each validator, by identity.
    standing: Vec<Standing>,
    /// The first proposal that each correct validator sent per round; a second one is a violation.
    shown: BTreeMap<(ValidatorIndex, u64), B256>,
    transactions: BTreeMap<TransactionId, Fate>,
    /// Batches that each validator's engine returned.
    returned: BTreeSet<(usize, Bytes)>,
    /// Accusations, without duplicates.
    pub accusations: BTreeSet<(ValidatorIndex, &'static str)>,
    violations: Vec<String>,
    /// Judges the messages of correct validators.
    pub judge: Option<Box<dyn Judge>>,
}

/// Guarantees expected from a validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Correct,
    /// Lost its records. It must agree with the others, but may contradict what it signed before the loss.
    Forgetful,
    Byzantine,
}

#[derive(Default)]
struct Fate {
    /// How often engines received it without returning it.
    given: u32,
    delivered: u32,
    /// Index of the first commit that contains it.
    index: u64,
    /// A correct validator accepted it, so it must be delivered.
    owed: bool,
}

impl Ledger {
    pub fn new(size: usize) -> Self {
        Self { standing: vec![Standing::Correct; size], ..Self::default() }
    }

    pub fn standing(&self, identity: usize) -> Standing {
        self.standing[identity]
    }

    /// Lowers a validator's standing, which never improves.
    pub fn demote(&mut self, identity: usize, standing: Standing) {
        self.standing[identity] = standing;
    }

    pub fn violation(&mut self, text: String) {
        self.violations.push(text);
    }

    /// Returns the first safety violation.
    pub fn verdict(&self) -> Result<(), String> {
        self.violations.first().map_or(Ok(()), |text| Err(text.clone()))
    }

    /// Records a commit of a validator that is not Byzantine.
    pub fn delivered(&mut self, identity: usize, ordered: &Ordered) {
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
                let fate = self.transactions.entry(id).or_default();
                fate.delivered += 1;
                if fate.delivered == 1 {
                    fate.index = ordered.index.0;
                }
                if fate.delivered > fate.given && self.standing[author.as_usize()] == Standing::Correct {
                    let (delivered, given) = (fate.delivered, fate.given);
                    self.violations
                        .push(format!("integrity: transaction {id} delivered {delivered} times, given {given} times"));
                }
            }
        }
        let holds_some = self.is_open(self.log.len() as u64) || !ordered.batches.is_empty();
        let closes = holds_some && ordered.time.0 >= self.last_block.0 + self.block_ms;
        if closes {
            self.last_block = ordered.time;
        }
        self.open.push(holds_some && !closes);
        if let Some(judge) = &mut self.judge {
            judge.delivered(ordered);
        }
        self.log.push(ordered.clone());
    }

    /// Returns true if transactions up to this commit wait for a later commit to close their block.
    pub fn is_open(&self, index: u64) -> bool {
        (index as usize).checked_sub(1).and_then(|position| self.open.get(position)).is_some_and(|open| *open)
    }

    /// A validator accepted a user's transaction.
    pub fn accepted(&mut self, id: TransactionId, owed: bool) {
        self.transactions.entry(id).or_default().owed = owed;
    }

    pub fn given(&mut self, id: TransactionId) {
        self.transactions.entry(id).or_default().given += 1;
    }

    /// The engine promised never to order this handed-over batch. After a restart with an older state it may repeat the
    /// promise; that counts once.
    pub fn given_back(&mut self, identity: usize, batch: &Bytes) {
        if self.returned.insert((identity, batch.clone())) {
            for id in transactions(batch) {
                let fate = self.transactions.entry(id).or_default();
                fate.given = fate.given.saturating_sub(1);
            }
        }
    }

    /// Removes the obligation to deliver these transactions.
    pub fn forgive(&mut self, ids: impl IntoIterator<Item = TransactionId>) {
        ids.into_iter().for_each(|id| self.accepted(id, false));
    }

    pub fn is_delivered(&self, id: TransactionId) -> bool {
        self.transactions.get(&id).is_some_and(|fate| fate.delivered > 0)
    }

    /// Transactions that correct validators accepted and that are not ordered yet.
    pub fn missing(&self) -> impl Iterator<Item = TransactionId> {
        self.transactions.iter().filter(|(_, fate)| fate.owed && fate.delivered == 0).map(|(id, _)| *id)
    }

    /// Commit up to which every validator must deliver so that no transaction is missing and no block is open. `None`
    /// while a transaction is missing or every later commit leaves a block open.
    pub fn goal(&self) -> Option<u64> {
        let owed = || self.transactions.values().filter(|fate| fate.owed);
        if !owed().all(|fate| fate.delivered > 0) {
            return None;
        }
        let last = owed().map(|fate| fate.index).max().unwrap_or(0);
        (last..=self.log.len() as u64).find(|index| !self.is_open(*index))
    }

    /// A validator sends its own proposal. `durable`: the record is on the sender's disk.
    pub fn shown(&mut self, identity: usize, proposal: VertexId, durable: bool) {
        if self.standing[identity] != Standing::Correct {
            return;
        }
        if !durable {
            self.violations
                .push(format!("W1: validator {identity} sent its proposal of round {} before it was durable", proposal.round));
        }
        let first = *self.shown.entry((proposal.author, proposal.round)).or_insert(proposal.digest);
        if first != proposal.digest {
            self.violations.push(format!("equivocation: validator {identity} sent two proposals for round {}", proposal.round));
        }
    }

    /// A validator sends a message.
    pub fn said(&mut self, identity: usize, message: &Bytes) {
        let judge = self.judge.as_mut().filter(|_| self.standing[identity] == Standing::Correct);
        if let Some(Err(violation)) = judge.map(|judge| judge.hear(identity, message)) {
            self.violations.push(format!("conduct: validator {identity}: {violation}"));
        }
    }

    pub fn accused(&mut self, by: usize, validator: ValidatorIndex, offence: Offence) {
        self.accusations.insert((validator, name(offence)));
        if self.standing[validator.as_usize()] == Standing::Correct {
            self.violations
                .push(format!("accusation: validator {by} accuses {validator}, which is correct, of {}", name(offence)));
        }
    }

    /// Resume point after commit `index`.
    pub fn resume(&self, index: u64) -> Resume {
        let last = (index as usize).checked_sub(1).and_then(|position| self.log.get(position));
        last.map_or_else(Resume::default, |ordered| Resume {
            index: CommitIndex(index),
            checkpoint: ordered.checkpoint.clone(),
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

fn name(offence: Offence) -> &'static str {
    match offence {
        Offence::Equivocation => "equivocation",
        Offence::BadSignature => "bad-signature",
        Offence::BadCoinShare => "bad-coin-share",
    }
}
