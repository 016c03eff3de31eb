//! A machine whose contracts are closures, and a small chain that runs them.

use crate::{
    Call, CallOutcome, EstimateError, Executed, NotExecuted,
    call::{call, estimate_gas},
    host::{
        BlockEnv, CallKind, CallRequest, CallReturn, CallStatus, CreateRequest, CreateReturn, Delta, Exit, ExitStatus, Host,
        HostError, Limits, Trap,
    },
    machine::{Code, Deployment, Machine, Prepared},
    outcome::ExecutionStatus,
    trace::{Trace, TraceLimits},
    transact::{traced_transact, transact},
    wasm::Entry,
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_state::{Account, AccountCode, Changes, EmptyState, Overlay, StateView};
use corniche_types::{StakingParameters, Transaction};
use std::{collections::BTreeMap, sync::Arc};

pub const CHAIN_ID: u64 = 7;
pub const BASE_FEE: u64 = 10;
pub const BLOCK_GAS: u64 = 30_000_000;
/// Cost of decoding and validating any creation data.
pub const PREPARE_GAS: u64 = 1_000;
pub const TIP_TO: Address = Address::repeat_byte(0xf0);
pub const COINBASE: Address = Address::repeat_byte(0xc0);

/// Larger than any test needs.
pub const EVERYTHING: TraceLimits = TraceLimits { bytes: 1 << 30, top_only: false };

/// Behavior of a contract.
pub type Script = Arc<dyn Fn(&mut Guest<'_>) -> Result<Bytes, Stop> + Send + Sync>;

/// How a script ends early.
#[derive(Debug)]
pub enum Stop {
    Revert(Bytes),
    OutOfGas,
    Trap(Trap),
    Fault(String),
}

impl From<HostError> for Stop {
    fn from(error: HostError) -> Self {
        match error {
            HostError::OutOfGas => Self::OutOfGas,
            HostError::StaticViolation => Self::Trap(Trap::StaticViolation),
            HostError::Fault(text) => Self::Fault(text),
        }
    }
}

/// A script's access to the world: the host, with gas charged for each operation.
pub struct Guest<'h> {
    pub host: &'h mut dyn Host,
    pub gas: u64,
    pub limits: Limits,
    pub input: Bytes,
}

impl Guest<'_> {
    pub fn charge(&mut self, gas: u64) -> Result<(), Stop> {
        self.gas = self.gas.checked_sub(gas).ok_or(Stop::OutOfGas)?;
        Ok(())
    }

    pub fn load(&mut self, slot: u64) -> Result<u64, Stop> {
        let loaded = self.host.storage_load(&word(slot), self.gas)?;
        self.charge(loaded.gas)?;
        Ok(number(loaded.value))
    }

    pub fn store(&mut self, slot: u64, value: u64) -> Result<(), Stop> {
        let stored = self.host.storage_store(&word(slot), &word(value), self.gas)?;
        self.charge(stored.gas)
    }

    pub fn load_wide(&mut self, slot: u64) -> Result<U256, Stop> {
        let loaded = self.host.storage_load(&word(slot), self.gas)?;
        self.charge(loaded.gas)?;
        Ok(U256::from_be_bytes(loaded.value.0))
    }

    pub fn store_wide(&mut self, slot: u64, value: U256) -> Result<(), Stop> {
        let stored = self.host.storage_store(&word(slot), &value.into(), self.gas)?;
        self.charge(stored.gas)
    }

    pub fn count(&mut self, slot: u64, change: Delta, bound: U256) -> Result<bool, Stop> {
        let counted = self.host.storage_count(&word(slot), change, &bound, self.gas)?;
        self.charge(counted.gas)?;
        Ok(counted.value)
    }

    pub fn transient_load(&mut self, slot: u64) -> Result<u64, Stop> {
        let loaded = self.host.transient_load(&word(slot), self.gas)?;
        self.charge(loaded.gas)?;
        Ok(number(loaded.value))
    }

    pub fn transient_store(&mut self, slot: u64, value: u64) -> Result<(), Stop> {
        let stored = self.host.transient_store(&word(slot), &word(value), self.gas)?;
        self.charge(stored.gas)
    }

    pub fn log(&mut self, topic: u64) -> Result<(), Stop> {
        let logged = self.host.emit_log(vec![word(topic)], Bytes::from_static(b"data"), self.gas)?;
        self.charge(logged.gas)
    }

    pub fn call(&mut self, kind: CallKind, to: Address, value: u64, gas: u64, input: &[u8]) -> Result<CallReturn, Stop> {
        let request = CallRequest {
            kind,
            to,
            value: U256::from(value),
            input: Bytes::copy_from_slice(input),
            gas_wanted: gas,
            gas_left: self.gas,
            limits: self.limits,
        };
        let returned = self.host.call(request)?;
        self.charge(returned.gas)?;
        Ok(returned)
    }

    /// Makes a call with all gas, which must succeed.
    pub fn must_call(&mut self, to: Address, input: &[u8]) -> Result<Bytes, Stop> {
        let returned = self.call(CallKind::Call, to, 0, u64::MAX, input)?;
        assert_eq!(returned.status, CallStatus::Success);
        Ok(returned.output)
    }

    pub fn create(&mut self, code: &[u8], value: u64, salt: Option<B256>) -> Result<CreateReturn, Stop> {
        let request = CreateRequest {
            value: U256::from(value),
            code: Bytes::copy_from_slice(code),
            salt,
            gas_left: self.gas,
            limits: self.limits,
        };
        let created = self.host.create(request)?;
        self.charge(created.gas)?;
        Ok(created)
    }

    pub fn balance(&mut self, address: Address) -> Result<u64, Stop> {
        let balance = self.host.balance(&address, self.gas)?;
        self.charge(balance.gas)?;
        Ok(balance.value.to())
    }
}

pub fn word(number: u64) -> B256 {
    U256::from(number).into()
}

pub fn number(word: B256) -> u64 {
    U256::from_be_bytes(word.0).to()
}

/// Returns a number as output.
pub fn out(number: u64) -> Result<Bytes, Stop> {
    Ok(word(number).0.into())
}

pub fn read(output: &Bytes) -> u64 {
    number(B256::from_slice(output))
}

#[derive(Clone, Default)]
pub struct Scripts {
    by_code: BTreeMap<Bytes, Script>,
    pub staking: Option<StakingParameters>,
}

impl Machine for Scripts {
    fn run(&self, account: AccountCode, code: Code<'_>, host: &mut dyn Host, entry: Entry) -> Exit {
        let Some(code) = code() else {
            return Exit::failed(ExitStatus::Fault(format!("code {} is missing", account.hash)));
        };
        let mut guest = Guest { host, gas: entry.gas, limits: entry.limits, input: entry.input };
        let result = self.by_code[&code](&mut guest);
        let gas_left = guest.gas;
        match result {
            Ok(output) => Exit { status: ExitStatus::Return, output, gas_left },
            Err(Stop::Revert(output)) => Exit { status: ExitStatus::Revert, output, gas_left },
            Err(Stop::OutOfGas) => Exit::failed(ExitStatus::OutOfGas),
            Err(Stop::Trap(trap)) => Exit::failed(ExitStatus::Trap(trap)),
            Err(Stop::Fault(text)) => Exit::failed(ExitStatus::Fault(text)),
        }
    }

    /// Creation data is the name of a script; a `|` and the constructor's input may follow.
    fn prepare(&self, data: &Bytes, _: u64, _: u8) -> Prepared {
        let mut parts = data.splitn(2, |byte| *byte == b'|');
        let code = Bytes::copy_from_slice(parts.next().unwrap_or_default());
        let constructor_input = parts.next().map(Bytes::copy_from_slice);
        let contract = match self.by_code.contains_key(&code) {
            true => Ok(Deployment { code_hash: keccak256(&code), code, abi_version: 1, gas_version: 1, constructor_input }),
            false => Err(ExecutionStatus::Refused("not a script".into())),
        };
        Prepared { gas: PREPARE_GAS, contract }
    }

    fn staking(&self) -> Option<&StakingParameters> {
        self.staking.as_ref()
    }
}

/// A state, scripts and one rich sender.
pub struct Chain {
    pub scripts: Scripts,
    pub state: Changes,
    pub env: BlockEnv,
    pub key: EthereumKey,
}

impl Chain {
    pub fn new() -> Self {
        let key = EthereumKey::from_bytes(&[1; 32]).unwrap();
        let env = BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: CHAIN_ID,
            number: 1,
            timestamp: 1,
            base_fee: BASE_FEE,
            coinbase: COINBASE,
            gas_limit: BLOCK_GAS,
            randomness: B256::ZERO,
        };
        let mut chain = Self { scripts: Scripts::default(), state: Changes::default(), env, key };
        chain.set_balance(chain.sender(), 1_000_000_000_000);
        chain
    }

    pub fn sender(&self) -> Address {
        self.key.address()
    }

    /// Registers a script for creations.
    pub fn script(&mut self, name: &str, script: impl Fn(&mut Guest<'_>) -> Result<Bytes, Stop> + Send + Sync + 'static) {
        self.scripts.by_code.insert(Bytes::copy_from_slice(name.as_bytes()), Arc::new(script));
    }

    /// Adds a contract to the state; its address follows from its name.
    pub fn contract(
        &mut self,
        name: &str,
        script: impl Fn(&mut Guest<'_>) -> Result<Bytes, Stop> + Send + Sync + 'static,
    ) -> Address {
        self.script(name, script);
        let code = Bytes::copy_from_slice(name.as_bytes());
        let address = contract(name);
        let code_hash = keccak256(&code);
        let account = Account { nonce: 1, code_hash, abi_version: 1, gas_version: 1, ..Account::default() };
        self.state.code.insert(code_hash, code);
        self.state.accounts.insert(address, Some(account));
        address
    }

    pub fn set_balance(&mut self, address: Address, wei: u64) {
        let account = self.state.accounts.entry(address).or_default();
        account.get_or_insert_default().balance = U256::from(wei);
    }

    pub fn view(&self) -> Overlay<'_> {
        Overlay { base: &EmptyState, changes: &self.state }
    }

    pub fn account(&self, address: Address) -> Account {
        self.view().account(&address).unwrap_or_default()
    }

    pub fn balance(&self, address: Address) -> u64 {
        self.account(address).balance.to()
    }

    pub fn slot(&self, address: Address, slot: u64) -> u64 {
        number(self.view().storage(&address, &word(slot)))
    }

    /// Returns the sum of all balances.
    pub fn supply(&self) -> U256 {
        self.state.accounts.values().flatten().map(|account| account.balance).sum()
    }

    /// Returns a transaction of the sender to modify: next nonce, enough gas, a tip of 1 wei.
    pub fn draft(&self, to: impl Into<TxKind>) -> TxEip1559 {
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce: self.account(self.sender()).nonce,
            gas_limit: 1_000_000,
            max_fee_per_gas: 100,
            max_priority_fee_per_gas: 1,
            to: to.into(),
            ..TxEip1559::default()
        }
    }

    pub fn sign(&self, draft: TxEip1559) -> VerifiedTransaction {
        let raw = self.key.sign(draft);
        VerifiedTransaction::verify(Transaction::decode(raw).unwrap(), CHAIN_ID).unwrap()
    }

    /// Runs a transaction without keeping its changes.
    pub fn run(&self, draft: TxEip1559) -> Result<Executed, NotExecuted> {
        self.run_on(&self.view(), draft)
    }

    /// Like [`run`](Self::run), on another view.
    pub fn run_on(&self, view: &dyn StateView, draft: TxEip1559) -> Result<Executed, NotExecuted> {
        let transaction = self.sign(draft);
        transact(&self.scripts, view, &self.env, &transaction, TIP_TO)
    }

    /// Runs a transaction and returns its trace.
    pub fn trace(&self, draft: TxEip1559, limits: TraceLimits) -> Trace {
        let (transaction, mut trace) = (self.sign(draft.clone()), Trace::new(limits));
        let executed = traced_transact(&self.scripts, &self.view(), &self.env, &transaction, TIP_TO, Some(&mut trace));
        assert_eq!(executed, self.run(draft), "being watched changes nothing");
        trace
    }

    /// Runs a transaction, keeps its changes, and checks the invariants of all transactions.
    pub fn send(&mut self, draft: TxEip1559) -> Executed {
        let (before, nonce) = (self.supply(), self.account(self.sender()).nonce);
        let executed = self.run(draft.clone()).expect("valid");
        let trace = self.trace(draft, EVERYTHING);
        super::traces::check(&trace, &executed);
        assert_eq!(self.account(self.sender()).nonce, nonce, "running changes nothing");
        let added = executed.additions.resolve(&self.view());
        self.state.merge(executed.changes.clone());
        self.state.merge(added);
        let burned = U256::from(executed.receipt.gas_used) * U256::from(BASE_FEE);
        assert_eq!(self.supply() + burned, before, "only the base fee leaves the world");
        assert_eq!(self.account(self.sender()).nonce, nonce + 1, "the nonce moves by one, always");
        executed
    }

    /// Sends a call with enough gas and no input.
    pub fn send_to(&mut self, to: Address) -> Executed {
        self.send(self.draft(to))
    }

    pub fn call(&self, request: Call) -> CallOutcome {
        call(&self.scripts, &self.view(), &self.env, &request)
    }

    pub fn estimate(&self, request: Call) -> Result<u64, EstimateError> {
        estimate_gas(&self.scripts, &self.view(), &self.env, &request)
    }
}

pub fn contract(name: &str) -> Address {
    Address::from_word(keccak256(name))
}
