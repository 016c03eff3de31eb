//! Every schedule of a few blocks and one or two fallbacks, exhaustively: the pure rules of three replicas with equal votes, so two are
//! a quorum.
//!
//! Leaders propose a bounded number of blocks, or fewer. Each timer expires at any time, or never, in all views but the last one. In
//! the fallback all propose blocks up to `levels`. The coin of view 0 elects a chosen member.
//!
//! A letter stays until no replica can act on it: each is received at any time, any number of times, or never. So lost, late and
//! repeated letters, crashes and partitions are covered. A replica may also crash and start again at any time: it keeps [`State`],
//! and counts again what it receives again. So each step may begin with a restart, and a step is a timer, a block, the receipt of one
//! letter, or that of two which are a quorum. Replicas say more than the engine does: after each step they repeat what they may
//! repeat, answer all that are behind (J1), and announce what they committed (J2). Nobody has to listen.
//!
//! Equal worlds are merged, and these reductions leave out no decision:
//!
//! - A step that only adds letters, or commits without another change, is done at once. Others may ignore the letters.
//! - Parts that nobody reads any more do not count: letters for views that are over, B_fall of members that are not elected.
//! - A block has no content: the rules do not look at it.
//!
//! Not covered: more members, unequal votes (`rules.rs` has random schedules of both), statements that come before their blocks, lost
//! disks (X14). A statement for a later view or mode waits on its way and not at its receiver (X5).

use corniche_engine::Committee;
use corniche_racs::{
    message::{BlockId, Rank, View},
    rules::{Coin, Link, Output, Replica, State, Statement},
};
use corniche_racs_testing::committee;
use corniche_types::{B256, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
    rc::Rc,
};

const REPLICAS: usize = 3;

/// Number of a letter, of a set of letters, or of a replica in [`Model`]. Worlds consist of numbers, so that millions of them are
/// possible.
type Number = u32;

/// All replicas, with the letters that they sent.
type World = [Number; REPLICAS];

/// A message that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Letter {
    from: ValidatorIndex,
    /// `None` for all, the sender included.
    to: Option<ValidatorIndex>,
    content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    Statement(Statement),
    /// The sender committed this block.
    Committed(BlockId),
}

/// Something that happens to one replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Receive(Number),
    /// One letter after another, of which the first is only counted.
    ReceiveBoth(Number, Number),
    /// S7.
    Expire,
    /// S3: the leader proposes its next block.
    Lead,
}

/// Result of a step.
#[derive(Clone, Copy)]
struct Outcome {
    /// The replica after the step and a restart.
    after: Number,
    /// The step counted something that a restart forgets.
    has_counted: bool,
}

/// One replica: everything that survives a restart.
#[derive(Clone)]
struct Member {
    me: ValidatorIndex,
    state: State,
    commit: BlockId,
    /// The set of letters that it sent.
    sent: Number,
}

/// View, fallback and committed round of a replica.
type Stage = (View, bool, u64);

struct Model {
    /// Maximum number of blocks of level 0 in each view.
    blocks: Vec<usize>,
    /// Timers expire in views below this one.
    timers: View,
    /// Highest level that is proposed in the fallback.
    levels: u8,
    /// X0: with the ranks as the thesis prints them.
    has_printed_ranks: bool,
    /// Number of blocks of view 0 that are proposed before the run, in letters that are lost.
    lost: usize,
    committee: Committee,
    coin: Coin,
    parents: BTreeMap<BlockId, BlockId>,
    letters: Vec<Letter>,
    sets: Vec<Rc<[Number]>>,
    set_numbers: BTreeMap<Rc<[Number]>, Number>,
    members: Vec<Member>,
    member_numbers: BTreeMap<Vec<u8>, Number>,
    outcomes: BTreeMap<(Number, Step), Outcome>,
    changes: BTreeMap<(Number, [Number; REPLICAS]), Rc<[Number]>>,
    stripped: BTreeMap<(Number, [Stage; REPLICAS]), Number>,
    /// Letters and commits of the worlds that were checked.
    checked: BTreeSet<[(Number, BlockId); REPLICAS]>,
}

fn index(member: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(member).unwrap())
}

impl Model {
    /// The coin of view 0 elects `elected`. Timers expire in all views but the last.
    fn new(elected: usize, blocks: &[usize]) -> Self {
        let committee = committee(REPLICAS);
        let mut coins = (0..=255).map(|seed| Coin::new(&committee, B256::with_last_byte(seed)));
        Self {
            blocks: blocks.to_vec(),
            timers: View(blocks.len() as u64 - 1),
            levels: 2,
            has_printed_ranks: false,
            lost: 0,
            coin: coins.find(|coin| coin.elect(View(0)) == index(elected)).unwrap(),
            committee,
            parents: BTreeMap::new(),
            letters: Vec::new(),
            sets: Vec::new(),
            set_numbers: BTreeMap::new(),
            members: Vec::new(),
            member_numbers: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            changes: BTreeMap::new(),
            stripped: BTreeMap::new(),
            checked: BTreeSet::new(),
        }
    }

    /// Number of worlds, or one that breaks a rule.
    fn explore(mut self) -> Result<usize, String> {
        let silent = self.set(BTreeSet::new());
        let mut start = [0, 1, 2].map(|member| {
            let rules = self.replica(index(member));
            self.member(Member { me: index(member), state: rules.state().clone(), commit: rules.commit(), sent: silent })
        });
        for _ in 0..self.lost {
            let leader = self.outcome(start[0], Step::Lead).after;
            start[0] = self.member(Member { sent: silent, ..self.members[leader as usize].clone() });
        }
        let mut seen = BTreeSet::from([start]);
        let mut open = vec![start];
        while let Some(world) = open.pop() {
            for after in self.successors(&world) {
                if seen.insert(after) {
                    self.check(&after)?;
                    open.push(after);
                }
            }
        }
        Ok(seen.len())
    }

    fn successors(&mut self, world: &World) -> Vec<World> {
        let mut found = Vec::new();
        for at in 0..REPLICAS {
            for member in self.changes(world, at).iter() {
                let mut after = *world;
                after[at] = *member;
                let is_harmless = self.read(world[at]) == self.read(*member);
                self.strip(&mut after);
                if after == *world {
                    continue;
                }
                if is_harmless {
                    return vec![after];
                }
                found.push(after);
            }
        }
        found
    }

    /// Agreement (I3, I4), and later blocks are on those that are committed (I1, I2).
    fn check(&mut self, world: &World) -> Result<(), String> {
        let members = world.map(|member| &self.members[member as usize]);
        if !self.checked.insert(members.map(|member| (member.sent, member.commit))) {
            return Ok(());
        }
        let letters = members.iter().flat_map(|member| self.sets[member.sent as usize].iter());
        let letters: Vec<Letter> = letters.map(|letter| self.letters[*letter as usize]).collect();
        let mut committed = BTreeSet::from(members.map(|member| member.commit));
        let mut proposed = BTreeSet::new();
        for letter in &letters {
            match letter.content {
                Content::Committed(block) => _ = committed.insert(block),
                Content::Statement(Statement::Propose { block, .. }) => _ = proposed.insert(block),
                Content::Statement(Statement::ProposeAsync { block }) => _ = proposed.insert(block.id),
                Content::Statement(_) => {}
            }
        }
        for block in &committed {
            let is_fork = |other: &&BlockId| !self.extends(**other, *block) && !self.extends(*block, **other);
            let is_later = |rank: Rank| rank > block.rank && (rank.view > block.rank.view || block.rank.level == 0);
            let is_beside = |other: &&BlockId| is_later(other.rank) && !self.extends(**other, *block);
            if let Some(other) = committed.iter().find(is_fork).or_else(|| proposed.iter().find(is_beside)) {
                let letters = letters.iter().fold(String::new(), |text, letter| text + &format!("{letter:?}\n"));
                return Err(format!("{block:?} is committed, but {other:?} is not on it, after\n{letters}"));
            }
        }
        Ok(())
    }

    /// Returns true if a block is on this ancestor, or is it.
    fn extends(&self, mut block: BlockId, ancestor: BlockId) -> bool {
        while block.rank.round > ancestor.rank.round {
            block = self.parents[&block];
        }
        block == ancestor
    }
}

/// Steps of one replica. Each result is computed once.
impl Model {
    /// The replica after each of its possible steps.
    fn changes(&mut self, world: &World, at: usize) -> Rc<[Number]> {
        let key = (world[at], world.map(|member| self.members[member as usize].sent));
        if let Some(known) = self.changes.get(&key) {
            return known.clone();
        }
        let is_for_it = |letter: &Number| self.letters[*letter as usize].to.is_none_or(|to| to == index(at));
        let letters = key.1.iter().flat_map(|set| self.sets[*set as usize].iter().copied()).filter(is_for_it);
        let steps: Vec<Step> = letters.map(Step::Receive).chain([Step::Expire, Step::Lead]).collect();
        let (mut found, mut counted) = (BTreeSet::new(), Vec::new());
        for step in steps {
            let Outcome { after, has_counted } = self.outcome(key.0, step);
            found.insert(after);
            if let Step::Receive(letter) = step
                && has_counted
            {
                counted.push(letter);
            }
        }
        for (first, second) in counted.iter().flat_map(|first| counted.iter().map(move |second| (*first, *second))) {
            if self.letters[first as usize].may_complete(&self.letters[second as usize]) {
                found.insert(self.outcome(key.0, Step::ReceiveBoth(first, second)).after);
            }
        }
        found.remove(&key.0);
        let found: Rc<[Number]> = found.into_iter().collect();
        self.changes.insert(key, found.clone());
        found
    }

    fn outcome(&mut self, before: Number, step: Step) -> Outcome {
        if let Some(known) = self.outcomes.get(&(before, step)) {
            return *known;
        }
        let Member { me, state, commit, sent } = self.members[before as usize].clone();
        let mut rules = self.replica(me).with_state(state.clone());
        rules.learn(commit);
        assert_eq!(*rules.state(), state, "a restart changes nothing");
        let mut outputs = self.perform(me, &mut rules, step);
        while let Some(draft) = rules.draft().filter(|draft| (1..=self.levels).contains(&draft.rank.level)) {
            let block = self.block(draft.rank, me, draft.parent);
            outputs.extend(rules.propose(block));
        }
        outputs.extend(rules.current());
        let (view, high) = (rules.state().view, rules.state().high);
        outputs.push(Output::SendAll(Statement::Ahead { view, high }));
        let mut letters: BTreeSet<Number> = self.sets[sent as usize].iter().copied().collect();
        letters.extend(outputs.into_iter().map(|output| self.letter(me, output)));
        let sent = self.set(letters);
        let after = self.member(Member { me, state: rules.state().clone(), commit: rules.commit(), sent });
        let outcome = Outcome { after, has_counted: rules.count() > 0 };
        self.outcomes.insert((before, step), outcome);
        outcome
    }

    fn replica(&self, me: ValidatorIndex) -> Replica {
        let window = self.blocks.iter().sum::<usize>() as u64;
        let replica = Replica::new(me, self.committee.clone(), self.coin.clone(), window);
        if self.has_printed_ranks { replica.with_printed_ranks() } else { replica }
    }

    fn perform(&mut self, me: ValidatorIndex, rules: &mut Replica, step: Step) -> Vec<Output> {
        match step {
            Step::Receive(letter) => self.receive(rules, letter),
            Step::ReceiveBoth(first, second) => {
                self.receive(rules, first);
                self.receive(rules, second)
            }
            Step::Expire if rules.state().view < self.timers => rules.expire(),
            Step::Lead => {
                let Some(draft) = rules.draft().filter(|draft| draft.rank.level == 0) else { return Vec::new() };
                let before = rules.state().open.unwrap_or_default();
                if draft.rank.round.0 - before.0 > self.blocks[draft.rank.view.0 as usize] as u64 {
                    return Vec::new();
                }
                let block = self.block(draft.rank, me, draft.parent);
                rules.propose(block)
            }
            Step::Expire => Vec::new(),
        }
    }

    fn receive(&self, rules: &mut Replica, letter: Number) -> Vec<Output> {
        let Letter { from, content, .. } = self.letters[letter as usize];
        match content {
            Content::Statement(statement) if is_early(rules, &statement) => Vec::new(),
            Content::Statement(statement) => rules.handle(from, statement),
            Content::Committed(block) => rules.learn(block),
        }
    }
}

/// X5: an engine keeps this statement until the replica reaches its view or mode.
fn is_early(rules: &Replica, statement: &Statement) -> bool {
    let State { view, is_async, .. } = *rules.state();
    match statement {
        Statement::Propose { .. } => is_async && statement.view() > view,
        Statement::ProposeAsync { .. } | Statement::Complete { .. } => (statement.view(), true) > (view, is_async),
        _ => false,
    }
}

/// Comparison of worlds.
impl Model {
    /// The state of a replica without parts that nobody reads any more.
    fn read(&self, member: Number) -> State {
        let mut state = self.members[member as usize].state.clone();
        let elected = self.coin.elect(state.view);
        state.fallback.retain(|voted, _| *voted == elected);
        state.timed_out = state.timed_out.filter(|view| *view >= state.view);
        state
    }

    /// Removes parts that nobody reads any more.
    fn strip(&mut self, world: &mut World) {
        let stages = world.map(|member| {
            let Member { state, commit, .. } = &self.members[member as usize];
            (state.view, state.is_async, commit.rank.round.0)
        });
        for number in world {
            if let Some(known) = self.stripped.get(&(*number, stages)) {
                *number = *known;
                continue;
            }
            let Member { me, commit, sent, .. } = self.members[*number as usize];
            let is_read = |letter: &Number| {
                let letter = &self.letters[*letter as usize];
                stages
                    .iter()
                    .enumerate()
                    .any(|(to, stage)| letter.to.is_none_or(|only| only == index(to)) && letter.is_read(*stage))
            };
            let letters = self.sets[sent as usize].iter().copied().filter(is_read).collect();
            let (state, sent) = (self.read(*number), self.set(letters));
            let after = self.member(Member { me, state, commit, sent });
            self.stripped.insert((*number, stages), after);
            *number = after;
        }
    }
}

impl Letter {
    /// Returns true if a quorum may consist of this letter and another one.
    fn may_complete(&self, other: &Self) -> bool {
        let kind = |letter: &Self| if let Content::Statement(kind) = letter.content { Some(discriminant(&kind)) } else { None };
        self.from != other.from && kind(self) == kind(other)
    }

    /// Returns false if a replica at this stage, and at each later one, does nothing with this letter.
    fn is_read(&self, (view, is_async, committed): Stage) -> bool {
        match self.content {
            Content::Committed(block) => block.rank.round.0 > committed,
            Content::Statement(Statement::Ahead { view: next, .. }) => next > view,
            Content::Statement(Statement::Timeout { view: of, .. }) => (of, false) >= (view, is_async),
            Content::Statement(statement) => statement.view() >= view,
        }
    }
}

/// Numbers.
impl Model {
    /// A replica has one block on each parent: the rules do not look at its content.
    fn block(&mut self, rank: Rank, proposer: ValidatorIndex, parent: BlockId) -> Link {
        let is_same = |id: &BlockId, on: &BlockId| (id.rank, id.proposer, *on) == (rank, proposer, parent);
        let known = self.parents.iter().find(|(id, on)| is_same(id, on)).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| {
            let number = self.parents.len() as u64 + 1;
            BlockId { rank, proposer, digest: B256::left_padding_from(&number.to_be_bytes()) }
        });
        self.parents.insert(id, parent);
        Link { id, parent }
    }

    fn letter(&mut self, from: ValidatorIndex, output: Output) -> Number {
        let (to, content) = match output {
            Output::Send(to, statement) => (Some(to), Content::Statement(statement)),
            Output::SendAll(statement) => (None, Content::Statement(statement)),
            Output::Commit(block, _) => (None, Content::Committed(block)),
        };
        let letter = Letter { from, to, content };
        let known = self.letters.iter().position(|known| *known == letter);
        let number = known.unwrap_or_else(|| {
            self.letters.push(letter);
            self.letters.len() - 1
        });
        Number::try_from(number).unwrap()
    }

    fn set(&mut self, letters: BTreeSet<Number>) -> Number {
        let letters: Rc<[Number]> = letters.into_iter().collect();
        *self.set_numbers.entry(letters.clone()).or_insert_with(|| {
            self.sets.push(letters);
            Number::try_from(self.sets.len() - 1).unwrap()
        })
    }

    fn member(&mut self, member: Member) -> Number {
        let content = wire::encode(&(member.me, &member.state, member.commit, member.sent));
        *self.member_numbers.entry(content).or_insert_with(|| {
            self.members.push(member);
            Number::try_from(self.members.len() - 1).unwrap()
        })
    }
}

fn assert_agreement(model: Model) {
    let worlds = model.explore().unwrap_or_else(|error| panic!("{error}"));
    assert!(worlds > 10_000, "only {worlds} worlds");
}

/// For each member that the coin of view 0 may elect.
#[test]
fn fallback_keeps_agreement() {
    (0..REPLICAS).for_each(|elected| assert_agreement(Model::new(elected, &[1, 1])));
}

/// I1: the first level of the fallback is on all blocks that the leader committed.
#[test]
fn fallback_keeps_blocks_in_flight() {
    assert_agreement(Model { levels: 1, ..Model::new(0, &[3, 0]) });
}

/// X0: the model finds the fork of the ranks as the thesis prints them.
#[test]
fn printed_ranks_fork() {
    let model = |has_printed_ranks| Model { has_printed_ranks, lost: 3, ..Model::new(1, &[3, 1]) };
    assert!(model(true).explore().is_err());
    assert_agreement(model(false));
}

/// More blocks, and a second fallback.
#[test]
#[ignore = "seven minutes; for soak runs"]
fn larger_runs_keep_agreement() {
    for elected in 0..REPLICAS {
        assert_agreement(Model::new(elected, &[0, 0, 1]));
        assert_agreement(Model::new(elected, &[2, 1]));
    }
    assert_agreement(Model { levels: 1, ..Model::new(0, &[4, 0]) });
}
