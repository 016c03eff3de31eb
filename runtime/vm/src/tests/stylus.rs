//! Answers to tools for Stylus contracts.

use super::scripts::*;
use crate::{Call, CallOutcome, ExecutionStatus, host::CallKind, host::CallStatus, precompile};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

const BOB: Address = Address::repeat_byte(0xb0);

fn input(signature: &str, argument: impl AsRef<[u8]>) -> Bytes {
    [&keccak256(signature)[..4], argument.as_ref()].concat().into()
}

fn of(signature: &str, address: Address) -> Bytes {
    input(signature, address.into_word())
}

fn ask(chain: &Chain, input: Bytes) -> CallOutcome {
    ask_at(precompile::STYLUS, chain, input, 0)
}

fn ask_at(address: Address, chain: &Chain, input: Bytes, wei: u64) -> CallOutcome {
    let (from, to, value) = (chain.sender(), Some(address), U256::from(wei));
    chain.call(Call { from, to, value, gas: BLOCK_GAS, input, ..Call::default() })
}

fn words(numbers: &[u64]) -> Bytes {
    numbers.iter().flat_map(|number| U256::from(*number).to_be_bytes::<32>()).collect::<Vec<_>>().into()
}

fn error(signature: &str) -> Bytes {
    keccak256(signature)[..4].to_vec().into()
}

#[test]
fn deployed_code_is_always_active() {
    let mut chain = Chain::new();
    let program = chain.contract("program", |_| out(0));
    for (input, output) in [
        (of("activateProgram(address)", program), words(&[2, 0])),
        (of("programVersion(address)", program), words(&[2])),
        (of("programTimeLeft(address)", program), words(&[u64::MAX])),
        (input("stylusVersion()", []), words(&[2])),
        (input("inkPrice()", []), words(&[10_000])),
        (input("pageLimit()", []), words(&[128])),
        (input("expiryDays()", []), words(&[65_535])),
        (input("keepaliveDays()", []), words(&[0])),
    ] {
        let outcome = ask(&chain, input.clone());
        assert_eq!((outcome.end, outcome.output), (ExecutionStatus::Success, output), "{input}");
    }
    for (input, output) in [
        (of("activateProgram(address)", BOB), error("ProgramNotWasm()")),
        (of("programVersion(address)", BOB), error("ProgramNotActivated()")),
        (of("programTimeLeft(address)", BOB), error("ProgramNotActivated()")),
        (input("codehashVersion(bytes32)", B256::ZERO), error("ProgramNotActivated()")),
        (input("codehashVersion(bytes32)", []), Bytes::new()),
        (input("activateProgram(address)", B256::repeat_byte(1)), Bytes::new()),
        (input("activateProgram(address)", [0; 31]), Bytes::new()),
        (input("somethingElse()", []), Bytes::new()),
        (Bytes::new(), Bytes::new()),
        (vec![1, 2, 3].into(), Bytes::new()),
    ] {
        let outcome = ask(&chain, input.clone());
        assert_eq!((outcome.end, outcome.output), (ExecutionStatus::Revert, output), "{input}");
    }
}

#[test]
fn cache_manager_is_empty() {
    let chain = Chain::new();
    let managers = input("allCacheManagers()", []);
    let is_cached = input("codehashIsCached(bytes32)", B256::ZERO);
    for (at, input, wei, end, output) in [
        (precompile::STYLUS_CACHE, &managers, 0, ExecutionStatus::Success, words(&[32, 0])),
        (precompile::STYLUS_CACHE, &is_cached, 0, ExecutionStatus::Success, words(&[1])),
        (precompile::STYLUS_CACHE, &input("codehashIsCached(bytes32)", [0; 31]), 0, ExecutionStatus::Revert, Bytes::new()),
        (precompile::STYLUS_CACHE, &input("inkPrice()", []), 0, ExecutionStatus::Revert, Bytes::new()),
        (precompile::STYLUS_CACHE, &of("activateProgram(address)", BOB), 1, ExecutionStatus::Revert, Bytes::new()),
        (precompile::STYLUS_CACHE, &managers, 1, ExecutionStatus::Revert, Bytes::new()),
        (precompile::STYLUS, &managers, 0, ExecutionStatus::Revert, Bytes::new()),
        (precompile::STYLUS, &is_cached, 0, ExecutionStatus::Revert, Bytes::new()),
    ] {
        let outcome = ask_at(at, &chain, input.clone(), wei);
        assert_eq!((outcome.end, outcome.output), (end, output), "{at} {input}");
    }
}

#[test]
fn activation_value_is_refunded() {
    let mut chain = Chain::new();
    let program = chain.contract("program", |_| out(0));
    let caller = chain.contract("caller", move |guest| {
        let activation = of("activateProgram(address)", program);
        let activated = guest.call(CallKind::Call, precompile::STYLUS, 5, u64::MAX, &activation)?;
        assert_eq!((activated.status, &activated.output), (CallStatus::Success, &words(&[2, 0])));
        assert_eq!((guest.balance(precompile::STYLUS)?, guest.balance(caller_address())?), (0, 9));
        let paid = guest.call(CallKind::Call, precompile::STYLUS, 5, u64::MAX, &input("inkPrice()", []))?;
        assert_eq!((paid.status, paid.output.len()), (CallStatus::Revert, 0));
        assert_eq!(guest.balance(caller_address())?, 9);
        // It writes nothing, so it works in frames of every kind.
        for kind in [CallKind::Static, CallKind::Delegate] {
            assert_eq!(guest.call(kind, precompile::STYLUS, 0, u64::MAX, &activation)?.status, CallStatus::Success);
        }
        out(7)
    });
    fn caller_address() -> Address {
        contract("caller")
    }
    chain.set_balance(caller, 9);
    let outcome = chain.call(Call { from: chain.sender(), to: Some(caller), gas: BLOCK_GAS, ..Call::default() });
    assert_eq!((outcome.end, read(&outcome.output)), (ExecutionStatus::Success, 7));
}

/// Frozen: the price is part of the chain's rules.
#[test]
fn query_has_fixed_price() {
    let mut chain = Chain::new();
    let program = chain.contract("program", |_| out(0));
    let caller = chain.contract("caller", move |guest| {
        let mut costs = Vec::new();
        for (input, gas) in [
            (input("inkPrice()", []), 300),
            (of("programVersion(address)", program), 100 + 200 + 2_600),
            (of("programVersion(address)", program), 100 + 200 + 100),
            (of("activateProgram(address)", Address::with_last_byte(1)), 100 + 200 + 100),
            (input("somethingElse()", []), 300),
        ] {
            let returned = guest.call(CallKind::Call, precompile::STYLUS, 0, u64::MAX, &input)?;
            costs.push((returned.gas, gas));
        }
        for (gas, expected) in costs {
            assert_eq!(gas, expected);
        }
        for (given, status) in [(199, CallStatus::Failure), (200, CallStatus::Success)] {
            assert_eq!(guest.call(CallKind::Call, precompile::STYLUS, 0, given, &input("inkPrice()", []))?.status, status);
        }
        for (given, status) in [(299, CallStatus::Failure), (300, CallStatus::Success)] {
            let version = of("programVersion(address)", program);
            assert_eq!(guest.call(CallKind::Call, precompile::STYLUS, 0, given, &version)?.status, status);
        }
        out(7)
    });
    let outcome = chain.call(Call { from: chain.sender(), to: Some(caller), gas: BLOCK_GAS, ..Call::default() });
    assert_eq!((outcome.end, read(&outcome.output)), (ExecutionStatus::Success, 7));
}
