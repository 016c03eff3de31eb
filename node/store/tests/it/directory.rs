//! Ownership and locking of data directories.

use crate::support::*;
use corniche_store::{Backend, DataDirectory, SCHEMA, Space, Store, StoreError};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn refusal(directory: &std::path::Path) -> StoreError {
    open(directory, options(Backend::Redb)).expect_err("refused")
}

#[test]
fn directory_layout() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("made/for/us");
    let (store, _) = open(&root, options(Backend::Redb)).unwrap();
    let genesis = genesis();
    let version = fs::read_to_string(root.join("VERSION")).unwrap();
    assert_eq!(version, format!("schema {SCHEMA}\nchain_id 77\ngenesis {}\n", genesis.hash()));
    for part in ["safety", "blocks", "state", "code", "keys"] {
        assert!(root.join(part).is_dir(), "{part}");
    }
    assert_eq!(fs::metadata(root.join("keys")).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_to_string(root.join("LOCK")).unwrap(), std::process::id().to_string());
    assert_eq!(*store.directory(), DataDirectory::new(&root));
}

#[test]
fn key_permissions_are_restricted() {
    let directory = tempfile::tempdir().unwrap();
    let keys = DataDirectory::new(directory.path()).keys();
    fs::create_dir(&keys).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(keys.join("consensus"), "secret").unwrap();
    let (_store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!recovered.safety_lost, "keys from before the first start do not mean that the safety log was lost");
}

#[test]
fn one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let (store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    let error = refusal(directory.path());
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    // A reader keeps the lock, because it can still read the files after the store is dropped.
    let reader = store.reader();
    drop((store, recovered));
    assert!(matches!(refusal(directory.path()), StoreError::InUse { .. }));
    drop(reader);
    open(directory.path(), options(Backend::Redb)).unwrap();
}

#[test]
fn foreign_directory_is_refused_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("thesis.tex"), "mine").unwrap();
    let error = refusal(directory.path());
    assert!(matches!(&error, StoreError::Foreign { entry, .. } if entry == "thesis.tex"), "{error}");
    assert_eq!(files_under(directory.path()).len(), 1, "nothing was written");
}

#[test]
fn configuration_files_are_allowed() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["node.toml", "genesis.json", "node.log", "node.pid", "pool.journal", "VALIDATOR"] {
        fs::write(directory.path().join(name), "").unwrap();
    }
    open(directory.path(), options(Backend::Redb)).unwrap();
}

#[test]
fn other_genesis_is_refused_with_both_hashes() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), options(Backend::Redb)).unwrap());
    let mut other = genesis();
    other.chain_id = 78;
    let error = Store::open(directory.path(), &other, options(Backend::Redb)).err().unwrap();
    assert!(matches!(error, StoreError::OtherChain { .. }));
    let text = error.to_string();
    for side in ["chain 77", "chain 78", &genesis().hash().to_string(), &other.hash().to_string()] {
        assert!(text.contains(side), "{text}");
    }
    // Also without VERSION: the segments identify the chain.
    fs::remove_file(directory.path().join("VERSION")).unwrap();
    let error = Store::open(directory.path(), &other, options(Backend::Redb)).err().unwrap();
    assert!(matches!(error, StoreError::OtherChain { .. }), "{error}");
}

#[test]
fn newer_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), options(Backend::Redb)).unwrap());
    fs::write(directory.path().join("VERSION"), "schema 9\nsomething new\n").unwrap();
    let error = refusal(directory.path());
    assert!(matches!(error, StoreError::NewerSchema { found: 9, supported: SCHEMA, .. }), "{error}");
    for damaged in ["", "schema x", "schema 1\nchain_id 77\n", "hello"] {
        fs::write(directory.path().join("VERSION"), damaged).unwrap();
        assert!(matches!(refusal(directory.path()), StoreError::BadVersion { .. }), "{damaged:?}");
    }
}

#[test]
fn missing_block_log_is_refused_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let chain = Chain::of(5);
    let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
    append(&mut store, &chain);
    drop(store);
    fs::remove_dir_all(directory.path().join("blocks")).unwrap();
    let error = refusal(directory.path());
    assert!(matches!(error, StoreError::BlocksMissing { .. }), "{error}");
    // The remedy in the error message: the chain is fetched again, and the safety log is kept.
    fs::remove_dir_all(directory.path().join("state")).unwrap();
    fs::remove_file(directory.path().join("VERSION")).unwrap();
    let (store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    assert_holds(&Chain::new(), &store, &recovered);
    assert_eq!(recovered.safety.len(), 5);
    assert!(!recovered.safety_lost);
}

#[test]
fn free_space_thresholds() {
    let directory = tempfile::tempdir().unwrap();
    for (low, exhausted, expected) in [(0, 0, Space::Enough), (u64::MAX, 0, Space::Low), (u64::MAX, u64::MAX, Space::Exhausted)]
    {
        let mut options = options(Backend::Redb);
        (options.low_space_bytes, options.exhausted_space_bytes) = (low, exhausted);
        let (store, _) = open(directory.path(), options).unwrap();
        assert_eq!(store.space().unwrap(), expected);
        assert!(store.free_space().unwrap() > 0);
    }
}

#[test]
fn evidence_is_stored_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDirectory::new(directory.path());
    assert!(data.read_evidence().unwrap().is_empty());
    for (name, bytes) in [("two", b"2"), ("one", b"1"), ("one", b"3")] {
        data.write_evidence(name, bytes).unwrap();
    }
    let file = |name, bytes: &[u8]| (data.evidence().join(name), bytes.to_vec());
    assert_eq!(data.read_evidence().unwrap(), [file("one", b"3"), file("two", b"2")]);
    // A new node accepts such a directory.
    open(directory.path(), options(Backend::Redb)).unwrap();
}
