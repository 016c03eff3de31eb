//! Fair queue (like deficit round robin) between many sources and one thread. A turn is [`TURN_US`] of work. An expensive item
//! takes several turns, so all sources get the same share of the thread's time. A source that floods delays only itself:
//! an item beyond its [`SourceLimit`] is refused or replaces its newest item. [`TotalLimit`] bounds all sources together.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard},
};

/// Work that one turn pays for, µs: a little more than checking a vote.
const TURN_US: u64 = 200;
/// Maximum number of turns of one item: 200 ms.
const MAX_TURNS: u64 = 1_000;
/// Maximum number of sources with queued items or debt. A node has fewer peers.
const MAX_SOURCES: usize = 8_192;

/// Bounds of the items that one source may have waiting.
#[derive(Clone, Copy, Debug)]
pub struct SourceLimit {
    pub items: usize,
    /// Bytes of all items together. A larger item is refused.
    pub bytes: usize,
    pub when_full: WhenFull,
}

/// Treatment of an item whose source has [`SourceLimit::items`] waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    Refuse,
    /// The item takes the place of its source's newest one.
    ReplaceNewest,
}

/// Limits on the queued items of all sources together.
#[derive(Clone, Copy, Debug)]
pub struct TotalLimit {
    pub items: usize,
    pub bytes: usize,
    /// Accepts one item of a source without queued items even beyond these limits, so that floods of others cannot
    /// exclude it. Requires that the number of sources is bounded elsewhere.
    pub guarantee_one: bool,
}

impl TotalLimit {
    /// Limit in bytes for validators. Every validator can queue one item, even if others flood.
    pub const fn for_validators(bytes: usize) -> Self {
        Self { items: usize::MAX, bytes, guarantee_one: true }
    }

    /// Limit in bytes for sources outside the committee.
    pub const fn for_guests(bytes: usize) -> Self {
        Self { items: usize::MAX, bytes, guarantee_one: false }
    }
}

/// Size and cost of an item.
#[derive(Clone, Copy, Debug)]
pub struct ItemWeight {
    pub bytes: usize,
    /// Estimate of the thread's time, µs.
    pub cost: u64,
}

/// The queue without its lock. Each source's items stay in order.
pub struct FairScheduler<K, T> {
    share: SourceLimit,
    total: TotalLimit,
    /// Queues by source. A queue is empty only while its source has debt.
    queues: BTreeMap<K, SourceQueue<T>>,
    /// The sources in `queues`, in the order of their turns.
    turns: VecDeque<K>,
    bytes: usize,
    /// Number of items in all queues.
    items: usize,
}

struct SourceQueue<T> {
    items: VecDeque<(T, ItemWeight)>,
    bytes: usize,
    /// Turns that the source must skip, because its last item took more than one turn.
    debt: u64,
}

impl<K: Ord + Copy, T> FairScheduler<K, T> {
    pub fn new(share: SourceLimit, total: TotalLimit) -> Self {
        Self { share, total, queues: BTreeMap::new(), turns: VecDeque::new(), bytes: 0, items: 0 }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Adds an item. Returns it as the error if it exceeds a limit.
    pub fn offer(&mut self, source: K, item: T, weight: ItemWeight) -> Result<(), T> {
        let source_queue = self.queues.get(&source);
        let (own_items, own_bytes) = source_queue.map_or((0, 0), |source_queue| (source_queue.items.len(), source_queue.bytes));
        let is_full = own_items >= self.share.items;
        let replaced = match self.share.when_full {
            WhenFull::ReplaceNewest if is_full => {
                source_queue.and_then(|source_queue| source_queue.items.back()).map(|(_, weight)| weight.bytes)
            }
            _ => None,
        };
        let freed_bytes = replaced.unwrap_or(0);
        let fits_share = (!is_full || replaced.is_some()) && own_bytes - freed_bytes + weight.bytes <= self.share.bytes;
        let fits_total = (replaced.is_some() || self.items < self.total.items)
            && self.bytes - freed_bytes + weight.bytes <= self.total.bytes
            || self.total.guarantee_one && own_items == 0;
        if !fits_share || !fits_total || source_queue.is_none() && self.queues.len() >= MAX_SOURCES {
            return Err(item);
        }
        if replaced.is_some() {
            self.remove_newest(source);
        }
        self.add(source, item, weight);
        Ok(())
    }

    fn add(&mut self, source: K, item: T, weight: ItemWeight) {
        let Self { queues, turns, bytes, items, .. } = self;
        let source_queue = queues.entry(source).or_insert_with(|| {
            turns.push_back(source);
            SourceQueue { items: VecDeque::new(), bytes: 0, debt: 0 }
        });
        source_queue.items.push_back((item, weight));
        source_queue.bytes += weight.bytes;
        *bytes += weight.bytes;
        *items += 1;
    }

    fn remove_newest(&mut self, source: K) {
        let Some(source_queue) = self.queues.get_mut(&source) else { return };
        let Some((_, weight)) = source_queue.items.pop_back() else { return };
        source_queue.bytes -= weight.bytes;
        self.bytes -= weight.bytes;
        self.items -= 1;
    }

    /// Takes the oldest item of the source whose turn it is.
    pub fn take(&mut self) -> Option<T> {
        if self.items == 0 {
            // No source waits, so debts delay nobody and are cancelled.
            self.queues.clear();
            self.turns.clear();
            return None;
        }
        loop {
            let source = self.turns.pop_front()?;
            let source_queue = self.queues.get_mut(&source)?;
            let taken = if source_queue.debt == 0 { source_queue.items.pop_front() } else { None };
            source_queue.debt = match &taken {
                Some((_, weight)) => weight.cost.div_ceil(TURN_US).clamp(1, MAX_TURNS) - 1,
                None => source_queue.debt.saturating_sub(1),
            };
            if let Some((_, weight)) = &taken {
                source_queue.bytes -= weight.bytes;
                self.bytes -= weight.bytes;
                self.items -= 1;
            }
            if source_queue.items.is_empty() && source_queue.debt == 0 {
                self.queues.remove(&source);
            } else {
                self.turns.push_back(source);
            }
            if let Some((item, _)) = taken {
                return Some(item);
            }
        }
    }
}

/// See the module documentation.
pub struct FairQueue<K, T> {
    waiting: Mutex<Waiting<K, T>>,
    arrived: Condvar,
}

struct Waiting<K, T> {
    queues: FairScheduler<K, T>,
    closed: bool,
}

impl<K: Ord + Copy, T> FairQueue<K, T> {
    pub fn new(share: SourceLimit, total: TotalLimit) -> Self {
        let waiting = Waiting { queues: FairScheduler::new(share, total), closed: false };
        Self { waiting: Mutex::new(waiting), arrived: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<K, T>> {
        self.waiting.lock().expect("invariant: nobody panics while holding the queue")
    }

    /// Adds an item. Returns false if it exceeds a limit.
    pub fn offer(&self, source: K, item: T, weight: ItemWeight) -> bool {
        self.try_offer(source, item, weight).is_ok()
    }

    /// Like [`Self::offer`], but returns an item that exceeds a limit.
    pub fn try_offer(&self, source: K, item: T, weight: ItemWeight) -> Result<(), T> {
        self.lock().queues.offer(source, item, weight)?;
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for an item, then takes the oldest item of the source whose turn it is. Returns `None` once the queue is closed.
    pub fn take(&self) -> Option<T> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(item) = waiting.queues.take() {
                return Some(item);
            }
            waiting = self.arrived.wait(waiting).expect("invariant: nobody panics while holding the queue");
        }
    }

    /// Makes [`FairQueue::take`] return `None` from now on, even if items are queued. This ends the thread.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cheap(bytes: usize) -> ItemWeight {
        ItemWeight { bytes, cost: 1 }
    }

    fn queue(items: usize, bytes: usize, max_bytes: usize) -> FairQueue<u8, u32> {
        FairQueue::new(SourceLimit { items, bytes, when_full: WhenFull::Refuse }, TotalLimit::for_guests(max_bytes))
    }

    /// Returns true if no item and no debt of any source is left.
    fn is_clear(queues: &FairScheduler<u8, u32>) -> bool {
        queues.queues.is_empty() && queues.turns.is_empty() && queues.bytes == 0 && queues.items == 0
    }

    #[test]
    fn sources_take_turns() {
        let queue = queue(100, 1_000, 10_000);
        (0..100).for_each(|number| assert!(queue.offer(0, number, cheap(1))));
        assert!(queue.offer(1, 1_000, cheap(1)) && queue.offer(1, 1_001, cheap(1)) && queue.offer(2, 2_000, cheap(1)));
        let taken: Vec<_> = (0..7).map(|_| queue.take().unwrap()).collect();
        assert_eq!(taken, [0, 1_000, 2_000, 1, 1_001, 2, 3]);
    }

    #[test]
    fn queue_is_bounded_per_source_and_in_total() {
        let few = queue(2, 1_000, 10_000);
        assert_eq!([0, 1, 2].map(|number| few.offer(0, number, cheap(1))), [true, true, false]);
        assert!(few.offer(1, 9, cheap(1)), "another source still has room");
        let small = queue(10, 10, 25);
        assert_eq!([0, 1, 2].map(|number| small.offer(0, number, cheap(5))), [true, true, false]);
        assert!(!small.offer(1, 9, cheap(11)), "larger than the limit per source");
        assert!(small.offer(1, 9, cheap(10)) && !small.offer(1, 9, cheap(1)));
        assert!(!small.offer(2, 9, cheap(6)), "exceeds the total limit");
        // Taken items make room, to the last byte.
        (0..3).for_each(|_| assert!(small.take().is_some()));
        assert!(is_clear(&small.lock().queues));
        small.close();
        assert_eq!(small.take(), None);
    }

    /// In a large committee, the limits of f faulty validators together exceed the total limit.
    #[test]
    fn full_queue_accepts_one_item_per_idle_source() {
        let share = SourceLimit { items: 10, bytes: 10, when_full: WhenFull::Refuse };
        for total in [TotalLimit { items: 50, ..TotalLimit::for_validators(usize::MAX) }, TotalLimit::for_validators(50)] {
            let mut queues = FairScheduler::new(share, total);
            for source in 0..11 {
                (0..10).for_each(|number| _ = queues.offer(source, number, cheap(1)));
            }
            assert_eq!(queues.items, 50 + 6, "one item of each of the six sources after the queue was full");
            assert!(queues.offer(11, 7, cheap(10)).is_ok(), "as large as the limit per source");
            assert_eq!(queues.offer(11, 8, cheap(0)), Err(8), "only one item is guaranteed");
            assert_eq!(queues.offer(12, 9, cheap(11)), Err(9), "larger than the limit per source");
            assert!((0..12).any(|_| queues.take() == Some(7)), "source 11 gets its turn");
            while queues.take().is_some() {}
            assert!(is_clear(&queues));
        }
        let mut bounded = FairScheduler::new(share, TotalLimit { items: 1, ..TotalLimit::for_guests(10) });
        assert!(bounded.offer(0, 1, cheap(1)).is_ok() && bounded.offer(1, 2, cheap(1)).is_err());
    }

    #[test]
    fn newest_item_of_full_source_is_replaced() {
        let queue =
            FairQueue::new(SourceLimit { items: 1, bytes: 10, when_full: WhenFull::ReplaceNewest }, TotalLimit::for_guests(20));
        (0..1_000).for_each(|number| assert!(queue.offer(0, number, cheap(9))));
        assert!(!queue.offer(0, 1_000, cheap(11)), "a refused item replaces nothing");
        assert!(queue.offer(1, 7, cheap(10)) && !queue.offer(2, 8, cheap(2)), "total limit");
        assert!(queue.offer(0, 999, cheap(10)), "fits, because the replaced item frees its bytes");
        assert_eq!([queue.take(), queue.take()], [Some(999), Some(7)]);
        assert!(queue.lock().queues.take().is_none() && is_clear(&queue.lock().queues));
    }

    #[test]
    fn turns_are_measured_in_cost() {
        let queue = queue(1_000, 100_000, 1_000_000);
        let expensive = ItemWeight { bytes: 1, cost: 100 * TURN_US };
        (0..10).for_each(|number| assert!(queue.offer(0, number, expensive)));
        (0..500).for_each(|number| assert!(queue.offer(1, 1_000 + number, cheap(1))));
        let taken: Vec<_> = (0..505).map(|_| queue.take().unwrap()).collect();
        let expensive = |taken: &[u32]| taken.iter().filter(|item| **item < 1_000).count();
        assert_eq!([expensive(&taken[..100]), expensive(&taken[..500])], [1, 5], "one expensive item per hundred items");
        // Debts delay nothing if no other source waits.
        assert!((0..5).all(|_| queue.take().unwrap() < 1_000));
    }

    /// A source keeps its debt while its own queue is empty. Otherwise it could avoid the debt by queueing one item at a time.
    #[test]
    fn debts_end_when_queue_is_idle() {
        let queue = queue(1_000, 100_000, 1_000_000);
        let expensive = ItemWeight { bytes: 1, cost: 50 * TURN_US };
        (0..200).for_each(|number| assert!(queue.offer(1, 1_000 + number, cheap(1))));
        let mut taken = 0;
        for _ in 0..100 {
            if queue.lock().queues.queues.get(&0).is_none_or(|source_queue| source_queue.items.is_empty()) {
                assert!(queue.offer(0, 0, expensive));
            }
            taken += usize::from(queue.take().unwrap() == 0);
        }
        assert_eq!(taken, 2);
        while !queue.lock().queues.is_empty() {
            queue.take();
        }
        assert!(queue.lock().queues.take().is_none() && is_clear(&queue.lock().queues));
        assert!(queue.offer(0, 7, expensive) && queue.take() == Some(7));
    }
}
