//! Realistic sources in a temporary folder, with a matching `cargo metadata` output.

use super::{
    compare::{Comparison, Kind, compare},
    entry,
    solc::Layout,
    table::table,
};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Crate called `here` that uses the SDK, with these files; and the crate `other`, if a file is in it.
fn try_files(files: &[(&str, &str)], root: Option<&str>) -> anyhow::Result<Layout> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    entry::layout(metadata(&folder, "0.10.10"), &folder.join("Cargo.toml"), root)
}

fn metadata(folder: &Path, sdk: &str) -> Value {
    let package = |name: &str, version: &str, below: &str| {
        let source = folder.join(below).join("src/lib.rs");
        json!({"id": name, "name": name, "version": version, "manifest_path": folder.join(below).join("Cargo.toml"),
               "targets": [{"kind": ["cdylib", "lib"], "src_path": source}]})
    };
    let dep = |name: &str, package: &str| json!({"name": name, "pkg": package});
    let libraries = [dep("stylus_sdk", "stylus-sdk"), dep("alloy_primitives", "alloy-primitives")];
    let all = [&libraries[..], &[dep("other", "other"), dep("corniche_contract", "corniche-contract")]].concat();
    json!({
        "packages": [package("here", "0.1.0", ""), package("other", "0.2.0", "other"), package("stylus-sdk", sdk, "sdk"),
                     package("alloy-primitives", "1.7.3", "alloy"), package("corniche-contract", "0.1.0", "corniche")],
        "resolve": {"nodes": [
            {"id": "here", "features": ["with"], "deps": all},
            {"id": "other", "features": [], "deps": libraries},
            {"id": "corniche-contract", "features": [], "deps": libraries},
        ]},
    })
}

fn laid(source: &str) -> Layout {
    try_files(&[("src/lib.rs", source)], None).unwrap_or_else(|error| panic!("{error:#}\n{source}"))
}

fn refused(source: &str) -> String {
    format!("{:#}", try_files(&[("src/lib.rs", source)], None).unwrap_err())
}

/// Contract with these fields.
fn fields(fields: &str) -> Layout {
    laid(&format!(
        "sol_storage! {{ #[entrypoint] pub struct Contract {{ {fields} }} struct Pair {{ uint128 one; uint128 other; address who; }} }}"
    ))
}

/// `slot+offset type name` of each field.
fn told(layout: &Layout) -> Vec<String> {
    let rows = table(layout);
    let rows = rows.lines().filter(|row| !row.starts_with("slot") && !row.is_empty());
    rows.map(|row| {
        let mut words = row.split_whitespace();
        let (slot, offset) = (words.next().unwrap(), words.next().unwrap());
        words.next();
        let words: Vec<_> = words.collect();
        let (name, kind) = words.split_last().unwrap();
        format!("{slot}+{offset} {} {name}", kind.join(" "))
    })
    .collect()
}

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

/// Each error names the field, its position and the type.
#[test]
fn unsupported_types_are_errors() {
    let of = |field: &str, rest: &str| {
        refused(&format!("use stylus_sdk::storage::*;\n#[storage] #[entrypoint] struct C {{\n{field} }}\n{rest}"))
    };
    for (field, rest, says) in [
        ("a: Nowhere", "make! { struct Nowhere; }", "src/lib.rs:3: the field a: the type `Nowhere` is not found"),
        ("a: missing::Thing<u8>", "", "`missing::Thing<u8>` is not found"),
        ("a: Plain", "struct Plain { x: u8 }", "neither #[storage] nor has an impl StorageType"),
        ("a: Side", "enum Side { Left, Right }", "`Side` is not a storage type"),
        ("a: (StorageU8, StorageU8)", "", "is not a supported storage type"),
        ("a: Vec<u8>", "", "std::Vec is not a storage type"),
        ("a: StorageTree", "", "not known here"),
        ("a: StorageArray<StorageU8, { size() }>", "", "is not a supported constant"),
        ("a: StorageArray<StorageU256, 4294967296>", "", "does not fit into storage"),
        ("a: StorageArray<core::marker::PhantomData<u8>, 3>", "", "does not fit into storage"),
        (
            "a: Of<StorageU8>",
            "#[storage] struct Of<T: Element> { x: T::Inner }",
            "src/lib.rs:4: the field x: `T :: Inner` is an associated type",
        ),
        ("a: Of", "#[storage] struct Of<T> { x: T }", "type parameter T has no value here"),
        (
            "a: Maybe",
            "#[cfg(nightly)] sol_storage! { struct Maybe { uint8 x; } }",
            "cannot determine if Maybe of the package here is compiled: unsupported condition cfg(nightly)",
        ),
        (
            "a: Maybe",
            "#[cfg(nightly)] use one::Maybe; mod one { sol_storage! { pub struct Maybe { uint8 x; } } }",
            "cannot determine if Maybe of the package here",
        ),
        (
            "a: Two",
            "use one::*; use two::*; mod one { sol_storage! { pub struct Two { uint8 x; } } } mod two { sol_storage! { pub struct Two { bool x; } } }",
            "is ambiguous: two `use …::*` import the name",
        ),
        (
            "a: Maybe",
            "#[cfg(nightly)] #[storage] struct Maybe { x: StorageU8 }",
            "cannot determine if Maybe of the package here is compiled: unsupported condition cfg(nightly)",
        ),
        ("#[cfg(feature = \"without\")] a: StorageU8", "", "the SDK lays it out in any case"),
        (
            "a: Odd",
            "struct Odd; impl StorageType for Odd { const SLOT_BYTES: usize = size_of::<u8>(); }",
            "SLOT_BYTES of here::Odd",
        ),
        ("a: Odd", "struct Odd; impl StorageType for Odd { const SLOT_BYTES: usize = 33; }", "a slot has 32"),
        ("a: A", "type A = B; type B = A;", "has no end"),
        ("a: StorageArray<StorageU8, X>", "const X: usize = Y; const Y: usize = X;", "is not a supported constant"),
        ("a: StorageUint<512, 8>", "", "StorageUint is a type of the SDK that is not known here"),
        ("a: StorageFixedBytes<33>", "", "not known here"),
        ("a: StorageArray<StorageU8, { 300 as u8 as usize }>", "", "is not a supported constant"),
        (
            "a: Ring<1>",
            "struct Ring<const N: usize>; impl StorageType for Ring<1> {} impl StorageType for Ring<2> { const REQUIRED_SLOTS: usize = 9; }",
            "has several impl StorageType",
        ),
        (
            "a: Maybe",
            "#[cfg_attr(all(), storage)] struct Maybe { x: StorageU8 }",
            "cannot determine if Maybe of the package here is compiled: unsupported condition cfg_attr",
        ),
        ("a: away::X", "#[cfg_attr(nightly, path = \"lib.rs\")] mod away;", "cannot determine if away of the package here"),
        ("a: StorageU8", "#[path = \"lib.rs\"] mod again;", "src/lib.rs is a module of itself"),
        (
            "a: Of<(StorageU8, StorageU8)>",
            "#[storage] struct Of<T> { x: core::marker::PhantomData<T> }",
            "no argument of a type",
        ),
        ("a: StorageU8", "mod nowhere;", "src/lib.rs:4: the module nowhere has no file"),
        ("a: StorageU8", "struct {", "src/lib.rs:4: this is not Rust"),
        ("a: StorageU8", "sol_storage! {\n struct X { uint8 } }", "src/lib.rs:5: a sol_storage! block that cannot be read"),
    ] {
        let text = of(field, rest);
        assert!(text.contains(says), "{field}: {text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("Cargo.toml");
    let error = entry::layout(metadata(folder.path(), "0.11.0"), &manifest, None).unwrap_err();
    assert!(error.to_string().contains("stylus-sdk 0.11.0"), "{error}");
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

/// Extreme nesting and repetition: the result is a layout or an error, never a crash or an endless run.
#[test]
fn hostile_sources_are_refused() {
    let contract = "sol_storage! { #[entrypoint] struct C { uint8 a; } }";
    let half = 50_000;
    for (open, inner, close) in [
        ("const X: usize = ", "(|)", "0;"),
        ("const X: usize = ", "!|", "0;"),
        ("fn x() {", "{|}", "}"),
        ("type X = ", "&|", "u8;"),
        ("type X = ", "A<|>", "u8;"),
        ("fn x(", "&|", "x: u8) {}"),
        ("", "mod a{|}", ""),
        ("sol_storage! { struct X { ", "mapping(bool=>|)", "bool x; } }"),
        ("sol_storage! { struct X { bool", "|[]", " x; } }"),
    ] {
        let (left, right) = inner.split_once('|').unwrap();
        let times = half / left.len().max(right.len());
        let (last, end) = close.split_once(' ').unwrap_or((close, ""));
        let nested = format!("{contract}{open}{}{last}{} {end}", left.repeat(times), right.repeat(times));
        let _ = try_files(&[("src/lib.rs", &nested)], None);
    }
    assert!(refused(&format!("{contract}{}", " ".repeat(600_000))).contains("and files of up to 524288 are read"));

    let chain = |first: &str, next: &dyn Fn(usize) -> String| {
        (1..=60).fold(format!("use stylus_sdk::{{prelude::*, storage::*}};\n{first}"), |text, at| text + &next(at))
    };
    let entry = "\n#[storage] #[entrypoint] struct C { a: ";
    let pair = "#[storage] struct Two<T, U> { x: T, y: U }\n";
    let types = chain(&format!("{pair} type A0 = StorageU8;"), &|at| format!("type A{at} = Two<A{0}, A{0}>;", at - 1));
    assert!(refused(&format!("{types}{entry} A60 }}")).contains("understood"));
    assert!(refused(&format!("{types}{entry} A12 }}")).contains("too long to be told"));
    let structs = chain("#[storage] struct S0 { x: StorageU256 }", &|at| {
        format!("#[storage] struct S{at} {{ x: S{0}, y: S{0} }}", at - 1)
    });
    assert!(refused(&format!("{structs}{entry} S60 }}")).contains("has no end"));
    let large = laid(&format!("{structs}{entry} S27 }}"));
    assert!(table(&large).lines().count() < 60_000 && compare(&large, &large).clashes.is_empty());
    let renamed = laid(&format!("{structs}{entry} S27 }}").replace("x:", "z:"));
    assert!(!compare(&large, &renamed).renamed.is_empty());
    let wide = chain("#[storage] struct S0 { x: StorageArray<StorageU256, 4294967295> }", &|_| String::new());
    assert!(
        refused(
            &format!("{wide}{entry} S0, b: S0 }} #[storage] struct T {{ s: C }}")
                .replace("#[entrypoint]", "")
                .replace("struct T", "#[entrypoint] struct T")
        )
        .contains("more slots than a module can count")
    );
    let numbers = chain("const N0: usize = 0;", &|at| format!("const N{at}: usize = N{0} + N{0};", at - 1));
    assert!(refused(&format!("{numbers}{entry} StorageArray<StorageU8, N60> }}")).contains("is not a supported constant"));
    let globs = chain("mod m0 {}", &|at| format!("mod m{at} {{ pub use super::m{0}::*; pub use super::m{0}::*; }}", at - 1));
    assert!(refused(&format!("{globs}{entry} m60::X }}")).contains("imported in too many ways"));

    // Malicious layout: an endless list of types against a recursive one.
    let here = laid("sol_storage! { #[entrypoint] struct C { Node a; } struct Node { mapping(uint256 => Node) x; } }");
    let mut long = serde_json::to_value(&here).unwrap();
    let (node, map) = ("t_struct(here::Node)_storage", "t_mapping(t_uint256,t_struct(here::Node)_storage)");
    for at in 0..20_000 {
        let (mut one, mut other) = (long["types"][node].clone(), long["types"][map].clone());
        one["members"][0]["type"] = format!("m{at}").into();
        other["value"] = format!("n{}", at + 1).into();
        (long["types"][format!("n{at}")], long["types"][format!("m{at}")]) = (one, other);
    }
    long["types"]["n20000"] = long["types"][node].clone();
    long["storage"][0]["type"] = "n0".into();
    let long = Layout::parse(&serde_json::to_vec(&long).unwrap()).unwrap();
    assert!(!compare(&long, &here).clashes.is_empty());
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

fn changes(old: &str, new: &str) -> Comparison {
    compare(&fields(old), &fields(new))
}

#[test]
fn new_fields_may_use_free_slots() {
    for (old, new, added) in [
        ("address a;", "address a; uint256 b;", "b"),
        ("address a;", "address a; uint64 b;", "b"),
        ("uint128 a; uint256 b;", "uint128 a; uint64 c; uint256 b;", "c"),
        ("uint256 a; uint256[50] __gap; uint256 z;", "uint256 a; address b; uint256[49] __gap; uint256 z;", "b"),
        ("uint256[2] __gap; uint256 z;", "uint256 a; uint256 b; uint256 z;", "a b"),
        (
            "mapping(address => Pair) a; Old old; } struct Old { bool x;",
            "mapping(address => Pair) a; Old old; bool b; } struct Old { bool x; bool y;",
            "old.y b",
        ),
        (
            "mapping(bool => S[]) a; } struct S { mapping(bool => T) t; } struct T { bool x;",
            "mapping(bool => S[]) a; } struct S { mapping(bool => T) t; } struct T { bool x; uint256 y;",
            "a[…][…].t[…].y",
        ),
        // A struct used in several places is reported once.
        ("S s; S t; } struct S { bool x;", "S s; S t; } struct S { bool x; bool y;", "s.y"),
        ("S[] a; } struct S { bool x; uint256[3] __gap;", "S[] a; } struct S { bool x; uint256 y; uint256[2] __gap;", "a[…].y"),
        ("S[] a; } struct S { bool x;", "S[] a; } struct S { bool x; bool y;", "a[…].y"),
        ("bool[4][] a;", "bool[5][] a;", ""),
        ("bool a; uint8[4] list;", "bool a; uint8[70] list;", ""),
        ("mapping(bool => uint8[4]) list;", "mapping(bool => uint8[5]) list;", ""),
    ] {
        let found = changes(old, new);
        assert!(found.clashes.is_empty() && found.renamed.is_empty(), "{old} → {new}: {found:?}");
        assert_eq!(found.added.iter().map(|one| one.field.as_str()).collect::<Vec<_>>().join(" "), added, "{old} → {new}");
    }
}

#[test]
fn upgrade_keeps_stored_fields() {
    use Kind::*;
    for (old, new, clashes) in [
        ("uint256 a; uint256 b;", "uint256 b; uint256 a;", &[(Moved, "a"), (Moved, "b")][..]),
        ("uint256 a; uint256 b;", "uint256 x; uint256 a; uint256 b;", &[(Inserted, "x"), (Moved, "a"), (Moved, "b")]),
        ("uint256 a; uint256 b;", "uint256 b;", &[(Removed, "a"), (Moved, "b")]),
        ("uint256 a; uint256 b;", "uint256 a;", &[(Removed, "b")]),
        ("uint256 a;", "address a;", &[(Retyped, "a")]),
        ("uint64 a;", "uint128 a;", &[(Retyped, "a")]),
        ("uint128 a; uint128 b;", "uint256 a; uint128 b;", &[(Retyped, "a"), (Moved, "b")]),
        ("address a; bool b;", "address a; uint8 c; bool b;", &[(Inserted, "c"), (Moved, "b")]),
        ("uint256 a;", "address x;", &[(Replaced, "a")]),
        ("string a;", "bytes a;", &[(Retyped, "a")]),
        ("bool[] a;", "bool[4] a;", &[(Retyped, "a")]),
        ("bool[4] a;", "bool[3] a;", &[(Shrunk, "a")]),
        ("bool[] a;", "uint8[] a;", &[(Retyped, "a")]),
        ("bool[4][] a;", "bool[40][] a;", &[(Retyped, "a")]),
        ("mapping(address => bool) a;", "mapping(uint256 => bool) a;", &[(Retyped, "a")]),
        ("mapping(address => bool) a;", "mapping(address => uint8) a;", &[(Retyped, "a")]),
        ("uint256[2] __gap; uint256 z;", "uint256 a; uint256[2] __gap; uint256 z;", &[(Moved, "z")]),
        ("uint256[2] __gaps;", "uint256 a;", &[(Replaced, "__gaps")]),
        ("uint256 a; uint256 b; uint256[2] __gap;", "uint256 a; uint256[3] __gap;", &[(Removed, "b")]),
        ("Pair p; } struct X { bool x;", "bool x; Pair p; } struct X { bool x;", &[(Inserted, "x"), (Moved, "p")]),
        ("S s; bool z; } struct S { uint256 x;", "S s; bool z; } struct S { uint256 x; uint256 y;", &[(Moved, "z")]),
        ("S[] s; } struct S { bool x;", "S[] s; } struct S { bool x; uint256 y;", &[(Resized, "s")]),
        ("S[2] s; } struct S { bool x;", "S[2] s; } struct S { bool x; uint256 y;", &[(Resized, "s")]),
        ("S[2][] s; } struct S { bool x;", "S[2][] s; } struct S { bool x; uint256 y;", &[(Resized, "s")]),
        ("S[] s; } struct S { bool x; uint256[3] __gap;", "S[] s; } struct S { bool x;", &[(Resized, "s")]),
        ("S[] s; } struct S { bool x; uint256[3] __gap;", "S[] s; } struct S { bool x; uint256[4] __gap;", &[(Resized, "s")]),
        (
            "mapping(bool => S[]) s; } struct S { bool x; uint256[3] __gap;",
            "mapping(bool => S[]) s; } struct S { bool x; uint256 y; uint256[3] __gap;",
            &[(Resized, "s")],
        ),
        // Fields of one struct are reported once.
        ("S s; S t; } struct S { uint256 x;", "S s; S t; } struct S { int256 x;", &[(Retyped, "s.x")]),
        ("S s; S t; } struct S { uint256 x;", "S u; S t; } struct S { int256 x;", &[(Replaced, "s")]),
        (
            "mapping(bool => S) s; } struct S { bool x; bool y;",
            "mapping(bool => S) s; } struct S { bool y; bool x;",
            &[(Moved, "s[…].x"), (Moved, "s[…].y")],
        ),
        ("mapping(bool => S) s; } struct S { bool x;", "mapping(bool => S) s; } struct S { uint16 x;", &[(Retyped, "s[…].x")]),
    ] {
        let found = changes(old, new);
        let told: Vec<_> = found.clashes.iter().map(|clash| (clash.kind, clash.field.as_str())).collect();
        assert_eq!(told, clashes, "{old} → {new}");
        for clash in &found.clashes {
            assert!(clash.to_string().contains("slot "), "{clash}");
        }
    }
}

#[test]
fn renamed_field_is_reported() {
    let found = changes("uint256 a; Pair p;", "uint256 b; Pair p;");
    assert!(found.clashes.is_empty(), "{found:?}");
    assert_eq!(found.renamed[0].to_string(), "a at slot 0 is called b now");
    // Swapped names are not renames.
    let found = changes("uint256 a; uint256 b;", "uint256 c; uint256 a;");
    assert_eq!(found.clashes.iter().map(|clash| clash.kind).collect::<Vec<_>>(), [Kind::Inserted, Kind::Moved, Kind::Removed]);
}

#[test]
fn conflict_names_slot_and_remedy() {
    let found = changes("address a; uint64 b;", "uint64 x; address a; uint64 b;");
    assert_eq!(
        found.clashes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "x: uint64 at slot 0 is new and lies where a of the old version lies: put it behind all other fields, or into a gap",
            "a was at slot 0 and is at slot 0 offset 8: keep the order and the types of what lies before it, and append what is new",
            "b was at slot 0 offset 20 and is at slot 1: keep the order and the types of what lies before it, and append what is new",
        ]
    );
}
