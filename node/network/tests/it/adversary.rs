//! Peer whose streams a test fully controls. Built on `libp2p-stream`, so it also checks our streams against
//! an independent implementation.

use crate::support::{CHAIN, Node, identity, within};
use corniche_network::PeerKey;
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::{
    Multiaddr, PeerId, Stream, StreamProtocol, Swarm, core::upgrade::Version, identify, noise, ping, swarm, tcp, yamux,
};
use libp2p::{Transport as _, swarm::NetworkBehaviour};
use libp2p_stream::{Control, IncomingStreams};
use std::{net::SocketAddr, sync::LazyLock};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Agent version with tags, an escape sequence, a direction override, and too many characters.
pub static AGENT_VERSION: LazyLock<String> = LazyLock::new(|| format!("\u{202e}<script>\u{1b}[31m\r\n{}", "x".repeat(3_000)));

#[derive(NetworkBehaviour)]
struct Behaviour {
    streams: libp2p_stream::Behaviour,
    ping: ping::Behaviour,
    identify: identify::Behaviour,
}

pub struct Adversary {
    pub key: PeerKey,
    control: Control,
    /// Votes streams opened by the node.
    votes: IncomingStreams,
    bulk: IncomingStreams,
    victim: PeerId,
    /// Runs the swarm; dropping it cuts all connections.
    _swarm: tokio::task::JoinSet<()>,
}

/// Encodes a hello by hand: version 1, protocol, chain, genesis, instance, linked.
pub fn hello(instance: u64, linked: bool) -> Vec<u8> {
    let mut hello = vec![1];
    hello.extend(1u32.to_le_bytes());
    hello.extend(CHAIN.chain_id.to_le_bytes());
    hello.extend(CHAIN.genesis_hash);
    hello.extend(instance.to_le_bytes());
    hello.push(linked.into());
    hello
}

pub fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes(), body].concat()
}

impl Adversary {
    /// Connects with the node, and does nothing else yet.
    pub async fn connect(number: u8, node: &Node) -> Self {
        Self::dial(number, node, node.address()).await
    }

    /// Like `connect`, from another loopback address: 127.0.0.`last`.
    pub async fn connect_from(last: u8, number: u8, node: &Node) -> Self {
        let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("/ip4/127.0.0.1/tcp/{}/p2p/{}", relay.local_addr().unwrap().port(), node.key);
        let port = node.port();
        tokio::spawn(async move {
            let (mut here, _) = relay.accept().await.unwrap();
            let mut there = socket_from(last, port).await;
            let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
        });
        Self::dial(number, node, address).await
    }

    async fn dial(number: u8, node: &Node, address: String) -> Self {
        let key = identity(number).key();
        let keypair = libp2p::identity::Keypair::ed25519_from_bytes([number; 32]).unwrap();
        let transport = tcp::tokio::Transport::default()
            .upgrade(Version::V1)
            .authenticate(noise::Config::new(&keypair).unwrap())
            .multiplex(yamux::Config::default())
            .boxed();
        let streams = libp2p_stream::Behaviour::new();
        let mut control = streams.new_control();
        let votes = control.accept(StreamProtocol::new("/corniche/votes/1")).unwrap();
        let bulk = control.accept(StreamProtocol::new("/corniche/bulk/1")).unwrap();
        let identify = identify::Config::new("/adversary/1".into(), keypair.public()).with_agent_version(AGENT_VERSION.clone());
        let identify = identify::Behaviour::new(identify);
        let behaviour = Behaviour { streams, ping: ping::Behaviour::default(), identify };
        let config = swarm::Config::with_tokio_executor().with_idle_connection_timeout(crate::support::DEADLINE);
        let mut swarm = Swarm::new(transport, behaviour, keypair.public().to_peer_id(), config);
        swarm.dial(address.parse::<Multiaddr>().unwrap()).unwrap();
        within("the adversary connects", async {
            while !matches!(swarm.next().await, Some(swarm::SwarmEvent::ConnectionEstablished { .. })) {}
        })
        .await;
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { while swarm.next().await.is_some() {} });
        Self { key, control, votes, bulk, victim: node.key.to_peer_id(), _swarm: tasks }
    }

    pub async fn open(&mut self, protocol: &'static str) -> Result<Stream, libp2p_stream::OpenStreamError> {
        within("a stream opens", self.control.open_stream(self.victim, StreamProtocol::new(protocol))).await
    }

    /// As the chooser: opens votes, sends `first`, receives the node's hello.
    pub async fn greet(&mut self, first: &[u8]) -> std::io::Result<(Stream, Vec<u8>)> {
        let mut votes = self.open("/corniche/votes/1").await.unwrap();
        votes.write_all(&framed(first)).await?;
        votes.flush().await?;
        let theirs = read_message(&mut votes).await?;
        Ok((votes, theirs))
    }

    /// As the chooser: performs the whole handshake correctly.
    pub async fn link(&mut self) -> (Stream, Stream) {
        let (votes, _) = self.greet(&hello(1, false)).await.unwrap();
        (votes, self.open("/corniche/bulk/1").await.unwrap())
    }

    /// As the other side: answers the node's hello.
    pub async fn answer(&mut self, hello: &[u8]) -> Stream {
        let (_, mut votes) = within("the node greets", self.votes.next()).await.unwrap();
        read_message(&mut votes).await.unwrap();
        votes.write_all(&framed(hello)).await.unwrap();
        votes.flush().await.unwrap();
        votes
    }

    /// As the other side: waits for the node's second stream.
    pub async fn chosen(&mut self) -> Stream {
        within("the node chooses", self.bulk.next()).await.unwrap().1
    }
}

/// Plain connection from 127.0.0.`last` to a port of 127.0.0.1.
pub async fn socket_from(last: u8, port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    within("a socket connects", socket.connect(SocketAddr::from(([127, 0, 0, 1], port)))).await.unwrap()
}

pub async fn read_message(stream: &mut Stream) -> std::io::Result<Vec<u8>> {
    let reading = async {
        let mut header = [0; 4];
        stream.read_exact(&mut header).await?;
        let mut body = vec![0; u32::from_le_bytes(header) as usize];
        stream.read_exact(&mut body).await?;
        Ok(body)
    };
    within("a message arrives", reading).await
}

/// Waits until the stream ends, with or without an error.
pub async fn ended(stream: &mut Stream) {
    let mut buffer = [0; 1024];
    within("the stream ends", async { while matches!(stream.read(&mut buffer).await, Ok(1..)) {} }).await;
}
