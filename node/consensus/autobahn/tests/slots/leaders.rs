//! Distrusted leaders: a dead one costs only its short timer, and a correct one regains trust on any network.

use crate::net::{DELAY, Net, index, plain};
use corniche_autobahn::{
    Config,
    message::{Message, Slot, View},
    slots::Input,
};

/// The full timer of a first view, ms.
const FULL: u64 = 1_000;
/// The shortest timer of a distrusted leader.
const SHORT: u64 = FULL / 8;
/// Maximum duration of a slot without waiting for timers, ms: its ticket, the change to a later view, and a slow commit.
const SLOT: u64 = 12 * DELAY;

fn config() -> Config {
    Config { fast_wait_ms: 0, view_timeout_ms: FULL, ..plain() }
}

/// Runs with constant new cars.
fn run_busy(net: &mut Net, ms: u64) {
    let until = net.now + ms;
    while net.now < until {
        net.grow();
        net.run_for(DELAY);
    }
}

/// Longest time without a commit at a validator, ms.
fn longest_gap(net: &Net, node: usize, since: u64) -> u64 {
    let mut times: Vec<u64> = net.nodes[node].commits.values().map(|(.., at)| *at).filter(|at| *at >= since).collect();
    times.extend([since, net.now]);
    times.sort_unstable();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

/// Views in which the last slots committed.
fn last_views(net: &Net, node: usize, count: usize) -> Vec<u32> {
    net.nodes[node].commits.values().rev().take(count).map(|(_, certificate, _)| certificate.view.0).collect()
}

/// Drops all proposals of first views for `ms`.
fn fail_first_views(net: &mut Net, ms: u64) {
    net.link = Box::new(|_, _, _, message| {
        let lost = matches!(message, Message::Prepare(prepare) if prepare.view == View(0));
        (!lost).then_some(DELAY)
    });
    run_busy(net, ms);
}

#[test]
fn dead_leaders_cost_full_timer_once() {
    for (size, faulty) in [(4, 1), (7, 2), (10, 3)] {
        let mut net = Net::new(size, config());
        run_busy(&mut net, 1_000);
        // Consecutive validators crash, so the leaders of the next views are dead, too.
        (0..faulty).for_each(|node| net.crash(node));
        run_busy(&mut net, 20_000);
        let since = net.now;
        run_busy(&mut net, 5_000);
        let longest = longest_gap(&net, size - 1, since);
        assert!(longest <= faulty as u64 * SHORT + SLOT, "{size} validators: {longest} ms");
    }
}

#[test]
fn disconnected_leader_gets_short_timer() {
    let mut net = Net::new(4, config());
    run_busy(&mut net, 1_000);
    let since = net.now;
    net.crash(0);
    (1..4).for_each(|node| net.give(node, Input::PeerDown(index(0))));
    run_busy(&mut net, 3_000);
    let longest = longest_gap(&net, 1, since);
    assert!(longest <= SHORT + SLOT, "{longest} ms");

    // It leads again as soon as it is back.
    net.start(0);
    net.catch_up(0);
    (1..4).for_each(|node| net.give(node, Input::PeerUp(index(0))));
    run_busy(&mut net, 1_000);
    assert_eq!(last_views(&net, 1, 8), [0; 8]);
}

/// Timers may already run when the connection ends (P10 and R4 start them, too).
#[test]
fn disconnect_shortens_running_timer() {
    let mut net = Net::new(4, config());
    run_busy(&mut net, 1_000);
    assert!(net.run_until(1_000, Net::is_idle));
    let next = net.nodes[1].commits.len() as u64 + 1;
    let leader = net.leader(next, 0);
    let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
    net.crash(leader);
    net.grow();
    net.run_for(SHORT / 2);
    let since = net.now;
    others.iter().for_each(|node| net.give(*node, Input::PeerDown(index(leader))));
    assert!(net.run_until(FULL, |net| net.all_committed(next)));
    assert!(net.now - since <= SHORT / 2 + SLOT, "{} ms", net.now - since);
}

#[test]
fn first_view_commit_restores_trust() {
    let mut net = Net::new(4, config());
    run_busy(&mut net, 1_000);
    fail_first_views(&mut net, 6_000);
    assert!(last_views(&net, 1, 4).iter().all(|view| *view > 0), "{:?}", last_views(&net, 1, 4));
    net.link = Box::new(|_, _, _, _| Some(DELAY));
    run_busy(&mut net, 2_000);
    assert_eq!(last_views(&net, 1, 8), [0; 8]);
    // A silent leader costs more than the short timer again, so all are trusted.
    assert!(net.run_until(1_000, Net::is_idle));
    let next = net.nodes[1].commits.len() as u64 + 1;
    let leader = net.leader(next, 0);
    net.crash(leader);
    net.grow();
    net.run_for(2 * SHORT - 1);
    assert!(net.running().all(|node| net.noted(node, "timeout").iter().all(|(_, it)| *it != format!("slot {next} view 0"))));
    net.run_for(FULL - 2 * SHORT);
    assert!(net.running().all(|node| net.noted(node, "timeout").iter().any(|(_, it)| *it == format!("slot {next} view 0"))));
}

/// It is trusted after each slot that it leads well, so the short timer alone would not help.
#[test]
fn a_leader_that_fails_in_every_second_slot_does_not_cost_full_timers() {
    for (size, faulty) in [(4, 1), (7, 2)] {
        let mut net = Net::new(size, config());
        run_busy(&mut net, 1_000);
        net.link = Box::new(move |_, from, _, message| {
            let fails = |slot: Slot| (slot.0 / size as u64).is_multiple_of(2);
            let lost = from.as_usize() < faulty
                && matches!(message, Message::Prepare(prepare) if prepare.view == View(0) && fails(prepare.cut.slot));
            (!lost).then_some(DELAY)
        });
        let since = net.now;
        run_busy(&mut net, 20_000);
        let commits = net.nodes[size - 1].commits.values();
        let failed = commits.filter(|(_, certificate, at)| *at > since && certificate.view > View(0)).count();
        assert!(failed > 10, "{size} validators: {failed} slots");
        let longest = longest_gap(&net, size - 1, since);
        assert!(longest <= FULL * 3 / 4, "{size} validators: {longest} ms");
    }
}

/// After the change a slot takes seven times as long as the short timer that was measured before.
#[test]
fn slow_network_restores_all_leaders_trust() {
    for all_to_all in [false, true] {
        let mut net = Net::new(4, Config { all_to_all, ..config() });
        run_busy(&mut net, 1_000);
        fail_first_views(&mut net, 6_000);
        assert!(last_views(&net, 1, 4).iter().all(|view| *view > 0), "nobody is trusted");
        net.link = Box::new(|_, _, _, _| Some(300));
        let since = net.now;
        run_busy(&mut net, 40_000);
        assert!(longest_gap(&net, 1, since) <= 5_000, "{} ms", longest_gap(&net, 1, since));
        assert_eq!(last_views(&net, 1, 8), [0; 8]);
    }
}

/// If a slot takes longer than the full timer, timers double with each view as if all leaders were trusted.
#[test]
fn trust_is_irrelevant_on_very_slow_network() {
    for size in [4, 7, 10] {
        let mut net = Net::new(size, config());
        net.link = Box::new(|_, _, _, _| Some(600));
        run_busy(&mut net, 60_000);
        let views = last_views(&net, 1, 8);
        assert!(views.len() == 8 && views.iter().all(|view| *view <= 2), "{size} validators: {views:?}");
        assert!(longest_gap(&net, 1, 30_000) <= 6_000, "{size} validators: {} ms", longest_gap(&net, 1, 30_000));
    }
}

/// One validator is dead in addition, so slots take the slow path.
#[test]
fn slow_network_with_dead_validator_restores_trust() {
    let mut net = Net::new(4, config());
    run_busy(&mut net, 1_000);
    fail_first_views(&mut net, 6_000);
    net.crash(0);
    net.link = Box::new(|_, _, _, _| Some(200));
    run_busy(&mut net, 40_000);
    let slots = net.nodes[1].commits.keys().rev().take(8).copied().collect::<Vec<Slot>>();
    for slot in slots {
        let expected = u32::from(net.leads(0, slot.0, 0));
        assert_eq!(net.nodes[1].commits[&slot].1.view.0, expected, "{slot:?}");
    }
}

#[test]
fn first_views_commit_after_partition() {
    let mut net = Net::new(4, config());
    run_busy(&mut net, 1_000);
    let pairs =
        || (0..4).flat_map(|node| (0..4).map(move |peer| (node, peer))).filter(|(node, peer)| (node < &2) != (peer < &2));
    net.link = Box::new(|_, from, to, _| ((from.0 < 2) == (to.0 < 2)).then_some(DELAY));
    pairs().for_each(|(node, peer)| net.give(node, Input::PeerDown(index(peer))));
    run_busy(&mut net, 10_000);
    net.link = Box::new(|_, _, _, _| Some(DELAY));
    pairs().for_each(|(node, peer)| net.give(node, Input::PeerUp(index(peer))));
    let healed = net.now;
    run_busy(&mut net, 3_000);
    assert!(longest_gap(&net, 1, healed) <= SHORT + SLOT, "{} ms", longest_gap(&net, 1, healed));
    assert_eq!(last_views(&net, 1, 8), [0; 8]);
}

/// Liveness after GST needs timers that grow, even if a validator distrusts all leaders.
#[test]
fn later_view_timers_ignore_trust() {
    for (size, faulty) in [(4, 1), (7, 2)] {
        let mut net = Net::new(size, config());
        run_busy(&mut net, 1_000);
        fail_first_views(&mut net, 20_000);
        assert!(net.run_until(10_000, Net::is_idle));
        for node in 0..size {
            (0..size).filter(|peer| *peer != node).for_each(|peer| net.give(node, Input::PeerDown(index(peer))));
        }
        net.link = Box::new(|_, _, _, message| matches!(message, Message::Timeout(_) | Message::TimeoutQc(_)).then_some(DELAY));
        let slot = net.nodes[0].slots.as_ref().expect("it runs").committed().0 + 1;
        net.grow();
        net.run_for(40_000);
        let prefix = format!("slot {slot} view ");
        let times: Vec<_> = net.noted(0, "timeout").into_iter().filter(|(_, it)| it.starts_with(&prefix)).collect();
        let seconds: Vec<_> = times.windows(2).map(|pair| (pair[1].0 - pair[0].0) / 1_000).collect();
        // Views 1 to f are short, view f + 1 takes 2^(f + 1) seconds.
        let mut expected = vec![0; faulty];
        expected.extend([2 << faulty, 4 << faulty]);
        assert_eq!(seconds[..faulty + 2], expected, "{size} validators: {times:?}");
    }
}
