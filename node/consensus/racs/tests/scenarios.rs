//! Message delays, fallback, batches and recovery of the whole engine, on a network whose links all take one delay.

use corniche_racs::{
    Config,
    message::{Message, View},
    rules::Coin,
};
use corniche_racs_testing::{RacsSubject, committee};
use corniche_testkit::{
    Delivery, Micros,
    crashes::{self, CrashCluster, CrashEngine, DELAY, LOST, decisions, delay, have, lose_disk, notes, submit},
};
use corniche_types::{B256, ValidatorIndex};

type Cluster = CrashCluster<RacsSubject>;

// X14: the silence after a lost disk.
corniche_testkit::crash_scenarios!(
    RacsSubject,
    loss_of_a_disk_survives_a_power_cut,
    disk_lost_at_the_genesis_is_not_a_first_start,
    clocks_that_are_wrong_move_nothing
);

fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

/// No timer matters but that of the view.
fn plain() -> Config {
    RacsSubject::plain(10_000, 10_000)
}

fn cluster(size: usize, config: Config) -> Cluster {
    crashes::cluster(size, config)
}

/// The coin of a view elects this member.
fn electing(member: usize, view: u64, size: usize) -> Config {
    let elects = |seed: &B256| Coin::new(&committee(size), *seed).elect(View(view)) == index(member);
    let genesis_randomness = (0..=255).map(B256::with_last_byte).find(elects).unwrap();
    Config { genesis_randomness, ..plain() }
}

fn commits(cluster: &Cluster, node: usize) -> usize {
    cluster.seen(node).log.len()
}

fn sent(cluster: &Cluster, node: usize, wanted: impl Fn(&Message) -> bool) -> usize {
    cluster.seen(node).count(wanted)
}

/// Starts the timers of the others: the leader of view 0 is off.
fn without_leader(size: usize, config: Config) -> Cluster {
    let mut cluster = cluster(size, config);
    cluster.simulation.crash(0);
    cluster
}

// ---- the good case

/// M1: SADL takes a round trip, and so does the block. The others know one delay later.
#[test]
fn leader_commits_its_own_batch_in_two_round_trips() {
    let mut cluster = cluster(4, plain());
    assert_eq!(submit(&mut cluster, 0, "a"), [4, 5, 5, 5], "Batch, BatchVote, Propose, Vote; Commit for the others");
    assert_eq!(decisions(&cluster, 0), [("votes".to_owned(), 1)].into());
    assert_eq!(sent(&cluster, 1, |message| matches!(message, Message::Timeout { .. })), 0);
    cluster.assert_equal_logs(0..4);
}

/// D7: the completion of a batch reaches the leader without a next batch.
#[test]
fn batches_of_others_need_one_delay_more() {
    let mut cluster = cluster(4, plain());
    assert_eq!(submit(&mut cluster, 2, "a"), [5, 6, 6, 6], "Batch, BatchVote, Completed, Propose, Vote; Commit");
}

/// D7, X13: and it waits for `tail_ms`, in case there is a next batch.
#[test]
fn last_batch_of_a_burst_is_ordered() {
    let mut cluster = cluster(4, Config { tail_ms: 5 * DELAY, ..plain() });
    assert_eq!(submit(&mut cluster, 2, "a"), [10, 11, 11, 11]);
    assert_eq!(sent(&cluster, 2, |message| matches!(message, Message::Completed { .. })), 1);
    cluster.load([2], true);
    cluster.run_for(50 * DELAY);
    let completed = sent(&cluster, 2, |message| matches!(message, Message::Completed { .. }));
    assert_eq!(completed, 1, "while there is a next batch, nothing else has to say so");
}

/// S6, X11: a leader commits and tells the others in its next block.
#[test]
fn followers_learn_commits_from_the_next_block() {
    let mut cluster = cluster(3, plain());
    cluster.load(0..3, true);
    cluster.run_for(100 * DELAY);
    let notices = sent(&cluster, 0, |message| matches!(message, Message::Commit { .. }));
    assert!(commits(&cluster, 1) > 40 && notices < 3, "{} commits, {notices} notices", commits(&cluster, 1));
    cluster.assert_equal_logs(0..3);
}

/// X11: an idle chain is silent, but for the clocks, and no timer fires.
#[test]
fn idle_chain_is_silent() {
    let mut cluster = cluster(3, plain());
    submit(&mut cluster, 0, "a");
    let before: usize = (0..3).map(|node| sent(&cluster, node, |_| true)).sum();
    cluster.run_for(5_000);
    let after: usize = (0..3).map(|node| sent(&cluster, node, |_| true)).sum();
    assert!(after - before <= 6, "{} messages", after - before);
    assert_eq!((0..3).map(|node| notes(&cluster, node, "fallback")).sum::<usize>(), 0);
}

/// M2: with a window, blocks do not wait for the votes of those before them.
#[test]
fn leader_with_a_window_has_blocks_in_flight() {
    let blocks = |pipeline: u64| {
        let mut cluster = cluster(3, Config { pipeline, ..plain() });
        // Batches of validator 1 complete one after the other, and votes for blocks take long.
        cluster.set_rule(|_, _, _, message| match message {
            Message::Vote { .. } => Delivery::Hold(8 * DELAY * 1_000),
            _ => Delivery::Normal,
        });
        cluster.load([1], true);
        cluster.run_for(100 * DELAY);
        commits(&cluster, 0)
    };
    let (one, eight) = (blocks(1), blocks(8));
    assert!(eight >= 2 * one, "{one} commits with one block, {eight} with eight");
}

/// M10: lanes do not wait for each other.
#[test]
fn slow_validator_does_not_slow_the_lanes_of_others() {
    let batches = |slow: u64| {
        let mut cluster = cluster(5, plain());
        cluster.simulation.links.port(4).delay = Micros::from_millis(slow);
        cluster.load(0..5, true);
        cluster.run_for(200 * DELAY);
        cluster.seen(0).log.iter().flat_map(|(_, ordered)| &ordered.batches).filter(|(author, _)| author.0 < 4).count()
    };
    let (fast, slow) = (batches(0), batches(10 * DELAY));
    assert!(10 * slow >= 9 * fast, "{fast} batches without a slow validator, {slow} with one");
}

/// M9, M11: blocks have a constant size, and the leader sends no batches of others.
#[test]
fn blocks_have_a_constant_size() {
    let mut cluster = cluster(3, plain());
    let sizes = |cluster: &Cluster| {
        let of = |message: &Message| matches!(message, Message::Propose { .. }).then(|| message.encode().len());
        cluster.seen(0).sent.iter().filter_map(|(_, _, message)| of(message)).collect::<Vec<_>>()
    };
    submit(&mut cluster, 1, "a");
    submit(&mut cluster, 1, &"b".repeat(100_000));
    let sizes = sizes(&cluster);
    assert!(sizes.len() >= 2 && sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    assert_eq!(sent(&cluster, 0, |message| matches!(message, Message::Batch(_))), 0);
}

// ---- the fallback

/// M3: from the timers on, six delays: Timeout, ProposeAsync and VoteAsync twice, Complete.
#[test]
fn fallback_commits_after_six_delays() {
    let mut cluster = without_leader(4, electing(2, 0, 4));
    let since = cluster.simulation.now();
    cluster.submit(2, "a");
    cluster.run_for(35 * DELAY);
    // The batch completes after two delays, and the others hear of it after three. Then their timers start.
    assert_eq!(delay(&cluster, 1, "a", since), 3 + 20 + 6);
    // The author's timer starts one delay earlier, but it needs the timeouts of the others.
    assert_eq!([2, 3].map(|node| delay(&cluster, node, "a", since)), [29, 29]);
    assert_eq!(decisions(&cluster, 1).get("coin"), Some(&1));
    cluster.assert_equal_logs(1..4);
    // View 1 has a leader that is alive: no more timers.
    let since = cluster.simulation.now();
    cluster.submit(1, "b");
    cluster.run_for(20 * DELAY);
    assert_eq!(delay(&cluster, 1, "b", since), 4);
    cluster.simulation.restart(0);
    cluster.run_for(20 * DELAY);
    assert!(have(&cluster, [0], "a") && have(&cluster, [0], "b"), "{}", cluster.engine(0).describe());
    cluster.assert_equal_logs(0..4);
}

/// A6: the coin elects the crashed validator, so nothing is committed, and the next leader proposes.
#[test]
fn coin_may_elect_nobody() {
    let mut cluster = without_leader(4, electing(0, 0, 4));
    cluster.submit(2, "a");
    let since = cluster.simulation.now();
    cluster.run_for(60 * DELAY);
    // New views and the block of view 1 take four delays more for its leader.
    assert_eq!(delay(&cluster, 1, "a", since), 3 + 20 + 6 + 3);
    assert_eq!(decisions(&cluster, 1).get("coin"), None);
    assert_eq!(decisions(&cluster, 1).get("votes"), Some(&1));
    cluster.assert_equal_logs(1..4);
}

/// M6, I2: one validator commits and crashes. The others did not see the elected one's completion, and commit the same block.
#[test]
fn block_of_one_validator_is_handed_over() {
    let mut cluster = cluster(5, electing(3, 0, 5));
    cluster.simulation.crash(0);
    // Only validator 3 itself knows that its block is complete.
    cluster.set_rule(|_, from, _, message| match message {
        Message::Complete { .. } | Message::Commit { .. } if from == 3 => LOST,
        Message::Decided(_) => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(2, "a");
    let is_open = |cluster: &Cluster| !have(cluster, [3], "a");
    assert!(cluster.run_while(100 * DELAY, is_open), "validator 3 commits");
    let log = cluster.seen(3).log.clone();
    cluster.simulation.crash(3);
    cluster.run_for(50 * DELAY);
    cluster.clear_rule();
    cluster.submit(1, "b");
    cluster.run_for(300 * DELAY);
    for node in [1, 2, 4] {
        assert!(have(&cluster, [node], "a") && have(&cluster, [node], "b"), "{}", cluster.engine(node).describe());
        let first: Vec<_> = cluster.seen(node).log.iter().take(log.len()).map(|(_, ordered)| ordered.clone()).collect();
        let expected: Vec<_> = log.iter().map(|(_, ordered)| ordered.clone()).collect();
        assert_eq!(first, expected);
    }
    assert_eq!(notes(&cluster, 1, "agreement-lost"), 0);
}

/// M7, X17: a network that makes every timer fire does not stop the commits.
#[test]
fn timeouts_below_the_round_trip_still_commit() {
    for size in [3, 5] {
        let mut cluster = cluster(size, Config { timeout_ms: 1, ..plain() });
        // The leader's blocks never arrive, so all commits are the coin's.
        cluster.set_rule(|_, _, _, message| if matches!(message, Message::Propose { .. }) { LOST } else { Delivery::Normal });
        cluster.load(0..size, true);
        cluster.run_for(500 * DELAY);
        let count = commits(&cluster, 1);
        assert!(count > 40, "{count} commits in five seconds");
        assert_eq!(decisions(&cluster, 1).get("votes"), None);
        // S9: later timers are longer, so a network that recovers has leaders again.
        cluster.clear_rule();
        cluster.run_for(300 * DELAY);
        assert!(decisions(&cluster, 1).contains_key("votes") || decisions(&cluster, 2).contains_key("votes"));
        cluster.load(0..size, false);
        cluster.run_for(200 * DELAY);
        cluster.assert_equal_logs(0..size);
    }
}

/// M3: a leader that falls silent in the middle of its blocks.
#[test]
fn crashed_leader_is_replaced() {
    let mut cluster = cluster(4, plain());
    cluster.load(0..4, true);
    cluster.run_for(50 * DELAY);
    cluster.simulation.crash(0);
    cluster.run_for(100 * DELAY);
    let before = commits(&cluster, 2);
    cluster.run_for(50 * DELAY);
    assert!(commits(&cluster, 2) > before + 20, "{before}, then {}", commits(&cluster, 2));
    cluster.load(1..4, false);
    cluster.simulation.restart(0);
    cluster.run_for(100 * DELAY);
    assert_eq!(commits(&cluster, 0), commits(&cluster, 2));
    cluster.assert_equal_logs(0..4);
}

/// S8: a validator whose timer fired for no good reason votes no more. With one more off, there are no Q voters left, and the timers of
/// the others must not wait for ever.
#[test]
fn spurious_timeouts_do_not_stop_the_view() {
    let mut cluster = cluster(5, Config { resend_ms: 100, pipeline: 8, ..plain() });
    // Validators 3 and 4 miss the leader's messages for a while.
    cluster.set_rule(|_, from, to, message| match message {
        Message::Propose { .. } | Message::Commit { .. } | Message::Decided(_) if from == 0 && to > 2 => LOST,
        Message::Decided(_) => LOST,
        _ => Delivery::Normal,
    });
    cluster.load([1], true);
    cluster.run_for(30 * DELAY);
    assert!(sent(&cluster, 4, |message| matches!(message, Message::Timeout { .. })) > 0);
    cluster.clear_rule();
    cluster.simulation.crash(2);
    cluster.run_for(20 * DELAY);
    let before = commits(&cluster, 1);
    cluster.run_for(100 * DELAY);
    assert!(commits(&cluster, 1) > before + 10, "{before}, then {}: {}", commits(&cluster, 1), cluster.engine(1).describe());
    cluster.assert_equal_logs([0, 1, 3, 4]);
}

/// J1: a validator that was away in several views goes on in the current one.
#[test]
fn validator_that_was_away_finds_the_view() {
    let mut cluster = cluster(3, Config { timeout_ms: 50, resend_ms: 100, ..plain() });
    cluster.simulation.partition(&[vec![0, 1], vec![2]]);
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Propose { .. }) { LOST } else { Delivery::Normal });
    cluster.load(0..2, true);
    cluster.run_for(200 * DELAY);
    cluster.load(0..2, false);
    cluster.clear_rule();
    cluster.simulation.heal();
    cluster.run_for(200 * DELAY);
    let view = |node: usize| cluster.engine(node).describe().split(',').next().unwrap().to_owned();
    assert_eq!(view(2), view(0));
    assert!(notes(&cluster, 0, "view") > 3);
    cluster.simulation.crash(0);
    cluster.submit(2, "a");
    cluster.run_for(300 * DELAY);
    assert!(have(&cluster, [1], "a"), "{}", cluster.engine(1).describe());
    cluster.assert_equal_logs(0..3);
}

// ---- batches

/// M12, X15: a validator without a batch votes for the block, and fetches the batch before it executes.
#[test]
fn consensus_does_not_wait_for_batches() {
    let mut cluster = cluster(3, plain());
    cluster.set_rule(|_, from, to, message| match message {
        Message::Batch(_) if from == 2 && to == 1 => LOST,
        Message::FetchBatch { .. } => Delivery::Hold(10 * DELAY * 1_000),
        _ => Delivery::Normal,
    });
    cluster.submit(2, "a");
    let since = cluster.simulation.now();
    cluster.run_for(8 * DELAY);
    assert_eq!(delay(&cluster, 0, "a", since), 5);
    assert!(sent(&cluster, 1, |message| matches!(message, Message::Vote { .. })) > 0, "it votes without the batch");
    assert!(!have(&cluster, [1], "a"));
    cluster.simulation.crash(2);
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    cluster.run_for(3_000 * DELAY);
    assert!(have(&cluster, [1], "a"), "it fetched the batch from another holder: {}", cluster.engine(1).describe());
    cluster.assert_equal_logs(0..3);
}

/// D3, D8: blocks mention batches of which a quorum has a copy, so a batch whose author crashed at once is not ordered before.
#[test]
fn batch_without_a_quorum_is_not_ordered() {
    let mut cluster = cluster(3, plain());
    cluster.set_rule(|_, from, _, message| match message {
        Message::Batch(_) if from == 2 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(2, "a");
    cluster.run_for(10 * DELAY);
    assert!(cluster.seen(0).log.is_empty());
    cluster.simulation.crash(2);
    cluster.clear_rule();
    assert!(cluster.seen(0).log.is_empty());
    cluster.submit(1, "b");
    cluster.run_for(20 * DELAY);
    assert!(have(&cluster, [0], "b") && !have(&cluster, [0], "a"));
    // Its author comes back with it.
    cluster.simulation.restart(2);
    cluster.run_for(100 * DELAY);
    assert!((0..3).all(|node| have(&cluster, [node], "a")), "{}", cluster.engine(2).describe());
    cluster.assert_equal_logs(0..3);
}

/// D2: one batch at a time waits for votes.
#[test]
fn author_waits_for_the_votes_of_a_quorum() {
    let mut cluster = cluster(3, plain());
    cluster.set_rule(|_, _, to, message| match message {
        Message::BatchVote { .. } if to == 2 => LOST,
        _ => Delivery::Normal,
    });
    cluster.load([2], true);
    cluster.run_for(50 * DELAY);
    assert_eq!(sent(&cluster, 2, |message| matches!(message, Message::Batch(_))), 1);
    assert!(cluster.seen(0).log.is_empty());
}

// ---- restarts

/// §2: all lose power, in the middle of the fallback and with blocks in flight.
#[test]
fn power_cuts_lose_nothing() {
    for at in 0..16 {
        let mut cluster = cluster(3, Config { timeout_ms: 60, resend_ms: 100, ..plain() });
        cluster.submit(0, "a");
        cluster.run_for(2 * DELAY + at * DELAY / 2);
        // Half of the time without a leader.
        if at % 2 == 0 {
            cluster
                .set_rule(|_, _, _, message| if matches!(message, Message::Propose { .. }) { LOST } else { Delivery::Normal });
        }
        cluster.submit(1, "b");
        cluster.run_for(12 * DELAY);
        (0..3).for_each(|node| cluster.simulation.crash(node));
        cluster.clear_rule();
        (0..3).for_each(|node| cluster.simulation.restart(node));
        cluster.run_for(300 * DELAY);
        for node in 0..3 {
            assert!(
                have(&cluster, [node], "a") && have(&cluster, [node], "b"),
                "cut {at}: {}",
                cluster.engine(node).describe()
            );
        }
        cluster.assert_equal_logs(0..3);
    }
}

/// §2, S7: a validator that restarts after its timer does not vote in the view again.
#[test]
fn timeout_survives_a_restart() {
    let mut cluster = cluster(3, plain());
    // Validator 1 hears of a batch, but not of the blocks.
    cluster.set_rule(|_, from, to, message| match message {
        Message::Propose { .. } | Message::Commit { .. } | Message::Decided(_) if from == 0 && to == 1 => LOST,
        Message::Timeout { .. } => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(2, "a");
    cluster.run_for(40 * DELAY);
    assert_eq!(sent(&cluster, 1, |message| matches!(message, Message::Timeout { .. })), 1);
    cluster.simulation.crash(1);
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Timeout { .. }) { LOST } else { Delivery::Normal });
    cluster.simulation.restart(1);
    cluster.submit(2, "b");
    cluster.run_for(40 * DELAY);
    assert!(have(&cluster, [1], "b"));
    assert_eq!(sent(&cluster, 1, |message| matches!(message, Message::Vote { .. })), 0);
}

/// §2: nothing leaves before the state is on disk.
#[test]
fn records_come_before_messages() {
    let mut cluster = cluster(3, plain());
    cluster.simulation.disks.sync = Micros::from_millis(DELAY);
    // Four writes: the batch at its author and at a voter, the block at the leader and at a voter. A commit needs none.
    assert_eq!(submit(&mut cluster, 0, "a"), [8, 9, 9]);
}

/// X14: a validator that lost its disk says nothing in views in which it may have said something, and helps later.
#[test]
fn validator_without_a_disk_is_silent_at_first() {
    let mut cluster = cluster(3, Config { resend_ms: 100, ..plain() });
    submit(&mut cluster, 0, "a");
    cluster.simulation.crash(1);
    let resume = cluster.resume_after(1, 1);
    cluster.disk(1).records.clear();
    // The reports do not arrive.
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::InView { .. }) { LOST } else { Delivery::Normal });
    cluster.simulation.crash(2);
    cluster.restart_at(1, resume);
    cluster.submit(0, "b");
    cluster.run_for(100 * DELAY);
    let is_said = |message: &Message| {
        matches!(
            message,
            Message::Vote { .. }
                | Message::Timeout { .. }
                | Message::NewView { .. }
                | Message::ProposeAsync { .. }
                | Message::VoteAsync { .. }
                | Message::Complete { .. }
                | Message::Ahead { .. }
        )
    };
    assert!(!have(&cluster, [0], "b"), "it voted without its state");
    assert_eq!(sent(&cluster, 1, is_said), 0);
    cluster.clear_rule();
    cluster.simulation.restart(2);
    cluster.run_for(300 * DELAY);
    assert!((0..3).all(|node| have(&cluster, [node], "b")));
    assert_eq!(notes(&cluster, 1, "votes-regained"), 1, "{}", cluster.engine(1).describe());
    cluster.simulation.crash(2);
    cluster.submit(0, "c");
    cluster.run_for(300 * DELAY);
    assert!(have(&cluster, [1], "c"), "it votes again: {}", cluster.engine(1).describe());
    assert!(sent(&cluster, 1, is_said) > 0);
    cluster.assert_equal_logs(0..3);
}

/// X14: the silence ends without any users, and without a bad network.
#[test]
fn silence_ends_on_an_idle_chain() {
    let mut cluster = cluster(3, Config { resend_ms: 100, ..plain() });
    submit(&mut cluster, 0, "a");
    lose_disk(&mut cluster, 1, 1);
    cluster.run_for(200 * DELAY);
    assert!(cluster.engine(1).describe().contains("silence Nowhere"), "{}", cluster.engine(1).describe());
    let before = commits(&cluster, 0);
    cluster.run_for(200 * DELAY);
    assert_eq!(commits(&cluster, 0), before, "and then the chain is idle");
}

/// X14: a validator that lost its disk reports the highest view in which it may have said anything, not only the one that it knows.
#[test]
fn second_lost_disk_hears_of_the_first() {
    let mut cluster = cluster(5, plain());
    submit(&mut cluster, 0, "a");
    let reported = |cluster: &Cluster, node: usize| {
        let reports = cluster.seen(node).sent.iter().filter_map(|(_, _, message)| match message {
            Message::InView { view, .. } => Some(view.0),
            _ => None,
        });
        reports.max()
    };
    // Nobody leaves a view meanwhile.
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Leave { .. }) { LOST } else { Delivery::Normal });
    for node in [1, 4] {
        cluster.simulation.crash(node);
        cluster.disk(node).records.clear();
        let resume = cluster.resume_after(node, 1);
        cluster.restart_at(node, resume);
        cluster.run_for(20 * DELAY);
    }
    assert_eq!(reported(&cluster, 1), Some(1), "view 0, and the one after it");
}

/// An author that lost its disk uses numbers again. The batches that lose go back to its users.
#[test]
fn author_without_a_disk_starts_its_lane_again() {
    let mut cluster = cluster(3, Config { resend_ms: 100, ..plain() });
    submit(&mut cluster, 1, "a");
    // Its second batch is complete, and nobody orders it yet.
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Propose { .. }) { LOST } else { Delivery::Normal });
    cluster.submit(1, "b");
    cluster.run_for(5 * DELAY);
    lose_disk(&mut cluster, 1, 1);
    cluster.submit(1, "c");
    cluster.run_for(5 * DELAY);
    cluster.clear_rule();
    cluster.run_for(500 * DELAY);
    for node in 0..3 {
        assert!(have(&cluster, [node], "b") && have(&cluster, [node], "c"), "{}", cluster.engine(node).describe());
    }
    cluster.assert_equal_logs(0..3);
}

/// O6, D9: a validator that was off for long gets the blocks from the others, and then their batches.
#[test]
fn validator_that_was_off_catches_up() {
    let mut cluster = cluster(3, Config { resend_ms: 100, ..plain() });
    cluster.simulation.crash(2);
    cluster.load(0..2, true);
    cluster.run_for(1_500 * DELAY);
    cluster.load(0..2, false);
    cluster.run_for(50 * DELAY);
    assert!(commits(&cluster, 0) > 300, "{} commits", commits(&cluster, 0));
    cluster.simulation.restart(2);
    cluster.run_for(1_000 * DELAY);
    assert_eq!(commits(&cluster, 2), commits(&cluster, 0), "{}", cluster.engine(2).describe());
    cluster.assert_equal_logs(0..3);
    // A block, two batches and little more for each commit, although many records are written at once.
    let records = cluster.records(2).len();
    assert!(records < 5 * commits(&cluster, 2), "{records} records");
}

/// D9: blocks and batches of old rounds are forgotten.
#[test]
fn old_rounds_are_forgotten() {
    let mut cluster = cluster(3, Config { retain_rounds: 64, ..plain() });
    cluster.load(0..3, true);
    (0..20).for_each(|_| cluster.run_for(50 * DELAY));
    let (count, footprint) = (commits(&cluster, 1), cluster.engine(1).footprint());
    // A block and three batches for each round.
    assert!(count > 400 && footprint < 600, "{footprint} items after {count} commits");
    let records = cluster.records(1).len();
    assert!(records < 1_200, "{records} records");
}

// ---- clocks
