//! Snapshots: the same on all nodes, a node that begins with one, and blocks that are deleted below one.

use crate::support::*;
use corniche_state::{Snapshot, State};
use corniche_store::snapshots::{self, StoredSnapshot};
use corniche_store::{Backend, DataDirectory, Identity, Options, Store, StoreError};
use corniche_types::*;
use std::fs;
use std::path::Path;

const HEIGHT: u64 = 20;

fn identity() -> Identity {
    Identity::of(&genesis())
}

/// The state after the block at `HEIGHT`, while later blocks are applied; the seed orders the tables.
fn state_at(chain: &Chain, seed: u64) -> Snapshot {
    let state = State::with_seed(seed);
    let mut pinned = None;
    for (height, committed) in (0..).zip(&chain.blocks) {
        state.apply(Height(height), &committed.changes);
        pinned = pinned.or((height == HEIGHT).then(|| state.latest()));
    }
    pinned.unwrap()
}

fn tail_of(chain: &Chain) -> SnapshotTail {
    let committed = &chain.blocks[HEIGHT as usize];
    let header = |height: u64| EncodedHeader(chain.blocks[height as usize].block.header.clone());
    SnapshotTail {
        header: header(HEIGHT),
        ordering: committed.block.ordering.clone(),
        resume: committed.resume.clone(),
        above: vec![],
        certificate: chain.certificate(HEIGHT),
        below: (5..HEIGHT).map(header).collect(),
        change: None,
    }
}

fn make(directory: &Path, chain: &Chain, seed: u64) -> StoredSnapshot {
    let data = DataDirectory::new(directory);
    let state = state_at(chain, seed);
    snapshots::make(&data, identity(), &state, &tail_of(chain), &mut |_| true).unwrap().unwrap()
}

/// Appends the blocks above a height.
fn append_above(store: &mut Store, chain: &Chain, height: u64) {
    for committed in &chain.blocks[height as usize + 1..] {
        store.append_block(committed.clone()).unwrap();
        if committed.block.height().0.is_multiple_of(2) {
            store.append_certificate(&chain.certificate(committed.block.height().0)).unwrap();
        }
        store.sync().unwrap();
    }
}

fn assert_continues(chain: &Chain, store: &Store) {
    let (reader, head) = (store.reader(), chain.head().block.height());
    assert_eq!(reader.head().hash, chain.head().block.hash());
    assert_eq!(reader.first_block(), Height(HEIGHT + 1));
    for height in HEIGHT + 1..=head.0 {
        let committed = &chain.blocks[height as usize];
        assert_eq!(*reader.block(Height(height)).unwrap().committed, *committed);
        assert_eq!(reader.transaction(&transaction_hash(height, 1)), Some((Height(height), 1)));
    }
    for height in 1..=HEIGHT {
        assert!(reader.block(Height(height)).is_none() && reader.committed(Height(height)).is_none());
        let expected = (height >= 5).then(|| chain.blocks[height as usize].block.header.clone());
        assert_eq!(reader.header(Height(height)), expected);
    }
    assert_eq!(reader.ordering(Height(HEIGHT)).unwrap().1, chain.blocks[HEIGHT as usize].resume);
    assert_eq!(reader.block(Height(0)).unwrap().hash, chain.hash(0));
}

#[test]
fn a_snapshot_is_the_same_on_every_node() {
    let chain = Chain::of(30);
    let made: Vec<_> = [0, 1, 2].into_iter().map(|seed| (scratch(), seed)).collect();
    let hashes: Vec<B256> = made
        .iter()
        .map(|(directory, seed)| {
            let snapshot = make(directory.path(), &chain, *seed);
            snapshot.verify().unwrap();
            assert_eq!(snapshot.height(), Height(HEIGHT));
            snapshot.manifest_hash()
        })
        .collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
}

#[test]
fn a_tail_is_read_in_parts() {
    let (chain, directory) = (Chain::of(30), scratch());
    let snapshot = make(directory.path(), &chain, 0);
    let whole = corniche_types::wire::encode(snapshot.tail());
    let part = |offset: usize| snapshot.tail_part(offset as u64, 100).unwrap();
    let parts: Vec<u8> = (0..whole.len()).step_by(100).flat_map(|offset| part(offset).unwrap()).collect();
    assert_eq!(parts, whole);
    assert_eq!((part(whole.len()), part(whole.len() + 1)), (Some(Vec::new()), None));
}

/// While it is made it is not listed, and one that is given up leaves nothing (B33).
#[test]
fn only_whole_snapshots_are_listed() {
    let (chain, directory) = (Chain::of(30), scratch());
    let data = DataDirectory::new(directory.path());
    let (state, tail) = (state_at(&chain, 0), tail_of(&chain));
    for steps in 0..3 {
        let mut left = steps;
        let mut pace = |_| {
            assert!(snapshots::list(&data, identity()).unwrap().is_empty());
            left -= 1;
            left >= 0
        };
        assert!(snapshots::make(&data, identity(), &state, &tail, &mut pace).unwrap().is_none(), "{steps} steps");
        assert_eq!(files_under(directory.path()), Vec::<std::path::PathBuf>::new());
    }
    let snapshot = make(directory.path(), &chain, 0);
    fs::create_dir_all(data.snapshots().join("7.draft/chunks")).unwrap();
    assert_eq!(snapshots::list(&data, identity()).unwrap().len(), 1);
    snapshots::clean(&data).unwrap();
    assert!(!data.snapshots().join("7.draft").exists() && snapshot.path().exists());
    snapshots::remove(&snapshot).unwrap();
    assert!(files_under(directory.path()).is_empty());
    let other = Identity { chain_id: 1, ..identity() };
    make(directory.path(), &chain, 0);
    assert!(snapshots::list(&data, other).unwrap().is_empty(), "another chain");
}

#[test]
fn a_node_begins_with_a_snapshot_and_goes_on() {
    for backend in BACKENDS {
        let (chain, directory) = (Chain::of(40), scratch());
        make(directory.path(), &chain, 0);
        let (mut store, recovered) = open(directory.path(), options(backend)).unwrap();
        assert_eq!(recovered.base.as_ref().unwrap().height(), Height(HEIGHT));
        assert_eq!((recovered.head.height(), recovered.head.hash), (Height(HEIGHT), chain.hash(HEIGHT)));
        assert_eq!(recovered.resume, chain.blocks[HEIGHT as usize].resume);
        assert_eq!(recovered.tree.root(), chain.blocks[HEIGHT as usize].block.header.state_root);
        assert!(recovered.safety_lost, "it may have signed in an earlier life");
        append_above(&mut store, &chain, HEIGHT);
        assert_continues(&chain, &store);
        drop(store);
        // From the log above the checkpoint, from the checkpoint, and from the snapshot.
        for step in 0..4 {
            let rebuild = step == 2;
            let (mut store, recovered) = open(directory.path(), Options { rebuild, ..options(backend) }).unwrap();
            assert_eq!(recovered.rebuilt.is_some(), rebuild);
            assert_state(&chain, &recovered);
            assert_eq!(recovered.resume, chain.head().resume);
            assert_continues(&chain, &store);
            store.checkpoint();
        }
    }
}

/// A validator that never signed has lost nothing.
#[test]
fn keys_that_signed_nothing_have_lost_nothing() {
    let (chain, directory) = (Chain::of(30), scratch());
    make(directory.path(), &chain, 0);
    fs::write(DataDirectory::new(directory.path()).unsigned(), "key").unwrap();
    let (_store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    assert!(!recovered.safety_lost && DataDirectory::new(directory.path()).unsigned().exists());
}

/// The state comes back from the base, in which any damage is found.
#[test]
fn a_damaged_base_is_refused() {
    let (chain, directory) = (Chain::of(30), scratch());
    let snapshot = make(directory.path(), &chain, 0);
    let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
    append_above(&mut store, &chain, HEIGHT);
    drop(store);
    for file in files_under(snapshot.path()) {
        let whole = fs::read(&file).unwrap();
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        fs::write(&file, &damaged).unwrap();
        let rebuilt = open(directory.path(), Options { rebuild: true, ..options(Backend::Redb) });
        let is_tail = file.file_name().is_some_and(|name| name == "tail");
        // The tail was verified when it was fetched; headers below the block are not covered by the manifest.
        if !is_tail {
            let error = rebuilt.map(drop).unwrap_err();
            assert!(
                matches!(error, StoreError::Snapshot { .. } | StoreError::NoBase { .. } | StoreError::Io { .. }),
                "{}: {error}",
                file.display()
            );
        }
        fs::write(&file, &whole).unwrap();
    }
    fs::remove_dir_all(snapshot.path()).unwrap();
    let error = open(directory.path(), options(Backend::Redb)).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::NoBase { first: Height(21), .. }), "{error}");
}

/// Deleted blocks leave nothing in the indices, and a pruned node's checkpoint comes back from its base.
#[test]
fn old_blocks_are_deleted_below_a_snapshot() {
    for backend in BACKENDS {
        let (chain, directory) = (Chain::of(60), scratch());
        let small = || Options { block_segment_bytes: 4 << 10, ..options(backend) };
        let (mut store, _) = open(directory.path(), small()).unwrap();
        append(&mut store, &chain);
        store.checkpoint();
        assert_eq!(store.prune_below(Height(60)).unwrap(), Height(1), "without a snapshot everything is needed");
        make(directory.path(), &chain, 0);
        assert_eq!(store.prune_below(Height(1)).unwrap(), Height(1));
        let first = loop {
            let before = store.reader().first_block();
            let first = store.prune_below(Height(60)).unwrap();
            if first == before {
                break first;
            }
        };
        assert!(first.0 > 5 && first.0 <= HEIGHT + 1, "{first}");
        let check = |store: &Store| {
            let reader = store.reader();
            for height in 1..=60 {
                let is_left = height >= first.0;
                assert_eq!(reader.block(Height(height)).is_some(), is_left, "block {height}");
                assert_eq!(reader.transaction(&transaction_hash(height, 0)).is_some(), is_left, "transaction of {height}");
            }
            assert_eq!(reader.head().hash, chain.hash(60));
        };
        check(&store);
        drop(store);
        for rebuild in [false, true, false] {
            let (store, recovered) = open(directory.path(), Options { rebuild, ..small() }).unwrap();
            assert_state(&chain, &recovered);
            assert_eq!(recovered.resume, chain.head().resume);
            check(&store);
        }
    }
}
