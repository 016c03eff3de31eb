//! Records of validators.

use super::Failure;
use crate::database::{Database, Read, int, sql};
use corniche_api::Validators;
use sqlx::any::AnyRow;
use std::collections::BTreeMap;

/// Length of the record in days, and of its shorter period.
pub const DAYS: u64 = 30;
const WEEK: u64 = 7;

/// Maximum number of validators on a page. The format allows committees of 65,536; realistic ones have some hundreds.
pub const MAX_VALIDATORS: i64 = 1_000;

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

/// Votes of all validators. Returns `None` if each validator has one vote, so that texts count validators.
pub fn weighted_total(committee: &Validators) -> Option<u64> {
    let votes = || committee.validators.iter().map(|validator| validator.votes);
    // The numbers come from the node, so their sum may overflow.
    votes().any(|votes| votes != 1).then(|| votes().fold(0, u64::saturating_add))
}

/// Records up to a day, by position in the committee. Validators without activity have no entry.
pub async fn records(database: &Database, today: u64) -> Result<BTreeMap<u64, Record>, Failure> {
    let since = |days: u64| int((today + 1).saturating_sub(days));
    let query = sql(RECORDS).bind(since(DAYS)).bind(MAX_VALIDATORS * DAYS as i64).bind(since(WEEK)).bind(since(1));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{database::Rows, testing};

    async fn with(days: &[[u64; 7]]) -> testing::TestApp {
        let filled = testing::test_app().await;
        let columns = &["validator", "day", "led", "batches", "transactions", "signed", "missed"];
        let mut rows = Rows::new("validator_days", columns);
        days.iter().for_each(|row| rows.push(row.map(Into::into)));
        filled.write(rows).await;
        filled
    }

    #[tokio::test]
    async fn record_sums_one_seven_and_thirty_days() {
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
        let records = records(&filled.app.database, today).await.unwrap();
        let first = Record { led: 5, batches: 10, transactions: 15, signatures: [(10, 0), (70, 3), (310, 15)] };
        let silent = Record { signatures: [(0, 5); 3], ..Record::default() };
        assert_eq!(records, BTreeMap::from([(0, first), (2, silent)]));
    }

    #[tokio::test]
    async fn equal_votes_have_no_weighted_total() {
        let filled = testing::test_app().await;
        let total = || weighted_total(&filled.app.status().committee.unwrap());
        assert_eq!(total(), None);
        for (votes, expected) in [([2, 2, 2, 1], 7), ([2; 4], 8), ([u64::MAX; 4], u64::MAX)] {
            filled.introduce_votes(&votes, 5);
            assert_eq!(total(), Some(expected), "{votes:?}");
        }
    }

    #[tokio::test]
    async fn records_use_day_index() {
        let plan = testing::test_app().await.app.database.plan(RECORDS).await.unwrap().join("\n");
        assert!(plan.contains("validator_days_by_day (day>?)") && !plan.contains("SCAN validator_days"), "{plan}");
    }
}
