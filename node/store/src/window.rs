//! Newest blocks in memory: at least those above the checkpoint, which are in no index yet.

use crate::Options;
use crate::block::{Recent, StoredBlock};
use crate::checkpoint::Meta;
use crate::log::Position;
use corniche_types::{B256, Certificate, Height};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Newest part of the chain; all of it is durable.
pub(crate) struct Window {
    pub(crate) head: Arc<StoredBlock>,
    /// Consecutive heights that end at the head; may be empty only while the head is in the checkpoint.
    blocks: VecDeque<Recent>,
    pub(crate) bytes: usize,
    pub(crate) by_hash: HashMap<B256, Height>,
    pub(crate) by_transaction: HashMap<B256, (Height, u32)>,
    /// Certificates that are not in the index yet.
    pub(crate) certificates: BTreeMap<Height, (Position, Arc<Certificate>)>,
    pub(crate) last_certificate: Option<Arc<Certificate>>,
    /// State of the checkpoint.
    pub(crate) meta: Meta,
}

impl Window {
    pub(crate) fn new(head: Arc<StoredBlock>, meta: Meta, last_certificate: Option<Arc<Certificate>>) -> Self {
        Self {
            head,
            blocks: VecDeque::new(),
            bytes: 0,
            by_hash: HashMap::new(),
            by_transaction: HashMap::new(),
            certificates: BTreeMap::new(),
            last_certificate,
            meta,
        }
    }

    pub(crate) fn push(&mut self, recent: Recent) {
        let height = recent.block.height();
        self.by_hash.insert(recent.block.hash, height);
        for (index, receipt) in (0u32..).zip(recent.block.receipts()) {
            self.by_transaction.insert(receipt.transaction_hash, (height, index));
        }
        self.bytes += recent.bytes();
        self.head = recent.block.clone();
        self.blocks.push_back(recent);
    }

    pub(crate) fn certify(&mut self, at: Position, certificate: Arc<Certificate>) {
        let height = certificate.height;
        if self.last_certificate.as_ref().is_none_or(|last| last.height <= height) {
            self.last_certificate = Some(certificate.clone());
        }
        self.certificates.insert(height, (at, certificate));
    }

    /// Reverts to `head`, an earlier block of the chain.
    pub(crate) fn revert_to(&mut self, end: Position, head: Arc<StoredBlock>, meta: Meta, certified: Option<Arc<Certificate>>) {
        while let Some(gone) = self.blocks.pop_back_if(|newest| newest.block.height() > head.height()) {
            self.bytes -= gone.bytes();
            self.by_hash.remove(&gone.block.hash);
            for receipt in gone.block.receipts() {
                self.by_transaction.remove(&receipt.transaction_hash);
            }
        }
        self.certificates.retain(|height, (at, _)| *height <= head.height() && *at < end);
        let newest = self.certificates.last_key_value().map(|(_, (_, certificate))| certificate.clone());
        self.last_certificate = newest.or(certified);
        (self.head, self.meta) = (head, meta);
    }

    /// Removes the oldest blocks beyond the limits. Blocks above the checkpoint stay, unless `evict_all`.
    pub(crate) fn evict(&mut self, options: &Options, evict_all: bool) {
        let beyond = |window: &Self| window.blocks.len() > options.window_blocks || window.bytes > options.window_bytes;
        while beyond(self) {
            let Some(oldest) = self.blocks.front() else { return };
            if oldest.block.height() > self.meta.height && !evict_all {
                return;
            }
            self.bytes -= oldest.bytes();
            self.by_hash.remove(&oldest.block.hash);
            for receipt in oldest.block.receipts() {
                self.by_transaction.remove(&receipt.transaction_hash);
            }
            self.blocks.pop_front();
        }
    }

    pub(crate) fn get(&self, height: Height) -> Option<&Recent> {
        let first = self.blocks.front()?.block.height();
        self.blocks.get(usize::try_from(height.0.checked_sub(first.0)?).ok()?)
    }

    /// Height to which the checkpoint should move.
    pub(crate) fn checkpoint_target(&self, options: &Options) -> Height {
        let lag = if self.bytes > options.window_bytes { 0 } else { options.checkpoint_lag };
        Height(self.head.height().0.saturating_sub(lag))
    }

    pub(crate) fn checkpoint_is_due(&self, options: &Options) -> bool {
        self.checkpoint_target(options).0.saturating_sub(self.meta.height.0) >= options.checkpoint_blocks.max(1)
    }
}
