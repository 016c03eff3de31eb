//! A state with contracts, and measurement of their CPU time.
#![allow(dead_code)] // each benchmark uses its part

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use corniche_state::{Account, Changes, EmptyState, Overlay};
use corniche_types::{ProtocolRules, certified, intrinsic_gas};
use corniche_vm::{BlockEnv, Call, ExecutionStatus, ModuleCache, NoCache, Vm, VmConfig};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Address of the measured contract.
pub const SUBJECT: Address = Address::repeat_byte(0x5b);
/// A contract that returns immediately.
pub const NOTHING: Address = Address::repeat_byte(0x77);
/// The newest header with a readable hash; the state has all readable hashes.
pub const NEWEST_CERTIFIED: u64 = NUMBER - certified::DEPTH - 1;
/// Number of the block in which everything runs.
const NUMBER: u64 = 10_000;
/// Sender of all transactions.
const PAYER: Address = Address::repeat_byte(0xaa);

/// Cache of compiled code in memory. It costs about as much as a file in the page cache, and outlives a virtual
/// machine.
#[derive(Default)]
pub struct Artefacts(pub Mutex<BTreeMap<B256, Vec<u8>>>);

impl ModuleCache for Artefacts {
    fn get(&self, key: &B256) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(key).cloned()
    }

    fn put(&self, key: &B256, artefact: &[u8]) {
        self.0.lock().unwrap().insert(*key, artefact.to_vec());
    }
}

/// Returns the import of every host call, under its own name.
pub fn imports() -> String {
    use corniche_abi::{MODULES, ValueType};
    let word = |kind: &ValueType| if *kind == ValueType::I32 { "i32 " } else { "i64 " };
    let functions = MODULES.iter().flat_map(|(module, calls)| calls.iter().map(move |call| (module, call)));
    functions
        .map(|(module, call)| {
            let parameters: String = call.parameters.iter().map(word).collect();
            let result = call.result.iter().map(|kind| format!("(result {})", word(kind))).collect::<String>();
            format!("(import \"{module}\" \"{0}\" (func ${0} (param {parameters}) {result}))\n", call.name)
        })
        .collect()
}

/// Returns a module that imports the host calls in its text.
pub fn module(memory: &str, functions: &str, locals: &str, body: &str) -> Vec<u8> {
    let used: String = imports()
        .lines()
        .filter(|line| names(&format!("{functions}{body}"), name_of(line)))
        .map(|line| format!("{line}\n"))
        .collect();
    let text = format!(
        r#"(module {used} (memory (export "memory") {memory}) {functions}
            (func (export "user_entrypoint") (param $length i32) (result i32) {locals} {body}))"#
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn name_of(import: &str) -> &str {
    import.split('$').nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default()
}

fn names(text: &str, name: &str) -> bool {
    text.match_indices(&format!("${name}"))
        .any(|(at, found)| !text[at + found.len()..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_'))
}

/// Repeats `body` forever.
pub fn again(body: &str) -> String {
    format!("(loop $again {body} (br $again)) i32.const 0")
}

/// A virtual machine and a state.
pub struct Bench {
    pub vm: Vm,
    changes: Changes,
    /// Rules of the block for runs, and for contracts deployed from now on.
    pub rules: &'static ProtocolRules,
}

/// Cost of one call.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub nanoseconds: f64,
    /// Gas without the transaction's intrinsic gas.
    pub gas: u64,
}

impl Cost {
    pub fn per_gas(&self) -> f64 {
        self.nanoseconds / self.gas as f64
    }
}

impl Bench {
    pub fn new(config: &VmConfig) -> Self {
        Self::with_cache(config, Arc::new(NoCache))
    }

    pub fn with_cache(config: &VmConfig, artefacts: Arc<dyn ModuleCache>) -> Self {
        Self::on(Vm::new(config, artefacts).expect("a virtual machine"))
    }

    pub fn on(vm: Vm) -> Self {
        let mut bench = Self { vm, changes: Changes::default(), rules: ProtocolRules::LATEST };
        bench.changes.accounts.insert(PAYER, Some(Account { balance: U256::MAX >> 1, ..Account::default() }));
        bench.deploy(NOTHING, &module("1", "", "", "i32.const 0"));
        for number in (0..=NEWEST_CERTIFIED).rev().take(certified::WINDOW as usize) {
            bench.store(certified::ADDRESS, certified::slot(number), keccak256(number.to_be_bytes()));
        }
        bench
    }

    pub fn deploy(&mut self, at: Address, wasm: &[u8]) {
        let code_hash = keccak256(wasm);
        let gas_version = self.rules.gas_version;
        let account = Account { nonce: 1, balance: U256::from(1) << 100, code_hash, abi_version: 1, gas_version };
        self.changes.accounts.insert(at, Some(account));
        self.changes.code.insert(code_hash, Bytes::copy_from_slice(wasm));
    }

    pub fn store(&mut self, at: Address, slot: B256, value: B256) {
        self.changes.storage.insert((at, slot), value);
    }

    /// Runs the call once. The cost excludes the gas for the input.
    pub fn run(&self, to: Option<Address>, input: &Bytes, gas: u64) -> (Cost, ExecutionStatus) {
        let intrinsic = intrinsic_gas(to.is_none(), input, &Vec::new());
        let call = Call { from: PAYER, to, input: input.clone(), gas: gas + intrinsic, ..Call::default() };
        let view = Overlay { base: &EmptyState, changes: &self.changes };
        let env = BlockEnv {
            rules: self.rules,
            chain_id: 7,
            number: NUMBER,
            timestamp: 1,
            base_fee: 0,
            coinbase: Address::repeat_byte(0xfe),
            gas_limit: gas + intrinsic,
            randomness: B256::repeat_byte(9),
        };
        let start = processor_time();
        let outcome = self.vm.call(&view, &env, &call);
        let nanoseconds = processor_time() - start;
        assert!(!matches!(outcome.end, ExecutionStatus::Fault(_) | ExecutionStatus::Invalid(_)), "{:?}", outcome.end);
        (Cost { nanoseconds, gas: outcome.gas_used.saturating_sub(intrinsic) }, outcome.end)
    }

    /// Returns the cheapest of several runs, because disturbances only add time.
    pub fn least(&self, times: u32, to: Option<Address>, input: &Bytes, gas: u64) -> Cost {
        let runs = (0..times.max(1)).map(|_| self.run(to, input, gas).0);
        runs.min_by(|one, other| one.nanoseconds.total_cmp(&other.nanoseconds)).expect("at least one run")
    }
}

/// CPU time of this thread in ns.
#[allow(unsafe_code)]
pub fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of that type, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
