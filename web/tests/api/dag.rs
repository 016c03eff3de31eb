//! DAG in the API: rounds as the node reported them, and errors.

use crate::{
    chain::{BEGIN_MS, ROUNDS, round},
    explorer::{EXPLORER, Explorer},
};
use alloy_primitives::keccak256;
use corniche_api::SlotStatus;
use corniche_web::{indexer::dag, limits::Rate};
use serde_json::json;

/// Returns first round, last round and number of rounds of a response.
fn range(question: &str) -> (u64, u64, usize) {
    let found = EXPLORER.ask(&format!("/api/v1/dag{question}"));
    let end = |name: &str| found[name].as_u64().unwrap();
    (end("fromRound"), end("toRound"), found["rounds"].as_array().unwrap().len())
}

#[test]
fn rounds_equal_the_nodes_response() {
    let found = EXPLORER.ask("/api/v1/dag?from=33&to=33");
    let digest = keccak256("proposal 33");
    let time = |ms: u64| format!("{ms:#x}");
    let vertex = json!({
        "round": "0x21", "author": "0x1", "digest": digest, "parents": [], "batchBytes": "0x1f4", "acceptedMs": time(BEGIN_MS),
    });
    let slot = json!({
        "round": "0x21", "rank": "0x0", "validator": "0x1", "status": "committed", "digest": digest,
        "decidedMs": time(BEGIN_MS + 1), "commit": "0x21",
    });
    let expected = json!({
        "engine": "mahi-mahi",
        "fromRound": 33,
        "toRound": 33,
        "oldestRound": ROUNDS.start(),
        "newestRound": ROUNDS.end(),
        "rounds": [{"round": 33, "vertices": [vertex], "slots": [slot]}],
        "cars": [],
    });
    assert_eq!(found, expected);
    let block = EXPLORER.ask("/api/v1/blocks/17");
    assert_eq!((&block["firstRound"], &block["lastRound"]), (&json!(33), &json!(34)), "where a block's rounds are found");
}

#[test]
fn missing_range_bound_has_default() {
    for (question, expected) in [
        ("", (17, 80, 64)),
        ("?from=&to=", (17, 80, 64)),
        ("?from=12", (12, 75, 64)),
        ("?from=70", (70, 80, 11)),
        ("?to=30", (11, 30, 20)),
        ("?to=99", (17, 80, 64)),
        ("?from=0&to=12", (11, 12, 2)),
        ("?from=11&to=74", (11, 74, 64)),
    ] {
        assert_eq!(range(question), expected, "{question}");
    }
}

#[test]
fn invalid_range_is_rejected() {
    for (question, status, says) in [
        ("from=x", 400, "from: expected a whole number"),
        ("from=0x10", 400, "from: expected a whole number"),
        ("to=-1", 400, "to: expected a whole number"),
        ("from=18446744073709551616", 400, "from: expected a whole number"),
        ("from=20&from=21", 400, "duplicate parameter"),
        ("round=20", 400, "takes from, to"),
        ("from=40&to=39", 400, "at most 64 rounds"),
        ("from=11&to=75", 400, "at most 64 rounds"),
        ("from=0&to=18446744073709551615", 400, "at most 64 rounds"),
        ("from=81", 404, "rounds 11 to 80"),
        ("from=18446744073709551615", 404, "rounds 11 to 80"),
        ("to=10", 404, "rounds 11 to 80"),
    ] {
        let answer = EXPLORER.get(&format!("/api/v1/dag?{question}"));
        assert_eq!(answer.status, status, "{question}: {}", answer.text);
        let error = answer.json()["error"].clone();
        assert_eq!(error["code"], if status == 400 { "bad_request" } else { "not_found" }, "{question}");
        assert!(error["message"].as_str().unwrap().contains(says), "{question}: {error}");
    }
    assert_eq!(EXPLORER.post("/api/v1/dag", "").json()["error"]["code"], "method_not_allowed");
    let empty = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false).get("/api/v1/dag");
    assert_eq!((empty.status, &empty.json()["error"]["code"]), (404, &json!("not_found")));
}

/// Validator 0 led round 12, but its proposal got no votes.
#[test]
fn skipped_leader_is_in_response() {
    let mut skipped = round(12);
    let slot = &mut skipped.slots[0];
    (slot.status, slot.digest, slot.commit, slot.why) = (SlotStatus::Skipped, None, None, Some("skipped: no votes".into()));
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    explorer.runtime.block_on(async {
        let mut writer = explorer.app.database.writer().await.unwrap();
        for rows in dag::rows([(12, skipped)], BEGIN_MS) {
            rows.write(&mut writer).await.unwrap();
        }
    });
    let told = explorer.ask("/api/v1/dag?from=12&to=12")["rounds"][0]["slots"][0].clone();
    let expected = json!({
        "round": "0xc", "rank": "0x0", "validator": "0x0", "status": "skipped", "why": "skipped: no votes",
        "decidedMs": format!("{:#x}", BEGIN_MS + 1),
    });
    assert_eq!(told, expected);
}
