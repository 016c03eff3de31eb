//! Changed messages and datagrams: nothing panics, memory stays bounded, and the group continues.

use crate::cluster::{Cluster, DELAY, plain};
use corniche_engine::Input;
use corniche_neobft::Config;
use corniche_testkit::mutate::mutated;

const ALL: [usize; 4] = [0, 1, 2, 3];
const CASES: u64 = 4_000;

fn config() -> Config {
    Config { query_ms: 50, gap_ms: 300, view_ms: 300, request_ms: 200, ..plain() }
}

/// A run with a gap, a view change, a checkpoint and a large batch, so that all kinds of messages are sent.
fn eventful() -> Cluster {
    let mut cluster = Cluster::new(4, config());
    cluster.lose(&[(2, 0), (2, 1), (2, 2), (2, 3), (4, 2)]);
    for number in 0..12 {
        cluster.submit(number % 4, &format!("t{number}"));
        cluster.run_for(DELAY);
    }
    cluster.submit(1, &"x".repeat(3_000));
    cluster.run_for(50 * DELAY);
    cluster.simulation.crash(0);
    cluster.lose(&[(15, 1), (15, 2), (16, 1), (16, 2), (17, 1), (17, 2)]);
    for number in 0..4 {
        cluster.submit(1 + number % 3, &format!("u{number}"));
        cluster.run_for(DELAY);
    }
    cluster.run_for(2_000);
    cluster.simulation.restart(0);
    cluster.run_for(1_000);
    cluster
}

#[test]
fn changed_messages_are_survived() {
    let mut cluster = eventful();
    let messages = ALL.iter().flat_map(|node| cluster.seen(*node).sent.iter().map(|(_, _, message)| message.encode().to_vec()));
    let seeds: Vec<_> = messages.collect();
    for case in 0..CASES {
        let message = mutated(case, &seeds, &[&[0], &[255; 8], &[1, 0, 0, 0]]).into();
        let (from, to) = ((case % 4) as usize, ((case / 4) % 4) as usize);
        if from != to {
            cluster.receive(from, to, &message);
        }
        if case % 100 == 0 {
            cluster.run_for(1);
        }
    }
    cluster.run_for(2_000);
    cluster.submit(2, "after");
    cluster.run_until_delivered(&ALL, &["after"], 60_000);
    cluster.assert_equal_logs(ALL);
    let most = config().max_footprint(4);
    assert!(ALL.iter().all(|node| cluster.engine(*node).footprint() <= most));
}

#[test]
fn changed_datagrams_are_survived() {
    let mut cluster = eventful();
    let seeds: Vec<Vec<u8>> =
        (0u8..20).flat_map(|number| cluster.stamp(&[number])[0].clone()).map(|bytes| bytes.to_vec()).collect();
    for case in 0..CASES {
        let datagram = mutated(case, &seeds, &[&[0], &[255; 8], &[0xA0, 0x4D]]).into();
        cluster.input((case % 4) as usize, Input::Packet(datagram));
    }
    cluster.run_for(5_000);
    cluster.submit(2, "after");
    cluster.run_until_delivered(&ALL, &["after"], 60_000);
    cluster.assert_equal_logs(ALL);
}
