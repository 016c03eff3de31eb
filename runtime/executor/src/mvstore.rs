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
//! - A reader may depend on the fixed part of a key only, which additions do not change: an account's code. Additions
//!   then neither delay nor invalidate it.
//! - When a key has many versions, those of final transactions are folded into the base. So adding to a counter costs
//!   the same for the thousandth transaction as for the first (D8).
//!
//! Invariant: a reader in an index saw exactly the content, or fixed part, to which the key resolves at its position,
//! with estimates resolved to their last content. All other readers have been returned to the writer that changed it.

use crate::schedule::{Position, Reader};
use crate::seed::Seed;
use crate::small_deque::SmallDeque;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use corniche_state::{Account, AccountCode, Delta, StateView};
use corniche_types::{Address, B256, U256};
use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::Range;

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
    /// Returns whether both have the same fixed part: what no addition changes.
    fn has_same_fixed_part(one: &Self::Content, other: &Self::Content) -> bool;
}

/// Part of a key's content on which a reader depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Fixed,
}

/// An account as a whole: existence, nonce, balance, code. Its code is the fixed part.
impl Key for Address {
    type Content = Option<Account>;
    type Addition = U256;

    fn read(&self, base: &dyn StateView) -> Option<Account> {
        base.account(self)
    }

    fn add(content: &Option<Account>, wei: U256) -> Option<Account> {
        Some(content.clone().unwrap_or_default().credited(wei))
    }

    fn has_same_fixed_part(one: &Option<Account>, other: &Option<Account>) -> bool {
        AccountCode::of(one.as_ref()) == AccountCode::of(other.as_ref())
    }
}

/// A storage slot. It has no fixed part.
impl Key for (Address, B256) {
    type Content = B256;
    type Addition = Delta;

    fn read(&self, base: &dyn StateView) -> B256 {
        base.storage(&self.0, &self.1)
    }

    fn add(content: &B256, sum: Delta) -> B256 {
        B256::from(sum.add_to(U256::from_be_bytes(content.0)))
    }

    fn has_same_fixed_part(_: &B256, _: &B256) -> bool {
        true
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
    /// Positions of the versions that are values, ascending.
    values: SmallDeque<Position>,
    /// Readers of the whole content, by ascending position.
    readers: SmallDeque<Reader>,
    /// Readers of the fixed part, by ascending position. A reader of both parts is in both lists.
    fixed_readers: SmallDeque<Reader>,
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

    /// D1: reads a key. Only `part` of the content that it returns is valid. Everything below `frontier` is final.
    /// `reader`, if any, is registered in the index, unless it must wait.
    pub fn read(
        &self,
        key: &K,
        part: Part,
        position: Position,
        reader: Option<Reader>,
        frontier: Position,
        base: &dyn StateView,
    ) -> ReadResult<K::Content> {
        self.with(key, base, |cell| {
            cell.compact(frontier);
            let answer = cell.resolve(position, part);
            if let (ReadResult::Found(_), Some(reader)) = (&answer, reader) {
                cell.register(reader, part);
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
            let start = cell.last_value(end).max(end.saturating_sub(MAX_PENDING_ADDITIONS));
            cell.apply(start, end)
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
            values: SmallDeque::default(),
            readers: SmallDeque::default(),
            fixed_readers: SmallDeque::default(),
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
        let last = end.checked_sub(1).and_then(|index| self.versions.get(index));
        last.and_then(|version| self.value_below(version.position + 1)).map_or(0, |position| self.below(position))
    }

    /// Returns the position of the highest value below `position`.
    fn value_below(&self, position: Position) -> Option<Position> {
        let index = self.values.partition_point(|value| *value < position).checked_sub(1)?;
        self.values.get(index).copied()
    }

    /// Returns the position of the lowest value above `position`.
    fn value_above(&self, position: Position) -> Option<Position> {
        self.values.get(self.values.partition_point(|value| *value <= position)).copied()
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

    fn resolve(&self, position: Position, part: Part) -> ReadResult<K::Content> {
        match part {
            Part::Whole => self.resolve_whole(position),
            // Also that of an estimate: if its writer writes another one, that invalidates the reader.
            Part::Fixed => ReadResult::Found(self.fixed_part_below(position).clone()),
        }
    }

    fn resolve_whole(&self, position: Position) -> ReadResult<K::Content> {
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

    fn register(&mut self, reader: Reader, part: Part) {
        let readers = match part {
            Part::Whole => &mut self.readers,
            Part::Fixed => &mut self.fixed_readers,
        };
        let index = match readers.back() {
            Some(last) if last.position >= reader.position => readers.partition_point(|other| other.position < reader.position),
            _ => readers.len(),
        };
        match readers.get_mut(index) {
            Some(earlier) if earlier.position == reader.position => *earlier = reader,
            _ => readers.insert(index, reader),
        }
    }

    fn publish(&mut self, position: Position, write: Option<Write<K>>, is_final: bool, invalidated: &mut Vec<Reader>) {
        if is_final {
            self.fold(position);
        }
        let index = self.below(position);
        let known = self.versions.get(index).is_some_and(|version| version.position == position);
        // Readers above the next value do not see this version.
        let limit = self.value_above(position).unwrap_or(Position::MAX);
        let affected = readers_within(&self.readers, position, limit);
        let before = (!affected.is_empty()).then(|| self.content_after(position));
        let may_change_fixed_part = matches!(write, Some(Write::Value(_))) || known && self.is_value(index);
        let fixed_affected = if may_change_fixed_part { readers_within(&self.fixed_readers, position, limit) } else { 0..0 };
        let fixed_before = (!fixed_affected.is_empty()).then(|| self.fixed_part_below(position + 1).clone());

        if is_final {
            if known {
                self.remove_version(index);
            }
            self.written |= write.is_some();
            match write {
                Some(Write::Value(value)) => self.base = value,
                Some(Write::Addition(addition)) => self.base = K::add(&self.base, addition),
                None => {}
            }
        } else if let Some(write) = write {
            self.mark_value(position, matches!(write, Write::Value(_)));
            let version = Version { position, write, estimate: false };
            match self.versions.get_mut(index) {
                Some(before) if known => *before = version,
                _ => self.versions.insert(index, version),
            }
        } else if known {
            self.remove_version(index);
        }

        if before.is_some_and(|before| before != self.content_after(position)) {
            invalidated.extend(self.readers.take(affected.start, affected.len()));
        }
        if fixed_before.is_some_and(|before| !K::has_same_fixed_part(&before, self.fixed_part_below(position + 1))) {
            invalidated.extend(self.fixed_readers.take(fixed_affected.start, fixed_affected.len()));
        }
    }

    fn remove_version(&mut self, index: usize) {
        if let Some(version) = self.versions.remove(index) {
            self.mark_value(version.position, false);
        }
    }

    /// Records whether the version at `position` is a value.
    fn mark_value(&mut self, position: Position, is_value: bool) {
        let index = match self.values.back() {
            Some(last) if *last >= position => self.values.partition_point(|value| *value < position),
            _ => self.values.len(),
        };
        let known = self.values.get(index) == Some(&position);
        if is_value && !known {
            self.values.insert(index, position);
        } else if known && !is_value {
            self.values.remove(index);
        }
    }

    fn content_after(&self, position: Position) -> K::Content {
        let end = self.below(position + 1);
        self.apply(self.last_value(end), end)
    }

    /// Returns the content before `position` without additions; only its fixed part is valid.
    fn fixed_part_below(&self, position: Position) -> &K::Content {
        match self.value_below(position).and_then(|value| self.versions.get(self.below(value))) {
            Some(Version { write: Write::Value(value), .. }) => value,
            _ => &self.base,
        }
    }

    fn compact(&mut self, frontier: Position) {
        if self.versions.len().max(self.readers.len()).max(self.fixed_readers.len()) > FOLD_ABOVE {
            self.fold(frontier);
        }
    }

    /// D8: folds the versions below `frontier`, which are final, into the base.
    fn fold(&mut self, frontier: Position) {
        while self.versions.front().is_some_and(|version| version.position < frontier) {
            let version = self.versions.pop_front().expect("just seen");
            self.base = match version.write {
                Write::Value(value) => {
                    self.values.pop_front();
                    value
                }
                Write::Addition(addition) => K::add(&self.base, addition),
            };
            self.written = true;
        }
        for readers in [&mut self.readers, &mut self.fixed_readers] {
            while readers.front().is_some_and(|reader| reader.position < frontier) {
                readers.pop_front();
            }
        }
    }
}

/// Indices of the readers above `position` and at most at `limit`.
fn readers_within(readers: &SmallDeque<Reader>, position: Position, limit: Position) -> Range<usize> {
    match readers.back() {
        Some(last) if last.position > position => {
            readers.partition_point(|reader| reader.position <= position)
                ..readers.partition_point(|reader| reader.position <= limit)
        }
        _ => 0..0,
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

        fn has_same_fixed_part(_: &u64, _: &u64) -> bool {
            true
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
                let _ = cells.read(&Counted, Part::Whole, reader.position, Some(reader), 0, &EmptyState);
            });
            assert!(took <= 4 * (MAX_PENDING_ADDITIONS + 1), "{took} additions at {position}");
        }
        let mut guess = 0;
        assert!(additions(|| guess = cells.read_speculative(&Counted, 2 * ADDERS, 0, &EmptyState)) <= MAX_PENDING_ADDITIONS);
        assert_eq!(guess, MAX_PENDING_ADDITIONS as u64, "out of date, as it may be");
        assert_eq!(
            additions(|| assert_eq!(cells.read(&Counted, Part::Whole, 2 * ADDERS, None, 0, &EmptyState), ReadResult::NotFinal)),
            0
        );
        // Final additions are folded once, however many reads follow.
        let frontier = 2 * ADDERS;
        let folding =
            additions(|| assert_eq!(cells.read_speculative(&Counted, frontier, frontier, &EmptyState), u64::from(ADDERS)));
        assert_eq!(folding, ADDERS as usize);
        assert_eq!(additions(|| assert_eq!(cells.final_content(&Counted, frontier, &EmptyState), u64::from(ADDERS))), 0);
    }

    /// A reader of an account's code neither waits for payments nor is invalidated by them, only by a creation.
    #[test]
    fn payments_do_not_affect_readers_of_code() {
        let account = Address::repeat_byte(1);
        let cells = Cells::new(1, 1, Seed::new(0, 0));
        let publish = |position, write| {
            let mut invalidated = Vec::new();
            cells.publish(&account, position, write, false, &EmptyState, &mut invalidated);
            invalidated
        };
        let reader = |position| Reader { position, incarnation: 1 };
        let read = |part, position| cells.read(&account, part, position, Some(reader(position)), 0, &EmptyState);
        let payment = || Some(Write::Addition(U256::ONE));
        for position in 0..2 * MAX_PENDING_ADDITIONS as u32 {
            assert_eq!(publish(position, payment()), []);
        }
        assert_eq!(read(Part::Whole, 100), ReadResult::NotFinal);
        assert!(matches!(read(Part::Fixed, 100), ReadResult::Found(_)));
        assert!(matches!(read(Part::Fixed, 20), ReadResult::Found(_)));
        assert!(matches!(read(Part::Whole, 20), ReadResult::Found(_)), "also reads the balance");
        assert_eq!(publish(10, None), [reader(20)]);
        assert_eq!(publish(10, payment()), [], "it was removed");
        let contract = Account { code_hash: B256::repeat_byte(2), ..Account::default() };
        assert_eq!(publish(50, Some(Write::Value(Some(contract.clone())))), [reader(100)]);
        match read(Part::Fixed, 100) {
            ReadResult::Found(found) => assert_eq!(AccountCode::of(found.as_ref()), AccountCode::of(Some(&contract))),
            other => panic!("{other:?}"),
        }
        assert_eq!(publish(50, payment()), [reader(100)], "the creation vanished");
    }
}
