//! Calls of the staking contract: gas, value and reverts. Its rules have their own tests.

use super::scripts::*;
use crate::{
    Call, CallOutcome, ExecutionStatus,
    host::{CallKind, CallStatus},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolError, SolEvent};
use corniche_staking::{
    GenesisValidator, Keys, ValidatorId, add_staking, calendar, coin::Need, interface::Staking, record::Header,
};
use corniche_types::{Height, Log, STAKING_ADDRESS, StakingParameters, TimestampMs, Votes};
use std::collections::BTreeMap;

const VOTE_WEI: u64 = 1_000;
/// Gas of a transaction that calls the contract, before the call, is at most this.
const INTRINSIC: u64 = 23_000;

/// A chain on which `owner` owns validator 0 with two votes of stake.
fn chain_of(owner: impl FnOnce(&Chain) -> Address) -> Chain {
    let mut chain = Chain::new();
    let parameters = StakingParameters {
        epoch_ms: 1_000,
        closing_ms: 250,
        unbonding_epochs: 2,
        vote_wei: U256::from(VOTE_WEI),
        min_validators: 1,
        ..StakingParameters::default()
    };
    let keys = Keys { consensus: B256::repeat_byte(1), network: B256::repeat_byte(2), ..Keys::default() };
    let owner = owner(&chain);
    let validator = GenesisValidator { owner, fee: TIP_TO, keys, votes: Votes(2) };
    add_staking(&mut chain.state, &parameters, TimestampMs(0), &[validator], |_| B256::ZERO);
    chain.scripts.staking = Some(parameters);
    chain
}

fn chain() -> Chain {
    chain_of(Chain::sender)
}

fn slots(chain: &Chain) -> BTreeMap<B256, B256> {
    let own = chain.state.storage.iter().filter(|((address, _), _)| *address == STAKING_ADDRESS);
    own.map(|((_, slot), value)| (*slot, *value)).collect()
}

fn set_slots(chain: &mut Chain, slots: BTreeMap<B256, B256>) {
    chain.state.storage.extend(slots.into_iter().map(|(slot, value)| ((STAKING_ADDRESS, slot), value)));
}

/// Ends an epoch with the validator as a candidate.
fn end_epoch(chain: &mut Chain) {
    let (mut slots, parameters) = (slots(chain), chain.scripts.staking.clone().unwrap());
    let header = Header::load(&mut slots).unwrap();
    let now = calendar::announcement_time(header.start, &parameters).unwrap();
    calendar::announce(&mut slots, &parameters, ValidatorId(0), 1, now).unwrap();
    calendar::freeze(&mut slots, &parameters, Need::Never).unwrap();
    let end = calendar::end_time(header.start, &parameters).unwrap();
    calendar::activate(&mut slots, &parameters, Height(header.start_height.0 + 1), end, |_, _, _| B256::ZERO).unwrap();
    set_slots(chain, slots);
}

fn request(chain: &Chain, input: &impl SolCall, wei: u64) -> Call {
    let (from, to, value) = (chain.sender(), Some(STAKING_ADDRESS), U256::from(wei));
    Call { from, to, value, gas: 1_000_000, input: input.abi_encode().into(), ..Call::default() }
}

fn ask(chain: &Chain, input: &impl SolCall, wei: u64) -> CallOutcome {
    chain.call(request(chain, input, wei))
}

fn view<C: SolCall>(chain: &Chain, input: &C) -> C::Return {
    let outcome = ask(chain, input, 0);
    assert_eq!(outcome.end, ExecutionStatus::Success);
    C::abi_decode_returns(&outcome.output).unwrap()
}

fn send(chain: &mut Chain, input: &impl SolCall, wei: u64) -> crate::Executed {
    let draft = chain.draft(STAKING_ADDRESS);
    chain.send(alloy_consensus::TxEip1559 { input: input.abi_encode().into(), value: U256::from(wei), ..draft })
}

const ADD: Staking::addCall = Staking::addCall { id: 0 };
const WITHDRAW: Staking::withdrawCall = Staking::withdrawCall { id: 0 };

fn unbond(wei: u64) -> Staking::unbondCall {
    Staking::unbondCall { id: 0, amount: U256::from(wei) }
}

fn bonded(chain: &Chain) -> u64 {
    view(chain, &Staking::validatorCall { id: 0 }).bonded.to()
}

#[test]
fn stake_goes_in_and_out() {
    let mut chain = chain();
    let receipt = send(&mut chain, &ADD, 500).receipt;
    let (topics, data) = Staking::Added { id: 0, amount: U256::from(500) }.encode_log_data().split();
    assert_eq!((receipt.success, receipt.logs), (true, vec![Log { address: STAKING_ADDRESS, topics, data }]));
    assert_eq!((bonded(&chain), chain.balance(STAKING_ADDRESS)), (2_500, 2_500));

    assert!(send(&mut chain, &unbond(1_500), 0).receipt.success);
    assert_eq!((bonded(&chain), chain.balance(STAKING_ADDRESS)), (1_000, 2_500));
    let refused = send(&mut chain, &WITHDRAW, 0).receipt;
    assert_eq!((refused.success, refused.logs), (false, Vec::new()));
    assert_eq!(refused.output, Staking::NothingFree {}.abi_encode());
    (0..4).for_each(|_| end_epoch(&mut chain));
    assert_eq!(view(&chain, &Staking::freeCall { id: 0 }), U256::from(1_500));
    let before = chain.balance(chain.sender());
    let paid = send(&mut chain, &WITHDRAW, 0).receipt;
    let fee = paid.gas_used * (BASE_FEE + 1);
    assert_eq!(chain.balance(chain.sender()), before + 1_500 - fee);
    assert_eq!((bonded(&chain), chain.balance(STAKING_ADDRESS)), (1_000, 1_000));
}

#[test]
fn refused_calls_return_their_value() {
    let mut chain = chain();
    for (input, wei) in
        [(unbond(1).abi_encode(), 7), (ADD.abi_encode(), 0), (vec![], 7), (vec![1, 2, 3], 0), (vec![9; 2_049], 0)]
    {
        let draft = chain.draft(STAKING_ADDRESS);
        let draft = alloy_consensus::TxEip1559 { input: input.into(), value: U256::from(wei), ..draft };
        let before = slots(&chain);
        let receipt = chain.send(draft).receipt;
        assert_eq!((receipt.success, receipt.logs), (false, Vec::new()));
        assert_eq!((slots(&chain), chain.balance(STAKING_ADDRESS)), (before, 2_000));
    }
}

/// With every amount of gas, a call has its whole effect or none.
#[test]
fn gas_is_charged_before_effects() {
    let mut chain = chain();
    send(&mut chain, &unbond(500), 0);
    let (add, balance) = (request(&chain, &ADD, 500), chain.balance(STAKING_ADDRESS));
    let most = chain.call(add.clone()).gas_used;
    let mut failed = 0;
    for gas in (INTRINSIC..most + 5_000).step_by(37) {
        let draft = alloy_consensus::TxEip1559 { gas_limit: gas, ..chain.draft(STAKING_ADDRESS) };
        let draft = alloy_consensus::TxEip1559 { input: add.input.clone(), value: add.value, ..draft };
        let executed = chain.run(draft).unwrap();
        let mut after = chain.state.clone();
        after.merge(executed.additions.resolve(&chain.view()));
        after.merge(executed.changes);
        let now = after.accounts[&STAKING_ADDRESS].as_ref().unwrap().balance;
        let changed = after.storage != chain.state.storage;
        assert_eq!((changed, now), (executed.receipt.success, U256::from(balance + 500 * u64::from(changed))), "{gas}");
        if !executed.receipt.success {
            assert_eq!((executed.receipt.gas_used, executed.receipt.logs), (gas, Vec::new()), "{gas}");
            failed += 1;
        }
    }
    assert!(failed > 100, "{failed}");
}

#[test]
fn slots_cost_what_storage_costs() {
    let mut chain = chain();
    let twice = chain.contract("twice", |guest| {
        let input = Staking::epochCall {}.abi_encode();
        let mut ask = || guest.call(CallKind::Call, STAKING_ADDRESS, 0, u64::MAX, &input).map(|returned| returned.gas);
        let (cold, warm) = (ask()?, ask()?);
        Ok([word(cold), word(warm)].concat().into())
    });
    let output = chain.send_to(twice).receipt.output;
    let (cold, warm) = (number(B256::from_slice(&output[..32])), number(B256::from_slice(&output[32..])));
    // The header has two slots; the account is cold, too.
    assert_eq!((cold, warm), (2_600 + 2_000 + 2 * 2_100, 100 + 2_000 + 2 * 100));
}

#[test]
fn static_calls_only_read() {
    let mut chain = chain_of(|_| contract("reader"));
    let reader = chain.contract("reader", |guest| {
        let mut ask = |input: Vec<u8>| guest.call(CallKind::Static, STAKING_ADDRESS, 0, 400_000, &input);
        assert_eq!(read(&ask(Staking::minimumStakeCall {}.abi_encode())?.output), VOTE_WEI);
        let refused = ask(unbond(1_000).abi_encode())?;
        assert_eq!((refused.status, refused.output), (CallStatus::Revert, Bytes::new()));
        out(1)
    });
    assert!(chain.send_to(reader).receipt.success);
    assert_eq!(bonded(&chain), 2_000);
}

/// The owner's own storage and balance are not the contract's.
#[test]
fn delegate_calls_are_refused() {
    let mut chain = chain_of(|_| contract("delegator"));
    let delegator = chain.contract("delegator", |guest| {
        for input in [unbond(1_000).abi_encode(), Staking::minimumStakeCall {}.abi_encode()] {
            let refused = guest.call(CallKind::Delegate, STAKING_ADDRESS, 0, 400_000, &input)?;
            assert_eq!((refused.status, refused.output), (CallStatus::Revert, Bytes::new()));
        }
        out(1)
    });
    assert!(chain.send_to(delegator).receipt.success);
    assert_eq!((bonded(&chain), chain.state.storage.keys().any(|(address, _)| *address == delegator)), (2_000, false));
}

/// A contract owns the validator. What it does in a frame that reverts has no effect.
#[test]
fn reverted_frames_leave_no_stake() {
    let mut chain = chain_of(|_| contract("outer"));
    chain.set_balance(contract("outer"), 900);
    let outer = chain.contract("outer", |guest| {
        if guest.host.context().caller == guest.host.context().address {
            guest.call(CallKind::Call, STAKING_ADDRESS, 300, u64::MAX, &ADD.abi_encode())?;
            return Err(Stop::Revert(Bytes::new()));
        }
        let address = guest.host.context().address;
        assert_eq!(guest.call(CallKind::Call, address, 0, 500_000, &[])?.status, CallStatus::Revert);
        assert_eq!(guest.call(CallKind::Call, STAKING_ADDRESS, 100, u64::MAX, &ADD.abi_encode())?.status, CallStatus::Success);
        out(1)
    });
    chain.state.accounts.get_mut(&outer).unwrap().as_mut().unwrap().balance = U256::from(900);
    let receipt = chain.send_to(outer).receipt;
    assert_eq!((receipt.success, receipt.logs.len()), (true, 1));
    assert_eq!((bonded(&chain), chain.balance(STAKING_ADDRESS), chain.balance(outer)), (2_100, 2_100, 800));
}

/// Nothing but a changed balance makes a payment impossible, for instance that of a simulated call.
#[test]
fn missing_balance_is_no_fault() {
    let mut chain = chain();
    send(&mut chain, &unbond(1_000), 0);
    (0..4).for_each(|_| end_epoch(&mut chain));
    chain.set_balance(STAKING_ADDRESS, 999);
    let outcome = ask(&chain, &WITHDRAW, 0);
    assert_eq!((outcome.end, outcome.output, outcome.logs), (ExecutionStatus::Revert, Bytes::new(), Vec::new()));
}

#[test]
fn estimates_run_the_contract() {
    let chain = chain();
    let add = request(&chain, &ADD, 500);
    let gas = chain.estimate(add.clone()).unwrap();
    assert_eq!(chain.call(Call { gas, ..add.clone() }).end, ExecutionStatus::Success);
    assert!(gas > 21_000 + 5_000);
    let plain = chain.estimate(Call { input: Bytes::new(), ..add }).unwrap_err();
    assert_eq!(plain.outcome.end, ExecutionStatus::Revert);
}

#[test]
fn chains_without_staking_have_an_account_there() {
    let mut chain = Chain::new();
    assert!(send(&mut chain, &ADD, 5).receipt.success);
    assert_eq!(chain.balance(STAKING_ADDRESS), 5);
}
