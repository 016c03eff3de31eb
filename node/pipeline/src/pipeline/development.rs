//! Development commands in the pipeline: see [`crate::dev`].

use super::Pipeline;
use crate::dev::{CONTROL_RECORD_BYTES, ControlRecord, DevCommand, DevState};
use crate::io::Output;
use corniche_engine::Batch;
use corniche_types::{Address, B256, OrderedTransaction, TimestampMs};

impl Pipeline {
    pub(super) fn dev_command(&mut self, now: TimestampMs, command: DevCommand, reply: u64) {
        if self.dev.is_some() && command == DevCommand::WaitForIdle {
            self.idle_waiters.push(reply);
            return;
        }
        if let (Some(_), DevCommand::DropTransactions(target)) = (&self.dev, &command) {
            let dropped = self.pool.drop_waiting(|transaction| target.matches(transaction));
            // Reported first, so that the requester no longer finds the transaction.
            self.report_dropped();
            self.out.push_back(Output::DevCommandDone { reply, result: Ok(dropped) });
            return;
        }
        let result = match &mut self.dev {
            None => Err("this is not a development chain"),
            Some(dev) => dev.apply(now, command, reply),
        };
        let result = match result {
            Ok(true) => {
                self.pending_commands.insert(reply);
                return;
            }
            Ok(false) => Ok(None),
            Err(reason) => Err(reason),
        };
        self.out.push_back(Output::DevCommandDone { reply, result });
    }

    /// Next batch for the engine.
    pub(super) fn next_batch(&mut self, now: TimestampMs, bytes: u32, gas: u64) -> Option<Batch> {
        let view = self.view();
        let base_fee = self.base_fee();
        let Some(dev) = &mut self.dev else { return self.pool.cut(bytes, gas, &view, base_fee) };
        let bytes = bytes.saturating_sub(CONTROL_RECORD_BYTES);
        let pool_batch = if dev.wants_pool() { self.pool.cut(bytes, gas, &view, base_fee) } else { None };
        dev.batch(now, pool_batch)
    }

    /// Minimum base fee in wei: of the newest block, or the one set for the next block.
    pub(super) fn base_fee(&self) -> u64 {
        self.requested_base_fee().unwrap_or(self.base_fee)
    }

    /// Base fee that was set on a development chain and that no block has yet.
    pub fn requested_base_fee(&self) -> Option<u64> {
        self.dev.as_ref().and_then(DevState::base_fee)
    }

    /// Records a batch that the engine got.
    pub(super) fn batch_given(&mut self, batch: &Batch) {
        if self.dev.is_some() && !batch.bytes.is_empty() {
            self.undelivered_batches.push(corniche_engine::batch_digest(&batch.bytes));
        }
    }

    /// Records batches that the engine delivered or gave back.
    pub(super) fn batches_delivered<'a>(&mut self, batches: impl IntoIterator<Item = &'a Batch>) {
        if self.undelivered_batches.is_empty() {
            return;
        }
        for batch in batches {
            let digest = corniche_engine::batch_digest(&batch.bytes);
            if let Some(index) = self.undelivered_batches.iter().position(|given| *given == digest) {
                self.undelivered_batches.remove(index);
            }
        }
    }

    /// Completes waiting `Quiet` commands. If the engine wants a batch and there is none, everything that it
    /// got is in appended blocks.
    pub(super) fn complete_idle_waiters(&mut self, now: TimestampMs) {
        let Some(dev) = self.dev.as_ref().filter(|_| !self.idle_waiters.is_empty()) else { return };
        let is_quiet =
            self.wanted_batch.is_some() && self.undelivered_batches.is_empty() && !self.builder.is_open() && self.is_idle();
        if is_quiet {
            let clock = dev.clock(now);
            let (replies, height) = (std::mem::take(&mut self.idle_waiters), self.appended);
            self.out.extend(replies.into_iter().map(|reply| Output::DevIdle { reply, clock, height }));
        }
    }

    /// True while a `Quiet` command waits until no block is in progress. New work would delay it again and
    /// again. So no automatic blocks are made, and the caller must hold back users' inputs
    /// ([`Input::Submit`](crate::Input::Submit), [`Input::Dev`](crate::Input::Dev)).
    pub fn awaits_idle(&self) -> bool {
        !self.idle_waiters.is_empty()
    }

    /// Adds the accounts that were set, so that the pool checks them again.
    pub(super) fn with_changed_accounts(
        &self,
        mut executed: Vec<(B256, Address)>,
        ordered: &[OrderedTransaction],
    ) -> Vec<(B256, Address)> {
        if self.dev.is_some() {
            let set = ordered.iter().filter_map(|ordered| ControlRecord::decode(&ordered.raw)?.account());
            executed.extend(set.map(|account| (B256::ZERO, account)));
        }
        executed
    }

    pub(super) fn complete_commands(&mut self, ordered: &[OrderedTransaction], block: B256) {
        if self.pending_commands.is_empty() {
            return;
        }
        for record in ordered.iter().filter_map(|ordered| ControlRecord::decode(&ordered.raw)) {
            if let ControlRecord::End(reply) = record
                && self.pending_commands.remove(&reply)
            {
                self.out.push_back(Output::DevCommandDone { reply, result: Ok(Some(block)) });
            }
        }
    }
}
