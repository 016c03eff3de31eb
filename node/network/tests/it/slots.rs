//! Attacks on connection slots: by connections that prove no key, and with free keys.

use crate::{
    adversary::{Adversary, socket_from},
    support::{Node, dialling, free_port, key, tcp, within},
};
use corniche_network::NetworkConfig;
use std::time::Duration;
use tokio::{io::AsyncReadExt, net::TcpStream};

/// Longer than any test, so that no timeout can end a connection.
const NEVER: Duration = Duration::from_secs(3600);

/// Node with few slots and no expiry by age.
fn narrow() -> NetworkConfig {
    let mut config = tcp(1);
    config.limits.pending_inbound = 8;
    config.limits.pending_per_address = 2;
    config.limits.guests = 4;
    config.limits.guests_per_address = 2;
    config.timing.authentication = NEVER;
    config.timing.handshake = NEVER;
    config.timing.pending_grace = NEVER;
    config.timing.guest_idle = NEVER;
    config
}

/// Connection from 127.0.0.`from` that never sends anything.
async fn silent(from: u8, node: &Node) -> TcpStream {
    socket_from(from, node.port()).await
}

/// Opens silent connections from these addresses, round robin, until the node has refused `refusals`.
async fn fill(node: &Node, addresses: impl IntoIterator<Item = u8> + Clone, refusals: u64) -> Vec<TcpStream> {
    let mut held = Vec::new();
    let before = node.handle.stats().general.connections_refused;
    for from in addresses.into_iter().collect::<Vec<_>>().into_iter().cycle() {
        if node.handle.stats().general.connections_refused >= before + refusals {
            break;
        }
        held.push(silent(from, node).await);
        assert!(held.len() < 10_000, "nothing is refused");
        tokio::task::yield_now().await;
    }
    held
}

async fn hears_the_end(mut socket: TcpStream) {
    let _ = within("the node hangs up", socket.read_to_end(&mut Vec::new())).await;
}

#[tokio::test]
async fn silent_connections_of_one_address() {
    let mut node = Node::start(narrow()).await;
    let _held = fill(&node, [2], 20).await;
    let guest = Node::start(dialling(tcp(100), &[&node])).await;
    node.up(guest.key).await;
}

#[tokio::test]
async fn silent_connections_spare_validators() {
    let mut config = narrow();
    // The address of this validator is configured, although nothing listens there any more.
    config.bootstrap.push(format!("/ip4/127.0.0.1/tcp/{}/p2p/{}", free_port(), key(2)).parse().unwrap());
    let mut node = Node::start(config).await;
    let _held = fill(&node, 2..=9, 20).await;
    let validator = Node::start(dialling(tcp(2), &[&node])).await;
    node.up(validator.key).await;
}

#[tokio::test]
async fn validator_origin_is_remembered() {
    let mut node = Node::start(narrow()).await;
    let validator = Node::start(dialling(tcp(2), &[&node])).await;
    node.up(validator.key).await;
    validator.handle.shutdown().await;
    node.down(validator.key).await;
    let _held = fill(&node, 2..=9, 20).await;
    let again = Node::start(dialling(tcp(2), &[&node])).await;
    node.up(again.key).await;
}

#[tokio::test]
async fn newcomer_evicts_silent_connection() {
    let mut config = narrow();
    config.timing.pending_grace = Duration::ZERO;
    let mut node = Node::start(config).await;
    let mut held = Vec::new();
    for from in (2..=9).cycle().take(16) {
        held.push(silent(from, &node).await);
    }
    let guest = Node::start(dialling(tcp(100), &[&node])).await;
    node.up(guest.key).await;
    // The oldest one lost its slot to a later one.
    hears_the_end(held.swap_remove(0)).await;
}

#[tokio::test]
async fn authentication_times_out() {
    let mut config = narrow();
    config.timing.authentication = Duration::from_millis(100);
    let node = Node::start(config).await;
    hears_the_end(silent(2, &node).await).await;
}

#[tokio::test]
async fn address_limit_leaves_slots_for_others() {
    let mut node = Node::start(narrow()).await;
    let mut held = Vec::new();
    for number in 50..56 {
        held.push(Adversary::connect_from(2, number, &node).await);
    }
    let guest = Node::start(dialling(tcp(100), &[&node])).await;
    node.up(guest.key).await;
    assert!(node.handle.stats().general.connections_refused >= 4);
}

#[tokio::test]
async fn newcomer_evicts_from_largest_address() {
    let mut config = narrow();
    config.limits.guests_per_address = 4;
    let mut node = Node::start(config).await;
    let mut held = Vec::new();
    for number in 50..54 {
        held.push(Adversary::connect_from(2, number, &node).await);
    }
    let guest = Node::start(dialling(tcp(100), &[&node])).await;
    node.up(guest.key).await;
    assert_eq!(node.handle.stats().general.connections_evicted, 1);
}

#[tokio::test]
async fn newcomer_evicts_idle_guest() {
    let mut config = narrow();
    config.limits.guests = 1;
    config.timing.guest_idle = Duration::ZERO;
    let mut node = Node::start(config).await;
    let _idle = Adversary::connect(50, &node).await;
    let guest = Node::start(dialling(tcp(100), &[&node])).await;
    node.up(guest.key).await;
    assert_eq!(node.handle.stats().general.connections_evicted, 1);
}
