//! Calls of the staking contract. It is native code, so it never calls back.

use crate::ledger::Stake;
use alloc::vec::Vec;
use alloy_primitives::{address, Address, U256};
use alloy_sol_types::{sol, SolCall, SolError};
use stylus_sdk::call::{call, static_call};
use stylus_sdk::prelude::*;
use stylus_sdk::stylus_core::calls::errors::Error as CallError;

const STAKING: Address = address!("000000000000000000000000000000000000C010");

sol! {
    struct SubmittedKeys {
        bytes32 consensus;
        bytes consensusProof;
        bytes bls;
        bytes blsProof;
        bytes32 network;
        bytes networkProof;
        bytes coin;
    }

    function register(SubmittedKeys keys, address fee, address operator) returns (uint32);
    function add(uint32 id);
    function unbond(uint32 id, uint256 amount);
    function withdraw(uint32 id) returns (uint256);
    function setFee(uint32 id, address fee);
    function setOperator(uint32 id, address operator);
    function validator(uint32 id);
    function epoch();
    function parameters();
    function free(uint32 id) returns (uint256);

    error Unknown(uint32 id);
}

/// Selector of the only call that a pool sends without knowing its arguments.
pub const REGISTER: [u8; 4] = registerCall::SELECTOR;

/// Returns the validator's stake; `None` if its record was deleted.
pub fn stake<C: HostAccess>(pool: &C, id: u32) -> Result<Option<Stake>, CallError> {
    let Some(record) = known(ask(pool, &validatorCall { id }))? else { return Ok(None) };
    // After the record's offset: owner, next owner, operator, fee, bonded, queued.
    Ok(Some(Stake { bonded: word(&record, 5)?, queued: word(&record, 6)? }))
}

/// Takes all stake that is free out of the queue. Returns its wei.
pub fn withdraw_free<C: HostAccess + TopLevelStorage>(pool: &mut C, id: u32) -> Result<U256, CallError> {
    match known(ask(pool, &freeCall { id }))? {
        Some(free) if !word(&free, 0)?.is_zero() => word(&send(pool, U256::ZERO, &withdrawCall { id }.abi_encode())?, 0),
        _ => Ok(U256::ZERO),
    }
}

/// Returns the lowest stake of a validator.
pub fn vote_wei<C: HostAccess>(pool: &C) -> Result<U256, CallError> {
    word(&ask(pool, &parametersCall {})?, 2)
}

/// Returns the running epoch.
pub fn epoch<C: HostAccess>(pool: &C) -> Result<U256, CallError> {
    word(&ask(pool, &epochCall {})?, 0)
}

/// Returns the first freeze without stake that is unbonded now. Stake with this number becomes free together.
pub fn next_freeze<C: HostAccess>(pool: &C) -> Result<U256, CallError> {
    let calendar = ask(pool, &epochCall {})?;
    let is_frozen = !word(&calendar, 5)?.is_zero();
    Ok(word(&calendar, 0)? + if is_frozen { U256::from(2) } else { U256::ONE })
}

/// Sends a call of `register`. Returns the number of the new validator.
pub fn register<C: HostAccess + TopLevelStorage>(pool: &mut C, stake: U256, data: &[u8]) -> Result<u32, CallError> {
    Ok(word(&send(pool, stake, data)?, 0)?.to())
}

pub fn add<C: HostAccess + TopLevelStorage>(pool: &mut C, id: u32, wei: U256) -> Result<(), CallError> {
    send(pool, wei, &addCall { id }.abi_encode()).map(drop)
}

pub fn unbond<C: HostAccess + TopLevelStorage>(pool: &mut C, id: u32, wei: U256) -> Result<(), CallError> {
    send(pool, U256::ZERO, &unbondCall { id, amount: wei }.abi_encode()).map(drop)
}

pub fn set_fee<C: HostAccess + TopLevelStorage>(pool: &mut C, id: u32, fee: Address) -> Result<(), CallError> {
    send(pool, U256::ZERO, &setFeeCall { id, fee }.abi_encode()).map(drop)
}

pub fn set_operator<C: HostAccess + TopLevelStorage>(pool: &mut C, id: u32, operator: Address) -> Result<(), CallError> {
    send(pool, U256::ZERO, &setOperatorCall { id, operator }.abi_encode()).map(drop)
}

fn ask<C: HostAccess>(pool: &C, question: &impl SolCall) -> Result<Vec<u8>, CallError> {
    static_call(pool.vm(), Call::new(), STAKING, &question.abi_encode())
}

fn send<C: HostAccess + TopLevelStorage>(pool: &mut C, wei: U256, data: &[u8]) -> Result<Vec<u8>, CallError> {
    let context = Call::new_payable(pool, wei);
    call(pool.vm(), context, STAKING, data)
}

/// `None` if there is no such validator. Other errors pass: a call that runs out of gas must not look like a loss.
fn known(answer: Result<Vec<u8>, CallError>) -> Result<Option<Vec<u8>>, CallError> {
    match answer {
        Err(CallError::Revert(error)) if error.starts_with(&Unknown::SELECTOR) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Reads a word of an answer. The types have dynamic parts that no pool reads, so decoding them would cost code and gas.
fn word(answer: &[u8], at: usize) -> Result<U256, CallError> {
    let bytes = answer.get(32 * at..32 * (at + 1)).and_then(U256::try_from_be_slice);
    bytes.ok_or(CallError::Revert(Vec::new()))
}
