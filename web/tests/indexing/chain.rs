//! Generates chains from a seed: blocks in the node's response format, together with their intended meaning. The
//! meaning is never derived from the blocks, so a model of it can check the indexer.

use super::{
    blocks::{self, Call, Head, block, hash, transaction},
    random::Random,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_api::Certificate;
use corniche_web::{
    indexer::events::{self, Standard, TokenEvent},
    node::{Log, WholeBlock},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Number of validators of every chain here.
pub const VALIDATORS: u64 = 4;

const PEOPLE: u64 = 24;
const TOKENS: u64 = 8;
const HOUR_MS: u64 = 3_600_000;

/// A block and its intended meaning.
#[derive(Clone)]
pub struct Made {
    /// The block in the node's response format.
    pub whole: WholeBlock,
    /// Token events of its logs, each with the position of the transaction.
    pub token_events: Vec<(u64, TokenEvent)>,
    /// Response to `debug_traceBlockByNumber`.
    pub traces: Value,
}

/// A chain.
#[derive(Clone)]
pub struct Chain {
    /// Blocks from block 0 on.
    pub blocks: Vec<Made>,
    /// Certificates by height. The newest block has one.
    pub certificates: BTreeMap<u64, Certificate>,
}

impl Chain {
    /// Generates a chain of this length.
    pub fn new(seed: u64, blocks: u64) -> Self {
        let mut chain = Self { blocks: Vec::new(), certificates: BTreeMap::new() };
        chain.grow(seed, blocks);
        chain
    }

    /// Returns another chain with the same first `keep` blocks.
    pub fn fork(&self, keep: usize, seed: u64, blocks: u64) -> Self {
        let mut chain = Self { blocks: self.blocks[..keep].to_vec(), certificates: self.certificates.clone() };
        chain.certificates.split_off(&(keep as u64));
        chain.grow(seed, blocks);
        chain
    }

    fn grow(&mut self, seed: u64, blocks: u64) {
        let mut random = Random::new(seed);
        while (self.blocks.len() as u64) < blocks {
            let number = self.blocks.len() as u64;
            let (parent, before) = match self.blocks.last() {
                Some(made) => (made.whole.block.hash, made.whole.ordering.as_ref().map_or(0, |ordering| ordering.timestamp_ms)),
                None => (B256::ZERO, 0),
            };
            let step = if random.percent(10) { random.below(30 * HOUR_MS) } else { random.below(60_000) };
            let time_ms = if number == 0 { 0 } else { before.max(1_700_000_000_000) + step };
            let mut maker = Maker { random: &mut random, number, token_events: Vec::new(), traces: Vec::new() };
            let made = maker.make(hash(&[seed, number]), parent, time_ms);
            if number > 0 && (random.percent(50) || number + 1 == blocks) {
                self.certificates.insert(number, certificate(&made.whole, &mut random));
            }
            self.blocks.push(made);
        }
    }
}

fn certificate(whole: &WholeBlock, random: &mut Random) -> Certificate {
    Certificate {
        epoch: 0,
        committee_hash: B256::ZERO,
        block_number: whole.block.number.to(),
        block_hash: whole.block.hash,
        fault_model: "byzantine".into(),
        signers: Bytes::from(vec![random.below(1 << VALIDATORS) as u8]),
        signature: Bytes::from(vec![7; 48]),
    }
}

/// Returns the address of an account.
pub fn person(at: u64) -> Address {
    Address::from_word(hash(&[1, at]))
}

/// Returns the address of a token. Its number determines the standard; two tokens emit inconsistent events.
pub fn token(at: u64) -> Address {
    Address::from_word(hash(&[2, at]))
}

/// Generates one block.
struct Maker<'a> {
    random: &'a mut Random,
    number: u64,
    token_events: Vec<(u64, TokenEvent)>,
    traces: Vec<Value>,
}

impl Maker<'_> {
    fn make(&mut self, own: B256, parent: B256, time_ms: u64) -> Made {
        let count = if self.number == 0 { 0 } else { self.random.below(8) };
        let transactions = (0..count).map(|position| self.transaction(own, position)).collect();
        let skipped: Vec<u64> = (0..count).filter(|_| self.random.percent(15)).collect();
        let mut left = count + skipped.len() as u64;
        let mut batches = Vec::new();
        while left > 0 {
            let some = 1 + self.random.below(left);
            batches.push((self.random.below(VALIDATORS), some));
            left -= some;
        }
        let leader = self.random.below(VALIDATORS);
        let head = Head { number: self.number, hash: own, parent, time_ms, leader, batches, skipped };
        let whole = block(&head, transactions);
        Made {
            whole,
            token_events: std::mem::take(&mut self.token_events),
            traces: Value::Array(std::mem::take(&mut self.traces)),
        }
    }

    fn transaction(&mut self, own: B256, position: u64) -> (corniche_web::node::Transaction, corniche_web::node::Receipt) {
        let name = hash(&[own.as_slice()[0].into(), self.number, position, self.random.next()]);
        let from = person(self.random.below(PEOPLE));
        let mut call = Call {
            from,
            to: Some(person(self.random.below(PEOPLE))),
            nonce: self.number,
            input: Bytes::new(),
            gas_used: 21_000,
            succeeded: true,
            created: None,
            logs: Vec::new(),
        };
        match self.random.below(10) {
            0 => {}
            1 => {
                call.to = None;
                call.succeeded = self.random.percent(70);
                // The receipt of a failed creation contains the address as well.
                call.created = Some(Address::from_word(name));
                (call.gas_used, call.input) = (90_000, Bytes::from_static(b"\0asm"));
            }
            2 => {
                (call.succeeded, call.gas_used) = (false, 40_000);
                (call.to, call.input) = (Some(token(0)), Bytes::from_static(&[1, 2, 3, 4]));
            }
            _ => {
                let token = token(self.random.below(TOKENS));
                (call.to, call.gas_used) = (Some(token), 60_000 + self.random.below(1_000));
                call.input = Bytes::from_static(&[0xa9, 0x05, 0x9c, 0xbb, 0]);
                for _ in 0..1 + self.random.below(3) {
                    let log = self.log(position);
                    call.logs.push(log);
                }
            }
        }
        let mut frame = self.frame(from, call.to, 3);
        if !call.succeeded {
            (frame["error"], frame["output"]) = (json!("execution reverted"), json!("0x01020304"));
            frame["revertReason"] = if self.random.percent(50) { json!("no") } else { Value::Null };
        }
        self.traces.push(json!({"txHash": name, "result": frame}));
        transaction(name, call)
    }

    /// Generates a log and its meaning.
    fn log(&mut self, position: u64) -> Log {
        if self.random.percent(8) {
            return self.odd();
        }
        let at = self.random.below(TOKENS);
        let token = token(at);
        // The last two tokens emit inconsistent events.
        let liar = at >= TOKENS - 2;
        let standard = match (liar, at % 3) {
            (true, _) => self.random.pick(&[Standard::Erc20, Standard::Erc721, Standard::Erc1155]),
            (_, 0) => Standard::Erc20,
            (_, 1) => Standard::Erc721,
            _ => Standard::Erc1155,
        };
        let moved = match self.random.percent(20) {
            true => vec![self.approval(token, standard)],
            false => self.transfer(token, standard, liar),
        };
        let log = blocks::log(&moved);
        self.token_events.extend(moved.into_iter().map(|moved| (position, moved)));
        log
    }

    fn side(&mut self) -> Address {
        if self.random.percent(25) { Address::ZERO } else { person(self.random.below(PEOPLE)) }
    }

    fn transfer(&mut self, token: Address, standard: Standard, liar: bool) -> Vec<TokenEvent> {
        let (from, to) = (self.side(), self.side());
        let mut one = |id: Option<U256>| {
            let amount = match standard {
                Standard::Erc721 => U256::ONE,
                _ if liar => self.random.pick(&[U256::MAX, U256::ZERO, U256::ONE, U256::MAX - U256::ONE]),
                _ => U256::from(self.random.below(50)),
            };
            TokenEvent::Transfer { token, standard, from, to, id, amount }
        };
        match standard {
            Standard::Erc20 => vec![one(None)],
            Standard::Erc721 => vec![one(Some(U256::from(3)))],
            Standard::Erc1155 => {
                let ids = [U256::ZERO, U256::from(7), U256::MAX];
                (0..items(from, to)).map(|at| one(Some(ids[at % ids.len()]))).collect()
            }
        }
    }

    fn approval(&mut self, token: Address, standard: Standard) -> TokenEvent {
        let owner = person(self.random.below(PEOPLE));
        let spender = self.side();
        match standard {
            Standard::Erc721 if self.random.percent(70) => {
                let amount = U256::from(u8::from(!spender.is_zero()));
                TokenEvent::Approval { token, owner, spender, id: Some(U256::from(3)), amount }
            }
            _ => TokenEvent::Approval { token, owner, spender, id: None, amount: U256::from(self.random.below(3)) },
        }
    }

    /// Generates a log that resembles a token event but is none.
    fn odd(&mut self) -> Log {
        let (first, second) = (person(1).into_word(), person(2).into_word());
        let transfers = [events::TRANSFER, events::TRANSFER_SINGLE, events::TRANSFER_BATCH, events::APPROVAL];
        let topics = match self.random.below(3) {
            0 => vec![],
            1 => vec![self.random.pick(&transfers), first],
            _ => vec![self.random.pick(&transfers), first, second],
        };
        let bytes = self.random.pick(&[0, 31, 33, 96, 640]);
        let data = (0..bytes).map(|_| self.random.next() as u8).collect::<Vec<_>>();
        Log { address: token(self.random.below(TOKENS)), topics, data: Bytes::from(data) }
    }

    fn frame(&mut self, from: Address, to: Option<Address>, deepest: u64) -> Value {
        let to = to.unwrap_or_else(|| person(0));
        let count = if deepest == 0 { 0 } else { self.random.below(3) };
        let calls: Vec<_> = (0..count)
            .map(|_| {
                let callee = token(self.random.below(TOKENS));
                self.frame(to, Some(callee), deepest - 1)
            })
            .collect();
        let kind = self.random.pick(&["CALL", "DELEGATECALL", "CREATE2", "<script>"]);
        json!({
            "type": kind, "from": from, "to": to, "value": "0x0", "gas": "0xffff", "gasUsed": "0x10", "input": "0xa9059cbb00",
            "output": "0x", "calls": calls,
        })
    }
}

/// Returns one or three.
fn items(from: Address, to: Address) -> usize {
    if (from.as_slice()[0] ^ to.as_slice()[0]) & 1 == 0 { 3 } else { 1 }
}
