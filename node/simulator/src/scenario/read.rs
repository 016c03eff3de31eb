//! Reads values of a scenario file as integers, or rejects them with their line. The `toml` crate parses; this module
//! knows units and bounds.

use std::{fmt::Display, ops::RangeInclusive};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Rejection of a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Counted from 1.
    pub line: usize,
    /// Description of the mistake, and a way to correct it.
    pub message: String,
}

impl ScenarioError {
    pub(super) fn at(text: &str, offset: usize, message: impl Display) -> Self {
        let line = 1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
        Self { line, message: message.to_string() }
    }
}

/// Prints the line and the message; the caller puts the file's name before it.
impl Display for ScenarioError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.line, self.message)
    }
}

impl std::error::Error for ScenarioError {}

/// One table of the file; all its keys are known.
#[derive(Clone, Copy)]
pub(super) struct Table<'t> {
    text: &'t str,
    /// Name in messages: `[network]`.
    place: &'static str,
    offset: usize,
    entries: &'t DeTable<'t>,
}

/// One value of the file.
#[derive(Clone, Copy)]
pub(super) struct Field<'t> {
    text: &'t str,
    key: &'t str,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Table<'t> {
    pub fn root(text: &'t str, document: &'t Spanned<DeTable<'t>>) -> Self {
        Self { text, place: "the file", offset: 0, entries: document.get_ref() }
    }

    /// Rejects the first key that is not in `known`.
    pub fn only(self, known: &[&str]) -> Result<Self, ScenarioError> {
        let strangers = self.entries.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(stranger) = strangers.min_by_key(|key| key.span().start) else { return Ok(self) };
        let message = format!("unknown key \"{}\" in {}; known: {}", stranger.get_ref(), self.place, known.join(", "));
        Err(ScenarioError::at(self.text, stranger.span().start, message))
    }

    pub fn get(&self, key: &'t str) -> Option<Field<'t>> {
        self.entries.get(key).map(|value| Field { text: self.text, key, value })
    }

    /// Returns a required field. `meaning` describes it in the error.
    pub fn need(&self, key: &'t str, meaning: &str) -> Result<Field<'t>, ScenarioError> {
        self.get(key).ok_or_else(|| self.refuse(format_args!("\"{key}\" is missing in {}: {meaning}", self.place)))
    }

    /// All entries, in file order.
    pub fn fields(&self) -> Vec<Field<'t>> {
        let field = |(key, value): (&'t Spanned<_>, _)| Field { text: self.text, key: key_text(key), value };
        let mut fields: Vec<_> = self.entries.iter().map(field).collect();
        fields.sort_by_key(|field| field.value.span().start);
        fields
    }

    pub fn refuse(&self, message: impl Display) -> ScenarioError {
        ScenarioError::at(self.text, self.offset, message)
    }
}

fn key_text<'t>(key: &'t Spanned<std::borrow::Cow<'t, str>>) -> &'t str {
    key.get_ref().as_ref()
}

impl<'t> Field<'t> {
    pub fn key(&self) -> &'t str {
        self.key
    }

    pub fn refuse(&self, message: impl Display) -> ScenarioError {
        ScenarioError::at(self.text, self.value.span().start, message)
    }

    fn type_error(&self, want: impl Display) -> ScenarioError {
        let found = &self.text[self.value.span()];
        let first = found.lines().next().unwrap_or_default();
        self.refuse(format_args!("{}: expected {want}, got {first}", self.key))
    }

    pub fn table(&self, place: &'static str) -> Result<Table<'t>, ScenarioError> {
        let DeValue::Table(entries) = self.value.get_ref() else {
            return Err(self.type_error(format_args!("a table: {place}")));
        };
        Ok(Table { text: self.text, place, offset: self.value.span().start, entries })
    }

    pub fn list(&self, want: &str) -> Result<Vec<Field<'t>>, ScenarioError> {
        let DeValue::Array(items) = self.value.get_ref() else { return Err(self.type_error(want)) };
        Ok(items.iter().map(|value| Field { value, ..*self }).collect())
    }

    pub fn string(&self, want: &str) -> Result<&'t str, ScenarioError> {
        self.value.get_ref().as_str().ok_or_else(|| self.type_error(want))
    }

    /// Reads one of several words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, ScenarioError> {
        let options: Vec<_> = choices.iter().map(|(text, _)| format!("\"{text}\"")).collect();
        let want = format!("one of {}", options.join(", "));
        let text = self.string(&want)?;
        choices.iter().find(|(name, _)| *name == text).map(|&(_, value)| value).ok_or_else(|| self.type_error(want))
    }

    pub fn integer(&self, range: RangeInclusive<u64>) -> Result<u64, ScenarioError> {
        let read = match self.value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let want = || match range.clone().into_inner() {
            (0, u64::MAX) => "a whole number, not negative".to_owned(),
            (low, high) => format!("a whole number from {low} to {high}"),
        };
        read.filter(|number| range.contains(number)).ok_or_else(|| self.type_error(want()))
    }

    /// Reads a number from 0 to `max`, and returns it in parts of 1/`unit`, rounded to the nearest integer.
    pub fn scaled(&self, unit: u32, max: u32) -> Result<u64, ScenarioError> {
        let number = match self.value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|whole| whole as f64),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| (0.0..=f64::from(max)).contains(number));
        let number = number.ok_or_else(|| self.type_error(format_args!("a number from 0 to {max}")))?;
        round(number, unit).ok_or_else(|| self.type_error(format_args!("0 or at least 1/{unit}")))
    }

    /// Reads a fraction of one, in millionths.
    pub fn fraction(&self) -> Result<u32, ScenarioError> {
        let parts = self.scaled(1_000_000, 1)?;
        Ok(u32::try_from(parts).expect("at most a million"))
    }

    /// Reads milliseconds, at most an hour, in µs.
    pub fn milliseconds(&self) -> Result<u64, ScenarioError> {
        self.scaled(1_000, 3_600_000)
    }

    /// Reads a time with its unit, in µs.
    pub fn time(&self) -> Result<u64, ScenarioError> {
        let want = "a time with its unit, such as \"60s\", \"500ms\" or \"2m\"";
        let text = self.string(want)?;
        let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = match unit {
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            _ => return Err(self.type_error(want)),
        };
        // A year keeps every sum of times far below an overflow.
        let number = number.parse().ok().filter(|number| number * f64::from(unit) <= 31_536e9);
        let number = number.ok_or_else(|| self.type_error(want))?;
        round(number, unit).ok_or_else(|| self.type_error("\"0s\" or at least \"1us\""))
    }

    /// Reads the index of a validator.
    pub fn node(&self, size: usize) -> Result<usize, ScenarioError> {
        let read = self.integer(0..=u64::MAX)?;
        usize::try_from(read)
            .ok()
            .filter(|&node| node < size)
            .ok_or_else(|| self.refuse(format_args!("node: expected 0 to {}, got {read}", size - 1)))
    }

    /// Reads indices of validators, each at most once, in file order.
    pub fn nodes(&self, size: usize) -> Result<Vec<usize>, ScenarioError> {
        let want = "a list of nodes, such as [0, 3]";
        let mut nodes = Vec::new();
        for item in self.list(want)? {
            let node = item.node(size)?;
            if nodes.contains(&node) {
                return Err(item.refuse(format_args!("{}: expected distinct nodes, got node {node} twice", self.key)));
            }
            nodes.push(node);
        }
        if nodes.is_empty() { Err(self.type_error(want)) } else { Ok(nodes) }
    }
}

/// Rounds to the nearest integer of the unit; `None` if that is 0 and the number is not. Multiplication and rounding of
/// doubles are exact operations of IEEE 754: every machine gets the same value.
fn round(number: f64, unit: u32) -> Option<u64> {
    let rounded = (number * f64::from(unit)).round() as u64;
    (rounded > 0 || number == 0.0).then_some(rounded)
}
