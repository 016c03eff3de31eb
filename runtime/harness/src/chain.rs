//! An in-memory chain.

use crate::address_book::AddressBook;
use crate::contract::Contract;
use crate::creation;
use crate::gas::GasReport;
use crate::outcome::{Failed, Sent};
use crate::staking;
use crate::trace_format::format_trace;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolType, SolValue, abi::token::TokenSeq};
use corniche_state::{Changes, EmptyState, Overlay, StateView};
use corniche_types::{Account, Header, KECCAK_EMPTY, StakingParameters, TimestampMs, certified, header_hash};
use corniche_vm::wasm::CONSTRUCTOR_SELECTOR;
use corniche_vm::{BlockEnv, Call, CallOutcome, ExecutionStatus, NoCache, Rules, Trace, TraceFrame, TraceLimits, Vm, VmConfig};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Limits of the inputs, outputs and logs recorded for a transaction's trace.
const TRACED: TraceLimits = TraceLimits { bytes: 64 << 20, top_only: false };

/// Accounts, contracts and a clock in memory. A clone is an independent snapshot.
#[derive(Clone)]
pub struct Chain {
    vm: Vm,
    changes: Changes,
    block: BlockEnv,
    gas_price: u128,
    book: AddressBook,
    gas: GasReport,
    past_blocks: Vec<PastBlock>,
    staking: Option<Arc<StakingParameters>>,
}

/// A past block: the data from which its header is rebuilt.
#[derive(Clone)]
struct PastBlock {
    env: BlockEnv,
    hash: B256,
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

impl Chain {
    /// Creates a chain without contracts. Its clock starts on 1 January 2030.
    ///
    /// # Panics
    /// Panics if the virtual machine cannot start on this machine.
    pub fn new() -> Self {
        // Shared by all tests of a process, because its address space is large.
        static VM: OnceLock<Vm> = OnceLock::new();
        Self::on(VM.get_or_init(|| vm(None)).clone())
    }

    /// Like [`new`](Self::new), with the staking contract and `min_validators` validators of one vote each. Such a chain has a
    /// virtual machine of its own, which clones share.
    ///
    /// # Panics
    /// Panics if the virtual machine cannot start on this machine.
    pub fn with_staking(parameters: StakingParameters) -> Self {
        let parameters = Arc::new(parameters);
        let mut chain = Self::on(vm(Some(parameters.clone())));
        let start = chain.time_ms();
        staking::write_genesis(&mut chain.changes, &parameters, start);
        chain.staking = Some(parameters);
        chain
    }

    fn on(vm: Vm) -> Self {
        let block = BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: 31_337,
            number: 1,
            timestamp: 1_893_456_000,
            base_fee: 1_000_000_000,
            coinbase: Address::repeat_byte(0xfe),
            gas_limit: 30_000_000,
            randomness: keccak256("1"),
        };
        let (changes, book, gas) = (Changes::default(), AddressBook::default(), GasReport::default());
        Self { vm, changes, block, gas_price: 0, book, gas, past_blocks: Vec::new(), staking: None }
    }

    /// Returns the account with this name. A new account has a balance of a million coins.
    pub fn account(&mut self, name: &str) -> Address {
        let address = Address::from_word(keccak256(name));
        if self.state().account(&address).is_none() {
            self.set_balance(address, U256::from(10).pow(U256::from(24)));
        }
        self.book.label(address, name);
        address
    }

    /// Sets the name of an account in traces.
    pub fn label(&mut self, address: Address, name: &str) {
        self.book.label(address, name);
    }

    /// Registers a contract's interface for traces of contracts that other contracts deploy from this code.
    pub fn register(&mut self, contract: &Contract) {
        let compressed = creation::compressed(&contract.wasm).unwrap_or_default();
        for stored in [&contract.wasm[..], &compressed] {
            self.book.add_code(keccak256(stored), contract);
        }
    }

    /// Starts a transaction from this sender.
    pub fn by(&mut self, from: Address) -> TransactionBuilder<'_> {
        let gas = self.block.gas_limit;
        TransactionBuilder { chain: self, from, value: U256::ZERO, gas }
    }

    /// Calls a function without a transaction, from the zero address, and returns its result.
    ///
    /// # Panics
    /// Panics with the trace if the call fails. [`TransactionBuilder::call`] returns an error instead.
    pub fn view<C: SolCall>(&self, contract: Address, call: C) -> C::Return {
        self.ask(Address::ZERO, contract, U256::ZERO, self.block.gas_limit, call).unwrap_or_else(|failed| panic!("{failed:?}"))
    }

    pub fn balance(&self, account: Address) -> U256 {
        self.account_of(&account).balance
    }

    pub fn nonce(&self, account: Address) -> u64 {
        self.account_of(&account).nonce
    }

    /// Returns whether the account has code.
    pub fn is_contract(&self, account: Address) -> bool {
        self.account_of(&account).has_code()
    }

    /// Returns a storage slot of a contract, for tests of the storage layout.
    pub fn storage(&self, contract: Address, slot: B256) -> B256 {
        self.state().storage(&contract, &slot)
    }

    /// Returns all non-zero slots of a contract.
    pub fn slots(&self, contract: Address) -> BTreeMap<B256, B256> {
        let own = self.changes.storage.range((contract, B256::ZERO)..).take_while(|((address, _), _)| *address == contract);
        own.filter(|(_, word)| !word.is_zero()).map(|((_, slot), word)| (*slot, *word)).collect()
    }

    pub fn set_balance(&mut self, account: Address, wei: U256) {
        let account_now = Account { balance: wei, ..self.account_of(&account) };
        self.changes.accounts.insert(account, Some(account_now));
    }

    pub fn set_storage(&mut self, contract: Address, slot: B256, value: B256) {
        self.changes.storage.insert((contract, slot), value);
    }

    /// Timestamp of the next block in seconds.
    pub fn time(&self) -> u64 {
        self.block.timestamp
    }

    pub fn height(&self) -> u64 {
        self.block.number
    }

    /// Randomness of the next block; it differs in each block.
    pub fn randomness(&self) -> B256 {
        self.block.randomness
    }

    /// Sets the randomness of the next block.
    pub fn set_randomness(&mut self, randomness: B256) {
        self.block.randomness = randomness;
    }

    /// Returns the header of a past block in RLP, like `debug_getRawHeader`. Number, time, randomness, base fee,
    /// beneficiary and parent are those of the block. Roots and bloom are zero, as the harness computes no hashes; if
    /// they matter, set the hash of your own header with [`Self::set_certified_hash`].
    pub fn header(&self, number: u64) -> Option<Bytes> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        let env = &self.past_blocks.get(at)?.env;
        Some(alloy_rlp::encode(self.header_of(env)).into())
    }

    /// Sets the hash of that header as contracts read it (`certified_hash`). A block can read headers that are at least
    /// 65 below it. The hashes of this chain's own headers are set automatically.
    pub fn set_certified_hash(&mut self, number: u64, hash: B256) {
        self.set_storage(certified::ADDRESS, certified::slot(number), hash);
    }

    /// Advances the clock of the next block by this many seconds.
    pub fn advance(&mut self, seconds: u64) {
        self.block.timestamp = self.block.timestamp.saturating_add(seconds);
    }

    /// Advances the clock to the end of the epoch and ends it. All registered validators are candidates for the next
    /// committee, and members receive their rewards.
    ///
    /// # Panics
    /// Panics on a chain without [staking](Self::with_staking), and if its epochs never end.
    pub fn end_epoch(&mut self) {
        let parameters = self.staking.clone().expect("a chain with staking");
        let (height, now) = (self.block.number, self.time_ms());
        let (end, rewards) = staking::end_epoch(&mut self.changes, &parameters, height, now);
        for (account, wei) in rewards {
            self.set_balance(account, self.balance(account).saturating_add(wei));
        }
        self.block.timestamp = end.0.div_ceil(1_000);
        self.end_block();
    }

    /// Appends empty blocks, one second apart.
    pub fn mine(&mut self, blocks: u64) {
        for _ in 0..blocks {
            self.end_block();
        }
    }

    /// Sets the gas price in wei, at least the base fee of 10⁹. Senders pay it from now on; before, gas is free.
    pub fn gas_price(&mut self, wei: u128) {
        self.gas_price = wei;
    }

    /// Gas used by transactions so far, by contract and function.
    pub fn gas(&self) -> &GasReport {
        &self.gas
    }

    /// Names used in traces.
    pub fn book(&self) -> &AddressBook {
        &self.book
    }

    fn time_ms(&self) -> TimestampMs {
        TimestampMs(self.block.timestamp.saturating_mul(1_000))
    }

    fn state(&self) -> Overlay<'_> {
        Overlay { base: &EmptyState, changes: &self.changes }
    }

    fn account_of(&self, account: &Address) -> Account {
        let nothing = Account { code_hash: KECCAK_EMPTY, ..Account::default() };
        self.state().account(account).unwrap_or(nothing)
    }

    /// The parent block must exist.
    fn header_of(&self, env: &BlockEnv) -> Header {
        let parent = usize::try_from(env.number).ok().and_then(|number| self.past_blocks.get(number.checked_sub(2)?));
        Header {
            parent_hash: parent.map_or(B256::ZERO, |parent| parent.hash),
            beneficiary: env.coinbase,
            state_root: B256::ZERO,
            transactions_root: B256::ZERO,
            receipts_root: B256::ZERO,
            number: env.number,
            gas_limit: env.gas_limit,
            timestamp: env.timestamp,
            mix_hash: env.randomness,
            base_fee_per_gas: Some(env.base_fee),
            ..Header::default()
        }
    }

    fn end_block(&mut self) {
        self.past_blocks.push(PastBlock { env: self.block.clone(), hash: header_hash(&self.header_of(&self.block)) });
        // Block numbers start at 1.
        if let Some(at) = certified::written_by(self.block.number).and_then(|number| number.checked_sub(1)) {
            self.set_certified_hash(at + 1, self.past_blocks[at as usize].hash);
        }
        self.block.number += 1;
        self.block.timestamp += 1;
        self.block.randomness = keccak256(self.block.randomness);
    }

    fn ask<C: SolCall>(&self, from: Address, to: Address, value: U256, gas: u64, call: C) -> Result<C::Return, Failed> {
        let call_data = Call { from, to: Some(to), value, input: call.abi_encode().into(), gas, ..Call::default() };
        let (outcome, trace, _) = self.run(&call_data);
        // The call's changes are discarded, so contracts it deployed are added to a copy of the book.
        let mut book = self.book.clone();
        add_contracts(&mut book, &self.state(), trace.as_deref());
        read::<C>(&book, outcome, trace).map(|sent| sent.output)
    }

    fn run(&self, call: &Call) -> (CallOutcome, Option<Box<TraceFrame>>, Changes) {
        let mut trace = Trace::new(TRACED);
        let (outcome, changes) = self.vm.simulate(&self.state(), &self.block, call, Some(&mut trace));
        if trace.root().is_some_and(|root| self.has_failure_symbols(root)) {
            trace = Trace::new(TRACED).with_backtrace();
            self.vm.simulate(&self.state(), &self.block, call, Some(&mut trace));
        }
        (outcome, trace.into_parts().0.map(Box::new), changes)
    }

    /// Returns whether a frame failed in code whose symbols are known.
    fn has_failure_symbols(&self, root: &TraceFrame) -> bool {
        fn fails(book: &AddressBook, frame: &TraceFrame) -> bool {
            (frame.ended_by_machine() && book.has_symbols(&frame.to)) || frame.calls.iter().any(|call| fails(book, call))
        }
        let mut book = self.book.clone();
        root.has_backtrace() && {
            add_contracts(&mut book, &self.state(), Some(root));
            fails(&book, root)
        }
    }

    /// Runs a transaction in its own block.
    fn transact(&mut self, call: &Call) -> (CallOutcome, Option<Box<TraceFrame>>) {
        let (outcome, trace, changes) = self.run(call);
        self.changes.merge(changes);
        let view = Overlay { base: &EmptyState, changes: &self.changes };
        add_contracts(&mut self.book, &view, trace.as_deref());
        self.end_block();
        (outcome, trace)
    }
}

fn vm(staking: Option<Arc<StakingParameters>>) -> Vm {
    // Development rules also accept debug builds of contracts.
    let config = VmConfig { rules: Rules::DEVELOPMENT, staking, ..VmConfig::default() };
    Vm::new(&config, Arc::new(NoCache)).expect("a virtual machine")
}

/// Adds the interfaces of all accounts in the trace.
fn add_contracts(book: &mut AddressBook, view: &dyn StateView, frame: Option<&TraceFrame>) {
    let Some(frame) = frame else { return };
    if let Some(account) = view.account(&frame.to) {
        book.add_by_code_hash(frame.to, account.code_hash);
    }
    for call in &frame.calls {
        add_contracts(book, view, Some(call));
    }
}

fn failed(book: &AddressBook, outcome: CallOutcome, trace: Option<Box<TraceFrame>>) -> Failed {
    let rendered = match &trace {
        Some(root) => format_trace(book, root),
        // The transaction did not start.
        None => format!("{}\n", outcome.end.reason().unwrap_or_else(|| "failed".into())),
    };
    Failed { end: outcome.end, data: outcome.output, gas_used: outcome.gas_used, trace, rendered }
}

/// Decodes the output of a successful call.
fn read<C: SolCall>(
    book: &AddressBook,
    outcome: CallOutcome,
    trace: Option<Box<TraceFrame>>,
) -> Result<Sent<C::Return>, Failed> {
    if outcome.end != ExecutionStatus::Success {
        return Err(failed(book, outcome, trace));
    }
    match C::abi_decode_returns(&outcome.output) {
        Ok(output) => Ok(Sent { output, gas_used: outcome.gas_used, logs: outcome.logs, trace }),
        Err(error) => {
            let wrong = format!("cannot decode the return value {} of {}: {error}\n", outcome.output, C::SIGNATURE);
            let mut failed = failed(book, outcome, trace);
            failed.rendered.push_str(&wrong);
            Err(failed)
        }
    }
}

/// Builder of a transaction.
pub struct TransactionBuilder<'a> {
    chain: &'a mut Chain,
    from: Address,
    value: U256,
    gas: u64,
}

impl TransactionBuilder<'_> {
    /// Sets the value in wei.
    pub fn value(mut self, wei: impl Into<U256>) -> Self {
        self.value = wei.into();
        self
    }

    /// Sets the gas limit; default: the block's gas limit.
    pub fn gas(mut self, limit: u64) -> Self {
        self.gas = limit;
        self
    }

    /// Deploys a contract. `arguments` are the constructor's: a tuple, or `()` for none.
    pub fn deploy<A: SolValue>(self, contract: &Contract, arguments: A) -> Result<Address, Failed>
    where
        for<'a> <A::SolType as SolType>::Token<'a>: TokenSeq<'a>,
    {
        self.deploy_traced(contract, arguments).map(|sent| sent.output)
    }

    /// Like [`deploy`](Self::deploy), but also returns gas, logs and trace.
    pub fn deploy_traced<A: SolValue>(self, contract: &Contract, arguments: A) -> Result<Sent<Address>, Failed>
    where
        for<'a> <A::SolType as SolType>::Token<'a>: TokenSeq<'a>,
    {
        let arguments = match arguments.abi_encode_params() {
            // Empty arguments would run no constructor.
            none if none.is_empty() && contract.abi.constructor().is_some() => Some(CONSTRUCTOR_SELECTOR.to_vec()),
            none if none.is_empty() => None,
            some => Some(some),
        };
        let data = match &arguments {
            Some(arguments) => creation::with_arguments(&contract.wasm, arguments),
            None => creation::compressed(&contract.wasm),
        };
        self.create(contract, data.unwrap_or_else(|error| panic!("{}: {error}", contract.name)))
    }

    /// Sends creation data of a contract.
    pub(crate) fn create(self, contract: &Contract, data: Vec<u8>) -> Result<Sent<Address>, Failed> {
        let call = Call { to: None, input: data.into(), ..self.envelope() };
        // A failed constructor leaves no code by which to identify the contract.
        self.chain.book.add_symbols(self.from.create(self.chain.nonce(self.from)), contract);
        let (outcome, trace) = self.chain.transact(&call);
        match outcome.contract_address.filter(|_| outcome.end == ExecutionStatus::Success) {
            Some(address) => {
                let code_hash = self.chain.account_of(&address).code_hash;
                for hash in [code_hash, keccak256(&contract.wasm)] {
                    self.chain.book.add_code(hash, contract);
                }
                self.chain.book.add_by_code_hash(address, code_hash);
                self.chain.gas.add(format!("{}: deployment", contract.name), outcome.gas_used);
                Ok(Sent { output: address, gas_used: outcome.gas_used, logs: outcome.logs, trace })
            }
            None => Err(failed(&self.chain.book, outcome, trace)),
        }
    }

    /// Sends a transaction that calls a function.
    pub fn send<C: SolCall>(self, to: Address, call: C) -> Result<Sent<C::Return>, Failed> {
        let call = Call { to: Some(to), input: call.abi_encode().into(), ..self.envelope() };
        let (outcome, trace) = self.chain.transact(&call);
        let sent = read::<C>(&self.chain.book, outcome, trace);
        if let Ok(sent) = &sent {
            let function = C::SIGNATURE.split('(').next().unwrap_or_default();
            self.chain.gas.add(format!("{}.{function}", self.chain.book.name(&to)), sent.gas_used);
        }
        sent
    }

    /// Sends wei, or arbitrary input.
    pub fn send_raw(self, to: Address, input: impl Into<Bytes>) -> Result<Sent<Bytes>, Failed> {
        let call = Call { to: Some(to), input: input.into(), ..self.envelope() };
        let (outcome, trace) = self.chain.transact(&call);
        if outcome.end != ExecutionStatus::Success {
            return Err(failed(&self.chain.book, outcome, trace));
        }
        Ok(Sent { output: outcome.output, gas_used: outcome.gas_used, logs: outcome.logs, trace })
    }

    /// Calls a function and discards its changes.
    pub fn call<C: SolCall>(self, to: Address, call: C) -> Result<C::Return, Failed> {
        self.chain.ask(self.from, to, self.value, self.gas, call)
    }

    fn envelope(&self) -> Call {
        let gas_price = self.chain.gas_price;
        Call { from: self.from, value: self.value, gas: self.gas, gas_price, max_gas_price: gas_price, ..Call::default() }
    }
}
