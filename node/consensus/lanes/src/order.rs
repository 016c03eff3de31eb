//! The replicated state of an engine: the position in the sequence of commits. It is a function of the decided values, so its
//! encoding, the checkpoint, is equal at every validator.

use crate::{Exchange, LaneBatch, LaneValue, Tip, advance};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Batch, Committee, Ordered, Output, Resume, TraceEvent};
use corniche_types::{B256, CommitIndex, TimestampMs, ValidatorIndex, wire};

/// Position of a decision in the log. The default is that of the genesis.
pub trait Position: Copy + Default + BorshSerialize + BorshDeserialize {
    fn index(&self) -> CommitIndex;
}

/// Content of [`Ordered::checkpoint`]. `M` is the part that only one engine has.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Checkpoint<P, M = ()> {
    /// Position of the last delivered decision.
    pub at: P,
    /// The last delivered batch of each lane.
    pub delivered: Vec<Tip>,
    pub time: TimestampMs,
    pub randomness: B256,
    pub more: M,
}

/// A decision that is delivered next.
pub struct Next<'a, P, V> {
    pub at: P,
    pub value: &'a V,
    /// Digest of the decision, from which randomness is made.
    pub digest: B256,
    pub leader: ValidatorIndex,
}

/// Turns decided values into the sequence of deliveries.
pub struct Order<P, M = ()> {
    /// Context of the randomness, different for each engine.
    tag: &'static str,
    state: Checkpoint<P, M>,
}

impl<P: Position, M: Default + BorshSerialize + BorshDeserialize> Order<P, M> {
    /// Starts from a checkpoint of this engine, which a certificate covers or this node wrote, or from the genesis with this time and
    /// randomness.
    pub fn new(resume: &Resume, committee: &Committee, genesis: (TimestampMs, B256), tag: &'static str) -> Self {
        let state = if resume.checkpoint.is_empty() {
            let ((time, randomness), delivered) = (genesis, vec![Tip::default(); committee.size()]);
            Checkpoint { at: P::default(), delivered, time, randomness, more: M::default() }
        } else {
            wire::decode(&resume.checkpoint).expect("a checkpoint was encoded by this engine, or a certificate covers its hash")
        };
        assert_eq!(state.at.index(), resume.index, "the checkpoint belongs to the commit it is stored with");
        assert_eq!(state.delivered.len(), committee.size(), "the checkpoint belongs to this committee");
        Self { tag, state }
    }

    /// Position of the last delivered decision.
    pub fn at(&self) -> P {
        self.state.at
    }

    /// The last delivered batch of each lane.
    pub fn tips(&self) -> &[Tip] {
        &self.state.delivered
    }

    /// The last delivered batch of a lane.
    pub fn tip(&self, author: ValidatorIndex) -> Tip {
        self.state.delivered[author.as_usize()]
    }

    /// The part that only one engine has. It changes right before [`Self::deliver`].
    pub fn more(&mut self) -> &mut M {
        &mut self.state.more
    }

    pub fn state(&self) -> &Checkpoint<P, M> {
        &self.state
    }

    /// Delivers the next decision with its batches, as [`Lanes::next_batches`](crate::Lanes::next_batches) returns them. Own batches
    /// that lost against earlier ones go back.
    pub fn deliver<V: LaneValue>(
        &mut self,
        exchange: &mut Exchange,
        next: Next<'_, P, V>,
        batches: Vec<LaneBatch>,
    ) -> Vec<Output> {
        let before = self.tip(exchange.me);
        let ordered = self.execute(next, batches);
        let commit = ordered.index;
        let trace = Output::Trace(TraceEvent::Delivered { round: commit.0, rank: 0, commit });
        let mut outputs = vec![trace, Output::Deliver(ordered)];
        exchange.lanes.follow(self.tips());
        outputs.extend(exchange.displaced(before, self.tips()));
        outputs
    }

    fn execute<V: LaneValue>(&mut self, next: Next<'_, P, V>, batches: Vec<LaneBatch>) -> Ordered {
        let (index, state) = (next.at.index(), &mut self.state);
        assert_eq!(index.0, state.at.index().0 + 1, "decisions are executed in order");
        state.at = next.at;
        advance(&mut state.delivered, next.value.tips());
        state.time = state.time.max(next.value.time());
        // A proposer can try several values and propose the one it likes: this randomness can be biased.
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.tag.as_bytes()).update(state.randomness.as_slice()).update(next.digest.as_slice());
        state.randomness = B256::from(*hasher.finalize().as_bytes());
        let full = batches.into_iter().filter(|batch| !batch.bytes.is_empty());
        Ordered {
            index,
            leader: next.leader,
            time: state.time,
            randomness: state.randomness,
            batches: full.map(|batch| (batch.author, Batch { bytes: batch.bytes })).collect(),
            checkpoint: wire::encode(&*state).into(),
        }
    }
}
