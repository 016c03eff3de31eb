//! Doubles with one purpose each. [`Net`] checks at every commit that no slot splits.

use crate::{
    net::{DELAY, Net, index, plain},
    scripted::{ScriptedValidator, Shares},
};
use corniche_autobahn::{
    Config,
    message::{CommitKind, Cut, Message, Slot, Timeout, View},
};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

const FIRST: Slot = Slot(1);

fn others(me: usize) -> [usize; 3] {
    [(me + 1) % 4, (me + 2) % 4, (me + 3) % 4]
}

/// Votes for and acknowledges everything it receives.
fn obey(scripted: ScriptedValidator, transport: &mut crate::net::Transport, from: ValidatorIndex, message: &Message) {
    match message {
        Message::Prepare(prepare) => {
            transport.send(
                scripted.me,
                from,
                scripted.vote(prepare.cut.slot, prepare.view, scripted.context.cut(&prepare.cut)),
            );
        }
        Message::Confirm(certificate) => {
            transport.send(scripted.me, from, scripted.ack(certificate.slot, certificate.view, certificate.cut));
        }
        _ => {}
    }
}

#[test]
fn equivocating_leader_is_accused() {
    for config in [plain(), Config { all_to_all: true, ..plain() }] {
        let mut net = Net::new(4, config);
        let leader = net.leader(1, 0);
        let scripted = ScriptedValidator::of(&net, leader);
        let (x, y) = (scripted.cut(1, B256::ZERO, 1), scripted.cut(1, B256::ZERO, 2));
        net.corrupt(leader, Box::new(move |transport, from, message| obey(scripted, transport, from, message)));
        let [a, b, c] = others(leader);
        for (to, cut) in [(a, &x), (b, &x), (c, &y)] {
            net.send(leader, to, scripted.prepare(View(0), cut.clone(), None, None));
        }
        for cut in [&x, &y] {
            [a, b, c].into_iter().for_each(|to| net.send(leader, to, scripted.vote(FIRST, View(0), scripted.context.cut(cut))));
        }
        net.send(leader, c, scripted.prepare(View(0), x.clone(), None, None));
        net.grow();
        assert!(net.run_until(5_000, |net| net.all_committed(1)));
        assert!(net.nodes[c].accused.contains(&index(leader)));
    }
}

#[test]
fn p1_unseen_fast_commit_survives_next_leader() {
    let mut net = Net::new(4, plain());
    let (a, d) = (net.leader(1, 0), net.leader(1, 1));
    let [b, c] = others(a).into_iter().filter(|node| *node != d).collect::<Vec<_>>()[..] else { panic!("four") };
    // A's COMMIT is lost and A falls silent.
    net.link = Box::new(move |now, from, to, message| {
        let cut_off = (from == index(a) || to == index(a)) && (matches!(message, Message::Commit(_)) || now > 50);
        (now > 20_000 || !cut_off).then_some(DELAY)
    });
    let scripted = ScriptedValidator::of(&net, d);
    let (mut timeouts, mut proposed) = (BTreeMap::<ValidatorIndex, Timeout>::new(), None);
    net.corrupt(
        d,
        Box::new(move |transport, from, message| {
            match message {
                Message::Prepare(prepare) if prepare.view == View(0) => proposed = Some(prepare.cut.clone()),
                Message::Timeout(timeout) if timeout.view == View(0) && timeout.slot == FIRST => {
                    timeouts.insert(from, timeout.clone());
                    timeouts.insert(scripted.me, scripted.timeout(FIRST, View(0), None, None));
                    if let (3, Some(cut)) = (timeouts.len(), &proposed) {
                        let reason = ScriptedValidator::timeouts(FIRST, View(0), &timeouts);
                        let prepare = scripted.prepare(View(1), cut.clone(), None, Some(reason.clone()));
                        transport.send(scripted.me, index(b), prepare);
                        transport.send(scripted.me, index(c), Message::TimeoutQc(reason));
                    }
                }
                Message::Timeout(timeout) if timeout.view == View(1) && timeout.slot == FIRST => {
                    // It claims to have seen nothing.
                    let lie = Message::Timeout(scripted.timeout(FIRST, View(1), None, None));
                    transport.send(scripted.me, from, lie);
                }
                _ => {}
            }
            obey(scripted, transport, from, message);
        }),
    );
    net.grow();
    assert!(net.run_until(30_000, |net| net.all_committed(1)));
    assert_eq!(net.nodes[a].commits[&FIRST].1.kind, CommitKind::Fast);
    assert!(net.nodes[b].commits[&FIRST].1.view > View(1), "the attack took place");
    // Row 40: certificates of different views and kinds are valid tickets.
    for slot in 2..=6 {
        net.grow();
        assert!(net.run_until(30_000, |net| net.all_committed(slot)), "slot {slot}");
    }
}

#[test]
fn false_timeout_does_not_undo_fast_commit() {
    for lie in 0..3 {
        let mut net = Net::new(4, plain());
        let (a, d) = (net.leader(1, 0), (net.leader(1, 1) + 1) % 4);
        net.link = Box::new(move |now, from, to, message| {
            let cut_off = (from == index(a) || to == index(a)) && (matches!(message, Message::Commit(_)) || now > 50);
            (now > 20_000 || !cut_off).then_some(DELAY)
        });
        let scripted = ScriptedValidator::of(&net, d);
        let other = scripted.context.cut(&scripted.cut(1, B256::ZERO, 99));
        net.corrupt(
            d,
            Box::new(move |transport, from, message| {
                if let Message::Timeout(timeout) = message {
                    let voted = [None, Some((timeout.view, other)), Some((View(0), other))][lie];
                    transport.send(
                        scripted.me,
                        from,
                        Message::Timeout(scripted.timeout(timeout.slot, timeout.view, voted, None)),
                    );
                }
                obey(scripted, transport, from, message);
            }),
        );
        net.grow();
        assert!(net.run_until(40_000, |net| net.all_committed(1)), "lie {lie}");
        assert_eq!(net.nodes[a].commits[&FIRST].1.kind, CommitKind::Fast);
    }
}

#[test]
fn withheld_certificate_still_binds() {
    [false, true].into_iter().for_each(withhold);
}

/// `restart`: the validator that has seen the certificate loses power after it acknowledged (P25).
fn withhold(restart: bool) {
    // The leader makes a slow commit and shows it to one validator, which then falls silent; only two validators see
    // the PrepareQC.
    let mut net = Net::new(4, Config { fast_path: false, ..plain() });
    let leader = net.leader(1, 0);
    let [a, b, c] = others(leader);
    let scripted = ScriptedValidator::of(&net, leader);
    let (x, mut votes, mut acks) = (scripted.cut(1, B256::ZERO, 1), Shares::new(), Shares::new());
    let value = scripted.context.cut(&x);
    net.link = Box::new(move |now, from, to, _| {
        let cut_off = from == index(a) || to == index(a);
        (!(50..=10_000).contains(&now) || !cut_off).then_some(DELAY)
    });
    net.corrupt(
        leader,
        Box::new(move |transport, from, message| {
            match message {
                Message::PrepareVote { vote, .. } if vote.view == View(0) => drop(votes.insert(from, vote.share.clone())),
                Message::ConfirmAck(vote) if vote.view == View(0) => drop(acks.insert(from, vote.share.clone())),
                // It continues as if it had seen nothing.
                Message::Timeout(timeout) => {
                    transport.send(
                        scripted.me,
                        from,
                        Message::Timeout(scripted.timeout(timeout.slot, timeout.view, None, None)),
                    );
                }
                _ => return obey(scripted, transport, from, message),
            }
            if let (Message::PrepareVote { vote, .. }, 2) = (message, votes.len()) {
                let mut votes = votes.clone();
                let Message::PrepareVote { vote: own, .. } = scripted.vote(FIRST, View(0), vote.cut) else { return };
                votes.insert(scripted.me, own.share);
                let certificate = ScriptedValidator::prepare_certificate(FIRST, View(0), vote.cut, &votes);
                [a, b].into_iter().for_each(|to| transport.send(scripted.me, index(to), Message::Confirm(certificate.clone())));
            }
            if let (Message::ConfirmAck(vote), 2) = (message, acks.len()) {
                let mut acks = acks.clone();
                let Message::ConfirmAck(own) = scripted.ack(FIRST, View(0), vote.cut) else { return };
                acks.insert(scripted.me, own.share);
                let commit = ScriptedValidator::commit_certificate(CommitKind::Slow, FIRST, View(0), vote.cut, &acks);
                transport.send(scripted.me, index(a), Message::Commit(commit));
            }
        }),
    );
    // The votes alone would not require the value: C has not seen the PREPARE.
    [a, b].into_iter().for_each(|to| net.send(leader, to, scripted.prepare(View(0), x.clone(), None, None)));
    net.grow();
    net.run_for(200);
    if restart {
        net.crash(b);
        net.start(b);
    }
    assert!(net.run_until(40_000, |net| net.all_committed(1)));
    assert_eq!(net.values[&FIRST], value);
    assert_eq!(net.nodes[a].commits[&FIRST].1.view, View(0));
    assert!(net.nodes[c].commits[&FIRST].1.view > View(0), "the others needed another view");
}

#[test]
fn p3_votes_do_not_count_as_acks() {
    // The leader shows x to two and y to one, and presents the three votes for x (its own included) as
    // acknowledgements.
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 0);
    let [b, c, a] = others(leader);
    let scripted = ScriptedValidator::of(&net, leader);
    let (x, y) = (scripted.cut(1, B256::ZERO, 1), scripted.cut(1, B256::ZERO, 2));
    let (value, other) = (scripted.context.cut(&x), scripted.context.cut(&y));
    let mut votes = Shares::new();
    net.corrupt(
        leader,
        Box::new(move |transport, from, message| match message {
            Message::PrepareVote { vote, .. } if vote.view == View(0) && vote.cut == value => {
                votes.insert(from, vote.share.clone());
                if let Message::PrepareVote { vote: own, .. } = scripted.vote(FIRST, View(0), value) {
                    votes.insert(scripted.me, own.share);
                }
                if votes.len() == 3 {
                    let forged = ScriptedValidator::commit_certificate(CommitKind::Slow, FIRST, View(0), value, &votes);
                    transport.send(scripted.me, index(a), Message::Commit(forged));
                }
            }
            Message::Timeout(timeout) => {
                let lie = scripted.timeout(timeout.slot, timeout.view, Some((View(0), other)), None);
                transport.send(scripted.me, from, Message::Timeout(lie));
            }
            _ => obey(scripted, transport, from, message),
        }),
    );
    // A is slow to complain, so that the liar is among the three.
    net.link = Box::new(move |now, from, _, message| {
        let late = now < 3_000
            && from == index(a)
            && matches!(message, Message::Timeout(_) | Message::TimeoutQc(_) | Message::Commit(_));
        (!late).then_some(DELAY)
    });
    for (to, cut) in [(a, &x), (b, &x), (c, &y)] {
        net.send(leader, to, scripted.prepare(View(0), cut.clone(), None, None));
    }
    net.grow();
    assert!(net.run_until(10_000, |net| net.all_committed(1)));
    assert_eq!(net.values[&FIRST], other, "the liar decided, as it may");
}

#[test]
fn p14_ticket_for_other_value_is_refused() {
    let mut net = Net::new(4, Config { open_slots: 2, ..plain() });
    let leader = net.leader(3, 0);
    let scripted = ScriptedValidator::of(&net, leader);
    net.grow();
    assert!(net.run_until(500, |net| net.all_committed(1)));
    net.corrupt(leader, Box::new(move |transport, from, message| obey(scripted, transport, from, message)));
    net.grow();
    assert!(net.run_until(5_000, |net| net.all_committed(2)));
    let node = others(leader)[0];
    let certificate = |slot| net.nodes[node].commits[&Slot(slot)].1.clone();
    let (first, second) = (certificate(1), certificate(2));
    let nowhere = B256::repeat_byte(7);
    let tickets = [
        (nowhere, Some(first.clone())), // A commit, but of another value.
        (second.cut, Some(second)),     // Another slot's commit.
        (first.cut, None),              // No commit.
        (B256::ZERO, None),
    ];
    for (anchor, previous) in tickets {
        for to in others(leader) {
            net.send(leader, to, scripted.prepare(View(0), scripted.cut(3, anchor, net.now), previous.clone(), None));
        }
    }
    net.grow();
    assert!(net.run_until(5_000, |net| net.all_committed(3)));
    assert_eq!(net.nodes[node].commits[&Slot(3)].1.view, View(1), "nobody voted in the first view");
}

#[test]
fn p24_leader_must_follow_tc() {
    // After a fast commit at A, the leader of view 1 is Byzantine and proposes another value with the honest TC, and
    // without one.
    let mut net = Net::new(4, plain());
    let (a, d) = (net.leader(1, 0), net.leader(1, 1));
    net.link = Box::new(move |now, from, to, message| {
        let cut_off = (from == index(a) || to == index(a)) && (matches!(message, Message::Commit(_)) || now > 50);
        (now > 20_000 || !cut_off).then_some(DELAY)
    });
    let scripted = ScriptedValidator::of(&net, d);
    net.corrupt(
        d,
        Box::new(move |transport, from, message| {
            if let Message::TimeoutQc(reason) = message {
                let y = scripted.cut(1, B256::ZERO, 99);
                for reason in [Some(reason.clone()), None] {
                    for to in (0..4).filter(|to| index(*to) != scripted.me) {
                        transport.send(scripted.me, index(to), scripted.prepare(View(1), y.clone(), None, reason.clone()));
                    }
                }
            }
            if let Message::Timeout(timeout) = message {
                transport.send(scripted.me, from, Message::Timeout(scripted.timeout(timeout.slot, timeout.view, None, None)));
            }
            obey(scripted, transport, from, message);
        }),
    );
    net.grow();
    assert!(net.run_until(40_000, |net| net.all_committed(1)));
    let (_, certificate, _) = &net.nodes[a].commits[&FIRST];
    assert_eq!((certificate.kind, certificate.view), (CommitKind::Fast, View(0)));
}

#[test]
fn old_cut_wastes_one_slot() {
    // Row 10: coverage is not enforced; the next leader catches up.
    let mut net = Net::new(4, Config { all_to_all: true, ..plain() });
    let leader = net.leader(2, 0);
    let scripted = ScriptedValidator::of(&net, leader);
    net.grow();
    assert!(net.run_until(500, |net| net.all_committed(1)));
    net.corrupt(leader, Box::new(|_, _, _| {}));
    let node = others(leader)[0];
    let tips = |net: &Net, slot| net.nodes[node].commits[&Slot(slot)].0.tips.clone();
    let old = Cut { slot: Slot(2), time: TimestampMs(net.now), anchor: B256::ZERO, tips: tips(&net, 1) };
    for to in others(leader) {
        let value = scripted.context.cut(&old);
        let Message::Prepare(mut prepare) = scripted.prepare(View(0), old.clone(), None, None) else { return };
        prepare.available = old.tips.iter().map(|tip| net.certificate(*tip)).collect();
        net.send(leader, to, Message::Prepare(prepare));
        net.send(leader, to, scripted.vote(Slot(2), View(0), value));
    }
    net.grow();
    assert!(net.run_until(500, |net| net.all_committed(3)));
    assert_eq!(tips(&net, 2), tips(&net, 1));
    assert!(tips(&net, 3).iter().all(|tip| tip.position.0 == 2));
}

#[test]
fn p4_joining_view_closes_lower_views() {
    // D leads view 0 and gets x prepared by A, B and itself. Only B acknowledges, and is cut off once it has
    // complained. C and D complain about view 1 as well, and A joins them. A has not complained about view 0 (it was
    // restarted and waits longer). The TC of A, C and D requires no value. Now D shows A the certificate of view 0: one
    // more acknowledgement would commit x besides C's proposal.
    let mut net = Net::new(4, Config { fast_path: false, max_view_timeout_ms: 1_000, ..plain() });
    let d = net.leader(1, 0);
    let [b, c, a] = others(d);
    let scripted = ScriptedValidator::of(&net, d);
    let x = scripted.cut(1, B256::ZERO, 1);
    let value = scripted.context.cut(&x);
    net.link = Box::new(move |now, from, to, message| {
        let first = matches!(message, Message::Timeout(timeout) if timeout.view == View(0));
        let cut_off = (1_005..5_000).contains(&now) && (from == index(b) || to == index(b)) && from != index(d);
        let delay = if from == index(d) { 1 } else { DELAY };
        let held = cut_off || first && to == index(a);
        (!held).then_some(delay)
    });
    let (mut votes, mut acks, mut prepared) = (Shares::new(), Shares::new(), None);
    net.corrupt(
        d,
        Box::new(move |transport, from, message| match message {
            Message::PrepareVote { vote, .. } if vote.view == View(0) => {
                votes.insert(from, vote.share.clone());
                if let Message::PrepareVote { vote: own, .. } = scripted.vote(FIRST, View(0), value) {
                    votes.insert(scripted.me, own.share);
                }
                if votes.len() == 3 {
                    let certificate = ScriptedValidator::prepare_certificate(FIRST, View(0), value, &votes);
                    prepared = Some(certificate.clone());
                    transport.send(scripted.me, index(b), Message::Confirm(certificate));
                }
            }
            Message::ConfirmAck(vote) if vote.view == View(0) => {
                acks.insert(from, vote.share.clone());
                if let Message::ConfirmAck(own) = scripted.ack(FIRST, View(0), value) {
                    acks.insert(scripted.me, own.share);
                }
                if acks.len() == 3 {
                    let commit = ScriptedValidator::commit_certificate(CommitKind::Slow, FIRST, View(0), value, &acks);
                    transport.send(scripted.me, index(b), Message::Commit(commit));
                }
            }
            Message::Timeout(timeout) if timeout.slot == FIRST => {
                for to in if timeout.view == View(0) { [b, c] } else { [a, c] } {
                    let lie = scripted.timeout(FIRST, timeout.view, None, None);
                    transport.send(scripted.me, index(to), Message::Timeout(lie));
                }
                if let Some(certificate) = prepared.as_ref().filter(|_| timeout.view == View(1)) {
                    transport.send(scripted.me, index(a), Message::Confirm(certificate.clone()));
                }
            }
            _ => obey(scripted, transport, from, message),
        }),
    );
    net.certify(c, 1, &[b, c]);
    net.run_for(900);
    [a, b].into_iter().for_each(|to| net.send(d, to, scripted.prepare(View(0), x.clone(), None, None)));
    net.run_for(600);
    net.crash(a);
    net.start(a);
    // A's complaint is signed, but not durable yet, when the certificate comes.
    net.disk = 4;
    assert!(net.run_until(20_000, |net| net.all_committed(1)));
    assert_ne!(net.values[&FIRST], value, "the attack took place: x was prepared and lost");
    assert_eq!(net.nodes[c].commits[&FIRST].1.view, View(2));
}
