//! Doubles with one purpose each. [`Net`] checks at every commit that no slot splits.

use crate::{
    net::{DELAY, Net, index, plain},
    puppet::{Puppet, Shares},
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
fn obey(puppet: Puppet, mail: &mut crate::net::Mail, from: ValidatorIndex, message: &Message) {
    match message {
        Message::Prepare(prepare) => {
            mail.send(puppet.me, from, puppet.vote(prepare.cut.slot, prepare.view, puppet.context.cut(&prepare.cut)));
        }
        Message::Confirm(certificate) => {
            mail.send(puppet.me, from, puppet.ack(certificate.slot, certificate.view, certificate.cut));
        }
        _ => {}
    }
}

#[test]
fn an_equivocating_leader_splits_nothing_and_is_accused() {
    for config in [plain(), Config { all_to_all: true, ..plain() }] {
        let mut net = Net::new(4, config);
        let leader = net.leader(1, 0);
        let puppet = Puppet::of(&net, leader);
        let (x, y) = (puppet.cut(1, B256::ZERO, 1), puppet.cut(1, B256::ZERO, 2));
        net.corrupt(leader, Box::new(move |mail, from, message| obey(puppet, mail, from, message)));
        let [a, b, c] = others(leader);
        for (to, cut) in [(a, &x), (b, &x), (c, &y)] {
            net.send(leader, to, puppet.prepare(View(0), cut.clone(), None, None));
        }
        for cut in [&x, &y] {
            [a, b, c].into_iter().for_each(|to| net.send(leader, to, puppet.vote(FIRST, View(0), puppet.context.cut(cut))));
        }
        net.send(leader, c, puppet.prepare(View(0), x.clone(), None, None));
        net.grow();
        assert!(net.run_until(5_000, |net| net.all_committed(1)));
        assert!(net.nodes[c].accused.contains(&index(leader)));
    }
}

#[test]
fn p1_a_fast_commit_that_nobody_heard_of_survives_a_leader_that_shows_its_proposal_to_one() {
    let mut net = Net::new(4, plain());
    let (a, d) = (net.leader(1, 0), net.leader(1, 1));
    let [b, c] = others(a).into_iter().filter(|node| *node != d).collect::<Vec<_>>()[..] else { panic!("four") };
    // A's COMMIT is lost and A falls silent.
    net.link = Box::new(move |now, from, to, message| {
        let cut_off = (from == index(a) || to == index(a)) && (matches!(message, Message::Commit(_)) || now > 50);
        (now > 20_000 || !cut_off).then_some(DELAY)
    });
    let puppet = Puppet::of(&net, d);
    let (mut timeouts, mut proposed) = (BTreeMap::<ValidatorIndex, Timeout>::new(), None);
    net.corrupt(
        d,
        Box::new(move |mail, from, message| {
            match message {
                Message::Prepare(prepare) if prepare.view == View(0) => proposed = Some(prepare.cut.clone()),
                Message::Timeout(timeout) if timeout.view == View(0) && timeout.slot == FIRST => {
                    timeouts.insert(from, timeout.clone());
                    timeouts.insert(puppet.me, puppet.timeout(FIRST, View(0), None, None));
                    if let (3, Some(cut)) = (timeouts.len(), &proposed) {
                        let reason = Puppet::timeouts(FIRST, View(0), &timeouts);
                        let prepare = puppet.prepare(View(1), cut.clone(), None, Some(reason.clone()));
                        mail.send(puppet.me, index(b), prepare);
                        mail.send(puppet.me, index(c), Message::TimedOut(reason));
                    }
                }
                Message::Timeout(timeout) if timeout.view == View(1) && timeout.slot == FIRST => {
                    // It claims to have seen nothing.
                    let lie = Message::Timeout(puppet.timeout(FIRST, View(1), None, None));
                    mail.send(puppet.me, from, lie);
                }
                _ => {}
            }
            obey(puppet, mail, from, message);
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
fn a_liar_among_the_complaints_does_not_undo_a_fast_commit() {
    for lie in 0..3 {
        let mut net = Net::new(4, plain());
        let (a, d) = (net.leader(1, 0), (net.leader(1, 1) + 1) % 4);
        net.link = Box::new(move |now, from, to, message| {
            let cut_off = (from == index(a) || to == index(a)) && (matches!(message, Message::Commit(_)) || now > 50);
            (now > 20_000 || !cut_off).then_some(DELAY)
        });
        let puppet = Puppet::of(&net, d);
        let other = puppet.context.cut(&puppet.cut(1, B256::ZERO, 99));
        net.corrupt(
            d,
            Box::new(move |mail, from, message| {
                if let Message::Timeout(timeout) = message {
                    let voted = [None, Some((timeout.view, other)), Some((View(0), other))][lie];
                    mail.send(puppet.me, from, Message::Timeout(puppet.timeout(timeout.slot, timeout.view, voted, None)));
                }
                obey(puppet, mail, from, message);
            }),
        );
        net.grow();
        assert!(net.run_until(40_000, |net| net.all_committed(1)), "lie {lie}");
        assert_eq!(net.nodes[a].commits[&FIRST].1.kind, CommitKind::Fast);
    }
}

#[test]
fn a_withheld_certificate_binds_all_the_same() {
    [false, true].into_iter().for_each(withhold);
}

/// `restart`: the validator that has seen the certificate loses power after it acknowledged (P25).
fn withhold(restart: bool) {
    // The leader makes a slow commit and shows it to one validator, which then falls silent; only two validators see
    // the PrepareQC.
    let mut net = Net::new(4, Config { fast_path: false, ..plain() });
    let leader = net.leader(1, 0);
    let [a, b, c] = others(leader);
    let puppet = Puppet::of(&net, leader);
    let (x, mut votes, mut acks) = (puppet.cut(1, B256::ZERO, 1), Shares::new(), Shares::new());
    let value = puppet.context.cut(&x);
    net.link = Box::new(move |now, from, to, _| {
        let cut_off = from == index(a) || to == index(a);
        (!(50..=10_000).contains(&now) || !cut_off).then_some(DELAY)
    });
    net.corrupt(
        leader,
        Box::new(move |mail, from, message| {
            match message {
                Message::Prepared { vote, .. } if vote.view == View(0) => drop(votes.insert(from, vote.share.clone())),
                Message::Confirmed(vote) if vote.view == View(0) => drop(acks.insert(from, vote.share.clone())),
                // It continues as if it had seen nothing.
                Message::Timeout(timeout) => {
                    mail.send(puppet.me, from, Message::Timeout(puppet.timeout(timeout.slot, timeout.view, None, None)));
                }
                _ => return obey(puppet, mail, from, message),
            }
            if let (Message::Prepared { vote, .. }, 2) = (message, votes.len()) {
                let mut votes = votes.clone();
                let Message::Prepared { vote: own, .. } = puppet.vote(FIRST, View(0), vote.cut) else { return };
                votes.insert(puppet.me, own.share);
                let certificate = Puppet::prepare_certificate(FIRST, View(0), vote.cut, &votes);
                [a, b].into_iter().for_each(|to| mail.send(puppet.me, index(to), Message::Confirm(certificate.clone())));
            }
            if let (Message::Confirmed(vote), 2) = (message, acks.len()) {
                let mut acks = acks.clone();
                let Message::Confirmed(own) = puppet.ack(FIRST, View(0), vote.cut) else { return };
                acks.insert(puppet.me, own.share);
                let commit = Puppet::commit_certificate(CommitKind::Slow, FIRST, View(0), vote.cut, &acks);
                mail.send(puppet.me, index(a), Message::Commit(commit));
            }
        }),
    );
    // The votes alone would not require the value: C has not seen the PREPARE.
    [a, b].into_iter().for_each(|to| net.send(leader, to, puppet.prepare(View(0), x.clone(), None, None)));
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
fn p3_votes_are_not_acknowledgements() {
    // The leader shows x to two and y to one, and presents the three votes for x (its own included) as
    // acknowledgements.
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 0);
    let [b, c, a] = others(leader);
    let puppet = Puppet::of(&net, leader);
    let (x, y) = (puppet.cut(1, B256::ZERO, 1), puppet.cut(1, B256::ZERO, 2));
    let (value, other) = (puppet.context.cut(&x), puppet.context.cut(&y));
    let mut votes = Shares::new();
    net.corrupt(
        leader,
        Box::new(move |mail, from, message| match message {
            Message::Prepared { vote, .. } if vote.view == View(0) && vote.cut == value => {
                votes.insert(from, vote.share.clone());
                if let Message::Prepared { vote: own, .. } = puppet.vote(FIRST, View(0), value) {
                    votes.insert(puppet.me, own.share);
                }
                if votes.len() == 3 {
                    let forged = Puppet::commit_certificate(CommitKind::Slow, FIRST, View(0), value, &votes);
                    mail.send(puppet.me, index(a), Message::Commit(forged));
                }
            }
            Message::Timeout(timeout) => {
                let lie = puppet.timeout(timeout.slot, timeout.view, Some((View(0), other)), None);
                mail.send(puppet.me, from, Message::Timeout(lie));
            }
            _ => obey(puppet, mail, from, message),
        }),
    );
    // A is slow to complain, so that the liar is among the three.
    net.link = Box::new(move |now, from, _, message| {
        let late = now < 3_000
            && from == index(a)
            && matches!(message, Message::Timeout(_) | Message::TimedOut(_) | Message::Commit(_));
        (!late).then_some(DELAY)
    });
    for (to, cut) in [(a, &x), (b, &x), (c, &y)] {
        net.send(leader, to, puppet.prepare(View(0), cut.clone(), None, None));
    }
    net.grow();
    assert!(net.run_until(10_000, |net| net.all_committed(1)));
    assert_eq!(net.values[&FIRST], other, "the liar decided, as it may");
}

#[test]
fn p14_a_ticket_for_another_value_is_no_ticket() {
    let mut net = Net::new(4, Config { open_slots: 2, ..plain() });
    let leader = net.leader(3, 0);
    let puppet = Puppet::of(&net, leader);
    net.grow();
    assert!(net.run_until(500, |net| net.all_committed(1)));
    net.corrupt(leader, Box::new(move |mail, from, message| obey(puppet, mail, from, message)));
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
            net.send(leader, to, puppet.prepare(View(0), puppet.cut(3, anchor, net.now), previous.clone(), None));
        }
    }
    net.grow();
    assert!(net.run_until(5_000, |net| net.all_committed(3)));
    assert_eq!(net.nodes[node].commits[&Slot(3)].1.view, View(1), "nobody voted in the first view");
}

#[test]
fn p24_a_leader_cannot_choose_against_a_tc() {
    // After a fast commit at A, the leader of view 1 is Byzantine and proposes another value with the honest TC, and
    // without one.
    let mut net = Net::new(4, plain());
    let (a, d) = (net.leader(1, 0), net.leader(1, 1));
    net.link = Box::new(move |now, from, to, message| {
        let cut_off = (from == index(a) || to == index(a)) && (matches!(message, Message::Commit(_)) || now > 50);
        (now > 20_000 || !cut_off).then_some(DELAY)
    });
    let puppet = Puppet::of(&net, d);
    net.corrupt(
        d,
        Box::new(move |mail, from, message| {
            if let Message::TimedOut(reason) = message {
                let y = puppet.cut(1, B256::ZERO, 99);
                for reason in [Some(reason.clone()), None] {
                    for to in (0..4).filter(|to| index(*to) != puppet.me) {
                        mail.send(puppet.me, index(to), puppet.prepare(View(1), y.clone(), None, reason.clone()));
                    }
                }
            }
            if let Message::Timeout(timeout) = message {
                mail.send(puppet.me, from, Message::Timeout(puppet.timeout(timeout.slot, timeout.view, None, None)));
            }
            obey(puppet, mail, from, message);
        }),
    );
    net.grow();
    assert!(net.run_until(40_000, |net| net.all_committed(1)));
    let (_, certificate, _) = &net.nodes[a].commits[&FIRST];
    assert_eq!((certificate.kind, certificate.view), (CommitKind::Fast, View(0)));
}

#[test]
fn a_leader_that_repeats_an_old_cut_wastes_its_slot_only() {
    // Row 10: coverage is not enforced; the next leader catches up.
    let mut net = Net::new(4, Config { all_to_all: true, ..plain() });
    let leader = net.leader(2, 0);
    let puppet = Puppet::of(&net, leader);
    net.grow();
    assert!(net.run_until(500, |net| net.all_committed(1)));
    net.corrupt(leader, Box::new(|_, _, _| {}));
    let node = others(leader)[0];
    let tips = |net: &Net, slot| net.nodes[node].commits[&Slot(slot)].0.tips.clone();
    let old = Cut { slot: Slot(2), time: TimestampMs(net.now), anchor: B256::ZERO, tips: tips(&net, 1) };
    for to in others(leader) {
        let value = puppet.context.cut(&old);
        let Message::Prepare(mut prepare) = puppet.prepare(View(0), old.clone(), None, None) else { return };
        prepare.available = old.tips.iter().map(|tip| net.certificate(*tip)).collect();
        net.send(leader, to, Message::Prepare(prepare));
        net.send(leader, to, puppet.vote(Slot(2), View(0), value));
    }
    net.grow();
    assert!(net.run_until(500, |net| net.all_committed(3)));
    assert_eq!(tips(&net, 2), tips(&net, 1));
    assert!(tips(&net, 3).iter().all(|tip| tip.position.0 == 2));
}

#[test]
fn p4_whoever_joins_a_later_view_has_closed_those_below() {
    // D leads view 0 and gets x prepared by A, B and itself. Only B acknowledges, and is cut off once it has
    // complained. C and D complain about view 1 as well, and A joins them. A has not complained about view 0 (it was
    // restarted and waits longer). The TC of A, C and D requires no value. Now D shows A the certificate of view 0: one
    // more acknowledgement would commit x besides C's proposal.
    let mut net = Net::new(4, Config { fast_path: false, max_view_timeout_ms: 1_000, ..plain() });
    let d = net.leader(1, 0);
    let [b, c, a] = others(d);
    let puppet = Puppet::of(&net, d);
    let x = puppet.cut(1, B256::ZERO, 1);
    let value = puppet.context.cut(&x);
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
        Box::new(move |mail, from, message| match message {
            Message::Prepared { vote, .. } if vote.view == View(0) => {
                votes.insert(from, vote.share.clone());
                if let Message::Prepared { vote: own, .. } = puppet.vote(FIRST, View(0), value) {
                    votes.insert(puppet.me, own.share);
                }
                if votes.len() == 3 {
                    let certificate = Puppet::prepare_certificate(FIRST, View(0), value, &votes);
                    prepared = Some(certificate.clone());
                    mail.send(puppet.me, index(b), Message::Confirm(certificate));
                }
            }
            Message::Confirmed(vote) if vote.view == View(0) => {
                acks.insert(from, vote.share.clone());
                if let Message::Confirmed(own) = puppet.ack(FIRST, View(0), value) {
                    acks.insert(puppet.me, own.share);
                }
                if acks.len() == 3 {
                    let commit = Puppet::commit_certificate(CommitKind::Slow, FIRST, View(0), value, &acks);
                    mail.send(puppet.me, index(b), Message::Commit(commit));
                }
            }
            Message::Timeout(timeout) if timeout.slot == FIRST => {
                for to in if timeout.view == View(0) { [b, c] } else { [a, c] } {
                    let lie = puppet.timeout(FIRST, timeout.view, None, None);
                    mail.send(puppet.me, index(to), Message::Timeout(lie));
                }
                if let Some(certificate) = prepared.as_ref().filter(|_| timeout.view == View(1)) {
                    mail.send(puppet.me, index(a), Message::Confirm(certificate.clone()));
                }
            }
            _ => obey(puppet, mail, from, message),
        }),
    );
    net.certify(c, 1, &[b, c]);
    net.run_for(900);
    [a, b].into_iter().for_each(|to| net.send(d, to, puppet.prepare(View(0), x.clone(), None, None)));
    net.run_for(600);
    net.crash(a);
    net.start(a);
    // A's complaint is signed, but not durable yet, when the certificate comes.
    net.disk = 4;
    assert!(net.run_until(20_000, |net| net.all_committed(1)));
    assert_ne!(net.values[&FIRST], value, "the attack took place: x was prepared and lost");
    assert_eq!(net.nodes[c].commits[&FIRST].1.view, View(2));
}
