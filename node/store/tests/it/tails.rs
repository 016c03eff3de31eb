//! Truncates and changes both logs of a store at every byte of their last records.

use crate::support::*;
use corniche_engine::Ticket;
use corniche_store::{Backend, StoreError};
use std::fs;
use std::path::Path;

const RECORD_HEADER: usize = 32;
/// Size of the last record of each group of the block log. It contains the durable length of the safety log.
const SAFETY_END: usize = RECORD_HEADER + 2 + 16;

/// Chain of 6 blocks without certificates, each block and each ticket in its own group, and a seventh ticket.
fn sample(directory: &Path) -> Chain {
    let mut chain = Chain::new();
    chain.transactions_per_block = 1;
    let (mut store, _) = open(directory, options(Backend::Redb)).unwrap();
    for height in 1..=6 {
        store.append_safety(Ticket(height), &safety_record(height)).unwrap();
        store.append_block(chain.extend()).unwrap();
        store.sync().unwrap();
    }
    store.append_safety(Ticket(7), &safety_record(7)).unwrap();
    store.sync().unwrap();
    chain
}

fn prefix(chain: &Chain, heights: usize) -> Chain {
    let mut shorter = Chain::new();
    shorter.transactions_per_block = chain.transactions_per_block;
    (0..heights).for_each(|_| drop(shorter.extend()));
    shorter
}

/// Reopens after `damage` to the last segment of the log; returns the number of remaining blocks and safety
/// records.
fn left(directory: &Path, pristine: &Path, log: &str, damage: impl FnOnce(&mut Vec<u8>)) -> (usize, usize) {
    // Only the damaged file changes; the others are reused from the previous case.
    let segment = last_segment(&pristine.join(log));
    let mut bytes = fs::read(&segment).unwrap();
    damage(&mut bytes);
    fs::write(directory.join(log).join(segment.file_name().unwrap()), bytes).unwrap();
    let (store, recovered) = open(directory, options(Backend::Redb)).unwrap();
    let head = recovered.head.height().0 as usize;
    assert_eq!(store.reader().head().height().0 as usize, head);
    assert_eq!(recovered.tree.root(), recovered.head.header().state_root);
    assert!(!recovered.safety_lost);
    for (expected, (ticket, record)) in (1..).zip(&recovered.safety) {
        assert_eq!((ticket.0, record), (expected, &safety_record(expected)));
    }
    (head, recovered.safety.len())
}

/// Damages each byte of `tail`, which is counted from the end of the log. `expected` are the numbers of remaining blocks and
/// safety records after damage, `whole` those without damage.
fn each_byte(log: &str, tail: std::ops::Range<usize>, expected: (usize, usize), whole: (usize, usize)) {
    let pristine = scratch();
    let chain = sample(pristine.path());
    let directory = scratch();
    copy(pristine.path(), directory.path());
    let length = fs::metadata(last_segment(&pristine.path().join(log))).unwrap().len() as usize;
    for byte in length - tail.end..length - tail.start {
        let cut = left(directory.path(), pristine.path(), log, |bytes| bytes.truncate(byte));
        assert_eq!(cut, expected, "cut at byte {byte}");
        let flipped = left(directory.path(), pristine.path(), log, |bytes| bytes[byte] ^= 1 << (byte % 8));
        assert_eq!(flipped, expected, "flipped at byte {byte}");
    }
    assert_eq!(left(directory.path(), pristine.path(), log, |_| {}), whole);
    let (store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    assert_eq!(recovered.head.hash, prefix(&chain, 6).hash(6));
    drop((store, recovered));
}

#[test]
fn block_log_cut_at_every_byte() {
    let chain = {
        let directory = scratch();
        sample(directory.path())
    };
    let last_record = RECORD_HEADER + 1 + corniche_types::wire::encode(chain.head()).len();
    each_byte("blocks", SAFETY_END..SAFETY_END + last_record, (5, 7), (6, 7));
    each_byte("blocks", 0..SAFETY_END, (6, 7), (6, 7));
}

#[test]
fn safety_log_cut_at_every_byte() {
    let last_record = RECORD_HEADER + 1 + 8 + safety_record(7).len();
    each_byte("safety", 0..last_record, (6, 6), (6, 7));
}

#[test]
fn chain_continues_after_truncation() {
    let directory = scratch();
    let chain = Chain::of(9);
    let (mut store, _) = open(directory.path(), options(Backend::Sled)).unwrap();
    append(&mut store, &chain);
    drop(store);
    let segment = last_segment(&directory.path().join("blocks"));
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - SAFETY_END - 5]).unwrap();
    let (mut store, recovered) = open(directory.path(), options(Backend::Sled)).unwrap();
    assert!(recovered.cut_bytes > 0);
    assert_eq!(recovered.head.height().0, 8);
    store.append_block(chain.blocks[9].clone()).unwrap();
    store.sync().unwrap();
    drop((store, recovered));
    let (store, recovered) = open(directory.path(), options(Backend::Sled)).unwrap();
    assert_eq!(*recovered.head.committed, chain.blocks[9]);
    assert_reader(&chain, &store.reader());
}

#[test]
fn damage_before_tail_is_refused_with_advice() {
    for log in ["blocks", "safety"] {
        let directory = scratch();
        sample(directory.path());
        let segment = last_segment(&directory.path().join(log));
        let pristine = fs::read(&segment).unwrap();
        for byte in [0, 60, 120, 130] {
            let mut bytes = pristine.clone();
            bytes[byte] ^= 0x20;
            fs::write(&segment, bytes).unwrap();
            let error = open(directory.path(), options(Backend::Redb)).expect_err("refused");
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("before its tail") && text.contains("restore"), "{text}");
            assert!(text.contains(&segment.display().to_string()), "{text}");
        }
        fs::write(&segment, &pristine).unwrap();
        open(directory.path(), options(Backend::Redb)).unwrap();
    }
}

/// Damage far below the checkpoint does not prevent a start, unless `check_all` is set, and damaged data is
/// never served.
#[test]
fn old_damage_is_detected() {
    let directory = scratch();
    let chain = Chain::of(120);
    let (mut store, _) = open(directory.path(), options(Backend::Sled)).unwrap();
    append(&mut store, &chain);
    store.checkpoint();
    drop(store);
    let oldest = files_under(&directory.path().join("blocks")).remove(0);
    let mut bytes = fs::read(&oldest).unwrap();
    bytes[200] ^= 1;
    fs::write(&oldest, bytes).unwrap();

    let mut everything = options(Backend::Sled);
    everything.check_all = true;
    assert!(matches!(open(directory.path(), everything), Err(StoreError::Damaged { .. })));
    let mut again = options(Backend::Sled);
    let (store, _) = open(directory.path(), again.clone()).unwrap();
    assert!(store.reader().block(corniche_types::Height(1)).is_none());
    assert!(store.reader().read_failures() > 0);
    assert_eq!(*store.reader().block(corniche_types::Height(120)).unwrap().committed, chain.blocks[120]);
    drop(store);
    again.rebuild = true;
    assert!(matches!(open(directory.path(), again), Err(StoreError::Damaged { .. })));
}
