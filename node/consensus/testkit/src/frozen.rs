//! Comparison of encodings with the frozen bytes of a fixture.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::wire;
use std::fmt::{Debug, Write};

/// Asserts that encodings are those of a fixture. It has one line for each, in order: the name, a space, and hexadecimal digits. The
/// message of the panic is the whole text, for a deliberate change of the fixture.
#[track_caller]
pub fn assert_frozen(fixture: &str, encodings: impl IntoIterator<Item = (&'static str, Vec<u8>)>) {
    let mut text = String::new();
    for (name, bytes) in encodings {
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
            hex
        });
        writeln!(text, "{name} {hex}").expect("writing to a string cannot fail");
    }
    assert!(text == fixture, "encoding: expected the frozen bytes, got\n{text}");
}

/// Encodings of messages or records, for [`assert_frozen`]. Asserts that each of them is decoded again, and that no cut and no
/// additional byte is accepted.
#[track_caller]
pub fn encodings<T>(instances: impl IntoIterator<Item = (&'static str, T)>) -> Vec<(&'static str, Vec<u8>)>
where
    T: BorshSerialize + BorshDeserialize + PartialEq + Debug,
{
    let mut found = Vec::new();
    for (name, instance) in instances {
        let bytes = wire::encode(&instance);
        assert_eq!(wire::decode::<T>(&bytes).as_ref(), Ok(&instance), "{name}");
        let is_refused = |bytes: &[u8]| wire::decode::<T>(bytes).is_err();
        assert!((0..bytes.len()).all(|length| is_refused(&bytes[..length])), "{name}: a cut is accepted");
        assert!(is_refused(&[bytes.as_slice(), &[0]].concat()), "{name}: an additional byte is accepted");
        found.push((name, bytes));
    }
    found
}
