//! Blocks that wait for missing ancestors, and the requests for these (S1–S4, V8).
//!
//! A missing ancestor is requested from peers that must have it: first the sender of the block that needs it (an honest
//! sender has the whole history), then its author, the authors of blocks that reference it, then all others in turn.
//! The second is asked after half a pause, in case the first is slow (hedging), the others with growing pauses, until
//! the ancestor arrives or is below the floor.
//!
//! **Every account is bounded** ([`Limits`]) in blocks, in bytes and in missing parents. A pending block belongs to the
//! account of the author on whose behalf it was taken in. That is its own author, or, when other blocks need it, the
//! author of the block that finally needed it. So a Byzantine author cannot grow a tree of blocks that only its own
//! blocks reference (P17), and a flood displaces only the flooder's own blocks. A full account keeps its lowest rounds,
//! which will be usable first. Displaced blocks are fetched again when they are needed: responses bring the lowest
//! rounds first, so catching up does not depend on the blocks kept here.
//!
//! Blocks of rounds far ahead are not kept. One reference per author is noted ([`FarBlocks`]), and its author is asked for
//! the rounds between.

mod dependents;

use crate::message::{Block, BlockRef, Round, first_of};
use corniche_types::{TimestampMs, ValidatorIndex};
use dependents::Dependents;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum siblings of one (round, author) accepted without a request. One is enough to prove equivocation; a few more
/// save a fetch when other validators reference them.
pub const MAX_UNREQUESTED_SIBLINGS: usize = 4;

/// Blocks that are not yet in the DAG, and requested ones.
pub struct Synchroniser {
    committee_size: usize,
    me: Option<ValidatorIndex>,
    limits: Limits,
    accounts: Vec<Account>,
    pending: BTreeMap<BlockRef, Pending>,
    /// The pending blocks of each author.
    by_author: Vec<BTreeSet<BlockRef>>,
    /// Maps a missing parent to the pending blocks that need it.
    waiting: BTreeMap<BlockRef, Dependents>,
    /// Missing parents that are not pending themselves.
    wanted: BTreeMap<BlockRef, WantedBlock>,
    /// `(due, reference)` of every entry in `wanted`.
    timers: BTreeSet<(TimestampMs, BlockRef)>,
    far: FarBlocks,
}

struct Pending {
    block: Arc<Block>,
    missing: BTreeSet<BlockRef>,
    /// Account that holds the block, and its weight there.
    account: ValidatorIndex,
    weight: Weight,
}

/// The pending blocks on behalf of one author.
#[derive(Default)]
struct Account {
    blocks: BTreeSet<BlockRef>,
    weight: Weight,
}

/// Resources used by pending blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub bytes: usize,
    /// Number of missing parents.
    pub missing: usize,
}

struct WantedBlock {
    attempts: u32,
    /// Time of the next request.
    due: TimestampMs,
    /// First peer to ask.
    sender: ValidatorIndex,
}

/// Timing and capacity of the synchroniser.
pub struct Limits {
    /// Maximum number of pending blocks on an account, and their maximum weight. One block always fits.
    pub blocks: usize,
    pub weight: Weight,
    pub delay_ms: u64,
    pub retry_ms: u64,
    pub retry_cap_ms: u64,
}

impl Synchroniser {
    pub fn new(committee_size: usize, me: Option<ValidatorIndex>, limits: Limits) -> Self {
        let (pending, waiting, wanted) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            committee_size,
            me,
            limits,
            accounts: (0..committee_size).map(|_| Account::default()).collect(),
            pending,
            by_author: vec![BTreeSet::new(); committee_size],
            waiting,
            wanted,
            timers: BTreeSet::new(),
            far: FarBlocks::default(),
        }
    }

    pub fn is_pending(&self, reference: &BlockRef) -> bool {
        self.pending.contains_key(reference)
    }

    /// Accounts that may hold a block: those of the pending blocks that need it, each once. Empty if none needs it.
    pub fn needed_by(&self, reference: &BlockRef) -> impl Iterator<Item = ValidatorIndex> + use<> {
        self.waiting.get(reference).map(Dependents::accounts).into_iter().flatten()
    }

    /// Number of pending blocks.
    pub fn count(&self) -> usize {
        self.pending.len()
    }

    /// Total weight of pending blocks, and number of requested blocks.
    pub fn weight(&self) -> (Weight, usize) {
        let sum = |a: Weight, b: Weight| Weight { bytes: a.bytes + b.bytes, missing: a.missing + b.missing };
        (self.accounts.iter().map(|account| account.weight).fold(Weight::default(), sum), self.wanted.len())
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

    /// Keeps a block until its parents in `missing` are present. Returns false if there is no room for it.
    pub fn add_pending(
        &mut self,
        now: TimestampMs,
        from: ValidatorIndex,
        block: Arc<Block>,
        missing: BTreeSet<BlockRef>,
    ) -> bool {
        let reference = block.reference();
        let weight = Weight { bytes: block.weight(), missing: missing.len() };
        let Some(account) = self.find_account(&reference, weight) else { return false };
        self.remove_wanted(&reference);
        for parent in &missing {
            self.waiting.entry(*parent).or_default().insert(reference, account);
            if !self.pending.contains_key(parent) && !self.wanted.contains_key(parent) {
                let due = TimestampMs(now.0 + self.limits.delay_ms);
                self.add_wanted(*parent, WantedBlock { attempts: 0, due, sender: from });
            }
        }
        self.by_author[reference.author.as_usize()].insert(reference);
        self.accounts[account.as_usize()].add(reference, weight);
        self.pending.insert(reference, Pending { block, missing, account, weight });
        true
    }

    /// `reference` is in the DAG now. Returns the blocks that waited for nothing else, in order.
    pub fn arrived(&mut self, reference: &BlockRef) -> Vec<Arc<Block>> {
        self.remove_wanted(reference);
        let dependents = self.waiting.remove(reference).unwrap_or_default();
        dependents.iter().filter_map(|dependent| self.resolve_parent(dependent, reference)).collect()
    }

    /// Everything up to `floor` counts as present from now on (G3). Returns the blocks that are complete by that.
    pub fn raise_floor(&mut self, floor: Round) -> Vec<Arc<Block>> {
        let above = self.pending.split_off(&first_of(floor + 1));
        let obsolete = std::mem::replace(&mut self.pending, above);
        obsolete.iter().for_each(|(reference, pending)| self.forget(reference, pending));
        let above = self.waiting.split_off(&first_of(floor + 1));
        let present = std::mem::replace(&mut self.waiting, above);
        let above = self.wanted.split_off(&first_of(floor + 1));
        let done = std::mem::replace(&mut self.wanted, above);
        done.iter().for_each(|(reference, want)| _ = self.timers.remove(&(want.due, *reference)));
        self.far.raise_floor(floor);
        let waiting =
            present.iter().flat_map(|(parent, dependents)| dependents.iter().map(move |dependent| (dependent, parent)));
        waiting.filter_map(|(dependent, parent)| self.resolve_parent(dependent, parent)).collect()
    }

    /// This missing block is not in transit: requests it immediately, unless it was requested already.
    pub fn expedite(&mut self, now: TimestampMs, reference: &BlockRef) {
        if self.wanted.get(reference).is_some_and(|want| want.attempts == 0) {
            self.reschedule(reference, now);
        }
    }

    /// S2: `from` does not have the block: asks the next peer without a pause, once around the committee.
    pub fn not_found(&mut self, now: TimestampMs, reference: &BlockRef) {
        if self.wanted.get(reference).is_some_and(|want| (want.attempts as usize) < self.committee_size) {
            self.reschedule(reference, now);
        }
    }

    /// Notes a signed block of a round too far ahead to be kept.
    pub fn note_far_block(&mut self, now: TimestampMs, reference: BlockRef) {
        if Some(reference.author) != self.me {
            self.far.note(reference, TimestampMs(now.0 + self.limits.delay_ms));
        }
    }

    /// Notes a block of a round near enough to be kept.
    pub fn reached(&mut self, reference: &BlockRef) {
        self.far.reached(reference);
    }

    /// The far block whose author must be asked now for the rounds between.
    pub fn due_far_block(&mut self, now: TimestampMs) -> Option<BlockRef> {
        self.far.due(now, self.limits.retry_ms, self.limits.retry_cap_ms)
    }

    /// Processes a response of `from`. S1: a useful response was cut short, so the rest of its blocks' ancestors is
    /// requested immediately.
    pub fn on_response(&mut self, now: TimestampMs, from: ValidatorIndex, extended: bool) {
        self.far.on_response(now, from, extended);
        if !extended {
            return;
        }
        let later = self.wanted.iter().filter(|(_, want)| want.sender == from && want.due > now);
        let later: Vec<_> = later.map(|(reference, _)| *reference).collect();
        later.iter().for_each(|reference| self.reschedule(reference, now));
    }

    /// Time at which [`Self::due`] returns something.
    pub fn deadline(&self) -> Option<TimestampMs> {
        [self.timers.first().map(|(due, _)| *due), self.far.deadline()].into_iter().flatten().min()
    }

    /// Requests to send now: for each peer at most `limit` blocks. The rest is due again after a pause.
    pub fn due(&mut self, now: TimestampMs, limit: usize) -> BTreeMap<ValidatorIndex, Vec<BlockRef>> {
        let mut requests: BTreeMap<ValidatorIndex, Vec<BlockRef>> = BTreeMap::new();
        let (size, me, retry, cap) = (self.committee_size, self.me, self.limits.retry_ms, self.limits.retry_cap_ms);
        let later = self.timers.split_off(&(TimestampMs(now.0.saturating_add(1)), first_of(Round(0))));
        for (_, reference) in std::mem::replace(&mut self.timers, later) {
            let Some(want) = self.wanted.get_mut(&reference) else { continue };
            let naming = self.waiting.get(&reference).into_iter().flat_map(Dependents::iter).map(|dependent| dependent.author);
            let peer = select_peer(&reference, want, naming, size, me);
            let asked = peer.map(|peer| requests.entry(peer).or_default()).filter(|asked| asked.len() < limit);
            let pause = match (&asked, want.attempts) {
                (None, _) if peer.is_some() => retry,
                (None, _) => cap,
                (_, 0) => retry / 2, // Hedging: the first peer may only be slow.
                (_, attempts) => retry.saturating_mul(1 << (attempts - 1).min(16)).min(cap),
            };
            if let Some(asked) = asked {
                asked.push(reference);
                want.attempts = want.attempts.saturating_add(1);
            }
            want.due = TimestampMs(now.0 + pause.max(1));
            self.timers.insert((want.due, reference));
        }
        requests.retain(|_, wanted| !wanted.is_empty());
        requests
    }

    fn add_wanted(&mut self, reference: BlockRef, want: WantedBlock) {
        self.remove_wanted(&reference);
        self.timers.insert((want.due, reference));
        self.wanted.insert(reference, want);
    }

    fn remove_wanted(&mut self, reference: &BlockRef) {
        if let Some(want) = self.wanted.remove(reference) {
            self.timers.remove(&(want.due, *reference));
        }
    }

    fn reschedule(&mut self, reference: &BlockRef, due: TimestampMs) {
        if let Some(want) = self.wanted.get_mut(reference) {
            self.timers.remove(&(want.due, *reference));
            want.due = due;
            self.timers.insert((due, *reference));
        }
    }

    /// One missing parent of `dependent` is present. Returns `dependent` if that was the last one.
    fn resolve_parent(&mut self, dependent: &BlockRef, parent: &BlockRef) -> Option<Arc<Block>> {
        let pending = self.pending.get_mut(dependent)?;
        pending.missing.remove(parent);
        if !pending.missing.is_empty() {
            return None;
        }
        let complete = self.pending.remove(dependent)?;
        self.by_author[dependent.author.as_usize()].remove(dependent);
        self.accounts[complete.account.as_usize()].remove(dependent, complete.weight);
        Some(complete.block)
    }

    /// S3: the account that can hold a block; `None` if there is no room. A block that pending blocks need uses the
    /// account of one of those, any other the account of its author.
    fn find_account(&mut self, reference: &BlockRef, weight: Weight) -> Option<ValidatorIndex> {
        let mut accounts: Vec<_> = self.needed_by(reference).collect();
        if accounts.is_empty() {
            accounts.push(reference.author);
        }
        let has_room = |account: &&ValidatorIndex| self.accounts[account.as_usize()].fits(weight, &self.limits);
        if let Some(account) = accounts.iter().find(has_room) {
            return Some(*account);
        }
        accounts.into_iter().find(|account| self.evict(*account, reference, weight))
    }

    /// Drops the highest blocks of a full account in favour of a lower one. Returns true if that made room.
    fn evict(&mut self, account: ValidatorIndex, reference: &BlockRef, weight: Weight) -> bool {
        while !self.accounts[account.as_usize()].fits(weight, &self.limits) {
            let highest = self.accounts[account.as_usize()].blocks.last().copied().filter(|highest| highest > reference);
            let Some(highest) = highest else { return false };
            if let Some(pending) = self.pending.remove(&highest) {
                self.forget(&highest, &pending);
            }
        }
        true
    }

    /// A pending block was dropped: ancestors that only it needed are no longer wanted. Blocks that need it request it
    /// again.
    fn forget(&mut self, reference: &BlockRef, dropped: &Pending) {
        self.by_author[reference.author.as_usize()].remove(reference);
        self.accounts[dropped.account.as_usize()].remove(reference, dropped.weight);
        for parent in &dropped.missing {
            let Some(dependents) = self.waiting.get_mut(parent) else { continue };
            dependents.remove(reference, dropped.account);
            if dependents.is_empty() {
                self.waiting.remove(parent);
                self.remove_wanted(parent);
            }
        }
        if self.waiting.contains_key(reference) {
            self.add_wanted(*reference, WantedBlock { attempts: 0, due: TimestampMs(0), sender: reference.author });
        }
    }
}

impl Account {
    fn fits(&self, more: Weight, limits: &Limits) -> bool {
        let Weight { bytes, missing } = self.weight;
        let room = self.blocks.len() < limits.blocks
            && bytes + more.bytes <= limits.weight.bytes
            && missing + more.missing <= limits.weight.missing;
        room || self.blocks.is_empty()
    }

    fn add(&mut self, reference: BlockRef, weight: Weight) {
        self.blocks.insert(reference);
        self.weight.bytes += weight.bytes;
        self.weight.missing += weight.missing;
    }

    fn remove(&mut self, reference: &BlockRef, weight: Weight) {
        if self.blocks.remove(reference) {
            self.weight.bytes -= weight.bytes;
            self.weight.missing -= weight.missing;
        }
    }
}

/// Blocks of rounds too far ahead to be kept: the newest reference of each author. A peer that has a block has its
/// whole history, so its author is asked for the rounds between, one author after the other.
#[derive(Default)]
pub struct FarBlocks {
    newest: BTreeMap<ValidatorIndex, BlockRef>,
    /// The peer that was asked last.
    asked: Option<ValidatorIndex>,
    /// Requests since the DAG last grew by a response.
    attempts: usize,
    due: TimestampMs,
}

impl FarBlocks {
    /// Notes a signed block from too far ahead.
    fn note(&mut self, reference: BlockRef, due: TimestampMs) {
        if self.newest.is_empty() {
            (self.attempts, self.due) = (0, due);
        }
        let newest = self.newest.entry(reference.author).or_insert(reference);
        *newest = (*newest).max(reference);
    }

    /// Removes an author whose block is near enough to be kept.
    fn reached(&mut self, reference: &BlockRef) {
        if self.newest.get(&reference.author).is_some_and(|newest| newest.round <= reference.round) {
            self.newest.remove(&reference.author);
        }
    }

    fn raise_floor(&mut self, floor: Round) {
        self.newest.retain(|_, newest| newest.round > floor);
    }

    fn deadline(&self) -> Option<TimestampMs> {
        (!self.newest.is_empty()).then_some(self.due)
    }

    /// The block to request now; its author is the peer to ask.
    fn due(&mut self, now: TimestampMs, retry_ms: u64, cap_ms: u64) -> Option<BlockRef> {
        if self.due > now {
            return None;
        }
        let after = self.asked.map_or(ValidatorIndex(0), |asked| ValidatorIndex(asked.0.saturating_add(1)));
        let next = self.newest.range(after..).next().or_else(|| self.newest.first_key_value());
        let reference = *next?.1;
        let rounds = (self.attempts / self.newest.len()).min(16);
        self.asked = Some(reference.author);
        self.attempts = self.attempts.saturating_add(1);
        self.due = TimestampMs(now.0 + retry_ms.saturating_mul(1 << rounds).min(cap_ms).max(1));
        Some(reference)
    }

    /// A response came. After a useful one the next request is sent immediately; after useless ones, once around the
    /// committee.
    fn on_response(&mut self, now: TimestampMs, from: ValidatorIndex, extended: bool) {
        if self.asked == Some(from) && (extended || self.attempts < self.newest.len()) {
            self.due = now;
        }
        if extended {
            self.attempts = 0;
        }
    }
}

/// S1, S2: the sender of the dependent block, the block's author, the authors of blocks that reference it, then all
/// others in turn; never ourselves. `None` if there is no other peer.
fn select_peer(
    reference: &BlockRef,
    want: &WantedBlock,
    naming: impl Iterator<Item = ValidatorIndex>,
    committee_size: usize,
    me: Option<ValidatorIndex>,
) -> Option<ValidatorIndex> {
    let all = (0u16..).take(committee_size).map(ValidatorIndex);
    let (first, then): (Vec<_>, Vec<_>) = all.partition(|other| *other > reference.author);
    let mut turns: Vec<ValidatorIndex> = Vec::with_capacity(committee_size);
    let mut seen = vec![false; committee_size];
    for peer in [want.sender, reference.author].into_iter().chain(naming).chain(first).chain(then) {
        if Some(peer) != me && !std::mem::replace(&mut seen[peer.as_usize()], true) {
            turns.push(peer);
        }
    }
    let turn = (want.attempts as usize).checked_rem(turns.len())?;
    Some(turns[turn])
}

#[cfg(test)]
mod tests;
