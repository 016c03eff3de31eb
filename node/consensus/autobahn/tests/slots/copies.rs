//! Copies of signed messages: a PREPARE with fewer proofs than its leader sent, and a second certificate of one view.

use crate::{
    net::{DELAY, Net, index, plain},
    scripted::{ScriptedValidator, Shares},
};
use corniche_autobahn::{
    Config,
    message::{Message, Slot, Statement, TimeoutQc, View},
    slots::Input,
};
use corniche_autobahn_testing::FakeKeys;
use corniche_types::B256;
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

const FIRST: Slot = Slot(1);

#[test]
fn copy_without_certificates_costs_no_vote() {
    // A validator forwards PREPARE(1) before its leader's own copy arrives, without the certificates of its tips. None
    // of the others has seen those certificates.
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 0);
    let thief = (leader + 1) % 4;
    net.corrupt(
        thief,
        Box::new(move |transport, _, message| {
            if let Message::Prepare(prepare) = message {
                let mut bare = prepare.clone();
                bare.available.clear();
                for to in (0..4).filter(|to| ![thief, leader].contains(to)) {
                    transport.send(index(thief), index(to), Message::Prepare(bare.clone()));
                }
            }
        }),
    );
    net.link = Box::new(move |_, from, to, message| {
        let near = from == index(thief) || to == index(thief);
        Some(if matches!(message, Message::Prepare(_)) && !near { 3 * DELAY } else { DELAY })
    });
    net.certify((leader + 2) % 4, 1, &[leader]);
    assert!(net.run_until(500, |net| net.all_committed(1)), "{}", net.describe());
    assert_eq!(net.nodes[leader].commits[&FIRST].1.view, View(0));
    assert_eq!(net.nodes[leader].commits[&FIRST].0.tips[(leader + 2) % 4].position.0, 1);
}

#[test]
fn known_certificates_may_be_omitted() {
    // The leader sends its copies without certificates, but the voters know these.
    let mut net = Net::new(4, Config { all_to_all: true, ..plain() });
    let leader = net.leader(1, 0);
    let scripted = ScriptedValidator::of(&net, leader);
    net.corrupt(leader, Box::new(|_, _, _| {}));
    let lane = (leader + 2) % 4;
    let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
    let mut cut = scripted.cut(1, B256::ZERO, 0);
    cut.tips[lane] = net.tip(lane, 1);
    for to in &others {
        net.send(leader, *to, scripted.prepare(View(0), cut.clone(), None, None));
        net.send(leader, *to, scripted.vote(FIRST, View(0), scripted.context.cut(&cut)));
    }
    net.run_for(3 * DELAY);
    assert_eq!(net.sent.get("confirmed"), None, "nobody knows that the tip exists");
    net.certify(lane, 1, &others);
    assert!(net.run_until(3 * DELAY, |net| net.all_committed(1)));
    assert_eq!(net.nodes[lane].commits[&FIRST].0.tips[lane].position.0, 1);
}

/// A TC of view 0 of slot 1, from these reports.
fn complaints(net: &Net, voted: &[(usize, Option<B256>)]) -> TimeoutQc {
    let timeout = |(node, voted): &(usize, Option<B256>)| {
        (index(*node), ScriptedValidator::of(net, *node).timeout(FIRST, View(0), voted.map(|value| (View(0), value)), None))
    };
    ScriptedValidator::timeouts(FIRST, View(0), &voted.iter().map(timeout).collect())
}

#[test]
fn copy_with_empty_tc_costs_no_vote() {
    // Two of four voted for x in view 0. The leader of view 1 proposes it again, as its TC requires. The others' first
    // copy shows the TC of another quorum, with only one vote for x: then its tips would need proof.
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 1);
    let lane = (leader + 1) % 4;
    let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
    let mut x = ScriptedValidator::of(&net, leader).cut(1, B256::ZERO, 0);
    x.tips[lane] = net.tip(lane, 1);
    let value = net.context.cut(&x);
    let [a, b, c] = others[..] else { panic!("four") };
    let telling = complaints(&net, &[(leader, None), (a, Some(value)), (b, Some(value))]);
    let silent = complaints(&net, &[(leader, None), (a, Some(value)), (c, None)]);
    let scripted = ScriptedValidator::of(&net, leader);
    let votes = Rc::new(RefCell::new(0));
    let seen = votes.clone();
    net.corrupt(
        leader,
        Box::new(move |_, _, message| {
            let is_vote = matches!(message, Message::PrepareVote { vote, .. } if vote.view == View(1));
            *seen.borrow_mut() += usize::from(is_vote);
        }),
    );
    for reason in [silent, telling] {
        others.iter().for_each(|to| net.send(leader, *to, scripted.prepare(View(1), x.clone(), None, Some(reason.clone()))));
        net.run_for(2 * DELAY);
    }
    net.run_for(2 * DELAY);
    assert_eq!(*votes.borrow(), 3);
}

#[test]
fn n1_one_certificate_per_view_is_acknowledged() {
    // More than f are faulty here, otherwise there would be no second certificate; no other validator helps them.
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 0);
    let certificate = |mark: u8| {
        let (view, cut) = (View(0), B256::repeat_byte(mark));
        let digest = net.context.statement(&Statement::PrepareVote { slot: FIRST, view, cut });
        let shares: Shares = (0..3).map(|node| (index(node), FakeKeys(index(node)).share_digest(&digest))).collect();
        ScriptedValidator::prepare_certificate(FIRST, view, cut, &shares)
    };
    let (one, other) = (certificate(1), certificate(2));
    let acks = Rc::new(RefCell::new(BTreeMap::<B256, usize>::new()));
    let seen = acks.clone();
    net.corrupt(
        leader,
        Box::new(move |_, _, message| {
            if let Message::ConfirmAck(vote) = message {
                *seen.borrow_mut().entry(vote.cut).or_default() += 1;
            }
        }),
    );
    let voter = (leader + 1) % 4;
    for certificate in [&one, &other, &one] {
        net.give(voter, Input::Message { from: index(leader), message: Box::new(Message::Confirm(certificate.clone())) });
        // It is recorded; an acknowledgement that was not sent yet is not repeated.
        net.run_for(DELAY);
    }
    net.run_for(5 * DELAY);
    assert_eq!(
        acks.borrow().clone().into_iter().collect::<Vec<_>>(),
        [(one.cut, 2)],
        "again for the first, never for the second"
    );
}
