//! Uncertified tips: the leader's own, others', strong and weak votes for them (C3, rows 19 to 21, P5).

use crate::{
    net::{DELAY, Net, index, plain},
    scripted::ScriptedValidator,
};
use corniche_autobahn::{
    Config,
    message::{CommitKind, Message, SignedPrepare, Slot, Tip, View},
    slots::Input,
};
use corniche_types::{B256, TimestampMs};
use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

/// Gives these validators the first car of a lane, uncertified.
fn show(net: &mut Net, lane: usize, holders: &[usize]) -> Tip {
    let tip = net.tip(lane, 1);
    for node in holders {
        net.nodes[*node].lanes.optimistic.insert(index(lane), (tip, None));
        net.nodes[*node].lanes.held.insert(tip);
    }
    holders.iter().for_each(|node| net.give(*node, Input::Lanes));
    tip
}

fn leader_tips() -> Config {
    Config { leader_tips: true, ..plain() }
}

fn committed_tip(net: &Net, slot: u64, lane: usize) -> Tip {
    net.running().find_map(|node| net.nodes[node].commits.get(&Slot(slot))).expect("it is committed").0.tips[lane]
}

#[test]
fn leaders_own_car_commits_in_three_delays() {
    // Row 19. The car is sent with PREPARE, so they arrive together.
    let mut net = Net::new(4, leader_tips());
    let leader = net.leader(1, 0);
    let tip = show(&mut net, leader, &[leader]);
    assert_eq!(net.proposed_at(1, 0), Some(0));
    net.run_for(DELAY - 1);
    let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
    show(&mut net, leader, &others);
    assert!(net.run_until(100, |net| net.all_committed(1)));
    assert_eq!((committed_tip(&net, 1, leader), net.now), (tip, 3 * DELAY));
}

#[test]
fn missing_body_is_requested_once() {
    // Row 20. One validator lacks the body: no fast commit until it comes, and a slow one without it.
    for comes in [true, false] {
        let mut net = Net::new(4, Config { fast_wait_ms: 30, ..leader_tips() });
        let leader = net.leader(1, 0);
        let late = (leader + 1) % 4;
        let others: Vec<_> = (0..4).filter(|node| *node != late).collect();
        let tip = show(&mut net, leader, &others);
        net.run_for(DELAY + 5);
        assert_eq!(net.nodes[late].fetched, [tip]);
        if comes {
            show(&mut net, leader, &[late]);
        }
        assert!(net.run_until(200, |net| net.all_committed(1)));
        let kind = net.nodes[late].commits[&Slot(1)].1.kind;
        assert_eq!(kind, if comes { CommitKind::Fast } else { CommitKind::Slow });
        assert_eq!(net.nodes[late].fetched, [tip]);
    }
}

#[test]
fn tip_without_certified_parent_is_ignored() {
    // C3, Y4: otherwise any number of cars could be fetched from an uncertified chain.
    for (position, shown, asked) in [(1, false, true), (2, false, false), (2, true, true)] {
        let mut net = Net::new(4, leader_tips());
        let leader = net.leader(1, 0);
        let scripted = ScriptedValidator::of(&net, leader);
        net.corrupt(leader, Box::new(|_, _, _| {}));
        let mut cut = scripted.cut(1, B256::ZERO, 0);
        cut.tips[leader] = net.tip(leader, position);
        let parent = shown.then(|| net.certificate(net.tip(leader, position - 1)));
        let Message::Prepare(prepare) = scripted.prepare(View(0), cut.clone(), None, None) else { unreachable!() };
        let prepare = SignedPrepare { available: parent.into_iter().collect(), ..prepare };
        let voter = (leader + 1) % 4;
        net.send(leader, voter, Message::Prepare(prepare));
        net.run_for(DELAY);
        let expected = if asked { vec![cut.tips[leader]] } else { Vec::new() };
        assert_eq!(net.nodes[voter].fetched, expected, "position {position}, parent shown {shown}");
        assert!(!net.sent.contains_key("prepared"));
    }
}

#[test]
fn body_missing_at_f_plus_one_costs_one_view() {
    // C3: later views name only certified tips.
    let mut net = Net::new(4, Config { optimistic_tips: true, ..plain() });
    let leader = net.leader(1, 0);
    let lane = (leader + 1) % 4;
    let ghost = show(&mut net, lane, &[leader]);
    net.certify((leader + 2) % 4, 1, &[0, 1, 2, 3]);
    assert!(net.run_until(5_000, |net| net.all_committed(1)));
    assert_eq!(net.nodes[lane].commits[&Slot(1)].1.view, View(1));
    assert_ne!(committed_tip(&net, 1, lane), ghost);
    assert_eq!(committed_tip(&net, 1, (leader + 2) % 4).position.0, 1);
}

/// A Byzantine leader proposes, all-to-all, a cut that names this tip and shows its parent. Returns the net after slot
/// 1 is committed.
fn proposed_by_a_double(config: Config, tip_of: impl Fn(&Net, usize) -> Tip, time: u64) -> (Net, Tip) {
    let mut net = Net::new(4, Config { all_to_all: true, ..config });
    let leader = net.leader(1, 0);
    let scripted = ScriptedValidator::of(&net, leader);
    net.corrupt(leader, Box::new(|_, _, _| {}));
    let tip = tip_of(&net, leader);
    let mut cut = scripted.cut(1, B256::ZERO, time);
    cut.tips[tip.lane.as_usize()] = tip;
    let value = scripted.context.cut(&cut);
    let parent = tip.position.0.checked_sub(1).filter(|below| *below > 0);
    let parent = parent.map(|below| net.certificate(net.tip(tip.lane.as_usize(), below)));
    let Message::Prepare(prepare) = scripted.prepare(View(0), cut, None, None) else { unreachable!() };
    let prepare = SignedPrepare { available: parent.into_iter().collect(), ..prepare };
    for to in (0..4).filter(|to| *to != leader) {
        net.send(leader, to, Message::Prepare(prepare.clone()));
        net.send(leader, to, scripted.vote(Slot(1), View(0), value));
        net.send(leader, to, scripted.ack(Slot(1), View(0), value));
    }
    // News, so that the others have something to commit.
    net.grow();
    assert!(net.run_until(20_000, |net| net.all_committed(1)));
    (net, tip)
}

#[test]
fn nonexistent_tip_is_not_committed() {
    // N6, and with weak votes P5: the votes of validators that lack it are not binding.
    for weak_votes in [false, true] {
        let config = Config { weak_votes, ..leader_tips() };
        let (net, ghost) = proposed_by_a_double(config, |net, leader| net.tip(leader, 7), 0);
        assert_ne!(committed_tip(&net, 1, ghost.lane.as_usize()), ghost, "weak votes: {weak_votes}");
    }
}

#[test]
fn only_leaders_lane_may_be_optimistic() {
    // Row 19 without row 20: all validators hold the car, and still none votes.
    let config = || Config { all_to_all: true, ..leader_tips() };
    for own in [true, false] {
        let mut net = Net::new(4, config());
        let leader = net.leader(1, 0);
        let scripted = ScriptedValidator::of(&net, leader);
        net.corrupt(leader, Box::new(|_, _, _| {}));
        let lane = if own { leader } else { (leader + 1) % 4 };
        let tip = net.tip(lane, 1);
        let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
        others.iter().for_each(|node| net.nodes[*node].lanes.held.extend([tip]));
        let mut cut = scripted.cut(1, B256::ZERO, 0);
        cut.tips[lane] = tip;
        for to in &others {
            net.send(leader, *to, scripted.prepare(View(0), cut.clone(), None, None));
            net.send(leader, *to, scripted.vote(Slot(1), View(0), scripted.context.cut(&cut)));
        }
        assert!(net.run_until(5_000, |net| net.all_committed(1)));
        assert_eq!(net.nodes[others[0]].commits[&Slot(1)].1.view, View(u32::from(!own)));
    }
}

#[test]
fn weak_votes_need_f_plus_one_strong_votes() {
    // Row 21: two of four hold the body, a QC forms and commits slowly; one alone is not enough.
    for (holders, view) in [(2, 0), (1, 1)] {
        let mut net = Net::new(4, Config { weak_votes: true, ..leader_tips() });
        let leader = net.leader(1, 0);
        let holding: Vec<_> = (0..holders).map(|offset| (leader + offset) % 4).collect();
        let tip = show(&mut net, leader, &holding);
        net.certify((leader + 3) % 4, 1, &[0, 1, 2, 3]);
        assert!(net.run_until(5_000, |net| net.all_committed(1)));
        let (_, certificate, at) = &net.nodes[leader].commits[&Slot(1)];
        assert_eq!(
            (certificate.kind, certificate.view),
            (if view == 0 { CommitKind::Slow } else { CommitKind::Fast }, View(view))
        );
        assert_eq!(committed_tip(&net, 1, leader) == tip, view == 0);
        assert!(view > 0 || *at <= 4 * DELAY + 5, "the quorum was not delayed: {at} ms");
    }
}

#[test]
fn body_arrival_strengthens_weak_vote() {
    let mut net = Net::new(4, Config { weak_votes: true, fast_wait_ms: 40, ..leader_tips() });
    let leader = net.leader(1, 0);
    let late = (leader + 1) % 4;
    let others: Vec<_> = (0..4).filter(|node| *node != late).collect();
    show(&mut net, leader, &others);
    net.run_for(3 * DELAY);
    show(&mut net, leader, &[late]);
    assert!(net.run_until(200, |net| net.all_committed(1)));
    assert_eq!(net.nodes[late].commits[&Slot(1)].1.kind, CommitKind::Fast);
    assert_eq!(net.sent["prepared"], 4, "three others voted, one of them twice");
}

#[test]
fn vote_waits_for_future_cut() {
    // Its time is 700 ms ahead, 500 are allowed: voted after 200.
    let (net, _) = proposed_by_a_double(plain(), |net, leader| net.tip(leader, 0), 700);
    let (cut, certificate, at) = &net.nodes[net.running().next().expect("three run")].commits[&Slot(1)];
    assert_eq!((cut.time, certificate.view), (TimestampMs(700), View(0)));
    assert_eq!(*at, 200 + DELAY);
}

#[test]
fn restart_keeps_weak_vote_value() {
    // N1: prop does not contain a weak vote, so the record has a separate field for it.
    let mut net = Net::new(4, Config { weak_votes: true, ..leader_tips() });
    let leader = net.leader(1, 0);
    let voter = (leader + 1) % 4;
    net.certify((leader + 2) % 4, 1, &[voter]);
    let votes = Rc::new(RefCell::new(BTreeSet::new()));
    let heard = votes.clone();
    net.corrupt(
        leader,
        Box::new(move |_, from, message| {
            if let Message::PrepareVote { vote, .. } = message {
                heard.borrow_mut().insert((from, vote.slot, vote.view, vote.cut));
            }
        }),
    );
    let scripted = ScriptedValidator::of(&net, leader);
    let plain = scripted.cut(1, B256::ZERO, 0);
    let mut named = plain.clone();
    named.tips[leader] = net.tip(leader, 1);
    // No validator holds the tip of one of them; the other one needs nothing.
    for cut in [&named, &plain, &named] {
        net.send(leader, voter, scripted.prepare(View(0), cut.clone(), None, None));
        net.run_for(3 * DELAY);
        net.crash(voter);
        net.start(voter);
    }
    let value = scripted.context.cut(&named);
    assert_eq!(votes.borrow().iter().copied().collect::<Vec<_>>(), [(index(voter), Slot(1), View(0), value)]);
}

#[test]
fn gap_below_commit_is_filled() {
    // P10: the leader of slot 2 is hasty and proposes its own car, which all hold. Slot 1 was never proposed, and there
    // is no news for it.
    let mut net = Net::new(4, Config { all_to_all: true, ..leader_tips() });
    let leader = net.leader(2, 0);
    let scripted = ScriptedValidator::of(&net, leader);
    net.corrupt(leader, Box::new(|_, _, _| {}));
    let tip = net.tip(leader, 1);
    let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
    others.iter().for_each(|node| net.nodes[*node].lanes.held.extend([tip]));
    let mut cut = scripted.cut(2, B256::ZERO, 0);
    cut.tips[leader] = tip;
    let value = scripted.context.cut(&cut);
    for to in &others {
        net.send(leader, *to, scripted.prepare(View(0), cut.clone(), None, None));
        net.send(leader, *to, scripted.vote(Slot(2), View(0), value));
        net.send(leader, *to, scripted.ack(Slot(2), View(0), value));
    }
    assert!(net.run_until(500, |net| net.all_committed(2)));
    assert!(net.run_until(900, |net| net.all_committed(1)), "{}", net.describe());
    assert_eq!(net.sent.get("timeout"), None);
}
