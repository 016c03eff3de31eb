//! What the transactions came to, put together: receipts in order, changes by key, both roots. All is final, so every part can be
//! made by another thread, and the threads that executed the block make them.

use crate::core::{Core, Ended};
use crate::roots::{self, Piece};
use crate::sync::{AtomicUsize, Mutex, Ordering, PoisonError};
use crate::{BlockOutput, Candidate};
use corniche_state::{Account, Changes};
use corniche_types::{Address, B256, Bloom, Receipt};
use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(crate) struct Assembly<'b> {
    candidates: &'b [Candidate],
    ended: OnceLock<Ended>,
    /// The next part to be made.
    next: AtomicUsize,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    changes: Changes,
    /// By the index of the piece.
    receipts: BTreeMap<usize, (Piece, Vec<Receipt>)>,
    transactions: BTreeMap<usize, Piece>,
    logs_bloom: Bloom,
}

enum Part {
    Storage(BTreeMap<(Address, B256), B256>),
    Accounts(BTreeMap<Address, Option<Account>>),
    Receipts(usize, Piece, Vec<Receipt>, Bloom),
    Transactions(usize, Piece),
}

impl<'b> Assembly<'b> {
    pub fn new(candidates: &'b [Candidate]) -> Self {
        Self { candidates, ended: OnceLock::new(), next: AtomicUsize::new(0), made: Mutex::default() }
    }

    /// Makes parts until there are none left to begin. All is final, and nothing was at fault.
    pub fn work(&self, core: &Core<'_>) {
        let ended = self.ended.get_or_init(|| core.take_ended());
        let pieces = roots::pieces(ended.executed.len());
        while let index = self.next.fetch_add(1, Ordering::Relaxed)
            && index < 2 + 2 * pieces
        {
            // The largest parts first.
            let part = match index {
                0 => Part::Storage(core.storage.take_written()),
                1 => Part::Accounts(core.accounts.take_written()),
                _ if index < 2 + pieces => receipts(core, ended, index - 2),
                _ => self.transactions(ended, index - 2 - pieces),
            };
            self.made.lock().unwrap_or_else(PoisonError::into_inner).add(part);
        }
    }

    /// The output, when everybody has returned from [`work`](Self::work) (D6: only the last incarnations count).
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

    fn transactions(&self, ended: &Ended, piece: usize) -> Part {
        let items = roots::items_of(piece, ended.executed.len());
        let raw = |item: usize| &self.candidates[ended.executed[item] as usize].raw;
        Part::Transactions(piece, Piece::new(items, |item, out| out.extend_from_slice(raw(item))))
    }
}

/// Takes the receipts of a piece out of the schedule.
fn receipts(core: &Core<'_>, ended: &Ended, piece: usize) -> Part {
    let mut receipts = Vec::new();
    let mut bloom = Bloom::ZERO;
    let piece_of = Piece::new(roots::items_of(piece, ended.executed.len()), |item, out| {
        let receipt = core.take_receipt(ended.executed[item]);
        bloom |= receipt.encode_hashed(out);
        receipts.push(receipt);
    });
    Part::Receipts(piece, piece_of, receipts, bloom)
}

impl Made {
    fn add(&mut self, part: Part) {
        match part {
            Part::Storage(written) => self.changes.storage = written,
            Part::Accounts(written) => self.changes.accounts = written,
            Part::Receipts(index, piece, receipts, bloom) => {
                self.receipts.insert(index, (piece, receipts));
                self.logs_bloom |= bloom;
            }
            Part::Transactions(index, piece) => {
                self.transactions.insert(index, piece);
            }
        }
    }
}
