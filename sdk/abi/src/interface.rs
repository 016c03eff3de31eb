//! The JSON ABI embedded in a module.
//!
//! A contract's JSON ABI (UTF-8, the array only) is in a custom section named [`SECTION`]. It is part of the code, so a reader of
//! the code also gets the names of its functions, events and errors, without a registry or an upload. It does not affect the
//! module's behavior, and it is not verified.
//!
//! Modules are untrusted input. [`embedded`] reads the header of each section once, checks each length against the available
//! bytes, and allocates nothing.

use alloc::vec::Vec;

/// Name of the custom section.
pub const SECTION: &str = "corniche.abi";

/// Magic number and version of the binary format.
const PREAMBLE: &[u8; 8] = b"\0asm\x01\0\0\0";

/// Id of custom sections, which do not affect the module's behavior; they start with a name.
const CUSTOM: u8 = 0;

/// Returns the ABI in a module: untrusted bytes. Returns `None` if there is no such section, or if the bytes before it are not a
/// sequence of sections. The first such section counts.
pub fn embedded(wasm: &[u8]) -> Option<&[u8]> {
    sections(wasm)?.map_while(|section| section).find_map(|section| section.content_of(SECTION))
}

/// Returns the module with this ABI, which replaces any existing one. Returns bytes that are not a sequence of sections unchanged:
/// their deployment reports the fault.
pub fn embed(wasm: &[u8], json: &[u8]) -> Vec<u8> {
    let Some(mut module) = only(wasm, |section| section.content_of(SECTION).is_none()) else { return wasm.to_vec() };
    let mut content = Vec::with_capacity(SECTION.len() + json.len() + 1);
    write_number(&mut content, SECTION.len());
    content.extend_from_slice(SECTION.as_bytes());
    content.extend_from_slice(json);
    // Append it, so that the code keeps the offsets that messages and debug information contain.
    module.push(CUSTOM);
    write_number(&mut module, content.len());
    module.extend_from_slice(&content);
    module
}

/// Returns the module for deployment: without custom sections, except the ABI. Returns bytes that are not a sequence of sections
/// unchanged.
pub fn stripped(wasm: &[u8]) -> Vec<u8> {
    let keeps = |section: &Section<'_>| section.id != CUSTOM || section.content_of(SECTION).is_some();
    only(wasm, keeps).unwrap_or_else(|| wasm.to_vec())
}

/// Returns a module of the selected sections only; `None` if the bytes are not a sequence of sections.
fn only(wasm: &[u8], keeps: impl Fn(&Section<'_>) -> bool) -> Option<Vec<u8>> {
    let mut module = PREAMBLE.to_vec();
    for section in sections(wasm)? {
        let section = section?;
        if keeps(&section) {
            module.extend_from_slice(section.whole);
        }
    }
    Some(module)
}

struct Section<'a> {
    id: u8,
    /// Includes id and length.
    whole: &'a [u8],
    body: &'a [u8],
}

impl<'a> Section<'a> {
    /// Returns the bytes after the name, if this is the custom section with this name.
    fn content_of(&self, name: &str) -> Option<&'a [u8]> {
        if self.id != CUSTOM {
            return None;
        }
        let mut rest = self.body;
        let length = read_number(&mut rest)?;
        let (found, content) = rest.split_at_checked(length)?;
        (found == name.as_bytes()).then_some(content)
    }
}

/// Returns a module's sections in order. An incomplete section gives `None` and ends the iteration.
fn sections(wasm: &[u8]) -> Option<impl Iterator<Item = Option<Section<'_>>>> {
    let mut rest = wasm.strip_prefix(PREAMBLE)?;
    Some(core::iter::from_fn(move || {
        let whole = rest;
        let (&id, after) = whole.split_first()?;
        rest = after;
        let body = read_number(&mut rest).and_then(|length| rest.split_at_checked(length));
        let Some((body, after)) = body else {
            rest = &[];
            return Some(None);
        };
        rest = after;
        Some(Some(Section { id, whole: &whole[..whole.len() - after.len()], body }))
    }))
}

/// Reads an unsigned LEB128 number of at most 32 bits and five bytes.
fn read_number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0u32;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u32::from(byte & 0x7f);
        if part.leading_zeros() < shift {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(number).ok();
        }
    }
    None
}

fn write_number(into: &mut Vec<u8>, mut number: usize) {
    loop {
        let part = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            return into.push(part);
        }
        into.push(part | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABI: &[u8] = br#"[{"type":"function","name":"number","inputs":[]}]"#;

    /// Encodes a section; the length takes `length_bytes` bytes.
    fn section(id: u8, body: &[u8], length_bytes: usize) -> Vec<u8> {
        let mut section = Vec::from([id]);
        for at in 0..length_bytes {
            let more = if at + 1 < length_bytes { 0x80 } else { 0 };
            section.push((body.len() >> (7 * at)) as u8 & 0x7f | more);
        }
        section.extend_from_slice(body);
        section
    }

    fn named(name: &str, content: &[u8]) -> Vec<u8> {
        section(CUSTOM, &[&[name.len() as u8], name.as_bytes(), content].concat(), 1)
    }

    fn module(sections: &[Vec<u8>]) -> Vec<u8> {
        [&PREAMBLE[..], &sections.concat()].concat()
    }

    /// A type section with one type, `() -> ()`, as compilers write it.
    fn types() -> Vec<u8> {
        section(1, &[1, 0x60, 0, 0], 1)
    }

    #[test]
    fn embedded_abi_round_trips() {
        let plain = module(&[types(), named("name", b"abc")]);
        assert_eq!(embedded(&plain), None);
        let with = embed(&plain, ABI);
        assert_eq!(embedded(&with), Some(ABI));
        assert!(with.starts_with(&plain), "nothing before it moved");
        assert_eq!(embed(&plain, b"").len(), plain.len() + 2 + 1 + SECTION.len());
    }

    #[test]
    fn second_embed_replaces_first() {
        let carried = module(&[named(SECTION, b"[1]"), types(), named(SECTION, b"[2]")]);
        assert_eq!(embedded(&carried), Some(&b"[1]"[..]));
        let replaced = embed(&carried, ABI);
        assert_eq!(replaced, embed(&module(&[types()]), ABI), "both are gone");
        assert_eq!(embed(&replaced, ABI), replaced);
    }

    #[test]
    fn leb128_lengths_round_trip() {
        for length in [0, 1, 100, 113, 114, 115, 127, 128, 16_000, 16_383, 16_384, 2_100_000] {
            let json = Vec::from_iter((0..length).map(|at| at as u8));
            assert_eq!(embedded(&embed(PREAMBLE, &json)), Some(&json[..]), "{length}");
        }
    }

    #[test]
    fn section_name_must_match_exactly() {
        for other in ["", "corniche", "corniche.ab", "corniche.abi2", "Corniche.abi"] {
            assert_eq!(embedded(&module(&[named(other, ABI)])), None, "{other}");
        }
        let as_data = section(11, &[&[SECTION.len() as u8], SECTION.as_bytes(), ABI].concat(), 1);
        assert_eq!(embedded(&module(&[as_data])), None);
    }

    #[test]
    fn rejects_invalid_leb128() {
        for (bytes, number) in [
            (&[0x00][..], Some(0)),
            (&[0x7f], Some(127)),
            (&[0x80, 0x01], Some(128)),
            (&[0x80, 0x80, 0x80, 0x80, 0x00], Some(0)), // longer than necessary; five bytes is the maximum
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], Some(u32::MAX as usize)),
            (&[0xff, 0xff, 0xff, 0xff, 0x1f], None), // a bit beyond the 32nd
            (&[0x80, 0x80, 0x80, 0x80, 0x10], None),
            (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00], None), // a sixth byte
            (&[0x80], None),
            (&[], None),
        ] {
            assert_eq!(read_number(&mut &*bytes), number, "{bytes:x?}");
        }
        let padded = module(&[section(1, &[0], 5), section(CUSTOM, &named(SECTION, ABI)[2..], 5)]);
        assert_eq!(embedded(&padded), Some(ABI), "linkers pad lengths to five bytes");
        let too_long = module(&[section(1, &[0], 6), named(SECTION, ABI)]);
        assert_eq!(embedded(&too_long), None);
    }

    #[test]
    fn rejects_wrong_lengths() {
        let enormous = [0xff, 0xff, 0xff, 0xff, 0x0f];
        for lie in [
            [&[CUSTOM][..], &enormous].concat(),                                    // a section of 4 GiB
            section(CUSTOM, &[&enormous[..], SECTION.as_bytes(), ABI].concat(), 2), // a name of 4 GiB
            section(CUSTOM, &[&[SECTION.len() as u8], &SECTION.as_bytes()[1..]].concat(), 1), // a name longer than its section
            section(CUSTOM, &[], 1),
            section(CUSTOM, &[0x80], 1),
            Vec::from([CUSTOM]),
        ] {
            assert_eq!(embedded(&module(core::slice::from_ref(&lie))), None, "{lie:x?}");
            assert_eq!(embedded(&module(&[named("a", b""), lie])), None);
        }
        let before = module(&[named(SECTION, ABI), Vec::from([1, 0xff])]);
        assert_eq!(embedded(&before), Some(ABI), "it comes before what is broken");
        assert_eq!(embed(&before, b"[]"), before, "and is left for the deployment to refuse");
    }

    #[test]
    fn rejects_non_modules() {
        for bytes in [&b""[..], b"\0asm", b"\0asm\x02\0\0\0", b"\0asm\x0d\0\x01\0", b"[]", &[0xef, 0xf0, 0, 0]] {
            assert_eq!(embedded(bytes), None);
            assert_eq!(embed(bytes, ABI), bytes);
        }
        assert_eq!(embedded(PREAMBLE), None);
        assert_eq!(embedded(&embed(PREAMBLE, ABI)), Some(ABI));
    }

    /// Every prefix, and every value of every single byte: there is always a result, never from outside of the module.
    #[test]
    fn truncated_or_changed_bytes_never_panic() {
        let whole = embed(&module(&[types(), named("name", b"abc")]), ABI);
        for length in 0..whole.len() {
            assert_eq!(embedded(&whole[..length]), None, "cut at {length}");
            let _ = embed(&whole[..length], ABI);
        }
        for at in 0..whole.len() {
            for byte in 0..=u8::MAX {
                let mut changed = whole.clone();
                changed[at] = byte;
                if let Some(found) = embedded(&changed) {
                    let starts = found.as_ptr() as usize - changed.as_ptr() as usize;
                    assert!(starts + found.len() <= changed.len());
                }
                let again = embed(&changed, b"[]");
                assert!(embedded(&again) == Some(b"[]") || again == changed);
            }
        }
    }
}
