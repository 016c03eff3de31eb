//! Transfers between accounts, and the distribution of fees.

use super::scripts::*;
use alloy_primitives::{Address, Bytes, TxKind, U256};

const BOB: Address = Address::repeat_byte(0xb0);

#[test]
fn transfer_costs_21_000() {
    let mut chain = Chain::new();
    let before = chain.balance(chain.sender());
    let mut draft = chain.draft(BOB);
    draft.gas_limit = 21_000;
    draft.value = U256::from(5);
    let receipt = chain.send(draft).receipt;
    assert!(receipt.success);
    assert_eq!((receipt.gas_used, receipt.effective_gas_price), (21_000, 11));
    assert_eq!(receipt.sender, chain.sender());
    assert_eq!(chain.balance(BOB), 5);
    assert_eq!(chain.balance(TIP_TO), 21_000, "the tip, to the author of the batch");
    assert_eq!(chain.balance(COINBASE), 0, "nothing to the leader");
    assert_eq!(chain.balance(chain.sender()), before - 5 - 21_000 * 11);
}

#[test]
fn tip_is_limited_by_max_fee() {
    let mut chain = Chain::new();
    let mut draft = chain.draft(BOB);
    (draft.max_fee_per_gas, draft.max_priority_fee_per_gas) = (12, 5);
    assert_eq!(chain.send(draft).receipt.effective_gas_price, 12);
    assert_eq!(chain.balance(TIP_TO), 2 * 21_000);
    let mut draft = chain.draft(BOB);
    (draft.max_fee_per_gas, draft.max_priority_fee_per_gas) = (10, 0);
    let executed = chain.send(draft);
    assert!(!executed.touched().contains(&TIP_TO), "no tip, no touch");
}

#[test]
fn tip_receiver_may_be_party() {
    let mut chain = Chain::new();
    let mut draft = chain.draft(TIP_TO);
    draft.value = U256::from(3);
    chain.send(draft);
    assert_eq!(chain.balance(TIP_TO), 21_003);

    let own = chain.sign(chain.draft(BOB));
    let before = chain.balance(chain.sender());
    let executed = crate::transact::transact(&chain.scripts, &chain.view(), &chain.env, &own, chain.sender());
    let account = executed.unwrap().changes.accounts[&chain.sender()].clone().unwrap();
    assert_eq!(account.balance, U256::from(before - 21_000 * BASE_FEE), "own tip back");
}

#[test]
fn empty_transfer_creates_no_account() {
    let mut chain = Chain::new();
    let executed = chain.send_to(BOB);
    assert!(executed.receipt.success);
    assert!(!executed.changes.accounts.contains_key(&BOB), "an empty account does not exist (EIP-161)");
}

#[test]
fn emptied_account_keeps_nonce() {
    let mut chain = Chain::new();
    let mut draft = chain.draft(BOB);
    (draft.gas_limit, draft.max_fee_per_gas, draft.max_priority_fee_per_gas) = (21_000, 10, 0);
    draft.value = U256::from(chain.balance(chain.sender()) - 210_000);
    chain.send(draft);
    assert_eq!((chain.balance(chain.sender()), chain.account(chain.sender()).nonce), (0, 1));
}

#[test]
fn data_without_code_is_paid_and_ignored() {
    let mut chain = Chain::new();
    let mut draft = chain.draft(TxKind::Call(BOB));
    draft.input = Bytes::from_static(&[0, 1]);
    let receipt = chain.send(draft).receipt;
    assert_eq!((receipt.success, receipt.gas_used), (true, 21_020));
}

#[test]
fn revert_pays_gas_only() {
    let mut chain = Chain::new();
    let contract = chain.contract("reverts", |guest| {
        guest.store(1, 1)?;
        guest.log(1)?;
        Err(Stop::Revert(Bytes::from_static(b"because")))
    });
    let before = chain.balance(chain.sender());
    let mut draft = chain.draft(contract);
    draft.value = U256::from(5);
    let executed = chain.send(draft);
    let receipt = &executed.receipt;
    assert!(!receipt.success && receipt.logs.is_empty());
    assert_eq!(receipt.output, Bytes::from_static(b"because"));
    let gas = 21_000 + 22_100 + 375 + 375 + 8 * 4;
    assert_eq!(receipt.gas_used, gas, "unused gas comes back");
    assert_eq!(chain.balance(chain.sender()), before - gas * 11, "the value stays with the sender");
    assert_eq!(chain.slot(contract, 1), 0);
    assert_eq!(executed.touched(), [chain.sender(), TIP_TO].into(), "sender and author only");
}

#[test]
fn out_of_gas_consumes_everything() {
    let mut chain = Chain::new();
    let contract = chain.contract("burns", |guest| {
        guest.store(1, 1)?;
        guest.charge(u64::MAX)?;
        out(0)
    });
    let receipt = chain.send_to(contract).receipt;
    assert_eq!((receipt.success, receipt.gas_used), (false, 1_000_000));
    assert_eq!(chain.slot(contract, 1), 0);
}

#[test]
fn fault_gives_no_receipt() {
    let mut chain = Chain::new();
    let inner = chain.contract("broken", |_| Err(Stop::Fault("invariant".into())));
    let outer = chain.contract("caller", move |guest| guest.must_call(inner, &[]));
    for to in [inner, outer] {
        let result = chain.run(chain.draft(to));
        assert_eq!(result, Err(crate::NotExecuted::Fault(crate::Fault("invariant".into()))));
    }
}
