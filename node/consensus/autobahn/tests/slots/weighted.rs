//! Quorums of votes: six validators with 3, 2, 2, 1, 1 and 1 votes, so W = 10, F = 3 and Q = 7.

use crate::{
    net::{DELAY, Net, index, plain},
    scripted::{ScriptedValidator, Shares, proof},
};
use corniche_autobahn::{
    AutobahnVerifier, Config,
    message::{Availability, CommitKind, Message, PrepareQc, Slot, Statement, View},
    slots::Input,
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures};
use corniche_engine::Verifier;
use corniche_types::{B256, ValidatorIndex, Votes};
use std::{collections::BTreeMap, sync::Arc};

const VOTES: [u32; 6] = [3, 2, 2, 1, 1, 1];

/// A committee of which only these validators run.
fn with_only(up: &[usize], config: Config) -> Net {
    let mut net = Net::with_votes(&VOTES, config);
    (0..VOTES.len()).filter(|node| !up.contains(node)).for_each(|node| net.crash(node));
    net
}

#[test]
fn quorum_consists_of_votes() {
    // Q votes of three, four or five members commit, also if the first leaders are down: then a TC needs Q votes, too.
    // Five members with one vote each would be a quorum of six, four would not.
    for (up, commits) in [
        (&[0, 1, 2][..], true),
        (&[0, 2, 3, 4], true),
        (&[1, 2, 3, 4, 5], true),
        (&[0, 1, 3], false),
        (&[1, 2, 4, 5], false),
        (&[0, 3, 4, 5], false),
    ] {
        for all_to_all in [false, true] {
            let mut net = with_only(up, Config { all_to_all, ..plain() });
            for slot in 1..=3 {
                net.grow();
                net.run_until(30_000, |net| net.all_committed(slot));
            }
            assert_eq!(net.all_committed(3), commits, "{up:?}");
            assert_eq!(net.values.is_empty(), !commits, "{up:?}");
            let mut commits = net.nodes.iter().flat_map(|node| node.commits.values());
            assert!(commits.all(|(_, certificate, _)| certificate.kind == CommitKind::Slow), "{up:?}: all members are fast");
        }
    }
}

#[test]
fn verifier_weighs_signers() {
    let config = Config { weak_votes: true, ..plain() };
    let net = Net::with_votes(&VOTES, config.clone());
    let committee = &net.committee;
    let verifier = AutobahnVerifier::new(config, committee.clone(), Arc::new(FakeSignatures));
    let accepts = |message: Message| verifier.verify(ValidatorIndex(0), &message.encode()).is_ok();
    let (slot, view, cut) = (Slot(1), View(0), B256::repeat_byte(1));
    let tip = net.tip(0, 1);
    for set in 0..1u32 << VOTES.len() {
        let signers: Vec<_> = committee.indices().filter(|member| set & 1 << member.0 != 0).collect();
        let votes = committee.weigh(signers.iter().copied());
        let is_weak = |member: &ValidatorIndex| member.0 < 2;
        let shares = |statement: &dyn Fn(&ValidatorIndex) -> Statement| -> Shares {
            let share = |member: &ValidatorIndex| FakeKeys(*member).share_digest(&net.context.statement(&statement(member)));
            signers.iter().map(|member| (*member, share(member))).collect()
        };
        let held = proof(&shares(&|_| Statement::CarVote(tip)));
        assert_eq!(accepts(Message::Available(Availability { tip, proof: held })), votes >= Votes(4), "PoA of {signers:?}");
        let prepared = shares(&|_| Statement::PrepareVote { slot, view, cut });
        let certificate = ScriptedValidator::prepare_certificate(slot, view, cut, &prepared);
        assert_eq!(accepts(Message::Confirm(certificate)), votes >= Votes(7), "PrepareQC of {signers:?}");
        let fast = ScriptedValidator::commit_certificate(CommitKind::Fast, slot, view, cut, &prepared);
        assert_eq!(accepts(Message::Commit(fast)), votes == Votes(10), "fast CommitQC of {signers:?}");
        // The first two members vote weakly.
        let partly = shares(&|member| match is_weak(member) {
            true => Statement::WeakPrepareVote { slot, view, cut },
            false => Statement::PrepareVote { slot, view, cut },
        });
        let weak: Vec<_> = signers.iter().copied().filter(is_weak).collect();
        let strong = votes - committee.weigh(weak.iter().copied());
        let certificate = PrepareQc { slot, view, cut, weak, proof: proof(&partly) };
        let expected = votes >= Votes(7) && strong >= Votes(4);
        assert_eq!(accepts(Message::Confirm(certificate)), expected, "PrepareQC of {signers:?} with weak votes");
        let acks = shares(&|_| Statement::ConfirmAck { slot, view, cut });
        let slow = ScriptedValidator::commit_certificate(CommitKind::Slow, slot, view, cut, &acks);
        assert_eq!(accepts(Message::Commit(slow)), votes >= Votes(7), "slow CommitQC of {signers:?}");
        let timeout =
            |member: &ValidatorIndex| (*member, ScriptedValidator::of(&net, member.as_usize()).timeout(slot, view, None, None));
        let timeouts: BTreeMap<_, _> = signers.iter().map(timeout).collect();
        let timeouts = ScriptedValidator::timeouts(slot, view, &timeouts);
        assert_eq!(accepts(Message::TimeoutQc(timeouts)), votes >= Votes(7), "TC of {signers:?}");
    }
}

#[test]
fn fast_path_needs_every_member() {
    let mut net = Net::with_votes(&VOTES, plain());
    net.grow();
    assert!(net.run_until(200, |net| net.all_committed(1)));
    let (_, certificate, _) = &net.nodes[0].commits[&Slot(1)];
    assert_eq!((certificate.kind, certificate.proof.signers.len()), (CommitKind::Fast, 6));
}

#[test]
fn f_plus_one_votes_advance_all() {
    // V4: the doubles complain about the first view, which nobody else wants to leave.
    for (doubles, joined) in [(&[3, 4, 5][..], false), (&[0], false), (&[0, 3], true), (&[1, 2], true)] {
        let mut net = Net::with_votes(&VOTES, plain());
        let others: Vec<_> = (0..VOTES.len()).filter(|node| !doubles.contains(node)).collect();
        for double in doubles {
            net.corrupt(*double, Box::new(|_, _, _| {}));
            let scripted = ScriptedValidator::of(&net, *double);
            for to in &others {
                net.send(*double, *to, Message::Timeout(scripted.timeout(Slot(1), View(0), None, None)));
            }
        }
        net.run_for(2 * DELAY);
        let joins = others.iter().filter(|node| !net.noted(**node, "timeout").is_empty()).count();
        assert_eq!(joins, if joined { others.len() } else { 0 }, "{doubles:?}");
    }
}

#[test]
fn weak_votes_need_f_plus_one_strong_votes() {
    // The leader of the first slot and others hold its uncertified car.
    const VOTES: [u32; 6] = [1, 1, 1, 2, 2, 3];
    let config = || Config { weak_votes: true, leader_tips: true, ..plain() };
    for (others, prepared) in [(&[1, 2][..], false), (&[5], true), (&[1, 3], true), (&[3], false)] {
        let mut net = Net::with_votes(&VOTES, config());
        let leader = net.leader(1, 0);
        assert_eq!(leader, 0);
        let holders: Vec<_> = others.iter().copied().chain([leader]).collect();
        let tip = net.tip(leader, 1);
        for node in &holders {
            net.nodes[*node].lanes.optimistic.insert(index(leader), (tip, None));
            net.nodes[*node].lanes.held.insert(tip);
        }
        holders.iter().for_each(|node| net.give(*node, Input::Lanes));
        net.run_for(10 * DELAY);
        assert_eq!(net.sent.contains_key("confirm"), prepared, "{holders:?} hold the car");
    }
}

#[test]
fn coverage_counts_votes() {
    // Two lanes have news: of members with 3 + 2 votes, or with 1 + 1.
    for (lanes, covered) in [([0, 1], true), ([3, 4], false)] {
        let mut net = Net::with_votes(&VOTES, Config { coverage: 5, coverage_wait_ms: 500, ..plain() });
        let all: Vec<_> = (0..VOTES.len()).collect();
        lanes.into_iter().for_each(|lane| net.certify(lane, 1, &all));
        net.run_for(100);
        assert_eq!(net.proposed_at(1, 0).is_some(), covered, "{lanes:?}");
        assert!(net.run_until(1_000, |net| net.all_committed(1)));
    }
}
