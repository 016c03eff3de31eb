//! Strangers at 32 addresses open more connections to every validator than it has slots for unknown peers, and stay silent.
//! They reopen each connection that ends. Meanwhile a validator restarts and has to connect.
//!
//! Requirement: the validator is back within the limit; honest users are hardly affected.

use super::{Attack, By, SHORT_MESSAGES};
use crate::context::AttackContext;
use futures::future::{join, join_all};
use std::{net::Ipv4Addr, time::Duration};
use tokio::{
    io::AsyncReadExt,
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

/// Per victim. A node has 128 slots for connections during setup.
const CONNECTIONS: usize = 200;
/// Addresses of the strangers, starting at 127.1.0.1; the nodes are at 127.0.0.1.
const ADDRESSES: usize = 32;
/// Delay before a refused connection is opened again.
const PAUSE: Duration = Duration::from_millis(20);
/// By this time the slots are full.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// The validator restarts at once.
const DOWNTIME: Duration = Duration::ZERO;

pub const ATTACK: Attack = Attack {
    name: "connection-slots",
    item: "B6",
    about: "strangers keep silent connections on all slots while a validator restarts",
    by: By::Stranger,
    engine: None,
    signatures: None,
    restart: Some(DOWNTIME),
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    let ports: Vec<u16> = context.honest().into_iter().filter_map(|index| port(context, index)).collect();
    let occupied = join_all((0..CONNECTIONS).flat_map(|number| ports.iter().map(move |port| occupy(context, number, *port))));
    let restarted = async {
        sleep(RESTART_DELAY).await;
        context.restart_victim(DOWNTIME).await
    };
    join(occupied, restarted).await.1
}

async fn occupy(context: &AttackContext, number: usize, port: u16) {
    while context.budget.take() {
        if let Ok(mut stream) = connect(number, port).await {
            let mut silence = [0; 64];
            let ended = async { while matches!(stream.read(&mut silence).await, Ok(1..)) {} };
            let left = context.budget.until().saturating_duration_since(std::time::Instant::now());
            let _ = timeout(left, ended).await;
        }
        sleep(PAUSE).await;
    }
}

async fn connect(number: usize, port: u16) -> std::io::Result<TcpStream> {
    let last = u8::try_from(number % ADDRESSES + 1).unwrap_or(u8::MAX);
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 1, 0, last), 0).into())?;
    socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
}

/// The TCP port in an address such as `/ip4/127.0.0.1/tcp/9000`.
fn port(context: &AttackContext, index: usize) -> Option<u16> {
    context.address(index).address.to_string().rsplit('/').next()?.parse().ok()
}
