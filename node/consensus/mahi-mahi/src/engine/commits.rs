//! Decides slots, delivers commits, and drops old data.

use super::{MahiMahi, Origin};
use crate::{
    message::{BlockRef, Round},
    rules::{Decision, Slot, Verdict},
};
use corniche_engine::{Batch, Output, TraceEvent};
use corniche_types::ValidatorIndex;

impl MahiMahi {
    /// D0 and D7: decides slots and delivers commits.
    pub(super) fn extend_commits(&mut self) {
        if self.is_halted || !self.repair.may_deliver() && self.me().is_some() {
            return;
        }
        self.trace_elected();
        let order = |round: Round| self.coins.opened(self.waves.certify_round(round)).map(|coin| coin.order.as_slice());
        let decided = self.decisions.decide(&self.dag, order, self.sequence.next());
        decided.iter().for_each(|decision| self.trace_decided(decision));
        let floor = self.sequence.floor();
        while let slot = self.sequence.next()
            && let Some(verdict) = self.decisions.take(slot)
        {
            self.sequence.advance_to(self.waves.after(slot));
            if let Verdict::Commit(leader) = verdict {
                self.commit(slot, leader);
            }
        }
        if self.sequence.floor() > floor {
            self.collect_garbage();
        }
    }

    fn trace_elected(&mut self) {
        for coin in self.coins.take_opened() {
            self.closed_coins.remove(&coin);
            let Some(round) = self.decisions.coin_opened(coin).filter(|round| *round >= self.sequence.next().round) else {
                continue;
            };
            let order = self.coins.opened(coin).map_or(&[][..], |opened| &opened.order);
            let leaders = order.iter().take(usize::from(self.waves.leaders)).copied().collect();
            self.trace(TraceEvent::Elected { round: round.0, leaders });
        }
    }

    fn trace_decided(&mut self, decision: &Decision) {
        let Decision { slot, leader, verdict, .. } = *decision;
        let committed = match verdict {
            Verdict::Commit(block) => Some(block.digest),
            Verdict::Skip => None,
        };
        let why = decision.why(self.committee.total());
        self.trace(TraceEvent::Decided { round: slot.round.0, rank: slot.rank, leader, committed, why });
    }

    fn commit(&mut self, slot: Slot, leader: BlockRef) {
        let leader = self.dag.get(&leader).expect("a verdict names a block of the DAG").clone();
        let coin = self.coins.opened(self.waves.certify_round(leader.round()));
        let randomness = coin.expect("a slot is decided only when its coin is open").seed;
        let commit = self.sequence.commit(&self.dag, &leader, randomness, self.config.gc_depth);
        for block in &commit.blocks {
            self.undelivered.remove(&(block.round(), block.author()));
        }
        let detail = format!("{} {:?}, {} blocks", commit.ordered.index, leader.reference(), commit.blocks.len());
        self.trace(TraceEvent::note("commit", detail));
        self.trace(TraceEvent::Delivered { round: slot.round.0, rank: slot.rank, commit: commit.ordered.index });
        self.outputs.push_back(Output::Deliver(commit.ordered));
    }

    /// G1–G4: drops old data after the floor moved.
    fn collect_garbage(&mut self) {
        let floor = self.sequence.floor();
        let kept = self.undelivered.split_off(&(floor + 1, ValidatorIndex(0)));
        let lost = std::mem::replace(&mut self.undelivered, kept);
        let me = self.me();
        for (round, author) in lost.into_iter().filter(|(_, author)| Some(*author) == me) {
            // G4: validity holds for transactions, not for blocks.
            let batches = self.dag.siblings(round, author).map(|block| block.content().batch.clone());
            self.outputs.extend(batches.filter(|bytes| !bytes.is_empty()).map(|bytes| Output::Requeue(Batch { bytes })));
        }
        self.accused = self.accused.split_off(&(floor + 1, ValidatorIndex(0)));
        if let Some(proposer) = &mut self.proposer {
            proposer.raise_floor(floor);
        }
        for block in self.synchroniser.raise_floor(floor) {
            self.accept(block, Origin::Peer);
        }
        let retained = floor - self.config.retain_rounds;
        self.postponed.retain(|block| block.round() > retained);
        self.dag.prune(retained);
        self.extra_siblings.prune(retained);
        self.coins.prune(retained);
        self.service.raise_floor(floor);
        self.closed_coins = self.closed_coins.split_off(&(floor + 1));
        if let Some(ticket) = self.journal.release(retained) {
            self.outputs.push_back(Output::ReleaseBelow(ticket));
        }
    }
}
