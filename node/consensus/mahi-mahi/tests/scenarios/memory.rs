//! Memory and disk stay bounded however long the network runs, and batches that the floor passes over return to their
//! author.

use crate::cluster::{Cluster, Role, quick};
use corniche_mahi_mahi::Config;

#[test]
fn memory_is_flat_over_thousands_of_rounds() {
    let config = Config { gc_depth: 20, retain_rounds: 20, heartbeat_ms: 100, ..quick() };
    let mut cluster = Cluster::honest(4, config, 41);
    let (mut largest, mut records) = ([0; 3], 0);
    for step in 0..3_000 {
        cluster.submit(step % 4, &format!("t{step}"));
        cluster.run_for(10);
        for node in 0..4 {
            let footprint = cluster.engine(node).footprint();
            (0..3).for_each(|part| largest[part] = largest[part].max(footprint[part]));
            records = records.max(cluster.records(node).len());
        }
        (0..4).filter(|_| step % 50 == 0).for_each(|node| assert!(cluster.seen(node).accused.is_empty()));
    }
    assert!(cluster.engine(0).clock().0 > 2_500);
    // 40 rounds kept and some open ones, four blocks each.
    assert!(largest[0] <= 4 * 52 && largest[1] <= 20 && largest[2] <= 30, "blocks, waiting, verdicts: {largest:?}");
    assert!(records <= 4 * 60, "{records} records");
    cluster.run_for(1_000);
    assert_eq!(cluster.delivered(0).len(), 3_000);
    cluster.assert_agreement();
}

#[test]
fn batch_below_floor_is_requeued() {
    // G4: validator 3's messages are lost for longer than the floor depth. It receives the others' and learns that its
    // batch is lost.
    let config = Config { gc_depth: 8, retain_rounds: 8, ..quick() };
    let mut cluster = Cluster::honest(4, config, 42);
    cluster.run_for(100);
    cluster.network().muted.insert(3);
    cluster.submit(3, "lost");
    for step in 0..40 {
        cluster.submit(step % 3, &format!("t{step}"));
        cluster.run_for(10);
    }
    assert!(!cluster.seen(3).requeued.is_empty());
    cluster.network().muted.clear();
    cluster.connect(3);
    assert!(cluster.run_while(5_000, |cluster| !cluster.delivered(0).contains(&"lost".to_owned())));
    assert_eq!(cluster.delivered(0).iter().filter(|transaction| *transaction == "lost").count(), 1);
    cluster.assert_agreement();
}

#[test]
fn dag_is_bounded_without_coin_quorum() {
    // Beyond the fault bound: one validator's shares are bad and another is down, so rounds advance but no coin opens.
    let config = Config { gc_depth: 8, retain_rounds: 8, ..quick() };
    let mut cluster = Cluster::new(&[Role::BadShares, Role::Honest, Role::Honest, Role::Honest], config, 43);
    cluster.run_for(100);
    cluster.crash(3);
    cluster.submit(1, "stuck");
    cluster.run_for(20_000);
    assert!(cluster.delivered(1).is_empty());
    let [blocks, ..] = cluster.engine(1).footprint();
    assert!(blocks < 3 * (4 * 8 + 40), "{blocks} blocks");
    let commits = cluster.seen(3).log.len();
    cluster.restart(3, commits);
    assert!(cluster.run_while(10_000, |cluster| cluster.delivered(3).is_empty()));
    cluster.assert_agreement();
}
