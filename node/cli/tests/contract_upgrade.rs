//! Upgrade as its owner does it: the steps of `docs/upgrade-a-contract.md`, with the contracts of
//! `contracts/proxy`.

mod common;

use alloy_primitives::{hex, keccak256};
use common::Terminal;
use std::path::{Path, PathBuf};

const ALICE: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const BOB: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

impl Terminal {
    /// Contract of `contracts/proxy`, with an embedded ABI.
    fn deploy(&self, name: &str, arguments: &[&str]) -> String {
        self.says(&[&["contract", "deploy", module(name).to_str().unwrap()], arguments, &["--dev-account"]].concat())
    }

    fn call(&self, words: &[&str]) -> String {
        self.says(&[&["contract", "call"], words].concat())
    }

    /// Sends from the development account with this number.
    fn send(&self, words: &[&str], account: &str) -> String {
        self.says(&[&["contract", "send"], words, &["--dev-account", account]].concat())
    }
}

/// Module of `contracts/proxy`.
fn module(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = std::env::var_os("CONTRACTS_WASM_DIR")
        .map_or_else(|| here.join("target/contracts/wasm32-unknown-unknown/release"), PathBuf::from);
    let module = built.join(format!("{name}.wasm"));
    assert!(module.exists(), "run `make contracts`, or set CONTRACTS_WASM_DIR");
    module
}

#[test]
fn proxy_upgrade_is_transparent() {
    let terminal = Terminal::new();
    let v1 = terminal.deploy("savings_v1", &[]);
    let initialize = terminal.says(&["contract", "encode", "initialize(address)", ALICE]);
    let proxy = terminal.deploy("proxy", &[&v1, &initialize]);

    // The proxy's own code says little, so the implementation's address is printed too.
    let output = terminal.run(&["contract", "verify", &proxy, module("proxy").to_str().unwrap()]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.contains(&format!("{proxy} is a proxy")) && told.contains(&v1), "{told}");

    // By the function names of the implementation, through the proxy.
    assert_eq!(terminal.call(&[&proxy, "owner"]), ALICE);
    let paid = terminal.send(&[&proxy, "deposit", "--value", "500"], "1");
    assert_eq!(terminal.call(&[&proxy, "balanceOf", BOB]), "500");
    let (code, told) = terminal.refuses(&["contract", "send", &proxy, "withdraw", "501", "--dev-account", "1"]);
    assert!(code == 3 && told.contains("InsufficientSavings(500, 501)"), "{told}");
    let told = terminal.says(&["contract", "logs", &proxy]);
    for line in [
        format!("Upgraded(implementation: {v1})"),
        "Initialized(version: 1)".into(),
        format!("Deposited(by: {BOB}, value: 500)"),
    ] {
        assert!(told.contains(&line), "{line} in\n{told}");
    }
    let labels = [format!("{proxy}=box"), format!("{v1}=v1"), format!("{BOB}=bob")];
    let told =
        terminal.says(&["contract", "trace", &paid, "--label", &labels[0], "--label", &labels[1], "--label", &labels[2]]);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("bob → [") && lines[0].ends_with("] box.deposit() with 500 wei"), "{told}");
    assert!(lines[1].starts_with("└─ [") && lines[1].contains("] delegate v1.deposit() with 500 wei"), "{told}");
    assert_eq!(lines[2].trim(), "· Deposited(by: bob, value: 500)", "{told}");

    let (code, told) = terminal.refuses(&["contract", "send", &v1, "initialize", BOB, "--dev-account", "1"]);
    assert!(code == 3 && told.contains("UUPSUnauthorizedCallContext()"), "{told}");

    let v2 = terminal.deploy("savings_v2", &[]);
    let migrate = terminal.says(&["contract", "encode", "migrate(uint64)", "60"]);
    let (code, told) = terminal.refuses(&["contract", "send", &proxy, "upgradeToAndCall", &v2, &migrate, "--dev-account", "1"]);
    assert!(code == 3 && told.contains(&format!("OwnableUnauthorizedAccount({BOB})")), "{told}");
    terminal.send(&[&proxy, "upgradeToAndCall", &v2, &migrate], "0");
    assert_eq!(terminal.call(&[&proxy, "version"]), "2");
    assert_eq!(terminal.call(&[&proxy, "delay"]), "60");
    assert_eq!(terminal.call(&[&proxy, "balanceOf", BOB]), "500");
}

#[test]
fn calldata_is_encoded() {
    let terminal = Terminal::new();
    let told = terminal.says(&["contract", "encode", "migrate(uint64)", "60"]);
    let selector = hex::encode(&keccak256("migrate(uint64)")[..4]);
    assert_eq!(told, format!("0x{selector}{:064x}", 60));
    let abi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/proxy/savings-v2/abi.json");
    assert_eq!(terminal.says(&["contract", "encode", "migrate", "60", "--abi", abi.to_str().unwrap()]), told);
    let (_, told) = terminal.refuses(&["contract", "encode", "migrate", "60"]);
    assert!(told.contains("with its types") && told.contains("--abi"), "{told}");
    let (_, told) = terminal.refuses(&["contract", "encode", "migrate(uint64)"]);
    assert!(told.contains("0 arguments given, 1 expected"), "{told}");
}
