//! What a module says about itself: its interface in words, carried in the module.
//!
//! A contract's JSON ABI (UTF-8, the bare array, nothing else) lies in a custom section named [`SECTION`]. It travels with the code, so
//! whoever can read the code can name its functions, events and errors: there is no registry, and nothing to upload. Nothing in it has
//! an effect on what the module does, and nobody has checked that it is true.
//!
//! Modules come from anybody. [`embedded`] reads the headers of sections, once each, believes no length before the bytes are there, and
//! allocates nothing.

use alloc::vec::Vec;

/// The custom section's name.
pub const SECTION: &str = "corniche.abi";

/// Magic number and version of the binary format.
const PREAMBLE: &[u8; 8] = b"\0asm\x01\0\0\0";

/// A section without an effect on what the module does; it begins with a name.
const CUSTOM: u8 = 0;

/// The ABI in a module, as bytes that anybody may have put there. `None` where there is no such section, or where the bytes before it
/// are not a sequence of sections. The first one counts.
pub fn embedded(wasm: &[u8]) -> Option<&[u8]> {
    sections(wasm)?.map_while(|section| section).find_map(|section| section.content_of(SECTION))
}

/// The module with this ABI in it, in place of any that it carried. Bytes that are not a sequence of sections come back as they are: a
/// deployment says what is wrong with them.
pub fn embed(wasm: &[u8], json: &[u8]) -> Vec<u8> {
    let Some(mut module) = only(wasm, |section| section.content_of(SECTION).is_none()) else { return wasm.to_vec() };
    let mut content = Vec::with_capacity(SECTION.len() + json.len() + 1);
    write_number(&mut content, SECTION.len());
    content.extend_from_slice(SECTION.as_bytes());
    content.extend_from_slice(json);
    // Last, so that code stays where messages and debug information say that it is.
    module.push(CUSTOM);
    write_number(&mut module, content.len());
    module.extend_from_slice(&content);
    module
}

/// The module without what only people read, but for its interface: as it is deployed. Bytes that are not a sequence of sections come back
/// as they are.
pub fn stripped(wasm: &[u8]) -> Vec<u8> {
    let keeps = |section: &Section<'_>| section.id != CUSTOM || section.content_of(SECTION).is_some();
    only(wasm, keeps).unwrap_or_else(|| wasm.to_vec())
}

/// The module of these sections only; `None` when the bytes are not a sequence of sections.
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
    /// With its id and length.
    whole: &'a [u8],
    body: &'a [u8],
}

impl<'a> Section<'a> {
    /// What follows the name, if this is the custom section of that name.
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

/// A module's sections in their order; `None` in place of one that is not whole, and nothing after it.
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

/// An unsigned LEB128 number of at most 32 bits, which no more than five bytes may say.
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

    /// A section by its bytes; the length is said in as many bytes as asked for.
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

    /// One type, `() -> ()`, as compilers write it.
    fn types() -> Vec<u8> {
        section(1, &[1, 0x60, 0, 0], 1)
    }

    #[test]
    fn what_is_embedded_is_found_and_nothing_else_changes() {
        let plain = module(&[types(), named("name", b"abc")]);
        assert_eq!(embedded(&plain), None);
        let with = embed(&plain, ABI);
        assert_eq!(embedded(&with), Some(ABI));
        assert!(with.starts_with(&plain), "nothing before it moved");
        assert_eq!(embed(&plain, b"").len(), plain.len() + 2 + 1 + SECTION.len());
    }

    #[test]
    fn a_second_interface_takes_the_first_ones_place() {
        let carried = module(&[named(SECTION, b"[1]"), types(), named(SECTION, b"[2]")]);
        assert_eq!(embedded(&carried), Some(&b"[1]"[..]));
        let replaced = embed(&carried, ABI);
        assert_eq!(replaced, embed(&module(&[types()]), ABI), "both are gone");
        assert_eq!(embed(&replaced, ABI), replaced);
    }

    #[test]
    fn lengths_of_every_size_are_written_and_read() {
        for length in [0, 1, 100, 113, 114, 115, 127, 128, 16_000, 16_383, 16_384, 2_100_000] {
            let json = Vec::from_iter((0..length).map(|at| at as u8));
            assert_eq!(embedded(&embed(PREAMBLE, &json)), Some(&json[..]), "{length}");
        }
    }

    #[test]
    fn a_name_has_to_be_the_whole_name_of_a_custom_section() {
        for other in ["", "corniche", "corniche.ab", "corniche.abi2", "Corniche.abi"] {
            assert_eq!(embedded(&module(&[named(other, ABI)])), None, "{other}");
        }
        let as_data = section(11, &[&[SECTION.len() as u8], SECTION.as_bytes(), ABI].concat(), 1);
        assert_eq!(embedded(&module(&[as_data])), None);
    }

    #[test]
    fn numbers_are_what_the_format_allows() {
        for (bytes, number) in [
            (&[0x00][..], Some(0)),
            (&[0x7f], Some(127)),
            (&[0x80, 0x01], Some(128)),
            (&[0x80, 0x80, 0x80, 0x80, 0x00], Some(0)), // longer than it need be, and five bytes at most
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
    fn lengths_that_lie_lead_nowhere() {
        let enormous = [0xff, 0xff, 0xff, 0xff, 0x0f];
        for lie in [
            [&[CUSTOM][..], &enormous].concat(),                                    // a section of 4 GiB
            section(CUSTOM, &[&enormous[..], SECTION.as_bytes(), ABI].concat(), 2), // a name of 4 GiB
            section(CUSTOM, &[&[SECTION.len() as u8], &SECTION.as_bytes()[1..]].concat(), 1), // a name that its section has no room for
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
    fn other_bytes_are_no_module() {
        for bytes in [&b""[..], b"\0asm", b"\0asm\x02\0\0\0", b"\0asm\x0d\0\x01\0", b"[]", &[0xef, 0xf0, 0, 0]] {
            assert_eq!(embedded(bytes), None);
            assert_eq!(embed(bytes, ABI), bytes);
        }
        assert_eq!(embedded(PREAMBLE), None);
        assert_eq!(embedded(&embed(PREAMBLE, ABI)), Some(ABI));
    }

    /// Every prefix, and every single byte made any other: an answer always, and never from outside of the module.
    #[test]
    fn no_cut_and_no_changed_byte_breaks_it() {
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
