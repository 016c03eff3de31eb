//! The rules under an adversary that schedules everything, and the numbers of the thesis. Blocks are known to all; what a replica
//! must hold before it votes is a matter of the engine.

use corniche_engine::Committee;
use corniche_racs::{
    message::{BlockId, Rank, Round, View},
    rules::{Coin, Draft, Link, Output, Replica, Silence, Statement, leader},
};
use corniche_racs_testing::committee;
use corniche_testkit::{Random, committee_of};
use corniche_types::{B256, ValidatorIndex};
use std::collections::{BTreeMap, VecDeque};

fn index(member: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(member).unwrap())
}

/// A run's adversary.
#[derive(Clone, Copy)]
struct Adversary {
    /// Own uncommitted blocks of a leader.
    window: u64,
    printed_ranks: bool,
    /// Messages of this member arrive rarely.
    slow: Option<usize>,
    /// A leader with room in its window always proposes.
    busy: bool,
    /// Messages of one sender keep their order.
    fifo: bool,
    /// One in so many steps is a timer.
    timers: u64,
    /// One in so many steps is a crash with a restart at once, or a lost connection. 0 for none.
    restarts: u64,
}

const FAIR: Adversary =
    Adversary { window: 1, printed_ranks: false, slow: None, busy: false, fifo: true, timers: 20, restarts: 0 };

struct World {
    committee: Committee,
    adversary: Adversary,
    replicas: Vec<Replica>,
    alive: Vec<bool>,
    parents: BTreeMap<BlockId, BlockId>,
    links: BTreeMap<(usize, usize), VecDeque<Statement>>,
    /// Committed by anybody.
    log: BTreeMap<Round, BlockId>,
    /// Rules by which blocks were committed.
    reasons: BTreeMap<&'static str, usize>,
    blocks: u64,
    forked: bool,
    random: Random,
}

impl World {
    fn new(committee: Committee, adversary: Adversary, seed: u64) -> Self {
        let size = committee.size();
        let mut world = Self {
            adversary,
            replicas: Vec::new(),
            alive: vec![true; size],
            parents: BTreeMap::new(),
            links: BTreeMap::new(),
            log: BTreeMap::new(),
            reasons: BTreeMap::new(),
            blocks: 0,
            forked: false,
            random: Random::new(seed),
            committee,
        };
        world.replicas = (0..size).map(|member| world.replica(member)).collect();
        world
    }

    fn replica(&self, member: usize) -> Replica {
        let (committee, window) = (self.committee.clone(), self.adversary.window);
        let replica = Replica::new(index(member), committee.clone(), Coin::new(&committee, B256::ZERO), window);
        if self.adversary.printed_ranks { replica.with_printed_ranks() } else { replica }
    }

    fn size(&self) -> usize {
        self.committee.size()
    }

    fn send(&mut self, from: usize, to: usize, statement: Statement) {
        if self.alive[to] {
            self.links.entry((from, to)).or_default().push_back(statement);
        }
    }

    fn perform(&mut self, member: usize, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(to, statement) => self.send(member, to.as_usize(), statement),
                Output::SendAll(statement) => (0..self.size()).for_each(|to| self.send(member, to, statement)),
                Output::Commit(block, why) => self.commit(block, why),
            }
        }
    }

    /// I3, I4: one block per position, at every replica.
    fn commit(&mut self, block: BlockId, why: &'static str) {
        *self.reasons.entry(why).or_default() += 1;
        let mut at = block;
        while at.rank.round > Round(0) {
            match self.log.insert(at.rank.round, at) {
                Some(known) if known == at => return,
                Some(_) => self.forked = true,
                None => {}
            }
            at = self.parents[&at];
        }
    }

    fn make(&mut self, member: usize, draft: Draft) {
        let Draft { rank, parent } = draft;
        assert_eq!(rank.round, parent.rank.round.next(), "theorem 2: no gaps");
        self.blocks += 1;
        let id = BlockId { rank, proposer: index(member), digest: B256::left_padding_from(&self.blocks.to_be_bytes()) };
        self.parents.insert(id, parent);
        let outputs = self.replicas[member].propose(Link { id, parent });
        self.perform(member, outputs);
    }

    fn propose(&mut self, member: usize) {
        while let Some(draft) = self.replicas[member].draft() {
            if draft.rank.level == 0 && !self.adversary.busy && !self.random.one_in(4) {
                return;
            }
            self.make(member, draft);
        }
    }

    fn handle(&mut self, from: usize, to: usize, statement: Statement) {
        let is_stale = statement.view() < self.replicas[to].state().view;
        let outputs = self.replicas[to].handle(index(from), statement);
        self.perform(to, outputs);
        self.propose(to);
        if is_stale && self.adversary.restarts > 0 && !matches!(statement, Statement::VoteAsync { .. } | Statement::Vote { .. })
        {
            let state = self.replicas[to].state();
            let (view, high) = (state.view, state.high);
            self.send(to, from, Statement::Ahead { view, high });
        }
    }

    fn expire(&mut self, member: usize) {
        let outputs = self.replicas[member].expire();
        self.perform(member, outputs);
    }

    fn restart(&mut self, member: usize) {
        self.links.retain(|(from, to), _| *from != member && *to != member);
        let before = &self.replicas[member];
        let (state, commit) = (before.state().clone(), before.commit());
        let mut replica = self.replica(member).with_state(state);
        let outputs = replica.learn(commit);
        self.replicas[member] = replica;
        self.perform(member, outputs);
        self.say_again();
        self.propose(member);
    }

    /// All send again what others may have missed.
    fn say_again(&mut self) {
        for member in (0..self.size()).filter(|member| self.alive[*member]).collect::<Vec<_>>() {
            let outputs = self.replicas[member].current();
            self.perform(member, outputs);
        }
    }

    fn step(&mut self) {
        let Adversary { timers, restarts, slow, fifo, .. } = self.adversary;
        let member = self.random.below(self.size() as u64) as usize;
        if restarts > 0 && self.random.one_in(restarts) && self.alive[member] {
            return self.restart(member);
        }
        if self.links.is_empty() || self.random.one_in(timers) {
            if self.alive[member] {
                self.expire(member);
                self.propose(member);
            }
            return;
        }
        let chosen = self.random.below(self.links.len() as u64) as usize;
        let link = *self.links.keys().nth(chosen).unwrap();
        if slow == Some(link.0) && !self.random.one_in(30) {
            return;
        }
        let queue = self.links.get_mut(&link).unwrap();
        let chosen = if fifo { 0 } else { self.random.below(queue.len() as u64) as usize };
        let statement = queue.remove(chosen).unwrap();
        if queue.is_empty() {
            self.links.remove(&link);
        }
        self.handle(link.0, link.1, statement);
    }

    fn run(&mut self, steps: usize) {
        (0..self.size())
            .filter(|member| self.alive[*member])
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|member| self.propose(member));
        (0..steps).for_each(|_| self.step());
    }

    fn committed(&self) -> u64 {
        self.log.last_key_value().map_or(0, |(round, _)| round.0)
    }
}

/// Number of forked runs.
fn forks(sizes: &[usize], seeds: u64, steps: usize, adversary: impl Fn(&mut Random, usize) -> Adversary) -> usize {
    let mut forks = 0;
    for seed in 0..seeds {
        let size = sizes[(seed % sizes.len() as u64) as usize];
        let mut random = Random::new(seed).fork("adversary");
        let mut world = World::new(committee(size), adversary(&mut random, size), seed);
        if random.one_in(3) {
            world.alive[random.below(size as u64) as usize] = false;
        }
        world.run(steps);
        forks += usize::from(world.forked);
    }
    forks
}

/// Safety under any order of messages and any timers.
#[test]
fn schedules_do_not_fork() {
    let any = |random: &mut Random, size: usize| Adversary {
        window: [1, 2, 8][random.below(3) as usize],
        slow: random.one_in(2).then(|| random.below(size as u64) as usize),
        busy: random.one_in(2),
        fifo: random.one_in(2),
        timers: [5, 20, 100][random.below(3) as usize],
        ..FAIR
    };
    assert_eq!(forks(&[3, 5, 4], 2_000, 900, any), 0);
}

/// §2: the state that survives is enough, and so is what is sent again.
#[test]
fn restarts_do_not_fork() {
    let any = |random: &mut Random, size: usize| Adversary {
        window: [1, 8][random.below(2) as usize],
        slow: random.one_in(2).then(|| random.below(size as u64) as usize),
        busy: random.one_in(2),
        fifo: random.one_in(2),
        timers: [10, 40][random.below(2) as usize],
        restarts: [20, 100][random.below(2) as usize],
        ..FAIR
    };
    assert_eq!(forks(&[3, 5, 4], 2_000, 900, any), 0);
}

/// M0, X0: one slow sender and a leader with many blocks in flight. The ranks of the thesis fork, and ours do not.
#[test]
fn printed_ranks_fork_with_pipelining() {
    let busy = |printed_ranks: bool, window: u64| {
        move |random: &mut Random, size: usize| Adversary {
            window,
            printed_ranks,
            slow: Some(random.below(size as u64) as usize),
            busy: true,
            timers: [10, 30, 60][random.below(3) as usize],
            ..FAIR
        }
    };
    let count = |printed_ranks, window| forks(&[3, 5], 2_000, 900, busy(printed_ranks, window));
    assert_eq!(count(false, 64), 0);
    assert!(count(true, 64) > 0, "the schedules are too tame to show it");
    assert_eq!(count(true, 1), 0, "without pipelining, the ranks of the thesis are good enough");
}

/// X0, by hand: the leader of view 0 has blocks in flight above the block that the coin elects.
#[test]
fn committed_block_of_the_fallback_outranks_blocks_in_flight() {
    for printed in [false, true] {
        let adversary = Adversary { window: 8, printed_ranks: printed, busy: true, ..FAIR };
        let mut world = World::new(committee(3), adversary, 1);
        // Five blocks of the leader, which nobody else gets.
        (0..5).for_each(|_| {
            let draft = world.replicas[0].draft().unwrap();
            world.make(0, draft);
        });
        world.links.clear();
        let high = world.replicas[0].state().high;
        assert_eq!(high.rank, Rank { view: View(0), level: 0, round: Round(5) });
        // Levels 1 and 2 of the other two have rounds 1 and 2.
        let elected = BlockId { rank: Rank { view: View(0), level: 2, round: Round(2) }, proposer: index(1), ..high };
        assert_eq!(world.replicas[0].is_higher(&elected), !printed);
    }
}

/// M4, I5: under permanent attack, with all timers at zero, each view commits with probability Q/W or more.
#[test]
fn fallback_commits_more_often_than_not() {
    for votes in [vec![1; 3], vec![1; 5], vec![2, 2, 2, 1, 1]] {
        let committee = committee_of("sadl-racs", &votes);
        let (quorum, total) = (u64::from(committee.quorum().0), u64::from(committee.total().0));
        let (mut views, mut commits) = (0, 0);
        for seed in 0..20 {
            let mut world = World::new(committee.clone(), Adversary { busy: true, timers: 1_000_000, ..FAIR }, seed);
            for _ in 0..8_000 {
                (0..votes.len()).for_each(|member| world.expire(member));
                world.step();
            }
            assert!(!world.forked);
            assert_eq!(world.reasons.get("votes"), None, "no leader has the time");
            views += world.replicas.iter().map(|replica| replica.state().view.0).max().unwrap();
            let levels = world.log.values().filter(|block| block.rank.level == 2);
            commits += levels.count() as u64;
        }
        assert!(views > 300, "{views} views");
        // With a margin of 3 standard deviations or so.
        assert!(commits * total * 10 > views * quorum * 9, "{commits} commits in {views} views of {votes:?}");
    }
}

/// Liveness: with up to F crashed members, and whatever the network did before, timers lead to commits.
#[test]
fn commits_go_on_after_any_schedule() {
    for seed in 0..100 {
        let size = [3, 5][(seed % 2) as usize];
        let mut random = Random::new(seed).fork("adversary");
        let slow = random.one_in(2).then(|| random.below(size as u64) as usize);
        let restarts = [0, 50][random.below(2) as usize];
        let mut world = World::new(committee(size), Adversary { slow, restarts, busy: true, timers: 15, ..FAIR }, seed);
        let dead = random.below(size as u64) as usize;
        world.alive[dead] = !random.one_in(2);
        world.run(600);
        let before = world.committed();
        world.adversary = Adversary { restarts: 0, slow: None, ..world.adversary };
        for _ in 0..40 {
            world.say_again();
            // Those that are behind hear of it.
            let ahead = world.replicas.iter().map(|replica| replica.state()).max_by_key(|state| state.view).unwrap();
            let (view, high, from) = (ahead.view, ahead.high, world.replicas.len() - 1);
            (0..size).for_each(|to| world.send(from, to, Statement::Ahead { view, high }));
            (0..150).for_each(|_| world.step());
        }
        assert!(world.committed() > before + 2, "seed {seed}: round {} after {before}", world.committed());
        assert!(!world.forked);
    }
}

// ---- single rules

fn replica(member: usize, size: usize) -> Replica {
    World::new(committee(size), FAIR, 1).replica(member)
}

fn block(view: u64, level: u8, round: u64, proposer: usize) -> BlockId {
    let rank = Rank { view: View(view), level, round: Round(round) };
    BlockId { rank, proposer: index(proposer), digest: B256::with_last_byte(1) }
}

fn link(view: u64, level: u8, round: u64, proposer: usize, parent: BlockId) -> Link {
    Link { id: block(view, level, round, proposer), parent }
}

const GENESIS: BlockId =
    BlockId { rank: Rank { view: View(0), level: 0, round: Round(0) }, proposer: ValidatorIndex(0), digest: B256::ZERO };

fn propose(block: BlockId) -> Statement {
    Statement::Propose { block, commit: GENESIS }
}

fn timeout(view: u64, high: BlockId) -> Statement {
    Statement::Timeout { view: View(view), high }
}

/// Brings a replica of three into the fallback of a view.
fn into_fallback(replica: &mut Replica, view: u64, high: BlockId) {
    (1..3).for_each(|from| _ = replica.handle(index(from), timeout(view, high)));
    assert!(replica.state().is_async);
}

fn complete(replica: &mut Replica, block: BlockId) -> Vec<Output> {
    replica.handle(block.proposer, Statement::Complete { block })
}

/// Views in which the coin elects this member, for the seed of these tests.
fn view_of(elected: usize, size: usize) -> u64 {
    let coin = Coin::new(&committee(size), B256::ZERO);
    (0..).find(|view| coin.elect(View(*view)) == index(elected)).unwrap()
}

#[test]
fn follower_votes_once_for_each_block_in_order() {
    let mut follower = replica(1, 3);
    let vote = |block| vec![Output::Send(index(0), Statement::Vote { block })];
    assert_eq!(follower.handle(index(0), propose(block(0, 0, 1, 0))), vote(block(0, 0, 1, 0)));
    assert_eq!(follower.handle(index(0), propose(block(0, 0, 3, 0))), vote(block(0, 0, 3, 0)));
    assert_eq!(follower.handle(index(0), propose(block(0, 0, 2, 0))), []);
    assert_eq!(follower.handle(index(0), propose(block(0, 0, 3, 0))), vote(block(0, 0, 3, 0)), "the vote may be lost");
    assert_eq!(follower.state().high, block(0, 0, 3, 0));
}

/// S5: in a new view, the leader's first block counts, whatever the round of block_high is.
#[test]
fn new_view_starts_with_any_round() {
    let mut follower = replica(2, 3);
    follower.handle(index(0), propose(block(0, 0, 9, 0)));
    let first = block(1, 0, 4, 1);
    assert_eq!(follower.handle(index(1), propose(first)), [Output::Send(index(1), Statement::Vote { block: first })]);
    assert_eq!((follower.state().view, follower.state().high), (View(1), first));
}

/// S7, X1.
#[test]
fn nobody_votes_after_its_timer() {
    let mut follower = replica(1, 3);
    follower.handle(index(0), propose(block(0, 0, 1, 0)));
    assert_eq!(follower.expire(), [Output::SendAll(timeout(0, block(0, 0, 1, 0)))]);
    assert_eq!(follower.expire(), []);
    assert_eq!(follower.handle(index(0), propose(block(0, 0, 2, 0))), []);
    assert_eq!(follower.state().high, block(0, 0, 1, 0));
    let mut leader = replica(0, 3);
    leader.expire();
    assert_eq!(leader.draft(), None, "nor does the leader propose");
    // In the next view it votes again.
    let next = block(1, 0, 2, 1);
    assert_eq!(follower.handle(index(1), propose(next)), [Output::Send(index(1), Statement::Vote { block: next })]);
}

/// S2, S3, X2.
#[test]
fn new_leader_waits_for_a_quorum_of_new_views() {
    let mut new = replica(1, 3);
    assert_eq!(new.draft(), None);
    new.handle(index(1), Statement::Ahead { view: View(1), high: block(0, 0, 2, 0) });
    assert_eq!((new.state().view, new.draft()), (View(1), None));
    new.handle(index(1), Statement::NewView { view: View(1), high: block(0, 0, 2, 0) });
    assert_eq!(new.draft(), None);
    new.handle(index(2), Statement::NewView { view: View(1), high: block(0, 2, 1, 2) });
    let rank = Rank { view: View(1), level: 0, round: Round(2) };
    assert_eq!(new.draft(), Some(Draft { rank, parent: block(0, 2, 1, 2) }), "the maximum, by rank");
}

/// S6, X16.
#[test]
fn votes_of_a_quorum_commit() {
    let mut leader = replica(0, 3);
    let own = link(0, 0, 1, 0, GENESIS);
    leader.propose(own);
    let vote = |block| Statement::Vote { block };
    assert_eq!(leader.handle(index(1), vote(own.id)), []);
    assert_eq!(leader.handle(index(1), vote(own.id)), [], "one vote counts once");
    let other = BlockId { digest: B256::ZERO, ..own.id };
    assert_eq!(leader.handle(index(2), vote(other)), [], "votes for different blocks do not add up");
    assert_eq!(leader.handle(index(0), vote(own.id)), [Output::Commit(own.id, "votes")]);
    assert_eq!(leader.commit(), own.id);
}

/// S4.
#[test]
fn window_bounds_blocks_in_flight() {
    for window in [1, 3] {
        let mut world = World::new(committee(3), Adversary { window, busy: true, ..FAIR }, 1);
        world.propose(0);
        assert_eq!((world.replicas[0].in_flight(), world.replicas[0].draft()), (window, None));
    }
}

/// A1, X4.
#[test]
fn own_block_counts_in_the_fallback() {
    let mut follower = replica(0, 3);
    let own = link(0, 0, 1, 0, GENESIS);
    follower.propose(own);
    into_fallback(&mut follower, 0, GENESIS);
    let rank = Rank { view: View(0), level: 1, round: Round(2) };
    assert_eq!(follower.draft(), Some(Draft { rank, parent: own.id }));
}

/// A1: timeouts of a later view; those of one that is over do not count.
#[test]
fn timeouts_of_a_quorum_enter_the_fallback() {
    let mut follower = replica(0, 5);
    follower.handle(index(1), timeout(3, GENESIS));
    follower.handle(index(2), timeout(3, GENESIS));
    follower.handle(index(2), timeout(3, GENESIS));
    follower.handle(index(3), timeout(2, GENESIS));
    assert!(!follower.state().is_async);
    follower.handle(index(4), timeout(3, block(2, 0, 7, 2)));
    assert_eq!((follower.state().view, follower.state().is_async), (View(3), true));
    assert_eq!(follower.state().high, block(2, 0, 7, 2));
}

/// A1: a validator that is in the fallback keeps the timeouts of later views for the time after it.
#[test]
fn timeouts_of_later_views_wait_for_the_end_of_the_fallback() {
    let mut follower = replica(0, 3);
    into_fallback(&mut follower, 0, GENESIS);
    (1..3).for_each(|from| _ = follower.handle(index(from), timeout(1, GENESIS)));
    assert_eq!(follower.state().view, View(0));
    (1..3).for_each(|from| _ = complete(&mut follower, block(0, 2, 2, from)));
    assert_eq!((follower.state().view, follower.state().is_async), (View(1), true));
}

/// A2, X6: votes for blocks of the fallback change nothing but B_fall.
#[test]
fn votes_of_the_fallback_do_not_change_block_high() {
    let mut follower = replica(0, 3);
    into_fallback(&mut follower, 0, block(0, 0, 3, 0));
    let before = follower.state().clone();
    let (level1, level2) = (link(0, 1, 9, 1, GENESIS), link(0, 2, 10, 1, block(0, 1, 9, 1)));
    let vote = |block: Link| vec![Output::Send(index(1), Statement::VoteAsync { block: block.id })];
    for block in [level1, level2] {
        assert_eq!(follower.handle(index(1), Statement::ProposeAsync { block }), vote(block));
    }
    let fallback = [(index(1), level2.id)].into();
    assert_eq!(*follower.state(), corniche_racs::rules::State { fallback, ..before });
}

/// X5.
#[test]
fn early_messages_wait() {
    let mut follower = replica(0, 3);
    let level1 = link(0, 1, 1, 1, GENESIS);
    assert_eq!(follower.handle(index(1), Statement::ProposeAsync { block: level1 }), []);
    follower.handle(index(1), timeout(0, GENESIS));
    let vote = Output::Send(index(1), Statement::VoteAsync { block: level1.id });
    assert_eq!(follower.handle(index(2), timeout(0, GENESIS)), [vote]);
    // A leader's block of the next view waits for the end of this one.
    let next = block(1, 0, 3, 1);
    assert_eq!(follower.handle(index(1), propose(next)), []);
    let elected = Coin::new(&committee(3), B256::ZERO).elect(View(0)).as_usize();
    let others: Vec<usize> = (0..3).filter(|member| *member != elected).collect();
    complete(&mut follower, block(0, 2, 2, others[0]));
    let outputs = complete(&mut follower, block(0, 2, 2, others[1]));
    assert!(outputs.contains(&Output::Send(index(1), Statement::Vote { block: next })), "{outputs:?}");
}

/// A3, A5.
#[test]
fn two_levels_lead_to_completion() {
    let mut world = World::new(committee(3), FAIR, 1);
    into_fallback(&mut world.replicas[0], 0, GENESIS);
    let draft = world.replicas[0].draft().unwrap();
    assert_eq!(draft.rank.level, 1);
    world.make(0, draft);
    assert_eq!(world.replicas[0].draft(), None, "A7: one block of each level");
    let level1 = world.replicas[0].state().level1.unwrap().id;
    let vote = |block| Statement::VoteAsync { block };
    world.replicas[0].handle(index(0), vote(level1));
    assert_eq!(world.replicas[0].draft(), None);
    world.replicas[0].handle(index(2), vote(level1));
    let draft = world.replicas[0].draft().unwrap();
    assert_eq!((draft.rank.level, draft.parent), (2, level1));
    world.make(0, draft);
    let level2 = world.replicas[0].state().level2.unwrap().id;
    world.replicas[0].handle(index(0), vote(level2));
    let done = world.replicas[0].handle(index(1), vote(level2));
    assert_eq!(done, [Output::SendAll(Statement::Complete { block: level2 })]);
    assert_eq!(world.replicas[0].handle(index(2), vote(level2)), []);
}

/// A4, M5: a replica whose block of level 1 gets no quorum goes on with another one's.
#[test]
fn replica_adopts_a_block_with_votes() {
    let mut follower = replica(0, 3);
    into_fallback(&mut follower, 0, GENESIS);
    follower.propose(link(0, 1, 1, 0, GENESIS));
    let parent = block(0, 1, 4, 1);
    follower.handle(index(1), Statement::ProposeAsync { block: link(0, 2, 5, 1, parent) });
    let rank = Rank { view: View(0), level: 2, round: Round(5) };
    assert_eq!(follower.draft(), Some(Draft { rank, parent }));
}

/// A6: the three outcomes of the coin.
#[test]
fn coin_has_three_outcomes() {
    let (elected, others) = (1, [0, 2]);
    let view = view_of(elected, 3);
    let own = block(view, 0, 1, 0);
    let start = || {
        let mut follower = replica(2, 3);
        into_fallback(&mut follower, view, own);
        follower
    };
    let block_of = |member| block(view, 2, 3, member);
    let new_view =
        |high| Output::Send(leader(View(view + 1), &committee(3)), Statement::NewView { view: View(view + 1), high });
    // The elected one is among the first Q: its block is committed.
    let mut follower = start();
    assert_eq!(complete(&mut follower, block_of(0)), []);
    let outputs = complete(&mut follower, block_of(elected));
    assert_eq!(outputs, [Output::Commit(block_of(elected), "coin"), new_view(block_of(elected))]);
    // It is not, but this replica voted for its block (X8: no commit).
    let mut follower = start();
    let level2 = link(view, 2, 3, elected, block(view, 1, 2, elected));
    follower.handle(index(elected), Statement::ProposeAsync { block: level2 });
    complete(&mut follower, block_of(others[0]));
    assert_eq!(complete(&mut follower, block_of(others[1])), [new_view(block_of(elected))]);
    assert_eq!(follower.commit(), GENESIS);
    // Nothing is known of it, and a vote for another block does not count (X7).
    let mut follower = start();
    let other = link(view, 2, 3, others[0], block(view, 1, 2, others[0]));
    follower.handle(index(others[0]), Statement::ProposeAsync { block: other });
    complete(&mut follower, block_of(others[0]));
    assert_eq!(complete(&mut follower, block_of(others[1])), [new_view(own)]);
    assert_eq!((follower.state().view, follower.state().is_async), (View(view + 1), false));
}

/// §2, I2: a vote of the fallback survives a restart.
#[test]
fn restarted_replica_keeps_the_elected_block() {
    let elected = 1;
    let view = view_of(elected, 3);
    let mut before = replica(2, 3);
    into_fallback(&mut before, view, GENESIS);
    let level2 = link(view, 2, 3, elected, block(view, 1, 2, elected));
    before.handle(index(elected), Statement::ProposeAsync { block: level2 });
    let mut after = replica(2, 3).with_state(before.state().clone());
    [0, 2].iter().for_each(|from| _ = complete(&mut after, block(view, 2, 4, *from)));
    assert_eq!((after.state().view, after.state().high), (View(view + 1), level2.id));
}

/// J1, I2: a replica that leaves the fallback because it is behind takes the elected block along.
#[test]
fn replica_that_is_behind_keeps_the_elected_block() {
    let elected = 1;
    let view = view_of(elected, 3);
    let mut follower = replica(2, 3);
    into_fallback(&mut follower, view, GENESIS);
    let level2 = link(view, 2, 3, elected, block(view, 1, 2, elected));
    follower.handle(index(elected), Statement::ProposeAsync { block: level2 });
    follower.handle(index(0), Statement::Ahead { view: View(view + 2), high: block(view, 0, 1, 0) });
    assert_eq!((follower.state().view, follower.state().high), (View(view + 2), level2.id));
}

/// J2: a committed block shows where the others are.
#[test]
fn committed_block_moves_a_replica_on() {
    let mut follower = replica(2, 3);
    follower.learn(block(4, 0, 9, 1));
    assert_eq!((follower.state().view, follower.state().high), (View(4), block(4, 0, 9, 1)));
    follower.learn(block(6, 2, 12, 1));
    assert_eq!((follower.state().view, follower.state().high), (View(7), block(6, 2, 12, 1)));
    follower.learn(block(5, 0, 10, 1));
    assert_eq!((follower.commit(), follower.state().view), (block(6, 2, 12, 1), View(7)));
}

/// X14.
#[test]
fn silent_replica_says_nothing() {
    let mut silent = replica(0, 3).with_silence(Silence::Through(View(1)));
    assert_eq!((silent.draft(), silent.expire()), (None, vec![]));
    assert_eq!(silent.handle(index(1), propose(block(1, 0, 1, 1))), []);
    into_fallback(&mut silent, 1, GENESIS);
    assert_eq!(silent.draft(), None);
    assert_eq!(silent.handle(index(1), Statement::ProposeAsync { block: link(1, 1, 1, 1, GENESIS) }), []);
    assert_eq!(silent.current(), []);
    silent.handle(index(1), Statement::Ahead { view: View(2), high: GENESIS });
    let next = block(2, 0, 5, 2);
    assert_eq!(silent.handle(index(2), propose(next)), [Output::Send(index(2), Statement::Vote { block: next })]);
}

/// M8, X9: equal at all members, different in each view, and each vote has the same chance.
#[test]
fn coin_is_common_and_fair() {
    let votes = [3, 1, 1, 2];
    let committee = committee_of("sadl-racs", &votes);
    let coin = |seed: u8| Coin::new(&committee, B256::with_last_byte(seed));
    let draws = |seed: u8| (0..7_000).map(|view| coin(seed).elect(View(view))).collect::<Vec<_>>();
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
    for (member, votes) in votes.iter().enumerate() {
        let count = draws(1).iter().filter(|elected| **elected == index(member)).count() as u32;
        assert!((900 * votes..1_100 * votes).contains(&count), "member {member} with {votes} votes: {count} of 7000");
    }
}

/// S1.
#[test]
fn leaders_take_turns() {
    let leaders: Vec<_> = (0..4).map(|view| leader(View(view), &committee(3)).0).collect();
    assert_eq!(leaders, [0, 1, 2, 0]);
}

/// K5: votes of the fallback do not change block_high, but may commit a block. A quorum reports its round.
#[test]
fn reports_contain_what_the_fallback_commits() {
    let mut world = World::new(committee(3), FAIR, 1);
    (0..3).for_each(|member| world.expire(member));
    let next = |world: &mut World| {
        let (&(from, to), statements) = world.links.iter_mut().find(|(_, statements)| !statements.is_empty())?;
        Some((from, to, statements.pop_front()?))
    };
    while let Some((from, to, statement)) = next(&mut world) {
        // Only replica 0 ends the fallback.
        if !matches!(statement, Statement::Complete { .. }) || to == 0 && from != 1 {
            world.handle(from, to, statement);
        }
    }
    let replicas = &world.replicas;
    let committed = replicas[0].commit().rank.round;
    assert_eq!((committed, replicas[1].state().high.rank.round), (Round(2), Round(0)));
    assert!(replicas[1..].iter().any(|replica| replica.highest_round() >= committed));
}
