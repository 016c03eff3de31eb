//! Connections, and messages of peers other than the engine's.

use super::Pipeline;
use crate::io::{NodeKey, Output};
use crate::message::PeerMessage;
use corniche_certify::VerifiedCertificate;
use corniche_engine::{Input as EngineInput, Recipients};
use corniche_types::{TimestampMs, ValidatorIndex};

impl Pipeline {
    pub(super) fn peer_up(&mut self, now: TimestampMs, peer: NodeKey, validator: Option<ValidatorIndex>) {
        self.peers.insert(peer, validator);
        self.follower.peer_up(peer, validator.is_some());
        if let Some(certificate) = &self.newest_certificate {
            let message = PeerMessage::Certificate(certificate.clone());
            self.out.push_back(Output::Send { to: vec![peer], message });
        }
        if let Some(index) = validator {
            self.forwarding.peer_up(index, peer);
            for share in self.certifier.own_shares() {
                self.out.push_back(Output::Send { to: vec![peer], message: PeerMessage::CertificateShare(share) });
            }
            self.engine_input(now, EngineInput::PeerUp(index));
        }
    }

    pub(super) fn peer_down(&mut self, now: TimestampMs, peer: NodeKey) {
        self.follower.peer_down(&peer);
        if let Some(Some(index)) = self.peers.remove(&peer) {
            self.forwarding.peer_down(&peer);
            self.engine_input(now, EngineInput::PeerDown(index));
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

    pub(super) fn send_to_peers(&mut self, includes: impl Fn(Option<ValidatorIndex>) -> bool, message: PeerMessage) {
        let to: Vec<NodeKey> =
            self.peers.iter().filter(|(_, validator)| includes(**validator)).map(|(peer, _)| *peer).collect();
        if !to.is_empty() {
            self.out.push_back(Output::Send { to, message });
        }
    }
}
