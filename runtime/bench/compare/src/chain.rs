//! State in memory and blocks of transfers on it, as in `corniche bench exec --workload native`: sender and
//! recipient uniform among 50,000 accounts, four authors.

use alloy_consensus::TxEip1559;
use alloy_primitives::TxKind;
use corniche_crypto::EthereumKey;
use corniche_executor::{BlockOutput, Candidate, verify_ordered};
use corniche_state::{Account, Changes, Snapshot, State};
use corniche_types::{Address, B256, Height, U256, ValidatorIndex, keccak256};
use corniche_vm::{BlockEnv, NoCache, Vm, VmConfig};
use std::sync::Arc;

const ACCOUNTS: u64 = 50_000;
const CHAIN_ID: u64 = 1;
const BASE_FEE: u64 = 1_000_000_000;

pub struct Chain {
    pub vm: Vm,
    state: State,
    keys: Vec<EthereumKey>,
    nonces: Vec<u64>,
    random: u64,
    /// Block to execute, and the state that it runs on.
    pub view: Snapshot,
    pub env: BlockEnv,
    pub candidates: Vec<Candidate>,
    /// Its transfers, as numbers of accounts.
    pub transfers: Vec<(usize, usize)>,
}

impl Chain {
    pub fn new() -> Self {
        let key = |index: u64| EthereumKey::from_bytes(&keccak256(index.to_be_bytes()).0).expect("almost every word is a key");
        let keys: Vec<_> = (0..ACCOUNTS).map(key).collect();
        let rich = Account { balance: U256::from(u128::MAX >> 16), ..Account::default() };
        let accounts = keys.iter().map(|key| (key.address(), Some(rich.clone()))).collect();
        let state = State::default();
        state.apply(Height(0), &Changes { accounts, ..Changes::default() });
        let env = BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: CHAIN_ID,
            number: 0,
            timestamp: 1_800_000_000,
            base_fee: BASE_FEE,
            coinbase: Address::repeat_byte(0xf0),
            gas_limit: u64::MAX,
            randomness: B256::ZERO,
        };
        let vm = Vm::new(&VmConfig::default(), Arc::new(NoCache)).expect("the virtual machine starts");
        let (nonces, view) = (vec![0; keys.len()], state.latest());
        Self { vm, state, keys, nonces, random: 1, view, env, candidates: Vec::new(), transfers: Vec::new() }
    }

    pub fn fee_addresses(&self) -> [Address; 4] {
        [0xf0, 0xf1, 0xf2, 0xf3].map(Address::repeat_byte)
    }

    fn draw(&mut self) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % ACCOUNTS) as usize
    }

    /// Signs the next block's transfers and verifies their signatures.
    pub fn next_block(&mut self, transactions: usize) {
        self.view = self.state.latest();
        self.env.number += 1;
        self.transfers = (0..transactions)
            .map(|_| {
                let from = self.draw();
                let to = std::iter::repeat_with(|| self.draw()).find(|to| *to != from);
                (from, to.expect("there are others"))
            })
            .collect();
        self.candidates.clear();
        for (position, &(from, to)) in self.transfers.iter().enumerate() {
            let raw = self.keys[from].sign(TxEip1559 {
                chain_id: CHAIN_ID,
                nonce: self.nonces[from],
                gas_limit: 21_000,
                max_fee_per_gas: u128::from(BASE_FEE) * 2,
                max_priority_fee_per_gas: 1_000,
                to: TxKind::Call(self.keys[to].address()),
                value: U256::from(1),
                ..TxEip1559::default()
            });
            self.nonces[from] += 1;
            let author = ValidatorIndex((position % 4) as u16);
            self.candidates.push(Candidate { author, verified: verify_ordered(&raw, CHAIN_ID), raw });
        }
    }

    pub fn append(&mut self, output: &BlockOutput) {
        let height = Height(self.env.number);
        self.state.apply(height, &output.changes);
        self.state.prune_below(height);
    }
}
