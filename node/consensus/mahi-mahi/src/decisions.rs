//! Decides slots as the DAG grows, and looks only at slots that a step can change (D0, D6).
//!
//! The plain way asks the rules for every undecided slot after every block; its cost grows with the backlog. But:
//!
//! - **D2** A slot has no leader until its coin opens. Then it is *elected*, once.
//! - **D3** reads the certificates in the blocks of round r + w − 1, **D4** the votes in the blocks of round r + w − 2.
//!   Votes and certificates of a block follow from its history, so they are fixed when it enters the DAG (V8). A block
//!   of round R therefore changes only D3 for slots of round R − (w − 1) and D4 for slots of round R − (w − 2). As a
//!   further sibling in a slot of its own round R, it has no certificate yet. It cannot prevent a skip either: the
//!   vote-round blocks in the DAG came with their whole histories, so they do not vote for it.
//! - **D5** reads the first slot from round r + w on that is not skipped. While that slot is undecided, nothing else
//!   matters: earlier slots are skipped for good (D1), later ones are not read. So an elected slot *waits* for exactly
//!   one slot. When that slot is skipped, all its waiters wait for the next one that is not. When it commits, its
//!   history, which is fixed, decides them.
//!
//! Direct rules read no verdicts. D5 reads only final verdicts of later slots. So the order in which slots are decided
//! makes no difference. Touched slots are first decided directly, like each slot in the plain way. A test compares the
//! two after every block of random DAGs.

use crate::{
    dag::Dag,
    message::Round,
    rules::{Decision, Reason, Slot, Verdict, Waves, certificate_in_history, direct},
};
use corniche_types::ValidatorIndex;
use std::collections::{BTreeMap, BTreeSet};

/// The verdicts from the cursor upwards, and the slots that may change next.
pub struct Decisions {
    waves: Waves,
    /// D1: final verdicts that were not taken yet.
    verdicts: BTreeMap<Slot, Verdict>,
    /// Elected, undecided slots, keyed by the slot that each waits for. Some may have been decided directly since.
    waiting: BTreeMap<Slot, Vec<UndecidedSlot>>,
    /// Rounds for whose slots the direct rules may have a new result.
    touched: BTreeSet<Round>,
    /// Rounds whose leaders became known since the last pass.
    elected: BTreeSet<Round>,
}

/// An elected slot.
#[derive(Clone, Copy)]
struct UndecidedSlot {
    slot: Slot,
    leader: ValidatorIndex,
}

impl Decisions {
    pub fn new(waves: Waves) -> Self {
        let (verdicts, waiting, touched, elected) = Default::default();
        Self { waves, verdicts, waiting, touched, elected }
    }

    /// A block of this round entered the DAG.
    pub fn block_arrived(&mut self, round: Round) {
        self.touched.extend(
            [self.waves.propose_round_of_vote(round), self.waves.propose_round_of_certify(round)].into_iter().flatten(),
        );
    }

    /// The coin of this round opened. Returns the round whose leaders it elects, if any (C2).
    pub fn coin_opened(&mut self, round: Round) -> Option<Round> {
        let elected = self.waves.propose_round_of_certify(round)?;
        self.elected.insert(elected);
        Some(elected)
    }

    /// D7: removes and returns the verdict of the next slot.
    pub fn take(&mut self, slot: Slot) -> Option<Verdict> {
        self.verdicts.remove(&slot)
    }

    /// Number of verdicts that wait for an earlier one.
    pub fn len(&self) -> usize {
        self.verdicts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.verdicts.is_empty()
    }

    /// Decides all slots from `next` upwards that can be decided, and returns the new decisions.
    ///
    /// `order` returns the validators of a propose round in rank order, once its coin is open.
    pub fn decide<'a>(
        &mut self,
        dag: &Dag,
        order: impl Fn(Round) -> Option<&'a [ValidatorIndex]>,
        next: Slot,
    ) -> Vec<Decision> {
        let mut decided = Vec::new();
        let elected = std::mem::take(&mut self.elected);
        self.touched.extend(&elected);
        for round in std::mem::take(&mut self.touched) {
            for slot_to_decide in self.open_slots(round, &order, next) {
                if let Some((verdict, reason)) = direct(dag, &self.waves, slot_to_decide.slot.round, slot_to_decide.leader) {
                    self.record_verdict(slot_to_decide, verdict, reason, &mut decided);
                }
            }
        }
        for round in elected {
            let undecided = self.open_slots(round, &order, next);
            let first = Slot { round: round + self.waves.length, rank: 0 };
            self.requeue(dag, undecided, first, &mut decided);
        }
        let mut told = 0;
        while let Some(slot) = decided.get(told).map(|decision| decision.slot) {
            told += 1;
            let mut undecided = self.waiting.remove(&slot).unwrap_or_default();
            undecided.retain(|slot_to_decide| slot_to_decide.slot >= next && !self.verdicts.contains_key(&slot_to_decide.slot));
            self.requeue(dag, undecided, slot, &mut decided);
        }
        decided
    }

    /// The elected, undecided slots of a round.
    fn open_slots<'a>(
        &self,
        round: Round,
        order: &impl Fn(Round) -> Option<&'a [ValidatorIndex]>,
        next: Slot,
    ) -> Vec<UndecidedSlot> {
        let ranked = (0..self.waves.leaders).zip(order(round).unwrap_or_default());
        let slots = ranked.map(|(rank, leader)| UndecidedSlot { slot: Slot { round, rank }, leader: *leader });
        slots
            .filter(|slot_to_decide| slot_to_decide.slot >= next && !self.verdicts.contains_key(&slot_to_decide.slot))
            .collect()
    }

    /// D5: moves waiters on from the slot `from`, which may be decided by now.
    fn requeue(&mut self, dag: &Dag, mut undecided: Vec<UndecidedSlot>, from: Slot, decided: &mut Vec<Decision>) {
        if undecided.is_empty() {
            return;
        }
        // The earliest anchor: a slot that is still undecided ends the scan (P8).
        let mut anchor = from;
        while self.verdicts.get(&anchor) == Some(&Verdict::Skip) {
            anchor = self.waves.after(anchor);
        }
        let Some(Verdict::Commit(block)) = self.verdicts.get(&anchor).copied() else {
            return self.waiting.entry(anchor).or_default().extend(undecided);
        };
        // One walk down the anchor's history decides all waiters.
        undecided.sort_unstable_by_key(|slot_to_decide| std::cmp::Reverse(slot_to_decide.slot));
        let mut history = dag.history(block);
        for slot_to_decide in undecided {
            let certifiers = history.down_to(self.waves.certify_round(slot_to_decide.slot.round));
            let verdict = certificate_in_history(dag, certifiers, slot_to_decide.leader).map_or(Verdict::Skip, Verdict::Commit);
            self.record_verdict(slot_to_decide, verdict, Reason::Anchor(anchor), decided);
        }
    }

    fn record_verdict(&mut self, slot_to_decide: UndecidedSlot, verdict: Verdict, reason: Reason, decided: &mut Vec<Decision>) {
        let UndecidedSlot { slot, leader } = slot_to_decide;
        self.verdicts.insert(slot, verdict);
        decided.push(Decision { slot, leader, verdict, reason });
    }
}
