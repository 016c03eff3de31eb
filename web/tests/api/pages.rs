//! What people are shown, where it takes more than one page to see that it is right.

use crate::{
    chain::{self, ALICE, ART, BOB, SKIPPED, transaction_hash},
    explorer::{EXPLORER, Explorer, PENDING},
};
use axum::{Router, http::StatusCode, routing::post};
use serde_json::json;

/// Where the links of a page lead, as a browser reads them, without what is after a #.
fn links(page: &str) -> Vec<String> {
    let link = |rest: &str| rest.split(['"', '#']).next().unwrap().replace("&amp;", "&");
    page.split("href=\"").skip(1).map(link).collect()
}

#[test]
fn every_approval_can_be_taken_back_where_its_link_leads() {
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

/// What stands before a node that is gone.
async fn bad_gateway() -> (StatusCode, &'static str) {
    (StatusCode::BAD_GATEWAY, "<html><h1>502 Bad Gateway</h1></html>")
}

#[test]
fn while_the_node_is_away_what_is_written_is_told_and_the_rest_may_be_pending() {
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
        assert!(answer.text.contains("The node cannot be asked") && answer.text.contains("may be pending"), "{}", answer.text);
        assert!(!answer.text.contains("127.0.0.1"), "where the node is is not told: {}", answer.text);
    }
    let answer = explorer.get(&format!("/api/v1/transactions/{PENDING}"));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (503, &json!("away")));
    // Whether there is code at an address that no block names, only the node knows.
    assert_eq!(explorer.get(&format!("/address/{}/code", chain::ALICE)).status, 503);
}

#[test]
fn what_the_node_says_it_does_not_know_is_not_there() {
    let nowhere = chain::hash(999);
    assert_eq!(EXPLORER.get(&format!("/tx/{nowhere}")).status, 404);
    assert_eq!(EXPLORER.ask(&format!("/tx/{nowhere}/status")), json!({"status": "unknown"}));
    assert_eq!(EXPLORER.ask(&format!("/tx/{PENDING}/status"))["status"], "pending");
}
