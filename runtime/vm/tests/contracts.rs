//! The contracts of `contracts/`, built for WebAssembly, on the virtual machine.
// The measurements need a clock, a thread with a large stack, and output; test helpers unwrap.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod common;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use common::{CONTRACT, GAS, SENDER, TestHost, TestState, context, engine, input, selector, wasm};
use corniche_vm::host::{Exit, ExitStatus, FrameContext, Limits};
use corniche_vm::wasm::{CONSTRUCTOR_SELECTOR, Entry, PRELUDE, parse_creation};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::time::Instant;

const ALICE: Address = Address::repeat_byte(0xa1);

fn number(value: u64) -> U256 {
    U256::from(value)
}

fn address(value: Address) -> U256 {
    U256::from_be_slice(value.as_slice())
}

/// A contract in its world.
struct Deployed {
    wasm: Vec<u8>,
    world: TestState,
}

impl Deployed {
    fn new(name: &str) -> Self {
        Self { wasm: wasm(name), world: TestState::default() }
    }

    /// Sends one transaction; all keys are cold at its start.
    fn send(&mut self, from: Address, input: &[u8]) -> Exit {
        self.world.warm.clear();
        self.world.run_in(&self.wasm, FrameContext { caller: from, origin: from, ..context() }, input, GAS)
    }

    fn must(&mut self, from: Address, input: &[u8]) -> Bytes {
        let exit = self.send(from, input);
        assert_eq!(exit.status, ExitStatus::Return, "{}", exit.output);
        exit.output
    }

    fn read(&mut self, signature: &str, words: &[U256]) -> U256 {
        let exit = self.world.run_static(&self.wasm, &input(signature, words));
        assert_eq!(exit.status, ExitStatus::Return);
        U256::from_be_slice(&exit.output)
    }
}

fn token() -> Deployed {
    let mut token = Deployed::new("erc20");
    token.must(SENDER, &constructor_input());
    token
}

/// constructor("Cornice", "CRN", 1000)
fn constructor_input() -> Vec<u8> {
    [&CONSTRUCTOR_SELECTOR[..], &constructor_arguments()].concat()
}

fn constructor_arguments() -> Vec<u8> {
    let text = |value: &str| {
        let mut word = [0; 32];
        word[..value.len()].copy_from_slice(value.as_bytes());
        [number(value.len() as u64).to_be_bytes::<32>(), word].concat()
    };
    let head = [96, 160, 1_000].map(|word| number(word).to_be_bytes::<32>());
    [head.concat(), text("Cornice"), text("CRN")].concat()
}

#[test]
fn counter_increments() {
    let mut counter = Deployed::new("counter");
    assert_eq!(counter.read("number()", &[]), number(0));
    counter.must(ALICE, &input("increment()", &[]));
    counter.must(ALICE, &input("add(uint256)", &[number(41)]));
    assert_eq!(counter.read("number()", &[]), number(42));
    let (from, topics, data) = &counter.world.logs[1];
    assert_eq!((*from, topics[0]), (CONTRACT, keccak256("Incremented(address,uint256)")));
    assert_eq!((topics[1], U256::from_be_slice(data)), (ALICE.into_word(), number(42)));
    // Slot 0, as in Solidity's storage layout.
    assert_eq!(counter.world.storage[&(CONTRACT, B256::ZERO)], B256::from(number(42)));
}

#[test]
fn counter_reverts_with_named_error() {
    let mut counter = Deployed::new("counter");
    counter.must(ALICE, &input("add(uint256)", &[U256::MAX]));
    let exit = counter.send(ALICE, &input("increment()", &[]));
    assert_eq!(exit.status, ExitStatus::Revert);
    assert_eq!(exit.output[..4], selector("CounterOverflow(uint256,uint256)"));
    assert!(exit.gas_left > GAS / 2);
    assert_eq!(counter.send(ALICE, &input("nothing()", &[])).status, ExitStatus::Revert);
    assert_eq!(counter.send(ALICE, b"").status, ExitStatus::Revert);
}

#[test]
fn static_call_rejects_write() {
    let counter = Deployed::new("counter");
    let exit = TestState::default().run_static(&counter.wasm, &input("increment()", &[]));
    assert!(matches!(exit.status, ExitStatus::Trap(_)));
}

#[test]
fn token_constructor_runs_once() {
    let mut token = token();
    assert_eq!(token.read("totalSupply()", &[]), number(1_000));
    assert_eq!(token.read("balanceOf(address)", &[address(SENDER)]), number(1_000));
    assert_eq!(token.read("decimals()", &[]), number(18));
    let exit = token.world.run_static(&token.wasm, &input("name()", &[]));
    assert_eq!((exit.output[63], &exit.output[64..71]), (7, &b"Cornice"[..]));
    let exit = token.world.run_static(&token.wasm, &input("symbol()", &[]));
    assert_eq!((exit.output[63], &exit.output[64..67]), (3, &b"CRN"[..]));
    assert_ne!(token.send(ALICE, &constructor_input()).status, ExitStatus::Return);
}

#[test]
fn token_transfers_and_errors() {
    let mut token = token();
    let transferred = token.must(SENDER, &input("transfer(address,uint256)", &[address(ALICE), number(10)]));
    assert_eq!(U256::from_be_slice(&transferred), number(1));
    assert_eq!(token.read("balanceOf(address)", &[address(ALICE)]), number(10));
    assert_eq!(token.read("balanceOf(address)", &[address(SENDER)]), number(990));
    let (_, topics, data) = token.world.logs.last().unwrap();
    assert_eq!(topics[..], [keccak256("Transfer(address,address,uint256)"), SENDER.into_word(), ALICE.into_word()]);
    assert_eq!(U256::from_be_slice(data), number(10));

    let exit = token.send(ALICE, &input("transfer(address,uint256)", &[address(SENDER), number(11)]));
    assert_eq!(exit.status, ExitStatus::Revert);
    let want = input("ERC20InsufficientBalance(address,uint256,uint256)", &[address(ALICE), number(10), number(11)]);
    assert_eq!(exit.output, want);
    assert_eq!(token.read("balanceOf(address)", &[address(ALICE)]), number(10));
}

#[test]
fn allowances_are_spent() {
    let mut token = token();
    token.must(SENDER, &input("approve(address,uint256)", &[address(ALICE), number(100)]));
    let (_, topics, _) = token.world.logs.last().unwrap();
    assert_eq!(topics[0], keccak256("Approval(address,address,uint256)"));
    let bob = Address::repeat_byte(0xb0);
    token.must(ALICE, &input("transferFrom(address,address,uint256)", &[address(SENDER), address(bob), number(60)]));
    assert_eq!(token.read("allowance(address,address)", &[address(SENDER), address(ALICE)]), number(40));
    assert_eq!(token.read("balanceOf(address)", &[address(bob)]), number(60));
    let exit = token.send(ALICE, &input("transferFrom(address,address,uint256)", &[address(SENDER), address(bob), number(60)]));
    assert_eq!(exit.output[..4], selector("ERC20InsufficientAllowance(address,uint256,uint256)"));
}

#[test]
fn parses_real_creation_data() {
    let wasm = wasm("erc20");
    let mut prelude = PRELUDE;
    prelude[25..33].copy_from_slice(&(wasm.len() as u64).to_be_bytes());
    // The prelude is stored as sent; it accepts raw wasm as well as compressed code.
    let creation = parse_creation(&[&prelude[..], &wasm, &constructor_arguments()].concat()).unwrap();
    assert_eq!((creation.wasm, creation.constructor_input.unwrap().to_vec()), (wasm, constructor_input()));
}

#[test]
fn garbage_calldata_never_faults() {
    let mut token = token();
    let mut random = SplitMix64::seed_from_u64(3);
    for signature in ["transfer(address,uint256)", "approve(address,uint256)", "balanceOf(address)", "name()"] {
        for length in [0, 1, 31, 32, 63, 64, 65, 500] {
            let mut garbage = vec![0; length];
            random.fill_bytes(&mut garbage);
            let data = [&selector(signature)[..], &garbage].concat();
            let exit = token.send(ALICE, &data);
            assert!(!matches!(exit.status, ExitStatus::Fault(_)), "{signature} {length}: {:?}", exit.status);
        }
    }
}

fn mint(max_supply: u64) -> Deployed {
    let mut mint = Deployed::new("mint");
    let arguments = number(max_supply).to_be_bytes::<32>();
    mint.must(SENDER, &[&CONSTRUCTOR_SELECTOR[..], &arguments].concat());
    mint
}

/// Slot of the total supply, the second field.
const SUPPLY: (Address, B256) = (CONTRACT, B256::with_last_byte(1));

#[test]
fn both_mint_variants_agree() {
    let run = |signature: &str| {
        let mut mint = mint(3);
        let ids: Vec<Bytes> = [ALICE, SENDER, ALICE].map(|who| mint.must(who, &input(signature, &[]))).into();
        let sold_out = mint.send(ALICE, &input(signature, &[]));
        assert_eq!((sold_out.status, &sold_out.output[..]), (ExitStatus::Revert, &selector("SoldOut()")[..]));
        assert_eq!(mint.read("totalSupply()", &[]), number(3));
        assert_eq!(mint.read("mintedBy(address)", &[address(ALICE)]), number(2));
        assert_eq!(mint.read("ownerOf(bytes32)", &[U256::from_be_slice(&ids[2])]), address(ALICE));
        (ids, mint.world.storage, mint.world.logs)
    };
    assert_eq!(run("mint()"), run("mintPlain()"));
}

#[test]
fn mint_does_not_read_supply() {
    let mut mint = mint(10);
    mint.must(ALICE, &input("mint()", &[]));
    // Counts the calls of each host function.
    let calls = |mint: &mut Deployed, signature: &str| {
        mint.world.events.clear();
        let loads = mint.world.loads.len();
        mint.must(ALICE, &input(signature, &[]));
        let counts = mint.world.events.iter().filter(|event| event.name == "counter_add").count();
        (counts, mint.world.loads[loads..].contains(&SUPPLY))
    };
    assert_eq!(calls(&mut mint, "mint()"), (1, false));
    assert_eq!(calls(&mut mint, "mintPlain()"), (0, true));
}

#[test]
fn burn_frees_supply() {
    let mut mint = mint(1);
    let id = U256::from_be_slice(&mint.must(ALICE, &input("mint()", &[])));
    let stolen = mint.send(SENDER, &input("burn(bytes32)", &[id]));
    assert_eq!((stolen.status, &stolen.output[..4]), (ExitStatus::Revert, &selector("NotOwner(bytes32)")[..]));
    mint.must(ALICE, &input("burn(bytes32)", &[id]));
    assert_eq!(mint.world.storage[&SUPPLY], B256::ZERO);
    assert_eq!(mint.send(ALICE, &input("burn(bytes32)", &[id])).status, ExitStatus::Revert);
    mint.must(SENDER, &input("mint()", &[]));
}

/// Measures nanoseconds per gas, instruction by instruction: `cargo test -p corniche-vm --test contracts -- --ignored
/// --nocapture`. `corniche bench exec --vm-only` measures complete contracts.
#[test]
#[ignore = "prints figures"]
fn measure() {
    const ROUNDS: u32 = 2_000;
    let time = move |name: &str, wasm: &[u8], world: &mut TestState, data: &[u8], gas: u64| {
        let contract = engine().contract(&keccak256(wasm), wasm).unwrap();
        let engine = engine();
        let mut used = 0;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            world.warm.clear();
            world.events.clear();
            world.logs.clear();
            let context = FrameContext { caller: SENDER, ..context() };
            let entry = Entry { input: Bytes::copy_from_slice(data), gas, limits: Limits::TRANSACTION };
            used = gas - engine.run(&contract, &mut TestHost { world, context }, entry).gas_left;
        }
        let each = start.elapsed() / ROUNDS;
        println!("{name}: {used} gas, {each:?}, {:.1} ns per gas", each.as_nanos() as f64 / used as f64);
    };
    let body = std::thread::Builder::new().stack_size(corniche_vm::THREAD_STACK_BYTES * 2).spawn(move || {
        let busy = |name: &str, imports: &str, locals: &str, body: &str| {
            let wasm = common::module(imports, &format!("{locals} (loop $again {} (br $again)) i32.const 0", body.repeat(16)));
            time(name, &wasm, &mut TestState::default(), b"abc", 30_000);
        };
        busy("nothing", "", "", "");
        busy("add", "", "(local i64)", "(local.set 1 (i64.add (local.get 1) (i64.const 3)))");
        busy("mul", "", "(local i64)", "(local.set 1 (i64.mul (local.get 1) (i64.const 3)))");
        busy("div", "", "(local i64)", "(local.set 1 (i64.div_u (i64.const -1) (i64.or (local.get 1) (i64.const 3))))");
        busy("load", "", "(local i32)", "(local.set 1 (i32.load (local.get 1)))");
        busy("load over pages", "", "(local i32)", "(local.set 1 (i32.and (i32.add (local.get 1) (i32.const 4160)) (i32.const 65535))) (drop (i32.load (local.get 1)))");
        busy("store", "", "(local i32)", "(i32.store (local.get 1) (local.get 1))");
        busy("branch", "", "", "(block (br_if 0 (local.get 0)))");
        busy("branch table", "", "(local i32)", "(local.set 1 (i32.add (local.get 1) (i32.const 7))) (block (block (br_table 0 1 0 1 (i32.and (local.get 1) (i32.const 3)))))");
        busy("grow by nothing", "", "", "(drop (memory.grow (i32.const 0)))");
        busy("copy", "", "", "(memory.copy (i32.const 0) (i32.const 32768) (i32.const 32768))");
        busy("fill 8", "", "", "(memory.fill (i32.const 0) (i32.const 1) (i32.const 8))");
        busy("global", "(global $g (mut i32) (i32.const 0))", "", "(global.set $g (global.get $g))");
        busy("call", "(func $f (param i32) (result i32) (local.get 0))", "", "(drop (call $f (local.get 0)))");
        busy("counted call", "(func $e) (func $f (param i32) (result i32) (call $e) (local.get 0))", "", "(drop (call $f (local.get 0)))");
        busy("host call", r#"(import "vm_hooks" "chainid" (func $f (result i64)))"#, "", "(drop (call $f))");
        busy("host pointer", r#"(import "vm_hooks" "msg_value" (func $f (param i32)))"#, "", "(call $f (i32.const 0))");
        busy("host cache", r#"(import "vm_hooks" "storage_cache_bytes32" (func $f (param i32 i32)))"#, "", "(call $f (i32.const 0) (i32.const 0))");
        busy("keccak 32", r#"(import "vm_hooks" "native_keccak256" (func $f (param i32 i32 i32)))"#, "", "(call $f (i32.const 0) (i32.const 32) (i32.const 0))");
        busy("keccak 4096", r#"(import "vm_hooks" "native_keccak256" (func $f (param i32 i32 i32)))"#, "", "(call $f (i32.const 0) (i32.const 4096) (i32.const 0))");
        busy("mul mod", r#"(import "vm_hooks" "math_mul_mod" (func $f (param i32 i32 i32)))"#, "(i64.store (i32.const 0) (i64.const -1)) (i64.store (i32.const 56) (i64.const -1)) (i64.store (i32.const 80) (i64.const -1))", "(call $f (i32.const 0) (i32.const 32) (i32.const 64))");
        busy("write result", r#"(import "vm_hooks" "write_result" (func $f (param i32 i32)))"#, "", "(call $f (i32.const 0) (i32.const 32768))");
        let big = common::wat(r#"(module (memory (export "memory") 128) (func (export "user_entrypoint") (param i32) (result i32)
            (loop $again (i32.store (local.get 0) (i32.const 1)) (local.set 0 (i32.add (local.get 0) (i32.const 4096))) (br_if $again (i32.lt_u (local.get 0) (i32.const 8388608)))) i32.const 0))"#);
        time("128 touched pages", &big, &mut TestState::default(), b"", GAS);
        let empty = common::module("", "i32.const 0");
        time("empty frame", &empty, &mut TestState::default(), b"", GAS);
    });
    body.unwrap().join().unwrap();
}
