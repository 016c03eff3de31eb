//! Power cuts between any two operations, and within the last write. Acknowledged data must exist. Of the
//! rest, a prefix or nothing may exist.

use crate::support::*;
use corniche_engine::Ticket;
use corniche_store::probe::{Probe, Step};
use corniche_store::{Backend, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug)]
enum Event {
    Create(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Sync(PathBuf),
    SyncDirectory(PathBuf),
    Remove(PathBuf),
    /// `sync` returned: head and tickets are guaranteed from here on; tickets below `released` may be
    /// deleted.
    Acknowledged {
        head: u64,
        tickets: u64,
        released: u64,
    },
}

#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl Probe for Recorder {
    fn before(&self, step: &Step<'_>) -> io::Result<()> {
        let event = match step {
            Step::Create { path } => Event::Create((*path).into()),
            Step::Write { path, offset, bytes } => Event::Write((*path).into(), *offset, bytes.to_vec()),
            Step::Sync { path } => Event::Sync((*path).into()),
            Step::SyncDirectory { path } => Event::SyncDirectory((*path).into()),
            Step::Remove { path } => Event::Remove((*path).into()),
            Step::Cut { .. } | Step::Publish { .. } => return Ok(()),
        };
        self.0.lock().unwrap().push(event);
        Ok(())
    }
}

/// Effect of a power cut on unsynced writes.
#[derive(Clone, Copy, Debug)]
enum Unsynced {
    Lost,
    Kept,
    /// The file has its new length, but the first half of the last write is missing.
    FirstHalfZero,
    /// Only the first half of the last write arrived.
    Torn,
}

#[derive(Clone, Default)]
struct File {
    synced: Vec<u8>,
    now: Vec<u8>,
    last_write: (usize, usize),
    named: bool,
}

/// Files after `events`, as the disk would have them.
fn after(events: &[Event], unsynced: Unsynced) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files: BTreeMap<PathBuf, File> = BTreeMap::new();
    let mut removed: BTreeSet<PathBuf> = BTreeSet::new();
    for event in events {
        match event {
            Event::Create(path) => drop(files.insert(path.clone(), File::default())),
            Event::Write(path, offset, bytes) => {
                let file = files.get_mut(path).unwrap();
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                file.now.resize(end.max(file.now.len()), 0);
                file.now[start..end].copy_from_slice(bytes);
                file.last_write = (start, end);
            }
            Event::Sync(path) => {
                let file = files.get_mut(path).unwrap();
                file.synced = file.now.clone();
            }
            Event::SyncDirectory(directory) => {
                files.iter_mut().filter(|(path, _)| path.parent() == Some(directory)).for_each(|(_, file)| file.named = true);
                for path in removed.extract_if(.., |path| path.parent() == Some(directory)) {
                    files.remove(&path);
                }
            }
            Event::Remove(path) => drop(removed.insert(path.clone())),
            Event::Acknowledged { .. } => {}
        }
    }
    if !matches!(unsynced, Unsynced::Lost) {
        removed.iter().for_each(|path| drop(files.remove(path)));
    }
    let on_disk = |file: File| {
        let (start, end) = file.last_write;
        let middle = start + (end - start) / 2;
        let pending = file.now.len() > file.synced.len();
        match unsynced {
            Unsynced::Lost => file.named.then_some(file.synced),
            Unsynced::FirstHalfZero if pending => {
                let mut bytes = file.now;
                bytes[start..middle].fill(0);
                Some(bytes)
            }
            Unsynced::Torn if pending => Some(file.now[..middle].to_vec()),
            _ => Some(file.now),
        }
    };
    files.into_iter().filter_map(|(path, file)| Some((path, on_disk(file)?))).collect()
}

/// Blocks, certificates, records and releases in groups of different sizes; small segments cause frequent new
/// ones.
fn record_a_run(directory: &Path) -> (Vec<Event>, Chain) {
    let recorder = Arc::new(Recorder::default());
    let probe: Arc<dyn Probe> = recorder.clone();
    let small =
        Options { probe: Some(probe), block_segment_bytes: 4 << 10, safety_segment_bytes: 400, ..options(Backend::Redb) };
    let (mut store, _) = open(directory, small).unwrap();
    let acknowledge = |head, tickets, released| {
        recorder.0.lock().unwrap().push(Event::Acknowledged { head, tickets, released });
    };
    acknowledge(0, 0, 0);
    let mut chain = Chain::new();
    let mut released = 0;
    for round in 1..=14u64 {
        for _ in 0..round % 3 {
            store.append_block(chain.extend()).unwrap();
            store.append_certificate(&chain.certificate(chain.head().block.height().0)).unwrap();
        }
        for ticket in round * 2 - 1..=round * 2 {
            store.append_safety(Ticket(ticket), &safety_record(ticket)).unwrap();
        }
        if round % 4 == 0 {
            released = round * 2 - 3;
            store.release_safety_below(Ticket(released)).unwrap();
            // From the call on, the records below may be deleted.
            let head = store.reader().head().height().0;
            acknowledge(head, round * 2 - 2, released);
        }
        let head = store.sync().unwrap().head.0;
        acknowledge(head, round * 2, released);
    }
    (recorder.0.lock().unwrap().clone(), chain)
}

#[test]
fn acknowledged_data_survives_power_loss() {
    let original = scratch();
    let (events, chain) = record_a_run(original.path());
    let made = events.iter().position(|event| matches!(event, Event::Acknowledged { .. })).unwrap();
    assert!(events.iter().any(|event| matches!(event, Event::Remove(_))), "segments were released");
    let version = fs::read(original.path().join("VERSION")).unwrap();
    for cut in made + 1..=events.len() {
        for unsynced in [Unsynced::Lost, Unsynced::Kept, Unsynced::FirstHalfZero, Unsynced::Torn] {
            let directory = scratch();
            for part in ["safety", "blocks"] {
                fs::create_dir(directory.path().join(part)).unwrap();
            }
            fs::write(directory.path().join("VERSION"), &version).unwrap();
            for (path, bytes) in after(&events[..cut], unsynced) {
                fs::write(directory.path().join(path.strip_prefix(original.path()).unwrap()), bytes).unwrap();
            }
            let promise = events[..cut].iter().rev().find_map(|event| match event {
                Event::Acknowledged { head, tickets, released } => Some((*head, *tickets, *released)),
                _ => None,
            });
            let (head, tickets, released) = promise.unwrap();
            let case = format!("cut after step {cut} ({:?}), unsynced {unsynced:?}", kind(&events[cut - 1]));
            let (store, recovered) =
                open(directory.path(), options(Backend::Redb)).unwrap_or_else(|error| panic!("{case}: {error}"));
            let found = recovered.head.height().0;
            assert!(found >= head, "{case}: head {found}, promised {head}");
            for height in 0..=found {
                let block = store.reader().block(corniche_types::Height(height)).unwrap();
                assert_eq!(*block.committed, chain.blocks[height as usize], "{case}");
            }
            assert_eq!(recovered.tree.root(), recovered.head.header().state_root);
            let kept: BTreeSet<u64> = recovered.safety.iter().map(|(ticket, _)| ticket.0).collect();
            for ticket in released.max(1)..=tickets {
                assert!(kept.contains(&ticket), "{case}: ticket {ticket} of {tickets} is gone, released below {released}");
            }
            assert!(recovered.safety.iter().all(|(ticket, record)| *record == safety_record(ticket.0)), "{case}");
            assert!(!recovered.safety_lost, "{case}");
        }
    }
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Create(_) => "create",
        Event::Write(..) => "write",
        Event::Sync(_) => "sync",
        Event::SyncDirectory(_) => "sync directory",
        Event::Remove(_) => "remove",
        Event::Acknowledged { .. } => "acknowledged",
    }
}
