//! Counters: results, prices and effects, and that no value is read for them (D8).

mod plain_numbers;
mod prices;

use super::scripts::*;
use crate::host::{CallKind, CallStatus, Delta};
use crate::{Executed, NotExecuted};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_state::{Account, StateView};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

type Key = (Address, B256);
/// A predicate: whether a slot's number is within a range.
type RangePredicate = (Key, U256, U256);

const MAX: U256 = U256::MAX;

fn n(number: u64) -> U256 {
    U256::from(number)
}

fn plus(number: u64) -> Delta {
    Delta::Plus(n(number))
}

fn minus(number: u64) -> Delta {
    Delta::Minus(n(number))
}

/// A view that records reads and predicates of slots, and answers predicates without a read of its own.
struct RecordingView<'a> {
    inner: &'a dyn StateView,
    reads: Mutex<Vec<Key>>,
    predicates: Mutex<Vec<RangePredicate>>,
    /// Wrong answer for predicates, after which the view counts as interrupted.
    forced_result: Option<bool>,
    interrupted: AtomicBool,
}

impl<'a> RecordingView<'a> {
    fn new(inner: &'a dyn StateView) -> Self {
        Self {
            inner,
            reads: Mutex::default(),
            predicates: Mutex::default(),
            forced_result: None,
            interrupted: AtomicBool::new(false),
        }
    }

    fn reads(&self) -> Vec<Key> {
        self.reads.lock().unwrap().clone()
    }

    /// Returns the ranges of the predicates.
    fn ranges(&self) -> Vec<(U256, U256)> {
        self.predicates.lock().unwrap().iter().map(|(_, low, high)| (*low, *high)).collect()
    }
}

impl StateView for RecordingView<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        self.inner.account(address)
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.reads.lock().unwrap().push((*address, *slot));
        self.inner.storage(address, slot)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.inner.code(hash)
    }

    fn storage_within(&self, address: &Address, slot: &B256, low: &U256, high: &U256) -> bool {
        self.predicates.lock().unwrap().push(((*address, *slot), *low, *high));
        if let Some(forced_result) = self.forced_result {
            self.interrupted.store(true, Ordering::Relaxed);
            return forced_result;
        }
        self.inner.storage_within(address, slot, low, high)
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// Result of one call of a contract whose slot 1 holds `base`, on a recording view.
struct CallRun {
    chain: Chain,
    to: Address,
    executed: Executed,
    reads: Vec<Key>,
    ranges: Vec<(U256, U256)>,
}

impl CallRun {
    fn once(base: U256, script: impl Fn(&mut Guest<'_>) -> Result<Bytes, Stop> + Send + Sync + 'static) -> Self {
        let mut chain = Chain::new();
        let to = chain.contract("counts", script);
        chain.state.storage.insert((to, word(1)), base.into());
        let view = chain.view();
        let witness = RecordingView::new(&view);
        let mut draft = chain.draft(to);
        draft.gas_limit = 10_000_000;
        let executed = chain.run_on(&witness, draft).unwrap();
        let (reads, ranges) = (witness.reads(), witness.ranges());
        Self { chain, to, executed, reads, ranges }
    }

    fn gas(&self) -> u64 {
        assert!(self.executed.receipt.success);
        self.executed.receipt.gas_used - 21_000
    }

    fn added(&self) -> Option<Delta> {
        self.executed.additions.counters.get(&(self.to, word(1))).copied()
    }

    fn changed(&self) -> Option<U256> {
        self.executed.changes.storage.get(&(self.to, word(1))).map(|value| U256::from_be_bytes(value.0))
    }

    /// Returns the slot's value after the call.
    fn after(&self) -> U256 {
        assert!(self.added().is_none() || self.changed().is_none());
        let base = U256::from_be_bytes(self.chain.view().storage(&self.to, &word(1)).0);
        self.changed().unwrap_or_else(|| self.added().unwrap_or(Delta::ZERO).add_to(base))
    }
}

fn answers(base: U256, counts: &[(Delta, U256)]) -> (Vec<bool>, U256) {
    let counts = counts.to_vec();
    let ran = CallRun::once(base, move |guest| {
        let answers = counts.iter().map(|(change, bound)| guest.count(1, *change, *bound).map(u8::from));
        Ok(answers.collect::<Result<Vec<u8>, Stop>>()?.into())
    });
    assert_eq!(ran.reads, []);
    (ran.executed.receipt.output.iter().map(|answer| *answer == 1).collect(), ran.after())
}

#[test]
fn counter_bounds_are_exact() {
    let one = |base, change, bound| {
        let (answer, after) = answers(base, &[(change, bound)]);
        (answer[0], after)
    };
    // At the limit, one above the result, one below it.
    assert_eq!(one(n(5), plus(3), n(8)), (true, n(8)));
    assert_eq!(one(n(5), plus(3), n(7)), (false, n(5)));
    assert_eq!(one(n(5), minus(3), n(2)), (true, n(2)));
    assert_eq!(one(n(5), minus(3), n(3)), (false, n(5)));
    // Nothing wraps.
    assert_eq!(one(MAX, plus(1), MAX), (false, MAX));
    assert_eq!(one(MAX - n(1), plus(1), MAX), (true, MAX));
    assert_eq!(one(n(1), Delta::Plus(MAX), MAX), (false, n(1)));
    assert_eq!(one(n(0), Delta::Plus(MAX), MAX), (true, MAX));
    assert_eq!(one(n(0), minus(1), n(0)), (false, n(0)));
    assert_eq!(one(n(1), minus(1), n(0)), (true, n(0)));
    assert_eq!(one(MAX, Delta::Minus(MAX), n(0)), (true, n(0)));
    assert_eq!(one(MAX, Delta::Minus(MAX), n(1)), (false, MAX));
    assert_eq!(one(MAX - n(1), Delta::Minus(MAX), n(0)), (false, MAX - n(1)));
    // An amount of zero still checks the bound, even if the number already violates it.
    assert_eq!(one(n(5), plus(0), n(5)), (true, n(5)));
    assert_eq!(one(n(5), plus(0), n(4)), (false, n(5)));
    assert_eq!(one(n(5), minus(0), n(5)), (true, n(5)));
    assert_eq!(one(n(5), minus(0), n(6)), (false, n(5)));
    // The number already violates the bound: a maximum below it and a minimum above it both refuse.
    assert_eq!(one(n(5), plus(1), n(0)), (false, n(5)));
    assert_eq!(one(n(5), minus(1), MAX), (false, n(5)));
}

#[test]
fn own_additions_are_visible() {
    assert_eq!(
        answers(n(5), &[(plus(2), n(8)), (plus(2), n(8)), (plus(1), n(8)), (plus(1), n(8))]),
        (vec![true, false, true, false], n(8))
    );
    assert_eq!(answers(n(5), &[(minus(3), n(1)), (minus(2), n(1)), (minus(1), n(1))]), (vec![true, false, true], n(1)));
    // The sum crosses zero in both directions, over the full range.
    assert_eq!(
        answers(n(0), &[(Delta::Plus(MAX), MAX), (plus(1), MAX), (Delta::Minus(MAX), n(0)), (minus(1), n(0))]),
        (vec![true, false, true, false], n(0))
    );
    assert_eq!(
        answers(MAX, &[(Delta::Minus(MAX), n(0)), (minus(1), n(0)), (Delta::Plus(MAX), MAX), (plus(1), MAX)]),
        (vec![true, false, true, false], MAX)
    );
    assert_eq!(
        answers(n(3), &[(minus(2), n(0)), (plus(5), n(6)), (plus(1), n(6)), (minus(6), n(1))]),
        (vec![true, true, false, false], n(6))
    );
}

#[test]
fn count_reads_only_range_predicate() {
    let ran = CallRun::once(n(50), |guest| {
        guest.count(1, plus(3), n(100))?;
        guest.count(1, plus(4), n(100))?;
        guest.count(1, minus(9), n(10))?;
        out(0)
    });
    assert_eq!(ran.reads, []);
    // The bound and, for additions, whether the number was zero. After +3 it cannot be zero.
    assert_eq!(ran.ranges, [(n(0), n(97)), (n(0), n(0)), (n(0), n(93)), (n(12), MAX)]);
    assert_eq!((ran.added(), ran.changed()), (Some(Delta::Minus(n(2))), None));
    // Bounds that every number satisfies, or none, cause no predicate.
    let ran = CallRun::once(n(50), |guest| {
        guest.count(1, minus(0), n(0))?;
        guest.count(1, plus(3), n(2))?;
        guest.count(1, minus(3), MAX)?;
        out(0)
    });
    assert_eq!((ran.ranges.len(), ran.added()), (0, None));
}

#[test]
fn zero_sum_leaves_no_addition() {
    let ran = CallRun::once(n(50), |guest| {
        guest.count(1, plus(3), n(100))?;
        guest.count(1, minus(3), n(0))?;
        out(0)
    });
    assert!(ran.executed.additions.counters.is_empty() && ran.executed.changes.storage.is_empty());
}

#[test]
fn read_slot_becomes_plain_value() {
    let counted_then_read = CallRun::once(n(5), |guest| {
        guest.count(1, plus(2), n(10))?;
        out(guest.load(1)?)
    });
    assert_eq!(read(&counted_then_read.executed.receipt.output), 7);
    assert_eq!((counted_then_read.added(), counted_then_read.changed()), (None, Some(n(7))));
    assert_eq!(counted_then_read.reads.len(), 1);
    let read_then_counted = CallRun::once(n(5), |guest| {
        let before = guest.load(1)?;
        guest.count(1, minus(2), n(0))?;
        out(before * 10 + guest.load(1)?)
    });
    assert_eq!(read(&read_then_counted.executed.receipt.output), 53);
    assert_eq!((read_then_counted.added(), read_then_counted.changed()), (None, Some(n(3))));
    assert_eq!((read_then_counted.reads.len(), read_then_counted.ranges.len()), (1, 0), "what is known is not asked for");
    // Counted, read, counted back: no change remains.
    let back = CallRun::once(n(5), |guest| {
        guest.count(1, plus(2), n(10))?;
        guest.load(1)?;
        guest.count(1, minus(2), n(0))?;
        out(0)
    });
    assert_eq!((back.added(), back.changed()), (None, None));
}

#[test]
fn revert_undoes_counts() {
    for (loads, stores) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut chain = Chain::new();
        let inner = chain.contract("inner", move |guest| {
            assert!(guest.count(1, plus(10), n(100))?);
            if loads {
                assert_eq!(guest.load(1)?, 5 + 2 + 10);
            }
            if stores {
                guest.store(1, 77)?;
                assert!(guest.count(1, minus(7), n(70))?);
            }
            assert!(guest.count(1, plus(1), n(100))?);
            Err(Stop::Revert(Bytes::new()))
        });
        let to = chain.contract("outer", move |guest| {
            assert!(guest.count(1, plus(2), n(100))?);
            assert_eq!(guest.call(CallKind::Delegate, inner, 0, u64::MAX, &[])?.status, CallStatus::Revert);
            assert!(!guest.count(1, plus(1), n(7))?);
            assert!(guest.count(1, plus(1), n(8))?);
            out(0)
        });
        chain.state.storage.insert((to, word(1)), word(5));
        let executed = chain.send_to(to);
        assert!(executed.receipt.success);
        assert_eq!(executed.additions.counters.is_empty(), loads || stores);
        assert_eq!(chain.slot(to, 1), 8);
    }
}

#[test]
fn failed_transaction_counts_nothing() {
    let ran = CallRun::once(n(5), |guest| {
        guest.count(1, plus(2), n(10))?;
        Err(Stop::Revert(Bytes::new()))
    });
    assert!(!ran.executed.receipt.success && ran.executed.additions.counters.is_empty());
    assert_eq!(ran.reads, []);
}

#[test]
fn static_frames_cannot_count() {
    let chain = &mut Chain::new();
    let inner = chain.contract("counts", |guest| {
        // Not even an amount of zero.
        guest.count(1, plus(0), n(10))?;
        out(0)
    });
    let to = chain.contract("calls", move |guest| {
        let returned = guest.call(CallKind::Static, inner, 0, 100_000, &[])?;
        out(u64::from(returned.status == CallStatus::Failure))
    });
    assert_eq!(read(&chain.send_to(to).receipt.output), 1);
}

#[test]
fn stipend_cannot_count() {
    let chain = &mut Chain::new();
    let counts = chain.contract("counts", |guest| guest.count(1, plus(0), n(1)).and(out(0)));
    let to = chain.contract("pays", move |guest| {
        let returned = guest.call(CallKind::Call, counts, 1, 0, &[])?;
        out(u64::from(returned.status == CallStatus::Failure))
    });
    chain.set_balance(to, 10);
    assert_eq!(read(&chain.send_to(to).receipt.output), 1);
}

#[test]
fn interrupted_view_ends_run() {
    for forced_result in [false, true] {
        let mut chain = Chain::new();
        let to = chain.contract("counts", |guest| {
            guest.count(1, plus(1), n(10))?;
            panic!("an answer that was taken back came through");
        });
        let view = chain.view();
        let witness = RecordingView { forced_result: Some(forced_result), ..RecordingView::new(&view) };
        assert_eq!(chain.run_on(&witness, chain.draft(to)), Err(NotExecuted::Interrupted));
    }
}
