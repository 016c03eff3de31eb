//! Wallets' transactions over shards: payments, a token, and an exchange with its tokens on other shards. The exported ledger is
//! executed again, one transaction after the other, and must give the same state.

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use alloy_sol_types::{SolCall, SolValue, sol};
use corniche_basil::MAX_CONSTANTS;
use corniche_basil::client::Client;
use corniche_basil::config::Config;
use corniche_basil::message::{Message, Peer};
use corniche_basil::shards::{ClientId, Key, ReplicaId, ShardId};
use corniche_basil::transaction::{Read, Transaction, Value, Version};
use corniche_basil_contracts::gateway::{GatewayError, Output};
use corniche_basil_contracts::{Chain, Gateway, chain, keys};
use corniche_basil_testing::doubles::{LIES, Liar};
use corniche_basil_testing::{Secret, World, checker, client_id};
use corniche_crypto::EthereumKey;
use corniche_state::{Changes, EmptyState, Overlay};
use corniche_types::{Account, ProtocolRules, Receipt, SkipReason, TimestampMs};
use corniche_vm::{NoCache, Vm, VmConfig};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHAIN_ID: u64 = 7;
const BASE_FEE: u64 = 10;
const WALLETS: u8 = 8;

sol! {
    function transfer(address to, uint256 value) external returns (bool);
    function approve(address spender, uint256 value) external returns (bool);
    function balanceOf(address account) external returns (uint256);
    function join(address pool, uint256 first, uint256 second, uint256 minimumShares, address to, uint256 deadline) external;
    function swap(address tokenIn, uint256 amountIn, address[] pools, uint256 minimumOut, address to, uint256 deadline) external;
}

#[allow(clippy::disallowed_methods)] // tests are configured by their environment
fn module(name: &str) -> Vec<u8> {
    let modules = std::env::var_os("CONTRACTS_WASM_DIR").map(PathBuf::from).unwrap_or_else(|| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/contracts/wasm32-unknown-unknown/release")
    });
    let path = modules.join(name).with_extension("wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `make contracts`", path.display()))
}

fn wallet(number: u8) -> EthereumKey {
    EthereumKey::from_bytes(&[number + 1; 32]).unwrap()
}

fn rules() -> Chain {
    let config = VmConfig { executors: 1, callers: 1, ..VmConfig::default() };
    Chain {
        vm: Vm::new(&config, Arc::new(NoCache)).unwrap(),
        rules: &ProtocolRules::V5,
        chain_id: CHAIN_ID,
        genesis_ms: corniche_basil_testing::START - 1_000,
        block_ms: 1_000,
        gas_limit: 60_000_000,
        base_fee: BASE_FEE,
    }
}

fn funded() -> Changes {
    let balance = U256::from(10).pow(U256::from(18));
    let account = |number| (wallet(number).address(), Some(Account { balance, ..Account::default() }));
    Changes { accounts: (0..WALLETS).map(account).collect(), ..Changes::default() }
}

/// Shards, and two gateways.
struct Network {
    world: World,
    chain: Chain,
    gateways: BTreeMap<ClientId, Gateway>,
    committed: BTreeMap<B256, Receipt>,
    dropped: BTreeMap<B256, GatewayError>,
    nonces: BTreeMap<u8, u64>,
}

impl Network {
    fn new(shards: u16, seed: u64) -> Self {
        let chain = rules();
        let config = Config { close_ms: 1_000, close_after_ms: 2_000, reply_batch: 4, reply_delay_ms: 1, ..Config::default() };
        let genesis = chain::genesis(&funded());
        let mut world = World::with_program(shards, 0, config.clone(), seed, Arc::new(chain.clone()), genesis);
        world.delay = Box::new(|random, _, _, _| Some(1 + random.below(5)));
        let gateway = |number: u8| {
            let id = client_id(number);
            let client = Client::new(config.clone(), Arc::clone(&world.shards), id, Arc::new(Secret(id)), 0);
            (id, Gateway::new(chain.clone(), client, seed + u64::from(number)))
        };
        let gateways = [1, 2].map(gateway).into();
        let (committed, dropped, nonces) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { world, chain, gateways, committed, dropped, nonces }
    }

    fn now(&self) -> TimestampMs {
        TimestampMs(self.world.now)
    }

    fn submit(&mut self, gateway: u8, raw: Bytes) -> B256 {
        let now = self.now();
        let transaction = self.chain.decode(&raw).unwrap();
        let hash = self.gateways.get_mut(&client_id(gateway)).unwrap().submit(now, transaction).unwrap();
        self.drain();
        hash
    }

    /// Signs the wallet's next transaction, and gives it to a gateway.
    fn send(&mut self, gateway: u8, from: u8, to: TxKind, value: u64, input: Vec<u8>) -> B256 {
        let raw = self.sign(from, to, value, input);
        self.submit(gateway, raw)
    }

    fn sign(&mut self, from: u8, to: TxKind, value: u64, input: Vec<u8>) -> Bytes {
        let nonce = self.nonces.entry(from).or_default();
        *nonce += 1;
        wallet(from).sign(TxEip1559 {
            chain_id: CHAIN_ID,
            nonce: *nonce - 1,
            gas_limit: 20_000_000,
            max_fee_per_gas: 20,
            max_priority_fee_per_gas: 1,
            to,
            value: U256::from(value),
            access_list: Default::default(),
            input: input.into(),
        })
    }

    fn drain(&mut self) {
        loop {
            let mut outputs = Vec::new();
            for (id, gateway) in &mut self.gateways {
                while let Some(output) = gateway.poll() {
                    outputs.push((*id, output));
                }
            }
            if outputs.is_empty() {
                return;
            }
            for (id, output) in outputs {
                match output {
                    Output::Send { to, message } => self.world.post(Peer::Client(id), to, message),
                    Output::Committed { hash, receipt, decided, .. } => {
                        self.world.decided.push(decided);
                        assert!(self.committed.insert(hash, *receipt).is_none(), "{hash} is committed twice");
                    }
                    Output::Dropped { hash, error } => _ = self.dropped.insert(hash, error),
                    Output::Late { .. } | Output::Recovered(_) | Output::Certified { .. } | Output::Exported { .. } => {}
                }
            }
        }
    }

    /// Runs until a condition holds.
    fn run_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let end = self.world.now + 600_000;
        while !holds(self) {
            assert!(self.world.now < end, "no progress in ten minutes: {:?}", self.dropped);
            let deadlines = self.gateways.values().filter_map(Gateway::deadline).map(|deadline| deadline.0);
            let next = deadlines.min().unwrap_or(end).clamp(self.world.now, end);
            if !self.world.step(next) {
                self.world.now = next;
            }
            let now = self.now();
            for (id, message) in std::mem::take(&mut self.world.mail) {
                if let Some(gateway) = self.gateways.get_mut(&id) {
                    gateway.handle(now, message);
                }
            }
            for gateway in self.gateways.values_mut() {
                if gateway.deadline().is_some_and(|deadline| deadline <= now) {
                    gateway.tick(now);
                }
            }
            self.drain();
        }
    }

    fn wait(&mut self, hash: B256) -> Receipt {
        self.run_until(|network| network.committed.contains_key(&hash) || network.dropped.contains_key(&hash));
        self.committed.get(&hash).unwrap_or_else(|| panic!("dropped: {:?}", self.dropped[&hash])).clone()
    }

    fn deploy(&mut self, from: u8, name: &str, arguments: &[u8]) -> Address {
        let data = corniche_harness::creation::with_arguments(&module(name), arguments).unwrap();
        let hash = self.send(1, from, TxKind::Create, 0, data);
        let receipt = self.wait(hash);
        assert!(receipt.success, "{name}: {receipt:?}");
        receipt.contract_address.unwrap()
    }

    /// Executes everything that was committed in its order, one after the other. Compares receipts, and the values on all replicas'
    /// shards. Returns them.
    fn check(&mut self) -> BTreeMap<Key, Value> {
        let genesis = chain::genesis(&funded());
        let history = checker::check_from(&self.world.shards, &self.world.decided, &genesis, &self.chain).unwrap();
        let by_id: BTreeMap<_, _> =
            self.world.decided.iter().map(|one| (one.transaction.id(&self.world.shards), one)).collect();
        let mut changes = funded();
        for (timestamp, id) in &history.order {
            let raw = by_id[id].transaction.call.clone();
            let transaction = self.chain.decode(&raw).unwrap();
            let view = Overlay { base: &EmptyState, changes: &changes };
            let executed = self.chain.vm.transact(&view, &self.chain.block(*timestamp), &transaction, Address::ZERO).unwrap();
            let mut additions = executed.additions;
            additions.balances.remove(&Address::ZERO);
            let added = additions.resolve(&view);
            if let Some(receipt) = self.committed.get(&chain::hash(&raw)) {
                assert_eq!(*receipt, executed.receipt);
            }
            changes.merge(executed.changes);
            changes.merge(added);
        }
        let mut expected = chain::genesis(&changes);
        // Values of replicas: the newest writes of the history.
        let mut values = genesis;
        for (_, id) in &history.order {
            values.extend(by_id[id].transaction.writes.iter().map(|write| (write.key.clone(), write.value.clone())));
        }
        values.retain(|_, value| value.is_some());
        expected.retain(|_, value| value.is_some());
        assert_eq!(values, expected);
        values
    }

    fn token_balance(&mut self, values: &BTreeMap<Key, Value>, token: Address, slot: u8, owner: Address) -> U256 {
        let slot = alloy_primitives::keccak256([owner.into_word(), B256::with_last_byte(slot)].concat());
        U256::from_be_bytes(keys::slot(values.get(&keys::slot_key(token, &slot)).unwrap_or(&None)).0)
    }
}

#[test]
fn payments_across_shards_keep_the_sum() {
    for seed in 1..4 {
        let mut network = Network::new(3, seed);
        for round in 0..4u8 {
            for from in 0..WALLETS {
                let to = TxKind::Call(wallet((from + round + 1) % WALLETS).address());
                network.send(1 + from % 2, from, to, 1_000 + u64::from(round), vec![]);
            }
        }
        let total = 4 * usize::from(WALLETS);
        network.run_until(|network| network.committed.len() + network.dropped.len() == total);
        assert!(network.dropped.is_empty(), "{:?}", network.dropped);
        let values = network.check();
        let accounts = (0..WALLETS).map(|number| chain::account(&values, &wallet(number).address()).unwrap());
        let sum: U256 = accounts.inspect(|account| assert_eq!(account.nonce, 4)).map(|account| account.balance).sum();
        let paid = U256::from(total as u64 * 21_000 * (BASE_FEE + 1));
        assert_eq!(sum, U256::from(10).pow(U256::from(18)) * U256::from(WALLETS) - paid, "seed {seed}");
    }
}

#[test]
fn a_token_is_deployed_and_paid_with() {
    let mut network = Network::new(2, 5);
    let supply = U256::from(1_000_000);
    let token = network.deploy(0, "erc20", &("Gold", "GLD", supply).abi_encode_params());
    let pay = |to: u8, value: u64| transferCall { to: wallet(to).address(), value: U256::from(value) }.abi_encode();
    for to in 1..WALLETS {
        let hash = network.send(1 + to % 2, 0, TxKind::Call(token), 0, pay(to, 1_000));
        assert_eq!(network.wait(hash).logs.len(), 1);
    }
    // Everybody pays everybody at once.
    let mut sent = Vec::new();
    for from in 1..WALLETS {
        for to in 1..WALLETS {
            sent.push(network.send(1 + from % 2, from, TxKind::Call(token), 0, pay(to, 7)));
        }
    }
    for hash in sent {
        assert!(network.wait(hash).success);
    }
    let values = network.check();
    let balances: Vec<_> =
        (0..WALLETS).map(|owner| network.token_balance(&values, token, 4, wallet(owner).address())).collect();
    assert_eq!(balances.iter().sum::<U256>(), supply);
    assert!(balances[1..].iter().all(|balance| *balance == U256::from(1_000)), "{balances:?}");
    // Only the deployment contains code. Each replica of the other shard asked two of those that have it, once.
    let creates = |transaction: &Transaction| transaction.writes.iter().any(|write| keys::code_hash(&write.key).is_some());
    for decided in &network.world.decided {
        let transaction = &decided.transaction.transaction;
        assert_eq!(borsh::object_length(transaction).unwrap() > 8_000, creates(transaction));
        assert!(transaction.reads.iter().all(|read| keys::code_hash(&read.key).is_none()));
    }
    assert_eq!(network.world.sent["ask-constant"], 6 * 2);
}

/// A token whose code is on another shard, and nobody but one replica of that shard tells it.
#[test]
fn one_replica_with_the_code_is_enough() {
    let mut network = Network::new(2, 5);
    let token = network.deploy(0, "erc20", &("Gold", "GLD", U256::from(1_000)).abi_encode_params());
    network.world.delay = Box::new(|random, from, _, message| {
        let is_withheld =
            matches!(message, Message::Constant { .. }) && !matches!(from, Peer::Replica(ReplicaId { member: 4, .. }));
        (!is_withheld).then(|| 1 + random.below(5))
    });
    let pay = transferCall { to: wallet(1).address(), value: U256::from(10) }.abi_encode();
    let hash = network.send(1, 0, TxKind::Call(token), 0, pay);
    assert!(network.wait(hash).success);
    assert!(network.world.sent["ask-constant"] > 6 * 2, "those that were asked first do not answer");
    network.check();
}

/// The pool and its tokens are on different shards. A trade changes all of them, or none.
#[test]
fn an_exchange_trades_across_shards() {
    let mut network = Network::new(3, 9);
    let supply = U256::from(1_000_000_000u64);
    // Wallets deploy until both tokens and the pool are on three shards.
    let shard = |network: &Network, address: Address| network.world.shards.shard_of(&keys::balance_key(address));
    let gold = network.deploy(0, "erc20", &("Gold", "GLD", supply).abi_encode_params());
    let mut silver = network.deploy(0, "erc20", &("Silver", "SLV", supply).abi_encode_params());
    while shard(&network, silver) == shard(&network, gold) {
        silver = network.deploy(0, "erc20", &("Silver", "SLV", supply).abi_encode_params());
    }
    let taken = [shard(&network, gold), shard(&network, silver)];
    let mut pool = network.deploy(0, "pool", &(gold, silver).abi_encode_params());
    while taken.contains(&shard(&network, pool)) {
        pool = network.deploy(0, "pool", &(gold, silver).abi_encode_params());
    }
    let router = network.deploy(0, "router", &[]);
    let deadline = U256::from(u64::MAX);
    let owner = wallet(0).address();
    let amount = U256::from(100_000_000);
    for token in [gold, silver] {
        let approve = approveCall { spender: router, value: amount }.abi_encode();
        let hash = network.send(1, 0, TxKind::Call(token), 0, approve);
        assert!(network.wait(hash).success);
    }
    let (first, second) = (U256::from(1_000_000), U256::from(4_000_000));
    let join = joinCall { pool, first, second, minimumShares: U256::from(1), to: owner, deadline }.abi_encode();
    let hash = network.send(2, 0, TxKind::Call(router), 0, join);
    let receipt = network.wait(hash);
    assert!(receipt.success, "{receipt:?}");
    let trade = |minimum: u64| {
        let (amount, minimum) = (U256::from(1_000), U256::from(minimum));
        swapCall { tokenIn: gold, amountIn: amount, pools: vec![pool], minimumOut: minimum, to: owner, deadline }.abi_encode()
    };
    let sent: Vec<_> = (0..6u8).map(|number| network.send(1 + number % 2, 0, TxKind::Call(router), 0, trade(1))).collect();
    for hash in sent {
        assert!(network.wait(hash).success);
    }
    // More than the pool gives: everything is reverted, and the fee is paid.
    let hash = network.send(1, 0, TxKind::Call(router), 0, trade(1_000_000));
    assert!(!network.wait(hash).success);
    let values = network.check();
    let [gold_in, silver_in] = [gold, silver].map(|token| network.token_balance(&values, token, 4, pool));
    assert_eq!(gold_in, first + U256::from(6_000));
    assert!(silver_in < second && gold_in * silver_in >= first * second, "the product does not fall: {gold_in} {silver_in}");
}

#[test]
fn liars_in_every_shard_change_no_result() {
    for (seed, lie) in (20..).zip(LIES) {
        let mut network = Network::new(2, seed);
        for shard in [ShardId(0), ShardId(1)] {
            let replica = ReplicaId { shard, member: (seed % 6) as u16 };
            network.world.replicas.get_mut(&replica).unwrap().liar = Some(Liar::new(lie));
        }
        for from in 0..WALLETS {
            let to = TxKind::Call(wallet((from + 1) % WALLETS).address());
            network.send(1 + from % 2, from, to, 5, vec![]);
        }
        network.run_until(|network| network.committed.len() == usize::from(WALLETS));
        network.check();
    }
}

#[test]
fn a_gateway_finishes_what_another_one_started() {
    for steps in [1, 10, 25, 40] {
        let mut network = Network::new(2, 30 + steps);
        let raw = network.sign(0, TxKind::Call(wallet(1).address()), 5, vec![]);
        let hash = network.submit(1, raw.clone());
        // The first gateway stops after a few events, some of them after its ST1.
        for _ in 0..steps {
            let until = network.world.now + 10_000;
            network.world.step(until);
            let now = network.now();
            for (id, message) in std::mem::take(&mut network.world.mail) {
                network.gateways.get_mut(&id).unwrap().handle(now, message);
            }
            network.drain();
        }
        network.gateways.remove(&client_id(1));
        if !network.committed.contains_key(&hash) {
            network.submit(2, raw);
            assert!(network.wait(hash).success, "after {steps}");
        }
        // Another transaction with this nonce is refused.
        network.nonces.insert(0, 0);
        let other = network.send(2, 0, TxKind::Call(wallet(2).address()), 5, vec![]);
        network.run_until(|network| network.dropped.contains_key(&other));
        assert_eq!(network.dropped[&other], GatewayError::Invalid(SkipReason::NonceTooLow));
        network.check();
    }
}

/// A lying gateway: its writes are not those of the wallet's transaction.
#[test]
fn replicas_execute_the_call_again() {
    use corniche_basil::Program;
    let chain = rules();
    let values = chain::genesis(&funded());
    let mut network = Network::new(1, 1);
    let raw = network.sign(0, TxKind::Call(wallet(1).address()), 5, vec![]);
    let hash = network.submit(1, raw);
    network.wait(hash);
    let honest = network.world.decided[0].transaction.transaction.clone();
    let codes = BTreeMap::new();
    let error = |transaction: &Transaction| chain.check(transaction, &codes).unwrap_err();
    assert_eq!(chain.check(&honest, &codes), Ok(()));
    let mut richer = honest.clone();
    let balance = keys::balance_key(wallet(0).address());
    let position = richer.writes.iter().position(|write| write.key == balance).unwrap();
    richer.writes[position].value = values[&balance].clone();
    assert!(error(&richer).contains("expected those of the call"));
    let mut fewer = honest.clone();
    fewer.reads.pop();
    assert!(error(&fewer).contains("reads"));
    let mut more = honest.clone();
    more.reads.push(Read { key: keys::balance_key(Address::repeat_byte(0xff)), version: Version::GENESIS, value: None });
    more.reads.sort_by(|a, b| a.key.cmp(&b.key));
    assert!(error(&more).contains("only those"));
    let mut other = honest;
    other.call = Bytes::from_static(b"no transaction");
    assert!(chain.check(&other, &codes).is_err());
    let contract = |number: usize| Account { code_hash: B256::left_padding_from(&number.to_be_bytes()), ..Account::default() };
    let account = |number: usize| (Address::left_padding_from(&number.to_be_bytes()), Some(contract(number)));
    let accounts = |count: usize| Changes { accounts: (1..=count).map(account).collect(), ..Changes::default() };
    for (count, expected) in [(MAX_CONSTANTS, "expected it to be known"), (MAX_CONSTANTS + 1, "at most 64 contracts")] {
        let read = |(key, value)| Read { key, version: Version::GENESIS, value };
        let many = Transaction { reads: chain::genesis(&accounts(count)).into_iter().map(read).collect(), ..more.clone() };
        assert_eq!(chain.constants(&many).len(), count);
        assert!(error(&many).contains(expected), "{}", error(&many));
    }
}
