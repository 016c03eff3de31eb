//! Development commands in the pipeline: an [`Extension`] that orders control records.

use crate::{
    control_record::{ControlRecord, ControlRecords},
    mining::{CONTROL_RECORD_BYTES, ChainCommand, Clock, DevSettings, DevState},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_admission::Pool;
use corniche_engine::Batch;
use corniche_pipeline::{CommandResponse, Directives, Extension};
use corniche_types::{B256, Bytes, Height, OrderedTransaction, TimestampMs};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// Result of a [`ChainCommand`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Done {
    /// Hash of the last block that it made, if any; for [`ChainCommand::DropTransactions`] a transaction that left the
    /// pool, if any.
    Hash(Option<B256>),
    /// [`ChainCommand::WaitForIdle`]: no block is in progress.
    Idle { clock: Clock, height: Height },
}

/// Development chain in its pipeline.
pub struct DevExtension {
    directives: Arc<ControlRecords>,
    settings: DevSettings,
    state: DevState,
    /// Commands that wait for a block.
    pending: BTreeSet<u64>,
    /// Batches that the engine has not delivered yet, and the commands that wait until there are none.
    undelivered: Vec<B256>,
    idle_waiters: Vec<u64>,
    responses: VecDeque<CommandResponse>,
}

impl DevExtension {
    pub fn new(chain_id: u64, settings: DevSettings) -> Self {
        Self {
            directives: Arc::new(ControlRecords::new(chain_id)),
            settings,
            state: DevState::new(TimestampMs(0), TimestampMs(0), settings),
            pending: BTreeSet::new(),
            undelivered: Vec::new(),
            idle_waiters: Vec::new(),
            responses: VecDeque::new(),
        }
    }

    /// Applies a command; `None`: the response comes later.
    fn apply(&mut self, now: TimestampMs, command: &[u8], reply: u64, pool: &mut Pool) -> Option<Result<Done, String>> {
        let result = match ChainCommand::try_from_slice(command) {
            Err(error) => Err(format!("invalid command: {error}")),
            Ok(ChainCommand::WaitForIdle) => {
                self.idle_waiters.push(reply);
                return None;
            }
            Ok(ChainCommand::DropTransactions(target)) => {
                Ok(Done::Hash(pool.drop_waiting(|transaction| target.matches(transaction))))
            }
            Ok(command) => match self.state.apply(now, command, reply) {
                Ok(true) => {
                    self.pending.insert(reply);
                    return None;
                }
                Ok(false) => Ok(Done::Hash(None)),
                Err(reason) => Err(reason.to_owned()),
            },
        };
        Some(result)
    }

    fn respond(&mut self, reply: u64, result: Result<Done, String>) {
        let encode = |done| Bytes::from(borsh::to_vec(&done).expect("writing into memory cannot fail"));
        self.responses.push_back(CommandResponse { reply, result: result.map(encode) });
    }
}

impl Extension for DevExtension {
    fn directives(&self) -> Arc<dyn Directives> {
        self.directives.clone()
    }

    fn start(&mut self, newest: TimestampMs, now: TimestampMs) {
        self.state = DevState::new(newest, now, self.settings);
    }

    fn command(&mut self, now: TimestampMs, command: &[u8], reply: u64, pool: &mut Pool) {
        if let Some(result) = self.apply(now, command, reply, pool) {
            self.respond(reply, result);
        }
    }

    fn poll(&mut self) -> Option<CommandResponse> {
        self.responses.pop_front()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        if self.holds_users() { None } else { self.state.deadline() }
    }

    // Makes no automatic blocks while a command waits for the last one.
    fn tick(&mut self, now: TimestampMs) {
        if !self.holds_users() {
            self.state.tick(now);
        }
    }

    fn batch(&mut self, now: TimestampMs, bytes: u32, cut: &mut dyn FnMut(u32) -> Option<Batch>) -> Option<Batch> {
        let pool_batch = if self.state.wants_pool() { cut(bytes.saturating_sub(CONTROL_RECORD_BYTES)) } else { None };
        let batch = self.state.batch(now, pool_batch)?;
        if !batch.bytes.is_empty() {
            self.undelivered.push(corniche_engine::batch_digest(&batch.bytes));
        }
        Some(batch)
    }

    fn batch_returned(&mut self, batch: &Batch) {
        if self.undelivered.is_empty() {
            return;
        }
        let digest = corniche_engine::batch_digest(&batch.bytes);
        if let Some(index) = self.undelivered.iter().position(|given| *given == digest) {
            self.undelivered.remove(index);
        }
    }

    fn executed(&mut self, ordered: &[OrderedTransaction]) {
        self.state.executed(ordered);
    }

    fn appended(&mut self, ordered: &[OrderedTransaction], block: B256) {
        if self.pending.is_empty() {
            return;
        }
        for record in ordered.iter().filter_map(|ordered| ControlRecord::decode(&ordered.raw)) {
            if let ControlRecord::End(reply) = record
                && self.pending.remove(&reply)
            {
                self.respond(reply, Ok(Done::Hash(Some(block))));
            }
        }
    }

    fn idle(&mut self, now: TimestampMs, height: Height) {
        if self.undelivered.is_empty() {
            let clock = self.state.clock(now);
            for reply in std::mem::take(&mut self.idle_waiters) {
                self.respond(reply, Ok(Done::Idle { clock, height }));
            }
        }
    }

    fn holds_users(&self) -> bool {
        !self.idle_waiters.is_empty()
    }

    fn base_fee(&self) -> Option<u64> {
        self.state.base_fee()
    }
}
