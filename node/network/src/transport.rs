//! The sockets: TCP with noise and yamux, QUIC, names resolved where addresses have any.

use crate::{NetworkConfig, NetworkError};
use libp2p::{
    PeerId, Transport,
    core::{muxing::StreamMuxerBox, transport::Boxed, upgrade::Version},
    dns,
    multiaddr::Protocol,
    noise, quic, tcp, yamux,
};
use std::time::Duration;

/// Streams per connection: two channels, identify, ping, and the requests in flight.
const STREAMS_LIMIT: usize = 128;

/// Of QUIC: packets that only say "still here" are this far apart.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(crate) fn build(config: &NetworkConfig) -> Result<Boxed<(PeerId, StreamMuxerBox)>, NetworkError> {
    let keypair = config.identity.keypair();
    let noise = noise::Config::new(keypair).map_err(|error| NetworkError::Transport(error.to_string()))?;
    let mut yamux = yamux::Config::default();
    yamux.set_max_num_streams(STREAMS_LIMIT);
    let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
        .upgrade(Version::V1Lazy)
        .authenticate(noise)
        .multiplex(yamux)
        .timeout(config.timing.handshake)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));

    let mut quic_config = quic::Config::new(keypair);
    quic_config.handshake_timeout = config.timing.handshake;
    quic_config.keep_alive_interval = KEEP_ALIVE;
    quic_config.max_idle_timeout = 3 * KEEP_ALIVE.as_millis() as u32;
    quic_config.max_concurrent_stream_limit = STREAMS_LIMIT as u32;
    let quic = quic::tokio::Transport::new(quic_config).map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));

    let both = tcp.or_transport(quic).map(|either, _| either.into_inner());
    // Reading the system's resolver configuration can fail, so it is read only where it is needed.
    let is_name = |part| matches!(part, Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_) | Protocol::Dnsaddr(_));
    if !config.bootstrap.iter().any(|target| target.address.iter().any(is_name)) {
        return Ok(both.boxed());
    }
    let named = dns::tokio::Transport::system(both).map_err(|error| NetworkError::Transport(error.to_string()))?;
    Ok(named.boxed())
}
