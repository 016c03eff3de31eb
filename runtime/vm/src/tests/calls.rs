//! Calls between contracts.

use super::scripts::*;
use crate::host::{CallKind, CallStatus, MAX_CALL_DEPTH, Trap};
use alloy_primitives::{Address, Bytes, U256};

/// Runs a script as a contract with 100 wei; returns its output.
fn run(chain: &mut Chain, script: impl Fn(&mut Guest<'_>) -> Result<Bytes, Stop> + Send + Sync + 'static) -> u64 {
    let to = chain.contract("main", script);
    chain.set_balance(to, 100);
    let receipt = chain.send_to(to).receipt;
    assert!(receipt.success, "{receipt:?}");
    read(&receipt.output)
}

#[test]
fn nested_revert_drops_only_its_effects() {
    let chain = &mut Chain::new();
    let inner = chain.contract("inner", |guest| {
        guest.store(1, 7)?;
        guest.log(2)?;
        Err(Stop::Revert(Bytes::from_static(b"no")))
    });
    let to = chain.contract("outer", move |guest| {
        guest.log(1)?;
        guest.store(1, 8)?;
        let returned = guest.call(CallKind::Call, inner, 0, u64::MAX, &[])?;
        assert_eq!((returned.status, returned.output), (CallStatus::Revert, Bytes::from_static(b"no")));
        guest.log(3)?;
        out(0)
    });
    let receipt = chain.send_to(to).receipt;
    let topics: Vec<u64> = receipt.logs.iter().map(|log| number(log.topics[0])).collect();
    assert_eq!(topics, [1, 3]);
    assert!(receipt.logs.iter().all(|log| log.address == to));
    assert_eq!((chain.slot(to, 1), chain.slot(inner, 1)), (8, 0));
}

#[test]
fn call_kinds_use_right_context() {
    let chain = &mut Chain::new();
    let sender = chain.sender();
    let callee = chain.contract("callee", move |guest| {
        let context = guest.host.context().clone();
        assert_eq!(context.origin, sender);
        assert_eq!(context.depth, 1);
        match guest.input[0] {
            b'c' => assert_eq!((context.address, context.caller), (contract("callee"), contract("main"))),
            b's' => assert_eq!((context.address, context.caller), (contract("callee"), contract("main"))),
            _ => assert_eq!((context.address, context.caller), (contract("main"), sender)),
        }
        assert_eq!(context.is_static, guest.input[0] == b's');
        if !context.is_static {
            guest.store(1, guest.input[0].into())?;
        }
        out(context.value.to())
    });
    let value = run(chain, move |guest| {
        let called = guest.call(CallKind::Call, callee, 3, u64::MAX, b"c")?;
        assert_eq!((called.status, read(&called.output)), (CallStatus::Success, 3));
        guest.call(CallKind::Static, callee, 0, u64::MAX, b"s")?;
        let delegated = guest.call(CallKind::Delegate, callee, 0, u64::MAX, b"d")?;
        assert_eq!(read(&delegated.output), 0, "the value of the outer call, and nothing moves");
        out(1)
    });
    assert_eq!(value, 1);
    assert_eq!(chain.slot(callee, 1), u64::from(b'c'));
    assert_eq!(chain.slot(contract("main"), 1), u64::from(b'd'));
    assert_eq!((chain.balance(callee), chain.balance(contract("main"))), (3, 97));
}

#[test]
fn call_prices() {
    let chain = &mut Chain::new();
    let existing = chain.contract("existing", |_| out(0));
    run(chain, move |guest| {
        let nobody = Address::repeat_byte(0x77);
        let cost = |guest: &mut Guest<'_>, to, value| Ok::<u64, Stop>(guest.call(CallKind::Call, to, value, 0, &[])?.gas);
        assert_eq!(cost(guest, existing, 0)?, 2_600);
        assert_eq!(cost(guest, existing, 0)?, 100);
        assert_eq!(cost(guest, existing, 1)?, 9_100 - 2_300, "the callee left its stipend");
        assert_eq!(cost(guest, nobody, 1)?, 2_600 + 9_000 + 25_000 - 2_300);
        assert_eq!(cost(guest, nobody, 1)?, 9_100 - 2_300, "exists now");
        assert_eq!(cost(guest, existing, 98)?, 9_100 - 2_300, "unaffordable: did not run");
        out(guest.balance(nobody)?)
    });
    assert_eq!(chain.balance(Address::repeat_byte(0x77)), 2);
}

#[test]
fn all_but_one_64th_and_the_stipend() {
    let chain = &mut Chain::new();
    let tells = chain.contract("tells", |guest| out(guest.gas));
    run(chain, move |guest| {
        guest.balance(tells)?;
        let left = guest.gas - 100;
        let all = guest.call(CallKind::Call, tells, 0, u64::MAX, &[])?;
        assert_eq!(read(&all.output), left - left / 64);
        let some = guest.call(CallKind::Call, tells, 0, 500, &[])?;
        assert_eq!(read(&some.output), 500);
        let with_value = guest.call(CallKind::Call, tells, 1, 500, &[])?;
        assert_eq!(read(&with_value.output), 500 + 2_300);
        out(0)
    });
}

#[test]
fn failed_callee_consumes_its_gas() {
    let chain = &mut Chain::new();
    let traps = chain.contract("traps", |_| Err(Stop::Trap(Trap::Unreachable)));
    let reverts = chain.contract("reverts", |guest| {
        guest.charge(10)?;
        Err(Stop::Revert(Bytes::new()))
    });
    run(chain, move |guest| {
        guest.balance(traps)?;
        guest.balance(reverts)?;
        let trapped = guest.call(CallKind::Call, traps, 0, 1_000, &[])?;
        assert_eq!((trapped.status, trapped.gas), (CallStatus::Failure, 1_100));
        let reverted = guest.call(CallKind::Call, reverts, 0, 1_000, &[])?;
        assert_eq!((reverted.status, reverted.gas), (CallStatus::Revert, 110));
        out(0)
    });
}

#[test]
fn static_call_rejects_changes() {
    let chain = &mut Chain::new();
    let acts = chain.contract("acts", |guest| {
        match guest.input[0] {
            0 => guest.store(1, 1)?,
            1 => guest.transient_store(1, 1)?,
            2 => guest.log(1)?,
            3 => drop(guest.call(CallKind::Call, contract("x"), 1, 0, &[])?),
            4 => drop(guest.create(b"acts", 0, None)?),
            // Includes a call one level deeper.
            5 => drop(guest.call(CallKind::Call, contract("acts"), 0, u64::MAX, &[0])?),
            _ => drop(guest.call(CallKind::Call, contract("x"), 0, 0, &[])?),
        }
        out(0)
    });
    chain.set_balance(acts, 10);
    run(chain, move |guest| {
        let mut statuses = Vec::new();
        for action in 0..7 {
            statuses.push(guest.call(CallKind::Static, acts, 0, 50_000, &[action])?.status);
        }
        let failure = CallStatus::Failure;
        // Action 5 sees the nested failure and continues.
        let expected = [failure, failure, failure, failure, failure, CallStatus::Success, CallStatus::Success];
        assert_eq!(statuses, expected);
        out(0)
    });
    assert_eq!((chain.slot(acts, 1), chain.balance(acts)), (0, 10));
}

#[test]
fn call_beyond_depth_limit_fails() {
    let chain = &mut Chain::new();
    let mut draft = chain.draft(contract("dives"));
    chain.contract("dives", |guest| {
        let depth = u64::from(guest.host.context().depth);
        let returned = guest.call(CallKind::Call, contract("dives"), 0, u64::MAX, &[])?;
        out(if returned.status == CallStatus::Success { read(&returned.output) } else { depth })
    });
    draft.gas_limit = BLOCK_GAS;
    let receipt = chain.send(draft).receipt;
    assert_eq!(read(&receipt.output), u64::from(MAX_CALL_DEPTH) - 1);
}

#[test]
fn reentrancy_ignores_delegated_frames() {
    let chain = &mut Chain::new();
    let back = chain.contract("back", |guest| guest.must_call(contract("main"), &[1]));
    let library = chain.contract("library", |guest| out(u64::from(guest.host.context().reentrant)));
    run(chain, move |guest| {
        let reentrant = u64::from(guest.host.context().reentrant);
        if guest.input.first() == Some(&1) {
            return out(reentrant);
        }
        assert_eq!(reentrant, 0);
        assert_eq!(read(&guest.must_call(back, &[])?), 1, "entered again through another contract");
        let delegated = guest.call(CallKind::Delegate, library, 0, u64::MAX, &[])?;
        assert_eq!(read(&delegated.output), 0, "a library called by delegation is the same span");
        assert_eq!(read(&guest.must_call(library, &[])?), 0);
        assert_eq!(read(&guest.must_call(back, &[])?), 1);
        out(0)
    });
}

#[test]
fn revert_returns_call_value() {
    let chain = &mut Chain::new();
    let keeps = chain.contract("keeps", |guest| out(guest.balance(contract("keeps"))?));
    let rejects = chain.contract("rejects", |_| Err(Stop::Revert(Bytes::new())));
    run(chain, move |guest| {
        let kept = guest.call(CallKind::Call, keeps, 40, u64::MAX, &[])?;
        assert_eq!(read(&kept.output), 40, "it is there before the code runs");
        guest.call(CallKind::Call, rejects, 40, u64::MAX, &[])?;
        out(0)
    });
    assert_eq!((chain.balance(keeps), chain.balance(rejects), chain.balance(contract("main"))), (40, 0, 60));
}

#[test]
fn code_and_hashes_of_accounts() {
    let chain = &mut Chain::new();
    let other = chain.contract("other", |_| out(0));
    chain.set_balance(Address::repeat_byte(1), 1);
    run(chain, move |guest| {
        let gas = guest.gas;
        assert_eq!(guest.host.code(&other, gas)?.value, Bytes::from_static(b"other"));
        assert_eq!(guest.host.code_hash(&other, gas)?.value, alloy_primitives::keccak256("other"));
        assert_eq!(guest.host.code_hash(&Address::repeat_byte(1), gas)?.value, corniche_state::KECCAK_EMPTY);
        assert_eq!(guest.host.code_hash(&Address::repeat_byte(2), gas)?.value, alloy_primitives::B256::ZERO);
        assert_eq!(guest.host.code(&Address::repeat_byte(2), gas)?.value, Bytes::new());
        assert!(guest.host.balance(&Address::repeat_byte(3), 2_599).is_err(), "not enough for a cold account");
        out(0)
    });
}

#[test]
fn missing_code_is_fault() {
    let chain = &mut Chain::new();
    let other = chain.contract("other", |_| out(0));
    chain.state.code.clear();
    assert!(matches!(chain.run(chain.draft(other)), Err(crate::NotExecuted::Fault(_))));
}

#[test]
fn value_arrives_before_code_runs() {
    let chain = &mut Chain::new();
    let to = chain.contract("counts", |guest| {
        assert_eq!(guest.host.context().value, U256::from(9));
        out(guest.balance(contract("counts"))?)
    });
    let mut draft = chain.draft(to);
    draft.value = U256::from(9);
    assert_eq!(read(&chain.send(draft).receipt.output), 9);
}
