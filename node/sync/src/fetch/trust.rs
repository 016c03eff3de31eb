//! Follows the committee to the newest epoch before anything else is believed (Y7).
//!
//! One peer is asked at a time, until one has no further change. It may hide later ones. Then the snapshots that others offer are of an
//! epoch that is not known here, and the peer that sent such a tail is asked for the changes up to it.

use super::{Failed, Fetch, Output, PATIENCE_MS, PeerId, State};
use crate::fetch::manifest::Joining;
use crate::message::StateRequest;
use corniche_types::{Epoch, EpochChange, TimestampMs, header_hash};

/// Bytes of a response with 64 changes, each to a new committee of 100 members.
const EXPECTED_BYTES: u64 = 640 << 10;

/// Time that the sender of a tail has to prove its epoch.
const STALLED_MS: u64 = 30_000;

#[derive(Default)]
pub(super) struct Trust {
    /// Time since which no peer has sent anything useful. Set once there are peers.
    since: Option<TimestampMs>,
    /// The tail that is of a later epoch.
    needed_by: Option<Needed>,
}

/// A peer that must prove the epoch of its tail.
struct Needed {
    peer: PeerId,
    epoch: Epoch,
    joining: Box<Joining>,
}

impl Trust {
    pub fn for_tail(peer: PeerId, epoch: Epoch, joining: Box<Joining>) -> Self {
        Self { since: None, needed_by: Some(Needed { peer, epoch, joining }) }
    }

    pub fn deadline(&self) -> Option<TimestampMs> {
        let patience = if self.needed_by.is_some() { STALLED_MS } else { PATIENCE_MS };
        self.since.map(|since| TimestampMs(since.0 + patience))
    }
}

impl Fetch {
    pub(super) fn run_trust(&mut self) -> bool {
        let State::Trust(trust) = &mut self.state else { return false };
        if self.peers.len() == 0 {
            trust.since = None;
        } else {
            trust.since.get_or_insert(self.now);
        }
        if let Some(needed) = &trust.needed_by {
            let (peer, epoch) = (needed.peer, needed.epoch);
            let is_late = trust.since.is_some_and(|since| since.0 + STALLED_MS <= self.now.0);
            let is_failed = is_late || self.peers.get(&peer).is_none_or(|peer| peer.has_failed());
            if is_failed || epoch <= self.committees.newest().epoch() {
                return self.return_to_tail(is_failed.then_some(peer));
            }
        }
        if trust.deadline().is_some_and(|deadline| deadline <= self.now) {
            let reason = format!("no peer sent epoch changes for {} s", PATIENCE_MS / 1_000);
            return self.follow_from_genesis(reason);
        }
        if self.peers.pending().any(|request| matches!(request, StateRequest::EpochChanges { .. })) {
            return false;
        }
        let only = trust.needed_by.as_ref().map(|needed| needed.peer);
        let ready = self.peers.ready(self.now).into_iter().find(|peer| only.is_none_or(|only| only == *peer));
        if let Some(peer) = ready {
            self.ask_changes(peer);
        }
        false
    }

    /// Returns whether the end of the trusted epoch is known.
    fn has_reached_trust(&self) -> bool {
        self.config.trust.is_none_or(|trust| trust.epoch < self.committees.newest().epoch())
    }

    fn ask_changes(&mut self, peer: PeerId) {
        let from = self.committees.newest().epoch();
        self.ask(peer, StateRequest::EpochChanges { from }, EXPECTED_BYTES);
    }

    /// Goes back to the snapshot whose tail needed later epochs, without this peer.
    fn return_to_tail(&mut self, without: Option<PeerId>) -> bool {
        let State::Trust(Trust { needed_by: Some(needed), .. }) = std::mem::replace(&mut self.state, State::Offers) else {
            return true;
        };
        let mut joining = needed.joining;
        joining.restart(self.now);
        joining.tried.extend(without);
        self.state = State::Manifest(joining);
        true
    }

    pub(super) fn on_changes(&mut self, peer: PeerId, changes: Vec<EpochChange>) {
        // A response to a request of an earlier phase has changes that are known.
        if !matches!(self.state, State::Trust(_)) {
            return;
        }
        let is_end = changes.is_empty();
        for change in changes {
            let (epoch, hash) = (self.committees.newest().epoch(), header_hash(&change.header));
            if self.config.trust.is_some_and(|trust| trust.contradicts(epoch, hash)) {
                // The point may be mistyped, so the peer is not banned. If all peers disagree with it, the node follows the blocks, and
                // halts at the end of this epoch.
                return self.peers.record_failure(&peer, self.now, Failed::Refused);
            }
            if let Err(error) = self.committees.advance(&change) {
                return self.ban(peer, error.to_string());
            }
            self.outputs.push_back(Output::KeepChange(Box::new(change)));
        }
        let is_trusted = self.has_reached_trust();
        let State::Trust(trust) = &mut self.state else { return };
        if is_end && !is_trusted {
            // Another peer may have more changes.
            return self.peers.record_failure(&peer, self.now, Failed::Refused);
        }
        trust.since = Some(self.now);
        match &trust.needed_by {
            Some(needed) if is_end => {
                let reason = format!("tail: certificate of epoch {}, but no epoch changes up to it", needed.epoch);
                self.ban(peer, reason);
            }
            None if is_end => self.state = State::Offers,
            // Again this peer: others may be slow, or hide changes.
            _ => self.ask_changes(peer),
        }
    }
}
