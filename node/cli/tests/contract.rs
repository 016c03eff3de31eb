//! `corniche contract` and `corniche account` as users run them, with a development chain: deploying,
//! calling, logs and traces with the ABI embedded in modules.

mod common;

use alloy_primitives::{Address, hex, keccak256};
use common::{Node, Terminal};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
};

const ALICE: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const BOB: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const MULTICALL: &str = "0xcA11bde05977b3631167028862bE2a173976CA11";
const AGGREGATE: &str = "aggregate((address,bytes)[])";

impl Terminal {
    /// Contract of `contracts/` with an embedded ABI, as a file here.
    fn module(&self, name: &str) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let built = std::env::var_os("CONTRACTS_WASM_DIR")
            .map_or_else(|| here.join("target/contracts/wasm32-unknown-unknown/release"), PathBuf::from);
        let wasm = std::fs::read(built.join(format!("{name}.wasm"))).expect("run `make contracts`, or set CONTRACTS_WASM_DIR");
        let abi = std::fs::read(here.join(format!("contracts/{name}/abi.json"))).unwrap();
        let path = self.folder.path().join(format!("{name}.wasm"));
        std::fs::write(&path, corniche_abi::interface::embed(&wasm, &abi)).unwrap();
        path
    }

    fn deploy(&self, name: &str, arguments: &[&str]) -> String {
        let module = self.module(name);
        let words = [&["contract", "deploy", module.to_str().unwrap()], arguments, &["--dev-account"]].concat();
        self.says(&words)
    }
}

#[test]
fn functions_are_called_by_name() {
    let terminal = Terminal::new();
    let counter = terminal.deploy("counter", &[]);
    assert_eq!(terminal.says(&["contract", "call", &counter, "number"]), "0");
    terminal.says(&["contract", "send", &counter, "add", "41", "--dev-account", "1"]);
    terminal.says(&["contract", "send", &counter, "increment", "--dev-account"]);
    assert_eq!(terminal.says(&["contract", "call", &counter, "number"]), "42");
    assert_eq!(terminal.says(&["contract", "call", &counter, "number()(uint256)"]), "42", "signatures need no ABI");

    let (code, told) = terminal.refuses(&["contract", "call", &counter, "numbr"]);
    assert!(code == 1 && told.contains("it has add, increment, number"), "{told}");
    let (_, told) = terminal.refuses(&["contract", "call", BOB, "number"]);
    assert!(told.contains("there is no contract"), "{told}");
    let (_, told) = terminal.refuses(&["contract", "call", MULTICALL, "aggregate"]);
    assert!(told.contains("carries no ABI") && told.contains("'aggregate(address)(uint256)'"), "{told}");
    // Refused before it is sent, with the error decoded by the contract's ABI.
    let most = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
    let (code, told) = terminal.refuses(&["contract", "send", &counter, "add", most, "--dev-account"]);
    assert!(code == 3 && told.contains(&format!("CounterOverflow(42, {most})")), "{told}");
    // Decoded in the same way once it is in a block.
    let (code, told) = terminal.refuses(&["contract", "send", &counter, "add", most, "--dev-account", "--gas", "200000"]);
    assert!(code == 3 && told.contains("CounterOverflow(42, ") && told.contains("corniche contract trace 0x"), "{told}");
}

#[test]
fn interface_formats() {
    let terminal = Terminal::new();
    let module = terminal.module("counter");
    let counter = terminal.deploy("counter", &[]);
    let json = terminal.says(&["contract", "abi", &counter]);
    assert_eq!(json, terminal.says(&["contract", "abi", module.to_str().unwrap(), "--json"]));
    let committed = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/counter/abi.json")).unwrap();
    let committed: Value = serde_json::from_slice(&committed).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), committed);
    assert_eq!(json.lines().count(), 2 + committed.as_array().unwrap().len(), "an item a line");

    let solidity = terminal.says(&["contract", "abi", module.to_str().unwrap(), "--solidity"]);
    for part in [
        "interface Counter {",
        "error CounterOverflow(uint256 number, uint256 added);",
        "function add(uint256 added) external;",
    ] {
        assert!(solidity.contains(part), "{solidity}");
    }
    let typescript = terminal.says(&["contract", "abi", &counter, "--typescript", "--name", "my-counter"]);
    assert!(typescript.starts_with("export const myCounterAbi = [\n") && typescript.ends_with("\n] as const;"), "{typescript}");
    let (_, told) = terminal.refuses(&["contract", "abi", MULTICALL]);
    assert!(told.contains("carries no ABI"), "{told}");
    let (_, told) = terminal.refuses(&["contract", "abi", "/dev/null"]);
    assert!(told.contains("not JSON"), "{told}");
}

#[test]
fn events_are_decoded() {
    let terminal = Terminal::new();
    let token = terminal.deploy("erc20", &["Gold", "GLD", "1000"]);
    let sent = terminal.says(&["contract", "send", &token, "transfer", BOB, "10", "--dev-account"]);
    terminal.says(&["contract", "send", &token, "approve", BOB, "5", "--dev-account"]);

    let lines = terminal.says(&["contract", "logs", &token]);
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].ends_with(&format!(" Transfer(from: {}, to: {ALICE}, value: 1000)", Address::ZERO)), "{lines:?}");
    assert!(lines[1].ends_with(&format!(" {sent} Transfer(from: {ALICE}, to: {BOB}, value: 10)")), "{lines:?}");
    assert!(lines[2].ends_with(&format!(" Approval(owner: {ALICE}, spender: {BOB}, value: 5)")), "{lines:?}");

    assert_eq!(terminal.says(&["contract", "logs", &token, "Approval"]), lines[2]);
    let signature = "Approval(address indexed owner, address indexed spender, uint256 value)";
    assert_eq!(terminal.says(&["contract", "logs", &token, signature]), lines[2]);
    let height = lines[1].split(' ').next().unwrap();
    assert_eq!(terminal.says(&["contract", "logs", &token, "--from", height, "--to", height]), lines[1]);
    let json: Value = serde_json::from_str(&terminal.says(&["contract", "logs", &token, "Approval", "--json"])).unwrap();
    assert_eq!(json["arguments"], json!({"owner": ALICE, "spender": BOB, "value": "5"}));
    let (_, told) = terminal.refuses(&["contract", "logs", &token, "Transfers"]);
    assert!(told.contains("it has Approval, Transfer"), "{told}");
}

#[test]
fn events_are_followed() {
    let terminal = Terminal::new();
    let counter = terminal.deploy("counter", &[]);
    let mut following =
        terminal.command(&["contract", "logs", &counter, "Incremented", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    for number in 1..=3 {
        terminal.says(&["contract", "send", &counter, "increment", "--dev-account"]);
        let line = lines.next().unwrap().unwrap();
        assert!(line.ends_with(&format!("Incremented(by: {ALICE}, number: {number})")), "{line}");
    }
    following.kill().unwrap();
    following.wait().unwrap();
}

#[test]
fn trace_prints_call_tree() {
    let terminal = Terminal::new();
    let token = terminal.deploy("erc20", &["Gold", "GLD", "1000"]);
    // An account without tokens sends some, through two other calls.
    let transfer = format!("0xa9059cbb{:0>64}{:0>64x}", BOB[2..].to_lowercase(), 7);
    let inner = terminal.node.call("eth_chainId", json!([])).is_string().then(|| calls(&token, &transfer)).unwrap();
    let argument = format!("[({MULTICALL},{inner})]");
    let words = ["contract", "send", MULTICALL, AGGREGATE, &argument, "--dev-account", "--gas", "1000000"];
    let (code, told) = terminal.refuses(&words);
    assert_eq!(code, 3, "{told}");
    let hash = told.split_whitespace().find(|word| word.len() == 66).unwrap();

    let output =
        terminal.run(&["contract", "trace", hash, "--label", &format!("{ALICE}=alice"), "--label", &format!("{token}=gold")]);
    let (tree, legend) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let lines: Vec<_> = tree.lines().collect();
    assert!(lines[0].starts_with("alice → [") && lines[0].contains("0xcA11…CA11.0x"), "{tree}");
    assert!(lines[1].starts_with("└─ [") || lines[1].starts_with("├─ ["), "{tree}");
    assert!(lines[2].contains("] gold.transfer(to: 0x7099…79C8, value: 7)"), "{tree}");
    assert!(lines[3].ends_with("✗ ERC20InsufficientBalance(sender: 0xcA11…CA11, balance: 0, needed: 7)"), "{tree}");
    assert!(legend.contains(&format!("0xcA11…CA11 is {MULTICALL}, which carries no ABI")), "{legend}");

    let raw: Value = serde_json::from_str(&terminal.says(&["contract", "trace", hash, "--json"])).unwrap();
    assert_eq!(raw["calls"][0]["calls"][0]["error"], "execution reverted");
    let (code, told) = terminal.refuses(&["contract", "trace", &format!("0x{:064x}", 7)]);
    assert!(code == 4 && told.contains("in no block of this chain"), "{told}");
}

/// Input of an aggregate with one call.
fn calls(to: &str, input: &str) -> String {
    use alloy_dyn_abi::{DynSolValue, JsonAbiExt};
    let call =
        DynSolValue::Tuple(vec![DynSolValue::Address(to.parse().unwrap()), DynSolValue::Bytes(hex::decode(input).unwrap())]);
    let aggregate = alloy_json_abi::Function::parse(AGGREGATE).unwrap();
    hex::encode_prefixed(aggregate.abi_encode_input(&[DynSolValue::Array(vec![call])]).unwrap())
}

#[test]
fn missing_trace_namespace_is_explained() {
    let terminal = Terminal::beside(Node::start(&["--namespaces", "eth,net,web3"]));
    let (code, told) = terminal.refuses(&["contract", "trace", &format!("0x{:064x}", 7)]);
    assert!(code == 4 && told.contains("does not serve the namespace debug"), "{told}");
}

#[test]
fn salt_determines_address() {
    let terminal = Terminal::new();
    let token = terminal.deploy("erc20", &["Gold", "GLD", "1000", "--salt", "7"]);
    assert_eq!(terminal.says(&["contract", "call", &token, "name"]), "Gold");
    assert_eq!(terminal.says(&["contract", "call", &token, "totalSupply"]), "1000");
    let module = terminal.module("erc20");
    let module = module.to_str().unwrap();
    let again = ["contract", "deploy", module, "Gold", "GLD", "1000", "--salt", "7", "--dev-account"];
    let (code, told) = terminal.refuses(&again);
    assert!(code == 3 && told.contains("ContractDeploymentError"), "{told}");
    // Addresses depend on the code, its arguments and the salt, not on the chain.
    let elsewhere = Terminal::new();
    assert_eq!(elsewhere.deploy("erc20", &["Gold", "GLD", "1000", "--salt", "7"]), token);
    assert_ne!(elsewhere.deploy("erc20", &["Gold", "GLD", "1000", "--salt", "8"]), token);
}

#[test]
fn skipped_constructor_is_reported() {
    let terminal = Terminal::new();
    let module = terminal.module("erc20");
    let module = module.to_str().unwrap();
    let (code, told) = terminal.refuses(&["contract", "deploy", module, "--dev-account"]);
    assert!(code == 1 && told.contains("constructor(string name, string symbol, uint256 initialSupply)"), "{told}");
    assert!(told.contains("--no-constructor"), "{told}");
    let explorer = ["--explorer", "http://127.0.0.1:4000/"];
    let output = terminal.run(&[&["contract", "deploy", module, "--no-constructor", "--dev-account"][..], &explorer].concat());
    let (address, told) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && told.contains("the constructor that its ABI declares was not run"), "{told}");
    assert!(told.contains(&format!("http://127.0.0.1:4000/address/{}", address.trim())), "{told}");
    assert_eq!(terminal.says(&["contract", "call", address.trim(), "totalSupply"]), "0");
}

#[test]
fn verify_compares_code() {
    let terminal = Terminal::new();
    let module = terminal.module("counter");
    let (module, wasm) = (module.to_str().unwrap(), std::fs::read(&module).unwrap());
    let code_hash = |address: &str| {
        let code = terminal.node.call("eth_getCode", json!([address, "latest"]));
        keccak256(hex::decode(code.as_str().unwrap()).unwrap()).to_string()
    };
    // Compression changes the code, but not the module in it.
    let [packed, raw] = [vec![], vec!["--raw"]].map(|flags: Vec<&str>| terminal.deploy("counter", &flags));
    assert_ne!(code_hash(&packed), code_hash(&raw));
    for address in [&packed, &raw] {
        let told = terminal.says(&["contract", "verify", address, module]);
        assert_eq!(told.lines().next(), Some(format!("{address} is {module}").as_str()));
        assert!(told.contains(&code_hash(address)) && told.contains(&keccak256(&wasm).to_string()), "{told}");
    }
    let json: Value = serde_json::from_str(&terminal.says(&["contract", "verify", &packed, module, "--json"])).unwrap();
    assert_eq!((&json["same"], &json["codeHash"]), (&json!(true), &json!(code_hash(&packed))));

    // Same code with another ABI, and different code.
    let relabelled = corniche_abi::interface::embed(&wasm, b"[]");
    std::fs::write(terminal.folder.path().join("relabelled.wasm"), &relabelled).unwrap();
    let (code, told) = terminal.refuses(&["contract", "verify", &packed, "relabelled.wasm"]);
    assert!(code == 1 && told.contains(&format!("{packed} is not relabelled.wasm")), "{told}");
    assert!(told.contains("what runs is the same: only custom sections differ"), "{told}");
    for hash in [code_hash(&packed), keccak256(&wasm).to_string(), keccak256(&relabelled).to_string()] {
        assert!(told.contains(&hash), "{hash} in {told}");
    }
    let other = terminal.module("erc20");
    let (code, told) = terminal.refuses(&["contract", "verify", &packed, other.to_str().unwrap()]);
    assert!(code == 1 && told.contains("is the first that differs: ") && told.contains("rust-toolchain.toml"), "{told}");
    assert!(!told.contains("what runs is the same"), "{told}");

    let (code, told) = terminal.refuses(&["contract", "verify", BOB, module]);
    assert!(code == 1 && told.contains(&format!("there is no contract at {BOB}")), "{told}");
    let (code, told) = terminal.refuses(&["contract", "verify", &packed, "/dev/null"]);
    assert!(code == 1 && told.contains("is not a WebAssembly module"), "{told}");
}

#[test]
fn keystore_signs_with_password() {
    let terminal = Terminal::new();
    std::fs::write(terminal.folder.path().join("password"), "correct horse\n").unwrap();
    let password = ["--password-file", "password"];
    let address = terminal.says(&[&["account", "new", "carol"][..], &password].concat());
    assert_eq!(terminal.says(&["account", "list"]), format!("carol\t{address}"));
    assert_eq!(terminal.says(&["account", "show", "carol"]), address);
    terminal.says(&["contract", "send", &address, "--value", "1ether", "--dev-account"]);

    terminal.says(&[&["contract", "send", BOB, "--value", "1", "--keystore", "carol"][..], &password].concat());
    assert_eq!(terminal.node.call("eth_getTransactionCount", json!([address, "latest"])), "0x1");
    let mut command = terminal.command(&["contract", "send", BOB, "--value", "1"]);
    command.env("CORNICHE_KEYSTORE", "keystores/carol").env("CORNICHE_PASSWORD", "correct horse");
    assert!(command.output().unwrap().status.success());

    let mut command = terminal.command(&["contract", "send", BOB, "--keystore", "carol"]);
    let output = command.env("CORNICHE_PASSWORD", "wrong").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("the password is wrong"));
    let (_, told) = terminal.refuses(&[&["account", "new", "carol"][..], &password].concat());
    assert!(told.contains("never overwritten"), "{told}");
    let (_, told) = terminal.refuses(&["contract", "send", BOB, "--keystore", "dave"]);
    assert!(told.contains("neither a file dave nor a keystore of that name"), "{told}");
    let (_, told) = terminal.refuses(&["contract", "send", BOB, "--value", "1"]);
    assert!(told.contains("who signs?") && told.contains("corniche account new"), "{told}");
    let (code, told) = terminal.refuses(&["contract", "send", BOB, "--key", "0xac0974bec39a17e36ba4a6b4d238ff94"]);
    assert!(code == 2 && told.contains("unexpected argument '--key'"), "{told}");
    let key = terminal.says(&[&["account", "show", "carol", "--private-key"][..], &password].concat());
    assert!(key.len() == 66 && !told.contains(&key));
}
