//! All synced data exists after a restart; other data may be lost.

use crate::support::*;
use corniche_engine::Ticket;
use corniche_state::StateView;
use corniche_store::StoreError;
use corniche_types::*;

#[test]
fn new_directory_has_genesis() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        let (store, recovered) = open(directory.path(), options(backend)).unwrap();
        assert_holds(&Chain::new(), &store, &recovered);
        assert!(!recovered.safety_lost && recovered.rebuilt.is_none() && recovered.safety.is_empty());
        assert_eq!(recovered.resume, Resume::default());
        drop((store, recovered));
        let (store, recovered) = open(directory.path(), options(backend)).unwrap();
        assert_holds(&Chain::new(), &store, &recovered);
        assert!(!recovered.safety_lost && recovered.rebuilt.is_none());
    }
}

#[test]
fn restart_keeps_synced_data() {
    for backend in BACKENDS {
        for checkpoint_at in [None, Some(3), Some(17), Some(40)] {
            let directory = tempfile::tempdir().unwrap();
            let (mut store, _) = open(directory.path(), options(backend)).unwrap();
            if let Some(height) = checkpoint_at {
                append(&mut store, &Chain::of(height));
                store.checkpoint();
                assert_eq!(store.reader().checkpoint_height(), Height(height));
            }
            let chain = Chain::of(40);
            append(&mut store, &chain);
            assert_reader(&chain, &store.reader());
            drop(store);
            let (store, recovered) = open(directory.path(), options(backend)).unwrap();
            assert_holds(&chain, &store, &recovered);
            assert_eq!(recovered.rebuilt, None);
            let tickets: Vec<_> = (1..=40).map(|ticket| (Ticket(ticket), safety_record(ticket))).collect();
            assert_eq!(recovered.safety, tickets);
        }
    }
}

#[test]
fn chain_continues_over_restarts() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        let mut chain = Chain::new();
        for round in 0..12 {
            let (mut store, recovered) = open(directory.path(), options(backend)).unwrap();
            assert_holds(&chain, &store, &recovered);
            assert_eq!(recovered.rebuilt, None);
            (0..7).for_each(|_| drop(chain.extend()));
            append(&mut store, &chain);
            if round % 3 == 2 {
                store.checkpoint();
            }
        }
        assert!(files_under(&directory.path().join("blocks")).len() > 2, "several segments");
    }
}

/// The checkpoint stays behind the head, so that recent heights are readable after a restart.
#[test]
fn recent_heights_are_readable_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let chain = Chain::of(30);
    let (mut store, _) = open(directory.path(), options(BACKENDS[0])).unwrap();
    append(&mut store, &chain);
    drop(store);
    let (_store, recovered) = open(directory.path(), options(BACKENDS[0])).unwrap();
    for height in 26..=30u64 {
        let snapshot = recovered.state.at(Height(height)).unwrap_or_else(|| panic!("height {height}"));
        for (address, account) in &chain.blocks[height as usize].changes.accounts {
            assert_eq!(snapshot.account(address), *account);
        }
    }
}

#[test]
fn unsynced_data_is_invisible() {
    let directory = tempfile::tempdir().unwrap();
    let mut chain = Chain::of(5);
    let (mut store, _) = open(directory.path(), options(BACKENDS[0])).unwrap();
    append(&mut store, &chain);
    let before = chain.clone();
    store.append_safety(Ticket(99), &safety_record(99)).unwrap();
    store.append_block(chain.extend()).unwrap();
    store.append_certificate(&chain.certificate(6)).unwrap();
    assert_reader(&before, &store.reader());
    drop(store);
    let (store, recovered) = open(directory.path(), options(BACKENDS[0])).unwrap();
    assert_holds(&before, &store, &recovered);
    assert!(recovered.safety.iter().all(|(ticket, _)| *ticket != Ticket(99)));
}

#[test]
fn progress_moves_resume_point() {
    let directory = tempfile::tempdir().unwrap();
    let mut chain = Chain::of(3);
    let (mut store, _) = open(directory.path(), options(BACKENDS[0])).unwrap();
    append(&mut store, &chain);
    let at = |index: u64| Resume {
        index: CommitIndex(index),
        checkpoint: Bytes::from(format!("empty {index}").into_bytes()),
        ..Resume::default()
    };
    store.append_progress(&at(7)).unwrap();
    store.append_progress(&at(9)).unwrap();
    store.append_progress(&at(8)).unwrap();
    store.sync().unwrap();
    let (store, recovered) = {
        drop(store);
        open(directory.path(), options(BACKENDS[0])).unwrap()
    };
    assert_eq!(recovered.resume, at(9));
    drop(store);
    // A block that resumes later is accepted again; one that resumes earlier is refused.
    let (mut store, _) = open(directory.path(), options(BACKENDS[0])).unwrap();
    let mut next = chain.extend();
    assert!(matches!(store.append_block(next.clone()), Err(StoreError::Resume { .. })), "block 4 resumes after commit 8");
    next.resume = at(9);
    store.append_block(next).unwrap();
    store.append_progress(&at(10)).unwrap();
    let mut after = chain.extend();
    after.resume = at(11);
    store.append_block(after).unwrap();
    store.append_progress(&at(12)).unwrap();
    store.sync().unwrap();
    store.checkpoint();
    drop(store);
    let (_, recovered) = open(directory.path(), options(BACKENDS[0])).unwrap();
    assert_eq!(recovered.resume, at(12));
}

#[test]
fn divergence_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let chain = Chain::of(9);
    let (mut store, _) = open(directory.path(), options(BACKENDS[0])).unwrap();
    append(&mut store, &chain);
    let other = Certificate { header_hash: B256::repeat_byte(0xdd), ..chain.certificate(9) };
    let refused = store.append_certificate(&other).unwrap_err();
    assert!(matches!(refused, StoreError::Certificate { .. }), "{refused}");
    store.append_divergence(&other).unwrap();
    store.sync().unwrap();
    store.checkpoint();
    drop(store);
    let (store, recovered) = open(directory.path(), options(BACKENDS[0])).unwrap();
    assert_eq!(recovered.divergence, Some(other));
    assert_reader(&chain, &store.reader());
}

/// Invalid calls are refused before anything is written, and the store continues.
#[test]
fn blocks_out_of_order_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let chain = Chain::of(6);
    let (mut store, _) = open(directory.path(), options(BACKENDS[0])).unwrap();
    append(&mut store, &Chain::of(2));
    assert!(matches!(store.append_block(chain.blocks[4].clone()), Err(StoreError::Height { .. })));
    assert!(matches!(store.append_block(chain.blocks[2].clone()), Err(StoreError::Height { .. })));
    let mut orphan = chain.blocks[3].clone();
    orphan.block.header.parent_hash = B256::repeat_byte(1);
    assert!(matches!(store.append_block(orphan), Err(StoreError::Parent { .. })));
    assert!(matches!(store.append_certificate(&chain.certificate(5)), Err(StoreError::Certificate { .. })));
    append(&mut store, &chain);
    drop(store);
    let (store, recovered) = open(directory.path(), options(BACKENDS[0])).unwrap();
    assert_holds(&chain, &store, &recovered);
}

/// A group larger than the writer's limit is synced in pieces; nothing is lost, and every ticket is reported.
#[test]
fn a_huge_group() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, _) = open(directory.path(), options(BACKENDS[1])).unwrap();
    let record = Bytes::from(vec![5u8; 9 << 20]);
    (1..=8).for_each(|ticket| store.append_safety(Ticket(ticket), &record).unwrap());
    assert_eq!(store.sync().unwrap().tickets, (1..=8).map(Ticket).collect::<Vec<_>>());
    drop(store);
    let (_, recovered) = open(directory.path(), options(BACKENDS[1])).unwrap();
    assert_eq!(recovered.safety.len(), 8);
}

/// Flips a byte of the block log at the first occurrence of these bytes.
fn damage(directory: &std::path::Path, at: &[u8]) {
    for path in files_under(&directory.join("blocks")) {
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(found) = bytes.windows(at.len()).position(|window| window == at) {
            bytes[found] ^= 1;
            return std::fs::write(&path, bytes).unwrap();
        }
    }
    panic!("it is in no segment");
}

#[test]
fn header_is_verified_by_hash() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        let (mut store, _) = open(directory.path(), options(backend)).unwrap();
        let chain = Chain::of(40);
        append(&mut store, &chain);
        store.checkpoint();
        let reader = store.reader();
        let header = &chain.blocks[5].block.header;
        damage(directory.path(), b"transaction 2 of block 5");
        assert_eq!(reader.header(Height(5)).as_ref(), Some(header));
        assert_eq!(reader.read_failures(), 0);
        assert!(reader.block(Height(5)).is_none());
        damage(directory.path(), header.state_root.as_slice());
        damage(directory.path(), chain.blocks[7].block.header.state_root.as_slice());
        assert_eq!(reader.header(Height(5)).as_ref(), Some(header), "what was read once is kept");
        assert_eq!(reader.header(Height(7)), None);
        assert_eq!(reader.header(Height(6)).as_ref(), Some(&chain.blocks[6].block.header));
    }
}
