//! A small chain for block tests: funded keys, a contract, and random workloads that are reproducible across processes.
#![allow(dead_code)] // each test binary uses a part
#![allow(clippy::unwrap_used)] // test helpers, as the tests they serve

pub mod program;
pub mod test_chain;
pub mod threads;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use corniche_crypto::EthereumKey;
use corniche_executor::{BlockOutput, Candidate, serial::execute_block, verify_ordered};
use corniche_state::{Account, Changes, State, StateView, Tree};
use corniche_types::{Height, ValidatorIndex};
use corniche_vm::{BlockEnv, NoCache, Vm, VmConfig};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::sync::Arc;

pub const CHAIN_ID: u64 = 7;
pub const BASE_FEE: u64 = 10;
pub const BLOCK_GAS: u64 = 60_000_000;
pub const FEE_ADDRESSES: [Address; 2] = [Address::repeat_byte(0xf0), Address::repeat_byte(0xf1)];

/// Input is three bytes: the ending (0 return, 1 revert, 2 trap), a slot, and a number. Adds the number, logs slot and
/// sum, returns the sum.
const ADDER: &str = r#"(module
  (import "vm_hooks" "read_args" (func $read_args (param i32)))
  (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
  (import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))
  (import "vm_hooks" "storage_cache_bytes32" (func $cache (param i32 i32)))
  (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))
  (import "vm_hooks" "emit_log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1 1)
  (func (export "user_entrypoint") (param $length i32) (result i32)
    (call $read_args (i32.const 0))
    (i32.store8 (i32.const 95) (i32.load8_u (i32.const 1)))
    (call $load (i32.const 64) (i32.const 96))
    (i32.store8 (i32.const 127) (i32.add (i32.load8_u (i32.const 127)) (i32.load8_u (i32.const 2))))
    (call $cache (i32.const 64) (i32.const 96))
    (call $flush (i32.const 0))
    (call $log (i32.const 64) (i32.const 64) (i32.const 1))
    (if (i32.eq (i32.load8_u (i32.const 0)) (i32.const 2)) (then unreachable))
    (call $write_result (i32.const 96) (i32.const 32))
    (i32.eq (i32.load8_u (i32.const 0)) (i32.const 1))))"#;

pub fn adder() -> Bytes {
    wat::parse_str(ADDER).unwrap().into()
}

pub fn vm() -> Vm {
    Vm::new(&VmConfig::default(), Arc::new(NoCache)).unwrap()
}

pub fn key(number: u8) -> EthereumKey {
    EthereumKey::from_bytes(&[number + 1; 32]).unwrap()
}

/// State, tree and virtual machine of one node.
pub struct Node {
    pub vm: Vm,
    pub state: State,
    pub tree: Tree,
}

impl Node {
    /// Creates a chain with five keys, the last one with little balance.
    pub fn new() -> Self {
        let funded = |number: u8| {
            let wei = if number == 4 { 10_000_000 } else { 1_000_000_000_000u64 };
            (key(number).address(), Some(Account { balance: U256::from(wei), ..Account::default() }))
        };
        let genesis = Changes { accounts: (0..5).map(funded).collect(), ..Changes::default() };
        let node = Self { vm: vm(), state: State::default(), tree: Tree::default() };
        node.state.apply(Height(0), &genesis);
        Self {
            tree: {
                let mut tree = Tree::default();
                tree.apply(&genesis);
                tree
            },
            ..node
        }
    }

    /// Executes without storing the result.
    pub fn execute(&self, raws: &[Bytes]) -> BlockOutput {
        execute_block(&self.vm, &self.state.latest(), &self.env(), &candidates(raws), &FEE_ADDRESSES)
    }

    /// Executes and stores the result; also returns the new state root.
    pub fn append(&mut self, raws: &[Bytes]) -> (BlockOutput, B256) {
        let height = self.state.head().unwrap().next();
        let output = self.execute(raws);
        self.state.apply(height, &output.changes);
        (output.clone(), self.tree.apply(&output.changes))
    }

    pub fn env(&self) -> BlockEnv {
        BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: CHAIN_ID,
            number: 1,
            timestamp: 1,
            base_fee: BASE_FEE,
            coinbase: Address::repeat_byte(0xc0),
            gas_limit: BLOCK_GAS,
            randomness: B256::ZERO,
        }
    }

    pub fn account(&self, address: &Address) -> Account {
        self.state.latest().account(address).unwrap_or_default()
    }
}

/// Two authors alternate.
pub fn candidates(raws: &[Bytes]) -> Vec<Candidate> {
    let candidate = |(position, raw): (usize, &Bytes)| Candidate {
        author: ValidatorIndex((position % 2) as u16),
        raw: raw.clone(),
        verified: verify_ordered(raw, CHAIN_ID),
    };
    raws.iter().enumerate().map(candidate).collect()
}

pub fn draft(nonce: u64, to: impl Into<TxKind>) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: 20,
        max_priority_fee_per_gas: 2,
        to: to.into(),
        ..TxEip1559::default()
    }
}

pub fn deployment(nonce: u64) -> TxEip1559 {
    TxEip1559 { input: adder(), gas_limit: 1_000_000, ..draft(nonce, TxKind::Create) }
}

pub fn addition(nonce: u64, contract: Address, end: u8, slot: u8, amount: u8) -> TxEip1559 {
    TxEip1559 { input: vec![end, slot, amount].into(), ..draft(nonce, contract) }
}

/// Returns blocks of valid and invalid transactions of all kinds; a function of the seed.
pub fn workload(seed: u64) -> Vec<Vec<Bytes>> {
    let mut random = Random::new(seed);
    let mut nonces = [0u64; 5];
    let contract = key(0).address().create(0);
    let mut blocks = vec![vec![key(0).sign(deployment(0))]];
    nonces[0] = 1;
    for _ in 0..3 {
        let mut block = Vec::new();
        for _ in 0..random.below(24) {
            let who = random.below(5) as usize;
            let nonce = nonces[who];
            let mut transaction = match random.below(4) {
                0 => TxEip1559 { value: U256::from(random.below(1_000)), ..draft(nonce, key(random.below(5) as u8).address()) },
                1 => TxEip1559 {
                    value: U256::from(random.below(3)),
                    ..draft(nonce, Address::repeat_byte(random.below(4) as u8))
                },
                _ => addition(nonce, contract, random.below(4) as u8, random.below(3) as u8, random.below(3) as u8),
            };
            transaction.max_priority_fee_per_gas = random.below(5).into();
            match random.below(12) {
                0 => transaction.nonce += 1,
                1 => transaction.nonce = 0,
                2 => transaction.max_fee_per_gas = 9,
                3 => transaction.chain_id = 8,
                4 => transaction.gas_limit = 20_990 + random.below(3) * 10_000,
                5 => transaction.value = U256::MAX,
                6 => {
                    block.push(Bytes::from(vec![2, random.below(256) as u8, 7]));
                    continue;
                }
                7 => {
                    transaction = TxEip1559 { input: vec![0x60, 0x80].into(), ..draft(nonce, TxKind::Create) };
                    nonces[who] += 1;
                }
                _ => nonces[who] += 1,
            }
            block.push(key(who as u8).sign(transaction));
        }
        blocks.push(block);
    }
    blocks
}

/// Runs a workload on a fresh node and returns one hash over all results.
pub fn digest(seed: u64) -> B256 {
    let mut node = Node::new();
    let mut bytes = Vec::new();
    for block in workload(seed) {
        let (output, root) = node.append(&block);
        let results = (&output.receipts, &output.skipped, &output.changes, output.gas_used);
        bytes.extend(borsh::to_vec(&results).unwrap());
        bytes.extend([root, output.transactions_root, output.receipts_root].concat());
        bytes.extend(output.logs_bloom.as_slice());
    }
    alloy_primitives::keccak256(bytes)
}

pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }
}
