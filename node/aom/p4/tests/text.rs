//! Executes the actions of `p4/aom.p4` itself: the hash rounds, keys and tags as written give the tags of the vectors.
//!
//! No P4 compiler is in Debian, so this reads the text after the C preprocessor and interprets the part of P4 that these
//! actions use: assignments of slices, concatenations, XORs, additions and shifts. It checks no types and no other part.

use corniche_aom_p4::PASSES;
use corniche_aom_vectors::{for_producer, skip};
use std::{collections::BTreeMap, process::Command};

/// A bit<W>, at most 128 bits wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    value: u128,
    width: u32,
}

impl Bits {
    fn new(value: u128, width: u32) -> Self {
        Self { value: if width < 128 { value & ((1 << width) - 1) } else { value }, width }
    }
}

/// The preprocessed text.
struct Text(String);

impl Text {
    fn load() -> Option<Self> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/p4/aom.p4");
        let Ok(output) = Command::new("cc").args(["-E", "-P", "-x", "c", path]).output() else {
            skip("text_of_the_program_gives_the_tags", "cc is missing");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self(String::from_utf8(output.stdout).unwrap()))
    }

    /// The text between the braces after the first occurrence of `opening`.
    fn body(&self, opening: &str) -> &str {
        let at = self.0.find(opening).unwrap_or_else(|| panic!("the text has no {opening}"));
        let start = at + self.0[at..].find('{').unwrap() + 1;
        let mut depth = 1;
        for (i, byte) in self.0[start..].bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return &self.0[start..start + i];
            }
        }
        panic!("{opening} does not end")
    }

    /// Names and widths of a header's fields.
    fn fields(&self, header: &str) -> Vec<(String, u32)> {
        let field = |line: &str| {
            let (kind, name) = line.trim().split_once(' ').unwrap();
            let width = if kind == "word_t" { 32 } else { kind[4..kind.len() - 1].parse().unwrap() };
            (name.to_owned(), width)
        };
        self.body(&format!("header {header} ")).split(';').filter(|line| !line.trim().is_empty()).map(field).collect()
    }

    fn run(&self, action: &str, state: &mut State) {
        for statement in self.body(&format!("action {action}(")).split(';').map(str::trim).filter(|text| !text.is_empty()) {
            let (target, expression) = statement.split_once('=').unwrap();
            let value = Expression::evaluate(expression, state);
            let width = state[target.trim()].width;
            assert!(value.width == width || value.width == 0, "{statement}: {} bits into {width}", value.width);
            state.insert(target.trim().to_owned(), Bits::new(value.value, width));
        }
    }
}

type State = BTreeMap<String, Bits>;

/// Recursive descent with P4's precedence: `+` and `++` bind tighter than `<<`, and that tighter than `^`. Numbers
/// without a width have width 0 here and take that of the other side.
struct Expression<'a> {
    tokens: Vec<String>,
    at: usize,
    state: &'a State,
}

impl<'a> Expression<'a> {
    fn evaluate(text: &str, state: &'a State) -> Bits {
        let mut expression = Self { tokens: tokens(text), at: 0, state };
        let value = expression.xor();
        assert_eq!(expression.at, expression.tokens.len(), "{text}");
        value
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|next| next == token);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> String {
        self.at += 1;
        self.tokens[self.at - 1].clone()
    }

    fn xor(&mut self) -> Bits {
        let mut left = self.shift();
        while self.accept("^") {
            let right = self.shift();
            left = Bits::new(left.value ^ right.value, same_width(left, right));
        }
        left
    }

    fn shift(&mut self) -> Bits {
        let left = self.sum();
        if self.accept("<<") {
            let right = self.sum();
            return Bits::new(left.value << right.value, left.width);
        }
        left
    }

    fn sum(&mut self) -> Bits {
        let mut left = self.slice();
        loop {
            if self.accept("++") {
                let right = self.slice();
                left = Bits::new(left.value << right.width | right.value, left.width + right.width);
            } else if self.accept("+") {
                let right = self.slice();
                left = Bits::new(left.value + right.value, same_width(left, right));
            } else {
                return left;
            }
        }
    }

    fn slice(&mut self) -> Bits {
        let mut value = self.primary();
        while self.accept("[") {
            let high: u32 = self.next().parse().unwrap();
            assert!(self.accept(":"));
            let low: u32 = self.next().parse().unwrap();
            assert!(self.accept("]") && high < value.width);
            value = Bits::new(value.value >> low, high - low + 1);
        }
        value
    }

    fn primary(&mut self) -> Bits {
        if self.accept("(") {
            let value = self.xor();
            assert!(self.accept(")"));
            return value;
        }
        let token = self.next();
        if let Some(hex) = token.strip_prefix("0x") {
            return Bits { value: u128::from_str_radix(hex, 16).unwrap(), width: 0 };
        }
        if let Some((width, value)) = token.split_once('w').filter(|_| token.starts_with(char::is_numeric)) {
            return Bits::new(value.parse().unwrap(), width.parse().unwrap());
        }
        match token.parse() {
            Ok(value) => Bits { value, width: 0 },
            Err(_) => *self.state.get(&token).unwrap_or_else(|| panic!("unknown name {token}")),
        }
    }
}

fn same_width(left: Bits, right: Bits) -> u32 {
    assert!(left.width == right.width || left.width == 0 || right.width == 0, "{left:?} {right:?}");
    left.width.max(right.width)
}

fn tokens(text: &str) -> Vec<String> {
    let (mut out, mut rest) = (Vec::new(), text.trim());
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let length = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("++") || rest.starts_with("<<") {
            2
        } else {
            1
        };
        out.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    out
}

/// Runs the passes of the text on a stamped header with its tags removed, and puts the tags in.
fn tags(text: &Text, keys: &[&[u8]], datagram: &[u8]) -> Vec<u8> {
    let mut state = State::new();
    let mut bit = 0;
    let fields = text.fields("aom_t");
    assert_eq!(fields.iter().map(|(_, width)| width).sum::<u32>(), 160 * 8);
    for (name, width) in &fields {
        // Wider fields are zero and take no part.
        let bytes = &datagram[bit / 8..(bit + *width as usize) / 8];
        let value = bytes.iter().fold(0_u128, |value, &byte| value.wrapping_shl(8) | u128::from(byte));
        state.insert(format!("hdr.aom.{name}"), Bits::new(if name.starts_with("tag") { 0 } else { value }, *width));
        bit += *width as usize;
    }
    for (name, width) in text.fields("pass_t") {
        state.insert(format!("hdr.pass.{name}"), Bits::new(0, width));
    }
    for (lane, key) in keys.iter().enumerate() {
        let word = |at: usize| u32::from_le_bytes(key[at..at + 4].try_into().unwrap());
        state.insert("k0".into(), Bits::new(word(0).into(), 32));
        state.insert("k1".into(), Bits::new(word(4).into(), 32));
        text.run(&format!("load_{lane}"), &mut state);
    }
    for number in 0..PASSES {
        for name in ["into_v3", "into_v2", "into_v1", "into_v0"] {
            state.insert(name.into(), Bits::new(0, 32));
        }
        text.run(&scheduled(text, number), &mut state);
        for action in ["before", "step_1", "step_2", "step_3", "step_4", "step_5", "step_6"] {
            text.run(action, &mut state);
        }
        match number {
            33 => text.run("first_tags", &mut state),
            37 => text.run("second_tags", &mut state),
            _ => {}
        }
        text.run("after", &mut state);
    }
    let mut out = Vec::new();
    for lane in 0..4 {
        text.run(&format!("{}_{lane}", if lane < keys.len() { "swap" } else { "clear" }), &mut state);
        for half in ["first", "second"] {
            out.extend((state[&format!("hdr.aom.tag_{lane}_{half}")].value as u32).to_be_bytes());
        }
    }
    out
}

/// The action of the constant entry for a pass.
fn scheduled(text: &Text, number: u8) -> String {
    let row = |entry: &str| {
        let (key, action) = entry.trim().split_once(": ")?;
        (key.parse() == Ok(number)).then(|| action.trim_end_matches("()").to_owned())
    };
    text.body("const entries").split(';').find_map(row).unwrap_or_else(|| "plain".into())
}

#[test]
fn text_of_the_program_gives_the_tags() {
    let Some(text) = Text::load() else { return };
    // The order that `tags` follows.
    let apply: String = text.body("control Round")[text.body("control Round").find("apply {").unwrap()..]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(
        apply,
        "apply { schedule.apply(); before(); step_1(); step_2(); step_3(); step_4(); step_5(); step_6(); \
         if (hdr.pass.number == 33) { first_tags(); } else if (hdr.pass.number == 37) { second_tags(); } \
         after(); hdr.pass.number = hdr.pass.number + 1; }"
    );
    let mut checked = 0;
    for vector in for_producer("p4") {
        for step in &vector.steps {
            for datagram in &step.out {
                let id = u32::from_be_bytes(datagram[4..8].try_into().unwrap());
                let group = vector.groups.iter().find(|group| group.group == id).unwrap();
                let keys: Vec<&[u8]> =
                    group.tag_keys.chunks(4).nth(datagram[12].into()).unwrap().iter().map(|key| &**key).collect();
                assert_eq!(hex::encode(tags(&text, &keys, datagram)), hex::encode(&datagram[56..88]), "{}", vector.id);
                checked += 1;
            }
        }
    }
    assert!(checked > 50, "only {checked} packets were checked");
}
