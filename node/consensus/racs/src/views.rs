//! Messages of RACS: their blocks, the rules, own blocks, the timer.

use crate::{
    config::MAX_VIEWS_AHEAD,
    engine::{AfterDurable, Racs},
    message::{Block, BlockId, Message, Round, Tip, Value, View},
    record::RecordKey,
    rules::{self, Link, Statement},
};
use corniche_engine::{Output, TraceEvent};
use corniche_lanes::advance;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::{BTreeSet, btree_map::Entry};

/// A missing block is asked for this often, then only if something still needs it.
const MAX_ATTEMPTS: usize = 64;

/// Sender, view and kind of a message that waits for blocks.
pub(crate) type HeldKey = (ValidatorIndex, View, u8);

/// A block that is missing.
pub(crate) struct WantedBlock {
    /// The validator that knows of it.
    source: ValidatorIndex,
    attempts: usize,
}

/// Timer of the view (S8, S9).
pub(crate) struct Timer {
    /// Last progress, or the time since when something waits for a commit.
    from: TimestampMs,
    is_pending: bool,
    /// Fallbacks since the last commit of a leader.
    pub fallbacks: u32,
}

impl Timer {
    pub fn new(now: TimestampMs) -> Self {
        Self { from: now, is_pending: false, fallbacks: 0 }
    }
}

/// Kinds of messages, besides the levels of blocks.
const AHEAD: u8 = 6;
const VOTE: u8 = 7;

/// View and kind of a message of RACS.
fn view_and_kind(message: &Message) -> Option<(View, u8)> {
    Some(match message {
        Message::Propose { block, .. } => (block.rank.view, 0),
        Message::ProposeAsync { block, .. } => (block.rank.view, block.rank.level),
        Message::Complete { block } => (block.rank.view, 3),
        Message::Timeout { view, .. } => (*view, 4),
        Message::NewView { view, .. } => (*view, 5),
        Message::Ahead { view, .. } => (*view, AHEAD),
        Message::VoteAsync { block } => (block.rank.view, VOTE),
        _ => return None,
    })
}

/// Incoming messages.
impl Racs {
    pub(crate) fn view(&self) -> View {
        self.replica.state().view
    }

    pub(crate) fn handle_view_message(&mut self, from: ValidatorIndex, message: Message) {
        if let Message::Commit { block } = message {
            return self.handle_commit(from, block);
        }
        let Some((view, kind)) = view_and_kind(&message) else { return };
        if view < self.view() {
            // J1: votes come late without a fault of their sender.
            if kind != VOTE {
                self.help(from);
            }
            return;
        }
        let is_far = view.0 > self.view().0 + MAX_VIEWS_AHEAD;
        if is_far && kind != AHEAD {
            return self.send_progress(from);
        }
        match &message {
            Message::Propose { block, .. } => self.add_block(block),
            Message::ProposeAsync { block, parent } => {
                parent.iter().for_each(|parent| self.add_block(parent));
                self.add_block(block);
            }
            _ => {}
        }
        match self.missing(&message) {
            // There is no room for the block on it.
            Some(block) if self.chain.holds(&block) => {}
            Some(block) => {
                // The newest help of a validator is enough.
                let view = if kind == AHEAD { View(u64::MAX) } else { view };
                self.hold((from, view, kind), message);
                self.want_block(block, from);
            }
            None => {
                if let Some(statement) = self.statement(message) {
                    self.judge(from, statement);
                }
            }
        }
    }

    pub(crate) fn add_block(&mut self, block: &Block) {
        if let Some(id) = self.chain.insert(block.clone()) {
            self.writing = self.persist(RecordKey::Block(id), None).or(self.writing);
        }
    }

    fn is_missing(&self, id: &BlockId) -> bool {
        id.rank.round > self.committed_round() && !self.chain.holds(id)
    }

    /// The block without which a message has to wait. X15: the batches of blocks do not matter here.
    fn missing(&self, message: &Message) -> Option<BlockId> {
        let is_missing = |id: &BlockId| self.is_missing(id);
        let wanted = match message {
            Message::Propose { block, commit } => {
                let parent = is_missing(&self.chain.id(block)).then_some(block.parent);
                return parent.or(is_missing(commit).then_some(*commit));
            }
            Message::ProposeAsync { block, .. } => return is_missing(&self.chain.id(block)).then_some(block.parent),
            // A block that is not above the own one does not matter.
            Message::Timeout { high, .. } | Message::NewView { high, .. } | Message::Ahead { high, .. } => {
                Some(high).filter(|high| self.replica.is_higher(high))
            }
            Message::Complete { block } => Some(block),
            _ => None,
        };
        wanted.copied().filter(is_missing)
    }

    /// `None` for a block of the past.
    fn statement(&self, message: Message) -> Option<Statement> {
        let held = |block: &Block| Some(self.chain.id(block)).filter(|id| self.chain.holds(id));
        Some(match message {
            Message::Propose { block, commit } => Statement::Propose { block: held(&block)?, commit },
            Message::ProposeAsync { block, .. } => {
                Statement::ProposeAsync { block: Link { id: held(&block)?, parent: block.parent } }
            }
            Message::Complete { block } => Statement::Complete { block },
            Message::Timeout { view, high } => Statement::Timeout { view, high },
            Message::NewView { view, high } => Statement::NewView { view, high },
            Message::Ahead { view, high } => Statement::Ahead { view, high },
            Message::VoteAsync { block } => Statement::VoteAsync { block },
            _ => return None,
        })
    }

    /// Keeps a message until its blocks are here. The newest proposal of a leader includes those before it.
    fn hold(&mut self, key: HeldKey, message: Message) {
        let rank = |message: &Message| if let Message::Propose { block, .. } = message { Some(block.rank) } else { None };
        if self.held.get(&key).is_none_or(|known| rank(known) <= rank(&message)) {
            self.held.insert(key, message);
        }
    }

    pub(crate) fn judge_held(&mut self) {
        let view = self.view();
        self.held.retain(|_, message| view_and_kind(message).is_some_and(|(of, _)| of >= view));
        let ready: Vec<HeldKey> = self.held.iter().filter(|(_, message)| self.is_ready(message)).map(|(key, _)| *key).collect();
        for key in ready {
            if let Some(message) = self.held.remove(&key) {
                self.handle_view_message(key.0, message);
            }
        }
        // The next own block is on block_high.
        let high = Some(self.replica.state().high).filter(|high| self.is_missing(high));
        let needed: BTreeSet<BlockId> = self.held.values().filter_map(|message| self.missing(message)).chain(high).collect();
        self.wanted.retain(|id, wanted| needed.contains(id) && wanted.attempts < MAX_ATTEMPTS);
        high.into_iter().for_each(|high| self.want_block(high, high.proposer));
    }

    fn is_ready(&self, message: &Message) -> bool {
        match (message, self.missing(message)) {
            (Message::Propose { block, .. } | Message::ProposeAsync { block, .. }, Some(missing)) => {
                missing == block.parent && self.chain.holds(&missing)
            }
            (_, missing) => missing.is_none(),
        }
    }

    /// Asks for a block and its ancestors, at once the first time.
    fn want_block(&mut self, id: BlockId, source: ValidatorIndex) {
        if let Entry::Vacant(entry) = self.wanted.entry(id) {
            entry.insert(WantedBlock { source, attempts: 0 });
            self.ask_for_block(id);
        }
    }

    fn ask_for_block(&mut self, id: BlockId) {
        let size = self.committee.size();
        let Some(wanted) = self.wanted.get_mut(&id) else { return };
        let to = (wanted.source.as_usize() + wanted.attempts) % size;
        wanted.attempts += 1;
        let to = ValidatorIndex(u16::try_from(to).unwrap_or_default());
        let above = self.chain.committed().rank.round;
        self.send(to, &Message::FetchBlocks { block: id, above });
    }

    pub(crate) fn ask_for_blocks(&mut self) {
        let wanted: Vec<BlockId> = self.wanted.keys().copied().collect();
        wanted.into_iter().for_each(|id| self.ask_for_block(id));
    }

    /// S6: the leader has no next block that could say so.
    fn handle_commit(&mut self, from: ValidatorIndex, block: BlockId) {
        if block.rank.round <= self.chain.committed().rank.round {
            return;
        }
        if self.chain.holds(&block) {
            let outputs = self.replica.learn(block);
            self.dispatch(outputs);
        } else {
            self.send_progress(from);
        }
    }

    /// J1: once for each peer and view between two timers.
    pub(crate) fn help(&mut self, peer: ValidatorIndex) {
        if self.replica.may_speak() && self.helped.insert(peer) {
            let (view, high) = (self.view(), self.replica.state().high);
            self.dispatch(vec![rules::Output::Send(peer, Statement::Ahead { view, high })]);
        }
    }
}

/// Rules and what follows from them.
impl Racs {
    pub(crate) fn judge(&mut self, from: ValidatorIndex, statement: Statement) {
        let outputs = self.replica.handle(from, statement);
        self.dispatch(outputs);
    }

    /// Does what the rules ask for. The state is on disk before anything is said (§2).
    pub(crate) fn dispatch(&mut self, outputs: Vec<rules::Output>) {
        for output in &outputs {
            if let rules::Output::Commit(block, why) = *output {
                self.commit(block, why);
            }
        }
        self.save();
        for output in outputs {
            match (output, self.writing) {
                (rules::Output::Commit(..), _) => {}
                (_, Some(ticket)) => self.waiting.entry(ticket).or_default().push(AfterDurable::Say(output)),
                (_, None) => self.say(output),
            }
        }
    }

    fn save(&mut self) {
        let state = self.replica.state();
        if *state == self.saved {
            return;
        }
        let before = std::mem::replace(&mut self.saved, state.clone());
        let (view, high) = (self.saved.view, self.saved.high);
        let is_first = |state: &rules::State| state.high.rank.view == view && state.high.rank.level == 0;
        if view != before.view || is_first(&self.saved) && !is_first(&before) {
            self.timer.from = self.now; // S8
        }
        if view != before.view {
            self.helped.clear();
            self.chain.enter(view, &self.replica.named());
            self.note("view", format!("view {}, led by {}, from round {}", view.0, self.replica.leader(), high.rank.round.0));
        }
        if self.saved.is_async && !(before.is_async && view == before.view) {
            self.timer.fallbacks = self.timer.fallbacks.saturating_add(1);
            self.note("fallback", format!("view {}, from round {}", view.0, high.rank.round.0));
        }
        self.writing = self.persist(RecordKey::State, None).or(self.writing);
    }

    /// Sends a statement, or counts it if it is for this validator itself.
    pub(crate) fn say(&mut self, output: rules::Output) {
        let (to, statement) = match output {
            rules::Output::Send(to, statement) => (Some(to), statement),
            rules::Output::SendAll(statement) => (None, statement),
            rules::Output::Commit(..) => return,
        };
        if to.is_none_or(|to| to == self.me) {
            self.own.push_back(statement);
        }
        let Some(message) = self.message(statement) else { return };
        match to {
            Some(to) => self.send(to, &message),
            None => self.broadcast(&message),
        }
    }

    /// `None` if the block was forgotten meanwhile: then nobody needs it.
    fn message(&self, statement: Statement) -> Option<Message> {
        Some(match statement {
            Statement::Propose { block, commit } => Message::Propose { block: self.chain.get(&block)?.clone(), commit },
            Statement::Vote { block } => Message::Vote { block, time: self.now },
            Statement::Timeout { view, high } => Message::Timeout { view, high },
            Statement::ProposeAsync { block: Link { id, parent } } => {
                let block = self.chain.get(&id)?.clone();
                let parent = if id.rank.level == 2 { Some(self.chain.get(&parent)?.clone()) } else { None };
                Message::ProposeAsync { block, parent }
            }
            Statement::VoteAsync { block } => Message::VoteAsync { block },
            Statement::Complete { block } => Message::Complete { block },
            Statement::NewView { view, high } => Message::NewView { view, high },
            Statement::Ahead { view, high } => Message::Ahead { view, high },
        })
    }

    fn commit(&mut self, block: BlockId, why: &str) {
        let Some(path) = self.chain.commit(block) else {
            // I4 without lies (X18). With them, this validator goes on with the log that it has.
            return self.note("agreement-lost", format!("{:?} is not above {:?}", block.rank, self.chain.committed().rank));
        };
        self.timer.from = self.now; // S8
        if block.rank.level == 0 {
            self.timer.fallbacks = 0; // S9
        }
        for id in path {
            let tips = self.chain.get(&id).map(|block| block.value.tips.clone()).unwrap_or_default();
            advance(&mut self.covered, &tips);
            self.outputs.push_back(Output::Trace(TraceEvent::Decided {
                round: id.rank.round.0,
                rank: 0,
                leader: id.proposer,
                committed: Some(id.digest),
                why: if id == block { why } else { "ancestor" }.to_owned(),
            }));
        }
        self.persist(RecordKey::Commit, None);
    }

    /// S6: without a next block, the followers learn of the commit at once.
    pub(crate) fn announce_commit(&mut self) {
        let block = self.replica.commit();
        let leads = self.replica.leader() == self.me && !self.replica.state().is_async && self.replica.may_speak();
        if leads && self.announced < block.rank.round {
            self.announced = block.rank.round;
            self.broadcast(&Message::Commit { block });
        }
    }
}

/// Own blocks.
impl Racs {
    /// S3, A1, A3, A4.
    pub(crate) fn propose_blocks(&mut self) {
        while let Some(draft) = self.replica.draft() {
            if draft.rank.level == 0 && !self.has_reason() {
                return;
            }
            let Some(time) = self.proposed_time() else { return };
            // D5.
            let value = Value { time, tips: self.completed.clone() };
            let block = Block { rank: draft.rank, proposer: self.me, parent: draft.parent, value };
            let Some(id) = self.chain.insert(block) else { return };
            self.writing = self.persist(RecordKey::Block(id), None).or(self.writing);
            if draft.rank.level == 0 {
                self.announced = self.replica.commit().rank.round;
            }
            let outputs = self.replica.propose(Link { id, parent: draft.parent });
            self.dispatch(outputs);
        }
    }

    /// A leader proposes for new batches, and to commit what the fallback left.
    fn has_reason(&self) -> bool {
        let high = self.replica.state().high;
        let mut covered = self.covered.clone();
        for id in self.chain.path(&high).unwrap_or_default() {
            if let Some(block) = self.chain.get(&id) {
                advance(&mut covered, &block.value.tips);
            }
        }
        let left = high != self.chain.committed() && self.replica.in_flight() == 0;
        left || has_more(&self.completed, &covered)
    }
}

/// Returns true if one of the tips is above the covered one.
fn has_more(tips: &[Tip], covered: &[Tip]) -> bool {
    tips.iter().zip(covered).any(|(tip, covered)| tip.number > covered.number)
}

/// Timer of the view.
impl Racs {
    /// S8: something waits for a commit.
    pub(crate) fn is_pending(&self) -> bool {
        self.replica.state().high != self.chain.committed() || has_more(&self.completed, &self.covered)
    }

    pub(crate) fn arm_timer(&mut self) {
        let is_pending = self.is_pending();
        if is_pending && !std::mem::replace(&mut self.timer.is_pending, is_pending) {
            self.timer.from = self.now;
        }
        self.timer.is_pending = is_pending;
    }

    /// S8: everybody has a timer, the leader included.
    pub(crate) fn expires_at(&self) -> Option<TimestampMs> {
        let runs = self.timer.is_pending && self.replica.is_following() && self.replica.may_speak();
        let timeout = self.config.timeout_after(self.timer.fallbacks);
        runs.then(|| TimestampMs(self.timer.from.0.saturating_add(timeout)))
    }

    pub(crate) fn expire(&mut self) {
        let outputs = self.replica.expire();
        self.dispatch(outputs);
    }

    /// Last committed round: a timer compares it to see if anything moved since.
    pub(crate) fn committed_round(&self) -> Round {
        self.chain.committed().rank.round
    }
    /// Round of the last delivered block.
    pub(crate) fn delivered_round(&self) -> Round {
        self.order.at().rank.round
    }
}
