//! Attests senders to other validators ([`AttestedSenders`](crate::AttestedSenders)).

use super::Pipeline;
use crate::execution::VerifiedTransaction;
use crate::io::{NodeKey, Output};
use crate::message::{MAX_ATTESTATIONS, PeerMessage};
use corniche_types::{Address, B256, SignatureChecks, TimestampMs};
use std::collections::BTreeMap;

/// Attestations are gathered for this long. Those of our own batch leave before it in any case.
const GATHERING_MS: u64 = 10;

/// Attestations to be sent.
#[derive(Default)]
pub(super) struct Attesting {
    /// By receiver.
    queued: BTreeMap<NodeKey, Vec<(B256, Address)>>,
    /// Time of the next messages.
    send_at: Option<TimestampMs>,
}

impl Attesting {
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.send_at
    }
}

impl Pipeline {
    /// Attests the sender of a new transaction, to the validators that do not get the transaction before it is ordered.
    pub(super) fn attest(&mut self, now: TimestampMs, transaction: &VerifiedTransaction, from: Option<NodeKey>) {
        if self.genesis.signatures == SignatureChecks::Everyone || self.own.is_none() {
            return;
        }
        let (hash, sender) = (transaction.hash(), transaction.sender());
        let recipients = self.forwarding.attestation_recipients(&sender, self.mode.is_ordering());
        for peer in recipients.into_iter().filter(|peer| Some(*peer) != from) {
            self.attesting.queued.entry(peer).or_default().push((hash, sender));
            self.attesting.send_at.get_or_insert(TimestampMs(now.0.saturating_add(GATHERING_MS)));
        }
    }

    pub(super) fn send_due_attestations(&mut self, now: TimestampMs) {
        if self.attesting.send_at.is_some_and(|at| at <= now) {
            self.send_attestations();
        }
    }

    /// Sends the gathered attestations.
    pub(super) fn send_attestations(&mut self) {
        self.attesting.send_at = None;
        for (peer, queued) in std::mem::take(&mut self.attesting.queued) {
            let messages = queued.chunks(MAX_ATTESTATIONS).map(|part| PeerMessage::Attestations(part.to_vec()));
            self.out.extend(messages.map(|message| Output::Send { to: vec![peer], message }));
        }
    }
}
