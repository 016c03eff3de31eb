//! The explorer behaves identically on both databases.

use crate::{
    chain::{ALICE, ART, BOB, GOLD, ITEMS, SKIPPED, transaction_hash},
    endpoints::somewhere,
    explorer::{EXPLORER, Explorer},
};
use corniche_web::{api::ENDPOINTS, limits::Rate};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of visited pages of one kind: more than there are transactions, but fewer than DAG pictures with a selection.
const MAX_PER_KIND: usize = 150;

/// This page shows a newly measured round trip on every visit.
const MEASURED: &str = "/network";

#[test]
fn responses_are_equal_on_both_databases() {
    let large = Explorer::on_postgres(Rate { burst: 1e9, per_second: 1e9 });
    let (paid, undone) = (transaction_hash(2, 0), transaction_hash(2, 3));
    let pages = [
        "/".into(),
        "/blocks".into(),
        "/block/2".into(),
        "/txs".into(),
        format!("/tx/{paid}"),
        format!("/tx/{undone}"),
        format!("/tx/{SKIPPED}"),
        format!("/address/{ALICE}"),
        format!("/address/{ALICE}/transactions"),
        format!("/address/{ALICE}/transfers"),
        format!("/address/{ALICE}/tokens"),
        format!("/address/{ALICE}/approvals"),
        format!("/address/{BOB}/calls"),
        format!("/address/{GOLD}/events"),
        format!("/address/{GOLD}/code"),
        "/tokens".into(),
        format!("/token/{GOLD}"),
        format!("/token/{GOLD}/holders"),
        format!("/token/{GOLD}/days"),
        format!("/token/{ITEMS}"),
        "/validators".into(),
        "/validator/1".into(),
        "/statistics".into(),
        "/dag".into(),
        "/search?q=gold".into(),
        "/search?q=transfer".into(),
        "/search?q=nothing".into(),
        format!("/api?module=account&action=txlist&address={ALICE}&sort=desc"),
        format!("/api?module=account&action=txlistinternal&address={BOB}"),
        format!("/api?module=account&action=tokentx&contractaddress={GOLD}"),
        format!("/api?module=contract&action=getcontractcreation&contractaddresses={GOLD}"),
        "/api?module=block&action=getblocknobytime&timestamp=1700000002&closest=before".into(),
    ];
    // Round trips to nodes are measured anew.
    let endpoints = ENDPOINTS.iter().map(somewhere).filter(|path| !path.ends_with("/peers"));
    for path in endpoints.chain(pages) {
        let (lite, large) = (EXPLORER.get(&path), large.get(&path));
        assert_eq!((large.status, large.text), (lite.status, lite.text), "{path}");
    }
}

#[test]
fn pages_are_equal_on_both_databases() {
    let large = Explorer::on_postgres(Rate { burst: 1e9, per_second: 1e9 });
    let mut left = VecDeque::from([("/".to_owned(), "the beginning".to_owned())]);
    let (mut seen, mut kinds) = (BTreeSet::from(["/".to_owned()]), BTreeMap::<String, usize>::new());
    let mut wrong = Vec::new();
    while let Some((page, from)) = left.pop_front() {
        let [lite, other] = [&*EXPLORER, &large].map(|explorer| {
            let answer = explorer.get(&page);
            // Each explorer has its own node.
            (answer.status, answer.text.replace(explorer.app.node.url(), "NODE"))
        });
        if lite.0 >= 400 {
            wrong.push(format!("{page}: {}, linked from {from}", lite.0));
        }
        if lite != other && page != MEASURED {
            wrong.push(format!("{page}: {} on SQLite and {} on PostgreSQL, or another text", lite.0, other.0));
        }
        for link in links(&lite.1) {
            let of_its_kind = kinds.entry(kind(&link)).or_default();
            if *of_its_kind < MAX_PER_KIND && seen.insert(link.clone()) {
                *of_its_kind += 1;
                left.push_back((link, page.clone()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} pages:\n{}", wrong.len(), seen.len(), wrong.join("\n"));
    // A log without data, an input without bytes, and a block without parent.
    for page in [
        format!("/tx/{}", transaction_hash(1, 1)),
        format!("/address/{ART}/events"),
        format!("/tx/{}", transaction_hash(3, 0)),
        "/block/0".to_owned(),
    ] {
        assert!(seen.contains(&page), "nothing leads to {page}");
    }
}

/// Returns the links of a page to this explorer, without fragments.
fn links(page: &str) -> Vec<String> {
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let here = links.filter(|link| link.starts_with('/') && !link.starts_with("//"));
    here.map(|link| link.split('#').next().unwrap_or_default().replace("&amp;", "&")).collect()
}

/// Returns a link without its numbers, hashes and cursors.
fn kind(link: &str) -> String {
    let parts = link.split(['/', '?', '&', '=']);
    parts
        .map(|part| if part.contains(|letter: char| letter.is_ascii_digit()) { "…" } else { part })
        .collect::<Vec<_>>()
        .join("/")
}
