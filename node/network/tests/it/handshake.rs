//! Handshakes and identities.

use crate::{
    adversary::{Adversary, ended, framed, hello, read_message},
    support::{CHAIN, Node, chooser_and_other, dialling, eventually, identity, key, pair, tcp, within},
};
use corniche_network::{ChainIdentity, Channel, NetworkConfig};
use corniche_types::B256;
use futures::AsyncWriteExt;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

async fn stay_strangers(odd: ChainIdentity, swap: bool) {
    let (mut first, mut second) = (tcp(1), tcp(2));
    if swap { &mut first } else { &mut second }.chain = odd;
    let first = Node::start(first).await;
    let second = Node::start(dialling(second, &[&first])).await;
    // Twice: the second attempt is after a pause, and is not logged again.
    for node in [&first, &second] {
        eventually("both see the difference", || node.handle.stats().general.handshakes_refused >= 2).await;
        assert_eq!(node.handle.peers(), []);
        assert_eq!(node.handle.stats().general.faults, 0, "another network is no fault");
    }
    assert!(first.drain().await.is_empty());
    assert!(second.drain().await.is_empty());
}

#[tokio::test]
async fn other_chain_is_refused() {
    for swap in [false, true] {
        stay_strangers(ChainIdentity { chain_id: 78, ..CHAIN }, swap).await;
    }
}

#[tokio::test]
async fn other_genesis_is_refused() {
    for swap in [false, true] {
        stay_strangers(ChainIdentity { genesis_hash: B256::ZERO, ..CHAIN }, swap).await;
    }
}

#[tokio::test]
async fn validators_are_recognised_by_key() {
    let mut first = Node::start(tcp(1)).await;
    let second = Node::start(dialling(tcp(2), &[&first])).await;
    let guest = Node::start(dialling(tcp(200), &[&first])).await;
    assert!(first.up(second.key).await.is_validator);
    assert!(!first.up(guest.key).await.is_validator);
    guest.send(first.key, Channel::Votes, b"hello".to_vec());
    assert_eq!(first.message(guest.key, Channel::Votes).await, b"hello".as_slice());
    assert_eq!(first.handle.peers().len(), 2);
}

#[tokio::test]
async fn config_from_genesis() {
    // The minimal configuration of a node.
    let config = NetworkConfig::new(identity(1), CHAIN, vec![key(1), key(2)]);
    assert!(config.listen.is_empty() && config.bootstrap.is_empty());
    let (mut first, mut second) = pair(tcp(1), tcp(2)).await;
    second.send(first.key, Channel::Votes, b"ready".to_vec());
    assert_eq!(first.message(second.key, Channel::Votes).await, b"ready".as_slice());
    first.handle.shutdown().await;
    second.down(first.key).await;
}

#[tokio::test]
async fn handshake_makes_link() {
    let (chooser, other) = chooser_and_other();
    let mut node = Node::start(tcp(other)).await;
    let mut adversary = Adversary::connect(chooser, &node).await;
    let (mut votes, _bulk) = adversary.link().await;
    node.up(adversary.key).await;
    votes.write_all(&framed(b"one")).await.unwrap();
    votes.flush().await.unwrap();
    assert_eq!(node.message(adversary.key, Channel::Votes).await, b"one".as_slice());
    node.send(adversary.key, Channel::Votes, b"two".to_vec());
    assert_eq!(read_message(&mut votes).await.unwrap(), b"two");
}

#[tokio::test]
async fn garbage_hello_is_a_fault() {
    let (chooser, other) = chooser_and_other();
    let mut wrong_version = hello(1, false);
    wrong_version[0] = 9;
    let mut too_long = hello(1, false);
    too_long.push(0);
    for garbage in [&[][..], &[0xff; 100], &wrong_version, &too_long, &vec![0; 5000]] {
        let node = Node::start(tcp(other)).await;
        let mut adversary = Adversary::connect(chooser, &node).await;
        adversary.greet(garbage).await.expect_err("the node hangs up");
        eventually("the fault is counted", || node.handle.stats().general.faults == 1).await;
        assert!(node.drain().await.is_empty());
    }
}

#[tokio::test]
async fn streams_out_of_order_are_a_fault() {
    let (chooser, other) = chooser_and_other();
    let node = Node::start(tcp(other)).await;
    let mut adversary = Adversary::connect(chooser, &node).await;
    // The node may close the connection before the stream is open on our side.
    if let Ok(mut bulk) = adversary.open("/corniche/bulk/1").await {
        ended(&mut bulk).await;
    }
    eventually("the fault is counted", || node.handle.stats().general.faults == 1).await;
}

#[tokio::test]
async fn silent_peer_is_disconnected() {
    let (chooser, other) = chooser_and_other();
    let mut impatient = tcp(other);
    impatient.timing.handshake = std::time::Duration::from_millis(200);
    let node = Node::start(impatient).await;
    let mut adversary = Adversary::connect(chooser, &node).await;
    let mut votes = adversary.open("/corniche/votes/1").await.unwrap();
    ended(&mut votes).await;
    assert_eq!(node.handle.stats().general.faults, 0, "being slow is no fault");
}

#[tokio::test]
async fn foreign_protocol_is_harmless() {
    let mut node = Node::start(tcp(1)).await;
    let address = node.address();
    let port: u16 = address.split('/').nth(4).unwrap().parse().unwrap();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4096], &[0xff; 4096]] {
        let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        socket.write_all(garbage).await.unwrap();
        let mut rest = Vec::new();
        let _ = within("the node hangs up", socket.read_to_end(&mut rest)).await;
    }
    let other = Node::start(dialling(tcp(2), &[&node])).await;
    node.up(other.key).await;
}

/// A guest becomes a validator and a guest again: each time its link is made anew, and others stay.
#[tokio::test]
async fn validators_can_change() {
    let mut first = Node::start(tcp(1)).await;
    let second = Node::start(dialling(tcp(2), &[&first])).await;
    let guest = Node::start(dialling(tcp(200), &[&first])).await;
    first.up(second.key).await;
    assert!(!first.up(guest.key).await.is_validator);
    for is_validator in [true, false] {
        let all = [first.key, second.key, guest.key];
        let validators = all.into_iter().take(if is_validator { 3 } else { 2 }).map(|key| (key, Vec::new()));
        first.handle.set_validators(validators.collect());
        first.down(guest.key).await;
        assert_eq!(first.up(guest.key).await.is_validator, is_validator);
        guest.send(first.key, Channel::Votes, b"hello".to_vec());
        assert_eq!(first.message(guest.key, Channel::Votes).await, b"hello".as_slice());
    }
    assert!(first.handle.is_up(&second.key));
    // It dials a validator at the published addresses.
    let third = Node::start(tcp(3)).await;
    first.handle.set_validators(vec![(third.key, vec![third.address().parse().unwrap()])]);
    assert!(first.up(third.key).await.is_validator);
}
