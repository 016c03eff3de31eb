//! Durable before visible, and recovery after a power cut (R1, R4, R5).

use crate::net::{DELAY, Net, index, plain};
use corniche_autobahn::{
    Config,
    message::{Message, Slot, View},
};
use corniche_testkit::Random;

#[test]
fn messages_wait_for_durable_records() {
    // A slow disk: the leader's PREPARE, votes and acknowledgements each wait for one write. The leader's own vote
    // waits for two.
    let mut net = Net::new(4, Config { fast_path: false, ..plain() });
    net.disk = 3;
    net.grow();
    assert!(net.run_until(500, |net| net.all_committed(1)));
    let last = net.running().filter_map(|node| net.committed_at(node, 1)).max();
    assert_eq!(last, Some(5 * DELAY + 3 * 3));
    // Same for a TIMEOUT.
    let mut net = Net::new(4, plain());
    net.disk = 3;
    net.crash(net.leader(1, 0));
    net.grow();
    net.run_for(1_002);
    assert_eq!(net.sent.get("timeout"), None);
    net.run_for(1);
    assert_eq!(net.sent.get("timeout"), Some(&9));
}

#[test]
fn vote_that_was_not_durable_is_not_sent() {
    // The power fails between a vote's record and its sync, at every validator, at every time within a slot.
    for cut in 0..=70 {
        for all_to_all in [false, true] {
            let mut net = Net::new(4, Config { all_to_all, ..plain() });
            net.disk = 4;
            net.grow();
            net.run_for(cut);
            for node in 0..4 {
                net.crash(node);
                net.start(node);
            }
            assert!(net.run_until(20_000, |net| net.all_committed(1)), "power cut at {cut} ms");
            assert!(net.run_until(60_000, Net::is_idle), "power cut at {cut} ms");
        }
    }
}

#[test]
fn restart_repeats_timeout() {
    let mut net = Net::new(4, plain());
    let leader = net.leader(1, 0);
    net.crash(leader);
    let [a, b] = [(leader + 1) % 4, (leader + 2) % 4];
    net.crash(b);
    net.grow();
    net.run_for(1_500);
    let record = net.nodes[a].disk.iter().find(|record| record.slot == Slot(1)).expect("it complained");
    assert!(record.timed_out && record.view == View(0));
    net.crash(a);
    net.start(a);
    // The leader starts and proposes: too late for view 0.
    let before = net.sent["timeout"];
    net.start(leader);
    net.run_for(5 * DELAY);
    assert!(net.sent["timeout"] > before, "at once, not when its timer fires");
    assert_eq!(net.sent.get("prepared"), None, "N2: the PREPARE of a view that was given up gets no vote");
    assert!(net.run_until(20_000, |net| net.all_committed(1)));
    assert!(net.nodes[a].commits[&Slot(1)].1.view > View(0));
}

#[test]
fn random_power_cuts() {
    // Committees with random links, disks and cuts: agreement at each commit, repeated votes are equal, and progress at
    // the end.
    for seed in 0..300u64 {
        let mut random = Random::new(seed);
        let size = [1, 4, 5, 7][random.below(4) as usize];
        let mut net = Net::new(size, Config { all_to_all: seed % 3 == 0, view_timeout_ms: 300, resend_ms: 200, ..plain() });
        net.disk = random.below(8);
        let mut links = random.fork("links");
        net.link = Box::new(move |_, _, _, _| (!links.one_in(12)).then(|| links.between(1, 30)));
        for _ in 0..30 {
            net.grow();
            net.run_for(random.below(120));
            let node = random.below(size as u64) as usize;
            if net.nodes[node].slots.is_none() || random.one_in(3) {
                net.crash(node);
                if random.one_in(2) {
                    net.start(node);
                }
            }
        }
        (0..size)
            .filter(|node| net.nodes[*node].slots.is_none())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|node| net.start(node));
        net.link = Box::new(|_, _, _, _| Some(DELAY));
        net.grow();
        assert!(net.run_until(120_000, Net::is_idle), "seed {seed}, {size} validators: no end\n{}", net.describe());
        let last = *net.values.keys().next_back().expect("something is committed");
        let whole = (0..size).all(|node| net.nodes[node].commits[&last].0.tips.iter().all(|tip| tip.position.0 == 31));
        assert!(whole, "seed {seed}, {size} validators: not all is committed everywhere");
    }
}

#[test]
fn validator_without_records_abstains() {
    // R5: a lost disk in the middle of a slot. The validator signs nothing about the slot, and the others continue.
    let mut net = Net::new(4, plain());
    let forgetful = (net.leader(1, 0) + 2) % 4;
    net.link = Box::new(|now, _, _, message| (now > 40 || !matches!(message, Message::PrepareVote { .. })).then_some(DELAY));
    net.grow();
    net.run_for(30);
    net.crash(forgetful);
    net.nodes[forgetful].disk.clear();
    net.nodes[forgetful].forgetful = true;
    net.start(forgetful);
    net.nodes[forgetful].slots.as_mut().expect("just started").abstain(Slot(8));
    let mine = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = mine.clone();
    net.link = Box::new(move |_, from, _, message| {
        if from == index(forgetful) {
            seen.borrow_mut().push(crate::net::kind(message));
        }
        Some(DELAY)
    });
    assert!(net.run_until(10_000, |net| net.all_committed(1)));
    for slot in 2..=10 {
        net.grow();
        assert!(net.run_until(30_000, |net| net.all_committed(slot)), "slot {slot}");
        let signed = ["prepare", "prepared", "confirmed", "timeout"];
        let spoke = mine.borrow().iter().any(|kind| signed.contains(kind));
        assert_eq!(spoke, slot > 8, "slot {slot}: {:?}", mine.borrow());
    }
}
