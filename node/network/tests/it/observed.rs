//! Information about peers: version and round-trip time.

use crate::{
    adversary::{AGENT_VERSION, Adversary, hello},
    support::{Node, chooser_and_other, config, dialling, eventually, pair, tcp},
};
use corniche_network::{PeerInfo, PeerKey, Transport};
use std::time::SystemTime;

/// Information of `node` about a connected peer, once it is complete.
async fn known(node: &Node, peer: PeerKey) -> PeerInfo {
    let of_peer = || node.handle.peer_infos().into_iter().find(|info| info.peer.id == peer);
    let complete = |info: &PeerInfo| info.agent_version.is_some() && info.round_trip.is_some();
    eventually("the peer introduced itself and answered a ping", || of_peer().as_ref().is_some_and(complete)).await;
    of_peer().expect("it is still up")
}

#[tokio::test]
async fn version_and_round_trip_are_observed() {
    for transport in [Transport::Tcp, Transport::Quic] {
        let began = SystemTime::now();
        let (first, second) = pair(config(1, transport), config(2, transport)).await;
        for (node, other) in [(&first, &second), (&second, &first)] {
            let info = known(node, other.key).await;
            assert_eq!(info.agent_version.as_deref(), Some(corniche_network::AGENT_VERSION));
            assert_eq!(info.peer, node.handle.peers()[0]);
            assert!(info.round_trip.is_some_and(|time| !time.is_zero()), "{info:?}");
            assert!((began..=SystemTime::now()).contains(&info.connected), "{info:?}");
        }
    }
}

#[tokio::test]
async fn disconnected_peer_is_forgotten() {
    let (mut first, second) = pair(tcp(1), tcp(2)).await;
    let gone = second.key;
    let before = known(&first, gone).await;
    second.handle.shutdown().await;
    first.down(gone).await;
    assert_eq!(first.handle.peer_infos(), []);
    let _again = Node::start(dialling(tcp(2), &[&first])).await;
    first.up(gone).await;
    assert_ne!(known(&first, gone).await.connected, before.connected);
}

#[tokio::test]
async fn hostile_version_is_sanitised() {
    let (chooser, other) = chooser_and_other();
    let mut node = Node::start(tcp(chooser)).await;
    let mut adversary = Adversary::connect(other, &node).await;
    let _votes = adversary.answer(&hello(1, false)).await;
    let _bulk = adversary.chosen().await;
    node.up(adversary.key).await;
    let version = known(&node, adversary.key).await.agent_version.expect("known");
    assert!(AGENT_VERSION.len() > 2_000, "a test of a long one");
    assert_eq!(version, format!("<script>[31m{}", "x".repeat(52)));
}
