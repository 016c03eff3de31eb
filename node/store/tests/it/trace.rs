//! Ring of traced events: bounded, and tolerant of damage.

use crate::support::*;
use corniche_engine::{TraceEvent, Vertex, VertexId};
use corniche_store::{Backend, DataDirectory, Identity, Options, Trace, TraceRecord};
use corniche_types::{B256, CommitIndex, TimestampMs, ValidatorIndex, wire};
use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

const RING: u64 = 64 << 10;
/// Ring size whose first segment can hold a whole small test.
const ROOMY: u64 = 1 << 20;

fn identity() -> Identity {
    Identity { chain_id: 77, genesis_hash: B256::repeat_byte(7) }
}

fn ring(directory: &Path, bytes: u64) -> Trace {
    Trace::open(directory, identity(), bytes).unwrap()
}

/// Proposal of `author` in a round, accepted.
fn accepted(round: u64, author: u16) -> TraceEvent {
    let id = |round: u64, author| VertexId { round, author: ValidatorIndex(author), digest: B256::with_last_byte(round as u8) };
    let parents = (0..4).map(|parent| id(round.saturating_sub(1), parent)).collect();
    TraceEvent::Accepted(Vertex { id: id(round, author), parents, batch_bytes: 100, batch_digest: None })
}

/// At most as many events as the queue holds. After closing the ring, all of them are written.
fn fill(trace: &Trace, rounds: RangeInclusive<u64>) {
    for round in rounds {
        (0..4).for_each(|author| trace.record(TimestampMs(round), accepted(round, author)));
    }
}

/// Rounds in the ring, once per event.
fn rounds(trace: &Trace, within: RangeInclusive<u64>) -> Vec<u64> {
    trace.read(within, usize::MAX).records.iter().map(|record| record.time.0).collect()
}

fn four_of_each(rounds: RangeInclusive<u64>) -> Vec<u64> {
    rounds.flat_map(|round| [round; 4]).collect()
}

/// Segment files, oldest first.
fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn bytes_in(directory: &Path) -> u64 {
    segments(directory).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

#[test]
fn records_are_read_by_round() {
    let directory = scratch();
    let trace = ring(directory.path(), ROOMY);
    fill(&trace, 1..=10);
    let decided = TraceEvent::Decided {
        round: 5,
        rank: 0,
        leader: ValidatorIndex(2),
        committed: Some(B256::repeat_byte(1)),
        why: "a quorum of certificates".into(),
    };
    trace.record(TimestampMs(5), decided.clone());
    trace.record(TimestampMs(5), TraceEvent::note("resumed", "no round, so it is not kept".into()));
    drop(trace);
    for _ in 0..3 {
        let trace = ring(directory.path(), ROOMY);
        assert_eq!(rounds(&trace, 3..=4), four_of_each(3..=4));
        assert_eq!(rounds(&trace, 0..=u64::MAX).len(), 41);
        let of_five = trace.read(5..=5, usize::MAX).records;
        assert_eq!(of_five[0], TraceRecord { time: TimestampMs(5), event: accepted(5, 0) });
        assert_eq!(of_five[4].event, decided, "in the order in which they happened");
        assert_eq!((trace.newest_round(), trace.dropped()), (Some(10), 0));
        assert_eq!(trace.read(11..=20, usize::MAX).records, []);
    }
    let trace = ring(directory.path(), ROOMY);
    fill(&trace, 11..=12);
    drop(trace);
    assert_eq!(rounds(&ring(directory.path(), ROOMY), 10..=11), four_of_each(10..=11));
    assert_eq!(segments(directory.path()).len(), 1, "writing goes on where it ended");
}

#[test]
fn reads_are_limited() {
    let directory = scratch();
    let trace = ring(directory.path(), RING);
    fill(&trace, 1..=3);
    drop(trace);
    let trace = ring(directory.path(), RING);
    let window = trace.read(1..=3, 11);
    assert_eq!((window.records.len(), window.more), (11, true));
    assert!(!trace.read(1..=3, 12).more);
}

/// An engine that lost its disk starts again at round 1, so rounds need not increase.
#[test]
fn newest_round_leaves_with_its_segment() {
    let directory = scratch();
    let trace = ring(directory.path(), RING);
    assert_eq!(trace.newest_round(), None);
    fill(&trace, 5_000..=5_000);
    drop(trace);
    let trace = ring(directory.path(), RING);
    fill(&trace, 1..=1);
    drop(trace);
    let trace = ring(directory.path(), RING);
    assert_eq!(trace.newest_round(), Some(5_000), "not the round of the last event");
    fill(&trace, 2..=900);
    drop(trace);
    let trace = ring(directory.path(), RING);
    assert_eq!(trace.newest_round(), rounds(&trace, 0..=u64::MAX).into_iter().max());
    assert_eq!(trace.newest_round(), Some(900));
}

/// The ring never exceeds its size on disk, whatever was written and however often it was opened; the newest
/// events remain.
#[test]
fn ring_size_is_bounded() {
    let directory = scratch();
    let mut newest = 0;
    for _ in 0..5 {
        let trace = ring(directory.path(), RING);
        fill(&trace, newest + 1..=newest + 200);
        drop(trace);
        newest += 200;
        assert!(bytes_in(directory.path()) <= RING, "{} bytes", bytes_in(directory.path()));
        let kept = rounds(&ring(directory.path(), RING), 0..=u64::MAX);
        assert!(kept.len() as u64 > RING / 2 / 300, "{} events", kept.len());
        let oldest = kept[0];
        assert!(oldest > 1, "the first events are gone");
        assert!(four_of_each(oldest..=newest).ends_with(&kept), "what is kept has no gap");
    }
    drop(ring(directory.path(), RING / 4));
    assert!(bytes_in(directory.path()) <= RING / 4, "a smaller size holds from the start");
    assert_eq!(*rounds(&ring(directory.path(), RING / 4), 0..=u64::MAX).last().unwrap(), newest);
}

#[test]
fn window_reads_only_its_pages() {
    let directory = scratch();
    for few in 0..4 {
        fill(&ring(directory.path(), 16 << 20), 500 * few + 1..=500 * (few + 1));
    }
    let trace = ring(directory.path(), 16 << 20);
    assert!(trace.read(0..=u64::MAX, usize::MAX).scanned_bytes > 1 << 20);
    let window = trace.read(1_000..=1_009, usize::MAX);
    assert_eq!(window.records.len(), 40);
    assert!(window.scanned_bytes <= 3 * (64 << 10), "{} bytes", window.scanned_bytes);
    assert_eq!(trace.read(5_000..=6_000, usize::MAX).scanned_bytes, 0);
}

/// Slots are decided several rounds after their proposals arrived, so rounds are not sorted within a page or
/// across pages.
#[test]
fn unordered_rounds_are_found() {
    let directory = scratch();
    for few in (100..=1_000).step_by(100) {
        let trace = ring(directory.path(), 16 << 20);
        for round in few..few + 100 {
            fill(&trace, round..=round);
            let earlier = round - 90;
            trace.record(TimestampMs(earlier), TraceEvent::Elected { round: earlier, leaders: vec![ValidatorIndex(0)] });
        }
    }
    let trace = ring(directory.path(), 16 << 20);
    for round in (100..=910).step_by(45) {
        assert_eq!(rounds(&trace, round..=round), [round; 5]);
    }
    assert_eq!(rounds(&trace, 10..=10), [10]);
    fill(&trace, 1..=99);
    drop(trace);
    assert_eq!(ring(directory.path(), 16 << 20).newest_round(), Some(1_099), "not the newest round of the last page");
}

/// Three records; the last may be cut at any byte.
#[test]
fn torn_tail_loses_only_tail() {
    let directory = scratch();
    let whole = {
        let trace = ring(directory.path(), RING);
        (1..=3).for_each(|round| trace.record(TimestampMs(round), accepted(round, 0)));
        drop(trace);
        fs::read(&segments(directory.path())[0]).unwrap()
    };
    let path = segments(directory.path())[0].clone();
    let mut seen = [0; 4];
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let trace = ring(directory.path(), RING);
        let kept = rounds(&trace, 0..=u64::MAX);
        assert_eq!(kept, (1..=kept.len() as u64).collect::<Vec<_>>(), "cut at {length}");
        seen[kept.len()] += 1;
        trace.record(TimestampMs(9), accepted(9, 0));
        drop(trace);
        let kept_later = rounds(&ring(directory.path(), RING), 0..=u64::MAX);
        assert_eq!(kept_later, [kept, vec![9]].concat(), "cut at {length}, and written on");
    }
    assert_eq!(seen[3], 1, "only the whole file has all");
    assert!(seen.iter().all(|&times| times > 0));
}

/// With any wrong byte, nothing is read that was not written, and at most the record around it is lost.
#[test]
fn damage_is_skipped() {
    let directory = scratch();
    let trace = ring(directory.path(), RING);
    (1..=3).for_each(|round| trace.record(TimestampMs(round), accepted(round, 0)));
    drop(trace);
    let path = segments(directory.path())[0].clone();
    let whole = fs::read(&path).unwrap();
    let (mut all, mut none) = (0, 0);
    for byte in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0x10;
        fs::write(&path, damaged).unwrap();
        let trace = ring(directory.path(), RING);
        match rounds(&trace, 0..=u64::MAX).as_slice() {
            [1, 2] | [1, 3] | [2, 3] => {}
            [] => none += 1,
            _ => all += 1,
        }
        drop(trace);
        fs::remove_file(&path).ok();
    }
    assert_eq!(all, 0, "no byte is without its check");
    assert!(none > 0 && none < 100, "a segment whose header ({none} bytes) is damaged is gone, no other");
}

/// Possible after a power cut: a file of the right length that ends with zeros.
#[test]
fn unwritten_pages_are_skipped() {
    let directory = scratch();
    let trace = ring(directory.path(), RING);
    fill(&trace, 1..=20);
    drop(trace);
    let paths = segments(directory.path());
    assert!(paths.len() > 1);
    let last = paths.last().unwrap();
    let length = fs::metadata(last).unwrap().len();
    File::options().write(true).open(last).unwrap().set_len(200).unwrap();
    File::options().write(true).open(last).unwrap().set_len(length).unwrap();
    fs::write(&paths[0], vec![0; 5_000]).unwrap();
    let trace = ring(directory.path(), RING);
    let kept = rounds(&trace, 0..=u64::MAX);
    assert!(!kept.is_empty() && kept.is_sorted());
    assert!(!paths[0].exists(), "a segment without a header is deleted");
    fill(&trace, 21..=22);
    drop(trace);
    assert_eq!(rounds(&ring(directory.path(), RING), 21..=22), four_of_each(21..=22));
}

/// A ring is read by later versions: existing events keep their numbers, and new ones come after them.
#[test]
fn old_event_format_is_read() {
    let vertex = || {
        let TraceEvent::Accepted(vertex) = accepted(1, 2) else { panic!("it is accepted") };
        vertex
    };
    let (round, rank, leader) = (1, 0, ValidatorIndex(2));
    let events = [
        TraceEvent::Proposed(vertex()),
        TraceEvent::Accepted(vertex()),
        TraceEvent::Elected { round, leaders: vec![leader] },
        TraceEvent::Decided { round, rank, leader, committed: None, why: "skipped".into() },
        TraceEvent::Note { name: "a".into(), detail: "b".into() },
        TraceEvent::Delivered { round, rank, commit: CommitIndex(3) },
        TraceEvent::Held { vertex: vertex().id, holders: vec![leader] },
        TraceEvent::Agreed { round, rank, voters: vec![leader], confirmers: vec![] },
    ];
    // Follows the version byte and the time.
    let number = |event| wire::encode(&TraceRecord { time: TimestampMs(1), event })[1 + size_of::<u64>()];
    assert_eq!(events.map(number), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn foreign_ring_is_replaced() {
    let directory = scratch();
    let other = Identity { chain_id: 78, ..identity() };
    let trace = Trace::open(directory.path(), other, RING).unwrap();
    fill(&trace, 1..=2);
    drop(trace);
    assert_eq!(rounds(&ring(directory.path(), RING), 0..=u64::MAX), [0; 0]);
}

/// Without a size there is no ring. With one, the ring is in the data directory, and a store opens even if
/// its content was deleted.
#[test]
fn ring_is_optional() {
    let root = scratch();
    let (store, _) = open(root.path(), options(Backend::Redb)).unwrap();
    assert!(store.trace().is_none());
    drop(store);
    let directory = DataDirectory::new(root.path()).trace();
    assert!(!directory.exists());
    let with_ring = || Options { trace_bytes: RING, ..options(Backend::Redb) };
    let (store, _) = open(root.path(), with_ring()).unwrap();
    fill(&store.trace().unwrap(), 1..=2);
    drop(store);
    let (store, _) = open(root.path(), with_ring()).unwrap();
    assert_eq!(rounds(&store.trace().unwrap(), 0..=9), four_of_each(1..=2));
    drop(store);
    fs::remove_dir_all(&directory).unwrap();
    let (store, _) = open(root.path(), with_ring()).unwrap();
    assert_eq!(rounds(&store.trace().unwrap(), 0..=9), [0; 0]);
    drop(store);
    // If a file blocks the directory, the node continues without a ring.
    fs::remove_dir_all(&directory).unwrap();
    fs::write(&directory, "in the way").unwrap();
    let (store, _) = open(root.path(), with_ring()).unwrap();
    assert!(store.trace().is_none());
}
