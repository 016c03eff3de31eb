//! What the indexer says of how far it is, which pages show.

use super::{
    chain::Chain,
    dump,
    node::Scripted,
    resume::{KEEP, WITH_DAG, go_on, indexer, indexer_that_keeps},
    sqlite,
};
use corniche_web::{
    indexer::{Indexer, Keep},
    live::Live,
    node::Node,
    state::Standing,
};
use std::sync::Arc;

#[tokio::test]
async fn what_counts_as_certified_is_what_the_certificates_cover_that_are_written() {
    let long = Chain::new(22, 60);
    let chains = [long.clone(), long.fork(30, 1, 40)];
    let covered = chains.each_ref().map(|chain| chain.certificates.keys().next_back().copied());
    let node = Scripted::for_development(long).await;
    let (database, _directory) = sqlite().await;
    let (mut first, standing) = indexer(&node, &database).await;
    assert_eq!(standing.now().certified, None);
    for (chain, covered) in chains.into_iter().zip(covered) {
        node.take(chain);
        assert_eq!(go_on(&mut first, &standing).await, None);
        assert_eq!(standing.now().certified, covered);
    }
    drop(first);
    let (_second, standing) = indexer(&node, &database).await;
    assert_eq!(standing.now().certified, covered[1], "before the node is asked");
}

#[tokio::test]
async fn certificates_come_as_fast_as_blocks() {
    let chain = Chain::new(24, 300);
    let covered = chain.certificates.keys().next_back().copied();
    let node = Scripted::start(chain).await;
    let (database, _directory) = sqlite().await;
    let (mut indexer, standing) = indexer(&node, &database).await;
    for _ in 0..2 {
        assert!(indexer.step().await.is_some());
    }
    let now = standing.now();
    assert_eq!((now.indexed.map(|(number, _)| number), now.certified), (Some(299), covered));
}

#[tokio::test]
async fn rounds_of_the_ordering_do_not_wait_for_certificates() {
    let node = Scripted::start(Chain::new(28, 40)).await;
    node.show_dag();
    node.lose_certificates();
    let (database, _directory) = sqlite().await;
    let (mut indexer, standing) = indexer_that_keeps(WITH_DAG, &node, &database).await;
    for _ in 0..2 {
        assert!(indexer.step().await.is_some());
    }
    let waits = standing.now().waits.unwrap_or_default();
    assert!(waits.contains("they are lost"), "{waits:?}");
    assert_eq!(dump::rows(&database, "SELECT round FROM dag_rounds").await.len(), 39);
}

#[tokio::test]
async fn how_far_calls_are_is_told_where_they_are_asked_for() {
    let node = Scripted::start(Chain::new(23, 60)).await;
    let (database, _directory) = sqlite().await;
    let (mut first, standing) = indexer(&node, &database).await;
    for _ in 0..2 {
        assert!(first.step().await.is_some());
    }
    let far = |standing: &Standing| (standing.now().indexed.map(|(number, _)| number), standing.now().traced);
    assert_eq!(far(&standing), (Some(59), Some(0)), "blocks come first");
    assert_eq!(go_on(&mut first, &standing).await, None);
    assert_eq!(far(&standing), (Some(59), Some(59)));
    drop(first);
    let standing = Arc::new(Standing::new("CRN".into()));
    let keep = Keep { calls: false, ..KEEP };
    let second = Indexer::new(Node::new(&node.url), &database, Arc::clone(&standing), Live::default(), keep).await;
    assert_eq!(go_on(&mut second.unwrap(), &standing).await, None);
    assert_eq!(far(&standing), (Some(59), None), "nobody asks for them");
}
