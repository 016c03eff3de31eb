//! Pages of an account or a contract: overview, history, tokens and, for contracts, code, interface and forms.

mod code;
mod events;
mod forms;
mod history;
mod interface;
mod qr;
mod read;
mod subject;
pub(crate) mod texts;
mod tokens;
mod write;

use super::{Failure, Page, cursor, parts, transactions};
use crate::{
    app_state::AppState,
    database::{Read, sql},
    format, links,
    pages::account::texts::contract as contract_texts,
    texts::account as account_texts,
};
use alloy_primitives::Address;
use axum::{
    Router,
    extract::{DefaultBodyLimit, Path, State},
    routing::get,
};
use corniche_types::SHARDED_ENGINE;
use maud::{Markup, html};
use std::sync::Arc;
use subject::{Contract, Source, Subject};

/// Number of transactions on the overview.
const NEWEST: i64 = 10;

/// Routes of these pages.
pub fn routes() -> Router<Arc<AppState>> {
    let part = |part: &str| format!("/address/{{address}}/{part}");
    Router::new()
        .route("/address/{address}", get(show))
        .route(&part(subject::TRANSACTIONS), get(history::transactions))
        .route(&part(subject::TRANSFERS), get(history::transfers))
        .route(&part(subject::CALLS), get(history::calls))
        .route(&part(subject::HOLDINGS), get(tokens::holdings))
        .route(&part(subject::APPROVALS), get(tokens::approvals))
        .route(&part(subject::CODE), get(code::show))
        .route(&part(subject::ABI), get(interface::show).post(interface::upload))
        .layer(DefaultBodyLimit::max(interface::MAX_FORM_BYTES))
        .route(&part("abi.json"), get(interface::json))
        .route(&part(subject::READ), get(read::show))
        .route(&part(subject::WRITE), get(write::show))
        .route(&part("encode"), get(write::encode))
        .route(&part(subject::EVENTS), get(events::show))
        .route("/tx/{hash}/status", get(write::status))
}

/// `/address/{address}`
async fn show(State(app): State<Arc<AppState>>, Path(address): Path<String>) -> Page {
    let subject = Subject::load_with_balance(&app, &address).await?;
    let facts = facts(&app, &subject).await?;
    let mut rows = history::newest(&app, subject.address, i64::MAX, NEWEST + 1).await?;
    let has_more = cursor::cut(&mut rows, NEWEST).is_some();
    let all = links::account_part(subject.address, subject::TRANSACTIONS);
    let live = subject.may_be_live();
    let body = html! {
        section #overview .card data-live=[live.then_some("overview")] {
            div { (parts::facts(&facts)) }
            (qr::of(subject.address))
        }
        section #transactions data-live=[live.then_some("transactions")] {
            h2 { (texts::NEWEST_TRANSACTIONS) }
            (transactions::table(&app, &rows).await?)
            @if has_more { p { a href=(all) { (texts::ALL_TRANSACTIONS) } } }
        }
    };
    Ok(subject.page(&app, "", body))
}

async fn facts(app: &AppState, subject: &Subject) -> Result<Vec<(&'static str, Markup)>, Failure> {
    let readers = app.database.readers();
    let address = subject.address.to_vec();
    let text = "SELECT a.first_block, a.transactions, b.time_ms FROM accounts a LEFT JOIN blocks b ON b.number = a.first_block \
                WHERE a.address = $1";
    let account = sql(text).bind(address.clone()).fetch_optional(readers).await?;
    let token = sql("SELECT name, symbol FROM tokens WHERE address = $1").bind(address).fetch_optional(readers).await?;
    let currency = app.status().currency;
    let unknown = || html! { span .note { (texts::UNKNOWN) } };
    let mut facts = vec![
        (account_texts::BALANCE, subject.now.map_or_else(unknown, |(balance, _)| parts::coins(balance, &currency))),
        (
            account_texts::NONCE,
            subject
                .now
                .map_or_else(unknown, |(_, nonce)| html! { (format::number(nonce)) " " span .note { (texts::NONCE_NOTE) } }),
        ),
    ];
    if app.status().committee.is_some_and(|committee| committee.engine == SHARDED_ENGINE)
        && let Ok(Some(shard)) = app.node.shard_of(subject.address).await
    {
        facts.push((account_texts::SHARD, html! { (format::number(shard)) }));
    }
    match account {
        Some(account) => {
            facts.push((texts::TRANSACTIONS, html! { (format::number(account.number("transactions")?)) }));
            let seen = account.maybe_number("time_ms")?;
            let block = parts::block(account.number("first_block")?);
            facts.push((texts::FIRST_SEEN, html! { (block) @if let Some(seen) = seen { ", " (parts::time(seen)) } }));
        }
        None => facts.push((texts::FIRST_SEEN, html! { span .note { (texts::NEVER_SEEN) } })),
    }
    if let Some(token) = token {
        let symbol = parts::symbol(&token.text("symbol")?);
        facts
            .push((texts::TOKEN, html! { a href=(links::token(subject.address)) { (token.text("name")?) " (" (symbol) ")" } }));
    }
    if let Some(contract) = &subject.contract {
        facts.extend(contract_facts(app, subject.address, contract).await?);
    }
    Ok(facts)
}

/// Facts about a contract in short form; [`code`] shows the rest.
async fn contract_facts(app: &AppState, address: Address, known: &Contract) -> Result<Vec<(&'static str, Markup)>, Failure> {
    let source_text = match known.source {
        Source::Module => contract_texts::SOURCE_MODULE_SHORT,
        Source::Uploaded => contract_texts::SOURCE_UPLOADED_SHORT,
        Source::Missing => contract_texts::SOURCE_NOBODY_SHORT,
    };
    let code = links::account_part(address, subject::CODE);
    Ok(vec![
        (texts::MADE_BY, creator_of(app, known).await?),
        (contract_texts::CODE, html! { a href=(code) { (format::bytes(known.code_bytes)) } }),
        (contract_texts::INTERFACE, html! { a href=(links::account_part(address, subject::ABI)) { (source_text) } }),
        (contract_texts::SOURCE, html! { a href={ (code) "#source" } { (contract_texts::SOURCE_NOT_SHOWN_SHORT) } }),
    ])
}

/// Creator of a contract, and the transaction that created it.
async fn creator_of(app: &AppState, contract: &Contract) -> Result<Markup, Failure> {
    let Some(creator) = contract.creator else { return Ok(html! { span .note { (contract_texts::MADE_BY_NOBODY) } }) };
    let hash = match contract.creation {
        Some(place) => {
            let row = sql("SELECT hash FROM transactions WHERE place = $1").bind(place.0);
            row.fetch_optional(app.database.readers()).await?.map(|row| row.hash("hash")).transpose()?
        }
        None => None,
    };
    Ok(
        html! { (parts::account(creator)) @if let Some(hash) = hash { " " (contract_texts::MADE_IN) " " (parts::transaction(hash)) } },
    )
}

/// Parses an address from a URL.
pub fn parse(address: &str) -> Result<Address, Failure> {
    address.parse().map_err(|_| Failure::BadRequest(texts::BAD_ADDRESS.into()))
}
