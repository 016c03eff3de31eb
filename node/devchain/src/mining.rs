//! Commands of a development chain, and the batches that they make: time, blocks without transactions, and changes
//! of accounts.
//!
//! ```text
//! Set… ─╮                                                                         ╭─▶ BlockBuilder: Time, End
//! Mine ─┼─▶ DevState (waits for the engine) ─▶ batch of records and transactions ─┤
//! Time ─╯                                                                         ╰─▶ Runner: Set…
//! ```

use crate::control_record::{ControlRecord, settings};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_admission::batch;
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Batch;
use corniche_types::{Address, B256, OrderedTransaction, TimestampMs};
use std::collections::VecDeque;

/// Maximum number of jobs that wait for the engine.
const MAX_WAITING_JOBS: usize = 4_096;
/// Maximum number of blocks of one command per batch.
const MAX_BLOCKS_PER_BATCH: u64 = 1_000;
/// Bytes of a batch reserved for control records, beside the transactions from the pool.
pub const CONTROL_RECORD_BYTES: u32 = 256 << 10;
/// Maximum number of blocks per command.
pub const MAX_BLOCKS_PER_COMMAND: u64 = 10_000;

/// Command for a development chain, encoded in [`Input::Command`](corniche_pipeline::Input::Command).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum ChainCommand {
    /// Makes `blocks` blocks, `interval_seconds` seconds from each other (`None`: by the clock). The pool's transactions
    /// go into the first one.
    Mine { blocks: u64, interval_seconds: Option<u64> },
    /// Makes a separate block that sets these accounts. Only the setters among the [`ControlRecord`]s have an effect.
    SetAccounts(Vec<ControlRecord>),
    /// Moves the clock by `ms`, starting with the next block; never before the newest block.
    IncreaseTime { ms: i64 },
    /// Sets the time of the next block; the clock continues from there.
    SetNextTimestamp { time: TimestampMs },
    /// Sets the base fee of the next block in wei; later base fees follow from it.
    SetNextBaseFee { wei: u64 },
    /// Sets the randomness of the next block.
    SetNextRandomness(B256),
    /// Removes transactions from the pool, unless they are being ordered.
    DropTransactions(DropTarget),
    /// Sets whether transactions produce blocks immediately.
    SetAutomine(bool),
    /// Makes a block every `ms` milliseconds; 0 disables it.
    SetInterval { ms: u64 },
    /// Has no effect: completes once no block is in progress and no automatic block is pending.
    WaitForIdle,
}

/// Transactions to drop from the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum DropTarget {
    Transaction(B256),
    Sender(Address),
    All,
}

impl DropTarget {
    pub fn matches(&self, transaction: &VerifiedTransaction) -> bool {
        match self {
            Self::Transaction(hash) => transaction.hash() == *hash,
            Self::Sender(sender) => transaction.sender() == *sender,
            Self::All => true,
        }
    }
}

/// Clock of a chain at the time of reading, and settings of its next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Clock {
    pub time: TimestampMs,
    pub next: NextBlock,
}

/// Settings of the next block. A setter's block does not use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct NextBlock {
    pub time: Option<TimestampMs>,
    pub base_fee: Option<u64>,
    pub randomness: Option<B256>,
}

/// Initial settings of a development chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevSettings {
    /// `None`: the clock continues from the newest block, or from now if that is later.
    pub clock: Option<Clock>,
    pub automine: bool,
    /// Interval between blocks in milliseconds; 0: none.
    pub interval: u64,
}

impl Default for DevSettings {
    fn default() -> Self {
        Self { clock: None, automine: true, interval: 0 }
    }
}

/// State of a development chain in its pipeline.
#[derive(Debug)]
pub struct DevState {
    /// Milliseconds by which the chain's clock is ahead of the node's.
    offset_ms: i64,
    next: NextBlock,
    /// Base fee set for the next block, or for one in progress.
    base_fee: Option<u64>,
    /// Time of the newest requested block.
    last_block_time: TimestampMs,
    pub automine: bool,
    interval: u64,
    next_interval_block: Option<TimestampMs>,
    jobs: VecDeque<(ChainCommand, u64)>,
}

impl DevState {
    /// Continues after a block with time `last_block_time`.
    pub fn new(last_block_time: TimestampMs, now: TimestampMs, start: DevSettings) -> Self {
        let (offset_ms, next) = match start.clock {
            Some(clock) => (offset_between(clock.time, now), clock.next),
            // A clock that was set ahead stays ahead after a restart: block times never decrease.
            None => (offset_between(last_block_time, now).max(0), NextBlock::default()),
        };
        let DevSettings { automine, interval, .. } = start;
        let next_interval_block = (interval > 0).then(|| TimestampMs(now.0.saturating_add(interval)));
        let base_fee = next.base_fee;
        Self { offset_ms, next, base_fee, last_block_time, automine, interval, next_interval_block, jobs: VecDeque::new() }
    }

    pub fn clock(&self, now: TimestampMs) -> Clock {
        Clock { time: self.time(now), next: self.next }
    }

    /// Base fee that was set and is not yet the newest block's.
    pub fn base_fee(&self) -> Option<u64> {
        self.base_fee
    }

    /// Records that a block with these entries is now the newest.
    pub fn executed(&mut self, ordered: &[OrderedTransaction]) {
        if self.base_fee.is_some() && self.next.base_fee.is_none() && settings(ordered).base_fee.is_some() {
            self.base_fee = None;
        }
    }

    /// Current time of the chain's clock.
    pub fn time(&self, now: TimestampMs) -> TimestampMs {
        TimestampMs(now.0.saturating_add_signed(self.offset_ms)).max(self.last_block_time)
    }

    /// Returns true if the response comes with a block, false if there is none to wait for.
    pub fn apply(&mut self, now: TimestampMs, command: ChainCommand, id: u64) -> Result<bool, &'static str> {
        match command {
            ChainCommand::IncreaseTime { ms } => self.offset_ms = self.offset_ms.saturating_add(ms),
            ChainCommand::SetNextTimestamp { time } if time < self.last_block_time => {
                return Err("the timestamp is before that of the previous block");
            }
            ChainCommand::SetNextTimestamp { time } => self.next.time = Some(time),
            ChainCommand::SetNextBaseFee { wei } => (self.next.base_fee, self.base_fee) = (Some(wei), Some(wei)),
            ChainCommand::SetNextRandomness(randomness) => self.next.randomness = Some(randomness),
            ChainCommand::SetAutomine(automine) => self.automine = automine,
            ChainCommand::SetInterval { ms } => {
                self.interval = ms;
                self.next_interval_block = (ms > 0).then(|| TimestampMs(now.0.saturating_add(ms)));
            }
            ChainCommand::Mine { blocks: 0, .. } | ChainCommand::WaitForIdle | ChainCommand::DropTransactions(_) => {}
            ChainCommand::Mine { .. } | ChainCommand::SetAccounts(_) => {
                if self.jobs.len() >= MAX_WAITING_JOBS {
                    return Err("too many blocks are pending");
                }
                self.push(command, id);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Splits a command for many blocks, because a batch has room for only some.
    fn push(&mut self, command: ChainCommand, id: u64) {
        let (mut remaining, interval_seconds) = match command {
            ChainCommand::Mine { blocks, interval_seconds } => (blocks, interval_seconds),
            other => return self.jobs.push_back((other, id)),
        };
        while remaining > 0 {
            let blocks = remaining.min(MAX_BLOCKS_PER_BATCH);
            remaining -= blocks;
            self.jobs.push_back((ChainCommand::Mine { blocks, interval_seconds }, if remaining == 0 { id } else { 0 }));
        }
    }

    /// Time of the next automatic block.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.next_interval_block
    }

    pub fn tick(&mut self, now: TimestampMs) {
        if self.next_interval_block.is_some_and(|ends| ends <= now) {
            self.next_interval_block = Some(TimestampMs(now.0.saturating_add(self.interval)));
            if self.jobs.is_empty() {
                self.jobs.push_back((ChainCommand::Mine { blocks: 1, interval_seconds: None }, 0));
            }
        }
    }

    /// True if the next batch takes the pool's transactions.
    pub fn wants_pool(&self) -> bool {
        match self.jobs.front() {
            Some((ChainCommand::Mine { .. }, _)) => true,
            Some(_) => false,
            None => self.automine,
        }
    }

    /// Next batch, with the transactions cut from the pool if they were wanted.
    pub fn batch(&mut self, now: TimestampMs, pool_batch: Option<Batch>) -> Option<Batch> {
        let job = self.jobs.pop_front();
        if job.is_none() && pool_batch.is_none() {
            return None;
        }
        let mut raw = Vec::new();
        let is_setter = matches!(job, Some((ChainCommand::SetAccounts(_), _)));
        let next = if is_setter { NextBlock::default() } else { std::mem::take(&mut self.next) };
        if let Some(requested) = next.time {
            self.offset_ms = offset_between(requested, now);
        }
        // Blocks before the next one must not be later than it.
        let mut time = next.time.unwrap_or_else(|| self.time(now).min(self.next.time.unwrap_or(TimestampMs(u64::MAX))));
        // A clock that was never changed is the engine's.
        if next.time.is_some() || self.offset_ms != 0 || job.is_some() {
            raw.push(ControlRecord::Time(time).encode());
        }
        let settings_changed = [next.base_fee.map(ControlRecord::BaseFee), next.randomness.map(ControlRecord::Randomness)];
        raw.extend(settings_changed.iter().flatten().map(ControlRecord::encode));
        raw.extend(pool_batch.iter().flat_map(|pool_batch| batch::decode(&pool_batch.bytes)));
        match job {
            None => {}
            Some((ChainCommand::Mine { blocks, interval_seconds }, id)) => {
                for _ in 1..blocks {
                    raw.push(ControlRecord::End(0).encode());
                    time.0 = time.0.saturating_add(interval_seconds.unwrap_or(1).saturating_mul(1_000));
                    raw.push(ControlRecord::Time(time).encode());
                }
                raw.push(ControlRecord::End(id).encode());
                // The clock continues from the last of them.
                self.offset_ms = self.offset_ms.max(offset_between(time, now));
                if blocks == MAX_BLOCKS_PER_BATCH && id == 0 {
                    self.next.time =
                        Some(TimestampMs(time.0.saturating_add(interval_seconds.unwrap_or(1).saturating_mul(1_000))));
                }
            }
            Some((ChainCommand::SetAccounts(records), id)) => {
                raw.extend(records.iter().filter(|record| record.account().is_some()).map(ControlRecord::encode));
                raw.push(ControlRecord::End(id).encode());
            }
            // All other commands took effect when they arrived.
            Some((_, id)) => raw.push(ControlRecord::End(id).encode()),
        }
        self.last_block_time = self.last_block_time.max(time);
        let bytes = batch::encode(&raw).expect("invariant: words are as long as transactions");
        Some(Batch { bytes })
    }
}

fn offset_between(time: TimestampMs, now: TimestampMs) -> i64 {
    i64::try_from(i128::from(time.0) - i128::from(now.0)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_pipeline::BlockSettings;
    use corniche_state::{EmptyState, Overlay, StateView};
    use corniche_types::{Bytes, U256};

    fn records(batch: Option<Batch>) -> Vec<ControlRecord> {
        batch::decode(&batch.unwrap().bytes).iter().map(|raw| ControlRecord::decode(raw).unwrap()).collect()
    }

    const NOW: TimestampMs = TimestampMs(50_000);

    fn dev() -> DevState {
        DevState::new(TimestampMs(10_000), NOW, DevSettings::default())
    }

    #[test]
    fn control_records_and_transactions_differ() {
        let all = [
            ControlRecord::Time(TimestampMs(u64::MAX)),
            ControlRecord::End(0),
            ControlRecord::SetBalance(Address::repeat_byte(1), U256::MAX),
            ControlRecord::SetNonce(Address::ZERO, 7),
            ControlRecord::SetCode(Address::ZERO, vec![0; 300].into()),
            ControlRecord::SetStorage(Address::ZERO, B256::ZERO, B256::ZERO),
            ControlRecord::BaseFee(0),
            ControlRecord::Randomness(B256::ZERO),
        ];
        for record in all {
            let raw = record.encode();
            assert_eq!(ControlRecord::decode(&raw), Some(record));
            assert!(corniche_types::Transaction::decode(raw.clone()).is_err());
            let mut longer = raw.to_vec();
            longer.push(1);
            assert_eq!(ControlRecord::decode(&longer), None);
        }
        assert_eq!(ControlRecord::decode(&[2; 64]), None);
        assert_eq!(ControlRecord::decode(&[]), None);
    }

    #[test]
    fn untouched_clock_follows_engine() {
        let mut dev = dev();
        assert_eq!(dev.batch(NOW, None), None);
        let pool_batch = Batch { bytes: batch::encode(&[vec![2; 100].into()]).unwrap() };
        assert_eq!(dev.batch(NOW, Some(pool_batch.clone())), Some(pool_batch));
    }

    #[test]
    fn clock_changes_are_monotonic() {
        let mut dev = dev();
        dev.apply(NOW, ChainCommand::IncreaseTime { ms: 5_000 }, 0).unwrap();
        let mine = ChainCommand::Mine { blocks: 1, interval_seconds: None };
        let mined = |dev: &mut DevState, now: u64| {
            assert_eq!(dev.apply(NOW, mine.clone(), 9), Ok(true));
            match records(dev.batch(TimestampMs(now), None))[..] {
                [ControlRecord::Time(time), ControlRecord::End(9)] => time.0,
                ref other => panic!("{other:?}"),
            }
        };
        assert_eq!(mined(&mut dev, 50_000), 55_000);
        dev.apply(NOW, ChainCommand::SetNextTimestamp { time: TimestampMs(90_000) }, 0).unwrap();
        assert_eq!([mined(&mut dev, 51_000), mined(&mut dev, 51_500), mined(&mut dev, 52_000)], [90_000, 90_500, 91_000]);
        dev.apply(NOW, ChainCommand::IncreaseTime { ms: -60_000 }, 0).unwrap();
        assert_eq!(mined(&mut dev, 53_000), 91_000);
        assert!(dev.apply(NOW, ChainCommand::SetNextTimestamp { time: TimestampMs(90_999) }, 0).is_err());
        let restarted = DevState::new(TimestampMs(91_000), NOW, DevSettings::default());
        assert_eq!(restarted.time(TimestampMs(50_001)), TimestampMs(91_001), "after a restart");
    }

    #[test]
    fn reverted_chain_restores_clock() {
        let mut dev = dev();
        dev.apply(NOW, ChainCommand::IncreaseTime { ms: 7_000 }, 0).unwrap();
        dev.apply(NOW, ChainCommand::SetNextTimestamp { time: TimestampMs(80_000) }, 0).unwrap();
        let clock = dev.clock(TimestampMs(51_000));
        let start = DevSettings { clock: Some(clock), automine: false, interval: 30 };
        let mut reverted = DevState::new(TimestampMs(10_000), TimestampMs(99_000), start);
        assert_eq!(reverted.clock(TimestampMs(99_000)), clock);
        assert_eq!((clock.time.0, reverted.time(TimestampMs(99_500)).0), (58_000, 58_500), "it goes on from there");
        assert!(!reverted.wants_pool() && reverted.deadline() == Some(TimestampMs(99_030)));
        reverted.apply(NOW, ChainCommand::Mine { blocks: 1, interval_seconds: None }, 5).unwrap();
        assert_eq!(records(reverted.batch(TimestampMs(99_600), None))[0], ControlRecord::Time(TimestampMs(80_000)));
    }

    #[test]
    fn next_block_settings_skip_setter_blocks() {
        let mut dev = dev();
        let randomness = B256::repeat_byte(7);
        dev.apply(NOW, ChainCommand::SetNextBaseFee { wei: 5 }, 0).unwrap();
        dev.apply(NOW, ChainCommand::SetNextRandomness(randomness), 0).unwrap();
        dev.apply(NOW, ChainCommand::SetNextTimestamp { time: TimestampMs(50_500) }, 0).unwrap();
        dev.apply(NOW, ChainCommand::SetAccounts(vec![ControlRecord::SetNonce(Address::ZERO, 1)]), 4).unwrap();
        let setter = records(dev.batch(TimestampMs(60_000), None));
        assert_eq!(setter[0], ControlRecord::Time(TimestampMs(50_500)), "nor is that later");
        assert!(matches!(setter[1..], [ControlRecord::SetNonce(..), ControlRecord::End(4)]));
        dev.apply(NOW, ChainCommand::Mine { blocks: 2, interval_seconds: None }, 5).unwrap();
        let ordered = |records: Vec<ControlRecord>| -> Vec<OrderedTransaction> {
            let author = corniche_types::ValidatorIndex(0);
            records.iter().map(|record| OrderedTransaction { author, raw: record.encode() }).collect()
        };
        let clock = dev.clock(NOW);
        assert_eq!((clock.next.base_fee, clock.next.randomness), (Some(5), Some(randomness)));
        let mined = records(dev.batch(TimestampMs(61_000), None));
        assert_eq!(
            mined[..4],
            [
                ControlRecord::Time(TimestampMs(50_500)),
                ControlRecord::BaseFee(5),
                ControlRecord::Randomness(randomness),
                ControlRecord::End(0)
            ]
        );
        assert!(matches!(mined[4..], [ControlRecord::Time(_), ControlRecord::End(5)]), "once");
        let mined = ordered(mined);
        assert_eq!(settings(&mined), BlockSettings { base_fee: Some(5), randomness: Some(randomness) });
        // Transactions sent meanwhile are checked against the set base fee, until the block exists.
        assert_eq!((dev.clock(NOW).next, dev.base_fee()), (NextBlock::default(), Some(5)));
        dev.executed(&ordered(setter));
        assert_eq!(dev.base_fee(), Some(5));
        dev.apply(NOW, ChainCommand::SetNextBaseFee { wei: 6 }, 0).unwrap();
        dev.executed(&mined);
        assert_eq!(dev.base_fee(), Some(6), "said since");
        dev.batch(NOW, Some(Batch { bytes: batch::encode(&[vec![2; 100].into()]).unwrap() })).unwrap();
        dev.executed(&mined);
        assert_eq!(dev.base_fee(), None);
    }

    #[test]
    fn mined_blocks_are_split_into_batches() {
        let mut dev = dev();
        dev.apply(NOW, ChainCommand::Mine { blocks: 2_500, interval_seconds: Some(12) }, 3).unwrap();
        let mut times = Vec::new();
        for last in [0, 0, 3] {
            let batch = dev.batch(NOW, None);
            assert!(batch.as_ref().unwrap().bytes.len() < CONTROL_RECORD_BYTES as usize);
            let records = records(batch);
            assert_eq!(records.last(), Some(&ControlRecord::End(last)));
            times.extend(
                records.iter().filter_map(|record| if let ControlRecord::Time(time) = record { Some(time.0) } else { None }),
            );
        }
        assert_eq!(times.len(), 2_500);
        let steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step == 12_000));
    }

    #[test]
    fn manual_mining_waits_for_command() {
        let mut dev = dev();
        dev.apply(NOW, ChainCommand::SetAutomine(false), 0).unwrap();
        assert!(!dev.wants_pool());
        dev.apply(NOW, ChainCommand::SetAccounts(vec![ControlRecord::SetNonce(Address::ZERO, 1)]), 4).unwrap();
        dev.apply(NOW, ChainCommand::Mine { blocks: 1, interval_seconds: None }, 5).unwrap();
        assert!(!dev.wants_pool(), "a setter has a block of its own");
        assert!(matches!(
            records(dev.batch(NOW, None))[..],
            [ControlRecord::Time(_), ControlRecord::SetNonce(..), ControlRecord::End(4)]
        ));
        assert!(dev.wants_pool());
        dev.batch(NOW, None).unwrap();
        dev.apply(NOW, ChainCommand::SetInterval { ms: 100 }, 0).unwrap();
        dev.tick(TimestampMs(NOW.0 + 99));
        assert!(!dev.wants_pool());
        dev.tick(TimestampMs(NOW.0 + 100));
        assert!(dev.wants_pool() && dev.deadline() == Some(TimestampMs(NOW.0 + 200)));
    }

    #[test]
    fn setters_change_state() {
        let [funded, code, slots] = [1, 2, 3].map(Address::repeat_byte);
        let (slot, value) = (B256::repeat_byte(5), B256::repeat_byte(6));
        let setters = [
            ControlRecord::SetBalance(funded, U256::from(7)),
            ControlRecord::SetNonce(funded, 3),
            ControlRecord::SetBalance(funded, U256::from(8)),
            ControlRecord::SetCode(code, Bytes::from_static(b"code")),
            ControlRecord::SetStorage(slots, slot, value),
            ControlRecord::SetBalance(Address::repeat_byte(4), U256::ZERO),
        ];
        let author = corniche_types::ValidatorIndex(0);
        let ordered: Vec<_> = setters.iter().map(|record| OrderedTransaction { author, raw: record.encode() }).collect();
        let changes = crate::control_record::changes(&ordered, &EmptyState, corniche_types::ProtocolRules::LATEST);
        let view = Overlay { base: &EmptyState, changes: &changes };
        let account = view.account(&funded).unwrap();
        assert_eq!((account.balance, account.nonce), (U256::from(8), 3));
        let account = view.account(&code).unwrap();
        assert_eq!(view.code(&account.code_hash), Some(Bytes::from_static(b"code")));
        assert!(view.account(&slots).is_some() && view.storage(&slots, &slot) == value);
        assert_eq!(changes.accounts[&Address::repeat_byte(4)], None);
    }
}
