//! Chain in memory for workloads: funded accounts, deployed contracts, blocks of signed candidates.

use super::wasm::Wasm;
use alloy_consensus::TxEip1559;
use alloy_primitives::TxKind;
use anyhow::{Context, anyhow, ensure};
use corniche_crypto::EthereumKey;
use corniche_executor::{BlockOutput, Candidate, Recorded, Recorder, serial, verify_ordered};
use corniche_harness::creation;
use corniche_state::{Account, Changes, Snapshot, State, StateView};
use corniche_types::{Address, B256, Bytes, Height, U256, ValidatorIndex, keccak256};
use corniche_vm::{BlockEnv, NoCache, Vm, VmConfig, bench::Single, wasm::unpack};
use std::{num::NonZero, sync::Arc, thread};

const CHAIN_ID: u64 = 1;
const BASE_FEE: u64 = 1_000_000_000;
/// Number of authors, as in the testnet; transactions are assigned round robin.
const AUTHORS: u16 = 4;
/// Balance of every account in wei: enough for any number of blocks.
const RICH: u128 = u128::MAX >> 16;
/// Gas limit of a deployment.
const DEPLOYMENT_GAS: u64 = 200_000_000;

/// Accounts with keys, created once and shared by all workloads.
pub struct Accounts {
    keys: Vec<EthereumKey>,
    addresses: Vec<Address>,
}

impl Accounts {
    /// Deterministic: the secret of account i is the hash of its number.
    pub fn new(count: usize) -> Self {
        let make = |index: usize| {
            let secret = keccak256(format!("corniche bench account {index}"));
            let key = EthereumKey::from_bytes(&secret.0).expect("almost every word is a key");
            (key.address(), key)
        };
        let (addresses, keys) = on_all_cores(count, make).into_iter().unzip();
        Self { keys, addresses }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }
}

/// Unsigned transaction.
pub struct Draft {
    /// Number of the account.
    pub sender: usize,
    pub to: TxKind,
    /// In wei.
    pub value: u64,
    pub input: Bytes,
    pub gas_limit: u64,
}

/// Current state, and the virtual machine for it.
pub struct Chain<'a> {
    pub accounts: &'a Accounts,
    wasm: &'a Wasm,
    pub vm: Vm,
    state: State,
    next_nonce: Vec<u64>,
}

impl<'a> Chain<'a> {
    /// All accounts are funded, nothing is deployed, no module is compiled.
    pub fn new(accounts: &'a Accounts, wasm: &'a Wasm) -> anyhow::Result<Self> {
        let vm = Vm::new(&VmConfig::default(), Arc::new(NoCache)).context("the virtual machine does not start")?;
        let chain = Self { accounts, wasm, vm, state: State::default(), next_nonce: vec![0; accounts.len()] };
        let rich = Account { balance: U256::from(RICH), ..Account::default() };
        let accounts = accounts.addresses().iter().map(|address| (*address, Some(rich.clone()))).collect();
        chain.state.apply(Height(0), &Changes { accounts, ..Changes::default() });
        Ok(chain)
    }

    /// Deploys a contract with a transaction of account 0; `constructor` has its ABI-encoded arguments.
    pub fn deploy(&mut self, name: &str, constructor: Option<&[u8]>) -> anyhow::Result<Address> {
        let wasm = self.wasm.read(name)?;
        let data = match constructor {
            Some(arguments) => creation::with_arguments(&wasm, arguments)?,
            None => creation::compressed(&wasm)?,
        };
        let draft = Draft { sender: 0, to: TxKind::Create, value: 0, input: data.into(), gas_limit: DEPLOYMENT_GAS };
        let candidates = self.sign(vec![draft]);
        let output = self.execute_serially(&candidates);
        let receipt = output.receipts.first().context("a deployment of a rich account is executed")?;
        ensure!(receipt.success, "{name}.wasm cannot be deployed: {}", String::from_utf8_lossy(&receipt.output));
        let address = receipt.contract_address.context("a creation has an address")?;
        self.append(&output.changes);
        Ok(address)
    }

    /// Writes directly into a contract's storage. Fills the tables of a workload, which would take too many
    /// transactions.
    pub fn fill(&mut self, contract: Address, slots: impl IntoIterator<Item = (B256, U256)>) {
        let storage = slots.into_iter().map(|(slot, value)| ((contract, slot), B256::from(value))).collect();
        self.append(&Changes { storage, ..Changes::default() });
    }

    /// Candidates of the next block, decoded and with verified signatures.
    pub fn sign(&mut self, drafts: Vec<Draft>) -> Vec<Candidate> {
        let numbered: Vec<_> = drafts
            .into_iter()
            .map(|draft| {
                let nonce = self.next_nonce[draft.sender];
                self.next_nonce[draft.sender] += 1;
                (draft, nonce)
            })
            .collect();
        on_all_cores(numbered.len(), |position| {
            let (draft, nonce) = &numbered[position];
            let raw = self.accounts.keys[draft.sender].sign(TxEip1559 {
                chain_id: CHAIN_ID,
                nonce: *nonce,
                gas_limit: draft.gas_limit,
                max_fee_per_gas: u128::from(BASE_FEE) * 2,
                max_priority_fee_per_gas: 1_000,
                to: draft.to,
                value: U256::from(draft.value),
                input: draft.input.clone(),
                ..TxEip1559::default()
            });
            let author = ValidatorIndex((position % usize::from(AUTHORS)) as u16);
            Candidate { author, verified: verify_ordered(&raw, CHAIN_ID), raw }
        })
    }

    /// State before the next block.
    pub fn latest(&self) -> Snapshot {
        self.state.latest()
    }

    /// Environment of the next block, with an unlimited gas limit.
    pub fn env(&self) -> BlockEnv {
        let number = self.state.head().unwrap_or_default().next().0;
        BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: CHAIN_ID,
            number,
            timestamp: 1_800_000_000 + number,
            base_fee: BASE_FEE,
            coinbase: fee_addresses()[0],
            gas_limit: u64::MAX,
            randomness: B256::ZERO,
        }
    }

    pub fn execute_serially(&self, candidates: &[Candidate]) -> BlockOutput {
        serial::execute_block(&self.vm, &self.latest(), &self.env(), candidates, &fee_addresses())
    }

    /// Contract call of a transaction, without transaction and state, and the gas it uses. `None` if the
    /// transaction calls no contract.
    pub fn single(&mut self, draft: Draft) -> anyhow::Result<Option<(Single, u64)>> {
        let view = self.latest();
        let TxKind::Call(to) = draft.to else { return Ok(None) };
        let Some(code) = view.account(&to).and_then(|account| view.code(&account.code_hash)) else { return Ok(None) };
        let (sender, input) = (self.accounts.addresses[draft.sender], draft.input.clone());
        let candidate = self.sign(vec![draft]).remove(0);
        let transaction = candidate.verified.map_err(|reason| anyhow!("{reason:?}"))?;
        let recorder = Recorder::new(&view);
        let recorded = Recorded::run(&self.vm, &recorder, &self.env(), &transaction, fee_addresses()[0]);
        let recorded = recorded.context("the virtual machine failed")?;
        let receipt = recorded.outcome.map_err(|reason| anyhow!("{reason:?}"))?.receipt;
        ensure!(receipt.success, "the call reverted: {}", String::from_utf8_lossy(&receipt.output));
        let asked =
            recorded.reads.predicates.iter().map(|predicate| (predicate.key, view.storage(&predicate.key.0, &predicate.key.1)));
        let found = recorded.reads.storage.iter().copied().chain(asked);
        let storage = found.filter(|((address, _), _)| *address == to).map(|((_, slot), value)| (slot, value)).collect();
        Ok(Some((Single { wasm: unpack(&code)?, sender, input, storage }, receipt.gas_used)))
    }

    /// Applies a block's changes to the state.
    pub fn append(&mut self, changes: &Changes) {
        let height = self.state.head().unwrap_or_default().next();
        self.state.apply(height, changes);
        self.state.prune_below(height);
    }
}

/// Recipients of the authors' tips.
pub fn fee_addresses() -> Vec<Address> {
    (0..AUTHORS).map(|author| Address::repeat_byte(0xf0 + author as u8)).collect()
}

/// Calls `make` for every index below `count`, in order, with one thread per core. Only for preparations,
/// never for measurements.
fn on_all_cores<T: Send>(count: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = count.div_ceil(cores).max(1);
    let make = &make;
    thread::scope(|scope| {
        let parts: Vec<_> = (0..count)
            .step_by(share)
            .map(|start| scope.spawn(move || (start..count.min(start + share)).map(make).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("preparations do not panic")).collect()
    })
}
