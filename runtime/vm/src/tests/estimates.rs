//! Calls and gas estimates.

use super::scripts::*;
use crate::{Call, ExecutionStatus, call::estimate_gas, host::CallKind};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_state::{Account, Changes, Overlay, StateView};
use corniche_types::SkipReason;
use std::sync::atomic::{AtomicUsize, Ordering};

const BOB: Address = Address::repeat_byte(0xb0);

fn request(chain: &Chain, to: Address) -> Call {
    Call { from: chain.sender(), to: Some(to), gas: BLOCK_GAS, ..Call::default() }
}

#[test]
fn call_changes_nothing() {
    let mut chain = Chain::new();
    let to = chain.contract("counts", |guest| {
        let next = guest.load(1)? + 1;
        guest.store(1, next)?;
        guest.log(1)?;
        out(next)
    });
    for _ in 0..2 {
        let outcome = chain.call(request(&chain, to));
        assert!(outcome.success());
        assert_eq!((read(&outcome.output), outcome.logs.len()), (1, 1));
    }
    let anyone = chain.call(Call { from: Address::repeat_byte(9), ..request(&chain, to) });
    assert!(anyone.success(), "nobody in particular needs no wei");
}

#[test]
fn failed_calls() {
    let mut chain = Chain::new();
    let reverts = chain.contract("reverts", |_| Err(Stop::Revert(Bytes::from_static(b"no"))));
    let outcome = chain.call(request(&chain, reverts));
    assert_eq!((outcome.end, outcome.output), (ExecutionStatus::Revert, Bytes::from_static(b"no")));
    let burns = chain.contract("burns", |guest| guest.charge(u64::MAX).and(out(0)));
    assert_eq!(chain.call(request(&chain, burns)).end, ExecutionStatus::OutOfGas);
    let poor = Call { value: U256::from(1), from: BOB, ..request(&chain, reverts) };
    assert_eq!(chain.call(poor).end, ExecutionStatus::Invalid(SkipReason::Underfunded));
    let cannot_pay = Call { gas_price: 1, from: BOB, ..request(&chain, reverts) };
    assert_eq!(chain.call(cannot_pay).end, ExecutionStatus::Invalid(SkipReason::Underfunded));
    let little = Call { gas: 20_999, ..request(&chain, BOB) };
    assert_eq!(chain.call(little).end, ExecutionStatus::Invalid(SkipReason::IntrinsicGas));
    let creation = Call { to: None, input: Bytes::from_static(&[0x60]), ..request(&chain, BOB) };
    assert_eq!(chain.call(creation).end, ExecutionStatus::Refused("not a script".into()));
}

#[test]
fn transfer_estimate_is_exact() {
    let chain = Chain::new();
    assert_eq!(chain.estimate(Call { value: U256::from(1), ..request(&chain, BOB) }), Ok(21_000));
    assert!(chain.estimate(Call { value: U256::MAX, ..request(&chain, BOB) }).is_err());
    assert_eq!(
        chain.estimate(Call { gas: 20_000, ..request(&chain, BOB) }).unwrap_err().outcome.end,
        ExecutionStatus::Invalid(SkipReason::IntrinsicGas)
    );
}

/// An estimate suffices, and is close to the minimum.
#[test]
fn estimates_suffice_and_are_close() {
    let mut chain = Chain::new();
    let simple = chain.contract("simple", |guest| guest.charge(12_345).and(out(0)));
    let clears = chain.contract("clears", |guest| {
        for slot in 0..10 {
            guest.store(slot, 1)?;
            guest.store(slot, 0)?;
        }
        out(0)
    });
    // Needs much more gas than it uses, because the callee checks its gas.
    let picky = chain.contract("picky", |guest| match guest.gas > 700_000 {
        true => out(0),
        false => Err(Stop::Revert(Bytes::new())),
    });
    let caller = chain.contract("caller", move |guest| match guest.call(CallKind::Call, picky, 0, u64::MAX, &[])?.status {
        crate::host::CallStatus::Success => out(0),
        _ => Err(Stop::Revert(Bytes::new())),
    });
    for to in [simple, clears, caller] {
        let estimate = chain.estimate(request(&chain, to)).unwrap();
        let works = |gas| chain.call(Call { gas, ..request(&chain, to) }).success();
        assert!(works(estimate));
        assert!(!works(estimate - estimate / 50), "{to}: {estimate} is far too much");
    }
}

#[test]
fn estimate_reports_failure() {
    let mut chain = Chain::new();
    let reverts = chain.contract("reverts", |_| Err(Stop::Revert(Bytes::from_static(b"no"))));
    let outcome = chain.estimate(request(&chain, reverts)).unwrap_err().outcome;
    assert_eq!((outcome.end, outcome.output), (ExecutionStatus::Revert, Bytes::from_static(b"no")));
}

#[test]
fn estimate_respects_balance() {
    let mut chain = Chain::new();
    let works = chain.contract("works", |guest| guest.charge(50_000).and(out(0)));
    chain.set_balance(BOB, 100_000);
    let affordable = Call { from: BOB, gas_price: 1, ..request(&chain, works) };
    assert!(chain.estimate(affordable.clone()).is_ok());
    let dear = Call { gas_price: 2, ..affordable };
    let no_estimate = chain.estimate(dear.clone()).unwrap_err();
    assert_eq!((no_estimate.outcome.end, no_estimate.allowance), (ExecutionStatus::OutOfGas, 50_000));
    let dear_at_most = Call { gas_price: 1, max_gas_price: 2, ..dear.clone() };
    assert_eq!(chain.estimate(dear_at_most).unwrap_err().allowance, 50_000);
    for poor in [Call { value: U256::from(100_001), ..dear.clone() }, Call { gas_price: 5, ..dear }] {
        assert_eq!(chain.estimate(poor).unwrap_err().outcome.end, ExecutionStatus::Invalid(SkipReason::Underfunded));
    }
}

/// A sender must be able to pay its maximum price, and pays the actual price.
#[test]
fn call_pays_effective_price() {
    let mut chain = Chain::new();
    let balance = chain.contract("balance", |guest| out(guest.balance(BOB)?));
    chain.set_balance(BOB, 1_000_000);
    let call = Call { from: BOB, gas: 100_000, gas_price: 2, max_gas_price: 10, ..request(&chain, balance) };
    let outcome = chain.call(call.clone());
    assert_eq!((outcome.end, read(&outcome.output)), (ExecutionStatus::Success, 800_000));
    for dear in [Call { max_gas_price: 11, ..call.clone() }, Call { value: U256::from(1), ..call }] {
        assert_eq!(chain.call(dear).end, ExecutionStatus::Invalid(SkipReason::Underfunded));
    }
}

/// A view that is interrupted after a given number of checks.
struct InterruptedView<'a> {
    inner: &'a dyn StateView,
    left: AtomicUsize,
}

impl StateView for InterruptedView<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        self.inner.account(address)
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.inner.storage(address, slot)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.inner.code(hash)
    }

    fn interrupted(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }
}

/// An interrupted run tells nothing about gas. Wherever it ends, there is no estimate, or the correct one.
#[test]
fn interrupted_estimate_fails() {
    let mut chain = Chain::new();
    let picky = chain.contract("picky", |guest| {
        guest.load(1)?;
        if guest.gas > 700_000 { out(0) } else { Err(Stop::Revert(Bytes::new())) }
    });
    let whole = chain.estimate(request(&chain, picky)).unwrap();
    let mut interrupted = 0;
    for questions in 0..1_000 {
        let view = chain.view();
        let view = InterruptedView { inner: &view, left: AtomicUsize::new(questions) };
        let estimated = estimate_gas(
            &chain.scripts,
            &Overlay { base: &view, changes: &Changes::default() },
            &chain.env,
            &request(&chain, picky),
        );
        match estimated {
            Ok(gas) => {
                assert_eq!(gas, whole, "after {questions} questions");
                assert!(interrupted > 4, "tries before it: {interrupted}");
                return;
            }
            Err(none) => {
                let end = &none.outcome.end;
                assert!(matches!(end, ExecutionStatus::Fault(fault) if fault.is_interruption()), "{questions}: {none:?}");
                interrupted += 1;
            }
        }
    }
    panic!("it was never left alone");
}
