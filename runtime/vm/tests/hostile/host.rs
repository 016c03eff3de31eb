//! Host calls: pointers and lengths at every edge, gas that ends within each call, floods.

use super::support::{again, module};
use super::{Attack, attack};
use corniche_abi::{HostCall, MODULES, ValueType};

fn of(body: &str) -> Vec<u8> {
    module("2", "", "(local $a i32) (local $b i64)", body)
}

fn calls() -> impl Iterator<Item = &'static HostCall> {
    MODULES.iter().flat_map(|(_, calls)| calls.iter())
}

/// One call with the same value for each argument.
fn call(call: &HostCall, i32: &str, i64: &str) -> String {
    let argument =
        |kind: &ValueType| if *kind == ValueType::I32 { format!("(i32.const {i32}) ") } else { format!("(i64.const {i64}) ") };
    let arguments: String = call.parameters.iter().map(argument).collect();
    let text = format!("(call ${} {arguments})", call.name);
    if call.result.is_some() { format!("(drop {text})") } else { text }
}

/// Each host call alone, with four attacks.
fn each() -> impl Iterator<Item = Attack> {
    calls().flat_map(|host| {
        let name = |what: &str| format!("{}: {what}", host.name);
        let once = |argument: &str| of(&format!("{} i32.const 0", call(host, argument, "-1")));
        [
            attack(name("all ones"), "Pointers and lengths of four billion wrap.", once("-1")).gas(200_000),
            attack(
                name("at the last byte"),
                "A pointer to the last byte of memory is inside, what follows is not.",
                once("131071"),
            )
            .gas(200_000),
            attack(name("all over memory"), "Source and destination overlap, lengths are those of memory.", once("65536"))
                .gas(3_000_000),
            attack(
                name("until gas ends"),
                "Gas that ends within a call leaves half of its work done.",
                of(&again(&call(host, "0", "0"))),
            )
            .gas(300_000),
        ]
    })
}

pub fn attacks() -> Vec<Attack> {
    let text = |name: &str, goal: &'static str, body: &str| attack(name, goal, of(&again(body)));
    let next = "(i32.store (i32.const 0) (local.tee $a (i32.add (local.get $a) (i32.const 1))))";
    each()
        .chain([
            text("logs of four topics", "Logs are cheap and kept for ever.", "(call $emit_log (i32.const 0) (i32.const 128) (i32.const 4))"),
            text("logs of 128 KiB", "The same with much data.", "(call $emit_log (i32.const 0) (i32.const 131072) (i32.const 0))"),
            text("logs of five topics", "A topic more than there are.", "(call $emit_log (i32.const 0) (i32.const 160) (i32.const 5))"),
            text("logs whose topics exceed their data", "Topics are read from behind the data.", "(call $emit_log (i32.const 0) (i32.const 64) (i32.const 4))"),
            text("new slots", "Each write makes every node keep a slot.", &format!("{next} (call $storage_cache_bytes32 (i32.const 0) (i32.const 0)) (call $storage_flush_cache (i32.const 1))")),
            text("cold slots that are read", "Each read goes to the disk.", &format!("{next} (call $storage_load_bytes32 (i32.const 0) (i32.const 64))")),
            text("a cache that is never flushed", "Words wait in the host's memory.", &format!("{next} (call $storage_cache_bytes32 (i32.const 0) (i32.const 0))")),
            text("a cache flushed after each word", "Flushing walks all that waits.", &format!("{next} (call $storage_cache_bytes32 (i32.const 0) (i32.const 64)) (call $storage_flush_cache (i32.const 0))")),
            text("the same slot set and cleared", "Refunds pay for the next round.", "(i32.store (i32.const 32) (local.tee $a (i32.xor (local.get $a) (i32.const 1)))) (call $storage_cache_bytes32 (i32.const 0) (i32.const 32)) (call $storage_flush_cache (i32.const 1))"),
            text("transient slots", "They are gone after the transaction, so they are cheap.", &format!("{next} (call $transient_store_bytes32 (i32.const 0) (i32.const 0))")),
            text("counters", "Counting reads nothing, so it is cheap.", &format!("{next} (drop (call $counter_add (i32.const 0) (i32.const 0) (i32.const 0)))")),
            text("balances of strangers", "Each account is looked up on the disk.", &format!("{next} (call $account_balance (i32.const 0) (i32.const 64))")),
            text("code of strangers", "Each code is loaded from the disk.", &format!("{next} (drop (call $account_code (i32.const 0) (i32.const 0) (i32.const 131072) (i32.const 64)))")),
            text("own code, again and again", "Code is copied for the price of a look.", "(call $contract_address (i32.const 0)) (drop (call $account_code (i32.const 0) (i32.const 0) (i32.const 131072) (i32.const 64)))"),
            text("hashes of certified headers", "Each hash is looked up on the disk.", "(drop (call $certified_hash (i64.add (i64.const 2000) (local.tee $b (i64.rem_u (i64.add (local.get $b) (i64.const 1)) (i64.const 7000)))) (i32.const 0)))"),
            text("hash of much", "Hashing 128 KiB is one call.", "(call $native_keccak256 (i32.const 0) (i32.const 131072) (i32.const 0))"),
            text("hashes of little", "The base price of a hash is too low.", "(call $native_keccak256 (i32.const 0) (i32.const 1) (i32.const 0))"),
            text("hashes of just too much for a block", "One byte more makes another round.", "(call $native_keccak256 (i32.const 0) (i32.const 136) (i32.const 0))"),
            text("powers", "A power takes 256 squarings.", "(i64.store (i32.const 32) (i64.const -1)) (i64.store (i32.const 40) (i64.const -1)) (i64.store (i32.const 0) (i64.const -3)) (call $math_pow (i32.const 0) (i32.const 32))"),
            text("divisions of 256 bits", "The slowest divisors.", "(i64.store (i32.const 0) (i64.const -1)) (i64.store (i32.const 8) (i64.const -3)) (i64.store (i32.const 32) (i64.const 1)) (i64.store (i32.const 56) (i64.const -7)) (call $math_div (i32.const 0) (i32.const 32))"),
            text("results of 128 KiB", "Each result replaces the last, so the host allocates again.", "(call $write_result (i32.const 0) (i32.const 131072))"),
            text("input, again and again", "Input is copied for nothing.", "(call $read_args (i32.const 0))"),
        ])
        .chain([
            attack("exit with a result, in the middle", "A run that leaves in the middle keeps its stack.", of("(call $write_result (i32.const 0) (i32.const 32)) (call $exit_early (i32.const 0)) unreachable")),
            attack("exit by failing with much data", "A failure carries data back for nothing.", of("(call $write_result (i32.const 0) (i32.const 131072)) (call $exit_early (i32.const 1)) unreachable")),
        ])
        .collect()
}
