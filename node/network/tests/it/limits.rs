//! Limits on connections, and rate limits of guests.

use crate::support::{Node, dialling, eventually, tcp};
use corniche_network::Channel;

#[tokio::test]
async fn guests_share_their_slots_and_validators_have_their_own() {
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

#[tokio::test]
async fn a_guest_that_sends_too_fast_is_slowed_down_and_loses_nothing() {
    let mut strict = tcp(1);
    strict.limits.frames_per_second = 200;
    let mut node = Node::start(strict).await;
    let mut guest = Node::start(dialling(tcp(100), &[&node])).await;
    let mut validator = Node::start(dialling(tcp(2), &[&node])).await;
    guest.up(node.key).await;
    validator.up(node.key).await;
    for number in 0..300u32 {
        guest.send(node.key, Channel::Votes, number.to_le_bytes().to_vec());
    }
    for number in 0..300u32 {
        assert_eq!(node.message(guest.key, Channel::Votes).await, number.to_le_bytes());
    }
    let throttled = node.handle.stats().general.throttled;
    assert!(throttled > 0);
    // A validator has no such limit.
    for number in 0..300u32 {
        validator.send(node.key, Channel::Votes, number.to_le_bytes().to_vec());
    }
    for number in 0..300u32 {
        assert_eq!(node.message(validator.key, Channel::Votes).await, number.to_le_bytes());
    }
    assert_eq!(node.handle.stats().general.throttled, throttled);
}
