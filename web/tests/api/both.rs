//! Whoever asks does not notice which database there is.

use crate::{
    chain::{ALICE, BOB, GOLD, ITEMS, SKIPPED, transaction_hash},
    endpoints::somewhere,
    explorer::{EXPLORER, Explorer},
};
use corniche_web::{api::ENDPOINTS, limits::Rate};

#[test]
fn pages_and_answers_are_the_same_over_both_databases() {
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
    // How far nodes are from each other is measured anew.
    let endpoints = ENDPOINTS.iter().map(somewhere).filter(|path| !path.ends_with("/peers"));
    for path in endpoints.chain(pages) {
        let (lite, large) = (EXPLORER.get(&path), large.get(&path));
        assert_eq!((large.status, large.text), (lite.status, lite.text), "{path}");
    }
}
