//! What the indexer says of how far it is, which pages show.

use super::{
    chain::Chain,
    node::Scripted,
    resume::{go_on, indexer},
    sqlite,
};
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
