//! History of an account: transactions, token transfers, and calls inside transactions; newest first.

use super::{
    super::{Failure, Page, Query, ROWS, cursor::Before, parts, transactions},
    subject::{self, Subject},
};
use crate::{
    abi::KnownAbis,
    app_state::AppState,
    database::{Place, Read, sql},
    links,
    pages::account::texts,
    pages::transactions::texts as transaction_texts,
};
use alloy_primitives::{Address, U256};
use axum::extract::{Path, State};
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::sync::Arc;

/// `/address/{address}/transactions`
pub async fn transactions(State(app): State<Arc<AppState>>, Path(address): Path<String>, Query(from): Query<Before>) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let mut rows = newest(&app, subject.address, from.before.unwrap_or(i64::MAX), ROWS + 1).await?;
    let last = transactions::last(&mut rows)?;
    let table = transactions::table(&app, &rows).await?;
    Ok(list(&app, &subject, (subject::TRANSACTIONS, texts::TRANSACTIONS, texts::TRANSACTIONS_NOTE), table, last, &from))
}

/// Reads an account's transactions before a place, newest first.
pub async fn newest(app: &AppState, address: Address, before: i64, most: i64) -> Result<Vec<AnyRow>, Failure> {
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.value, t.selector, t.gas_used, t.gas_price, t.succeeded, t.time_ms \
                FROM activity a JOIN transactions t ON t.place = a.place WHERE a.address = $1 AND a.place < $2 ORDER BY a.place DESC LIMIT $3";
    Ok(sql(text).bind(address.to_vec()).bind(before).bind(most).fetch_all(app.database.readers()).await?)
}

/// `/address/{address}/transfers`
pub async fn transfers(State(app): State<Arc<AppState>>, Path(address): Path<String>, Query(from): Query<Before>) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let text = "SELECT s.place, m.token, m.sender, m.recipient, m.token_id, m.amount, m.time_ms, t.symbol, t.decimals, x.hash \
                FROM transfer_sides s JOIN transfers m ON m.place = s.place JOIN tokens t ON t.address = m.token \
                JOIN transactions x ON x.place = m.transaction_place WHERE s.address = $1 AND s.place < $2 ORDER BY s.place DESC LIMIT $3";
    let query = sql(text).bind(subject.address.to_vec()).bind(from.before.unwrap_or(i64::MAX)).bind(ROWS + 1);
    let mut rows = query.fetch_all(app.database.readers()).await?;
    let last = transactions::last(&mut rows)?;
    let cells = |row: &AnyRow| -> Result<Vec<Markup>, Failure> {
        let (sender, recipient) = (row.address("sender")?, row.address("recipient")?);
        let id = row.maybe_bytes("token_id")?.map(|id| U256::from_be_slice(&id));
        Ok(vec![
            parts::transaction(row.hash("hash")?),
            direction(subject.address, sender, recipient),
            end(sender, texts::MINTED),
            end(recipient, texts::BURNED),
            html! {
                (parts::tokens(row.amount("amount")?, row.number("decimals")?)) " " (token(row)?)
                @if let Some(id) = id { " " (token_id(id)) }
            },
            parts::time(row.number("time_ms")?),
        ])
    };
    let columns = [
        transaction_texts::TXN_HASH,
        texts::DIRECTION,
        transaction_texts::FROM,
        transaction_texts::TO,
        transaction_texts::VALUE,
        transaction_texts::AGE,
    ];
    let table = parts::table(texts::TRANSFERS, &columns, rows.iter().map(cells).collect::<Result<_, _>>()?);
    Ok(list(&app, &subject, (subject::TRANSFERS, texts::TRANSFERS, texts::TRANSFERS_NOTE), table, last, &from))
}

/// `/address/{address}/calls`
pub async fn calls(State(app): State<Arc<AppState>>, Path(address): Path<String>, Query(from): Query<Before>) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let text = "SELECT s.place, c.kind, c.sender, c.recipient, c.value, c.selector, c.error, x.hash, x.time_ms FROM call_sides s \
                JOIN calls c ON c.place = s.place JOIN transactions x ON x.place = c.transaction_place \
                WHERE s.address = $1 AND s.place < $2 ORDER BY s.place DESC LIMIT $3";
    let query = sql(text).bind(subject.address.to_vec()).bind(from.before.unwrap_or(i64::MAX)).bind(ROWS + 1);
    let mut rows = query.fetch_all(app.database.readers()).await?;
    let last = transactions::last(&mut rows)?;
    let known = KnownAbis::methods_of(&app.database, &rows).await?;
    let currency = app.status().currency;
    let cells = |row: &AnyRow| -> Result<Vec<Markup>, Failure> {
        let method = row.selector("selector")?.map(|selector| known.method_or_selector(selector));
        Ok(vec![
            parts::transaction(row.hash("hash")?),
            html! { (row.text("kind")?) @if let Some(error) = row.maybe_text("error")? { " " span .tag.bad { (crate::abi::text(&error)) } } },
            html! { span .method { (method.as_deref().unwrap_or(transaction_texts::TRANSFER)) } },
            parts::account(row.address("sender")?),
            row.maybe_address("recipient")?.map_or(html! { (transaction_texts::CREATION) }, parts::account),
            parts::coins(row.amount("value")?, &currency),
            parts::time(row.number("time_ms")?),
        ])
    };
    let columns = [
        transaction_texts::TXN_HASH,
        transaction_texts::KIND,
        transaction_texts::METHOD,
        transaction_texts::FROM,
        transaction_texts::TO,
        transaction_texts::VALUE,
        transaction_texts::AGE,
    ];
    let table = parts::table(texts::CALLS, &columns, rows.iter().map(cells).collect::<Result<_, _>>()?);
    Ok(list(&app, &subject, (subject::CALLS, texts::CALLS, texts::CALLS_NOTE), table, last, &from))
}

/// Page with one list. `end` is the last segment of its URL, `name` its title, `note` its explanation.
fn list(
    app: &AppState,
    subject: &Subject,
    (end, name, note): (&str, &str, &str),
    table: Markup,
    last: Option<Place>,
    from: &Before,
) -> super::super::Html {
    let here = links::account_part(subject.address, end);
    let is_newest = from.before.is_none();
    let file = [subject::TRANSACTIONS, subject::TRANSFERS].contains(&end).then(|| links::account_file(subject.address, end));
    let body = html! {
        section id=(end) data-live=[(is_newest && subject.may_be_live()).then_some(end)] {
            h2 { (name) }
            p .note { (note) @if let Some(file) = file { " " a href=(file) download { (texts::AS_FILE) } } }
            (table)
            (parts::older(&here, last, is_newest))
        }
    };
    subject.page(app, name, body)
}

fn direction(subject: Address, sender: Address, recipient: Address) -> Markup {
    match (sender == subject, recipient == subject) {
        (true, true) => html! { (texts::TO_ITSELF) },
        (true, false) => html! { span .tag { (texts::OUT) } },
        _ => html! { span .tag.good { (texts::IN) } },
    }
}

/// Sender or recipient of a transfer. The zero address marks a mint or a burn.
fn end(address: Address, nobody: &str) -> Markup {
    if address.is_zero() {
        html! { span .note { (nobody) } }
    } else {
        parts::account(address)
    }
}

/// Link to a token, with the symbol from the row.
pub fn token(row: &AnyRow) -> Result<Markup, Failure> {
    let symbol = row.maybe_text("symbol")?.unwrap_or_default();
    Ok(html! { a href=(links::token(row.address("token")?)) { (parts::symbol(&symbol)) } })
}

/// Id of a token, shortened because it has up to 78 digits.
pub fn token_id(id: U256) -> Markup {
    let text = id.to_string();
    let shown = if text.len() > 18 { format!("{}…{}", &text[..8], &text[text.len() - 6..]) } else { text.clone() };
    html! { span .id title=(text) { "#" (shown) } }
}
