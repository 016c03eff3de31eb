//! What the network is doing, at one look.

use super::{Failure, Page, blocks, health::Health, layout, parts, transactions};
use crate::{
    database::{Place, Read, int, sql},
    format, links,
    site::Site,
    words::{block, home as words, validators},
};
use axum::extract::State;
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::sync::Arc;

/// Blocks and transactions listed, and blocks in the charts.
const LISTED: i64 = 10;
const CHARTED: i64 = 100;

/// Validators whose health is shown.
const VALIDATORS: usize = 24;

/// Throughput is that of so many milliseconds before the newest block.
const WINDOW_MS: u64 = 60_000;

/// `/`
pub async fn show(State(site): State<Arc<Site>>) -> Page {
    let newest = blocks::newest(&site, u64::MAX, CHARTED).await?;
    let listed = &newest[..newest.len().min(LISTED as usize)];
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.value, t.input, t.gas_used, t.gas_price, t.succeeded, t.time_ms \
                FROM transactions t WHERE t.place < $1 ORDER BY t.place DESC LIMIT $2";
    let rows = sql(text).bind(Place::END.0).bind(LISTED).fetch_all(site.database.readers()).await?;
    let body = html! {
        h1 { (words::TITLE) }
        @if newest.is_empty() { p .note { (words::EMPTY) } }
        div #home data-live="home" {
            (numbers(&site, &newest).await?)
            (charts(&newest)?)
            section #health {
                h2 { a href=(links::VALIDATORS) { (words::HEALTH) } }
                (Health::read(&site).await?.overview(VALIDATORS))
                p .note { (validators::HEALTH_NOTE) }
            }
            div .columns {
                section #blocks {
                    h2 { a href=(links::BLOCKS) { (words::LATEST_BLOCKS) } }
                    (blocks::narrow_table(&site, listed)?)
                }
                section #transactions {
                    h2 { a href=(links::TRANSACTIONS) { (words::LATEST_TRANSACTIONS) } }
                    (transactions::narrow_table(&site, &rows).await?)
                }
            }
        }
    };
    Ok(layout::page(&site, words::TITLE, body))
}

async fn numbers(site: &Site, newest: &[AnyRow]) -> Result<Markup, Failure> {
    let now = site.now();
    let totals = "SELECT CAST(COALESCE(SUM(transactions), 0) AS BIGINT) AS transactions, CAST(COALESCE(SUM(new_accounts), 0) AS BIGINT) AS \
                  accounts FROM days";
    let totals = sql(totals).fetch_one(site.database.readers()).await?;
    let tiles = [
        (words::NEWEST, now.indexed.map_or("–".into(), |(number, _)| format::number(number)), String::new()),
        (
            words::CERTIFIED,
            now.heads.as_ref().map_or("–".into(), |heads| format::number(heads.certified.number)),
            String::new(),
        ),
        (words::THROUGHPUT, throughput(site, newest).await?, words::THROUGHPUT_NOTE.to_owned()),
        (words::LATENCY, latency(newest).map_or("–".into(), format::duration), words::LATENCY_NOTE.to_owned()),
        (words::TOTAL, format::number(totals.number("transactions")?), String::new()),
        (words::ACCOUNTS, format::number(totals.number("accounts")?), String::new()),
    ];
    Ok(html! {
        ul .tiles { @for (name, value, note) in tiles { li title=(note) { span .name { (name) } strong { (value) } } } }
    })
}

/// Transactions a second in the last minute of blocks.
async fn throughput(site: &Site, newest: &[AnyRow]) -> Result<String, Failure> {
    let Some(head) = newest.first() else { return Ok("–".into()) };
    let until = head.number("time_ms")?;
    let from = until.saturating_sub(WINDOW_MS);
    let text = "SELECT CAST(COALESCE(SUM(transactions), 0) AS BIGINT) AS transactions FROM blocks WHERE time_ms > $1";
    let row = sql(text).bind(int(from)).fetch_one(site.database.readers()).await?;
    Ok(format!("{:.1}", row.number("transactions")? as f64 * 1_000.0 / WINDOW_MS as f64))
}

/// The median from order to certificate.
fn latency(newest: &[AnyRow]) -> Option<u64> {
    let latencies = latencies(newest);
    latencies.get(latencies.len() / 2).copied()
}

/// Milliseconds from order to certificate of these blocks, as far as they were seen, the fastest first.
pub fn latencies(newest: &[AnyRow]) -> Vec<u64> {
    let mut latencies: Vec<u64> = newest.iter().filter_map(certified_after).collect();
    latencies.sort_unstable();
    latencies
}

fn certified_after(row: &AnyRow) -> Option<u64> {
    Some(row.maybe_number("certified_ms").ok()??.saturating_sub(row.number("time_ms").ok()?))
}

fn charts(newest: &[AnyRow]) -> Result<Markup, Failure> {
    let oldest_first = || newest.iter().rev();
    let number: Vec<u64> = oldest_first().map(|row| row.number("number")).collect::<Result<_, _>>()?;
    let transactions: Vec<u64> = oldest_first().map(|row| row.number("transactions")).collect::<Result<_, _>>()?;
    let latencies: Vec<u64> = oldest_first().map(|row| certified_after(row).unwrap_or(0)).collect();
    let label = |values: &[u64], at: usize, unit: &str| {
        format!("{} {}: {}{unit}", block::TITLE, format::number(number[at]), format::number(values[at]))
    };
    Ok(html! {
        @if !newest.is_empty() {
            div .columns {
                (parts::bars(words::CHART_TRANSACTIONS, &transactions, |at| label(&transactions, at, "")))
                (parts::bars(words::CHART_LATENCY, &latencies, |at| label(&latencies, at, " ms")))
            }
        }
    })
}
