//! API for Etherscan's tools: its envelope, its fields, its messages.

use crate::{
    chain::{self, ALICE, ART, BEGIN_MS, BOB, GOLD, ITEMS, PLAIN, transaction_hash},
    explorer::{EXPLORER, Explorer, LONG},
};
use alloy_primitives::U256;
use corniche_web::{
    database::{Place, Rows},
    limits::Rate,
};
use serde_json::{Value, json};

fn envelope(query: &str) -> Value {
    let answer = EXPLORER.get(&format!("/api?{query}"));
    assert_eq!(answer.status, 200, "{query}");
    assert_eq!(answer.header("access-control-allow-origin"), "*", "{query}");
    let envelope = answer.json();
    assert_eq!(envelope.as_object().unwrap().keys().collect::<Vec<_>>(), ["message", "result", "status"], "{query}");
    envelope
}

fn result(query: &str) -> Value {
    let envelope = envelope(query);
    assert_eq!((&envelope["status"], &envelope["message"]), (&json!("1"), &json!("OK")), "{query}: {envelope}");
    envelope["result"].clone()
}

fn refusal(query: &str) -> String {
    let envelope = envelope(query);
    assert_eq!((&envelope["status"], &envelope["message"]), (&json!("0"), &json!("NOTOK")), "{query}: {envelope}");
    envelope["result"].as_str().unwrap().to_owned()
}

#[test]
fn transactions_have_etherscan_fields() {
    let found =
        result(&format!("module=account&action=txlist&address={ALICE}&startblock=0&endblock=99999999&sort=asc&apikey=none"));
    assert_eq!(found.as_array().unwrap().len() as u64, 5 + 3 * PLAIN);
    let expected = json!({
        "blockNumber": "2",
        "timeStamp": "1700000001",
        "hash": transaction_hash(2, 1),
        "nonce": "201",
        "blockHash": chain::hash(2),
        "transactionIndex": "1",
        "from": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
        "to": format!("{GOLD:#x}"),
        "value": "0",
        "gas": "90000",
        "gasPrice": "1000000007",
        "isError": "0",
        "txreceipt_status": "1",
        "input": found[3]["input"],
        "contractAddress": "",
        "cumulativeGasUsed": "100000",
        "gasUsed": "50000",
        "confirmations": "40",
        "methodId": "0xa9059cbb",
        "functionName": "transfer",
    });
    assert_eq!(found[3], expected);
    assert_eq!(found[0]["contractAddress"], json!(format!("{GOLD:#x}")), "made by it");
    assert_eq!(found[0]["to"], "");
    let newest = result(&format!("module=account&action=txlist&address={ALICE}&sort=desc&page=1&offset=1"));
    assert_eq!(newest[0]["hash"], json!(transaction_hash(2 + PLAIN, 2)));
    let failed = result(&format!("module=account&action=txlist&address={BOB}&startblock=2&endblock=2"));
    assert_eq!((&failed[0]["isError"], &failed[0]["txreceipt_status"]), (&json!("1"), &json!("0")));
}

#[test]
fn token_transfer_is_not_in_txlist() {
    let found = result(&format!("module=account&action=txlist&address={BOB}&startblock=2&endblock=2"));
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
}

#[test]
fn pages_are_consecutive() {
    for action in ["txlist", "tokentx"] {
        for sort in ["asc", "desc"] {
            let query = format!("module=account&action={action}&address={ALICE}&sort={sort}");
            let whole = result(&query);
            let whole = whole.as_array().unwrap();
            let mut pages = Vec::new();
            for page in 1.. {
                let found = envelope(&format!("{query}&page={page}&offset=7"));
                if found["status"] == "0" {
                    assert_eq!(found["message"], "No transactions found");
                    break;
                }
                pages.extend(found["result"].as_array().unwrap().iter().cloned());
            }
            assert_eq!(&pages, whole, "{query}");
        }
    }
    let zero = result(&format!("module=account&action=txlist&address={ALICE}&page=0&offset=0"));
    assert_eq!(zero.as_array().unwrap().len() as u64, 5 + 3 * PLAIN, "0 is as usual");
    let far = refusal(&format!("module=account&action=txlist&address={ALICE}&page=11&offset=1000"));
    assert_eq!(far, "Result window is too large, PageNo x Offset size must be less than or equal to 10000");
    let wide = refusal(&format!("module=account&action=txlist&address={ALICE}&page=1&offset=1001"));
    assert_eq!(wide, "Result window is too large, Offset size must be less than or equal to 1000");
    let blocks = result(&format!("module=account&action=txlist&address={ALICE}&startblock=10&endblock=11"));
    assert_eq!(blocks.as_array().unwrap().len(), 6, "both ends are in it");
    for odd in ["page=18446744073709551615&offset=1000", "startblock=18446744073709551615", "endblock=18446744073709551615"] {
        envelope(&format!("module=account&action=txlist&address={ALICE}&{odd}"));
    }
}

#[test]
fn pages_of_long_history_are_complete() {
    let mut hashes = std::collections::BTreeSet::new();
    for page in [1, 3, 10] {
        let query = format!("/api?module=account&action=txlist&address={ALICE}&sort=desc&offset=1000&page={page}");
        let found = LONG.ask(&query);
        let found = found["result"].as_array().unwrap();
        assert_eq!(found.len(), 1_000, "page {page}");
        assert_eq!(found[0]["blockNumber"], (51 - page).to_string(), "page {page}");
        hashes.extend(found.iter().map(|transaction| transaction["hash"].to_string()));
    }
    assert_eq!(hashes.len(), 3_000);
    // Alice sent all of them; Bob transferred no token in any.
    let none = LONG.ask(&format!("/api?module=account&action=tokentx&address={BOB}"));
    assert_eq!(none["message"], "No transactions found");
}

#[test]
fn transfers_are_filtered_by_standard() {
    let gold = result(&format!("module=account&action=tokentx&address={BOB}&contractaddress={GOLD}&sort=asc"));
    assert_eq!(gold.as_array().unwrap().len() as u64, 1 + PLAIN);
    assert_eq!((&gold[0]["value"], &gold[0]["tokenSymbol"]), (&json!("5000000000000000000"), &json!("GLD")));
    assert_eq!((&gold[0]["tokenDecimal"], &gold[0]["input"]), (&json!("18"), &json!("deprecated")));
    let all = result(&format!("module=account&action=tokentx&contractaddress={GOLD}"));
    assert_eq!(all.as_array().unwrap().len() as u64, 2 + PLAIN);
    let art = result(&format!("module=account&action=tokennfttx&address={BOB}"));
    assert_eq!((art.as_array().unwrap().len(), &art[0]["tokenID"]), (1, &json!("3")));
    let items = result(&format!("module=account&action=token1155tx&contractaddress={ITEMS}"));
    assert_eq!((&items[0]["tokenID"], &items[0]["tokenValue"]), (&json!("1"), &json!("5")));
    let none = envelope(&format!("module=account&action=tokentx&contractaddress={ART}"));
    assert_eq!(none, json!({"status": "0", "message": "No transactions found", "result": []}));
}

#[test]
fn internal_transactions_can_transfer_value() {
    let by_account = result(&format!("module=account&action=txlistinternal&address={BOB}"));
    let by_transaction = result(&format!("module=account&action=txlistinternal&txhash={}", transaction_hash(2, 0)));
    assert_eq!(by_account, by_transaction);
    let kinds: Vec<_> = by_account.as_array().unwrap().iter().map(|call| call["type"].clone()).collect();
    assert_eq!(kinds, ["call", "create", "call"]);
    assert_eq!((&by_account[1]["to"], &by_account[1]["contractAddress"]), (&json!(""), &json!(format!("{BOB:#x}"))));
    assert_eq!((&by_account[2]["isError"], &by_account[2]["errCode"]), (&json!("1"), &json!("out of gas")));
}

#[test]
fn internal_transactions_are_paginated_in_both_directions() {
    let query = format!("module=account&action=txlistinternal&txhash={}", transaction_hash(2, 0));
    let kinds = |query: &str| -> Vec<Value> {
        result(query).as_array().unwrap().iter().map(|call| json!([call["type"], call["traceId"]])).collect()
    };
    let all = kinds(&query);
    assert_eq!(all, [json!(["call", "0"]), json!(["create", "2"]), json!(["call", "4"])]);
    assert_eq!(kinds(&format!("{query}&sort=desc")), [all[2].clone(), all[1].clone(), all[0].clone()]);
    assert_eq!(kinds(&format!("{query}&offset=1&page=2")), [all[1].clone()]);
    assert_eq!(kinds(&format!("{query}&offset=2&page=2")), [all[2].clone()]);
    assert_eq!(envelope(&format!("{query}&offset=3&page=2"))["message"], "No transactions found");
}

#[test]
fn calls_without_value_do_not_hide_others() {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, true);
    let columns =
        &["place", "transaction_place", "depth", "kind", "sender", "recipient", "value", "selector", "gas_used", "error"];
    let mut calls = Rows::new("calls", columns);
    for position in 0..=10_000_u64 {
        let kind = if position == 10_000 { "CALL" } else { "STATICCALL" };
        calls.push([
            Place::new(2, 100 + position).into(),
            Place::new(2, 1).into(),
            1_u64.into(),
            kind.to_owned().into(),
            GOLD.into(),
            BOB.into(),
            U256::ZERO.into(),
            None::<Vec<u8>>.into(),
            700_u64.into(),
            None::<String>.into(),
        ]);
    }
    write(&explorer, calls);
    let found = explorer.ask(&format!("/api?module=account&action=txlistinternal&txhash={}", transaction_hash(2, 1)));
    assert_eq!(found["result"].as_array().unwrap().len(), 1, "{found}");
}

fn write(explorer: &Explorer, rows: Rows) {
    explorer.runtime.block_on(async {
        let mut writer = explorer.app.database.writer().await.unwrap();
        rows.write(&mut writer).await.unwrap();
    });
}

/// Logs of an account without transactions of its own: all rows are scanned, and none matches.
#[test]
fn longest_scannable_history_is_returned() {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    let logged = |places: std::ops::Range<u64>| {
        let mut activity = Rows::new("activity", &["address", "place", "roles"]);
        places.for_each(|at| activity.push([GOLD.into(), Place::new(at / 1_000, at % 1_000).into(), 8_u64.into()]));
        activity
    };
    let query = format!("/api?module=account&action=txlist&address={GOLD}");
    // The scan for the second page ends exactly at the limit.
    let queries = [query.clone(), format!("{query}&page=2&offset=1000")];
    write(&explorer, logged(0..50_000));
    for query in &queries {
        assert_eq!(explorer.ask(query)["message"], "No transactions found", "{query}");
    }
    write(&explorer, logged(50_000..50_001));
    for query in &queries {
        let refused = explorer.ask(query);
        assert_eq!(refused["result"], "Query Timeout occured. Please select a smaller result dataset", "{query}: {refused}");
    }
}

#[test]
fn balances_come_from_the_node() {
    assert_eq!(result(&format!("module=account&action=balance&address={ALICE}&tag=latest")), "1000000000000000000");
    let several = result(&format!("module=account&action=balancemulti&address={ALICE},{BOB}"));
    assert_eq!(several[1], json!({"account": BOB.to_string(), "balance": "1000000000000000000"}));
    let many = vec![ALICE.to_string(); 21].join(",");
    assert_eq!(refusal(&format!("module=account&action=balancemulti&address={many}")), "Error! At most 20 addresses");
    assert_eq!(refusal("module=account&action=balance&address=0x12"), "Error! Invalid address format");
    assert!(refusal(&format!("module=account&action=balance&address={ALICE}&tag=earliest")).contains("latest"));
    let query = format!("module=account&action=tokenbalance&contractaddress={ITEMS}&address={BOB}&tag=latest");
    assert_eq!(result(&query), "45");
}

#[test]
fn source_code_is_never_verified() {
    let abi = result(&format!("module=contract&action=getabi&address={GOLD}"));
    let abi: Value = serde_json::from_str(abi.as_str().unwrap()).unwrap();
    assert_eq!(abi.as_array().unwrap().len(), 2);
    assert_eq!(refusal(&format!("module=contract&action=getabi&address={ART}")), "Contract source code not verified");
    let source = result(&format!("module=contract&action=getsourcecode&address={GOLD}"));
    assert_eq!((&source[0]["SourceCode"], &source[0]["Proxy"]), (&json!(""), &json!("0")));
    assert_ne!(source[0]["ABI"], "Contract source code not verified");
    let source = result(&format!("module=contract&action=getsourcecode&address={BOB}"));
    assert_eq!(source[0]["ABI"], "Contract source code not verified");

    let form =
        format!("apikey=x&module=contract&action=verifysourcecode&contractaddress={GOLD}&sourceCode={}", "a".repeat(200_000));
    let refused = EXPLORER.post("/api", &form).json();
    assert_eq!((&refused["status"], &refused["message"]), (&json!("0"), &json!("NOTOK")));
    let told = refused["result"].as_str().unwrap();
    let command = format!("corniche contract verify {GOLD}");
    assert!(told.starts_with("This explorer does not verify source code") && told.contains(&command), "{told}");
    // The contract's page shows the same command, and the account's page links to it.
    assert!(EXPLORER.get(&format!("/address/{GOLD}/code")).text.contains(&format!("<code>{command}</code>")));
    assert!(EXPLORER.get(&format!("/address/{GOLD}")).text.contains(&format!("/address/{GOLD}/code#source")));
    assert!(refusal("module=contract&action=verifysourcecode").contains("corniche contract verify ADDRESS`"));
    assert_eq!(
        refusal("module=contract&action=verifysourcecode&contractaddress=%3Cscript%3E"),
        "Error! Invalid address format"
    );
    let refused = EXPLORER.post("/api?module=contract&action=checkverifystatus", "guid=abc").json();
    assert_eq!(refused["result"], "Fail - Unable to verify", "tools compare these words");
    let made = result(&format!("module=contract&action=getcontractcreation&contractaddresses={GOLD},{BOB}"));
    let maker = format!("{ALICE:#x}");
    let expected =
        json!([{"contractAddress": format!("{GOLD:#x}"), "contractCreator": maker, "txHash": transaction_hash(1, 0)}]);
    assert_eq!(made, expected);
}

#[test]
fn receipt_status_is_one_zero_or_empty() {
    let status = |action: &str, hash| format!("module=transaction&action={action}&txhash={hash}");
    assert_eq!(result(&status("gettxreceiptstatus", transaction_hash(2, 0))), json!({"status": "1"}));
    assert_eq!(result(&status("gettxreceiptstatus", transaction_hash(2, 3))), json!({"status": "0"}));
    assert_eq!(result(&status("gettxreceiptstatus", chain::hash(7))), json!({"status": ""}));
    assert_eq!(result(&status("getstatus", transaction_hash(2, 0))), json!({"isError": "0", "errDescription": ""}));
    assert_eq!(result(&status("getstatus", transaction_hash(2, 3)))["isError"], "1");
    assert!(refusal(&status("getstatus", chain::hash(7))).starts_with("Error!"));
}

#[test]
fn blocks_are_found_by_time() {
    let begin = BEGIN_MS / 1_000;
    let block =
        |seconds: u64, closest: &str| format!("module=block&action=getblocknobytime&timestamp={seconds}&closest={closest}");
    assert_eq!(result(&block(begin + 2, "before")), "5", "two blocks a second, and the second's last");
    assert_eq!(result(&block(begin + 2, "after")), "4");
    assert_eq!(result(&block(begin + 9_999, "before")), (2 + PLAIN).to_string());
    assert_eq!(refusal(&block(begin - 1, "before")), "Error! No closest block found");
    assert_eq!(refusal(&block(begin + 9_999, "after")), "Error! No closest block found");
    assert_eq!(refusal(&block(u64::MAX, "after")), "Error! No closest block found");
    assert!(refusal("module=block&action=getblocknobytime").contains("timestamp"));
    let supply = result(&format!("module=stats&action=tokensupply&contractaddress={GOLD}"));
    assert_eq!(supply, "1000000000000000000000");
}

#[test]
fn unknown_action_has_etherscan_error() {
    assert_eq!(refusal("module=nothing&action=txlist"), "Error! Missing Or invalid Module name");
    assert_eq!(refusal("module=account&action=nothing"), "Error! Missing Or invalid Action name");
    assert_eq!(refusal("module=account"), "Error! Missing Or invalid Action name");
    assert_eq!(refusal("action=txlist"), "Error! Missing Or invalid Module name");
}

#[test]
fn documentation_shares_the_url() {
    assert!(EXPLORER.get_as("/api", "text/html").text.contains("<h1>API</h1>"));
    assert!(EXPLORER.get("/api").text.contains("<h1>API</h1>"), "who does not say gets the page");
    let tool = EXPLORER.get_as("/api", "application/json").json();
    assert_eq!(tool["result"], "Error! Missing Or invalid Module name");
}
