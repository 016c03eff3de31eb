//! Calls: frames over one journal.
//!
//! [`World`] is one running transaction. A message opens a frame: the value is transferred, and the code runs with
//! [`Frame`] as its [`Host`]. Unless it returns, everything since the frame opened is reverted. Frames nest through
//! [`Host::call`].

use crate::{
    backtrace::RawBacktrace,
    block_reads::{BlockField, BlockReads},
    host::{
        BlockEnv, CallKind, CallRequest, CallReturn, CallStatus, Charged, CreateRequest, CreateReturn, Delta, Entry,
        FrameContext, Host, HostError, Limits, MAX_CALL_DEPTH, Readiness,
    },
    journal::Journal,
    machine::Machine,
    outcome::{ExecutionStatus, Fault, FrameOutcome},
    precompile, price,
    staking::staking_at,
    trace::{FrameKind, FrameStatus, Trace, TraceFrame},
    warm_code::{CodeId, WarmCode},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_types::{Log, certified};

/// One running transaction.
pub(crate) struct World<'a> {
    pub machine: &'a dyn Machine,
    pub journal: Journal<'a>,
    pub block: &'a BlockEnv,
    pub origin: Address,
    pub gas_price: u128,
    pub block_reads: BlockReads,
    /// Accounts that open frames act for, outermost first; a delegate call acts for its caller's.
    pub open: Vec<Address>,
    /// Codes that ran or run. A node keeps them loaded for the rest of the transaction, even if the frame is reverted.
    /// Equal on all nodes, unlike the codes that they have loaded.
    pub warm_code: WarmCode,
    /// Records the run, if requested.
    pub trace: Option<&'a mut Trace>,
}

/// A call to run; the caller has paid its price.
pub(crate) struct Message {
    pub kind: CallKind,
    pub code_of: Address,
    /// Account whose state the frame uses.
    pub address: Address,
    pub caller: Address,
    /// Transferred from caller to address; in a delegate call it is only visible.
    pub value: U256,
    pub input: Bytes,
    pub gas: u64,
    pub is_static: bool,
    pub depth: u32,
    pub limits: Limits,
}

impl Message {
    fn to_trace(&self) -> TraceFrame {
        let (kind, from) = match self.kind {
            CallKind::Call => (FrameKind::Call, self.caller),
            CallKind::Static => (FrameKind::StaticCall, self.caller),
            // The calling contract stays the acting account.
            CallKind::Delegate => (FrameKind::DelegateCall, self.address),
        };
        TraceFrame::beginning(kind, from, self.code_of, self.value, self.gas, &self.input)
    }
}

impl<'a> World<'a> {
    /// Returns the price of accessing an account, which is warm afterwards (EIP-2929). Precompiles are warm from the
    /// start.
    pub fn access_account(&mut self, address: &Address) -> u64 {
        if precompile::is_precompile(address) {
            return price::WARM;
        }
        let was_cold = self.journal.warm_account(address);
        self.block_reads.record_access(address, was_cold, self.block);
        if was_cold { price::COLD_ACCOUNT } else { price::WARM }
    }

    /// Runs a message; the caller must have its value. Reverts everything unless it succeeds.
    pub fn call(&mut self, message: Message) -> FrameOutcome {
        self.enter(|| message.to_trace());
        let checkpoint = self.journal.checkpoint();
        let ended = self.call_unguarded(message);
        if ended.end != ExecutionStatus::Success {
            self.journal.revert(checkpoint);
        }
        self.leave(|| FrameStatus::from(&ended), &ended.output, ended.gas_left);
        ended
    }

    /// Traces the start of a frame.
    pub fn enter(&mut self, frame: impl FnOnce() -> TraceFrame) {
        if let Some(trace) = &mut self.trace {
            trace.enter(frame());
        }
    }

    /// Traces the end of the innermost frame.
    pub fn leave(&mut self, ending: impl FnOnce() -> FrameStatus, output: &Bytes, gas_left: u64) {
        if let Some(trace) = &mut self.trace {
            trace.leave(ending(), output, gas_left);
        }
    }

    /// Traces a frame that does not open.
    pub fn record_failed_call(&mut self, frame: impl FnOnce() -> TraceFrame, why: FrameStatus, gas: u64) {
        self.enter(frame);
        self.leave(|| why, &Bytes::new(), gas);
    }

    /// Like [`call`](Self::call), without revert and trace.
    pub fn call_unguarded(&mut self, message: Message) -> FrameOutcome {
        if message.kind != CallKind::Delegate && !self.transfer(&message.caller, &message.address, message.value) {
            return fault("the value of a call was not checked", &message.caller);
        }
        if let Some(precompile) = precompile::at(&message.code_of) {
            return precompile.run(&message.input, message.gas);
        }
        if precompile::is_stylus(&message.code_of) {
            return self.stylus(&message);
        }
        if let Some(parameters) = staking_at(self.machine, &message.code_of) {
            return self.stake(&message, parameters);
        }
        let account = self.journal.account_code(&message.code_of);
        if !account.is_contract() {
            return FrameOutcome::success(message.gas);
        }
        let stored = self.journal.lazy_code(account.hash);
        let opens = message.kind != CallKind::Delegate;
        if opens {
            self.open.push(message.address);
        }
        let context = FrameContext {
            address: message.address,
            caller: message.caller,
            value: message.value,
            origin: self.origin,
            gas_price: self.gas_price,
            is_static: message.is_static,
            reentrant: self.open.iter().filter(|open| **open == message.address).count() > 1,
            depth: message.depth,
            block: self.block.clone(),
        };
        let (machine, running) = (self.machine, self.warm_code.running());
        let code = CodeId::new(account.gas_version, &account.hash);
        let mut frame = Frame { world: self, context, code };
        let entry = Entry { input: message.input, gas: message.gas, limits: message.limits };
        let exit = machine.run(account, &stored, &mut frame, entry);
        self.warm_code.close(running);
        if opens {
            self.open.pop();
        }
        let mut ended = FrameOutcome::from(exit);
        // A machine must not return more gas than it got.
        ended.gas_left = ended.gas_left.min(message.gas);
        ended
    }

    /// SLOAD of any account's storage.
    pub fn load_slot(&mut self, address: &Address, key: &B256, gas_left: u64) -> Result<Charged<B256>, HostError> {
        affordable(price::WARM, gas_left)?;
        let was_cold = self.journal.warm_slot(address, key);
        let cost = affordable(if was_cold { price::COLD_SLOT } else { price::WARM }, gas_left)?;
        let value = self.journal.storage(address, key);
        self.uninterrupted(Charged::new(value, cost))
    }

    /// SSTORE.
    pub fn store_slot(&mut self, address: &Address, key: &B256, value: &B256, gas_left: u64) -> Result<Charged<()>, HostError> {
        if gas_left <= price::STORE_SENTRY {
            return Err(HostError::OutOfGas);
        }
        let cost = self.slot_surcharge(address, key) + self.journal.store(address, key, *value);
        self.uninterrupted(Charged::new((), affordable(cost, gas_left)?))
    }

    /// Returns the additional price of writing a slot, which is warm afterwards.
    fn slot_surcharge(&mut self, address: &Address, key: &B256) -> u64 {
        if self.journal.warm_slot(address, key) { price::COLD_SLOT } else { 0 }
    }

    /// Emits a log.
    pub fn log(&mut self, log: Log) {
        if let Some(trace) = &mut self.trace {
            trace.log(&log);
        }
        self.journal.log(log);
    }

    /// Must be called after reading the state: ends a run whose reads are invalid; its result is discarded.
    pub fn uninterrupted<T>(&self, charged: Charged<T>) -> Result<Charged<T>, HostError> {
        if self.journal.interrupted() { Err(HostError::Fault(Fault::interruption().0)) } else { Ok(charged) }
    }

    /// Transfers wei; returns false, without a change, if the balance of `from` is too low.
    #[must_use]
    pub fn transfer(&mut self, from: &Address, to: &Address, wei: U256) -> bool {
        let paid = self.journal.debit(from, wei);
        if paid {
            self.journal.credit(to, wei);
        }
        paid
    }
}

fn fault(what: &str, address: &Address) -> FrameOutcome {
    FrameOutcome::failed(ExecutionStatus::Fault(Fault(format!("{what}: {address}"))), 0)
}

/// One open frame: the [`Host`] of the code it runs.
pub(crate) struct Frame<'w, 'a> {
    pub world: &'w mut World<'a>,
    pub context: FrameContext,
    /// The code that it runs.
    pub code: CodeId,
}

impl Frame<'_, '_> {
    fn refuse_static(&self) -> Result<(), HostError> {
        if self.context.is_static { Err(HostError::StaticViolation) } else { Ok(()) }
    }

    /// Returns why no nested frame with this value may open, if so.
    pub(crate) fn check_call(&mut self, value: U256) -> Option<FrameStatus> {
        if self.context.depth + 1 >= MAX_CALL_DEPTH {
            Some(FrameStatus::CallTooDeep)
        } else if !self.world.journal.can_pay(&self.context.address, value) {
            Some(FrameStatus::InsufficientBalance)
        } else {
            None
        }
    }
}

pub(crate) fn affordable(cost: u64, gas_left: u64) -> Result<u64, HostError> {
    if cost > gas_left { Err(HostError::OutOfGas) } else { Ok(cost) }
}

impl Host for Frame<'_, '_> {
    fn context(&self) -> &FrameContext {
        &self.context
    }

    fn block(&mut self, field: BlockField) -> &BlockEnv {
        self.world.block_reads.insert(field);
        self.world.block
    }

    fn code_readiness(&self) -> Readiness {
        self.world.warm_code.readiness(&self.code, self.context.depth)
    }

    fn mark_code_paid(&mut self) {
        self.world.warm_code.starts(self.code);
    }

    fn storage_load(&mut self, key: &B256, gas_left: u64) -> Result<Charged<B256>, HostError> {
        let address = self.context.address;
        self.world.load_slot(&address, key, gas_left)
    }

    fn storage_store(&mut self, key: &B256, value: &B256, gas_left: u64) -> Result<Charged<()>, HostError> {
        self.refuse_static()?;
        let address = self.context.address;
        self.world.store_slot(&address, key, value, gas_left)
    }

    fn storage_count(&mut self, key: &B256, change: Delta, bound: &U256, gas_left: u64) -> Result<Charged<bool>, HostError> {
        self.refuse_static()?;
        affordable(price::COUNT, gas_left)?;
        let surcharge = self.world.slot_surcharge(&self.context.address, key);
        let mut cost = affordable(surcharge + price::COUNT, gas_left)?;
        let slot = (self.context.address, *key);
        let allowed = self.world.journal.may_count(&slot, change, bound);
        if allowed && !change.is_zero() {
            // A subtraction from zero is never allowed, so only an addition can create a slot.
            if matches!(change, Delta::Plus(_)) && self.world.journal.is_zero(&slot) {
                cost = affordable(cost + price::COUNT_FROM_ZERO, gas_left)?;
            }
            self.world.journal.count(&slot, change);
        }
        self.world.uninterrupted(Charged::new(allowed, cost))
    }

    fn certified_hash(&mut self, number: u64, gas_left: u64) -> Result<Charged<Option<B256>>, HostError> {
        // The block determines which slots have hashes, so its number is read in any case.
        if !certified::is_readable(number, self.block(BlockField::Number).number) {
            return Ok(Charged::new(None, 0));
        }
        let Charged { value, gas } = self.world.load_slot(&certified::ADDRESS, &certified::slot(number), gas_left)?;
        Ok(Charged::new(Some(value).filter(|hash| !hash.is_zero()), gas))
    }

    fn transient_load(&mut self, key: &B256, gas_left: u64) -> Result<Charged<B256>, HostError> {
        let cost = affordable(price::TRANSIENT, gas_left)?;
        Ok(Charged::new(self.world.journal.transient(&self.context.address, key), cost))
    }

    fn transient_store(&mut self, key: &B256, value: &B256, gas_left: u64) -> Result<Charged<()>, HostError> {
        self.refuse_static()?;
        let cost = affordable(price::TRANSIENT, gas_left)?;
        self.world.journal.store_transient(&self.context.address, key, *value);
        Ok(Charged::new((), cost))
    }

    fn emit_log(&mut self, topics: Vec<B256>, data: Bytes, gas_left: u64) -> Result<Charged<()>, HostError> {
        self.refuse_static()?;
        let cost = price::LOG + price::LOG_TOPIC * topics.len() as u64 + price::LOG_BYTE * data.len() as u64;
        affordable(cost, gas_left)?;
        let log = Log { address: self.context.address, topics, data };
        self.world.log(log);
        Ok(Charged::new((), cost))
    }

    fn console_log(&mut self, text: &[u8]) {
        if let Some(trace) = &mut self.world.trace {
            trace.console_line(text);
        }
    }

    fn record_failure(&mut self, backtrace: RawBacktrace) {
        let World { journal, trace, .. } = &mut *self.world;
        if let Some(trace) = trace
            && let Some(code) = journal.code(&self.code.hash)
        {
            trace.record_failure(backtrace.in_code(&code));
        }
    }

    fn balance(&mut self, address: &Address, gas_left: u64) -> Result<Charged<U256>, HostError> {
        let cost = affordable(self.world.access_account(address), gas_left)?;
        let balance = self.world.journal.account(address).balance;
        self.world.uninterrupted(Charged::new(balance, cost))
    }

    fn code(&mut self, address: &Address, gas_left: u64) -> Result<Charged<Bytes>, HostError> {
        let cost = affordable(self.world.access_account(address), gas_left)?;
        let hash = self.world.journal.account_code(address).hash;
        let code = self.world.journal.code(&hash);
        let code = code.ok_or_else(|| HostError::Fault(format!("the code of an account is missing: {address}")))?;
        self.world.uninterrupted(Charged::new(code, cost))
    }

    fn code_hash(&mut self, address: &Address, gas_left: u64) -> Result<Charged<B256>, HostError> {
        let cost = affordable(self.world.access_account(address), gas_left)?;
        let account = self.world.journal.account(address);
        let hash = if account.is_empty() { B256::ZERO } else { account.code_hash };
        self.world.uninterrupted(Charged::new(hash, cost))
    }

    fn call(&mut self, request: CallRequest) -> Result<CallReturn, HostError> {
        let value = if request.kind == CallKind::Call { request.value } else { U256::ZERO };
        let carries_value = !value.is_zero();
        if carries_value {
            self.refuse_static()?;
        }
        let mut base = self.world.access_account(&request.to);
        if carries_value {
            base += price::CALL_VALUE;
            if self.world.journal.account(&request.to).is_empty() {
                base += price::CALL_NEW_ACCOUNT;
            }
        }
        affordable(base, request.gas_left)?;
        let given = request.gas_wanted.min(price::all_but_one_64th(request.gas_left - base));
        let stipend = if carries_value { price::CALL_STIPEND } else { 0 };
        let gas = given.saturating_add(stipend);
        let refused = self.check_call(value);
        let context = &self.context;
        let delegate = request.kind == CallKind::Delegate;
        let message = Message {
            kind: request.kind,
            code_of: request.to,
            address: if delegate { context.address } else { request.to },
            caller: if delegate { context.caller } else { context.address },
            value: if delegate { context.value } else { value },
            input: request.input,
            gas,
            is_static: context.is_static || request.kind == CallKind::Static,
            depth: context.depth + 1,
            limits: request.limits,
        };
        let ended = match refused {
            None => self.world.call(message),
            Some(why) => {
                self.world.record_failed_call(|| message.to_trace(), why, gas);
                FrameOutcome::failed(ExecutionStatus::OutOfGas, gas)
            }
        };
        let status = match ended.end {
            ExecutionStatus::Success => CallStatus::Success,
            ExecutionStatus::Revert => CallStatus::Revert,
            ExecutionStatus::Fault(Fault(text)) => return Err(HostError::Fault(text)),
            _ => CallStatus::Failure,
        };
        if self.world.journal.interrupted() {
            return Err(HostError::Fault(Fault::interruption().0));
        }
        // The caller gets the callee's unused stipend, so add before subtracting.
        Ok(CallReturn { status, output: ended.output, gas: (base + given).saturating_sub(ended.gas_left) })
    }

    fn create(&mut self, request: CreateRequest) -> Result<CreateReturn, HostError> {
        self.refuse_static()?;
        self.create_contract(request)
    }
}
