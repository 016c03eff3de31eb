//! Contracts that call: amplification, depth, creations, instances.

use super::support::{again, module};
use super::{Attack, attack};
use alloy_primitives::{Address, hex};

const OTHER: Address = Address::repeat_byte(0x11);

fn of(pages: &str, body: &str) -> Vec<u8> {
    module(pages, "", "(local $a i32) (local $b i64)", body)
}

fn address(at: u32, byte: u8) -> String {
    format!("(memory.fill (i32.const {at}) (i32.const {byte}) (i32.const 20))")
}

/// A call with `input` bytes from 256 on. The address is at 0, the value at 64; the length of the result goes to 32.
fn call(input: &str, gas: &str) -> String {
    format!("(drop (call $call_contract (i32.const 0) (i32.const 256) {input} (i32.const 64) {gas} (i32.const 32)))")
}

fn all(input: u32) -> String {
    call(&format!("(i32.const {input})"), "(i64.const -1)")
}

const ITSELF: &str = "(call $contract_address (i32.const 0))";

/// Touches a byte of each host page.
fn touch(pages: u32) -> String {
    format!(
        "(local.set $a (i32.const 1024)) (loop $touch (i32.store (local.get $a) (i32.const 1)) (br_if $touch (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 4096))) (i32.const {}))))",
        pages * 65_536
    )
}

/// Calls itself, nested as deep as its input has bytes.
fn nested(pages: u32, number: u32, before: &str) -> Vec<u8> {
    let deeper = call("(i32.sub (local.get $length) (i32.const 1))", "(i64.const -1)");
    of(
        &pages.to_string(),
        &format!("(drop (i32.const {number})) {before} (if (local.get $length) (then {ITSELF} {deeper})) i32.const 0"),
    )
}

/// Calls contracts at 0xe1, 0xe2 and so on in turns, each nested in itself as deep as the price of warm code permits.
fn codes_in_turns(name: &'static str, goal: &'static str, codes: u8, pages: u32, levels: u32, before: &str) -> Attack {
    let body: String = (0..codes).map(|at| format!("{} {}", address(0, 0xe1 + at), all(levels))).collect();
    (0..codes).fold(attack(name, goal, of("1", &again(&body))).gas(5_000_000), |attack, at| {
        attack.with(Address::repeat_byte(0xe1 + at), nested(pages, at.into(), before))
    })
}

/// Creates a contract from the data at 256.
fn creates(data: &[u8], body: &str) -> Vec<u8> {
    let bytes: String = data.iter().map(|byte| format!("\\{byte:02x}")).collect();
    let text = format!(
        r#"(module
            (import "vm_hooks" "create1" (func $create1 (param i32 i32 i32 i32 i32)))
            (import "vm_hooks" "create2" (func $create2 (param i32 i32 i32 i32 i32 i32)))
            (memory (export "memory") 16) (data (i32.const 256) "{bytes}")
            (func (export "user_entrypoint") (param i32) (result i32) (local $a i32) {body}))"#
    );
    wat::parse_str(text).unwrap()
}

/// A stream that decompresses to 64 MiB of zeros, with the largest window.
fn zeros() -> Vec<u8> {
    let mut packed = hex!("eff00000").to_vec();
    let mut writer = brotli::CompressorWriter::new(&mut packed, 4_096, 9, 24);
    std::io::Write::write_all(&mut writer, &[&b"\0asm\x01\0\0\0"[..], &vec![0; 64 << 20]].concat()).unwrap();
    drop(writer);
    packed
}

pub fn attacks() -> Vec<Attack> {
    [plain(), deep(), creations(), precompiles()].into_iter().flatten().collect()
}

fn plain() -> Vec<Attack> {
    let text = |name: &str, goal: &'static str, body: String| attack(name, goal, of("4", &body));
    let nothing = address(0, 0x77);
    let trap = |name: &str, goal: &'static str, body: &str| {
        let call = format!("{} {}", address(0, 0x11), call("(i32.const 0)", "(i64.const 20000)"));
        attack(name, goal, of("1", &again(&call))).with(OTHER, of("1", body))
    };
    let small = "(i64.const 1500)";
    vec![
        text("calls of nothing", "A start costs more than it pays.", again(&format!("{nothing} {}", all(0)))),
        text("calls without gas", "A call that cannot start costs nothing.", again(&format!("{nothing} {}", call("(i32.const 0)", "(i64.const 0)")))),
        text("calls with the least gas of a start", "A start is made ready before it is paid.", again(&format!("{nothing} {}", call("(i32.const 0)", "(i64.const 766)")))),
        text("calls with a gas less", "The same with one gas too little.", again(&format!("{nothing} {}", call("(i32.const 0)", "(i64.const 765)")))),
        text("calls of accounts without code", "Each call touches another account.", again(&format!("(i32.store (i32.const 0) (local.tee $a (i32.add (local.get $a) (i32.const 256)))) {}", all(0)))),
        text("calls with 128 KiB", "Input is copied, and held by the callee.", again(&format!("{nothing} {}", all(131_072)))),
        text("calls with a value", "Value moves for less than its price.", again(&format!("{nothing} (i32.store8 (i32.const 95) (i32.const 1)) {}", call("(i32.const 0)", small)))),
        text("calls with all values there are", "A value of 2^256 - 1 wraps.", again(&format!("{nothing} (memory.fill (i32.const 64) (i32.const 255) (i32.const 32)) {}", all(0)))),
        text("new accounts", "Each value makes an account.", again(&format!("(i32.store (i32.const 0) (local.tee $a (i32.add (local.get $a) (i32.const 256)))) (i32.store8 (i32.const 95) (i32.const 1)) {}", all(0)))),
        text("static calls of itself", "A static frame opens another.", format!("{ITSELF} (drop (call $static_call_contract (i32.const 0) (i32.const 256) (i32.const 0) (i64.const -1) (i32.const 32))) i32.const 0")).gas(5_000_000),
        text("delegate calls of itself", "Its own code runs as its caller's.", format!("{ITSELF} (drop (call $delegate_call_contract (i32.const 0) (i32.const 256) (i32.const 0) (i64.const -1) (i32.const 32))) i32.const 0")).gas(5_000_000),
        text("write in a static call", "A static frame writes through a call.", format!("{ITSELF} (if (i32.eqz (local.get $length)) (then (drop (call $static_call_contract (i32.const 0) (i32.const 256) (i32.const 1) (i64.const -1) (i32.const 32)))) (else (call $storage_cache_bytes32 (i32.const 0) (i32.const 0)) (call $storage_flush_cache (i32.const 1)))) i32.const 0")),
        trap("callees that trap", "A trap throws an instance away.", "unreachable"),
        trap("callees that run out of gas", "Running out of gas costs a signal.", &again("")),
        trap("callees that fault", "A fault of the processor costs a signal.", "(i32.load (i32.const -1))"),
        trap("callees that divide by zero", "The same by a division.", "(i32.div_u (i32.const 1) (local.get $a))"),
        trap("callees that fail with data", "Failing is cheaper than answering.", "(call $write_result (i32.const 0) (i32.const 32)) i32.const 1"),
        trap("callees that grow", "An instance that grew is thrown away.", "(drop (memory.grow (i32.const 1))) i32.const 0"),
        trap("callees that grow by nothing", "An instance that grew by nothing is thrown away for nothing.", "(drop (memory.grow (i32.const 0))) i32.const 0"),
        trap("callees that write all over a page", "Restoring a page costs more than writing it.", "(loop $t (i32.store8 (local.get $a) (i32.const 1)) (br_if $t (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 256))) (i32.const 65536)))) i32.const 0"),
        attack("callees that use up the stack", "A deep native stack is touched again for each call.", of("1", &again(&format!("{} {}", address(0, 0x11), call("(i32.const 0)", "(i64.const 60000)"))))).with(OTHER, module("1", "(func $f (local i64 i64 i64 i64) (call $f))", "", "(call $f) i32.const 0")),
        attack("answers of 128 KiB, copied", "An answer is copied for the price of a call.", of("4", &format!("{} {} {}", address(0, 0x11), all(0), again("(drop (call $read_return_data (i32.const 256) (i32.const 0) (i32.const 131072)))")))).with(OTHER, of("2", "(call $write_result (i32.const 0) (i32.const 131072)) i32.const 0")),
        attack("answers of 8 MiB, dropped", "Each call makes the host hold 8 MiB.", of("1", &again(&format!("{} {}", address(0, 0x11), all(0))))).with(OTHER, of("128", "(call $write_result (i32.const 0) (i32.const 8388608)) i32.const 0")).gas(10_000_000),
        attack("start of 1,000 globals", "Globals are set at each start.", of("1", &again(&format!("{} {}", address(0, 0x11), all(0))))).with(OTHER, module("1", &"(global (mut i64) (i64.const -1))".repeat(1_000), "", "i32.const 0")),
        attack("start of 4,000 table entries", "The table is filled at each start.", of("1", &again(&format!("{} {}", address(0, 0x11), all(0))))).with(OTHER, module("1", &format!("(table 4000 funcref) (func $f) (elem (i32.const 0) {})", "$f ".repeat(4_000)), "", "i32.const 0")),
        attack("start of 128 pages with data", "Data is copied at each start.", of("1", &again(&format!("{} {}", address(0, 0x11), all(0))))).with(OTHER, of_data()),
    ]
}

/// Code that overwrites its data in each run.
fn of_data() -> Vec<u8> {
    let segments: String =
        (0..127).map(|page| format!(r#"(data (i32.const {}) "{}")"#, page * 65_536, "x".repeat(2_000))).collect();
    module("128", &segments, "(local $a i32)", &format!("{} i32.const 0", touch(128)))
}

fn deep() -> Vec<Attack> {
    let itself = |name: &str, goal: &'static str, pages: &str, before: &str, input: u32| {
        attack(name, goal, of(pages, &format!("{before} {ITSELF} {} i32.const 0", all(input)))).gas(8_000_000)
    };
    let ping = of("1", &format!("{} {} i32.const 0", address(0, 0x11), all(0)));
    let pong = of("1", &format!("{} {} i32.const 0", address(0, 0x5b), all(0)));
    vec![
        itself("frames in frames", "Depth is bounded by gas alone.", "1", "", 0),
        itself("frames in frames with 100 KB", "Each frame holds its input.", "2", "", 100_000),
        itself("frames in frames with 16 touched pages", "Frames together hold more memory than a node has.", "16", &touch(16), 0),
        itself("frames in frames with 128 touched pages", "The same with all pages that one may have.", "128", &touch(128), 0),
        itself("frames in frames that grow", "Each frame grows to the limit.", "1 128", &format!("(drop (memory.grow (i32.const 127))) {}", touch(128)), 0),
        itself("frames in frames that log", "Each frame leaves a log before it fails.", "1", "(call $emit_log (i32.const 0) (i32.const 64) (i32.const 2))", 0),
        itself("frames in frames that write", "Each frame leaves a slot before it fails.", "1", "(i64.store (i32.const 0) (call $evm_gas_left)) (call $storage_cache_bytes32 (i32.const 0) (i32.const 0)) (call $storage_flush_cache (i32.const 1))", 0),
        attack("two contracts that call each other", "Re-entrance in turns hides from a check of the last frame.", ping).gas(8_000_000).with(OTHER, pong),
        attack("two calls in each frame", "Frames double at each level.", of("1", &format!("{ITSELF} {0} {0} i32.const 0", all(0)))).gas(8_000_000),
        attack("sixty-four calls in each frame", "The 64th part that a frame keeps pays for more calls.", of("1", &format!("{ITSELF} {} i32.const 0", all(0).repeat(64)))).gas(10_000_000),
        attack("recursion around each call", "Counted stack is given back by each frame.", module("1", "(func $deeper (param i32) (local i64 i64 i64 i64 i64 i64 i64 i64) (if (local.get 0) (then (call $deeper (i32.sub (local.get 0) (i32.const 1)))) (else (call $contract_address (i32.const 0)) (drop (call $call_contract (i32.const 0) (i32.const 64) (i32.const 0) (i32.const 64) (i64.const -1) (i32.const 32))))))", "", "(call $deeper (i32.const 100)) i32.const 0")).gas(8_000_000),
        codes_in_turns("one code, nested in itself, in turns", "An instance within another of the same code is made anew for the price of one that waits.", 1, 1, 30, ""),
        codes_in_turns("three codes, nested in themselves, in turns", "The instances of one code push out those of another.", 3, 1, 30, ""),
        codes_in_turns("eight codes, nested in themselves, in turns", "The same with more codes.", 8, 1, 30, ""),
        codes_in_turns("twenty codes, nested in themselves, in turns", "The same with still more codes.", 20, 1, 30, ""),
        codes_in_turns("code of 17 touched pages, nested in itself", "The same with memory as Rust asks for.", 2, 17, 30, &touch(17)),
        codes_in_turns("code of 64 touched pages, nested in itself", "The same with as much memory as a transaction may have.", 2, 64, 30, &touch(64)),
        codes_in_turns("code of 64 pages, nested in itself", "The same, and nothing is touched.", 2, 64, 30, ""),
    ]
}

fn creations() -> Vec<Attack> {
    let small = module("1", "", "", "i32.const 0");
    let constructor = [
        &hex!("7f0000000000000000000000000000000000000000000000000000000000000000")[..32],
        &[u8::try_from(small.len()).unwrap()],
        &hex!("80602b6000396000f300"),
        &small,
        &hex!("5585258d"),
    ]
    .concat();
    let again_and_again = |data: &[u8]| {
        let create =
            format!("(call $create1 (i32.const 256) (i32.const {}) (i32.const 0) (i32.const 64) (i32.const 96))", data.len());
        creates(data, &again(&create))
    };
    let zeros = zeros();
    let packed_header = [&hex!("eff00000")[..], &[0x3b; 60]].concat();
    vec![
        attack("creations of nothing", "An empty creation is read for nothing.", again_and_again(&[])),
        attack("creations of EVM code", "Code that is refused was read.", again_and_again(&hex!("608060405234801561000f575f80fd5b50"))),
        attack("creations of a contract", "The same contract is compiled again for each account.", again_and_again(&small)).gas(10_000_000),
        attack("creations with a constructor", "A constructor runs before its code is paid for.", again_and_again(&constructor)).gas(10_000_000),
        attack("creations of a damaged contract", "A refusal at the last byte was validated to there.", again_and_again(&small[..small.len() - 1])).gas(10_000_000),
        attack("creations at one address", "The second creation at an address overwrites the first.", creates(&small, &again(&format!("(call $create2 (i32.const 256) (i32.const {}) (i32.const 0) (i32.const 128) (i32.const 64) (i32.const 96))", small.len())))).gas(10_000_000),
        attack("creations of packed noise", "A damaged stream is unpacked for nothing.", again_and_again(&packed_header)).gas(10_000_000),
        attack("creations of 64 MiB of packed zeros", "A stream of a few bytes unpacks to megabytes.", again_and_again(&zeros)).gas(10_000_000),
        attack("creation of four gigabytes", "The length of the data wraps.", creates(&small, "(call $create1 (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 64) (i32.const 96)) i32.const 0")).gas(100_000_000),
        attack("creation from beyond memory", "Data of a creation is read from beyond memory.", creates(&small, "(call $create1 (i32.const 1048570) (i32.const 10) (i32.const 0) (i32.const 64) (i32.const 96)) i32.const 0")),
    ]
}

/// Calls precompiles with the inputs that take longest.
fn precompiles() -> Vec<Attack> {
    let calls = |number: u8, input: u32, prepare: &str| {
        of("4", &format!("(i32.store8 (i32.const 19) (i32.const {number})) {prepare} {}", again(&all(input))))
    };
    let word = |at: u32, value: u32| {
        format!("(i32.store8 (i32.const {}) (i32.const {}))", 256 + at + 31, value & 255)
            + &format!("(i32.store8 (i32.const {}) (i32.const {}))", 256 + at + 30, value >> 8)
    };
    let ones = |at: u32, length: u32| format!("(memory.fill (i32.const {}) (i32.const 255) (i32.const {length}))", 256 + at);
    vec![
        attack(
            "recovery of a signature",
            "Recovering a key is the dearest thing for its price.",
            calls(1, 128, &format!("{} {} {}", word(32, 27), word(64, 7), word(96, 9))),
        ),
        attack("SHA-256 of 128 KiB", "Hashing is cheap by the word.", calls(2, 131_072, "")),
        attack("RIPEMD-160 of 128 KiB", "The same with an old hash.", calls(3, 131_072, "")),
        attack("copies by the identity", "A copy is cheap by the word.", calls(4, 131_072, "")),
        attack(
            "powers modulo 256 bytes",
            "A large exponent and an even modulus.",
            calls(5, 96 + 3 * 256, &format!("{} {} {} {}", word(0, 256), word(32, 256), word(64, 256), ones(96, 3 * 256 - 1))),
        ),
        attack(
            "powers modulo a kilobyte",
            "A length decides the price, the value the time.",
            calls(
                5,
                96 + 1_024 + 32 + 1_024,
                &format!("{} {} {} {}", word(0, 1_024), word(32, 32), word(64, 1_024), ones(96, 2_080)),
            ),
        ),
        attack("powers of four gigabytes", "A length of four gigabytes is allocated.", calls(5, 96, &ones(0, 96))),
        attack("points that are on no curve", "A check that fails costs nothing.", calls(6, 128, &ones(0, 128))),
        attack(
            "multiplications on a curve",
            "The largest factor.",
            calls(7, 96, &format!("{} {} {}", word(0, 1), word(32, 2), ones(64, 32))),
        ),
        attack("pairings of nothing", "An empty pairing pays its base price.", calls(8, 0, "")),
        attack("pairings of the neutral points", "Points at infinity are skipped.", calls(8, 1_920, "")),
        attack("compression of four billion rounds", "A number of rounds decides the price.", calls(9, 213, &ones(0, 4))),
        attack("compression of a few rounds", "The base price of a compression is too low.", calls(9, 213, "")),
    ]
}
