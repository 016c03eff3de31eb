//! An account or a contract: what it has, and what it took part in.

use super::{Failure, Page, ROWS, blocks::Before, layout, parts, transactions};
use crate::{
    database::{Read, sql},
    format, links,
    site::Site,
    words::account as words,
};
use alloy_primitives::Address;
use axum::extract::{Path, Query, State};
use maud::html;
use std::sync::Arc;

/// `/address/{address}`
pub async fn show(State(site): State<Arc<Site>>, Path(address): Path<String>, Query(from): Query<Before>) -> Page {
    let address = parse(&address)?;
    let readers = site.database.readers();
    let contract = sql("SELECT creator, transaction_place FROM contracts WHERE address = $1").bind(address.to_vec());
    let contract = contract.fetch_optional(readers).await?;
    let account = sql("SELECT first_block, transactions FROM accounts WHERE address = $1").bind(address.to_vec());
    let account = account.fetch_optional(readers).await?;
    let now = site.node.account(address).await.ok();
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.value, t.input, t.gas_used, t.gas_price, t.succeeded, t.time_ms \
                FROM activity a JOIN transactions t ON t.place = a.place WHERE a.address = $1 AND a.place < $2 ORDER BY a.place DESC LIMIT $3";
    let rows = sql(text).bind(address.to_vec()).bind(from.before.unwrap_or(i64::MAX)).bind(ROWS).fetch_all(readers).await?;
    let currency = site.now().currency;
    let is_contract = contract.is_some() || now.as_ref().is_some_and(|(_, _, code)| !code.is_empty());
    let title = if is_contract { words::CONTRACT } else { words::TITLE };
    let unknown = || html! { span .note { (words::UNKNOWN) } };
    let mut facts = vec![
        (words::BALANCE, now.as_ref().map_or_else(unknown, |(balance, ..)| parts::coins(*balance, &currency))),
        (words::NONCE, now.as_ref().map_or_else(unknown, |(_, nonce, _)| html! { (nonce) })),
    ];
    if let Some(account) = &account {
        facts.push((words::TRANSACTIONS, html! { (format::number(account.number("transactions")?)) }));
        facts.push((words::FIRST_SEEN, parts::block(account.number("first_block")?)));
    }
    if let Some(creator) = contract.as_ref().map(|row| row.maybe_address("creator")).transpose()?.flatten() {
        facts.push((words::MADE_BY, parts::account(creator)));
    }
    let body = html! {
        h1 { (title) }
        p .subject { (parts::account_in_full(address)) }
        (parts::facts(&facts))
        section #transactions {
            h2 { (words::TRANSACTIONS) }
            (transactions::table(&site, &rows).await?)
            (parts::older(&links::account(address), transactions::last(&rows)?, from.before.is_none()))
        }
    };
    Ok(layout::page(&site, &format!("{title} {address}"), body))
}

/// An address as people write it.
pub fn parse(address: &str) -> Result<Address, Failure> {
    address.parse().map_err(|_| Failure::BadRequest("An address is 0x and 40 digits.".into()))
}
