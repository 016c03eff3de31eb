//! One transaction: checked against the state, charged, run, settled.
//!
//! 1. [`check`] returns the first reason against the transaction in this state, in the order of [`SkipReason`], without
//!    a change.
//! 2. The sender pays the whole gas limit at the effective price, and its nonce increases.
//! 3. Intrinsic gas is used; the rest goes to a call or a creation. If that fails, its changes are reverted, and the
//!    fee is kept.
//! 4. Refunds are capped (EIP-3529), unused gas is paid back, and the base fee is burned: it is credited to no account.
//!    Finally the tip goes to the author of the batch.
//!
//! Invariant: the sum of all balances decreases by exactly base fee × gas used.

use crate::{
    BlockReads, Vm,
    create::Creation,
    frame::{Message, World},
    host::{BlockEnv, CallKind, Limits},
    journal::Journal,
    machine::Machine,
    outcome::{Executed, ExecutionStatus, Fault, FrameOutcome, NotExecuted},
    price,
    trace::{FrameKind, Touched, Trace},
    warm_code::WarmCode,
};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use corniche_crypto::VerifiedTransaction;
use corniche_state::{Account, StateView};
use corniche_types::{Receipt, SkipReason, intrinsic::MAX_INIT_CODE_BYTES, intrinsic_gas};

impl Vm {
    /// Runs one transaction on `view`; its tip goes to `tip_to`. The result depends on the arguments only, on every
    /// machine.
    pub fn transact(
        &self,
        view: &dyn StateView,
        env: &BlockEnv,
        transaction: &VerifiedTransaction,
        tip_to: Address,
    ) -> Result<Executed, NotExecuted> {
        transact(self.machine(), view, env, transaction, tip_to)
    }

    /// Like [`transact`](Self::transact), but outside of blocks, as calls run, with an optional trace.
    pub fn replay(
        &self,
        view: &dyn StateView,
        env: &BlockEnv,
        transaction: &VerifiedTransaction,
        tip_to: Address,
        trace: Option<&mut Trace>,
    ) -> Result<Executed, NotExecuted> {
        let _permit = self.call_permit().map_err(|busy| NotExecuted::Fault(Fault(busy.reason().unwrap_or_default())))?;
        traced_transact(self.machine_for_calls(trace.as_deref()), view, env, transaction, tip_to, trace)
    }
}

pub(crate) fn transact(
    machine: &dyn Machine,
    view: &dyn StateView,
    env: &BlockEnv,
    transaction: &VerifiedTransaction,
    tip_to: Address,
) -> Result<Executed, NotExecuted> {
    traced_transact(machine, view, env, transaction, tip_to, None)
}

pub(crate) fn traced_transact<'a>(
    machine: &'a dyn Machine,
    view: &'a dyn StateView,
    env: &'a BlockEnv,
    transaction: &VerifiedTransaction,
    tip_to: Address,
    trace: Option<&'a mut Trace>,
) -> Result<Executed, NotExecuted> {
    let (sender, gas_limit) = (transaction.sender(), transaction.gas_limit());
    let access_list = transaction.access_list();
    let intrinsic = intrinsic_gas(transaction.to().is_none(), transaction.input(), &access_list);
    // Everything is read once, through the journal, so the checks and the execution see the same account.
    let mut journal = Journal::new(view);
    let checked = check(transaction, journal.account(&sender), env, intrinsic);
    if journal.interrupted() {
        return Err(NotExecuted::Interrupted);
    }
    checked.map_err(NotExecuted::Skipped)?;

    let gas_price = transaction.effective_gas_price(env.base_fee);
    let mut world = World::new(machine, journal, env, sender, gas_price, trace);
    let paid = world.journal.debit(&sender, wei(gas_limit, gas_price)) && world.journal.bump_nonce(&sender);
    assert!(paid, "the checks cover the gas limit at the effective price and the nonce");
    world.warm(transaction.to(), &access_list);

    let run = TopLevelCall {
        from: sender,
        to: transaction.kind(),
        nonce: transaction.nonce(),
        value: transaction.value(),
        input: transaction.input(),
        gas: gas_limit - intrinsic,
    };
    let contract_address = run.contract_address();
    let ended = world.run(run);
    if world.journal.interrupted() {
        return Err(NotExecuted::Interrupted);
    }
    if let ExecutionStatus::Fault(fault) = ended.end {
        return Err(NotExecuted::Fault(fault));
    }

    let gas_used = world.gas_used(gas_limit, ended.gas_left);
    world.journal.credit(&sender, wei(gas_limit - gas_used, gas_price));
    let tip = gas_price - u128::from(env.base_fee);
    world.journal.credit(&tip_to, wei(gas_used, tip));
    world.finish_trace(gas_limit, gas_used);

    let success = ended.end == ExecutionStatus::Success;
    let output = match ended.end.reason() {
        Some(reason) => reason.into_bytes().into(),
        None => ended.output,
    };
    let block_reads = world.block_reads;
    let (changes, additions, logs) = world.journal.finish();
    let receipt = Receipt {
        transaction_hash: transaction.hash(),
        type_byte: transaction.type_byte(),
        success,
        gas_used,
        cumulative_gas_used: 0,
        effective_gas_price: gas_price,
        sender,
        to: transaction.to(),
        contract_address,
        logs,
        output,
    };
    Ok(Executed { receipt, changes, additions, block_reads })
}

/// Returns the first reason against `transaction`, in the order of the reasons' numbers.
pub(crate) fn check(
    transaction: &VerifiedTransaction,
    sender: &Account,
    env: &BlockEnv,
    intrinsic: u64,
) -> Result<(), SkipReason> {
    let nonce = transaction.nonce();
    let max_fee = transaction.max_fee_per_gas();
    let reasons = [
        (nonce < sender.nonce, SkipReason::NonceTooLow),
        (nonce > sender.nonce, SkipReason::NonceTooHigh),
        (transaction.max_cost().is_none_or(|cost| cost > sender.balance), SkipReason::Underfunded),
        (max_fee < u128::from(env.base_fee), SkipReason::Underpriced),
        (intrinsic > transaction.gas_limit(), SkipReason::IntrinsicGas),
        (transaction.gas_limit() > env.gas_limit, SkipReason::GasLimit),
        (transaction.max_priority_fee_per_gas() > max_fee, SkipReason::TipAboveFee),
        (sender.has_code() && !transaction.is_impersonated(), SkipReason::SenderNotEoa),
        (transaction.to().is_none() && transaction.input().len() > MAX_INIT_CODE_BYTES, SkipReason::InitCodeSize),
        (nonce == u64::MAX, SkipReason::NonceMax),
    ];
    match reasons.into_iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(reason),
        None => Ok(()),
    }
}

/// A call or creation to run after the gas was bought.
pub(crate) struct TopLevelCall<'r> {
    pub from: Address,
    pub to: TxKind,
    /// The sender's nonce before this transaction; it determines a created contract's address.
    pub nonce: u64,
    pub value: U256,
    pub input: &'r Bytes,
    pub gas: u64,
}

impl TopLevelCall<'_> {
    pub fn contract_address(&self) -> Option<Address> {
        self.to.is_create().then(|| self.from.create(self.nonce))
    }
}

impl<'a> World<'a> {
    pub fn new(
        machine: &'a dyn Machine,
        journal: Journal<'a>,
        block: &'a BlockEnv,
        origin: Address,
        gas_price: u128,
        trace: Option<&'a mut Trace>,
    ) -> Self {
        Self {
            machine,
            journal,
            block,
            origin,
            gas_price,
            block_reads: BlockReads::default(),
            open: Vec::new(),
            warm_code: WarmCode::default(),
            trace,
        }
    }

    /// Completes the trace after execution.
    pub fn finish_trace(&mut self, gas_limit: u64, gas_used: u64) {
        if let Some(trace) = &mut self.trace {
            let reached = self.block_reads.reached().iter().copied().collect();
            trace.finish(gas_limit, gas_used, Touched { reached, ..self.journal.touched() });
        }
    }

    /// Marks the initial set of warm keys (EIP-2929, 2930, 3651).
    pub fn warm(&mut self, to: Option<Address>, access_list: &[(Address, Vec<B256>)]) {
        for address in [Some(self.origin), to, Some(self.block.coinbase)].into_iter().flatten() {
            self.journal.warm_account(&address);
        }
        for (address, slots) in access_list {
            self.journal.warm_account(address);
            for slot in slots {
                self.journal.warm_slot(address, slot);
            }
        }
    }

    /// Runs the outermost call or creation. The sender must have the value.
    pub fn run(&mut self, run: TopLevelCall<'_>) -> FrameOutcome {
        let limits = Limits::TRANSACTION;
        match run.to {
            TxKind::Call(to) => self.call(Message {
                kind: CallKind::Call,
                code_of: to,
                address: to,
                caller: run.from,
                value: run.value,
                input: run.input.clone(),
                gas: run.gas,
                is_static: false,
                depth: 0,
                limits,
            }),
            TxKind::Create => self.create(Creation {
                kind: FrameKind::Create,
                creator: run.from,
                address: run.from.create(run.nonce),
                value: run.value,
                data: run.input,
                gas: run.gas,
                depth: 0,
                limits,
            }),
        }
    }

    /// Returns the gas to pay for, after refunds.
    pub fn gas_used(&self, gas_limit: u64, gas_left: u64) -> u64 {
        let used = gas_limit - gas_left;
        used - self.journal.refund().min(used / price::REFUND_QUOTIENT)
    }
}

fn wei(gas: u64, price: u128) -> U256 {
    // 64 + 128 bits fit into 256.
    U256::from(gas) * U256::from(price)
}
