//! Block building: commits accumulate until a block closes.
//!
//! A block closes at the first commit whose time is at least `block_ms` after the previous block's, or, from version 4
//! of the rules on, sooner if it is light ([`light_block_bytes`](ProtocolRules::light_block_bytes)).
//! It also closes before a transaction whose *declared* gas or bytes would exceed the block's limit; the rest of that
//! commit opens the next block. Empty commits make no block, with one exception per minute: an empty commit
//! [`IDLE_BLOCK_MS`] after the last block makes a block without transactions. So an idle chain has a recent
//! certified point to resume from (decision 0011). All of this is a function of the sequence of commits, so
//! every validator closes the same blocks.
//!
//! The last block of an epoch is the first one that closes with a time at or after the epoch's end (validators.md, E2). The
//! first commit with such a time closes its block at once, an empty one if necessary. Everything that the engine delivers
//! afterwards is dropped (E4), including the rest of a commit of which the block has only a part. The first commit at or after
//! each other step of the epoch closes its block in the same way (E3).
//!
//! A proposer may order anything, so from version 2 of the rules on bytes count as well as gas
//! ([`ProtocolRules`]):
//!
//! - A byte counts at least [`gas_per_ordered_byte`](ProtocolRules::gas_per_ordered_byte), also in entries
//!   that cannot be decoded.
//! - A block has at most [`max_block_bytes`](ProtocolRules::max_block_bytes). Since an entry has at least 64
//!   bytes, this also bounds the ordering record: below 90 bytes per entry (its reference to a batch, and the
//!   reason if it was skipped).
//! - Entries that no honest proposer orders are dropped ([`drops_excess`](ProtocolRules::drops_excess), and from version
//!   3 on [`drops_malformed`](ProtocolRules::drops_malformed)). No reference to a batch covers them. So they cost only
//!   their decoding: no execution, hash or storage. Where epochs end, the first notices of a batch to the staking contract stay.
//!
//! Blocks are cut only on request ([`BlockBuilder::poll`]). Until then a commit costs only the bytes of its
//! batches, however many blocks it will make.

use crate::epoch::EpochStart;
use crate::extension::Directives;
use corniche_admission::batch;
use corniche_engine::{Batch, Ordered, Resume};
use corniche_staking::{MAX_BATCH_NOTICES, Notice};
use corniche_types::{
    B256, BatchRef, Block, Bytes, CommitIndex, Genesis, Height, KnownVersions, MAX_TRANSACTION_BYTES, OrderedTransaction,
    OrderingRecord, ProtocolRules, TimestampMs, Transaction, ValidatorIndex, intrinsic::TRANSACTION_GAS,
};
use std::{collections::VecDeque, iter::Enumerate, sync::Arc, vec};

/// Time after its last block at which an idle chain closes a block without transactions. Does not apply
/// before the first block, so that late nodes start from the genesis like all others.
const IDLE_BLOCK_MS: u64 = 60_000;

/// Reason why the rules of an ordered block are known.
pub(crate) const KNOWN: &str = "invariant: a node stops before an epoch whose protocol version it does not know";

/// Ordered block before execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPlan {
    pub ordered: Vec<OrderedTransaction>,
    pub batches: Vec<BatchRef>,
    pub first_commit: CommitIndex,
    pub last_commit: CommitIndex,
    pub last_commit_consumed: u32,
    pub leader: ValidatorIndex,
    pub time: TimestampMs,
    pub randomness: B256,
    /// Last commit that is complete in this block.
    pub resume: Resume,
}

impl BlockPlan {
    /// Plan from which a stored or followed block was made.
    pub fn from_block(block: &Block, resume: Resume) -> Self {
        let ordering = &block.ordering;
        Self {
            ordered: block.ordered.clone(),
            batches: ordering.batches.clone(),
            first_commit: ordering.first_commit,
            last_commit: ordering.last_commit,
            last_commit_consumed: ordering.last_commit_consumed,
            leader: ordering.leader,
            time: ordering.time,
            randomness: ordering.randomness,
            resume,
        }
    }
}

/// Converts commits to block plans.
pub struct BlockBuilder {
    /// `None` on a real network. With directives an idle chain makes no blocks: the extension decides when to make one.
    directives: Option<Arc<dyn Directives>>,
    genesis: Arc<Genesis>,
    /// Height of the next block to close.
    height: Height,
    rules: &'static ProtocolRules,
    known: KnownVersions,
    start: EpochStart,
    last_block_time: TimestampMs,
    /// Times that need a block (E3), ascending. The last one is the end of the epoch. Empty if epochs never end.
    steps: Vec<TimestampMs>,
    /// True if the last block of the epoch is closed.
    has_ended: bool,
    /// Commits that are not processed yet, oldest first.
    waiting: VecDeque<Ordered>,
    /// Commit from which blocks are being cut.
    current: Option<PartialCommit>,
    /// Index of the newest commit that was pushed.
    delivered: CommitIndex,
    /// Last commit processed completely.
    complete: Resume,
    /// Number of transactions of commit `complete.index + 1` that are already in an earlier block; only after
    /// recovery.
    skip: u32,
    open: Option<OpenBlock>,
    closed: VecDeque<BlockPlan>,
}

/// Commit that is partly in blocks.
struct PartialCommit {
    /// The commit without its batches.
    commit: Ordered,
    batches: vec::IntoIter<(ValidatorIndex, Batch)>,
    entries: Entries,
    /// Number of entries taken from the commit so far.
    position: u32,
    /// True if the next entry opens another block.
    ended: bool,
}

/// Remaining entries of one batch.
#[derive(Default)]
struct Entries {
    author: ValidatorIndex,
    digest: B256,
    raw: Enumerate<vec::IntoIter<Bytes>>,
    /// Gas declared by the entries so far.
    gas: u64,
    /// Notices among them.
    notices: usize,
}

/// Entry of a batch.
struct Entry {
    source: BatchRef,
    raw: Bytes,
    /// Declared gas; 0 if it will be skipped because it cannot be decoded or declares more than a block's
    /// gas.
    gas: u64,
    /// Gas declared by the batch up to and including this entry.
    batch_gas: u64,
    /// True for one of the first notices of the batch for the running epoch.
    is_notice: bool,
}

impl PartialCommit {
    fn new(mut commit: Ordered) -> Self {
        let batches = std::mem::take(&mut commit.batches).into_iter();
        Self { commit, batches, entries: Entries::default(), position: 0, ended: false }
    }

    fn next(&mut self, block_gas_limit: u64, is_notice: impl Fn(&Bytes) -> bool) -> Option<Entry> {
        loop {
            if let Some((number, raw)) = self.entries.raw.next() {
                self.position += 1;
                let first = u32::try_from(number).expect("a batch has at most 2^32 bytes");
                let Entries { author, digest, .. } = self.entries;
                let gas = declared_gas(&raw, block_gas_limit);
                self.entries.gas = self.entries.gas.saturating_add(gas);
                let source = BatchRef { author, digest, first, count: 1 };
                let is_notice = is_malformed(gas) && self.entries.notices < MAX_BATCH_NOTICES && is_notice(&raw);
                self.entries.notices += usize::from(is_notice);
                return Some(Entry { source, raw, gas, batch_gas: self.entries.gas, is_notice });
            }
            let (author, Batch { bytes }) = self.batches.next()?;
            let digest = corniche_engine::batch_digest(&bytes);
            let raw = batch::decode(&bytes).into_iter().enumerate();
            self.entries = Entries { author, digest, raw, gas: 0, notices: 0 };
        }
    }
}

struct OpenBlock {
    plan: BlockPlan,
    gas: u64,
    bytes: u64,
}

impl OpenBlock {
    fn new(commit: &Ordered, resume: &Resume) -> Self {
        let plan = BlockPlan {
            ordered: Vec::new(),
            batches: Vec::new(),
            first_commit: commit.index,
            last_commit: commit.index,
            last_commit_consumed: 0,
            leader: commit.leader,
            time: commit.time,
            randomness: commit.randomness,
            resume: resume.clone(),
        };
        Self { plan, gas: 0, bytes: 0 }
    }

    /// Extends the block to the first `consumed` entries of `commit`. Ordering resumes after `resume`.
    fn extend(&mut self, commit: &Ordered, consumed: u32, resume: &Resume) {
        self.plan.last_commit = commit.index;
        self.plan.last_commit_consumed = consumed;
        self.plan.leader = commit.leader;
        self.plan.time = commit.time;
        self.plan.randomness = commit.randomness;
        self.plan.resume = resume.clone();
    }
}

impl BlockBuilder {
    /// Continues after the block at `height` with ordering record `head` (`None`: genesis); ordering resumes
    /// at `resume`, in the epoch of `start`. Uses the versions of this build.
    pub fn new(
        genesis: &Arc<Genesis>,
        start: &EpochStart,
        height: Height,
        head: Option<&OrderingRecord>,
        resume: Resume,
    ) -> Self {
        Self::of_build(genesis, KnownVersions::default(), start, height, head, resume)
    }

    /// Like [`Self::new`], with the versions of a build, which knows that of the epoch.
    pub(crate) fn of_build(
        genesis: &Arc<Genesis>,
        known: KnownVersions,
        start: &EpochStart,
        height: Height,
        head: Option<&OrderingRecord>,
        resume: Resume,
    ) -> Self {
        assert_eq!(start.epoch, resume.epoch, "invariant: ordering resumes in the running epoch");
        let partial = head.filter(|ordering| (ordering.epoch, ordering.last_commit) > resume.place());
        let skip = partial.map_or(0, |ordering| ordering.last_commit_consumed);
        Self {
            directives: None,
            rules: start.rules(genesis, height.next(), known).expect(KNOWN),
            known,
            start: *start,
            genesis: genesis.clone(),
            height: height.next(),
            last_block_time: head.map_or(TimestampMs(0), |ordering| ordering.time),
            steps: start.steps(genesis),
            has_ended: false,
            waiting: VecDeque::new(),
            current: None,
            delivered: resume.index,
            complete: resume,
            skip,
            open: None,
            closed: VecDeque::new(),
        }
    }

    #[must_use]
    pub(crate) fn with_directives(self, directives: Option<Arc<dyn Directives>>) -> Self {
        Self { directives, ..self }
    }

    /// Drops all commits: the last block of the epoch is the head, and the engine runs on only for others (E8).
    #[must_use]
    pub(crate) fn ended(self) -> Self {
        Self { has_ended: true, ..self }
    }

    /// True if the last block of the epoch is closed. Commits are dropped then.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// True if a step of the epoch is due at this time, which needs a block (E3).
    pub fn is_block_due(&self, now: TimestampMs) -> bool {
        self.next_step().is_some_and(|step| step <= now)
    }

    fn is_after_end(&self, time: TimestampMs) -> bool {
        self.steps.last().is_some_and(|end| time >= *end)
    }

    /// Time of the next step of the epoch; `None` if there is none.
    pub fn next_step(&self) -> Option<TimestampMs> {
        self.steps.iter().copied().find(|step| self.last_block_time < *step).filter(|_| !self.has_ended)
    }

    /// Returns the next closed block.
    pub fn poll(&mut self) -> Option<BlockPlan> {
        while self.closed.is_empty() && self.advance() {}
        self.closed.pop_front()
    }

    /// True if there are commits that [`Self::poll`] has not processed completely.
    pub fn has_waiting(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty()
    }

    /// True if ordered transactions wait for a block, or for a later commit that closes their block.
    pub fn is_open(&self) -> bool {
        self.open.is_some() || self.has_waiting() || !self.closed.is_empty()
    }

    /// Last commit processed completely.
    pub fn complete(&self) -> &Resume {
        &self.complete
    }

    /// Index of the newest commit that was pushed.
    pub fn delivered(&self) -> CommitIndex {
        self.delivered
    }

    /// Adds the next commit.
    ///
    /// # Panics
    ///
    /// Its index does not follow the last one's.
    pub fn push(&mut self, commit: Ordered) {
        assert_eq!(commit.index, self.delivered.next(), "invariant: an engine delivers commits without gaps");
        self.delivered = commit.index;
        if !self.has_ended {
            self.waiting.push_back(commit);
        }
    }

    /// Processes one entry, or the end of a commit; returns false if there is none.
    fn advance(&mut self) -> bool {
        let Some(mut current) = self.current.take().or_else(|| self.next_commit()) else { return false };
        let (chain_id, epoch) = (self.genesis.chain_id, self.complete.epoch);
        let takes_notices = !self.steps.is_empty();
        let is_notice = |raw: &Bytes| takes_notices && Notice::decode(raw).is_some_and(|notice| notice.is_for(chain_id, epoch));
        match current.next(self.genesis.block_gas_limit, is_notice) {
            Some(entry) => {
                self.process_entry(&mut current, entry);
                self.current = Some(current).filter(|_| !self.has_ended);
            }
            None => self.end_commit(current),
        }
        true
    }

    fn next_commit(&mut self) -> Option<PartialCommit> {
        let mut commit = self.waiting.pop_front()?;
        if self.directives.is_some() {
            // Directives may have set a later time than the engine's.
            commit.time = commit.time.max(self.last_block_time);
        }
        Some(PartialCommit::new(commit))
    }

    fn process_entry(&mut self, current: &mut PartialCommit, entry: Entry) {
        if current.position <= self.skip {
            return;
        }
        if std::mem::take(&mut current.ended) {
            self.close();
            if self.has_ended {
                return;
            }
        }
        let directive = self.directives.as_ref().and_then(|directives| directives.directive(&entry.raw));
        if let Some(directive) = &directive {
            current.commit.time = directive.time.map_or(current.commit.time, |time| time.max(self.last_block_time));
            current.ended = directive.ends_block;
        }
        let counts = directive.is_none();
        if counts && !self.is_excess(&entry) && !self.has_room(&entry) {
            self.close();
            if self.has_ended {
                return;
            }
        }
        // Checked again: the next block may have other rules.
        if counts && self.is_excess(&entry) {
            self.skip_entry(current);
        } else {
            self.add(current, entry, counts);
        }
    }

    fn is_excess(&self, entry: &Entry) -> bool {
        let is_above = entry.batch_gas > self.genesis.batch_gas || entry.raw.len() > MAX_TRANSACTION_BYTES;
        let is_junk = is_malformed(entry.gas) && !entry.is_notice;
        self.rules.drops_excess && is_above || self.rules.drops_malformed && is_junk
    }

    fn has_room(&self, entry: &Entry) -> bool {
        let Some(open) = &self.open else { return true };
        let bytes = open.bytes + entry.raw.len() as u64;
        open.gas.saturating_add(self.gas(entry)) <= self.genesis.block_gas_limit && bytes <= self.rules.max_block_bytes
    }

    /// Gas that an entry counts.
    fn gas(&self, entry: &Entry) -> u64 {
        entry.gas.max((entry.raw.len() as u64).saturating_mul(self.rules.gas_per_ordered_byte))
    }

    /// Skips an entry: the open block consumes it without containing it. From version 3 on it also opens a block: only
    /// a certificate shows that a quorum executed a commit, and until then engines keep its data.
    fn skip_entry(&mut self, current: &PartialCommit) {
        if self.rules.drops_malformed && self.open.is_none() {
            self.open = Some(OpenBlock::new(&current.commit, &self.complete));
        }
        if let Some(open) = &mut self.open {
            open.plan.last_commit = current.commit.index;
            open.plan.last_commit_consumed = current.position;
        }
    }

    fn end_commit(&mut self, PartialCommit { commit, position, .. }: PartialCommit) {
        self.skip = 0;
        self.complete = Resume { epoch: self.complete.epoch, index: commit.index, checkpoint: commit.checkpoint.clone() };
        let is_step = self.is_block_due(commit.time);
        if self.open.is_none() && (is_step || self.idle_block_is_due(commit.time)) {
            self.open = Some(OpenBlock::new(&commit, &self.complete));
        }
        if let Some(open) = &mut self.open {
            open.extend(&commit, position, &self.complete);
            let due = self.last_block_time.0 + block_pause_ms(self.genesis.block_ms, open.bytes, self.rules);
            if is_step || commit.time.0 >= due {
                self.close();
            }
        }
    }

    fn idle_block_is_due(&self, now: TimestampMs) -> bool {
        self.directives.is_none() && self.last_block_time != TimestampMs(0) && now.0 >= self.last_block_time.0 + IDLE_BLOCK_MS
    }

    fn add(&mut self, PartialCommit { commit, position, .. }: &PartialCommit, entry: Entry, counts: bool) {
        let gas = self.gas(&entry);
        let Entry { source, raw, .. } = entry;
        let raw = owned(&raw);
        let complete = &self.complete;
        let open = self.open.get_or_insert_with(|| OpenBlock::new(commit, complete));
        if counts {
            open.gas = open.gas.saturating_add(gas);
            open.bytes += raw.len() as u64;
        }
        open.extend(commit, *position, complete);
        let plan = &mut open.plan;
        plan.ordered.push(OrderedTransaction { author: source.author, raw });
        match plan.batches.last_mut() {
            Some(last)
                if last.author == source.author && last.digest == source.digest && last.first + last.count == source.first =>
            {
                last.count += 1;
            }
            _ => plan.batches.push(source),
        }
    }

    fn close(&mut self) {
        if let Some(mut open) = self.open.take() {
            self.last_block_time = open.plan.time;
            self.height = self.height.next();
            // The last block of an epoch has no successor here, so the version of the next epoch does not matter.
            self.rules = self.start.rules(&self.genesis, self.height, self.known).expect(KNOWN);
            if let Some(directives) = &self.directives {
                open.plan.randomness = directives.settings(&open.plan.ordered).randomness.unwrap_or(open.plan.randomness);
            }
            if self.is_after_end(open.plan.time) {
                open.plan.resume = Resume::start_of(open.plan.resume.epoch.next());
                self.has_ended = true;
                self.waiting.clear();
            }
            self.closed.push_back(open.plan);
        }
    }
}

/// Minimum time between the previous block and one with transactions of `bytes`, ms.
fn block_pause_ms(block_ms: u64, bytes: u64, rules: &ProtocolRules) -> u64 {
    match rules.light_block_bytes {
        light if bytes < light => (block_ms.saturating_mul(bytes) / light).max(block_ms / 5),
        _ => block_ms,
    }
}

/// Copy that does not keep the batch in memory, of which it may be a small part.
fn owned(raw: &Bytes) -> Bytes {
    Bytes::copy_from_slice(raw)
}

/// Transactions of a proposed batch that may be in a block once they are ordered.
pub fn promising(batch: &Batch, genesis: &Genesis) -> Vec<Bytes> {
    let mut gas = 0_u64;
    let mut promising = Vec::new();
    for raw in batch::decode(&batch.bytes) {
        let declared = declared_gas(&raw, genesis.block_gas_limit);
        gas = gas.saturating_add(declared);
        if gas > genesis.batch_gas {
            break;
        }
        if !is_malformed(declared) {
            promising.push(owned(&raw));
        }
    }
    promising
}

/// True if no transaction with this [`declared_gas`] is valid, in any state.
fn is_malformed(declared_gas: u64) -> bool {
    declared_gas < TRANSACTION_GAS
}

/// Gas limit declared by a transaction; 0 if it will be skipped because it cannot be decoded or declares more
/// than a block's gas.
fn declared_gas(raw: &Bytes, block_gas_limit: u64) -> u64 {
    Transaction::declared_gas(raw).ok().filter(|gas| *gas <= block_gas_limit).unwrap_or(0)
}
