//! A validator that signs two blocks a round: noticed, proven, and harmless.

use crate::cluster::{Cluster, Role, index, quick};
use corniche_engine::Offence;
use corniche_mahi_mahi::{
    Config,
    message::{BlockRef, Content, Context, Message, Round, SignedBlock},
};
use corniche_types::{B256, Bytes, TimestampMs};
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

/// Pairs of siblings whose parents do not exist cost their author nothing, so reports of them must end.
#[test]
fn one_author_is_not_reported_without_end() {
    let mut cluster = Cluster::new(&[Role::Equivocator, Role::Honest, Role::Honest, Role::Honest], quick(), 5);
    cluster.run_for(50);
    cluster.crash(0);
    let before = cluster.nodes[1].accused.len();
    let context = Context::new(&cluster.keys.committee);
    let clock = cluster.engine(1).clock().0;
    for step in 0..500 {
        let round = clock + 2 + step;
        let parent =
            |author: usize| BlockRef { round: Round(round - 1), author: index(author), digest: B256::with_last_byte(7) };
        for sibling in 0..2u8 {
            let content = Content {
                author: index(0),
                round: Round(round),
                timestamp: TimestampMs(cluster.now),
                parents: (0..4).map(parent).collect(),
                coin_share: [7; 48],
                batch: Bytes::from(vec![sibling]),
            };
            let signature = cluster.keys.signers[0].sign(&context.digest(&content));
            cluster.arrive(0, 1, &Message::Block(SignedBlock { content, signature }).encode());
        }
    }
    let reports = cluster.nodes[1].accused.len() - before;
    assert!((1..=64).contains(&reports), "{reports} reports");
}
