//! Page of the node that the explorer follows, its peers, its chain, and its execution statistics.

mod peers;

use super::{Failure, Page, blocks, home, layout, parts};
use crate::{
    format, links,
    mesh::{Progress, Told},
    site::Site,
    state::Snapshot,
    words::{nav, network as words},
};
use alloy_primitives::U256;
use axum::extract::State;
use corniche_api::Statistics;
use maud::{Markup, html};
use std::sync::Arc;

/// Number of blocks whose latency from order to certificate is measured.
const BLOCKS: i64 = 100;

/// `/network`
pub async fn show(State(site): State<Arc<Site>>) -> Page {
    // All readers share both results, so live pages cause no more requests to the node.
    let (told, round) = tokio::join!(site.mesh.told(), site.mesh.now());
    let committee = site.now().committee;
    let body = html! {
        h1 { (nav::NETWORK) }
        div #network data-live="network" {
            section { h2 { (words::NODE) } p .note { (words::NODE_NOTE) } (node(&site, &told)) }
            section { h2 { (words::PEERS) } p .note { (words::PEERS_NOTE) } (peers::table(committee.as_ref(), round.rows.first())) }
            section { h2 { (words::MATRIX) } (peers::matrix(committee.as_ref(), &round)) }
            section { h2 { (words::CHAIN) } (chain(&site).await?) }
            section {
                h2 { (words::EXECUTION) }
                @match &told.statistics { Some(statistics) => (execution(statistics)), None => p .note { (words::SILENT) } }
            }
        }
    };
    Ok(layout::page(&site, nav::NETWORK, body))
}

fn node(site: &Site, told: &Told) -> Markup {
    let now = site.now();
    let unknown = || html! { span .note { (words::SILENT) } };
    let heads = now.heads.as_ref();
    let block = |number: Option<u64>| number.map_or_else(unknown, parts::block);
    parts::facts(&[
        (words::VERSION, told.version.as_ref().map_or_else(unknown, |version| html! { code { (version) } })),
        (words::PEERS, told.peers.map_or_else(unknown, |peers| html! { (format::number(peers)) })),
        (words::SYNCING, told.syncing.map_or_else(unknown, syncing)),
        (words::EXECUTED, block(heads.map(|heads| heads.executed.number))),
        (words::CERTIFIED, block(heads.map(|heads| heads.certified.number))),
        (words::INDEXED, block(now.indexed.map(|(number, _)| number))),
        (words::TRACED, traced(&now).unwrap_or_else(unknown)),
    ])
}

/// Newest block whose inner calls are stored. Returns `None` until the node has responded.
fn traced(now: &Snapshot) -> Option<Markup> {
    let nobody_asks = || now.chain_id.map(|_| html! { span .note { (words::NOT_TRACED) } });
    now.traced.map(parts::block).or_else(nobody_asks)
}

fn syncing(progress: Option<Progress>) -> Markup {
    match progress {
        None => html! { (words::IN_STEP) },
        Some(progress) => {
            let [current, highest] = [progress.current_block, progress.highest_block].map(|number| format::number(number.to()));
            html! { (words::CATCHING_UP) " " (current) " / " (highest) }
        }
    }
}

async fn chain(site: &Site) -> Result<Markup, Failure> {
    let now = site.now();
    let latencies = home::latencies(&blocks::newest(site, u64::MAX, BLOCKS).await?);
    let mut facts = Vec::new();
    if let Some(chain_id) = now.chain_id {
        facts.push((words::CHAIN_ID, html! { (chain_id) }));
    }
    if let Some(genesis) = now.genesis {
        facts.push((words::GENESIS, parts::block_hash(genesis)));
    }
    facts.push((words::CURRENCY, html! { (now.currency) }));
    if let Some(committee) = &now.committee {
        let (all, quorum) = (committee.validators.len() as u64, committee.quorum);
        facts.push((words::ENGINE, html! { a href=(links::DAG) { (committee.engine) } }));
        facts.push((words::VALIDATORS, html! { a href=(links::VALIDATORS) { (format::number(all)) } }));
        facts.push((words::QUORUM, html! { (words::quorum(&format::number(quorum), &format::number(all))) }));
        facts.push((words::EPOCH, html! { (committee.epoch) }));
        facts.push((words::COMMITTEE, parts::hash(committee.committee_hash)));
    }
    facts.push((words::LATENCY, html! { (latency(&latencies)) }));
    Ok(html! {
        (parts::facts(&facts))
        @if now.development { p .note { (words::DEVELOPMENT) } }
    })
}

/// Median and 90th percentile of sorted latencies in milliseconds.
fn latency(sorted: &[u64]) -> String {
    let at = |per_cent: usize| sorted.get(sorted.len() * per_cent / 100).copied();
    match (at(50), at(90)) {
        (Some(half), Some(most)) => words::latency(&format::duration(half), &format::duration(most), sorted.len()),
        _ => words::NO_LATENCY.into(),
    }
}

/// Execution statistics since the node's start, in sentences.
fn execution(told: &Statistics) -> Markup {
    let share =
        |part: u64, whole: u64| format::share(U256::from(part), U256::from(whole)).unwrap_or_else(|| format::percent(0, 0));
    let number = format::number;
    let (executed, adopted) = (number(told.executed), number(told.adopted));
    let waiting = number(told.pool_transactions);
    let early = share(told.early_without_result, told.early_runs);
    let sentences = [
        words::transactions(&executed, &number(told.skipped), &number(told.refused), &waiting),
        words::adopted(&adopted, &share(told.adopted, told.executed)),
        words::runs(&number(told.runs), &number(told.runs_again), &share(told.runs_again, told.runs)),
        words::early(&number(told.early_runs), &number(told.early_without_result), &early, &number(told.early_passed_over)),
    ];
    html! {
        p { (words::SINCE_START) }
        ul { @for sentence in sentences { li { (sentence) } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing;
    use serde_json::json;

    #[test]
    fn latency_is_told_in_two_numbers() {
        assert_eq!(latency(&[]), words::NO_LATENCY);
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!(latency(&sorted), "51 ms for half of the last 100 certified blocks, at most 91 ms for nine of ten");
        assert_eq!(latency(&[7]), "7 ms for half of the last 1 certified blocks, at most 7 ms for nine of ten");
    }

    #[test]
    fn progress_is_read_as_nodes_say_it() {
        let told = json!({"startingBlock": "0x0", "currentBlock": "0x10", "highestBlock": "0x100"});
        let shown = syncing(serde_json::from_value(told).unwrap()).into_string();
        assert_eq!(shown, format!("{} 16 / 256", words::CATCHING_UP));
    }

    #[tokio::test]
    async fn how_far_inner_calls_are_is_told() {
        let filled = testing::filled().await;
        let page = async || show(State(Arc::clone(&filled.site))).await.unwrap().0.into_string();
        assert!(page().await.contains(words::NOT_TRACED));
        filled.site.standing.traced(Some(990));
        let page = page().await;
        assert!(!page.contains(words::NOT_TRACED) && testing::links(&page, "/block/").contains(&"990".to_owned()), "{page}");
        assert!(traced(&Snapshot::default()).is_none(), "nobody knows yet");
    }

    #[tokio::test]
    async fn a_node_that_is_away_leaves_a_page() {
        let filled = testing::filled().await;
        let page = show(State(Arc::clone(&filled.site))).await.unwrap().0.into_string();
        assert!(page.contains(words::SILENT) && page.contains(words::CHAIN), "{page}");
    }
}
