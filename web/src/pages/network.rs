//! Page of the node that the explorer follows, its peers, its chain, its execution statistics, and stake.

mod peers;
mod shards;
mod staking;
pub(crate) mod texts;

use super::{Failure, Page, blocks, home, layout, parts};
use crate::{
    app_state::AppState,
    format,
    indexer_status::Snapshot,
    links,
    peer_graph::{NodeInfo, Progress},
    texts::nav,
    views::validators::weighted_total,
};
use alloy_primitives::U256;
use axum::extract::State;
use corniche_api::{Shards, Statistics};
use maud::{Markup, html};
use std::sync::Arc;

/// Number of blocks for the statistics of the time from ordering to certification.
const BLOCKS: i64 = 100;

/// `/network`
pub async fn show(State(app): State<Arc<AppState>>) -> Page {
    // All readers share both results, so live pages cause no more requests to the node.
    let (info, poll) = tokio::join!(app.peer_graph.node_info(), app.peer_graph.now());
    let committee = app.status().committee;
    let body = html! {
        h1 { (nav::NETWORK) }
        div #network data-live="network" {
            section { h2 { (texts::NODE) } p .note { (texts::NODE_NOTE) } (node(&app, &info)) }
            section { h2 { (texts::PEERS) } p .note { (texts::PEERS_NOTE) } (peers::table(committee.as_ref(), poll.rows.first())) }
            section { h2 { (texts::MATRIX) } (peers::matrix(committee.as_ref(), &poll)) }
            section { h2 { (texts::CHAIN) } (chain(&app, info.shards.as_ref()).await?) }
            section {
                h2 { (texts::EXECUTION) }
                @match &info.statistics { Some(statistics) => (execution(statistics)), None => p .note { (texts::OFFLINE) } }
            }
        }
        @if let Some(shards) = &info.shards { (shards::section(shards)) }
        @if let Some(staking) = &info.staking { (staking::section(staking, &app.status().currency)) }
    };
    Ok(layout::page(&app, nav::NETWORK, body))
}

fn node(app: &AppState, info: &NodeInfo) -> Markup {
    let now = app.status();
    let unknown = || html! { span .note { (texts::OFFLINE) } };
    let heads = now.heads.as_ref();
    let block = |number: Option<u64>| number.map_or_else(unknown, parts::block);
    parts::facts(&[
        (texts::VERSION, info.version.as_ref().map_or_else(unknown, |version| html! { code { (version) } })),
        (texts::PEERS, info.peers.map_or_else(unknown, |peers| html! { (format::number(peers)) })),
        (texts::SYNCING, info.syncing.map_or_else(unknown, syncing)),
        (texts::EXECUTED, block(heads.map(|heads| heads.executed.number))),
        (texts::CERTIFIED, block(heads.map(|heads| heads.certified.number))),
        (texts::INDEXED, block(now.indexed.map(|(number, _)| number))),
        (texts::TRACED, traced(&now).unwrap_or_else(unknown)),
    ])
}

/// Newest block whose inner calls are stored. Returns `None` until the node has responded.
fn traced(now: &Snapshot) -> Option<Markup> {
    let not_traced = || now.chain_id.map(|_| html! { span .note { (texts::NOT_TRACED) } });
    now.traced.map(parts::block).or_else(not_traced)
}

fn syncing(progress: Option<Progress>) -> Markup {
    match progress {
        None => html! { (texts::SYNCED) },
        Some(progress) => {
            let [current, highest] = [progress.current_block, progress.highest_block].map(|number| format::number(number.to()));
            html! { (texts::CATCHING_UP) " " (current) " / " (highest) }
        }
    }
}

async fn chain(app: &AppState, of_shards: Option<&Shards>) -> Result<Markup, Failure> {
    let now = app.status();
    let latencies = home::latencies(&blocks::newest(app, u64::MAX, BLOCKS).await?);
    let mut facts = Vec::new();
    if let Some(chain_id) = now.chain_id {
        facts.push((texts::CHAIN_ID, html! { (chain_id) }));
    }
    if let Some(genesis) = now.genesis {
        facts.push((texts::GENESIS, parts::block_hash(genesis)));
    }
    facts.push((texts::CURRENCY, html! { (now.currency) }));
    if let Some(committee) = &now.committee {
        let (all, votes) = (format::number(committee.validators.len() as u64), weighted_total(committee));
        let needed = format::number(committee.quorum);
        let quorum = match votes {
            None => texts::quorum(&needed, &all),
            Some(votes) => texts::quorum_of_votes(&needed, &format::number(votes)),
        };
        facts.push((texts::ENGINE, html! { a href=(links::DAG) { (committee.engine) } }));
        let tolerates = of_shards
            .map_or_else(|| committee.fault_model.tolerates().to_string(), |shards| texts::shards::tolerates(shards.faulty));
        facts.push((texts::TOLERATES, html! { (tolerates) }));
        facts.push((texts::VALIDATORS, html! { a href=(links::VALIDATORS) { (all) } }));
        facts.push((texts::QUORUM, html! { (quorum) }));
        facts.push((texts::SIGNATURES, html! { (texts::signatures(committee.signatures, votes.is_some())) }));
        facts.push((texts::EPOCH, html! { (committee.epoch) }));
        facts.push((texts::COMMITTEE, parts::hash(committee.committee_hash)));
    }
    facts.push((texts::LATENCY, html! { (latency(&latencies)) }));
    Ok(html! {
        (parts::facts(&facts))
        @if now.development { p .note { (texts::DEVELOPMENT) } }
    })
}

/// Median and 90th percentile of sorted latencies in milliseconds.
fn latency(sorted: &[u64]) -> String {
    let at = |per_cent: usize| sorted.get(sorted.len() * per_cent / 100).copied();
    match (at(50), at(90)) {
        (Some(median), Some(p90)) => texts::latency(&format::duration(median), &format::duration(p90), sorted.len()),
        _ => texts::NO_LATENCY.into(),
    }
}

/// Execution statistics since the node's start, in sentences.
fn execution(info: &Statistics) -> Markup {
    let share =
        |part: u64, whole: u64| format::share(U256::from(part), U256::from(whole)).unwrap_or_else(|| format::percent(0, 0));
    let number = format::number;
    let (executed, adopted) = (number(info.executed), number(info.adopted));
    let waiting = number(info.pool_transactions);
    let early = share(info.early_without_result, info.early_runs);
    let sentences = [
        texts::transactions(&executed, &number(info.skipped), &number(info.refused), &waiting),
        texts::adopted(&adopted, &share(info.adopted, info.executed)),
        texts::runs(&number(info.runs), &number(info.runs_again), &share(info.runs_again, info.runs)),
        texts::early(&number(info.early_runs), &number(info.early_without_result), &early, &number(info.early_passed_over)),
    ];
    html! {
        p { (texts::SINCE_START) }
        ul { @for sentence in sentences { li { (sentence) } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing;
    use serde_json::json;

    #[test]
    fn latency_has_median_and_p90() {
        assert_eq!(latency(&[]), texts::NO_LATENCY);
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!(latency(&sorted), "median 51 ms, 90th percentile 91 ms (last 100 certified blocks)");
        assert_eq!(latency(&[7]), "median 7 ms, 90th percentile 7 ms (last 1 certified blocks)");
    }

    #[test]
    fn sync_progress_is_decoded() {
        let info = json!({"startingBlock": "0x0", "currentBlock": "0x10", "highestBlock": "0x100"});
        let shown = syncing(serde_json::from_value(info).unwrap()).into_string();
        assert_eq!(shown, format!("{} 16 / 256", texts::CATCHING_UP));
    }

    #[tokio::test]
    async fn traced_block_is_shown() {
        let filled = testing::test_app().await;
        let page = async || show(State(Arc::clone(&filled.app))).await.unwrap().0.into_string();
        assert!(page().await.contains(texts::NOT_TRACED));
        filled.app.indexer_status.set_traced(Some(990));
        let page = page().await;
        assert!(!page.contains(texts::NOT_TRACED) && testing::links(&page, "/block/").contains(&"990".to_owned()), "{page}");
        assert!(traced(&Snapshot::default()).is_none(), "the node has not responded yet");
    }

    #[tokio::test]
    async fn quorum_is_in_votes() {
        let filled = testing::test_app().await;
        let page = async || show(State(Arc::clone(&filled.app))).await.unwrap().0.into_string();
        let equal = page().await;
        assert!(
            equal.contains("<dd>3 of 4 signatures</dd>") && equal.contains("mahi-mahi, 4 validators, quorum 3<"),
            "{equal}"
        );
        filled.introduce_votes(&[2, 2, 2, 1], 5);
        let page = page().await;
        assert!(page.contains("<dd>5 of 7 votes</dd>"), "{page}");
        assert!(page.contains("mahi-mahi, 4 validators, quorum 5 of 7 votes<"), "the footer: {page}");
    }

    #[tokio::test]
    async fn page_renders_without_node() {
        let filled = testing::test_app().await;
        let page = show(State(Arc::clone(&filled.app))).await.unwrap().0.into_string();
        assert!(page.contains(texts::OFFLINE) && page.contains(texts::CHAIN), "{page}");
    }
}
