//! R1–R5: power cuts, late joiners, lost disks, restored backups.

use crate::cluster::{Cluster, DELAY, Disk, LOST, lost_disk, plain};
use corniche_autobahn::{Config, message::Message};
use corniche_engine::Resume;
use corniche_testkit::{Delivery, Links, Micros};

fn config() -> Config {
    Config { view_timeout_ms: 300, status_ms: 1_000, ..plain() }
}

fn busy(cluster: &mut Cluster, from: usize, rounds: usize, name: &str) {
    for round in 0..rounds {
        let running: Vec<_> = (from..cluster.size()).filter(|node| cluster.simulation.is_up(*node)).collect();
        running.iter().for_each(|node| cluster.submit(*node, &format!("{name}{round}-{node}")));
        cluster.run_for(5 * DELAY);
    }
}

fn everywhere(cluster: &Cluster, text: &str) -> bool {
    let mut running = (0..cluster.size()).filter(|node| cluster.simulation.is_up(*node));
    running.all(|node| cluster.seen(node).delivered_at(text).is_some())
}

#[test]
fn r1_full_power_loss_recovers() {
    let mut cluster = Cluster::new(4, config());
    for incarnation in 0..5 {
        busy(&mut cluster, 0, 3, &format!("life{incarnation}-"));
        cluster.run_for(incarnation * 7);
        (0..4).for_each(|node| cluster.simulation.crash(node));
        cluster.simulation.start_all();
        cluster.submit(0, &format!("after{incarnation}"));
        cluster.run_for(5_000);
        assert!(everywhere(&cluster, &format!("after{incarnation}")));
    }
    cluster.check();
}

#[test]
fn r2_late_joiner_receives_earlier_commits() {
    let mut cluster = Cluster::on(Links::uniform(4, Micros::from_millis(DELAY)), config());
    (1..4).for_each(|node| cluster.simulation.restart(node));
    busy(&mut cluster, 1, 60, "t");
    cluster.run_for(1_000);
    cluster.simulation.restart(0);
    cluster.run_for(3_000);
    assert_eq!(cluster.seen(0).log.len(), cluster.seen(1).log.len());
    assert!(cluster.seen(0).log.len() > 30);
    cluster.check();
}

/// A disk without records, of a validator that followed others to this commit.
fn lost_disk_at(resume: Resume) -> Disk {
    let mut disk = lost_disk();
    disk.notes.resume = resume;
    disk
}

/// Replaces one validator's disk, by nothing or an older one, and restarts it.
fn lose(cluster: &mut Cluster, node: usize, left: Disk) {
    cluster.simulation.crash(node);
    *cluster.disk(node) = left;
    cluster.simulation.restart(node);
}

#[test]
fn r5_lost_disk_signs_no_car_twice() {
    for (size, faulty) in [(4, 1), (7, 2)] {
        for keeps_state in [true, false] {
            let mut cluster = Cluster::new(size, config());
            busy(&mut cluster, 0, 20, "t");
            let resume = cluster.seen(0).resume.clone();
            // Only f + 1 others know its last car.
            cluster.set_rule(move |_, from, to, message| {
                if from == 0 && to > faulty + 1 && matches!(message, Message::Car(_)) { LOST } else { Delivery::Normal }
            });
            cluster.submit(0, "lost-life");
            cluster.run_for(DELAY + 1);
            let cars = |cluster: &Cluster| {
                let sent = cluster.seen(0).sent.iter().filter_map(|(_, _, message)| match message {
                    Message::Car(car) => Some((car.car.position, car.car.clone())),
                    _ => None,
                });
                sent.collect::<std::collections::BTreeMap<_, _>>()
            };
            let before = cars(&cluster);
            let resume = if keeps_state { resume } else { Resume::default() };
            lose(&mut cluster, 0, lost_disk_at(resume));
            cluster.clear_rule();
            cluster.submit(0, "reborn");
            cluster.run_for(5_000);
            assert!(everywhere(&cluster, "reborn"), "{size}");
            let after = cars(&cluster);
            for (position, car) in &after {
                assert!(before.get(position).is_none_or(|before| before == car), "{position:?} was signed twice");
            }
            assert!(after.keys().max() > before.keys().max());
            cluster.check();
        }
    }
}

#[test]
fn r5_restored_backup_detects_lost_records() {
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 5, "t");
    cluster.simulation.crash(0);
    let backup = cluster.disk(0).clone();
    cluster.simulation.restart(0);
    cluster.run_for(2_000);
    busy(&mut cluster, 0, 10, "lost");
    cluster.run_for(500);
    lose(&mut cluster, 0, backup);
    cluster.submit(0, "reborn");
    cluster.run_for(5_000);
    assert!(everywhere(&cluster, "reborn"));
    cluster.check();
}

/// Four validators: 1 and 2 have committed, 3 has too and is down, and 0 was never started.
fn without_newcomer() -> Cluster {
    let mut cluster = Cluster::on(Links::uniform(4, Micros::from_millis(DELAY)), config());
    (1..4).for_each(|node| cluster.simulation.restart(node));
    cluster.run_for(100);
    busy(&mut cluster, 1, 5, "t");
    cluster.run_for(500);
    cluster.simulation.crash(3);
    cluster
}

/// It followed others' blocks before its engine first ran, for example while it compiled contracts. It looks like a lost
/// disk, for which two others are not enough, but the caller knows that it has signed nothing.
#[test]
fn first_incarnation_that_followed_takes_part_with_f_others_down() {
    // The engine is built again when the disk has any records, which end the caller's knowledge, and before it signs.
    for rebuilt_after in [DELAY + 1, 2 * DELAY + 1, 3 * DELAY] {
        let mut cluster = without_newcomer();
        let resume = cluster.seen(1).resume.clone();
        assert!(resume.index.0 > 0);
        lose(&mut cluster, 0, Disk { may_have_signed: false, ..lost_disk_at(resume.clone()) });
        cluster.run_for(rebuilt_after);
        assert_eq!(cluster.seen(0).count(|message| !matches!(message, Message::Status(_))), 0);
        let records = cluster.records(0).clone();
        let unsigned = records.is_empty();
        lose(&mut cluster, 0, Disk { records, may_have_signed: !unsigned, ..lost_disk_at(resume) });
        cluster.submit(1, "needs-three");
        cluster.run_for(5_000);
        assert!(everywhere(&cluster, "needs-three"), "{}", cluster.engine(0).describe());
        cluster.check();
    }
}

#[test]
fn r5_unrecovered_validator_is_passive() {
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 10, "t");
    cluster.run_for(500);
    let resume = cluster.seen(0).resume.clone();
    cluster.simulation.crash(3);
    for _ in 0..3 {
        lose(&mut cluster, 0, lost_disk_at(resume.clone()));
        cluster.submit(0, "early");
        cluster.submit(1, "needs-three");
        cluster.run_for(3_000);
        // Two others know too little: it needs all three others, one of which may lie.
        let said = cluster.seen(0).count(|message| !matches!(message, Message::Status(_)));
        assert_eq!((said, cluster.records(0).len()), (0, 0));
    }
    cluster.simulation.restart(3);
    cluster.run_for(6_000);
    assert!(everywhere(&cluster, "needs-three"));
    cluster.check();
}

/// A validator of a committee with 3, 2, 2, 1, 1 and 1 votes (F = 3, Q = 7) restarts while only `up` are there. Returns
/// true if their responses are enough.
fn recovers(node: usize, up: &[usize], is_lost: bool) -> bool {
    let votes = [3, 2, 2, 1, 1, 1];
    let mut cluster = Cluster::with_votes(&votes, Links::uniform(6, Micros::from_millis(DELAY)), config());
    cluster.simulation.start_all();
    busy(&mut cluster, 0, 10, "t");
    cluster.run_for(500);
    (0..6).filter(|other| !up.contains(other)).for_each(|other| cluster.simulation.crash(other));
    if is_lost {
        let resume = cluster.seen(node).resume.clone();
        *cluster.disk(node) = lost_disk_at(resume);
    }
    cluster.simulation.restart(node);
    cluster.run_for(3_000);
    cluster.check();
    !cluster.engine(node).describe().contains("recovered at None")
}

#[test]
fn k2_responses_count_votes() {
    // Own votes count: the others need Q − 3 or Q − 1.
    assert!(recovers(0, &[1, 2], false) && !recovers(0, &[3, 4, 5], false));
    assert!(recovers(3, &[0, 1, 4], false) && !recovers(3, &[1, 2, 4], false));
}

#[test]
fn r5_lost_disk_needs_more_votes() {
    // 2F + 1 = 7 votes of others, whatever it has itself.
    assert!(recovers(5, &[0, 1, 2], true) && !recovers(5, &[1, 2, 3, 4], true));
    assert!(recovers(0, &[1, 2, 3, 4, 5], true) && !recovers(0, &[1, 2, 3, 4], true));
}

#[test]
fn r5_silence_in_lanes_counts_votes() {
    // Validator 0 loses its disk. Only some others hold the last car of validator 1, for which it may have voted. It is silent
    // up to the position above the one that others with F + 1 votes report.
    let votes = [3, 2, 2, 1, 1, 1];
    let config = || Config { leader_tips: false, optimistic_tips: false, ..config() };
    for (holders, is_silent) in [(&[1, 3][..], false), (&[1, 2], true), (&[1, 3, 4], true)] {
        let mut cluster = Cluster::with_votes(&votes, Links::uniform(6, Micros::from_millis(DELAY)), config());
        cluster.simulation.start_all();
        busy(&mut cluster, 0, 3, "t");
        cluster.run_for(500);
        let [.., before] = cluster.position(1, 1);
        cluster.set_rule(move |_, from, to, message| match message {
            Message::Car(_) if from == 1 && !holders.contains(&to) => LOST,
            Message::CarVote { .. } => LOST,
            _ => Delivery::Normal,
        });
        cluster.submit(1, "held-by-few");
        cluster.run_for(2 * DELAY);
        lose(&mut cluster, 0, lost_disk());
        // Its disk had an identifier, so the others know that it is lost.
        cluster.run_for(3 * DELAY);
        assert!(cluster.engine(0).describe().contains("lost records true"), "{}", cluster.engine(0).describe());
        cluster.clear_rule();
        cluster.run_for(5_000);
        for text in ["held-by-few", "later"] {
            cluster.submit(1, text);
            cluster.run_for(1_000);
            assert!(everywhere(&cluster, text), "{holders:?}: {text}");
        }
        let voted = |position: u64| {
            let is_vote = |message: &Message| match message {
                Message::CarVote { tip, .. } => (tip.lane.0, tip.position.0) == (1, position),
                _ => false,
            };
            cluster.seen(0).count(is_vote) > 0
        };
        assert_eq!([1, 2, 3].map(|above| voted(before + above)), [false, !is_silent, true], "{holders:?}");
        cluster.check();
    }
}

/// Slots about which it signed in this incarnation.
fn signed(cluster: &Cluster, node: usize) -> Vec<u64> {
    let slot = |message: &Message| match message {
        Message::PrepareVote { vote, .. } | Message::ConfirmAck(vote) => Some(vote.slot.0),
        Message::Timeout(timeout) => Some(timeout.slot.0),
        _ => None,
    };
    cluster.seen(node).sent.iter().filter_map(|(_, _, message)| slot(message)).collect()
}

/// All validators work until `node` signs again; it must sign nothing up to slot `silent` in this incarnation.
fn comes_back(cluster: &mut Cluster, node: usize, silent: u64) {
    for round in 0..100 {
        busy(cluster, 1, 1, &format!("back{round}-"));
        let slots = signed(cluster, node);
        assert!(slots.iter().all(|slot| *slot > silent), "silent up to {silent}, signed {slots:?}");
        if !slots.is_empty() {
            return;
        }
    }
    panic!("validator {node} never takes part again: {}", cluster.engine(node).describe());
}

/// 3k slots.
const REACH: u64 = 12;

#[test]
fn r5_late_response_ends_uncertainty() {
    // A backup is restored. Only validator 3 knows the last car of the lost incarnation; its response comes after the others'
    // were enough.
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 5, "t");
    cluster.run_for(500);
    cluster.simulation.crash(0);
    let backup = cluster.disk(0).clone();
    cluster.simulation.restart(0);
    cluster.run_for(2_000);
    let before = cluster.position(3, 0)[2];
    let since = cluster.simulation.now();
    // Lost messages stay lost: one rule covers all of this.
    cluster.set_rule(move |now, from, to, message| match message {
        _ if from == 0 && to != 3 && now < since + Micros::from_millis(DELAY) => LOST,
        Message::Available(_) | Message::Prepare(_) if now < since + Micros::from_millis(DELAY) => LOST,
        Message::CarVote { .. } if to == 0 => LOST,
        _ if from == 3 && now < since + Micros::from_millis(200) => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "lost");
    cluster.run_for(DELAY + 1);
    assert_eq!((cluster.position(3, 0)[2], cluster.position(1, 0)[2]), (before + 1, before));
    let reached = cluster.seen(1).log.len() as u64 + REACH;
    cluster.simulation.crash(3);
    lose(&mut cluster, 0, backup);
    cluster.run_for(300);
    let doubts = format!("lost records false, no records false, uncertain through {reached}");
    assert!(cluster.engine(0).describe().contains(&doubts), "{}", cluster.engine(0).describe());
    cluster.simulation.restart(3);
    cluster.run_for(200);
    assert!(cluster.engine(0).describe().contains("lost records true"), "{}", cluster.engine(0).describe());
    // Now the others need it, but it stays silent.
    cluster.simulation.crash(2);
    cluster.submit(1, "needs-three");
    cluster.run_for(6_000);
    assert_eq!(signed(&cluster, 0), [0; 0], "nobody has gone on: {}", cluster.engine(0).describe());
    cluster.simulation.restart(2);
    cluster.run_for(2_000);
    comes_back(&mut cluster, 0, reached);
    cluster.check();
}

#[test]
fn r5_unknown_own_signatures_reveal_loss() {
    // A backup is restored, and no peer shows an own car: there was none, or it is committed. Votes in commits reveal
    // the loss, and the lane's certificate.
    for owner in [0, 1] {
        let mut cluster = Cluster::new(4, config());
        busy(&mut cluster, owner, 3, "t");
        cluster.run_for(500);
        cluster.simulation.crash(0);
        let backup = cluster.disk(0).clone();
        cluster.simulation.restart(0);
        cluster.run_for(2_000);
        busy(&mut cluster, owner, 3, "lost");
        cluster.run_for(500);
        cluster.simulation.crash(0);
        *cluster.disk(0) = backup;
        cluster.set_rule(|_, _, to, message| match message {
            Message::Status(status) if to == 0 && status.receiver_car.is_some() => LOST,
            _ => Delivery::Normal,
        });
        let reached = cluster.seen(1).log.len() as u64 + REACH;
        cluster.simulation.restart(0);
        cluster.run_for(300);
        cluster.clear_rule();
        cluster.run_for(1_000);
        assert!(cluster.engine(0).describe().contains("lost records true"), "{}", cluster.engine(0).describe());
        // In its next incarnation there is no sign any more: the records contain the evidence of the loss. They contain the
        // silence too.
        cluster.simulation.crash(0);
        cluster.simulation.restart(0);
        cluster.run_for(500);
        assert!(cluster.engine(0).describe().contains("lost records false"), "{}", cluster.engine(0).describe());
        cluster.simulation.crash(3);
        cluster.submit(1, "needs-three");
        cluster.run_for(6_000);
        assert_eq!(signed(&cluster, 0), [0; 0], "{}", cluster.engine(0).describe());
        cluster.simulation.restart(3);
        cluster.run_for(2_000);
        comes_back(&mut cluster, 0, reached);
        cluster.check();
    }
}

#[test]
fn r5_own_lane_certificate_reveals_loss() {
    // A backup is restored. A car of the lost incarnation is certified and in no cut, and no peer shows the car itself.
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 3, "t");
    cluster.run_for(500);
    cluster.simulation.crash(0);
    let backup = cluster.disk(0).clone();
    cluster.simulation.restart(0);
    cluster.run_for(2_000);
    cluster.set_rule(|_, _, to, message| match message {
        Message::Prepare(_) | Message::Timeout(_) => LOST,
        Message::Status(_) if to == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "lost");
    cluster.run_for(5 * DELAY);
    let [_, certified, _] = cluster.position(1, 0);
    lose(&mut cluster, 0, backup);
    cluster.run_for(300);
    assert_eq!(cluster.position(0, 0)[1], certified, "it knows the certificate");
    assert!(cluster.engine(0).describe().contains("lost records true"), "{}", cluster.engine(0).describe());
    cluster.clear_rule();
    cluster.run_for(2_000);
    comes_back(&mut cluster, 0, REACH);
    cluster.check();
}

#[test]
fn r5_abstention_survives_power_cut() {
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 10, "t");
    cluster.run_for(500);
    let reached = cluster.seen(1).log.len() as u64 + REACH;
    lose(&mut cluster, 0, lost_disk());
    cluster.run_for(500);
    assert!(!cluster.records(0).is_empty(), "it lives again");
    // In this incarnation its records are whole; but they contain what it may not sign.
    cluster.simulation.crash(0);
    cluster.simulation.restart(0);
    cluster.run_for(500);
    cluster.simulation.crash(3);
    cluster.submit(1, "needs-three");
    cluster.run_for(6_000);
    assert_eq!(signed(&cluster, 0), [0; 0]);
    cluster.simulation.restart(3);
    cluster.run_for(2_000);
    comes_back(&mut cluster, 0, reached);
    cluster.check();
}

#[test]
fn r5_disk_id_reveals_loss_without_cars() {
    // Validator 0 never made a car. It has voted: in committed slots, or in the first slot while nothing is committed.
    for anything_committed in [true, false] {
        let mut cluster = Cluster::new(4, Config { fast_path: anything_committed, ..config() });
        if !anything_committed {
            let lost = |message: &Message| matches!(message, Message::Confirm(_) | Message::Commit(_) | Message::Timeout(_));
            cluster.set_rule(move |_, _, _, message| if lost(message) { LOST } else { Delivery::Normal });
        }
        busy(&mut cluster, 1, if anything_committed { 10 } else { 1 }, "t");
        assert!(!signed(&cluster, 0).is_empty());
        let reached = cluster.seen(1).log.len() as u64 + REACH;
        assert_eq!(reached == REACH, !anything_committed);
        // The others lose their memory too.
        (0..4).for_each(|node| cluster.simulation.crash(node));
        cluster.clear_rule();
        *cluster.disk(0) = lost_disk();
        (0..3).for_each(|node| cluster.simulation.restart(node));
        cluster.submit(1, "needs-three");
        cluster.run_for(6_000);
        assert_eq!(signed(&cluster, 0), [0; 0], "two others are not enough");
        cluster.simulation.restart(3);
        cluster.run_for(3_000);
        comes_back(&mut cluster, 0, reached);
        assert!(everywhere(&cluster, "needs-three"));
        cluster.check();
    }
}

#[test]
fn r5_late_first_start_is_no_loss() {
    // The others need the newcomer: its first incarnation begins as if it had always been there.
    let mut cluster = without_newcomer();
    cluster.simulation.restart(0);
    cluster.submit(0, "hello");
    cluster.run_for(6_000);
    assert!(everywhere(&cluster, "hello"), "{}", cluster.engine(0).describe());
    cluster.check();
}

#[test]
fn r5_disks_lost_before_start_are_no_loss() {
    // Two of four are set up anew repeatedly before there is a quorum; then all are there.
    for unsigned in [false, true] {
        let mut cluster = Cluster::on(Links::uniform(4, Micros::from_millis(DELAY)), config());
        (0..4).for_each(|node| cluster.disk(node).may_have_signed = !unsigned);
        cluster.simulation.restart(0);
        for _ in 0..3 {
            cluster.simulation.restart(1);
            cluster.run_for(700);
            for node in [0, 1] {
                let announces = |message: &Message| matches!(message, Message::Status(status) if status.disk_id.is_some());
                assert_eq!(cluster.seen(node).count(announces), 0, "announced without a quorum");
                // Without the statement: it was on the disk.
                lose(&mut cluster, node, lost_disk());
                cluster.run_for(300);
            }
            cluster.simulation.crash(1);
        }
        (1..4).for_each(|node| cluster.simulation.restart(node));
        cluster.submit(0, "hello");
        cluster.run_for(3_000);
        assert!(everywhere(&cluster, "hello"), "{}", cluster.engine(0).describe());
        cluster.check();
    }
}

#[test]
fn r5_nothing_is_signed_before_responses() {
    // Records that look whole may be from a backup. A validator must not gain from proposing early.
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 5, "t");
    cluster.simulation.crash(3);
    cluster.simulation.crash(0);
    cluster.set_rule(|_, _, to, message| match message {
        Message::Status(_) if to == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.simulation.restart(0);
    cluster.submit(1, "needs-three");
    cluster.run_for(6_000);
    assert_eq!(signed(&cluster, 0), [0; 0]);
    cluster.clear_rule();
    cluster.run_for(10_000);
    assert!(everywhere(&cluster, "needs-three"));
    cluster.check();
}

#[test]
fn r4_needed_restart_costs_one_stall_timeout() {
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 10, "t");
    cluster.simulation.crash(3);
    cluster.run_for(500);
    cluster.simulation.crash(1);
    cluster.simulation.restart(1);
    cluster.submit(1, "on");
    let since = cluster.simulation.now();
    cluster.run_for(6_000);
    let at = (0..3).map(|node| cluster.seen(node).delivered_at("on").expect("it goes on")).max().unwrap();
    // A stall is detected within four retries of 300 ms; then there are views with a dead leader.
    assert!((at - since) < Micros::from_millis(1_200 + 2_000), "{}", at - since);
    cluster.check();
}

#[test]
fn old_records_are_released_except_quiet_lanes() {
    let mut cluster = Cluster::new(4, Config { retain_slots: 20, ..config() });
    cluster.submit(3, "only-once");
    cluster.run_for(500);
    let mut most = 0;
    for round in 0..400 {
        cluster.submit(0, &format!("t{round}"));
        cluster.run_for(6 * DELAY);
        most = most.max(cluster.records(1).len());
    }
    assert!(most < 300, "{most} records");
    // The quiet lane continues after a restart of all validators, although its car was executed long ago.
    (0..4).for_each(|node| cluster.simulation.crash(node));
    cluster.simulation.start_all();
    cluster.submit(3, "once-more");
    cluster.run_for(5_000);
    assert!(everywhere(&cluster, "once-more"));
    cluster.check();
}
