//! Whole committees: all online, one offline, lossy and reordering links with equivocators, a partition that heals.
//! Agreement must hold always, and progress must resume once the network is whole again.

use crate::cluster::{Cluster, Link, Role, quick};
use corniche_mahi_mahi::Config;
use std::collections::BTreeSet;

fn submit_everywhere(cluster: &mut Cluster, tag: &str, per_node: usize) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for node in 0..cluster.size() {
        for number in 0..per_node {
            let transaction = format!("{tag}-{node}-{number}");
            cluster.submit(node, &transaction);
            all.insert(transaction);
        }
    }
    all
}

fn all_have(cluster: &Cluster, transactions: &BTreeSet<String>) -> bool {
    let has = |node| transactions.is_subset(&cluster.delivered(node).into_iter().collect());
    cluster.honest_nodes().all(|(node, _)| has(node))
}

#[test]
fn all_validators_online() {
    for (size, wave_length, leaders) in [(2, 4, 2), (4, 4, 1), (4, 5, 2), (5, 4, 2), (7, 4, 3), (10, 5, 2)] {
        let mut cluster = Cluster::honest(size, Config { wave_length, leaders, ..quick() }, 1);
        let mut transactions = BTreeSet::new();
        for wave in 0..5 {
            transactions.extend(submit_everywhere(&mut cluster, &format!("t{wave}"), 2));
            cluster.run_for(35);
        }
        assert!(
            cluster.run_while(2_000, |cluster| !all_have(cluster, &transactions)),
            "n = {size}, w = {wave_length}, l = {leaders}"
        );
        cluster.assert_agreement();
        cluster.assert_delivered_once(&transactions);
    }
}

#[test]
fn fault_free_commit_takes_wave_length_delays() {
    // M7: in lock-step, the first leader round commits on receipt of the certify round's blocks.
    for wave_length in [4, 5] {
        let config = Config { wave_length, leaders: 4, parent_grace_ms: 0, ..quick() };
        let mut cluster = Cluster::honest(4, config, 1);
        cluster.run_for(100);
        let start = cluster.now();
        (0..4).for_each(|node| cluster.submit(node, &format!("t{node}")));
        assert!(cluster.run_while(1_000, |cluster| cluster.seen(0).log.is_empty()));
        assert_eq!(cluster.now() - start, wave_length * 10, "w = {wave_length}: one link delay per round");
    }
}

#[test]
fn healthy_network_sends_only_blocks() {
    // M1: n − 1 sends per validator and round, nothing else after the greetings.
    let mut cluster = Cluster::honest(4, quick(), 1);
    cluster.run_for(100);
    let others = cluster.all_sent_others();
    let transactions = submit_everywhere(&mut cluster, "t", 20);
    assert!(cluster.run_while(2_000, |cluster| !all_have(cluster, &transactions)));
    assert_eq!(cluster.all_sent_others(), others);
    let rounds = cluster.engine(0).clock().0 - 1;
    for node in 0..4 {
        let sent = cluster.sent_blocks(node) as u64;
        assert!((3 * (rounds - 1)..=3 * rounds).contains(&sent));
    }
}

#[test]
fn f_validators_offline() {
    for (size, down) in [(4, 1), (7, 2)] {
        let mut cluster = Cluster::honest(size, quick(), 3);
        (0..down).for_each(|node| cluster.crash(size - 1 - node));
        let mut transactions = BTreeSet::new();
        for number in 0..20 {
            let transaction = format!("t{number}");
            cluster.submit(number % (size - down), &transaction);
            transactions.insert(transaction);
            cluster.run_for(7);
        }
        let up: Vec<usize> = (0..size - down).collect();
        let have =
            |cluster: &Cluster| up.iter().all(|node| transactions.is_subset(&cluster.delivered(*node).into_iter().collect()));
        assert!(cluster.run_while(3_000, |cluster| !have(cluster)), "n = {size}");
        cluster.assert_agreement();
    }
}

#[test]
fn progress_resumes_when_quorum_returns() {
    let mut cluster = Cluster::honest(4, quick(), 3);
    cluster.run_for(100);
    cluster.crash(3);
    cluster.crash(2);
    cluster.submit(0, "stuck");
    cluster.run_for(20_000);
    assert!(cluster.delivered(0).is_empty(), "two of four are no quorum");
    let commits = cluster.seen(2).log.len();
    cluster.restart(2, commits);
    assert!(cluster.run_while(5_000, |cluster| cluster.delivered(2).is_empty()));
    cluster.assert_agreement();
}

/// Faults first; then the network is whole and must make progress.
fn random_schedule(seed: u64, size: usize, wave_length: u64, leaders: u16, faulty: Role) {
    let faulty_count = (size - 1) / 3;
    let roles: Vec<_> = (0..size).map(|node| if node < faulty_count { faulty } else { Role::Honest }).collect();
    let mut cluster = Cluster::new(&roles, Config { wave_length, leaders, ..quick() }, seed);
    cluster.set_disk_ms(seed % 3);
    cluster.network().link = Link { min_ms: 1, max_ms: 60, loss: 150 };
    let mut transactions = BTreeSet::new();
    for step in 0..60 {
        let node = cluster.random.below(size as u64) as usize;
        let transaction = format!("t{step}");
        cluster.submit(node, &transaction);
        if cluster.network().roles[node] == Role::Honest {
            transactions.insert(transaction);
        }
        if step % 20 == 10 {
            let lonely = cluster.random.below(size as u64) as usize;
            cluster.network().groups[lonely] = 1;
        }
        cluster.run_for(25);
        if step % 20 == 17 {
            cluster.network().groups.fill(0);
        }
    }
    cluster.assert_agreement();
    cluster.network().link = Link { min_ms: 5, max_ms: 15, loss: 0 };
    cluster.connect_all();
    let done = cluster.run_while(60_000, |cluster| !all_have(cluster, &transactions));
    cluster.assert_agreement();
    let lengths: Vec<_> = (0..size).map(|node| cluster.seen(node).log.len()).collect();
    assert!(done, "seed {seed}, n = {size}, w = {wave_length}, l = {leaders}: no progress, commits {lengths:?}");
    cluster.assert_delivered_once(&transactions);
}

#[test]
fn random_schedules_with_loss_and_reordering() {
    for seed in 0..12 {
        let size = [4, 7][seed as usize % 2];
        random_schedule(seed, size, 4 + seed / 2 % 2, 1 + u16::try_from(seed % 3).unwrap(), Role::Honest);
    }
}

#[test]
fn random_schedules_with_equivocators() {
    for seed in 100..124 {
        let size = [4, 7][seed as usize % 2];
        random_schedule(seed, size, 4 + seed / 2 % 2, 1 + u16::try_from(seed % 3).unwrap(), Role::Equivocator);
    }
}

#[test]
fn random_schedules_with_bad_coin_shares() {
    for seed in 200..208 {
        let size = [4, 7][seed as usize % 2];
        random_schedule(seed, size, 4 + seed / 2 % 2, 2, Role::BadShares);
    }
}

#[test]
fn partition_heals_without_divergence() {
    let mut cluster = Cluster::honest(7, quick(), 9);
    cluster.run_for(100);
    cluster.network().groups = vec![0, 0, 0, 1, 1, 1, 1];
    let transactions = submit_everywhere(&mut cluster, "t", 2);
    cluster.run_for(10_000);
    let is_empty = |node| cluster.seen(node).log.iter().all(|(_, ordered)| ordered.batches.is_empty());
    assert!((0..7).all(is_empty), "no side is a quorum");
    cluster.network().groups.fill(0);
    assert!(cluster.run_while(10_000, |cluster| !all_have(cluster, &transactions)));
    cluster.assert_agreement();
    cluster.assert_delivered_once(&transactions);
}

#[test]
fn same_seed_gives_same_run() {
    let run = |seed| {
        let mut cluster = Cluster::honest(4, quick(), seed);
        cluster.network().link = Link { min_ms: 1, max_ms: 40, loss: 100 };
        submit_everywhere(&mut cluster, "t", 10);
        cluster.run_for(3_000);
        (cluster.seen(0).log.clone(), cluster.total_sent())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).1, run(6).1);
}

#[test]
fn slow_validators_blocks_are_ordered() {
    // M14: weak links. This validator's messages take as long as three rounds of the others.
    let mut cluster = Cluster::honest(4, quick(), 4);
    cluster.run_for(100);
    cluster.submit(3, "slow");
    for step in 0..40 {
        (0..3).for_each(|node| cluster.submit(node, &format!("fast-{step}-{node}")));
        cluster.network().groups[3] = u8::from(step % 4 != 3);
        cluster.run_for(10);
        if step % 4 == 3 {
            cluster.connect(3);
        }
    }
    cluster.network().groups.fill(0);
    assert!(cluster.run_while(10_000, |cluster| !cluster.delivered(0).contains(&"slow".to_owned())));
    cluster.assert_agreement();
}
