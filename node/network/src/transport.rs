//! Transports: TCP with noise and yamux, QUIC, and DNS if addresses need it.

use crate::{bounded_close::BoundedClose, error::NetworkError, inbound::LimitedTransport, shared::Shared};
use libp2p::{
    Multiaddr, PeerId, Transport,
    core::{muxing::StreamMuxerBox, transport::Boxed, upgrade::Version},
    dns,
    multiaddr::Protocol,
    noise, quic, tcp, yamux,
};
use std::{sync::Arc, time::Duration};

/// Maximum number of streams per connection: two channels, identify, ping, and the requests in flight.
const STREAMS_LIMIT: usize = 128;

/// Interval of QUIC's keep-alive packets.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(crate) fn build(shared: &Arc<Shared>) -> Result<Boxed<(PeerId, StreamMuxerBox)>, NetworkError> {
    let config = &shared.config;
    let keypair = config.identity.keypair();
    let noise = noise::Config::new(keypair).map_err(|error| NetworkError::Transport(error.to_string()))?;
    let mut yamux = yamux::Config::default();
    yamux.set_max_num_streams(STREAMS_LIMIT);
    let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
        .upgrade(Version::V1Lazy)
        .authenticate(noise)
        .multiplex(yamux)
        // Inbound connections have a shorter timeout, see `Bounded`.
        .timeout(config.timing.dial.max(config.timing.authentication))
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(BoundedClose::new(muxer))));

    let mut quic_config = quic::Config::new(keypair);
    quic_config.handshake_timeout = config.timing.dial.max(config.timing.authentication);
    quic_config.keep_alive_interval = KEEP_ALIVE;
    quic_config.max_idle_timeout = 3 * KEEP_ALIVE.as_millis() as u32;
    quic_config.max_concurrent_stream_limit = STREAMS_LIMIT as u32;
    let quic =
        quic::tokio::Transport::new(quic_config).map(|(peer, muxer), _| (peer, StreamMuxerBox::new(BoundedClose::new(muxer))));

    let both = tcp.or_transport(quic).map(|either, _| either.into_inner());
    let both = LimitedTransport::new(both.boxed(), shared.clone());
    // Reading the system's resolver configuration can fail, so it is read only if needed.
    let is_name = |part| matches!(part, Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_) | Protocol::Dnsaddr(_));
    if !config.bootstrap.iter().any(|target| target.address.iter().any(is_name)) {
        return Ok(both.boxed());
    }
    let named = dns::tokio::Transport::system(both).map_err(|error| NetworkError::Transport(error.to_string()))?;
    Ok(named.boxed())
}

/// True if this crate can dial the address, judging by its protocols.
pub(crate) fn is_usable(address: &Multiaddr) -> bool {
    let relayed = address.iter().any(|part| matches!(part, Protocol::P2pCircuit));
    !relayed && address.iter().any(|part| matches!(part, Protocol::Tcp(_) | Protocol::QuicV1))
}

/// Binds a TCP address for a moment. libp2p shares listening ports between processes, so without this check a
/// second node on the same port would start without an error and take half of the first one's connections.
pub(crate) fn probe(address: &Multiaddr) -> Result<(), NetworkError> {
    let mut parts = address.iter();
    let ip = match parts.next() {
        Some(Protocol::Ip4(ip)) => std::net::IpAddr::V4(ip),
        Some(Protocol::Ip6(ip)) => std::net::IpAddr::V6(ip),
        _ => return Ok(()),
    };
    match parts.next() {
        Some(Protocol::Tcp(port)) if port != 0 => {
            let bound = std::net::TcpListener::bind((ip, port));
            bound.map(drop).map_err(|error| NetworkError::Listen { address: address.clone(), reason: error.to_string() })
        }
        _ => Ok(()),
    }
}
