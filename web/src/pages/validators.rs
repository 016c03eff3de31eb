//! Page of the committee: its validators and their records.

pub(crate) mod texts;

use super::{Failure, Page, health, health::Health, layout, parts};
use crate::{
    app_state::AppState,
    format,
    texts::{keys, nav},
    views::validators::{MAX_VALIDATORS, records, weighted_total},
};
use alloy_primitives::U256;
use axum::extract::State;
use corniche_api::Validators;
use maud::{Markup, html};
use std::sync::Arc;

/// Share of certificates that a validator signed; a dash if there were no certificates.
pub fn uptime((signed, missed): (u64, u64)) -> Markup {
    let share = format::share(U256::from(signed), U256::from(signed) + U256::from(missed));
    html! { (share.unwrap_or_else(|| "–".into())) }
}

/// `/validators`
pub async fn list(State(app): State<Arc<AppState>>) -> Page {
    let body = match app.status().committee {
        Some(committee) => html! {
            p { (sentence(&committee)) " " (texts::tolerates(committee.fault_model.tolerates())) }
            p .note { (weight_note(&committee)) }
            section #record data-live="record" {
                h2 { (texts::RECORD) }
                (record(&app, &committee).await?)
                p .note { (texts::UPTIME_NOTE) }
                p .note { (texts::HEALTH_NOTE) }
            }
            section { h2 { (texts::KEYS) } p .note { (texts::KEYS_NOTE) } (keys(&committee)) }
            // Without the node the rest of the page is still useful.
            @if let Ok(Some(point)) = app.node.trust_point().await { (trust_point(&point.to_string())) }
        },
        None => html! { p .note { (texts::NO_COMMITTEE) } },
    };
    Ok(layout::page(&app, nav::VALIDATORS, html! { h1 { (nav::VALIDATORS) } (body) }))
}

fn sentence(committee: &Validators) -> String {
    let (all, quorum) = (committee.validators.len() as u64, committee.quorum);
    let number = format::number;
    let (validators, engine, needed) = (number(all), &committee.engine, number(quorum));
    let spare = |all: u64| number(all.saturating_sub(quorum));
    match weighted_total(committee) {
        None => texts::committee(&validators, engine, &needed, &spare(all)),
        Some(votes) => texts::weighted_committee(&validators, &number(votes), engine, &needed, &spare(votes)),
    }
}

/// Source of the votes.
pub fn weight_note(committee: &Validators) -> &'static str {
    match weighted_total(committee) {
        None => texts::WEIGHT_NOTE,
        Some(_) => texts::SEVERAL_VOTES_NOTE,
    }
}

async fn record(app: &AppState, committee: &Validators) -> Result<Markup, Failure> {
    let records = records(&app.database, app.today()).await?;
    let health = Health::read(app).await?;
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
        texts::VALIDATOR,
        texts::LED,
        texts::BATCHES,
        texts::TRANSACTIONS,
        texts::SIGNED,
        texts::MISSED,
        texts::TODAY,
        texts::WEEK,
        texts::MONTH,
        texts::HEALTH,
    ];
    let rows = (0..committee.validators.len() as u64).take(MAX_VALIDATORS as usize).map(cells);
    Ok(parts::table(texts::RECORD, &columns, rows.collect()))
}

fn trust_point(point: &str) -> Markup {
    html! {
        section #trust {
            h2 { (texts::TRUST_POINT) }
            p .note { (texts::TRUST_POINT_NOTE) }
            p { (parts::text(point)) }
        }
    }
}

fn keys(committee: &Validators) -> Markup {
    let rows = committee.validators.iter().take(MAX_VALIDATORS as usize).map(|validator| {
        vec![
            parts::validator(validator.index),
            parts::account(validator.fee_address),
            parts::hash_in_short(validator.consensus_key),
            parts::hash_in_short(validator.network_key),
            html! { (format::number(validator.votes)) },
        ]
    });
    let columns = [texts::VALIDATOR, texts::FEE_ADDRESS, keys::CONSENSUS_KEY, keys::NETWORK_KEY, texts::WEIGHT];
    parts::table(texts::KEYS, &columns, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing;

    #[tokio::test]
    async fn page_counts_votes() {
        let filled = testing::test_app().await;
        let page = async || list(State(Arc::clone(&filled.app))).await.unwrap().0.into_string();
        let equal = page().await;
        for says in ["4 validators order transactions", "needs 3 signatures, so 1 of the validators may", texts::WEIGHT_NOTE] {
            assert!(equal.contains(says), "{says} is not in {equal}");
        }
        filled.introduce_votes(&[20, 20, 20, 1_001], 708);
        let weighted = page().await;
        for says in [
            "4 validators with 1,061 votes order transactions with mahi-mahi",
            "needs 708 of the votes, so validators with 353 of the votes may be offline.",
            texts::SEVERAL_VOTES_NOTE,
            ">1,001</td>",
        ] {
            assert!(weighted.contains(says), "{says} is not in {weighted}");
        }
        assert!(!weighted.contains(texts::WEIGHT_NOTE), "{weighted}");
    }

    #[test]
    fn uptime_is_the_share_of_certificates() {
        let shown = |signed, missed| uptime((signed, missed)).into_string();
        assert_eq!([shown(3, 1), shown(0, 4), shown(5, 0), shown(0, 0)], ["75.00 %", "0.00 %", "100.00 %", "–"]);
        assert_eq!(shown(99_999, 1), "99.99 %", "one that is missing is not rounded away");
        assert_eq!(shown(u64::MAX, u64::MAX), "50.00 %");
    }
}
