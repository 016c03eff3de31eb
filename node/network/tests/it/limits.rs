//! Limits on connections, and rate limits of guests.

use crate::support::{Node, dialling, eventually, tcp, within};
use corniche_network::Channel;

#[tokio::test]
async fn guest_slots_and_validator_slots() {
    let mut narrow = tcp(1);
    narrow.limits.guests = 1;
    let mut node = Node::start(narrow).await;
    let guest = Node::start(dialling(tcp(100), &[&node])).await;
    node.up(guest.key).await;
    let late = Node::start(dialling(tcp(101), &[&node])).await;
    eventually("the second guest is refused", || node.handle.stats().general.connections_refused > 0).await;
    let validators = [Node::start(dialling(tcp(2), &[&node])).await, Node::start(dialling(tcp(3), &[&node])).await];
    for validator in &validators {
        node.up(validator.key).await;
    }
    assert!(!node.handle.is_up(&late.key));
    // The slot is free again when the first guest disconnects.
    guest.handle.shutdown().await;
    node.down(guest.key).await;
    node.up(late.key).await;
}

/// All messages come, in order, and at least one of them waited for the rate limit.
async fn slowed_down_without_loss(from: u8) {
    let mut strict = tcp(1);
    strict.limits.guest_rate.frames_per_second = 200;
    strict.limits.validator_rate.frames_per_second = 200;
    let mut node = Node::start(strict).await;
    let mut sender = Node::start(dialling(tcp(from), &[&node])).await;
    sender.up(node.key).await;
    for number in 0..300u32 {
        sender.send(node.key, Channel::Votes, number.to_le_bytes().to_vec());
    }
    for number in 0..300u32 {
        assert_eq!(node.message(sender.key, Channel::Votes).await, number.to_le_bytes());
    }
    assert!(node.handle.stats().general.throttled > 0);
}

#[tokio::test]
async fn fast_guest_is_throttled() {
    slowed_down_without_loss(100).await;
}

#[tokio::test]
async fn fast_validator_is_throttled() {
    slowed_down_without_loss(2).await;
}

/// A flood that is not read costs nothing, and exchange with other validators continues.
#[tokio::test]
async fn validator_flood_stays_in_its_stream() {
    const FLOOD: usize = 5_000;
    let mut strict = tcp(1);
    strict.limits.validator_rate.frames_per_second = 1;
    let mut node = Node::start(strict).await;
    let mut flooder = Node::start(dialling(tcp(2), &[&node])).await;
    let mut other = Node::start(dialling(tcp(3), &[&node])).await;
    flooder.up(node.key).await;
    node.up(other.key).await;
    other.up(node.key).await;
    for _ in 0..FLOOD {
        flooder.send(node.key, Channel::Votes, vec![7; 100]);
    }
    node.message(flooder.key, Channel::Votes).await;
    for _ in 0..100 {
        let asking = node.handle.request(other.key, vec![1].into());
        let answering = async {
            let (_, bytes, reply) = other.request().await;
            reply.send(bytes);
        };
        within("an answer", futures::future::join(asking, answering)).await.0.unwrap();
    }
    let read = node.handle.stats().votes.frames_received;
    assert!(read < FLOOD as u64 / 10, "{read} messages were read");
}
