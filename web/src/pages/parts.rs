//! Building blocks of pages.

use crate::{
    database::Place,
    format, links,
    texts::{self, list, status},
};
use alloy_primitives::{Address, B256, U256};
use maud::{Markup, html};
use serde_json::Value;

/// A value with a copy button. The script highlights all its occurrences on the page.
fn value(text: &str, shown: &str, link: Option<String>) -> Markup {
    html! {
        span .value data-value=(text) {
            @match link {
                Some(link) => a href=(link) title=(text) { code { (shown) } },
                None => code title=(text) { (shown) },
            }
            button .copy type="button" data-copy=(text) aria-label={ (list::COPY) " " (text) } hidden {}
        }
    }
}

/// A text in full, with a copy button.
pub fn text(text: &str) -> Markup {
    value(text, text, None)
}

fn short(text: &str) -> String {
    match text.len() {
        0..=18 => text.to_owned(),
        length => format!("{}…{}", &text[..8], &text[length - 6..]),
    }
}

/// An account, in short.
pub fn account(address: Address) -> Markup {
    let text = address.to_string();
    value(&text, &short(&text), Some(links::account(address)))
}

/// An account, in full.
pub fn account_in_full(address: Address) -> Markup {
    let text = address.to_string();
    value(&text, &text, Some(links::account(address)))
}

/// A transaction's hash, in short.
pub fn transaction(hash: B256) -> Markup {
    let text = hash.to_string();
    value(&text, &short(&text), Some(links::transaction(hash)))
}

/// A block by its number.
pub fn block(number: u64) -> Markup {
    html! { a href=(links::block(number)) { (format::number(number)) } }
}

/// A block by its hash.
pub fn block_hash(hash: B256) -> Markup {
    let text = hash.to_string();
    value(&text, &text, Some(links::block(hash)))
}

/// A hash without a page of its own.
pub fn hash(hash: B256) -> Markup {
    let text = hash.to_string();
    value(&text, &text, None)
}

/// A hash in short.
pub fn hash_in_short(hash: B256) -> Markup {
    let text = hash.to_string();
    value(&text, &short(&text), None)
}

/// A peer by its id, in short.
pub fn peer(id: &str) -> Markup {
    value(id, &short(id), None)
}

/// Bytes, in a box that does not grow.
pub fn bytes(bytes: &[u8]) -> Markup {
    beginning(bytes, bytes.len() as u64)
}

/// First bytes of a value of `length` bytes.
pub fn beginning(bytes: &[u8], length: u64) -> Markup {
    const MAX_BYTES: usize = 16 << 10;
    let shown = &bytes[..bytes.len().min(MAX_BYTES)];
    let text = format!("0x{}", hex::encode(shown));
    html! {
        pre .bytes tabindex="0" { code { (text) } }
        @if (shown.len() as u64) < length { p .note { (list::first_of(&format::bytes(shown.len() as u64), &format::bytes(length))) } }
    }
}

/// A validator by position in the committee.
pub fn validator(index: u64) -> Markup {
    html! { a href=(links::validator(index)) { (texts::validator(index)) } }
}

/// A time. The script adds how long ago it was.
pub fn time(ms: u64) -> Markup {
    html! { time datetime=(format::iso(ms)) data-ms=(ms) { (format::time(ms)) } }
}

/// An amount of the chain's currency; scripts switch the unit.
pub fn coins(wei: U256, currency: &str) -> Markup {
    html! { span .amount data-wei=(wei) { (format::amount(wei, format::COIN_DECIMALS)) " " (currency) } }
}

/// Symbol of a token. A third party chose it.
pub fn symbol(symbol: &str) -> Markup {
    html! { span .symbol { @if symbol.is_empty() { "?" } @else { (symbol) } } }
}

/// An amount of a token.
pub fn tokens(amount: U256, decimals: u64) -> Markup {
    html! { span .amount { (format::amount(amount, decimals)) } }
}

/// Result of an executed transaction.
pub fn result(succeeded: bool) -> Markup {
    match succeeded {
        true => html! { span .tag.good { (status::SUCCEEDED) } },
        false => html! { span .tag.bad { (status::REVERTED) } },
    }
}

/// Tag for one of the texts in [`status`].
pub fn status(word: &str) -> Markup {
    html! { span .tag.{ "is-" (word) } { (word) } }
}

/// Texts for a script, as an attribute of its element. Scripts contain no texts.
pub fn texts(texts: &[(&str, &str)]) -> String {
    texts.iter().copied().collect::<Value>().to_string()
}

/// Names and values, one below the other.
pub fn facts(rows: &[(&str, Markup)]) -> Markup {
    html! { dl { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } } }
}

/// A table. On a phone each row becomes a card, so each cell carries the name of its column.
pub fn table(caption: &str, columns: &[&str], rows: Vec<Vec<Markup>>) -> Markup {
    html! {
        @if rows.is_empty() {
            p .note { (list::EMPTY) }
        } @else {
            table {
                caption .hidden { (caption) }
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { @for row in rows { tr { @for (column, cell) in columns.iter().zip(row) { td data-column=(column) { (cell) } } } } }
            }
        }
    }
}

/// Links to other pages of a list. `last` is the place of the last row if a further page exists.
pub fn older(list: &str, last: Option<Place>, is_first: bool) -> Markup {
    html! {
        nav .pages aria-label=(list::PAGES) {
            @if !is_first { a href=(list) { (list::NEWEST) } }
            @if let Some(last) = last { a rel="next" href=(links::before(list, last)) { (list::OLDER) } }
        }
    }
}

/// Links to other pages of a list that is not ordered by place.
pub fn next_pages(list: &str, last: Option<String>, is_first: bool) -> Markup {
    html! {
        nav .pages aria-label=(list::PAGES) {
            @if !is_first { a href=(list) { (list::FIRST) } }
            @if let Some(last) = last { a rel="next" href=(links::below(list, &last)) { (list::FURTHER) } }
        }
    }
}

/// Links to the parts of a page, each of which is a page itself.
pub fn tabs(parts: &[(String, &str)], here: &str) -> Markup {
    html! {
        nav .tabs aria-label=(list::PARTS) {
            @for (link, name) in parts { a href=(link) aria-current=[(*name == here).then_some("page")] { (name) } }
        }
    }
}
