//! Assembles the block's output: receipts in order, changes by key, both roots. Everything is final at this point, so
//! the parts are independent. The threads that executed the block compute them in parallel.

use crate::core::{Core, Ended};
use crate::roots::{self, Piece};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError};
use crate::{BlockOutput, Candidate};
use corniche_state::Changes;
use corniche_types::{Bloom, Receipt};
use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(crate) struct Assembly<'b> {
    candidates: &'b [Candidate],
    ended: OnceLock<Ended>,
    /// Index of the next part to compute.
    next: AtomicUsize,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    changes: Changes,
    /// Keyed by the index of the piece.
    receipts: BTreeMap<usize, (Piece, Vec<Receipt>)>,
    transactions: BTreeMap<usize, Piece>,
    logs_bloom: Bloom,
}

impl<'b> Assembly<'b> {
    pub fn new(candidates: &'b [Candidate]) -> Self {
        Self { candidates, ended: OnceLock::new(), next: AtomicUsize::new(0), made: Mutex::default() }
    }

    /// Computes parts until all have been started. Requires that everything is final and no transaction hit a fault.
    pub fn work(&self, core: &Core<'_>) {
        let ended = self.ended.get_or_init(|| core.take_ended());
        let pieces = roots::pieces(ended.executed.len());
        while let index = self.next.fetch_add(1, Ordering::Relaxed)
            && index < 2 + 2 * pieces
        {
            // Largest parts first.
            match index {
                0 => {
                    let written = core.storage.take_written();
                    self.made().changes.storage = written;
                }
                1 => {
                    let written = core.accounts.take_written();
                    self.made().changes.accounts = written;
                }
                _ if index < 2 + pieces => self.receipts(core, ended, index - 2),
                _ => self.transactions(ended, index - 2 - pieces),
            }
        }
    }

    /// Returns the output, once all threads have returned from [`work`](Self::work) (D6: only the last incarnations
    /// count).
    pub fn output(self) -> BlockOutput {
        let Ended { gas_used, executed, skipped, code, .. } = self.ended.into_inner().unwrap_or_default();
        let mut made = self.made.into_inner().unwrap_or_else(PoisonError::into_inner);
        made.changes.code = code;
        let mut receipts = Vec::with_capacity(executed.len());
        let mut of_receipts = Vec::with_capacity(made.receipts.len());
        for (piece, items) in made.receipts.into_values() {
            of_receipts.push(piece);
            receipts.extend(items);
        }
        let skipped = skipped.into_iter().map(|(position, reason)| {
            let position = position as usize;
            self.candidates[position].skipped(position, reason)
        });
        BlockOutput {
            transactions_root: roots::root(made.transactions.into_values()),
            receipts_root: roots::root(of_receipts),
            logs_bloom: made.logs_bloom,
            receipts,
            skipped: skipped.collect(),
            changes: made.changes,
            gas_used,
        }
    }

    /// Takes the receipts of a piece out of the schedule.
    fn receipts(&self, core: &Core<'_>, ended: &Ended, index: usize) {
        let mut receipts = Vec::new();
        let mut bloom = Bloom::ZERO;
        let piece = Piece::new(roots::items_of(index, ended.executed.len()), |item, out| {
            let receipt = core.take_receipt(ended.executed[item]);
            bloom |= receipt.encode_hashed(out);
            receipts.push(receipt);
        });
        let mut made = self.made();
        made.receipts.insert(index, (piece, receipts));
        made.logs_bloom |= bloom;
    }

    fn transactions(&self, ended: &Ended, index: usize) {
        let raw = |item: usize| &self.candidates[ended.executed[item] as usize].raw;
        let items = roots::items_of(index, ended.executed.len());
        let piece = Piece::new(items, |item, out| out.extend_from_slice(raw(item)));
        self.made().transactions.insert(index, piece);
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
