//! Chooses a snapshot among those that peers offer (Y8).

use super::{Fetch, PATIENCE_MS, PeerId, State};
use crate::fetch::manifest::{Joining, MAX_MANIFEST_BYTES};
use crate::fetch::peers::Peers;
use crate::message::{Offer, StateRequest};
use corniche_types::{Height, TimestampMs};
use std::collections::{BTreeMap, BTreeSet};

/// Interval at which peers are asked. Also the longest wait for the first responses of all of them.
const POLL_MS: u64 = 5_000;
/// Time after which a snapshot of a single peer is enough.
const SINGLE_MS: u64 = 30_000;

/// Offers of a peer after which no further one of it is chosen, if none of them made progress.
const MAX_PEER_STALLS: u32 = 3;

/// The search for a snapshot.
#[derive(Default)]
pub(super) struct Offers {
    /// Its beginning. Set once there are peers.
    since: Option<TimestampMs>,
}

impl Offers {
    /// Ends the search. The next one begins without the offers that are known.
    pub fn finish(&mut self, peers: &mut Peers) {
        self.since = None;
        peers.iter_mut().for_each(|peer| (peer.polled, peer.offers) = (None, None));
    }

    pub fn deadline(&self, peers: &Peers, now: TimestampMs) -> Option<TimestampMs> {
        let since = self.since?.0;
        let marks = [POLL_MS, SINGLE_MS, PATIENCE_MS].map(|after| TimestampMs(since + after));
        let polls = peers.iter().filter_map(|(_, peer)| peer.polled.map(|polled| TimestampMs(polled.0 + POLL_MS)));
        marks.into_iter().chain(polls).filter(|at| *at > now).min()
    }
}

impl Fetch {
    pub(super) fn run_offers(&mut self) -> bool {
        let now = self.now;
        if self.peers.len() == 0 {
            self.offers.since = None;
            return false;
        }
        let since = self.offers.since.get_or_insert(now).0;
        for peer in self.peers.ready(now) {
            let state = self.peers.get_mut(&peer);
            if let Some(state) = state.filter(|peer| peer.polled.is_none_or(|polled| now.0 >= polled.0 + POLL_MS)) {
                state.polled = Some(now);
                self.ask(peer, StateRequest::Snapshots, 0);
            }
        }
        // The first answer does not decide alone.
        let has_answered = self.peers.iter().all(|(_, peer)| peer.offers.is_some() || peer.has_failed());
        if !has_answered && now.0 < since + POLL_MS {
            return false;
        }
        if let Some((reason, decided)) = self.prefers_blocks(since) {
            return decided <= now.0 && self.follow_from_genesis(reason);
        }
        let is_single_enough = now.0 >= since + SINGLE_MS;
        match self.newest_offer(if is_single_enough { 1 } else { 2 }) {
            Some((offer, _)) if self.download.as_ref().is_some_and(|download| download.offer == offer) => {
                self.continue_download();
                true
            }
            Some((offer, offerers)) => {
                self.state = State::Manifest(Box::new(Joining::new(offer, offerers, now)));
                true
            }
            None if now.0 >= since + PATIENCE_MS => {
                self.follow_from_genesis(format!("no peer offered a usable snapshot for {} s", PATIENCE_MS / 1_000))
            }
            None => false,
        }
    }

    /// Returns the reason if the chain is so short that its blocks are preferred, and the time from which that is decided. One peer does
    /// not decide alone while others connect, and one that has no block may be new itself.
    fn prefers_blocks(&self, since: u64) -> Option<(String, u64)> {
        let most = self.config.only_if_ahead_by.filter(|_| self.download.is_none())?;
        let certified =
            self.peers.iter().filter_map(|(_, peer)| peer.offers.as_ref()).map(|(certified, _)| certified.0).max()?;
        let patience = if certified == 0 { SINGLE_MS } else { POLL_MS };
        let reason = || format!("peers have {certified} certified blocks, and up to {most} are faster to execute");
        (certified <= most).then(|| (reason(), since + patience))
    }

    /// The newest usable offer that enough peers make, and these peers.
    fn newest_offer(&self, enough: usize) -> Option<(Offer, BTreeSet<PeerId>)> {
        let mut offerers: BTreeMap<Offer, BTreeSet<PeerId>> = BTreeMap::new();
        for (id, peer) in self.peers.iter().filter(|(_, peer)| peer.stalls < MAX_PEER_STALLS) {
            for offer in peer.offers.iter().flat_map(|(_, offers)| offers).filter(|offer| self.is_usable(offer)) {
                offerers.entry(*offer).or_default().insert(*id);
            }
        }
        let candidates = offerers.into_iter().filter(|(_, peers)| peers.len() >= enough);
        candidates.max_by_key(|(offer, peers)| (offer.height, peers.len(), *offer))
    }

    fn is_usable(&self, offer: &Offer) -> bool {
        offer.height > Height(0)
            && (1..=MAX_MANIFEST_BYTES).contains(&offer.manifest_bytes)
            && !self.refused.contains(offer)
            && self.aside.get(offer).is_none_or(|aside| aside.until <= self.now)
    }
}
