//! State shared by the driver, its tasks and the handles.

use crate::{
    Channel, Fault, NetworkConfig, Peer, PeerKey,
    event::EventSender,
    fault::{Scores, Verdict},
    origin::ValidatorOrigins,
    stats::Counters,
    throttle::Throttle,
};
use corniche_origin::Origin;
use libp2p::Multiaddr;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
    time::Instant,
};
use tokio::sync::Semaphore;

/// Largest inbox: shares are counted in 32 bits.
pub(crate) const INBOX_BYTES_LIMIT: usize = 1 << 30;

/// Every lock in here is held for a few instructions, and never across an await. Of two locks, `validators` is taken first.
pub(crate) struct Shared {
    pub config: NetworkConfig,
    pub events: EventSender,
    pub counters: Counters,
    pub listening: Mutex<Vec<Multiaddr>>,
    /// Permits for concurrent responses to all guests (peers outside the committee) together.
    pub guest_answers: Semaphore,
    pub guest_response_meter: Throttle,
    validators: RwLock<BTreeMap<PeerKey, Inboxes>>,
    validator_origins: Mutex<ValidatorOrigins>,
    scores: Mutex<Scores>,
    /// Shared by all guests.
    guest_inboxes: Inboxes,
}

/// Free bytes of a sender's inboxes, by channel.
type Inboxes = [Arc<Semaphore>; 2];

fn inboxes(config: &NetworkConfig) -> Inboxes {
    Channel::ALL.map(|channel| {
        let size = config.limits.channel(channel).inbox_bytes;
        Arc::new(Semaphore::new(size.clamp(1, INBOX_BYTES_LIMIT)))
    })
}

impl Shared {
    pub fn new(config: NetworkConfig, events: EventSender) -> Self {
        let validators: BTreeMap<_, _> = config.validators.iter().map(|key| (*key, inboxes(&config))).collect();
        let configured = config.bootstrap.iter().filter(|target| validators.contains_key(&target.key));
        let validator_origins = ValidatorOrigins::new(configured.map(|target| (target.key, &target.address)));
        Self {
            guest_answers: Semaphore::new(config.limits.guest_answers),
            guest_response_meter: Throttle::of_bytes(config.limits.guests_answer_bytes_per_second),
            events,
            counters: Counters::default(),
            listening: Mutex::default(),
            guest_inboxes: inboxes(&config),
            validators: RwLock::new(validators),
            validator_origins: Mutex::new(validator_origins),
            config,
            scores: Mutex::default(),
        }
    }

    pub fn is_validator(&self, key: &PeerKey) -> bool {
        self.read_validators().contains_key(key)
    }

    /// Replaces the validators. Those that stay keep their inboxes.
    pub fn set_validators(&self, keys: impl IntoIterator<Item = PeerKey>) {
        let mut validators = self.validators.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *validators);
        let stays = |key: PeerKey| (key, before.remove(&key).unwrap_or_else(|| inboxes(&self.config)));
        *validators = keys.into_iter().map(stays).collect();
        self.validator_origins().retain(|peer| validators.contains_key(peer));
    }

    fn read_validators(&self) -> RwLockReadGuard<'_, BTreeMap<PeerKey, Inboxes>> {
        self.validators.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of validators known at this address.
    pub fn count_validators_at(&self, origin: Origin) -> usize {
        self.validator_origins().count(origin)
    }

    /// Records that a validator authenticated from this address.
    pub fn record_validator_origin(&self, validator: PeerKey, origin: Origin) {
        self.validator_origins().record(validator, origin);
    }

    fn validator_origins(&self) -> MutexGuard<'_, ValidatorOrigins> {
        self.validator_origins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maximum size of a message that this node may send, in bytes.
    pub fn sending_limit(&self, channel: Channel) -> usize {
        let own = self.config.identity.key();
        self.config.limits.frame_bytes(channel, self.is_validator(&own))
    }

    pub fn peer(&self, id: PeerKey) -> Peer {
        Peer { id, is_validator: self.is_validator(&id) }
    }

    pub fn inbox(&self, peer: &Peer, channel: Channel) -> Arc<Semaphore> {
        let validators = self.read_validators();
        let inboxes = validators.get(&peer.id).filter(|_| peer.is_validator).unwrap_or(&self.guest_inboxes);
        inboxes[channel.index()].clone()
    }

    pub fn banned_until(&self, now: Instant, peer: &PeerKey) -> Option<Instant> {
        self.scores().banned_until(now, peer)
    }

    /// Counts a fault. Returns true if the peer must be disconnected.
    pub fn penalise(&self, now: Instant, peer: &Peer, fault: Fault, detail: &str) -> bool {
        let limits = &self.config.limits;
        let ban = if peer.is_validator { limits.validator_ban } else { limits.ban };
        let (verdict, first) = {
            let mut scores = self.scores();
            (scores.penalise(now, peer.id, fault, ban), scores.is_first_report(now, peer.id))
        };
        self.counters.general.faults.increment();
        if first {
            tracing::warn!(%peer, ?fault, detail, "peer violated the protocol; its further faults are counted, not logged");
        }
        match verdict {
            Verdict::Banned => {
                self.counters.general.bans.increment();
                tracing::warn!(%peer, ?fault, seconds = ban.as_secs(), "a peer is banned");
                true
            }
            Verdict::Noted => fault.disconnects(),
            Verdict::AlreadyBanned => false,
        }
    }

    /// Returns true on the first call for a peer, so that the log mentions it only once.
    pub fn is_first_report(&self, now: Instant, peer: &PeerKey) -> bool {
        self.scores().is_first_report(now, *peer)
    }

    fn scores(&self) -> MutexGuard<'_, Scores> {
        self.scores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
