//! Bounded map from transaction hashes to data, for the newest entries.

use corniche_types::B256;
use std::collections::{BTreeMap, VecDeque};

/// At most the newest `MOST` entries.
pub struct Remembered<T, const MOST: usize> {
    /// Each with the number of its insertion.
    kept: BTreeMap<B256, (u64, T)>,
    /// Oldest first. May contain obsolete insertions, but its length is bounded for any sequence of calls.
    turns: VecDeque<(u64, B256)>,
    next_turn: u64,
}

impl<T, const MOST: usize> Default for Remembered<T, MOST> {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), turns: VecDeque::new(), next_turn: 0 }
    }
}

impl<T, const MOST: usize> Remembered<T, MOST> {
    /// Inserts or replaces an entry; drops the oldest if full.
    pub fn put(&mut self, hash: B256, known: T) {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.kept.insert(hash, (turn, known));
        self.turns.push_back((turn, hash));
        if self.turns.len() > MOST {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((turn, hash)) = self.turns.pop_front() else { return };
        if self.kept.get(&hash).is_some_and(|(newest, _)| *newest == turn) {
            self.kept.remove(&hash);
        }
    }

    pub fn forget(&mut self, hash: &B256) {
        self.kept.remove(hash);
    }

    pub fn get(&self, hash: &B256) -> Option<&T> {
        self.kept.get(hash).map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(remembered: &Remembered<u8, 3>) -> Vec<(u8, u8)> {
        (0..10).filter_map(|hash| Some((hash, *remembered.get(&B256::repeat_byte(hash))?))).collect()
    }

    #[test]
    fn the_oldest_make_room() {
        let mut remembered = Remembered::<u8, 3>::default();
        (0..5).for_each(|hash| remembered.put(B256::repeat_byte(hash), hash));
        assert_eq!(known(&remembered), [(2, 2), (3, 3), (4, 4)]);
    }

    #[test]
    fn what_is_put_again_is_as_new_as_then() {
        let mut remembered = Remembered::<u8, 3>::default();
        for (hash, value) in [(1, 1), (2, 2), (1, 7), (3, 3)] {
            remembered.put(B256::repeat_byte(hash), value);
        }
        assert_eq!(known(&remembered), [(1, 7), (2, 2), (3, 3)], "its first turn is over, not the second");
        remembered.put(B256::repeat_byte(4), 4);
        assert_eq!(known(&remembered), [(1, 7), (3, 3), (4, 4)]);
    }

    #[test]
    fn forgetting_and_putting_again_takes_no_room() {
        let mut remembered = Remembered::<u8, 3>::default();
        for round in 0..100 {
            remembered.put(B256::repeat_byte(1), round);
            remembered.forget(&B256::repeat_byte(1));
        }
        assert!(known(&remembered).is_empty() && remembered.turns.len() == 3);
        remembered.put(B256::repeat_byte(1), 7);
        assert_eq!(known(&remembered), [(1, 7)]);
    }
}
