//! The only place that turns peers' bytes into [`Checked`] messages. No result depends on state, so it runs on any thread.
//!
//! Checks signatures, quorums, sizes and structure. The engine checks epochs, numbers and leaders.

use crate::{
    config::Config,
    keys::{Signature, Signatures},
    message::{
        CheckpointCertificate, Context, EpochCertificate, EpochChange, EpochConfig, EpochNumber, Message, PreparedCertificate,
        Proposal, Sn, Statement, Votes,
    },
    rules,
};
use corniche_engine::{Committee, PeerFault, Verified, Verifier};
use corniche_types::{B256, Bytes, ValidatorIndex, wire};
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
/// Variants of [`Message`] that contain a batch, and at most one signature.
const BATCH_VARIANTS: [u8; 2] = [0, 13];

/// A peer's message after all stateless checks.
#[derive(Clone, Debug)]
pub struct Checked {
    pub message: Message,
    /// Digest of the proposal or of the EPOCH-CHANGE in the message; zero in others.
    pub digest: B256,
}

/// The stateless part of the engine.
pub struct MirVerifier {
    config: Config,
    committee: Committee,
    context: Context,
    signatures: Arc<dyn Signatures>,
}

type Checks = Result<(), String>;

fn ensure(holds: bool, error: impl FnOnce() -> String) -> Checks {
    if holds { Ok(()) } else { Err(error()) }
}

impl Verifier for MirVerifier {
    fn cost(&self, bytes: &[u8]) -> u64 {
        // The version byte precedes the variant.
        let is_batch = bytes.get(1).is_some_and(|variant| BATCH_VARIANTS.contains(variant));
        let signatures = if is_batch { 1 } else { bytes.len() / SIGNED_BYTES + 1 };
        READ_US + bytes.len() as u64 / READ_BYTES_PER_US + signatures as u64 * CHECK_US
    }

    fn verify(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Verified, PeerFault> {
        self.check(from, bytes).map(|checked| Verified(Arc::new(checked))).map_err(PeerFault)
    }
}

impl MirVerifier {
    pub fn new(config: Config, committee: Committee, signatures: Arc<dyn Signatures>) -> Self {
        let context = Context::new(&committee);
        Self { config, committee, context, signatures }
    }

    fn check(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Checked, String> {
        ensure(self.committee.member(from).is_some(), || format!("validator {from} is not in the committee"))?;
        let limit = self.config.max_message_bytes(self.committee.size());
        ensure(bytes.len() <= limit, || format!("message: expected at most {limit} bytes, got {}", bytes.len()))?;
        let message: Message = wire::decode(bytes).map_err(|error| error.to_string())?;
        let digest = self.check_message(from, &message)?;
        Ok(Checked { message, digest })
    }

    fn check_message(&self, from: ValidatorIndex, message: &Message) -> Result<B256, String> {
        match message {
            Message::PrePrepare { epoch, proposal, signature } => {
                check_numbers(*epoch, proposal.sn)?;
                ensure(proposal.author == from, || format!("PRE-PREPARE: author {}, got it from {from}", proposal.author))?;
                let digest = self.check_proposal(proposal)?;
                let statement = Statement::Prepare { epoch: *epoch, sn: proposal.sn, digest };
                self.check_signed(from, &statement, signature)?;
                return Ok(digest);
            }
            Message::Body(proposal) => return self.check_proposal(proposal),
            Message::EpochChange(change) => return self.check_change(change),
            Message::Prepare { epoch, sn, digest, signature } => {
                check_numbers(*epoch, *sn)?;
                self.check_signed(from, &Statement::Prepare { epoch: *epoch, sn: *sn, digest: *digest }, signature)?;
            }
            Message::Commit { epoch, sn, .. } => check_numbers(*epoch, *sn)?,
            Message::Checkpoint { sn, hash, signature } => {
                check_numbers(EpochNumber(0), *sn)?;
                self.check_signed(from, &Statement::Checkpoint { sn: *sn, hash: *hash }, signature)?;
            }
            Message::StableCheckpoint(checkpoint) => self.check_checkpoint(checkpoint)?,
            Message::NewEpoch(offer) => {
                self.check_config(&offer.config)?;
                let primary = rules::primary(offer.config.epoch, &self.committee);
                ensure(primary == from, || format!("NEW-EPOCH: expected the primary {primary}, got {from}"))?;
                let senders = || offer.changes.iter().map(|(sender, _)| *sender);
                ensure(offer.changes.windows(2).all(|pair| pair[0].0 < pair[1].0), || "NEW-EPOCH: not ascending".into())?;
                let weight = self.committee.weigh(senders());
                ensure(offer.changes.is_empty() || weight >= self.committee.quorum(), || {
                    format!("NEW-EPOCH: EPOCH-CHANGEs with {weight} votes")
                })?;
            }
            Message::FetchChanges { epoch, .. } => check_numbers(*epoch, Sn(0))?,
            Message::Echo { epoch, config, signature } => {
                check_numbers(*epoch, Sn(0))?;
                self.check_signed(from, &Statement::Echo { epoch: *epoch, config: *config }, signature)?;
            }
            Message::Epoch(certificate) => self.check_certificate(certificate)?,
            Message::Status(status) => {
                check_numbers(
                    status.epoch.max(status.wants).max(status.seeks.unwrap_or_default()),
                    status.delivered.max(status.stable),
                )?;
            }
            Message::Committed(committed) => {
                ensure(committed.iter().all(|(sn, _)| sn.0 < MAX_NUMBER), || "number out of range".into())?;
            }
            Message::FetchBody { sn, .. } => check_numbers(EpochNumber(0), *sn)?,
        }
        Ok(B256::ZERO)
    }

    fn check_proposal(&self, proposal: &Proposal) -> Result<B256, String> {
        check_numbers(EpochNumber(0), proposal.sn)?;
        ensure(self.committee.member(proposal.author).is_some(), || "batch: the author is not a member".into())?;
        let (limit, bytes) = (self.config.batch_bytes as usize, proposal.batch.len());
        ensure(bytes <= limit, || format!("batch: expected at most {limit} bytes, got {bytes}"))?;
        Ok(self.context.proposal(proposal))
    }

    fn check_signed(&self, signer: ValidatorIndex, statement: &Statement, signature: &Signature) -> Checks {
        let is_signed = self.context.verify(signer, statement, signature, &*self.signatures);
        ensure(is_signed, || format!("bad signature of {signer} on {statement:?}"))
    }

    /// Votes of distinct members, ascending, with a quorum.
    fn check_votes(&self, votes: &Votes, statement: &Statement) -> Checks {
        ensure(votes.windows(2).all(|pair| pair[0].0 < pair[1].0), || "votes: not ascending".into())?;
        let weight = self.committee.weigh(votes.iter().map(|(member, _)| *member));
        let quorum = self.committee.quorum();
        ensure(weight >= quorum, || format!("votes: expected {quorum}, got {weight}"))?;
        votes.iter().try_for_each(|(member, signature)| self.check_signed(*member, statement, signature))
    }

    fn check_config(&self, config: &EpochConfig) -> Checks {
        check_numbers(config.epoch, config.last.unwrap_or(config.first))?;
        ensure(config.epoch > EpochNumber(0), || "configuration: epoch 0 has none".into())?;
        ensure(config.listed.len() as u64 <= self.config.window, || "configuration: too many batches".into())?;
        rules::check_structure(config, &self.committee, self.config.epoch_length)
    }

    fn check_certificate(&self, certificate: &EpochCertificate) -> Checks {
        self.check_config(&certificate.config)?;
        let (epoch, config) = (certificate.config.epoch, self.context.config(&certificate.config));
        self.check_votes(&certificate.votes, &Statement::Echo { epoch, config })
    }

    fn check_checkpoint(&self, checkpoint: &CheckpointCertificate) -> Checks {
        let CheckpointCertificate { sn, hash, ref votes } = *checkpoint;
        check_numbers(EpochNumber(0), sn)?;
        self.check_votes(votes, &Statement::Checkpoint { sn, hash })
    }

    fn check_prepared(&self, certificate: &PreparedCertificate) -> Checks {
        let PreparedCertificate { epoch, sn, digest, ref votes } = *certificate;
        check_numbers(epoch, sn)?;
        self.check_votes(votes, &Statement::Prepare { epoch, sn, digest })
    }

    fn check_change(&self, change: &EpochChange) -> Result<B256, String> {
        check_numbers(change.target, Sn(0))?;
        ensure(self.committee.member(change.sender).is_some(), || "EPOCH-CHANGE: the sender is not a member".into())?;
        let epoch = change.certificate.as_ref().map(|certificate| certificate.config.epoch).unwrap_or_default();
        ensure(epoch < change.target, || "EPOCH-CHANGE: not to a later epoch".into())?;
        change.certificate.as_ref().map_or(Ok(()), |certificate| self.check_certificate(certificate))?;
        change.checkpoint.as_ref().map_or(Ok(()), |checkpoint| self.check_checkpoint(checkpoint))?;
        let prepared = &change.prepared;
        ensure(prepared.windows(2).all(|pair| pair[0].sn < pair[1].sn), || "EPOCH-CHANGE: not ascending".into())?;
        let (low, high) = (change.stable(), change.stable().plus(self.config.window));
        ensure(prepared.iter().all(|it| low < it.sn && it.sn <= high && it.epoch < change.target), || {
            format!("EPOCH-CHANGE: a batch is not within {low}..{high}, or of a later epoch")
        })?;
        prepared.iter().try_for_each(|certificate| self.check_prepared(certificate))?;
        let digest = self.context.change(change);
        self.check_signed(change.sender, &Statement::EpochChange(digest), &change.signature)?;
        Ok(digest)
    }
}

fn check_numbers(epoch: EpochNumber, sn: Sn) -> Checks {
    ensure(epoch.0 < MAX_NUMBER && sn.0 < MAX_NUMBER, || "number out of range".into())
}
