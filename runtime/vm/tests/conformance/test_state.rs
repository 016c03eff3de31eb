//! A state with a few contracts, and calls of them on the node's virtual machine.

use crate::common::wat;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use corniche_abi::{MODULES, ValueType};
use corniche_state::{Account, Changes, EmptyState, Overlay, StateView};
use corniche_types::certified;
use corniche_vm::{BlockEnv, Call, CallOutcome, NoCache, Vm, VmConfig};
use std::sync::{Arc, OnceLock};

/// Callee of every test transaction.
pub const ONE: Address = Address::repeat_byte(0x11);
/// Called by [`ONE`].
pub const TWO: Address = Address::repeat_byte(0x22);
pub const THREE: Address = Address::repeat_byte(0x33);
/// Sends all transactions.
pub const SENDER: Address = Address::repeat_byte(0x5e);
/// An account with wei and without code.
pub const PERSON: Address = Address::repeat_byte(0x9e);
/// An account that does not exist.
pub const NOBODY: Address = Address::repeat_byte(0x99);
pub const GAS: u64 = 10_000_000;
/// Address of results in memory.
pub const OUT: u32 = 1_024;

#[derive(Clone)]
pub struct TestState {
    pub changes: Changes,
    pub value: U256,
    pub gas: u64,
}

pub fn env() -> BlockEnv {
    BlockEnv {
        rules: corniche_types::ProtocolRules::LATEST,
        chain_id: 412_346,
        number: 10_000,
        timestamp: 1_700_000_000,
        base_fee: 7,
        coinbase: Address::repeat_byte(0xfe),
        gas_limit: 30_000_000,
        randomness: B256::repeat_byte(9),
    }
}

/// Returns WebAssembly text that imports the host functions named in `text`.
pub fn imports(text: &str) -> String {
    let kind = |kind: &ValueType| if *kind == ValueType::I32 { "i32 " } else { "i64 " };
    let all = MODULES.iter().flat_map(|(module, calls)| calls.iter().map(move |call| (module, call)));
    let used =
        all.filter(|(_, call)| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == call.name));
    used.map(|(module, call)| {
        let parameters: String = call.parameters.iter().map(kind).collect();
        let result: String = call.result.iter().map(|result| format!("(result {})", kind(result))).collect();
        format!("(import \"{module}\" \"{0}\" (func ${0} (param {parameters}) {result}))", call.name)
    })
    .collect()
}

/// Returns a contract with one page of memory and this body. `$n` is the length of the input; `$x` and `$y` are i64
/// locals. Memory contains [`ONE`], [`TWO`], [`THREE`], [`PERSON`] and [`NOBODY`] at 0, 32, 64, 96 and 128, the number 1 at
/// [`UNIT`] and 7 at [`SEVEN`]. All other bytes are zero.
pub fn contract(body: &str) -> Vec<u8> {
    let data: String = [(0, ONE), (32, TWO), (64, THREE), (96, PERSON), (128, NOBODY)]
        .map(|(at, address)| {
            format!(
                "(data (i32.const {at}) \"{}\")",
                "\\".to_owned() + &format!("{:02x}", address[0]) + &format!("\\{:02x}", address[0]).repeat(19)
            )
        })
        .concat();
    wat(&format!(
        "(module {} (memory (export \"memory\") 1) {data} (data (i32.const 191) \"\\01\") (data (i32.const 223) \"\\07\")
            (func (export \"user_entrypoint\") (param $n i32) (result i32) (local $x i64) (local $y i64) {body}))",
        imports(body)
    ))
}

/// Memory addresses of 32-byte words in [`contract`]s with the values 0, 1 and 7.
pub const ZERO: u32 = 512;
pub const UNIT: u32 = 160;
pub const SEVEN: u32 = 192;

/// Returns a contract that runs `body` and then returns `bytes` bytes from [`OUT`].
pub fn contract_returning(body: &str, bytes: u32) -> Vec<u8> {
    contract(&format!("{body} (call $write_result (i32.const {OUT}) (i32.const {bytes})) i32.const 0"))
}

/// Returns code that calls the address in memory at `to` with all gas, and stores the status at [`OUT`]. The calldata
/// is `$n` bytes of memory from address 600.
pub fn call(kind: &str, to: u32) -> String {
    let value = if kind == "call_contract" { format!("(i32.const {ZERO}) ") } else { String::new() };
    format!(
        "(i32.store (i32.const {OUT}) (call ${kind} (i32.const {to}) (i32.const 600) (local.get $n) {value}(i64.const -1) (i32.const 1032)))"
    )
}

impl TestState {
    pub fn new() -> Self {
        let mut world = Self { changes: Changes::default(), value: U256::ZERO, gas: GAS };
        world.account(SENDER, Account { balance: U256::from(1) << 100, ..Account::default() });
        world.account(PERSON, Account { balance: U256::from(77), ..Account::default() });
        world
    }

    fn account(&mut self, at: Address, account: Account) {
        self.changes.accounts.insert(at, Some(account));
    }

    /// Deploys a contract with ten thousand wei.
    pub fn deploy(mut self, at: Address, wasm: &[u8]) -> Self {
        let code_hash = keccak256(wasm);
        let balance = U256::from(10_000);
        self.account(at, Account { nonce: 1, balance, code_hash, abi_version: 1, gas_version: 1 });
        self.changes.code.insert(code_hash, Bytes::copy_from_slice(wasm));
        self
    }

    /// Sets the contract at [`ONE`].
    pub fn one(self, wasm: &[u8]) -> Self {
        self.deploy(ONE, wasm)
    }

    pub fn two(self, wasm: &[u8]) -> Self {
        self.deploy(TWO, wasm)
    }

    pub fn stored(mut self, at: Address, slot: u8, value: u8) -> Self {
        self.changes.storage.insert((at, B256::with_last_byte(slot)), B256::with_last_byte(value));
        self
    }

    /// Sets the hash of a certified header.
    pub fn certified(mut self, number: u64, hash: u8) -> Self {
        self.changes.storage.insert((certified::ADDRESS, certified::slot(number)), B256::repeat_byte(hash));
        self
    }

    /// Sends a transaction to [`ONE`] and keeps its changes.
    pub fn send(&mut self, input: &[u8]) -> CallOutcome {
        static VM: OnceLock<Vm> = OnceLock::new();
        let config = VmConfig { executors: 1, callers: 16, ..VmConfig::default() };
        let vm = VM.get_or_init(|| Vm::new(&config, Arc::new(NoCache)).unwrap());
        let call = Call {
            from: SENDER,
            to: Some(ONE),
            value: self.value,
            input: Bytes::copy_from_slice(input),
            gas: self.gas,
            gas_price: 1_000_000_007,
            max_gas_price: 1_000_000_007,
            ..Call::default()
        };
        let view = Overlay { base: &EmptyState, changes: &self.changes };
        let (outcome, changes) = vm.simulate(&view, &env(), &call, None);
        self.changes.merge(changes);
        outcome
    }

    /// Sends a transaction and returns its output.
    #[track_caller]
    pub fn output(&mut self, input: &[u8]) -> Vec<u8> {
        let outcome = self.send(input);
        assert!(outcome.success(), "{:?}", outcome.end);
        outcome.output.to_vec()
    }

    fn view(&self) -> Overlay<'_> {
        Overlay { base: &EmptyState, changes: &self.changes }
    }

    pub fn slot(&self, at: Address, slot: u8) -> u8 {
        self.view().storage(&at, &B256::with_last_byte(slot))[31]
    }

    pub fn balance(&self, at: Address) -> U256 {
        self.view().account(&at).unwrap_or_default().balance
    }

    pub fn nonce(&self, at: Address) -> u64 {
        self.view().account(&at).unwrap_or_default().nonce
    }

    pub fn has_code(&self, at: Address) -> bool {
        self.view().account(&at).unwrap_or_default().has_code()
    }
}

/// Reads a little-endian number: the format of lengths and statuses in memory.
pub fn int(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}
