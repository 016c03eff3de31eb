//! Tests of every endpoint in the table: it responds, the response matches the documentation exactly, and the cursor
//! reaches the whole list.

use crate::{
    chain::{self, ALICE, BOB, EVIL, GOLD, ITEMS, PLAIN, SKIPPED, signed, transaction_hash},
    explorer::{EXPLORER, Explorer, PENDING},
};
use corniche_web::{
    api::{ENDPOINTS, Endpoint},
    indexer_status::Halt,
    limits::Rate,
    views::reference::Schema,
};
use serde_json::{Value, json};

/// Returns a path of this endpoint with data.
pub fn somewhere(endpoint: &Endpoint) -> String {
    let account = if endpoint.path.contains("/accounts/") { ALICE } else { GOLD };
    let account = if endpoint.path.ends_with("/calls") { BOB } else { account };
    let path = endpoint.path.replace("{address}", &account.to_string()).replace("{block}", "2");
    let path = path.replace("{hash}", &transaction_hash(2, 0).to_string());
    if endpoint.path.ends_with("/search") { path + "?q=gold" } else { path }
}

fn is_list(endpoint: &Endpoint) -> bool {
    matches!((endpoint.schema)(), Schema::Page(_))
}

/// Panics if a value does not have the documented schema.
fn fits(schema: &Schema, value: &Value, at: &str) {
    match schema {
        Schema::Plain { kind, .. } => {
            let text = value.as_str().unwrap_or_default();
            let good = match *kind {
                "number" => value.is_u64(),
                "true or false" => value.is_boolean(),
                "text" => value.is_string(),
                "decimal string" => !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit()),
                "address" => alloy_primitives::Address::parse_checksummed(text, None).is_ok(),
                "hash" => text.len() == 66 && text.starts_with("0x"),
                "bytes" => text.starts_with("0x"),
                "JSON" => value.is_array() || value.is_object(),
                other => panic!("{at}: no test for {other}"),
            };
            assert!(good, "{at}: {value} is no {kind}");
        }
        Schema::Maybe(_) if value.is_null() => {}
        Schema::Maybe(schema) => fits(schema, value, at),
        Schema::List(schema) => value.as_array().unwrap().iter().for_each(|value| fits(schema, value, at)),
        Schema::Page(schema) => {
            assert_eq!(value.as_object().unwrap().len(), 2, "{at}: items and next");
            assert!(value["next"].is_null() || value["next"].is_string(), "{at}");
            value["items"].as_array().unwrap().iter().for_each(|value| fits(schema, value, at));
        }
        Schema::Object(object) => {
            let served: Vec<_> = value.as_object().unwrap_or_else(|| panic!("{at}: {value}")).keys().cloned().collect();
            let mut documented: Vec<_> = object.fields.iter().map(|field| field.name.clone()).collect();
            documented.sort();
            assert_eq!(served, documented, "{at}");
            object.fields.iter().for_each(|field| fits(&field.schema, &value[&field.name], &format!("{at}.{}", field.name)));
        }
        Schema::Lines(_) => panic!("{at}: a file"),
    }
}

#[test]
fn responses_match_documentation() {
    for endpoint in ENDPOINTS {
        let path = somewhere(endpoint);
        let answer = EXPLORER.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{path}");
        let schema = (endpoint.schema)();
        if matches!(schema, Schema::Lines(_)) {
            assert!(answer.header("content-type").starts_with("text/csv"), "{path}");
            continue;
        }
        fits(&schema, &answer.json(), &path);
        fits(&schema, &schema.example(), &format!("the example of {}", endpoint.path));
        if is_list(endpoint) {
            assert_ne!(answer.json()["items"], json!([]), "{path}: nothing was looked at");
        }
    }
}

/// Reads all items of a list, page by page.
fn walk(path: &str, limit: usize) -> Vec<Value> {
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let page = EXPLORER.ask(&format!("{path}?limit={limit}{next}"));
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= limit, "{path}: {} items of {limit}", found.len());
        items.extend(found.iter().cloned());
        assert!(items.len() < 10_000, "{path}: it goes on for ever");
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return items,
        }
    }
}

#[test]
fn cursors_visit_every_item_once() {
    let extra = [ITEMS, chain::ART, EVIL].map(|token| format!("/api/v1/tokens/{token}/holders"));
    let more = [BOB, GOLD].map(|account| format!("/api/v1/accounts/{account}/balances"));
    let lists = ENDPOINTS.iter().filter(|endpoint| is_list(endpoint)).map(somewhere).chain(extra).chain(more);
    for path in lists {
        let whole = walk(&path, 100);
        for limit in [1, 2, 7, 99] {
            assert_eq!(walk(&path, limit), whole, "{path} by {limit}");
        }
        for (at, item) in whole.iter().enumerate() {
            assert!(!whole[..at].contains(item), "{path}: {item} twice");
        }
    }
    assert_eq!(walk("/api/v1/transactions", 100).len() as u64, 8 + 3 * PLAIN);
    assert_eq!(walk("/api/v1/blocks", 100).len() as u64, 3 + PLAIN);
    assert_eq!(walk(&format!("/api/v1/accounts/{ALICE}/transfers"), 100).len() as u64, 1 + 30 + 1 + 1 + 1 + PLAIN);
    assert_eq!(walk(&format!("/api/v1/tokens/{ITEMS}/holders"), 100).len(), 1, "ids are not holders");
}

/// The node of these tests serves no traces.
#[test]
fn page_shows_indexed_calls() {
    let page = |block, position| EXPLORER.get(&format!("/tx/{}", transaction_hash(block, position))).text;
    let inner = page(2, 0);
    assert_eq!(inner.matches("data-depth=\"1\"").count(), 5, "{inner}");
    for words in ["data-depth=\"0\"", "CALL", "700 gas", "50,000 gas", "out of gas"] {
        assert!(inner.contains(words), "{words} in {inner}");
    }
    let undone = page(2, 3);
    assert!(undone.contains("not &lt;enough&gt;"), "{undone}");
    assert!(inner.contains("Indexed trace") && page(2, 1).contains("No call trace available"));
}

/// The node of these tests returns the bytes of the first transaction for every hash.
#[test]
fn page_shows_matching_raw_bytes() {
    let page = |block, position| EXPLORER.get(&format!("/tx/{}", transaction_hash(block, position))).text;
    let bytes = hex::encode(signed(2, 0));
    assert!(page(2, 0).contains(&bytes) && page(2, 0).contains("id=\"raw\""), "{}", page(2, 0));
    assert!(!page(2, 1).contains(&bytes) && !page(2, 1).contains("id=\"raw\""), "{}", page(2, 1));
}

#[test]
fn page_shows_received_time() {
    let page = |position| EXPLORER.get(&format!("/tx/{}", transaction_hash(2, position))).text;
    let (told, forgotten) = (page(0), page(1));
    assert!(told.contains(&format!("data-ms=\"{}\"", chain::BEGIN_MS + 700)), "{told}");
    assert!(told.contains("by the node's clock") && !forgotten.contains("by the node's clock"), "{forgotten}");
}

/// Scripts reload only marked parts, and final content is not marked.
#[test]
fn pages_are_live_until_final() {
    let is_live = |path: &str, part: &str| EXPLORER.get(path).text.contains(&format!("id=\"{part}\" data-live"));
    let transaction = |block| format!("/tx/{}", transaction_hash(block, 0));
    assert_eq!([2, 2 + PLAIN].map(|block| is_live(&transaction(block), "transaction")), [false, true]);
    assert_eq!([2, 2 + PLAIN].map(|block| is_live(&format!("/block/{block}"), "block")), [false, true]);
    assert!(is_live("/blocks", "blocks") && is_live("/txs", "transactions"));
    assert!(!is_live("/blocks?before=2097152", "blocks") && !is_live("/txs?before=2097152", "transactions"));
}

#[test]
fn transaction_lists_its_effects() {
    let found = EXPLORER.ask(&format!("/api/v1/transactions/{}", transaction_hash(2, 0)));
    assert_eq!(found["status"], "certified");
    assert_eq!(found["call"]["signature"], "transfer(address,uint256)");
    assert_eq!(found["call"]["values"][0], json!({"name": "to", "value": BOB.to_string()}));
    assert_eq!(found["logs"][0]["event"]["signature"], "Transfer(address,address,uint256)");
    assert_eq!(found["transfers"][0]["amount"], "5000000000000000000");
    assert_eq!(found["transfers"][0]["symbol"], "GLD");
    assert_eq!(found["calls"].as_array().unwrap().len(), 5);
    assert_eq!(found["transaction"]["fee"], "50000000350000", "gas times price");
    assert_eq!((&found["transaction"]["method"], &found["transaction"]["succeeded"]), (&json!("transfer"), &json!(true)));

    let many = EXPLORER.ask(&format!("/api/v1/transactions/{}", transaction_hash(1, 1)));
    assert_eq!(many["complete"], true, "30 logs are all of them");
    let failed = EXPLORER.ask(&format!("/api/v1/transactions/{}", transaction_hash(2, 3)));
    assert_eq!(failed["transaction"]["succeeded"], false);
    let newest = EXPLORER.ask(&format!("/api/v1/transactions/{}", transaction_hash(2 + PLAIN, 0)));
    assert_eq!(newest["status"], "executed");
    let skipped = EXPLORER.ask(&format!("/api/v1/transactions/{SKIPPED}"));
    assert_eq!((&skipped["status"], &skipped["reason"]), (&json!("dropped"), &json!("nonce too low")));
    let pending = EXPLORER.ask(&format!("/api/v1/transactions/{PENDING}"));
    assert_eq!((&pending["status"], &pending["transaction"]), (&json!("pending"), &Value::Null));
}

#[test]
fn block_lists_its_ordering() {
    let found = EXPLORER.ask("/api/v1/blocks/2");
    assert_eq!(found["block"]["hash"], json!(chain::hash(2)));
    assert_eq!(found["skipped"], json!([{"position": 1, "hash": SKIPPED, "reason": "nonce too low"}]));
    assert_eq!((&found["batches"][0]["author"], &found["batches"][0]["count"]), (&json!(2), &json!(5)));
    assert_eq!(found["certificate"]["signers"], json!([0, 1, 3]));
    assert_eq!(EXPLORER.ask(&format!("/api/v1/blocks/{}", chain::hash(2))), found, "by its hash");
    assert_eq!(EXPLORER.ask("/api/v1/blocks/0")["batches"], json!([]));
    assert_eq!(EXPLORER.ask("/api/v1/certificates/3")["block"], 4, "a later one covers it");
    assert_eq!(EXPLORER.get("/api/v1/certificates/42").status, 404, "none covers it yet");
    let positions = EXPLORER.ask("/api/v1/blocks/2/transactions");
    let positions: Vec<_> = positions["items"].as_array().unwrap().iter().map(|item| item["position"].clone()).collect();
    assert_eq!(positions, [0, 1, 2, 3], "in their order");
}

#[test]
fn account_lists_its_assets() {
    let found = EXPLORER.ask(&format!("/api/v1/accounts/{}", ALICE.to_string().to_lowercase()));
    assert_eq!(found["address"], json!(ALICE.to_string()), "with its checksum");
    assert_eq!((&found["balance"], &found["nonce"]), (&json!("1000000000000000000"), &json!(42)));
    let gold = EXPLORER.ask(&format!("/api/v1/accounts/{GOLD}"));
    assert_eq!((&gold["isToken"], &gold["creator"]), (&json!(true), &json!(ALICE.to_string())));
    assert_eq!(gold["creation"], json!(transaction_hash(1, 0)));
    let unknown = EXPLORER.ask("/api/v1/accounts/0x00000000000000000000000000000000000000f1");
    assert_eq!((&unknown["firstBlock"], &unknown["transactions"]), (&Value::Null, &json!(0)));

    let approvals = EXPLORER.ask(&format!("/api/v1/accounts/{ALICE}/approvals"));
    assert_eq!(approvals["items"].as_array().unwrap().len(), 3);
    let balances = walk(&format!("/api/v1/accounts/{BOB}/balances"), 100);
    let of_items: Vec<_> = balances.iter().filter(|balance| balance["symbol"] == "ITM").collect();
    assert_eq!(of_items.len(), 10, "nine ids and all of them together");
    assert_eq!((&of_items[0]["tokenId"], &of_items[0]["amount"]), (&Value::Null, &json!("45")));
    let parts = EXPLORER.ask(&format!("/api/v1/accounts/{BOB}/transactions?limit=2"));
    assert_eq!(parts["items"][0]["roles"], json!(["sender"]));
    assert_eq!(parts["items"][1]["roles"], json!(["moved"]));
}

#[test]
fn tokens_with_ids_have_no_decimals() {
    let is_items = |one: &Value| one["symbol"] == "ITM";
    for path in [
        format!("/api/v1/accounts/{BOB}/balances"),
        format!("/api/v1/accounts/{BOB}/transfers?limit=100&cursor={}", hex::encode((2_i64 << 20).to_be_bytes())),
        format!("/api/v1/transactions/{}/transfers", transaction_hash(1, 2)),
        format!("/api/v1/tokens/{ITEMS}/transfers"),
    ] {
        let found = EXPLORER.ask(&path);
        let items: Vec<_> = found["items"].as_array().unwrap().iter().filter(|one| is_items(one)).collect();
        assert!(!items.is_empty() && items.iter().all(|one| one["decimals"] == 0), "{path}: {found}");
    }
    assert_eq!(EXPLORER.ask(&format!("/api/v1/tokens/{ITEMS}"))["decimals"], 0);
    let tool = EXPLORER.ask(&format!("/api?module=account&action=token1155tx&contractaddress={ITEMS}"));
    assert_eq!(tool["result"][0]["tokenDecimal"], "0");
    let page = EXPLORER.get(&format!("/tx/{}", transaction_hash(1, 2))).text;
    assert!(page.contains(">5</span>") && !page.contains("0.000000000000000005"), "{page}");
}

#[test]
fn validator_record_covers_last_days() {
    let found = EXPLORER.ask("/api/v1/validators");
    let led: Vec<u64> = found["validators"].as_array().unwrap().iter().map(|one| one["led"].as_u64().unwrap()).collect();
    assert_eq!(led.iter().sum::<u64>(), 2 + PLAIN, "every block after the first: {led:?}");
    assert!(led.iter().all(|led| *led >= PLAIN / 4), "they take turns: {led:?}");
}

#[test]
fn validators_have_votes() {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    let shown = || {
        let committee = explorer.ask("/api/v1/validators");
        let votes = committee["validators"].as_array().unwrap().iter().map(|one| one["votes"].clone());
        (votes.collect::<Vec<_>>(), committee["quorum"].clone())
    };
    assert_eq!(shown(), (vec![json!(1); 4], json!(3)));
    let status = explorer.app.status();
    let mut committee = status.committee.unwrap();
    for (validator, votes) in committee.validators.iter_mut().zip([2, 2, 2, 1]) {
        validator.votes = votes;
    }
    committee.quorum = 5;
    explorer.app.indexer_status.set_chain(status.chain_id.unwrap(), status.genesis.unwrap(), false, committee);
    assert_eq!(shown(), (vec![json!(2), json!(2), json!(2), json!(1)], json!(5)));
}

#[test]
fn empty_database_has_empty_lists() {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    let found = explorer.ask("/api/v1/blocks");
    assert_eq!(found, json!({"items": [], "next": null}));
    assert_eq!(explorer.get("/api/v1/blocks/0").status, 404);
}

#[test]
fn invalid_requests_have_error_messages() {
    let long = "9".repeat(400);
    let gold = format!("/api/v1/tokens/{GOLD}/holders");
    for (path, status, says) in [
        ("/api/v1/blocks?limit=0", 400, "from 1 to 100"),
        ("/api/v1/blocks?limit=101", 400, "from 1 to 100"),
        ("/api/v1/blocks?limit=many", 400, "from 1 to 100"),
        ("/api/v1/blocks?limit=1&limit=2", 400, "duplicate parameter"),
        ("/api/v1/blocks?page=2", 400, "takes limit, cursor"),
        ("/api/v1/status?a=1", 400, "takes none"),
        ("/api/v1/blocks?cursor=xyz", 400, "cursor"),
        ("/api/v1/blocks?cursor=00", 400, "cursor"),
        (&format!("{gold}?cursor=0000000000a00003"), 400, "cursor"),
        ("/api/v1/blocks/latest", 400, "a number, or a hash"),
        ("/api/v1/blocks/-1", 400, "a number, or a hash"),
        ("/api/v1/blocks/99999999", 404, "newest indexed block is 42"),
        ("/api/v1/blocks/18446744073709551615", 404, "no block"),
        (&format!("/api/v1/blocks/{long}"), 400, "a number, or a hash"),
        ("/api/v1/blocks/%ff", 400, "UTF-8"),
        ("/api/v1/transactions/0x12", 400, "64 hexadecimal digits"),
        (&format!("/api/v1/transactions/{}", chain::hash(7)), 404, "not found: neither"),
        (&format!("/api/v1/transactions/{}/logs", chain::hash(7)), 404, "no executed transaction"),
        ("/api/v1/accounts/alice", 400, "40 hexadecimal digits"),
        (&format!("/api/v1/tokens/{BOB}"), 404, "no token"),
        (&format!("/api/v1/tokens/{BOB}/transfers"), 404, "no token"),
        (&format!("/api/v1/contracts/{BOB}"), 404, "no contract"),
        ("/api/v1/search", 400, "q:"),
        ("/api/v1/nothing", 404, "/api lists the endpoints"),
        ("/api/v2/blocks", 404, "/api lists the endpoints"),
    ] {
        let answer = EXPLORER.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        let error = answer.json()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(says), "{path}: {error}");
        assert_eq!(error.as_object().unwrap().len(), 2, "{path}: {error}");
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{path}");
    }
    let answer = EXPLORER.post("/api/v1/blocks", "");
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (405, &json!("method_not_allowed")));
}

#[test]
fn extreme_cursors_are_harmless() {
    for cursor in ["0000000000000000", "ffffffffffffffff", "8000000000000000", "7fffffffffffffff"] {
        for endpoint in ENDPOINTS.iter().filter(|endpoint| is_list(endpoint)) {
            let path = format!("{}?cursor={cursor}", somewhere(endpoint));
            let status = EXPLORER.get(&path).status;
            assert!([200, 400].contains(&status), "{path}: {status}");
        }
    }
}

#[test]
fn rate_limit_error_is_json() {
    let explorer = Explorer::new(Rate { burst: 1.0, per_second: 0.0 }, false);
    assert_eq!(explorer.get("/api/v1/status").status, 200);
    let refused = explorer.get("/api/v1/status");
    assert_eq!((refused.status, refused.header("retry-after")), (429, "2"));
    assert_eq!(refused.json()["error"]["code"], "too_many_requests");
    assert_eq!(refused.header("access-control-allow-origin"), "*");
    let tool = explorer.get("/api?module=account&action=txlist");
    assert_eq!((tool.status, &tool.json()["result"]), (429, &json!("Max rate limit reached")));
    assert!(explorer.get("/blocks").text.contains("<h1>"), "people are told on a page");
}

#[test]
fn rate_limit_counts_clients_behind_proxy() {
    let rate = Rate { burst: 1.0, per_second: 0.0 };
    let ask = |explorer: &Explorer, client: &str| explorer.get_for("/api/v1/status", client).status;
    let explorer = Explorer::behind(vec!["127.0.0.0/8".parse().unwrap()], rate, false);
    let clients = ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3, 192.0.2.2", "2001:db8::1", "2001:db8::2"];
    assert_eq!(clients.map(|client| ask(&explorer, client)), [200, 429, 200, 429, 200, 429]);
    let explorer = Explorer::new(rate, false);
    assert_eq!(["192.0.2.1", "192.0.2.2"].map(|client| ask(&explorer, client)), [200, 429], "anybody may write a header");
}

#[test]
fn halted_explorer_reports_reason() {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    explorer.app.indexer_status.set_halt(Halt::Contradiction { number: 7 });
    let answer = explorer.get("/api/v1/blocks");
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (503, &json!("halted")));
    let status = explorer.ask("/api/v1/status");
    assert!(status["halted"].as_str().unwrap().contains("block 7: "), "{status}");
}

#[test]
fn api_responses_have_page_headers() {
    let answer = EXPLORER.get("/api/v1/status");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert!(answer.header("content-security-policy").starts_with("default-src 'none'"));
    assert_eq!(EXPLORER.get("/blocks").header("access-control-allow-origin"), "", "pages are not for others");
}
