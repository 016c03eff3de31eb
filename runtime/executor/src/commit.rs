//! Assembles the block's output: receipts in order, changes by key, both roots. Everything is final at this point, so
//! the parts are independent. The threads that executed the block compute them in parallel.

use crate::core::{BlockTotals, Core};
use crate::roots::{self, Piece};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError};
use crate::{BlockOutput, Candidate};
use corniche_state::Changes;
use corniche_types::{Bloom, Receipt};
use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(crate) struct OutputBuilder<'b> {
    candidates: &'b [Candidate],
    totals: OnceLock<BlockTotals>,
    /// Index of the next part to compute.
    next: AtomicUsize,
    partial: Mutex<PartialOutput>,
}

#[derive(Default)]
struct PartialOutput {
    changes: Changes,
    /// Keyed by the index of the piece.
    receipts: BTreeMap<usize, (Piece, Vec<Receipt>)>,
    transactions: BTreeMap<usize, Piece>,
    logs_bloom: Bloom,
}

impl<'b> OutputBuilder<'b> {
    pub fn new(candidates: &'b [Candidate]) -> Self {
        Self { candidates, totals: OnceLock::new(), next: AtomicUsize::new(0), partial: Mutex::default() }
    }

    /// Computes parts until all have been started. Requires that everything is final and no transaction hit a fault.
    pub fn work(&self, core: &Core<'_>) {
        let totals = self.totals.get_or_init(|| core.take_totals());
        let pieces = roots::pieces(totals.executed.len());
        while let index = self.next.fetch_add(1, Ordering::Relaxed)
            && index < 2 + 2 * pieces
        {
            // Largest parts first.
            match index {
                0 => {
                    let written = core.storage.take_written();
                    self.partial().changes.storage = written;
                }
                1 => {
                    let written = core.accounts.take_written();
                    self.partial().changes.accounts = written;
                }
                _ if index < 2 + pieces => self.receipts(core, totals, index - 2),
                _ => self.transactions(totals, index - 2 - pieces),
            }
        }
    }

    /// Returns the output, once all threads have returned from [`work`](Self::work) (D6: only the last incarnations
    /// count).
    pub fn output(self) -> BlockOutput {
        let BlockTotals { gas_used, executed, skipped, code, .. } = self.totals.into_inner().unwrap_or_default();
        let mut partial = self.partial.into_inner().unwrap_or_else(PoisonError::into_inner);
        partial.changes.code = code;
        let mut receipts = Vec::with_capacity(executed.len());
        let mut receipt_pieces = Vec::with_capacity(partial.receipts.len());
        for (piece, items) in partial.receipts.into_values() {
            receipt_pieces.push(piece);
            receipts.extend(items);
        }
        let skipped = skipped.into_iter().map(|(position, reason)| {
            let position = position as usize;
            self.candidates[position].skipped(position, reason)
        });
        BlockOutput {
            transactions_root: roots::root(partial.transactions.into_values()),
            receipts_root: roots::root(receipt_pieces),
            logs_bloom: partial.logs_bloom,
            receipts,
            skipped: skipped.collect(),
            changes: partial.changes,
            gas_used,
        }
    }

    /// Takes the receipts of a piece out of the schedule.
    fn receipts(&self, core: &Core<'_>, totals: &BlockTotals, index: usize) {
        let mut receipts = Vec::new();
        let mut bloom = Bloom::ZERO;
        let piece = Piece::new(roots::items_of(index, totals.executed.len()), |item, out| {
            let receipt = core.take_receipt(totals.executed[item]);
            bloom |= receipt.encode_hashed(out);
            receipts.push(receipt);
        });
        let mut partial = self.partial();
        partial.receipts.insert(index, (piece, receipts));
        partial.logs_bloom |= bloom;
    }

    fn transactions(&self, totals: &BlockTotals, index: usize) {
        let raw = |item: usize| &self.candidates[totals.executed[item] as usize].raw;
        let items = roots::items_of(index, totals.executed.len());
        let piece = Piece::new(items, |item, out| out.extend_from_slice(raw(item)));
        self.partial().transactions.insert(index, piece);
    }

    fn partial(&self) -> MutexGuard<'_, PartialOutput> {
        self.partial.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
