//! A queue between many sources and one thread, which serves the sources in turn: one that floods it waits behind itself, and
//! what it adds beyond its share is dropped. Each source has its own bounds, in items and in bytes.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard},
};

/// What one source may have waiting.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub items: usize,
    /// One item that is larger is taken when nothing else of its source waits.
    pub bytes: usize,
}

/// See the module documentation. Each source's items stay in order.
pub struct FairQueue<K, T> {
    waiting: Mutex<Waiting<K, T>>,
    arrived: Condvar,
    share: Share,
    /// Most bytes of all sources together.
    most_bytes: usize,
}

struct Waiting<K, T> {
    /// Never holds an empty line between calls.
    lines: BTreeMap<K, Line<T>>,
    /// Sources with something waiting, whose turn it is first.
    turns: VecDeque<K>,
    bytes: usize,
    closed: bool,
}

struct Line<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
}

impl<K: Ord + Copy, T> FairQueue<K, T> {
    pub fn new(share: Share, most_bytes: usize) -> Self {
        let waiting = Waiting { lines: BTreeMap::new(), turns: VecDeque::new(), bytes: 0, closed: false };
        Self { waiting: Mutex::new(waiting), arrived: Condvar::new(), share, most_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<K, T>> {
        self.waiting.lock().expect("invariant: nobody panics while holding the queue")
    }

    /// Adds an item of so many bytes; false when its source, or all together, have too much waiting.
    pub fn offer(&self, source: K, item: T, bytes: usize) -> bool {
        let mut waiting = self.lock();
        let Waiting { lines, turns, bytes: all, .. } = &mut *waiting;
        let has_room = match lines.get(&source) {
            Some(line) => line.items.len() < self.share.items && line.bytes + bytes <= self.share.bytes,
            None => true,
        };
        if !has_room || *all + bytes > self.most_bytes {
            return false;
        }
        *all += bytes;
        let line = lines.entry(source).or_insert_with(|| {
            turns.push_back(source);
            Line { items: VecDeque::new(), bytes: 0 }
        });
        line.items.push_back((item, bytes));
        line.bytes += bytes;
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    /// Takes the oldest item of the source whose turn it is; waits while there is none. `None` after the queue was closed.
    pub fn take(&self) -> Option<T> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(item) = waiting.next() {
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

impl<K: Ord + Copy, T> Waiting<K, T> {
    fn next(&mut self) -> Option<T> {
        let source = self.turns.pop_front()?;
        let line = self.lines.get_mut(&source)?;
        let (item, bytes) = line.items.pop_front()?;
        line.bytes -= bytes;
        self.bytes -= bytes;
        if line.items.is_empty() {
            self.lines.remove(&source);
        } else {
            self.turns.push_back(source);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(items: usize, bytes: usize, most_bytes: usize) -> FairQueue<u8, u32> {
        FairQueue::new(Share { items, bytes }, most_bytes)
    }

    #[test]
    fn sources_are_served_in_turn_and_each_in_order() {
        let queue = queue(100, 1_000, 10_000);
        (0..100).for_each(|number| assert!(queue.offer(0, number, 1)));
        assert!(queue.offer(1, 1_000, 1) && queue.offer(1, 1_001, 1) && queue.offer(2, 2_000, 1));
        let taken: Vec<_> = (0..7).map(|_| queue.take().unwrap()).collect();
        assert_eq!(taken, [0, 1_000, 2_000, 1, 1_001, 2, 3]);
    }

    #[test]
    fn each_source_and_all_of_them_are_bounded() {
        let few = queue(2, 1_000, 10_000);
        assert_eq!([0, 1, 2].map(|number| few.offer(0, number, 1)), [true, true, false]);
        assert!(few.offer(1, 9, 1), "another has room all the same");
        let small = queue(10, 10, 25);
        assert_eq!([0, 1, 2].map(|number| small.offer(0, number, 5)), [true, true, false]);
        assert!(small.offer(1, 9, 12), "larger than a share, and alone");
        assert!(!small.offer(1, 9, 1));
        assert!(!small.offer(2, 9, 4), "more than all may have");
        // What was taken makes room, to the last byte.
        (0..3).for_each(|_| assert!(small.take().is_some()));
        assert!(small.lock().lines.is_empty() && small.lock().bytes == 0 && small.lock().turns.is_empty());
        small.close();
        assert_eq!(small.take(), None);
    }
}
