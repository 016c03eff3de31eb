//! Open-loop clients: each validator has its own, and together they submit at a fixed rate.
//!
//! A client signs real transactions with keys derived from the seed. It uses many senders, so that nonces hardly ever
//! make one transaction wait for another. It submits to its validator; if that is down, which a client notices at once,
//! to the next one that is up. A transaction that was accepted, or rejected for now, and is not committed there after
//! `patience` goes to the next one as well (M18 of the specification); it is still executed only once.

use crate::{
    genesis::CHAIN_ID,
    scenario::{self, Payload, Scenario},
};
use alloy_consensus::TxEip1559;
use corniche_crypto::{EthereumKey, VerifiedTransaction, digest};
use corniche_testkit::{Micros, Random};
use corniche_types::{Address, Bytes, Transaction, TxKind, U256};
use std::collections::VecDeque;

/// Minimum time between two transactions of one sender, if there are enough senders.
const SENDER_INTERVAL: Micros = Micros::from_seconds(4);
/// Maximum number of senders in a network: every node's state holds an account for each.
const MAX_SENDERS: u64 = 4_096;
/// Approximate size of one of our signed transactions without call data.
const BARE_BYTES: usize = 118;
/// Address of the contract that contract payloads call.
pub const CONTRACT: Address = Address::repeat_byte(0xc0);

/// An account that sends transactions.
pub struct Sender {
    key: EthereumKey,
    address: Address,
    nonce: u64,
}

impl Sender {
    fn new(seed: u64, number: u64) -> Self {
        let secret = (0u32..).map(|attempt| digest(format!("{seed} sender {number} {attempt}").as_bytes()));
        let key = secret.filter_map(|secret| EthereumKey::from_bytes(&secret.0).ok()).next();
        let key = key.expect("all but one in 2^128 hashes are keys");
        Self { address: key.address(), key, nonce: 0 }
    }

    pub fn address(&self) -> Address {
        self.address
    }
}

/// All clients of a network.
pub struct Clients {
    load: scenario::Load,
    nodes: u64,
    /// Senders of the first node are 0, n, 2n, …, those of the next one 1, n + 1, and so on.
    pub senders: Vec<Sender>,
    random: Random,
    next: u64,
    /// Time of the next submission; drawn for each transaction.
    next_at: Micros,
    /// Submitted transactions, and the time of the next check of each.
    waiting: VecDeque<(Micros, u32)>,
}

/// The next step of a client.
pub enum Turn {
    /// Submits a new transaction to the node of this index.
    Submit(usize),
    /// Checks whether this transaction was committed.
    Check(u32),
}

impl Clients {
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let nodes = scenario.nodes as u64;
        let resting = scenario.load.millirate.saturating_mul(SENDER_INTERVAL.0) / 1_000_000_000;
        let each = resting.min(MAX_SENDERS).div_ceil(nodes).max(1);
        let mut clients = Self {
            load: scenario.load,
            nodes,
            senders: (0..each * nodes).map(|number| Sender::new(seed, number)).collect(),
            random: Random::new(seed).fork("load"),
            next: 0,
            next_at: Micros::NEVER,
            waiting: VecDeque::new(),
        };
        clients.draw();
        clients
    }

    /// Transaction i is submitted at a random time within its own interval, so that clients do not synchronise with
    /// rounds.
    fn draw(&mut self) {
        self.next_at = if self.next < self.load.count() {
            let (start, end) = (self.load.at_us(self.next), self.load.at_us(self.next + 1).min(self.load.stop_us));
            Micros::START + Micros(start + self.random.below((end - start).max(1)))
        } else {
            Micros::NEVER
        };
    }

    /// Index of the client that makes transaction `number`.
    pub fn client(&self, number: u64) -> usize {
        ((self.load.first_node as u64 + number) % self.nodes) as usize
    }

    /// Time of the next turn; [`Micros::NEVER`] if no turn is left.
    pub fn next_at(&self) -> Micros {
        self.waiting.front().map_or(Micros::NEVER, |(at, _)| *at).min(self.next_at)
    }

    /// Returns the turn that is due at `now`, if any.
    pub fn turn(&mut self, now: Micros) -> Option<Turn> {
        if let Some((_, number)) = self.waiting.pop_front_if(|(at, _)| *at <= now) {
            return Some(Turn::Check(number));
        }
        (self.next_at <= now).then(|| Turn::Submit(self.client(self.next)))
    }

    /// Makes the next transaction.
    pub fn make(&mut self) -> VerifiedTransaction {
        let index = (self.next % self.senders.len() as u64) as usize;
        self.next += 1;
        self.draw();
        let to = self.senders[(index + 1) % self.senders.len()].address;
        let sender = &mut self.senders[index];
        let nonce = sender.nonce;
        sender.nonce += 1;
        let (to, value, mut input) = match self.load.payload {
            Payload::None => (Address::repeat_byte(0xaa), 0, Vec::new()),
            Payload::Transfer => (to, 1, Vec::new()),
            // increment()
            Payload::Counter => (CONTRACT, 0, vec![0xd0, 0x9d, 0xe0, 0x8a]),
            Payload::Erc20 => (CONTRACT, 0, erc20_transfer(to)),
        };
        let size = (self.load.tx_bytes as usize).saturating_sub(BARE_BYTES).max(input.len());
        input.resize(size, 0);
        let gas_limit = 250_000 + 40 * size as u64;
        let raw = sender.key.sign(TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit,
            max_fee_per_gas: 10,
            max_priority_fee_per_gas: 1,
            to: TxKind::Call(to),
            value: U256::from(value),
            input: Bytes::from(input).0.into(),
            ..TxEip1559::default()
        });
        let transaction = Transaction::decode(raw).expect("signed here");
        VerifiedTransaction::verify(transaction, CHAIN_ID).expect("signed here")
    }

    /// Schedules a check of transaction `number`, which was submitted now.
    pub fn wait_for(&mut self, now: Micros, number: u32) {
        self.waiting.push_back((now + Micros(self.load.patience_us), number));
    }
}

/// transfer(to, 1)
fn erc20_transfer(to: Address) -> Vec<u8> {
    let mut input = vec![0xa9, 0x05, 0x9c, 0xbb];
    input.extend_from_slice(to.into_word().as_slice());
    input.extend_from_slice(&U256::from(1).to_be_bytes::<32>());
    input
}
