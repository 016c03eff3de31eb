//! What the transactions came to, put together: receipts in order, changes by key, both roots. All is final, so every part can be
//! made by another thread.

use crate::core::{Core, Outcome};
use crate::mvstore::{Cells, Key};
use crate::roots::{self, Piece};
use crate::sync::{Mutex, PoisonError};
use crate::{BlockOutput, Candidate, Pool};
use corniche_state::Changes;
use corniche_types::{Bloom, Receipt};
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
                receipts.push(receipt);
                executed.push(&candidates[position].raw);
                changes.code.extend(code);
            }
            Some(Outcome::Skipped(reason)) => skipped.push(candidates[position].skipped(position, reason)),
            Some(Outcome::Fault(_)) | None => unreachable!("all is final, and nothing was at fault"),
        }
    }

    let pieces = roots::pieces(receipts.len());
    let shards = accounts.shard_count().max(storage.shard_count());
    let logs_bloom = Mutex::new(Bloom::ZERO);
    let done = share(pool, 2 * pieces + shards, |index| {
        if index < pieces {
            let (piece, bloom) = receipts_piece(index, &receipts);
            *logs_bloom.lock().unwrap_or_else(PoisonError::into_inner) |= bloom;
            Part::Receipts(piece)
        } else if index < 2 * pieces {
            let items = roots::items_of(index - pieces, executed.len());
            Part::Transactions(Piece::new(items, |item, out| out.extend_from_slice(executed[item])))
        } else {
            Part::Changes(sorted(&accounts, index - 2 * pieces), sorted(&storage, index - 2 * pieces))
        }
    });

    let (mut of_receipts, mut of_transactions) = (Vec::with_capacity(pieces), Vec::with_capacity(pieces));
    let (mut new_accounts, mut new_storage) = (Vec::new(), Vec::new());
    for part in done {
        match part {
            Part::Receipts(piece) => of_receipts.push(piece),
            Part::Transactions(piece) => of_transactions.push(piece),
            Part::Changes(some_accounts, some_storage) => {
                new_accounts.extend(some_accounts);
                new_storage.extend(some_storage);
            }
        }
    }
    // Sorting what consists of sorted runs merges them.
    changes.accounts = BTreeMap::from_iter(new_accounts);
    changes.storage = BTreeMap::from_iter(new_storage);
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
    Receipts(Piece),
    Transactions(Piece),
    Changes(Contents<corniche_types::Address>, Contents<(corniche_types::Address, corniche_types::B256)>),
}

type Contents<K> = Vec<(K, <K as Key>::Content)>;

fn receipts_piece(piece: usize, receipts: &[Receipt]) -> (Piece, Bloom) {
    let mut bloom = Bloom::ZERO;
    let piece = Piece::new(roots::items_of(piece, receipts.len()), |item, out| bloom |= receipts[item].encode_hashed(out));
    (piece, bloom)
}

fn sorted<K: Key>(cells: &Cells<K>, shard: usize) -> Contents<K> {
    let mut contents = Vec::new();
    if shard < cells.shard_count() {
        cells.written(shard, &mut contents);
    }
    contents.sort_unstable_by_key(|(key, _)| *key);
    contents
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
