//! Predicts which transactions conflict: waiting costs less than a run whose result is discarded (D7, D9).
//!
//! Transactions belong to classes: same sender, same method of the same contract, or same slot declared in their access
//! lists. Transactions of one sender always wait for each other, since the nonce is a dependency. Transactions of
//! another class wait once the class has conflicted repeatedly over one key. A wrong prediction costs time only.

use crate::Candidate;
use crate::schedule::Position;
use crate::seed::Seed;
use corniche_types::{Address, B256};
use hashbrown::{HashTable, hash_table::Entry};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of access list slots considered per transaction.
const MAX_DECLARED_SLOTS: usize = 4;
/// Number of successive conflicts over one key after which a class counts as conflicting.
const MIN_STREAK: u32 = 3;
/// A class also needs a conflict for at least one transaction in this many.
const MAX_MEMBERS_PER_CONFLICT: u32 = 3;

pub(crate) struct ConflictPredictor {
    /// Index into `links` of each position's first link, followed by the end of the last.
    starts: Vec<u32>,
    links: Vec<Link>,
    classes: Vec<Class>,
}

/// A transaction's membership in a class.
#[derive(Clone, Copy)]
struct Link {
    class: u32,
    /// Number of earlier members of the class.
    ordinal: u32,
    /// The last earlier member.
    previous: Position,
}

struct Class {
    conflicts: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    conflicts: u32,
    /// Number of successive conflicts over `key`.
    streak: u32,
    key: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ClassKey {
    Sender(Address),
    Method(Option<Address>, [u8; 4]),
    Slot(Address, B256),
}

impl ConflictPredictor {
    pub fn new(candidates: &[Candidate], seed: &Seed) -> Self {
        /// Names are identified by their hash alone. A collision only predicts a conflict that does not exist.
        struct ClassCandidate {
            hash: u64,
            /// Assigned when the second member joins.
            class: Option<u32>,
            members: u32,
            last: Position,
        }
        let mut known: HashTable<ClassCandidate> = HashTable::with_capacity(2 * candidates.len());
        let mut predictor = Self { starts: Vec::with_capacity(candidates.len() + 1), links: Vec::new(), classes: Vec::new() };
        for (position, candidate) in candidates.iter().enumerate() {
            predictor.starts.push(predictor.links.len() as u32);
            let Ok(transaction) = &candidate.verified else { continue };
            let mut join = |name: ClassKey| {
                let hash = seed.hash(&name);
                match known.entry(hash, |other| other.hash == hash, |other| other.hash) {
                    // A list may contain a slot twice; a transaction must not wait for itself.
                    Entry::Occupied(entry) if entry.get().last == position as Position => {}
                    Entry::Occupied(mut entry) => {
                        let of = entry.get_mut();
                        let class = *of.class.get_or_insert_with(|| {
                            let conflicts = AtomicBool::new(matches!(name, ClassKey::Sender(_)));
                            predictor.classes.push(Class { conflicts, seen: Mutex::default() });
                            predictor.classes.len() as u32 - 1
                        });
                        predictor.links.push(Link { class, ordinal: of.members, previous: of.last });
                        of.members += 1;
                        of.last = position as Position;
                    }
                    Entry::Vacant(entry) => {
                        entry.insert(ClassCandidate { hash, class: None, members: 1, last: position as Position });
                    }
                }
            };
            join(ClassKey::Sender(transaction.sender()));
            let mut selector = [0; 4];
            let given = transaction.input().len().min(4);
            selector[..given].copy_from_slice(&transaction.input()[..given]);
            join(ClassKey::Method(transaction.to(), selector));
            if transaction.type_byte() != 0 {
                let declared = transaction.access_list();
                let slots = declared.iter().flat_map(|(address, slots)| slots.iter().map(|slot| (*address, *slot)));
                slots.take(MAX_DECLARED_SLOTS).for_each(|(address, slot)| join(ClassKey::Slot(address, slot)));
            }
        }
        predictor.starts.push(predictor.links.len() as u32);
        predictor
    }

    /// Returns the lower positions that should be final before `position` runs.
    pub fn predecessors(&self, position: Position) -> impl Iterator<Item = Position> {
        let conflicting = |link: &&Link| self.classes[link.class as usize].conflicts.load(Ordering::Relaxed);
        self.links(position).iter().filter(conflicting).map(|link| link.previous)
    }

    /// Records a conflict of `position` with a lower one; `key` is the hash of the key.
    pub fn record_conflict(&self, position: Position, key: u64) {
        for link in self.links(position) {
            let class = &self.classes[link.class as usize];
            let mut seen = class.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.conflicts += 1;
            seen.streak = if seen.key == key { seen.streak + 1 } else { 1 };
            seen.key = key;
            if seen.streak >= MIN_STREAK && seen.conflicts * MAX_MEMBERS_PER_CONFLICT >= link.ordinal {
                class.conflicts.store(true, Ordering::Relaxed);
            }
        }
    }

    fn links(&self, position: Position) -> &[Link] {
        let position = position as usize;
        &self.links[self.starts[position] as usize..self.starts[position + 1] as usize]
    }
}
