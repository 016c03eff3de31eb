//! Frame of every page: head, navigation, banner and footer.

use crate::{
    app_state::AppState,
    format,
    indexer_status::Snapshot,
    links,
    texts::{self, failure, foot, nav, unit},
    views::validators::weighted_total,
};
use corniche_api::Validators;
use maud::{DOCTYPE, Markup, html};

const PAGES: [(&str, &str); 8] = [
    (links::BLOCKS, nav::BLOCKS),
    (links::TRANSACTIONS, nav::TRANSACTIONS),
    (links::TOKENS, nav::TOKENS),
    (links::VALIDATORS, nav::VALIDATORS),
    (links::DAG, nav::DAG),
    (links::STATISTICS, nav::STATISTICS),
    (links::NETWORK, nav::NETWORK),
    (links::API, nav::API),
];

/// A page of the explorer.
pub fn page(app: &AppState, title: &str, body: Markup) -> super::Html {
    super::Html(frame(title, Some(&app.indexer_status.snapshot()), body))
}

/// A page without data of the chain.
pub fn bare(title: &str, body: Markup) -> Markup {
    frame(title, None, body)
}

fn frame(title: &str, indexer_status: Option<&Snapshot>, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang=(texts::LANGUAGE) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · " (texts::EXPLORER) }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href=(links::STYLE);
                script src=(links::SCRIPT) defer {}
            }
            body data-currency=[indexer_status.map(|indexer_status| &indexer_status.currency)] {
                a .skip href="#content" { (nav::SKIP) }
                header {
                    a .brand href=(links::HOME) { (texts::NAME) }
                    nav aria-label=(texts::EXPLORER) {
                        @for (link, name) in PAGES { a href=(link) { (name) } }
                    }
                    form .search role="search" action=(links::SEARCH) {
                        label .hidden for="q" { (nav::SEARCH) }
                        input #q type="search" name="q" placeholder=(nav::SEARCH_HINT) autocomplete="off" spellcheck="false" maxlength="200";
                        button { (nav::SEARCH) }
                    }
                    // These controls need the script, so the script shows them.
                    div .tools hidden {
                        label { span .hidden { (nav::UNIT) } select #unit { option value="18" { (currency(indexer_status)) } option value="9" { (unit::GWEI) } option value="0" { (unit::WEI) } } }
                        button #theme type="button" aria-label=(nav::THEME) title=(nav::THEME) { "◐" }
                    }
                }
                @if let Some(indexer_status) = indexer_status { (banner(indexer_status)) }
                main #content tabindex="-1" { (body) }
                footer {
                    @if let Some(indexer_status) = indexer_status { (about(indexer_status)) }
                }
            }
        }
    }
}

fn currency(indexer_status: Option<&Snapshot>) -> &str {
    indexer_status.map_or(unit::COIN, |indexer_status| &indexer_status.currency)
}

/// Banner about problems: the indexer stopped, the node does not respond, or the explorer catches up.
fn banner(indexer_status: &Snapshot) -> Markup {
    let head = indexer_status.heads.as_ref().map(|heads| heads.executed.number);
    let indexed = indexer_status.indexed.map(|(number, _)| number);
    html! {
        @if let Some(first) = indexer_status.first { p .banner role="note" { (failure::pruned_below(&format::number(first))) } }
        @if let Some(halt) = &indexer_status.halt {
            p .banner role="alert" { strong { (failure::HALTED) ":" } " " (halt.to_string()) }
        } @else if indexer_status.last_error.is_some() {
            // The reason goes to the log only: it contains the node's URL, which may contain a password.
            p .banner role="status" title=(failure::WAITS_HINT) { (failure::WAITS) }
        } @else if let (Some(head), Some(indexed)) = (head, indexed) {
            @if head > indexed + 50 {
                p .banner role="status" { (failure::BEHIND) " " (format::number(indexed)) " / " (format::number(head)) }
            }
        }
    }
}

fn members(committee: &Validators) -> String {
    let (engine, validators) = (&committee.engine, committee.validators.len());
    match weighted_total(committee) {
        None => foot::committee(engine, validators, committee.quorum),
        Some(votes) => foot::weighted_committee(engine, validators, committee.quorum, votes),
    }
}

fn about(indexer_status: &Snapshot) -> Markup {
    html! {
        @if let Some(chain_id) = indexer_status.chain_id { span { (foot::CHAIN_ID) " " (chain_id) } }
        @if let Some(committee) = &indexer_status.committee { span { (members(committee)) } }
        @if let Some((number, _)) = indexer_status.indexed { span { (foot::BLOCK) " " span data-live="block" { (format::number(number)) } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing;

    #[tokio::test]
    async fn missing_blocks_are_announced() {
        let filled = testing::test_app().await;
        let shown = || page(&filled.app, "Title", html! {}).0.into_string();
        assert!(!shown().contains("not available on this node"));
        filled.app.indexer_status.set_first(Some(1_000));
        assert!(shown().contains("Blocks below 1,000 are not available on this node."), "{}", shown());
    }

    #[tokio::test]
    async fn node_error_is_not_shown() {
        let filled = testing::test_app().await;
        filled.app.indexer_status.set_error("http://me:secret@10.0.0.1:8545: connection refused".into());
        let shown = page(&filled.app, "Title", html! {}).0.into_string();
        assert!(shown.contains(failure::WAITS) && !shown.contains("secret") && !shown.contains("10.0.0.1"), "{shown}");
    }
}
