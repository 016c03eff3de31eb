//! The indexer at a node that lacks old blocks.

use super::{
    chain::Chain,
    dump,
    model::Model,
    node::Scripted,
    resume::{go_on, indexer},
    sqlite,
};
use corniche_web::indexer_status::Halt;

const BLOCKS: u64 = 150;
const FIRST: u64 = 60;

/// The chain as the node has it: the genesis, and the blocks from the first one on.
fn kept(chain: &Chain) -> Model {
    let blocks: Vec<_> =
        chain.blocks.iter().filter(|made| !(1..FIRST).contains(&made.whole.block.number.to())).cloned().collect();
    Model::of(&blocks, chain.certificates.range(FIRST..).map(|(_, certificate)| certificate))
}

#[tokio::test]
async fn index_begins_with_first_available_block() {
    let chain = Chain::new(31, BLOCKS);
    let node = Scripted::start(chain.clone()).await;
    node.prune_below(FIRST);
    let (database, _directory) = sqlite().await;
    let (mut first, indexer_status) = indexer(&node, &database).await;
    node.lag(BLOCKS - 20);
    assert_eq!(go_on(&mut first, &indexer_status).await, None);
    assert_eq!(indexer_status.snapshot().first, Some(FIRST));
    drop(first);
    // After a restart it continues, also at a node that has all blocks.
    node.prune_below(1);
    node.lag(BLOCKS - 1);
    let (mut second, indexer_status) = indexer(&node, &database).await;
    assert_eq!(indexer_status.snapshot().first, Some(FIRST), "before the node is asked");
    assert_eq!(go_on(&mut second, &indexer_status).await, None);
    let now = indexer_status.snapshot();
    assert_eq!((now.indexed.map(|(number, _)| number), now.traced), (Some(BLOCKS - 1), Some(BLOCKS - 1)));
    assert_eq!(now.certified, chain.certificates.keys().next_back().copied());
    for (query, expected) in kept(&chain).lines().into_iter().filter(|(query, _)| !query.contains("activity")) {
        assert_eq!(dump::rows(&database, query).await, expected, "{query}");
    }
    assert!(dump::rows(&database, "SELECT place FROM calls").await.len() > 20);
    // The node syncs from the genesis: none of its blocks is indexed.
    node.lag(20);
    assert_eq!(go_on(&mut second, &indexer_status).await, None);
}

/// The node has nothing but the snapshot that it began with.
#[tokio::test]
async fn index_waits_for_first_block() {
    let node = Scripted::start(Chain::new(32, BLOCKS)).await;
    node.prune_below(FIRST);
    node.lag(FIRST - 1);
    let (database, _directory) = sqlite().await;
    let (mut indexer, indexer_status) = indexer(&node, &database).await;
    assert_eq!(go_on(&mut indexer, &indexer_status).await, None);
    let now = indexer_status.snapshot();
    assert_eq!((now.first, now.indexed, now.last_error), (Some(FIRST), None, None));
    node.lag(BLOCKS - 1);
    assert_eq!(go_on(&mut indexer, &indexer_status).await, None);
    let numbers = dump::rows(&database, "SELECT number FROM blocks").await;
    assert_eq!(numbers.len() as u64, 1 + BLOCKS - FIRST);
}

/// Sums over a gap would be wrong.
#[tokio::test]
async fn gap_after_indexed_blocks_halts() {
    let node = Scripted::start(Chain::new(33, BLOCKS)).await;
    node.lag(40);
    let (database, _directory) = sqlite().await;
    let (mut indexer, indexer_status) = indexer(&node, &database).await;
    assert_eq!(go_on(&mut indexer, &indexer_status).await, None);
    node.lag(BLOCKS - 1);
    node.prune_below(FIRST);
    let halt = go_on(&mut indexer, &indexer_status).await;
    assert_eq!(halt, Some(Halt::Pruned { next: 41, first: FIRST }));
    assert!(halt.unwrap().to_string().contains("blocks 41 to 59 are not available on this node; it has block 60 and later"));
}
