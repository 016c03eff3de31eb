//! A queue between many sources and one thread, with one place for each source: a newer item replaces the one that waits.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard},
};

/// See the module documentation.
pub struct LatestQueue<K, T> {
    waiting: Mutex<Waiting<K, T>>,
    arrived: Condvar,
    /// Most sources with something waiting.
    most: usize,
}

struct Waiting<K, T> {
    items: BTreeMap<K, T>,
    /// The sources in `items`, in the order of their turns.
    turns: VecDeque<K>,
    closed: bool,
}

impl<K: Ord + Copy, T> LatestQueue<K, T> {
    pub fn new(most: usize) -> Self {
        let waiting = Waiting { items: BTreeMap::new(), turns: VecDeque::new(), closed: false };
        Self { waiting: Mutex::new(waiting), arrived: Condvar::new(), most }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<K, T>> {
        self.waiting.lock().expect("invariant: nobody panics while holding the queue")
    }

    /// Adds an item, in the place of the one that its source has waiting; false when too many sources have one.
    pub fn offer(&self, source: K, item: T) -> bool {
        let mut waiting = self.lock();
        if let Some(older) = waiting.items.get_mut(&source) {
            *older = item;
            return true;
        }
        if waiting.items.len() >= self.most {
            return false;
        }
        waiting.items.insert(source, item);
        waiting.turns.push_back(source);
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    /// Takes the item of the source whose turn it is; waits while there is none. `None` after the queue was closed.
    pub fn take(&self) -> Option<T> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(source) = waiting.turns.pop_front() {
                return waiting.items.remove(&source);
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

    #[test]
    fn a_source_has_one_place_and_its_newest_item_is_in_it() {
        let queue = LatestQueue::new(2);
        (0..1_000).for_each(|number| assert!(queue.offer(0, number)));
        assert!(queue.offer(1, 7));
        assert!(!queue.offer(2, 8), "no more sources");
        assert_eq!([queue.take(), queue.take()], [Some(999), Some(7)]);
        assert!(queue.offer(2, 9));
        assert_eq!(queue.take(), Some(9));
        queue.close();
        assert_eq!(queue.take(), None);
    }
}
