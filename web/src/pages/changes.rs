//! State changes of a transaction: balances, nonces, code and storage, from the node's trace.

pub(crate) mod texts;

use super::parts;
use crate::{format, node::Node, texts::account as account_texts};
use alloy_primitives::{Address, B256, Bytes, U256};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of changes on a page.
const MAX_CHANGES: usize = 200;

/// Values before and after, as the `prestateTracer` returns them. Omitted values did not change.
#[derive(Debug, Default, Deserialize)]
pub struct Changes {
    #[serde(default)]
    pre: BTreeMap<Address, Account>,
    #[serde(default)]
    post: BTreeMap<Address, Account>,
}

#[derive(Debug, Default, Deserialize)]
struct Account {
    #[serde(default)]
    balance: Option<U256>,
    #[serde(default)]
    nonce: Option<u64>,
    #[serde(default)]
    code: Option<Bytes>,
    #[serde(default)]
    storage: BTreeMap<B256, B256>,
}

/// Requests the changes from the node. Returns `None` if it serves no traces, or no longer has the state before the block.
pub async fn of(node: &Node, hash: B256) -> Option<Changes> {
    let how = json!({"tracer": "prestateTracer", "tracerConfig": {"diffMode": true}});
    node.ask("debug_traceTransaction", json!([hash, how])).await.ok()
}

/// Table of changes.
pub fn table(changes: &Changes, currency: &str) -> Markup {
    let rows = rows(changes, currency);
    let more = rows.len() > MAX_CHANGES;
    let rows: Vec<_> = rows.into_iter().take(MAX_CHANGES).collect();
    html! {
        (parts::table(texts::TITLE, &[texts::ACCOUNT, texts::WHAT, texts::BEFORE, texts::AFTER], rows))
        @if more { p .note { (texts::MORE) } }
    }
}

fn rows(changes: &Changes, currency: &str) -> Vec<Vec<Markup>> {
    let nothing = Account::default();
    let accounts: BTreeSet<&Address> = changes.pre.keys().chain(changes.post.keys()).collect();
    let mut rows = Vec::new();
    for address in accounts {
        let is_new = !changes.pre.contains_key(address);
        let [pre, post] = [&changes.pre, &changes.post].map(|side| side.get(address).unwrap_or(&nothing));
        let mut row =
            |what: Markup, before: Markup, after: Markup| rows.push(vec![parts::account(*address), what, before, after]);
        if let Some(after) = post.balance {
            let coins = |wei: Option<U256>| wei.map_or(html! { "–" }, |wei| parts::coins(wei, currency));
            row(html! { (account_texts::BALANCE) }, coins(pre.balance), coins(Some(after)));
        }
        if let Some(after) = post.nonce {
            // The tracer omits a nonce of 0.
            let before = if is_new { None } else { Some(pre.nonce.unwrap_or(0)) };
            row(
                html! { (account_texts::NONCE) },
                html! { (before.map_or("–".into(), format::number)) },
                html! { (format::number(after)) },
            );
        }
        if let Some(code) = &post.code {
            row(html! { (texts::CODE) }, html! { "–" }, html! { (format::bytes(code.len() as u64)) });
        }
        let slots: BTreeSet<&B256> = pre.storage.keys().chain(post.storage.keys()).collect();
        for slot in slots {
            // A slot that one side omits is zero there.
            let [before, after] = [pre, post].map(|side| side.storage.get(slot).copied().unwrap_or_default());
            row(html! { (texts::SLOT) " " (parts::hash_in_short(*slot)) }, word(before), word(after));
        }
    }
    rows
}

/// A storage word: as a number if it fits into 64 bits, otherwise in hexadecimal.
fn word(word: B256) -> Markup {
    let number = U256::from_be_bytes(word.0);
    match u64::try_from(number) {
        Ok(number) => html! { (number) },
        Err(_) => parts::hash_in_short(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_side_is_derived() {
        let owner = Address::repeat_byte(1);
        let made = Address::repeat_byte(2);
        let slot = B256::repeat_byte(3);
        let changes: Changes = serde_json::from_value(json!({
            "pre": {owner.to_string(): {"balance": "0x5", "nonce": 1, "storage": {slot.to_string(): B256::with_last_byte(9)}}},
            "post": {owner.to_string(): {"balance": "0x4", "nonce": 2}, made.to_string(): {"nonce": 1, "code": "0x0061", "balance": "0x1"}},
        }))
        .unwrap();
        let rows: Vec<String> =
            rows(&changes, "CRN").into_iter().map(|row| row[1..].iter().map(|cell| text(cell) + "|").collect()).collect();
        assert_eq!(
            rows,
            [
                "Balance|0.000000000000000005 CRN|0.000000000000000004 CRN|",
                "Nonce|1|2|",
                "Slot 0x030303…030303|9|0|",
                "Balance|–|0.000000000000000001 CRN|",
                "Nonce|–|1|",
                "Code|–|2 B|",
            ]
        );
    }

    /// Text without HTML tags.
    fn text(markup: &Markup) -> String {
        let html = markup.clone().into_string();
        html.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text)).collect::<String>().trim().to_owned()
    }
}
