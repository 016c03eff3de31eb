//! Commands of a development chain: time, blocks without transactions, and changes of accounts.
//!
//! Each [`Word`] is a control record between the ordered transactions. Its encoding is not a valid
//! transaction (no transaction has type 0x7f). It takes the path of a transaction: engine, block, state, log.
//! So a chain that restarts, or executes its ordered bytes again, makes the same blocks. Every other chain
//! skips such a record as undecodable. Only a pipeline with [`crate::Setup::dev`] creates or applies them.
//!
//! ```text
//! Set… ─╮                                     ╭─▶ BlockBuilder: Time, End
//! Mine ─┼─▶ Dev (waits for the engine) ─▶ batch of words and transactions ─┤
//! Time ─╯                                     ╰─▶ Runner: Set…
//! ```

mod word;

pub use word::Word;
pub(crate) use word::{base_fee, changes, randomness};

use corniche_admission::batch;
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Batch;
use corniche_types::{Address, B256, OrderedTransaction, TimestampMs};
use std::collections::VecDeque;

/// Maximum number of jobs that wait for the engine.
const MOST_WAITING: usize = 4_096;
/// Maximum number of blocks of one command per batch.
const BLOCKS_TOGETHER: u64 = 1_000;
/// Bytes of a batch reserved for control records, beside the transactions from the pool.
pub(crate) const WORDS_BYTES: u32 = 256 << 10;
/// Maximum number of blocks per command.
pub const MOST_BLOCKS: u64 = 10_000;

/// Command for a development chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevOrder {
    /// Makes `blocks` blocks, `apart` seconds from each other (`None`: by the clock). The pool's transactions
    /// go into the first one.
    Mine { blocks: u64, apart: Option<u64> },
    /// Makes a separate block that sets these accounts. Only the setters among the [`Word`]s have an effect.
    Set(Vec<Word>),
    /// Moves the clock by `ms`, starting with the next block; never before the newest block.
    Skip { ms: i64 },
    /// Sets the time of the next block; the clock continues from there.
    Next { time: TimestampMs },
    /// Sets the base fee of the next block in wei; later base fees follow from it.
    BaseFee { wei: u64 },
    /// Sets the randomness of the next block.
    Randomness(B256),
    /// Removes transactions from the pool, unless they are being ordered.
    Drop(Dropped),
    /// Sets whether transactions produce blocks immediately.
    Automine(bool),
    /// Makes a block every `ms` milliseconds; 0 disables it.
    Interval { ms: u64 },
    /// Has no effect: completes once no block is in progress and no automatic block is pending.
    Quiet,
}

/// Transactions to drop from the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    One(B256),
    Of(Address),
    All,
}

impl Dropped {
    pub(crate) fn means(&self, transaction: &VerifiedTransaction) -> bool {
        match self {
            Self::One(hash) => transaction.hash() == *hash,
            Self::Of(sender) => transaction.sender() == *sender,
            Self::All => true,
        }
    }
}

/// Clock of a chain at the time of reading, and settings of its next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub time: TimestampMs,
    pub next: Next,
}

/// Settings of the next block. A setter's block does not use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    pub time: Option<TimestampMs>,
    pub base_fee: Option<u64>,
    pub randomness: Option<B256>,
}

/// Initial settings of a development chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// `None`: the clock continues from the newest block, or from now if that is later.
    pub clock: Option<Clock>,
    pub automine: bool,
    /// Interval between blocks in milliseconds; 0: none.
    pub interval: u64,
}

impl Default for Start {
    fn default() -> Self {
        Self { clock: None, automine: true, interval: 0 }
    }
}

/// State of a development chain in its pipeline.
#[derive(Debug)]
pub(crate) struct Dev {
    /// Milliseconds by which the chain's clock is ahead of the node's.
    ahead: i64,
    next: Next,
    /// Base fee set for the next block, or for one in progress.
    base_fee: Option<u64>,
    /// Time of the newest requested block.
    newest: TimestampMs,
    pub automine: bool,
    interval: u64,
    interval_ends: Option<TimestampMs>,
    jobs: VecDeque<(DevOrder, u64)>,
}

impl Dev {
    /// Continues after a block with time `newest`.
    pub fn new(newest: TimestampMs, now: TimestampMs, start: Start) -> Self {
        let (ahead, next) = match start.clock {
            Some(clock) => (difference(clock.time, now), clock.next),
            // A clock that was set ahead stays ahead after a restart: block times never decrease.
            None => (difference(newest, now).max(0), Next::default()),
        };
        let Start { automine, interval, .. } = start;
        let interval_ends = (interval > 0).then(|| TimestampMs(now.0.saturating_add(interval)));
        let base_fee = next.base_fee;
        Self { ahead, next, base_fee, newest, automine, interval, interval_ends, jobs: VecDeque::new() }
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
        if self.base_fee.is_some() && self.next.base_fee.is_none() && base_fee(ordered).is_some() {
            self.base_fee = None;
        }
    }

    /// Current time of the chain's clock.
    pub fn time(&self, now: TimestampMs) -> TimestampMs {
        TimestampMs(now.0.saturating_add_signed(self.ahead)).max(self.newest)
    }

    /// Returns true if the response comes with a block, false if there is none to wait for.
    pub fn take(&mut self, now: TimestampMs, order: DevOrder, id: u64) -> Result<bool, &'static str> {
        match order {
            DevOrder::Skip { ms } => self.ahead = self.ahead.saturating_add(ms),
            DevOrder::Next { time } if time < self.newest => return Err("a block cannot be earlier than the one before"),
            DevOrder::Next { time } => self.next.time = Some(time),
            DevOrder::BaseFee { wei } => (self.next.base_fee, self.base_fee) = (Some(wei), Some(wei)),
            DevOrder::Randomness(said) => self.next.randomness = Some(said),
            DevOrder::Automine(automine) => self.automine = automine,
            DevOrder::Interval { ms } => {
                self.interval = ms;
                self.interval_ends = (ms > 0).then(|| TimestampMs(now.0.saturating_add(ms)));
            }
            DevOrder::Mine { blocks: 0, .. } | DevOrder::Quiet | DevOrder::Drop(_) => {}
            DevOrder::Mine { .. } | DevOrder::Set(_) => {
                if self.jobs.len() >= MOST_WAITING {
                    return Err("too many blocks are waited for");
                }
                self.push(order, id);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Splits a command for many blocks, because a batch has room for only some.
    fn push(&mut self, order: DevOrder, id: u64) {
        let (mut left, apart) = match order {
            DevOrder::Mine { blocks, apart } => (blocks, apart),
            other => return self.jobs.push_back((other, id)),
        };
        while left > 0 {
            let blocks = left.min(BLOCKS_TOGETHER);
            left -= blocks;
            self.jobs.push_back((DevOrder::Mine { blocks, apart }, if left == 0 { id } else { 0 }));
        }
    }

    /// Time of the next automatic block.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.interval_ends
    }

    pub fn tick(&mut self, now: TimestampMs) {
        if self.interval_ends.is_some_and(|ends| ends <= now) {
            self.interval_ends = Some(TimestampMs(now.0.saturating_add(self.interval)));
            if self.jobs.is_empty() {
                self.jobs.push_back((DevOrder::Mine { blocks: 1, apart: None }, 0));
            }
        }
    }

    /// True if the next batch takes the pool's transactions.
    pub fn wants_pool(&self) -> bool {
        match self.jobs.front() {
            Some((DevOrder::Mine { .. }, _)) => true,
            Some(_) => false,
            None => self.automine,
        }
    }

    /// Next batch, with the transactions cut from the pool if they were wanted.
    pub fn batch(&mut self, now: TimestampMs, cut: Option<Batch>) -> Option<Batch> {
        let job = self.jobs.pop_front();
        if job.is_none() && cut.is_none() {
            return None;
        }
        let mut raw = Vec::new();
        let is_setter = matches!(job, Some((DevOrder::Set(_), _)));
        let next = if is_setter { Next::default() } else { std::mem::take(&mut self.next) };
        if let Some(first) = next.time {
            self.ahead = difference(first, now);
        }
        // Blocks before the next one must not be later than it.
        let mut time = next.time.unwrap_or_else(|| self.time(now).min(self.next.time.unwrap_or(TimestampMs(u64::MAX))));
        // A clock that was never changed is the engine's.
        if next.time.is_some() || self.ahead != 0 || job.is_some() {
            raw.push(Word::Time(time).encode());
        }
        let said = [next.base_fee.map(Word::BaseFee), next.randomness.map(Word::Randomness)];
        raw.extend(said.iter().flatten().map(Word::encode));
        raw.extend(cut.iter().flat_map(|cut| batch::decode(&cut.bytes)));
        match job {
            None => {}
            Some((DevOrder::Mine { blocks, apart }, id)) => {
                for _ in 1..blocks {
                    raw.push(Word::End(0).encode());
                    time.0 = time.0.saturating_add(apart.unwrap_or(1).saturating_mul(1_000));
                    raw.push(Word::Time(time).encode());
                }
                raw.push(Word::End(id).encode());
                // The clock continues from the last of them.
                self.ahead = self.ahead.max(difference(time, now));
                if blocks == BLOCKS_TOGETHER && id == 0 {
                    self.next.time = Some(TimestampMs(time.0.saturating_add(apart.unwrap_or(1).saturating_mul(1_000))));
                }
            }
            Some((DevOrder::Set(words), id)) => {
                raw.extend(words.iter().filter(|word| word.account().is_some()).map(Word::encode));
                raw.push(Word::End(id).encode());
            }
            // All other commands took effect when they arrived.
            Some((_, id)) => raw.push(Word::End(id).encode()),
        }
        self.newest = self.newest.max(time);
        let bytes = batch::encode(&raw).expect("invariant: words are as long as transactions");
        Some(Batch { bytes })
    }
}

fn difference(time: TimestampMs, now: TimestampMs) -> i64 {
    i64::try_from(i128::from(time.0) - i128::from(now.0)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_state::{EmptyState, Overlay, StateView};
    use corniche_types::{Bytes, U256};

    fn words(batch: Option<Batch>) -> Vec<Word> {
        batch::decode(&batch.unwrap().bytes).iter().map(|raw| Word::decode(raw).unwrap()).collect()
    }

    const NOW: TimestampMs = TimestampMs(50_000);

    fn dev() -> Dev {
        Dev::new(TimestampMs(10_000), NOW, Start::default())
    }

    #[test]
    fn a_word_is_no_transaction_and_a_transaction_no_word() {
        let all = [
            Word::Time(TimestampMs(u64::MAX)),
            Word::End(0),
            Word::SetBalance(Address::repeat_byte(1), U256::MAX),
            Word::SetNonce(Address::ZERO, 7),
            Word::SetCode(Address::ZERO, vec![0; 300].into()),
            Word::SetStorage(Address::ZERO, B256::ZERO, B256::ZERO),
            Word::BaseFee(0),
            Word::Randomness(B256::ZERO),
        ];
        for word in all {
            let raw = word.encode();
            assert_eq!(Word::decode(&raw), Some(word));
            assert!(corniche_types::Transaction::decode(raw.clone()).is_err());
            let mut longer = raw.to_vec();
            longer.push(1);
            assert_eq!(Word::decode(&longer), None);
        }
        assert_eq!(Word::decode(&[2; 64]), None);
        assert_eq!(Word::decode(&[]), None);
    }

    #[test]
    fn a_clock_that_nobody_touched_is_the_engines() {
        let mut dev = dev();
        assert_eq!(dev.batch(NOW, None), None);
        let cut = Batch { bytes: batch::encode(&[vec![2; 100].into()]).unwrap() };
        assert_eq!(dev.batch(NOW, Some(cut.clone())), Some(cut));
    }

    #[test]
    fn time_is_skipped_set_once_and_never_goes_back() {
        let mut dev = dev();
        dev.take(NOW, DevOrder::Skip { ms: 5_000 }, 0).unwrap();
        let mine = DevOrder::Mine { blocks: 1, apart: None };
        let mined = |dev: &mut Dev, now: u64| {
            assert_eq!(dev.take(NOW, mine.clone(), 9), Ok(true));
            match words(dev.batch(TimestampMs(now), None))[..] {
                [Word::Time(time), Word::End(9)] => time.0,
                ref other => panic!("{other:?}"),
            }
        };
        assert_eq!(mined(&mut dev, 50_000), 55_000);
        dev.take(NOW, DevOrder::Next { time: TimestampMs(90_000) }, 0).unwrap();
        assert_eq!([mined(&mut dev, 51_000), mined(&mut dev, 51_500), mined(&mut dev, 52_000)], [90_000, 90_500, 91_000]);
        dev.take(NOW, DevOrder::Skip { ms: -60_000 }, 0).unwrap();
        assert_eq!(mined(&mut dev, 53_000), 91_000);
        assert!(dev.take(NOW, DevOrder::Next { time: TimestampMs(90_999) }, 0).is_err());
        let restarted = Dev::new(TimestampMs(91_000), NOW, Start::default());
        assert_eq!(restarted.time(TimestampMs(50_001)), TimestampMs(91_001), "after a restart");
    }

    #[test]
    fn a_chain_that_goes_back_has_the_clock_it_had() {
        let mut dev = dev();
        dev.take(NOW, DevOrder::Skip { ms: 7_000 }, 0).unwrap();
        dev.take(NOW, DevOrder::Next { time: TimestampMs(80_000) }, 0).unwrap();
        let clock = dev.clock(TimestampMs(51_000));
        let start = Start { clock: Some(clock), automine: false, interval: 30 };
        let mut back = Dev::new(TimestampMs(10_000), TimestampMs(99_000), start);
        assert_eq!(back.clock(TimestampMs(99_000)), clock);
        assert_eq!((clock.time.0, back.time(TimestampMs(99_500)).0), (58_000, 58_500), "it goes on from there");
        assert!(!back.wants_pool() && back.deadline() == Some(TimestampMs(99_030)));
        back.take(NOW, DevOrder::Mine { blocks: 1, apart: None }, 5).unwrap();
        assert_eq!(words(back.batch(TimestampMs(99_600), None))[0], Word::Time(TimestampMs(80_000)));
    }

    #[test]
    fn what_is_said_of_the_next_block_is_not_of_a_setters() {
        let mut dev = dev();
        let randomness = B256::repeat_byte(7);
        dev.take(NOW, DevOrder::BaseFee { wei: 5 }, 0).unwrap();
        dev.take(NOW, DevOrder::Randomness(randomness), 0).unwrap();
        dev.take(NOW, DevOrder::Next { time: TimestampMs(50_500) }, 0).unwrap();
        dev.take(NOW, DevOrder::Set(vec![Word::SetNonce(Address::ZERO, 1)]), 4).unwrap();
        let setter = words(dev.batch(TimestampMs(60_000), None));
        assert_eq!(setter[0], Word::Time(TimestampMs(50_500)), "nor is that later");
        assert!(matches!(setter[1..], [Word::SetNonce(..), Word::End(4)]));
        dev.take(NOW, DevOrder::Mine { blocks: 2, apart: None }, 5).unwrap();
        let ordered = |words: Vec<Word>| -> Vec<OrderedTransaction> {
            let author = corniche_types::ValidatorIndex(0);
            words.iter().map(|word| OrderedTransaction { author, raw: word.encode() }).collect()
        };
        let clock = dev.clock(NOW);
        assert_eq!((clock.next.base_fee, clock.next.randomness), (Some(5), Some(randomness)));
        let mined = words(dev.batch(TimestampMs(61_000), None));
        assert_eq!(mined[..4], [Word::Time(TimestampMs(50_500)), Word::BaseFee(5), Word::Randomness(randomness), Word::End(0)]);
        assert!(matches!(mined[4..], [Word::Time(_), Word::End(5)]), "once");
        let mined = ordered(mined);
        assert_eq!((base_fee(&mined), super::randomness(&mined)), (Some(5), Some(randomness)));
        // Transactions sent meanwhile are checked against the set base fee, until the block exists.
        assert_eq!((dev.clock(NOW).next, dev.base_fee()), (Next::default(), Some(5)));
        dev.executed(&ordered(setter));
        assert_eq!(dev.base_fee(), Some(5));
        dev.take(NOW, DevOrder::BaseFee { wei: 6 }, 0).unwrap();
        dev.executed(&mined);
        assert_eq!(dev.base_fee(), Some(6), "said since");
        dev.batch(NOW, Some(Batch { bytes: batch::encode(&[vec![2; 100].into()]).unwrap() })).unwrap();
        dev.executed(&mined);
        assert_eq!(dev.base_fee(), None);
    }

    #[test]
    fn many_blocks_go_in_batches_that_the_engine_takes() {
        let mut dev = dev();
        dev.take(NOW, DevOrder::Mine { blocks: 2_500, apart: Some(12) }, 3).unwrap();
        let mut times = Vec::new();
        for last in [0, 0, 3] {
            let batch = dev.batch(NOW, None);
            assert!(batch.as_ref().unwrap().bytes.len() < WORDS_BYTES as usize);
            let words = words(batch);
            assert_eq!(words.last(), Some(&Word::End(last)));
            times.extend(words.iter().filter_map(|word| if let Word::Time(time) = word { Some(time.0) } else { None }));
        }
        assert_eq!(times.len(), 2_500);
        let steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step == 12_000));
    }

    #[test]
    fn without_automine_the_pool_waits_for_a_word() {
        let mut dev = dev();
        dev.take(NOW, DevOrder::Automine(false), 0).unwrap();
        assert!(!dev.wants_pool());
        dev.take(NOW, DevOrder::Set(vec![Word::SetNonce(Address::ZERO, 1)]), 4).unwrap();
        dev.take(NOW, DevOrder::Mine { blocks: 1, apart: None }, 5).unwrap();
        assert!(!dev.wants_pool(), "a setter has a block of its own");
        assert!(matches!(words(dev.batch(NOW, None))[..], [Word::Time(_), Word::SetNonce(..), Word::End(4)]));
        assert!(dev.wants_pool());
        dev.batch(NOW, None).unwrap();
        dev.take(NOW, DevOrder::Interval { ms: 100 }, 0).unwrap();
        dev.tick(TimestampMs(NOW.0 + 99));
        assert!(!dev.wants_pool());
        dev.tick(TimestampMs(NOW.0 + 100));
        assert!(dev.wants_pool() && dev.deadline() == Some(TimestampMs(NOW.0 + 200)));
    }

    #[test]
    fn setters_change_what_they_name() {
        let [rich, code, slots] = [1, 2, 3].map(Address::repeat_byte);
        let (slot, value) = (B256::repeat_byte(5), B256::repeat_byte(6));
        let said = [
            Word::SetBalance(rich, U256::from(7)),
            Word::SetNonce(rich, 3),
            Word::SetBalance(rich, U256::from(8)),
            Word::SetCode(code, Bytes::from_static(b"code")),
            Word::SetStorage(slots, slot, value),
            Word::SetBalance(Address::repeat_byte(4), U256::ZERO),
        ];
        let author = corniche_types::ValidatorIndex(0);
        let ordered: Vec<_> = said.iter().map(|word| OrderedTransaction { author, raw: word.encode() }).collect();
        let changes = changes(&ordered, &EmptyState, corniche_types::ProtocolRules::LATEST);
        let view = Overlay { base: &EmptyState, changes: &changes };
        let account = view.account(&rich).unwrap();
        assert_eq!((account.balance, account.nonce), (U256::from(8), 3));
        let account = view.account(&code).unwrap();
        assert_eq!(view.code(&account.code_hash), Some(Bytes::from_static(b"code")));
        assert!(view.account(&slots).is_some() && view.storage(&slots, &slot) == value);
        assert_eq!(changes.accounts[&Address::repeat_byte(4)], None);
    }
}
