//! Events of a contract, newest first, decoded if its interface contains them.

use super::{
    super::{Failure, Page, Query, ROWS, parts, transactions},
    subject::{self, Contract, Subject},
};
use crate::{
    abi::{self, KnownAbis},
    app_state::AppState,
    database::{Place, Read, sql},
    links,
    pages::account::texts::contract as texts,
    pages::transactions::texts as transaction_texts,
    texts::list,
};
use alloy_primitives::{Address, B256};
use axum::extract::{Path, State};
use maud::{Markup, html};
use serde::Deserialize;
use sqlx::any::AnyRow;
use std::sync::Arc;

/// Maximum number of events in the filter.
const MAX_EVENTS: usize = 100;

/// Query: start of the list, and filter.
#[derive(Debug, Deserialize)]
pub struct EventQuery {
    before: Option<i64>,
    event: Option<String>,
}

/// A log, with the hash and the time of its transaction.
#[derive(Debug)]
struct LogEntry {
    hash: B256,
    time_ms: u64,
    topics: Vec<B256>,
    /// First bytes of its data; `bytes` is the full length.
    data: Vec<u8>,
    bytes: u64,
}

/// `/address/{address}/events`
pub async fn show(State(app): State<Arc<AppState>>, Path(address): Path<String>, Query(wanted): Query<EventQuery>) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let contract = subject.contract()?;
    let event = wanted.event.as_deref().filter(|event| !event.is_empty()).map(topic).transpose()?;
    let mut rows = rows(&app, subject.address, event, wanted.before.unwrap_or(i64::MAX)).await?;
    let last = transactions::last(&mut rows)?;
    let logs = rows.iter().map(LogEntry::read).collect::<Result<Vec<_>, _>>()?;
    let list = List { logs: &logs, last, is_first: wanted.before.is_none(), may_be_live: subject.may_be_live() };
    let body = markup(subject.address, contract, event, &list);
    Ok(subject.page(&app, texts::EVENTS, body))
}

fn topic(text: &str) -> Result<B256, Failure> {
    text.parse().map_err(|_| Failure::BadRequest(texts::BAD_EVENT.into()))
}

/// Reads the logs, up to one row more than a page has.
async fn rows(app: &AppState, address: Address, event: Option<B256>, before: i64) -> Result<Vec<AnyRow>, Failure> {
    let readers = app.database.readers();
    let address = address.to_vec();
    let rows = match event {
        None => {
            let text = "SELECT l.place, l.topics, SUBSTR(l.data, 1, 16384) AS data, CAST(LENGTH(l.data) AS BIGINT) AS bytes, x.hash, x.time_ms FROM logs l JOIN transactions x ON x.place = l.transaction_place \
                        WHERE l.address = $1 AND l.place < $2 ORDER BY l.place DESC LIMIT $3";
            sql(text).bind(address).bind(before).bind(ROWS + 1).fetch_all(readers).await?
        }
        Some(event) => {
            let text = "SELECT l.place, l.topics, SUBSTR(l.data, 1, 16384) AS data, CAST(LENGTH(l.data) AS BIGINT) AS bytes, x.hash, x.time_ms FROM logs l JOIN transactions x ON x.place = l.transaction_place \
                        WHERE l.address = $1 AND l.event = $2 AND l.place < $3 ORDER BY l.place DESC LIMIT $4";
            sql(text).bind(address).bind(event.to_vec()).bind(before).bind(ROWS + 1).fetch_all(readers).await?
        }
    };
    Ok(rows)
}

impl LogEntry {
    fn read(row: &AnyRow) -> Result<Self, Failure> {
        let topics = row.bytes("topics")?.chunks_exact(32).map(B256::from_slice).collect();
        Ok(Self {
            hash: row.hash("hash")?,
            time_ms: row.number("time_ms")?,
            topics,
            data: row.beginning("data")?,
            bytes: row.number("bytes")?,
        })
    }
}

/// Events of a page.
struct List<'a> {
    logs: &'a [LogEntry],
    /// Place of the last log, if a further page exists.
    last: Option<Place>,
    is_first: bool,
    may_be_live: bool,
}

fn markup(address: Address, contract: &Contract, event: Option<B256>, list: &List<'_>) -> Markup {
    let known = contract.known(address);
    let page = links::account_part(address, subject::EVENTS);
    let here = event.map_or_else(|| page.clone(), |event| format!("{page}?event={event}"));
    html! {
        section {
            h2 { (texts::EVENTS) }
            (choice(&page, contract, event))
        }
        div #events data-live=[(list.is_first && list.may_be_live).then_some("events")] {
            @if list.logs.is_empty() { p .note { (list::EMPTY) } }
            @for log in list.logs { (show_log(address, log, &known)) }
            (parts::older(&here, list.last, list.is_first))
        }
    }
}

/// Form that filters by event.
fn choice(page: &str, contract: &Contract, chosen: Option<B256>) -> Markup {
    let events = contract.interface.iter().flat_map(|interface| interface.events()).filter(|event| !event.anonymous);
    let events: Vec<_> = events.take(MAX_EVENTS).map(|event| (event.selector(), event.signature())).collect();
    html! {
        @if !events.is_empty() {
            form .choice action=(page) {
                label for="event" { (texts::EVENT) }
                select #event name="event" {
                    option value="" { (texts::ALL_EVENTS) }
                    @for (topic, signature) in &events {
                        option value=(topic) selected[chosen == Some(*topic)] { (abi::text(signature).chars().take(120).collect::<String>()) }
                    }
                }
                button { (texts::SHOW) }
            }
        }
    }
}

fn show_log(address: Address, log: &LogEntry, known: &KnownAbis) -> Markup {
    html! {
        article .log {
            p .note { (transaction_texts::TITLE) " " (parts::transaction(log.hash)) ", " (parts::time(log.time_ms)) }
            @match transactions::event(known, address, &log.topics, (&log.data, log.bytes)) {
                Some(event) => { (transactions::decoded(&event)) },
                None => {
                    ol .topics start="0" { @for topic in &log.topics { li { (parts::hash(*topic)) } } }
                    @if !log.data.is_empty() { p .data { code { (abi::brief_of(&log.data, log.bytes)) } } }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::parse_abi;
    use alloy_dyn_abi::DynSolValue;

    const ABI: &str =
        r#"[{"type":"event","name":"Said","inputs":[{"name":"words","type":"string","indexed":false}],"anonymous":false}]"#;

    fn page(topics: Vec<B256>, data: Vec<u8>) -> String {
        let contract = Contract { interface: parse_abi(ABI), ..Contract::default() };
        let bytes = data.len() as u64;
        let log = LogEntry { hash: B256::ZERO, time_ms: 0, topics, data, bytes };
        let list = List { logs: &[log], last: None, is_first: true, may_be_live: true };
        markup(Address::ZERO, &contract, None, &list).into_string()
    }

    fn said() -> Vec<B256> {
        vec![parse_abi(ABI).unwrap().events["Said"][0].selector()]
    }

    #[test]
    fn log_is_decoded() {
        let shown = page(said(), DynSolValue::String("<img src=x onerror=alert(1)>\u{202e}".into()).abi_encode());
        assert!(
            shown.contains("Said(string)")
                && shown.contains("&lt;img src=x")
                && !shown.contains("<img")
                && !shown.contains('\u{202e}')
        );
    }

    #[test]
    fn malformed_log_is_shown_as_bytes() {
        for data in [vec![], vec![0xff; 64], vec![0xff; 1 << 20], DynSolValue::String("x".repeat(1 << 20)).abi_encode()] {
            let shown = page(said(), data);
            assert!(shown.contains("start=\"0\"") && shown.len() < 6_000, "{}", shown.len());
        }
        assert!(page(vec![], vec![1]).contains("0x01"));
    }
}
