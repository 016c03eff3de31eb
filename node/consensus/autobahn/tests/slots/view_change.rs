//! View changes: crashed leaders, lost certificates, joining, reordered messages.

use crate::net::{DELAY, Net, index, plain};
use corniche_autobahn::{
    Authored, Config, Share, Signature, Signer,
    message::{Message, Position, Slot, Statement, View},
    slots::Input,
};
use corniche_autobahn_testing::FakeKeys;
use corniche_engine::Unsigned;
use corniche_types::{B256, ValidatorIndex};
use std::sync::{Arc, Mutex};

fn views_of(net: &Net, slot: u64) -> u32 {
    let committed = net.running().filter_map(|node| net.nodes[node].commits.get(&Slot(slot)));
    committed.map(|(_, certificate, _)| certificate.view.0).max().expect("it is committed")
}

#[test]
fn crashed_leader_costs_one_view() {
    for all_to_all in [false, true] {
        let mut net = Net::new(4, Config { all_to_all, ..plain() });
        net.crash(net.leader(1, 0));
        net.grow();
        assert!(net.run_until(3_000, |net| net.all_committed(1)));
        assert_eq!(views_of(&net, 1), 1);
        // E6: the timer, TIMEOUT, and a slow commit; it contains everything that grew meanwhile.
        let last = net.running().filter_map(|node| net.committed_at(node, 1)).max().expect("just seen");
        assert!(last <= 1_000 + 6 * DELAY + 5, "{last} ms");
    }
}

#[test]
fn consecutive_faulty_leaders_cost_once() {
    // Row 16: f successive leaders are down and k slots are wanted. The first slot pays f views, the others nothing. In
    // the order of validators they would pay f − 1, f − 2, … again.
    for (size, faulty) in [(4, 1), (7, 2), (10, 3)] {
        let mut net = Net::new(size, Config { fast_wait_ms: 0, ..plain() });
        let first = net.leader(1, 0);
        (0..faulty).for_each(|node| net.crash((first + node) % size));
        net.grow();
        assert!(net.run_until(60_000, |net| net.all_committed(1)));
        for _ in 0..8 {
            net.grow();
            net.run_for(4 * DELAY);
        }
        assert!(net.run_until(60_000, |net| net.all_committed(4)), "{size} validators");
        let views: Vec<_> = (1..=4).map(|slot| views_of(&net, slot) as usize).collect();
        assert_eq!(views, [faulty, 0, 0, 0], "{size} validators");
    }
}

#[test]
fn lost_commit_is_recovered_by_timeout() {
    // Row 34: one validator does not get COMMIT(1). Its complaint gets a response at once.
    let mut net = Net::new(4, plain());
    let leader = index(net.leader(1, 0));
    let deaf = index((leader.as_usize() + 1) % 4);
    net.link = Box::new(move |_, from, to, message| {
        (from != leader || to != deaf || !matches!(message, Message::Commit(_))).then_some(DELAY)
    });
    net.grow();
    assert!(net.run_until(1_500, |net| net.all_committed(1)));
    let at = net.committed_at(deaf.as_usize(), 1).expect("just seen");
    // Its timer began with the news, at 0; the commit arrives one round trip after it fired.
    assert_eq!(at, 1_000 + 2 * DELAY);
    assert_eq!(net.sent["timeout"], 3, "nobody else complains");
}

#[test]
fn lost_commit_is_recovered_from_later_leaders() {
    // Only one validator receives the commit of slot 1; then its leader is down. Slots 2 to 4 continue, and no view
    // must end by its timer.
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 0);
    let informed = index(net.leader(2, 0));
    net.link = Box::new(move |_, from, to, message| {
        let lost = from == index(leader) && to != informed && matches!(message, Message::Commit(_));
        (!lost).then_some(DELAY)
    });
    net.grow();
    assert!(net.run_until(1_000, |net| net.committed_at(informed.as_usize(), 1).is_some()));
    net.crash(leader);
    net.grow();
    let since = net.now;
    assert!(net.run_until(2_000, |net| net.all_committed(1)));
    // Slot 2 takes the slow path, and is 300 ms old when they request the missing commit: one round trip.
    assert_eq!(net.now - since, 5 * DELAY + 5 + 300 + 2 * DELAY);
    assert_eq!(net.sent.get("timeout"), None);
}

#[test]
fn partition_end_resends_pending_messages() {
    // E7: two and two, until long after all have complained. From healing to the commit: TIMEOUT, PREPARE, PREP-VOTE,
    // COMMIT.
    let mut net = Net::new(4, plain());
    net.link = Box::new(|now, from, to, _| (now >= 2_500 || (from.0 < 2) == (to.0 < 2)).then_some(DELAY));
    net.grow();
    net.run_for(2_500);
    assert!(net.values.is_empty());
    for (node, peer) in
        (0..4).flat_map(|node| (0..4).map(move |peer| (node, peer))).filter(|(node, peer)| (node < &2) != (peer < &2))
    {
        net.give(node, Input::PeerUp(index(peer)));
    }
    assert!(net.run_until(1_000, |net| net.all_committed(1)));
    assert_eq!(net.now, 2_500 + 4 * DELAY);
}

#[test]
fn f_plus_one_timeouts_advance_all() {
    // Row 13: only two of four know that there is news, so only their timers run.
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 0);
    net.crash(leader);
    let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
    net.link = Box::new(|_, _, _, message| (!matches!(message, Message::Available(_))).then_some(DELAY));
    net.certify(leader, 1, &others[..2]);
    net.run_for(1_000 + 2 * DELAY);
    for node in &others {
        assert_eq!(net.noted(*node, "view").first().map(|(_, detail)| detail.clone()), Some("slot 1 view 1".to_owned()));
    }
    assert_eq!(net.noted(others[2], "timeout").len(), 1, "it joined");
    assert!(net.run_until(2_000, |net| net.all_committed(1)));
}

#[test]
fn repeated_timeout_of_one_advances_nobody() {
    // One vote per sender: f complaints, repeated, are not f + 1, and no voter counts twice.
    for all_to_all in [false, true] {
        let mut net = Net::new(4, Config { all_to_all, fast_path: false, ..plain() });
        let leader = net.leader(1, 0);
        let [double, silent] = [(leader + 1) % 4, (leader + 2) % 4];
        net.corrupt(double, Box::new(|_, _, _| {}));
        net.crash(silent);
        let scripted = crate::scripted::ScriptedValidator::of(&net, double);
        net.grow();
        for _ in 0..20 {
            net.run_for(DELAY);
            for to in (0..4).filter(|to| ![double, silent].contains(to)) {
                net.send(double, to, Message::Timeout(scripted.timeout(Slot(1), View(0), None, None)));
            }
        }
        assert_eq!(net.sent["timeout"], 40, "nobody joins");
        // Two votes of the three that are needed; then the same two again, when the proposal is repeated.
        let proposed = net.nodes[leader].disk.iter().find_map(|record| record.prop.clone()).expect("it voted");
        let vote = scripted.vote(Slot(1), View(0), net.context.cut(&proposed.1));
        net.run_for(700);
        let voters = (0..4).filter(|to| ![double, silent].contains(to)).collect::<Vec<_>>();
        voters.iter().for_each(|to| net.send(double, *to, vote.clone()));
        voters.iter().for_each(|to| net.send(double, *to, vote.clone()));
        net.run_for(3 * DELAY);
        let acks = net.sent.get("confirmed").copied().unwrap_or(0);
        assert!(acks > 0, "three votes are a quorum");
        assert!(net.values.is_empty(), "two acknowledgements are not");
    }
}

#[test]
fn late_validator_receives_view_proof() {
    // P12: A leaves view 0 with the complaints of B and C, which never get A's. A does not complain about view 0 any
    // more.
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 0);
    net.crash(leader);
    let a = index((leader + 3) % 4);
    net.link = Box::new(move |now, from, _, message| {
        let lost = now < 1_500 && from == a && matches!(message, Message::Timeout(_) | Message::TimeoutQc(_));
        (!lost).then_some(DELAY)
    });
    net.grow();
    net.run_for(1_500);
    let views: Vec<_> = net.running().map(|node| net.noted(node, "view").len()).collect();
    assert_eq!(views.iter().sum::<usize>(), 1, "one of three has gone on");
    assert!(net.run_until(5_000, |net| net.all_committed(1)));
}

#[test]
fn any_message_order_commits() {
    // Row 33: the delay varies from message to message, so that any message can overtake any other.
    for seed in 0..40u64 {
        let mut net = Net::new(4, Config { all_to_all: seed % 2 == 0, ..plain() });
        let mut random = corniche_testkit::Random::new(seed);
        net.link = Box::new(move |_, _, _, _| Some(random.between(1, 120)));
        for _ in 0..10 {
            net.grow();
            net.run_for(60);
        }
        assert!(net.run_until(60_000, Net::is_idle), "seed {seed}: somebody still waits");
        let last = *net.values.keys().next_back().expect("something is committed");
        for node in &net.nodes {
            let (cut, ..) = &node.commits[&last];
            assert!(cut.tips.iter().all(|tip| tip.position == Position(10)), "seed {seed}: {cut:?}");
            let held = node.slots.as_ref().map_or(0, |slots| slots.footprint());
            assert!(held < 20, "seed {seed}: {held} things are held");
        }
    }
}

#[test]
fn view_timeout_doubles_up_to_limit() {
    // Row 41: only complaints are delivered.
    let mut net = Net::new(4, Config { max_view_timeout_ms: 4_000, ..plain() });
    net.link = Box::new(|_, _, _, message| matches!(message, Message::Timeout(_) | Message::TimeoutQc(_)).then_some(DELAY));
    net.grow();
    net.run_for(16_000);
    let times: Vec<_> =
        net.noted(0, "timeout").into_iter().filter(|(_, detail)| detail.starts_with("slot 1 ")).map(|(at, _)| at).collect();
    let gaps: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000).collect();
    assert_eq!(gaps[..4], [2, 4, 4, 4], "{times:?}");
    assert!(net.nodes[0].slots.as_ref().is_some_and(|slots| slots.footprint() < 40));
}

/// A signer in another process whose first answer to each vote is lost. It refuses a TIMEOUT that does not report its vote.
struct LateKeys {
    keys: FakeKeys,
    voted: Mutex<Option<(View, B256)>>,
}

impl Signer for LateKeys {
    fn index(&self) -> ValidatorIndex {
        self.keys.index()
    }

    fn sign(&self, authored: &Authored, digest: &B256) -> Option<Signature> {
        self.keys.sign(authored, digest)
    }

    fn share(&self, statement: &Statement, digest: &B256) -> Result<Share, Unsigned> {
        let mut voted = self.voted.lock().unwrap();
        match *statement {
            Statement::PrepareVote { view, cut, .. } if *voted != Some((view, cut)) => {
                *voted = Some((view, cut));
                Err(Unsigned::Unavailable)
            }
            Statement::Timeout { report, .. } if report.voted != *voted => Err(Unsigned::Refused),
            _ => self.keys.share(statement, digest),
        }
    }
}

/// N4 with a signer in another process: a vote whose signature did not come may exist, so TIMEOUTs report it. Without this the
/// others are too few to leave the view.
#[test]
fn vote_without_an_answer_is_reported() {
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 0);
    let late = (leader + 1) % 4;
    net.signers.insert(late, Arc::new(LateKeys { keys: FakeKeys(index(late)), voted: Mutex::new(None) }));
    net.crash(late);
    net.start(late);
    net.grow();
    net.run_for(DELAY + 1);
    net.crash(leader);
    assert!(net.run_until(10_000, |net| net.all_committed(1)));
    assert_eq!(views_of(&net, 1), 1);
}
