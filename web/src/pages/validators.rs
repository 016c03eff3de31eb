//! Page of the committee: its validators and their records.

use super::{Failure, Page, days, health, health::Health, layout, parts};
use crate::{
    database::{Database, Read, int, sql},
    format,
    site::Site,
    words::{nav, validators as words},
};
use alloy_primitives::U256;
use axum::extract::State;
use corniche_api::Validators;
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::{collections::BTreeMap, sync::Arc};

/// Length of the record in days, and of its shorter period.
pub const DAYS: u64 = 30;
const WEEK: u64 = 7;

/// Maximum number of validators on a page. The format allows committees of 65,536; realistic ones have some hundreds.
const MOST: i64 = 1_000;

/// Query for the sums of all validators over their newest days.
pub const RECORDS: &str = "SELECT validator, CAST(SUM(led) AS BIGINT) AS led, CAST(SUM(batches) AS BIGINT) AS batches, CAST(SUM(transactions) AS \
                           BIGINT) AS transactions, CAST(SUM(signed) AS BIGINT) AS signed, CAST(SUM(missed) AS BIGINT) AS missed, \
                           CAST(SUM(CASE WHEN day >= $3 THEN signed ELSE 0 END) AS BIGINT) AS signed_week, CAST(SUM(CASE WHEN day >= $3 \
                           THEN missed ELSE 0 END) AS BIGINT) AS missed_week, CAST(SUM(CASE WHEN day >= $4 THEN signed ELSE 0 END) AS \
                           BIGINT) AS signed_today, CAST(SUM(CASE WHEN day >= $4 THEN missed ELSE 0 END) AS BIGINT) AS missed_today FROM \
                           (SELECT * FROM validator_days WHERE day >= $1 ORDER BY day LIMIT $2) AS newest GROUP BY validator ORDER BY \
                           validator";

/// Record of a validator in the last [`DAYS`] days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Blocks it led.
    pub led: u64,
    /// Its batches in blocks.
    pub batches: u64,
    /// Transactions in these batches.
    pub transactions: u64,
    /// Signatures in certificates, and missing signatures: today, in 7 days, in 30 days.
    pub signatures: [(u64, u64); 3],
}

/// Records up to a day, by position in the committee. Validators without activity have no entry.
pub async fn records(database: &Database, today: u64) -> Result<BTreeMap<u64, Record>, Failure> {
    let since = |days: u64| int((today + 1).saturating_sub(days));
    let query = sql(RECORDS).bind(since(DAYS)).bind(MOST * DAYS as i64).bind(since(WEEK)).bind(since(1));
    let rows = query.fetch_all(database.readers()).await?;
    let record = |row: &AnyRow| -> Result<(u64, Record), Failure> {
        let signatures = [
            (row.number("signed_today")?, row.number("missed_today")?),
            (row.number("signed_week")?, row.number("missed_week")?),
            (row.number("signed")?, row.number("missed")?),
        ];
        let (led, batches, transactions) = (row.number("led")?, row.number("batches")?, row.number("transactions")?);
        Ok((row.number("validator")?, Record { led, batches, transactions, signatures }))
    };
    rows.iter().map(record).collect()
}

/// Share of certificates that a validator signed; a dash if there were no certificates.
pub fn uptime((signed, missed): (u64, u64)) -> Markup {
    let share = format::share(U256::from(signed), U256::from(signed) + U256::from(missed));
    html! { (share.unwrap_or_else(|| "–".into())) }
}

/// `/validators`
pub async fn list(State(site): State<Arc<Site>>) -> Page {
    let body = match site.now().committee {
        Some(committee) => html! {
            p { (sentence(&committee)) }
            p .note { (words::WEIGHT_NOTE) }
            section #record data-live="record" {
                h2 { (words::RECORD) }
                (record(&site, &committee).await?)
                p .note { (words::UPTIME_NOTE) }
                p .note { (words::HEALTH_NOTE) }
            }
            section { h2 { (words::KEYS) } p .note { (words::KEYS_NOTE) } (keys(&committee)) }
        },
        None => html! { p .note { (words::NO_COMMITTEE) } },
    };
    Ok(layout::page(&site, nav::VALIDATORS, html! { h1 { (nav::VALIDATORS) } (body) }))
}

fn sentence(committee: &Validators) -> String {
    let (all, quorum) = (committee.validators.len() as u64, committee.quorum);
    let number = format::number;
    words::committee(&number(all), &committee.engine, &number(quorum), &number(all.saturating_sub(quorum)))
}

async fn record(site: &Site, committee: &Validators) -> Result<Markup, Failure> {
    let records = records(&site.database, days::today(site)).await?;
    let health = Health::read(site).await?;
    let cells = |index: u64| {
        let record = records.get(&index).copied().unwrap_or_default();
        let [today, week, month] = record.signatures;
        vec![
            parts::validator(index),
            html! { (format::number(record.led)) },
            html! { (format::number(record.batches)) },
            html! { (format::number(record.transactions)) },
            html! { (format::number(month.0)) },
            html! { (format::number(month.1)) },
            uptime(today),
            uptime(week),
            uptime(month),
            html! { (health.strip(index)) " " (health::tag(health.verdict(index))) },
        ]
    };
    let columns = [
        words::VALIDATOR,
        words::LED,
        words::BATCHES,
        words::TRANSACTIONS,
        words::SIGNED,
        words::MISSED,
        words::TODAY,
        words::WEEK,
        words::MONTH,
        words::HEALTH,
    ];
    let rows = (0..committee.validators.len() as u64).take(MOST as usize).map(cells);
    Ok(parts::table(words::RECORD, &columns, rows.collect()))
}

fn keys(committee: &Validators) -> Markup {
    let rows = committee.validators.iter().take(MOST as usize).map(|validator| {
        vec![
            parts::validator(validator.index),
            parts::account(validator.fee_address),
            parts::hash_in_short(validator.consensus_key),
            parts::hash_in_short(validator.network_key),
            html! { "1" },
        ]
    });
    let columns = [words::VALIDATOR, words::FEE_ADDRESS, words::CONSENSUS_KEY, words::NETWORK_KEY, words::WEIGHT];
    parts::table(words::KEYS, &columns, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{database::Rows, pages::testing};

    async fn with(days: &[[u64; 7]]) -> testing::Filled {
        let filled = testing::filled().await;
        let columns = &["validator", "day", "led", "batches", "transactions", "signed", "missed"];
        let mut rows = Rows::new("validator_days", columns);
        days.iter().for_each(|row| rows.push(row.map(Into::into)));
        filled.write(rows).await;
        filled
    }

    #[tokio::test]
    async fn a_record_looks_back_one_seven_and_thirty_days() {
        let (today, none) = (100, 0);
        let filled = with(&[
            [0, today, 1, 2, 3, 10, none],
            [0, today - 1, 1, 2, 3, 20, 1],
            [0, today - 6, 1, 2, 3, 40, 2],
            [0, today - 7, 1, 2, 3, 80, 4],
            [0, today - 29, 1, 2, 3, 160, 8],
            [0, today - 30, 1_000, 1_000, 1_000, 1_000, 1_000],
            [2, today, none, none, none, none, 5],
        ])
        .await;
        let records = records(&filled.site.database, today).await.unwrap();
        let first = Record { led: 5, batches: 10, transactions: 15, signatures: [(10, 0), (70, 3), (310, 15)] };
        let silent = Record { signatures: [(0, 5); 3], ..Record::default() };
        assert_eq!(records, BTreeMap::from([(0, first), (2, silent)]));
    }

    #[tokio::test]
    async fn records_are_found_by_day() {
        let plan = testing::filled().await.site.database.plan(RECORDS).await.unwrap().join("\n");
        assert!(plan.contains("validator_days_by_day (day>?)") && !plan.contains("SCAN validator_days"), "{plan}");
    }

    #[test]
    fn uptime_is_the_share_of_certificates() {
        let shown = |signed, missed| uptime((signed, missed)).into_string();
        assert_eq!([shown(3, 1), shown(0, 4), shown(5, 0), shown(0, 0)], ["75.00 %", "0.00 %", "100.00 %", "–"]);
        assert_eq!(shown(99_999, 1), "99.99 %", "one that is missing is not rounded away");
        assert_eq!(shown(u64::MAX, u64::MAX), "50.00 %");
    }
}
