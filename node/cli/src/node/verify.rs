//! What peers send, checked on threads of its own before the pipeline sees it.
//!
//! ```text
//! validators: engine, certificates ─▶ verify-n ×threads ─╮
//! validators: transactions ─────────▶ verify-shared ─────┼─▶ inbox
//! everybody else ───────────────────▶ verify-guests ─────╯
//! ```
//! Checking a message of 256 transactions takes a hundred times as long as a vote, so they have a thread of their own: what
//! validators pass on to each other delays no vote. On each thread peers are served in turn ([`FairQueue`]), and a message takes as many
//! turns as checking it costs ([`Verifier::cost`]). So a peer that floods, with many messages or with expensive ones, delays nobody but
//! itself, and what waits is bounded in bytes.

use super::{
    fair::{FairQueue, Load, Share},
    mirror::Mirror,
    shared::{Shared, count},
};
use corniche_engine::Verifier;
use corniche_network::{Fault, NetworkHandle, PeerKey};
use corniche_pipeline::{FORWARDED_TRANSACTIONS, Input, PeerMessage};
use corniche_types::{Bytes, ValidatorIndex};
use std::{sync::Arc, thread};

const MIB: usize = 1 << 20;
/// Of one validator, for engine and certificates: a batch has up to 8 MiB, and votes come many at a time.
const ENGINE_SHARE: Share = Share { items: 1_024, bytes: 24 * MIB };
const ENGINE_BYTES: usize = 256 * MIB;
/// Of one peer that passes transactions on; an honest one sends 256 of them, or 512 KiB, every 5 ms at most.
const TRANSACTIONS_SHARE: Share = Share { items: 64, bytes: 4 * MIB };
const TRANSACTIONS_BYTES: usize = 64 * MIB;
const GUEST_SHARE: Share = Share { items: 16, bytes: 2 * MIB };
const GUEST_BYTES: usize = 32 * MIB;

/// Finding the sender of a transaction, or checking a certificate's share, µs.
const RECOVER_US: u64 = 60;
const CERTIFICATE_US: u64 = 1_000;
/// Bytes of the smallest transaction.
const LEAST_TRANSACTION: usize = 100;

/// A message as it came from the network.
type Unchecked = (PeerKey, Option<ValidatorIndex>, Bytes);
type Queue = Arc<FairQueue<PeerKey, Unchecked>>;

/// Checks peers' messages on a few threads. A peer's messages of one kind keep their order because they stay with one thread.
pub struct Verifiers {
    queues: Queues,
    verifier: Option<Arc<dyn Verifier>>,
}

impl Verifiers {
    pub fn spawn(
        threads: usize,
        chain_id: u64,
        verifier: Option<Arc<dyn Verifier>>,
        shared: &Arc<Shared>,
        network: &NetworkHandle,
    ) -> Self {
        let queues = Queues::new(threads);
        for (name, queue) in queues.all() {
            let (shared, network, verifier, queue) = (shared.clone(), network.clone(), verifier.clone(), queue.clone());
            let body = move || {
                while let Some((peer, validator, bytes)) = queue.take() {
                    match check(peer, validator, &bytes, chain_id, verifier.as_deref(), &shared.mirror) {
                        Ok(inputs) => inputs.into_iter().for_each(|input| {
                            // A full inbox drops peers' messages; whoever lacks something asks for it.
                            let taken = match input {
                                Input::Submit { .. } => shared.inbox.transaction(input),
                                _ => shared.inbox.message(input),
                            };
                            count(&shared.counters.inbox_dropped, usize::from(taken.is_err()));
                        }),
                        Err(fault) => {
                            tracing::debug!(%peer, fault, "a peer broke the rules");
                            count(&shared.counters.peer_faults, 1);
                            network.penalise(peer, Fault::NeverValid);
                        }
                    }
                }
            };
            thread::Builder::new().name(name).spawn(body).expect("the system has room for a thread");
        }
        Self { queues, verifier }
    }

    /// Queues one message; false when its queue is full and drops it.
    pub fn check(&self, peer: PeerKey, validator: Option<ValidatorIndex>, bytes: Bytes) -> bool {
        let load = Load { bytes: bytes.len(), cost: cost(&bytes, self.verifier.as_deref()) };
        self.queues.of(validator, &bytes).offer(peer, (peer, validator, bytes), load)
    }
}

impl Drop for Verifiers {
    fn drop(&mut self) {
        self.queues.all().for_each(|(_, queue)| queue.close());
    }
}

struct Queues {
    guests: Queue,
    transactions: Queue,
    engine: Vec<Queue>,
}

impl Queues {
    fn new(threads: usize) -> Self {
        let queue = |share, bytes| Arc::new(FairQueue::new(share, bytes));
        Self {
            guests: queue(GUEST_SHARE, GUEST_BYTES),
            transactions: queue(TRANSACTIONS_SHARE, TRANSACTIONS_BYTES),
            engine: (0..threads.max(1)).map(|_| queue(ENGINE_SHARE, ENGINE_BYTES)).collect(),
        }
    }

    /// With the names of their threads.
    fn all(&self) -> impl Iterator<Item = (String, &Queue)> {
        let engine = self.engine.iter().enumerate().map(|(number, queue)| (format!("verify-{number}"), queue));
        [("verify-guests".into(), &self.guests), ("verify-shared".into(), &self.transactions)].into_iter().chain(engine)
    }

    fn of(&self, validator: Option<ValidatorIndex>, bytes: &[u8]) -> &Queue {
        match validator {
            None => &self.guests,
            Some(_) if PeerMessage::carries_transactions(bytes) => &self.transactions,
            Some(index) => &self.engine[index.as_usize() % self.engine.len()],
        }
    }
}

/// Estimate of what [`check`] takes, µs, from the message's first bytes and its length.
fn cost(bytes: &[u8], verifier: Option<&dyn Verifier>) -> u64 {
    if let Some(message) = PeerMessage::engine_bytes(bytes) {
        return verifier.map_or(0, |verifier| verifier.cost(message));
    }
    if PeerMessage::carries_transactions(bytes) {
        return RECOVER_US * (bytes.len() / LEAST_TRANSACTION).clamp(1, FORWARDED_TRANSACTIONS) as u64;
    }
    CERTIFICATE_US
}

/// Decodes and checks one message: inputs for the pipeline, or the sender's fault.
fn check(
    peer: PeerKey,
    validator: Option<ValidatorIndex>,
    bytes: &Bytes,
    chain_id: u64,
    verifier: Option<&dyn Verifier>,
    pool: &Mirror,
) -> Result<Vec<Input>, String> {
    let message = PeerMessage::decode(bytes).map_err(|error| error.to_string())?;
    let from_validator = validator.ok_or("a message that only validators send");
    Ok(match message {
        PeerMessage::Engine(bytes) => {
            let from = from_validator?;
            let Some(verifier) = verifier else { return Ok(Vec::new()) };
            let message = verifier.verify(from, &bytes).map_err(|fault| fault.to_string())?;
            vec![Input::Engine { from, message }]
        }
        PeerMessage::CertificateShare(bytes) => vec![Input::CertificateShare { from: from_validator?, bytes }],
        PeerMessage::Certificate(certificate) => vec![Input::Certificate { from: peer.0.0, certificate }],
        PeerMessage::Transactions(raw) => raw
            .into_iter()
            .map(|raw| {
                let checked = corniche_admission::check_once(raw, chain_id, |hash| pool.transaction(hash));
                let transaction = checked.map_err(|error| error.to_string())?;
                Ok(Input::Submit { transaction, from: Some(peer.0.0), reply: None })
            })
            .collect::<Result<_, String>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::transfer;
    use corniche_engine::{PeerFault, Verified};
    use corniche_types::B256;

    fn peer(number: u16) -> (PeerKey, Option<ValidatorIndex>) {
        (PeerKey(B256::with_last_byte(number as u8)), Some(ValidatorIndex(number)))
    }

    /// Two validators share a thread with any two others.
    #[test]
    fn a_validator_that_floods_keeps_out_nobody_else() {
        let queues = Queues::new(2);
        let offer = |from: u16, message: &PeerMessage| {
            let ((peer, validator), bytes) = (peer(from), message.encode());
            let load = Load { bytes: bytes.len(), cost: cost(&bytes, None) };
            queues.of(validator, &bytes).offer(peer, (peer, validator, bytes), load)
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

    #[test]
    fn costs_are_known_before_a_message_is_decoded() {
        struct Each;
        impl Verifier for Each {
            fn cost(&self, bytes: &[u8]) -> u64 {
                bytes.len() as u64
            }
            fn verify(&self, _: ValidatorIndex, _: &Bytes) -> Result<Verified, PeerFault> {
                unreachable!("nothing is verified here")
            }
        }
        let of = |message: PeerMessage| cost(&message.encode(), Some(&Each));
        assert_eq!(of(PeerMessage::Engine(Bytes::from_static(b"seven b"))), 7);
        assert_eq!(of(PeerMessage::CertificateShare(Bytes::from_static(b"share"))), CERTIFICATE_US);
        let raw = transfer(0, 1).transaction().raw().clone();
        let one = of(PeerMessage::Transactions(vec![raw.clone()]));
        let many = of(PeerMessage::Transactions(vec![raw; 256]));
        assert!(one >= RECOVER_US && many >= 256 * RECOVER_US, "{one} and {many}");
        assert_eq!(cost(&[], Some(&Each)), CERTIFICATE_US, "what makes no sense is not free");
        let cut = PeerMessage::Engine(Bytes::from_static(b"seven b")).encode();
        assert_eq!(cost(&cut[..8], Some(&Each)), 2);
    }

    #[test]
    fn a_message_is_known_by_its_first_bytes() {
        let transactions = PeerMessage::Transactions(Vec::new()).encode();
        assert!(PeerMessage::carries_transactions(&transactions));
        let others = [PeerMessage::Engine(Bytes::new()), PeerMessage::CertificateShare(Bytes::new())];
        assert!(!others.iter().any(|other| PeerMessage::carries_transactions(&other.encode())));
        assert!(![&[][..], &transactions[..1], &[9, 9]].into_iter().any(PeerMessage::carries_transactions));
    }
}
