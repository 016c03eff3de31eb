//! Comparison of encodings with the frozen bytes of a fixture.

use std::fmt::Write;

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
