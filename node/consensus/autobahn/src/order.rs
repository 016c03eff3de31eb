//! The replicated state of the engine: the position in the sequence of commits (O1–O5). It is a function of the
//! committed cuts and their cars, so its encoding, the checkpoint, is equal at every validator.

use crate::{
    message::{Context, Cut, HashedCar, Slot, Tip, View},
    rules::{Schedule, zip},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Batch, Committee, Ordered, Resume};
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, wire};
use std::sync::Arc;

/// Content of [`Ordered::checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Checkpoint {
    pub slot: Slot,
    /// The cuts of the last k slots up to `slot`, ascending: the anchors of the next k slots (P14).
    pub anchors: Vec<Cut>,
    /// last_commit: the highest executed car per lane.
    pub executed: Vec<Tip>,
    /// Time of the last commit.
    pub time: TimestampMs,
    /// Randomness of the last commit; zero before the first.
    pub randomness: B256,
}

/// Turns committed cuts into the sequence of deliveries.
pub struct Order {
    context: Context,
    schedule: Schedule,
    open_slots: usize,
    checkpoint: Checkpoint,
}

impl Order {
    /// Starts from the time and the randomness of the genesis or of the last epoch's end, or from a checkpoint of this engine, which a certificate covers or this node wrote.
    pub fn new(
        resume: &Resume,
        committee: &Committee,
        schedule: Schedule,
        open_slots: u64,
        start: (TimestampMs, B256),
    ) -> Self {
        let context = Context::new(committee);
        let checkpoint = if resume.checkpoint.is_empty() {
            let executed = committee.indices().map(|lane| context.start(lane)).collect();
            let (time, randomness) = start;
            Checkpoint { slot: Slot(0), anchors: Vec::new(), executed, time, randomness }
        } else {
            wire::decode(&resume.checkpoint).expect("a checkpoint was encoded by this engine, or a certificate covers its hash")
        };
        assert_eq!(checkpoint.slot.0, resume.index.0, "the checkpoint belongs to the commit it is stored with");
        assert_eq!(checkpoint.executed.len(), committee.size(), "the checkpoint belongs to this committee");
        Self { context, schedule, open_slots: usize::try_from(open_slots).unwrap_or(usize::MAX), checkpoint }
    }

    /// The last executed slot.
    pub fn slot(&self) -> Slot {
        self.checkpoint.slot
    }

    /// The cuts of the last k slots.
    pub fn anchors(&self) -> &[Cut] {
        &self.checkpoint.anchors
    }

    /// The highest executed car per lane.
    pub fn executed(&self) -> &[Tip] {
        &self.checkpoint.executed
    }

    /// Executes the next slot. `chain` returns a lane's cars above the executed one up to a tip, ascending; `None` if
    /// cars are missing. Then this returns `None` and changes nothing (O1, N7).
    pub fn execute(&mut self, cut: &Cut, chain: impl Fn(&Tip) -> Option<Vec<Arc<HashedCar>>>) -> Option<Ordered> {
        assert_eq!(cut.slot.0, self.checkpoint.slot.0 + 1, "N7: slots are executed in order");
        let mut lanes = Vec::with_capacity(cut.tips.len());
        for (tip, executed) in cut.tips.iter().zip(&self.checkpoint.executed) {
            // O2: cuts of consecutive slots may go backwards.
            lanes.push(if tip.position > executed.position { chain(tip)? } else { Vec::new() });
        }
        let state = &mut self.checkpoint;
        state.slot = cut.slot;
        state.anchors.push(cut.clone());
        let surplus = state.anchors.len().saturating_sub(self.open_slots);
        state.anchors.drain(..surplus);
        for (tip, executed) in cut.tips.iter().zip(&mut state.executed) {
            // O4, P8: never decreases.
            if tip.position > executed.position {
                *executed = *tip;
            }
        }
        state.time = state.time.max(cut.time);
        state.randomness = chained(state.randomness, self.context.cut(cut));
        let lengths: Vec<_> = lanes.iter().map(Vec::len).collect();
        let cars = zip(&lengths).map(|(lane, offset)| &lanes[lane][offset]);
        let full = cars.filter(|car| !car.batch().is_empty());
        let batches = full.map(|car| (car.lane(), Batch { bytes: car.batch().clone() })).collect();
        Some(Ordered {
            index: CommitIndex(cut.slot.0),
            // CommitQCs of one slot may name different views (row 40), so validators may not agree on the view.
            leader: self.schedule.leader(cut.slot, View(0)),
            time: self.checkpoint.time,
            randomness: self.checkpoint.randomness,
            batches,
            checkpoint: self.encode(),
        })
    }

    pub fn encode(&self) -> Bytes {
        wire::encode(&self.checkpoint).into()
    }
}

/// A leader can try several cuts and propose the one it likes: this randomness can be biased.
fn chained(before: B256, cut: B256) -> B256 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"corniche-autobahn-randomness").update(before.as_slice()).update(cut.as_slice());
    B256::from(*hasher.finalize().as_bytes())
}
