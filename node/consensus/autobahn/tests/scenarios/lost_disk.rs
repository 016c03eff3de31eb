//! R1–R5: power cuts, late joiners, lost disks, restored backups.

use crate::cluster::{Cluster, DELAY, Disk, LOST, plain};
use corniche_autobahn::{Config, message::Message};
use corniche_engine::Resume;
use corniche_testkit::{Fate, Links, Micros};

fn config() -> Config {
    Config { view_timeout_ms: 300, status_ms: 1_000, ..plain() }
}

fn busy(cluster: &mut Cluster, from: usize, rounds: usize, name: &str) {
    for round in 0..rounds {
        let running: Vec<_> = (from..cluster.size()).filter(|node| cluster.world.is_up(*node)).collect();
        running.iter().for_each(|node| cluster.submit(*node, &format!("{name}{round}-{node}")));
        cluster.run_for(5 * DELAY);
    }
}

fn everywhere(cluster: &Cluster, text: &str) -> bool {
    (0..cluster.size()).filter_map(|node| cluster.world.process(node)).all(|node| node.delivered_at(text).is_some())
}

#[test]
fn r1_everybody_loses_power_at_once_and_goes_on() {
    let mut cluster = Cluster::new(4, config());
    for life in 0..5 {
        busy(&mut cluster, 0, 3, &format!("life{life}-"));
        cluster.run_for(life * 7);
        (0..4).for_each(|node| cluster.world.crash(node));
        cluster.world.start_all();
        cluster.submit(0, &format!("after{life}"));
        cluster.run_for(5_000);
        assert!(everywhere(&cluster, &format!("after{life}")));
    }
    cluster.check();
}

#[test]
fn r2_a_late_joiner_gets_what_was_committed_without_it() {
    let mut cluster = Cluster::on(Links::uniform(4, Micros::from_millis(DELAY)), config());
    (1..4).for_each(|node| cluster.world.restart(node));
    busy(&mut cluster, 1, 60, "t");
    cluster.run_for(1_000);
    cluster.world.restart(0);
    cluster.run_for(3_000);
    assert_eq!(cluster.node(0).log.len(), cluster.node(1).log.len());
    assert!(cluster.node(0).log.len() > 30);
    cluster.check();
}

/// Takes one validator's disk, or puts an older one back, and lets it start again.
fn lose(cluster: &mut Cluster, node: usize, left: Disk) {
    cluster.world.crash(node);
    *cluster.world.disk(node).unwrap() = left;
    cluster.world.restart(node);
}

#[test]
fn r5_a_validator_that_lost_its_disk_signs_no_car_twice() {
    for (size, faulty) in [(4, 1), (7, 2)] {
        for keeps_state in [true, false] {
            let mut cluster = Cluster::new(size, config());
            busy(&mut cluster, 0, 20, "t");
            let resume = cluster.world.process(0).unwrap().disk.resume.clone();
            // Its last car is known to f + 1 others only.
            cluster.bend(
                move |_, from, to, message| {
                    if from == 0 && to > faulty + 1 && matches!(message, Message::Car(_)) { LOST } else { Fate::Normal }
                },
            );
            cluster.submit(0, "lost-life");
            cluster.run_for(DELAY + 1);
            let cars = |cluster: &Cluster| {
                let sent = cluster.node(0).sent.iter().filter_map(|(_, _, message)| match message {
                    Message::Car(car) => Some((car.car.position, car.car.clone())),
                    _ => None,
                });
                sent.collect::<std::collections::BTreeMap<_, _>>()
            };
            let before = cars(&cluster);
            let resume = if keeps_state { resume } else { Resume::default() };
            lose(&mut cluster, 0, Disk { records: Default::default(), resume });
            cluster.straighten();
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
fn r5_a_restored_backup_learns_of_its_lost_life() {
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 5, "t");
    cluster.world.crash(0);
    let backup = cluster.world.disk(0).unwrap().clone();
    cluster.world.restart(0);
    cluster.run_for(2_000);
    busy(&mut cluster, 0, 10, "lost");
    cluster.run_for(500);
    lose(&mut cluster, 0, backup);
    cluster.submit(0, "reborn");
    cluster.run_for(5_000);
    assert!(everywhere(&cluster, "reborn"));
    cluster.check();
}

#[test]
fn r5_whoever_does_not_know_itself_says_nothing_and_records_nothing() {
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 10, "t");
    cluster.run_for(500);
    let resume = cluster.world.process(0).unwrap().disk.resume.clone();
    cluster.world.crash(3);
    for _ in 0..3 {
        lose(&mut cluster, 0, Disk { records: Default::default(), resume: resume.clone() });
        cluster.submit(0, "early");
        cluster.submit(1, "needs-three");
        cluster.run_for(3_000);
        // Two others know too little: it takes three of the other three, one of whom may lie.
        let said = cluster.node(0).count(|message| !matches!(message, Message::Standing(_)));
        assert_eq!((said, cluster.node(0).disk.records.len()), (0, 0));
    }
    cluster.world.restart(3);
    cluster.run_for(6_000);
    assert!(everywhere(&cluster, "needs-three"));
    cluster.check();
}

#[test]
fn r4_an_intact_restart_that_the_network_needs_costs_a_patience() {
    let mut cluster = Cluster::new(4, config());
    busy(&mut cluster, 0, 10, "t");
    cluster.world.crash(3);
    cluster.run_for(500);
    cluster.world.crash(1);
    cluster.world.restart(1);
    cluster.submit(1, "on");
    let since = cluster.world.now();
    cluster.run_for(6_000);
    let at = (0..3).map(|node| cluster.node(node).delivered_at("on").expect("it goes on")).max().unwrap();
    // Standing still is found out within four retries of 300 ms; then views with a dead leader among them.
    assert!((at - since) < Micros::from_millis(1_200 + 2_000), "{}", at - since);
    cluster.check();
}

#[test]
fn old_records_are_given_up_and_a_quiet_lane_is_kept() {
    let mut cluster = Cluster::new(4, Config { retain_slots: 20, ..config() });
    cluster.submit(3, "only-once");
    cluster.run_for(500);
    let mut most = 0;
    for round in 0..400 {
        cluster.submit(0, &format!("t{round}"));
        cluster.run_for(6 * DELAY);
        most = most.max(cluster.node(1).disk.records.len());
    }
    assert!(most < 300, "{most} records");
    // The quiet lane goes on after a restart of everybody, though its car is long executed.
    (0..4).for_each(|node| cluster.world.crash(node));
    cluster.world.start_all();
    cluster.submit(3, "once-more");
    cluster.run_for(5_000);
    assert!(everywhere(&cluster, "once-more"));
    cluster.check();
}
