//! Reentrancy and deep chains of calls between two contracts that all transactions share.

use crate::support::program::Op::{self, *};
use crate::support::test_chain::*;

fn deep(levels: usize) -> Vec<Op> {
    let mut ops = vec![Load(0), Add(1), Store(0)];
    for _ in 0..levels {
        ops = vec![Call(ops), Load(0), Add(1), Store(0)];
    }
    ops
}

#[test]
fn nested_calls_between_contracts() {
    let chain = TestChain::new();
    let reenter = [Load(0), Call(vec![Call(vec![Load(0), Add(1), Store(0)]), Load(1), Add(1), Store(1)]), Add(1), Store(0)];
    let failing =
        [Load(1), Call(vec![Load(0), Add(1), Store(0), Call(vec![Set(9), Store(1), Trap]), Store(2)]), Add(2), Store(1)];
    let (five, nine) = (deep(5), deep(9));
    let send = [Send(1), Balance, Store(3)];
    let programs: Vec<&[Op]> = (0..30).map(|index| [&reenter[..], &failing[..], &five, &nine, &send][index % 5]).collect();
    let (output, _) = chain.check(&calls(&programs), 0..10);
    assert!(output.receipts.iter().filter(|receipt| receipt.success).count() > 20);
}
