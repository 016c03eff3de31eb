//! Connected peers, and the request under way with each of them.

use super::{Failed, PeerId, RequestId};
use crate::message::{Offer, StateRequest};
use corniche_types::{Height, TimestampMs};
use std::collections::BTreeMap;

/// Pause after a failure; each further one in a row doubles it.
const RETRY_MS: u64 = 500;
/// Longest pause after failures, and longest one that a busy peer can ask for.
const MAX_PAUSE_MS: u64 = 30_000;
/// Shortest pause for a busy peer.
const MIN_BUSY_MS: u32 = 250;
/// Most chunks in a request to a peer that is never late.
const FULL_SHARE: usize = 4;

/// A request without a response yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub peer: PeerId,
    pub request: StateRequest,
    deadline: TimestampMs,
}

/// Connected peer.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// At most one request is under way with a peer, so a slow one holds at most its share of chunks.
    pending: Option<RequestId>,
    /// Failed requests since the last response.
    failures: u32,
    not_before: TimestampMs,
    /// Time of the last request.
    asked: TimestampMs,
    /// Most chunks in a request. Halves each time the peer is late.
    pub share: usize,
    /// Time of the last request for snapshots in this search.
    pub polled: Option<TimestampMs>,
    /// Its highest certified block and its snapshots. `None` before the first response in this search.
    pub offers: Option<(Height, Vec<Offer>)>,
    /// Snapshots that it offered and that made no progress, since it sent a chunk.
    pub stalls: u32,
    /// It has no chunks of the manifest.
    pub lacks_chunks: bool,
    /// It has not all codes of the manifest.
    pub lacks_codes: bool,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            pending: None,
            failures: 0,
            not_before: TimestampMs(0),
            asked: TimestampMs(0),
            share: FULL_SHARE,
            polled: None,
            offers: None,
            stalls: 0,
            lacks_chunks: false,
            lacks_codes: false,
        }
    }
}

impl Peer {
    fn is_ready(&self, now: TimestampMs) -> bool {
        self.pending.is_none() && self.not_before <= now
    }

    pub fn has_failed(&self) -> bool {
        self.failures > 0
    }
}

#[derive(Default)]
pub(super) struct Peers {
    peers: BTreeMap<PeerId, Peer>,
    requests: BTreeMap<RequestId, Pending>,
    next: u64,
}

impl Peers {
    pub fn add(&mut self, peer: PeerId) {
        self.peers.entry(peer).or_default();
    }

    /// Forgets the peer; returns its request.
    pub fn remove(&mut self, peer: &PeerId) -> Option<Pending> {
        let id = self.peers.remove(peer)?.pending?;
        self.requests.remove(&id)
    }

    pub fn len(&self) -> usize {
        self.peers.len()
    }

    pub fn get(&self, peer: &PeerId) -> Option<&Peer> {
        self.peers.get(peer)
    }

    pub fn get_mut(&mut self, peer: &PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(peer)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&PeerId, &Peer)> {
        self.peers.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.peers.values_mut()
    }

    /// Peers that can be asked now, the best first: few failures, then the one that was not asked for the longest time.
    pub fn ready(&self, now: TimestampMs) -> Vec<PeerId> {
        let mut ready: Vec<_> = self.peers.iter().filter(|(_, peer)| peer.is_ready(now)).collect();
        ready.sort_by_key(|(id, peer)| (peer.failures, peer.asked, **id));
        ready.into_iter().map(|(id, _)| *id).collect()
    }

    pub fn is_ready(&self, peer: &PeerId, now: TimestampMs) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.is_ready(now))
    }

    /// Requests under way, of all peers.
    pub fn pending(&self) -> impl Iterator<Item = &StateRequest> {
        self.requests.values().map(|pending| &pending.request)
    }

    /// Records a request to a connected peer that is ready.
    pub fn start(&mut self, peer: PeerId, request: StateRequest, deadline: TimestampMs, now: TimestampMs) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        if let Some(state) = self.peers.get_mut(&peer) {
            debug_assert!(state.pending.is_none(), "a peer has one request");
            (state.pending, state.asked) = (Some(id), now);
        }
        self.requests.insert(id, Pending { peer, request, deadline });
        id
    }

    /// Takes a request that ended. `None` if it was given up before.
    pub fn finish(&mut self, id: RequestId) -> Option<Pending> {
        let pending = self.requests.remove(&id)?;
        if let Some(peer) = self.peers.get_mut(&pending.peer) {
            peer.pending = None;
        }
        Some(pending)
    }

    /// Takes all requests whose deadline has passed.
    pub fn take_late(&mut self, now: TimestampMs) -> Vec<Pending> {
        let late: Vec<_> = self.requests.iter().filter(|(_, pending)| pending.deadline <= now).map(|(id, _)| *id).collect();
        late.into_iter().filter_map(|id| self.finish(id)).collect()
    }

    pub fn record_success(&mut self, peer: &PeerId) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.failures = 0;
        }
    }

    pub fn record_failure(&mut self, peer: &PeerId, now: TimestampMs, failed: Failed) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.not_before = TimestampMs(now.0 + (RETRY_MS << peer.failures.min(16)).min(MAX_PAUSE_MS));
            peer.failures = peer.failures.saturating_add(1);
            if failed == Failed::TimedOut {
                peer.share = (peer.share / 2).max(1);
            }
        }
    }

    /// Does not ask the peer for this time.
    pub fn pause(&mut self, peer: &PeerId, now: TimestampMs, ms: u32) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.not_before = TimestampMs(now.0 + u64::from(ms.max(MIN_BUSY_MS)).min(MAX_PAUSE_MS));
        }
    }

    pub fn record_offers(&mut self, peer: &PeerId, certified: Height, offers: Vec<Offer>) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.offers = Some((certified, offers));
        }
    }

    /// Time at which a request is late, or a peer can be asked again.
    pub fn deadline(&self, now: TimestampMs) -> Option<TimestampMs> {
        let late = self.requests.values().map(|pending| pending.deadline);
        let paused = self.peers.values().filter(|peer| peer.pending.is_none()).map(|peer| peer.not_before);
        late.chain(paused.filter(|at| *at > now)).min()
    }
}
