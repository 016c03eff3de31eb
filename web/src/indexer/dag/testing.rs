//! For tests: a simulated node that chooses its numbers, and the task that follows it.

use super::*;
use crate::database::Database;
use axum::{Json, Router, extract::State, routing::post};
use corniche_api::{LeaderSlot, SlotStatus};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Data of the simulated node, and how it rejects requests.
#[derive(Default)]
pub struct NodeScript {
    pub vertices: Vec<DagVertex>,
    pub slots: Vec<LeaderSlot>,
    pub full_node: bool,
    /// Maximum number of vertices in one response.
    pub most: usize,
    /// Modifies its responses.
    pub twist: Option<fn(&mut Dag)>,
    pub requests: usize,
}

impl NodeScript {
    fn newest(&self) -> u64 {
        let rounds = self.vertices.iter().map(|vertex| vertex.round).chain(self.slots.iter().map(|slot| slot.round));
        rounds.max().unwrap_or(0)
    }

    fn answer(&mut self, params: &Value) -> Result<Value, (i32, String)> {
        self.requests += 1;
        if self.full_node {
            return Err((-32_000, "this node has no DAG to show: a full node orders nothing; ask a validator".into()));
        }
        let quantity = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
        let newest = self.newest();
        let (from, to) = match params[0].as_str() {
            Some("latest") => ((newest + 1).saturating_sub(quantity(&params[1])), newest),
            _ => (quantity(&params[0]), quantity(&params[1])),
        };
        if to - from >= 200 {
            return Err((-32_602, "exceed maximum round range: at most 200 rounds".into()));
        }
        if from > newest && self.twist.is_none() {
            return Err((-32_602, format!("invalid round range: the newest round is {newest}")));
        }
        let to = to.min(newest);
        let vertices: Vec<_> = self.vertices.iter().filter(|vertex| (from..=to).contains(&vertex.round)).cloned().collect();
        if vertices.len() > self.most {
            return Err((-32_005, format!("query returned more than {} vertices; ask for fewer rounds", self.most)));
        }
        let slots = self.slots.iter().filter(|slot| (from..=to).contains(&slot.round)).cloned().collect();
        let mut dag = Dag { from_round: from, to_round: to, newest_round: newest, vertices, slots, order: vec![], dropped: 0 };
        self.twist.into_iter().for_each(|twist| twist(&mut dag));
        Ok(serde_json::to_value(dag).unwrap())
    }
}

pub fn digest(author: u64, round: u64) -> B256 {
    keccak256(format!("{author} {round}"))
}

pub fn vertex(author: u64, round: u64) -> DagVertex {
    let parents = if round > 1 { vec![digest(author, round - 1)] } else { vec![] };
    let accepted_ms = Some(1_000 * round + author);
    DagVertex {
        round,
        author,
        digest: digest(author, round),
        parents,
        batch_bytes: 7,
        batch_digest: None,
        proposed_ms: None,
        accepted_ms,
        holders: vec![],
    }
}

pub fn slot(round: u64, status: SlotStatus) -> LeaderSlot {
    let decided = status != SlotStatus::Undecided;
    let why = decided.then(|| "direct: 3 of 4 certify".to_owned());
    LeaderSlot {
        round,
        rank: 0,
        validator: 0,
        status,
        digest: None,
        why,
        decided_ms: decided.then_some(round),
        commit: None,
        voters: vec![],
        confirmers: vec![],
    }
}

/// A simulated node, a database and the task between them.
pub struct Fixture {
    pub script: Arc<Mutex<NodeScript>>,
    pub node: Node,
    pub database: Database,
    pub connection: sqlx::pool::PoolConnection<sqlx::Any>,
    pub indexer_status: IndexerStatus,
    pub notifications: Notifications,
    pub task: SyncTask,
    pub engine: &'static str,
    _directory: tempfile::TempDir,
}

impl Fixture {
    pub async fn set(engine: &'static str, keep: u64) -> Self {
        let script = Arc::new(Mutex::new(NodeScript { most: 2_000, ..NodeScript::default() }));
        let router = Router::new().route("/", post(serve)).with_state(script.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let directory = tempfile::tempdir().unwrap();
        let database = Database::in_file(&directory.path().join("explorer.db")).await.unwrap();
        let connection = database.writer().await.unwrap();
        let mut task = SyncTask::new(keep);
        task.chain_identified(engine, 4);
        let (node, indexer_status, notifications) = (Node::new(&url), IndexerStatus::default(), Notifications::default());
        Self { script, node, database, connection, indexer_status, notifications, task, engine, _directory: directory }
    }

    pub fn update_node(&self, change: impl FnOnce(&mut NodeScript)) {
        change(&mut self.script.lock().unwrap());
    }

    /// Polls this many times, without pauses.
    pub async fn looks(&mut self, looks: usize) {
        for _ in 0..looks {
            self.task.next_poll = NextPoll::AtOnce;
            self.turn().await;
        }
    }

    /// Polls if it is time.
    pub async fn turn(&mut self) {
        let Self { node, connection, indexer_status, notifications, task, .. } = self;
        task.follow(node, connection, &Live::default(), indexer_status, notifications).await.unwrap();
    }

    /// Restarts the explorer.
    pub fn restart(&mut self) {
        self.task = SyncTask::new(self.task.keep);
        self.task.chain_identified(self.engine, 4);
    }

    pub async fn rounds(&self) -> BTreeMap<u64, Round> {
        let rows = sql("SELECT round, content FROM dag_rounds").fetch_all(self.database.readers()).await.unwrap();
        rows.iter().map(|row| (row.number("round").unwrap(), content(row).unwrap())).collect()
    }

    pub async fn cars(&self) -> BTreeMap<u64, Vec<u64>> {
        let text = "SELECT lane, position FROM dag_cars ORDER BY lane, position";
        let mut cars: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for row in sql(text).fetch_all(self.database.readers()).await.unwrap() {
            cars.entry(row.number("lane").unwrap()).or_default().push(row.number("position").unwrap());
        }
        cars
    }
}

async fn serve(State(script): State<Arc<Mutex<NodeScript>>>, Json(request): Json<Value>) -> Json<Value> {
    assert_eq!(request["method"], "corniche_getDag");
    let answer = script.lock().unwrap().answer(&request["params"]);
    Json(match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
        Err((code, message)) => json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}),
    })
}

pub fn grow(script: &mut NodeScript, rounds: std::ops::RangeInclusive<u64>, status: SlotStatus) {
    for round in rounds {
        script.vertices.extend((0..4).map(|author| vertex(author, round)));
        script.slots.push(slot(round, status));
    }
}
