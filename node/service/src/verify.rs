//! Checks messages of peers on separate threads before the pipeline sees them.
//!
//! ```text
//! validators: engine, certificates,
//!             attestations ─────────▶ verify-n ×threads ──╮
//! validators: transactions ─────────▶ verify-shared ──────┤
//! guests: transactions ─────────────▶ verify-guests ──────┼─▶ inbox
//! guests: certificates ─────────────▶ verify-certificates ╯
//! ```
//! Guests are all peers outside the committee. Checking a certificate costs a pairing, so of each guest only the newest waits.
//! Checking a message of 256 transactions takes a hundred times as long as a vote, so they have a thread of their own: what
//! validators pass on to each other delays no vote. On each thread peers are served in turn ([`FairQueue`]), and a message takes as many
//! turns as checking it costs ([`Verifier::cost`]). So a peer that floods, with many messages or with expensive ones, delays nobody but
//! itself, and what waits is bounded in bytes.

use crate::{
    epochs::{CommitteeVerifiers, EpochVerifiers},
    fair_queue::{
        FairQueue, ItemWeight, SourceLimit, TotalLimit,
        WhenFull::{Refuse, ReplaceNewest},
    },
    shared::{Shared, count},
};
use corniche_admission::Refusal;
use corniche_crypto::VerifiedTransaction;
use corniche_engine::{PeerFault, Verified, Verifier};
use corniche_network::{NetworkHandle, PeerKey};
use corniche_pipeline::{
    Checks, Fault, Input, MAX_FORWARDED_TRANSACTIONS, PeerMessage, VerifiedCertificate, VerifiedNotice, verify_notice,
};
use corniche_rpc::yield_to_ordering;
use corniche_state::State;
use corniche_types::{Address, B256, Bytes, Certificate, Epoch, Genesis, Height, ValidatorIndex};
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
};

const MIB: usize = 1 << 20;
/// Limit for one validator, for engine and certificates: a batch has up to 8 MiB, and votes arrive many at a time.
const ENGINE_SHARE: SourceLimit = SourceLimit { items: 1_024, bytes: 24 * MIB, when_full: Refuse };
const ENGINE_TOTAL: TotalLimit = TotalLimit::for_validators(256 * MIB);
/// Limit for one peer that forwards transactions. An honest one sends at most 256 of them, or 512 KiB, every 5 ms.
const TRANSACTIONS_SHARE: SourceLimit = SourceLimit { items: 64, bytes: 4 * MIB, when_full: Refuse };
const TRANSACTIONS_TOTAL: TotalLimit = TotalLimit::for_validators(64 * MIB);
const GUEST_SHARE: SourceLimit = SourceLimit { items: 16, bytes: 2 * MIB, when_full: Refuse };
const GUEST_TOTAL: TotalLimit = TotalLimit::for_guests(32 * MIB);
/// The largest committee, 1,000 validators, has certificates of 264 bytes.
const CERTIFICATE_SHARE: SourceLimit = SourceLimit { items: 1, bytes: 1_024, when_full: ReplaceNewest };
const CERTIFICATES_TOTAL: TotalLimit = TotalLimit::for_guests(MIB);

/// Finding the sender of a transaction, or checking a certificate's share, µs.
const RECOVER_US: u64 = 60;
const CERTIFICATE_US: u64 = 1_000;
/// Bytes of an attestation, which takes less than a microsecond to record.
const ATTESTATION_BYTES: u64 = 52;
/// Bytes of the smallest transaction.
const MIN_TRANSACTION_BYTES: usize = 100;

/// A message as it came from the network.
type UncheckedMessage = (PeerKey, Option<ValidatorIndex>, Bytes);
type Queue = Arc<FairQueue<PeerKey, UncheckedMessage>>;

/// Checks peers' messages on a few threads. A peer's messages of one kind keep their order because they stay with one thread.
pub struct Verifiers {
    queues: Queues,
    checks: Arc<MessageChecks>,
}

impl Verifiers {
    pub fn spawn(threads: usize, checks: MessageChecks, network: &NetworkHandle) -> Self {
        let queues = Queues::new(threads);
        let checks = Arc::new(checks);
        for (name, queue) in queues.all() {
            let (queue, checks, network) = (queue.clone(), checks.clone(), network.clone());
            // Blocks wait for validators' certificates, not for those of guests.
            let is_urgent = !Arc::ptr_eq(&queue, &queues.guest_certificates);
            let body = move || {
                if !is_urgent {
                    yield_to_ordering();
                }
                let shared = &checks.shared;
                while let Some((peer, validator, bytes)) = queue.take() {
                    match checks.check(peer, &bytes) {
                        Ok(inputs) => inputs.into_iter().for_each(|input| forward_input(shared, peer, validator, input)),
                        Err(fault) => shared.penalise(&network, peer, fault),
                    }
                }
            };
            thread::Builder::new().name(name).spawn(body).expect("the system has room for a thread");
        }
        Self { queues, checks }
    }

    /// Queues one message to be checked; false if its queue has no room and drops it.
    pub fn offer(&self, peer: PeerKey, bytes: Bytes) -> bool {
        let committee = self.checks.verifiers.current();
        let (validator, cost) = (committee.index_of(&peer), cost(&bytes, committee.engine.as_deref()));
        self.queues.offer((peer, validator, bytes), cost)
    }
}

/// Passes checked messages to the pipeline. A full inbox drops them; nodes fetch what they lack.
fn forward_input(shared: &Shared, peer: PeerKey, validator: Option<ValidatorIndex>, input: Input) {
    let taken = match input {
        Input::Submit { .. } | Input::Notice(_) => shared.inbox.push_transaction(input.into()),
        // A later message of the guest must not replace it: the guest says it once.
        Input::PeerEpoch { .. } if validator.is_none() => shared.inbox.push_transaction(input.into()),
        _ if validator.is_none() => shared.inbox.push_guest(peer.0.0, input.into()),
        _ => shared.inbox.push_message(peer.0.0, input.into()),
    };
    count(&shared.counters.inbox_dropped, usize::from(taken.is_err()));
}

impl Drop for Verifiers {
    fn drop(&mut self) {
        self.queues.all().for_each(|(_, queue)| queue.close());
    }
}

struct Queues {
    guest_certificates: Queue,
    guests: Queue,
    transactions: Queue,
    engine: Vec<Queue>,
}

impl Queues {
    fn new(threads: usize) -> Self {
        let queue = |share, total| Arc::new(FairQueue::new(share, total));
        Self {
            guest_certificates: queue(CERTIFICATE_SHARE, CERTIFICATES_TOTAL),
            guests: queue(GUEST_SHARE, GUEST_TOTAL),
            transactions: queue(TRANSACTIONS_SHARE, TRANSACTIONS_TOTAL),
            engine: (0..threads.max(1)).map(|_| queue(ENGINE_SHARE, ENGINE_TOTAL)).collect(),
        }
    }

    /// All queues, with the names of their threads.
    fn all(&self) -> impl Iterator<Item = (String, &Queue)> {
        let engine = self.engine.iter().enumerate().map(|(number, queue)| (format!("verify-{number}"), queue));
        let others = [("certificates", &self.guest_certificates), ("guests", &self.guests), ("shared", &self.transactions)];
        others.into_iter().map(|(name, queue)| (format!("verify-{name}"), queue)).chain(engine)
    }

    fn offer(&self, message: UncheckedMessage, cost: u64) -> bool {
        let (peer, validator, bytes) = &message;
        let (peer, weight) = (*peer, ItemWeight { bytes: bytes.len(), cost });
        self.queue_for(*validator, bytes).offer(peer, message, weight)
    }

    fn queue_for(&self, validator: Option<ValidatorIndex>, bytes: &[u8]) -> &Queue {
        match validator {
            None if PeerMessage::carries_certificate(bytes) => &self.guest_certificates,
            None => &self.guests,
            Some(_) if PeerMessage::carries_transactions(bytes) => &self.transactions,
            Some(index) => &self.engine[index.as_usize() % self.engine.len()],
        }
    }
}

/// Estimate of what [`MessageChecks::check`] takes, µs, from the message's first bytes and its length.
fn cost(bytes: &[u8], verifier: Option<&dyn Verifier>) -> u64 {
    if let Some(message) = PeerMessage::engine_bytes(bytes) {
        return verifier.map_or(0, |verifier| verifier.cost(message));
    }
    if PeerMessage::carries_transactions(bytes) {
        return RECOVER_US * (bytes.len() / MIN_TRANSACTION_BYTES).clamp(1, MAX_FORWARDED_TRANSACTIONS) as u64;
    }
    if PeerMessage::carries_attestations(bytes) {
        return 1 + bytes.len() as u64 / ATTESTATION_BYTES;
    }
    CERTIFICATE_US
}

/// Verifiers of peers' messages.
pub struct MessageChecks {
    pub genesis: Arc<Genesis>,
    /// For notices to the staking contract.
    pub state: State,
    pub verifiers: Arc<EpochVerifiers>,
    pub shared: Arc<Shared>,
}

impl MessageChecks {
    /// Decodes and checks one message: inputs for the pipeline, or the sender's fault.
    fn check(&self, peer: PeerKey, bytes: &Bytes) -> Result<Vec<Input>, Fault> {
        let message = PeerMessage::decode(bytes).map_err(|error| Fault(error.to_string()))?;
        let committee = self.verifiers.current();
        let validator = committee.index_of(&peer);
        message.check(peer.0.0, validator, &EpochChecks { node: self, committee })
    }
}

/// Checks of one message. The epoch does not change meanwhile.
struct EpochChecks<'a> {
    node: &'a MessageChecks,
    committee: Arc<CommitteeVerifiers>,
}

impl Checks for EpochChecks<'_> {
    fn epoch(&self) -> Epoch {
        self.committee.epoch
    }

    fn epochs_end(&self) -> bool {
        self.node.genesis.epochs().is_some()
    }

    fn engine(&self, epoch: Epoch, from: ValidatorIndex, bytes: &Bytes) -> Option<Result<Verified, PeerFault>> {
        let CommitteeVerifiers { epoch: running, engine, .. } = &*self.committee;
        Some(engine.as_ref().filter(|_| *running == epoch)?.verify(from, bytes))
    }

    fn certificate(&self, certificate: &Certificate) -> Option<VerifiedCertificate> {
        self.committee.certificates.check(certificate)
    }

    fn certified(&self) -> Height {
        Height(self.node.shared.counters.finalized.load(Ordering::Relaxed))
    }

    fn notice(&self, bytes: &Bytes) -> Option<VerifiedNotice> {
        verify_notice(&self.node.genesis, &self.node.state.latest(), bytes)
    }

    fn transaction(&self, raw: Bytes) -> Result<VerifiedTransaction, Refusal> {
        self.node.shared.verify_once(|known| corniche_admission::check_once(raw, self.node.genesis.chain_id, known))
    }

    fn record_attestations(&self, from: ValidatorIndex, attestations: &[(B256, Address)]) {
        self.node.shared.record_attestations(self.committee.epoch, from, attestations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::transfer;
    use corniche_types::{FaultModel, SignerBitmap};

    fn peer(number: u16) -> (PeerKey, Option<ValidatorIndex>) {
        (PeerKey(B256::with_last_byte(number as u8)), Some(ValidatorIndex(number)))
    }

    /// Two validators share a thread with any two others.
    #[test]
    fn flooding_validator_keeps_out_nobody() {
        let queues = Queues::new(2);
        let offer = |from: u16, message: &PeerMessage| {
            let ((peer, validator), bytes) = (peer(from), message.encode());
            let cost = cost(&bytes, None);
            queues.offer((peer, validator, bytes), cost)
        };
        let raw = transfer(0, 1).transaction().raw().clone();
        let flood = PeerMessage::Transactions(vec![raw.clone(); 256]);
        let dropped = (0..10_000).filter(|_| !offer(0, &flood)).count();
        assert!(dropped > 9_000, "bounded");
        let votes = PeerMessage::Engine(Bytes::from(vec![7; 1 << 20]));
        assert!((0..1_000).filter(|_| offer(0, &votes)).count() <= 24, "in bytes, too");

        // Its engine messages and another's come first in what is left of the queue.
        let (vote, passed_on) = (PeerMessage::Engine(Bytes::from_static(b"vote")), PeerMessage::Transactions(vec![raw]));
        assert!(offer(2, &vote) && offer(2, &passed_on) && offer(1, &passed_on));
        let first = |queue: &Queue| [(); 3].map(|()| queue.take().unwrap().1.unwrap().0);
        assert_eq!(first(&queues.engine[0]), [0, 2, 0]);
        assert_eq!(first(&queues.transactions), [0, 2, 1]);
    }

    /// The shares of 33 faulty validators are more than a queue may hold.
    #[test]
    fn faulty_validators_keep_out_nobody() {
        let queues = Queues::new(1);
        let raw = transfer(0, 1).transaction().raw().clone();
        let batch = PeerMessage::Engine(Bytes::from(vec![7; 8 * MIB])).encode();
        let transactions = PeerMessage::Transactions(vec![Bytes::from(vec![7; MIB]); 3]).encode();
        let flood = |from: u16, bytes: &Bytes| {
            let (peer, validator) = peer(from);
            while queues.offer((peer, validator, bytes.clone()), 1) {}
        };
        (0..33).for_each(|from| [&batch, &transactions].into_iter().for_each(|bytes| flood(from, bytes)));
        for message in [PeerMessage::Engine(Bytes::from_static(b"vote")), PeerMessage::Transactions(vec![raw])] {
            let (peer, validator) = peer(33);
            assert!(queues.offer((peer, validator, message.encode()), 1), "{message:?}");
        }
    }

    /// Each check costs a millisecond: a guest that sends a thousand waits for one, and delays nobody else's transactions.
    #[test]
    fn only_newest_guest_certificate_waits() {
        let queues = Queues::new(1);
        let guest = |number: u16| peer(number).0;
        let offer = |from: u16, height: u64| queues.offer((guest(from), None, certificate(height).encode()), 1);
        (1..=1_000).for_each(|height| assert!(offer(0, height)));
        assert!(offer(1, 5));
        let passed_on = PeerMessage::Transactions(vec![transfer(0, 1).transaction().raw().clone()]);
        assert!(queues.offer((guest(0), None, passed_on.encode()), 1));
        let next = || queues.guest_certificates.take().map(|(peer, _, bytes)| (peer, PeerMessage::decode(&bytes).unwrap()));
        assert_eq!([next(), next()], [Some((guest(0), certificate(1_000))), Some((guest(1), certificate(5)))]);
        assert_eq!(queues.guests.take().unwrap().2, passed_on.encode());
        let huge = Bytes::from([&certificate(1).encode()[..], &[0; 2_000]].concat());
        assert!(!queues.offer((guest(2), None, huge), 1));
        let most_signers =
            PeerMessage::Certificate(Certificate { signers: SignerBitmap::from_signers([], 1_000), ..unsigned(1) });
        assert_eq!(most_signers.encode().len(), 264, "the largest committee's");
    }

    fn certificate(height: u64) -> PeerMessage {
        PeerMessage::Certificate(unsigned(height))
    }

    fn unsigned(height: u64) -> Certificate {
        Certificate {
            epoch: Epoch(0),
            committee_hash: B256::ZERO,
            height: Height(height),
            header_hash: B256::ZERO,
            fault_model: FaultModel::Byzantine,
            signers: SignerBitmap::from_signers([], 4),
            signature: Bytes::from(vec![0; 48]),
        }
    }

    #[test]
    fn cost_is_known_before_decoding() {
        struct Each;
        impl Verifier for Each {
            fn cost(&self, bytes: &[u8]) -> u64 {
                bytes.len() as u64
            }
            fn verify(&self, _: ValidatorIndex, _: &Bytes) -> Result<Verified, PeerFault> {
                unreachable!("nothing is verified here")
            }
        }
        let cost_of = |message: PeerMessage| cost(&message.encode(), Some(&Each));
        assert_eq!(cost_of(PeerMessage::Engine(Bytes::from_static(b"seven b"))), 7);
        assert_eq!(cost_of(PeerMessage::CertificateShare(Bytes::from_static(b"share"))), CERTIFICATE_US);
        let raw = transfer(0, 1).transaction().raw().clone();
        let one = cost_of(PeerMessage::Transactions(vec![raw.clone()]));
        let many = cost_of(PeerMessage::Transactions(vec![raw; 256]));
        assert!(one >= RECOVER_US && many >= 256 * RECOVER_US, "{one} and {many}");
        assert_eq!(cost(&[], Some(&Each)), CERTIFICATE_US, "what makes no sense is not free");
        let cut = PeerMessage::Engine(Bytes::from_static(b"seven b")).encode();
        assert_eq!(cost(&cut[..8], Some(&Each)), 2);
    }

    #[test]
    fn message_kind_is_known_by_first_bytes() {
        let certificate = certificate(1).encode();
        assert!(PeerMessage::carries_certificate(&certificate) && !PeerMessage::carries_transactions(&certificate));
        let transactions = PeerMessage::Transactions(Vec::new()).encode();
        assert!(PeerMessage::carries_transactions(&transactions) && !PeerMessage::carries_certificate(&transactions));
        let others = [PeerMessage::Engine(Bytes::new()), PeerMessage::CertificateShare(Bytes::new())];
        assert!(!others.iter().any(|other| PeerMessage::carries_transactions(&other.encode())));
        assert!(![&[][..], &transactions[..1], &[9, 9]].into_iter().any(PeerMessage::carries_transactions));
    }
}
