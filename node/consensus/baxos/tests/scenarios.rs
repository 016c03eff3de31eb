//! Message delays, contention and recovery of the whole engine, on a network whose links all take one delay.

use corniche_baxos::{
    Baxos, BaxosVerifier, Config, Setup,
    message::{Answer, Message, RequestId, Slot, Tip, Try, Value},
    record::Record,
};
use corniche_baxos_testing::{BaxosSubject, committee};
use corniche_engine::{Engine, Input, Output, Recipients, Resume, Ticket, Verifier};
use corniche_lanes::MAX_OPEN_BATCHES;
use corniche_testkit::{
    Delivery, Links, Micros,
    crashes::{self, CrashCluster, CrashEngine, DELAY, LOST, cluster_on, decisions, have, lose_disk, notes, submit},
};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::{cell::Cell, collections::BTreeSet, rc::Rc};

type Cluster = CrashCluster<BaxosSubject>;

// X13: the silence after a lost disk.
corniche_testkit::crash_scenarios!(
    BaxosSubject,
    loss_of_a_disk_survives_a_power_cut,
    disk_lost_at_the_genesis_is_not_a_first_start,
    silence_ends_on_an_idle_chain,
    clocks_that_are_wrong_move_nothing
);

fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

/// Timers that do not matter, and phases of 20 + 50 ms.
fn plain() -> Config {
    BaxosSubject::plain(10_000, 10_000)
}

fn cluster(size: usize, config: Config) -> Cluster {
    crashes::cluster(size, config)
}

fn prepares(cluster: &Cluster, node: usize) -> usize {
    cluster.seen(node).count(|message| matches!(message, Message::Prepare { .. }))
}

fn answers(cluster: &Cluster, node: usize) -> usize {
    let is_answer =
        |message: &Message| matches!(message, Message::Answer { answer: Answer::Promise(_) | Answer::Accept { .. }, .. });
    cluster.seen(node).count(is_answer)
}

/// Times at which a validator sent its PREPAREs, with their tries.
fn tries(cluster: &Cluster, node: usize) -> Vec<(Micros, RequestId)> {
    let prepares = cluster.seen(node).sent.iter().filter_map(|(at, _, message)| match message {
        Message::Prepare { request, .. } => Some((*at, *request)),
        _ => None,
    });
    prepares.collect()
}

/// M5, P10: the first slot of a proposer takes two round trips, later ones take one. Learners know one delay later.
#[test]
fn first_slot_takes_two_round_trips_and_later_ones_take_one() {
    let mut cluster = cluster(5, plain());
    assert_eq!(submit(&mut cluster, 0, "a"), [4, 5, 5, 5, 5], "PREPARE, PROMISE, PROPOSE, ACCEPT; DECIDE for the others");
    assert_eq!(submit(&mut cluster, 0, "b"), [2, 3, 3, 3, 3], "PROPOSE, ACCEPT");
    assert_eq!(submit(&mut cluster, 0, "c"), [2, 3, 3, 3, 3]);
    assert_eq!((prepares(&cluster, 0), prepares(&cluster, 1)), (1, 0), "nobody else proposes");
    cluster.assert_equal_logs(0..5);
}

/// X10: a promise is for one slot and one proposer. The next proposer needs two round trips, and so does the first one after it.
#[test]
fn promise_is_no_lease() {
    let mut cluster = cluster(3, plain());
    assert_eq!(submit(&mut cluster, 0, "a"), [4, 5, 5]);
    assert_eq!(submit(&mut cluster, 1, "b"), [5, 4, 5], "it needs a higher try than the one that validator 0 prepared");
    assert_eq!(submit(&mut cluster, 1, "c"), [3, 2, 3]);
    assert_eq!(submit(&mut cluster, 0, "d"), [4, 5, 5]);
    assert_eq!((cluster.engine(0).exponent(), cluster.engine(1).exponent()), (0, 0), "nobody was refused");
    cluster.assert_equal_logs(0..3);
}

/// A validator whose batch is in a value that it accepted does not contend with it, also after its back-off.
#[test]
fn covered_batches_need_no_slot() {
    let mut cluster = cluster(3, plain());
    cluster.set_rule(|_, from, to, message| match message {
        Message::Prepare { .. } if from == 0 => LOST,
        Message::Answer { answer: Answer::Accept { .. }, .. } if to == 1 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "b");
    cluster.run_for(2 * DELAY);
    cluster.submit(1, "a");
    cluster.run_for(30 * DELAY);
    // Its own try takes 70 ms, and back-off up to 80 ms. Then it leaves the time of two phases to the other proposer.
    let times: Vec<u64> = tries(&cluster, 0).iter().map(|(at, _)| at.0 / 1_000).collect();
    assert!(times.len() > 1 && times[1] - times[0] >= 140, "PREPAREs at {times:?}");
}

/// One slot is enough for the batches of two validators.
#[test]
fn value_has_the_batches_of_all() {
    let mut cluster = cluster(3, plain());
    submit(&mut cluster, 0, "a");
    cluster.set_rule(|_, from, _, message| match message {
        Message::Prepare { .. } if from == 1 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(1, "b");
    cluster.run_for(DELAY);
    cluster.submit(0, "c");
    cluster.run_for(20 * DELAY);
    assert!(have(&cluster, 0..3, "b") && have(&cluster, 0..3, "c"));
    assert_eq!(cluster.seen(0).log.len(), 2, "one slot for both");
}

/// M1, M2: n validators propose at the same moment. All slots are decided, and nobody's batch is lost (P4, X9).
#[test]
fn simultaneous_proposers_always_decide() {
    for size in [2, 3, 5, 7, 9] {
        for nack in [true, false] {
            let mut cluster = cluster(size, Config { nack, ..plain() });
            for round in 0..5 {
                let names: Vec<_> = (0..size).map(|node| format!("v{node}r{round}")).collect();
                names.iter().enumerate().for_each(|(node, name)| cluster.submit(node, name));
                let unfinished = |cluster: &Cluster| !names.iter().all(|name| have(cluster, 0..size, name));
                assert!(cluster.run_while(10_000, unfinished), "size {size}, round {round}: {}", cluster.engine(0).describe());
            }
            cluster.assert_equal_logs(0..size);
        }
    }
}

/// P4, M4: under endless load from all, every validator's batches are delivered: any value has the tips of all lanes.
#[test]
fn batches_of_all_are_delivered_fairly() {
    let mut cluster = cluster(5, Config { batch_interval_ms: 10, ..plain() });
    cluster.load(0..5, true);
    cluster.run_for(500 * DELAY);
    cluster.load(0..5, false);
    cluster.run_for(200 * DELAY);
    let mut counts = [0.0_f64; 5];
    for (_, ordered) in &cluster.seen(0).log {
        ordered.batches.iter().for_each(|(author, _)| counts[author.as_usize()] += 1.0);
    }
    let (sum, squares) = (counts.iter().sum::<f64>(), counts.iter().map(|count| count * count).sum::<f64>());
    assert!(sum > 300.0 && sum * sum / (5.0 * squares) > 0.95, "batches by author: {counts:?}");
    cluster.assert_equal_logs(0..5);
}

/// M9, X7: a refused proposer backs off before it tries again, with a higher try.
#[test]
fn refused_proposer_backs_off() {
    let mut cluster = cluster(3, plain());
    // Only validator 0's PROPOSE is slow: validator 1 promises itself more meanwhile.
    cluster.set_rule(|_, from, _, message| match message {
        Message::Propose { .. } if from == 0 => Delivery::Delayed(Micros::from_millis(2 * DELAY)),
        Message::Decided { .. } => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    cluster.run_for(DELAY);
    // Its own batch is new to it, so it proposes at once.
    cluster.submit(1, "b");
    cluster.run_for(3 * DELAY);
    let refused_at = {
        let refused = |cluster: &Cluster| cluster.engine(0).exponent() == 0;
        assert!(cluster.run_while(10 * DELAY, refused), "validator 0 is refused by both others");
        cluster.simulation.now()
    };
    assert!(refused_at < Micros::START + Micros::from_millis(15 * DELAY), "before its timer ends");
    cluster.clear_rule();
    cluster.run_for(100 * DELAY);
    let tries = tries(&cluster, 0);
    if let Some((at, request)) = tries.get(1) {
        assert!(*at > refused_at, "X7: not at once");
        assert!(request.attempt > tries[0].1.attempt, "a higher try");
    }
    assert!(have(&cluster, 0..3, "a") && have(&cluster, 0..3, "b"));
    cluster.assert_equal_logs(0..3);
}

/// P5, P6: without any answer, the time between two tries is a phase and a back-off that doubles.
#[test]
fn backoff_doubles_while_nobody_answers() {
    let mut cluster = cluster(3, plain());
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Prepare { .. }) { LOST } else { Delivery::Normal });
    cluster.submit(0, "a");
    cluster.run_for(2_000 * DELAY);
    let times: Vec<u64> = tries(&cluster, 0).iter().map(|(at, _)| at.0 / 1_000).collect();
    let waits: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (l, wait) in (1..).zip(&waits) {
        let (phase, longest) = (2 * DELAY + 50, (1 << l.min(8)) * 2 * 2 * DELAY);
        assert!((phase + 1..=phase + longest).contains(wait), "wait {l} is {wait} ms, at most {phase} + {longest}: {waits:?}");
    }
    assert!((4..30).contains(&waits.len()), "{waits:?}");
    // X9: the batch is not given up.
    cluster.clear_rule();
    cluster.run_for(2_000 * DELAY);
    assert!(have(&cluster, 0..3, "a"));
}

/// P7, X6: one success lowers l by one.
#[test]
fn success_lowers_l_by_one() {
    // Phases are so long that nobody helps.
    let mut cluster = cluster(3, Config { slack_ms: 5_000, ..plain() });
    cluster.set_rule(|_, from, _, message| match message {
        Message::Prepare { .. } | Message::Batch(_) if from == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    assert!(cluster.run_while(60_000, |cluster| cluster.engine(0).exponent() < 4));
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    let own = |cluster: &Cluster| decisions(cluster, 0).get("proposed").copied().unwrap_or(0);
    for (slot, expected) in [3, 2, 1, 0, 0].into_iter().enumerate() {
        assert!(cluster.run_while(20_000, |cluster| own(cluster) == slot), "{}", cluster.engine(0).describe());
        assert_eq!(cluster.engine(0).exponent(), expected);
        cluster.submit(0, &format!("b{slot}"));
    }
}

/// P8, X8: a proposer that backs off still promises, accepts and learns.
#[test]
fn proposer_that_backs_off_serves_others() {
    let mut cluster = cluster(3, plain());
    cluster.simulation.crash(2);
    cluster.set_rule(|_, from, _, message| match message {
        Message::Prepare { .. } | Message::Batch(_) if from == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    assert!(cluster.run_while(60_000, |cluster| cluster.engine(0).exponent() < 8));
    let before = tries(&cluster, 0).len();
    cluster.submit(1, "b");
    // It promised its own tries, so validator 1 is refused at first.
    assert!(cluster.run_while(1_000, |cluster| !have(cluster, 0..2, "b")), "a quorum needs the validator that backs off");
    assert_eq!((tries(&cluster, 0).len(), cluster.engine(0).exponent()), (before, 8), "it still backs off");
}

/// M6, P9: after all round trips doubled, first tries fail, answers that come too late show the new times, and tries succeed.
#[test]
fn doubled_round_trips_are_measured() {
    let mut cluster = cluster(3, Config { slack_ms: 5, ..plain() });
    submit(&mut cluster, 0, "a");
    assert_eq!(cluster.engine(0).rtt_max_ms(), 2 * DELAY);
    (0..3).for_each(|node| cluster.simulation.links.port(node).delay = Micros::from_millis(DELAY));
    submit(&mut cluster, 0, "b");
    assert!(tries(&cluster, 0).len() > 2, "phases of 25 ms are too short now");
    for text in ["c", "d", "e", "f"] {
        submit(&mut cluster, 0, text);
    }
    let (before, rtt) = (tries(&cluster, 0).len(), cluster.engine(0).rtt_max_ms());
    assert!((4 * DELAY - 4..=4 * DELAY).contains(&rtt), "RTT_max is {rtt}");
    assert_eq!(submit(&mut cluster, 0, "g"), [4, 6, 6], "one round trip again");
    assert_eq!(tries(&cluster, 0).len(), before);
}

/// X5: a validator in the middle of the network learns the diameter from others.
#[test]
fn unit_of_backoff_is_that_of_the_network() {
    let far = |from: usize, to: usize| if from == 0 || to == 0 { DELAY } else { 8 * DELAY };
    let links = Links::matrix(3, |from, to| Micros::from_millis(far(from, to)));
    let config = Config { status_ms: 100, ..plain() };
    let mut cluster: Cluster = cluster_on(links, 3, config);
    cluster.simulation.start_all();
    cluster.run_for(100 * DELAY);
    assert_eq!(cluster.engine(0).rtt_max_ms(), 16 * DELAY);
}

/// A proposer that dies before its PROPOSE: others deliver its batch after a while, although they have no own ones.
#[test]
fn batches_of_a_dead_author_are_delivered() {
    let mut cluster = cluster(5, plain());
    cluster.submit(0, "a");
    cluster.run_for(DELAY + DELAY / 2);
    cluster.simulation.crash(0);
    let since = cluster.simulation.now();
    cluster.run_for(200 * DELAY);
    let at = cluster.seen(1).delivered_at("a").expect("others help");
    // Two phases and a back-off at l = 0, and up to a few tries.
    assert!(at.0 - since.0 < 800_000, "after {} ms", (at.0 - since.0) / 1_000);
    assert!(have(&cluster, 1..5, "a"));
    let since = cluster.simulation.now();
    cluster.submit(1, "b");
    cluster.run_for(100 * DELAY);
    assert!(cluster.seen(1).delivered_at("b").is_some_and(|at| at.0 - since.0 <= 40_000), "a dead validator costs nothing");
    cluster.assert_equal_logs(1..5);
}

/// P2: a proposer dies after one acceptor accepted its value. Others adopt this value, and theirs come after it.
#[test]
fn value_of_a_dead_proposer_is_adopted() {
    let mut cluster = cluster(3, plain());
    cluster.set_rule(|_, from, to, message| match message {
        Message::Propose { .. } if from == 0 && to != 1 => LOST,
        Message::Answer { answer: Answer::Accept { .. }, .. } | Message::Decided { .. } if to == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    cluster.run_for(4 * DELAY);
    cluster.simulation.crash(0);
    cluster.submit(2, "b");
    cluster.run_for(100 * DELAY);
    assert_eq!(cluster.seen(2).log[0].1.leader, index(0), "the accepted value is decided");
    assert!(cluster.seen(2).delivered_at("a") < cluster.seen(2).delivered_at("b"));
    cluster.assert_equal_logs(1..3);
}

/// P10, P2: a promise that came with an ACCEPT has a foreign value, which must be adopted.
#[test]
fn piggybacked_promise_adopts_a_foreign_value() {
    let mut cluster = cluster(3, plain());
    // Validator 0 decides slots 1 and 2 with validator 2, and nobody else learns it.
    cluster.set_rule(|_, from, to, message| match message {
        Message::Batch(_) => Delivery::Normal,
        Message::Decided { .. } => LOST,
        _ if from == 0 && to == 1 => LOST,
        _ => Delivery::Normal,
    });
    for text in ["a", "b"] {
        cluster.submit(0, text);
        cluster.run_for(5 * DELAY);
    }
    assert!(have(&cluster, [0], "b") && !have(&cluster, [2], "a"), "DECIDE was lost");
    cluster.simulation.crash(0);
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    cluster.submit(1, "c");
    cluster.run_for(200 * DELAY);
    let leaders: Vec<_> = cluster.seen(1).log.iter().map(|(_, ordered)| ordered.leader.0).collect();
    assert_eq!(leaders, [0, 0, 1], "the values of validator 0 come first");
    assert!(have(&cluster, [1, 2], "b") && have(&cluster, [1, 2], "c"));
    assert_eq!(prepares(&cluster, 1), 1, "slots 2 and 3 were prepared before");
    cluster.assert_equal_logs(0..3);
}

/// An acceptor without the batches does not accept, and fetches them first.
#[test]
fn decided_batches_are_held_by_a_quorum() {
    let mut cluster = cluster(3, plain());
    // Validator 1 does not get the batch from its author.
    cluster.set_rule(|_, from, to, message| match message {
        Message::Batch(_) if from == 2 && to == 1 => LOST,
        Message::Prepare { .. } if from == 2 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(2, "a");
    cluster.run_for(2 * DELAY);
    cluster.simulation.crash(2);
    cluster.run_for(50 * DELAY);
    assert!(have(&cluster, [0, 1], "a"), "validator 1 fetched it");
    cluster.assert_equal_logs(0..2);
}

/// Nobody is stuck with a value whose batches died.
#[test]
fn value_without_batches_is_not_taken_over() {
    let mut cluster = cluster(3, Config { resend_ms: 200, ..plain() });
    cluster.set_rule(|_, from, _, message| match message {
        Message::Batch(_) if from == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    cluster.run_for(25 * DELAY);
    cluster.simulation.crash(0);
    cluster.submit(1, "b");
    cluster.run_for(200 * DELAY);
    assert!(have(&cluster, [1, 2], "b"), "{}", cluster.engine(1).describe());
    cluster.assert_equal_logs(1..3);
}

/// X12: DECIDE is lost, and the learner gets it later: by status, or because its PREPARE is for a decided slot.
#[test]
fn lost_decisions_are_asked_for() {
    let mut cluster = cluster(3, Config { status_ms: 200, ..plain() });
    // A new rule would release what was lost.
    let loses = Rc::new(Cell::new((true, false)));
    let lost = loses.clone();
    cluster.set_rule(move |_, _, to, message| match message {
        Message::Decided { .. } if to == 1 && lost.get().0 => LOST,
        Message::CatchUp { .. } if lost.get().1 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    cluster.run_for(5 * DELAY);
    assert!(!have(&cluster, [1], "a"));
    loses.set((false, false));
    cluster.run_for(100 * DELAY);
    assert!(have(&cluster, 0..3, "a"), "by status");
    loses.set((true, false));
    cluster.submit(0, "b");
    cluster.run_for(5 * DELAY);
    assert!(!have(&cluster, [1], "b"));
    loses.set((false, true));
    let since = cluster.simulation.now();
    cluster.submit(1, "c");
    cluster.run_for(20 * DELAY);
    assert!(have(&cluster, [1], "b") && have(&cluster, 0..3, "c"), "by its own PREPARE");
    assert!(cluster.seen(1).delivered_at("b").is_some_and(|at| at.0 - since.0 == 2 * DELAY * 1_000), "in one round trip");
    cluster.assert_equal_logs(0..3);
}

/// A validator that was off gets all decisions and batches.
#[test]
fn laggard_catches_up() {
    let mut cluster = cluster(3, plain());
    cluster.simulation.crash(2);
    cluster.load([0, 1], true);
    cluster.run_for(600 * DELAY);
    cluster.load([0, 1], false);
    cluster.run_for(50 * DELAY);
    let commits = cluster.seen(0).log.len();
    assert!(commits > 150, "{commits} commits");
    cluster.simulation.restart(2);
    cluster.run_for(100 * DELAY);
    assert_eq!(cluster.seen(2).log.len(), commits);
    cluster.assert_equal_logs(0..3);
}

/// Promises, accepted values and tries survive a power cut.
#[test]
fn acceptors_remember_after_a_restart() {
    let mut cluster = cluster(3, plain());
    // Nobody learns that the slot is decided.
    cluster.set_rule(|_, _, to, message| match message {
        Message::Answer { answer: Answer::Accept { .. }, .. } if to == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    cluster.run_for(4 * DELAY);
    let first = tries(&cluster, 0);
    (0..3).for_each(|node| cluster.simulation.crash(node));
    cluster.clear_rule();
    (1..3).for_each(|node| cluster.simulation.restart(node));
    cluster.run_for(5 * DELAY);
    cluster.submit(1, "b");
    cluster.run_for(100 * DELAY);
    assert_eq!(cluster.seen(1).log[0].1.leader, index(0), "the accepted value is decided, not one of validator 1");
    cluster.simulation.restart(0);
    cluster.run_for(100 * DELAY);
    assert!(have(&cluster, 0..3, "a") && have(&cluster, 0..3, "b"));
    let second = tries(&cluster, 0);
    let used: BTreeSet<RequestId> = first.iter().map(|(_, request)| *request).collect();
    assert!(second.iter().all(|(_, request)| !used.contains(request)), "X2: no try is used twice");
    cluster.assert_equal_logs(0..3);
}

/// Persist before send: a proposer restarts right after its PREPARE, and its next try is higher.
#[test]
fn restarted_proposer_uses_a_new_try() {
    let mut cluster = cluster(3, plain());
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Prepare { .. }) { LOST } else { Delivery::Normal });
    cluster.submit(0, "a");
    cluster.run_for(1);
    let before = tries(&cluster, 0);
    assert_eq!(before.len(), 1);
    cluster.simulation.crash(0);
    cluster.simulation.restart(0);
    cluster.run_for(5 * DELAY);
    let after = tries(&cluster, 0);
    assert!(!after.is_empty() && after[0].1.attempt > before[0].1.attempt);
}

/// X13: a validator that lost its disk takes no part in any slot in which it may have, and helps later.
#[test]
fn validator_without_a_disk_is_silent_at_first() {
    let mut cluster = cluster(3, plain());
    submit(&mut cluster, 0, "a");
    cluster.simulation.crash(1);
    let resume = cluster.resume_after(1, 1);
    cluster.disk(1).records.clear();
    // The reports do not arrive.
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Highest { .. }) { LOST } else { Delivery::Normal });
    cluster.simulation.crash(2);
    cluster.restart_at(1, resume);
    cluster.submit(0, "b");
    cluster.submit(1, "c");
    cluster.run_for(100 * DELAY);
    assert!(!have(&cluster, [0], "b"), "it answered without its promises");
    assert_eq!((answers(&cluster, 1), prepares(&cluster, 1)), (0, 0));
    cluster.clear_rule();
    cluster.simulation.restart(2);
    cluster.run_for(1_500 * DELAY);
    for text in ["d", "e", "f", "g"] {
        submit(&mut cluster, 0, text);
    }
    assert!(answers(&cluster, 1) > 0, "it helps after two slots");
    assert!(have(&cluster, 0..3, "c"));
    cluster.assert_equal_logs(0..3);
}

/// X13: the slots of the silence are exactly those in which it may have taken part: two above the decided ones.
#[test]
fn silence_covers_the_prepared_slot() {
    let mut cluster = cluster(3, plain());
    submit(&mut cluster, 0, "a");
    lose_disk(&mut cluster, 1, 1);
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Decided { .. }) { LOST } else { Delivery::Normal });
    cluster.run_for(3 * DELAY);
    // Slot 2 is prepared at all, and a PROPOSE(2) may have been on its way with a PREPARE(3).
    for (slot, expected) in [(2, 0), (3, 0), (4, 0), (5, 1)] {
        let request = RequestId { slot: Slot(slot), attempt: Try { counter: 9, proposer: index(0) } };
        let before = answers(&cluster, 1);
        cluster.receive(0, 1, &Message::Prepare { request, sent: TimestampMs(1_000) }.encode());
        cluster.run_for(1);
        assert_eq!(answers(&cluster, 1) - before, expected, "slot {slot}");
    }
}

/// X13: a validator that lost its disk reports the highest slot in which it may have taken part, not only those that it knows.
#[test]
fn second_lost_disk_hears_of_the_first() {
    let mut cluster = cluster(5, plain());
    for text in ["a", "b", "c"] {
        submit(&mut cluster, 0, text);
    }
    let highest = |cluster: &Cluster, node: usize| {
        let reports = cluster.seen(node).sent.iter().filter_map(|(_, _, message)| match message {
            Message::Highest { slot, .. } => Some(slot.0),
            _ => None,
        });
        reports.max()
    };
    for node in [1, 4] {
        cluster.simulation.crash(node);
        cluster.disk(node).records.clear();
        let resume = cluster.resume_after(node, 1);
        // Nobody decides a slot meanwhile, so validator 1 stays silent in the slots after.
        cluster.set_rule(|_, _, _, message| match message {
            Message::Prepare { .. } | Message::Propose { .. } | Message::Decided { .. } => LOST,
            _ => Delivery::Normal,
        });
        cluster.restart_at(node, resume);
        cluster.run_for(20 * DELAY);
    }
    assert_eq!(highest(&cluster, 1), Some(6), "slot 4 is prepared, and two more");
}

/// A validator without connections to a quorum does not try, so l does not rise, and it proposes at once afterwards.
#[test]
fn partition_does_not_raise_l() {
    let mut cluster = cluster(3, plain());
    cluster.simulation.partition(&[vec![0], vec![1, 2]]);
    cluster.submit(0, "a");
    cluster.run_for(1_000 * DELAY);
    assert!(cluster.engine(0).exponent() <= 1, "l is {}", cluster.engine(0).exponent());
    let since = cluster.simulation.now();
    cluster.simulation.heal();
    cluster.run_for(100 * DELAY);
    assert!(cluster.seen(0).delivered_at("a").is_some_and(|at| at.0 - since.0 < 200_000));
}

/// Acceptors write before they answer: without their disks, nothing is decided.
#[test]
fn answers_wait_for_the_disk() {
    let mut cluster = cluster(3, plain());
    let slow = Rc::new(Cell::new(0));
    let seen = slow.clone();
    cluster.set_rule(move |now, from, _, message| {
        if from == 1 && matches!(message, Message::Answer { answer: Answer::Promise(_), .. }) {
            seen.set(now.0);
        }
        Delivery::Normal
    });
    cluster.simulation.disks.sync = Micros::from_millis(3 * DELAY);
    let since = cluster.simulation.now();
    cluster.submit(0, "a");
    cluster.run_for(100 * DELAY);
    // Batch on disk, own promise on disk, PREPARE, promise on disk.
    assert_eq!((slow.get() - since.0) / 1_000, 3 * DELAY + 3 * DELAY + DELAY + 3 * DELAY);
}

/// P9: a disk that is slower than a phase delays commits, but does not stop them.
#[test]
fn slow_disks_do_not_end_tries() {
    for (size, sync) in [(1, 400), (3, 80), (3, 400)] {
        let links = Links::uniform(size, Micros::from_millis(1));
        let mut cluster: Cluster = cluster_on(links, size, Config::default());
        cluster.simulation.disks.sync = Micros::from_millis(sync);
        cluster.simulation.start_all();
        // RTT_max is that of the links.
        cluster.run_for(10_000);
        cluster.submit(0, "a");
        cluster.run_for(30 * sync);
        assert!(have(&cluster, 0..size, "a"), "{size} validators, {sync} ms: {}", cluster.engine(0).describe());
    }
}

/// Silent validator 1 of three after a lost disk: slot 1 is decided, so it is silent up to slot 4. It hears nothing any more.
fn silent_validator() -> Cluster {
    let mut cluster = cluster(3, plain());
    submit(&mut cluster, 0, "a");
    lose_disk(&mut cluster, 1, 1);
    cluster.set_rule(|_, from, _, message| match message {
        Message::AskHighest { .. } | Message::Highest { .. } => Delivery::Normal,
        Message::Status { .. } if from == 1 => Delivery::Normal,
        _ => LOST,
    });
    cluster.run_for(3 * DELAY);
    cluster.set_rule(|_, _, _, _| LOST);
    cluster
}

/// Number of answers of validator 1 to a PREPARE in this slot.
fn answers_in(cluster: &mut Cluster, slot: u64) -> usize {
    let request = RequestId { slot: Slot(slot), attempt: Try { counter: 9, proposer: index(0) } };
    let before = answers(cluster, 1);
    cluster.receive(0, 1, &Message::Prepare { request, sent: TimestampMs(1_000) }.encode());
    cluster.run_for(1);
    answers(cluster, 1) - before
}

/// X13: decisions that are only in memory do not end the silence.
#[test]
fn silence_ends_with_decisions_on_disk() {
    let mut cluster = silent_validator();
    assert_eq!([4, 5].map(|slot| answers_in(&mut cluster, slot)), [0, 1]);
    cluster.simulation.disks.sync = Micros::from_millis(1_000);
    let value = Value { proposer: index(0), time: TimestampMs(0), tips: vec![Tip::default(); 3] };
    cluster.receive(0, 1, &Message::Decided { first: Slot(2), values: vec![value; 3] }.encode());
    cluster.run_for(1);
    cluster.simulation.crash(1);
    cluster.simulation.disks.sync = Micros::ZERO;
    let resume = cluster.resume_after(1, 1);
    cluster.restart_at(1, resume);
    assert_eq!([2, 4, 6].map(|slot| answers_in(&mut cluster, slot)), [0, 0, 1], "{}", cluster.engine(1).describe());
}

/// X13: a lost disk counts once, also if all that was written since then is delivered.
#[test]
fn ended_silence_leaves_a_record() {
    let mut cluster = silent_validator();
    cluster.clear_rule();
    for text in ["b", "c", "d", "e"] {
        submit(&mut cluster, 0, text);
    }
    cluster.simulation.crash(1);
    let resume = cluster.resume_after(0, 5);
    let is_silent = |record: &Bytes| matches!(wire::decode::<Record>(record).unwrap(), Record::Silent(Some(_)));
    let silent = wire::encode(&Record::Silent(Some(Slot(4)))).into();
    cluster.disk(1).records.retain(|_, record| is_silent(record));
    cluster.disk(1).records.entry(Ticket(1_000)).or_insert(silent);
    cluster.set_rule(|_, _, _, _| LOST);
    for _ in 0..2 {
        cluster.restart_at(1, resume.clone());
        cluster.run_for(DELAY);
        assert!(notes(&cluster, 1, "disk-lost") == 0, "no disk was lost");
        assert!(!cluster.records(1).is_empty());
        cluster.simulation.crash(1);
    }
}

/// X12: a validator that is far behind gets each decision about once, however many others send it requests.
#[test]
fn decisions_are_asked_for_once() {
    let mut cluster = cluster(7, Config { retain_slots: 2_000, ..plain() });
    cluster.simulation.crash(6);
    cluster.load([0], true);
    cluster.run_for(1_200 * DELAY);
    cluster.load([0], false);
    cluster.run_for(50 * DELAY);
    let commits = cluster.seen(0).log.len();
    assert!(commits > 500, "{commits} commits");
    let sent = |cluster: &Cluster| {
        let values = (0..6).flat_map(|node| &cluster.seen(node).sent).map(|(_, to, message)| match message {
            Message::Decided { values, .. } if *to == Recipients::One(index(6)) => values.len(),
            _ => 0,
        });
        values.sum::<usize>()
    };
    let before = sent(&cluster);
    cluster.submit(6, "a");
    cluster.simulation.restart(6);
    cluster.run_for(200 * DELAY);
    assert!(have(&cluster, 0..7, "a") && cluster.seen(6).log.len() > commits);
    let values = sent(&cluster) - before;
    assert!(values < commits + 256, "{values} values for {commits} slots");
}

/// A validator that cannot deliver stops learning after a while: its memory is finite.
#[test]
fn decisions_that_cannot_be_delivered_are_not_collected() {
    let config = Config { retain_slots: 300, ..plain() };
    let mut cluster = cluster(3, config.clone());
    let (missing, tips) = (Tip { number: 1, digest: Default::default() }, vec![Tip::default(); 3]);
    for first in (1..=3_000).step_by(100) {
        let mut value = Value { proposer: index(0), time: TimestampMs(0), tips: tips.clone() };
        value.tips[2] = missing;
        cluster.receive(0, 1, &Message::Decided { first: Slot(first), values: vec![value; 100] }.encode());
        cluster.run_for(1);
    }
    assert_eq!(cluster.seen(1).log.len(), 0, "nobody has the batch");
    let held = cluster.engine(1).footprint();
    assert!((1_200..1_300).contains(&held), "{held} items");
}

/// An acceptor keeps one PROPOSE of each proposer that waits for batches.
#[test]
fn one_propose_of_each_proposer_waits() {
    let mut cluster = cluster(3, plain());
    let before = cluster.engine(1).footprint();
    let mut value = Value { proposer: index(0), time: TimestampMs(0), tips: vec![Tip::default(); 3] };
    value.tips[0] = Tip { number: 1, digest: Default::default() };
    for slot in 1..100 {
        let request = RequestId { slot: Slot(slot), attempt: Try { counter: 1, proposer: index(0) } };
        let propose = Message::Propose { request, value: value.clone(), next: None, sent: TimestampMs(0) };
        cluster.receive(0, 1, &propose.encode());
    }
    assert_eq!(cluster.engine(1).footprint() - before, 2, "the PROPOSE and the missing batch");
}

/// P9: a validator stops for a while. Soon after it goes on, phases are below a second again, also without
/// traffic.
#[test]
fn round_trips_recover_after_a_stopped_process() {
    let mut cluster = cluster(7, Config { status_ms: 200, ..plain() });
    submit(&mut cluster, 0, "a");
    cluster.set_rule(|_, from, to, _| if from == 6 || to == 6 { Delivery::Hold(1) } else { Delivery::Normal });
    cluster.submit(0, "b");
    cluster.run_for(9_000);
    cluster.clear_rule();
    cluster.run_for(1_000);
    let longest = (0..7).map(|node| cluster.engine(node).rtt_max_ms()).max().unwrap();
    assert!(longest > 1_000, "late answers count: {longest} ms");
    cluster.run_for(20_000);
    for node in 0..7 {
        let rtt = cluster.engine(node).rtt_max_ms();
        assert!(rtt < 1_000, "validator {node}: {rtt} ms");
    }
}

/// P9: round trips longer than the longest that is measured do not stop the chain.
#[test]
fn phases_grow_beyond_the_longest_measurement() {
    let links = Links::uniform(3, Micros::from_millis(8_000));
    let config = Config { max_exponent: 2, ..plain() };
    let mut cluster: Cluster = cluster_on(links, 3, config);
    cluster.simulation.start_all();
    cluster.run_for(60_000);
    cluster.submit(0, "a");
    cluster.run_for(2_000_000);
    assert!(have(&cluster, 0..3, "a"), "{}", cluster.engine(0).describe());
}

/// A stall does not fill the network with the same batches.
#[test]
fn open_batches_are_sent_again_ever_more_rarely() {
    let mut cluster = cluster(3, Config { resend_ms: 100, ..plain() });
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Prepare { .. }) { LOST } else { Delivery::Normal });
    cluster.submit(0, "a");
    cluster.run_for(20_000);
    let sent = cluster.seen(0).count(|message| matches!(message, Message::Batch(_)));
    assert!((6..20).contains(&sent), "{sent} times in 200 intervals");
}

/// Values that nobody can supply with batches do not fill the memory.
#[test]
fn missing_batches_are_bounded() {
    let mut cluster = cluster(3, plain());
    let before = cluster.engine(1).footprint();
    for number in 1..1_000 {
        let mut value = Value { proposer: index(0), time: TimestampMs(0), tips: vec![Tip::default(); 3] };
        value.tips[0] = Tip { number, digest: Default::default() };
        let request = RequestId { slot: Slot(1), attempt: Try { counter: number, proposer: index(0) } };
        cluster.receive(0, 1, &Message::Propose { request, value, next: None, sent: TimestampMs(0) }.encode());
    }
    let held = cluster.engine(1).footprint() - before;
    assert!(held < 200, "{held} items");
}

/// A chain is executed again beside an older log of records. In slots before the oldest decision this acceptor answered once.
#[test]
fn forgotten_slots_are_not_answered_again() {
    let answers = |first: u64| {
        let (config, committee) = (plain(), committee(3));
        let verifier = BaxosVerifier::new(config.clone(), committee.clone());
        let value = Value { proposer: ValidatorIndex(0), time: TimestampMs(5), tips: vec![Tip::default(); 3] };
        let decided = Record::Decided { slot: Slot(first), value };
        let records = vec![(Ticket(1), wire::encode(&decided).into())];
        let (me, now) = (ValidatorIndex(1), TimestampMs(10));
        let setup = Setup { config, committee, me, seed: 1, records, unsigned: false, resume: Resume::default(), now };
        let mut engine = Baxos::new(setup);
        let attempt = Try { counter: 9, proposer: ValidatorIndex(0) };
        let prepare = Message::Prepare { request: RequestId { slot: Slot(1), attempt }, sent: now };
        let message = verifier.verify(ValidatorIndex(0), &prepare.encode()).unwrap();
        let mut inputs = vec![Input::Message { from: ValidatorIndex(0), message }];
        let mut has_answered = false;
        while let Some(input) = inputs.pop() {
            engine.handle(now, input);
            while let Some(output) = engine.poll() {
                match output {
                    Output::Persist(ticket, _) => inputs.push(Input::Durable(ticket)),
                    Output::Send { message, .. } => {
                        has_answered |= matches!(wire::decode(&message), Ok(Message::Answer { .. }));
                    }
                    _ => {}
                }
            }
        }
        has_answered
    };
    // Two slots are open at a time.
    assert!(answers(2) && answers(3));
    assert!(!answers(1_000));
}

/// K5: after a start, others name an own batch that no earlier run can have made.
#[test]
fn twin_is_found_by_its_batches() {
    let is_noticed = |has_reports: bool, number: u64| {
        let mut cluster = cluster(3, plain());
        cluster.simulation.crash(1);
        let is_lost = move |message: &Message| matches!(message, Message::Highest { .. }) && !has_reports;
        cluster.set_rule(move |_, _, _, message| if is_lost(message) { LOST } else { Delivery::Normal });
        cluster.restart_at(1, Resume::default());
        cluster.run_for(3 * DELAY);
        let tips = vec![Tip::default(), Tip { number, ..Tip::default() }, Tip::default()];
        let value = Value { proposer: index(0), time: TimestampMs(0), tips };
        cluster.receive(0, 1, &Message::Decided { first: Slot(1), values: vec![value] }.encode());
        cluster.run_for(DELAY);
        notes(&cluster, 1, "twin") > 0
    };
    let room = MAX_OPEN_BATCHES + 1;
    assert_eq!(
        [(true, room), (true, room + 1), (false, room + 1)].map(|(has, number)| is_noticed(has, number)),
        [false, true, false]
    );
}
