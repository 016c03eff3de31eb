//! Forms that call a contract: fields as its interface has them, what was typed into them, and the bytes of the call. Everything here works
//! without a script: a form is sent, and the page comes back with what was typed and what came of it.

use super::super::{Failure, parts, transactions};
use crate::{
    abi, format, links,
    words::{contract as words, list},
};
use alloy_dyn_abi::{DynSolType, JsonAbiExt};
use alloy_json_abi::{Function, JsonAbi, Param, StateMutability};
use alloy_primitives::{Address, Bytes, U256};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Functions of one page.
pub const ON_A_PAGE: usize = 50;

/// No interface has so many functions.
const MOST_FIRST: usize = 1_000_000;

/// Most parameters of a function that is given a form.
const MOST_FIELDS: usize = 32;

/// Most characters that are taken from a field: a call's input is bounded by what a transaction may hold.
const MOST_TYPED: usize = 32 << 10;

/// What a page was asked to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The function that is called, by its selector.
    pub function: Option<[u8; 4]>,
    /// What was typed, by position.
    pub values: BTreeMap<usize, String>,
    /// The chain's currency that goes with it, as typed.
    pub coins: String,
    /// Who would call.
    pub from: Option<Address>,
    /// The first function of the page, counted from 0.
    pub first: usize,
}

/// What is wrong with a field; without a field, with the whole call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Its position; [`COINS`] for the currency.
    pub field: Option<usize>,
    /// What is wrong.
    pub problem: String,
}

/// The field of the currency.
pub const COINS: usize = usize::MAX;

impl Asked {
    /// Reads the end of a page's address. What has another name is somebody else's.
    pub fn read(query: &[(String, String)]) -> Result<Self, Failure> {
        let mut asked = Self::default();
        for (name, value) in query {
            match name.as_str() {
                "f" => asked.function = Some(selector(value)?),
                "value" => asked.coins = value.trim().to_owned(),
                "from" => asked.from = Some(super::parse(value)?),
                "first" => asked.first = value.parse().unwrap_or(0).min(MOST_FIRST),
                name => {
                    if let Some(at) = name.strip_prefix('a').and_then(|at| at.parse().ok()).filter(|at| *at < MOST_FIELDS) {
                        asked.values.insert(at, value.clone());
                    }
                }
            }
        }
        Ok(asked)
    }

    /// Whether it is about this function.
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
    bytes.ok_or_else(|| Failure::BadRequest(words::BAD_SELECTOR.into()))
}

/// Whether a function only reads.
pub fn reads(function: &Function) -> bool {
    matches!(function.state_mutability, StateMutability::Pure | StateMutability::View)
}

/// Whether a function takes the chain's currency.
pub fn takes_coins(function: &Function) -> bool {
    function.state_mutability == StateMutability::Payable
}

/// The functions of a page, and how many there are in all.
pub fn of_page(interface: &JsonAbi, reading: bool, first: usize) -> (Vec<&Function>, usize) {
    let all = || interface.functions().filter(move |function| reads(function) == reading);
    (all().skip(first).take(ON_A_PAGE).collect(), all().count())
}

/// A function that was asked for.
pub fn find(interface: &JsonAbi, selector: [u8; 4]) -> Result<&Function, Failure> {
    let mut functions = interface.functions();
    let missing = || Failure::NotFound(words::no_function(&hex::encode(selector)));
    functions.find(|function| function.selector().0 == selector).ok_or_else(missing)
}

/// The bytes of a call.
pub fn encode(function: &Function, asked: &Asked) -> Result<Bytes, Wrong> {
    if function.inputs.len() > MOST_FIELDS {
        return Err(Wrong { field: None, problem: words::TOO_MANY_FIELDS.into() });
    }
    let value = |(at, input): (usize, &Param)| {
        let typed = asked.typed(at);
        let wrong = |problem: String| Wrong { field: Some(at), problem };
        if typed.len() > MOST_TYPED {
            return Err(wrong(words::TOO_LONG.into()));
        }
        abi::parse(input, typed).map_err(wrong)
    };
    let values = function.inputs.iter().enumerate().map(value).collect::<Result<Vec<_>, _>>()?;
    let call = function.abi_encode_input(&values);
    call.map(Bytes::from).map_err(|error| Wrong { field: None, problem: abi::text(&error.to_string()) })
}

/// An amount of the chain's currency as people write it, in wei.
pub fn coins(typed: &str) -> Result<U256, Wrong> {
    let wrong = || Wrong { field: Some(COINS), problem: words::NO_AMOUNT.into() };
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
    /// Which.
    pub function: &'a Function,
    /// The page that answers.
    pub page: &'a str,
    /// On its button.
    pub button: &'a str,
    /// Ticker of the currency that it may take.
    pub currency: &'a str,
    /// What was asked of the page, maybe of another function.
    pub asked: &'a Asked,
    /// What was wrong with what was asked of this one.
    pub wrong: Option<&'a Wrong>,
}

impl Form<'_> {
    /// With what was typed in it. `answer` comes below.
    pub fn markup(&self, answer: Markup) -> Markup {
        let (function, asked) = (self.function, self.asked);
        let selector = hex::encode(function.selector());
        let id = format!("f-{selector}");
        let fits = function.inputs.len() <= MOST_FIELDS;
        html! {
            article .function id=(id) {
                h3 { code { (abi::text(&function.name)) } " " span .note { "0x" (selector) } }
                @if !fits {
                    p .note { (words::TOO_MANY_FIELDS) }
                } @else {
                    form .call action={ (self.page) "#" (id) } data-function=(selector) {
                        input type="hidden" name="f" value=(selector);
                        @if asked.first > 0 { input type="hidden" name="first" value=(asked.first); }
                        @for (at, input) in function.inputs.iter().enumerate() { (self.field(&id, at, input)) }
                        @if takes_coins(function) { (self.coins(&id)) }
                        @if let Some(problem) = self.problem(None) { p .wrong role="alert" { (problem) } }
                        button { (self.button) @if self.button != words::ASK { " " (short(&function.name)) } }
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
        let is_this = self.asked.of(self.function);
        let typed = if is_this { self.asked.typed(at) } else { "" };
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
        let typed = if self.asked.of(self.function) { self.asked.coins.as_str() } else { "" };
        let problem = self.problem(Some(COINS));
        html! {
            div .field {
                label for=(id) { (words::COINS) " " span .note { (self.currency) } }
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

/// How a value of this type is written.
fn hint(kind: &str) -> &'static str {
    match kind {
        "address" => words::ADDRESS_HINT,
        "string" => "",
        kind if kind.ends_with(']') => "[…, …]",
        kind if kind.starts_with('(') => "(…, …)",
        kind if kind.starts_with("bytes") => "0x…",
        _ => "0",
    }
}

/// Names and values that a contract answered.
pub fn values(values: &[(String, abi::Value)]) -> Markup {
    html! { dl .values { @for (name, value) in values { div { dt { (name) } dd { (transactions::value_of(value)) } } } } }
}

/// The other functions of an interface that has more than a page of them.
pub fn pages(page: &str, first: usize, all: usize) -> Markup {
    let [from, to, of] = [all.min(first + 1), all.min(first + ON_A_PAGE), all].map(|number| format::number(number as u64));
    html! {
        @if all > ON_A_PAGE || first > 0 {
            nav .pages aria-label=(list::PAGES) {
                @if first > 0 { a rel="prev" href={ (page) "?first=" (first.saturating_sub(ON_A_PAGE)) } { (words::EARLIER) } }
                span .note { (from) "–" (list::of(&to, &of)) }
                @if first + ON_A_PAGE < all { a rel="next" href={ (page) "?first=" (first + ON_A_PAGE) } { (words::LATER) } }
            }
        }
    }
}

/// Why there is no form: nobody said what the functions are.
pub fn no_interface(address: Address) -> Markup {
    html! {
        section {
            p { (words::NO_INTERFACE) }
            p { a href=(links::account_part(address, super::subject::ABI)) { (words::UPLOAD) } }
        }
    }
}

/// What a call was undone with: by the contract's own errors, by Solidity's, or in the node's words.
pub fn undone(known: &abi::Known, address: Address, message: &str, data: &[u8]) -> Markup {
    let error = known.error(address, data).or_else(|| abi::refusal(data));
    html! {
        p { span .tag.bad { (crate::words::status::REVERTED) } }
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
