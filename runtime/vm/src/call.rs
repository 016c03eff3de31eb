//! Calls for `eth_call` and `eth_estimateGas`: the rules of transactions, without a signature, and without keeping the
//! changes.

use crate::{
    Vm,
    frame::World,
    host::BlockEnv,
    journal::Journal,
    machine::Machine,
    outcome::{Call, CallOutcome, EstimateError, ExecutionStatus, Fault},
    precompile, price,
    staking::staking_at,
    trace::Trace,
    transact::TopLevelCall,
};
use alloy_primitives::{TxKind, U256};
use corniche_state::{Changes, StateView};
use corniche_types::{
    SkipReason,
    intrinsic::{MAX_INIT_CODE_BYTES, TRANSACTION_GAS},
    intrinsic_gas,
};

/// Accepted excess of an estimate over the minimum: 1/64 of it.
const ESTIMATE_SLACK: u64 = 64;

impl Vm {
    /// Runs a call on this state.
    pub fn call(&self, view: &dyn StateView, env: &BlockEnv, call: &Call) -> CallOutcome {
        match self.call_permit() {
            Ok(_permit) => self::call(self.machine_for_calls(None), view, env, call),
            Err(busy) => CallOutcome::before_running(busy),
        }
    }

    /// Like [`call`](Self::call), and records a trace.
    pub fn trace_call(&self, view: &dyn StateView, env: &BlockEnv, call: &Call, trace: &mut Trace) -> CallOutcome {
        match self.call_permit() {
            Ok(_permit) => simulate(self.machine_for_calls(Some(trace)), view, env, call, Some(trace)).0,
            Err(busy) => CallOutcome::before_running(busy),
        }
    }

    /// Like [`trace_call`](Self::trace_call), and also returns the changes. The tip goes to the block's coinbase.
    pub fn simulate(
        &self,
        view: &dyn StateView,
        env: &BlockEnv,
        call: &Call,
        trace: Option<&mut Trace>,
    ) -> (CallOutcome, Changes) {
        match self.call_permit() {
            Ok(_permit) => simulate(self.machine_for_calls(trace.as_deref()), view, env, call, trace),
            Err(busy) => (CallOutcome::before_running(busy), Changes::default()),
        }
    }

    /// Returns a gas limit with which the call succeeds, at most `call.gas`; an error if it fails with the maximum.
    /// Exact for a plain transfer, otherwise at most 1/64 too high. Runs the call at most about a dozen times.
    pub fn estimate_gas(&self, view: &dyn StateView, env: &BlockEnv, call: &Call) -> Result<u64, EstimateError> {
        let busy = |end| EstimateError { outcome: CallOutcome::before_running(end).into(), allowance: 0 };
        let _permit = self.call_permit().map_err(busy)?;
        estimate_gas(self.machine_for_calls(None), view, env, call)
    }
}

pub(crate) fn call(machine: &dyn Machine, view: &dyn StateView, env: &BlockEnv, call: &Call) -> CallOutcome {
    simulate(machine, view, env, call, None).0
}

pub(crate) fn simulate<'a>(
    machine: &'a dyn Machine,
    view: &'a dyn StateView,
    env: &'a BlockEnv,
    call: &Call,
    trace: Option<&'a mut Trace>,
) -> (CallOutcome, Changes) {
    let refused = |reason| (CallOutcome::before_running(ExecutionStatus::Invalid(reason)), Changes::default());
    if view.interrupted() {
        return (CallOutcome::before_running(ExecutionStatus::Fault(Fault::interruption())), Changes::default());
    }
    let intrinsic = intrinsic_gas(call.to.is_none(), &call.input, &call.access_list);
    if intrinsic > call.gas {
        return refused(SkipReason::IntrinsicGas);
    }
    if call.to.is_none() && call.input.len() > MAX_INIT_CODE_BYTES {
        return refused(SkipReason::InitCodeSize);
    }
    let mut world = World::new(machine, Journal::new(view), env, call.from, call.gas_price, trace);
    let nonce = world.journal.account(&call.from).nonce;
    let wei = |gas: u64, price: u128| U256::from(gas) * U256::from(price);
    let most = wei(call.gas, call.named_price()).checked_add(call.value);
    if most.is_none_or(|most| world.journal.account(&call.from).balance < most)
        || !world.journal.debit(&call.from, wei(call.gas, call.gas_price))
    {
        return refused(SkipReason::Underfunded);
    }
    if !world.journal.bump_nonce(&call.from) {
        return refused(SkipReason::NonceMax);
    }
    world.warm(call.to, &call.access_list);
    let run = TopLevelCall {
        from: call.from,
        to: call.to.map_or(TxKind::Create, TxKind::Call),
        nonce,
        value: call.value,
        input: &call.input,
        gas: call.gas - intrinsic,
    };
    let contract_address = run.contract_address();
    let ended = world.run(run);
    let gas_used = world.gas_used(call.gas, ended.gas_left);
    world.journal.credit(&call.from, wei(call.gas - gas_used, call.gas_price));
    let tip = call.gas_price.saturating_sub(env.base_fee.into());
    world.journal.credit(&env.coinbase, wei(gas_used, tip));
    world.finish_trace(call.gas, gas_used);
    let (mut changes, additions, logs) = world.journal.finish();
    changes.merge(additions.resolve(view));
    (CallOutcome { end: ended.end, output: ended.output, gas_used, logs, contract_address }, changes)
}

pub(crate) fn estimate_gas(
    machine: &dyn Machine,
    view: &dyn StateView,
    env: &BlockEnv,
    request: &Call,
) -> Result<u64, EstimateError> {
    let try_with = |gas| call(machine, view, env, &Call { gas, ..request.clone() });
    let affordable = affordable_gas(view, request);
    let most = request.gas.min(env.gas_limit).min(affordable);
    let no_estimate = |outcome| EstimateError { outcome: Box::new(outcome), allowance: most };
    if affordable < intrinsic_gas(request.to.is_none(), &request.input, &request.access_list) {
        // More gas would not help.
        return Err(no_estimate(CallOutcome::before_running(ExecutionStatus::Invalid(SkipReason::Underfunded))));
    }
    let plain = request.input.is_empty()
        && request.access_list.is_empty()
        && request.to.is_some_and(|to| {
            let is_native = precompile::is_precompile(&to) || staking_at(machine, &to).is_some();
            !is_native && !view.account(&to).unwrap_or_default().has_code()
        });
    if plain && most >= TRANSACTION_GAS {
        let outcome = try_with(TRANSACTION_GAS);
        return if outcome.success() { Ok(TRANSACTION_GAS) } else { Err(no_estimate(outcome)) };
    }
    let outcome = try_with(most);
    if !outcome.success() {
        return Err(no_estimate(outcome));
    }
    // Less than the used gas cannot suffice. More may be needed, because refunds come at the end and callers keep 1/64.
    let mut too_little = outcome.gas_used.saturating_sub(1);
    let mut enough = most;
    let mut guess = outcome.gas_used.saturating_add(price::CALL_STIPEND).saturating_mul(64) / 63;
    while enough - too_little > 1 + too_little / ESTIMATE_SLACK {
        if guess <= too_little || guess >= enough {
            guess = too_little + (enough - too_little) / 2;
        }
        let outcome = try_with(guess);
        match outcome.end {
            ExecutionStatus::Success => enough = guess,
            // More gas would not help.
            ExecutionStatus::Fault(_) => return Err(no_estimate(outcome)),
            _ => too_little = guess,
        }
        // The first guess is usually right. After it, search just above the known lower bound.
        guess = too_little.saturating_mul(2);
        if guess >= enough {
            guess = too_little + (enough - too_little) / 2;
        }
    }
    Ok(enough)
}

/// Returns the gas that the sender can pay for at its maximum price.
fn affordable_gas(view: &dyn StateView, call: &Call) -> u64 {
    if call.named_price() == 0 {
        return u64::MAX;
    }
    let balance = view.account(&call.from).unwrap_or_default().balance;
    let gas = balance.saturating_sub(call.value) / U256::from(call.named_price());
    u64::try_from(gas).unwrap_or(u64::MAX)
}
