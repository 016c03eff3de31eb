//! The disk of a node: the safety log, the block log, certificates and the resume point.

use corniche_crypto::evidence::Evidence;
use corniche_engine::{Resume, Ticket};
use corniche_pipeline::{BlockSource, FollowedBlock, Write};
use corniche_state::CommittedBlock;
use corniche_types::{B256, Bytes, Certificate, Header, Height, wire};
use std::{collections::BTreeMap, sync::Arc};

/// Contents of a node's disk. The default is empty.
#[derive(Default)]
pub struct Disk {
    /// True until the first record if the disk was there from the start: the validator has signed nothing in its life. A node
    /// has the file `UNSIGNED` instead.
    is_unsigned: bool,
    records: BTreeMap<Ticket, Bytes>,
    /// Blocks from height 1.
    blocks: Vec<Arc<CommittedBlock>>,
    certificates: BTreeMap<Height, Certificate>,
    progress: Option<Resume>,
    evidence: Vec<Evidence>,
    diverged: bool,
}

/// Maximum number of new records between two removals of unused ones.
const RECORDS_BETWEEN_CLEANUPS: usize = 50_000;

/// Stores the records of all nodes' safety logs, each once. Every validator records every accepted proposal, and fifty
/// copies would need gigabytes.
#[derive(Default)]
pub struct Records {
    by_hash: BTreeMap<B256, Bytes>,
    cleanup_at: usize,
}

impl Records {
    /// Returns the shared copy of these bytes.
    pub fn share(&mut self, record: Bytes) -> Bytes {
        if self.by_hash.len() >= self.cleanup_at {
            self.by_hash.retain(|_, record| !record.0.is_unique());
            self.cleanup_at = self.by_hash.len() + RECORDS_BETWEEN_CLEANUPS;
        }
        self.by_hash.entry(corniche_crypto::digest(&record)).or_insert(record).clone()
    }
}

/// Approximate size of a write.
pub fn bytes_of(write: &Write) -> usize {
    const FRAME: usize = 32;
    FRAME
        + match write {
            Write::Record(_, record) => record.len(),
            // Mostly transaction bodies; receipts and state changes take about as much again as a body's header.
            Write::Block(block) => {
                block.block.ordered.iter().map(|transaction| transaction.raw.len() + 256).sum::<usize>() + 1024
            }
            Write::Certificate(certificate) => wire::encode(certificate).len(),
            Write::Progress(resume) => resume.checkpoint.len() + 8,
            Write::Evidence(evidence) => wire::encode(evidence).len(),
            Write::ReleaseBelow(_) | Write::ReadSafetyLog | Write::Halt { .. } => 0,
        }
}

impl Disk {
    /// Disk of a validator with new keys.
    pub fn unsigned() -> Self {
        Self { is_unsigned: true, ..Self::default() }
    }

    pub fn is_unsigned(&self) -> bool {
        self.is_unsigned
    }

    pub fn apply(&mut self, write: Write) {
        match write {
            Write::Record(ticket, record) => {
                self.is_unsigned = false;
                self.records.insert(ticket, record);
            }
            Write::ReleaseBelow(ticket) => self.records = self.records.split_off(&ticket),
            Write::Block(block) => {
                assert_eq!(block.block.height().0, self.blocks.len() as u64 + 1, "invariant: blocks are appended without gaps");
                self.blocks.push(block);
            }
            Write::Certificate(certificate) => drop(self.certificates.insert(certificate.height, certificate)),
            Write::Progress(resume) => self.progress = Some(resume),
            Write::Evidence(evidence) => self.evidence.push(*evidence),
            Write::Halt { evidence } => self.diverged |= evidence.is_some(),
            Write::ReadSafetyLog => {}
        }
    }

    pub fn records(&self) -> Vec<(Ticket, Bytes)> {
        self.records.iter().map(|(ticket, record)| (*ticket, record.clone())).collect()
    }

    pub fn evidence(&self) -> Vec<Evidence> {
        self.evidence.clone()
    }

    /// Number of records that the engine has not released.
    pub fn record_count(&self) -> usize {
        self.records.len()
    }

    pub fn blocks(&self) -> &[Arc<CommittedBlock>] {
        &self.blocks
    }

    pub fn height(&self) -> Height {
        Height(self.blocks.len() as u64)
    }

    pub fn block(&self, height: Height) -> Option<&Arc<CommittedBlock>> {
        self.blocks.get(usize::try_from(height.0.checked_sub(1)?).ok()?)
    }

    pub fn newest_certificate(&self) -> Option<&Certificate> {
        self.certificates.values().next_back()
    }

    /// Resume point of ordering: after the last block, or after later empty commits.
    pub fn resume(&self) -> Resume {
        let stored = self.blocks.last().map(|block| block.resume.clone()).unwrap_or_default();
        self.progress.clone().filter(|progress| progress.place() > stored.place()).unwrap_or(stored)
    }

    /// True if the node found that a quorum executed differently. It will not start again.
    pub fn diverged(&self) -> bool {
        self.diverged
    }
}

impl BlockSource for Disk {
    fn block(&self, height: Height) -> Option<FollowedBlock> {
        let committed = Self::block(self, height)?;
        Some(FollowedBlock { block: committed.block.clone(), resume: committed.resume.clone() })
    }

    fn header(&self, height: Height) -> Option<Header> {
        Some(Self::block(self, height)?.block.header.clone())
    }

    fn certificate_from(&self, height: Height) -> Option<Certificate> {
        self.certificates.range(height..).next().map(|(_, certificate)| certificate.clone())
    }
}
