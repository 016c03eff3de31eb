//! Pacing: tickets, coverage, idleness, bounds, and the switching of the fast path.

use crate::{
    net::{DELAY, Net, index, plain},
    scripted::{ScriptedValidator, Shares},
};
use corniche_autobahn::{
    Config,
    message::{CommitKind, CommitQc, Cut, Message, Position, Slot, View},
};
use corniche_types::{B256, TimestampMs};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn idle_network_has_no_slots_or_timers() {
    // P10, rows 9 and 41.
    let mut net = Net::new(4, plain());
    assert!(net.nodes.iter().all(|node| node.slots.as_ref().is_some_and(|slots| slots.deadline().is_none())));
    net.grow();
    assert!(net.run_until(200, |net| net.all_committed(1)));
    net.run_for(100_000);
    for node in &net.nodes {
        assert_eq!(node.commits.len(), 1);
        assert_eq!(node.slots.as_ref().and_then(|slots| slots.deadline()), None);
    }
    assert_eq!(net.sent.get("timeout"), None);
}

#[test]
fn committed_news_stops_timer() {
    // P10. Only one validator gets the first proposal of slot 1, and then learns of a car that is not in it: its timer
    // for slot 2 runs. The second view of slot 1 takes the car.
    let mut net = Net::new(7, Config { coverage_wait_ms: 50, ..plain() });
    let alone = index(6);
    net.link = Box::new(move |_, _, to, message| match message {
        Message::Prepare(prepare) if prepare.view == View(0) && to != alone => None,
        _ => Some(DELAY),
    });
    let all: Vec<_> = (0..7).collect();
    (0..5).for_each(|lane| net.certify(lane, 1, &all));
    net.run_for(100);
    net.certify(5, 1, &all);
    assert!(net.run_until(3_000, |net| net.all_committed(1)));
    assert_eq!(net.nodes[0].commits[&Slot(1)].0.tips[5].position, Position(1), "the second view took it");
    assert!(net.now < 1_090, "before the timer of slot 2: {} ms", net.now);
    net.run_for(10_000);
    let complaints: Vec<_> = all.iter().flat_map(|node| net.noted(*node, "timeout")).collect();
    assert!(complaints.iter().all(|(_, detail)| detail.starts_with("slot 1 ")), "{complaints:?}");
    assert!(net.is_idle());
}

#[test]
fn leader_without_news_stays_idle() {
    // P10: one validator proposes the old tips in each of its own open slots, as soon as allowed, and certifies what it
    // gets. Such slots rest until there is something to commit.
    for (old, fast_path) in [(true, true), (false, true), (true, false)] {
        let mut net = Net::new(4, Config { fast_path, ..plain() });
        net.grow();
        assert!(net.run_until(5_000, |net| net.all_committed(1)));
        net.run_for(1_000);
        let double = net.leader(4, 0);
        let mut hasty = EarlyProposer::new(ScriptedValidator::of(&net, double), old);
        let (cut, certificate, _) = &net.nodes[double].commits[&Slot(1)];
        hasty.cut = Some(Cut::clone(cut));
        hasty.commits.insert(Slot(1), certificate.clone());
        let mine: Vec<u64> = (2..200).filter(|slot| net.leads(double, *slot, 0)).collect();
        let first = certificate.clone();
        net.corrupt(double, Box::new(move |transport, from, message| hasty.take(transport, from, message, &mine)));
        // It begins when it receives this message.
        net.send((double + 1) % 4, double, Message::Commit(first));
        net.run_for(60_000);
        let committed = net.values.len();
        assert!(committed <= 2, "{committed} slots of nothing");
        assert_eq!(net.sent.get("timeout"), None);
        for node in net.running() {
            assert_eq!(net.nodes[node].slots.as_ref().and_then(|slots| slots.deadline()), None, "{}", net.describe());
        }
        for round in 2..10 {
            net.grow();
            let has_all = |net: &Net| {
                let takes = |cut: &Cut| cut.tips.iter().all(|tip| tip.position == Position(round));
                net.running().all(|node| net.nodes[node].commits.values().any(|(cut, ..)| takes(cut)))
            };
            assert!(net.run_until(10_000, has_all), "round {round}\n{}", net.describe());
        }
    }
}

/// A leader that always proposes committed tips, or lower ones.
struct EarlyProposer {
    scripted: ScriptedValidator,
    old: bool,
    commits: BTreeMap<Slot, CommitQc>,
    cut: Option<Cut>,
    votes: BTreeMap<(Slot, bool), Shares>,
    proposed: BTreeSet<u64>,
}

impl EarlyProposer {
    fn new(scripted: ScriptedValidator, old: bool) -> Self {
        Self { scripted, old, commits: BTreeMap::new(), cut: None, votes: BTreeMap::new(), proposed: BTreeSet::new() }
    }

    fn take(
        &mut self,
        transport: &mut crate::net::Transport,
        from: corniche_types::ValidatorIndex,
        message: &Message,
        mine: &[u64],
    ) {
        let (me, size) = (self.scripted.me, self.scripted.size);
        let mut all = Vec::new();
        match message {
            Message::PrepareVote { vote, .. } if vote.view == View(0) => {
                let Message::PrepareVote { vote: own, .. } = self.scripted.vote(vote.slot, View(0), vote.cut) else { return };
                let votes = self.votes.entry((vote.slot, true)).or_insert_with(|| Shares::from([(me, own.share)]));
                votes.insert(from, vote.share.clone());
                if votes.len() == 3 {
                    all.push(Message::Confirm(ScriptedValidator::prepare_certificate(vote.slot, View(0), vote.cut, votes)));
                }
            }
            Message::ConfirmAck(vote) if vote.view == View(0) => {
                let Message::ConfirmAck(own) = self.scripted.ack(vote.slot, View(0), vote.cut) else { return };
                let acks = self.votes.entry((vote.slot, false)).or_insert_with(|| Shares::from([(me, own.share)]));
                acks.insert(from, vote.share.clone());
                if acks.len() == 3 {
                    let commit = ScriptedValidator::commit_certificate(CommitKind::Slow, vote.slot, View(0), vote.cut, acks);
                    self.commits.insert(vote.slot, commit.clone());
                    all.push(Message::Commit(commit));
                }
            }
            Message::Commit(certificate) => drop(self.commits.insert(certificate.slot, certificate.clone())),
            _ => {}
        }
        if let (Message::Commit(_), Some(cut)) = (message, &self.cut) {
            for slot in mine.iter().filter(|slot| !self.proposed.contains(slot)).copied().collect::<Vec<_>>() {
                let previous = slot.checked_sub(4).filter(|anchor| *anchor > 0).map(|anchor| self.commits.get(&Slot(anchor)));
                let previous = match previous {
                    None => None,
                    Some(Some(certificate)) => Some(certificate.clone()),
                    Some(None) => continue,
                };
                self.proposed.insert(slot);
                let anchor = previous.as_ref().map_or(B256::ZERO, |certificate| certificate.cut);
                let tips = if self.old { cut.tips.clone() } else { self.scripted.cut(slot, anchor, 0).tips };
                let cut = Cut { slot: Slot(slot), anchor, time: TimestampMs(transport.now), tips };
                all.push(self.scripted.prepare(View(0), cut, previous, None));
            }
        }
        for message in all {
            (0..size).map(index).filter(|to| *to != me).for_each(|to| transport.send(me, to, message.clone()));
        }
    }
}

#[test]
fn leader_proposes_below_coverage_after_wait() {
    // P10: one lane of four has news.
    let mut net = Net::new(4, Config { coverage_wait_ms: 30, ..plain() });
    net.certify(2, 1, &[0, 1, 2, 3]);
    assert!(net.run_until(500, |net| net.all_committed(1)));
    assert_eq!(net.proposed_at(1, 0), Some(30));
    let (cut, ..) = &net.nodes[0].commits[&Slot(1)];
    let positions: Vec<_> = cut.tips.iter().map(|tip| tip.position.0).collect();
    assert_eq!(positions, [0, 0, 1, 0], "row 11: all lanes, also those without news");
}

#[test]
fn coverage_paces_slots() {
    // Row 9: three lanes have news at once, the fourth after 20 ms.
    for (coverage, start) in [(1, 0), (0, 0), (4, 20)] {
        let mut net = Net::new(4, Config { coverage, coverage_wait_ms: 500, ..plain() });
        [0, 1, 2].into_iter().for_each(|lane| net.certify(lane, 1, &[0, 1, 2, 3]));
        net.run_for(20);
        net.certify(3, 1, &[0, 1, 2, 3]);
        assert!(net.run_until(500, |net| net.all_committed(1)));
        assert_eq!(net.proposed_at(1, 0), Some(start), "coverage {coverage}");
    }
}

#[test]
fn stalled_commits_leave_k_slots_open() {
    // Row 15, invariant (g).
    let mut net = Net::new(4, plain());
    net.link = Box::new(|now, _, _, message| (now > 700 || !matches!(message, Message::PrepareVote { .. })).then_some(DELAY));
    for _ in 0..30 {
        net.grow();
        net.run_for(20);
    }
    let proposed: Vec<_> = (1..=10).filter(|slot| net.proposed_at(*slot, 0).is_some()).collect();
    assert_eq!(proposed, [1, 2, 3, 4], "k = 4");
    assert!(net.run_until(20_000, |net| net.all_committed(5)));
    let (cut, ..) = &net.nodes[0].commits[&Slot(5)];
    assert!(cut.tips.iter().all(|tip| tip.position == Position(30)), "one cut takes it all: {cut:?}");
}

#[test]
fn fast_path_pauses_while_validator_is_down() {
    // P19.
    let mut net = Net::new(4, Config { fast_wait_ms: 8, ..plain() });
    net.crash(3);
    let mut took = Vec::new();
    let mut slot = 0;
    let commit_next = |net: &mut Net, slot: &mut u64| {
        *slot += 1;
        net.grow();
        assert!(net.run_until(5_000, |net| net.all_committed(*slot)), "slot {slot}");
        let start = net.proposed_at(*slot, 0);
        let end = net.running().filter_map(|node| net.committed_at(node, *slot)).max();
        start.zip(end).map(|(start, end)| end - start)
    };
    while slot < 40 {
        took.extend(commit_next(&mut net, &mut slot));
    }
    // Slots of the crashed leader take an extra view and are not among these.
    assert_eq!(took.first(), Some(&(5 * DELAY + 8)), "the first pays for waiting: {took:?}");
    assert!(took[12..].iter().all(|ms| *ms == 5 * DELAY), "later ones do not: {took:?}");
    net.start(3);
    for _ in 0..12 {
        commit_next(&mut net, &mut slot);
    }
    took.clear();
    while took.len() < 8 {
        took.extend(commit_next(&mut net, &mut slot));
    }
    assert_eq!(took, [3 * DELAY; 8], "all are back");
    // And the leader waits again: the slowest vote is worth it, and no CONFIRM is sent.
    net.link = Box::new(|_, from, _, message| {
        Some(if from == index(3) && matches!(message, Message::PrepareVote { .. }) { DELAY + 3 } else { DELAY })
    });
    let before = net.sent["confirm"];
    for _ in 0..8 {
        commit_next(&mut net, &mut slot);
    }
    assert_eq!(net.sent["confirm"], before);
}

#[test]
fn uninformed_leader_receives_news() {
    // P11: all validators except the leader of slot 1 know that a lane has grown.
    let mut net = Net::new(4, plain());
    let leader = (0..4).find(|node| net.leads(*node, 1, 0)).expect("somebody leads");
    let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
    net.certify(leader, 1, &others);
    assert!(net.run_until(900, |net| net.all_committed(1)), "before any view timer");
    assert_eq!(net.sent.get("timeout"), None);
}

#[test]
fn hidden_ticket_is_forwarded() {
    // P11: the leader of slot 2 never gets PREPARE(1) nor its commit from the leader of slot 1.
    let mut net = Net::new(4, Config { fast_path: false, ..plain() });
    let (first, second) = (net.leader(1, 0), net.leader(2, 0));
    net.link = Box::new(move |_, from, to, _| ((from, to) != (index(first), index(second))).then_some(DELAY));
    net.grow();
    net.run_for(60);
    net.grow();
    assert!(net.run_until(900, |net| net.all_committed(2)), "before any view timer");
}
