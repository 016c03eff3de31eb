//! The multi-version store: holds, for each key of the state, its versions by position and its readers (D1, D2).
//!
//! ```text
//! key ─▶ base │ 3: value │ 5: + 7 │ 9: value (estimate) │ …       readers: 4, 6, 12, …
//!        ▲ state before the block, or the result of final transactions
//! ```
//!
//! - A reader at position p sees the highest value below p plus the additions in between. It is registered in the key's
//!   index of readers under the same lock. A writer changes its version and removes the readers that saw another
//!   content from the index, under that lock. So a write finds every earlier reader, and every later reader sees the
//!   write.
//! - An estimate is a version whose writer runs again. Only its readers wait for it. Readers that saw its old content
//!   stay valid if the writer produces the same content again.
//! - When a key has many versions, those of final transactions are folded into the base. So adding to a counter costs
//!   the same for the thousandth transaction as for the first (D8).
//!
//! Invariant: a reader in an index saw exactly the content to which the key resolves at its position, with estimates
//! resolved to their last content. All other readers have been returned to the writer that changed the content.

use crate::schedule::{Position, Reader};
use crate::seed::Seed;
use crate::small_deque::SmallDeque;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use corniche_state::{Account, Delta, StateView};
use corniche_types::{Address, B256, U256};
use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::Hash;

/// A key with more versions or more readers than this is folded up to the frontier.
const FOLD_ABOVE: usize = 16;
/// A reader that needs more additions than this waits until they are final, because it would be invalidated anyway.
const MAX_PENDING_ADDITIONS: usize = 32;

/// A key of the state.
pub(crate) trait Key: Copy + Eq + Hash + Ord + Send + Sync {
    type Content: Clone + PartialEq + Send;
    type Addition: Copy + PartialEq + Send;

    fn read(&self, base: &dyn StateView) -> Self::Content;
    fn add(content: &Self::Content, addition: Self::Addition) -> Self::Content;
}

/// An account as a whole: existence, nonce, balance, code hash.
impl Key for Address {
    type Content = Option<Account>;
    type Addition = U256;

    fn read(&self, base: &dyn StateView) -> Option<Account> {
        base.account(self)
    }

    fn add(content: &Option<Account>, wei: U256) -> Option<Account> {
        Some(content.clone().unwrap_or_default().credited(wei))
    }
}

/// A storage slot.
impl Key for (Address, B256) {
    type Content = B256;
    type Addition = Delta;

    fn read(&self, base: &dyn StateView) -> B256 {
        base.storage(&self.0, &self.1)
    }

    fn add(content: &B256, sum: Delta) -> B256 {
        B256::from(sum.add_to(U256::from_be_bytes(content.0)))
    }
}

/// Effect of a transaction on a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write<K: Key> {
    Value(K::Content),
    Addition(K::Addition),
}

/// Result of a read.
#[derive(Debug, PartialEq)]
pub(crate) enum ReadResult<C> {
    Found(C),
    /// The writer at this position is about to write again (D1).
    Estimate(Position),
    /// Too many additions below come from transactions that are not final.
    NotFinal,
}

/// Identifies a cell without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellId {
    shard: u32,
    index: u32,
}

pub(crate) struct Cells<K: Key> {
    /// Padded, so that locks of neighbours do not share a cache line.
    shards: Vec<CachePadded<Mutex<Shard<K>>>>,
    seed: Seed,
}

struct Shard<K: Key> {
    /// Indices into `cells`.
    table: HashTable<u32>,
    cells: Vec<Cell<K>>,
}

struct Cell<K: Key> {
    key: K,
    hash: u64,
    base: K::Content,
    /// True if a final transaction has written the base.
    written: bool,
    /// By ascending position.
    versions: SmallDeque<Version<K>>,
    /// By ascending position.
    readers: SmallDeque<Reader>,
}

struct Version<K: Key> {
    position: Position,
    write: Write<K>,
    estimate: bool,
}

impl<K: Key> Cells<K> {
    /// Creates a store with capacity for about `keys` keys.
    pub fn new(shards: usize, keys: usize, seed: Seed) -> Self {
        let each = keys.div_ceil(shards);
        let shard = || Shard { table: HashTable::with_capacity(each), cells: Vec::with_capacity(each) };
        Self { shards: (0..shards.next_power_of_two()).map(|_| CachePadded::new(Mutex::new(shard()))).collect(), seed }
    }

    /// D1: reads a key. Everything below `frontier` is final. `reader`, if any, is registered in the index, unless it
    /// must wait.
    pub fn read(
        &self,
        key: &K,
        position: Position,
        reader: Option<Reader>,
        frontier: Position,
        base: &dyn StateView,
    ) -> ReadResult<K::Content> {
        self.with(key, base, |cell| {
            cell.compact(frontier);
            let answer = cell.resolve(position);
            if let (ReadResult::Found(_), Some(reader)) = (&answer, reader) {
                cell.register(reader);
            }
            answer
        })
    }

    /// Answers a predicate read before everything below is final. Never waits and registers no reader, because the
    /// predicate is checked again later. Considers at most `MAX_PENDING_ADDITIONS` additions, so the content may be
    /// out of date.
    pub fn read_speculative(&self, key: &K, position: Position, frontier: Position, base: &dyn StateView) -> K::Content {
        self.with(key, base, |cell| {
            cell.compact(frontier);
            let end = cell.below(position);
            let start = end.saturating_sub(MAX_PENDING_ADDITIONS);
            let from = (start..end).rev().find(|index| cell.is_value(*index));
            cell.apply(from.unwrap_or(start), end)
        })
    }

    /// Returns the content before `position`, and folds it. Everything below `position` must be final.
    pub fn final_content(&self, key: &K, position: Position, base: &dyn StateView) -> K::Content {
        self.with(key, base, |cell| {
            cell.fold(position);
            cell.base.clone()
        })
    }

    /// D2: writes or removes the version at `position`, and appends the readers that saw another content to
    /// `invalidated`. `is_final`: everything below `position` is final, and this write will not change.
    pub fn publish(
        &self,
        key: &K,
        position: Position,
        write: Option<Write<K>>,
        is_final: bool,
        base: &dyn StateView,
        invalidated: &mut Vec<Reader>,
    ) -> CellId {
        let (mut shard, shard_index, index) = self.locate(key, base);
        shard.cells[index].publish(position, write, is_final, invalidated);
        CellId { shard: shard_index, index: index as u32 }
    }

    /// Removes the version at `position` from a known cell.
    pub fn withdraw(&self, id: CellId, position: Position, is_final: bool, invalidated: &mut Vec<Reader>) {
        self.shard(id.shard).cells[id.index as usize].publish(position, None, is_final, invalidated);
    }

    /// D3: marks the version at `position` as an estimate, because its writer runs again.
    pub fn estimate(&self, id: CellId, position: Position) {
        let shard = &mut *self.shard(id.shard);
        let cell = &mut shard.cells[id.index as usize];
        let index = cell.below(position);
        if let Some(version) = cell.versions.get_mut(index).filter(|version| version.position == position) {
            version.estimate = true;
        }
    }

    /// Returns every written key, and drops the versions. Everything must be final.
    pub fn take_written(&self) -> BTreeMap<K, K::Content> {
        let shards: Vec<Vec<Cell<K>>> =
            (0..self.shards.len()).map(|shard| std::mem::take(&mut self.shard(shard as u32).cells)).collect();
        // Sort keys instead of cells, because keys are small.
        let written = |cell: &&Cell<K>| cell.written || !cell.versions.is_empty();
        let mut cells: Vec<(K, &Cell<K>)> = shards.iter().flatten().filter(written).map(|cell| (cell.key, cell)).collect();
        cells.sort_unstable_by_key(|(key, _)| *key);
        cells
            .into_iter()
            .map(|(key, cell)| {
                let end = cell.versions.len();
                (key, cell.apply(cell.last_value(end), end))
            })
            .collect()
    }

    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    fn with<T>(&self, key: &K, base: &dyn StateView, act: impl FnOnce(&mut Cell<K>) -> T) -> T {
        let (mut shard, _, index) = self.locate(key, base);
        act(&mut shard.cells[index])
    }

    fn shard(&self, index: u32) -> MutexGuard<'_, Shard<K>> {
        self.shards[index as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds or creates the key's cell. The state before the block is read once per key.
    fn locate(&self, key: &K, base: &dyn StateView) -> (MutexGuard<'_, Shard<K>>, u32, usize) {
        let hash = self.hash(key);
        // Bits in the middle: the table uses the highest and the lowest ones.
        let shard_index = (hash >> 32) as u32 & (self.shards.len() as u32 - 1);
        let mut guard = self.shard(shard_index);
        let shard = &mut *guard;
        let cells = &mut shard.cells;
        if let Some(index) = shard.table.find(hash, |index| cells[*index as usize].key == *key) {
            let index = *index as usize;
            return (guard, shard_index, index);
        }
        let index = cells.len();
        cells.push(Cell {
            key: *key,
            hash,
            base: key.read(base),
            written: false,
            versions: SmallDeque::default(),
            readers: SmallDeque::default(),
        });
        shard.table.insert_unique(hash, index as u32, |index| cells[*index as usize].hash);
        (guard, shard_index, index)
    }

    /// Returns the key's hash, constant within a block.
    pub fn hash(&self, key: &K) -> u64 {
        self.seed.hash(key)
    }
}

impl<K: Key> Cell<K> {
    /// Number of versions below `position`.
    fn below(&self, position: Position) -> usize {
        // Fast path: most accesses come in order and ask for the end.
        match self.versions.back() {
            None => 0,
            Some(last) if last.position < position => self.versions.len(),
            Some(_) => self.versions.partition_point(|version| version.position < position),
        }
    }

    fn is_value(&self, index: usize) -> bool {
        self.versions.get(index).is_some_and(|version| matches!(version.write, Write::Value(_)))
    }

    /// Returns the first version needed for the content before version `end`: the highest value, otherwise 0.
    fn last_value(&self, end: usize) -> usize {
        (0..end).rev().find(|index| self.is_value(*index)).unwrap_or(0)
    }

    /// Applies versions `start` to `end` to the base.
    fn apply(&self, start: usize, end: usize) -> K::Content {
        let mut content = None;
        for version in self.versions.iter_from(start).take(end - start) {
            content = Some(match &version.write {
                Write::Value(value) => value.clone(),
                Write::Addition(addition) => K::add(content.as_ref().unwrap_or(&self.base), *addition),
            });
        }
        content.unwrap_or_else(|| self.base.clone())
    }

    fn resolve(&self, position: Position) -> ReadResult<K::Content> {
        let end = self.below(position);
        let mut start = end;
        while start > 0 {
            start -= 1;
            let Some(version) = self.versions.get(start) else { break };
            if version.estimate {
                return ReadResult::Estimate(version.position);
            }
            if matches!(version.write, Write::Value(_)) {
                break;
            }
            if end - start > MAX_PENDING_ADDITIONS {
                return ReadResult::NotFinal;
            }
        }
        ReadResult::Found(self.apply(start, end))
    }

    fn register(&mut self, reader: Reader) {
        let index = match self.readers.back() {
            Some(last) if last.position >= reader.position => {
                self.readers.partition_point(|other| other.position < reader.position)
            }
            _ => self.readers.len(),
        };
        match self.readers.get_mut(index) {
            Some(earlier) if earlier.position == reader.position => *earlier = reader,
            _ => self.readers.insert(index, reader),
        }
    }

    fn publish(&mut self, position: Position, write: Option<Write<K>>, is_final: bool, invalidated: &mut Vec<Reader>) {
        if is_final {
            self.fold(position);
        }
        // Readers above the next value do not see this version.
        let first = match self.readers.back() {
            Some(last) if last.position > position => self.readers.partition_point(|reader| reader.position <= position),
            _ => self.readers.len(),
        };
        let mut affected = first..first;
        if first < self.readers.len() {
            let shadow = self.versions.iter_from(self.below(position + 1)).find(|v| matches!(v.write, Write::Value(_)));
            let limit = shadow.map_or(Position::MAX, |version| version.position);
            affected.end = self.readers.partition_point(|reader| reader.position <= limit);
        }
        let before = (!affected.is_empty()).then(|| self.content_after(position));

        let index = self.below(position);
        let known = self.versions.get(index).is_some_and(|version| version.position == position);
        if is_final {
            if known {
                self.versions.remove(index);
            }
            self.written |= write.is_some();
            match write {
                Some(Write::Value(value)) => self.base = value,
                Some(Write::Addition(addition)) => self.base = K::add(&self.base, addition),
                None => {}
            }
        } else {
            match write {
                Some(write) => {
                    let version = Version { position, write, estimate: false };
                    match self.versions.get_mut(index) {
                        Some(before) if known => *before = version,
                        _ => self.versions.insert(index, version),
                    }
                }
                None if known => drop(self.versions.remove(index)),
                None => {}
            }
        }
        if before.is_some_and(|before| before != self.content_after(position)) {
            invalidated.extend(self.readers.take(affected.start, affected.len()));
        }
    }

    fn content_after(&self, position: Position) -> K::Content {
        let end = self.below(position + 1);
        self.apply(self.last_value(end), end)
    }

    fn compact(&mut self, frontier: Position) {
        if self.versions.len() > FOLD_ABOVE || self.readers.len() > FOLD_ABOVE {
            self.fold(frontier);
        }
    }

    /// D8: folds the versions below `frontier`, which are final, into the base.
    fn fold(&mut self, frontier: Position) {
        while self.versions.front().is_some_and(|version| version.position < frontier) {
            let version = self.versions.pop_front().expect("just seen");
            self.base = match version.write {
                Write::Value(value) => value,
                Write::Addition(addition) => K::add(&self.base, addition),
            };
            self.written = true;
        }
        while self.readers.front().is_some_and(|reader| reader.position < frontier) {
            self.readers.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_state::EmptyState;
    use std::cell::Cell as Count;

    thread_local!(static ADDED: Count<usize> = const { Count::new(0) });

    /// A key type that counts its additions.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Counted;

    impl Key for Counted {
        type Content = u64;
        type Addition = u64;

        fn read(&self, _: &dyn StateView) -> u64 {
            0
        }

        fn add(content: &u64, addition: u64) -> u64 {
            ADDED.set(ADDED.get() + 1);
            content + addition
        }
    }

    fn additions(act: impl FnOnce()) -> usize {
        ADDED.set(0);
        act();
        ADDED.get()
    }

    const ADDERS: u32 = 5_000;

    /// All transactions add to one number and nothing is final yet. Predicate reads, reads and writes all process a
    /// bounded number of additions, for every interleaving of readers and writers. So the total work is linear.
    #[test]
    fn reads_traverse_few_additions() {
        let cells = Cells::new(1, 1, Seed::new(0, 0));
        let publish = |position| {
            let mut invalidated = Vec::new();
            cells.publish(&Counted, position, Some(Write::Addition(1)), false, &EmptyState, &mut invalidated);
        };
        // Writers from last to first. Each has a reader above it that the next write invalidates.
        for adder in (0..ADDERS).rev() {
            let position = 2 * adder;
            let took = additions(|| {
                publish(position);
                let reader = Reader { position: 2 * ADDERS - 1 - adder, incarnation: 1 };
                let _ = cells.read(&Counted, reader.position, Some(reader), 0, &EmptyState);
            });
            assert!(took <= 4 * (MAX_PENDING_ADDITIONS + 1), "{took} additions at {position}");
        }
        let mut guess = 0;
        assert!(additions(|| guess = cells.read_speculative(&Counted, 2 * ADDERS, 0, &EmptyState)) <= MAX_PENDING_ADDITIONS);
        assert_eq!(guess, MAX_PENDING_ADDITIONS as u64, "out of date, as it may be");
        assert_eq!(additions(|| assert_eq!(cells.read(&Counted, 2 * ADDERS, None, 0, &EmptyState), ReadResult::NotFinal)), 0);
        // Final additions are folded once, however many reads follow.
        let frontier = 2 * ADDERS;
        let folding =
            additions(|| assert_eq!(cells.read_speculative(&Counted, frontier, frontier, &EmptyState), u64::from(ADDERS)));
        assert_eq!(folding, ADDERS as usize);
        assert_eq!(additions(|| assert_eq!(cells.final_content(&Counted, frontier, &EmptyState), u64::from(ADDERS))), 0);
    }
}
