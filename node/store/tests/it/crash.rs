//! Crash tests: every backend loses, damages or deletes its files, and the store must still return correct
//! data.

use crate::support::*;
use corniche_store::kv::{Batch, Kv, RedbKv, SledKv};
use corniche_store::{Backend, Options};
use corniche_types::{Bytes, CommitIndex, Height, Resume};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Chain with a checkpoint well above the genesis, and blocks above the checkpoint.
fn sample(directory: &Path, backend: Backend) -> Chain {
    let (mut store, _) = open(directory, options(backend)).unwrap();
    append(&mut store, &Chain::of(20));
    store.checkpoint();
    let chain = Chain::of(30);
    append(&mut store, &chain);
    chain
}

/// Opens and checks everything; returns the reason if the checkpoint was rebuilt.
fn reopen(directory: &Path, chain: &Chain, options: Options) -> Option<String> {
    let (store, recovered) = open(directory, options).unwrap();
    assert_holds(chain, &store, &recovered);
    recovered.rebuilt
}

#[test]
fn crash_at_any_time() {
    for backend in BACKENDS {
        let directory = scratch();
        let mut chain = Chain::new();
        let (mut store, _) = open(directory.path(), options(backend)).unwrap();
        for height in 1..=30 {
            chain.extend();
            append(&mut store, &chain);
            if height % 4 == 0 {
                store.checkpoint();
            }
            if height % 3 == 0 {
                let killed = scratch();
                copy(directory.path(), killed.path());
                reopen(killed.path(), &chain, options(backend));
            }
        }
    }
}

/// The copy is taken while the background thread writes the checkpoint, so its files are torn as after a
/// power cut.
#[test]
fn crash_during_checkpoint() {
    for backend in BACKENDS {
        let directory = scratch();
        let mut busy = options(backend);
        busy.checkpoint_lag = 0;
        busy.checkpoint_blocks = 1;
        busy.checkpoint_interval = Some(Duration::from_secs(3600));
        let (mut store, _) = open(directory.path(), busy).unwrap();
        let mut chain = Chain::new();
        chain.transactions_per_block = 20;
        for height in 1..=40 {
            chain.extend();
            append(&mut store, &chain);
            if height % 5 == 0 {
                let killed = scratch();
                copy(directory.path(), killed.path());
                reopen(killed.path(), &chain, options(backend));
            }
        }
    }
}

#[test]
fn missing_checkpoint_is_rebuilt() {
    for backend in BACKENDS {
        let directory = scratch();
        let chain = sample(directory.path(), backend);
        fs::remove_dir_all(directory.path().join("state")).unwrap();
        fs::remove_dir_all(directory.path().join("code")).unwrap();
        reopen(directory.path(), &chain, options(backend));
        assert_eq!(reopen(directory.path(), &chain, options(backend)), None, "built once");
    }
}

#[test]
fn damaged_checkpoint_files_are_rebuilt() {
    for backend in BACKENDS {
        let pristine = scratch();
        let chain = sample(pristine.path(), backend);
        let mut rebuilt = 0;
        for file in files_under(&pristine.path().join("state")) {
            let relative = file.strip_prefix(pristine.path()).unwrap();
            for damage in ["delete", "empty", "halve", "garble", "zero the head", "garble the middle"] {
                let directory = scratch();
                copy(pristine.path(), directory.path());
                let target = directory.path().join(relative);
                let mut bytes = fs::read(&target).unwrap();
                let (length, garbage) = (bytes.len(), |at: usize| (at * 31 % 251) as u8);
                match damage {
                    "delete" => fs::remove_file(&target).unwrap(),
                    "empty" => fs::write(&target, "").unwrap(),
                    "halve" => fs::write(&target, &bytes[..length / 2]).unwrap(),
                    "garble" => fs::write(&target, (0..length).map(garbage).collect::<Vec<_>>()).unwrap(),
                    "zero the head" => {
                        bytes[..length.min(4096)].fill(0);
                        fs::write(&target, bytes).unwrap();
                    }
                    _ => {
                        let middle = length / 3..length / 3 + length.min(2000) / 3;
                        middle.for_each(|at| bytes[at] = garbage(at));
                        fs::write(&target, bytes).unwrap();
                    }
                }
                rebuilt += u32::from(reopen(directory.path(), &chain, options(backend)).is_some());
            }
        }
        assert!(rebuilt > 0, "{backend:?}: no damage was noticed");
    }
}

/// Single bytes, spread over all files.
#[test]
fn flipped_bytes_in_checkpoint() {
    for backend in BACKENDS {
        let pristine = scratch();
        let chain = sample(pristine.path(), backend);
        for file in files_under(&pristine.path().join("state")) {
            let bytes = fs::read(&file).unwrap();
            // Sparse files are mostly zeros, which are never read.
            let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
            for &at in used.iter().step_by(used.len().div_ceil(40).max(1)) {
                let directory = scratch();
                copy(pristine.path(), directory.path());
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x55;
                fs::write(directory.path().join(file.strip_prefix(pristine.path()).unwrap()), flipped).unwrap();
                let (store, recovered) = open(directory.path(), options(backend)).unwrap();
                assert_state(&chain, &recovered);
                assert_eq!(*recovered.head.committed, *chain.head());
                // A wrong index is detected when it is used: a wrong block is never served.
                for (height, committed) in (0..).map(Height).zip(&chain.blocks) {
                    assert_eq!(*store.reader().block(height).unwrap().committed, *committed, "byte {at} of {file:?}");
                }
            }
        }
    }
}

#[test]
fn file_instead_of_checkpoint_directory() {
    for backend in BACKENDS {
        let directory = scratch();
        let chain = sample(directory.path(), backend);
        let place = directory.path().join("state").join(backend.name());
        fs::remove_dir_all(&place).unwrap();
        fs::write(&place, "not a directory").unwrap();
        assert!(reopen(directory.path(), &chain, options(backend)).is_some());
    }
}

#[test]
fn requested_rebuild() {
    for backend in BACKENDS {
        let directory = scratch();
        let chain = sample(directory.path(), backend);
        let rebuild = Options { rebuild: true, ..options(backend) };
        assert_eq!(reopen(directory.path(), &chain, rebuild).as_deref(), Some("asked for"));
        assert_eq!(reopen(directory.path(), &chain, options(backend)), None);
    }
}

/// Opening a backend may end the whole process or never return: then it is not tried again.
#[test]
fn interrupted_opening_rebuilds() {
    for backend in BACKENDS {
        let directory = scratch();
        let chain = sample(directory.path(), backend);
        fs::write(directory.path().join("state").join(format!("{}.opening", backend.name())), "").unwrap();
        let reason = reopen(directory.path(), &chain, options(backend)).unwrap();
        assert!(reason.contains("did not end"), "{reason}");
        assert_eq!(reopen(directory.path(), &chain, options(backend)), None);
    }
}

/// A log that lost its end is shorter than the checkpoint; the checkpoint must then not be used.
#[test]
fn checkpoint_ahead_of_log() {
    for backend in BACKENDS {
        let directory = scratch();
        let chain = Chain::of(20);
        let (mut store, _) = open(directory.path(), options(backend)).unwrap();
        append(&mut store, &Chain::of(12));
        let saved = scratch();
        copy(&directory.path().join("blocks"), saved.path());
        append(&mut store, &chain);
        store.checkpoint();
        drop(store);
        fs::remove_dir_all(directory.path().join("blocks")).unwrap();
        copy(saved.path(), &directory.path().join("blocks"));
        let shorter = Chain::of(12);
        assert!(reopen(directory.path(), &shorter, options(backend)).is_some());
    }
}

/// A modified checkpoint has another root than the header, also if no block follows it.
#[test]
fn checkpoint_with_wrong_root() {
    for backend in BACKENDS {
        for (value, at_head) in [(None, false), (None, true), (Some(vec![1u8; 32]), false), (Some(vec![1u8; 32]), true)] {
            let directory = scratch();
            let chain = sample(directory.path(), backend);
            if at_head {
                open(directory.path(), options(backend)).unwrap().0.checkpoint();
            }
            let kv = files_of(directory.path(), backend);
            let (slot, _) = kv.next(b"s").unwrap().unwrap();
            assert_eq!(slot[0], b's');
            kv.apply(&Batch::from([(slot, value)])).unwrap();
            drop(kv);
            let reason = reopen(directory.path(), &chain, options(backend)).unwrap();
            assert!(reason.contains("root"), "{reason}");
        }
    }
}

/// If the checkpoint's position in the log is after later records, the node would skip those records.
#[test]
fn checkpoint_with_wrong_log_position() {
    for backend in BACKENDS {
        let directory = scratch();
        let (mut store, _) = open(directory.path(), options(backend)).unwrap();
        append(&mut store, &Chain::of(20));
        store.checkpoint();
        let resume = Resume { index: CommitIndex(100), checkpoint: Bytes::from_static(b"later"), ..Resume::default() };
        store.append_progress(&resume).unwrap();
        store.sync().unwrap();
        drop(store);
        let log = last_segment(&directory.path().join("blocks"));
        let end = fs::metadata(&log).unwrap().len();
        let kv = files_of(directory.path(), backend);
        let mut meta = kv.get(b"m").unwrap().unwrap();
        // Version, chain id, genesis hash, height, hash; then segment and offset.
        let offset = 1 + 8 + 32 + 8 + 32 + 8;
        let known = u64::from_le_bytes(meta[offset..offset + 8].try_into().unwrap());
        assert!(known < end, "{known}");
        meta[offset..offset + 8].copy_from_slice(&end.to_le_bytes());
        kv.apply(&Batch::from([(b"m".to_vec(), Some(meta))])).unwrap();
        drop(kv);
        let (_store, recovered) = open(directory.path(), options(backend)).unwrap();
        assert_eq!(recovered.resume, resume, "what stands between the block and that place is not forgotten");
        let reason = recovered.rebuilt.unwrap();
        assert!(reason.contains("another position of the log"), "{reason}");
    }
}

/// The backend itself, opened without the store.
fn files_of(directory: &Path, backend: Backend) -> Box<dyn Kv> {
    let files = directory.join("state").join(backend.name());
    match backend {
        Backend::Sled => Box::new(SledKv::open(&files, 1 << 20).unwrap()),
        Backend::Redb => Box::new(RedbKv::open(&files, 1 << 20).unwrap()),
    }
}

/// The root does not cover code; its own hash is checked.
#[test]
fn checkpoint_with_wrong_code() {
    for backend in BACKENDS {
        for value in [None, Some(b"\0asm other code".to_vec())] {
            let directory = scratch();
            let chain = sample(directory.path(), backend);
            let kv = files_of(directory.path(), backend);
            let genesis_code = corniche_types::keccak256(b"\0asm genesis code");
            let key = [b"c".as_slice(), genesis_code.as_slice()].concat();
            assert!(kv.get(&key).unwrap().is_some());
            kv.apply(&Batch::from([(key, value)])).unwrap();
            drop(kv);
            let reason = reopen(directory.path(), &chain, options(backend)).unwrap();
            assert!(reason.contains("code"), "{reason}");
        }
    }
}

/// Missing indices of recent blocks are detected; the root does not cover them.
#[test]
fn checkpoint_without_index() {
    for prefix in [b'b', b'h', b't'] {
        let directory = scratch();
        let chain = sample(directory.path(), Backend::Redb);
        let kv = files_of(directory.path(), Backend::Redb);
        let mut keys = Vec::new();
        kv.scan(prefix, &mut |key, _| {
            keys.push(key.to_vec());
            Ok(())
        })
        .unwrap();
        // The genesis' own entry is never read.
        let key = keys.into_iter().find(|key| key[1..] != chain.hash(0)[..]).unwrap();
        kv.apply(&Batch::from([(key, None)])).unwrap();
        drop(kv);
        let reason = reopen(directory.path(), &chain, options(Backend::Redb)).unwrap();
        assert!(reason.contains("indices"), "{reason}");
    }
}

/// The other backend's files may exist; each is built from the log when it is first used.
#[test]
fn backend_can_be_changed() {
    let directory = scratch();
    let mut chain = sample(directory.path(), Backend::Sled);
    for backend in [Backend::Redb, Backend::Sled, Backend::Redb] {
        let (mut store, recovered) = open(directory.path(), options(backend)).unwrap();
        assert_holds(&chain, &store, &recovered);
        (0..10).for_each(|_| drop(chain.extend()));
        append(&mut store, &chain);
        store.checkpoint();
    }
}

/// The background thread alone moves the checkpoint up to its lag behind the head.
#[test]
fn checkpoint_advances_in_background() {
    for backend in BACKENDS {
        let directory = scratch();
        let options = Options { checkpoint_interval: Some(Duration::from_millis(1)), ..options(backend) };
        let (mut store, _) = open(directory.path(), options).unwrap();
        append(&mut store, &Chain::of(30));
        let reader = store.reader();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while reader.checkpoint_height() < Height(26) {
            assert!(std::time::Instant::now() < deadline, "still at {}", reader.checkpoint_height());
            std::thread::yield_now();
        }
        assert_reader(&Chain::of(30), &reader);
    }
}
