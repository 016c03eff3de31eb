//! Search: one exact result redirects, several are listed, and the page contains no explanations.

use crate::{
    chain::{self, ALICE, BOB, GOLD, SKIPPED, transaction_hash},
    explorer::{EXPLORER, PENDING},
};
use alloy_primitives::{B256, keccak256};
use serde_json::Value;

fn encoded(question: &str) -> String {
    question.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Returns the target of a search that redirects, or `None` if it shows a page.
fn leads(question: &str) -> Option<String> {
    let answer = EXPLORER.get(&format!("/search?q={}", encoded(question)));
    (answer.status == 303).then(|| answer.header("location").to_owned())
}

fn page(question: &str) -> String {
    let answer = EXPLORER.get(&format!("/search?q={}", encoded(question)));
    assert_eq!(answer.status, 200, "{question}");
    answer.text
}

fn hits(question: &str) -> Vec<(String, String, bool)> {
    let found = EXPLORER.ask(&format!("/api/v1/search?q={}", encoded(question)));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let hit = |hit: &Value| (text(&hit["kind"]), text(&hit["title"]), hit["exact"].as_bool().unwrap());
    found["hits"].as_array().unwrap().iter().map(hit).collect()
}

#[test]
fn exact_hit_redirects() {
    let transaction = transaction_hash(2, 0).to_string();
    let block = chain::hash(17).to_string();
    for (question, page) in [
        (transaction.as_str(), format!("/tx/{transaction}")),
        (&transaction[2..], format!("/tx/{transaction}")),
        (&transaction.to_uppercase().replace("0X", "0x"), format!("/tx/{transaction}")),
        (&format!("  {transaction} "), format!("/tx/{transaction}")),
        (&SKIPPED.to_string(), format!("/tx/{SKIPPED}")),
        (&PENDING.to_string(), format!("/tx/{PENDING}")),
        (&block, "/block/17".to_owned()),
        ("17", "/block/17".to_owned()),
        ("0", "/block/0".to_owned()),
        ("0,017", "/block/17".to_owned()),
        ("0x11", "/block/17".to_owned()),
        (&ALICE.to_string(), format!("/address/{ALICE}")),
        (&ALICE.to_string().to_lowercase(), format!("/address/{ALICE}")),
        (&GOLD.to_string(), format!("/address/{GOLD}")),
        ("0x00000000000000000000000000000000000000f1", "/address/0x00000000000000000000000000000000000000f1".to_owned()),
        ("gld", format!("/token/{GOLD}")),
        ("GOLD", format!("/token/{GOLD}")),
    ] {
        assert_eq!(leads(question), Some(page), "{question}");
    }
}

#[test]
fn batch_and_key_redirect() {
    let batch = keccak256("17").to_string();
    let (consensus, network) = (B256::repeat_byte(0xc2).to_string(), B256::with_last_byte(2).to_string());
    let bls = "b2".repeat(96);
    for (question, page) in [
        (batch.as_str(), "/block/17"),
        (&batch[2..], "/block/17"),
        (&consensus, "/validator/2"),
        (&network, "/validator/2"),
        (&bls, "/validator/2"),
        (&format!("0x{bls}"), "/validator/2"),
        (&bls.to_uppercase(), "/validator/2"),
    ] {
        assert_eq!(leads(question).as_deref(), Some(page), "{question}");
    }
    assert_eq!(hits(&batch), [("block".into(), "Block 17, contains this batch of validator 1".into(), true)]);
    assert_eq!(hits(&network), [("validator".into(), "Validator 2: Network key".into(), true)]);
    assert!(page(&"ee".repeat(96)).contains("a validator with this key"), "nobody's");
}

#[test]
fn validators_and_peers_are_found() {
    for (question, page) in [
        ("validator 2", "/validator/2"),
        ("Validator #0", "/validator/0"),
        ("validator3", "/validator/3"),
        ("b12D3KooWabcdefghijklmnop3", "/validator/3"),
        ("b12D3KooWabcdefghijklmnop8", "/network"),
    ] {
        assert_eq!(leads(question).as_deref(), Some(page), "{question}");
    }
    assert_eq!(hits("validator 2"), [("validator".into(), "Validator 2".into(), true)]);
    assert_eq!(hits("b12D3KooWabcdefghijklmnop3"), [("peer".into(), "Validator 3".into(), true)]);
    let text = page("validator 4");
    assert!(text.contains("a validator with index 4"), "there is none, and it was looked for: {text}");
    let text = page(&"7Q".repeat(26));
    assert!(text.contains("a node with this peer ID"), "{text}");
    assert!(!page(&"7Q".repeat(40)).contains("peer ID, among"), "too long for one");
}

#[test]
fn contracts_are_found_by_code_hash() {
    let code = B256::repeat_byte(9).to_string();
    let found = hits(&code);
    assert_eq!(found.len(), 4, "{found:?}");
    let is_one =
        |(kind, title, exact): &(String, String, bool)| kind == "account" && title == "contract with this code hash" && *exact;
    assert!(found.iter().all(is_one), "{found:?}");
    assert_eq!(leads(&code), None, "any of them may be meant");
    assert!(page(&chain::hash(999).to_string()).contains("a contract with this code hash"));
}

#[test]
fn several_hits_are_listed_by_kind() {
    assert_eq!(leads("gol"), None);
    let found = hits("gol");
    assert_eq!(found.len(), 2);
    assert!(found.contains(&("token".into(), "Gold (GLD)".into(), false)), "{found:?}");
    assert!(found.contains(&("token".into(), "Golden pictures (ART)".into(), false)), "{found:?}");
    let listed = page("gol");
    assert!(listed.contains("Tokens</h2>") && listed.contains("Golden pictures"), "{listed}");

    let selector = hits("0xa9059cbb");
    assert_eq!(selector, [("method".into(), "transfer(address,uint256)".into(), true)]);
    let topic = keccak256("Transfer(address,address,uint256)").to_string();
    assert_eq!(hits(&topic), [("event".into(), "Transfer(address,address,uint256)".into(), true)]);
    let by_name = hits("TRANS");
    assert_eq!(by_name.iter().map(|(kind, ..)| kind.as_str()).collect::<Vec<_>>(), ["method", "event"]);
    assert_eq!(hits("transfer(address,u").len(), 1, "with its parameters");
    assert_eq!(hits("transfer(bytes").len(), 0);
}

#[test]
fn invalid_checksum_is_reported() {
    let mistyped = BOB.to_string().replacen("C5", "c5", 1);
    assert_eq!(leads(&mistyped), None);
    let page = page(&mistyped);
    assert!(page.contains("checksum") && page.contains(&BOB.to_string()), "{page}");
}

#[test]
fn no_results_page_lists_lookups_and_advice() {
    let nowhere = chain::hash(999).to_string();
    let text = page(&nowhere);
    for says in [
        "No results",
        "a transaction with this hash",
        "a block with this hash",
        "a block with a batch of this digest",
        "a validator with this key",
        "node&#39;s pool",
        "Suggestions",
    ] {
        assert!(text.contains(says) || text.contains(&says.replace("&#39;", "'")), "{says}: {text}");
    }
    assert!(page("123456789").contains("block 123,456,789"));
    assert!(page("nothing like it").contains("a token with a name or symbol that starts with “nothing like it”"));
    assert!(page("").contains("Enter a search term"));
}

#[test]
fn queries_are_bounded_and_escaped() {
    for question in
        ["<script>alert(1)", "'; DROP TABLE blocks; --", "%", "_", "\u{0}", "\u{10ffff}", "(", &"x".repeat(5_000), "é", "0x"]
    {
        let text = page(question);
        assert!(!text.contains("<script>alert"), "{question:.20}");
        assert!(text.len() < 20_000, "{question:.20}: {} bytes", text.len());
    }
    assert!(page("<script").contains("&lt;script&gt;alert(1)"), "a token is named so, and found");
}
