//! Compares two modules: how the code at an address differs from a build.
//!
//! Both modules may be malicious. So unreadable parts are reported, lists are cut, and names are escaped
//! before printing.

use corniche_abi::interface;
use corniche_harness::Symbols;
use std::{collections::BTreeMap, ops::Range};
use wasmparser::{Parser, Payload, TypeRef};

/// Maximum number of reported sections: a module may have a hundred thousand.
const MAX_SECTIONS: usize = 16;

/// Maximum number of printed characters of a name.
const MAX_LETTERS: usize = 80;

/// Magic number and version, before the first section.
const PREAMBLE_BYTES: usize = 8;

/// Differences between two modules.
#[derive(Debug)]
pub struct Difference {
    /// One line each: first difference, every section, first function.
    pub lines: Vec<String>,
    /// True if only custom sections differ, which are not executed.
    pub only_custom: bool,
}

/// `None` if the bytes are equal.
pub fn compare(deployed: &[u8], built: &[u8]) -> Option<Difference> {
    if deployed == built {
        return None;
    }
    let byte = deployed.iter().zip(built).take_while(|(one, other)| one == other).count();
    let (deployed, built) = (Module::read(deployed), Module::read(built));
    let only_custom = byte >= PREAMBLE_BYTES && deployed.whole && built.whole && deployed.running().eq(built.running());
    let mut lines = vec![beginning(byte, &deployed, &built)];
    lines.extend(sections(&deployed, &built));
    match only_custom {
        true => lines.push("what runs is the same: only custom sections differ".into()),
        false => lines.extend(functions(&deployed, &built)),
    }
    Some(Difference { lines, only_custom })
}

/// Parts of a module, as far as it can be parsed.
struct Module<'a> {
    /// In their order.
    sections: Vec<Section<'a>>,
    /// Bodies of the functions that are not imported.
    functions: Vec<&'a [u8]>,
    /// Number of imported functions.
    imported: usize,
    symbols: Symbols,
    /// True if the module was parsed to its end.
    whole: bool,
}

struct Section<'a> {
    id: u8,
    /// Unique within the module.
    name: String,
    /// Range of the body, without id and length.
    range: Range<usize>,
    body: &'a [u8],
}

impl<'a> Module<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let symbols = Symbols::of(bytes).unwrap_or_default();
        let mut module = Self { sections: Vec::new(), functions: Vec::new(), imported: 0, symbols, whole: true };
        let mut met = BTreeMap::new();
        for payload in Parser::new(0).parse_all(bytes) {
            let Ok(payload) = payload else {
                module.whole = false;
                break;
            };
            match &payload {
                Payload::ImportSection(section) => {
                    let imports = section.clone().into_imports().map_while(Result::ok);
                    module.imported = imports.filter(|import| matches!(import.ty, TypeRef::Func(_))).count();
                }
                Payload::CodeSectionEntry(body) => module.functions.extend(bytes.get(body.range())),
                _ => {}
            }
            if let Some((id, range)) = payload.as_section() {
                let name = unique(section_name(id, &payload), &mut met);
                let body = bytes.get(range.clone()).unwrap_or_default();
                module.sections.push(Section { id, name, range, body });
            }
        }
        module
    }

    /// Sections that affect execution.
    fn running(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        self.sections.iter().filter(|section| section.id != 0).map(|section| (section.id, section.body))
    }

    /// Section that contains a byte; id and length belong to it.
    fn section_at(&self, byte: usize) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| byte < section.range.end)
    }

    fn bodies(&self) -> BTreeMap<&str, &'a [u8]> {
        self.sections.iter().map(|section| (section.name.as_str(), section.body)).collect()
    }

    /// Name of a function that is not imported.
    fn function_name(&self, at: usize) -> Option<String> {
        let name = self.symbols.name(u32::try_from(self.imported + at).ok()?)?;
        Some(name.chars().take(MAX_LETTERS).flat_map(char::escape_debug).collect())
    }
}

/// Name of a section: the format's for standard ones, its own for a custom one.
fn section_name(id: u8, payload: &Payload<'_>) -> String {
    if let Payload::CustomSection(section) = payload {
        let name: String = section.name().chars().take(MAX_LETTERS).collect();
        return format!("custom {name:?}{}", purpose(&name).map(|purpose| format!(" ({purpose})")).unwrap_or_default());
    }
    let names = [
        "custom",
        "types",
        "imports",
        "functions",
        "tables",
        "memory",
        "globals",
        "exports",
        "start",
        "elements",
        "code",
        "data",
        "data count",
    ];
    names.get(usize::from(id)).map_or_else(|| format!("section {id}"), |name| (*name).to_owned())
}

/// Usual content of a custom section.
fn purpose(name: &str) -> Option<&'static str> {
    match name {
        interface::SECTION => Some("the ABI"),
        "name" => Some("names of functions"),
        "producers" => Some("versions of compilers"),
        "target_features" => Some("what the compiler was allowed to use"),
        _ => name.starts_with(".debug_").then_some("debug information"),
    }
}

/// A module may have several custom sections with the same name.
fn unique(name: String, met: &mut BTreeMap<String, usize>) -> String {
    let times = met.entry(name.clone()).or_default();
    *times += 1;
    if *times == 1 { name } else { format!("{name}, number {times} of that name") }
}

fn beginning(byte: usize, deployed: &Module<'_>, built: &Module<'_>) -> String {
    let place = match deployed.section_at(byte).or_else(|| built.section_at(byte)) {
        _ if byte < PREAMBLE_BYTES => "in the header".to_owned(),
        Some(section) => format!("in the section {}", section.name),
        None => "after the last section".to_owned(),
    };
    format!("byte {byte} (0x{byte:x}) is the first that differs, {place}")
}

fn sections(deployed: &Module<'_>, built: &Module<'_>) -> Vec<String> {
    let (of_deployed, of_built) = (deployed.bodies(), built.bodies());
    let all_deployed = deployed
        .sections
        .iter()
        .filter_map(|section| told(&section.name, Some(section.body), of_built.get(section.name.as_str()).copied()));
    let only_built = built.sections.iter().filter(|section| !of_deployed.contains_key(section.name.as_str()));
    let mut lines: Vec<_> =
        all_deployed.chain(only_built.filter_map(|section| told(&section.name, None, Some(section.body)))).collect();
    if lines.is_empty() && deployed.whole && built.whole {
        lines.push("every section is the same: only their order or how their lengths are encoded differs".into());
    }
    if lines.len() > MAX_SECTIONS {
        let more = lines.len() - MAX_SECTIONS;
        lines.truncate(MAX_SECTIONS);
        lines.push(format!("and {more} more sections"));
    }
    for (module, is_what) in [(deployed, "the code on the chain"), (built, "what was built")] {
        if !module.whole {
            lines.push(format!("{is_what} cannot be read as a module to its end"));
        }
    }
    lines
}

/// `None` if they are equal.
fn told(name: &str, deployed: Option<&[u8]>, built: Option<&[u8]>) -> Option<String> {
    let what = match (deployed, built) {
        (Some(one), Some(other)) if one == other => return None,
        (Some(one), Some(other)) if one.len() == other.len() => format!("{} bytes each, different content", one.len()),
        (Some(one), Some(other)) => format!("{} bytes on the chain, {} built", one.len(), other.len()),
        (Some(one), None) => format!("{} bytes on the chain, none built", one.len()),
        (None, Some(other)) => format!("none on the chain, {} bytes built", other.len()),
        (None, None) => return None,
    };
    Some(format!("{name}: {what}"))
}

fn functions(deployed: &Module<'_>, built: &Module<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if deployed.functions.len() != built.functions.len() {
        lines.push(format!("{} functions on the chain, {} built", deployed.functions.len(), built.functions.len()));
    }
    let mut both = deployed.functions.iter().zip(&built.functions).enumerate();
    if let Some((at, (one, other))) = both.find(|(_, (one, other))| one != other) {
        let name = built.function_name(at).or_else(|| deployed.function_name(at));
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        let (index, one, other) = (built.imported + at, one.len(), other.len());
        lines.push(format!("function {index}{name} is the first that differs: {one} bytes on the chain, {other} built"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(id: u8, body: &[u8]) -> Vec<u8> {
        [&[id, body.len() as u8][..], body].concat()
    }

    fn custom(name: &str, content: &[u8]) -> Vec<u8> {
        section(0, &[&[name.len() as u8], name.as_bytes(), content].concat())
    }

    /// Module with two functions; the second has this body.
    fn module(body: &[u8]) -> Vec<u8> {
        let code = [&[2, 2, 0, 0x0b, body.len() as u8 + 2, 0][..], body, &[0x0b]].concat();
        [&b"\0asm\x01\0\0\0"[..], &section(1, &[1, 0x60, 0, 0]), &section(3, &[2, 0, 0]), &section(10, &code)].concat()
    }

    fn with(custom: &[Vec<u8>]) -> Vec<u8> {
        [module(&[]), custom.concat()].concat()
    }

    fn lines(deployed: &[u8], built: &[u8]) -> Vec<String> {
        compare(deployed, built).expect("they differ").lines
    }

    #[test]
    fn equal_bytes_have_no_difference() {
        assert!(compare(&module(&[0x01]), &module(&[0x01])).is_none());
    }

    #[test]
    fn difference_names_byte_section_and_function() {
        let difference = compare(&module(&[0x01]), &module(&[0x01, 0x01])).unwrap();
        assert!(!difference.only_custom);
        assert_eq!(
            difference.lines,
            [
                "byte 20 (0x14) is the first that differs, in the section code",
                "code: 8 bytes on the chain, 9 built",
                "function 1 is the first that differs: 3 bytes on the chain, 4 built",
            ]
        );
        // Same length, and with a name for the function.
        let names = custom("name", &[1, 4, 1, 1, 1, b'f']);
        let [one, other] = [[0x01u8], [0x00]].map(|body| [module(&body), names.clone()].concat());
        assert_eq!(
            lines(&one, &other),
            [
                "byte 27 (0x1b) is the first that differs, in the section code",
                "code: 8 bytes each, different content",
                "function 1 (f) is the first that differs: 3 bytes on the chain, 3 built",
            ]
        );
    }

    #[test]
    fn sections_are_listed_in_module_order() {
        let globals = [&b"\0asm\x01\0\0\0"[..], &section(1, &[1, 0x60, 0, 0]), &section(6, &[0])].concat();
        assert_eq!(
            lines(&module(&[]), &globals),
            [
                "byte 14 (0xe) is the first that differs, in the section functions",
                "functions: 3 bytes on the chain, none built",
                "code: 7 bytes on the chain, none built",
                "globals: none on the chain, 1 bytes built",
                "2 functions on the chain, 0 built",
            ]
        );
    }

    #[test]
    fn custom_sections_are_not_code() {
        let difference = compare(&interface::embed(&module(&[]), b"[]"), &module(&[])).unwrap();
        assert!(difference.only_custom);
        assert_eq!(
            difference.lines,
            [
                "byte 28 (0x1c) is the first that differs, in the section custom \"corniche.abi\" (the ABI)",
                "custom \"corniche.abi\" (the ABI): 15 bytes on the chain, none built",
                "what runs is the same: only custom sections differ",
            ]
        );
        let (one, other) = (with(&[custom("producers", b"1"), custom("name", b"")]), with(&[custom("producers", b"2")]));
        assert!(compare(&one, &other).unwrap().only_custom);
        // Same name as the interface section with a suffix, or the name of a code section: still a custom
        // section.
        for name in ["corniche.abi2", "code"] {
            let difference = compare(&with(&[custom(name, b"1")]), &with(&[])).unwrap();
            assert!(difference.only_custom && difference.lines[1].starts_with(&format!("custom {name:?}: ")), "{difference:?}");
        }
        // A difference in a custom section does not hide a difference in the code.
        let both = compare(&interface::embed(&module(&[0x01]), b"[]"), &module(&[])).unwrap();
        assert!(!both.only_custom && both.lines.iter().any(|line| line.starts_with("code: ")), "{both:?}");
    }

    #[test]
    fn reordered_sections_are_reported() {
        let [one, other] = [custom("a", b"1"), custom("b", b"2")];
        let difference = compare(&with(&[one.clone(), other.clone()]), &with(&[other, one])).unwrap();
        assert!(difference.only_custom && difference.lines[1].starts_with("every section is the same"), "{difference:?}");
    }

    #[test]
    fn unreadable_module_is_never_equal() {
        let cut = &module(&[])[..24];
        let difference = compare(&module(&[]), cut).unwrap();
        assert!(!difference.only_custom, "{difference:?}");
        assert!(difference.lines.contains(&"what was built cannot be read as a module to its end".into()), "{difference:?}");
        // Its readable sections equal those of the other module.
        let trailing = [module(&[]), vec![0xff; 3]].concat();
        let difference = compare(&module(&[]), &trailing).unwrap();
        assert!(!difference.only_custom && difference.lines[0].ends_with("after the last section"), "{difference:?}");
        // A component is not a module, whatever it contains.
        let difference = compare(b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0").unwrap();
        assert!(!difference.only_custom && difference.lines[0].ends_with("in the header"), "{difference:?}");
    }

    #[test]
    fn untrusted_names_are_escaped_and_lists_limited() {
        let hostile = "\u{1b}[2J\u{202e}\"";
        let told = lines(&with(&[custom(hostile, b""), custom(hostile, b"")]), &with(&[])).join("\n");
        assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'), "{told:?}");
        assert!(told.contains("number 2 of that name: "), "{told}");
        let names = custom("name", &[1, 6, 1, 1, 3, 0x1b, b'[', b'm']);
        let told = lines(&[module(&[0x01]), names].concat(), &module(&[])).join("\n");
        assert!(told.contains("function 1 (\\u{1b}[m) ") && !told.contains('\u{1b}'), "{told:?}");
        let many = vec![custom("x", b""); 10_000];
        let told = lines(&with(&many), &with(&[]));
        assert!(told.len() == MAX_SECTIONS + 3 && told[MAX_SECTIONS + 1] == "and 9984 more sections", "{told:?}");
    }

    /// Every prefix and every changed byte: reported as a difference, without a panic.
    #[test]
    fn damaged_modules_never_panic() {
        let whole = interface::embed(&with(&[custom("name", &[1, 4, 1, 1, 1, b'f'])]), b"[]");
        for length in 0..whole.len() {
            assert!(compare(&whole, &whole[..length]).is_some_and(|difference| difference.lines.len() > 1), "cut at {length}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x81;
            assert!(compare(&changed, &whole).is_some_and(|difference| difference.lines.len() > 1), "changed at {at}");
        }
    }
}
