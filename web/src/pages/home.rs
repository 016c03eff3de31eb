//! Home page: an overview of the network.

pub(crate) mod texts;

use super::{Failure, Page, blocks, chart, health::Health, layout, transactions};
use crate::{
    app_state::AppState,
    clock::now_ms,
    database::{Place, Read, int, sql},
    format, links,
    pages::blocks::texts as block_texts,
    pages::validators::texts as validators_texts,
};
use axum::extract::State;
use corniche_types::{STALE_HEAD_MS, TimestampMs, is_stale_head};
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::sync::Arc;

/// Number of listed blocks and transactions, and number of blocks in the charts.
const LISTED: i64 = 10;
const CHARTED: i64 = 100;

/// Number of validators in the overview.
const VALIDATORS: usize = 24;

/// Throughput is measured over 60 seconds and at most 6,000 blocks, which are 100 per second.
const SECONDS: usize = 60;
const WINDOW_MS: u64 = 60_000;
const MAX_BLOCKS: u64 = 6_000;

/// `/`
pub async fn show(State(app): State<Arc<AppState>>) -> Page {
    let newest = blocks::newest(&app, u64::MAX, CHARTED).await?;
    let throughput = Throughput::read(&app, &newest).await?;
    let listed = &newest[..newest.len().min(LISTED as usize)];
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.value, t.selector, t.gas_used, t.gas_price, t.succeeded, t.time_ms \
                FROM transactions t WHERE t.place < $1 ORDER BY t.place DESC LIMIT $2";
    let rows = sql(text).bind(Place::END.0).bind(LISTED).fetch_all(app.database.readers()).await?;
    let body = html! {
        h1 { (texts::TITLE) }
        @if newest.is_empty() { p .note { (texts::EMPTY) } }
        div #home data-live="home" {
            (age(&app))
            (numbers(&app, &newest, throughput.average).await?)
            (charts(&newest, &throughput.seconds))
            section #health {
                h2 { a href=(links::VALIDATORS) { (texts::HEALTH) } }
                (Health::read(&app).await?.overview(VALIDATORS))
                p .note { (validators_texts::HEALTH_NOTE) }
            }
            div .columns {
                section #blocks {
                    h2 { a href=(links::BLOCKS) { (texts::LATEST_BLOCKS) } }
                    (blocks::narrow_table(&app, listed)?)
                }
                section #transactions {
                    h2 { a href=(links::TRANSACTIONS) { (texts::LATEST_TRANSACTIONS) } }
                    (transactions::narrow_table(&app, &rows).await?)
                }
            }
        }
    };
    Ok(layout::page(&app, texts::TITLE, body))
}

/// Notice that the newest final block is old. The script shows it once that is so by the reader's clock. A development chain makes
/// blocks only for transactions.
fn age(app: &AppState) -> Markup {
    let status = app.status();
    let head = status.heads.filter(|_| !status.development).map(|heads| heads.certified);
    html! {
        @if let Some(head) = head {
            @let is_stale = is_stale_head(TimestampMs(head.timestamp_ms), TimestampMs(now_ms()));
            p #stale .banner role="status" data-stale-ms=(head.timestamp_ms.saturating_add(STALE_HEAD_MS)) hidden[!is_stale] { (texts::STALE) }
        }
    }
}

async fn numbers(app: &AppState, newest: &[AnyRow], throughput: Option<f64>) -> Result<Markup, Failure> {
    let now = app.status();
    let totals = "SELECT CAST(COALESCE(SUM(transactions), 0) AS BIGINT) AS transactions, CAST(COALESCE(SUM(new_accounts), 0) AS BIGINT) AS \
                  accounts FROM days";
    let totals = sql(totals).fetch_one(app.database.readers()).await?;
    let tiles = [
        (texts::NEWEST, now.indexed.map_or("–".into(), |(number, _)| format::number(number)), String::new()),
        (texts::CERTIFIED, now.certified.map_or("–".into(), format::number), String::new()),
        (texts::THROUGHPUT, throughput.map_or("–".into(), |rate| format!("{rate:.1}")), texts::THROUGHPUT_NOTE.to_owned()),
        (texts::LATENCY, latency(newest).map_or("–".into(), format::duration), texts::LATENCY_NOTE.to_owned()),
        (texts::TOTAL, format::number(totals.number("transactions")?), String::new()),
        (texts::ACCOUNTS, format::number(totals.number("accounts")?), String::new()),
    ];
    Ok(html! {
        ul .tiles { @for (name, value, note) in tiles { li title=(note) { span .name { (name) } strong { (value) } } } }
    })
}

/// Transactions in each second of the last minute of blocks, and their average. Empty for a chain without blocks.
#[derive(Debug, Default, PartialEq)]
struct Throughput {
    seconds: Vec<u64>,
    average: Option<f64>,
}

impl Throughput {
    async fn read(app: &AppState, newest: &[AnyRow]) -> Result<Self, Failure> {
        let Some(head) = newest.first() else { return Ok(Self::default()) };
        Self::after(app, window_begins(head.number("time_ms")?, now_ms()), MAX_BLOCKS).await
    }

    /// Reads the minute after `from_ms`. At most `most` blocks are read, the newest ones; if there are more, the average covers
    /// only the seconds since the oldest of them.
    async fn after(app: &AppState, from_ms: u64, most: u64) -> Result<Self, Failure> {
        let text = "SELECT CAST((time_ms - $1 - 1) / 1000 AS BIGINT) AS bar, CAST(SUM(transactions) AS BIGINT) AS transactions, \
                    CAST(COUNT(*) AS BIGINT) AS blocks FROM (SELECT time_ms, transactions FROM blocks WHERE time_ms > $1 \
                    ORDER BY time_ms DESC LIMIT $2) AS newest GROUP BY bar ORDER BY bar";
        let rows = sql(text).bind(int(from_ms)).bind(int(most)).fetch_all(app.database.readers()).await?;
        let mut seconds = vec![0; SECONDS];
        let (mut blocks, mut first) = (0, SECONDS);
        for row in &rows {
            let bar = usize::try_from(row.number("bar")?).unwrap_or(SECONDS);
            blocks += row.number("blocks")?;
            first = first.min(bar);
            // A block that arrived after the newest one was read is after the minute.
            if let Some(second) = seconds.get_mut(bar) {
                *second = row.number("transactions")?;
            }
        }
        let covered = if blocks < most { SECONDS } else { SECONDS.saturating_sub(first).max(1) };
        let average = seconds.iter().sum::<u64>() as f64 / covered as f64;
        Ok(Self { seconds, average: Some(average) })
    }
}

/// Start of the minute over which throughput is measured. The minute ends with the newest block, or one minute before now if
/// that is later. So the throughput of a stopped chain falls to 0, and clocks that differ by some seconds have no effect.
fn window_begins(newest_ms: u64, now_ms: u64) -> u64 {
    newest_ms.max(now_ms.saturating_sub(WINDOW_MS)).saturating_sub(WINDOW_MS)
}

/// Median latency from order to certificate, in milliseconds.
fn latency(newest: &[AnyRow]) -> Option<u64> {
    let latencies = latencies(newest);
    latencies.get(latencies.len() / 2).copied()
}

/// Latencies from order to certificate of these blocks in milliseconds, fastest first. Blocks without an observed certificate
/// are left out.
pub fn latencies(newest: &[AnyRow]) -> Vec<u64> {
    let mut latencies: Vec<u64> = newest.iter().filter_map(certified_after).collect();
    latencies.sort_unstable();
    latencies
}

fn certified_after(row: &AnyRow) -> Option<u64> {
    Some(row.maybe_number("certified_ms").ok()??.saturating_sub(row.number("time_ms").ok()?))
}

fn charts(newest: &[AnyRow], seconds: &[u64]) -> Markup {
    // A block without a certificate has no latency yet, so it is left out instead of drawn as 0.
    let certified = newest.iter().rev().filter_map(|row| Some((row.number("number").ok()?, certified_after(row)?)));
    let (certified, latencies): (Vec<u64>, Vec<u64>) = certified.unzip();
    let rate = |at: usize| texts::second_before(seconds.len() - 1 - at, &format::number(seconds[at]));
    let latency = |at: usize| {
        format!("{} {}: {} {}", block_texts::TITLE, format::number(certified[at]), format::number(latencies[at]), texts::MS)
    };
    html! {
        @if !newest.is_empty() {
            div .columns {
                (chart::measured(texts::CHART_THROUGHPUT, texts::PER_SECOND, seconds, rate))
                (chart::measured(texts::CHART_LATENCY, texts::MS, &latencies, latency))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing;
    use alloy_primitives::B256;
    use corniche_api::{HeadBlock, Heads};

    #[test]
    fn throughput_of_stopped_chain_falls_to_zero() {
        let newest = 1_000_000;
        assert_eq!(window_begins(newest, newest + 300), newest - WINDOW_MS, "it goes on");
        assert_eq!(window_begins(newest, newest - 5_000), newest - WINDOW_MS, "our clock is behind");
        assert_eq!(window_begins(newest, newest + 90_000), newest - 30_000);
        assert!(window_begins(newest, newest + 2 * WINDOW_MS) >= newest, "no block is after it");
        assert_eq!(window_begins(0, 0), 0);
    }

    #[tokio::test]
    async fn old_head_is_announced() {
        let filled = testing::test_app().await;
        let page = async |age_ms: u64| {
            let head = HeadBlock { number: 7, hash: B256::ZERO, timestamp_ms: now_ms() - age_ms };
            filled.app.indexer_status.set_heads(&Heads { executed: head.clone(), certified: head });
            show(State(Arc::clone(&filled.app))).await.unwrap().0.into_string()
        };
        let notice = |page: &str| page[page.find("id=\"stale\"").unwrap()..].split('>').next().unwrap().to_owned();
        assert!(notice(&page(170_000).await).ends_with(" hidden"));
        assert!(!notice(&page(190_000).await).contains("hidden"));
    }

    #[tokio::test]
    async fn throughput_is_charted_per_second() {
        let filled = testing::test_app().await;
        for (number, time_ms) in [(1, 5_000), (2, 5_001), (3, 6_000), (4, 6_001), (5, 65_000), (6, 65_001)] {
            filled.write_block(number, time_ms).await;
        }
        let mut writer = filled.app.database.writer().await.unwrap();
        sql("UPDATE blocks SET transactions = 10 * number WHERE number > 0").execute(&mut *writer).await.unwrap();
        drop(writer);
        let mut seconds = vec![0; SECONDS];
        (seconds[0], seconds[1], seconds[59]) = (50, 40, 50);
        let found = Throughput::after(&filled.app, 5_000, 100).await.unwrap();
        assert_eq!(found, Throughput { seconds: seconds.clone(), average: Some(140.0 / 60.0) });
        // Three of six blocks are read, and they cover 59 seconds; one of them is after the minute.
        (seconds[0], seconds[1]) = (0, 40);
        let found = Throughput::after(&filled.app, 5_000, 3).await.unwrap();
        assert_eq!(found, Throughput { seconds: seconds.clone(), average: Some(90.0 / 59.0) });
        let drawn = charts(&blocks::newest(&filled.app, u64::MAX, CHARTED).await.unwrap(), &seconds).into_string();
        assert!(drawn.contains("<title>50 tx/s, 0 s before the newest block</title>"), "{drawn}");
        assert!(drawn.contains("<p class=\"top\" aria-hidden=\"true\">50 tx/s</p>"), "the axis says what it counts: {drawn}");
    }

    #[tokio::test]
    async fn uncertified_blocks_are_not_charted() {
        let filled = testing::test_app().await;
        for number in 1..=3 {
            filled.write_block(number, 1_000 * number).await;
        }
        let mut writer = filled.app.database.writer().await.unwrap();
        sql("UPDATE blocks SET certified_ms = 2070 WHERE number = 2").execute(&mut *writer).await.unwrap();
        drop(writer);
        let page = show(State(Arc::clone(&filled.app))).await.unwrap().0.into_string();
        assert!(page.contains("Block 2: 70 ms") && !page.contains(": 0 ms"), "{page}");
        assert!(!page.contains("Block 3: "), "{page}");
    }
}
