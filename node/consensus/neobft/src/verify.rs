//! The only place that turns peers' bytes into [`Checked`] messages. No result depends on state, so it runs on any thread.
//!
//! Checks signatures, quorums and sizes. The engine checks views and slots, and the certificates of packets, because the keys of
//! sequencers arrive while it runs.

use crate::{
    config::Config,
    keys::{Signature, Signatures},
    message::{
        CheckpointCertificate, Context, DropProof, Entry, GapEvidence, GapVote, Message, Statement, Value, View,
        ViewCertificate, ViewChange, Votes,
    },
    rules,
};
use corniche_aom_receiver::ConfirmVote;
use corniche_engine::{Committee, PeerFault, Verified, Verifier, batch_digest};
use corniche_types::{Bytes, ValidatorIndex, wire};
use std::sync::Arc;

/// Higher numbers are rejected, so that arithmetic cannot overflow.
const MAX_NUMBER: u64 = 1 << 48;
/// Time to check an ed25519 signature, µs.
const CHECK_US: u64 = 50;
const READ_US: u64 = 5;
/// Bytes decoded and hashed per µs.
const READ_BYTES_PER_US: u64 = 512;
/// Bytes of a signature with its signer.
const SIGNED_BYTES: usize = 66;

/// A peer's message after all stateless checks.
#[derive(Clone, Debug)]
pub struct Checked(pub Message);

/// The stateless part of the engine.
pub struct NeobftVerifier {
    config: Config,
    committee: Committee,
    context: Context,
    signatures: Arc<dyn Signatures>,
}

type Checks = Result<(), String>;

fn ensure(holds: bool, error: impl FnOnce() -> String) -> Checks {
    if holds { Ok(()) } else { Err(error()) }
}

impl Verifier for NeobftVerifier {
    fn cost(&self, bytes: &[u8]) -> u64 {
        let signed = bytes.len() / SIGNED_BYTES + 1;
        READ_US + bytes.len() as u64 / READ_BYTES_PER_US + signed as u64 * CHECK_US
    }

    fn verify(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Verified, PeerFault> {
        self.check(from, bytes).map(|message| Verified(Arc::new(Checked(message)))).map_err(PeerFault)
    }
}

impl NeobftVerifier {
    pub fn new(config: Config, committee: Committee, signatures: Arc<dyn Signatures>) -> Self {
        let context = Context::new(&committee, config.group);
        Self { config, committee, context, signatures }
    }

    fn check(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Message, String> {
        ensure(self.committee.member(from).is_some(), || format!("validator {from} is not in the committee"))?;
        let limit = self.config.max_message_bytes(self.committee.size());
        ensure(bytes.len() <= limit, || format!("message: expected at most {limit} bytes, got {}", bytes.len()))?;
        let message: Message = wire::decode(bytes).map_err(|error| error.to_string())?;
        self.check_message(from, &message)?;
        Ok(message)
    }

    fn check_message(&self, from: ValidatorIndex, message: &Message) -> Checks {
        match message {
            Message::Reply { view, slot, .. } => check_numbers(*view, slot.0),
            Message::Sync { view, slot, drops, .. } => {
                check_numbers(*view, slot.0)?;
                let limit = 2 * self.config.sync_slots;
                ensure(drops.len() as u64 <= limit, || format!("SYNC: expected at most {limit} drops, got {}", drops.len()))?;
                drops.iter().try_for_each(|proof| self.check_drop(proof))
            }
            Message::Query { from } => check_numbers(View::default(), from.0),
            Message::QueryReply { view, from, entries, checkpoint } => {
                check_numbers(*view, from.0)?;
                self.check_entries(entries)?;
                checkpoint.as_ref().map_or(Ok(()), |certificate| self.check_checkpoint(certificate))
            }
            Message::GapFind { view, slot } => {
                check_numbers(*view, slot.0)?;
                self.check_leader(from, *view)
            }
            Message::GapReceive { view, slot, .. } => check_numbers(*view, slot.0),
            Message::GapDrop { view, slot, signature } => {
                check_numbers(*view, slot.0)?;
                self.check_signed(from, &Statement::GapDrop { view: *view, slot: *slot }, signature)
            }
            Message::GapDecision { view, slot, evidence, signature } => {
                check_numbers(*view, slot.0)?;
                self.check_leader(from, *view)?;
                let value = match evidence {
                    GapEvidence::Receive(certificate) => self.context.value(certificate),
                    GapEvidence::Drop(votes) => {
                        // Pitfall 5: every GAP-DROP names this view.
                        self.check_votes(votes, |_| Statement::GapDrop { view: *view, slot: *slot })?;
                        Value::Drop
                    }
                };
                self.check_signed(from, &Statement::GapDecision { view: *view, slot: *slot, value }, signature)
            }
            Message::GapPrepare(GapVote { view, slot, value, signature }) => {
                check_numbers(*view, slot.0)?;
                // G7, pitfall 1: the leader's vote is its decision.
                ensure(from != rules::leader(*view, &self.committee), || "G7: the leader prepares nothing".into())?;
                self.check_signed(from, &Statement::GapPrepare { view: *view, slot: *slot, value: *value }, signature)
            }
            Message::GapCommit(GapVote { view, slot, value, signature }) => {
                check_numbers(*view, slot.0)?;
                self.check_signed(from, &Statement::GapCommit { view: *view, slot: *slot, value: *value }, signature)
            }
            Message::Suspect { view } => check_numbers(*view, 0),
            Message::ViewChange(change) => {
                let is_leader = from == rules::leader(change.target, &self.committee);
                ensure(change.sender == from || is_leader, || "VIEW-CHANGE: from another member".into())?;
                self.check_view_change(change)
            }
            Message::ViewStart { view, changes } => {
                check_numbers(*view, 0)?;
                self.check_leader(from, *view)?;
                // The VIEW-CHANGEs were checked when they came.
                self.check_quorum(changes)
            }
            Message::ViewConfirm { confirmed, signature } => {
                check_numbers(confirmed.view, confirmed.slot.0)?;
                self.check_signed(from, &Statement::ViewConfirm(*confirmed), signature)
            }
            Message::Checkpoint { slot, hash, signature } => {
                check_numbers(View::default(), slot.0)?;
                self.check_signed(from, &Statement::Checkpoint { slot: *slot, hash: *hash }, signature)
            }
            Message::Progress { view, left, slot, certificate, checkpoint, .. } => {
                check_numbers(*view, slot.0)?;
                check_numbers(left.unwrap_or_default(), 0)?;
                certificate.as_ref().map_or(Ok(()), |certificate| self.check_view_certificate(certificate))?;
                checkpoint.as_ref().map_or(Ok(()), |certificate| self.check_checkpoint(certificate))
            }
            Message::Body { body, batch } => {
                ensure(batch.len() == body.bytes as usize && batch_digest(batch) == body.digest, || {
                    "body: wrong digest".into()
                })?;
                ensure(body.bytes <= self.config.batch_bytes, || format!("body: got {} bytes", body.bytes))
            }
            Message::Holding { body, signature } => self.check_signed(from, &Statement::Holding(*body), signature),
            Message::FetchBody { .. } => Ok(()),
            Message::Copy(request) => {
                let limit = self.config.payload_bytes as usize;
                ensure(request.len() <= limit, || format!("request: expected at most {limit} bytes, got {}", request.len()))
            }
            Message::Confirm { epoch, vote, .. } => {
                ensure(vote.member == from, || "CONFIRM: the sender is another member".into())?;
                ensure(!vote.digests.is_empty() && vote.from > 0 && vote.from < MAX_NUMBER, || "CONFIRM: malformed".into())?;
                ensure(self.is_confirm_signed(*epoch, vote), || "CONFIRM: bad signature".into())
            }
        }
    }

    /// Checks the signature of a CONFIRM.
    pub fn is_confirm_signed(&self, epoch: u32, vote: &ConfirmVote) -> bool {
        let statement = self.context.confirm(epoch, vote.from, &vote.digests);
        self.context.verify(vote.member, &statement, &vote.signature, &*self.signatures)
    }

    fn check_leader(&self, from: ValidatorIndex, view: View) -> Checks {
        let leader = rules::leader(view, &self.committee);
        ensure(from == leader, || format!("{view}: expected the leader {leader}, got {from}"))
    }

    fn check_signed(&self, signer: ValidatorIndex, statement: &Statement, signature: &Signature) -> Checks {
        let is_signed = self.context.verify(signer, statement, signature, &*self.signatures);
        ensure(is_signed, || format!("bad signature of {signer} on {statement:?}"))
    }

    /// Votes of distinct members, ascending, with a quorum.
    fn check_votes(&self, votes: &Votes, statement: impl Fn(ValidatorIndex) -> Statement) -> Checks {
        self.check_quorum(votes)?;
        votes.iter().try_for_each(|(member, signature)| self.check_signed(*member, &statement(*member), signature))
    }

    fn check_quorum(&self, votes: &Votes) -> Checks {
        ensure(votes.windows(2).all(|pair| pair[0].0 < pair[1].0), || "votes: not ascending".into())?;
        let weight = self.committee.weigh(votes.iter().map(|(member, _)| *member));
        let quorum = self.committee.quorum();
        ensure(weight >= quorum, || format!("votes: expected {quorum}, got {weight}"))
    }

    fn check_drop(&self, proof: &DropProof) -> Checks {
        let DropProof { view, slot, committed, ref votes } = *proof;
        check_numbers(view, slot.0)?;
        let value = Value::Drop;
        let leader = rules::leader(view, &self.committee);
        ensure(committed || votes.iter().any(|(member, _)| *member == leader), || "drop: no decision of the leader".into())?;
        self.check_votes(votes, |member| match committed {
            true => Statement::GapCommit { view, slot, value },
            false if member == leader => Statement::GapDecision { view, slot, value },
            false => Statement::GapPrepare { view, slot, value },
        })
    }

    fn check_entries(&self, entries: &[Entry]) -> Checks {
        entries.iter().try_for_each(|entry| match entry {
            Entry::NoOp(proof) => self.check_drop(proof),
            Entry::Request(certificate) => ensure(certificate.seq < MAX_NUMBER, || "packet: number out of range".into()),
        })
    }

    fn check_checkpoint(&self, certificate: &CheckpointCertificate) -> Checks {
        let CheckpointCertificate { slot, hash, ref votes } = *certificate;
        check_numbers(View::default(), slot.0)?;
        self.check_votes(votes, |_| Statement::Checkpoint { slot, hash })
    }

    fn check_view_certificate(&self, certificate: &ViewCertificate) -> Checks {
        let confirmed = certificate.confirmed;
        check_numbers(confirmed.view, confirmed.slot.0)?;
        ensure(confirmed.base <= confirmed.slot, || "view certificate: the epoch begins after the view".into())?;
        self.check_votes(&certificate.votes, |_| Statement::ViewConfirm(confirmed))
    }

    fn check_view_change(&self, change: &ViewChange) -> Checks {
        check_numbers(change.target, change.after.0)?;
        ensure(rules::last_view(change) < change.target, || "VIEW-CHANGE: not a later view".into())?;
        let (limit, entries, prepared) = (self.config.max_log(), change.entries.len(), change.prepared.len());
        ensure(entries.max(prepared) as u64 <= limit, || {
            format!("VIEW-CHANGE: expected at most {limit} slots, got {entries} and {prepared} prepared drops")
        })?;
        change.certificate.as_ref().map_or(Ok(()), |certificate| self.check_view_certificate(certificate))?;
        change.checkpoint.as_ref().map_or(Ok(()), |certificate| self.check_checkpoint(certificate))?;
        self.check_entries(&change.entries)?;
        change.prepared.iter().try_for_each(|proof| self.check_drop(proof))?;
        self.check_signed(change.sender, &self.context.view_change(change), &change.signature)
    }
}

fn check_numbers(view: View, number: u64) -> Checks {
    ensure(view.epoch < u32::MAX && view.leader < u32::MAX && number < MAX_NUMBER, || "number out of range".into())
}

/// Checks a certificate that a configuration service gets with `AskSequencer` (E2). Returns the epoch that it starts.
pub fn check_epoch_certificate(verifier: &NeobftVerifier, certificate: &Bytes) -> Option<u32> {
    let certificate: ViewCertificate = wire::decode(certificate).ok()?;
    verifier.check_view_certificate(&certificate).is_ok().then_some(certificate.confirmed.view.epoch)
}
