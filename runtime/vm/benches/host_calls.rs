//! CPU time per gas of every host call and every precompile: `cargo bench --profile dev --workspace --bench
//! host_calls`.
//!
//! All of them take turns in one run, each through a real contract on a real journal; the minimum of several turns
//! counts. Limit: no call buys more than three times the median. Calls at Ethereum's price (storage, logs, creations)
//! buy far less, which is harmless.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod support;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use corniche_abi::MODULES;
use corniche_vm::VmConfig;
use corniche_vm::wasm::unpack;
use support::{Bench, NEWEST_CERTIFIED, NOTHING, SUBJECT, module};

const TURNS: u32 = 9;
/// Approximate gas of one run.
const GAS: u64 = 2_000_000;
const CALLS_IN_A_ROUND: u64 = 16;
/// Maximum time per gas, as a multiple of the median.
const BAR: f64 = 3.0;
/// Address of the input in memory, after the region that the calls write.
const INPUT: u32 = 4_096;

/// One use of one host call.
struct Case {
    /// Name of the host call, or `precompile N`.
    call: String,
    /// Distinguishes several uses of one call.
    how: &'static str,
    /// Code of one use. `$i` counts uses.
    body: String,
    /// Input, at [`INPUT`].
    input: Vec<u8>,
    pages: u32,
}

fn case(call: &str, how: &'static str, body: impl Into<String>) -> Case {
    Case { call: call.into(), how, body: body.into(), input: words(&[]), pages: 2 }
}

/// Returns the input: the address of [`NOTHING`], followed by `rest`.
fn words(rest: &[U256]) -> Vec<u8> {
    let mut input = [NOTHING.as_slice(), &[0; 12]].concat();
    input.extend(rest.iter().flat_map(|word| word.to_be_bytes::<32>()));
    input
}

fn cases() -> Vec<Case> {
    let big = [U256::MAX - U256::from(58), U256::MAX >> 3usize, U256::MAX - U256::from(1_000)];
    let mut cases = vec![
        case("account_balance", "", "(call $account_balance (i32.const 4096) (i32.const 0))"),
        case("account_code", "", "(drop (call $account_code (i32.const 4096) (i32.const 0) (i32.const 0) (i32.const 0)))"),
        case(
            "account_code",
            "all of it",
            "(drop (call $account_code (i32.const 4096) (i32.const 0) (i32.const 1000) (i32.const 0)))",
        ),
        case("account_code_size", "", "(drop (call $account_code_size (i32.const 4096)))"),
        case("account_codehash", "", "(call $account_codehash (i32.const 4096) (i32.const 0))"),
        case("emit_log", "empty", "(call $emit_log (i32.const 0) (i32.const 0) (i32.const 0))"),
        case("emit_log", "four topics", "(call $emit_log (i32.const 0) (i32.const 128) (i32.const 4))"),
        case("emit_log", "64 KiB", "(call $emit_log (i32.const 0) (i32.const 65536) (i32.const 0))"),
        case("write_result", "empty", "(call $write_result (i32.const 0) (i32.const 0))"),
        case("write_result", "64 KiB", "(call $write_result (i32.const 0) (i32.const 65536))"),
        case("read_args", "", "(call $read_args (i32.const 4096))"),
        case("native_keccak256", "empty", "(call $native_keccak256 (i32.const 0) (i32.const 0) (i32.const 0))"),
        case("native_keccak256", "a block", "(call $native_keccak256 (i32.const 0) (i32.const 136) (i32.const 0))"),
        case("native_keccak256", "64 KiB", "(call $native_keccak256 (i32.const 0) (i32.const 65536) (i32.const 0))"),
        case("storage_load_bytes32", "cached", "(call $storage_load_bytes32 (i32.const 4096) (i32.const 0))"),
        case("storage_load_bytes32", "cold", format!("{KEY}(call $storage_load_bytes32 (i32.const 4096) (i32.const 0))")),
        case("storage_cache_bytes32", "the same", "(call $storage_cache_bytes32 (i32.const 4096) (i32.const 0))"),
        case("storage_cache_bytes32", "others", format!("{KEY}(call $storage_cache_bytes32 (i32.const 4096) (i32.const 0))")),
        case("storage_flush_cache", "nothing", "(call $storage_flush_cache (i32.const 0))"),
        case("storage_flush_cache", "and forget", "(call $storage_flush_cache (i32.const 1))"),
        case(
            "storage_flush_cache",
            "a store",
            format!(
                "{KEY}(call $storage_cache_bytes32 (i32.const 4096) (i32.const 4096)) (call $storage_flush_cache (i32.const 0))"
            ),
        ),
        case(
            "storage_flush_cache",
            "back and forth",
            format!(
                "{VALUE}(call $storage_cache_bytes32 (i32.const 4096) (i32.const 0)) (call $storage_flush_cache (i32.const 1))"
            ),
        ),
        case("transient_load_bytes32", "", "(call $transient_load_bytes32 (i32.const 4096) (i32.const 0))"),
        case("transient_store_bytes32", "the same", "(call $transient_store_bytes32 (i32.const 4096) (i32.const 0))"),
        case(
            "transient_store_bytes32",
            "others",
            format!("{KEY}(call $transient_store_bytes32 (i32.const 4096) (i32.const 0))"),
        ),
        case("pay_for_memory_grow", "", "(call $pay_for_memory_grow (i32.const 0))"),
        case("return_data_size", "", "(drop (call $return_data_size))"),
        case("read_return_data", "", "(drop (call $read_return_data (i32.const 0) (i32.const 0) (i32.const 32)))"),
        case("counter_add", "", format!("{VALUE}(drop (call $counter_add (i32.const 4096) (i32.const 0) (i32.const 64)))")),
        case("counter_sub", "", format!("{VALUE}(drop (call $counter_sub (i32.const 4096) (i32.const 0) (i32.const 64)))")),
        case("exit_early", "in a frame of its own", CALL.replace("4096", "64")),
    ];
    for (call, arguments) in [("call_contract", "(i32.const 0) "), ("delegate_call_contract", ""), ("static_call_contract", "")]
    {
        let body = format!(
            "(drop (call ${call} (i32.const 4096) (i32.const 0) (i32.const 0) {arguments}(i64.const -1) (i32.const 512)))"
        );
        cases.push(case(call, "to nothing much", body.clone()));
        cases.push(case(call, "to nobody", body.replace("4096", "96")));
        cases.push(case(
            call,
            "with 64 KiB",
            body.replacen("(i32.const 0) (i32.const 0)", "(i32.const 0) (i32.const 65536)", 1),
        ));
    }
    for (how, number) in [
        ("out of range", "(i64.const 0)".into()),
        ("the same", format!("(i64.const {NEWEST_CERTIFIED})")),
        ("others", format!("(i64.sub (i64.const {NEWEST_CERTIFIED}) (local.get $i))")),
    ] {
        cases.push(case("certified_hash", how, format!("(drop (call $certified_hash {number} (i32.const 0)))")));
    }
    for name in [
        "block_basefee",
        "block_coinbase",
        "block_randomness",
        "contract_address",
        "msg_sender",
        "msg_value",
        "tx_gas_price",
        "tx_origin",
    ] {
        cases.push(case(name, "", format!("(call ${name} (i32.const 0))")));
    }
    for name in [
        "block_gas_limit",
        "block_number",
        "block_timestamp",
        "chainid",
        "evm_gas_left",
        "evm_ink_left",
        "msg_reentrant",
        "tx_ink_price",
    ] {
        cases.push(case(name, "", format!("(drop (call ${name}))")));
    }
    for name in ["math_div", "math_mod", "math_pow"] {
        let body = format!(
            "(memory.copy (i32.const 0) (i32.const 4128) (i32.const 32)) (call ${name} (i32.const 0) (i32.const 4160))"
        );
        cases.push(Case { input: words(&big), ..case(name, "of large numbers", body) });
    }
    for name in ["math_add_mod", "math_mul_mod"] {
        let body = format!(
            "(memory.copy (i32.const 0) (i32.const 4128) (i32.const 32)) (call ${name} (i32.const 0) (i32.const 4192) (i32.const 4160))"
        );
        cases.push(Case { input: words(&big), ..case(name, "of large numbers", body) });
    }
    // A creation of code that is already compiled, and one of data that is no contract.
    let tiny = module("1", "", "", "i32.const 0");
    for (name, salt) in [("create1", ""), ("create2", "(i32.const 0) ")] {
        let body = format!(
            "(i64.store (i32.const 0) (local.get $i)) (call ${name} (i32.const 4128) (i32.const {}) (i32.const 96) {salt}(i32.const 256) (i32.const 512))",
            tiny.len()
        );
        cases.push(Case { input: [words(&[]), tiny.clone()].concat(), ..case(name, "known code", body.clone()) });
        cases.push(case(name, "no code", body));
    }
    cases.extend(precompiles());
    cases
}

/// Sets a new key at [`INPUT`] in each use.
const KEY: &str = "(i64.store (i32.const 4096) (local.get $i))";
/// Sets a new word at 0 in each use.
const VALUE: &str = "(i64.store (i32.const 0) (local.get $i))";
const CALL: &str =
    "(drop (call $call_contract (i32.const 4096) (i32.const 0) (i32.const 0) (i32.const 96) (i64.const -1) (i32.const 512)))";

fn precompiles() -> Vec<Case> {
    let number = |value: u64| U256::from(value).to_be_bytes::<32>().to_vec();
    let one = |address: u64, how, data: Vec<u8>| {
        let body = format!(
            "(drop (call $static_call_contract (i32.const 4096) (i32.const 4128) (i32.const {}) (i64.const -1) (i32.const 512)))",
            data.len()
        );
        let to = Address::from_word(B256::from(U256::from(address)));
        let input = [to.as_slice(), &[0; 12], &data].concat();
        Case { call: format!("precompile {address:#x}"), how, body, input, pages: 4 }
    };
    let key = corniche_crypto::EthereumKey::from_bytes(&[7; 32]).unwrap();
    let hash = keccak256("hash");
    let signature = key.sign_hash(hash);
    let recovered = [
        hash.to_vec(),
        number(27 + u64::from(signature.v())),
        signature.r().to_be_bytes::<32>().to_vec(),
        signature.s().to_be_bytes::<32>().to_vec(),
    ];
    let power = |base: usize, exponent: Vec<u8>, modulus: usize, even: bool| {
        let mut odd = vec![0xfb; modulus];
        if even {
            odd[modulus - 1] = 0xfa;
        }
        [number(base as u64), number(exponent.len() as u64), number(modulus as u64), vec![0xfd; base], exponent, odd].concat()
    };
    let point = [number(1), number(2)].concat();
    let scalar = (U256::MAX >> 3usize).to_be_bytes::<32>().to_vec();
    // Generator of the second group.
    let second = [
        "198e9393920d483a7260bfb731fb5d25f1aa493335a9e71297e485b7aef312c2",
        "1800deef121f1e76426a00665e5c4479674322d4f75edadd46debd5cd992f6ed",
        "090689d0585ff075ec9e99ad690c3395bc4b313370b38ef355acdadcd122975b",
        "12c85ea5db8c6deb4aab71808dcb408fe3d1e7690c43d37b4ce6cc0166fa7daa",
    ]
    .concat();
    let pair = [point.clone(), alloy_primitives::hex::decode(second).unwrap()].concat();
    let rounds = |count: u32| {
        let mut input = [count.to_be_bytes().to_vec(), vec![3; 208]].concat();
        input.push(1);
        input
    };
    // Test vector of RFC 6979: curve P-256, SHA-256, "sample".
    let p256 = [
        "af2bdbe1aa9b6ec1e2ade1d694f41fc71a831d0268e9891562113d8a62add1bf",
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
        "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6",
        "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299",
    ]
    .concat();
    vec![
        one(1, "", recovered.concat()),
        one(2, "empty", vec![]),
        one(2, "64 KiB", vec![5; 65_536]),
        one(3, "empty", vec![]),
        one(3, "64 KiB", vec![5; 65_536]),
        one(4, "empty", vec![]),
        one(4, "64 KiB", vec![5; 65_536]),
        one(5, "one byte each", power(1, vec![3], 1, false)),
        one(5, "32 bytes each", power(32, vec![0xff; 32], 32, false)),
        one(5, "256 bytes, 65537", power(256, vec![1, 0, 1], 256, false)),
        one(5, "1,024 bytes, squared", power(1_024, vec![2], 1_024, false)),
        one(5, "1,024 bytes, even, 3 bytes", power(1_024, vec![0xff; 3], 1_024, true)),
        one(5, "1,024 bytes, odd, 4 bytes", power(1_024, vec![0xff; 4], 1_024, false)),
        one(6, "", [point.clone(), point.clone()].concat()),
        one(7, "", [point.clone(), scalar].concat()),
        one(8, "none", vec![]),
        one(8, "one pair", pair.clone()),
        one(8, "four pairs", pair.repeat(4)),
        one(9, "one round", rounds(1)),
        one(9, "10,000 rounds", rounds(10_000)),
        one(0x71, "", alloy_primitives::hex!("a996e0c2").to_vec()),
        one(0x100, "", alloy_primitives::hex::decode(p256).unwrap()),
    ]
}

impl Case {
    /// Returns a module that runs the given number of rounds.
    fn module(&self) -> Vec<u8> {
        let uses =
            format!("{} (local.set $i (i64.add (local.get $i) (i64.const 1)))", self.body).repeat(CALLS_IN_A_ROUND as usize);
        // The first word of the input is the number of rounds; the address of a contract that ends early is at 64.
        let body = format!(
            "(call $read_args (i32.const {}))
             (memory.fill (i32.const 64) (i32.const 0xee) (i32.const 20))
             (local.set $left (i32.load (i32.const {})))
             (loop $round {uses} (br_if $round (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
             i32.const 0",
            INPUT - 32,
            INPUT - 32
        );
        module(&self.pages.to_string(), "", "(local $i i64) (local $left i32)", &body)
    }

    fn input(&self, rounds: u32) -> Bytes {
        [&rounds.to_le_bytes()[..], &[0; 28], &self.input].concat().into()
    }
}

/// Gas and ns per use.
struct Found {
    name: String,
    gas: f64,
    nanoseconds: f64,
}

fn main() {
    let mut bench = Bench::new(&VmConfig { executors: 1, callers: 2, ..VmConfig::default() });
    bench.deploy(Address::repeat_byte(0xee), &module("1", "", "", "(call $exit_early (i32.const 0)) unreachable"));
    let cases = cases();
    for (_, call) in MODULES.iter().flat_map(|(module, calls)| calls.iter().map(move |call| (module, call))) {
        assert!(cases.iter().any(|case| case.call == call.name), "{} is not measured", call.name);
    }
    for address in corniche_vm::precompiles() {
        let name = format!("precompile {:#x}", U256::from_be_slice(address.as_slice()));
        assert!(cases.iter().any(|case| case.call == name), "{name} is not measured");
    }
    let at = |index: usize| Address::from_word(keccak256(index.to_be_bytes()));
    for (index, case) in cases.iter().enumerate() {
        let wasm = case.module();
        unpack(&wasm).unwrap();
        bench.deploy(at(index), &wasm);
    }
    let _ = SUBJECT;
    // Gas per round, and the gas of everything else.
    let rounds: Vec<(u32, u64)> = (0..cases.len())
        .map(|index| {
            let gas = |rounds| bench.run(Some(at(index)), &cases[index].input(rounds), 90_000_000).0.gas;
            let round = (gas(2) - gas(1)).max(1);
            ((GAS / round).clamp(1, 4_000) as u32, round)
        })
        .collect();
    let mut found: Vec<Found> = cases
        .iter()
        .zip(&rounds)
        .map(|(case, (_, round))| Found {
            name: format!("{}{}{}", case.call, if case.how.is_empty() { "" } else { ": " }, case.how),
            gas: *round as f64 / CALLS_IN_A_ROUND as f64,
            nanoseconds: f64::MAX,
        })
        .collect();
    for _ in 0..TURNS {
        for (index, case) in cases.iter().enumerate() {
            let (times, _) = rounds[index];
            let run = |rounds| bench.run(Some(at(index)), &case.input(rounds), 90_000_000).0.nanoseconds;
            // Without the frame's start, which belongs to no host call.
            let took = (run(1 + times) - run(1)) / f64::from(times) / CALLS_IN_A_ROUND as f64;
            found[index].nanoseconds = found[index].nanoseconds.min(took);
        }
    }
    report(found);
}

fn report(mut found: Vec<Found>) {
    found.sort_by(|one, other| (other.nanoseconds / other.gas).total_cmp(&(one.nanoseconds / one.gas)));
    let per_gas = |found: &Found| found.nanoseconds / found.gas;
    let median = per_gas(&found[found.len() / 2]);
    println!("median of {}: {median:.2} ns a gas; nothing may buy more than {:.2}\n", found.len(), BAR * median);
    println!("| call | gas | ns | ns a gas | medians |\n|---|---|---|---|---|");
    for one in &found {
        println!(
            "| {} | {:.1} | {:.0} | {:.2} | {:.2} |",
            one.name,
            one.gas,
            one.nanoseconds,
            per_gas(one),
            per_gas(one) / median
        );
    }
    let dear: Vec<_> = found.iter().filter(|found| per_gas(found) > BAR * median).collect();
    if !dear.is_empty() {
        println!("\n{} of them buy more than {BAR} medians", dear.len());
        std::process::exit(1);
    }
}
