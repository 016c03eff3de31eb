//! Who sees everything: safety, checked at every step against what all correct validators did before.

use crate::Judge;
use corniche_engine::{Offence, Ordered, Resume, VertexId};
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// A user's transaction, as a batch carries it: eight bytes, little endian.
pub type TransactionId = u64;

/// One run's truth. Shared by its processes.
#[derive(Default)]
pub struct Ledger {
    /// The commits, as the first correct validator delivered them.
    pub log: Vec<Ordered>,
    /// Transactions make a block, which closes at the first commit so long after the block before, ms. Nodes whose block is open want
    /// commits also when nobody has transactions.
    pub block_ms: u64,
    /// Whether a block is open after each commit.
    open: Vec<bool>,
    last_block: TimestampMs,
    /// What each validator is, by identity.
    standing: Vec<Standing>,
    /// The one proposal per round that a correct validator may show.
    shown: BTreeMap<(ValidatorIndex, u64), B256>,
    transactions: BTreeMap<TransactionId, Fate>,
    /// The batches that each validator's engine gave back.
    returned: BTreeSet<(usize, Bytes)>,
    /// Accusations, however often.
    pub accusations: BTreeSet<(ValidatorIndex, &'static str)>,
    violations: Vec<String>,
    /// Of what correct validators say.
    pub judge: Option<Box<dyn Judge>>,
}

/// How much is expected of a validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Correct,
    /// Its records are gone. It must agree with the others, but what it signed before may be beyond anybody's memory.
    Forgetful,
    Byzantine,
}

#[derive(Default)]
struct Fate {
    /// How often it was handed to an engine and not given back.
    given: u32,
    delivered: u32,
    /// The index of its first commit.
    index: u64,
    /// A correct validator took it in.
    owed: bool,
}

impl Ledger {
    pub fn new(size: usize) -> Self {
        Self { standing: vec![Standing::Correct; size], ..Self::default() }
    }

    pub fn standing(&self, identity: usize) -> Standing {
        self.standing[identity]
    }

    /// A validator turns worse, never better.
    pub fn demote(&mut self, identity: usize, standing: Standing) {
        self.standing[identity] = standing;
    }

    pub fn violation(&mut self, text: String) {
        self.violations.push(text);
    }

    /// The first safety violation.
    pub fn verdict(&self) -> Result<(), String> {
        self.violations.first().map_or(Ok(()), |text| Err(text.clone()))
    }

    /// A validator that is not Byzantine delivered `ordered`.
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

    /// Whether transactions up to this commit wait for a later one to close their block.
    pub fn is_open(&self, index: u64) -> bool {
        (index as usize).checked_sub(1).and_then(|position| self.open.get(position)).is_some_and(|open| *open)
    }

    /// A user's transaction was accepted.
    pub fn accepted(&mut self, id: TransactionId, owed: bool) {
        self.transactions.entry(id).or_default().owed = owed;
    }

    pub fn given(&mut self, id: TransactionId) {
        self.transactions.entry(id).or_default().given += 1;
    }

    /// The engine promised never to order this handing over. After a restart with an older state it says so again, as it
    /// delivers again; that counts once.
    pub fn given_back(&mut self, identity: usize, batch: &Bytes) {
        if self.returned.insert((identity, batch.clone())) {
            for id in transactions(batch) {
                let fate = self.transactions.entry(id).or_default();
                fate.given = fate.given.saturating_sub(1);
            }
        }
    }

    /// Nobody answers for these any more.
    pub fn forgive(&mut self, ids: impl IntoIterator<Item = TransactionId>) {
        ids.into_iter().for_each(|id| self.accepted(id, false));
    }

    pub fn is_delivered(&self, id: TransactionId) -> bool {
        self.transactions.get(&id).is_some_and(|fate| fate.delivered > 0)
    }

    /// The transactions that correct validators accepted and that are not ordered yet.
    pub fn missing(&self) -> impl Iterator<Item = TransactionId> {
        self.transactions.iter().filter(|(_, fate)| fate.owed && fate.delivered == 0).map(|(id, _)| *id)
    }

    /// The commit up to which everybody must have delivered so that nothing is missing and no block is open anywhere; `None` while
    /// something is missing or open everywhere.
    pub fn goal(&self) -> Option<u64> {
        let owed = || self.transactions.values().filter(|fate| fate.owed);
        if !owed().all(|fate| fate.delivered > 0) {
            return None;
        }
        let last = owed().map(|fate| fate.index).max().unwrap_or(0);
        (last..=self.log.len() as u64).find(|index| !self.is_open(*index))
    }

    /// A proposal of a validator's own is sent. `durable`: its record is on the sender's disk.
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

    /// A validator sends something.
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

    /// Where the sequence stands after commit `index`.
    pub fn resume(&self, index: u64) -> Resume {
        let last = (index as usize).checked_sub(1).and_then(|position| self.log.get(position));
        last.map_or_else(Resume::default, |ordered| Resume {
            index: CommitIndex(index),
            checkpoint: ordered.checkpoint.clone(),
        })
    }

    /// The same for the same sequence of commits, with overwhelming likelihood.
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

/// The transactions of a batch.
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
