//! Page of a validator: its keys, its daily record, and the blocks it led.

pub(crate) mod texts;

use super::{
    Failure, Page, Query, ROWS, blocks, chart,
    cursor::{self, Before},
    days,
    health::{self, Health},
    layout, parts, validators,
};
use crate::{
    app_state::AppState,
    database::{Place, Read, int, sql},
    format, links,
    pages::validators::texts as validators_texts,
    texts::keys,
    views::validators::{DAYS, records},
};
use axum::extract::{Path, State};
use corniche_api::Validators;
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc};

/// Query for a validator's newest days.
pub const RECORD: &str = "SELECT day, led, batches, transactions, signed, missed FROM validator_days WHERE validator = $1 AND day >= $2 ORDER BY \
                          day DESC LIMIT $3";

/// Query for the blocks that a validator led.
pub const LED: &str = "SELECT number, hash, time_ms, leader, transactions, gas_used, gas_limit, seen_ms, certified_ms FROM blocks WHERE leader = $1 \
                       AND number < $2 ORDER BY number DESC LIMIT $3";

/// Counters of a day: blocks led, batches, transactions, signed, missed.
type Counts = [u64; 5];

/// `/validator/{index}`
pub async fn show(State(app): State<Arc<AppState>>, Path(index): Path<String>, Query(from): Query<Before>) -> Page {
    let index: u16 = index.parse().map_err(|_| Failure::BadRequest(texts::BAD_INDEX.into()))?;
    let index = u64::from(index);
    let committee = app.status().committee;
    if let Some(committee) = committee.as_ref().filter(|committee| index >= committee.validators.len() as u64) {
        return Err(Failure::NotFound(texts::missing(index, committee.validators.len())));
    }
    let before = from.before.map(Place).unwrap_or(Place::END);
    let query = sql(LED).bind(int(index)).bind(int(before.block())).bind(ROWS + 1);
    let mut led = query.fetch_all(app.database.readers()).await?;
    let last = cursor::cut(&mut led, ROWS).map(|row| row.number("number")).transpose()?.map(Place::first);
    let here = links::validator(index);
    let title = format!("{} {index}", validators_texts::VALIDATOR);
    let body = html! {
        h1 { (title) }
        @if let Some(committee) = &committee { (facts(committee, index)) } @else { p .note { (validators_texts::NO_COMMITTEE) } }
        section #health data-live="health" { h2 { (texts::SIGNATURES) } (health(&app, index).await?) }
        section { h2 { (validators_texts::RECORD) } (record(&app, index).await?) }
        section #blocks {
            h2 { (texts::BLOCKS_LED) }
            (blocks::table(&app, &led)?)
            (parts::older(&here, last, from.before.is_none()))
        }
    };
    Ok(layout::page(&app, &title, body))
}

fn facts(committee: &Validators, index: u64) -> Markup {
    let Some(validator) = committee.validators.get(index as usize) else { return html! {} };
    let votes = format::number(validator.votes);
    html! {
        section {
            h2 { (validators_texts::KEYS) }
            (parts::facts(&[
                (validators_texts::FEE_ADDRESS, parts::account_in_full(validator.fee_address)),
                (validators_texts::WEIGHT, html! { (votes) span .note { " – " (validators::weight_note(committee)) } }),
                (keys::CONSENSUS_KEY, parts::hash(validator.consensus_key)),
                (keys::BLS_KEY, parts::bytes(&validator.bls_key)),
                (keys::NETWORK_KEY, parts::hash(validator.network_key)),
            ]))
            p .note { (validators_texts::KEYS_NOTE) }
        }
    }
}

async fn health(app: &AppState, index: u64) -> Result<Markup, Failure> {
    let health = Health::read(app).await?;
    let record = records(&app.database, app.today()).await?.get(&index).copied().unwrap_or_default();
    let [today, week, month] = record.signatures;
    Ok(html! {
        (parts::facts(&[
            (validators_texts::HEALTH, html! { (health.strip(index)) " " (health::tag(health.verdict(index))) }),
            (validators_texts::TODAY, validators::uptime(today)),
            (validators_texts::WEEK, validators::uptime(week)),
            (validators_texts::MONTH, validators::uptime(month)),
        ]))
        p .note { (validators_texts::UPTIME_NOTE) }
    })
}

async fn record(app: &AppState, index: u64) -> Result<Markup, Failure> {
    let today = app.today();
    let window = (today + 1).saturating_sub(DAYS)..=today;
    let query = sql(RECORD).bind(int(index)).bind(int(*window.start())).bind(int(DAYS));
    let rows = query.fetch_all(app.database.readers()).await?;
    let day = |row: &AnyRow| -> Result<(u64, Counts), Failure> {
        let counts = ["led", "batches", "transactions", "signed", "missed"];
        let mut found = Counts::default();
        for (count, column) in found.iter_mut().zip(counts) {
            *count = row.number(column)?;
        }
        Ok((row.number("day")?, found))
    };
    let days: BTreeMap<u64, Counts> = rows.iter().map(day).collect::<Result<_, _>>()?;
    let row = |(day, counts): (&u64, &Counts)| {
        let mut cells = vec![html! { (format::day(*day)) }];
        cells.extend(counts.iter().map(|count| html! { (format::number(*count)) }));
        cells.push(validators::uptime((counts[3], counts[4])));
        cells
    };
    let columns = [
        texts::DAY,
        validators_texts::LED,
        validators_texts::BATCHES,
        validators_texts::TRANSACTIONS,
        validators_texts::SIGNED,
        validators_texts::MISSED,
        texts::UPTIME,
    ];
    Ok(html! {
        div .columns {
            (bar_chart(validators_texts::LED, 0, &days, &window))
            (bar_chart(validators_texts::MISSED, 4, &days, &window))
        }
        (parts::table(validators_texts::RECORD, &columns, days.iter().rev().map(row).collect()))
    })
}

fn bar_chart(caption: &str, at: usize, days: &BTreeMap<u64, Counts>, window: &RangeInclusive<u64>) -> Markup {
    let values: Vec<u64> = days::fill(window.clone(), days, |_| Counts::default()).iter().map(|counts| counts[at]).collect();
    let label = |bar: usize| format!("{}: {}", format::day(window.start() + bar as u64), format::number(values[bar]));
    chart::bars(caption, &values, label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{database::Rows, pages::testing};

    #[tokio::test]
    async fn record_has_a_row_for_each_day() {
        let filled = testing::test_app().await;
        let columns = &["validator", "day", "led", "batches", "transactions", "signed", "missed"];
        let mut rows = Rows::new("validator_days", columns);
        for (validator, day, missed) in [(1u64, 100u64, 1u64), (1, 71, 2), (1, 70, 3), (2, 100, 4)] {
            rows.push([validator, day, 0, 0, 0, 3, missed].map(Into::into));
        }
        filled.write(rows).await;
        let ask = |index: &str| show(State(Arc::clone(&filled.app)), Path(index.to_owned()), Query(Before { before: None }));
        let page = ask("1").await.unwrap().0.into_string();
        assert!(page.contains("<title>1970-04-11: 1</title>") && page.contains("<title>1970-03-13: 2</title>"), "{page}");
        assert!(!page.contains("1970-03-12"), "30 days and no more");
        assert!(page.contains(">75.00 %<") && page.contains(">60.00 %<"), "{page}");
        assert!(matches!(ask("4").await, Err(Failure::NotFound(_))));
        assert!(matches!(ask("-1").await, Err(Failure::BadRequest(_))));
    }

    #[tokio::test]
    async fn votes_come_from_the_committee() {
        let filled = testing::test_app().await;
        let ask = async |index: &str| {
            let query = Query(Before { before: None });
            show(State(Arc::clone(&filled.app)), Path(index.to_owned()), query).await.unwrap().0.into_string()
        };
        let page = ask("3").await;
        assert!(page.contains("<dd>1<span") && page.contains(validators_texts::WEIGHT_NOTE), "{page}");
        filled.introduce_votes(&[2, 2, 2, 1], 5);
        for (index, votes) in [("2", "<dd>2<span"), ("3", "<dd>1<span")] {
            let page = ask(index).await;
            assert!(page.contains(votes) && page.contains(validators_texts::SEVERAL_VOTES_NOTE), "{page}");
        }
    }

    #[tokio::test]
    async fn lists_use_indexes() {
        let filled = testing::test_app().await;
        for (query, index) in [(RECORD, "(validator=? AND day>?)"), (LED, "blocks_by_leader (leader=? AND number<?)")] {
            let plan = filled.app.database.plan(query).await.unwrap().join("\n");
            assert!(plan.contains(index) && !plan.contains("SCAN") && !plan.contains("TEMP"), "{query}\n{plan}");
        }
    }
}
