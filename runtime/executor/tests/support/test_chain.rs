//! Runs a block in every way and compares each complete result with the serial one.

use super::program::{self, Op};
use super::threads::Threads;
use super::*;
use corniche_executor::{Candidate, Recorded, Run, Runs, Statistics, parallel, serial};
use corniche_state::Snapshot;
use corniche_types::certified;

pub const KEYS: u8 = 12;
/// An account whose code does not exist: calling it is a fault of the node.
pub const BROKEN: Address = Address::repeat_byte(0xbb);
/// Number of the first block.
const FIRST: u64 = 200;

/// Addresses of two copies of the program contract: the first two of the last key.
pub fn contracts() -> [Address; 2] {
    [0, 1].map(|nonce| key(KEYS).address().create(nonce))
}

/// A chain with funded keys and the deployed contracts, on which many blocks can be tried.
pub struct TestChain {
    pub vm: Vm,
    pub state: State,
    pub height: u64,
}

/// Number of cases of a random test, in total; `CORNICHE_BLOCKS` overrides it.
#[allow(clippy::disallowed_methods)] // tests are configured by their environment
pub fn cases(usual: u64) -> u64 {
    std::env::var("CORNICHE_BLOCKS").map_or(usual, |text| text.parse().expect("CORNICHE_BLOCKS is a number"))
}

impl TestChain {
    pub fn new() -> Self {
        let config = VmConfig { executors: 16, callers: 1, ..VmConfig::default() };
        let mut chain = Self::bare(Vm::new(&config, Arc::new(NoCache)).unwrap());
        let deployments: Vec<Bytes> = (0..2)
            .map(|nonce| {
                let draft = draft(nonce, TxKind::Create);
                let wei = U256::from(1_000);
                key(KEYS).sign(TxEip1559 { input: program::module(nonce as u8), gas_limit: 6_000_000, value: wei, ..draft })
            })
            .collect();
        let output = chain.serial(&candidates(&deployments));
        assert!(output.receipts.iter().all(|receipt| receipt.success), "{:?}", output.receipts);
        chain.append(&output.changes);
        chain
    }

    /// Creates the chain without the contracts.
    pub fn bare(vm: Vm) -> Self {
        let funded = |number: u8| {
            let account = Account { balance: U256::from(1_000_000_000_000_000u64), ..Account::default() };
            (key(number).address(), Some(account))
        };
        let mut genesis = Changes { accounts: (0..=KEYS).map(funded).collect(), ..Changes::default() };
        let broken =
            Account { nonce: 1, code_hash: B256::repeat_byte(0xbb), abi_version: 1, gas_version: 1, ..Account::default() };
        genesis.accounts.insert(BROKEN, Some(broken));
        // Hashes of the newest three certified headers; later slots are empty.
        let hash = |number: u64| ((certified::ADDRESS, certified::slot(number)), B256::repeat_byte(number as u8));
        genesis.storage = (FIRST - 67..FIRST - 64).map(hash).collect();
        let state = State::default();
        state.apply(Height(0), &genesis);
        Self { vm, state, height: 0 }
    }

    /// Returns the same chain on another machine.
    pub fn on(&self, vm: &Vm) -> Self {
        Self { vm: vm.clone(), state: self.state.clone(), height: self.height }
    }

    /// Returns the same chain on a node with another secret for its tables.
    #[must_use]
    pub fn with_secret(self, table_secret: u64) -> Self {
        let config = VmConfig { executors: 5, callers: 0, table_secret, ..VmConfig::default() };
        Self { vm: Vm::new(&config, Arc::new(NoCache)).unwrap(), ..self }
    }

    pub fn env(&self) -> BlockEnv {
        BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: CHAIN_ID,
            number: FIRST + self.height,
            timestamp: 1,
            base_fee: BASE_FEE,
            coinbase: Address::repeat_byte(0xc0),
            gas_limit: BLOCK_GAS,
            randomness: B256::with_last_byte(7),
        }
    }

    /// Fees of the second validator go to one of the senders, those of the third to a contract.
    pub fn fees(&self) -> [Address; 3] {
        [Address::repeat_byte(0xf0), key(1).address(), contracts()[0]]
    }

    pub fn snapshot(&self) -> Snapshot {
        self.state.latest()
    }

    pub fn append(&mut self, changes: &Changes) {
        self.height += 1;
        self.state.apply(Height(self.height), changes);
    }

    pub fn serial(&self, candidates: &[Candidate]) -> BlockOutput {
        serial::execute_block(&self.vm, &self.snapshot(), &self.env(), candidates, &self.fees())
    }

    pub fn threads(
        &self,
        candidates: &[Candidate],
        threads: usize,
        recorded: Vec<Option<Recorded>>,
    ) -> (BlockOutput, Statistics) {
        let (view, pool) = (self.snapshot(), Threads(threads));
        told(parallel::execute_block(&self.vm, &view, &self.env(), candidates, &self.fees(), &pool, recorded))
    }

    pub fn stepped(
        &self,
        candidates: &[Candidate],
        workers: usize,
        seed: u64,
        recorded: Vec<Option<Recorded>>,
    ) -> (BlockOutput, Statistics) {
        let (view, env, fees) = (self.snapshot(), self.env(), self.fees());
        told(parallel::execute_block_stepped(&self.vm, &view, &env, candidates, &fees, workers, seed, recorded))
    }

    /// Runs the block serially, stepped with every seed in `seeds` for several numbers of workers, and on real threads.
    /// Returns the sum of the statistics, so that tests can check that conflicts occurred.
    pub fn check(&self, candidates: &[Candidate], seeds: std::ops::Range<u64>) -> (BlockOutput, Statistics) {
        let expected = self.serial(candidates);
        let mut total = Statistics::default();
        for seed in seeds {
            for workers in [2, 3, 8] {
                let (output, statistics) = self.stepped(candidates, workers, seed, Vec::new());
                assert_same(&output, &expected, &format!("{workers} workers, seed {seed}"));
                total += statistics;
            }
        }
        for threads in [1, 2, 4, 8, 16] {
            let (output, statistics) = self.threads(candidates, threads, Vec::new());
            assert_same(&output, &expected, &format!("{threads} threads"));
            total += statistics;
        }
        (expected, total)
    }
}

/// Checks that the counters of the transactions add up to those of the block.
fn told((output, runs): (BlockOutput, Runs)) -> (BlockOutput, Statistics) {
    let Runs { threads, statistics, transactions } = runs;
    assert_eq!(transactions.len(), output.receipts.len(), "one for each receipt");
    assert!(transactions.iter().all(|run| usize::from(run.lane) < threads), "{transactions:?}");
    let sum = |of: fn(&Run) -> u64| transactions.iter().map(of).sum::<u64>();
    let (runs, again) = (sum(|run| run.runs.into()), sum(|run| run.runs.saturating_sub(1).into()));
    let adopted = sum(|run| u64::from(run.runs == 0));
    // Skipped transactions run too, and an adopted result may be invalidated.
    let skipped = output.skipped.len() as u64;
    assert!(runs <= statistics.executions && again <= statistics.re_executions, "{transactions:?}, {statistics:?}");
    assert!(adopted <= statistics.adopted, "{transactions:?}, {statistics:?}");
    assert!(skipped > 0 || runs == statistics.executions, "{transactions:?}, {statistics:?}");
    (output, statistics)
}

/// Compares complete outputs, and names the first difference.
pub fn assert_same(found: &BlockOutput, expected: &BlockOutput, how: &str) {
    assert_eq!(found.skipped, expected.skipped, "skipped: {how}");
    for (index, (found, expected)) in found.receipts.iter().zip(&expected.receipts).enumerate() {
        assert_eq!(found, expected, "receipt {index}: {how}");
    }
    for (key, value) in &expected.changes.storage {
        assert_eq!(found.changes.storage.get(key), Some(value), "storage {key:?}: {how}");
    }
    for (address, account) in &expected.changes.accounts {
        assert_eq!(found.changes.accounts.get(address), Some(account), "account {address}: {how}");
    }
    assert_eq!(found, expected, "{how}");
}

/// Returns a call of contract `which`.
pub fn call(nonce: u64, which: usize, ops: &[Op]) -> TxEip1559 {
    let both = contracts();
    TxEip1559 { input: program::input(both[which], both[1 - which], ops), gas_limit: 400_000, ..draft(nonce, both[which]) }
}

/// Returns calls of the first contract, each by the next key.
pub fn calls(programs: &[&[Op]]) -> Vec<Candidate> {
    let mut nonces = [0; KEYS as usize];
    let sign = |(index, ops): (usize, &&[Op])| {
        let who = index % KEYS as usize;
        nonces[who] += 1;
        key(who as u8).sign(call(nonces[who] - 1, 0, ops))
    };
    block(&programs.iter().enumerate().map(sign).collect::<Vec<_>>())
}

/// Returns the candidates with all fees going to an account that is used for nothing else.
pub fn by_one_author(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.iter_mut().for_each(|candidate| candidate.author = ValidatorIndex(0));
    candidates
}

/// Three authors take turns.
pub fn block(raws: &[Bytes]) -> Vec<Candidate> {
    let mut candidates = candidates(raws);
    for (position, candidate) in candidates.iter_mut().enumerate() {
        candidate.author = ValidatorIndex((position % 3) as u16);
    }
    candidates
}
