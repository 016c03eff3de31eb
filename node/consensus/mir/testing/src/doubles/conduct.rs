//! Checks everything that a correct validator sends against the rules of conduct (3.8 of the specification).

use corniche_engine::Committee;
use corniche_mir::message::{Context, EpochChange, EpochNumber, Message, Sn};
use corniche_testkit::MessageChecker;
use corniche_types::{B256, Bytes, wire};
use std::collections::{BTreeMap, BTreeSet};

/// Remembers everything that each validator has sent.
pub struct ConductChecker {
    context: Context,
    validators: BTreeMap<usize, SentMessages>,
}

#[derive(Default)]
struct SentMessages {
    prepares: BTreeMap<(Sn, EpochNumber), B256>,
    commits: BTreeMap<(Sn, EpochNumber), B256>,
    checkpoints: BTreeMap<Sn, B256>,
    echoed: Option<(EpochNumber, B256)>,
    /// EPOCH-CHANGEs: a primary repeats its own for others.
    changes: BTreeSet<B256>,
    /// The highest epoch that it left for.
    left: EpochNumber,
}

impl ConductChecker {
    pub fn new(committee: &Committee) -> Self {
        Self { context: Context::new(committee), validators: BTreeMap::new() }
    }
}

impl MessageChecker for ConductChecker {
    fn check(&mut self, from: usize, message: &Bytes) -> Result<(), String> {
        let message = wire::decode(message).map_err(|error| error.to_string())?;
        let sent = self.validators.entry(from).or_default();
        match message {
            Message::PrePrepare { epoch, proposal, .. } => {
                sent.check_prepare(epoch, proposal.sn, self.context.proposal(&proposal))
            }
            Message::Prepare { epoch, sn, digest, .. } => sent.check_prepare(epoch, sn, digest),
            Message::Commit { epoch, sn, digest } => sent.check_commit(epoch, sn, digest),
            Message::Checkpoint { sn, hash, .. } => {
                let first = *sent.checkpoints.entry(sn).or_insert(hash);
                ensure(first == hash, || format!("K1: two checkpoints of {sn}"))
            }
            Message::Echo { epoch, config, .. } => sent.check_echo(epoch, config),
            // A primary relays those of others.
            Message::EpochChange(change) if change.sender.as_usize() == from => {
                if sent.changes.insert(self.context.change(&change)) { sent.check_change(&change) } else { Ok(()) }
            }
            // X2: it lost its disk. The engine's own rules decide what it may leave out.
            Message::Status(status) if status.seeks.is_some() => {
                sent.commits.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl SentMessages {
    /// Checks X1 and X2.
    fn check_prepare(&mut self, epoch: EpochNumber, sn: Sn, digest: B256) -> Result<(), String> {
        let is_new = !self.prepares.contains_key(&(sn, epoch));
        let first = *self.prepares.entry((sn, epoch)).or_insert(digest);
        ensure(first == digest, || format!("X1: two batches of {sn} in epoch {epoch}"))?;
        ensure(!is_new || epoch >= self.left, || format!("X2: PREPARE of {sn} in epoch {epoch} after leaving it"))
    }

    /// Checks X2 and X3.
    fn check_commit(&mut self, epoch: EpochNumber, sn: Sn, digest: B256) -> Result<(), String> {
        let is_new = self.commits.insert((sn, epoch), digest).is_none();
        ensure(self.prepares.get(&(sn, epoch)) == Some(&digest), || format!("X3: COMMIT of {sn} without its PREPARE"))?;
        ensure(!is_new || epoch >= self.left, || format!("X2: COMMIT of {sn} in epoch {epoch} after leaving it"))
    }

    /// Checks X7.
    fn check_echo(&mut self, epoch: EpochNumber, config: B256) -> Result<(), String> {
        let before = *self.echoed.get_or_insert((epoch, config));
        self.echoed = Some((epoch, config));
        ensure(before.0 < epoch || before == (epoch, config), || format!("X7: two votes in epoch {epoch}, or an old one"))
    }

    /// Checks X2: the certificates of all COMMITs above the checkpoint are there, or newer ones.
    fn check_change(&mut self, change: &EpochChange) -> Result<(), String> {
        ensure(change.target >= self.left, || format!("U1: EPOCH-CHANGE for {} after {}", change.target, self.left))?;
        self.left = change.target;
        let open = self.commits.range((change.stable().next(), EpochNumber(0))..);
        for ((sn, epoch), digest) in open.filter(|((_, epoch), _)| *epoch < change.target) {
            let listed = change.prepared.iter().find(|certificate| certificate.sn == *sn);
            let is_newer = listed.is_some_and(|it| it.epoch > *epoch || it.epoch == *epoch && it.digest == *digest);
            ensure(is_newer, || format!("X2: EPOCH-CHANGE for {} without number {sn}", change.target))?;
        }
        Ok(())
    }
}

fn ensure(holds: bool, error: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(error()) }
}
