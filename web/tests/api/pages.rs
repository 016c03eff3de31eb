//! Tests of pages that involve more than one page.

use crate::{
    chain::{self, ALICE, ART, BOB, GOLD, SKIPPED, Step, moved, transaction_hash},
    explorer::{EXPLORER, Explorer, PENDING},
};
use alloy_primitives::{Address, U256};
use axum::{Json, Router, http::StatusCode, routing::post};
use corniche_api::{SkippedTransaction, Validators};
use corniche_types::FaultModel;
use corniche_web::{
    indexer::{
        dag::{AUTOBAHN, MIR, NEOBFT},
        digest::digest,
        write,
    },
    limits::Rate,
};
use serde_json::{Value, json};

/// Returns the links of a page, decoded as in a browser, without fragments.
fn links(page: &str) -> Vec<String> {
    let link = |rest: &str| rest.split(['"', '#']).next().unwrap().replace("&amp;", "&");
    page.split("href=\"").skip(1).map(link).collect()
}

#[test]
fn revoke_links_open_a_form() {
    let page = EXPLORER.get(&format!("/address/{ALICE}/approvals")).text;
    let ways: Vec<_> = links(&page).into_iter().filter(|link| link.contains("/write?f=")).collect();
    assert_eq!(ways.len(), 3, "{page}");
    for way in ways {
        let form = EXPLORER.get(&way);
        assert_eq!(form.status, 200, "{way}: {}", form.text);
        assert!(form.text.contains("by-hand"), "{way}: {}", form.text);
    }
    let sent = EXPLORER.ask(&format!("/address/{ART}/encode?f=a22cb465&a0={BOB}&a1=false"));
    let spender = BOB.to_string().to_lowercase();
    assert_eq!(sent["data"], format!("0xa22cb465{:0>64}{:0>64}", &spender[2..], ""));
}

/// Simulates a proxy in front of a node that is offline.
async fn bad_gateway() -> (StatusCode, &'static str) {
    (StatusCode::BAD_GATEWAY, "<html><h1>502 Bad Gateway</h1></html>")
}

#[test]
fn unavailable_node_leaves_indexed_data() {
    let explorer = Explorer::with_node(Router::new().route("/", post(bad_gateway)));
    let (written, newest) = (transaction_hash(2, 3), transaction_hash(42, 0));
    for hash in [written, newest, SKIPPED] {
        for page in [format!("/tx/{hash}"), format!("/tx/{hash}/status"), format!("/api/v1/transactions/{hash}")] {
            assert_eq!(explorer.get(&page).status, 200, "{page}");
        }
    }
    let told = explorer.ask(&format!("/tx/{written}/status"));
    let expected = json!({"status": "certified", "blockHash": chain::hash(2), "blockNumber": "0x2", "succeeded": false});
    assert_eq!(told, expected);
    assert_eq!(explorer.ask(&format!("/tx/{newest}/status"))["status"], "executed");
    assert_eq!(explorer.ask(&format!("/tx/{SKIPPED}/status")), json!({"status": "dropped", "reason": "nonce too low"}));

    for page in [format!("/tx/{PENDING}"), format!("/tx/{PENDING}/status")] {
        let answer = explorer.get(&page);
        assert_eq!(answer.status, 503, "{page}: {}", answer.text);
        assert!(answer.text.contains("Node unavailable") && answer.text.contains("may be pending"), "{}", answer.text);
        assert!(!answer.text.contains("127.0.0.1"), "where the node is is not told: {}", answer.text);
    }
    let answer = explorer.get(&format!("/api/v1/transactions/{PENDING}"));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (503, &json!("away")));
    let is_contract = |address| explorer.ask(&format!("/api/v1/accounts/{address}"))["isContract"].clone();
    assert_eq!([is_contract(GOLD), is_contract(ALICE)], [json!(true), Value::Null], "nobody says that Alice is none");
    // Only the node knows whether there is code at an address that no block mentions.
    assert_eq!(explorer.get(&format!("/address/{}/code", chain::ALICE)).status, 503);
}

/// A node that has executed a transaction which the explorer has not indexed, and returns no receipt.
async fn without_receipts(Json(question): Json<Value>) -> Json<Value> {
    let result = match question["method"].as_str() {
        Some("corniche_getTransactionStatus") => {
            json!({"status": "executed", "blockHash": chain::hash(43), "blockNumber": "0x2b"})
        }
        _ => Value::Null,
    };
    Json(json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
}

#[test]
fn unexecuted_transaction_is_not_reverted() {
    let explorer = Explorer::with_node(Router::new().route("/", post(without_receipts)));
    let told = explorer.ask(&format!("/tx/{PENDING}/status"));
    assert_eq!((&told["status"], told.get("succeeded")), (&json!("executed"), None), "{told}");
}

/// A node that reports a transaction as dropped, with a hostile reason.
async fn dropped(Json(question): Json<Value>) -> Json<Value> {
    let reason = format!("</p><script>alert(1)</script>\u{202e}{}", "x".repeat(1 << 20));
    let result = match question["method"].as_str() {
        Some("corniche_getTransactionStatus") => json!({"status": "dropped", "reason": reason}),
        _ => Value::Null,
    };
    Json(json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
}

#[test]
fn node_texts_are_truncated_and_escaped() {
    let explorer = Explorer::with_node(Router::new().route("/", post(dropped)));
    let page = explorer.get(&format!("/tx/{PENDING}"));
    assert!(page.status == 200 && page.text.contains("&lt;script&gt;"), "{}", page.status);
    assert!(page.text.len() < 20_000 && !page.text.contains('\u{202e}'), "{} bytes", page.text.len());
    for address in [format!("/api/v1/transactions/{PENDING}"), format!("/tx/{PENDING}/status")] {
        let told = explorer.get(&address);
        assert!(told.status == 200 && told.text.len() < 20_000, "{address}: {} bytes", told.text.len());
        assert!(!told.text.contains('\u{202e}'), "{address}");
    }
}

#[test]
fn no_dag_reason_is_truncated_and_escaped() {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    explorer.app.indexer_status.set_dag_unavailable(format!("<b>\u{202e}{}", "x".repeat(1 << 20)));
    let page = explorer.get("/dag").text;
    assert!(page.contains("&lt;b&gt;xxx") && page.len() < 50_000, "{} bytes", page.len());
}

/// A block with more batches than its page shows, and a transaction with more logs and transfers.
#[test]
fn truncated_lists_are_marked() {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    let shown = |logs: u64| {
        let moved = (0..logs).map(|_| moved(GOLD, Address::ZERO, ALICE, U256::ONE)).collect();
        chain::block(if logs == 200 { 1 } else { 2 }, vec![Step::call(ALICE, GOLD, moved)], None)
    };
    let mut whole = [chain::block(0, vec![], None), shown(200), shown(201)];
    let ordering = whole[2].ordering.as_mut().unwrap();
    ordering.batches = vec![ordering.batches[0].clone(); 201];
    let skip = |position| SkippedTransaction { position, hash: chain::hash(1_000 + position), reason: "nonce too low".into() };
    ordering.skipped = (1..=200).map(skip).collect();
    let digests = whole.iter().map(|whole| digest(whole, None).unwrap()).collect();
    explorer.runtime.block_on(async {
        let mut writer = explorer.app.database.writer().await.unwrap();
        write::write(&mut writer, digests, &chain::metadata()).await.unwrap();
    });
    let notes = |page: String| explorer.get(&page).text.matches("The list is truncated.").count();
    assert_eq!(notes(format!("/tx/{}", transaction_hash(1, 0))), 0);
    assert_eq!(notes(format!("/tx/{}", transaction_hash(2, 0))), 2, "of logs, and of transfers");
    assert_eq!([notes("/block/1".into()), notes("/block/2".into())], [0, 1], "of batches");
}

#[test]
fn unknown_transaction_is_not_found() {
    let nowhere = chain::hash(999);
    assert_eq!(EXPLORER.get(&format!("/tx/{nowhere}")).status, 404);
    assert_eq!(EXPLORER.ask(&format!("/tx/{nowhere}/status")), json!({"status": "unknown"}));
    assert_eq!(EXPLORER.ask(&format!("/tx/{PENDING}/status"))["status"], "pending");
}

/// Writes this many blocks, each with one transaction, one log and one transfer of gold from Alice.
fn alike(blocks: u64) -> Explorer {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    let step = |number| match number {
        0 => Step::make(ALICE, GOLD, vec![moved(GOLD, Address::ZERO, ALICE, U256::from(1_000))]),
        _ => Step::call(ALICE, GOLD, vec![moved(GOLD, ALICE, BOB, U256::ONE)]),
    };
    let digests = (0..blocks).map(|number| digest(&chain::block(number, vec![step(number)], None), None).unwrap()).collect();
    explorer.runtime.block_on(async {
        let mut writer = explorer.app.database.writer().await.unwrap();
        write::write(&mut writer, digests, &chain::metadata()).await.unwrap();
    });
    explorer
}

/// Chronological lists of the chain above, with the part that is reloaded.
fn lists() -> [(String, &'static str); 7] {
    [
        ("/blocks".into(), "blocks"),
        ("/txs".into(), "transactions"),
        (format!("/address/{ALICE}/transactions"), "transactions"),
        (format!("/address/{ALICE}/transfers"), "transfers"),
        (format!("/address/{GOLD}/transactions"), "transactions"),
        (format!("/address/{GOLD}/events"), "events"),
        (format!("/token/{GOLD}"), "part"),
    ]
}

#[test]
fn full_page_has_no_empty_next_page() {
    let (full, longer) = (alike(25), alike(26));
    let older = |page: &str| links(page).into_iter().find(|link| link.contains("before="));
    for (list, part) in lists() {
        let page = full.get(&list).text;
        assert_eq!(
            page.matches(&format!("href=\"/tx/{}\"", transaction_hash(0, 0))).count(),
            usize::from(list != "/blocks"),
            "{list}"
        );
        assert_eq!(older(&page), None, "{list}");
        let page = longer.get(&list).text;
        assert!(page.contains(&format!("data-live=\"{part}\"")), "{list}: what is newest is drawn anew");
        let next = older(&page).unwrap_or_else(|| panic!("{list} goes on: {page}"));
        let page = longer.get(&next);
        assert_eq!((page.status, older(&page.text)), (200, None), "{next}");
        assert!(!page.text.contains("No entries."), "{next}: {}", page.text);
        assert!(!page.text.contains(&format!("data-live=\"{part}\"")), "{next}: what is old stays as it is");
    }
}

#[test]
fn pages_exist_without_blocks() {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    let account =
        ["", "/transactions", "/transfers", "/tokens", "/approvals", "/calls"].map(|part| format!("/address/{ALICE}{part}"));
    let pages = [
        "/",
        "/blocks",
        "/txs",
        "/tokens",
        "/validators",
        "/validator/3",
        "/statistics",
        "/network",
        "/dag",
        "/api",
        "/search?q=7",
    ];
    for page in pages.map(str::to_owned).into_iter().chain(account) {
        assert_eq!(explorer.get(&page).status, 200, "{page}");
    }
}

#[test]
fn other_engines_have_the_same_pages() {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, true);
    for engine in [AUTOBAHN, NEOBFT, MIR, "quepaxa", "sadl-racs", "baxos"] {
        let fault_model = FaultModel::of_engine(engine);
        let committee = Validators { engine: engine.into(), fault_model, ..explorer.app.status().committee.unwrap() };
        explorer.app.indexer_status.set_chain(31_337, chain::hash(0), false, committee);
        for page in ["/", "/dag", "/dag?round=40", "/block/0", "/block/20", "/validators", "/network"] {
            let answer = explorer.get(page);
            assert!(answer.status == 200 && answer.text.contains(engine), "{page}: {}", answer.text);
            if ["/validators", "/network"].contains(&page) {
                assert!(answer.text.contains(fault_model.tolerates()), "{page}: {}", answer.text);
            }
        }
    }
}

#[test]
fn network_page_shows_stake() {
    let page = EXPLORER.get("/network").text;
    for says in [
        "<dt>Epoch</dt><dd>3</dd>",
        "<dt>Phase</dt><dd>frozen: the next committee takes over at the end</dd>",
        "<details><summary>Parameters of the genesis</summary>",
        "data-column=\"ID\">7</td>",
        "data-column=\"Votes in next epoch\">2</td>",
        "jailed until epoch 9</span> <span class=\"tag good\">announced</span>",
    ] {
        assert!(page.contains(says), "{says} is not in {page}");
    }
    assert!(links(&page).contains(&format!("/address/{ALICE}")), "{page}");
    let without = Explorer::with_node(Router::new()).get("/network");
    assert!(without.status == 200 && !without.text.contains("<h2>Staking"), "{}", without.text);
}

#[test]
fn lists_link_to_csv_files() {
    for part in ["transactions", "transfers"] {
        let page = EXPLORER.get(&format!("/address/{ALICE}/{part}")).text;
        let files: Vec<_> = links(&page).into_iter().filter(|link| link.ends_with(".csv")).collect();
        assert_eq!(files, [format!("/api/v1/accounts/{ALICE}/{part}.csv")]);
        assert!(EXPLORER.get(&files[0]).header("content-type").starts_with("text/csv"));
    }
    assert!(!EXPLORER.get(&format!("/address/{ALICE}/calls")).text.contains(".csv"));
}

#[test]
fn growing_lists_are_live() {
    for (page, part) in [
        ("/tokens".into(), "tokens"),
        ("/network".into(), "network"),
        (format!("/token/{GOLD}/holders"), "part"),
        (format!("/token/{GOLD}/days"), "part"),
        ("/statistics".into(), "statistics"),
        (format!("/address/{ALICE}/tokens"), "holdings"),
        (format!("/address/{ALICE}/approvals"), "approvals"),
    ] {
        let shown = EXPLORER.get(&page).text;
        let id = format!("id=\"{part}\"");
        assert!(shown.contains(&format!("data-live=\"{part}\"")) && shown.contains(&id), "{page}: {shown}");
    }
    let earlier = EXPLORER.get("/statistics?until=2023-11-13").text;
    assert!(!earlier.contains("data-live=\"statistics\""), "{earlier}");
}

/// The labels and their order are those of Etherscan and Blockscout.
#[test]
fn transaction_shows_result_as_its_status() {
    let page = |hash| EXPLORER.get(&format!("/tx/{hash}")).text;
    let (done, undone, waits) = (page(transaction_hash(2, 0)), page(transaction_hash(2, 3)), page(transaction_hash(42, 0)));
    for (page, status) in [(&done, "good\">succeeded"), (&undone, "bad\">reverted")] {
        assert!(page.contains(&format!("<dt>Status</dt><dd><span class=\"tag {status}</span>")), "{page}");
        assert!(page.contains("<dt>Finality</dt><dd><span class=\"tag is-certified\">certified</span>"), "{page}");
        assert!(page.contains("(EIP-1559)") && !page.contains("<dt>Contract created</dt>"), "{page}");
    }
    assert!(waits.contains("<dt>Finality</dt><dd><span class=\"tag is-executed\">executed</span>"), "{waits}");
}

#[test]
fn invalid_query_has_an_error_page() {
    for path in ["/dag?round=x", "/blocks?before=x"] {
        let page = EXPLORER.get(path);
        assert_eq!(page.status, 400, "{path}: {}", page.text);
        assert!(page.text.contains("<h1>Invalid request</h1>") && page.text.contains("invalid digit"), "{path}: {}", page.text);
    }
}
