//! Modules that no assembler writes: encodings at and beyond the limits of the format.

use super::{Attack, attack};

type Section = (u8, Vec<u8>);

const TYPE: u8 = 1;
const IMPORT: u8 = 2;
const FUNCTION: u8 = 3;
const TABLE: u8 = 4;
const MEMORY: u8 = 5;
const EXPORT: u8 = 7;
const ELEMENT: u8 = 9;
const CODE: u8 = 10;
const DATA: u8 = 11;
const DATA_COUNT: u8 = 12;

/// LEB128 of the largest length, with no data after it.
const HUGE: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x0f];

fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

fn assemble(sections: &[Section]) -> Vec<u8> {
    let mut wasm = b"\0asm\x01\0\0\0".to_vec();
    for (id, content) in sections {
        wasm.push(*id);
        wasm.extend(leb(content.len()));
        wasm.extend(content);
    }
    wasm
}

fn code(body: &[u8]) -> Vec<u8> {
    [&[1][..], &leb(body.len()), body].concat()
}

/// The smallest contract.
fn plain() -> Vec<Section> {
    let exports = [&[2, 6][..], b"memory", &[2, 0, 15], b"user_entrypoint", &[0, 0]].concat();
    vec![
        (TYPE, vec![1, 0x60, 1, 0x7f, 1, 0x7f]),
        (FUNCTION, vec![1, 0]),
        (MEMORY, vec![1, 0, 1]),
        (EXPORT, exports),
        (CODE, code(&[0, 0x41, 0, 0x0b])),
    ]
}

/// Returns the smallest contract with another content of a section.
fn changed(id: u8, content: Vec<u8>) -> Vec<u8> {
    let sections: Vec<Section> =
        plain().into_iter().map(|(own, old)| if own == id { (id, content.clone()) } else { (own, old) }).collect();
    assemble(&sections)
}

/// Returns the smallest contract with an additional section before the first section above `id`.
fn with(id: u8, content: Vec<u8>) -> Vec<u8> {
    let mut sections = plain();
    let at = if id == DATA_COUNT { 4 } else { sections.iter().position(|(own, _)| *own > id).unwrap_or(sections.len()) };
    sections.insert(at, (id, content));
    assemble(&sections)
}

fn custom(name: &str, content: &[u8]) -> Section {
    (0, [&leb(name.len())[..], name.as_bytes(), content].concat())
}

fn behind(sections: impl IntoIterator<Item = Section>) -> Vec<u8> {
    assemble(&plain().into_iter().chain(sections).collect::<Vec<_>>())
}

/// A name section with one subsection of function names.
fn function_names(map: &[u8]) -> Section {
    custom("name", &[&[1][..], &leb(map.len()), map].concat())
}

fn swapped() -> Vec<u8> {
    let mut sections = plain();
    sections.swap(1, 2);
    assemble(&sections)
}

fn twice(id: u8) -> Vec<u8> {
    let section = plain().into_iter().find(|(own, _)| *own == id).unwrap();
    with(id, section.1)
}

pub fn attacks() -> Vec<Attack> {
    let whole = assemble(&plain());
    let locals = |runs: &[u8]| changed(CODE, code(&[runs, &[0x41, 0, 0x0b]].concat()));
    let body = |body: &[u8]| changed(CODE, code(&[&[0], body, &[0x41, 0, 0x0b]].concat()));
    let many_names: Vec<u8> = [leb(60_000), (0..60_000).flat_map(|at| [leb(at), vec![1, b'n']].concat()).collect()].concat();
    vec![
        attack("the smallest contract", "It costs less to start than it takes.", whole.clone()),
        attack("nothing", "A module without a byte.", Vec::new()),
        attack("a header and nothing else", "A module without sections.", whole[..8].to_vec()),
        attack(
            "a later version of the format",
            "A reader takes what it does not know.",
            [b"\0asm\x02\0\0\0", &whole[8..]].concat(),
        ),
        attack("a component", "A component is read as a module.", [b"\0asm\x0d\0\x01\0", &whole[8..]].concat()),
        attack("cut in the code", "A reader runs past the end.", whole[..whole.len() - 2].to_vec()),
        attack("a byte behind the end", "Two codes are one module.", [&whole[..], &[0]].concat()),
        attack(
            "a section longer than the module",
            "A reader allocates what a length promises.",
            [&whole[..8], &[TYPE], &HUGE].concat(),
        ),
        attack(
            "a length of six bytes",
            "A reader shifts beyond its number.",
            [&whole[..8], &[TYPE, 0x86, 0x80, 0x80, 0x80, 0x80, 0x00]].concat(),
        ),
        attack(
            "padded lengths",
            "Lengths of five bytes, as linkers write them, are read otherwise.",
            changed(FUNCTION, vec![0x81, 0x80, 0x80, 0x80, 0x00, 0x80, 0x80, 0x80, 0x80, 0x00]),
        ),
        attack(
            "an integer with bits beyond its type",
            "Two readers take different numbers.",
            body(&[0x41, 0xff, 0xff, 0xff, 0xff, 0x3f, 0x1a]),
        ),
        attack(
            "a padded constant",
            "Two encodings of one number have two prices.",
            body(&[0x41, 0x80, 0x80, 0x80, 0x80, 0x00, 0x1a]),
        ),
        attack("an unknown section", "A later section is skipped by some.", with(14, vec![0])),
        attack("sections out of order", "The memory is read before the function.", swapped()),
        attack("two type sections", "The second replaces the first after it was checked.", twice(TYPE)),
        attack("two memory sections", "The second memory is not counted.", twice(MEMORY)),
        attack("two code sections", "The second code is not checked.", twice(CODE)),
        attack("two export sections", "The entrypoint is exported twice.", twice(EXPORT)),
        attack("fewer bodies than functions", "A function without a body.", changed(FUNCTION, vec![2, 0, 0])),
        attack("more bodies than functions", "A body without a type.", changed(FUNCTION, vec![0])),
        attack(
            "a body longer than its section",
            "A body reaches into the next section.",
            changed(CODE, vec![1, 0x7f, 0, 0x41, 0, 0x0b]),
        ),
        attack("a body without an end", "A function falls into the next one.", changed(CODE, code(&[0, 0x41, 0]))),
        attack(
            "a body behind its end",
            "Code behind the end is not checked.",
            changed(CODE, code(&[0, 0x41, 0, 0x0b, 0x01, 0x0b])),
        ),
        attack("a function of a type that is not there", "An index reads beyond the types.", changed(FUNCTION, vec![1, 0x7f])),
        attack("four billion types", "A reader allocates what a count promises.", changed(TYPE, HUGE.to_vec())),
        attack(
            "four billion parameters",
            "A type allocates what its count promises.",
            changed(TYPE, [&[1, 0x60][..], &HUGE].concat()),
        ),
        attack("four billion functions", "The same with functions.", changed(FUNCTION, HUGE.to_vec())),
        attack("four billion exports", "The same with exports.", changed(EXPORT, HUGE.to_vec())),
        attack("four billion bodies", "The same with bodies.", changed(CODE, HUGE.to_vec())),
        attack("four billion imports", "The same with imports.", with(IMPORT, HUGE.to_vec())),
        attack("four billion table entries", "The same with the table.", with(TABLE, [&[1, 0x70, 0][..], &HUGE].concat())),
        attack(
            "four billion elements",
            "The same with a segment of the table.",
            with(ELEMENT, [&[1, 0, 0x41, 0, 0x0b][..], &HUGE].concat()),
        ),
        attack("four billion data segments", "The same with data.", with(DATA, HUGE.to_vec())),
        attack(
            "four billion announced data segments",
            "A count announces what does not follow.",
            with(DATA_COUNT, HUGE.to_vec()),
        ),
        attack("announced data that does not follow", "The count and the segments differ by one.", with(DATA_COUNT, vec![1])),
        attack("four billion locals", "One local with a count of four billion.", locals(&[&[1][..], &HUGE, &[0x7f]].concat())),
        attack(
            "locals whose sum overflows",
            "Two counts wrap around to one.",
            locals(&[&[2][..], &HUGE, &[0x7f, 2, 0x7f]].concat()),
        ),
        attack(
            "thousands of runs of no locals",
            "Runs of no locals cost nothing.",
            locals(&[leb(60_000), [0, 0x7f].repeat(60_000)].concat()),
        ),
        attack(
            "four billion targets of a branch",
            "A table of branches allocates what its count promises.",
            body(&[&[0x41, 0, 0x0e][..], &HUGE].concat()),
        ),
        attack("a branch out of the function", "A branch leaves more blocks than there are.", body(&[0x0c, 0x7f])),
        attack("an else without an if", "A reader pops what is not there.", body(&[0x05])),
        attack(
            "a block of a type that is not there",
            "A block's type reads beyond the types.",
            body(&[0x02, 0xff, 0x00, 0x0b]),
        ),
        attack(
            "a global that is not there",
            "The contract writes to the counters that instrumentation adds.",
            body(&[0x42, 0x00, 0x24, 0x00]),
        ),
        attack("a function that is not there", "The contract calls a function that instrumentation adds.", body(&[0x10, 0x01])),
        attack(
            "the second memory of a load",
            "A load names a memory that is not there.",
            body(&[0x41, 0, 0x28, 0x42, 0x01, 0x00, 0x1a]),
        ),
        attack("an alignment of 2^32", "A shift by the alignment wraps.", body(&[0x41, 0, 0x28, 0x20, 0x00, 0x1a])),
        attack(
            "an offset beyond 32 bits",
            "The sum of address and offset wraps.",
            body(&[0x41, 0, 0x28, 0x02, 0xff, 0xff, 0xff, 0xff, 0x1f, 0x1a]),
        ),
        attack("a prefix without its instruction", "A reader takes the next bytes as one.", body(&[0xfc])),
        attack("an instruction that does not exist", "An unknown instruction is free.", body(&[0xfe, 0xff, 0x7f])),
        attack(
            "a name that is not text",
            "A name of bytes that are no UTF-8 reaches a log.",
            changed(EXPORT, [&[2, 6][..], b"memory", &[2, 0, 2, 0xff, 0xfe, 0, 0]].concat()),
        ),
        attack(
            "two exports of one name",
            "The host takes the other one.",
            changed(
                EXPORT,
                [&[3, 6][..], b"memory", &[2, 0, 15], b"user_entrypoint", &[0, 0, 15], b"user_entrypoint", &[0, 0]].concat(),
            ),
        ),
        attack(
            "a custom section of 500 KB",
            "Bytes that are not code are loaded for nothing.",
            behind([custom("x", &vec![7; 500_000])]),
        ),
        attack(
            "a hundred thousand custom sections",
            "Sections without content cost a reader more than their bytes.",
            behind(vec![custom("", b""); 100_000]),
        ),
        attack(
            "a custom section whose name is longer than it",
            "A reader takes a name beyond the section.",
            behind([(0, vec![0x7f, b'x'])]),
        ),
        attack(
            "names of sixty thousand functions",
            "Names are read before anything is checked.",
            behind([function_names(&many_names)]),
        ),
        attack(
            "a name section forty times",
            "Names are read again for each section.",
            behind((0..40).map(|_| function_names(&many_names[..12_000]))),
        ),
        attack(
            "names in front of what is refused",
            "Names are paid for only by modules that are accepted.",
            assemble(&[function_names(&many_names), (TYPE, HUGE.to_vec())]),
        ),
        attack(
            "a name for a function that is not there",
            "An index reads beyond the functions.",
            behind([function_names(&[&[1][..], &HUGE, &[1, b'n']].concat())]),
        ),
        attack("four billion names", "A reader of names allocates what a count promises.", behind([function_names(&HUGE)])),
        attack("a name with line breaks", "A refusal forges lines of a node's log.", {
            let names = function_names(&[&[1, 0, 12][..], b"x\nERROR halt\r"].concat()[..15]);
            let mut sections = vec![names];
            sections.extend(plain());
            sections[5].1 = code(&[0, 0x43, 0, 0, 0, 0, 0x1a, 0x41, 0, 0x0b]);
            assemble(&sections)
        }),
    ]
}
