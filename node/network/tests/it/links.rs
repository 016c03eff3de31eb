//! One link per peer, for any sequence of connections.

use crate::{
    adversary::{Adversary, ended, hello},
    support::{Node, chooser_and_other, config, dialling, eventually, free_port, key, pair, tcp, within},
};
use corniche_network::{Channel, NetworkConfig, PeerAddress, Transport};
use futures::future::{join, join_all};

fn fixed(number: u8, port: u16) -> NetworkConfig {
    let mut config = tcp(number);
    config.listen = vec![format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap()];
    config
}

fn address(number: u8, port: u16) -> PeerAddress {
    PeerAddress { key: key(number), address: format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap() }
}

/// Sends a message in each direction on both channels.
async fn talk(first: &mut Node, second: &mut Node) {
    for channel in Channel::ALL {
        first.send(second.key, channel, b"ping".to_vec());
        assert_eq!(second.message(first.key, channel).await, b"ping".as_slice());
        second.send(first.key, channel, b"pong".to_vec());
        assert_eq!(first.message(second.key, channel).await, b"pong".as_slice());
    }
}

#[tokio::test]
async fn simultaneous_dials_make_one_link() {
    for _ in 0..20 {
        let ports = [free_port(), free_port()];
        let mut configs = [fixed(1, ports[0]), fixed(2, ports[1])];
        for config in &mut configs {
            config.bootstrap = vec![address(1, ports[0]), address(2, ports[1])];
        }
        let [first, second] = configs;
        let (mut first, mut second) = join(Node::start(first), Node::start(second)).await;
        let (first_key, second_key) = (first.key, second.key);
        join(first.up(second_key), second.up(first_key)).await;
        talk(&mut first, &mut second).await;
        assert_eq!((first.ups_and_downs(), second.ups_and_downs()), ((1, 0), (1, 0)));
    }
}

#[tokio::test]
async fn five_nodes_form_mesh() {
    let ports: Vec<_> = (0..5).map(|_| free_port()).collect();
    let bootstrap: Vec<_> = ports.iter().zip(1..).map(|(port, number)| address(number, *port)).collect();
    let start = |(port, number): (&u16, u8)| {
        let config = NetworkConfig { bootstrap: bootstrap.clone(), ..fixed(number, *port) };
        Node::start(config)
    };
    let mut nodes = join_all(ports.iter().zip(1..).map(start)).await;
    let keys: Vec<_> = nodes.iter().map(|node| node.key).collect();
    for node in &mut nodes {
        let own = node.key;
        for other in keys.iter().filter(|other| **other != own) {
            node.up(*other).await;
        }
    }
    for node in &nodes {
        assert_eq!(node.ups_and_downs(), (4, 0));
        assert_eq!(node.handle.broadcast(keys.clone(), Channel::Bulk, vec![1].into()), 4);
    }
    for node in &mut nodes {
        let own = node.key;
        for other in keys.iter().filter(|other| **other != own) {
            node.message(*other, Channel::Bulk).await;
        }
    }
}

#[tokio::test]
async fn restarted_peer_is_found_again() {
    // Only one of them dials. In one case the restarted node is dialled, in the other it dials.
    for restarted in [1, 2] {
        let ports = [free_port(), free_port()];
        let dialler = NetworkConfig { bootstrap: vec![address(1, ports[0])], ..fixed(2, ports[1]) };
        let configs = [fixed(1, ports[0]), dialler];
        let [first, second] = configs.clone();
        let (mut staying, mut leaving) = match restarted {
            1 => (Node::start(second).await, Node::start(first).await),
            _ => (Node::start(first).await, Node::start(second).await),
        };
        for _ in 0..3 {
            staying.up(leaving.key).await;
            leaving.up(staying.key).await;
            talk(&mut staying, &mut leaving).await;
            leaving.handle.shutdown().await;
            staying.down(leaving.key).await;
            leaving.drain().await;
            leaving = Node::start(configs[restarted - 1].clone()).await;
        }
        staying.up(leaving.key).await;
        leaving.up(staying.key).await;
        talk(&mut staying, &mut leaving).await;
    }
}

#[tokio::test]
async fn learned_address_is_dialled() {
    // Node 1 has no bootstrap addresses. Node 2 announces its address, and restarts without bootstrap
    // addresses too. So only the address stored by node 1 can connect them.
    let port = free_port();
    let mut first = Node::start(tcp(1)).await;
    let mut second = Node::start(dialling(fixed(2, port), &[&first])).await;
    first.up(second.key).await;
    second.up(first.key).await;
    talk(&mut first, &mut second).await;
    // Identification is a separate exchange: it is known to be done once node 1 dials the restarted node.
    let forgetful = async {
        loop {
            second.handle.shutdown().await;
            first.down(second.key).await;
            second = Node::start(fixed(2, port)).await;
            let dialled = async {
                first.up(second.key).await;
            };
            if tokio::time::timeout(std::time::Duration::from_secs(5), dialled).await.is_ok() {
                return;
            }
            second.handle.shutdown().await;
            second = Node::start(dialling(fixed(2, port), &[&first])).await;
            first.up(second.key).await;
        }
    };
    within("the address is remembered", forgetful).await;
}

#[tokio::test]
async fn fallback_transport_is_used() {
    for (offered, preferred) in [(Transport::Quic, Transport::Tcp), (Transport::Tcp, Transport::Quic)] {
        let mut first = Node::start(config(1, offered)).await;
        let mut dialler = dialling(config(2, preferred), &[&first]);
        let unused = match preferred {
            Transport::Tcp => format!("/ip4/127.0.0.1/tcp/{}", free_port()),
            Transport::Quic => format!("/ip4/127.0.0.1/udp/{}/quic-v1", free_port()),
        };
        dialler.timing.handshake = std::time::Duration::from_millis(500);
        dialler.bootstrap.push(PeerAddress { key: first.key, address: unused.parse().unwrap() });
        let second = Node::start(dialler).await;
        first.up(second.key).await;
    }
}

#[tokio::test]
async fn duplicate_connection_is_closed() {
    let (chooser, other) = chooser_and_other();
    let mut node = Node::start(tcp(chooser)).await;
    let mut old = Adversary::connect(other, &node).await;
    let mut votes = old.answer(&hello(1, false)).await;
    let _bulk = old.chosen().await;
    node.up(old.key).await;

    let mut same = Adversary::connect(other, &node).await;
    let mut duplicate = same.answer(&hello(1, true)).await;
    ended(&mut duplicate).await;
    assert_eq!(node.handle.stats().general.connections_duplicate, 1);
    assert_eq!(node.ups_and_downs(), (1, 0));

    let mut restarted = Adversary::connect(other, &node).await;
    let _votes = restarted.answer(&hello(2, false)).await;
    let _bulk = restarted.chosen().await;
    node.down(old.key).await;
    node.up(restarted.key).await;
    ended(&mut votes).await;
    assert_eq!(node.ups_and_downs(), (2, 1));
}

#[tokio::test]
async fn chooser_may_replace_link() {
    let (chooser, other) = chooser_and_other();
    let mut node = Node::start(tcp(other)).await;
    let mut first = Adversary::connect(chooser, &node).await;
    let (mut votes, _bulk) = first.link().await;
    node.up(first.key).await;
    let mut second = Adversary::connect(chooser, &node).await;
    let (_votes, _bulk) = second.link().await;
    node.down(first.key).await;
    node.up(second.key).await;
    ended(&mut votes).await;
}

#[tokio::test]
async fn shutdown_frees_port() {
    let (mut first, second) = pair(tcp(1), tcp(2)).await;
    let port: u16 = second.address().split('/').nth(4).unwrap().parse().unwrap();
    second.handle.shutdown().await;
    first.down(second.key).await;
    assert_eq!(second.handle.peers(), []);
    assert_eq!(second.drain().await.len(), 1, "PeerUp was not asked for; PeerDown is asserted by the drain");
    std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
}

#[tokio::test]
async fn port_in_use_is_reported() {
    let node = Node::start(tcp(1)).await;
    let port: u16 = node.address().split('/').nth(4).unwrap().parse().unwrap();
    let error = corniche_network::Network::start(fixed(2, port)).await.expect_err("the port is taken");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[tokio::test]
async fn dropped_network_ends() {
    let (first, mut second) = pair(tcp(1), tcp(2)).await;
    let gone = first.key;
    drop(first);
    second.down(gone).await;
    eventually("the peer is gone", || second.handle.peers().is_empty()).await;
}
