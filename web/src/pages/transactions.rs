//! Pages of transactions: the list, and a single transaction with its effects.

mod calls;
mod shards;
mod table;
pub(crate) mod texts;

pub use table::{narrow_table, table, table_of_block};

use super::{
    Failure, Page, Query, ROWS, changes,
    cursor::{self, Before},
    layout, parts,
};
use crate::{
    abi::{self, KnownAbis},
    app_state::AppState,
    database::{Place, Read, sql},
    format,
    indexer::{certificates, executions},
    links,
    pages::changes::texts::TITLE as CHANGES,
    texts::{list, nav, status, unit},
    views::transactions::{skip, unknown},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use axum::extract::{Path, State};
use calls::Calls;
use corniche_api::{TransactionReport, TransactionStatus};
use maud::{Markup, html};
use serde::Deserialize;
use sqlx::any::AnyRow;
use std::{collections::BTreeSet, sync::Arc};

/// Maximum number of logs, transfers and calls on a page.
const MAX_LISTED: i64 = 200;

/// `/txs`
pub async fn list(State(app): State<Arc<AppState>>, Query(from): Query<Before>) -> Page {
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.value, t.selector, t.gas_used, t.gas_price, t.succeeded, t.time_ms \
                FROM transactions t WHERE t.place < $1 ORDER BY t.place DESC LIMIT $2";
    let query = sql(text).bind(from.before.unwrap_or(i64::MAX)).bind(ROWS + 1);
    let mut rows = query.fetch_all(app.database.readers()).await?;
    let last = last(&mut rows)?;
    let newest = from.before.is_none();
    let body = html! {
        h1 { (nav::TRANSACTIONS) }
        div #transactions data-live=[newest.then_some("transactions")] {
            (table(&app, &rows).await?)
            (parts::older(links::TRANSACTIONS, last, newest))
        }
    };
    Ok(layout::page(&app, nav::TRANSACTIONS, body))
}

/// Cuts `rows` to the length of a page. Returns the place of the last row if a further page exists; `rows` then has one row
/// more than a page.
pub fn last(rows: &mut Vec<AnyRow>) -> Result<Option<Place>, Failure> {
    Ok(cursor::cut(rows, ROWS).map(|row| row.place("place")).transpose()?)
}

/// Reads a block's transactions from a place on, up to one row more than a page has.
pub async fn of_block(app: &AppState, number: u64, from: Place) -> Result<Vec<AnyRow>, Failure> {
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.value, t.selector, t.gas_used, t.gas_price, t.succeeded, t.author, \
                t.time_ms FROM transactions t WHERE t.place >= $1 AND t.place < $2 ORDER BY t.place LIMIT $3";
    let from = from.0.max(Place::first(number).0);
    Ok(sql(text).bind(from).bind(Place::first(number + 1).0).bind(ROWS + 1).fetch_all(app.database.readers()).await?)
}

/// Selects the part of a transaction's page.
#[derive(Debug, Default, Deserialize)]
pub struct Part {
    /// Selects the state changes. The value is ignored.
    changes: Option<String>,
}

/// `/tx/{hash}` and `/tx/{hash}?changes`. The node replays the block for each of them, so they are separate requests.
pub async fn show(State(app): State<Arc<AppState>>, Path(hash): Path<String>, Query(part): Query<Part>) -> Page {
    let Ok(hash) = hash.parse::<B256>() else {
        return Err(Failure::BadRequest(texts::BAD_HASH.into()));
    };
    let row = sql("SELECT * FROM transactions WHERE hash = $1").bind(hash.to_vec());
    let title = format!("{} {hash:.10}…", texts::TITLE);
    let row = row.fetch_optional(app.database.readers()).await?;
    let body = if row.is_some() && part.changes.is_some() {
        state_changes(&app, hash).await
    } else {
        // If the node does not respond, the page shows the content of the database.
        let (answer, signed) = tokio::join!(app.node.status(hash), app.node.signed(hash));
        let (has_answered, report) = (answer.is_ok(), answer.ok().flatten());
        let signed = raw(signed.ok().flatten());
        match (row, &report) {
            (Some(row), report) => {
                let block = row.place("place")?.block();
                let is_certified = certificates::covering(app.database.readers(), block).await?.is_some();
                let executed = executed(&app, &row, report.as_ref(), is_certified).await?;
                live_part(html! { (executed) (signed) }, !is_certified)
            }
            (None, Some(report)) => live_part(html! { (not_indexed(hash, report)) (signed) }, !is_removed(&report.status)),
            (None, None) => live_part(skipped(&app, hash, has_answered).await?, false),
        }
    };
    Ok(layout::page(&app, &title, html! { h1 { (texts::TITLE) } (body) }))
}

fn is_removed(status: &TransactionStatus) -> bool {
    matches!(status, TransactionStatus::Dropped { .. } | TransactionStatus::Replaced { .. })
}

/// Makes the page live if the transaction may still change.
fn live_part(body: Markup, still: bool) -> Markup {
    html! { div #transaction data-live=[still.then_some("transaction")] { (body) } }
}

/// Page of a transaction that the node knows and the database does not contain.
fn not_indexed(hash: B256, report: &TransactionReport) -> Markup {
    let (word, note) = match &report.status {
        TransactionStatus::Pending => (status::PENDING, html! { (texts::IS_PENDING) }),
        TransactionStatus::Ordered => (status::ORDERED, html! { (texts::IS_ORDERED) }),
        TransactionStatus::Executed { .. } | TransactionStatus::Certified { .. } => {
            (status::EXECUTED, html! { (texts::IS_EXECUTED) })
        }
        TransactionStatus::Dropped { reason } => (status::DROPPED, html! { (abi::text(reason)) }),
        TransactionStatus::Replaced { by } => (status::REPLACED, html! { (texts::REPLACED_BY) " " (parts::transaction(*by)) }),
    };
    html! {
        (parts::facts(&[
            (texts::HASH, parts::hash(hash)),
            (texts::STATUS, html! { (parts::status(word)) " " (note) }),
        ]))
        (timeline(Some(report), Times::default()))
    }
}

/// Page of a transaction that was ordered and never executed. Returns an error if the database does not contain it.
async fn skipped(app: &AppState, hash: B256, has_answered: bool) -> Result<Markup, Failure> {
    let row = skip(app, hash).await?.ok_or_else(|| unknown(app, hash, has_answered))?;
    Ok(parts::facts(&[
        (texts::HASH, parts::hash(hash)),
        (
            texts::STATUS,
            html! { (parts::status(status::DROPPED)) " " (texts::NOT_EXECUTED) " " (abi::text(&row.text("reason")?)) },
        ),
        (texts::BLOCK, parts::block(row.number("block")?)),
    ]))
}

/// Links to the parts of the page.
fn tabs(hash: B256, here: &str) -> Markup {
    parts::tabs(&[(links::transaction(hash), texts::OVERVIEW), (links::changes(hash), CHANGES)], here)
}

/// State changes of an executed transaction.
async fn state_changes(app: &AppState, hash: B256) -> Markup {
    let changed = changes::of(&app.node, hash).await;
    html! {
        (tabs(hash, CHANGES))
        section { (parts::facts(&[(texts::HASH, parts::hash(hash))])) }
        section #changes {
            h2 { (CHANGES) }
            @match &changed {
                Some(changed) => (changes::table(changed, &app.status().currency)),
                None => p .note { (changes::texts::UNKNOWN) },
            }
        }
    }
}

async fn executed(
    app: &AppState,
    row: &AnyRow,
    report: Option<&TransactionReport>,
    is_certified: bool,
) -> Result<Markup, Failure> {
    let place = row.place("place")?;
    let input = row.bytes("input")?;
    let to = row.maybe_address("recipient")?;
    let logs = logs_of(app, place).await?;
    let runs_code = !input.is_empty() || row.number("gas_used")? != 21_000;
    let calls = if runs_code { calls::of(app, row).await? } else { Calls::default() };
    let mut contracts: BTreeSet<Address> = to.into_iter().collect();
    for log in &logs {
        contracts.insert(log.address("address")?);
    }
    contracts.extend(calls.parties());
    let known = KnownAbis::contracts(&app.database, contracts).await?;
    let times = times_of(app, row, is_certified).await?;
    Ok(html! {
        (tabs(row.hash("hash")?, texts::OVERVIEW))
        section { (facts(row, is_certified, calls.why(&known), &app.status().currency)?) }
        (timeline(report, times))
        (shards::section(app, row.hash("hash")?).await)
        @if !input.is_empty() {
            section {
                h2 { (texts::INPUT) }
                @if let Some(call) = to.and_then(|to| known.call(to, &input)) { (decoded(&call)) }
                (folded(&input))
            }
        }
        (token_transfers(app, place).await?)
        @if !logs.is_empty() {
            section #logs {
                h2 { (texts::LOGS) " (" (format::number(row.number("logs")?)) ")" }
                @for log in &logs { (show_log(log, &known)?) }
                @if row.number("logs")? > logs.len() as u64 { p .note { (texts::FIRST_ONES) } }
            }
        }
        @if runs_code { section #calls { h2 { (texts::CALLS) } (calls.tree(&known)) } }
    })
}

/// Reads the first logs of a transaction, with the beginning of their data.
async fn logs_of(app: &AppState, place: Place) -> Result<Vec<AnyRow>, Failure> {
    let logs = sql(
        "SELECT place, address, topics, SUBSTR(data, 1, 16384) AS data, CAST(LENGTH(data) AS BIGINT) AS bytes FROM logs WHERE transaction_place = $1 ORDER BY place LIMIT $2",
    );
    Ok(logs.bind(place.0).bind(MAX_LISTED).fetch_all(app.database.readers()).await?)
}

/// Reads the stored times of an executed transaction.
async fn times_of(app: &AppState, row: &AnyRow, is_certified: bool) -> Result<Times, Failure> {
    let (readers, place) = (app.database.readers(), row.place("place")?);
    let block = sql("SELECT seen_ms, certified_ms FROM blocks WHERE number = $1").bind(place.block() as i64);
    let block = block.fetch_optional(readers).await?;
    let seen = |column| block.as_ref().and_then(|block| block.maybe_number(column).ok().flatten());
    Ok(Times {
        received: executions::received_ms(readers, place).await?,
        ordered: Some(row.number("time_ms")?),
        executed: seen("seen_ms"),
        certified: seen("certified_ms").filter(|_| is_certified),
    })
}

/// Table of an executed transaction. `why` is the reason of a revert.
fn facts(row: &AnyRow, is_certified: bool, why: Markup, currency: &str) -> Result<Markup, Failure> {
    let place = row.place("place")?;
    let succeeded = row.int("succeeded")? == 1;
    let to = row.maybe_address("recipient")?;
    let (gas_used, gas_price) = (row.number("gas_used")?, row.number("gas_price")?);
    let fee = U256::from(gas_used) * U256::from(gas_price);
    let finality = if is_certified { texts::IS_CERTIFIED } else { texts::NOT_CERTIFIED };
    let mut facts = vec![
        (texts::HASH, parts::hash(row.hash("hash")?)),
        (texts::STATUS, html! { (parts::result(succeeded)) @if !succeeded { " " (why) } }),
        (texts::FINALITY, html! { (parts::status(status::of_executed(is_certified))) " " span .note { (finality) } }),
        (texts::BLOCK, html! { (parts::block(place.block())) ", " (texts::POSITION) " " (place.position()) }),
        (texts::TIME, parts::time(row.number("time_ms")?)),
        (texts::AUTHOR, row.maybe_number("author")?.map_or(html! { "–" }, parts::validator)),
        (texts::FROM, parts::account_in_full(row.address("sender")?)),
        (texts::TO, to.map_or(html! { (texts::CREATION) }, parts::account_in_full)),
    ];
    facts.extend(row.maybe_address("created")?.map(|created| (texts::CREATED, parts::account_in_full(created))));
    facts.extend([
        (texts::VALUE, parts::coins(row.amount("value")?, currency)),
        (texts::FEE, parts::coins(fee, currency)),
        (
            texts::GAS,
            html! {
                (list::of(&format::number(gas_used), &format::number(row.number("gas_limit")?))) ", "
                (format::percent(gas_used, row.number("gas_limit")?))
            },
        ),
        (texts::GAS_PRICE, html! { (unit::gwei(&format::gwei(gas_price))) }),
        (texts::NONCE, html! { (row.number("nonce")?) }),
        (texts::KIND, html! { (texts::kind(row.number("kind")?)) }),
    ]);
    Ok(parts::facts(&facts))
}

/// The signed transaction, if the node returned it.
fn raw(signed: Option<Bytes>) -> Markup {
    html! {
        @if let Some(signed) = signed {
            section #raw {
                h2 { (texts::SIGNED) }
                (folded(&signed))
            }
        }
    }
}

/// Bytes that the reader can unfold.
fn folded(bytes: &[u8]) -> Markup {
    html! { details { summary { (texts::RAW) ", " (format::bytes(bytes.len() as u64)) } (parts::bytes(bytes)) } }
}

/// Stored times of a transaction in Unix milliseconds. The last two are the explorer's observations.
#[derive(Default)]
struct Times {
    received: Option<u64>,
    ordered: Option<u64>,
    executed: Option<u64>,
    certified: Option<u64>,
}

/// Timeline of a transaction, with the known times.
fn timeline(report: Option<&TransactionReport>, times: Times) -> Markup {
    let Times { received, ordered, executed, certified } = times;
    let received = received.or_else(|| report.and_then(|report| report.times.received_ms));
    let ordered = ordered.or_else(|| report.and_then(|report| report.times.ordered_ms));
    let left = report.and_then(|report| report.times.left_ms);
    let steps = [
        (texts::RECEIVED, received),
        (status::ORDERED, ordered),
        (status::EXECUTED, executed),
        (status::CERTIFIED, certified),
        (status::DROPPED, left),
    ];
    let steps: Vec<_> = steps.into_iter().filter_map(|(word, at)| Some((word, at?))).collect();
    html! {
        @if !steps.is_empty() {
            section {
                h2 { (texts::TIMELINE) }
                ol .timeline {
                    @for (at, (word, ms)) in steps.iter().enumerate() {
                        li {
                            (word) " " (parts::time(*ms))
                            @if let Some((_, before)) = at.checked_sub(1).and_then(|before| steps.get(before)) {
                                @if ms >= before { span .note { " + " (format::duration(ms - before)) } }
                            }
                        }
                    }
                }
                @if received.is_some() { p .note { (texts::RECEIVED_THERE) } }
                @if executed.or(certified).is_some() { p .note { (texts::SEEN_HERE) } }
            }
        }
    }
}

/// A call or an event with its values.
pub fn decoded(call: &abi::Decoded) -> Markup {
    html! {
        p .signature { code { (call.signature) } }
        @if !call.values.is_empty() {
            dl .values { @for (name, value) in &call.values { div { dt { (name) } dd { (value_of(value)) } } } }
        }
    }
}

/// A value of a call or an event.
pub fn value_of(value: &abi::Value) -> Markup {
    match value {
        abi::Value::Address(address) => parts::account_in_full(*address),
        abi::Value::Text(text) => html! { span .data { (text) } },
    }
}

/// One log.
pub fn show_log(log: &AnyRow, known: &KnownAbis) -> Result<Markup, Failure> {
    let (address, topics) = (log.address("address")?, log.bytes("topics")?);
    let (data, bytes) = (log.beginning("data")?, log.number("bytes")?);
    let topics: Vec<B256> = topics.chunks_exact(32).map(B256::from_slice).collect();
    Ok(html! {
        article .log {
            p { (parts::account(address)) " " @if let Some(name) = known.name(address) { (name) } }
            @match event(known, address, &topics, (&data, bytes)) {
                Some(event) => { (decoded(&event)) },
                None => {
                    ol .topics start="0" { @for topic in &topics { li { (parts::hash(*topic)) } } }
                    (parts::beginning(&data, bytes))
                },
            }
        }
    })
}

/// Decodes a log. Returns `None` if its data was read only in part.
pub fn event(known: &KnownAbis, from: Address, topics: &[B256], (data, bytes): (&[u8], u64)) -> Option<abi::Decoded> {
    (data.len() as u64 == bytes).then(|| known.event(from, topics, data))?
}

/// Token transfers of a transaction.
async fn token_transfers(app: &AppState, place: Place) -> Result<Markup, Failure> {
    let text = "SELECT m.token, m.sender, m.recipient, m.token_id, m.amount, t.symbol, t.decimals FROM transfers m JOIN tokens t ON t.address = \
                m.token WHERE m.transaction_place = $1 ORDER BY m.place LIMIT $2";
    let mut rows = sql(text).bind(place.0).bind(MAX_LISTED + 1).fetch_all(app.database.readers()).await?;
    let has_more = cursor::cut(&mut rows, MAX_LISTED).is_some();
    let cells = |row: &AnyRow| -> Result<Vec<Markup>, Failure> {
        let id = row.maybe_bytes("token_id")?.map(|id| U256::from_be_slice(&id));
        Ok(vec![
            parts::account(row.address("sender")?),
            parts::account(row.address("recipient")?),
            html! {
                (parts::tokens(row.amount("amount")?, row.number("decimals")?)) " "
                a href=(links::token(row.address("token")?)) { (parts::symbol(&row.text("symbol")?)) }
                @if let Some(id) = id { " #" (id) }
            },
        ])
    };
    let rows: Vec<_> = rows.iter().map(cells).collect::<Result<_, _>>()?;
    Ok(html! {
        @if !rows.is_empty() {
            section #transfers {
                h2 { (texts::TRANSFERS) }
                (parts::table(texts::TRANSFERS, &[texts::FROM, texts::TO, texts::VALUE], rows))
                @if has_more { p .note { (texts::FIRST_ONES) } }
            }
        }
    })
}
