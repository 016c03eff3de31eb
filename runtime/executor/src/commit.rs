//! What the transactions came to, put together: receipts in order, changes by key, both roots. All is final, so every part can be
//! made by another thread.

use crate::core::{Core, Outcome};
use crate::roots::{self, Piece};
use crate::sync::{Mutex, PoisonError};
use crate::{BlockOutput, Candidate, Pool};
use corniche_state::{Account, Changes};
use corniche_types::{Address, B256, Bloom, Receipt};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The output of a block whose transactions are all final (D6: only their last incarnations count).
pub(crate) fn assemble(core: Core<'_>, candidates: &[Candidate], pool: &dyn Pool) -> BlockOutput {
    let Core { accounts, storage, schedule, .. } = core;
    let mut receipts = Vec::with_capacity(candidates.len());
    let mut executed = Vec::with_capacity(candidates.len());
    let mut skipped = Vec::new();
    let mut changes = Changes::default();
    let mut gas_used = 0u64;
    for (position, work) in schedule.into_results().enumerate() {
        match work.outcome {
            Some(Outcome::Executed { mut receipt, code }) => {
                gas_used = gas_used.saturating_add(receipt.gas_used);
                receipt.cumulative_gas_used = gas_used;
                receipts.push(*receipt);
                executed.push(&candidates[position].raw);
                changes.code.extend(code);
            }
            Some(Outcome::Skipped(reason)) => skipped.push(candidates[position].skipped(position, reason)),
            Some(Outcome::Fault(_)) | None => unreachable!("all is final, and nothing was at fault"),
        }
    }

    let pieces = roots::pieces(receipts.len());
    let logs_bloom = Mutex::new(Bloom::ZERO);
    // The largest parts first.
    let done = share(pool, 2 + 2 * pieces, |index| match index {
        0 => Part::Storage(storage.take_written()),
        1 => Part::Accounts(accounts.take_written()),
        _ if index < 2 + pieces => {
            let (piece, bloom) = receipts_piece(index - 2, &receipts);
            *logs_bloom.lock().unwrap_or_else(PoisonError::into_inner) |= bloom;
            Part::Receipts(piece)
        }
        _ => {
            let items = roots::items_of(index - 2 - pieces, executed.len());
            Part::Transactions(Piece::new(items, |item, out| out.extend_from_slice(executed[item])))
        }
    });

    let (mut of_receipts, mut of_transactions) = (Vec::with_capacity(pieces), Vec::with_capacity(pieces));
    for part in done {
        match part {
            Part::Storage(written) => changes.storage = written,
            Part::Accounts(written) => changes.accounts = written,
            Part::Receipts(piece) => of_receipts.push(piece),
            Part::Transactions(piece) => of_transactions.push(piece),
        }
    }
    BlockOutput {
        transactions_root: roots::root(of_transactions),
        receipts_root: roots::root(of_receipts),
        logs_bloom: logs_bloom.into_inner().unwrap_or_else(PoisonError::into_inner),
        receipts,
        skipped,
        changes,
        gas_used,
    }
}

enum Part {
    Storage(BTreeMap<(Address, B256), B256>),
    Accounts(BTreeMap<Address, Option<Account>>),
    Receipts(Piece),
    Transactions(Piece),
}

fn receipts_piece(piece: usize, receipts: &[Receipt]) -> (Piece, Bloom) {
    let mut bloom = Bloom::ZERO;
    let piece = Piece::new(roots::items_of(piece, receipts.len()), |item, out| bloom |= receipts[item].encode_hashed(out));
    (piece, bloom)
}

/// Answers of `work` to 0..count, in order, worked out by whoever is free.
fn share<T: Send>(pool: &dyn Pool, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if pool.threads() == 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let answers: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    pool.run(&|_| {
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && index < count
        {
            *answers[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(work(index));
        }
    });
    let answer = |slot: Mutex<Option<T>>| {
        slot.into_inner().unwrap_or_else(PoisonError::into_inner).expect("the pool ran every job to its end")
    };
    answers.into_iter().map(answer).collect()
}
