//! Connections, and messages of peers other than the engine's.

use super::{Peer, Pipeline};
use crate::io::{NodeKey, Output};
use crate::message::PeerMessage;
use corniche_certify::VerifiedCertificate;
use corniche_engine::{Input as EngineInput, Recipients};
use corniche_types::{B256, Epoch, TimestampMs, ValidatorIndex};

impl Pipeline {
    pub(super) fn peer_up(&mut self, now: TimestampMs, peer: NodeKey, validator: Option<ValidatorIndex>) {
        let validator = match self.epoch.epoch {
            Epoch(0) => validator,
            _ => self.committee.index_of(&B256::from(peer)),
        };
        self.peers.insert(peer, Peer { validator, epoch: Epoch(0) });
        self.follower.peer_up(peer, validator.is_some());
        if let Some(certificate) = &self.newest_certificate {
            let message = PeerMessage::Certificate(certificate.clone());
            self.out.push_back(Output::Send { to: vec![peer], message });
        }
        if self.epoch.epoch > Epoch(0) {
            self.tell_epoch(&[peer], false);
        }
        if let Some(index) = validator {
            self.forwarding.peer_up(index, peer);
            if self.epoch.epoch == Epoch(0) {
                self.send_own_shares(peer);
                self.engine_input(now, EngineInput::PeerUp(index));
            }
        }
    }

    pub(super) fn send_own_shares(&mut self, peer: NodeKey) {
        for share in self.certifier.own_shares() {
            self.out.push_back(Output::Send { to: vec![peer], message: PeerMessage::CertificateShare(share) });
        }
    }

    pub(super) fn peer_down(&mut self, now: TimestampMs, peer: NodeKey) {
        self.follower.peer_down(&peer);
        if let Some(Peer { validator: Some(index), epoch }) = self.peers.remove(&peer) {
            self.forwarding.peer_down(&peer);
            if epoch == self.epoch.epoch {
                self.engine_input(now, EngineInput::PeerDown(index));
            }
        }
    }

    pub(super) fn receive_certificate(&mut self, from: NodeKey, certificate: VerifiedCertificate) {
        self.follower.record_height(from, certificate.height);
        if certificate.height > self.appended {
            let newest = self.early_certificate.as_ref().map_or(self.certified, |early| early.height);
            if certificate.height > newest {
                self.early_certificate = Some(certificate);
            }
        } else {
            self.certifier.certificate(certificate);
        }
    }

    pub(super) fn send_to_validators(&mut self, to: Recipients, message: PeerMessage) {
        self.send_to_peers(|validator| validator.is_some_and(|validator| to.includes(validator)), message);
    }

    /// Sends to validators of the running epoch.
    pub(super) fn send_to_members(&mut self, to: Recipients, message: PeerMessage) {
        let epoch = self.epoch.epoch;
        let is_member = |peer: &Peer| peer.epoch == epoch && peer.validator.is_some_and(|validator| to.includes(validator));
        self.send_where(is_member, message);
    }

    pub(super) fn send_to_peers(&mut self, includes: impl Fn(Option<ValidatorIndex>) -> bool, message: PeerMessage) {
        self.send_where(|peer| includes(peer.validator), message);
    }

    fn send_where(&mut self, includes: impl Fn(&Peer) -> bool, message: PeerMessage) {
        let to: Vec<NodeKey> = self.peers.iter().filter(|(_, peer)| includes(peer)).map(|(key, _)| *key).collect();
        if !to.is_empty() {
            self.out.push_back(Output::Send { to, message });
        }
    }
}
