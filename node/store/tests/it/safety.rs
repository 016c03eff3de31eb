//! Records that the engine needs after a restart, until it releases them.

use crate::support::*;
use corniche_engine::Ticket;
use corniche_store::{Backend, DataDirectory};
use corniche_types::Bytes;
use std::fs;

fn big(ticket: u64) -> Bytes {
    Bytes::from(vec![ticket as u8; 300])
}

#[test]
fn released_segments_are_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let safety = directory.path().join("safety");
    let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
    for ticket in 1..=40 {
        store.append_safety(Ticket(ticket), &big(ticket)).unwrap();
        store.sync().unwrap();
    }
    let before = files_under(&safety).len();
    assert!(before > 8, "{before} segments of 1 kB");
    store.release_safety_below(Ticket(20)).unwrap();
    assert_eq!(files_under(&safety).len(), before, "deleted with the next sync, not before");
    store.sync().unwrap();
    let after = files_under(&safety).len();
    assert!(after <= before / 2 + 2, "{after} of {before} segments are left");
    store.sync().unwrap();
    drop(store);
    let (mut store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    let expected: Vec<_> = (20..=40).map(|ticket| (Ticket(ticket), big(ticket))).collect();
    assert_eq!(recovered.safety, expected);
    assert!(!recovered.safety_lost);
    store.release_safety_below(Ticket(1000)).unwrap();
    store.sync().unwrap();
    store.sync().unwrap();
    assert_eq!(files_under(&safety).len(), 1);
    drop((store, recovered));
    let (_, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    assert!(recovered.safety.is_empty() && !recovered.safety_lost);
}

/// The log stays small if records are released regularly.
#[test]
fn released_log_does_not_grow() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
    for ticket in 1..=300 {
        store.append_safety(Ticket(ticket), &big(ticket)).unwrap();
        store.release_safety_below(Ticket(ticket)).unwrap();
        store.sync().unwrap();
    }
    let segments = files_under(&directory.path().join("safety"));
    assert!(segments.len() <= 2, "{segments:?}");
    drop(store);
    let (_, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    assert_eq!(recovered.safety.last().unwrap().0, Ticket(300));
    assert!(recovered.safety.len() <= 2);
}

/// A release takes effect only when the data it may depend on is durable.
#[test]
fn release_before_crash_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
    for ticket in 1..=10 {
        store.append_safety(Ticket(ticket), &big(ticket)).unwrap();
        store.sync().unwrap();
    }
    store.append_safety(Ticket(11), &big(11)).unwrap();
    store.release_safety_below(Ticket(11)).unwrap();
    let killed = tempfile::tempdir().unwrap();
    copy(directory.path(), killed.path());
    let (_, recovered) = open(killed.path(), options(Backend::Redb)).unwrap();
    let expected: Vec<_> = (1..=10).map(|ticket| (Ticket(ticket), big(ticket))).collect();
    assert_eq!(recovered.safety, expected);
}

#[test]
fn lost_safety_log_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let chain = Chain::of(6);
    let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
    append(&mut store, &chain);
    drop(store);
    fs::remove_dir_all(directory.path().join("safety")).unwrap();
    // The loss is reported at every start, even after further records and segments.
    for round in 0..5u64 {
        let (mut store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
        assert!(recovered.safety_lost, "round {round}");
        assert_reader(&chain, &store.reader());
        for ticket in round * 10 + 100..round * 10 + 110 {
            store.append_safety(Ticket(ticket), &big(ticket)).unwrap();
            store.sync().unwrap();
        }
        store.release_safety_below(Ticket(round * 10 + 105)).unwrap();
        store.sync().unwrap();
    }
    let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
    store.append_history_known().unwrap();
    drop(store);
    let (mut store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    assert!(recovered.safety_lost, "that was never synced");
    store.append_history_known().unwrap();
    store.sync().unwrap();
    for ticket in 500..520 {
        drop(store);
        let recovered;
        (store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
        assert!(!recovered.safety_lost);
        store.append_safety(Ticket(ticket), &big(ticket)).unwrap();
        store.sync().unwrap();
        store.release_safety_below(Ticket(ticket)).unwrap();
        store.sync().unwrap();
    }
}

/// Also if only its segments are missing, if the only one has a torn header, or if VERSION is missing too.
#[test]
fn safety_log_without_segments_is_lost() {
    for (version, torn) in [(true, false), (true, true), (false, false)] {
        let directory = tempfile::tempdir().unwrap();
        let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
        append(&mut store, &Chain::of(2));
        drop(store);
        let segments = files_under(&directory.path().join("safety"));
        segments.iter().for_each(|segment| fs::remove_file(segment).unwrap());
        if torn {
            fs::write(&segments[0], "corn").unwrap();
        }
        if !version {
            fs::remove_file(directory.path().join("VERSION")).unwrap();
        }
        let (_, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
        assert!(recovered.safety_lost, "version {version}, torn {torn}");
    }
}

/// The newest segment lost bytes that were durable when a block was written: everything, all but the header,
/// or the last record.
#[test]
fn safety_log_without_end_is_lost() {
    const HEADER: u64 = 83;
    let cases = [("nothing", Some(0)), ("header", Some(HEADER)), ("last record", Some(u64::MAX)), ("whole", None)];
    for (case, cut) in cases {
        let is_lost = cut.is_some();
        let directory = tempfile::tempdir().unwrap();
        let chain = Chain::of(3);
        let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
        for ticket in 101..=112 {
            store.append_safety(Ticket(ticket), &big(ticket)).unwrap();
            store.sync().unwrap();
        }
        append(&mut store, &chain);
        drop(store);
        let segments = files_under(&directory.path().join("safety"));
        assert!(segments.len() > 1, "the log has older segments");
        let newest = segments.iter().max().unwrap();
        let length = fs::metadata(newest).unwrap().len();
        let left = cut.map_or(length, |cut| cut.min(length - 1));
        fs::File::options().write(true).open(newest).unwrap().set_len(left).unwrap();
        let (mut store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
        assert_eq!((recovered.safety_lost, recovered.safety.is_empty()), (is_lost, is_lost), "{case}");
        assert_reader(&chain, &store.reader());
        // New records are kept.
        store.append_safety(Ticket(200), &big(200)).unwrap();
        store.sync().unwrap();
        drop(store);
        let (_, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
        assert_eq!(recovered.safety_lost, is_lost, "{case}");
        assert_eq!(recovered.safety.last(), Some(&(Ticket(200), big(200))), "{case}");
    }
}

/// Records after the last block may never have been durable, so they were not acknowledged.
#[test]
fn torn_end_after_last_block_is_no_loss() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
    append(&mut store, &Chain::of(2));
    store.append_safety(Ticket(100), &big(100)).unwrap();
    store.sync().unwrap();
    drop(store);
    let segments = files_under(&directory.path().join("safety"));
    let newest = segments.iter().max().unwrap();
    let length = fs::metadata(newest).unwrap().len();
    fs::File::options().write(true).open(newest).unwrap().set_len(length - 1).unwrap();
    let (_, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
    assert!(!recovered.safety_lost);
}

/// `UNSIGNED` is gone before the first record can be on disk, and only then.
#[test]
fn the_first_record_ends_the_statement_that_nothing_was_signed() {
    let directory = tempfile::tempdir().unwrap();
    let unsigned = DataDirectory::new(directory.path()).unsigned();
    fs::write(&unsigned, "key").unwrap();
    let mut chain = Chain::new();
    for _ in 0..2 {
        let (mut store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
        assert!(recovered.safety.is_empty() && unsigned.exists());
        // A node that follows stores blocks long before its first record.
        store.append_block(chain.extend()).unwrap();
        store.sync().unwrap();
    }
    let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
    assert!(unsigned.exists());
    store.append_safety(Ticket(1), &safety_record(1)).unwrap();
    assert!(!unsigned.exists(), "removed before anything is written");
    store.append_safety(Ticket(2), &safety_record(2)).unwrap();
    store.sync().unwrap();
}

#[test]
fn a_statement_beside_records_or_after_their_loss_is_a_copy_and_is_removed() {
    for is_lost in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (mut store, _) = open(directory.path(), options(Backend::Redb)).unwrap();
        store.append_safety(Ticket(1), &safety_record(1)).unwrap();
        store.append_block(Chain::new().extend()).unwrap();
        store.sync().unwrap();
        drop(store);
        if is_lost {
            fs::remove_dir_all(directory.path().join("safety")).unwrap();
        }
        let unsigned = DataDirectory::new(directory.path()).unsigned();
        fs::write(&unsigned, "key").unwrap();
        let (_, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
        assert_eq!((recovered.safety_lost, unsigned.exists()), (is_lost, false));
    }
}
