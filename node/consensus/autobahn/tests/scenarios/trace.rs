//! Source of the explorer's DAG view: cars with their parents, and decided slots.

use crate::cluster::{Cluster, plain};
use corniche_autobahn::Config;
use corniche_engine::TraceEvent;
use corniche_types::ValidatorIndex;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn trace_maps_cars_and_slots() {
    let mut cluster = Cluster::new(4, plain());
    for round in 0..10 {
        (0..4).for_each(|node| cluster.submit(node, &format!("t{round}-{node}")));
        cluster.run_for(100);
    }
    cluster.run_for(1_000);
    for node in 0..4 {
        let node = cluster.seen(node);
        let mut known = BTreeSet::new();
        let mut decided = Vec::new();
        let (mut digests, mut delivered) = (BTreeSet::new(), Vec::new());
        for event in &node.traced {
            match event {
                TraceEvent::Accepted(vertex) => {
                    assert!(vertex.parents.iter().all(|parent| known.contains(parent)), "{vertex:?}");
                    assert!(known.insert(vertex.id), "once: {vertex:?}");
                    digests.extend(vertex.batch_digest);
                }
                TraceEvent::Decided { round, committed: Some(_), .. } => decided.push(*round),
                TraceEvent::Delivered { round, rank: 0, commit } => delivered.push((*round, commit.0)),
                _ => {}
            }
        }
        assert_eq!(known.len(), 40);
        decided.sort_unstable();
        assert_eq!(decided, (1..=node.log.len() as u64).collect::<Vec<_>>());
        assert_eq!(delivered, decided.iter().map(|slot| (*slot, *slot)).collect::<Vec<_>>(), "a commit is a slot");
        let batches = node.log.iter().flat_map(|(_, ordered)| &ordered.batches);
        assert_eq!(digests, batches.map(|(_, batch)| corniche_crypto::digest(&batch.bytes)).collect(), "as records name them");
        // Every car was offered once for early execution, at the latest when it was committed.
        assert_eq!(node.available.len(), 40);
    }
    cluster.check();
}

#[test]
fn trace_reports_holders_and_voters() {
    let all: Vec<ValidatorIndex> = (0..4).map(ValidatorIndex).collect();
    for (fast_path, way) in [(true, "fast"), (false, "slow")] {
        let mut cluster = Cluster::new(4, Config { fast_path, ..plain() });
        for round in 0..10 {
            (0..4).for_each(|node| cluster.submit(node, &format!("t{round}-{node}")));
            cluster.run_for(100);
        }
        cluster.run_for(1_000);
        for node in 0..4 {
            let node = cluster.seen(node);
            let (mut cars, mut held) = (BTreeSet::new(), BTreeMap::new());
            let (mut decided, mut agreed) = (BTreeMap::new(), BTreeMap::new());
            for event in &node.traced {
                match event {
                    TraceEvent::Accepted(vertex) => _ = cars.insert(vertex.id),
                    TraceEvent::Held { vertex, holders } => {
                        assert!(held.insert(*vertex, holders).is_none(), "once: {vertex:?}")
                    }
                    TraceEvent::Decided { round, why, .. } => _ = decided.insert(*round, why),
                    TraceEvent::Agreed { round, rank: 0, voters, confirmers } => {
                        assert!(agreed.insert(*round, (voters, confirmers)).is_none(), "once: {round}");
                    }
                    _ => {}
                }
            }
            assert!(held.len() > 30, "{} of {} cars", held.len(), cars.len());
            for (car, holders) in held {
                assert!(cars.contains(&car), "{car:?}");
                assert!(holders.len() >= 2 && holders.contains(&car.author), "{car:?}: {holders:?}");
                assert!(holders.is_sorted_by(|one, next| one < next), "{car:?}: {holders:?}");
            }
            assert!(agreed.keys().eq(decided.keys()), "{agreed:?}, {decided:?}");
            assert!(decided.values().any(|why| why.starts_with(way)), "{decided:?}");
            for (slot, (voters, confirmers)) in agreed {
                match decided[&slot].starts_with("fast") {
                    true => assert!(*voters == all && confirmers.is_empty(), "{slot}: {voters:?}, {confirmers:?}"),
                    false => assert!(voters.len() >= 3 && confirmers.len() >= 3, "{slot}: {voters:?}, {confirmers:?}"),
                }
            }
        }
        cluster.check();
    }
}
