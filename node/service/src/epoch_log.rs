//! Committees of all epochs that this node has seen, for clients that follow the chain by certificates (validators.md §8).
//!
//! The state has the members of the running epoch only, and blocks may be deleted, so committees and the proofs of their changes are
//! kept in files of their own, for ever.

use corniche_engine::Committee;
use corniche_store::{DataDirectory, Reader, StoreError};
use corniche_types::{Epoch, EpochChange, Genesis, Height, LightMember, TrustPoint, header_hash, wire};
use std::{path::Path, sync::Arc};

/// Content of a file: the last block of the epoch before, and the members.
type Kept = (Height, Vec<LightMember>);

/// Keeps an epoch change that was verified, before there is a store. `before` has the members of the committee that ends, and gets
/// those of the next one.
///
/// # Errors
///
/// Those of the disk.
pub fn import(data: &DataDirectory, change: &EpochChange, before: &mut Vec<LightMember>) -> Result<(), StoreError> {
    let epoch = change.certificate.epoch;
    if let Some(members) = &change.members {
        before.clone_from(members);
    }
    data.write_epoch_change(epoch, &wire::encode(change))?;
    let kept: Kept = (change.certificate.height, before.clone());
    data.write_committee(epoch.next(), &wire::encode(&kept))
}

/// Members of the first committee, for [`import`].
pub fn first_members(genesis: &Genesis) -> Vec<LightMember> {
    members(&Committee::from_genesis(genesis))
}

/// Kept committees.
#[derive(Clone)]
pub struct EpochLog {
    directory: DataDirectory,
    reader: Reader,
    genesis: Arc<Genesis>,
}

impl EpochLog {
    pub fn new(data: &Path, reader: Reader, genesis: Arc<Genesis>) -> Self {
        Self { directory: DataDirectory::new(data), reader, genesis }
    }

    /// Keeps the committee of the running epoch, whose first block comes after the blocks in the store or is among them.
    pub fn keep(&self, committee: &Committee) {
        let epoch = committee.epoch();
        let Some(ended) = epoch.0.checked_sub(1).map(Epoch) else { return };
        if self.read(epoch).is_none() {
            self.keep_members(committee);
        }
        self.keep_changes(ended);
    }

    /// Keeps the changes at the ends of epochs up to this one. Blocks may be deleted, and a node from before this file format has
    /// changes in its blocks only.
    fn keep_changes(&self, ended: Epoch) {
        for epoch in (0..=ended.0).rev().map(Epoch).take_while(|epoch| self.directory.read_epoch_change(*epoch).is_none()) {
            self.keep_change(epoch);
        }
    }

    fn keep_members(&self, committee: &Committee) {
        let epoch = committee.epoch();
        let reason = match self.end_before(epoch) {
            Some(end) => {
                let kept: Kept = (end, members(committee));
                self.directory.write_committee(epoch, &wire::encode(&kept)).err().map(|error| error.to_string())
            }
            None => Some("the last block of the epoch before is not in the store".into()),
        };
        if let Some(reason) = reason {
            tracing::warn!(reason, epoch = epoch.0, "the committee is not kept; clients cannot follow it from this node");
        }
    }

    /// Keeps the change at the end of an epoch. An epoch begins once its end is certified, so all parts of the change are there.
    fn keep_change(&self, ended: Epoch) {
        let kept = self.build_change(ended).map(|change| self.directory.write_epoch_change(ended, &wire::encode(&change)));
        if let Some(Err(error)) = kept {
            tracing::warn!(%error, epoch = ended.0, "the end of an epoch is not kept; it must be read from its block");
        }
    }

    /// Reason to halt if the chain has another end of an epoch than the trusted one.
    pub fn contradiction(&self, trust: TrustPoint) -> Option<String> {
        // The store has no blocks below the snapshot with which the node began.
        let kept = self.change(trust.epoch).map(|change| change.header);
        let header = kept.or_else(|| self.reader.header(self.read(trust.epoch.next())?.0))?;
        let hash = header_hash(&header);
        trust.contradicts(trust.epoch, hash).then(|| {
            format!(
                "epoch {} ended in block {} with hash {hash}, which is not the one in [sync] trust: this is another chain",
                trust.epoch, header.number
            )
        })
    }

    /// Proof of the committee after an epoch. `None` if the epoch has not ended, or its end is not known here.
    pub fn change(&self, epoch: Epoch) -> Option<EpochChange> {
        let kept = self.directory.read_epoch_change(epoch).and_then(|bytes| wire::decode(&bytes).ok());
        kept.or_else(|| self.build_change(epoch))
    }

    fn build_change(&self, epoch: Epoch) -> Option<EpochChange> {
        let (end, next) = self.read(epoch.next())?;
        let before = self.members_of(epoch)?;
        // Also if it is the block of the snapshot with which this node began.
        let (header, (ordering, _)) = (self.reader.header(end)?, self.reader.ordering(end)?);
        let stored = self.reader.certificate(end).as_deref().cloned();
        let of_base = self.reader.base().map(|base| base.tail().certificate.clone());
        let certificate = [stored, of_base].into_iter().flatten().find(|certificate| certificate.height == end)?;
        let head = ordering.encode_hashed().into();
        Some(EpochChange { header, head, certificate, members: (before != next).then_some(next) })
    }

    /// Members of the committee of an epoch; `None` if this node does not have them.
    pub fn members_of(&self, epoch: Epoch) -> Option<Vec<LightMember>> {
        if epoch == Epoch(0) {
            return Some(members(&Committee::from_genesis(&self.genesis)));
        }
        Some(self.read(epoch)?.1)
    }

    fn read(&self, epoch: Epoch) -> Option<Kept> {
        wire::decode(&self.directory.read_committee(epoch)?).ok()
    }

    /// Last block of the epoch before, by a search in the store.
    fn end_before(&self, epoch: Epoch) -> Option<Height> {
        let head = self.reader.head().committed.block.height();
        let ordering = |height: u64| Some(self.reader.ordering(Height(height))?.0);
        // The first block may be the first of its epoch.
        let lowest = self.reader.first_block().0.saturating_sub(1);
        let (mut before, mut after) = (lowest, head.0 + 1);
        // The head first: nearly always it is the block.
        let mut middle = head.0;
        while before + 1 < after {
            if ordering(middle)?.epoch < epoch {
                before = middle
            } else {
                after = middle
            }
            middle = before + (after - before) / 2;
        }
        ordering(before)?.next.map(|_| Height(before))
    }
}

fn members(committee: &Committee) -> Vec<LightMember> {
    let key = |bytes: &[u8]| bytes.try_into().expect("invariant: every committee has valid keys");
    let members = committee.members();
    members.map(|(index, member)| LightMember { bls_key: key(&member.bls_key), votes: committee.votes(index) }).collect()
}
