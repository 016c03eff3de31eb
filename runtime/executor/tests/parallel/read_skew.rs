//! Writers keep two slots equal; readers detect a state in which only one of them is current.

use crate::support::program::Op::*;
use crate::support::test_chain::*;

#[test]
fn no_partial_transaction_is_visible() {
    let chain = TestChain::new();
    let writer = [Load(0), Add(1), Store(0), Store(1)];
    // Adds both values to one number, which is therefore always even.
    let reader = [Load(1), Store(2), Load(0), Log, Load(2), Log];
    let programs: Vec<&[_]> = (0..36).map(|index| if index % 3 == 0 { &writer[..] } else { &reader[..] }).collect();
    let (output, _) = chain.check(&calls(&programs), 0..30);
    for receipt in output.receipts.iter().filter(|receipt| !receipt.logs.is_empty()) {
        assert_eq!(receipt.logs[0].data, receipt.logs[1].data, "both slots alike");
    }
}
