//! A development chain's side of the pipeline: [`crate::dev`].

use super::Pipeline;
use crate::dev::{DevOrder, WORDS_BYTES, Word};
use crate::words::Output;
use corniche_engine::Batch;
use corniche_types::{Address, B256, OrderedTransaction, TimestampMs};

impl Pipeline {
    pub(super) fn obey(&mut self, now: TimestampMs, order: DevOrder, reply: u64) {
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
        let Some(dev) = &mut self.dev else { return self.pool.cut(bytes, gas, &view, self.base_fee) };
        let bytes = bytes.saturating_sub(WORDS_BYTES);
        let cut = if dev.wants_pool() { self.pool.cut(bytes, gas, &view, self.base_fee) } else { None };
        dev.batch(now, cut)
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
