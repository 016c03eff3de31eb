//! A peer without a validator's key. Identities are free, so an attacker can have any number.

use crate::context::AttackContext;
use corniche_network::{Channel, Event, Events, Network, NetworkConfig, NetworkHandle, NetworkIdentity, PeerKey, Sent};
use corniche_types::Bytes;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout for a link. A victim without free slots accepts none.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a node to take queued messages.
const FLUSH_TIME: Duration = Duration::from_millis(100);

/// `count` strangers for each honest validator: the number of each, and its victim. Numbers leave room for 2^24 successors each.
pub fn for_each_victim(context: &AttackContext, count: u64) -> impl Iterator<Item = (u64, usize)> {
    context
        .honest()
        .into_iter()
        .flat_map(move |victim| (0..count).map(move |lane| (lane << 32 | (victim as u64) << 24, victim)))
}

pub struct Stranger {
    pub network: NetworkHandle,
    pub events: Events,
    pub targets: Vec<PeerKey>,
}

impl Stranger {
    /// Dials these nodes as identity `number` of the run's seed, without waiting for links.
    pub async fn dial(context: &AttackContext, number: u64, targets: &[usize]) -> anyhow::Result<Self> {
        let seed = [b"corniche-hostile/".as_slice(), &context.seed.to_le_bytes(), &number.to_le_bytes()].concat();
        let identity = NetworkIdentity::from_seed(corniche_crypto::digest(&seed).0);
        let mut config = NetworkConfig::from_genesis(identity, context.victims.genesis());
        config.bootstrap = targets.iter().map(|index| context.address(*index)).collect();
        let targets = config.bootstrap.iter().map(|address| address.key).collect();
        let (network, events) = Network::start(config).await?;
        Ok(Self { network, events, targets })
    }

    /// As `dial`, but waits for the first link; `None` after a timeout.
    pub async fn join(context: &AttackContext, number: u64, targets: &[usize]) -> anyhow::Result<Option<Self>> {
        let mut stranger = Self::dial(context, number, targets).await?;
        let up = async {
            while let Some(event) = stranger.events.recv().await {
                if matches!(event, Event::PeerUp(_)) {
                    return true;
                }
            }
            false
        };
        let linked = timeout(LINK_TIMEOUT, up).await.unwrap_or(false);
        Ok(linked.then_some(stranger))
    }

    /// Queues a message for every target. Returns false if no target takes it.
    pub fn send(&self, channel: Channel, bytes: &Bytes) -> bool {
        let sent = self.targets.iter().filter(|target| self.network.send(**target, channel, bytes.clone()) == Sent::Queued);
        sent.count() > 0
    }

    /// Handles events until the victims disconnect or a moment has passed, so that queued messages leave.
    pub async fn flush(&mut self) {
        let down = async { while !matches!(self.events.recv().await, None | Some(Event::PeerDown(_))) {} };
        let _ = timeout(FLUSH_TIME, down).await;
    }

    pub async fn leave(self) {
        self.network.shutdown().await;
    }
}
