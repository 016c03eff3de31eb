//! Power cuts. In no case is a round signed twice (the cluster checks every block that is sent), and every commit is
//! delivered again identically.

use crate::cluster::{Cluster, quick};
use corniche_engine::Resume;
use corniche_testkit::ScenarioNode;
use std::collections::BTreeSet;

/// A run with a power cut when validator 0 asks to persist its `cut`-th record.
fn cut_at(cut: usize, disk_ms: u64, resume_back: usize) -> bool {
    let mut cluster = Cluster::honest(4, quick(), 21);
    cluster.set_disk_ms(disk_ms);
    cluster.simulation.with(0, |node| node.writes_until_failure = Some(cut));
    let has_failed = |cluster: &Cluster| cluster.simulation.process(0).is_some_and(ScenarioNode::has_failed);
    let mut step = 0;
    while !has_failed(&cluster) && step < 60 {
        (0..4).for_each(|node| cluster.submit(node, &format!("t{step}-{node}")));
        cluster.run_while(9, |cluster| !has_failed(cluster));
        step += 1;
    }
    let happened = has_failed(&cluster);
    if happened {
        cluster.crash(0);
    }
    cluster.run_for(30);
    let commits = cluster.seen(0).log.len();
    if happened {
        cluster.restart(0, commits.saturating_sub(resume_back));
    }
    cluster.submit(0, "after");
    let lacking = |cluster: &Cluster| (0..4).any(|node| !cluster.delivered(node).contains(&"after".to_owned()));
    assert!(cluster.run_while(5_000, lacking), "cut {cut}, disk {disk_ms} ms: no progress");
    cluster.assert_agreement();
    happened
}

#[test]
fn power_cut_at_every_persist_point() {
    for (disk_ms, resume_back) in [(0, 0), (4, 3)] {
        let cuts = (1..=90).filter(|cut| cut_at(*cut, disk_ms, resume_back)).count();
        assert!(cuts > 80, "only {cuts} cuts happened");
    }
}

#[test]
fn all_validators_lose_power() {
    let mut cluster = Cluster::honest(4, quick(), 8);
    cluster.set_disk_ms(3);
    for cut in 0..10 {
        (0..4).for_each(|node| cluster.submit(node, &format!("t{cut}-{node}")));
        cluster.run_for(37);
        (0..4).for_each(|node| cluster.crash(node));
        for node in 0..4 {
            let commits = cluster.seen(node).log.len().saturating_sub(node);
            cluster.restart(node, commits);
        }
    }
    (0..4).for_each(|node| cluster.submit(node, &format!("last-{node}")));
    let lacking = |cluster: &Cluster| (0..4).any(|node| !cluster.delivered(node).contains(&"last-3".to_owned()));
    assert!(cluster.run_while(10_000, lacking));
    cluster.assert_agreement();
}

#[test]
fn empty_disk_never_signs_old_rounds() {
    // K2: the peers report what this validator signed before; the cluster would detect a second block for a round.
    let mut cluster = Cluster::honest(4, quick(), 8);
    for number in 0..6 {
        cluster.submit(number % 4, &format!("t{number}"));
        cluster.run_for(15);
    }
    cluster.crash(2);
    cluster.disk(2).records.clear();
    cluster.start(2, Resume::default());
    cluster.submit(2, "reborn");
    let lacking = |cluster: &Cluster| (0..4).any(|node| !cluster.delivered(node).contains(&"reborn".to_owned()));
    assert!(cluster.run_while(5_000, lacking));
    cluster.assert_agreement();
}

#[test]
fn restored_backup_never_signs_old_rounds() {
    let mut cluster = Cluster::honest(4, quick(), 8);
    cluster.run_for(50);
    cluster.submit(1, "first");
    cluster.run_for(100);
    let (backup, commits) = (cluster.records(1).clone(), cluster.seen(1).log.len());
    for number in 0..10 {
        cluster.submit(number % 4, &format!("t{number}"));
        cluster.run_for(20);
    }
    cluster.crash(1);
    cluster.disk(1).records = backup;
    cluster.restart(1, commits);
    cluster.submit(1, "restored");
    let lacking = |cluster: &Cluster| (0..4).any(|node| !cluster.delivered(node).contains(&"restored".to_owned()));
    assert!(cluster.run_while(5_000, lacking));
    cluster.assert_agreement();
}

#[test]
fn validator_without_records_is_no_witness() {
    // K2: with two of the three others, it has a quorum only by counting itself, and only the third may have received
    // its last block.
    let mut cluster = Cluster::honest(4, quick(), 8);
    for number in 0..6 {
        cluster.submit(number % 4, &format!("t{number}"));
        cluster.run_for(15);
    }
    cluster.crash(0);
    cluster.crash(3);
    let commits = cluster.seen(0).log.len();
    assert!(commits > 0);
    let resume = cluster.resume_after(0, commits);
    cluster.disk(0).records.clear();
    let sent = cluster.sent_blocks(0);
    cluster.start(0, resume);
    cluster.submit(0, "early");
    cluster.run_for(20_000);
    assert_eq!(cluster.sent_blocks(0), sent, "two others know too little");
    cluster.restart(3, 0);
    let lacking = |cluster: &Cluster| (0..4).any(|node| !cluster.delivered(node).contains(&"early".to_owned()));
    assert!(cluster.run_while(20_000, lacking));
    cluster.assert_agreement();
}

#[test]
fn no_proposal_before_quorum_responds() {
    let mut cluster = Cluster::honest(4, quick(), 8);
    cluster.run_for(50);
    (0..4).for_each(|node| cluster.crash(node));
    cluster.restart(0, 0);
    cluster.restart(1, 0);
    let sent: BTreeSet<_> = (0..2).map(|node| cluster.sent_blocks(node)).collect();
    cluster.submit(0, "t");
    cluster.run_for(20_000);
    assert_eq!((0..2).map(|node| cluster.sent_blocks(node)).collect::<BTreeSet<_>>(), sent, "two of four know too little");
    cluster.restart(2, 0);
    assert!(cluster.run_while(5_000, |cluster| cluster.delivered(2).is_empty()));
}

#[test]
fn unsigned_first_start_is_no_loss() {
    // Its greeting is lost, so it is not recovered and records nothing; blocks still reach it.
    let mut cluster = Cluster::honest(4, quick(), 27);
    cluster.crash(3);
    cluster.network().muted.insert(3);
    cluster.restart(3, 0);
    for step in 0..20 {
        cluster.submit(step % 3, &format!("t{step}"));
        cluster.run_for(10);
    }
    assert!(!cluster.seen(0).log.is_empty() && cluster.records(3).is_empty());
    assert!(cluster.seen(3).log.is_empty(), "commits without records are what a lost disk looks like");
    // It does not count among the f, so another one may be faulty.
    cluster.crash(3);
    cluster.crash(2);
    cluster.network().muted.clear();
    let commits = cluster.seen(3).log.len();
    cluster.restart(3, commits);
    cluster.submit(0, "on");
    assert!(cluster.run_while(5_000, |cluster| !cluster.delivered(3).contains(&"on".to_owned())));
    cluster.assert_agreement();
}
