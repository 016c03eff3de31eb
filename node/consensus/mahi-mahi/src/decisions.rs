//! Decides as the DAG grows, looking only at what a step can change (D0, D6).
//!
//! The plain way is to ask the rules for every undecided slot after every block; its cost grows with the backlog. But:
//!
//! - **D2** A slot has no leader until its coin opens. Then it is *elected*, once.
//! - **D3** reads the certificates in the blocks of round r + w − 1, **D4** the votes in those of round r + w − 2. Votes and
//!   certificates of a block follow from its history, so they are fixed when it enters the DAG (V8). A block of round R
//!   therefore changes D3 for slots of round R − (w − 1) and D4 for those of round R − (w − 2), and nothing else: as a
//!   further sibling in a slot of its own round R it has no certificate yet, and it cannot stand in the way of a skip either, for
//!   the vote-round blocks that are here came with their whole histories and so do not vote for it.
//! - **D5** reads the first slot from round r + w on that is not skipped. While that is undecided, nothing else matters: what is
//!   before it is skipped for good (D1), what is behind it is not read. So an elected slot *waits* for exactly one slot. When
//!   that is skipped, all who wait for it wait for the next that is not; when it commits, its history, which is fixed, settles them.
//!
//! Direct rules read no verdicts, and a slot's D5 reads final verdicts of later slots only, so the order in which slots are
//! settled makes no difference; what was touched is asked directly first, like each slot is in the plain way. A test
//! compares the two after every block of random DAGs.

use crate::{
    dag::Dag,
    message::Round,
    rules::{Decision, Reason, Slot, Verdict, Waves, direct, held_certificate},
};
use corniche_types::ValidatorIndex;
use std::collections::{BTreeMap, BTreeSet};

/// The verdicts from the cursor up, and what may change next.
pub struct Decisions {
    waves: Waves,
    /// D1: final verdicts that were not taken yet.
    verdicts: BTreeMap<Slot, Verdict>,
    /// Elected slots that are undecided, under the slot each waits for. Some may have been decided directly meanwhile.
    waiting: BTreeMap<Slot, Vec<Waiter>>,
    /// Rounds whose slots the direct rules may have something new about.
    touched: BTreeSet<Round>,
    /// Rounds whose leaders became known.
    elected: BTreeSet<Round>,
}

/// An elected slot.
#[derive(Clone, Copy)]
struct Waiter {
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
        self.touched.extend([self.waves.voted_in(round), self.waves.certified_in(round)].into_iter().flatten());
    }

    /// The coin of this round opened. Returns the round whose leaders it elects, if any (C2).
    pub fn coin_opened(&mut self, round: Round) -> Option<Round> {
        let elected = self.waves.certified_in(round)?;
        self.elected.insert(elected);
        Some(elected)
    }

    /// D7: the verdict of the next slot, to act on.
    pub fn take(&mut self, slot: Slot) -> Option<Verdict> {
        self.verdicts.remove(&slot)
    }

    /// How many verdicts are waiting for an earlier one.
    pub fn len(&self) -> usize {
        self.verdicts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.verdicts.is_empty()
    }

    /// Decides what can be decided of the slots from `next` up, and says what is new.
    ///
    /// `order` gives the validators of a propose round in the order of their ranks, once its coin is open.
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
            for waiter in self.open_slots(round, &order, next) {
                if let Some((verdict, reason)) = direct(dag, &self.waves, waiter.slot.round, waiter.leader) {
                    self.settle(waiter, verdict, reason, &mut decided);
                }
            }
        }
        for round in elected {
            let waiters = self.open_slots(round, &order, next);
            let first = Slot { round: round + self.waves.length, rank: 0 };
            self.wait(dag, waiters, first, &mut decided);
        }
        let mut told = 0;
        while let Some(slot) = decided.get(told).map(|decision| decision.slot) {
            told += 1;
            let mut waiters = self.waiting.remove(&slot).unwrap_or_default();
            waiters.retain(|waiter| waiter.slot >= next && !self.verdicts.contains_key(&waiter.slot));
            self.wait(dag, waiters, slot, &mut decided);
        }
        decided
    }

    /// The elected, undecided slots of a round.
    fn open_slots<'a>(&self, round: Round, order: &impl Fn(Round) -> Option<&'a [ValidatorIndex]>, next: Slot) -> Vec<Waiter> {
        let ranked = (0..self.waves.leaders).zip(order(round).unwrap_or_default());
        let slots = ranked.map(|(rank, leader)| Waiter { slot: Slot { round, rank }, leader: *leader });
        slots.filter(|waiter| waiter.slot >= next && !self.verdicts.contains_key(&waiter.slot)).collect()
    }

    /// D5: these waited up to `from`, which may be decided.
    fn wait(&mut self, dag: &Dag, mut waiters: Vec<Waiter>, from: Slot, decided: &mut Vec<Decision>) {
        if waiters.is_empty() {
            return;
        }
        // The earliest anchor: a slot that is still undecided ends the scan (P8).
        let mut anchor = from;
        while self.verdicts.get(&anchor) == Some(&Verdict::Skip) {
            anchor = self.waves.after(anchor);
        }
        let Some(Verdict::Commit(block)) = self.verdicts.get(&anchor).copied() else {
            return self.waiting.entry(anchor).or_default().extend(waiters);
        };
        // One walk down the anchor's history serves them all.
        waiters.sort_unstable_by_key(|waiter| std::cmp::Reverse(waiter.slot));
        let mut history = dag.history(block);
        for waiter in waiters {
            let certifiers = history.down_to(self.waves.certify_round(waiter.slot.round));
            let verdict = held_certificate(dag, certifiers, waiter.leader).map_or(Verdict::Skip, Verdict::Commit);
            self.settle(waiter, verdict, Reason::Anchor(anchor), decided);
        }
    }

    fn settle(&mut self, waiter: Waiter, verdict: Verdict, reason: Reason, decided: &mut Vec<Decision>) {
        let Waiter { slot, leader } = waiter;
        self.verdicts.insert(slot, verdict);
        decided.push(Decision { slot, leader, verdict, reason });
    }
}
