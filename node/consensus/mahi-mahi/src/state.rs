//! The replicated state of the engine: the position in the sequence of commits. It is a function of the commits so far,
//! so its encoding, the checkpoint, is equal at every validator.

use crate::{
    dag::Dag,
    message::{Block, BlockRef, Round, first_of},
    rules::Slot,
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Batch, Ordered, Resume};
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex, Votes, wire};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// Content of [`Ordered::checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Checkpoint {
    pub index: CommitIndex,
    /// The first slot after the last committed one (P6: round and rank).
    pub next: Slot,
    /// G1: blocks of rounds up to this one are never delivered any more.
    pub floor: Round,
    /// Time of the last commit.
    pub time: TimestampMs,
    /// Per author, one bit per round, starting at the byte of `floor` (round r is bit r mod 8 of byte r / 8 − floor /
    /// 8): delivered. Bits up to the floor are zero, trailing zero bytes are omitted.
    pub delivered: Vec<Bytes>,
}

/// Turns committed leaders into the sequence of deliveries (D7–D9, G1–G2).
pub struct Sequence {
    index: CommitIndex,
    next: Slot,
    floor: Round,
    time: TimestampMs,
    delivered: Delivered,
    /// Blocks whose history an earlier commit walked: everything below them is known. Only an optimisation; after a
    /// resume it is empty, and the whole history above the floor is walked again.
    walked: BTreeSet<BlockRef>,
}

/// One commit and the blocks it delivers.
pub struct Commit {
    pub ordered: Ordered,
    /// The blocks that this commit delivers, in order.
    pub blocks: Vec<Arc<Block>>,
}

impl Sequence {
    /// Starts from the genesis or from a checkpoint of this engine, which a certificate covers or this node wrote.
    pub fn new(resume: &Resume, committee_size: usize, genesis_time: TimestampMs) -> Self {
        let checkpoint = if resume.checkpoint.is_empty() {
            let delivered = vec![Bytes::new(); committee_size];
            Checkpoint { index: CommitIndex(0), next: Slot::FIRST, floor: Round(0), time: genesis_time, delivered }
        } else {
            wire::decode(&resume.checkpoint).expect("a checkpoint was encoded by this engine, or a certificate covers its hash")
        };
        assert_eq!(checkpoint.index, resume.index, "the checkpoint belongs to the commit it is stored with");
        assert_eq!(checkpoint.delivered.len(), committee_size, "the checkpoint belongs to this committee");
        let Checkpoint { index, next, floor, time, delivered } = checkpoint;
        let delivered = Delivered { floor, rows: delivered.iter().map(|row| row.iter().copied().collect()).collect() };
        Self { index, next, floor, time, delivered, walked: BTreeSet::new() }
    }

    pub fn next(&self) -> Slot {
        self.next
    }

    pub fn floor(&self) -> Round {
        self.floor
    }

    pub fn is_delivered(&self, round: Round, author: ValidatorIndex) -> bool {
        self.delivered.contains(round, author)
    }

    /// D7: moves the cursor past a skipped or committed slot.
    pub fn advance_to(&mut self, next: Slot) {
        self.next = next;
    }

    /// D8, D9: commits `leader`, the block of the slot before the cursor.
    pub fn commit(&mut self, dag: &Dag, leader: &Arc<Block>, randomness: B256, gc_depth: u64) -> Commit {
        let mut blocks = self.sub_dag(dag, leader);
        // D9: of two siblings, the first in commit order is delivered and the other suppressed.
        blocks.retain(|block| self.delivered.insert(block.round(), block.author()));
        self.index = self.index.next();
        self.time = self.time.max(previous_round_time(dag, leader));
        // G1, after G2 used the old value.
        self.floor = self.floor.max(leader.round() - gc_depth);
        self.delivered.raise_floor(self.floor);
        self.walked = self.walked.split_off(&first_of(self.floor + 1));
        let batches = blocks.iter().filter(|block| !block.content().batch.is_empty());
        let batches = batches.map(|block| (block.author(), Batch { bytes: block.content().batch.clone() })).collect();
        let (index, time, leader) = (self.index, self.time, leader.author());
        let ordered = Ordered { index, leader, time, randomness, batches, checkpoint: self.checkpoint() };
        Commit { ordered, blocks }
    }

    pub fn checkpoint(&self) -> Bytes {
        let Self { index, next, floor, time, .. } = *self;
        wire::encode(&Checkpoint { index, next, floor, time, delivered: self.delivered.encode() }).into()
    }

    /// D8 with G2: all blocks above the floor in the leader's history that no earlier commit walked, by (round, author,
    /// digest).
    fn sub_dag(&mut self, dag: &Dag, leader: &Arc<Block>) -> Vec<Arc<Block>> {
        let mut found = Vec::new();
        let mut stack = vec![leader.reference()];
        while let Some(reference) = stack.pop() {
            if reference.round <= self.floor || !self.walked.insert(reference) {
                continue;
            }
            let block = dag.get(&reference).expect("V8: the history above the floor of a block in the DAG is in the DAG");
            stack.extend_from_slice(block.parents());
            found.push(block.clone());
        }
        found.sort_unstable_by_key(|block| block.reference());
        found
    }
}

/// Lower median of the timestamps of the leader's parents in the previous round, by votes. Their authors are distinct and
/// have at least 2F + 1 votes (V3, V4). At most F of these belong to validators that lie or whose clocks are wrong. That is less
/// than half, so the lower median is between two right timestamps. Nothing else bounds a block's timestamp. Genesis blocks have no time.
fn previous_round_time(dag: &Dag, leader: &Block) -> TimestampMs {
    let previous = leader.parents().iter().filter(|parent| parent.round + 1 == leader.round());
    let blocks = previous.filter_map(|parent| dag.get(parent));
    let times: Vec<_> = blocks.map(|block| (block.author(), Reverse(block.content().timestamp))).collect();
    let votes = dag.weights().weigh(times.iter().map(|(author, _)| *author));
    dag.weights().reached(times, Votes(votes.0.div_ceil(2))).map_or(TimestampMs(0), |Reverse(time)| time)
}

/// The delivered (round, author) slots above the floor, as bits.
struct Delivered {
    floor: Round,
    /// Per author; byte 0 contains the floor's round.
    rows: Vec<VecDeque<u8>>,
}

impl Delivered {
    fn position(&self, round: Round) -> (usize, u8) {
        let byte =
            usize::try_from(round.0 / 8 - self.floor.0 / 8).expect("rounds above the floor are as many as fit in memory");
        (byte, 1 << (round.0 % 8))
    }

    fn contains(&self, round: Round, author: ValidatorIndex) -> bool {
        if round <= self.floor {
            return false;
        }
        let (byte, bit) = self.position(round);
        self.rows[author.as_usize()].get(byte).is_some_and(|bits| bits & bit != 0)
    }

    /// Marks a slot above the floor. Returns false if it was marked already.
    fn insert(&mut self, round: Round, author: ValidatorIndex) -> bool {
        let (byte, bit) = self.position(round);
        let row = &mut self.rows[author.as_usize()];
        if row.len() <= byte {
            row.resize(byte + 1, 0);
        }
        let fresh = row[byte] & bit == 0;
        row[byte] |= bit;
        fresh
    }

    fn raise_floor(&mut self, floor: Round) {
        let bytes = usize::try_from(floor.0 / 8 - self.floor.0 / 8).unwrap_or(usize::MAX);
        for row in &mut self.rows {
            row.drain(..bytes.min(row.len()));
            if let Some(first) = row.front_mut() {
                // Clears the bits of rounds up to the floor in its own byte.
                *first &= u8::MAX.checked_shl(u32::try_from(floor.0 % 8).expect("below 8") + 1).unwrap_or(0);
            }
        }
        self.floor = floor;
    }

    fn encode(&self) -> Vec<Bytes> {
        let trimmed = |row: &VecDeque<u8>| {
            let length = row.iter().rposition(|bits| *bits != 0).map_or(0, |last| last + 1);
            row.iter().take(length).copied().collect::<Vec<_>>().into()
        };
        self.rows.iter().map(trimmed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V0: ValidatorIndex = ValidatorIndex(0);

    #[test]
    fn delivered_slots_are_kept_above_floor() {
        let mut delivered = Delivered { floor: Round(0), rows: vec![VecDeque::new(); 2] };
        for round in [1, 7, 8, 9, 30] {
            assert!(delivered.insert(Round(round), V0));
            assert!(!delivered.insert(Round(round), V0));
        }
        delivered.raise_floor(Round(8));
        let known: Vec<_> = (0..40).filter(|round| delivered.contains(Round(*round), V0)).collect();
        assert_eq!(known, [9, 30]);
        assert_eq!(delivered.encode()[1], Bytes::new());
    }

    #[test]
    fn encoding_is_independent_of_floor_steps() {
        for floor in 0..40 {
            let mut at_once = Delivered { floor: Round(0), rows: vec![VecDeque::new()] };
            let mut stepwise = Delivered { floor: Round(0), rows: vec![VecDeque::new()] };
            for round in (1..40).filter(|round| round % 3 != 0) {
                at_once.insert(Round(round), V0);
                stepwise.insert(Round(round), V0);
            }
            at_once.raise_floor(Round(floor));
            (0..=floor).for_each(|step| stepwise.raise_floor(Round(step)));
            assert_eq!(at_once.encode(), stepwise.encode(), "floor {floor}");
            let resumed = Delivered { floor: Round(floor), rows: vec![at_once.encode()[0].iter().copied().collect()] };
            (0..50).for_each(|round| assert_eq!(resumed.contains(Round(round), V0), at_once.contains(Round(round), V0)));
        }
    }
}
