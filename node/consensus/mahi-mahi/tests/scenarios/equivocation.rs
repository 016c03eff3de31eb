//! A validator that signs two blocks a round: noticed, proven, and harmless.

use crate::cluster::{Cluster, Role, index, quick};
use corniche_engine::Offence;
use corniche_mahi_mahi::Config;
use std::collections::BTreeSet;

#[test]
fn equivocation_is_proven_and_delivers_one_sibling_at_most() {
    for wave_length in [4, 5] {
        let roles = [Role::Equivocator, Role::Honest, Role::Honest, Role::Honest];
        let mut cluster = Cluster::new(&roles, Config { wave_length, ..quick() }, 11);
        for number in 0..60 {
            (0..4).for_each(|node| cluster.submit(node, &format!("t{number}-{node}")));
            cluster.run_for(10);
        }
        cluster.run_for(2_000);
        cluster.assert_agreement();
        for (node, state) in cluster.honest_nodes() {
            assert!(state.accused.contains(&(index(0), Offence::Equivocation)), "validator {node} has proof");
            let delivered = cluster.delivered(node);
            // Both siblings carry the same transactions: D9 hands over one.
            assert_eq!(delivered.iter().collect::<BTreeSet<_>>().len(), delivered.len(), "w = {wave_length}");
            assert!(delivered.len() >= 180, "the honest three lost nothing");
        }
    }
}
