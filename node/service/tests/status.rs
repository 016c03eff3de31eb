//! JSON-RPC and `/metrics` of a validator over several epochs.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use corniche_service::{NetworkSpec, Node, NodeConfig, NodeSetup, Validator, VerifiedGenesis, make_network, runtime};
use corniche_types::{EngineConfig, StakingParameters};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

#[allow(dead_code, reason = "this file uses its engine only")]
#[path = "../examples/embed.rs"]
mod embed;

/// Sends a request, and returns the body of the response.
fn http(to: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    let length = body.len();
    let head = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn call(to: SocketAddr, method: &str, params: &Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let response: Value = serde_json::from_str(&http(to, "POST", "/", &request.to_string())).unwrap();
    assert!(response["error"].is_null(), "{method}: {response}");
    response["result"].clone()
}

/// Subscribes to epochs. Notifications are read with [`next_message`].
fn subscribe(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
    write!(stream, "GET / HTTP/1.1\r\n{head}\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        response.extend(byte);
    }
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["epochs"]}).to_string();
    // A text frame with a mask of zeros.
    let frame = [&[0x81, 0x80 | u8::try_from(request.len()).unwrap(), 0, 0, 0, 0], request.as_bytes()].concat();
    stream.write_all(&frame).unwrap();
    assert!(next_message(&mut stream)["result"].is_string());
    stream
}

/// Next text message.
fn next_message(stream: &mut TcpStream) -> Value {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                u16::from_be_bytes(length)
            }
            short => short.into(),
        };
        let mut payload = vec![0; length.into()];
        stream.read_exact(&mut payload).unwrap();
        // Others are pings.
        if head[0] == 0x81 {
            return serde_json::from_slice(&payload).unwrap();
        }
    }
}

/// Names that begin with `corniche_`.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("corniche_")).collect()
}

/// Metrics that only other kinds of nodes have: those of RPC methods begin with the first request. Nodes with peers, a signer or
/// sequencers are in `testnet/e2e/tests/monitoring.test.js`, which looks for these names.
fn is_of_other_nodes(name: &str) -> bool {
    ["corniche_signer_", "corniche_peer_", "corniche_peers", "corniche_multicast_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

#[test]
fn epochs_of_a_running_validator_are_described() {
    let engine = EngineConfig { name: "autobahn".into(), parameters: [("car_interval_ms".into(), 0)].into() };
    let staking = StakingParameters { epoch_ms: 1_500, closing_ms: 300, min_validators: 1, ..StakingParameters::default() };
    let spec = NetworkSpec { validators: 1, block_ms: 0, staking: Some(staking), ..NetworkSpec::new(engine) };
    let mut network = make_network(&spec).unwrap();
    let data = tempfile::tempdir().unwrap();
    let config = NodeConfig { rpc: ([127, 0, 0, 1], 0).into(), ..NodeConfig::default() };
    runtime(&config).unwrap().block_on(async {
        let validator = network.validators.pop().map(|keys| Validator { keys: keys.into(), engine: embed::autobahn });
        let genesis = VerifiedGenesis::new(network.genesis).unwrap();
        let node = Node::start(NodeSetup::new(config, genesis, validator, data.path().into())).await.unwrap();
        let (rpc, metrics) = (node.rpc_address(), node.metrics_address().unwrap());
        let mut subscription = tokio::task::block_in_place(|| subscribe(rpc));
        let started = Instant::now();
        while node.committee().epoch().0 < 2 {
            assert!(started.elapsed() < Duration::from_secs(60), "no epoch ends");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::task::block_in_place(|| {
            let epoch = |id: &str| call(rpc, "corniche_getEpoch", &json!([id]));
            let [first, second] = ["0x0", "0x1"].map(epoch);
            for number in ["0x1", "0x2"] {
                let told = next_message(&mut subscription)["params"]["result"].clone();
                assert_eq!((&told["epoch"], &told["committeeHash"]), (&json!(number), &epoch(number)["committeeHash"]));
            }
            let number = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
            assert_eq!((number(&first["firstBlock"]), number(&first["startMs"])), (1, spec.timestamp_ms.0));
            assert_eq!(number(&second["firstBlock"]), number(&first["lastBlock"]) + 1);
            assert_eq!((&second["startMs"], &second["committeeHash"]), (&first["endMs"], &first["next"]["committeeHash"]));
            assert!(number(&first["endMs"]) >= number(&first["dueMs"]), "{first}");
            assert_eq!(number(&second["dueMs"]), number(&second["startMs"]) + 1_500);
            let last = call(rpc, "corniche_getOrdering", &json!([first["lastBlock"]]));
            assert_eq!(last["nextCommitteeHash"], first["next"]["committeeHash"]);

            let committee = |id: &str| call(rpc, "corniche_getCommittee", &json!([id]));
            let (past, running) = (committee("0x1"), committee("latest"));
            assert_eq!(past["committeeHash"], second["committeeHash"]);
            assert_eq!((&past["members"][0]["id"], &past["members"][0]["consensusKey"]), (&json!("0x0"), &Value::Null));
            assert_eq!(past["members"][0]["blsKey"], running["members"][0]["blsKey"]);
            assert_eq!((&running["members"][0]["id"], &running["members"][0]["votes"]), (&json!("0x0"), &json!("0x1")));
            assert!(running["members"][0]["networkKey"].is_string());
            assert_eq!(epoch("0xffffffffffffffff"), Value::Null);
            assert_eq!(committee("0xffffffffffffffff"), Value::Null);

            let sync = call(rpc, "corniche_getSyncStatus", &json!([]));
            assert_eq!((&sync["base"], &sync["firstBlock"], &sync["snapshots"]), (&Value::Null, &json!("0x1"), &json!([])));
            assert_eq!(call(rpc, "corniche_getOffences", &json!(["0x0"])), json!({"offences": [], "next": null}));

            let text = http(metrics, "GET", "/metrics", "");
            let has = |line: &str| assert!(text.lines().any(|other| other == line), "{line} is missing in {text}");
            has("corniche_votes_connected 1");
            has("corniche_own_votes 1");
            has("corniche_own_convictions 0");
            has("corniche_votes_missing_from_certificate{validator=\"0\",own=\"true\"} 0");
            has("corniche_snapshot_seconds 0.0");
            let exported = names(&text);
            let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testnet/monitoring/alerts.yaml");
            let alerts = std::fs::read_to_string(alerts).unwrap();
            let missing: Vec<_> =
                names(&alerts).into_iter().filter(|name| !exported.contains(name) && !is_of_other_nodes(name)).collect();
            assert!(missing.is_empty(), "{missing:?} are in alerts.yaml, and not in {text}");
        });
        node.stop().await;
    });
}
