//! Random schedules: a Byzantine validator that mixes all attacks, links that lose and reorder messages, validators
//! that lose power. No slot may ever split, which [`Net`] checks at each commit. Once the links are sound, everything
//! must be committed, although the double continues its attacks.

use crate::{
    net::{DELAY, Net, Transport, index, plain},
    scripted::{ScriptedValidator, Shares},
};
use corniche_autobahn::{
    Config,
    message::{CommitKind, CommitQc, Cut, Message, PrepareQc, Slot, Timeout, View},
    rules::{Schedule, select},
};
use corniche_engine::Committee;
use corniche_testkit::{Random, faulty_members, unequal_votes};
use corniche_types::{B256, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Remembers all received messages, votes for everything, reports anything, and as a leader shows different messages to
/// different validators.
struct Chaos {
    scripted: ScriptedValidator,
    schedule: Schedule,
    random: Random,
    open_slots: u64,
    committee: Committee,
    cuts: BTreeMap<(Slot, B256), Cut>,
    votes: BTreeMap<(Slot, View, B256), Shares>,
    acks: BTreeMap<(Slot, View, B256), Shares>,
    certificates: BTreeMap<(Slot, View), PrepareQc>,
    commits: BTreeMap<Slot, CommitQc>,
    timeouts: BTreeMap<(Slot, View), BTreeMap<ValidatorIndex, Timeout>>,
    proposed: BTreeMap<Slot, usize>,
    /// Votes for everything and later claims to have seen nothing; shows a required proposal to at most one other
    /// validator.
    is_shy: bool,
}

impl Chaos {
    fn new(net: &Net, node: usize, random: Random) -> Self {
        Self {
            scripted: ScriptedValidator::of(net, node),
            schedule: Schedule::new(&net.committee, &net.config),
            random,
            open_slots: net.config.open_slots,
            committee: net.committee.clone(),
            cuts: BTreeMap::new(),
            votes: BTreeMap::new(),
            acks: BTreeMap::new(),
            certificates: BTreeMap::new(),
            commits: BTreeMap::new(),
            timeouts: BTreeMap::new(),
            proposed: BTreeMap::new(),
            is_shy: false,
        }
    }

    fn take(&mut self, transport: &mut Transport, from: ValidatorIndex, message: &Message) {
        match message {
            Message::Prepare(prepare) => {
                let (slot, value) = (prepare.cut.slot, self.scripted.context.cut(&prepare.cut));
                self.cuts.insert((slot, value), prepare.cut.clone());
                self.commits.extend(prepare.previous.iter().map(|certificate| (certificate.slot, certificate.clone())));
                self.vote(transport, slot, prepare.view, value);
                self.propose_first(transport, Slot(slot.0 + 1));
            }
            Message::PrepareVote { vote, .. } => {
                self.votes.entry((vote.slot, vote.view, vote.cut)).or_default().insert(from, vote.share.clone());
                self.certify(transport, vote.slot, vote.view, vote.cut);
            }
            Message::Confirm(certificate) => {
                self.certificates.insert((certificate.slot, certificate.view), certificate.clone());
                let ack = self.scripted.ack(certificate.slot, certificate.view, certificate.cut);
                self.send_to_some(transport, &ack, 3);
            }
            Message::ConfirmAck(vote) => {
                self.acks.entry((vote.slot, vote.view, vote.cut)).or_default().insert(from, vote.share.clone());
                self.certify(transport, vote.slot, vote.view, vote.cut);
            }
            Message::Commit(certificate) => {
                self.commits.insert(certificate.slot, certificate.clone());
                self.propose_first(transport, Slot(certificate.slot.0 + 1));
            }
            Message::Timeout(timeout) => self.complain(transport, from, timeout),
            Message::FetchCut { slot, cut } => {
                if let Some(cut) = self.cuts.get(&(*slot, *cut)).filter(|_| self.random.one_in(2)) {
                    transport.send(self.scripted.me, from, Message::Cut(cut.clone()));
                }
            }
            _ => {}
        }
    }

    /// To each other validator, except one in `times`.
    fn send_to_some(&mut self, transport: &mut Transport, message: &Message, times: u64) {
        for to in self.others() {
            if self.is_shy || !self.random.one_in(times) {
                transport.send(self.scripted.me, to, message.clone());
            }
        }
    }

    fn others(&self) -> impl Iterator<Item = ValidatorIndex> + use<> {
        let me = self.scripted.me;
        (0..self.scripted.size).map(index).filter(move |to| *to != me)
    }

    fn vote(&mut self, transport: &mut Transport, slot: Slot, view: View, value: B256) {
        let vote = self.scripted.vote(slot, view, value);
        self.send_to_some(transport, &vote, 3);
    }

    /// Proposes at most two own cuts in the first view of a slot, each to some validators.
    fn propose_first(&mut self, transport: &mut Transport, slot: Slot) {
        let proposed = self.proposed.entry(slot).or_default();
        if self.schedule.leader(slot, View(0)) != self.scripted.me || *proposed >= 2 {
            return;
        }
        *proposed += 1;
        let Ok(previous) = self.ticket(slot) else { return };
        for _ in 0..2 {
            let cut = self.fresh(transport, slot, previous.as_ref());
            let prepare = self.scripted.prepare(View(0), cut, previous.clone(), None);
            self.send_to_some(transport, &prepare, 2);
        }
    }

    fn ticket(&self, slot: Slot) -> Result<Option<CommitQc>, ()> {
        match slot.0.checked_sub(self.open_slots) {
            None | Some(0) => Ok(None),
            Some(anchor) => self.commits.get(&Slot(anchor)).cloned().map(Some).ok_or(()),
        }
    }

    fn fresh(&mut self, transport: &Transport, slot: Slot, previous: Option<&CommitQc>) -> Cut {
        let anchor = previous.map(|certificate| certificate.cut).unwrap_or_default();
        let cut = self.scripted.cut(slot.0, anchor, transport.now.saturating_sub(self.random.below(3)));
        let value = self.scripted.context.cut(&cut);
        self.cuts.insert((slot, value), cut.clone());
        cut
    }

    /// As a leader: sends certificates to any validators. Its own shares are always included.
    fn certify(&mut self, transport: &mut Transport, slot: Slot, view: View, value: B256) {
        if let Message::PrepareVote { vote, .. } = self.scripted.vote(slot, view, value) {
            self.votes.entry((slot, view, value)).or_default().insert(self.scripted.me, vote.share);
        }
        if let Message::ConfirmAck(vote) = self.scripted.ack(slot, view, value) {
            self.acks.entry((slot, view, value)).or_default().insert(self.scripted.me, vote.share);
        }
        let (votes, acks) = (&self.votes[&(slot, view, value)], &self.acks[&(slot, view, value)]);
        let mut shown = Vec::new();
        if self.is_quorum(votes) {
            let certificate = ScriptedValidator::prepare_certificate(slot, view, value, votes);
            self.certificates.insert((slot, view), certificate.clone());
            shown.push(Message::Confirm(certificate));
            // Not a valid certificate; must be rejected.
            shown.push(Message::Commit(ScriptedValidator::commit_certificate(CommitKind::Slow, slot, view, value, votes)));
        }
        if votes.len() == self.scripted.size {
            shown.push(Message::Commit(ScriptedValidator::commit_certificate(CommitKind::Fast, slot, view, value, votes)));
        }
        if self.is_quorum(acks) {
            shown.push(Message::Commit(ScriptedValidator::commit_certificate(CommitKind::Slow, slot, view, value, acks)));
        }
        shown.iter().for_each(|message| self.send_to_some(transport, message, 2));
    }

    /// Its own complaints contain any lie that would be accepted, a different one for each validator. As the next
    /// leader it picks its TC.
    fn complain(&mut self, transport: &mut Transport, from: ValidatorIndex, timeout: &Timeout) {
        let (slot, view) = (timeout.slot, timeout.view);
        for cut in &timeout.cuts {
            self.cuts.insert((slot, self.scripted.context.cut(cut)), cut.clone());
        }
        self.certificates.extend(timeout.confirmed.iter().map(|it| ((slot, it.view), it.clone())));
        self.timeouts.entry((slot, view)).or_default().insert(from, timeout.clone());
        for to in self.others() {
            let lie = self.lie(slot, view);
            transport.send(self.scripted.me, to, Message::Timeout(lie));
        }
        let next = View(view.0 + 1);
        if self.schedule.leader(slot, next) != self.scripted.me {
            return;
        }
        let shown = self.random.below(self.scripted.size as u64) as usize;
        let is_shy = self.is_shy;
        for to in self.others().filter(|to| !is_shy || *to == index(shown)) {
            let Some(reason) = self.reason(slot, view) else { return };
            let Ok(previous) = self.ticket(slot) else { return };
            let cut = match select(&reason, &self.committee) {
                Some(winner) => match self.cuts.get(&(slot, winner)) {
                    Some(cut) => cut.clone(),
                    None => continue,
                },
                None => self.fresh(transport, slot, previous.as_ref()),
            };
            if self.is_shy || self.random.one_in(2) {
                transport.send(self.scripted.me, to, self.scripted.prepare(next, cut, previous, Some(reason)));
            }
        }
    }

    fn lie(&mut self, slot: Slot, view: View) -> Timeout {
        if self.is_shy && !self.random.one_in(4) {
            return self.scripted.timeout(slot, view, None, None);
        }
        let known: Vec<_> = self.cuts.keys().filter(|(of, _)| *of == slot).map(|(_, value)| *value).collect();
        let voted = (!known.is_empty() && !self.random.one_in(3)).then(|| {
            let value = known[self.random.below(known.len() as u64) as usize];
            (View(self.random.below(u64::from(view.0) + 1) as u32), value)
        });
        let certificates: Vec<_> = self.certificates.range((slot, View(0))..=(slot, view)).map(|(_, it)| it.clone()).collect();
        let confirmed = (!certificates.is_empty() && self.random.one_in(2))
            .then(|| certificates[self.random.below(certificates.len() as u64) as usize].clone());
        self.scripted.timeout(slot, view, voted, confirmed)
    }

    fn is_quorum<T>(&self, from: &BTreeMap<ValidatorIndex, T>) -> bool {
        self.committee.weigh(from.keys().copied()) >= self.committee.quorum()
    }

    /// Any quorum of received complaints, with or without a lie of its own.
    fn reason(&mut self, slot: Slot, view: View) -> Option<corniche_autobahn::message::TimeoutQc> {
        let mut all = self.timeouts[&(slot, view)].clone();
        let lie = self.lie(slot, view);
        all.insert(self.scripted.me, lie);
        while self.committee.weigh(all.keys().copied()) > self.committee.quorum() {
            let place = self.random.below(all.len() as u64) as usize;
            let mut fewer = all.clone();
            fewer.remove(all.keys().nth(place)?);
            if !self.is_quorum(&fewer) {
                break;
            }
            all = fewer;
        }
        self.is_quorum(&all).then(|| ScriptedValidator::timeouts(slot, view, &all))
    }
}

/// The votes of the committees of a test, of which each schedule draws one.
type Committees = Vec<Vec<u32>>;

fn equal_votes(sizes: &[usize]) -> Committees {
    sizes.iter().map(|size| vec![1; *size]).collect()
}

fn weighted() -> Committees {
    [4, 4, 6, 7].map(unequal_votes).into()
}

/// Faulty members: at most two, because each double complains to all others about every complaint: the messages of three would
/// double with every delay.
fn faulty(committee: &Committee, order: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
    faulty_members(committee, order).take(2).collect()
}

/// Runs one schedule. Returns the number of committed slots, and the highest view of a commit.
fn run(seed: u64, committees: &Committees) -> (usize, u32) {
    let mut random = Random::new(seed);
    let votes = &committees[random.below(committees.len() as u64) as usize];
    let size = votes.len();
    let config = Config {
        all_to_all: random.one_in(3),
        fast_path: !random.one_in(4),
        stable_leader: random.one_in(6),
        open_slots: random.between(1, 4),
        view_timeout_ms: 200,
        max_view_timeout_ms: 2_000,
        resend_ms: 150,
        fetch_retry_ms: 50,
        fast_wait_ms: random.between(0, 20),
        ..plain()
    };
    let mut net = Net::with_votes(votes, config);
    net.disk = random.below(6);
    let mut order: Vec<_> = (0..size).collect();
    random.shuffle(&mut order);
    let doubles = faulty(&net.committee, order);
    for node in &doubles {
        let mut chaos = Chaos::new(&net, *node, random.fork(&format!("double {node}")));
        net.corrupt(*node, Box::new(move |transport, from, message| chaos.take(transport, from, message)));
    }
    // Some kinds of messages are lost more often than others, and some links fail for a while.
    let loss: Vec<u64> = (0..9).map(|_| [2, 3, 6, 40][random.below(4) as usize]).collect();
    let (mut links, cut_off) = (random.fork("links"), index(random.below(size as u64) as usize));
    let (from_ms, to_ms) = (random.below(1_500), random.between(300, 2_500));
    net.link = Box::new(move |now, from, to, message| {
        let is_cut = (from == cut_off || to == cut_off) && (from_ms..to_ms).contains(&now);
        let kind = ["prepare", "prepared", "confirm", "confirmed", "commit", "timeout", "timed-out", "fetch-cut", "cut"]
            .iter()
            .position(|kind| *kind == crate::net::kind(message));
        let lost = is_cut || kind.is_some_and(|kind| links.one_in(loss[kind]));
        (!lost).then(|| links.between(1, 40))
    });
    let correct: Vec<_> = (0..size).filter(|node| net.is_correct(*node)).collect();
    for _ in 0..20 {
        net.grow();
        net.run_for(random.between(20, 250));
        let node = correct[random.below(correct.len() as u64) as usize];
        if random.one_in(4) {
            net.crash(node);
            net.start(node);
        }
    }
    net.link = Box::new(|_, _, _, _| Some(DELAY));
    net.grow();
    let height = net.nodes[correct[0]].lanes.certified[&index(0)].tip.position;
    let is_whole = |net: &Net| {
        let has_all = |cut: &Cut| cut.tips.iter().all(|tip| tip.position == height);
        correct.iter().all(|node| net.nodes[*node].commits.values().any(|(cut, ..)| has_all(cut)))
    };
    assert!(net.run_until(120_000, is_whole), "seed {seed}, votes {votes:?}, doubles {doubles:?}: no end\n{}", net.describe());
    let highest =
        correct.iter().flat_map(|node| net.nodes[*node].commits.values()).map(|(_, certificate, _)| certificate.view.0);
    (net.values.len(), highest.max().unwrap_or(0))
}

/// One slot is committed fast by a leader that then falls silent; a shy double leads one of the next views (P1).
fn unheard(seed: u64, committees: &Committees) -> (bool, u32) {
    let mut random = Random::new(seed);
    let votes = &committees[random.below(committees.len() as u64) as usize];
    let timers = Config {
        view_timeout_ms: 200,
        max_view_timeout_ms: 400,
        resend_ms: 150,
        fetch_retry_ms: 50,
        fast_wait_ms: 30,
        ..plain()
    };
    let mut net = Net::with_votes(votes, timers);
    let leader = net.leader(1, 0);
    let next = (1..net.committee.total().0).map(|view| net.leader(1, view)).filter(|node| *node != leader);
    let mut known = BTreeSet::new();
    for node in faulty(&net.committee, next.filter(|node| known.insert(*node))) {
        let mut chaos = Chaos::new(&net, node, random.fork(&format!("double {node}")));
        chaos.is_shy = true;
        net.corrupt(node, Box::new(move |transport, from, message| chaos.take(transport, from, message)));
    }
    let (cut_off, since, mut links) = (index(leader), random.between(15, 45), random.fork("links"));
    net.link = Box::new(move |now, from, to, _| {
        let is_cut = (from == cut_off || to == cut_off) && (since..3_000).contains(&now);
        (!is_cut && !links.one_in(12)).then(|| links.between(5, 15))
    });
    net.grow();
    net.run_for(3_000);
    net.link = Box::new(|_, _, _, _| Some(DELAY));
    assert!(net.run_until(60_000, |net| net.all_committed(1)), "seed {seed}, votes {votes:?}: no end\n{}", net.describe());
    let (_, first, _) = &net.nodes[leader].commits[&Slot(1)];
    let views = net.nodes.iter().filter_map(|node| node.commits.get(&Slot(1))).map(|(_, certificate, _)| certificate.view.0);
    (first.view == View(0), views.max().unwrap_or(0))
}

fn unseen_commits(count: u64, committees: &Committees) {
    let (mut unheard_of, mut views) = (0, 0);
    for seed in seeds(count) {
        let (was_fast, view) = unheard(seed, committees);
        unheard_of += usize::from(was_fast && view > 1);
        views = views.max(view);
    }
    eprintln!("{unheard_of} commits that others made again, up to view {views}");
    assert!(number("CORNICHE_SEED").is_some() || unheard_of > 20, "{unheard_of}: the attack rarely takes place");
}

#[test]
fn random_schedules_with_unseen_commits() {
    unseen_commits(200, &equal_votes(&[4, 4, 5, 7]));
}

#[test]
fn random_schedules_with_unseen_commits_and_unequal_votes() {
    unseen_commits(200, &weighted());
}

#[test]
fn random_schedules_with_doubles() {
    schedules_with_doubles(400, &equal_votes(&[4, 4, 4, 5, 6, 7]));
}

#[test]
fn random_schedules_with_doubles_and_unequal_votes() {
    schedules_with_doubles(200, &weighted());
}

fn schedules_with_doubles(count: u64, committees: &Committees) {
    let (mut slots, mut views) = (0, 0);
    for seed in seeds(count) {
        let (committed, view) = run(seed, committees);
        slots += committed;
        views = views.max(view);
    }
    eprintln!("{slots} slots, up to view {views}");
    assert!(views > 2, "the doubles did nothing");
}

/// `CORNICHE_SEED` alone, or `count` fixed ones; `CORNICHE_SCHEDULES` sets the number.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match number("CORNICHE_SEED") {
        Some(seed) => seed..seed + number("CORNICHE_SCHEDULES").unwrap_or(1),
        None => 0..number("CORNICHE_SCHEDULES").unwrap_or(count),
    }
}

fn number(name: &str) -> Option<u64> {
    #[allow(clippy::disallowed_methods)] // The choice of seeds does not affect any single run.
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text}, not a number")))
}
