//! Prices of storage, warm and cold, and refunds.

use super::scripts::*;
use crate::host::CallKind;
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::Bytes;

/// Returns the gas of a script without the intrinsic gas.
fn gas_of(
    chain: &mut Chain,
    name: &str,
    script: impl Fn(&mut Guest<'_>) -> Result<Bytes, Stop> + Send + Sync + 'static,
) -> u64 {
    let to = chain.contract(name, script);
    let receipt = chain.send_to(to).receipt;
    assert!(receipt.success);
    receipt.gas_used - 21_000
}

#[test]
fn first_access_is_cold() {
    let chain = &mut Chain::new();
    assert_eq!(gas_of(chain, "one load", |guest| out(guest.load(1)?)), 2_100);
    let two = gas_of(chain, "same slot twice", |guest| {
        guest.load(1)?;
        out(guest.load(1)?)
    });
    assert_eq!(two, 2_200);
    assert_eq!(gas_of(chain, "store", |guest| guest.store(1, 1).and(out(0))), 22_100);
    assert_eq!(gas_of(chain, "store of what is there", |guest| guest.store(1, 0).and(out(0))), 2_200);
    let change = |guest: &mut Guest<'_>| {
        let next = guest.load(1)? + 1;
        guest.store(1, next).and(out(next))
    };
    assert_eq!(gas_of(chain, "count", change), 2_100 + 20_000);
    assert_eq!(gas_of(chain, "count", change), 5_000, "a nonzero slot is reset, warm after its load");
}

#[test]
fn reset_costs_less_than_set() {
    let chain = &mut Chain::new();
    let to = chain.contract("sets", |guest| {
        let value = guest.input[0];
        guest.store(1, value.into()).and(out(0))
    });
    let mut send = |value: u8| {
        let mut draft = chain.draft(to);
        draft.input = Bytes::from(vec![value]);
        let input = if value == 0 { 4 } else { 16 };
        chain.send(draft).receipt.gas_used - 21_000 - input
    };
    assert_eq!(send(1), 22_100);
    assert_eq!(send(2), 5_000);
    assert_eq!(send(0), 5_000 - 4_800, "cleared: 4,800 back");
}

#[test]
fn refund_is_capped_at_one_fifth() {
    let chain = &mut Chain::new();
    let to = chain.contract("clears", |guest| {
        let to = u64::from(guest.input.is_empty());
        for slot in 0..20 {
            guest.store(slot, to)?;
        }
        out(0)
    });
    chain.send_to(to);
    let mut draft = chain.draft(to);
    draft.input = Bytes::from_static(&[0]);
    let used = 21_004 + 20 * 5_000;
    assert_eq!(chain.send(draft).receipt.gas_used, used - used / 5);
}

#[test]
fn access_list_is_paid_and_warm() {
    let chain = &mut Chain::new();
    let other = chain.contract("other", |_| out(0));
    let to = chain.contract("reads", move |guest| {
        guest.load(1)?;
        guest.load(2)?;
        out(guest.balance(other)?)
    });
    assert_eq!(chain.send_to(to).receipt.gas_used, 21_000 + 2 * 2_100 + 2_600);
    let mut draft = chain.draft(to);
    draft.access_list = AccessList(vec![
        AccessListItem { address: to, storage_keys: vec![word(1)] },
        AccessListItem { address: other, storage_keys: vec![] },
    ]);
    let listed = 2 * 2_400 + 1_900;
    assert_eq!(chain.send(draft).receipt.gas_used, 21_000 + listed + 100 + 2_100 + 100);
}

#[test]
fn sender_callee_and_coinbase_are_warm() {
    let chain = &mut Chain::new();
    let sender = chain.sender();
    let gas = gas_of(chain, "asks", move |guest| {
        guest.balance(sender)?;
        guest.balance(COINBASE)?;
        let own = guest.host.context().address;
        out(guest.balance(own)?)
    });
    assert_eq!(gas, 300);
}

#[test]
fn revert_restores_cold_access() {
    let chain = &mut Chain::new();
    let inner = chain.contract("touches", |guest| {
        guest.load(1)?;
        guest.balance(contract("somebody"))?;
        Err(Stop::Revert(Bytes::new()))
    });
    let gas = gas_of(chain, "calls", move |guest| {
        guest.call(CallKind::Delegate, inner, 0, u64::MAX, &[])?;
        guest.load(1)?;
        out(guest.balance(contract("somebody"))?)
    });
    let inner_gas = 2_600 + 2_100 + 2_600;
    assert_eq!(gas, inner_gas + 2_100 + 2_600);
}

#[test]
fn revert_drops_refunds() {
    let chain = &mut Chain::new();
    let clears = chain.contract("clears", |guest| {
        guest.store(1, 0)?;
        Err(Stop::Revert(Bytes::new()))
    });
    let to = chain.contract("calls", move |guest| {
        if guest.input.is_empty() {
            return guest.store(1, 1).and(out(0));
        }
        guest.call(CallKind::Delegate, clears, 0, u64::MAX, &[])?;
        out(0)
    });
    chain.send_to(to);
    let mut draft = chain.draft(to);
    draft.input = Bytes::from_static(&[1]);
    assert_eq!(chain.send(draft).receipt.gas_used, 21_016 + 2_600 + 5_000);
    assert_eq!(chain.slot(to, 1), 1);
}

#[test]
fn stipend_cannot_write() {
    let chain = &mut Chain::new();
    let writes = chain.contract("writes", |guest| guest.store(1, 0).and(out(0)));
    let to = chain.contract("pays", move |guest| {
        let returned = guest.call(CallKind::Call, writes, 1, 0, &[])?;
        out(u64::from(returned.status == crate::host::CallStatus::Failure))
    });
    chain.set_balance(to, 10);
    assert_eq!(read(&chain.send_to(to).receipt.output), 1);
    assert_eq!(chain.balance(writes), 0);
}

#[test]
fn transient_storage_is_reverted_and_cleared() {
    let chain = &mut Chain::new();
    let undone = chain.contract("undone", |guest| {
        guest.transient_store(1, 9)?;
        Err(Stop::Revert(Bytes::new()))
    });
    let to = chain.contract("keeps", move |guest| {
        let found = guest.transient_load(1)?;
        guest.transient_store(1, 5)?;
        guest.call(CallKind::Delegate, undone, 0, u64::MAX, &[])?;
        let kept = guest.transient_load(1)?;
        out(found * 10 + kept)
    });
    for _ in 0..2 {
        assert_eq!(read(&chain.send_to(to).receipt.output), 5);
    }
}
