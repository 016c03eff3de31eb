//! Messages: order, queues, limits.

use crate::{
    adversary::{Adversary, ended},
    support::{Node, chooser_and_other, config, eventually, key, pair, tcp, within},
};
use corniche_network::{Channel, Event, Sent, Transport};
use futures::{AsyncWriteExt, future::join};
use std::time::Duration;

/// Message with this number and padding of varying size, sometimes larger than a single write.
fn message(number: u32) -> Vec<u8> {
    let padding = match number % 500 {
        0 => 300_000,
        short => short as usize,
    };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(4 + padding, number as u8);
    bytes
}

const MESSAGES: u32 = 2000;

async fn expect_all(node: &mut Node, from: corniche_network::PeerKey) {
    let mut next = [0u32; 2];
    while next != [MESSAGES; 2] {
        let take = |event| match event {
            Event::Message { channel, bytes, .. } => Ok((channel, bytes)),
            event => Err(event),
        };
        let (channel, bytes) = node.expect("all messages arrive", take).await;
        let number = &mut next[if channel == Channel::Votes { 0 } else { 1 }];
        assert_eq!(bytes, message(*number), "{from} {channel:?} {number}");
        *number += 1;
    }
}

async fn order_is_kept(transport: Transport) {
    let (mut first, mut second) = pair(config(1, transport), config(2, transport)).await;
    for number in 0..MESSAGES {
        for channel in Channel::ALL {
            first.send(second.key, channel, message(number));
            second.send(first.key, channel, message(number));
        }
    }
    let (first_key, second_key) = (first.key, second.key);
    join(expect_all(&mut first, second_key), expect_all(&mut second, first_key)).await;
    let (sent, received) = (first.handle.stats(), second.handle.stats());
    for channel in Channel::ALL {
        assert_eq!(sent.channel(channel).frames_sent, u64::from(MESSAGES));
        assert_eq!(received.channel(channel).frames_received, u64::from(MESSAGES));
        assert_eq!(sent.channel(channel).bytes_sent, received.channel(channel).bytes_received);
        assert_eq!(sent.channel(channel).frames_dropped, 0);
    }
}

#[tokio::test]
async fn channels_keep_order_over_tcp() {
    order_is_kept(Transport::Tcp).await;
}

#[tokio::test]
async fn channels_keep_order_over_quic() {
    order_is_kept(Transport::Quic).await;
}

#[tokio::test]
async fn oversized_message_is_not_sent() {
    let (first, mut second) = pair(tcp(1), tcp(2)).await;
    let limit = tcp(1).limits.votes.frame_bytes;
    assert_eq!(first.handle.send(second.key, Channel::Votes, vec![0; limit + 1].into()), Sent::Oversized);
    first.send(second.key, Channel::Votes, vec![7; limit]);
    assert_eq!(second.message(first.key, Channel::Votes).await.len(), limit);
    assert_eq!(first.handle.send(key(3), Channel::Votes, vec![0].into()), Sent::NotConnected);
    assert_eq!(first.handle.send(first.key, Channel::Votes, vec![0].into()), Sent::NotConnected);
}

#[tokio::test]
async fn oversized_header_ends_link() {
    let (chooser, other) = chooser_and_other();
    for channel in Channel::ALL {
        let mut node = Node::start(tcp(other)).await;
        let mut adversary = Adversary::connect(chooser, &node).await;
        let (mut votes, mut bulk) = adversary.link().await;
        node.up(adversary.key).await;
        let stream = if channel == Channel::Votes { &mut votes } else { &mut bulk };
        let limit = tcp(1).limits.channel(channel).frame_bytes as u32;
        stream.write_all(&(limit + 1).to_le_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        node.down(adversary.key).await;
        ended(stream).await;
        assert_eq!(node.handle.stats().general.faults, 1);
        assert_eq!(node.handle.stats().channel(channel).frames_received, 0);
    }
}

#[tokio::test]
async fn guest_has_smaller_frame_limit() {
    let (mut first, guest) = pair(tcp(1), tcp(100)).await;
    let limit = tcp(1).limits.guest_frame_bytes;
    assert_eq!(guest.handle.send(first.key, Channel::Bulk, vec![0; limit + 1].into()), Sent::Oversized);
    guest.send(first.key, Channel::Bulk, vec![0; limit]);
    assert_eq!(first.message(guest.key, Channel::Bulk).await.len(), limit);
    // In the other direction the sender is a validator.
    first.send(guest.key, Channel::Bulk, vec![0; limit + 1]);
}

#[tokio::test]
async fn torn_message_is_no_fault() {
    let (chooser, other) = chooser_and_other();
    let mut node = Node::start(tcp(other)).await;
    let mut adversary = Adversary::connect(chooser, &node).await;
    let (mut votes, _bulk) = adversary.link().await;
    node.up(adversary.key).await;
    votes.write_all(&[10, 0, 0, 0, 1, 2, 3]).await.unwrap();
    votes.close().await.unwrap();
    node.down(adversary.key).await;
    assert_eq!(node.handle.stats().general.faults, 0);
}

#[tokio::test]
async fn stalled_message_ends_link() {
    let (chooser, other) = chooser_and_other();
    let mut impatient = tcp(other);
    impatient.timing.stall = Duration::from_millis(200);
    let mut node = Node::start(impatient).await;
    let mut adversary = Adversary::connect(chooser, &node).await;
    let (mut votes, _bulk) = adversary.link().await;
    node.up(adversary.key).await;
    votes.write_all(&[10, 0, 0, 0, 1, 2, 3]).await.unwrap();
    votes.flush().await.unwrap();
    node.down(adversary.key).await;
}

#[tokio::test]
async fn stalled_reader_is_disconnected() {
    let (chooser, other) = chooser_and_other();
    let mut impatient = tcp(other);
    impatient.timing.stall = Duration::from_millis(200);
    let mut node = Node::start(impatient).await;
    let mut adversary = Adversary::connect(chooser, &node).await;
    let (_votes, _bulk) = adversary.link().await;
    node.up(adversary.key).await;
    for _ in 0..30 {
        node.send(adversary.key, Channel::Bulk, vec![0; 1024 * 1024]);
    }
    node.down(adversary.key).await;
}

#[tokio::test]
async fn full_queue_drops_newest() {
    let mut small = tcp(1);
    small.limits.bulk.queue_bytes = 1 << 20;
    let mut slow = tcp(2);
    slow.limits.bulk.inbox_bytes = 1 << 16;
    let (first, mut second) = pair(small, slow).await;
    // The consumer of `second` takes nothing, so first its inbox fills, then the streams' windows, then the
    // queue.
    let mut queued = 0u32;
    let fill = async {
        while first.handle.stats().bulk.frames_dropped == 0 {
            let mut bytes = queued.to_le_bytes().to_vec();
            bytes.resize(10_000, 0);
            match first.handle.send(second.key, Channel::Bulk, bytes.into()) {
                Sent::Queued => queued += 1,
                refused => assert_eq!(refused, Sent::QueueFull),
            }
            tokio::task::yield_now().await;
        }
    };
    within("the queue is full", fill).await;
    assert!(queued >= 100, "a queue of 1 MiB holds 100 messages of 10 kB, {queued} were taken");
    for number in 0..queued {
        let bytes = second.message(first.key, Channel::Bulk).await;
        assert_eq!(bytes[..4], number.to_le_bytes(), "what was accepted arrives, in order and without a gap");
    }
    // The bulk messages did not block the votes channel.
    first.send(second.key, Channel::Votes, b"vote".to_vec());
    assert_eq!(second.message(first.key, Channel::Votes).await, b"vote".as_slice());
}

#[tokio::test]
async fn votes_pass_stuck_bulk() {
    let mut slow = tcp(2);
    slow.limits.bulk.inbox_bytes = 1 << 16;
    let (first, mut second) = pair(tcp(1), slow).await;
    for _ in 0..20 {
        first.send(second.key, Channel::Bulk, vec![0; 1 << 20]);
    }
    eventually("the inbox is full", || second.handle.stats().bulk.frames_received == 1).await;
    first.send(second.key, Channel::Votes, b"vote".to_vec());
    eventually("the vote arrives", || second.handle.stats().votes.frames_received == 1).await;
    assert_eq!(second.handle.stats().bulk.frames_received, 1, "still stuck");
    assert_eq!(second.message(first.key, Channel::Votes).await, b"vote".as_slice());
}

#[tokio::test]
async fn broadcast_reaches_all_peers() {
    let (first, mut second) = pair(tcp(1), tcp(2)).await;
    let to = [second.key, key(3), first.key];
    assert_eq!(first.handle.broadcast(to, Channel::Votes, b"all".to_vec().into()), 1);
    assert_eq!(second.message(first.key, Channel::Votes).await, b"all".as_slice());
}
