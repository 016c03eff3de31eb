//! Comparison of a new version with an old one.

use super::super::compare::{Comparison, Kind, compare};
use super::fields;

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
