//! Random blocks of all kinds of transactions, on few keys so that they conflict.

use crate::support::program::Op;
use crate::support::test_chain::*;
use crate::support::*;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U256};

fn op(random: &mut Random, depth: u64) -> Op {
    match random.below(if depth == 0 { 26 } else { 24 }) {
        0..=4 => Op::Load(random.below(4) as u8),
        5..=9 => Op::Store(random.below(4) as u8),
        10..=11 => Op::Add(random.below(3) as u8),
        12 => Op::Set(random.below(3) as u8),
        13 => Op::SkipIfZero(random.below(3) as u8),
        14 => Op::LoadAt,
        15 => Op::StoreAt(random.below(3) as u8),
        16 => Op::Log,
        17 => Op::Balance,
        18 => Op::Send(random.below(3) as u8),
        19 if random.below(3) == 0 => Op::Trap,
        20 if random.below(2) == 0 => Op::Revert,
        19 => Op::Number,
        20 if random.below(2) == 0 => Op::Certified(random.below(4) as u8),
        20 => Op::CertifiedAt(132 + random.below(6) as u8),
        21 => Op::Count(random.below(4) as u8, 1 + random.below(3) as u8, 20),
        22 => Op::CountDown(random.below(4) as u8, 1 + random.below(3) as u8, 0),
        23 => Op::Precompile(random.below(11) as u8, random.below(2) as u8),
        _ => Op::Call((0..random.below(6)).map(|_| op(random, depth + 1)).collect()),
    }
}

fn transaction(random: &mut Random, nonce: u64) -> TxEip1559 {
    let precompile = Address::with_last_byte(random.below(11) as u8);
    let friends = [key(0).address(), key(1).address(), Address::repeat_byte(0xf0), contracts()[0], contracts()[1], precompile];
    match random.below(10) {
        0 => TxEip1559 { input: program::module(random.below(3) as u8), gas_limit: 3_000_000, ..draft(nonce, TxKind::Create) },
        1..=3 => TxEip1559 { value: U256::from(random.below(5)), ..draft(nonce, friends[random.below(6) as usize]) },
        _ => {
            let ops: Vec<Op> = (0..1 + random.below(8)).map(|_| op(random, 0)).collect();
            let mut call = call(nonce, random.below(2) as usize, &ops);
            call.value = U256::from(random.below(3));
            if random.below(8) == 0 {
                call.gas_limit = 40_000 + random.below(40_000);
            }
            call
        }
    }
}

pub fn random_block(random: &mut Random, length: u64, keys: u64) -> Vec<Bytes> {
    let mut nonces = [0u64; KEYS as usize];
    let mut raws = Vec::new();
    for _ in 0..length {
        let who = random.below(keys) as usize;
        let mut transaction = transaction(random, nonces[who]);
        transaction.max_priority_fee_per_gas = random.below(4).into();
        match random.below(16) {
            // Valid only if an earlier one was executed, or only if it was not.
            0 => transaction.nonce += 1,
            1 => transaction.max_fee_per_gas = 9,
            2 => transaction.value = U256::MAX,
            3 => {
                raws.push(Bytes::from(vec![2, random.below(256) as u8]));
                continue;
            }
            4 => {}
            _ => nonces[who] += 1,
        }
        raws.push(key(who as u8).sign(transaction));
    }
    raws
}

/// Random blocks: a thousand in CI, ten thousand in `make soak`. Each has its own number of workers and its own seed;
/// some run on threads.
#[test]
fn random_blocks_match_serial() {
    let chain = TestChain::new();
    for case in 0..cases(1_000) {
        let mut random = Random::new(case);
        let length = 2 + random.below(22);
        let keys = 1 + random.below(u64::from(KEYS));
        let candidates = block(&random_block(&mut random, length, keys));
        let expected = chain.serial(&candidates);
        let workers = [1, 2, 3, 4, 8, 16][random.below(6) as usize];
        let (output, _) = chain.stepped(&candidates, workers, random.below(1 << 40), Vec::new());
        assert_same(&output, &expected, &format!("case {case}, {workers} workers, stepped"));
        if case % 4 == 0 {
            let threads = [1, 2, 4, 8, 16][random.below(5) as usize];
            let (output, _) = chain.threads(&candidates, threads, Vec::new());
            assert_same(&output, &expected, &format!("case {case}, {threads} threads"));
        }
    }
}

/// The node's secret, which seeds the hash tables, does not change a single byte of the output.
#[test]
fn table_secret_keeps_output() {
    let mut chain = TestChain::new();
    for secret in [1, 0x5eed_5eed_5eed_5eed, u64::MAX] {
        chain = chain.with_secret(secret);
        for case in 0..cases(1_000) / 10 {
            let mut random = Random::new(case ^ 0x0001_0000);
            let (length, keys) = (2 + random.below(30), 1 + random.below(u64::from(KEYS)));
            let candidates = block(&random_block(&mut random, length, keys));
            // Serial execution has no tables.
            let expected = chain.serial(&candidates);
            let (output, _) = chain.stepped(&candidates, 4, case, Vec::new());
            assert_same(&output, &expected, &format!("case {case}, secret {secret}, stepped"));
            let (output, _) = chain.threads(&candidates, 4, Vec::new());
            assert_same(&output, &expected, &format!("case {case}, secret {secret}, 4 threads"));
        }
    }
}
