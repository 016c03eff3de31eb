//! A queue between many sources and one thread, which serves the sources in turn. A turn is [`TURN_US`] of work: an item takes as many
//! turns as it costs, so a source that sends expensive items gets no more of the thread than one that sends cheap ones. A source that floods
//! waits behind itself, and what it adds beyond its [`Share`] is refused or replaces its newest item.
//! [`Total`] bounds all sources together.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard},
};

/// Work that one turn pays for, µs: a little more than checking a vote.
const TURN_US: u64 = 200;
/// Most turns that one item takes: 200 ms.
const MAX_TURNS: u64 = 1_000;
/// Most sources at once, those included that still owe turns: more than a node has peers.
const MAX_SOURCES: usize = 8_192;

/// Bounds of the items that one source may have waiting.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub items: usize,
    /// Bytes of all items together. A larger item is refused.
    pub bytes: usize,
    pub when_full: WhenFull,
}

/// Treatment of an item whose source has [`Share::items`] waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    Refuse,
    /// The item takes the place of its source's newest one.
    ReplaceNewest,
}

/// Bounds of what all sources together have waiting.
#[derive(Clone, Copy, Debug)]
pub struct Total {
    pub items: usize,
    pub bytes: usize,
    /// A source with nothing waiting has room for one item beyond these bounds, so that however many others flood, they do not keep it out.
    /// Only where the number of sources is bounded elsewhere.
    pub one_each: bool,
}

impl Total {
    /// Bounds in bytes. Validators that flood keep out no other, however large the committee.
    pub const fn for_validators(bytes: usize) -> Self {
        Self { items: usize::MAX, bytes, one_each: true }
    }

    /// Bounds in bytes for sources outside the committee.
    pub const fn for_guests(bytes: usize) -> Self {
        Self { items: usize::MAX, bytes, one_each: false }
    }
}

/// Size and cost of an item.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub bytes: usize,
    /// Estimate of the thread's time, µs.
    pub cost: u64,
}

/// The queue without its lock. Each source's items stay in order.
pub struct Lines<K, T> {
    share: Share,
    total: Total,
    /// A line is empty only while its source owes turns.
    lines: BTreeMap<K, Line<T>>,
    /// The sources that have a line, whose turn it is first.
    turns: VecDeque<K>,
    bytes: usize,
    /// Items in all lines.
    items: usize,
}

struct Line<T> {
    items: VecDeque<(T, Load)>,
    bytes: usize,
    /// Turns that pass before the next item, because the last one cost more than one.
    owed: u64,
}

impl<K: Ord + Copy, T> Lines<K, T> {
    pub fn new(share: Share, total: Total) -> Self {
        Self { share, total, lines: BTreeMap::new(), turns: VecDeque::new(), bytes: 0, items: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Adds an item, or gives it back if the bounds leave no room for it.
    pub fn offer(&mut self, source: K, item: T, load: Load) -> Result<(), T> {
        let line = self.lines.get(&source);
        let (own_items, own_bytes) = line.map_or((0, 0), |line| (line.items.len(), line.bytes));
        let is_full = own_items >= self.share.items;
        let replaced = match self.share.when_full {
            WhenFull::ReplaceNewest if is_full => line.and_then(|line| line.items.back()).map(|(_, load)| load.bytes),
            _ => None,
        };
        let freed = replaced.unwrap_or(0);
        let fits_share = (!is_full || replaced.is_some()) && own_bytes - freed + load.bytes <= self.share.bytes;
        let fits_total = (replaced.is_some() || self.items < self.total.items)
            && self.bytes - freed + load.bytes <= self.total.bytes
            || self.total.one_each && own_items == 0;
        if !fits_share || !fits_total || line.is_none() && self.lines.len() >= MAX_SOURCES {
            return Err(item);
        }
        if replaced.is_some() {
            self.remove_newest(source);
        }
        self.add(source, item, load);
        Ok(())
    }

    fn add(&mut self, source: K, item: T, load: Load) {
        let Self { lines, turns, bytes, items, .. } = self;
        let line = lines.entry(source).or_insert_with(|| {
            turns.push_back(source);
            Line { items: VecDeque::new(), bytes: 0, owed: 0 }
        });
        line.items.push_back((item, load));
        line.bytes += load.bytes;
        *bytes += load.bytes;
        *items += 1;
    }

    fn remove_newest(&mut self, source: K) {
        let Some(line) = self.lines.get_mut(&source) else { return };
        let Some((_, load)) = line.items.pop_back() else { return };
        line.bytes -= load.bytes;
        self.bytes -= load.bytes;
        self.items -= 1;
    }

    /// Takes the oldest item of the source whose turn it is.
    pub fn take(&mut self) -> Option<T> {
        if self.items == 0 {
            // The thread is free: what was owed to nobody is forgotten.
            self.lines.clear();
            self.turns.clear();
            return None;
        }
        loop {
            let source = self.turns.pop_front()?;
            let line = self.lines.get_mut(&source)?;
            let taken = if line.owed == 0 { line.items.pop_front() } else { None };
            line.owed = match &taken {
                Some((_, load)) => load.cost.div_ceil(TURN_US).clamp(1, MAX_TURNS) - 1,
                None => line.owed.saturating_sub(1),
            };
            if let Some((_, load)) = &taken {
                line.bytes -= load.bytes;
                self.bytes -= load.bytes;
                self.items -= 1;
            }
            if line.items.is_empty() && line.owed == 0 {
                self.lines.remove(&source);
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
    lines: Lines<K, T>,
    closed: bool,
}

impl<K: Ord + Copy, T> FairQueue<K, T> {
    pub fn new(share: Share, total: Total) -> Self {
        let waiting = Waiting { lines: Lines::new(share, total), closed: false };
        Self { waiting: Mutex::new(waiting), arrived: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<K, T>> {
        self.waiting.lock().expect("invariant: nobody panics while holding the queue")
    }

    /// Adds an item; false if the bounds leave no room for it.
    pub fn offer(&self, source: K, item: T, load: Load) -> bool {
        let has_room = self.lock().lines.offer(source, item, load).is_ok();
        if has_room {
            self.arrived.notify_one();
        }
        has_room
    }

    /// Takes the oldest item of the source whose turn it is, and waits for one. Returns `None` after the queue was closed.
    pub fn take(&self) -> Option<T> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(item) = waiting.lines.take() {
                return Some(item);
            }
            waiting = self.arrived.wait(waiting).expect("invariant: nobody panics while holding the queue");
        }
    }

    /// Ends the thread that takes.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cheap(bytes: usize) -> Load {
        Load { bytes, cost: 1 }
    }

    fn queue(items: usize, bytes: usize, most_bytes: usize) -> FairQueue<u8, u32> {
        FairQueue::new(Share { items, bytes, when_full: WhenFull::Refuse }, Total::for_guests(most_bytes))
    }

    /// True if nothing is left of any source.
    fn is_clear(lines: &Lines<u8, u32>) -> bool {
        lines.lines.is_empty() && lines.turns.is_empty() && lines.bytes == 0 && lines.items == 0
    }

    #[test]
    fn sources_are_served_in_turn_and_each_in_order() {
        let queue = queue(100, 1_000, 10_000);
        (0..100).for_each(|number| assert!(queue.offer(0, number, cheap(1))));
        assert!(queue.offer(1, 1_000, cheap(1)) && queue.offer(1, 1_001, cheap(1)) && queue.offer(2, 2_000, cheap(1)));
        let taken: Vec<_> = (0..7).map(|_| queue.take().unwrap()).collect();
        assert_eq!(taken, [0, 1_000, 2_000, 1, 1_001, 2, 3]);
    }

    #[test]
    fn each_source_and_all_of_them_are_bounded() {
        let few = queue(2, 1_000, 10_000);
        assert_eq!([0, 1, 2].map(|number| few.offer(0, number, cheap(1))), [true, true, false]);
        assert!(few.offer(1, 9, cheap(1)), "another has room all the same");
        let small = queue(10, 10, 25);
        assert_eq!([0, 1, 2].map(|number| small.offer(0, number, cheap(5))), [true, true, false]);
        assert!(!small.offer(1, 9, cheap(11)), "larger than a share");
        assert!(small.offer(1, 9, cheap(10)) && !small.offer(1, 9, cheap(1)));
        assert!(!small.offer(2, 9, cheap(6)), "more than all may have");
        // Taken items make room, to the last byte.
        (0..3).for_each(|_| assert!(small.take().is_some()));
        assert!(is_clear(&small.lock().lines));
        small.close();
        assert_eq!(small.take(), None);
    }

    /// In a large committee the shares of those who may be faulty are together more than the total.
    #[test]
    fn a_full_queue_has_room_for_one_item_of_each_source_with_nothing_waiting() {
        let share = Share { items: 10, bytes: 10, when_full: WhenFull::Refuse };
        for total in [Total { items: 50, ..Total::for_validators(usize::MAX) }, Total::for_validators(50)] {
            let mut lines = Lines::new(share, total);
            for source in 0..11 {
                (0..10).for_each(|number| _ = lines.offer(source, number, cheap(1)));
            }
            assert_eq!(lines.items, 50 + 6, "six sources came when the queue was full");
            assert!(lines.offer(11, 7, cheap(10)).is_ok(), "as large as a share");
            assert_eq!(lines.offer(11, 8, cheap(0)), Err(8), "one and no more");
            assert_eq!(lines.offer(12, 9, cheap(11)), Err(9), "larger than a share");
            assert!((0..12).any(|_| lines.take() == Some(7)), "it has its turn");
            while lines.take().is_some() {}
            assert!(is_clear(&lines));
        }
        let mut bounded = Lines::new(share, Total { items: 1, ..Total::for_guests(10) });
        assert!(bounded.offer(0, 1, cheap(1)).is_ok() && bounded.offer(1, 2, cheap(1)).is_err());
    }

    #[test]
    fn the_newest_item_of_a_source_with_a_full_share_is_replaced() {
        let queue = FairQueue::new(Share { items: 1, bytes: 10, when_full: WhenFull::ReplaceNewest }, Total::for_guests(20));
        (0..1_000).for_each(|number| assert!(queue.offer(0, number, cheap(9))));
        assert!(!queue.offer(0, 1_000, cheap(11)), "a refused item replaces nothing");
        assert!(queue.offer(1, 7, cheap(10)) && !queue.offer(2, 8, cheap(2)), "bounded over all sources");
        assert!(queue.offer(0, 999, cheap(10)), "within what the older item frees");
        assert_eq!([queue.take(), queue.take()], [Some(999), Some(7)]);
        assert!(queue.lock().lines.take().is_none() && is_clear(&queue.lock().lines));
    }

    #[test]
    fn a_turn_is_an_amount_of_work() {
        let queue = queue(1_000, 100_000, 1_000_000);
        let expensive = Load { bytes: 1, cost: 100 * TURN_US };
        (0..10).for_each(|number| assert!(queue.offer(0, number, expensive)));
        (0..500).for_each(|number| assert!(queue.offer(1, 1_000 + number, cheap(1))));
        let taken: Vec<_> = (0..505).map(|_| queue.take().unwrap()).collect();
        let expensive = |taken: &[u32]| taken.iter().filter(|item| **item < 1_000).count();
        assert_eq!([expensive(&taken[..100]), expensive(&taken[..500])], [1, 5], "one for a hundred cheap ones");
        // With nobody else waiting, debts cost nothing.
        assert!((0..5).all(|_| queue.take().unwrap() < 1_000));
    }

    /// A source that sends its next expensive item after the last one was taken is not new each time.
    #[test]
    fn debts_outlive_an_empty_line_and_not_an_idle_queue() {
        let queue = queue(1_000, 100_000, 1_000_000);
        let expensive = Load { bytes: 1, cost: 50 * TURN_US };
        (0..200).for_each(|number| assert!(queue.offer(1, 1_000 + number, cheap(1))));
        let mut taken = 0;
        for _ in 0..100 {
            if queue.lock().lines.lines.get(&0).is_none_or(|line| line.items.is_empty()) {
                assert!(queue.offer(0, 0, expensive));
            }
            taken += usize::from(queue.take().unwrap() == 0);
        }
        assert_eq!(taken, 2);
        while !queue.lock().lines.is_empty() {
            queue.take();
        }
        assert!(queue.lock().lines.take().is_none() && is_clear(&queue.lock().lines));
        assert!(queue.offer(0, 7, expensive) && queue.take() == Some(7));
    }
}
