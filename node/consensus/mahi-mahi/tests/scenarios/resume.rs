//! Resuming from checkpoints: behind the records, ahead of them, and after the others pruned the missing history.

use crate::cluster::{Cluster, quick};
use corniche_engine::Resume;

fn busy(cluster: &mut Cluster, nodes: &[usize], rounds: usize) {
    for number in 0..rounds {
        for node in nodes {
            let transaction = format!("t{}-{node}-{number}", cluster.now());
            cluster.submit(*node, &transaction);
        }
        cluster.run_for(10);
    }
}

#[test]
fn every_checkpoint_resumes_to_same_commits() {
    let mut cluster = Cluster::honest(4, quick(), 31);
    busy(&mut cluster, &[0, 1, 2, 3], 80);
    let commits = cluster.seen(3).log.len();
    assert!(commits > 100, "{commits}");
    // The cluster compares each repeated commit with the first delivery, checkpoint included.
    for back in 0..40 {
        cluster.crash(3);
        cluster.restart(3, cluster.seen(3).log.len() - back);
        cluster.run_for(15);
    }
    busy(&mut cluster, &[0, 3], 5);
    cluster.run_for(1_000);
    assert!(cluster.seen(3).log.len() > commits);
    cluster.assert_agreement();
}

#[test]
fn late_joiner_catches_up_from_peers() {
    let mut cluster = Cluster::honest(4, quick(), 32);
    cluster.crash(3);
    cluster.disk(3).records.clear();
    busy(&mut cluster, &[0, 1, 2], 20);
    assert!(cluster.engine(0).clock().0 > 15);
    cluster.start(3, Resume::default());
    assert!(cluster.run_while(5_000, |cluster| cluster.seen(3).log.len() < cluster.seen(0).log.len()));
    cluster.assert_agreement();
}

#[test]
fn newer_resume_point_rebuilds_engine() {
    let mut cluster = Cluster::honest(4, quick(), 33);
    busy(&mut cluster, &[0, 1, 2, 3], 5);
    cluster.crash(3);
    busy(&mut cluster, &[0, 1, 2], 150);
    let floor = cluster.engine(0).floor();
    assert!(floor.0 > 60, "the others forgot what 3 lacks: floor {floor}");
    // With its own, older resume point it cannot continue …
    let behind = cluster.seen(3).log.len();
    cluster.restart(3, behind);
    cluster.run_for(3_000);
    let stuck = cluster.seen(3).log.len();
    assert!(stuck < cluster.seen(0).log.len(), "its missing history is pruned everywhere");
    // … until the pipeline provides a later one, from certified blocks.
    cluster.crash(3);
    let ahead = cluster.seen(0).log.len();
    let (resume, log) = (cluster.resume_after(0, ahead), cluster.seen(0).log.clone());
    cluster.disk(3).notes.log = log;
    cluster.start(3, resume);
    cluster.submit(3, "back");
    let lacking = |cluster: &Cluster| (0..4).any(|node| !cluster.delivered(node).contains(&"back".to_owned()));
    assert!(cluster.run_while(5_000, lacking));
    cluster.assert_agreement();
    assert!(cluster.seen(3).log.len() > ahead);
}

#[test]
fn checkpoint_stays_small() {
    let mut cluster = Cluster::honest(7, quick(), 34);
    busy(&mut cluster, &[0, 1, 2, 3, 4, 5, 6], 60);
    let largest = cluster.seen(0).log.iter().map(|(_, ordered)| ordered.checkpoint.len()).max().unwrap();
    assert!(largest < 40 + 7 * (4 + 30 / 8 + 4), "{largest} bytes");
}
