//! Uses the harness like an author of contracts, with WebAssembly builds of `contracts/`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // the environment has the paths of the modules; test helpers unwrap

use alloy_sol_types::sol;
use corniche_harness::{Address, Chain, Contract, STAKING_ADDRESS, Staking, StakingParameters, U256, validator_keys};
use std::path::{Path, PathBuf};

sol! {
    function transfer(address to, uint256 value) returns (bool);
    function transferFrom(address from, address to, uint256 value) returns (bool);
    function approve(address spender, uint256 value) returns (bool);
    function balanceOf(address account) returns (uint256);
    function totalSupply() returns (uint256);
    event Transfer(address indexed from, address indexed to, uint256 value);
    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    error ERC20InvalidReceiver(address receiver);

    struct Call3 { address target; bool allowFailure; bytes callData; }
    struct Result3 { bool success; bytes returnData; }
    function aggregate3(Call3[] calls) returns (Result3[] memory);
    function getCurrentBlockTimestamp() returns (uint256);
}

fn contract(name: &str) -> Contract {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let modules = std::env::var_os("CONTRACTS_WASM_DIR")
        .map(PathBuf::from)
        .unwrap_or_else(|| repository.join("target/contracts/wasm32-unknown-unknown/release"));
    let module = modules.join(format!("{name}.wasm"));
    let contract =
        Contract::open(&module).unwrap_or_else(|error| panic!("{error}; run `make contracts`, or set CONTRACTS_WASM_DIR"));
    let abi = std::fs::read_to_string(repository.join("contracts").join(name).join("abi.json"));
    abi.map_or(contract.clone(), |json| contract.with_abi(&json).unwrap())
}

/// A chain with a token; alice owns all 1,000 units.
fn token() -> (Chain, [Address; 2], Address) {
    let mut chain = Chain::new();
    let people = ["alice", "bob"].map(|name| chain.account(name));
    let supply = U256::from(1_000);
    let token = chain.by(people[0]).deploy(&contract("erc20"), ("Cornice".to_owned(), "CRN".to_owned(), supply)).unwrap();
    (chain, people, token)
}

fn balance(chain: &Chain, token: Address, account: Address) -> u64 {
    chain.view(token, balanceOfCall { account }).to()
}

#[test]
fn deploy_call_send_and_events() {
    let (mut chain, [alice, bob], token) = token();
    assert_eq!(balance(&chain, token, alice), 1_000, "its constructor ran");
    let sent = chain.by(alice).send(token, transferCall { to: bob, value: U256::from(10) }).unwrap();
    assert!(sent.output && sent.gas_used > 21_000);
    let [told] = &sent.events_of::<Transfer>(token)[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.from, told.to, told.value), (alice, bob, U256::from(10)));
    assert!(sent.events_of::<Transfer>(alice).is_empty());
    assert_eq!((balance(&chain, token, alice), balance(&chain, token, bob)), (990, 10));
}

#[test]
fn revert_has_error_and_trace() {
    let (mut chain, [alice, bob], token) = token();
    let failed = chain.by(bob).send(token, transferCall { to: alice, value: U256::from(7) }).unwrap_err();
    let error: ERC20InsufficientBalance = failed.error().unwrap();
    assert_eq!((error.sender, error.needed), (bob, U256::from(7)));
    assert!(failed.error::<ERC20InvalidReceiver>().is_none());
    assert_eq!(balance(&chain, token, bob), 0);
    let told = format!("{failed:?}");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "the transaction failed:");
    assert!(lines[1].starts_with("bob → [") && lines[1].ends_with("] erc20.transfer(to: alice, value: 7)"), "{told}");
    assert_eq!(lines[2], "✗ ERC20InsufficientBalance(sender: bob, balance: 0, needed: 7)");
}

/// Calls through a contract that calls others. One of these calls fails, and the contract ignores the failure.
#[test]
fn trace_shows_nested_calls() {
    let (mut chain, [alice, bob], token) = token();
    let many = chain.by(alice).deploy(&contract("multicall3"), ()).unwrap();
    chain.by(alice).send(token, transferCall { to: many, value: U256::from(5) }).unwrap();
    let pay = |value: u64| {
        use alloy_sol_types::SolCall;
        let call = transferCall { to: bob, value: U256::from(value) };
        Call3 { target: token, allowFailure: true, callData: call.abi_encode().into() }
    };
    let sent = chain.by(alice).send(many, aggregate3Call { calls: vec![pay(4), pay(4)] }).unwrap();
    assert_eq!(sent.output.iter().map(|result| result.success).collect::<Vec<_>>(), [true, false]);
    let told = corniche_harness::format_trace(chain.book(), &sent.trace.unwrap());
    let gasless: Vec<String> = told.lines().map(without_gas).collect();
    assert!(gasless[0].starts_with("alice → multicall3."), "{told}");
    let expected = [
        "├─ erc20.transfer(to: bob, value: 4) → true",
        "│  · Transfer(from: multicall3, to: bob, value: 4)",
        "└─ erc20.transfer(to: bob, value: 4)",
        "   ✗ ERC20InsufficientBalance(sender: multicall3, balance: 1, needed: 4)",
    ];
    assert_eq!(gasless[1..], expected, "{told}");
}

fn without_gas(line: &str) -> String {
    match (line.find('['), line.find("] ")) {
        (Some(open), Some(close)) if open < close => format!("{}{}", &line[..open], &line[close + 2..]),
        _ => line.into(),
    }
}

#[test]
fn clone_is_snapshot() {
    let (mut chain, [alice, bob], token) = token();
    let before = chain.clone();
    chain.by(alice).send(token, transferCall { to: bob, value: U256::from(1) }).unwrap();
    assert_eq!((balance(&chain, token, bob), balance(&before, token, bob)), (1, 0));
    assert_eq!((chain.height(), chain.time()), (before.height() + 1, before.time() + 1));
}

#[test]
fn clock_can_be_advanced() {
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let many = chain.by(alice).deploy(&contract("multicall3"), ()).unwrap();
    let seen = |chain: &Chain| chain.view(many, getCurrentBlockTimestampCall {}).to::<u64>();
    let before = seen(&chain);
    assert_eq!(before, chain.time());
    chain.advance(86_400);
    assert_eq!(seen(&chain), before + 86_400);
    chain.mine(10);
    assert_eq!((seen(&chain), chain.height()), (before + 86_410, 12));
}

#[test]
fn gas_is_free_unless_priced() {
    let mut chain = Chain::new();
    let [alice, bob] = ["alice", "bob"].map(|name| chain.account(name));
    let wealth = chain.balance(alice);
    chain.by(alice).value(U256::from(5)).send_raw(bob, []).unwrap();
    assert_eq!((chain.balance(alice), chain.balance(bob)), (wealth - U256::from(5), wealth + U256::from(5)));
    chain.gas_price(2_000_000_000);
    let sent = chain.by(alice).send_raw(bob, []).unwrap();
    assert_eq!(sent.gas_used, 21_000);
    assert_eq!(chain.balance(alice), wealth - U256::from(5) - U256::from(21_000 * 2_000_000_000_u64));
    let poor = chain.account("poor");
    chain.set_balance(poor, U256::from(1));
    let failed = chain.by(poor).send_raw(bob, []).unwrap_err();
    assert!(failed.to_string().contains("Underfunded"), "{failed}");
}

#[test]
fn gas_report_detects_changes() {
    let (mut chain, [alice, bob], token) = token();
    let pay = |chain: &mut Chain, value: u64| {
        chain.by(alice).send(token, transferCall { to: bob, value: U256::from(value) }).unwrap().gas_used
    };
    let (first, second) = (pay(&mut chain, 1), pay(&mut chain, 1));
    let used = chain.gas().of("erc20.transfer").unwrap();
    assert_eq!((used.calls, used.min, used.max, used.total), (2, second, first, first + second), "bob's slot is new once");
    assert!(chain.gas().of("erc20: deployment").is_some());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gas.txt");
    chain.gas().assert_matches_file(&file);
    chain.gas().assert_matches_file(&file);
    pay(&mut chain, 1);
    let report = chain.gas().clone();
    let differs = std::panic::catch_unwind(|| report.assert_matches_file(&file)).unwrap_err();
    let said = differs.downcast_ref::<String>().unwrap();
    assert!(said.contains("UPDATE_GAS=1") && said.contains("- erc20.transfer") && said.contains("+ erc20.transfer"), "{said}");
}

#[test]
fn invalid_contract_is_rejected_with_reason() {
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let failed = chain.by(alice).deploy(&Contract::new("nonsense", &b"\0asm\x01\0\0\0"[..]), ()).unwrap_err();
    assert!(failed.to_string().contains("user_entrypoint") || failed.to_string().contains("memory"), "{failed}");
}

/// Builds a crate and deploys it, as `in_this_crate` does for authors.
#[test]
fn crate_is_built_and_deployed() {
    let many = Contract::in_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/multicall3")).unwrap();
    assert!(many.name == "multicall3" && many.wasm.starts_with(b"\0asm"));
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let many = chain.by(alice).deploy(&many, ()).unwrap();
    assert_eq!(chain.view(many, getCurrentBlockTimestampCall {}).to::<u64>(), chain.time());
}

sol! {
    function certifiedHash(uint64 number) returns (bytes32);
}

/// Takes a number in ABI encoding; returns the hash of that header, or fails.
const CERTIFIED: &str = r#"(module
    (import "vm_hooks" "read_args" (func $read_args (param i32)))
    (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
    (import "corniche" "certified_hash" (func $certified_hash (param i64 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "user_entrypoint") (param i32) (result i32)
        (call $read_args (i32.const 0))
        (call $write_result (i32.const 64) (i32.const 32))
        (call $certified_hash
            (i64.or (i64.extend_i32_u (i32.load8_u (i32.const 35))) (i64.shl (i64.extend_i32_u (i32.load8_u (i32.const 34))) (i64.const 8)))
            (i32.const 64))
        (call $write_result (i32.const 64) (i32.const 32))))"#;

#[test]
fn past_headers_are_certified() {
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let asks = Contract::new("asks", wat::parse_str(CERTIFIED).unwrap());
    let asks = chain.by(alice).deploy(&asks, ()).unwrap();
    chain.mine(100);
    let told = |chain: &mut Chain, number: u64| chain.by(alice).call(asks, certifiedHashCall { number }).ok();
    let height = chain.height();
    for number in [1, 2, height - 65] {
        let header = chain.header(number).unwrap();
        assert_eq!(told(&mut chain, number), Some(alloy_primitives::keccak256(&header)), "{number}");
    }
    // The genesis has no header here, and the newest blocks are not certified yet.
    assert_eq!([0, height - 64, height].map(|number| told(&mut chain, number)), [None; 3]);
    assert!(chain.header(height - 1).is_some() && chain.header(height).is_none() && chain.header(0).is_none());

    let own = corniche_harness::B256::repeat_byte(7);
    chain.set_certified_hash(9, own);
    chain.set_certified_hash(height - 64, own);
    assert_eq!((told(&mut chain, 9), told(&mut chain, height - 64)), (Some(own), None), "where its block allows it");
}

/// A validator from its registration to its first reward, and a stake that is free after two epochs.
#[test]
fn epochs_of_staking_pay_rewards_and_free_stake() {
    let vote = U256::from(10).pow(U256::from(18));
    let mut chain = Chain::with_staking(StakingParameters {
        epoch_ms: 10_000,
        closing_ms: 1_000,
        unbonding_epochs: 2,
        vote_wei: vote,
        reward_wei: U256::from(7),
        ..StakingParameters::default()
    });
    let [alice, fee] = ["alice", "fee"].map(|name| chain.account(name));
    let (start, before) = (chain.time(), chain.balance(fee));
    let keys = validator_keys("alice's validator", alice, 31_337);
    let register = Staking::registerCall { keys, fee, operator: alice };
    let id = chain.by(alice).value(vote * U256::from(2)).send(STAKING_ADDRESS, register).unwrap().output;
    assert_eq!(id, 4, "the genesis has 0 to 3");

    chain.end_epoch();
    assert_eq!(chain.view(STAKING_ADDRESS, Staking::epochCall {}).epoch, 1);
    assert!(chain.time() > start + 10, "the clock is after the end");
    assert_eq!(chain.balance(fee), before);
    chain.end_epoch();
    assert_eq!(chain.balance(fee), before + U256::from(7), "it was a member in epoch 1");

    chain.by(alice).send(STAKING_ADDRESS, Staking::unbondCall { id, amount: vote }).unwrap();
    for _ in 0..2 {
        chain.end_epoch();
        let early = chain.by(alice).send(STAKING_ADDRESS, Staking::withdrawCall { id }).unwrap_err();
        assert!(early.error::<Staking::NothingFree>().is_some());
    }
    chain.end_epoch();
    assert_eq!(chain.by(alice).send(STAKING_ADDRESS, Staking::withdrawCall { id }).unwrap().output, vote);
}
