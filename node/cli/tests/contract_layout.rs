//! Checks `corniche contract layout` against a real state. A module with fields of every kind
//! (`tests/cabinet`) fills one after the other, and the state must change exactly at the reported position.
//! Then tests the command as users run it.

use alloy_sol_types::sol;
use corniche_harness::{Address, B256, Chain, Contract, U256};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

sol! {
    function paths() returns (string[] memory);
    function fill(string path, uint256[] at);
}

/// Slots and their values.
type State = BTreeMap<U256, [u8; 32]>;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn layout(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corniche")).args(["contract", "layout"]).args(words).output().unwrap()
}

fn says(words: &[&str]) -> String {
    let output = layout(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refuses(words: &[&str]) -> String {
    let output = layout(words);
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Contract of `contracts/`.
fn folder(name: &str) -> String {
    repository().join("contracts").join(name).to_str().unwrap().to_owned()
}

fn cabinet() -> (Chain, Address) {
    let built = std::env::var_os("CONTRACTS_WASM_DIR")
        .map_or_else(|| repository().join("target/contracts/wasm32-unknown-unknown/release"), PathBuf::from);
    let module = Contract::open(&built.join("cabinet.wasm"));
    let module = module.unwrap_or_else(|error| panic!("{error}; run `make contracts`, or set CONTRACTS_WASM_DIR"));
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let cabinet = chain.by(alice).deploy(&module, ()).unwrap();
    (chain, cabinet)
}

/// Field, or an element or value in it, filled with ones.
struct Filled {
    /// For instance `lists[][]`.
    path: String,
    /// Indices and keys in brackets.
    at: Vec<u64>,
    /// Nonzero slots afterwards, according to the layout.
    state: State,
}

/// Interpretation of a layout: <https://docs.soliditylang.org/en/latest/internals/layout_in_storage.html>.
/// Implemented again, independently of the command.
struct Reading<'a> {
    types: &'a Value,
    filled: Vec<Filled>,
}

impl Reading<'_> {
    fn of(layout: &Value) -> Vec<Filled> {
        let mut reading = Reading { types: &layout["types"], filled: Vec::new() };
        reading.members(&layout["storage"], "", &[], U256::ZERO, &State::new());
        reading.filled
    }

    fn members(&mut self, members: &Value, path: &str, at: &[u64], from: U256, lengths: &State) {
        for member in members.as_array().unwrap() {
            let name = member["label"].as_str().unwrap();
            let slot = from + member["slot"].as_str().unwrap().parse::<U256>().unwrap();
            let offset = member["offset"].as_u64().unwrap() as usize;
            self.kind(member["type"].as_str().unwrap(), format!("{path}{name}"), at, (slot, offset), lengths);
        }
    }

    /// `lengths`: of the lists on the path, which have grown to contain this element.
    fn kind(&mut self, name: &str, path: String, at: &[u64], (slot, offset): (U256, usize), lengths: &State) {
        let kind = &self.types[name];
        let (encoding, label) = (kind["encoding"].as_str().unwrap(), kind["label"].as_str().unwrap());
        let within = |index: u64| [at, &[index]].concat();
        if let Some(members) = kind.get("members") {
            assert_eq!(offset, 0, "{path}");
            return self.members(members, &format!("{path}."), at, slot, lengths);
        }
        match encoding {
            "mapping" => {
                let (key, value) = (kind["key"].as_str().unwrap(), kind["value"].as_str().unwrap());
                for number in [0, 1, 200] {
                    if key == "t_int8" && number > 127 {
                        continue;
                    }
                    let offset = 0;
                    self.kind(
                        value,
                        format!("{path}[]"),
                        &within(number),
                        (hashed(&key_bytes(key, number), slot), offset),
                        lengths,
                    );
                }
            }
            "dynamic_array" => {
                for index in [0, 1, 11, 33] {
                    let mut lengths = lengths.clone();
                    lengths.insert(slot, U256::from(index + 1).to_be_bytes());
                    let place = self.element(kind, hashed(&[], slot), index);
                    self.kind(kind["base"].as_str().unwrap(), format!("{path}[]"), &within(index), place, &lengths);
                }
            }
            "inplace" if kind.get("base").is_some() => {
                let length: u64 = label.rsplit_once('[').unwrap().1.trim_end_matches(']').parse().unwrap();
                for index in (0..length).filter(|index| length < 12 || index % 3 == 0 || index + 1 == length) {
                    let place = self.element(kind, slot, index);
                    self.kind(kind["base"].as_str().unwrap(), format!("{path}[]"), &within(index), place, lengths);
                }
            }
            "bytes" => {
                let mut state = lengths.clone();
                let byte = if label == "string" { b'x' } else { 0xff };
                let (first, mut second) = (hashed(&[], slot), [0; 32]);
                second[0] = byte;
                state.extend([(slot, U256::from(67).to_be_bytes()), (first, [byte; 32]), (first + U256::ONE, second)]);
                self.filled.push(Filled { path, at: at.to_vec(), state });
            }
            "inplace" => {
                let bytes = bytes_of(kind);
                let mut state = lengths.clone();
                let byte = if label == "bool" { 1 } else { 0xff };
                for at in offset..offset + bytes {
                    let word = state.entry(slot + U256::from(at / 32)).or_default();
                    word[31 - at % 32] = byte;
                }
                self.filled.push(Filled { path, at: at.to_vec(), state });
            }
            other => panic!("{other}"),
        }
    }

    /// Position of an element in an array that begins with a slot.
    fn element(&self, array: &Value, begin: U256, index: u64) -> (U256, usize) {
        let bytes = bytes_of(&self.types[array["base"].as_str().unwrap()]);
        if bytes > 16 {
            return (begin + U256::from(index as usize * bytes.div_ceil(32)), 0);
        }
        let (index, in_a_slot) = (index as usize, 32 / bytes);
        (begin + U256::from(index / in_a_slot), index % in_a_slot * bytes)
    }
}

fn bytes_of(kind: &Value) -> usize {
    kind["numberOfBytes"].as_str().unwrap().parse().unwrap()
}

/// Number as a key of this type, in the form that is hashed.
fn key_bytes(kind: &str, number: u64) -> Vec<u8> {
    match kind {
        "t_string_memory_ptr" => number.to_string().into_bytes(),
        "t_bytes4" => [&(number as u32).to_be_bytes()[..], &[0; 28]].concat(),
        _ => U256::from(number).to_be_bytes_vec(),
    }
}

fn hashed(key: &[u8], slot: U256) -> U256 {
    U256::from_be_bytes(alloy_primitives::keccak256([key, &slot.to_be_bytes::<32>()].concat()).0)
}

#[test]
fn layout_matches_storage() {
    let (chain, cabinet) = cabinet();
    let told: Value =
        serde_json::from_str(&says(&["--json", &repository().join("node/cli/tests/cabinet").display().to_string()])).unwrap();
    let filled = Reading::of(&told);
    let said: BTreeSet<String> = filled.iter().map(|filled| filled.path.clone()).collect();
    let there: BTreeSet<String> = chain.view(cabinet, pathsCall {}).into_iter().collect();
    assert_eq!(said, there, "the layout has other fields than the contract");
    assert!(filled.len() > 200, "{}", filled.len());
    for Filled { path, at, state } in filled {
        let mut chain = chain.clone();
        let alice = chain.account("alice");
        let at: Vec<U256> = at.into_iter().map(U256::from).collect();
        chain.by(alice).send(cabinet, fillCall { path: path.clone(), at: at.clone() }).unwrap();
        let found: State = chain.slots(cabinet).into_iter().map(|(slot, word): (B256, B256)| (slot.into(), word.0)).collect();
        assert_eq!(found, state, "{path} {at:?}");
    }
}

#[test]
fn layout_conflicts_are_refused() {
    let [v1, v2, clash] = ["savings-v1", "savings-v2", "savings-clash"].map(|name| folder(&format!("proxy/{name}")));
    for version in [&v1, &v2] {
        let kept: Value = serde_json::from_str(&fs::read_to_string(Path::new(version).join("layout.json")).unwrap()).unwrap();
        let told: Value = serde_json::from_str(&says(&["--json", version])).unwrap();
        assert_eq!(kept, told, "corniche contract layout {version} --write");
    }
    let kept = format!("{v1}/layout.json");
    for old in [&v1, &kept] {
        let told = says(&[&v2, "--against", old]);
        assert!(told.contains("finds all that") && told.contains("\n+ "), "{told}");
        let told = refuses(&[&clash, "--against", old]);
        assert!(told.contains("would not find what") && told.contains(" slot ") && told.contains("append"), "{told}");
    }
    let output = layout(&[&clash, "--against", &kept, "--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!output.status.success() && told["compatible"] == false, "{told}");
    assert_eq!(told["clashes"][0]["kind"], "inserted", "{told}");
    // The reverse direction clashes too: the new version's data would be lost.
    assert!(refuses(&[&v1, "--against", &v2]).contains(" is gone"));
    // A clashing layout is not overwritten.
    let before = fs::read(format!("{clash}/layout.json")).ok();
    refuses(&[&clash, "--against", &kept, "--write"]);
    assert_eq!(fs::read(format!("{clash}/layout.json")).ok(), before);
}

#[test]
fn layouts_of_other_versions_and_libraries() {
    let table = says(&[&folder("generations/sdk-0.9/oz-erc20")]);
    for row in [
        "1     0       32     mapping(address => mapping(address => uint256))  erc20.allowances",
        "ownable.owner",
        "5     0       32     struct Domain",
    ] {
        assert!(table.contains(row), "{row} in\n{table}");
    }
    assert!(says(&[&folder("multisig")]).contains("struct Proposal, 160 bytes"));
    let told = refuses(&[&folder("deployer")]);
    assert!(told.contains("the layout of deployer cannot be told: it does not depend on stylus-sdk"), "{told}");
}
