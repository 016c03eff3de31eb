//! The peer graph as page and in the API, from a node whose peers send hostile data.

use crate::{
    chain::BEGIN_MS,
    explorer::{EXPLORER, HOSTILE},
};
use alloy_primitives::B256;
use serde_json::{Value, json};

/// The version as shown: truncated, without control and direction characters.
const SHOWN: &str = "</code><script>alert(1)</script>\"onload=</code><script>alert(1";

#[test]
fn peers_endpoint_lists_every_node() {
    let found = EXPLORER.ask("/api/v1/peers");
    let [node, silent] = found["nodes"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!(silent, &json!({"answers": false, "own": null, "peers": []}));
    assert_eq!((&node["answers"], &node["own"]["validator"]), (&json!(true), &json!(1)));
    assert_eq!((&node["own"]["version"], &node["own"]["connectedMs"]), (&json!("corniche/0.1.0"), &Value::Null));
    let validator = json!({
        "peerId": "b12D3KooWabcdefghijklmnop3", "networkKey": B256::with_last_byte(3), "validator": 3, "version": SHOWN,
        "connectedMs": BEGIN_MS, "roundTripUs": 12_345,
    });
    assert_eq!(node["peers"][0], validator);
    let seats: Vec<_> = node["peers"].as_array().unwrap().iter().map(|peer| peer["validator"].clone()).collect();
    assert_eq!(seats, [json!(3), Value::Null, Value::Null], "a seat is the key's that has it");
    assert!(found["askedMs"].as_u64().is_some_and(|ms| ms > BEGIN_MS), "{found}");
}

#[test]
fn hostile_peer_texts_are_escaped() {
    let page = EXPLORER.get("/network").text;
    assert!(page.contains("&lt;/code&gt;&lt;script&gt;alert(1)"), "{page}");
    assert!(!page.contains("<script>alert") && !page.contains("<b>") && !page.contains('\u{202e}'), "{page}");
    assert!(page.len() < 100_000, "{} bytes of {HOSTILE:?} and the like", page.len());
    // The node's own row of the matrix, and that of the unreachable node.
    for cell in [
        "data-column=\"validator 1\">–",
        "data-column=\"validator 3\">12.3 ms",
        "data-column=\"validator 2\"><span class=\"note\">not connected",
    ] {
        assert!(page.contains(cell), "{cell} is not in {page}");
    }
    assert!(page.contains("unknown node"), "{page}");
    assert!(page.contains("queries the nodes of 1 of 4 validators"), "{page}");
    assert!(!page.contains("127.0.0.1"), "where nodes are is not told: {page}");
}
