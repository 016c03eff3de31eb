//! SADL: batches reach a quorum before blocks mention them (Alg. 4).

use crate::{
    engine::Racs,
    message::{LaneBatch, Message, Tip},
};
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeSet;

impl Racs {
    /// D2: one batch at a time waits for votes.
    pub(crate) fn batch_at(&self) -> Option<TimestampMs> {
        self.exchange.deadline(self.order.tips()).filter(|_| self.awaiting.is_none())
    }

    pub(crate) fn ask_for_batch(&mut self) {
        if self.awaiting.is_none() {
            self.outputs.extend(self.exchange.ask_for_batch(self.now, self.order.tips()));
        }
    }

    /// The end of the own lane waits for votes. Its announcement says that all before it are complete (D3).
    pub(crate) fn await_votes(&mut self) {
        self.awaiting = Some((self.exchange.lanes.newest(self.me), BTreeSet::new()));
        self.tail_at = None;
    }

    /// D3.
    pub(crate) fn handle_batch(&mut self, from: ValidatorIndex, batch: LaneBatch) {
        let (author, tip, before) = (batch.author, self.exchange.lanes.tip(&batch), batch.before());
        if from == author {
            self.complete(author, before);
        }
        if from == author && self.is_durable(author, tip) {
            // The vote was lost.
            self.send(author, &Message::BatchVote { tip });
        }
        let actions = self.exchange.handle_batch(from, batch, self.order.tips());
        self.perform(actions);
    }

    fn is_durable(&self, author: ValidatorIndex, tip: Tip) -> bool {
        self.exchange.lanes.has_durable(author, tip, tip.number.saturating_sub(1)).is_ok()
    }

    /// D3: a batch is on disk before this validator votes for it.
    pub(crate) fn handle_batch_durable(&mut self, author: ValidatorIndex, tip: Tip) {
        let actions = self.exchange.handle_durable(author, tip, self.order.tips());
        self.perform(actions);
        if author == self.me {
            self.handle_batch_vote(author, tip);
        } else {
            self.send(author, &Message::BatchVote { tip });
        }
    }

    /// D4: a quorum of votes completes the own batch.
    pub(crate) fn handle_batch_vote(&mut self, from: ValidatorIndex, tip: Tip) {
        let Some((awaited, voters)) = self.awaiting.as_mut().filter(|(awaited, _)| *awaited == tip) else { return };
        voters.insert(from);
        if self.committee.weigh(voters.iter().copied()) >= self.committee.quorum() {
            let tip = *awaited;
            self.awaiting = None;
            self.tail_at = Some(TimestampMs(self.now.0.saturating_add(self.config.tail_ms)));
            self.complete(self.me, tip);
        }
    }

    /// A quorum holds this lane up to here. It never goes back, also if messages overtake each other (X10).
    pub(crate) fn complete(&mut self, author: ValidatorIndex, tip: Tip) {
        let completed = &mut self.completed[author.as_usize()];
        if tip.number > completed.number {
            *completed = tip;
        }
    }

    /// D7: the others learn that the last batch is complete.
    pub(crate) fn announce_completion(&mut self) {
        self.tail_at = None;
        let tip = self.completed[self.me.as_usize()];
        self.broadcast(&Message::Completed { tip });
    }

    /// After a delivery: an own batch may be delivered before its votes are here, after a restart; or lose its number to an earlier one,
    /// after a lost disk.
    pub(crate) fn follow_delivered(&mut self) {
        let delivered = self.order.tips().to_vec();
        self.indices().zip(&delivered).for_each(|(author, tip)| self.complete(author, *tip));
        let own = delivered[self.me.as_usize()].number;
        self.awaiting.take_if(|(tip, _)| tip.number <= own);
    }

    /// After a start: the parents of batches are complete.
    pub(crate) fn resume_lanes(&mut self) {
        for author in self.indices() {
            let newest = self.exchange.lanes.newest(author);
            let before = self.exchange.lanes.get(author, &newest).map(LaneBatch::before);
            before.into_iter().for_each(|before| self.complete(author, before));
        }
        if self.exchange.lanes.newest(self.me).number > self.order.tip(self.me).number {
            self.await_votes();
            self.send_own_batch(None);
        }
    }

    /// Sends the own batch that waits for votes again, if none came since the last timers.
    pub(crate) fn repeat_own_batch(&mut self) {
        if self.repetition.is_due(self.awaiting.as_ref().map(|(tip, voters)| (*tip, voters.len()))) {
            self.send_own_batch(None);
        }
    }

    /// Sends the own batch that waits for votes, to one validator or to all that did not vote.
    pub(crate) fn send_own_batch(&mut self, to: Option<ValidatorIndex>) {
        let Some((tip, voters)) = &self.awaiting else { return };
        let Some(batch) = self.exchange.lanes.get(self.me, tip).filter(|_| self.is_durable(self.me, *tip)).cloned() else {
            return;
        };
        let missing: Vec<_> = self.indices().filter(|member| !voters.contains(member)).collect();
        let to: Vec<_> = to.map_or(missing, |to| vec![to]);
        if to.contains(&self.me) {
            self.handle_batch_vote(self.me, self.exchange.lanes.newest(self.me));
        }
        let message = Message::Batch(batch);
        to.into_iter().for_each(|member| self.send(member, &message));
    }
}
