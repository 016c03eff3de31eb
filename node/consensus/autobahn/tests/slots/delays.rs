//! Exact number of message delays per slot, as in the table of section 5.2.

use crate::net::{DELAY, Net, plain};
use corniche_autobahn::{
    Config,
    message::{CommitKind, Slot},
};

/// Returns the message delays from a slot's PREPARE to its commit, at the first and at the last validator that commits.
fn delays(net: &Net, slot: u64) -> (u64, u64) {
    let start = net.proposed_at(slot, 0).expect("the slot was proposed");
    let times: Vec<_> = net.running().map(|node| net.committed_at(node, slot).expect("committed everywhere") - start).collect();
    (times.iter().min().expect("a running validator") / DELAY, times.iter().max().expect("a running validator") / DELAY)
}

fn committed(config: Config, size: usize, crashed: &[usize]) -> Net {
    let mut net = Net::new(size, config);
    crashed.iter().for_each(|node| net.crash(*node));
    net.grow();
    assert!(net.run_until(500, |net| net.all_committed(1)), "slot 1 commits in good time");
    net
}

#[test]
fn fast_path_takes_three_delays() {
    for size in [1, 4, 5, 6, 7, 10] {
        let net = committed(plain(), size, &[]);
        let expected = if size == 1 { (0, 0) } else { (2, 3) };
        assert_eq!(delays(&net, 1), expected, "{size} validators");
        let all_fast = net.running().all(|node| net.nodes[node].commits[&Slot(1)].1.kind == CommitKind::Fast);
        assert!(all_fast);
        assert_eq!(net.sent.get("confirm"), None);
    }
}

#[test]
fn slow_path_takes_five_delays() {
    for size in [4, 5, 6, 7, 10] {
        let net = committed(Config { fast_path: false, ..plain() }, size, &[]);
        assert_eq!(delays(&net, 1), (4, 5), "{size} validators");
        assert_eq!(net.nodes[0].commits[&Slot(1)].1.kind, CommitKind::Slow);
    }
}

#[test]
fn crashed_validator_makes_five_delays() {
    // Row 7. `fast_wait_ms` is 0, as if the leader had already stopped waiting after some missing votes (P19).
    let net = committed(Config { fast_wait_ms: 0, ..plain() }, 4, &[3]);
    assert_eq!(delays(&net, 1), (4, 5));
}

#[test]
fn all_to_all_takes_two_or_three_delays() {
    // Row 24: every validator commits at the same time.
    let net = committed(Config { all_to_all: true, ..plain() }, 4, &[]);
    assert_eq!(delays(&net, 1), (2, 2));
    let net = committed(Config { all_to_all: true, fast_path: false, ..plain() }, 4, &[]);
    assert_eq!(delays(&net, 1), (3, 3));
    let net = committed(Config { all_to_all: true, ..plain() }, 7, &[6]);
    assert_eq!(delays(&net, 1), (3, 3));
}

#[test]
fn slots_start_one_delay_apart() {
    for (stable_leader, gap) in [(false, 1), (true, 0)] {
        // Row 14, S6: new cars are certified before each slot starts, and a commit takes longer than the gap.
        let mut net = Net::new(4, Config { stable_leader, open_slots: 8, fast_path: false, ..plain() });
        net.grow();
        let mut times = Vec::new();
        for slot in 1..=6 {
            assert!(net.run_until(200, |net| net.proposed_at(slot, 0).is_some()), "slot {slot}");
            times.push(net.proposed_at(slot, 0).expect("just seen"));
            net.grow();
        }
        let gaps: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]) / DELAY).collect();
        assert_eq!(gaps, [gap; 5], "stable leader: {stable_leader}");
        assert!(net.run_until(500, |net| net.all_committed(6)));
    }
}
