//! Daily statistics of the chain.

pub(crate) mod texts;

use super::{Failure, Page, Query, chart, days, days::Until, layout, parts};
use crate::{
    app_state::AppState,
    database::{Read, int, sql},
    format, links,
    texts::nav,
};
use axum::extract::State;
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc};

/// Query for the newest days up to a day.
pub const DAYS: &str = "SELECT day, blocks, transactions, failed, skipped, gas_used, transfers, contracts, new_accounts FROM days WHERE day <= $1 \
                        ORDER BY day DESC LIMIT $2";

/// Counters: column of the database, and label.
const COUNTED: [(&str, &str); 8] = [
    ("blocks", texts::BLOCKS),
    ("transactions", texts::TRANSACTIONS),
    ("failed", texts::FAILED),
    ("skipped", texts::SKIPPED),
    ("gas_used", texts::GAS),
    ("transfers", texts::TRANSFERS),
    ("contracts", texts::CONTRACTS),
    ("new_accounts", texts::NEW_ACCOUNTS),
];

type Counts = [u64; COUNTED.len()];

/// `/statistics`
pub async fn show(State(app): State<Arc<AppState>>, Query(until): Query<Until>) -> Page {
    let last = until.day(&app)?;
    // Reads one more row than the page shows, to know whether earlier days exist.
    let rows = sql(DAYS).bind(int(last)).bind(int(days::MAX_DAYS + 1)).fetch_all(app.database.readers()).await?;
    let found: BTreeMap<u64, Counts> = rows.iter().map(counts).collect::<Result<_, _>>()?;
    let oldest = found.keys().next().copied();
    let window = days::window(last, oldest);
    let body = html! {
        h1 { (nav::STATISTICS) }
        p .note { (texts::NOTE) }
        div #statistics data-live=[until.is_newest().then_some("statistics")] {
            (days::pages(links::STATISTICS, &until, &window, oldest))
            div .columns { @for (at, (_, caption)) in COUNTED.iter().enumerate() { (bar_chart(caption, at, &found, &window)) } }
            section {
                h2 { (texts::TABLE) }
                (table(&found, &window))
            }
        }
    };
    Ok(layout::page(&app, nav::STATISTICS, body))
}

fn counts(row: &AnyRow) -> Result<(u64, Counts), Failure> {
    let mut counts = Counts::default();
    for (count, (column, _)) in counts.iter_mut().zip(COUNTED) {
        *count = row.number(column)?;
    }
    Ok((row.number("day")?, counts))
}

fn bar_chart(caption: &str, at: usize, found: &BTreeMap<u64, Counts>, window: &RangeInclusive<u64>) -> Markup {
    let values: Vec<u64> = days::fill(window.clone(), found, |_| Counts::default()).iter().map(|day| day[at]).collect();
    let label = |bar: usize| format!("{}: {}", format::day(window.start() + bar as u64), format::number(values[bar]));
    chart::bars(caption, &values, label)
}

/// Days without a block have no row.
fn table(found: &BTreeMap<u64, Counts>, window: &RangeInclusive<u64>) -> Markup {
    let mut columns = vec![texts::DAY];
    columns.extend(COUNTED.iter().map(|(_, name)| *name));
    let row = |(day, counts): (&u64, &Counts)| {
        let mut cells = vec![html! { (format::day(*day)) }];
        cells.extend(counts.iter().map(|count| html! { (format::number(*count)) }));
        cells
    };
    parts::table(texts::TABLE, &columns, found.range(window.clone()).rev().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{database::Rows, pages::testing};

    #[tokio::test]
    async fn days_are_charted_and_paginated() {
        let filled = testing::test_app().await;
        let columns =
            &["day", "blocks", "transactions", "failed", "skipped", "gas_used", "transfers", "contracts", "new_accounts"];
        let mut rows = Rows::new("days", columns);
        for day in [5u64, 98, 100] {
            rows.push([day, 1, 2, 3, 4, 5, 6, 7, day * 1_000].map(Into::into));
        }
        filled.write(rows).await;
        let ask = |until: Option<&str>| show(State(Arc::clone(&filled.app)), Query(Until::of(until)));
        let page = ask(None).await.unwrap().0.into_string();
        assert!(page.contains("<title>1970-04-11: 100,000</title>"), "{page}");
        assert_eq!(page.matches("<tr>").count(), 3, "two days and the names of the columns");
        assert_eq!(testing::links(&page, "/statistics?until="), ["1970-01-11"]);
        let page = ask(Some("1970-01-11")).await.unwrap().0.into_string();
        assert!(page.contains("<title>1970-01-06: 5,000</title>") && !page.contains("100,000"), "{page}");
        assert!(testing::links(&page, "/statistics?until=").is_empty(), "nothing is before that");
        assert!(matches!(ask(Some("yesterday")).await, Err(Failure::BadRequest(_))));
    }
}
