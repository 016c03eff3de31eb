//! The way of a transaction over the shards, on a sharded chain.

use super::texts::shards as texts;
use crate::{app_state::AppState, format, pages::parts};
use alloy_primitives::B256;
use corniche_api::{Dependency, ShardedTransaction, TransactionWay};
use corniche_types::SHARDED_ENGINE;
use maud::{Markup, html};

/// Maximum number of dependencies on a page.
const MAX_LISTED: usize = 50;

/// Empty on other chains, and if the node does not respond.
pub async fn section(app: &AppState, hash: B256) -> Markup {
    if app.status().committee.is_none_or(|committee| committee.engine != SHARDED_ENGINE) {
        return html! {};
    }
    let answer = app.node.sharded_transaction(hash).await;
    html! {
        @if let Ok(Some(transaction)) = answer {
            section #shards { h2 { (texts::TITLE) } (facts(&transaction)) }
        }
    }
}

fn facts(transaction: &ShardedTransaction) -> Markup {
    let shards: Vec<_> = transaction.shards.iter().map(|shard| format::number(*shard)).collect();
    let way = match transaction.way {
        TransactionWay::Fast => texts::FAST,
        TransactionWay::Logged => texts::LOGGED,
        TransactionWay::Reconciled => texts::RECONCILED,
    };
    let mut facts = vec![
        (texts::SHARDS, html! { (shards.join(", ")) }),
        (texts::WAY, html! { (way) }),
        (texts::TIMESTAMP, html! { (format::number(transaction.timestamp_us)) " " (texts::MICROSECONDS) }),
        (texts::GATEWAY, parts::hash(transaction.gateway)),
        (texts::VALUES, html! { (texts::values(transaction.reads, transaction.writes)) }),
        (texts::DEPENDENCIES, dependencies(&transaction.dependencies)),
    ];
    if let Some(attempts) = transaction.attempts {
        facts.push((texts::ATTEMPTS, html! { (format::number(attempts)) " " span .note { (texts::ATTEMPTS_NOTE) } }));
    }
    if transaction.recovered {
        facts.push((texts::RECOVERED, html! { (texts::RECOVERED_NOTE) }));
    }
    facts.push((texts::ID, parts::hash(transaction.id)));
    parts::facts(&facts)
}

fn dependencies(dependencies: &[Dependency]) -> Markup {
    html! {
        @if dependencies.is_empty() { (texts::NONE) }
        @for dependency in dependencies.iter().take(MAX_LISTED) {
            @match dependency.hash {
                Some(hash) => (parts::transaction(hash)),
                None => (parts::hash_in_short(dependency.id)),
            }
            " "
        }
        @if dependencies.len() > MAX_LISTED { "…" }
    }
}
