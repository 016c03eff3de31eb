//! The indexer's progress as shown on pages.

use super::{
    chain::Chain,
    dump,
    node::Scripted,
    resume::{KEEP, WITH_DAG, go_on, indexer, indexer_that_keeps},
    sqlite,
};
use corniche_web::{
    indexer::{Indexer, Keep},
    indexer_status::IndexerStatus,
    live::Live,
    node::Node,
};
use std::sync::Arc;

#[tokio::test]
async fn certified_follows_stored_certificates() {
    let long = Chain::new(22, 60);
    let chains = [long.clone(), long.fork(30, 1, 40)];
    let covered = chains.each_ref().map(|chain| chain.certificates.keys().next_back().copied());
    let node = Scripted::for_development(long).await;
    let (database, _directory) = sqlite().await;
    let (mut first, indexer_status) = indexer(&node, &database).await;
    assert_eq!(indexer_status.snapshot().certified, None);
    for (chain, covered) in chains.into_iter().zip(covered) {
        node.take(chain);
        assert_eq!(go_on(&mut first, &indexer_status).await, None);
        assert_eq!(indexer_status.snapshot().certified, covered);
    }
    drop(first);
    let (_second, indexer_status) = indexer(&node, &database).await;
    assert_eq!(indexer_status.snapshot().certified, covered[1], "before the node is asked");
}

#[tokio::test]
async fn validators_are_known_without_node() {
    let node = Scripted::start(Chain::new(25, 5)).await;
    let (database, _directory) = sqlite().await;
    let (mut first, indexer_status) = indexer(&node, &database).await;
    assert_eq!(go_on(&mut first, &indexer_status).await, None);
    let told = indexer_status.snapshot();
    assert!(told.committee.is_some());
    drop(first);
    let indexer_status = Arc::new(IndexerStatus::new("CRN".into()));
    let nobody = Node::new("http://127.0.0.1:9");
    let second = Indexer::new(nobody, &database, Arc::clone(&indexer_status), Live::default(), KEEP).await;
    let now = indexer_status.snapshot();
    assert_eq!((now.chain_id, now.genesis, now.development), (told.chain_id, told.genesis, told.development));
    assert_eq!((now.committee, now.indexed), (told.committee, told.indexed));
    drop(second);
}

#[tokio::test]
async fn certificates_keep_up_with_blocks() {
    let chain = Chain::new(24, 300);
    let covered = chain.certificates.keys().next_back().copied();
    let node = Scripted::start(chain).await;
    let (database, _directory) = sqlite().await;
    let (mut indexer, indexer_status) = indexer(&node, &database).await;
    for _ in 0..2 {
        assert!(indexer.step().await.is_some());
    }
    let now = indexer_status.snapshot();
    assert_eq!((now.indexed.map(|(number, _)| number), now.certified), (Some(299), covered));
}

/// The lanes do not wait for each other, and the error of each is reported.
#[tokio::test]
async fn rounds_and_certificates_are_independent() {
    let chain = Chain::new(28, 40);
    let covered = chain.certificates.keys().next_back().copied();
    for (lost, certified, rounds) in [("corniche_getCertificate", None, 39), ("corniche_getDag", covered, 0)] {
        let node = Scripted::start(chain.clone()).await;
        node.show_dag();
        node.lose(lost);
        let (database, _directory) = sqlite().await;
        let (mut indexer, indexer_status) = indexer_that_keeps(WITH_DAG, &node, &database).await;
        for _ in 0..2 {
            assert!(indexer.step().await.is_some());
        }
        let now = indexer_status.snapshot();
        assert!(now.last_error.as_ref().is_some_and(|waits| waits.contains("it is lost")), "{lost}: {:?}", now.last_error);
        assert_eq!(now.certified, certified, "{lost}");
        assert_eq!(dump::rows(&database, "SELECT round FROM dag_rounds").await.len(), rounds, "{lost}");
        for _ in 0..40 {
            assert!(indexer.step().await.is_some());
        }
        assert_eq!(indexer_status.snapshot().traced, Some(39), "{lost}: nor do calls wait");
    }
}

#[tokio::test]
async fn traced_block_is_reported() {
    let node = Scripted::start(Chain::new(23, 60)).await;
    let (database, _directory) = sqlite().await;
    let (mut first, indexer_status) = indexer(&node, &database).await;
    for _ in 0..2 {
        assert!(first.step().await.is_some());
    }
    let far = |indexer_status: &IndexerStatus| {
        (indexer_status.snapshot().indexed.map(|(number, _)| number), indexer_status.snapshot().traced)
    };
    assert_eq!(far(&indexer_status), (Some(59), Some(0)), "blocks come first");
    assert_eq!(go_on(&mut first, &indexer_status).await, None);
    assert_eq!(far(&indexer_status), (Some(59), Some(59)));
    drop(first);
    let indexer_status = Arc::new(IndexerStatus::new("CRN".into()));
    let keep = Keep { calls: false, ..KEEP };
    let second = Indexer::new(Node::new(&node.url), &database, Arc::clone(&indexer_status), Live::default(), keep).await;
    assert_eq!(go_on(&mut second.unwrap(), &indexer_status).await, None);
    assert_eq!(far(&indexer_status), (Some(59), None), "nobody asks for them");
}
