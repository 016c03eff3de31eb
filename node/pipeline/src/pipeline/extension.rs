//! Calls of the extension: see [`crate::Extension`].

use super::{Ordering, Pipeline};
use crate::extension::{CommandResponse, Directives, Extension};
use crate::io::Output;
use corniche_engine::Batch;
use corniche_types::{Address, B256, OrderedTransaction, TimestampMs};
use std::sync::Arc;

impl Pipeline {
    pub(super) fn command(&mut self, now: TimestampMs, command: &[u8], reply: u64) {
        match &mut self.extension {
            Some(extension) => extension.command(now, command, reply, &mut self.pool),
            None => {
                let result = Err("this chain accepts no commands".into());
                self.out.push_back(Output::CommandDone(CommandResponse { reply, result }));
            }
        }
    }

    pub(super) fn directives(&self) -> Option<Arc<dyn Directives>> {
        self.extension.as_ref().map(|extension| extension.directives())
    }

    /// Next transactions for a batch.
    pub(super) fn next_transactions(&mut self, now: TimestampMs, bytes: u32, gas: u64) -> Option<Batch> {
        let view = self.view();
        let base_fee = self.base_fee();
        let pool = &mut self.pool;
        let mut cut = |bytes| pool.cut(bytes, gas, &view, base_fee);
        match &mut self.extension {
            Some(extension) => extension.batch(now, bytes, &mut cut),
            None => cut(bytes),
        }
    }

    /// Minimum base fee in wei: of the newest block, or the one set for the next block.
    pub(super) fn base_fee(&self) -> u64 {
        self.requested_base_fee().unwrap_or(self.base_fee)
    }

    /// Base fee that the extension set and that no block has yet.
    pub fn requested_base_fee(&self) -> Option<u64> {
        self.extension.as_ref().and_then(|extension| extension.base_fee())
    }

    /// Records batches that the engine delivered or gave back.
    pub(super) fn batches_returned<'a>(
        extension: &mut Option<Box<dyn Extension>>,
        batches: impl IntoIterator<Item = &'a Batch>,
    ) {
        if let Some(extension) = extension {
            batches.into_iter().for_each(|batch| extension.batch_returned(batch));
        }
    }

    /// True while the extension waits until no block is in progress. New work would delay it again and again. So the
    /// caller must hold back users' inputs ([`Input::Submit`](crate::Input::Submit),
    /// [`Input::Command`](crate::Input::Command)).
    pub fn holds_users(&self) -> bool {
        self.extension.as_ref().is_some_and(|extension| extension.holds_users())
    }

    /// Adds the accounts that directives changed, so that the pool checks them again.
    pub(super) fn with_changed_accounts(
        &self,
        mut executed: Vec<(B256, Address)>,
        ordered: &[OrderedTransaction],
    ) -> Vec<(B256, Address)> {
        if let Some(directives) = self.directives() {
            let changed = ordered.iter().filter_map(|ordered| directives.directive(&ordered.raw)?.account);
            executed.extend(changed.map(|account| (B256::ZERO, account)));
        }
        executed
    }

    /// Lets the extension complete commands, and emits its responses.
    pub(super) fn poll_extension(&mut self, now: TimestampMs) {
        let wants_batch = |ordering: &Ordering| ordering.wanted_batch.is_some() && !ordering.builder.is_open();
        let is_idle = self.mode.ordering().is_some_and(wants_batch) && self.is_idle();
        let Some(extension) = &mut self.extension else { return };
        if is_idle {
            extension.idle(now, self.appended);
        }
        while let Some(response) = extension.poll() {
            self.out.push_back(Output::CommandDone(response));
        }
    }
}
