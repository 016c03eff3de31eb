//! Layouts of fields, types and files.

use super::super::{compare::compare, entry, solc::Layout};
use super::{fields, laid, metadata, refused, told, try_files};
use serde_json::json;
use std::fs;

#[test]
fn solidity_and_rust_syntax_have_equal_layouts() {
    let solidity = laid(
        "sol_storage! { #[entrypoint] pub struct Contract {
            /// Owner.
            address owner; bool open; uint24 small; int64 signed; bytes4 tag; uint whole; string name; bytes data; uint8[40] list; uint256[] more;
            mapping(address who => mapping(uint256 => bool) what) seen; mapping(string => bytes32[2][]) words; Inner inner;
        } struct Inner { bool a; bool b; } }",
    );
    let rust = laid(
        "use stylus_sdk::{prelude::*, storage::*};
        use alloy_primitives::{Address, U256, B256};
        type Flags = StorageMap<U256, StorageBool>;
        const LENGTH: usize = 4 * TEN; const TEN: usize = 10;
        #[storage] #[entrypoint] pub struct Contract {
            owner: StorageAddress, open: StorageBool, small: StorageUint<24, 1>, signed: stylus_sdk::storage::StorageI64, tag: StorageB32,
            whole: StorageU256, name: StorageString, data: StorageBytes, list: StorageArray<StorageU8, LENGTH>, more: StorageVec<StorageU256>,
            seen: StorageMap<Address, Flags>, words: StorageMap<String, StorageVec<StorageArray<StorageB256, 2>>>, inner: inner::Inner,
        }
        mod inner { use super::*; #[storage] pub struct Inner { a: StorageBool, b: StorageBool } }",
    );
    let rows = told(&solidity);
    assert_eq!(
        rows,
        [
            "0+0 address owner",
            "0+20 bool open",
            "0+21 uint24 small",
            "0+24 int64 signed",
            "1+0 bytes4 tag",
            "2+0 uint256 whole",
            "3+0 string name",
            "4+0 bytes data",
            "5+0 uint8[40] list",
            "7+0 uint256[] more",
            "8+0 mapping(address => mapping(uint256 => bool)) seen",
            "9+0 mapping(string => bytes32[2][]) words",
            "10+0 bool inner.a",
            "10+1 bool inner.b",
        ]
    );
    assert_eq!(told(&rust), rows);
    assert!(compare(&solidity, &rust).clashes.is_empty() && compare(&rust, &solidity).clashes.is_empty());
}

#[test]
fn types_are_resolved_across_files_and_crates() {
    let layout = try_files(
        &[
            (
                "src/lib.rs",
                "mod parts; mod inner { pub mod deep; } #[path = \"elsewhere/kept.rs\"] mod kept;
                 use other::token::{self, Erc20 as Token}; use parts::*;
                 #[storage] #[entrypoint] struct Contract { part: Part, deep: crate::inner::deep::Deep, kept: kept::Kept<StorageU8, 3>, token: Token,
                     ownable: token::Ownable, twice: Twice<Twice<StorageU8>>, marker: core::marker::PhantomData<Nobody> }
                 use stylus_sdk::storage::StorageU8;
                 #[storage] pub struct Twice<T: StorageType> { one: T, other: T }",
            ),
            ("src/parts.rs", "pub use self::second::Part; mod second;"),
            ("src/parts/second.rs", "sol_storage! { pub struct Part { uint8 of; } }"),
            ("src/inner/deep.rs", "sol_storage! { pub struct Deep { uint16 well; super::super::parts::Part part; } }"),
            (
                "src/elsewhere/kept.rs",
                "use stylus_sdk::storage::*; #[storage] pub struct Kept<T, const N: usize> { all: StorageArray<T, N>, last: StorageArray<T, { N * 20 }> }",
            ),
            ("other/src/lib.rs", "pub mod token;"),
            (
                "other/src/token/mod.rs",
                "use stylus_sdk::storage::*; use alloy_primitives::*; mod own; pub use own::Ownable;
                 #[storage] pub struct Erc20 { balances: StorageMap<Address, StorageU256>, total: StorageU256 }",
            ),
            ("other/src/token/own.rs", "stylus_sdk::prelude::sol_storage! { pub struct Ownable { address owner; } }"),
        ],
        None,
    );
    assert_eq!(
        told(&layout.unwrap()),
        [
            "0+0 uint8 part.of",
            "1+0 uint16 deep.well",
            "2+0 uint8 deep.part.of",
            "3+0 uint8[3] kept.all",
            "4+0 uint8[60] kept.last",
            "6+0 mapping(address => uint256) token.balances",
            "7+0 uint256 token.total",
            "8+0 address ownable.owner",
            "9+0 uint8 twice.one.one",
            "9+1 uint8 twice.one.other",
            "10+0 uint8 twice.other.one",
            "10+1 uint8 twice.other.other",
        ]
    );
}

/// A macro crate has no types, and its source is not a library's.
#[test]
fn macro_crates_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let source = "use other::*; use stylus_sdk::storage::*; #[storage] #[entrypoint] struct C { a: StorageU8 }";
    fs::create_dir(folder.join("src")).unwrap();
    fs::write(folder.join("src/lib.rs"), source).unwrap();
    let mut metadata = metadata(&folder, "0.10.10");
    metadata["packages"][1]["targets"][0]["kind"] = json!(["proc-macro"]);
    assert_eq!(told(&entry::layout(metadata, &folder.join("Cargo.toml"), None).unwrap()), ["0+0 uint8 a"]);
}

#[test]
fn cfg_excluded_items_are_ignored() {
    let layout = laid(
        "sol_storage! { #[entrypoint] struct Contract { Part part; } }
         #[cfg(not(target_arch = \"wasm32\"))] sol_storage! { struct Part { uint8 natively; } }
         #[cfg(all(target_arch = \"wasm32\", any(feature = \"with\", feature = \"without\")))] sol_storage! { struct Part { uint8 here; } }
         #[cfg(test)] mod tests { not_even_a_file!(); }
         #[cfg(feature = \"without\")] mod no_file;
         #[cfg_attr(docsrs, doc(cfg(all())))] #[cfg_attr(test, path = \"no_file.rs\")] mod inner {}",
    );
    assert_eq!(told(&layout), ["0+0 uint8 part.here"]);
    // A file may exclude itself.
    let layout = try_files(
        &[
            (
                "src/lib.rs",
                "mod native; mod module; use {native::*, module::*}; sol_storage! { #[entrypoint] struct Contract { Part part; } }",
            ),
            ("src/native.rs", "#![cfg(not(target_arch = \"wasm32\"))] sol_storage! { pub struct Part { uint8 natively; } }"),
            (
                "src/module.rs",
                "#![cfg(target_arch = \"wasm32\")] sol_storage! { pub struct Part { uint8 here; uint8 r#type; } }",
            ),
        ],
        None,
    );
    assert_eq!(told(&layout.unwrap()), ["0+0 uint8 part.here", "0+1 uint8 part.type"]);
}

#[test]
fn custom_types_declare_their_size() {
    let layout = laid(
        "sol_storage! { #[entrypoint] struct Contract { uint64 a; Five five; bool b; Wide wide; Ring<3> ring; bool c; Plain plain; Rings rings; } }
         struct Five { slot: U256 } impl StorageType for Five { const SLOT_BYTES: usize = FIVE; }
         const FIVE: usize = (10 / 2) as usize;
         struct Wide; impl stylus_sdk::storage::StorageType for Wide { const SLOT_BYTES: usize = 32; const REQUIRED_SLOTS: usize = 2; }
         struct Ring<const N: usize>; impl<const M: usize> StorageType for Ring<M> { const REQUIRED_SLOTS: usize = M + 1; }
         struct Plain; impl StorageType for Plain { }
         type Rings = stylus_sdk::storage::StorageArray<Ring<1>, 2>;",
    );
    assert_eq!(
        told(&layout),
        [
            "0+0 uint64 a",
            "0+8 here::Five five",
            "0+13 bool b",
            "1+0 here::Wide wide",
            "3+0 here::Ring<3> ring",
            "7+0 bool c",
            "8+0 here::Plain plain",
            "9+0 here::Ring<1>[2] rings",
        ]
    );
}

#[test]
fn constants_are_evaluated_as_in_solidity() {
    let source = "pub struct Counter; impl StorageType for Counter {} pub struct Balances; impl StorageType for Balances {}";
    let contract = "use corniche_contract::{Balances, Counter}; sol_storage! { #[entrypoint] struct C { Counter supply; Balances balances; } }";
    let counted = try_files(&[("src/lib.rs", contract), ("corniche/src/lib.rs", source)], None).unwrap();
    let plain = laid("sol_storage! { #[entrypoint] struct C { uint256 supply; mapping(address => uint256) balances; } }");
    assert_eq!(
        counted.storage.iter().map(|one| &one.kind).collect::<Vec<_>>(),
        plain.storage.iter().map(|one| &one.kind).collect::<Vec<_>>()
    );
}

#[test]
fn recursive_struct_is_allowed_in_mappings() {
    let layout = laid(
        "sol_storage! { #[entrypoint] struct Tree { Node root; } struct Node { uint256 value; mapping(uint256 => Node) below; Node[] beside; } }",
    );
    assert_eq!(
        told(&layout)[..3],
        ["0+0 uint256 root.value", "1+0 mapping(uint256 => struct Node) root.below", "2+0 struct Node[] root.beside"]
    );
    assert!(compare(&layout, &layout).clashes.is_empty());
    let text = refused("sol_storage! { #[entrypoint] struct Tree { Node root; } struct Node { Node[2] both; } }");
    assert!(text.contains("src/lib.rs:1: the field root: src/lib.rs:1: the field both: it contains itself"), "{text}");
}

#[test]
fn root_is_entrypoint_top_level_or_chosen() {
    let two = "sol_storage! { struct A { uint8 a; } struct B { uint8 b; } } unsafe impl TopLevelStorage for B {}";
    assert_eq!(told(&laid(two)), ["0+0 uint8 b"]);
    assert_eq!(told(&try_files(&[("src/lib.rs", two)], Some("A")).unwrap()), ["0+0 uint8 a"]);
    assert!(try_files(&[("src/lib.rs", two)], Some("X")).unwrap_err().to_string().contains("no struct X"));
    assert!(refused("sol_storage! { struct A { uint8 a; } }").contains("--root NAME"));
    let both = refused(&(two.to_owned() + " mod more { unsafe impl TopLevelStorage for super::A {} }"));
    assert!(both.contains("each of B, A: --root"), "{both}");
}

/// Types, constants and structs with the same name in several modules, passed to one generic type.
#[test]
fn equal_names_in_other_modules_differ() {
    let layout = try_files(
        &[
            (
                "src/lib.rs",
                "use stylus_sdk::{prelude::*, storage::*};
                 mod a { pub type X = super::StorageU8; pub const N: usize = 3; } mod b { pub type X = super::StorageU256; pub const N: usize = 40; }
                 mod token { use super::*; #[storage] pub struct Part { x: StorageU16 } }
                 #[storage] struct Of<T: StorageType> { x: T, y: StorageBool }
                 #[storage] struct Many<const N: usize> { all: StorageArray<StorageU8, N> }
                 #[storage] struct Outer<const N: usize> { inner: Of<Many<{ N }>> }
                 #[storage] #[entrypoint] struct C {
                    one: Of<a::X>, other: Of<b::X>, three: Of<Many<{ a::N }>>, forty: Of<Many<{ b::N }>>, small: Outer<1>, large: Outer<70>,
                    here: Of<token::Part>, there: Of<other::token::Part>, again: Of<StorageU8>, end: StorageU8 }",
            ),
            ("other/src/lib.rs", "pub mod token { stylus_sdk::prelude::sol_storage! { pub struct Part { uint256 x; uint256 y; } } }"),
        ],
        None,
    );
    assert_eq!(
        told(&layout.unwrap()),
        [
            "0+0 uint8 one.x",
            "0+1 bool one.y",
            "1+0 uint256 other.x",
            "2+0 bool other.y",
            "3+0 uint8[3] three.x.all",
            "4+0 bool three.y",
            "5+0 uint8[40] forty.x.all",
            "7+0 bool forty.y",
            "8+0 uint8[1] small.inner.x.all",
            "9+0 bool small.inner.y",
            "10+0 uint8[70] large.inner.x.all",
            "13+0 bool large.inner.y",
            "14+0 uint16 here.x.x",
            "15+0 bool here.y",
            "16+0 uint256 there.x.x",
            "17+0 uint256 there.x.y",
            "18+0 bool there.y",
            "19+0 uint8 again.x",
            "19+1 bool again.y",
            "20+0 uint8 end",
        ]
    );
}

#[test]
fn layout_matches_solc() {
    let layout = fields("address owner; mapping(address => Pair) pairs; string[] names;");
    let json = serde_json::to_value(&layout).unwrap();
    assert_eq!(json["storage"][1]["type"], "t_mapping(t_address,t_struct(here::Pair)_storage)");
    assert_eq!(
        json["types"]["t_mapping(t_address,t_struct(here::Pair)_storage)"],
        json!({"encoding": "mapping", "key": "t_address", "value": "t_struct(here::Pair)_storage", "label": "mapping(address => struct Pair)", "numberOfBytes": "32"})
    );
    assert_eq!(
        json["types"]["t_struct(here::Pair)_storage"]["members"][1],
        json!({"astId": 2, "contract": "src/lib.rs:Contract", "label": "other", "offset": 16, "slot": "0", "type": "t_uint128"})
    );
    assert_eq!(json["types"]["t_array(t_string_storage)dyn_storage"]["base"], "t_string_storage");
    assert_eq!(Layout::parse(&serde_json::to_vec(&json!({"storageLayout": json})).unwrap()).unwrap(), layout);
    // Output of the compiler for the same contract in Solidity, except for the numbers of its syntax tree.
    let solc = br#"{"storage":[{"astId":10,"contract":"a.sol:A","label":"owner","offset":0,"slot":"0","type":"t_contract(I)3"},
        {"astId":15,"contract":"a.sol:A","label":"pairs","offset":0,"slot":"1","type":"t_mapping(t_address,t_struct(Pair)9_storage)"},
        {"astId":18,"contract":"a.sol:A","label":"names","offset":0,"slot":"2","type":"t_array(t_string_storage)dyn_storage"}],
        "types":{"t_address":{"encoding":"inplace","label":"address","numberOfBytes":"20"},
        "t_contract(I)3":{"encoding":"inplace","label":"contract I","numberOfBytes":"20"},
        "t_array(t_string_storage)dyn_storage":{"base":"t_string_storage","encoding":"dynamic_array","label":"string[]","numberOfBytes":"32"},
        "t_mapping(t_address,t_struct(Pair)9_storage)":{"encoding":"mapping","key":"t_address","label":"mapping(address => struct A.Pair)","numberOfBytes":"32","value":"t_struct(Pair)9_storage"},
        "t_string_storage":{"encoding":"bytes","label":"string","numberOfBytes":"32"},
        "t_struct(Pair)9_storage":{"encoding":"inplace","label":"struct A.Pair","members":[
            {"astId":4,"contract":"a.sol:A","label":"one","offset":0,"slot":"0","type":"t_uint128"},
            {"astId":6,"contract":"a.sol:A","label":"other","offset":16,"slot":"0","type":"t_uint128"},
            {"astId":8,"contract":"a.sol:A","label":"who","offset":0,"slot":"1","type":"t_address"}],"numberOfBytes":"64"},
        "t_uint128":{"encoding":"inplace","label":"uint128","numberOfBytes":"16"}}}"#;
    let found = compare(&Layout::parse(solc).unwrap(), &layout);
    assert!(found.clashes.is_empty() && found.renamed.is_empty() && found.added.is_empty(), "{found:?}");
    for wrong in ["", "{}", "[]", r#"{"storage":[],"types":{"t":{"encoding":"mapping","label":"m","numberOfBytes":"32"}}}"#] {
        assert!(Layout::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    assert!(Layout::parse(br#"{"storage":[],"types":null}"#).is_ok());
}
