//! Decodes calls, events and errors with contract ABIs.
//!
//! ABIs come from contracts' metadata or from uploads, so both the ABI and the data are untrusted. All decoding is
//! bounded. Data that exceeds a bound is shown as raw bytes instead.

use crate::{
    database::{Database, DatabaseError, Read, sql},
    format::clean,
};
use alloy_dyn_abi::{DynSolType, DynSolValue, EventExt, FunctionExt, JsonAbiExt};
use alloy_json_abi::{Error, Event, Function, JsonAbi, Param};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use serde::Deserialize;
use sqlx::any::AnyRow;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

/// Maximum number of values of a call that are shown, counted through arrays and tuples, and maximum number of
/// characters of one value.
const MAX_VALUES: usize = 256;
const MAX_TEXT: usize = 1_024;

/// Deepest nesting of types that is decoded. The decoder recurses.
const MAX_DEPTH: usize = 8;

/// Maximum number of items that the fixed-size arrays of a type may have in total, and maximum number of bytes that are
/// decoded. The decoder allocates memory for an array's items before it reads the first one.
const MAX_PLACES: u64 = 256;
const MAX_BYTES: usize = 128 << 10;

/// Maximum number of contracts whose interfaces one page reads.
const MAX_CONTRACTS: usize = 32;

/// Methods whose names an uploaded ABI cannot override with another method of equal selector: those of ERC-20, ERC-721
/// and ERC-1155, and methods that most tokens add.
const STANDARD: [&str; 11] = [
    "transfer(address,uint256)",
    "approve(address,uint256)",
    "transferFrom(address,address,uint256)",
    "safeTransferFrom(address,address,uint256)",
    "safeTransferFrom(address,address,uint256,bytes)",
    "safeTransferFrom(address,address,uint256,uint256,bytes)",
    "safeBatchTransferFrom(address,address,uint256[],uint256[],bytes)",
    "setApprovalForAll(address,bool)",
    "mint(address,uint256)",
    "burn(uint256)",
    "permit(address,address,uint256,uint256,uint8,bytes32,bytes32)",
];

static STANDARD_BY_SELECTOR: LazyLock<BTreeMap<[u8; 4], &'static str>> = LazyLock::new(|| {
    let selector = |signature: &str| -> [u8; 4] {
        let hash = keccak256(signature);
        std::array::from_fn(|at| hash[at])
    };
    STANDARD.into_iter().map(|signature| (selector(signature), signature)).collect()
});

/// ABIs, token symbols and method names from the database, as far as one page needs them.
#[derive(Debug, Default)]
pub struct KnownAbis {
    interfaces: BTreeMap<Address, Interface>,
    names: BTreeMap<Address, String>,
    methods: BTreeMap<[u8; 4], String>,
}

/// An ABI, indexed by selector. Each selector is a hash, a page looks up many, and an ABI may have thousands.
#[derive(Debug)]
struct Interface {
    functions: BTreeMap<[u8; 4], Function>,
    events: BTreeMap<B256, Event>,
    errors: BTreeMap<[u8; 4], Error>,
}

impl From<JsonAbi> for Interface {
    fn from(abi: JsonAbi) -> Self {
        Self {
            functions: by(abi.functions, |function| function.selector().0),
            events: by(abi.events, Event::selector),
            errors: by(abi.errors, |error| error.selector().0),
        }
    }
}

/// Indexes the items by `key`. The first item with a key wins.
fn by<K: Ord, T>(named: BTreeMap<String, Vec<T>>, key: impl Fn(&T) -> K) -> BTreeMap<K, T> {
    let mut all = BTreeMap::new();
    for item in named.into_values().flatten() {
        all.entry(key(&item)).or_insert(item);
    }
    all
}

/// A decoded call, event or error with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// `transfer(address,uint256)`
    pub signature: String,
    /// Names and values, in order.
    pub values: Vec<(String, Value)>,
}

/// A decoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An address, shown as a link.
    Address(Address),
    /// Any other value, truncated and without control or direction characters.
    Text(String),
}

impl Decoded {
    /// Returns a short form on one line.
    pub fn brief(&self) -> String {
        let name = self.signature.split('(').next().unwrap_or_default();
        let values: Vec<_> = self.values.iter().take(4).map(|(_, value)| value.brief()).collect();
        let more = if self.values.len() > 4 { ", …" } else { "" };
        format!("{name}({}{more})", values.join(", "))
    }
}

impl Value {
    fn brief(&self) -> String {
        match self {
            Self::Address(address) => {
                let text = address.to_string();
                format!("{}…{}", &text[..6], &text[text.len() - 4..])
            }
            Self::Text(text) if text.chars().count() > 32 => format!("{}…", text.chars().take(32).collect::<String>()),
            Self::Text(text) => text.clone(),
        }
    }
}

impl KnownAbis {
    /// Loads method names by selector, from any contract. A selector with several known signatures gets no name,
    /// because anyone can construct a colliding signature.
    pub async fn methods(database: &Database, selectors: impl Iterator<Item = [u8; 4]>) -> Result<Self, DatabaseError> {
        let mut known = Self::default();
        for selector in selectors.collect::<BTreeSet<_>>() {
            let signature = match STANDARD_BY_SELECTOR.get(&selector) {
                Some(standard) => Some((*standard).to_owned()),
                None => only_signature(database, selector).await?,
            };
            if let Some(signature) = signature {
                let name = signature.split('(').next().unwrap_or_default().chars().take(48).collect();
                known.methods.insert(selector, name);
            }
        }
        Ok(known)
    }

    /// Loads the method names for the `selector` column of these rows.
    pub async fn methods_of(database: &Database, rows: &[AnyRow]) -> Result<Self, DatabaseError> {
        Self::methods(database, rows.iter().filter_map(|row| row.selector("selector").ok()?)).await
    }

    /// Loads the ABIs and token symbols of contracts.
    pub async fn contracts(database: &Database, addresses: impl IntoIterator<Item = Address>) -> Result<Self, DatabaseError> {
        let mut known = Self::default();
        for address in addresses.into_iter().take(MAX_CONTRACTS) {
            let row = sql("SELECT abi FROM contracts WHERE address = $1").bind(address.to_vec());
            if let Some(row) = row.fetch_optional(database.readers()).await?
                && let Some(abi) = parse_abi(&row.text("abi")?)
            {
                known.interfaces.insert(address, abi.into());
            }
            let row = sql("SELECT symbol FROM tokens WHERE address = $1").bind(address.to_vec());
            if let Some(row) = row.fetch_optional(database.readers()).await? {
                known.names.insert(address, row.text("symbol")?);
            }
        }
        Ok(known)
    }

    /// Returns the ABI of one contract, from any source.
    pub fn one(address: Address, interface: JsonAbi) -> Self {
        Self { interfaces: BTreeMap::from([(address, interface.into())]), ..Self::default() }
    }

    /// Returns the name of a method.
    pub fn method(&self, selector: [u8; 4]) -> Option<String> {
        self.methods.get(&selector).cloned()
    }

    /// Returns the name of a method, or its selector if it has none.
    pub fn method_or_selector(&self, selector: [u8; 4]) -> String {
        self.method(selector).unwrap_or_else(|| format!("0x{}", hex::encode(selector)))
    }

    /// Returns the symbol that a token contract reports.
    pub fn name(&self, address: Address) -> Option<&str> {
        self.names.get(&address).map(String::as_str)
    }

    /// Decodes a call.
    pub fn call(&self, to: Address, input: &[u8]) -> Option<Decoded> {
        let (selector, arguments) = input.split_first_chunk::<4>()?;
        call(self.interfaces.get(&to)?.functions.get(selector)?, arguments)
    }

    /// Decodes the revert data of a call as a custom error.
    pub fn error(&self, from: Address, output: &[u8]) -> Option<Decoded> {
        let (selector, arguments) = output.split_first_chunk::<4>().filter(|_| output.len() <= MAX_BYTES)?;
        let error = self.interfaces.get(&from)?.errors.get(selector)?;
        fits(&error.inputs)?;
        let values = error.abi_decode_input(arguments).ok()?;
        Some(Decoded { signature: signature(&error.signature()), values: named(&error.inputs, &values) })
    }

    /// Decodes a log.
    pub fn event(&self, from: Address, topics: &[B256], data: &[u8]) -> Option<Decoded> {
        let first = topics.first()?;
        let event = self.interfaces.get(&from)?.events.get(first)?;
        event.inputs.iter().try_for_each(|input| places(&input.ty, &input.components, MAX_DEPTH).map(drop))?;
        (data.len() <= MAX_BYTES).then_some(())?;
        let decoded = event.decode_log_parts(topics.iter().copied(), data).ok()?;
        let (mut indexed, mut body) = (decoded.indexed.iter(), decoded.body.iter());
        let mut room = MAX_VALUES;
        let values = event.inputs.iter().enumerate().map(|(at, input)| {
            let value = if input.indexed { indexed.next() } else { body.next() };
            let name = if input.name.is_empty() { format!("#{at}") } else { text(&input.name) };
            (name, value.map_or(Value::Text(String::new()), |value| show(value, &mut room)))
        });
        Some(Decoded { signature: signature(&event.signature()), values: values.collect() })
    }
}

/// Returns the signature of a selector if the database has exactly one.
async fn only_signature(database: &Database, selector: [u8; 4]) -> Result<Option<String>, DatabaseError> {
    let text = "SELECT signature FROM selectors WHERE selector = $1 ORDER BY signature LIMIT 2";
    let rows = sql(text).bind(selector.to_vec()).fetch_all(database.readers()).await?;
    match rows.as_slice() {
        [row] => row.text("signature").map(Some),
        _ => Ok(None),
    }
}

/// Decodes a call of this function.
pub fn call(function: &Function, arguments: &[u8]) -> Option<Decoded> {
    fits(&function.inputs)?;
    (arguments.len() <= MAX_BYTES).then_some(())?;
    let values = function.abi_decode_input(arguments).ok()?;
    Some(Decoded { signature: signature(&function.signature()), values: named(&function.inputs, &values) })
}

/// Decodes the return values of this function.
pub fn answer(function: &Function, output: &[u8]) -> Option<Vec<(String, Value)>> {
    fits(&function.outputs)?;
    (output.len() <= MAX_BYTES).then_some(())?;
    let values = function.abi_decode_output(output).ok()?;
    Some(named(&function.outputs, &values))
}

/// Decodes revert data as one of Solidity's built-in errors, `Error(string)` or `Panic(uint256)`.
pub fn refusal(output: &[u8]) -> Option<Decoded> {
    const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
    const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];
    let (selector, arguments) = output.split_first_chunk::<4>().filter(|_| output.len() <= MAX_BYTES)?;
    let (signature, kind) = match *selector {
        ERROR => ("Error(string)", DynSolType::String),
        PANIC => ("Panic(uint256)", DynSolType::Uint(256)),
        _ => return None,
    };
    let value = kind.abi_decode(arguments).ok()?;
    let mut room = MAX_VALUES;
    Some(Decoded { signature: signature.into(), values: vec![("reason".into(), show(&value, &mut room))] })
}

/// Parses form input as a value of this type. A string is taken literally, without quotes.
pub fn parse(input: &Param, typed: &str) -> Result<DynSolValue, String> {
    fits(std::slice::from_ref(input)).ok_or("this type is too large or nested too deeply for a form")?;
    let kind: DynSolType = input.selector_type().parse().map_err(|error| format!("{error}"))?;
    match kind {
        DynSolType::String => Ok(DynSolValue::String(typed.to_owned())),
        kind => kind.coerce_str(typed.trim()).map_err(|_| format!("invalid {}", text(&kind.to_string()))),
    }
}

/// Returns `None` if a type exceeds the bounds on nesting or fixed-size arrays.
fn fits(inputs: &[Param]) -> Option<()> {
    inputs.iter().try_for_each(|input| places(&input.ty, &input.components, MAX_DEPTH).map(drop))
}

/// Upper bound on the number of values of a type, with its dynamic arrays empty.
fn places(kind: &str, components: &[Param], left: usize) -> Option<u64> {
    let left = left.checked_sub(depth(kind)?)?;
    let mut inner = 1 + kind.matches(',').count() as u64;
    for component in components {
        inner += places(&component.ty, &component.components, left.checked_sub(1)?)?;
    }
    let sizes = kind.split('[').skip(1).filter_map(|rest| rest.split(']').next()).filter(|size| !size.is_empty());
    let all = sizes.map(|size| size.parse().ok()).try_fold(inner, |all, size: Option<u64>| all.checked_mul(size?));
    all.filter(|all| *all <= MAX_PLACES)
}

/// Nesting depth of arrays and tuples in the text of a type.
fn depth(kind: &str) -> Option<usize> {
    (kind.len() <= 512).then(|| kind.matches(['[', '(']).count())
}

fn named(params: &[Param], values: &[DynSolValue]) -> Vec<(String, Value)> {
    let mut room = MAX_VALUES;
    let name = |at: usize| match params.get(at).map(|param| param.name.as_str()) {
        None | Some("") => format!("#{at}"),
        Some(name) => text(name),
    };
    values.iter().enumerate().map(|(at, value)| (name(at), show(value, &mut room))).collect()
}

fn show(value: &DynSolValue, room: &mut usize) -> Value {
    match value {
        DynSolValue::Address(address) => Value::Address(*address),
        value => {
            let mut line = String::new();
            write(value, &mut line, room);
            Value::Text(line)
        }
    }
}

/// Writes a value until `room` or [`MAX_TEXT`] is used up. The nesting of the type bounds the recursion.
fn write(value: &DynSolValue, line: &mut String, room: &mut usize) {
    if *room == 0 || line.len() > MAX_TEXT {
        if !line.ends_with('…') {
            line.push('…');
        }
        return;
    }
    *room -= 1;
    let (values, open, close) = match value {
        DynSolValue::Bool(yes) => return line.push_str(if *yes { "true" } else { "false" }),
        DynSolValue::Int(number, _) => return line.push_str(&number.to_string()),
        DynSolValue::Uint(number, _) => return line.push_str(&number.to_string()),
        DynSolValue::FixedBytes(word, size) => return line.push_str(&brief(&word[..*size])),
        DynSolValue::Address(address) => return line.push_str(&address.to_string()),
        DynSolValue::Function(function) => return line.push_str(&brief(function.as_slice())),
        DynSolValue::Bytes(bytes) => return line.push_str(&brief(bytes)),
        DynSolValue::String(string) => return line.push_str(&text(string)),
        DynSolValue::Array(values) | DynSolValue::FixedArray(values) => (values, '[', ']'),
        DynSolValue::Tuple(values) => (values, '(', ')'),
    };
    line.push(open);
    for (at, value) in values.iter().enumerate() {
        if *room == 0 || line.len() > MAX_TEXT {
            line.push('…');
            break;
        }
        if at > 0 {
            line.push_str(", ");
        }
        write(value, line, room);
    }
    line.push(close);
}

/// Parses an ABI: a bare array, or a compiler artifact with the field `abi`. `None` if it is invalid.
pub fn parse_abi(text: &str) -> Option<JsonAbi> {
    #[derive(Deserialize)]
    struct Artifact {
        abi: JsonAbi,
    }
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str::<Artifact>(text).ok().map(|artifact| artifact.abi))
}

/// Truncates and cleans untrusted text so that it can be shown on one line.
pub fn text(text: &str) -> String {
    let cut: String = text.chars().take(MAX_TEXT).collect();
    let cleaned = clean(&cut);
    if cut.len() < text.len() { format!("{cleaned}…") } else { cleaned }
}

fn signature(signature: &str) -> String {
    text(signature)
}

/// Formats bytes as hex digits, truncated to 256 bytes.
pub fn brief(bytes: &[u8]) -> String {
    brief_of(bytes, bytes.len() as u64)
}

/// Formats bytes like [`brief`] if only their `beginning` was read.
pub fn brief_of(beginning: &[u8], length: u64) -> String {
    const MAX_SHOWN_BYTES: usize = 256;
    let shown = &beginning[..beginning.len().min(MAX_SHOWN_BYTES)];
    match shown.len() as u64 == length {
        true => format!("0x{}", hex::encode(shown)),
        false => format!("0x{}… ({length} bytes)", hex::encode(shown)),
    }
}

/// ABI-encodes a call.
pub fn encode(function: &Function, values: &[DynSolValue]) -> Result<Bytes, String> {
    function.abi_encode_input(values).map(Bytes::from).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
