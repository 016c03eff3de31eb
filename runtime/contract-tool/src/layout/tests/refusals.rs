//! Sources that have no layout.

use super::super::{compare::compare, entry, solc::Layout, table::table};
use super::{laid, metadata, refused, try_files};

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
