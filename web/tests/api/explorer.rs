//! Starts an explorer with this chain on its own socket, and a node that answers questions about the current state.

use crate::{
    chain::{self, ALICE, BEGIN_MS, BOB, PLAIN, Step},
    postgres::Postgres,
};
use alloy_primitives::{B256, Bytes, U256};
use axum::{Json, Router, routing::post};
use corniche_api::{EpochPhase, HeadBlock, Heads, Peer, Peers, StakedValidator, Staking, Validator, Validators};
use corniche_origin::Proxy;
use corniche_types::{FaultModel, SignatureChecks, StakingParameters};
use corniche_web::{
    api::csv::MAX_ROWS,
    app_state::AppState,
    database::Database,
    indexer::{
        digest::digest,
        uploads,
        write::{self, FetchedMetadata},
    },
    indexer_status::IndexerStatus,
    limits::{Rate, RateLimiter},
    live::Live,
    node::Node,
    peer_graph::PeerGraph,
    server,
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
};
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};

/// A transaction in the node's pool.
pub const PENDING: B256 = B256::repeat_byte(0xaa);

pub struct Explorer {
    pub app: Arc<AppState>,
    pub runtime: Runtime,
    address: SocketAddr,
    agent: ureq::Agent,
    _directory: TempDir,
    _postgres: Option<Postgres>,
}

pub struct Answer {
    pub status: u16,
    pub text: String,
    headers: ureq::http::HeaderMap,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json", "{}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }
}

/// Explorer with the chain of `chain::fill`, for tests that only read.
pub static EXPLORER: LazyLock<Explorer> = LazyLock::new(|| Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, true));

/// Alice paid Bob one time more than a file has rows: once in block 0, and 1,000 times in each later block.
pub static LONG: LazyLock<Explorer> = LazyLock::new(|| {
    let explorer = Explorer::new(Rate { burst: 1e9, per_second: 1e9 }, false);
    explorer.runtime.block_on(async {
        let mut writer = explorer.app.database.writer().await.unwrap();
        let blocks = (0..=MAX_ROWS.div_ceil(1_000)).map(|number| {
            let count = if number == 0 { 1 } else { 1_000 };
            chain::block(number, (0..count).map(|_| Step::pay(ALICE, BOB, 1)).collect(), None)
        });
        let digests = blocks.map(|whole| digest(&whole, None).unwrap()).collect();
        write::write(&mut writer, digests, &FetchedMetadata::default()).await.unwrap();
    });
    explorer
});

impl Explorer {
    /// Starts one with its own database, filled or empty.
    pub fn new(rate: Rate, filled: bool) -> Self {
        Self::behind(Vec::new(), rate, filled)
    }

    /// Starts one behind proxies.
    pub fn behind(proxies: Vec<Proxy>, rate: Rate, filled: bool) -> Self {
        Self::over(None, proxies, rate, filled, usual())
    }

    /// Starts a filled one with this node.
    pub fn with_node(node: Router) -> Self {
        Self::over(None, Vec::new(), Rate { burst: 1e9, per_second: 1e9 }, true, node)
    }

    /// Starts a filled one on PostgreSQL.
    pub fn on_postgres(rate: Rate) -> Self {
        let postgres = Runtime::new().unwrap().block_on(Postgres::start_in(&std::env::temp_dir()));
        Self::over(Some(postgres), Vec::new(), rate, true, usual())
    }

    fn over(postgres: Option<Postgres>, proxies: Vec<Proxy>, rate: Rate, filled: bool, node: Router) -> Self {
        let runtime = Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (app, address) = runtime.block_on(async {
            let database = match &postgres {
                Some(postgres) => Database::open(&postgres.database("explorer").await).await.unwrap(),
                None => Database::in_file(&directory.path().join("explorer.db")).await.unwrap(),
            };
            if filled {
                chain::fill(&database).await;
            }
            let node = format!("http://{}", serve(node, Vec::new()).await);
            let indexer_status = Arc::new(indexer_status());
            // Nothing listens at the second URL.
            let peer_graph = PeerGraph::new([node.as_str(), "http://127.0.0.1:1"]);
            let (node, live) = (Node::new(&node), Live::default());
            let (uploads, _) = uploads::channel();
            let app = Arc::new(AppState {
                database,
                node,
                peer_graph,
                indexer_status,
                live,
                limits: RateLimiter::new(rate),
                uploads,
            });
            let router = server::router(Arc::clone(&app));
            (app, serve(router, proxies).await)
        });
        let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build();
        Self { app, runtime, address, agent: config.into(), _directory: directory, _postgres: postgres }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.get_as(path, "*/*")
    }

    pub fn get_as(&self, path: &str, accept: &str) -> Answer {
        let request = self.agent.get(format!("http://{}{path}", self.address)).header("accept", accept);
        Answer::of(request.call().unwrap())
    }

    /// Sends a request as a proxy on behalf of this address.
    pub fn get_for(&self, path: &str, client: &str) -> Answer {
        let request = self.agent.get(format!("http://{}{path}", self.address)).header("x-forwarded-for", client);
        Answer::of(request.call().unwrap())
    }

    pub fn post(&self, path: &str, form: &str) -> Answer {
        let request = self.agent.post(format!("http://{}{path}", self.address));
        Answer::of(request.header("content-type", "application/x-www-form-urlencoded").send(form).unwrap())
    }

    /// Returns the compressed response that a browser would receive.
    pub fn get_compressed(&self, path: &str) -> Vec<u8> {
        let request = self.agent.get(format!("http://{}{path}", self.address)).header("accept-encoding", "gzip");
        let mut response = request.call().unwrap();
        assert_eq!(response.headers().get("content-encoding").unwrap(), "gzip", "{path}");
        response.body_mut().read_to_vec().unwrap()
    }

    /// Sends an API request that must succeed.
    pub fn ask(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.json()
    }
}

impl Answer {
    fn of(mut response: ureq::http::Response<ureq::Body>) -> Self {
        let text = response.body_mut().with_config().limit(64 << 20).read_to_string().unwrap();
        Self { status: response.status().as_u16(), text, headers: response.headers().clone() }
    }
}

async fn serve(router: Router, proxies: Vec<Proxy>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(listener, router, proxies));
    address
}

fn indexer_status() -> IndexerStatus {
    let indexer_status = IndexerStatus::new("CRN".into());
    let validator = |index| Validator {
        index,
        consensus_key: B256::repeat_byte(0xc0 + index as u8),
        bls_key: Bytes::from(vec![0xb0 + index as u8; 96]),
        network_key: B256::with_last_byte(index as u8),
        fee_address: chain::BOB,
        votes: 1,
    };
    let (epoch, committee_hash, engine) = (0, B256::repeat_byte(5), "mahi-mahi".to_owned());
    let (signatures, validators) = (SignatureChecks::Everyone, (0..4).map(validator).collect());
    let fault_model = FaultModel::Byzantine;
    let committee = Validators { epoch, committee_hash, engine, fault_model, quorum: 3, signatures, validators };
    indexer_status.set_chain(31_337, chain::hash(0), false, committee);
    let newest = 2 + PLAIN;
    let head = |number| HeadBlock { hash: chain::hash(number), number, timestamp_ms: BEGIN_MS + 500 * number };
    indexer_status.set_heads(&Heads { executed: head(newest), certified: head(newest - 2) });
    indexer_status.set_indexed(newest, BEGIN_MS + 500 * newest);
    indexer_status.set_certified(Some(newest - 2));
    indexer_status
}

/// Client version of the node's peers.
pub const HOSTILE: &str = "</code><script>alert(1)</script>\u{202e}\u{0}\"onload=";

/// Peers of validator 1: validator 3, and an unknown node that claims to be validator 2.
fn peers() -> Peers {
    let peer = |key: u8, validator, round_trip_us| Peer {
        peer_id: format!("<b>12D3KooWabcdefghijklmnop{key}"),
        network_key: B256::with_last_byte(key),
        validator: Some(validator),
        fee_address: None,
        version: Some(HOSTILE.repeat(1_000)),
        connected_ms: Some(BEGIN_MS),
        round_trip_us,
    };
    let own = Peer { version: Some("corniche/0.1.0".into()), connected_ms: None, ..peer(1, 1, None) };
    Peers { own: Some(own), peers: vec![peer(3, 3, Some(12_345)), peer(9, 2, None), peer(8, 1 << 40, Some(u64::MAX))] }
}

/// Stake of a validator with hostile endpoints.
fn staking() -> Staking {
    let validator = StakedValidator {
        id: 7,
        owner: ALICE,
        next_owner: None,
        operator: ALICE,
        fee: BOB,
        bonded: U256::from(10).pow(U256::from(22)),
        queued: U256::ZERO,
        free: U256::ZERO,
        jailed_until: 9,
        consensus_key: B256::ZERO,
        bls_key: Bytes::from(vec![0; 96]),
        network_key: B256::ZERO,
        coin_key: Bytes::from(vec![0; 48]),
        endpoints: vec![HOSTILE.repeat(1_000); 1_000],
        votes: 1,
        next_votes: Some(2),
        announced: true,
    };
    Staking {
        epoch: 3,
        start_ms: BEGIN_MS,
        start_block: 2,
        announcements_ms: Some(BEGIN_MS + 500),
        freeze_ms: Some(BEGIN_MS + 750),
        end_ms: Some(BEGIN_MS + 1_000),
        phase: EpochPhase::Frozen,
        vote_price: U256::from(10).pow(U256::from(22)),
        parameters: (&StakingParameters::default()).into(),
        validators: vec![validator],
    }
}

/// The node of most tests.
fn usual() -> Router {
    Router::new().route("/", post(node))
}

async fn node(Json(question): Json<Value>) -> Json<Value> {
    let answer = |question: &Value| {
        let result = match question["method"].as_str().unwrap() {
            "eth_getBalance" => json!("0xde0b6b3a7640000"),
            "eth_getTransactionCount" => json!("0x2a"),
            "eth_getCode" => json!("0x"),
            "corniche_getTransactionStatus" if question["params"][0] == json!(PENDING) => json!({"status": "pending"}),
            "corniche_getTransactionStatus" if question["params"][0] == json!(chain::transaction_hash(2, 0)) => {
                let (hash, received) = (chain::hash(2), format!("{:#x}", BEGIN_MS + 700));
                json!({"status": "certified", "blockHash": hash, "blockNumber": "0x2", "receivedMs": received})
            }
            "eth_getRawTransactionByHash" => json!(chain::signed(2, 0)),
            "corniche_getPeers" => json!(peers()),
            "corniche_getStaking" => json!(staking()),
            _ => Value::Null,
        };
        json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
    };
    Json(match question.as_array() {
        Some(questions) => questions.iter().map(answer).collect(),
        None => answer(&question),
    })
}
