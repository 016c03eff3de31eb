//! Tails that prove a block, and changes to them that are refused.
#![allow(clippy::unwrap_used)] // also in helpers

mod common;

use common::chain::{Chain, ENDS, members_of};
use corniche_crypto::{Committees, FinalityError};
use corniche_sync::{TailError, build_below, verify_tail};
use corniche_types::*;

fn verify(chain: &Chain, tail: &SnapshotTail) -> Result<(), TailError> {
    verify_with(chain, &chain.all_committees(), tail)
}

fn verify_with(chain: &Chain, committees: &Committees, tail: &SnapshotTail) -> Result<(), TailError> {
    let height = tail.height();
    verify_tail(tail, committees, height, header_hash(&chain.header(height.0)))
}

#[test]
fn tails_prove_blocks_of_all_epochs() {
    let chain = Chain::new();
    for height in [1, 2, 64, 65, 66, 97, 101, 150, 197, 201, 240, 300] {
        assert_eq!(verify(&chain, &chain.tail(height)), Ok(()), "{height}");
    }
    // The last block of an epoch has a certificate of its own.
    for end in ENDS {
        let tail = SnapshotTail { above: Vec::new(), certificate: chain.certificate(end), ..chain.tail(end) };
        assert_eq!(verify(&chain, &tail), Ok(()), "{end}");
        assert!(verify(&chain, &chain.tail(end)).is_err(), "the next committee cannot certify it");
    }
}

#[test]
fn every_part_of_a_tail_is_checked() {
    let chain = Chain::new();
    let good = chain.tail(300);
    let refused = |change: &dyn Fn(&mut SnapshotTail)| {
        let mut tail = good.clone();
        change(&mut tail);
        verify_tail(&tail, &chain.all_committees(), Height(300), header_hash(&chain.header(300))).unwrap_err()
    };
    let other = chain.tail(299);
    assert_eq!(refused(&|tail| *tail = other.clone()), TailError::Block { expected: Height(300), found: Height(299) });
    assert!(matches!(refused(&|tail| tail.header.0.gas_used = 1), TailError::Hash { .. }));
    assert!(matches!(refused(&|tail| tail.above.clear()), TailError::Header(_)));
    assert!(matches!(refused(&|tail| drop(tail.above.pop())), TailError::Header(_)));
    assert!(matches!(refused(&|tail| drop(tail.above.remove(0))), TailError::Header(_)));
    assert!(matches!(refused(&|tail| tail.above[1].0.gas_used = 1), TailError::Header(_)));
    assert_eq!(refused(&|tail| tail.above = vec![tail.header.clone(); 65]), TailError::Above(65));
    assert!(matches!(refused(&|tail| tail.certificate.height = Height(304)), TailError::Finality(_)));
    assert!(matches!(refused(&|tail| tail.certificate.epoch = Epoch(1)), TailError::Finality(_)));
    assert_eq!(refused(&|tail| tail.certificate.epoch = Epoch(9)), TailError::Finality(FinalityError::UnknownEpoch(9)));
    assert_eq!(refused(&|tail| tail.ordering.time = TimestampMs(1)), TailError::Record);
    assert_eq!(refused(&|tail| tail.ordering = other.ordering.clone()), TailError::Record);
    assert_eq!(refused(&|tail| tail.resume = other.resume.clone()), TailError::Resume);
    assert_eq!(refused(&|tail| tail.change = None), TailError::Change(Epoch(2)));
    assert_eq!(refused(&|tail| tail.change = Some(chain.changes[0].clone())), TailError::Change(Epoch(2)));
    // A certificate of a committee that had left.
    let old = chain.sign(303, 2, header_hash(&chain.header(303)), &[0, 1, 2, 3]);
    assert!(matches!(refused(&|tail| tail.certificate = old.clone()), TailError::Finality(FinalityError::Certificate(_))));
}

#[test]
fn the_change_is_checked() {
    let chain = Chain::new();
    for height in [150, 300] {
        let good = chain.tail(height);
        let epoch = good.ordering.epoch;
        let refused = |change: &dyn Fn(&mut EpochChange)| {
            let mut tail = good.clone();
            change(tail.change.as_mut().unwrap());
            assert!(verify(&chain, &tail).is_err());
        };
        refused(&|change| change.header.gas_used = 1);
        refused(&|change| change.head = Bytes::new());
        refused(&|change| change.certificate.signature = Bytes::new());
        refused(&|change| change.certificate.header_hash = B256::ZERO);
        refused(&|change| change.certificate.height = Height(9));
        refused(&|change| change.members = Some(members_of(0)));
        // Members that stay need not be listed, but may be.
        let with_members = |members| {
            let change = good.change.clone().map(|change| EpochChange { members, ..change });
            verify(&chain, &SnapshotTail { change, ..good.clone() })
        };
        assert_eq!(with_members(Some(members_of(epoch.0))), Ok(()));
        assert_eq!(with_members(None).is_ok(), epoch == Epoch(2));
    }
    let tail = SnapshotTail { change: Some(chain.changes[0].clone()), ..chain.tail(50) };
    assert_eq!(verify(&chain, &tail), Err(TailError::Change(Epoch(0))));
}

/// Committees by their epoch, as the checks above use them.
#[test]
fn committees_are_found_by_their_epoch() {
    let all = Chain::new().all_committees();
    let newest = Committees::new(all.newest().clone());
    assert_eq!([1, 2, 3].map(|epoch| newest.of(Epoch(epoch)).is_some()), [false, true, false]);
    assert_eq!([0, 1, 2, 3].map(|epoch| all.of(Epoch(epoch)).map(|keys| keys.epoch().0)), [Some(0), Some(1), Some(2), None]);
    assert_eq!([0, 1, 2, 3].map(|epoch| all.last_block(Epoch(epoch))), [Some(ENDS[0]), Some(ENDS[1]), None, None]);
}

/// The list has all headers that are needed and one that is not, or begins at block 1.
#[test]
fn headers_below_are_complete() {
    let chain = Chain::new();
    for height in [1, 2, 60, 65, 66, 97, 150, 240, 300] {
        let good = chain.tail(height);
        let numbers: Vec<_> = good.below.iter().map(|header| header.0.number).collect();
        // Two blocks a second: 61 seconds are more than 64 blocks.
        let lowest = height.saturating_sub(124).max(1);
        let is_lowest = |number: &u64| *number == 1 || number.abs_diff(lowest) <= 1;
        assert!(numbers.first().is_none_or(is_lowest), "{height}: {numbers:?}");
        assert_eq!(numbers.len() as u64, numbers.first().map_or(0, |first| height - first));
        let below = |below: Vec<EncodedHeader>| verify(&chain, &SnapshotTail { below, ..good.clone() });
        for missing in &numbers {
            let others = good.below.iter().filter(|header| header.0.number != *missing).cloned().collect();
            assert!(below(others).is_err(), "block {height} without header {missing}");
        }
        let lowest = numbers.first().copied().unwrap_or(height);
        let with_one_more = [vec![EncodedHeader(chain.header(lowest - 1))], good.below.clone()].concat();
        assert!(below(with_one_more).is_err(), "block {height} with a header that is not needed");
        let mut swapped = good.below.clone();
        swapped.reverse();
        assert_eq!(below(swapped).is_ok(), numbers.len() < 2);
    }
}

/// Slow blocks: 64 of them are needed, whatever their time. Equal times: all of them.
#[test]
fn headers_below_follow_height_and_time() {
    let lowest = |block: u64, seconds_per_block: u64| {
        let at =
            |height: Height| Some(Header { number: height.0, timestamp: height.0 * seconds_per_block, ..Header::default() });
        build_below(&at(Height(block)).unwrap(), at).unwrap().first().map(|header| header.0.number)
    };
    assert_eq!(lowest(1_000, 60), Some(1_000 - 65));
    assert_eq!(lowest(1_000, 1), Some(1_000 - 65));
    assert_eq!(lowest(1_000, 0), Some(1));
    assert_eq!(lowest(100_000, 0), Some(100_000 - 65_536));
    assert_eq!((lowest(0, 1), lowest(1, 1), lowest(2, 1)), (None, None, Some(1)));
    let missing = |height: Height| (height.0 > 5).then(|| Header { number: height.0, ..Header::default() });
    assert_eq!(build_below(&missing(Height(9)).unwrap(), missing), None);
}
