//! Forms that call a contract: fields from its interface, typed values, and the encoded call.
//!
//! Forms work without scripts: the server returns the page with the typed values and the result.

use super::super::{Failure, parts, transactions};
use crate::{abi, format, links, pages::account::texts::contract as texts, texts::list};
use alloy_dyn_abi::{DynSolType, JsonAbiExt};
use alloy_json_abi::{Function, JsonAbi, Param, StateMutability};
use alloy_primitives::{Address, Bytes, U256};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Maximum number of functions on a page.
pub const ON_A_PAGE: usize = 50;

/// Upper bound of the parameter `first`. No interface has so many functions.
const MAX_OFFSET: usize = 1_000_000;

/// Maximum number of parameters of a function with a form.
const MAX_FIELDS: usize = 32;

/// Maximum length of a field's value in bytes. The size of a transaction bounds the input of a call anyway.
const MAX_INPUT_BYTES: usize = 32 << 10;

/// Request to a page with forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormInput {
    /// Selector of the called function.
    pub function: Option<[u8; 4]>,
    /// Typed values, by position of the parameter.
    pub values: BTreeMap<usize, String>,
    /// Amount of the chain's currency to send, as typed.
    pub coins: String,
    /// Sender of the call.
    pub from: Option<Address>,
    /// Index of the first function on the page, counted from 0.
    pub first: usize,
}

/// Error in a field or in the whole call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Position of the field; [`COINS`] for the currency, `None` for the whole call.
    pub field: Option<usize>,
    /// Error message.
    pub problem: String,
}

/// Value of [`FieldError::field`] for the field of the currency.
pub const COINS: usize = usize::MAX;

impl FormInput {
    /// Reads a request from a URL's query. Ignores parameters with other names.
    pub fn read(query: &[(String, String)]) -> Result<Self, Failure> {
        let mut submitted = Self::default();
        for (name, value) in query {
            match name.as_str() {
                "f" => submitted.function = Some(selector(value)?),
                "value" => submitted.coins = value.trim().to_owned(),
                "from" => submitted.from = Some(super::parse(value)?),
                "first" => submitted.first = value.parse().unwrap_or(0).min(MAX_OFFSET),
                name => {
                    if let Some(at) = name.strip_prefix('a').and_then(|at| at.parse().ok()).filter(|at| *at < MAX_FIELDS) {
                        submitted.values.insert(at, value.clone());
                    }
                }
            }
        }
        Ok(submitted)
    }

    /// Returns `true` if the request calls this function.
    pub fn of(&self, function: &Function) -> bool {
        self.function == Some(function.selector().0)
    }

    fn typed(&self, at: usize) -> &str {
        self.values.get(&at).map_or("", String::as_str)
    }
}

fn selector(text: &str) -> Result<[u8; 4], Failure> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let bytes = hex::decode(digits).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| Failure::BadRequest(texts::BAD_SELECTOR.into()))
}

/// Returns `true` for a read-only function (`view` or `pure`).
pub fn reads(function: &Function) -> bool {
    matches!(function.state_mutability, StateMutability::Pure | StateMutability::View)
}

/// Returns `true` if a function accepts the chain's currency (`payable`).
pub fn takes_coins(function: &Function) -> bool {
    function.state_mutability == StateMutability::Payable
}

/// Functions on a page, and the total number of functions of this kind.
pub fn of_page(interface: &JsonAbi, reading: bool, first: usize) -> (Vec<&Function>, usize) {
    let all = || interface.functions().filter(move |function| reads(function) == reading);
    (all().skip(first).take(ON_A_PAGE).collect(), all().count())
}

/// Finds a function by its selector.
pub fn find(interface: &JsonAbi, selector: [u8; 4]) -> Result<&Function, Failure> {
    let mut functions = interface.functions();
    let missing = || Failure::NotFound(texts::no_function(&hex::encode(selector)));
    functions.find(|function| function.selector().0 == selector).ok_or_else(missing)
}

/// Encodes a call.
pub fn encode(function: &Function, submitted: &FormInput) -> Result<Bytes, FieldError> {
    if function.inputs.len() > MAX_FIELDS {
        return Err(FieldError { field: None, problem: texts::TOO_MANY_FIELDS.into() });
    }
    let value = |(at, input): (usize, &Param)| {
        let typed = submitted.typed(at);
        let wrong = |problem: String| FieldError { field: Some(at), problem };
        if typed.len() > MAX_INPUT_BYTES {
            return Err(wrong(texts::TOO_LONG.into()));
        }
        abi::parse(input, typed).map_err(wrong)
    };
    let values = function.inputs.iter().enumerate().map(value).collect::<Result<Vec<_>, _>>()?;
    let call = function.abi_encode_input(&values);
    call.map(Bytes::from).map_err(|error| FieldError { field: None, problem: abi::text(&error.to_string()) })
}

/// Parses an amount of the chain's currency and returns it in wei. Empty text is 0.
pub fn coins(typed: &str) -> Result<U256, FieldError> {
    let wrong = || FieldError { field: Some(COINS), problem: texts::NO_AMOUNT.into() };
    if typed.is_empty() {
        return Ok(U256::ZERO);
    }
    let plain = typed.len() <= 100 && typed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = DynSolType::Uint(256).coerce_str(&format!("{typed} ether")).ok().filter(|_| plain);
    value.and_then(|value| value.as_uint()).map(|(wei, _)| wei).ok_or_else(wrong)
}

/// A form of one function.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    pub function: &'a Function,
    /// URL of the page that processes the form.
    pub page: &'a str,
    /// Label of its button.
    pub button: &'a str,
    /// Ticker of the chain's currency.
    pub currency: &'a str,
    /// Request to the page. It may call another function.
    pub submitted: &'a FormInput,
    /// Error in the request, if it calls this function.
    pub wrong: Option<&'a FieldError>,
}

impl Form<'_> {
    /// Draws the form with the typed values, and `answer` below it.
    pub fn markup(&self, answer: Markup) -> Markup {
        let (function, submitted) = (self.function, self.submitted);
        let selector = hex::encode(function.selector());
        let id = format!("f-{selector}");
        let fits = function.inputs.len() <= MAX_FIELDS;
        html! {
            article .function id=(id) {
                h3 { code { (abi::text(&function.name)) } " " span .note { "0x" (selector) } }
                @if !fits {
                    p .note { (texts::TOO_MANY_FIELDS) }
                } @else {
                    form .call action={ (self.page) "#" (id) } data-function=(selector) {
                        input type="hidden" name="f" value=(selector);
                        @if submitted.first > 0 { input type="hidden" name="first" value=(submitted.first); }
                        @for (at, input) in function.inputs.iter().enumerate() { (self.field(&id, at, input)) }
                        @if takes_coins(function) { (self.coins(&id)) }
                        @if let Some(problem) = self.problem(None) { p .wrong role="alert" { (problem) } }
                        button { (self.button) @if self.button != texts::ASK { " " (short(&function.name)) } }
                        div .answer role="status" { (answer) }
                    }
                }
            }
        }
    }

    fn field(&self, form: &str, at: usize, input: &Param) -> Markup {
        let id = format!("{form}-{at}");
        let kind = abi::text(&input.selector_type());
        let (name, kind) = (short(&input.name), kind.chars().take(80).collect::<String>());
        let is_this = self.submitted.of(self.function);
        let typed = if is_this { self.submitted.typed(at) } else { "" };
        let problem = self.problem(Some(at));
        let about = problem.is_some().then(|| format!("{id}-wrong"));
        html! {
            div .field {
                label for=(id) { @if name.is_empty() { "#" (at) } @else { (name) } " " span .note { (kind) } }
                @if kind == "bool" {
                    select id=(id) name={ "a" (at) } {
                        option value="true" selected[typed == "true"] { "true" }
                        option value="false" selected[typed == "false"] { "false" }
                    }
                } @else {
                    input id=(id) name={ "a" (at) } value=(typed) placeholder=(hint(&kind)) autocomplete="off" spellcheck="false"
                        required[kind != "string"] aria-invalid=[problem.map(|_| "true")] aria-describedby=[about.as_deref()];
                }
                @if let Some(problem) = problem { p .wrong id=[about.as_deref()] role="alert" { (problem) } }
            }
        }
    }

    fn coins(&self, form: &str) -> Markup {
        let id = format!("{form}-coins");
        let typed = if self.submitted.of(self.function) { self.submitted.coins.as_str() } else { "" };
        let problem = self.problem(Some(COINS));
        html! {
            div .field {
                label for=(id) { (texts::COINS) " " span .note { (self.currency) } }
                input id=(id) name="value" value=(typed) placeholder="0" inputmode="decimal" autocomplete="off" aria-invalid=[problem.map(|_| "true")];
                @if let Some(problem) = problem { p .wrong role="alert" { (problem) } }
            }
        }
    }

    fn problem(&self, field: Option<usize>) -> Option<&str> {
        self.wrong.filter(|wrong| wrong.field == field).map(|wrong| wrong.problem.as_str())
    }
}

fn short(name: &str) -> String {
    abi::text(name).chars().take(64).collect()
}

/// Placeholder that shows how to write a value of this type.
fn hint(kind: &str) -> &'static str {
    match kind {
        "address" => texts::ADDRESS_HINT,
        "string" => "",
        kind if kind.ends_with(']') => "[…, …]",
        kind if kind.starts_with('(') => "(…, …)",
        kind if kind.starts_with("bytes") => "0x…",
        _ => "0",
    }
}

/// Names and values that a contract returned.
pub fn values(values: &[(String, abi::Value)]) -> Markup {
    html! { dl .values { @for (name, value) in values { div { dt { (name) } dd { (transactions::value_of(value)) } } } } }
}

/// Links to the pages of an interface that needs several.
pub fn pages(page: &str, first: usize, all: usize) -> Markup {
    let [from, to, of] = [all.min(first + 1), all.min(first + ON_A_PAGE), all].map(|number| format::number(number as u64));
    html! {
        @if all > ON_A_PAGE || first > 0 {
            nav .pages aria-label=(list::PAGES) {
                @if first > 0 { a rel="prev" href={ (page) "?first=" (first.saturating_sub(ON_A_PAGE)) } { (texts::EARLIER) } }
                span .note { (from) "–" (list::of(&to, &of)) }
                @if first + ON_A_PAGE < all { a rel="next" href={ (page) "?first=" (first + ON_A_PAGE) } { (texts::LATER) } }
            }
        }
    }
}

/// Note for a contract without an interface.
pub fn no_interface(address: Address) -> Markup {
    html! {
        section {
            p { (texts::NO_INTERFACE) }
            p { a href=(links::account_part(address, super::subject::ABI)) { (texts::UPLOAD) } }
        }
    }
}

/// Reason of a revert: the contract's own error, Solidity's built-in error, or the node's message.
pub fn reverted(known: &abi::KnownAbis, address: Address, message: &str, data: &[u8]) -> Markup {
    let error = known.error(address, data).or_else(|| abi::refusal(data));
    html! {
        p { span .tag.bad { (crate::texts::status::REVERTED) } }
        @match error {
            Some(error) => { (transactions::decoded(&error)) },
            None => {
                p .data { (abi::text(message)) }
                @if !data.is_empty() { (parts::bytes(data)) }
            },
        }
    }
}

#[cfg(test)]
mod tests;
