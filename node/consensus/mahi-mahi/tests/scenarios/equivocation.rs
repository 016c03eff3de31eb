//! A validator that signs two blocks per round is detected, proven, and harmless.

use crate::cluster::{Cluster, Role, index, quick};
use corniche_engine::Offence;
use corniche_mahi_mahi::{
    Config,
    message::{BlockRef, Content, Context, Message, Round, SignedBlock},
};
use corniche_types::{B256, Bytes, TimestampMs};
use std::collections::BTreeSet;

#[test]
fn equivocation_is_proven_and_delivered_once() {
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
            // Both siblings carry the same transactions: D9 delivers one of them.
            assert_eq!(delivered.iter().collect::<BTreeSet<_>>().len(), delivered.len(), "w = {wave_length}");
            assert!(delivered.len() >= 180, "the honest three lost nothing");
        }
    }
}

/// Siblings whose parents do not exist cost their author nothing, so reports of them must be bounded.
#[test]
fn accusations_per_author_are_limited() {
    let mut cluster = Cluster::new(&[Role::Equivocator, Role::Honest, Role::Honest, Role::Honest], quick(), 5);
    cluster.run_for(50);
    cluster.crash(0);
    let before = cluster.seen(1).accused.len();
    let context = Context::new(&cluster.committee);
    let clock = cluster.engine(1).clock().0;
    for step in 0..500 {
        let round = clock + 2 + step;
        let parent =
            |author: usize| BlockRef { round: Round(round - 1), author: index(author), digest: B256::with_last_byte(7) };
        for sibling in 0..2u8 {
            let content = Content {
                author: index(0),
                round: Round(round),
                timestamp: TimestampMs(cluster.now()),
                parents: (0..4).map(parent).collect(),
                coin_shares: vec![[7; 48]],
                batch: Bytes::from(vec![sibling]),
            };
            let signature = context.sign(&content, &*cluster.signer(0)).unwrap();
            cluster.receive(0, 1, &Message::Block(SignedBlock { content, signature }).encode());
        }
    }
    let reports = cluster.seen(1).accused.len() - before;
    assert!((1..=64).contains(&reports), "{reports} reports");
}

/// Authors of the parents of this author's last blocks.
fn parents_of(cluster: &Cluster, author: usize, rounds: u64) -> BTreeSet<usize> {
    let network = cluster.network();
    let last = network.archive.keys().rev().find(|(_, of)| *of == index(author)).unwrap().0;
    let blocks = network.archive.range((Round(last.0 - rounds), index(0))..);
    let blocks = blocks.filter(|((_, of), _)| *of == index(author)).map(|(_, block)| block);
    blocks.flat_map(|block| block.content.parents.iter().map(|parent| parent.author.as_usize())).collect()
}

#[test]
fn equivocators_are_parents_only_for_quorum() {
    for crashed in 0..3 {
        // q = 5: with two of seven down, there is no quorum without the equivocator.
        let mut roles = [Role::Honest; 7];
        roles[0] = Role::Equivocator;
        let mut cluster = Cluster::new(&roles, quick(), 12);
        for number in 0..20 {
            (0..7).for_each(|node| cluster.submit(node, &format!("t{number}-{node}")));
            cluster.run_for(20);
        }
        assert!(cluster.seen(1).accused.contains(&(index(0), Offence::Equivocation)));
        (0..crashed).for_each(|node| cluster.crash(6 - node));
        cluster.run_for(3_000);
        for number in 0..20 {
            (1..5).for_each(|node| cluster.submit(node, &format!("u{number}-{node}")));
            cluster.run_for(100);
        }
        cluster.run_for(8_000);
        let lacking = |cluster: &Cluster| !cluster.delivered(1).contains(&"u19-4".to_owned());
        assert!(cluster.run_while(60_000, lacking), "{crashed} down");
        cluster.assert_agreement();
        assert_eq!(parents_of(&cluster, 1, 5).contains(&0), crashed == 2, "{crashed} down");
    }
}

/// All validators accept an author as a parent again if it stopped long ago. Otherwise an operator who once restored a
/// backup would be excluded for ever.
#[test]
fn equivocator_that_stopped_is_accepted_again() {
    let mut cluster = Cluster::new(&[Role::Equivocator, Role::Honest, Role::Honest, Role::Honest], quick(), 13);
    let load = |cluster: &mut Cluster, steps: usize, tag: &str| {
        for number in 0..steps {
            (1..4).for_each(|node| cluster.submit(node, &format!("{tag}{number}-{node}")));
            cluster.run_for(20);
        }
    };
    load(&mut cluster, 20, "a");
    assert!(!parents_of(&cluster, 1, 5).contains(&0));
    cluster.network().roles[0] = Role::Byzantine;
    // Four floor depths of 30 rounds, plus the equivocations just before.
    load(&mut cluster, 200, "b");
    assert!(parents_of(&cluster, 1, 5).contains(&0), "at {}", cluster.engine(1).clock());
    cluster.submit(0, "of-the-forgiven");
    load(&mut cluster, 20, "c");
    assert!(cluster.delivered(1).contains(&"of-the-forgiven".to_owned()));
    cluster.assert_agreement();
}
