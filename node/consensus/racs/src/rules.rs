//! Pure rules of RACS (Alg. 2 and 3, repaired): blocks are known by their identifiers, and time, disk and batches belong to others.
//!
//! The caller passes a statement only when it holds the block that the statement is about, with all its ancestors. It writes
//! [`Replica::state`] before it sends a statement, also to itself: a replica's own votes count like those of others.
//!
//! ```text
//!   synchronous(v) ──S7: own timer──▶ does not vote in v any more
//!        │   ▲                                  │
//!        │   └──A6, J1: v + 1 ─────────┐        │
//!        └────A1: Q timeouts of v──▶ asynchronous(v)
//! ```

use crate::message::{BlockId, Context, Rank, Round, View};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// A block and its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Link {
    pub id: BlockId,
    pub parent: BlockId,
}

/// A message, as far as the rules look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    Propose { block: BlockId, commit: BlockId },
    Vote { block: BlockId },
    Timeout { view: View, high: BlockId },
    ProposeAsync { block: Link },
    VoteAsync { block: BlockId },
    Complete { block: BlockId },
    NewView { view: View, high: BlockId },
    Ahead { view: View, high: BlockId },
}

impl Statement {
    pub fn view(&self) -> View {
        match self {
            Self::ProposeAsync { block } => block.id.rank.view,
            Self::Propose { block, .. } | Self::Vote { block } | Self::VoteAsync { block } | Self::Complete { block } => {
                block.rank.view
            }
            Self::Timeout { view, .. } | Self::NewView { view, .. } | Self::Ahead { view, .. } => *view,
        }
    }

    /// Statements of one kind and view of a replica replace each other while they wait.
    fn kind(&self) -> u8 {
        match self {
            Self::ProposeAsync { block } => block.id.rank.level,
            Self::Complete { .. } => 3,
            _ => 0,
        }
    }
}

/// Task of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Send(ValidatorIndex, Statement),
    /// To all replicas, this one included.
    SendAll(Statement),
    /// This block and all its ancestors are committed. The text names the rule.
    Commit(BlockId, &'static str),
}

/// Rank and parent of a block that this replica may propose now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draft {
    pub rank: Rank,
    pub parent: BlockId,
}

/// Views in which a replica says nothing, because it lost its disk (X14).
pub type Silence = corniche_lanes::Silence<View>;

/// State that survives a restart: a replica that forgets it breaks the intersection of quorums.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct State {
    /// v_cur.
    pub view: View,
    /// isAsync.
    pub is_async: bool,
    /// Highest view whose timer expired here (S7).
    pub timed_out: Option<View>,
    /// view_open: the leader of `view` has the new views of a quorum. Round of `high` at that time.
    pub open: Option<Round>,
    /// block_high. Its round is r_cur.
    pub high: BlockId,
    /// B_fall: blocks of level 2 of `view` that this replica voted for, by proposer.
    pub fallback: BTreeMap<ValidatorIndex, BlockId>,
    /// Own blocks of levels 1 and 2 of `view`.
    pub level1: Option<Link>,
    pub level2: Option<Link>,
}

/// Common coin from a seed that all members know in advance (M8, X9).
#[derive(Clone, Debug)]
pub struct Coin {
    context: Context,
    committee: Committee,
    seed: B256,
}

impl Coin {
    pub fn new(committee: &Committee, seed: B256) -> Self {
        Self { context: Context::new(committee), committee: committee.clone(), seed }
    }

    /// Each vote is elected with equal probability, so members with Q votes contain the elected one with probability Q/W (I5).
    pub fn elect(&self, view: View) -> ValidatorIndex {
        let votes = u64::from(self.committee.total().0.max(1));
        let point = u32::try_from(self.context.coin(self.seed, view) % votes).unwrap_or_default() + 1;
        let weights = self.committee.weights();
        self.committee.indices().find(|member| weights.points(*member).contains(&point)).unwrap_or_default()
    }
}

/// S1: fixed, and independent of the coin.
pub fn leader(view: View, committee: &Committee) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(view.0 % committee.size() as u64).unwrap_or_default())
}

/// Key by which ranks are compared.
type RankKey = fn(Rank) -> (View, u8, Round);

type Tally = BTreeMap<View, BTreeMap<ValidatorIndex, BlockId>>;

/// One replica of RACS.
#[derive(Clone, Debug)]
pub struct Replica {
    me: ValidatorIndex,
    committee: Committee,
    coin: Coin,
    /// Maximum number of own uncommitted blocks of a leader (S4).
    window: u64,
    rank_key: RankKey,
    state: State,
    /// block_commit.
    commit: BlockId,
    silence: Silence,
    /// Voters for own blocks of this view (X16).
    votes: BTreeMap<BlockId, BTreeSet<ValidatorIndex>>,
    /// Timeouts and new views of this and later views.
    timeouts: Tally,
    new_views: Tally,
    /// Complete blocks of level 2 of this view, by proposer.
    completes: BTreeMap<ValidatorIndex, BlockId>,
    /// Block of level 1 with Q votes, parent of the own block of level 2 (A3, A4).
    voted: Option<BlockId>,
    has_completed: bool,
    /// Statements for a later view or the other mode (X5).
    early: BTreeMap<(View, ValidatorIndex, u8), Statement>,
    outputs: Vec<Output>,
}

impl Replica {
    /// A replica that never said anything.
    pub fn new(me: ValidatorIndex, committee: Committee, coin: Coin, window: u64) -> Self {
        let view = View(0);
        let state = State {
            view,
            is_async: false,
            timed_out: None,
            open: (leader(view, &committee) == me).then_some(Round(0)),
            high: BlockId::default(),
            fallback: BTreeMap::new(),
            level1: None,
            level2: None,
        };
        Self {
            me,
            committee,
            coin,
            window,
            rank_key: |rank| (rank.view, rank.level, rank.round),
            state,
            commit: BlockId::default(),
            silence: Silence::Nowhere,
            votes: BTreeMap::new(),
            timeouts: BTreeMap::new(),
            new_views: BTreeMap::new(),
            completes: BTreeMap::new(),
            voted: None,
            has_completed: false,
            early: BTreeMap::new(),
            outputs: Vec::new(),
        }
    }

    /// With the state from before a restart.
    pub fn with_state(self, state: State) -> Self {
        Self { state, ..self }
    }

    pub fn with_silence(self, silence: Silence) -> Self {
        Self { silence, ..self }
    }

    /// X0: with the ranks as the thesis prints them, which fork. Only for tests that show it.
    pub fn with_printed_ranks(self) -> Self {
        Self { rank_key: |rank| (rank.view, 0, rank.round), ..self }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The highest round of the blocks that this replica voted for, and of those that it committed. Votes of the fallback do not change
    /// block_high.
    pub fn highest_round(&self) -> Round {
        let voted = self.state.fallback.values().chain([&self.state.high, &self.commit]);
        voted.map(|block| block.rank.round).max().unwrap_or_default()
    }

    pub fn commit(&self) -> BlockId {
        self.commit
    }

    pub fn silence(&self) -> Silence {
        self.silence
    }

    pub fn set_silence(&mut self, silence: Silence) {
        self.silence = silence;
    }

    pub fn leader(&self) -> ValidatorIndex {
        leader(self.state.view, &self.committee)
    }

    /// Returns true if this replica may vote and propose in its view.
    pub fn may_speak(&self) -> bool {
        self.silence.allows(self.state.view)
    }

    /// Returns true if this replica follows the leader of its view.
    pub fn is_following(&self) -> bool {
        !self.state.is_async && Some(self.state.view) > self.state.timed_out
    }

    /// Returns true if a block outranks block_high.
    pub fn is_higher(&self, block: &BlockId) -> bool {
        (self.rank_key)(block.rank) > (self.rank_key)(self.state.high.rank)
    }

    /// Number of statements that wait or are counted, for tests.
    pub fn count(&self) -> usize {
        let tallies = self.timeouts.values().chain(self.new_views.values()).map(BTreeMap::len).sum::<usize>();
        self.early.len() + tallies + self.completes.len() + self.votes.values().map(BTreeSet::len).sum::<usize>()
    }

    /// Blocks of earlier views that may become the parent of a block: block_high, and those of timeouts and new views that wait for a
    /// quorum.
    pub fn named(&self) -> BTreeSet<BlockId> {
        let tallies = self.timeouts.values().chain(self.new_views.values());
        tallies.flat_map(BTreeMap::values).copied().chain([self.state.high]).collect()
    }

    fn has_quorum<'a>(&self, members: impl IntoIterator<Item = &'a ValidatorIndex>) -> bool {
        self.committee.weigh(members.into_iter().copied()) >= self.committee.quorum()
    }

    fn say(&mut self, output: Output) {
        if self.may_speak() {
            self.outputs.push(output);
        }
    }

    fn raise_high(&mut self, block: BlockId) {
        if self.is_higher(&block) {
            self.state.high = block;
        }
    }

    /// Applies a statement of a member, this one included.
    pub fn handle(&mut self, from: ValidatorIndex, statement: Statement) -> Vec<Output> {
        self.apply(from, statement);
        // X5: what waited for this view or mode.
        while let Some((key, statement)) = self.early.iter().find(|(_, waiting)| !self.is_early(waiting)) {
            let (key, statement) = (*key, *statement);
            self.early.remove(&key);
            self.apply(key.1, statement);
        }
        std::mem::take(&mut self.outputs)
    }

    fn is_early(&self, statement: &Statement) -> bool {
        let State { view, is_async, .. } = self.state;
        match statement {
            Statement::Propose { .. } => is_async && statement.view() > view,
            Statement::ProposeAsync { .. } | Statement::Complete { .. } => (statement.view(), true) > (view, is_async),
            _ => false,
        }
    }

    fn apply(&mut self, from: ValidatorIndex, statement: Statement) {
        if let Statement::Propose { commit, .. } = statement {
            self.learn_commit(commit, "learned");
        }
        if statement.view() < self.state.view {
            return;
        }
        if self.is_early(&statement) {
            return self.keep(from, statement);
        }
        match statement {
            Statement::Propose { block, .. } => self.handle_propose(block),
            Statement::Vote { block } => self.handle_vote(from, block),
            Statement::Timeout { view, high } => {
                self.timeouts.entry(view).or_default().insert(from, high);
                self.try_fallback();
            }
            Statement::ProposeAsync { block } => self.handle_propose_async(from, block),
            Statement::VoteAsync { block } => self.handle_vote_async(from, block),
            Statement::Complete { block } => self.handle_complete(from, block),
            Statement::NewView { view, high } => {
                self.new_views.entry(view).or_default().insert(from, high);
                self.try_open();
            }
            Statement::Ahead { view, high } => self.handle_ahead(view, high),
        }
    }

    /// X5. The newest proposal of a leader includes those before it.
    fn keep(&mut self, from: ValidatorIndex, statement: Statement) {
        let key = (statement.view(), from, statement.kind());
        let rank =
            |statement: &Statement| if let Statement::Propose { block, .. } = statement { block.rank } else { Rank::default() };
        if self.early.get(&key).is_none_or(|known| rank(known) <= rank(&statement)) {
            self.early.insert(key, statement);
        }
    }

    /// Enters a view in the synchronous mode.
    fn enter(&mut self, view: View) {
        let State { timed_out, high, .. } = self.state;
        let (fallback, level1, level2) = (BTreeMap::new(), None, None);
        self.state = State { view, is_async: false, timed_out, open: None, high, fallback, level1, level2 };
        self.votes.clear();
        self.completes.clear();
        (self.voted, self.has_completed) = (None, false);
        self.timeouts.retain(|of, _| *of >= view);
        self.new_views.retain(|of, _| *of >= view);
        self.early.retain(|(of, _, _), _| *of >= view);
    }

    /// Enters a later view, and reports block_high to its leader. A replica that leaves the fallback takes the elected block along if it
    /// voted for it, however it leaves (A6, I2): the block may be committed.
    fn leave_for(&mut self, view: View, high: BlockId) {
        // X8: this is no commit.
        if self.state.is_async
            && let Some(elected) = self.state.fallback.get(&self.coin.elect(self.state.view)).copied()
        {
            self.state.high = elected;
        }
        self.enter(view);
        self.raise_high(high);
        let (to, high) = (self.leader(), self.state.high);
        self.say(Output::Send(to, Statement::NewView { view, high }));
        self.try_open();
        self.try_fallback();
    }

    /// A block is committed. A replica that is in an earlier view goes on from there (J2): the log is the proof.
    pub fn learn(&mut self, block: BlockId) -> Vec<Output> {
        self.learn_commit(block, "learned");
        std::mem::take(&mut self.outputs)
    }

    fn learn_commit(&mut self, block: BlockId, why: &'static str) {
        if block.rank.round <= self.commit.rank.round {
            return;
        }
        self.commit = block;
        self.outputs.push(Output::Commit(block, why));
        let Rank { view, level, .. } = block.rank;
        // A block of levels 1 or 2 is committed only when its view is over.
        let next = if level > 0 { view.next() } else { view };
        if next > self.state.view {
            self.leave_for(next, block);
        } else if !self.state.is_async {
            self.raise_high(block);
        }
    }

    /// The statements of this replica that others may have missed, to be sent again.
    pub fn current(&self) -> Vec<Output> {
        let State { view, is_async, timed_out, high, level1, level2, .. } = self.state;
        let mut outputs = Vec::new();
        if !self.may_speak() {
            return outputs;
        }
        // In the fallback nobody votes for level 0 any more, so this is as good as the timer (S7).
        if is_async || timed_out == Some(view) {
            outputs.push(Output::SendAll(Statement::Timeout { view, high }));
        }
        if is_async {
            let own = [level1, level2].into_iter().flatten();
            outputs.extend(own.map(|block| Output::SendAll(Statement::ProposeAsync { block })));
            let complete = level2.filter(|_| self.has_completed).map(|block| Statement::Complete { block: block.id });
            outputs.extend(complete.map(Output::SendAll));
        } else if high.rank.view < view {
            outputs.push(Output::Send(self.leader(), Statement::NewView { view, high }));
        } else if self.leader() == self.me && self.is_following() && high != self.commit {
            outputs.push(Output::SendAll(Statement::Propose { block: high, commit: self.commit }));
        }
        outputs
    }
}

/// Synchronous mode.
impl Replica {
    /// S2: the leader opens its view with the new views of a quorum.
    fn try_open(&mut self) {
        let State { view, is_async, open, .. } = self.state;
        let Some(new_views) = self.new_views.get(&view).filter(|from| self.has_quorum(from.keys())) else { return };
        if self.leader() != self.me || is_async || open.is_some() {
            return;
        }
        let highest: Vec<BlockId> = new_views.values().copied().collect();
        highest.into_iter().for_each(|block| self.raise_high(block));
        self.state.open = Some(self.state.high.rank.round);
    }

    /// Own level-0 blocks of this view that are not committed.
    pub fn in_flight(&self) -> u64 {
        let State { view, high, open, .. } = self.state;
        let is_own = high.rank.view == view && high.rank.level == 0 && high.proposer == self.me;
        let from = open.unwrap_or_default().max(self.commit.rank.round);
        if is_own { high.rank.round.0.saturating_sub(from.0) } else { 0 }
    }

    /// The block that this replica may propose now, if any.
    pub fn draft(&self) -> Option<Draft> {
        if !self.may_speak() {
            return None;
        }
        let State { view, high, level1, level2, .. } = self.state;
        let on = |level, parent: BlockId| Draft { rank: Rank { view, level, round: parent.rank.round.next() }, parent };
        if self.state.is_async {
            // A1, then A3 or A4. A7: one block of each level.
            return match (level1, level2) {
                (None, _) => Some(on(1, high)),
                (Some(_), None) => self.voted.map(|parent| on(2, parent)),
                _ => None,
            };
        }
        // S3, S4.
        let may_lead = self.leader() == self.me && self.state.open.is_some() && self.is_following();
        (may_lead && self.in_flight() < self.window).then(|| on(0, high))
    }

    /// This replica proposes the block that it made from [`Self::draft`].
    pub fn propose(&mut self, block: Link) -> Vec<Output> {
        match block.id.rank.level {
            0 => self.state.high = block.id,
            1 => self.state.level1 = Some(block),
            _ => self.state.level2 = Some(block),
        }
        let statement = match block.id.rank.level {
            0 => Statement::Propose { block: block.id, commit: self.commit },
            _ => Statement::ProposeAsync { block },
        };
        self.say(Output::SendAll(statement));
        std::mem::take(&mut self.outputs)
    }

    /// S5. A repeated proposal gets its vote again.
    fn handle_propose(&mut self, block: BlockId) {
        let Rank { view, .. } = block.rank;
        // S7: no vote in a view whose timer expired here, or in the fallback.
        if self.state.is_async || Some(view) <= self.state.timed_out {
            return;
        }
        // With ranks, the first block of a view is above block_high, and so is each later one.
        if block != self.state.high && !self.is_higher(&block) {
            return;
        }
        if view > self.state.view {
            self.enter(view);
        }
        self.state.high = block;
        self.say(Output::Send(block.proposer, Statement::Vote { block }));
        self.try_fallback();
    }

    /// S6.
    fn handle_vote(&mut self, from: ValidatorIndex, block: BlockId) {
        if block.proposer != self.me || block.rank.view != self.state.view || block.rank.level > 0 {
            return;
        }
        self.votes.entry(block).or_default().insert(from);
        if self.votes.get(&block).is_some_and(|voters| self.has_quorum(voters)) {
            self.learn_commit(block, "votes");
            let committed = self.commit.rank.round;
            self.votes.retain(|block, _| block.rank.level > 0 || block.rank.round > committed);
        }
    }

    /// S7: the timer of this view expired.
    pub fn expire(&mut self) -> Vec<Output> {
        if self.is_following() && self.may_speak() {
            let State { view, high, .. } = self.state;
            self.state.timed_out = Some(view);
            self.say(Output::SendAll(Statement::Timeout { view, high }));
        }
        std::mem::take(&mut self.outputs)
    }
}

/// Asynchronous mode.
impl Replica {
    /// A1: the timeouts of a quorum for one view.
    fn try_fallback(&mut self) {
        if self.state.is_async {
            return;
        }
        let quorum = self.timeouts.range(self.state.view..).rfind(|(_, from)| self.has_quorum(from.keys()));
        let Some((view, highest)) = quorum.map(|(view, from)| (*view, from.values().copied().collect::<Vec<_>>())) else {
            return;
        };
        if view > self.state.view {
            self.enter(view);
        }
        self.state.is_async = true;
        // X4: the own one counts, too.
        highest.into_iter().for_each(|block| self.raise_high(block));
    }

    /// A2. The vote changes neither block_high nor its round (X6).
    fn handle_propose_async(&mut self, from: ValidatorIndex, block: Link) {
        let Link { id, parent } = block;
        if id.proposer != from || !self.is_higher(&id) {
            return;
        }
        if id.rank.level == 2 {
            self.state.fallback.insert(from, id);
            // A4: its parent has the votes of a quorum.
            self.voted = self.voted.or(Some(parent));
        }
        self.say(Output::Send(from, Statement::VoteAsync { block: id }));
    }

    fn handle_vote_async(&mut self, from: ValidatorIndex, block: BlockId) {
        let State { is_async, level1, level2, .. } = self.state;
        let (level1, level2) = (level1.map(|block| block.id), level2.map(|block| block.id));
        if !is_async || ![level1, level2].contains(&Some(block)) {
            return;
        }
        self.votes.entry(block).or_default().insert(from);
        if !self.votes.get(&block).is_some_and(|voters| self.has_quorum(voters)) {
            return;
        }
        if level1 == Some(block) {
            self.voted = self.voted.or(Some(block)); // A3
        } else if !self.has_completed {
            self.has_completed = true; // A5
            self.say(Output::SendAll(Statement::Complete { block }));
        }
    }

    /// A6: the complete blocks of a quorum end the view.
    fn handle_complete(&mut self, from: ValidatorIndex, block: BlockId) {
        if block.proposer != from {
            return;
        }
        self.completes.insert(from, block);
        if !self.has_quorum(self.completes.keys()) {
            return;
        }
        let view = self.state.view;
        // X7: nothing else of this view is committed.
        if let Some(elected) = self.completes.get(&self.coin.elect(view)).copied() {
            self.learn_commit(elected, "coin");
        }
        if self.state.view == view {
            self.leave_for(view.next(), BlockId::default());
        }
    }

    /// J1: another replica has left this view.
    fn handle_ahead(&mut self, view: View, high: BlockId) {
        if view > self.state.view {
            self.leave_for(view, high);
        }
    }
}
