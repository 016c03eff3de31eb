//! What the network is doing, at one look.

use super::{Failure, Page, blocks, health::Health, layout, parts, transactions};
use crate::{
    database::{Place, Read, int, sql},
    format,
    indexer::now_ms,
    links,
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

/// Throughput is that of so many milliseconds.
const WINDOW_MS: u64 = 60_000;

/// `/`
pub async fn show(State(site): State<Arc<Site>>) -> Page {
    let newest = blocks::newest(&site, u64::MAX, CHARTED).await?;
    let listed = &newest[..newest.len().min(LISTED as usize)];
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.value, t.selector, t.gas_used, t.gas_price, t.succeeded, t.time_ms \
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
        (words::CERTIFIED, now.certified.map_or("–".into(), format::number), String::new()),
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
    let from = window_begins(head.number("time_ms")?, now_ms());
    let text = "SELECT CAST(COALESCE(SUM(transactions), 0) AS BIGINT) AS transactions FROM blocks WHERE time_ms > $1";
    let row = sql(text).bind(int(from)).fetch_one(site.database.readers()).await?;
    Ok(format!("{:.1}", row.number("transactions")? as f64 * 1_000.0 / WINDOW_MS as f64))
}

/// Where the minute begins that throughput is measured over. It ends with the newest block; of a chain that stopped, a minute ago, so that its
/// throughput falls to nothing, and clocks that differ by some seconds change nothing.
fn window_begins(newest_ms: u64, now_ms: u64) -> u64 {
    newest_ms.max(now_ms.saturating_sub(WINDOW_MS)).saturating_sub(WINDOW_MS)
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
    // A block without a certificate yet has no such time, which is not 0.
    let certified = oldest_first().filter_map(|row| Some((row.number("number").ok()?, certified_after(row)?)));
    let (certified, latencies): (Vec<u64>, Vec<u64>) = certified.unzip();
    let label = |number: u64, value: u64, unit: &str| {
        format!("{} {}: {}{unit}", block::TITLE, format::number(number), format::number(value))
    };
    Ok(html! {
        @if !newest.is_empty() {
            div .columns {
                (parts::bars(words::CHART_TRANSACTIONS, &transactions, |at| label(number[at], transactions[at], "")))
                (parts::bars(words::CHART_LATENCY, &latencies, |at| label(certified[at], latencies[at], " ms")))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing;

    #[test]
    fn throughput_of_a_chain_that_stopped_falls_to_nothing() {
        let newest = 1_000_000;
        assert_eq!(window_begins(newest, newest + 300), newest - WINDOW_MS, "it goes on");
        assert_eq!(window_begins(newest, newest - 5_000), newest - WINDOW_MS, "our clock is behind");
        assert_eq!(window_begins(newest, newest + 90_000), newest - 30_000);
        assert!(window_begins(newest, newest + 2 * WINDOW_MS) >= newest, "no block is after it");
        assert_eq!(window_begins(0, 0), 0);
    }

    #[tokio::test]
    async fn blocks_without_a_certificate_are_not_charted_as_certified_at_once() {
        let filled = testing::filled().await;
        for number in 1..=3 {
            filled.write_block(number, 1_000 * number).await;
        }
        let mut writer = filled.site.database.writer().await.unwrap();
        sql("UPDATE blocks SET certified_ms = 2070 WHERE number = 2").execute(&mut *writer).await.unwrap();
        drop(writer);
        let page = show(State(Arc::clone(&filled.site))).await.unwrap().0.into_string();
        assert!(page.contains("Block 2: 70 ms") && !page.contains(": 0 ms"), "{page}");
        assert!(!page.contains("Block 3: 70") && page.contains("Block 3: 0"), "transactions are charted of all: {page}");
    }
}
