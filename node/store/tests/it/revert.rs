//! Reverts: afterwards everything is as if the blocks had never existed, also after a power cut during the
//! revert.

use crate::support::*;
use corniche_state::{Changes, StateView};
use corniche_store::probe::{Probe, Step};
use corniche_store::{Backend, History, Options, Recovered, Store};
use corniche_types::{CommitIndex, Height, Resume};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// First `height` blocks of a chain.
fn first(chain: &Chain, height: u64) -> Chain {
    let shorter = Chain::of(height);
    assert_eq!(shorter.hash(height), chain.hash(height));
    shorter
}

/// Values at `to` of the keys written by the blocks above it.
fn before(chain: &Chain, to: u64) -> Changes {
    let mut before = Changes::default();
    let (stays, goes) = chain.blocks.split_at(to as usize + 1);
    for block in goes {
        before.accounts.extend(block.changes.accounts.keys().map(|address| (*address, None)));
        before.storage.extend(block.changes.storage.keys().map(|key| (*key, Default::default())));
    }
    let (accounts, storage) = (before.accounts.clone(), before.storage.clone());
    for block in stays {
        let written = block.changes.accounts.iter().filter(|(address, _)| accounts.contains_key(*address));
        before.accounts.extend(written.map(|(address, account)| (*address, account.clone())));
        let written = block.changes.storage.iter().filter(|(key, _)| storage.contains_key(*key));
        before.storage.extend(written.map(|(key, value)| (*key, *value)));
    }
    before
}

/// Resume point of the consensus engine. It stays after the reverted blocks, because the engine is not reverted.
fn resume() -> Resume {
    Resume { index: CommitIndex(500), checkpoint: "after all".into(), ..Resume::default() }
}

/// 40 blocks; the checkpoint contains those up to `checkpoint`.
fn sample(directory: &Path, options: Options, checkpoint: u64) -> (Store, Recovered, Chain) {
    let (mut store, recovered) = open(directory, options).unwrap();
    append(&mut store, &Chain::of(checkpoint));
    store.checkpoint();
    let chain = Chain::of(40);
    append(&mut store, &chain);
    assert_eq!(store.reader().checkpoint_height(), Height(checkpoint));
    (store, recovered, chain)
}

/// Continues the chain with different blocks.
fn another(chain: &Chain) -> Chain {
    let mut other = chain.clone();
    other.transactions_per_block = 5;
    for _ in 0..6 {
        other.extend();
        let last = other.blocks.last_mut().unwrap();
        last.resume.index = CommitIndex(500 + last.block.header.number);
    }
    other
}

fn options_of(backend: Backend, history: History) -> Options {
    Options { history, ..options(backend) }
}

#[test]
fn reverted_blocks_leave_no_trace() {
    for (backend, history) in [(BACKENDS[0], History::Off), (BACKENDS[1], History::Off), (BACKENDS[0], History::Archive)] {
        for (checkpoint, to) in [(0, 0), (0, 39), (0, 17), (20, 31), (20, 20), (20, 19), (20, 0), (40, 40), (40, 39), (40, 8)] {
            let directory = scratch();
            let options = options_of(backend, history);
            let (mut store, recovered, chain) = sample(directory.path(), options.clone(), checkpoint);
            drop(recovered);
            let shorter = first(&chain, to);
            store.revert_to(Height(to), &resume(), &before(&chain, to)).unwrap();
            assert_reader(&shorter, &store.reader());
            for gone in to + 1..=40 {
                assert_eq!(store.reader().height_of(&chain.hash(gone)), None);
                assert_eq!(store.reader().transaction(&transaction_hash(gone, 0)), None);
            }
            let other = another(&shorter);
            append(&mut store, &other);
            assert_reader(&other, &store.reader());
            store.revert_to(Height(to), &resume(), &before(&other, to)).unwrap();
            assert_reader(&shorter, &store.reader());
            drop(store);
            let (mut store, recovered) = open(directory.path(), Options { check_all: true, ..options.clone() }).unwrap();
            assert_eq!((&recovered.rebuilt, &recovered.resume), (&None, &resume()), "{checkpoint} to {to}");
            assert_reader(&shorter, &store.reader());
            assert_state(&shorter, &recovered);
            if history == History::Archive {
                let reached = store.reader().checkpoint_height();
                let old = (0..=reached.0).all(|height| store.reader().state(Height(height)).is_some());
                assert!(old && store.reader().state(reached.next()).is_none());
            }
            append(&mut store, &other);
            store.checkpoint();
            drop(store);
            let (store, recovered) = open(directory.path(), options).unwrap();
            assert_eq!(recovered.rebuilt, None);
            assert_reader(&other, &store.reader());
            assert_state(&other, &recovered);
        }
    }
}

/// Counts the syncs.
#[derive(Default)]
struct Syncs(AtomicUsize);

impl Probe for Syncs {
    fn before(&self, step: &Step<'_>) -> io::Result<()> {
        self.0.fetch_add(usize::from(matches!(step, Step::Sync { .. })), Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn unsynced_directory_reverts_without_sync() {
    let directory = scratch();
    let probe = Arc::new(Syncs::default());
    let unsynced = Options { sync: false, probe: Some(probe.clone()), block_segment_bytes: 64 << 20, ..options(Backend::Sled) };
    let unsynced = Options { safety_segment_bytes: 64 << 20, ..unsynced };
    let (mut store, _) = open(directory.path(), unsynced).unwrap();
    let at_first = probe.0.load(Ordering::Relaxed);
    let chain = Chain::of(40);
    append(&mut store, &chain);
    let shorter = first(&chain, 30);
    store.revert_to(Height(30), &resume(), &before(&chain, 30)).unwrap();
    assert_eq!(probe.0.load(Ordering::Relaxed), at_first);
    drop(store);
    let (store, recovered) = open(directory.path(), options(Backend::Sled)).unwrap();
    assert_reader(&shorter, &store.reader());
    assert_state(&shorter, &recovered);
}

#[test]
fn state_in_memory_reverts() {
    let directory = scratch();
    let (_, recovered, chain) = sample(directory.path(), options(Backend::Sled), 0);
    for block in &chain.blocks[1..] {
        recovered.state.apply(block.block.height(), &block.changes);
    }
    for to in [33, 32, 7, 0] {
        assert!(recovered.state.revert(Height(to)));
        assert_eq!(recovered.state.latest().height(), Height(to));
        for (address, account) in before(&chain, to).accounts {
            assert_eq!(recovered.state.latest().account(&address), account);
        }
    }
}

/// Fails every disk operation from this number on.
struct PowerCut(AtomicUsize);

impl Probe for PowerCut {
    fn before(&self, _: &Step<'_>) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 0 { Err(io::Error::other("the power failed")) } else { Ok(()) }
    }
}

#[test]
fn crash_during_revert_is_atomic() {
    for checkpoint in [0, 30, 40] {
        let mut outcomes = [0, 0];
        for step in 0.. {
            let directory = scratch();
            let (store, _, chain) = sample(directory.path(), options(Backend::Sled), checkpoint);
            drop(store);
            let probe = Arc::new(PowerCut(usize::MAX.into()));
            let probed = Options { probe: Some(probe.clone()), ..options(Backend::Sled) };
            let (mut store, _) = open(directory.path(), probed).unwrap();
            probe.0.store(step, Ordering::Relaxed);
            let taken = store.revert_to(Height(25), &resume(), &before(&chain, 25));
            drop(store);
            let (store, recovered) = open(directory.path(), options(Backend::Sled)).unwrap();
            let is_reverted = store.reader().head().height() == Height(25);
            let expected = if is_reverted { first(&chain, 25) } else { chain };
            assert_reader(&expected, &store.reader());
            assert_state(&expected, &recovered);
            assert_eq!(recovered.resume, if is_reverted { resume() } else { expected.head().resume.clone() }, "{step}");
            outcomes[usize::from(is_reverted)] += 1;
            if taken.is_ok() {
                assert!(is_reverted);
                break;
            }
        }
        assert!(outcomes[1] > 1, "some power cuts came after the revert was durable: {outcomes:?}");
    }
}
