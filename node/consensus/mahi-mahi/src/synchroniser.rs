//! Blocks that wait for missing ancestors, and the asking for these (S1–S4, V8).
//!
//! A missing ancestor is asked for from those that must have it: whoever sent the block that needs it (an honest sender has
//! the whole history), its author, the authors of blocks that name it, then everybody in turn. The second is asked after half a
//! pause already, in case the first is slow (hedging), the others with growing pauses, until it is here or below the floor.
//!
//! Everything is bounded by author: a validator that floods blocks whose ancestors do not exist displaces only its own. A
//! pending block is on the account of the author on whose behalf it was taken in: its own, or, when others need it, that of
//! whoever's block needed it in the end. So a Byzantine author cannot grow a tree of blocks that only its own blocks
//! reference (P17).

use crate::message::{Block, BlockRef, Round, first_of};
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Most siblings of one (round, author) taken without having been asked for. One is enough to prove equivocation; a few more
/// spare a fetch when other validators reference them.
pub const MAX_UNASKED_SIBLINGS: usize = 4;

/// Blocks not yet in the DAG, and wanted ones.
pub struct Synchroniser {
    committee_size: usize,
    me: Option<ValidatorIndex>,
    /// Most pending blocks of one author (S3).
    per_author: usize,
    /// The number of pending blocks on each author's account.
    charged: Vec<usize>,
    pending: BTreeMap<BlockRef, Pending>,
    /// The pending blocks of each author.
    by_author: Vec<BTreeSet<BlockRef>>,
    /// Missing parent → the pending blocks that need it.
    waiting: BTreeMap<BlockRef, BTreeSet<BlockRef>>,
    /// Missing parents that are not pending themselves.
    wanted: BTreeMap<BlockRef, Want>,
    delay_ms: u64,
    retry_ms: u64,
    retry_cap_ms: u64,
}

struct Pending {
    block: Arc<Block>,
    missing: BTreeSet<BlockRef>,
    /// On whose account it is here.
    account: ValidatorIndex,
}

struct Want {
    attempts: u32,
    /// When to ask (again).
    due: TimestampMs,
    /// Whom to ask first.
    sender: ValidatorIndex,
}

/// How patient the synchroniser is and how much it keeps.
pub struct Limits {
    pub per_author: usize,
    pub delay_ms: u64,
    pub retry_ms: u64,
    pub retry_cap_ms: u64,
}

impl Synchroniser {
    pub fn new(committee_size: usize, me: Option<ValidatorIndex>, limits: Limits) -> Self {
        let Limits { per_author, delay_ms, retry_ms, retry_cap_ms } = limits;
        let (pending, waiting, wanted) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let by_author = vec![BTreeSet::new(); committee_size];
        let charged = vec![0; committee_size];
        Self { committee_size, me, per_author, charged, pending, by_author, waiting, wanted, delay_ms, retry_ms, retry_cap_ms }
    }

    pub fn is_pending(&self, reference: &BlockRef) -> bool {
        self.pending.contains_key(reference)
    }

    /// A pending block needs this one.
    pub fn is_needed(&self, reference: &BlockRef) -> bool {
        self.waiting.contains_key(reference)
    }

    /// How many blocks are pending.
    pub fn count(&self) -> usize {
        self.pending.len()
    }

    /// The highest pending block of an author.
    pub fn latest_of(&self, author: ValidatorIndex) -> Option<&Arc<Block>> {
        let highest = self.by_author.get(author.as_usize())?.last()?;
        self.pending.get(highest).map(|pending| &pending.block)
    }

    pub fn siblings(&self, round: Round, author: ValidatorIndex) -> impl Iterator<Item = &Arc<Block>> {
        let from = BlockRef { author, ..first_of(round) };
        let same = move |reference: &BlockRef| (reference.round, reference.author) == (round, author);
        self.pending.range(from..).take_while(move |(reference, _)| same(reference)).map(|(_, pending)| &pending.block)
    }

    /// Keeps a block until `missing`, its parents that are not present, are. False when there is no room for it.
    pub fn park(&mut self, now: TimestampMs, from: ValidatorIndex, block: Arc<Block>, missing: BTreeSet<BlockRef>) -> bool {
        let reference = block.reference();
        let Some(account) = self.make_room(&reference) else { return false };
        self.wanted.remove(&reference);
        for parent in &missing {
            self.waiting.entry(*parent).or_default().insert(reference);
            if !self.pending.contains_key(parent) {
                let due = TimestampMs(now.0 + self.delay_ms);
                self.wanted.entry(*parent).or_insert(Want { attempts: 0, due, sender: from });
            }
        }
        self.by_author[reference.author.as_usize()].insert(reference);
        self.charged[account.as_usize()] += 1;
        self.pending.insert(reference, Pending { block, missing, account });
        true
    }

    /// `reference` is in the DAG now. Returns the blocks that waited for nothing else, in order.
    pub fn arrived(&mut self, reference: &BlockRef) -> Vec<Arc<Block>> {
        self.wanted.remove(reference);
        let dependents = self.waiting.remove(reference).unwrap_or_default();
        dependents.iter().filter_map(|dependent| self.satisfied(dependent, reference)).collect()
    }

    /// Everything up to `floor` counts as present from now on (G3). Returns the blocks that are complete by that.
    pub fn raise_floor(&mut self, floor: Round) -> Vec<Arc<Block>> {
        let above = self.pending.split_off(&first_of(floor + 1));
        let obsolete = std::mem::replace(&mut self.pending, above);
        obsolete.iter().for_each(|(reference, pending)| self.forget(reference, pending));
        let above = self.waiting.split_off(&first_of(floor + 1));
        let present = std::mem::replace(&mut self.waiting, above);
        self.wanted = self.wanted.split_off(&first_of(floor + 1));
        let waiting =
            present.iter().flat_map(|(parent, dependents)| dependents.iter().map(move |dependent| (dependent, parent)));
        waiting.filter_map(|(dependent, parent)| self.satisfied(dependent, parent)).collect()
    }

    /// S2: `from` does not have it: ask the next one without waiting, once around the committee.
    pub fn not_found(&mut self, now: TimestampMs, reference: &BlockRef) {
        let size = self.committee_size;
        if let Some(want) = self.wanted.get_mut(reference).filter(|want| (want.attempts as usize) < size) {
            want.due = now;
        }
    }

    /// S1: an answer of `from` was useful and cut short: ask for the rest of what its blocks need at once.
    pub fn hurry(&mut self, now: TimestampMs, from: ValidatorIndex) {
        self.wanted.values_mut().filter(|want| want.sender == from).for_each(|want| want.due = want.due.min(now));
    }

    /// When [`Self::due`] has something.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.wanted.values().map(|want| want.due).min()
    }

    /// Whom to ask for what now, at most `limit` blocks each. What does not fit stays due.
    pub fn due(&mut self, now: TimestampMs, limit: usize) -> BTreeMap<ValidatorIndex, Vec<BlockRef>> {
        let mut requests: BTreeMap<ValidatorIndex, Vec<BlockRef>> = BTreeMap::new();
        let (size, me) = (self.committee_size, self.me);
        for (reference, want) in self.wanted.iter_mut().filter(|(_, want)| want.due <= now) {
            let naming = self.waiting.get(reference).into_iter().flatten().map(|dependent| dependent.author);
            let Some(whom) = whom_to_ask(reference, want, naming, size, me) else {
                want.due = TimestampMs(now.0 + self.retry_cap_ms);
                continue;
            };
            let asked = requests.entry(whom).or_default();
            let pause = match want.attempts {
                0 => (self.retry_ms / 2).max(1), // Hedging: the first one asked may be slow rather than gone.
                attempts => self.retry_ms.saturating_mul(1 << (attempts - 1).min(16)).min(self.retry_cap_ms),
            };
            if asked.len() < limit {
                asked.push(*reference);
                want.attempts = want.attempts.saturating_add(1);
                want.due = TimestampMs(now.0 + pause);
            } else {
                want.due = TimestampMs(now.0 + self.retry_ms);
            }
        }
        requests.retain(|_, wanted| !wanted.is_empty());
        requests
    }

    /// One of `dependent`'s missing parents is present; returns it when that was the last.
    fn satisfied(&mut self, dependent: &BlockRef, parent: &BlockRef) -> Option<Arc<Block>> {
        let pending = self.pending.get_mut(dependent)?;
        pending.missing.remove(parent);
        if !pending.missing.is_empty() {
            return None;
        }
        self.by_author[dependent.author.as_usize()].remove(dependent);
        let complete = self.pending.remove(dependent)?;
        self.charged[complete.account.as_usize()] -= 1;
        Some(complete.block)
    }

    /// S3: on whose account a block can be kept; `None` when there is no room. An author at its bound keeps its lowest rounds,
    /// which are the nearest to being usable. What pending blocks need comes on the account of one of those that need it.
    fn make_room(&mut self, reference: &BlockRef) -> Option<ValidatorIndex> {
        if let Some(dependents) = self.waiting.get(reference) {
            let accounts = dependents.iter().filter_map(|dependent| self.pending.get(dependent)).map(|pending| pending.account);
            // Twice everything that an honest author's blocks can stand on above the floor.
            let bound = 2 * self.committee_size * self.per_author;
            return accounts.into_iter().find(|account| self.charged[account.as_usize()] < bound);
        }
        let own = &self.by_author[reference.author.as_usize()];
        if own.len() >= self.per_author {
            let highest = own.last().copied().filter(|highest| highest > reference)?;
            if let Some(pending) = self.pending.remove(&highest) {
                self.forget(&highest, &pending);
            }
        }
        Some(reference.author)
    }

    /// A pending block was dropped: what only it needed is not wanted any more; who needs it wants it again.
    fn forget(&mut self, reference: &BlockRef, dropped: &Pending) {
        self.by_author[reference.author.as_usize()].remove(reference);
        self.charged[dropped.account.as_usize()] -= 1;
        for parent in &dropped.missing {
            let Some(dependents) = self.waiting.get_mut(parent) else { continue };
            dependents.remove(reference);
            if dependents.is_empty() {
                self.waiting.remove(parent);
                self.wanted.remove(parent);
            }
        }
        if self.waiting.contains_key(reference) {
            let want = Want { attempts: 0, due: TimestampMs(0), sender: reference.author };
            self.wanted.insert(*reference, want);
        }
    }
}

/// S1, S2: the sender of the dependent block, the block's author, the authors of blocks that name it, then everybody in turn;
/// never oneself. `None` when there is nobody else.
fn whom_to_ask(
    reference: &BlockRef,
    want: &Want,
    naming: impl Iterator<Item = ValidatorIndex>,
    committee_size: usize,
    me: Option<ValidatorIndex>,
) -> Option<ValidatorIndex> {
    let all = (0u16..).take(committee_size).map(ValidatorIndex);
    let (first, then): (Vec<_>, Vec<_>) = all.partition(|other| *other > reference.author);
    let mut turns: Vec<ValidatorIndex> = Vec::with_capacity(committee_size);
    for whom in [want.sender, reference.author].into_iter().chain(naming).chain(first).chain(then) {
        if Some(whom) != me && !turns.contains(&whom) {
            turns.push(whom);
        }
    }
    let turn = (want.attempts as usize).checked_rem(turns.len())?;
    Some(turns[turn])
}
