//! Requests of test tools to a development chain, over a real socket: mining and time on demand, snapshots,
//! changes of accounts, unsigned transactions.

mod common;

use common::Node;
use corniche_types::Bytes;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpStream,
};

impl Node {
    fn error(&self, method: &str, params: Value) -> (i64, String) {
        let error = self.answer(method, &params)["error"].clone();
        (error["code"].as_i64().unwrap_or_default(), error["message"].as_str().unwrap_or_default().to_owned())
    }

    fn number(&self, method: &str, params: Value) -> u64 {
        quantity(&self.call(method, params))
    }

    fn height(&self) -> u64 {
        self.number("eth_blockNumber", json!([]))
    }

    fn time(&self, height: u64) -> u64 {
        quantity(&self.call("eth_getBlockByNumber", json!([format!("{height:#x}"), false]))["timestamp"])
    }

    fn accounts(&self) -> Vec<String> {
        let accounts = self.call("eth_accounts", json!([]));
        accounts.as_array().unwrap().iter().map(|account| account.as_str().unwrap().to_owned()).collect()
    }

    /// Sends one wei, and waits for the receipt.
    fn pay(&self, from: &str, to: &str) -> Value {
        let hash = self.call("eth_sendTransaction", json!([{"from": from, "to": to, "value": "0x1"}]));
        self.receipt(&hash)
    }

    fn receipt(&self, hash: &Value) -> Value {
        self.look_for_receipt(hash).expect("a receipt")
    }

    fn look_for_receipt(&self, hash: &Value) -> Option<Value> {
        // Each poll is a request, so this waits without a clock; the number of polls is bounded.
        let look = || Some(self.call("eth_getTransactionReceipt", json!([hash]))).filter(Value::is_object);
        (0..20_000).find_map(|_| look())
    }
}

fn quantity(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

const NOBODY: &str = "0x00000000000000000000000000000000000000aa";
const STRANGER: &str = "0x1111111111111111111111111111111111111111";

#[test]
fn blocks_are_mined_on_request() {
    let node = Node::start(&[]);
    let before = node.height();
    assert_eq!(node.call("evm_mine", json!([])), json!("0x0"));
    assert_eq!(node.height(), before + 1);
    assert_eq!(node.call("hardhat_mine", json!(["0x5", "0x3c"])), json!(true));
    assert_eq!(node.height(), before + 6);
    let times: Vec<u64> = (before + 2..=before + 6).map(|height| node.time(height)).collect();
    assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 60), "{times:?}");
    assert_eq!(node.call("anvil_mine", json!([3])), Value::Null);
    assert_eq!(node.height(), before + 9);
    node.call("evm_mine", json!([{"blocks": 2}]));
    assert_eq!(node.height(), before + 11);
    // More than one batch holds.
    node.call("hardhat_mine", json!(["0x4e2"]));
    assert_eq!(node.height(), before + 11 + 1_250);
    let (code, message) = node.error("hardhat_mine", json!(["0x2711"]));
    assert_eq!((code, message.as_str()), (-32000, "cannot do that: at most 10000 blocks at once, got 10001"));

    let time = node.time(node.height());
    node.call("evm_setNextBlockTimestamp", json!([time + 1_000]));
    let payer = &node.accounts()[0];
    let height = quantity(&node.pay(payer, NOBODY)["blockNumber"]);
    assert_eq!(node.time(height), time + 1_000, "of a transaction's block, too");
    assert_eq!(node.call("evm_increaseTime", json!(["0xe10"])), json!(3_600));
    node.call("evm_mine", json!([]));
    assert!((time + 4_600..time + 4_700).contains(&node.time(node.height())));
    node.call("evm_mine", json!([time + 9_000]));
    assert_eq!(node.time(node.height()), time + 9_000);
    let (code, message) = node.error("evm_setNextBlockTimestamp", json!([time]));
    assert_eq!(code, -32000);
    assert!(message.ends_with("the timestamp is before that of the previous block"), "{message}");
}

/// Head and body of a page.
fn get(host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_have_their_own_port() {
    let node = Node::start(&[]);
    let [rpc, metrics] = ["rpc", "metrics"].map(|name| node.says[name].as_str().unwrap().trim_start_matches("http://"));
    let text = get(metrics.trim_end_matches("/metrics"), "/metrics");
    for name in ["corniche_head_height ", "corniche_rpc_connections ", "corniche_engine_info{"] {
        assert!(text.contains(&format!("\n{name}")), "{name} in {text}");
    }
    assert!(get(rpc, "/metrics").starts_with("HTTP/1.1 404 "));
}

#[test]
fn single_node_has_no_peers() {
    let node = Node::start(&[]);
    let told = node.call("corniche_getPeers", json!([]));
    let own = &node.call("corniche_getValidators", json!([]))["validators"][0];
    assert_eq!(told["peers"], json!([]));
    assert_eq!(told["own"]["version"], json!(concat!("corniche/", env!("CARGO_PKG_VERSION"))));
    for (name, of_validator) in [("validator", "index"), ("networkKey", "networkKey"), ("feeAddress", "feeAddress")] {
        assert_eq!(told["own"][name], own[of_validator], "{name}");
    }
    assert!(told["own"]["peerId"].as_str().unwrap().starts_with("12D3Koo"), "{told}");
}

#[test]
fn manual_mining_keeps_transactions_pending() {
    let node = Node::start(&[]);
    node.call("evm_setAutomine", json!([false]));
    assert_eq!(node.call("hardhat_getAutomine", json!([])), json!(false));
    let accounts = node.accounts();
    let sent: Vec<Value> = (0..3)
        .map(|_| node.call("eth_sendTransaction", json!([{"from": accounts[0], "to": NOBODY, "gas": "0x5208"}])))
        .collect();
    let snapshot = node.height();
    // A setter makes its own block and takes none of them.
    node.call("hardhat_setBalance", json!([NOBODY, "0x7"]));
    assert!(sent.iter().all(|hash| node.call("eth_getTransactionReceipt", json!([hash])).is_null()));
    node.call("evm_mine", json!([]));
    let heights: Vec<u64> = sent.iter().map(|hash| quantity(&node.receipt(hash)["blockNumber"])).collect();
    assert_eq!(heights, vec![snapshot + 2; 3], "all in one block");
    // Interval mining takes all waiting transactions.
    node.call("evm_setIntervalMining", json!([20]));
    node.pay(&accounts[1], NOBODY);
}

#[test]
fn set_accounts_survive_restart() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    let slot = format!("0x{:064x}", 5);
    let value = format!("0x{:064x}", 9);
    // Any valid module.
    let code = "0x0061736d01000000";
    for prefix in ["hardhat", "anvil"] {
        let done = |result: Value| assert_eq!(result, if prefix == "hardhat" { json!(true) } else { Value::Null });
        done(node.call(&format!("{prefix}_setBalance"), json!([STRANGER, "0xde0b6b3a7640000"])));
        done(node.call(&format!("{prefix}_setNonce"), json!([STRANGER, "0x5"])));
        done(node.call(&format!("{prefix}_setStorageAt"), json!([NOBODY, "0x5", value])));
    }
    let refused = node.error("hardhat_setCode", json!([NOBODY, "0x6001600255"]));
    assert!(refused.0 == -32602 && refused.1.contains("no WebAssembly"), "EVM code: {refused:?}");
    let with_code = node.answer("hardhat_setCode", &json!([NOBODY, code]));
    let is_set = with_code.get("error").is_none();
    node.call("evm_increaseTime", json!([86_400]));
    node.call("evm_mine", json!([]));
    let (height, time) = (node.height(), node.time(node.height()));
    let look = |node: &Node| {
        assert_eq!(node.number("eth_getBalance", json!([STRANGER, "latest"])), 1_000_000_000_000_000_000);
        assert_eq!(node.number("eth_getTransactionCount", json!([STRANGER, "latest"])), 5);
        assert_eq!(node.call("eth_getStorageAt", json!([NOBODY, slot, "latest"])), json!(value));
        if is_set {
            assert_eq!(node.call("eth_getCode", json!([NOBODY, "latest"])), json!(code));
        }
    };
    look(&node);
    let chain_id = node.says["chainId"].clone();
    drop(node);
    let node = Node::on(directory.path());
    look(&node);
    assert_eq!((node.height(), &node.says["chainId"]), (height, &chain_id));
    node.call("evm_mine", json!([]));
    let next = node.time(node.height());
    assert!((time..time + 600).contains(&next), "its clock is still ahead: {next}, before {time}");
    assert_ne!(Node::start(&[]).says["chainId"], chain_id, "another chain has another id");
}

#[test]
fn revert_to_snapshot_continues() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    let accounts = node.accounts();
    node.pay(&accounts[0], NOBODY);
    let (snapshot, mut height) = (node.call("evm_snapshot", json!([])), node.height());
    let newest = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let filter = node.call("eth_newBlockFilter", json!([]));
    let later = node.call("evm_snapshot", json!([]));
    let gone: Vec<Value> = (0..3).map(|_| node.pay(&accounts[0], NOBODY)).collect();
    node.call("hardhat_setBalance", json!([STRANGER, "0x5"]));
    node.call("evm_increaseTime", json!([1_000_000]));
    node.call("evm_mine", json!([]));
    // A transaction behind a nonce gap is dropped too.
    let waiting = json!([{"from": accounts[1], "to": NOBODY, "nonce": "0x9", "gas": "0x5208"}]);
    let waiting = node.call("eth_sendTransaction", waiting);
    assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));

    let look = |node: &Node| {
        assert_eq!(node.height(), height);
        assert_eq!(node.call("eth_getBlockByNumber", json!(["latest", false])), newest);
        assert_eq!(node.number("eth_getBalance", json!([NOBODY, "latest"])), 1);
        assert_eq!(node.number("eth_getBalance", json!([STRANGER, "latest"])), 0);
        assert_eq!(node.number("eth_getTransactionCount", json!([accounts[0], "pending"])), 1);
        let hashes = gone.iter().map(|receipt| &receipt["transactionHash"]).chain([&waiting]);
        assert!(hashes.into_iter().all(|hash| node.call("eth_getTransactionByHash", json!([hash])).is_null()));
        assert!(node.call("eth_getBlockByHash", json!([gone[0]["blockHash"], false])).is_null());
    };
    look(&node);
    let old = node.call("eth_getFilterChanges", json!([filter]));
    assert_eq!(old, json!([]), "what it was not told of and is gone");
    assert_eq!(node.call("evm_revert", json!([later])), json!(false), "it came after");
    assert_eq!(node.call("evm_revert", json!([snapshot])), json!(false), "it was used");

    // After a restart the chain is still the shorter one.
    drop(node);
    let node = Node::on(directory.path());
    look(&node);
    for round in 0..3 {
        let snapshot = node.call("evm_snapshot", json!([]));
        let receipt = node.pay(&accounts[0], STRANGER);
        assert_eq!(quantity(&receipt["blockNumber"]), height + 1, "round {round}");
        let mined = node.call("evm_mine", json!([]));
        assert_eq!(mined, json!("0x0"));
        assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
        assert_eq!(node.height(), height);
    }
    // Transactions sent without waiting are reverted too, ordered or not.
    for _ in 0..10 {
        let snapshot = node.call("evm_snapshot", json!([]));
        let sent = node.call("eth_sendTransaction", json!([{"from": accounts[0], "to": NOBODY, "gas": "0x5208"}]));
        assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
        node.call("evm_mine", json!([]));
        assert_eq!((node.height(), node.call("eth_getTransactionReceipt", json!([sent]))), (height + 1, Value::Null));
        let empty = node.call("eth_getBlockByNumber", json!(["latest", false]));
        assert_eq!(empty["transactions"], json!([]));
        height += 1;
    }
    let receipt = node.pay(&accounts[0], STRANGER);
    assert_eq!(receipt["status"], json!("0x1"));
    let finalized = || quantity(&node.call("eth_getBlockByNumber", json!(["finalized", false]))["number"]);
    assert!((0..20_000).any(|_| finalized() == height + 1), "blocks are certified again");
}

#[test]
fn arrival_times_after_revert() {
    let node = Node::start(&[]);
    let accounts = node.accounts();
    let receipt = node.pay(&accounts[0], NOBODY);
    let status = || node.call("corniche_getTransactionStatus", json!([receipt["transactionHash"]]));
    let told = status();
    assert_eq!(told["blockHash"], receipt["blockHash"]);
    assert!(told["receivedMs"].is_string() && told["leftMs"].is_null(), "{told}");
    let snapshot = node.call("evm_snapshot", json!([]));
    let later = node.pay(&accounts[0], NOBODY);
    assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
    assert_eq!(status()["receivedMs"], told["receivedMs"]);
    assert!(node.call("corniche_getTransactionStatus", json!([later["transactionHash"]])).is_null());
}

/// `evm_revert` also restores the clock, its settings and the pool, as in hardhat.
#[test]
fn snapshot_restores_clock_and_pool() {
    let node = Node::start(&[]);
    let accounts = node.accounts();
    let mine = |node: &Node| {
        node.call("evm_mine", json!([]));
        node.time(node.height())
    };
    // A clock set ahead without a block, and the next block's time.
    assert_eq!(node.call("evm_increaseTime", json!([100_000])), json!(100_000));
    let ahead = mine(&node);
    node.call("evm_increaseTime", json!([50_000]));
    let snapshot = node.call("evm_snapshot", json!([]));
    node.call("evm_increaseTime", json!([7_000_000]));
    assert!(mine(&node) >= ahead + 7_050_000);
    assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
    let snapshot = node.call("evm_snapshot", json!([]));
    assert!((ahead + 50_000..ahead + 60_000).contains(&mine(&node)), "as far ahead as it was");
    assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
    assert_eq!(node.call("evm_increaseTime", json!([1])), json!(150_001), "and so is what it was set ahead by");
    let next = ahead + 500_000;
    node.call("evm_setNextBlockTimestamp", json!([next]));
    let snapshot = node.call("evm_snapshot", json!([]));
    assert_eq!(mine(&node), next);
    assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
    assert_eq!(mine(&node), next);
    // A clock that was not set continues from the snapshot's time, without the time that passed since.
    let behind = node.call("evm_snapshot", json!([]));
    node.call("evm_setNextBlockTimestamp", json!([next + 9_000_000]));
    mine(&node);
    assert_eq!(node.call("evm_revert", json!([behind])), json!(true));
    assert!((next..next + 1_000).contains(&mine(&node)));

    // Transactions that waited for a block wait again.
    node.call("evm_setAutomine", json!([false]));
    let send = |nonce: u64, to: &str| {
        let nonce = format!("{nonce:#x}");
        node.call(
            "eth_sendTransaction",
            json!([{"from": accounts[3], "to": to, "value": "0x1", "gas": "0x5208", "nonce": nonce}]),
        )
    };
    let (waits, behind_a_gap) = (send(0, NOBODY), send(2, NOBODY));
    let snapshot = node.call("evm_snapshot", json!([]));
    let later = send(1, NOBODY);
    mine(&node);
    assert!(node.receipt(&later).is_object());
    assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
    assert_eq!(node.call("hardhat_getAutomine", json!([])), json!(false));
    let known = |hash: &Value| node.call("eth_getTransactionByHash", json!([hash])).is_object();
    assert_eq!([&waits, &behind_a_gap, &later].map(known), [true, true, false]);
    assert_eq!(node.call("txpool_status", json!([])), json!({"pending": "0x1", "queued": "0x1"}));
    mine(&node);
    assert_eq!(node.receipt(&waits)["status"], json!("0x1"));
    assert!(node.call("eth_getTransactionReceipt", json!([behind_a_gap])).is_null());
}

/// A snapshot taken while blocks are in progress includes them; old states are available after a revert as
/// before.
#[test]
fn snapshot_follows_sent_transactions() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    let accounts = node.accounts();
    let balance = |node: &Node, height: u64| node.number("eth_getBalance", json!([NOBODY, format!("{height:#x}")]));
    let first = quantity(&node.pay(&accounts[0], NOBODY)["blockNumber"]);
    // Enough blocks for the checkpoint on disk to move over them.
    node.call("hardhat_mine", json!(["0x400"]));
    for round in 0..3 {
        let sent: Vec<Value> = (0..5)
            .map(|_| {
                node.call("eth_sendTransaction", json!([{"from": accounts[1], "to": NOBODY, "value": "0x1", "gas": "0x5208"}]))
            })
            .collect();
        let snapshot = node.call("evm_snapshot", json!([]));
        let height = node.height();
        assert!(sent.iter().all(|hash| node.call("eth_getTransactionReceipt", json!([hash])).is_object()), "round {round}");
        node.call("hardhat_mine", json!(["0x400"]));
        node.pay(&accounts[2], NOBODY);
        assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
        assert_eq!((node.height(), balance(&node, height)), (height, 6 + round * 5));
        assert_eq!((balance(&node, first), balance(&node, first - 1)), (1, 0), "round {round}: old states");
    }
    let (height, newest) = (node.height(), node.call("eth_getBlockByNumber", json!(["latest", false])));
    drop(node);
    let node = Node::on(directory.path());
    assert_eq!((node.height(), node.call("eth_getBlockByNumber", json!(["latest", false]))), (height, newest));
    assert_eq!(node.number("eth_getBalance", json!([NOBODY, "latest"])), 16);
    assert_eq!(quantity(&node.pay(&accounts[1], NOBODY)["blockNumber"]), height + 1);
}

/// On such a chain there is always something in progress, but there are quiet moments.
#[test]
fn snapshot_does_not_wait_for_new_transactions() {
    let node = Node::start(&[]);
    let accounts = node.accounts();
    node.call("evm_setIntervalMining", json!([1]));
    for _ in 0..5 {
        let snapshot = node.call("evm_snapshot", json!([]));
        node.pay(&accounts[0], NOBODY);
        assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
    }
    let height = node.height();
    assert!((0..20_000).any(|_| node.height() > height), "blocks come by themselves again");
    node.call("evm_setIntervalMining", json!([0]));
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for from in &accounts[1..4] {
            let (node, over) = (&node, &over);
            scope.spawn(move || {
                let payment = json!([{"from": from, "to": NOBODY, "value": "0x1", "gas": "0x5208"}]);
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    // Refused if the chain reverts meanwhile.
                    node.answer("eth_sendTransaction", &payment);
                }
            });
        }
        for round in 0..5 {
            let snapshot = node.call("evm_snapshot", json!([]));
            if round % 2 == 0 {
                assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
            }
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(node.pay(&accounts[0], STRANGER)["status"], json!("0x1"));
}

#[test]
fn client_may_disconnect_during_revert() {
    let node = Node::start(&[]);
    let accounts = node.accounts();
    for round in 0..4 {
        let snapshot = json!([node.call("evm_snapshot", json!([]))]);
        // The revert has blocks to wait for.
        drop(node.ask("hardhat_mine", &json!(["0x7d0"])));
        let back = node.ask("evm_revert", &snapshot);
        // Each request gives the revert time to proceed.
        (0..round * 5).for_each(|_| _ = node.height());
        drop(back);
        // Runs after earlier requests, and blocks the chain only while it runs. But requests on different
        // connections have no order: a busy server may revert only now, and undo the payment. It does so at
        // most once.
        node.call("hardhat_setNonce", json!([STRANGER, "0x1"]));
        // The revert raises the base fee, which the mined blocks lowered, so the payment names a fee that suffices for both.
        let fees = json!({"from": accounts[0], "to": NOBODY, "value": "0x1", "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x1"});
        let pay = || node.call("eth_sendTransaction", json!([fees]));
        let receipt = (0..2).find_map(|_| node.look_for_receipt(&pay())).unwrap_or_default();
        assert_eq!(receipt["status"], json!("0x1"), "round {round}");
    }
}

#[test]
fn proofs_follow_reverts() {
    let node = Node::start(&[]);
    let accounts = node.accounts();
    let proof = |account: &str| node.call("eth_getProof", json!([account, [], "latest"]));
    node.pay(&accounts[0], NOBODY);
    let snapshot = node.call("evm_snapshot", json!([]));
    node.pay(&accounts[0], NOBODY);
    assert_eq!(proof(NOBODY)["balance"], json!("0x2"));
    assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
    // A block with the same height.
    node.pay(&accounts[1], STRANGER);
    let told = [NOBODY, STRANGER].map(|account| proof(account)["balance"].clone());
    assert_eq!(told, [json!("0x1"), json!("0x1")]);
    node.call("hardhat_reset", json!([]));
    node.pay(&accounts[1], STRANGER);
    assert_eq!(proof(NOBODY)["balance"], json!("0x0"));
}

#[test]
fn reset_restarts_at_genesis() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    let accounts = node.accounts();
    let genesis = node.call("eth_getBlockByNumber", json!(["0x0", false]));
    for (method, done) in [("hardhat_reset", json!(true)), ("anvil_reset", Value::Null)] {
        let snapshot = node.call("evm_snapshot", json!([]));
        node.call("evm_increaseTime", json!([1_000_000]));
        let paid = node.pay(&accounts[0], NOBODY);
        let ahead = node.time(quantity(&paid["blockNumber"]));
        node.call("evm_setAutomine", json!([false]));
        node.call("hardhat_impersonateAccount", json!([STRANGER]));
        node.call("eth_sendTransaction", json!([{"from": accounts[1], "to": NOBODY, "gas": "0x5208"}]));
        assert_eq!(node.call(method, json!([{"forking": {"blockNumber": null}}])), done);
        assert_eq!(node.call("eth_getBlockByNumber", json!(["latest", false])), genesis);
        assert_eq!(node.number("eth_getBalance", json!([NOBODY, "latest"])), 0);
        assert!(node.call("eth_getTransactionReceipt", json!([paid["transactionHash"]])).is_null());
        assert_eq!(node.call("txpool_status", json!([])), json!({"pending": "0x0", "queued": "0x0"}));
        assert_eq!(node.call("hardhat_getAutomine", json!([])), json!(true));
        assert_eq!(node.call("evm_revert", json!([snapshot])), json!(false));
        assert_eq!(node.error("eth_sendTransaction", json!([{"from": STRANGER, "to": NOBODY}])).0, -32000);
        assert_eq!(quantity(&node.pay(&accounts[0], NOBODY)["blockNumber"]), 1);
        assert!(node.time(1) < ahead, "the clock is that of now");
    }
    let fork = json!({"jsonRpcUrl": "http://localhost:1"});
    let forks = [json!({"forking": fork}), fork, json!({"forking": {"blockNumber": 3}}), json!({"blockNumber": "0x3"})];
    for (method, fork) in
        ["hardhat_reset", "anvil_reset"].into_iter().flat_map(|method| forks.iter().map(move |fork| (method, fork)))
    {
        let refused = node.error(method, json!([fork]));
        assert!(refused.0 == -32000 && refused.1.contains("forking is not supported"), "{fork}: {refused:?}");
        assert_eq!(node.height(), 1);
    }
    drop(node);
    // As after a reset that was killed at its end.
    let old = directory.path().join("data.old/blocks");
    std::fs::create_dir_all(&old).unwrap();
    let node = Node::on(directory.path());
    assert!(!old.exists());
    assert_eq!((node.height(), quantity(&node.pay(&accounts[0], NOBODY)["blockNumber"])), (1, 2));
}

/// A thread that outlives its chain would hold deleted files open, and its losses would be reported for the
/// new chain.
#[test]
fn reset_ends_old_trace_thread() {
    let node = Node::start(&[]);
    let tracing = || node.threads().iter().filter(|name| *name == "store-trace").count();
    // A thread sets its name a moment after its start, and is listed until a moment after its end. Each poll
    // is a request, so this waits without a clock.
    let is_traced_once = || (0..20_000).any(|_| quantity(&node.call("eth_chainId", json!([]))) > 0 && tracing() == 1);
    assert!(is_traced_once());
    for _ in 0..3 {
        node.call("anvil_reset", json!([]));
        node.pay(&node.accounts()[0], NOBODY);
    }
    assert!(is_traced_once(), "{:?}", node.threads());
}

#[test]
fn impersonation_and_node_accounts() {
    let node = Node::start(&[]);
    let accounts = node.accounts();
    assert_eq!(accounts.len(), 10);
    let (code, message) = node.error("eth_sendTransaction", json!([{"from": STRANGER, "to": NOBODY}]));
    assert_eq!((code, message.to_lowercase()), (-32000, format!("unknown account: {STRANGER}")));
    node.call("hardhat_setBalance", json!([STRANGER, "0xde0b6b3a7640000"]));
    node.call("hardhat_impersonateAccount", json!([STRANGER]));
    for more in [json!({}), json!({"gasPrice": "0x2540be400"}), json!({"maxFeePerGas": "0x2540be400"})] {
        let mut request = json!({"from": STRANGER, "to": NOBODY, "value": "0x3"});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let receipt = node.receipt(&node.call("eth_sendTransaction", json!([request])));
        assert_eq!((&receipt["status"], &receipt["from"]), (&json!("0x1"), &json!(STRANGER)));
        let transaction = node.call("eth_getTransactionByHash", json!([receipt["transactionHash"]]));
        assert_eq!((&transaction["from"], &transaction["value"]), (&json!(STRANGER), &json!("0x3")));
        let trace = node.call("debug_traceTransaction", json!([receipt["transactionHash"], {"tracer": "callTracer"}]));
        assert_eq!(trace["from"], json!(STRANGER));
    }
    assert_eq!(node.number("eth_getBalance", json!([NOBODY, "latest"])), 9);
    node.call("anvil_stopImpersonatingAccount", json!([STRANGER]));
    assert_eq!(node.error("eth_sendTransaction", json!([{"from": STRANGER, "to": NOBODY}])).0, -32000);
}

#[test]
fn next_block_settings_apply() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    let accounts = node.accounts();
    let block = |node: &Node| {
        let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
        (quantity(&block["baseFeePerGas"]), block["mixHash"].clone())
    };
    let randomness = json!(format!("0x{:064x}", 77));
    for (prefix, done, wei) in [("hardhat", json!(true), 50_000_000_000_u64), ("anvil", Value::Null, 0)] {
        let said = node.call(&format!("{prefix}_setNextBlockBaseFeePerGas"), json!([format!("{wei:#x}")]));
        assert_eq!((said, node.call("hardhat_setPrevRandao", json!([randomness]))), (done, json!(true)));
        let snapshot = node.call("evm_snapshot", json!([]));
        // A setter's own block does not use the settings of the next block.
        node.call("hardhat_setBalance", json!([STRANGER, "0x1"]));
        assert!(block(&node).0 != wei && block(&node).1 != randomness);
        for _ in 0..2 {
            assert_eq!(node.number("eth_baseFee", json!([])), wei);
            assert_eq!(node.call("anvil_nodeInfo", json!([]))["environment"]["baseFee"], json!(format!("{wei:#x}")));
            if wei > 0 {
                let cheap = json!([{"from": accounts[1], "to": NOBODY, "gas": "0x5208", "gasPrice": "0x77359400"}]);
                assert!(node.error("eth_sendTransaction", cheap).1.contains("less than block base fee"));
            }
            let receipt = node.pay(&accounts[0], NOBODY);
            assert_eq!(block(&node), (wei, randomness.clone()));
            assert!((wei..wei + 2_000_000_000).contains(&quantity(&receipt["effectiveGasPrice"])));
            let spent = quantity(&receipt["gasUsed"]) * quantity(&receipt["effectiveGasPrice"]);
            assert!(spent >= 21_000 * wei);
            node.call("evm_mine", json!([]));
            let (next, random) = block(&node);
            assert!(random != randomness && next != 0 && (next > 2_000_000_000) == (wei > 0), "{next} follows {wei}");
            // A revert restores the settings.
            node.call("evm_revert", json!([snapshot]));
        }
        node.pay(&accounts[0], NOBODY);
    }
    let newest = node.call("eth_getBlockByNumber", json!(["latest", false]));
    drop(node);
    let node = Node::on(directory.path());
    assert_eq!(node.call("eth_getBlockByNumber", json!(["latest", false])), newest);
}

#[test]
fn what_waits_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    let accounts = node.accounts();
    let send = |from: &str| node.call("eth_sendTransaction", json!([{"from": from, "to": NOBODY, "gas": "0x5208"}]));
    let pool = || {
        let status = node.call("txpool_status", json!([]));
        (quantity(&status["pending"]), quantity(&status["queued"]))
    };
    node.call("evm_setAutomine", json!([false]));
    let sent: Vec<Value> = (0..4).map(|_| send(&accounts[0])).collect();
    let other = send(&accounts[1]);
    assert_eq!(node.call("hardhat_dropTransaction", json!([sent[1]])), json!(true));
    assert_eq!(pool(), (2, 2), "what follows it waits for another");
    assert!(node.call("eth_getTransactionByHash", json!([sent[1]])).is_null());
    let status = node.call("corniche_getTransactionStatus", json!([sent[1]]));
    assert!(status.to_string().contains("dropped on request"), "{status}");
    assert_eq!(node.call("hardhat_dropTransaction", json!([sent[1]])), json!(false), "again");
    assert_eq!(node.call("anvil_dropTransaction", json!([sent[1]])), Value::Null);
    assert_eq!(node.call("anvil_dropTransaction", json!([sent[3]])), sent[3]);
    assert_eq!(send(&accounts[0]), sent[1], "it may come back");
    assert_eq!(pool(), (4, 0));
    assert_eq!(node.call("anvil_removePoolTransactions", json!([accounts[0]])), Value::Null);
    assert_eq!(pool(), (1, 0), "another's stays");
    node.call("evm_mine", json!([]));
    assert!(node.receipt(&other).is_object());
    let (code, message) = node.error("hardhat_dropTransaction", json!([other]));
    assert!(code == -32000 && message.contains("is in block"), "{message}");
    assert_eq!(node.call("anvil_dropTransaction", json!([other])), Value::Null);
    for account in &accounts[..3] {
        send(account);
    }
    assert_eq!(node.call("anvil_dropAllTransactions", json!([])), Value::Null);
    assert_eq!(pool(), (0, 0));
    // With automine it is either executed or dropped.
    node.call("evm_setAutomine", json!([true]));
    for round in 0..10 {
        let hash = send(&accounts[2]);
        let answer = node.answer("hardhat_dropTransaction", &json!([hash]));
        node.call("evm_mine", json!([]));
        let is_mined = node.call("eth_getTransactionReceipt", json!([hash])).is_object();
        assert_eq!(
            (answer.get("error").is_some(), answer["result"] == json!(true)),
            (is_mined, !is_mined),
            "{round}: {answer}"
        );
    }
    let height = node.height();
    drop(node);
    assert_eq!(Node::on(directory.path()).height(), height, "nothing comes back with a restart");
}

#[test]
fn client_version_and_metadata() {
    let node = Node::start(&["--chain-id", "31337"]);
    node.call("hardhat_mine", json!(["0x3"]));
    let newest = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let metadata = node.call("hardhat_metadata", json!([]));
    assert_eq!((&metadata["chainId"], &metadata["latestBlockNumber"]), (&json!(31_337), &json!(node.height())));
    assert_eq!(metadata["latestBlockHash"], newest["hash"]);
    assert_eq!(metadata["clientVersion"], node.call("web3_clientVersion", json!([])));
    let info = node.call("anvil_nodeInfo", json!([]));
    assert_eq!((&info["currentBlockNumber"], &info["currentBlockHash"]), (&newest["number"], &newest["hash"]));
    assert_eq!(info["currentBlockTimestamp"], json!(quantity(&newest["timestamp"])));
    assert_eq!(info["environment"]["gasLimit"], newest["gasLimit"]);
    let instance = || node.call("hardhat_metadata", json!([]))["instanceId"].clone();
    assert_eq!(instance(), metadata["instanceId"]);
    node.call("hardhat_reset", json!([]));
    assert_ne!(instance(), metadata["instanceId"]);
}

#[test]
fn console_output_is_logged_with_request() {
    let (node, mut lines) = Node::overheard();
    let from = &node.accounts()[0];
    let module = wat::parse_str(
        r#"(module (import "console" "log_txt" (func $log (param i32 i32))) (memory (export "memory") 1) (data (i32.const 0) "hello\0athere")
            (func (export "user_entrypoint") (param i32) (result i32) (call $log (i32.const 0) (i32.const 11)) (local.get 0)))"#,
    );
    let code = Bytes::from(module.unwrap());
    let created = node.receipt(&node.call("eth_sendTransaction", json!([{"from": from, "data": code}])));
    let contract = created["contractAddress"].as_str().unwrap();
    let sent = node.call("eth_sendTransaction", json!([{"from": from, "to": contract}]));
    assert_eq!(node.receipt(&sent)["status"], json!("0x1"));
    let line = lines.find(|line| line.contains('»')).unwrap();
    assert_eq!(line.to_lowercase(), format!("{} {contract} » hello there", sent.as_str().unwrap()), "as one line");
    // Calls print too, and so do failing estimates; a successful estimate is followed by the transaction.
    let request = |data: &str| json!([{"from": from, "to": contract, "data": data}, "latest"]);
    node.call("eth_estimateGas", request("0x"));
    node.call("eth_call", request("0x"));
    node.error("eth_estimateGas", request("0x01"));
    for method in ["eth_call", "eth_estimateGas"] {
        let line = lines.find(|line| line.contains('»')).unwrap();
        assert_eq!(line.to_lowercase(), format!("{} {contract} » hello there", method.to_lowercase()));
    }
}

/// As in hardhat and anvil. It needs an unsigned transaction; other chains accept none, so they have nothing to refuse.
#[test]
fn impersonated_contract_sends() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    // Contract in every genesis.
    let contract = "0xca11bde05977b3631167028862be2a173976ca11";
    let code = node.call("eth_getCode", json!([contract, "latest"]));
    assert_ne!(code, json!("0x"));
    let nonce = node.number("eth_getTransactionCount", json!([contract, "latest"]));
    node.call("hardhat_setBalance", json!([contract, "0xde0b6b3a7640000"]));
    let request = |to: &str, data: &str| {
        let value = if to == NOBODY { "0x2" } else { "0x0" };
        json!([{"from": contract, "to": to, "value": value, "data": data}])
    };
    assert_eq!(node.error("eth_sendTransaction", request(NOBODY, "0x")).0, -32000, "nobody said so");
    node.call("hardhat_impersonateAccount", json!([contract]));
    // To an account, and to itself: getBlockNumber().
    for (sent, (to, data)) in (0..).zip([(NOBODY, "0x"), (contract, "0x42cbb15c")]) {
        let receipt = node.receipt(&node.call("eth_sendTransaction", request(to, data)));
        assert_eq!((&receipt["status"], &receipt["from"]), (&json!("0x1"), &json!(contract)));
        let hash = &receipt["transactionHash"];
        let trace = node.call("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}]));
        assert_eq!((&trace["from"], &trace["error"]), (&json!(contract), &Value::Null));
        let found = node.call("ots_getTransactionBySenderAndNonce", json!([contract, nonce + sent]));
        assert_eq!(&found, hash);
    }
    // It waits in the pool like others.
    node.call("evm_setAutomine", json!([false]));
    let waits = node.call("eth_sendTransaction", request(NOBODY, "0x"));
    node.call("hardhat_setBalance", json!([STRANGER, "0x1"]));
    assert_eq!(node.call("txpool_status", json!([])), json!({"pending": "0x1", "queued": "0x0"}));
    node.call("evm_mine", json!([]));
    assert_eq!(node.receipt(&waits)["status"], json!("0x1"));
    let newest = node.call("eth_getBlockByNumber", json!(["latest", false]));
    drop(node);
    // Executing the log again gives the same blocks.
    let node = Node::on(directory.path());
    assert_eq!(node.call("eth_getBlockByNumber", json!(["latest", false])), newest);
    assert_eq!(node.number("eth_getBalance", json!([NOBODY, "latest"])), 4);
    assert_eq!(node.number("eth_getTransactionCount", json!([contract, "latest"])), nonce + 3);
    assert_eq!(node.call("eth_getCode", json!([contract, "latest"])), code);
}

#[test]
fn missing_namespace_is_explained() {
    let node = Node::start(&["--namespaces", "eth,net,web3"]);
    for method in ["evm_mine", "hardhat_setBalance", "anvil_mine", "eth_sendTransaction"] {
        let (code, message) = node.error(method, json!([]));
        assert_eq!(code, -32601, "{method}");
        assert!(message.contains("--namespaces"), "{message}");
    }
}

/// Returns the hash of the header whose number is in the input (eight bytes, little endian), or nothing if it
/// is unavailable; logs the same.
const CERTIFIED: &str = r#"(module
    (import "vm_hooks" "read_args" (func $read_args (param i32)))
    (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
    (import "vm_hooks" "emit_log" (func $log (param i32 i32 i32)))
    (import "corniche" "certified_hash" (func $certified_hash (param i64 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "user_entrypoint") (param i32) (result i32) (local $length i32)
        (call $read_args (i32.const 0))
        (local.set $length (select (i32.const 0) (i32.const 32) (call $certified_hash (i64.load (i32.const 0)) (i32.const 32))))
        (call $log (i32.const 32) (local.get $length) (i32.const 0))
        (call $write_result (i32.const 32) (local.get $length))
        (i32.const 0)))"#;
/// Account with the hashes: EIP-2935's.
const RING: &str = "0x0000f90827f1c53a10cb7a02335b175320002935";

impl Node {
    fn hash(&self, height: u64) -> Value {
        self.call("eth_getBlockByNumber", json!([format!("{height:#x}"), false]))["hash"].clone()
    }

    /// Result in a transaction of the next block, compared with its replay.
    fn witnessed_hash(&self, contract: &Value, number: u64) -> Value {
        let from = &self.accounts()[0];
        let data = Bytes::from(number.to_le_bytes());
        let sent = self.call("eth_sendTransaction", json!([{"from": from, "to": contract, "data": data, "gas": "0x186a0"}]));
        let receipt = self.receipt(&sent);
        assert_eq!(receipt["status"], json!("0x1"));
        let trace = self.call("debug_traceTransaction", json!([sent, {"tracer": "callTracer"}]));
        let told = receipt["logs"][0]["data"].clone();
        let replayed = trace["output"].as_str().unwrap_or("0x");
        assert_eq!((json!(replayed), &trace["gasUsed"]), (told.clone(), &receipt["gasUsed"]), "a replay is told the same");
        told
    }

    /// Every hash in the state equals that of the chain's header.
    fn assert_certified(&self) {
        let head = self.height();
        for number in 0..head + 2 {
            let slot = format!("0x{number:064x}");
            let hash = if number + 64 <= head { self.hash(number) } else { json!(format!("0x{:064x}", 0)) };
            assert_eq!(self.call("eth_getStorageAt", json!([RING, slot, "latest"])), hash, "{number} in the state of {head}");
        }
    }
}

#[test]
fn contracts_see_certified_header_hashes() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    let code = Bytes::from(wat::parse_str(CERTIFIED).unwrap());
    let created = node.call("eth_sendTransaction", json!([{"from": node.accounts()[0], "data": code}]));
    let contract = node.receipt(&created)["contractAddress"].clone();
    // Block 65 is the first that can read the genesis' hash; earlier blocks can read none.
    node.call("hardhat_mine", json!([format!("{:#x}", 63 - node.height())]));
    assert_eq!((node.witnessed_hash(&contract, 0), node.height()), (json!("0x"), 64));
    assert_eq!((node.witnessed_hash(&contract, 0), node.height()), (node.hash(0), 65));
    node.call("evm_mine", json!([{"blocks": 6}]));
    // Both bounds, each requested in its own block.
    for below in [65, 66] {
        let number = node.height() + 1 - below;
        assert_eq!(node.witnessed_hash(&contract, number), node.hash(number), "{below} below");
    }
    for number in [node.height() + 1 - 64, node.height(), u64::MAX] {
        assert_eq!(node.witnessed_hash(&contract, number), json!("0x"), "{number}");
    }
    assert_eq!(node.witnessed_hash(&contract, 3), node.hash(3));
    node.assert_certified();

    // A call runs in the newest block, not in the next one.
    let call = |number: u64| {
        let data = Bytes::from(number.to_le_bytes());
        node.call("eth_call", json!([{"to": contract, "data": data}, "latest"]))
    };
    let head = node.height();
    assert_eq!([call(head - 65), call(head - 64)], [node.hash(head - 65), json!("0x")]);
    // Simulated blocks end like others, and their headers become available in turn.
    let ask = |number: u64| json!([{"to": contract, "data": Bytes::from(number.to_le_bytes())}]);
    let simulated = node.call(
        "eth_simulateV1",
        json!([{"blockStateCalls": [
            {}, {"calls": ask(head + 2 - 65)}, {"blockOverrides": {"number": format!("{:#x}", head + 70)}, "calls": ask(head + 5)},
            {"calls": ask(head + 7)},
        ]}, "latest"]),
    );
    let answers = [1, 69, 70].map(|at: usize| simulated[at]["calls"][0]["returnData"].clone());
    assert_eq!(answers, [node.hash(head + 2 - 65), simulated[4]["hash"].clone(), json!("0x")]);

    // Proof of a hash, and the data needed for a replay.
    let slot = format!("0x{:064x}", 3);
    let proof = node.call("eth_getProof", json!([RING, [slot], "latest"]));
    assert_eq!(proof["storageProof"][0]["value"].as_str().unwrap().trim_start_matches("0x"), {
        let hash = node.hash(3);
        hash.as_str().unwrap().trim_start_matches("0x").trim_start_matches('0').to_owned()
    });
    let from = &node.accounts()[0];
    let data = Bytes::from(3u64.to_le_bytes());
    let sent = node.call("eth_sendTransaction", json!([{"from": from, "to": contract, "data": data}]));
    node.receipt(&sent);
    let found = node.call("debug_traceTransaction", json!([sent, {"tracer": "prestateTracer"}]));
    assert_eq!(found[RING]["storage"][&slot], node.hash(3));

    // Reverted blocks, and others in their place.
    let snapshot = node.call("evm_snapshot", json!([]));
    let kept = node.height();
    node.call("hardhat_mine", json!(["0x50"]));
    let gone = node.hash(kept + 3);
    assert_eq!(node.witnessed_hash(&contract, kept + 3), gone);
    assert_eq!(node.call("evm_revert", json!([snapshot])), json!(true));
    node.assert_certified();
    assert_eq!(node.witnessed_hash(&contract, kept - 64), node.hash(kept - 64));
    node.call("evm_increaseTime", json!(["0xe10"]));
    node.call("hardhat_mine", json!(["0x50"]));
    assert_eq!(node.witnessed_hash(&contract, kept + 3), node.hash(kept + 3));
    assert_ne!(node.hash(kept + 3), gone);
    node.assert_certified();

    // After a restart from disk.
    drop(node);
    let node = Node::on(directory.path());
    node.assert_certified();
    let head = node.height();
    node.call("hardhat_mine", json!(["0x46"]));
    for number in [head - 64, head - 63, head, head + 1] {
        assert_eq!(node.witnessed_hash(&contract, number), node.hash(number), "{number}, after a restart at {head}");
    }
    node.assert_certified();
}
