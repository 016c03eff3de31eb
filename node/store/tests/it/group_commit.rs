//! One `fdatasync` per log and group, the safety log first; nothing is published before both.

use crate::support::*;
use corniche_engine::Ticket;
use corniche_store::probe::{Probe, Step};
use corniche_store::{Backend, Options, StoreError};
use corniche_types::*;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Records the operations, and fails the chosen one.
#[derive(Default)]
struct Notes {
    lines: Mutex<Vec<String>>,
    fail: Mutex<Option<(String, io::ErrorKind)>>,
}

impl Probe for Notes {
    fn before(&self, step: &Step<'_>) -> io::Result<()> {
        let log = |path: &Path| path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let line = match step {
            Step::Create { path } => format!("create {}", log(path)),
            Step::Write { path, .. } => format!("write {}", log(path)),
            Step::Sync { path } => format!("sync {}", log(path)),
            Step::SyncDirectory { path } => format!("sync directory {}", path.file_name().unwrap().to_string_lossy()),
            Step::Cut { path, .. } => format!("cut {}", log(path)),
            Step::Remove { path } => format!("remove {}", log(path)),
            Step::Publish { head } => format!("publish {head}"),
        };
        let fails = self.fail.lock().unwrap().as_ref().filter(|(fail, _)| *fail == line).map(|(_, kind)| *kind);
        self.lines.lock().unwrap().push(line);
        fails.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

fn with(notes: &Arc<Notes>) -> Options {
    Options { probe: Some(notes.clone()), ..options(Backend::Redb) }
}

fn taken(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut *notes.lines.lock().unwrap())
}

#[test]
fn group_commit_order() {
    let directory = tempfile::tempdir().unwrap();
    let notes = Arc::new(Notes::default());
    let (mut store, _) = open(directory.path(), with(&notes)).unwrap();
    taken(&notes);
    let mut chain = Chain::new();
    // Blocks are appended first, several records of each kind: order and number of syncs do not depend on it.
    for ticket in 1..=5 {
        store.append_block(chain.extend()).unwrap();
        store.append_certificate(&chain.certificate(ticket)).unwrap();
        store.append_safety(Ticket(ticket), &safety_record(ticket)).unwrap();
    }
    assert!(taken(&notes).is_empty(), "nothing reaches the disk before the sync");
    assert_eq!(store.reader().head().height(), Height(0));
    let synced = store.sync().unwrap();
    assert_eq!(synced.tickets, (1..=5).map(Ticket).collect::<Vec<_>>());
    assert_eq!(synced.head, Height(5));
    assert_eq!(taken(&notes), ["write safety", "sync safety", "write blocks", "sync blocks", "publish 5"]);
    assert_eq!(store.reader().head().height(), Height(5), "visible at once");

    assert!(store.sync().unwrap().tickets.is_empty());
    assert!(taken(&notes).is_empty(), "nothing to sync, nothing synced");
    store.append_safety(Ticket(6), &safety_record(6)).unwrap();
    store.sync().unwrap();
    assert_eq!(taken(&notes), ["write safety", "sync safety"]);
}

#[test]
fn new_segment_is_durable_before_use() {
    let directory = tempfile::tempdir().unwrap();
    let notes = Arc::new(Notes::default());
    let (mut store, _) = open(directory.path(), with(&notes)).unwrap();
    let opening = taken(&notes);
    let created = ["create blocks", "write blocks", "sync blocks", "sync directory blocks"];
    assert_eq!(opening[..4], created);
    let mut ticket = 0;
    let beginning = loop {
        ticket += 1;
        store.append_safety(Ticket(ticket), &Bytes::from(vec![0; 100])).unwrap();
        store.sync().unwrap();
        let lines = taken(&notes);
        if lines.contains(&"create safety".to_owned()) {
            break lines;
        }
    };
    let whole = ["create safety", "write safety", "sync safety", "sync directory safety", "write safety", "sync safety"];
    assert_eq!(beginning, whole);
}

/// After a failed operation the bytes may or may not be on disk. Nothing is published and nothing more is
/// written. A restart reads the disk and continues.
#[test]
fn failed_write_stops_store() {
    let steps = ["write safety", "sync safety", "write blocks", "sync blocks"];
    for (step, kind) in steps.into_iter().zip([io::ErrorKind::StorageFull, io::ErrorKind::Other].into_iter().cycle()) {
        let directory = tempfile::tempdir().unwrap();
        let notes = Arc::new(Notes::default());
        let (mut store, _) = open(directory.path(), with(&notes)).unwrap();
        let mut chain = Chain::of(3);
        append(&mut store, &chain);
        let before = chain.clone();
        *notes.fail.lock().unwrap() = Some((step.into(), kind));
        store.append_safety(Ticket(50), &safety_record(50)).unwrap();
        store.append_block(chain.extend()).unwrap();
        let error = store.sync().unwrap_err();
        match kind {
            io::ErrorKind::StorageFull => assert!(matches!(error, StoreError::DiskFull { .. }), "{step}: {error}"),
            _ => assert!(matches!(error, StoreError::Io { .. }), "{step}: {error}"),
        }
        assert_reader(&before, &store.reader());
        *notes.fail.lock().unwrap() = None;
        taken(&notes);
        let stopped = [
            store.sync().err(),
            store.append_safety(Ticket(51), &safety_record(51)).err(),
            store.append_block(chain.head().clone()).err(),
            store.append_progress(&Resume::default()).err(),
        ];
        for error in stopped {
            assert!(matches!(error, Some(StoreError::Stopped { .. })), "{step}: {error:?}");
        }
        assert!(taken(&notes).is_empty());
        drop(store);
        let (mut store, recovered) = open(directory.path(), options(Backend::Redb)).unwrap();
        let head = recovered.head.height().0;
        assert!(head == 3 || head == 4, "{step}");
        append(&mut store, &chain);
        assert_eq!(store.reader().head().hash, chain.hash(4));
    }
}
