//! A map for the keys that one frame or transaction touches, usually only a few.
//!
//! Up to [`MAX_LINEAR_KEYS`] keys are searched linearly, which is faster than hashing one. Above that, an ordered index is used.
//! Contracts choose the keys, so the map must not rely on the distribution of hashes. Entries are in insertion order.
//! As long as none is removed, a position identifies a key.

use std::collections::BTreeMap;

/// Maximum number of keys for linear search.
const MAX_LINEAR_KEYS: usize = 16;
/// Capacity, in entries, that a cleared table keeps.
const MAX_KEPT_CAPACITY: usize = 256;

pub(crate) struct IndexedMap<K, V> {
    entries: Vec<(K, V)>,
    /// Index of all entries, if there are more than [`MAX_LINEAR_KEYS`].
    index: BTreeMap<K, usize>,
}

impl<K, V> Default for IndexedMap<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), index: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, V> IndexedMap<K, V> {
    /// Returns the position of a key.
    pub fn index_of(&self, key: &K) -> Option<usize> {
        if self.entries.len() <= MAX_LINEAR_KEYS {
            self.entries.iter().position(|(have, _)| have == key)
        } else {
            self.index.get(key).copied()
        }
    }

    /// Returns the position of a key; inserts `value` if it is new.
    pub fn index_or_insert(&mut self, key: &K, value: impl FnOnce() -> V) -> usize {
        self.index_of(key).unwrap_or_else(|| self.push(*key, value()))
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.index_of(key).map(|at| &self.entries[at].1)
    }

    pub fn insert(&mut self, key: K, value: V) {
        match self.index_of(&key) {
            Some(at) => self.entries[at].1 = value,
            None => {
                self.push(key, value);
            }
        }
    }

    /// Removes an entry; the last entry takes its position.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.index_of(key)?;
        let (_, value) = self.entries.swap_remove(at);
        if self.entries.len() <= MAX_LINEAR_KEYS {
            self.index.clear();
        } else {
            self.index.remove(key);
            if let Some((moved, _)) = self.entries.get(at) {
                self.index.insert(*moved, at);
            }
        }
        Some(value)
    }

    pub fn value_at(&mut self, at: usize) -> &mut V {
        &mut self.entries[at].1
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entries(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    pub fn into_entries(self) -> Vec<(K, V)> {
        self.entries
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(MAX_KEPT_CAPACITY);
        self.index.clear();
    }

    fn push(&mut self, key: K, value: V) -> usize {
        let at = self.entries.len();
        self.entries.push((key, value));
        if at == MAX_LINEAR_KEYS {
            self.index = self.entries.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
        } else if at > MAX_LINEAR_KEYS {
            self.index.insert(key, at);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_btreemap_model(steps in prop::collection::vec((0u8..40, any::<u16>()), 0..200)) {
            let mut table = IndexedMap::default();
            let mut map = BTreeMap::new();
            for (key, value) in steps {
                prop_assert_eq!(table.get(&key), map.get(&key));
                let at = table.index_or_insert(&key, || 0);
                map.entry(key).or_insert(0);
                prop_assert_eq!(*table.value_at(at), map[&key]);
                if value % 64 == 0 {
                    table.clear();
                    map.clear();
                } else if value % 3 == 0 {
                    let gone = (value % 40) as u8;
                    prop_assert_eq!(table.remove(&gone), map.remove(&gone));
                } else {
                    table.insert(key, value);
                    map.insert(key, value);
                }
            }
            let mut entries = table.into_entries();
            entries.sort_unstable();
            prop_assert_eq!(entries, map.into_iter().collect::<Vec<_>>());
        }
    }
}
