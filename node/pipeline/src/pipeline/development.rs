//! Development commands in the pipeline: see [`crate::dev`].

use super::Pipeline;
use crate::dev::{Dev, DevOrder, WORDS_BYTES, Word};
use crate::words::Output;
use corniche_engine::Batch;
use corniche_types::{Address, B256, OrderedTransaction, TimestampMs};

impl Pipeline {
    pub(super) fn obey(&mut self, now: TimestampMs, order: DevOrder, reply: u64) {
        if self.dev.is_some() && order == DevOrder::Quiet {
            self.awaiting_quiet.push(reply);
            return;
        }
        if let (Some(_), DevOrder::Drop(which)) = (&self.dev, &order) {
            let last = self.pool.drop_waiting(|transaction| which.means(transaction));
            // Reported first, so that the requester no longer finds the transaction.
            self.tell_who_left();
            self.out.push_back(Output::Obeyed { reply, result: Ok(last) });
            return;
        }
        let result = match &mut self.dev {
            None => Err("this is not a development chain"),
            Some(dev) => dev.take(now, order, reply),
        };
        let result = match result {
            Ok(true) => {
                self.obeying.insert(reply);
                return;
            }
            Ok(false) => Ok(None),
            Err(why) => Err(why),
        };
        self.out.push_back(Output::Obeyed { reply, result });
    }

    /// Next batch for the engine.
    pub(super) fn next_batch(&mut self, now: TimestampMs, bytes: u32, gas: u64) -> Option<Batch> {
        let view = self.view();
        let base_fee = self.base_fee();
        let Some(dev) = &mut self.dev else { return self.pool.cut(bytes, gas, &view, base_fee) };
        let bytes = bytes.saturating_sub(WORDS_BYTES);
        let cut = if dev.wants_pool() { self.pool.cut(bytes, gas, &view, base_fee) } else { None };
        dev.batch(now, cut)
    }

    /// Minimum base fee in wei: of the newest block, or the one set for the next block.
    pub(super) fn base_fee(&self) -> u64 {
        self.said_base_fee().unwrap_or(self.base_fee)
    }

    /// Base fee that was set on a development chain and that no block has yet.
    pub fn said_base_fee(&self) -> Option<u64> {
        self.dev.as_ref().and_then(Dev::base_fee)
    }

    /// Records a batch that the engine got.
    pub(super) fn given(&mut self, batch: &Batch) {
        if self.dev.is_some() && !batch.bytes.is_empty() {
            self.ordering.push(corniche_engine::batch_digest(&batch.bytes));
        }
    }

    /// Records batches that the engine delivered or gave back.
    pub(super) fn delivered<'a>(&mut self, batches: impl IntoIterator<Item = &'a Batch>) {
        if self.ordering.is_empty() {
            return;
        }
        for batch in batches {
            let digest = corniche_engine::batch_digest(&batch.bytes);
            if let Some(place) = self.ordering.iter().position(|given| *given == digest) {
                self.ordering.remove(place);
            }
        }
    }

    /// Completes waiting `Quiet` commands. If the engine wants a batch and there is none, everything that it
    /// got is in appended blocks.
    pub(super) fn answer_quiet(&mut self, now: TimestampMs) {
        let Some(dev) = self.dev.as_ref().filter(|_| !self.awaiting_quiet.is_empty()) else { return };
        let is_quiet = self.wanted.is_some() && self.ordering.is_empty() && !self.builder.is_open() && self.is_idle();
        if is_quiet {
            let clock = dev.clock(now);
            let (replies, height) = (std::mem::take(&mut self.awaiting_quiet), self.appended);
            self.out.extend(replies.into_iter().map(|reply| Output::Quiet { reply, clock, height }));
        }
    }

    /// True while a `Quiet` command waits until no block is in progress. New work would delay it again and
    /// again. So no automatic blocks are made, and the caller must hold back users' inputs
    /// ([`Input::Submit`](crate::Input::Submit), [`Input::Dev`](crate::Input::Dev)).
    pub fn awaits_quiet(&self) -> bool {
        !self.awaiting_quiet.is_empty()
    }

    /// Adds the accounts that were set, so that the pool checks them again.
    pub(super) fn with_accounts_set(
        &self,
        mut executed: Vec<(B256, Address)>,
        ordered: &[OrderedTransaction],
    ) -> Vec<(B256, Address)> {
        if self.dev.is_some() {
            let set = ordered.iter().filter_map(|ordered| Word::decode(&ordered.raw)?.account());
            executed.extend(set.map(|account| (B256::ZERO, account)));
        }
        executed
    }

    pub(super) fn answer_obeyed(&mut self, ordered: &[OrderedTransaction], block: B256) {
        if self.obeying.is_empty() {
            return;
        }
        for word in ordered.iter().filter_map(|ordered| Word::decode(&ordered.raw)) {
            if let Word::End(reply) = word
                && self.obeying.remove(&reply)
            {
                self.out.push_back(Output::Obeyed { reply, result: Ok(Some(block)) });
            }
        }
    }
}
