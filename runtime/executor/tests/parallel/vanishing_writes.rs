//! Transactions whose writes depend on their reads, so that a stale read causes writes that disappear or appear later.

use crate::support::program::Op::*;
use crate::support::test_chain::*;

#[test]
fn writes_vanish_and_reappear() {
    let chain = TestChain::new();
    // The value it reads determines the slot it writes.
    let hop = [Load(0), StoreAt(7), Load(0), Add(1), Store(0)];
    let follow = [Load(0), LoadAt, Log, Add(1), Store(1)];
    let guard = [Load(1), SkipIfZero(2), Set(3), Store(2), Load(2), StoreAt(0)];
    let programs: Vec<&[_]> = (0..30).map(|index| [&hop[..], &follow[..], &guard[..]][index % 3]).collect();
    chain.check(&calls(&programs), 0..30);
}

/// Each transaction removes the condition under which the next one writes.
#[test]
fn each_removes_next_condition() {
    let chain = TestChain::new();
    let toggle = [Load(0), SkipIfZero(3), Set(0), Store(0), Revert, Set(1), Store(0), Store(3)];
    let programs: Vec<&[_]> = (0..24).map(|_| &toggle[..]).collect();
    let (output, _) = chain.check(&calls(&programs), 0..30);
    assert!(output.receipts.iter().any(|receipt| !receipt.success));
}
