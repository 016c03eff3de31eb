//! A development chain's side of the pipeline: [`crate::dev`].

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
            // Whoever is answered does not find it any more.
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

    /// What the engine gets to order next.
    pub(super) fn next_batch(&mut self, now: TimestampMs, bytes: u32, gas: u64) -> Option<Batch> {
        let view = self.view();
        let base_fee = self.base_fee();
        let Some(dev) = &mut self.dev else { return self.pool.cut(bytes, gas, &view, base_fee) };
        let bytes = bytes.saturating_sub(WORDS_BYTES);
        let cut = if dev.wants_pool() { self.pool.cut(bytes, gas, &view, base_fee) } else { None };
        dev.batch(now, cut)
    }

    /// Wei that a gas costs at least in the newest block, or in the next one where somebody said it.
    pub(super) fn base_fee(&self) -> u64 {
        self.said_base_fee().unwrap_or(self.base_fee)
    }

    /// A base fee that a development chain was told and no block has yet.
    pub fn said_base_fee(&self) -> Option<u64> {
        self.dev.as_ref().and_then(Dev::base_fee)
    }

    /// The engine got this to order.
    pub(super) fn given(&mut self, batch: &Batch) {
        if self.dev.is_some() && !batch.bytes.is_empty() {
            self.ordering.push(corniche_engine::batch_digest(&batch.bytes));
        }
    }

    /// The engine ordered these, or gave them back.
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

    /// Once the engine asks for a batch and there is none, everything that it was given is in blocks, and these are appended.
    pub(super) fn answer_quiet(&mut self, now: TimestampMs) {
        let Some(dev) = self.dev.as_ref().filter(|_| !self.awaiting_quiet.is_empty()) else { return };
        let is_quiet = self.wanted.is_some() && self.ordering.is_empty() && !self.builder.is_open() && self.is_idle();
        if is_quiet {
            let clock = dev.clock(now);
            let (replies, height) = (std::mem::take(&mut self.awaiting_quiet), self.appended);
            self.out.extend(replies.into_iter().map(|reply| Output::Quiet { reply, clock, height }));
        }
    }

    /// Somebody waits until nothing is under way. What comes meanwhile would put that off again and again: no block is made by itself, and
    /// whoever feeds the pipeline keeps users' inputs ([`Input::Submit`](crate::Input::Submit), [`Input::Dev`](crate::Input::Dev)) back.
    pub fn awaits_quiet(&self) -> bool {
        !self.awaiting_quiet.is_empty()
    }

    /// The pool looks again at accounts that were set.
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
