//! What peers send, checked on threads of its own before the pipeline sees it.

use super::{
    mirror::Mirror,
    shared::{Shared, count},
};
use corniche_engine::Verifier;
use corniche_network::{Fault, NetworkHandle, PeerKey};
use corniche_pipeline::{Input, PeerMessage};
use corniche_types::{Bytes, ValidatorIndex};
use std::{
    sync::{Arc, mpsc},
    thread,
};

/// A message as it came from the network.
type Unchecked = (PeerKey, Option<ValidatorIndex>, Bytes);

/// Checks peers' messages on a few threads; a peer's messages keep their order because it stays with one thread. Everybody
/// outside the committee shares one thread of its own, so that nobody there can crowd out a validator.
pub struct Verifiers {
    guests: mpsc::SyncSender<Unchecked>,
    validators: Vec<mpsc::SyncSender<Unchecked>>,
}

impl Verifiers {
    pub fn spawn(
        threads: usize,
        chain_id: u64,
        verifier: Option<Arc<dyn Verifier>>,
        shared: &Arc<Shared>,
        network: &NetworkHandle,
    ) -> Self {
        let queue = |name: String, capacity: usize| {
            let (sender, receiver) = mpsc::sync_channel::<Unchecked>(capacity);
            let (shared, network, verifier) = (shared.clone(), network.clone(), verifier.clone());
            let body = move || {
                while let Ok((peer, validator, bytes)) = receiver.recv() {
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
            sender
        };
        Self {
            guests: queue("verify-guests".into(), 64),
            validators: (0..threads.max(1)).map(|number| queue(format!("verify-{number}"), 1_024)).collect(),
        }
    }

    /// Queues one message; a full queue drops it.
    pub fn check(&self, peer: PeerKey, validator: Option<ValidatorIndex>, bytes: Bytes) {
        let queue = match validator {
            Some(index) => &self.validators[index.as_usize() % self.validators.len()],
            None => &self.guests,
        };
        let _ = queue.try_send((peer, validator, bytes));
    }
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
