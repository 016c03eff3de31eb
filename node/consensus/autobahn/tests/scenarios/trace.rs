//! What the explorer's picture is made of: cars that stand on the car before, slots that are decided.

use crate::cluster::{Cluster, plain};
use corniche_engine::TraceEvent;
use std::collections::BTreeSet;

#[test]
fn cars_are_vertices_and_slots_are_decisions() {
    let mut cluster = Cluster::new(4, plain());
    for round in 0..10 {
        (0..4).for_each(|node| cluster.submit(node, &format!("t{round}-{node}")));
        cluster.run_for(100);
    }
    cluster.run_for(1_000);
    for node in 0..4 {
        let node = cluster.node(node);
        let mut known = BTreeSet::new();
        let mut decided = Vec::new();
        for event in &node.traced {
            match event {
                TraceEvent::Accepted(vertex) => {
                    assert!(vertex.parents.iter().all(|parent| known.contains(parent)), "{vertex:?}");
                    assert!(known.insert(vertex.id), "once: {vertex:?}");
                }
                TraceEvent::Decided { round, committed: Some(_), .. } => decided.push(*round),
                _ => {}
            }
        }
        assert_eq!(known.len(), 40);
        decided.sort_unstable();
        assert_eq!(decided, (1..=node.log.len() as u64).collect::<Vec<_>>());
        // Every car was offered to be run early, once, before or when it was committed.
        assert_eq!(node.available.len(), 40);
    }
    cluster.check();
}
