//! A scripted node. It serves a chain over JSON-RPC, with random failures from a seed.

use super::{
    chain::{Chain, Made, VALIDATORS},
    random::Random,
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use axum::{
    Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use corniche_api::{Dag, DagVertex, Execution, HeadBlock, Heads, LeaderSlot, RpcError, SlotStatus, Validator, Validators};
use corniche_types::{FaultModel, SignatureChecks};
use corniche_web::{
    clock::now_ms,
    node::{Log, Receipt, Transaction},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::{
    net::TcpListener,
    sync::{Barrier, Notify, watch},
    task::JoinHandle,
};

/// A node that runs until it is dropped.
pub struct Scripted {
    /// URL of its RPC.
    pub url: String,
    script: Arc<Mutex<Script>>,
    traces: Arc<watch::Sender<Traces>>,
    served: JoinHandle<()>,
}

/// Number of pending trace requests, and whether they are held back.
#[derive(Default)]
struct Traces {
    asked: usize,
    held: bool,
}

struct Script {
    chain: Arc<Chain>,
    /// Number of the newest executed block.
    head: u64,
    development: bool,
    /// First block with execution statistics; `None` if the node does not serve them.
    executions: Option<u64>,
    /// Number of requests so far.
    asked: u64,
    /// Source of random failures.
    moods: Option<Random>,
    /// Number of further requests for which it is unreachable.
    away: u64,
    /// Maximum number of blocks in one response.
    room: usize,
    /// `true` if it returns the block after the requested one.
    mistaken: bool,
    /// `true` if it serves DAG data.
    dag: bool,
    /// Method whose requests fail.
    lost: Option<&'static str>,
    /// Barrier at which requests for blocks wait for each other.
    together: Option<Arc<Barrier>>,
    /// Time of the first request for certificates, on this machine's clock; its response comes later.
    certificates_ms: u64,
    traces: Arc<watch::Sender<Traces>>,
    /// First block that it has after the genesis.
    first: u64,
    /// Block whose traces fail.
    untraced: Option<u64>,
    /// Notified when the number of requests reaches this value.
    alarm: Option<(u64, Arc<Notify>)>,
}

impl Scripted {
    /// Serves a whole chain.
    pub async fn start(chain: Chain) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let head = chain.blocks.len() as u64 - 1;
        let (development, executions, asked, moods, away, room, alarm) = (false, Some(0), 0, None, 0, usize::MAX, None);
        let chain = Arc::new(chain);
        let traces = Arc::new(watch::Sender::new(Traces::default()));
        let (mistaken, dag, lost, together) = (false, false, None, None);
        let (certificates_ms, untraced, asked_traces) = (0, None, Arc::clone(&traces));
        let script = Script {
            chain,
            head,
            development,
            executions,
            asked,
            moods,
            away,
            room,
            mistaken,
            dag,
            lost,
            together,
            certificates_ms,
            traces: asked_traces,
            first: 1,
            untraced,
            alarm,
        };
        let script = Arc::new(Mutex::new(script));
        let router = Router::new().route("/", post(answer)).with_state(Arc::clone(&script));
        let served = tokio::spawn(async move { axum::serve(listener, router).await.expect("a server") });
        Self { url, script, traces, served }
    }

    /// Serves a development chain, which may be reverted.
    pub async fn for_development(chain: Chain) -> Self {
        let node = Self::start(chain).await;
        node.change(|script| script.development = true);
        node
    }

    fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().expect("the script"));
    }

    /// Serves execution statistics from this block on; `None` if the method is unknown.
    pub fn keep_executions(&self, from: Option<u64>) {
        self.change(|script| script.executions = from);
    }

    /// Starts at block 0 and grows with the requests. From time to time it is busy, fails, is unreachable, or restarts
    /// with fewer blocks.
    pub fn be_moody(&self, seed: u64) {
        self.change(|script| (script.moods, script.head) = (Some(Random::new(seed)), 0));
    }

    /// Serves every request from now on, with all blocks.
    pub fn be_well(&self) {
        self.change(|script| {
            (script.moods, script.away) = (None, 0);
            script.head = script.chain.blocks.len() as u64 - 1;
        });
    }

    /// Replaces the chain.
    pub fn take(&self, chain: Chain) {
        self.change(|script| {
            script.head = chain.blocks.len() as u64 - 1;
            script.chain = Arc::new(chain);
        });
    }

    /// Has only the blocks up to `head` for now.
    pub fn lag(&self, head: u64) {
        self.change(|script| script.head = head);
    }

    /// Has only the genesis and the blocks from this one on.
    pub fn prune_below(&self, first: u64) {
        self.change(|script| script.first = first);
    }

    /// Limits the number of blocks in one response.
    pub fn has_room_for(&self, blocks: usize) {
        self.change(|script| script.room = blocks);
    }

    /// Returns the block after the requested one, except for block 0.
    pub fn be_mistaken(&self, mistaken: bool) {
        self.change(|script| script.mistaken = mistaken);
    }

    /// Serves one round of the DAG for each block.
    pub fn show_dag(&self) {
        self.change(|script| script.dag = true);
    }

    /// Fails requests with this method.
    pub fn lose(&self, method: &'static str) {
        self.change(|script| script.lost = Some(method));
    }

    /// Responds to requests for blocks only when this many are pending at once.
    pub fn answer_together(&self, requests: usize) {
        self.change(|script| script.together = Some(Arc::new(Barrier::new(requests))));
    }

    /// Holds back traces.
    pub fn hold_traces(&self) {
        self.traces.send_modify(|traces| traces.held = true);
    }

    /// Responds to trace requests again, including pending ones.
    pub fn answer_traces(&self) {
        self.traces.send_modify(|traces| traces.held = false);
    }

    /// Waits until this many trace requests are pending.
    pub async fn traces_asked(&self, count: usize) {
        let _ = self.traces.subscribe().wait_for(|traces| traces.asked >= count).await;
    }

    /// Fails to trace this block, and only this one, from now on.
    pub fn fail_to_trace(&self, block: Option<u64>) {
        self.change(|script| script.untraced = block);
    }

    /// Returns the time of the first request for certificates.
    pub fn certificates_asked_ms(&self) -> u64 {
        self.script.lock().expect("the script").certificates_ms
    }

    /// Waits for this many further requests.
    pub async fn asked(&self, times: u64) {
        let alarm = Arc::new(Notify::new());
        self.change(|script| script.alarm = Some((script.asked + times, Arc::clone(&alarm))));
        alarm.notified().await;
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.served.abort();
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, body: axum::body::Bytes) -> Response {
    let asked: Value = serde_json::from_slice(&body).expect("JSON");
    let _until_answered = match asked["method"] == "debug_traceBlockByNumber" {
        true => Some(held(&script).await),
        false => None,
    };
    let blocks = |calls: &Vec<Value>| calls.iter().filter(|call| call["method"] == "eth_getBlockByNumber").count();
    let blocks = asked.as_array().map_or(0, blocks);
    let together = script.lock().expect("the script").together.clone().filter(|_| blocks > 0);
    if let Some(together) = together {
        together.wait().await;
    }
    let mut script = script.lock().expect("the script");
    script.asked += 1;
    if script.alarm.as_ref().is_some_and(|(at, _)| *at <= script.asked) {
        script.alarm.take().into_iter().for_each(|(_, alarm)| alarm.notify_one());
    }
    if let Some(response) = script.mood() {
        return response;
    }
    if blocks > script.room {
        let refused = json!({"code": -32003, "message": "response too large"});
        return json!({"jsonrpc": "2.0", "id": null, "error": refused}).to_string().into_response();
    }
    let answer = match asked.as_array() {
        Some(calls) => Value::Array(calls.iter().map(|call| script.call(call)).collect()),
        None => script.call(&asked),
    };
    let mut text = answer.to_string();
    if script.happens(3) {
        text.truncate(text.len() / 2);
    }
    text.into_response()
}

/// A pending trace request, until it is answered or cancelled.
struct AskedTrace(Arc<watch::Sender<Traces>>);

impl Drop for AskedTrace {
    fn drop(&mut self) {
        self.0.send_modify(|traces| traces.asked -= 1);
    }
}

/// Waits until traces are no longer held back.
async fn held(script: &Mutex<Script>) -> AskedTrace {
    let traces = Arc::clone(&script.lock().expect("the script").traces);
    traces.send_modify(|traces| traces.asked += 1);
    let mut changes = traces.subscribe();
    let asked = AskedTrace(traces);
    let _ = changes.wait_for(|traces| !traces.held).await;
    asked
}

impl Script {
    fn happens(&mut self, percent: u64) -> bool {
        self.moods.as_mut().is_some_and(|random| random.percent(percent))
    }

    /// Returns an error instead of a response, at random.
    fn mood(&mut self) -> Option<Response> {
        if self.away > 0 {
            self.away -= 1;
            return Some((StatusCode::BAD_GATEWAY, "nobody there").into_response());
        }
        if self.happens(1) {
            self.away = 5;
        }
        if self.happens(3) {
            // It restarted and syncs.
            self.head = self.head.saturating_sub(30);
        }
        let refused = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32005, "message": "too many requests"}});
        self.happens(4).then(|| refused.to_string().into_response())
    }

    fn call(&mut self, call: &Value) -> Value {
        let id = &call["id"];
        if self.happens(1) {
            let code = if self.happens(50) { -32603 } else { -32005 };
            return json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "not now"}});
        }
        let method = call["method"].as_str().expect("a method");
        if self.is_pruned(method, &call["params"]) {
            let error = json!(RpcError::pruned_below(self.first));
            return json!({"jsonrpc": "2.0", "id": id, "error": error});
        }
        match self.result(method, &call["params"]) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
        }
    }

    /// Returns `true` if the request needs a block that the node does not have.
    fn is_pruned(&self, method: &str, params: &Value) -> bool {
        let number = match method {
            "corniche_getHeads" => Some(self.certified()),
            "eth_getBlockByNumber"
            | "eth_getBlockReceipts"
            | "corniche_getOrdering"
            | "corniche_getCertificate"
            | "corniche_getExecution"
            | "debug_traceBlockByNumber" => {
                params[0].as_str().and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok())
            }
            _ => None,
        };
        number.is_some_and(|number| number <= self.head && (1..self.first).contains(&number))
    }

    fn result(&mut self, method: &str, params: &Value) -> Result<Value, (i64, &'static str)> {
        let number = || params[0].as_str().and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        let at = |script: &Self, number: Option<u64>| {
            number.filter(|number| *number <= script.head).map(|number| script.chain.blocks[number as usize].clone())
        };
        let made = |script: &Self| at(script, number());
        Ok(match method {
            lost if self.lost == Some(lost) => return Err((-32603, "it is lost")),
            "eth_chainId" => json!("0x2a"),
            "rpc_modules" if self.development => json!({"eth": "1.0", "debug": "1.0", "evm": "1.0"}),
            "rpc_modules" => json!({"eth": "1.0", "debug": "1.0"}),
            "corniche_getValidators" => json!(committee()),
            "corniche_getHeads" => {
                if let Some(random) = &mut self.moods {
                    self.head = (self.head + random.below(24)).min(self.chain.blocks.len() as u64 - 1);
                }
                let certified = self.certified();
                json!(Heads { executed: self.named(self.head), certified: self.named(certified) })
            }
            "eth_getBlockByNumber" if self.mistaken && number() != Some(0) => {
                at(self, number().map(|number| number + 1)).map_or(Value::Null, |made| block(&made))
            }
            "eth_getBlockByNumber" => made(self).map_or(Value::Null, |made| block(&made)),
            "eth_getBlockReceipts" => made(self).map_or(Value::Null, |made| made.whole.receipts.iter().map(receipt).collect()),
            "corniche_getOrdering" => json!(made(self).and_then(|made| made.whole.ordering)),
            "debug_traceBlockByNumber" if number().is_some() && number() == self.untraced => return Err((-32603, "not now")),
            "debug_traceBlockByNumber" => made(self).map(|made| made.traces).ok_or((-32000, "unknown block"))?,
            "corniche_getDag" if self.dag => json!(self.dag(params)?),
            "corniche_getCertificate" => {
                if self.certificates_ms == 0 {
                    self.certificates_ms = now_ms();
                    while now_ms() <= self.certificates_ms {}
                }
                let certified = self.certified();
                let found = number().and_then(|number| self.chain.certificates.range(number..).next());
                json!(found.filter(|(height, _)| **height <= certified).map(|(_, certificate)| certificate))
            }
            "corniche_getExecution" => match self.executions {
                Some(from) => {
                    json!(made(self).filter(|made| made.whole.block.number.to::<u64>() >= from).map(|made| execution(&made)))
                }
                None => return Err((-32601, "the method corniche_getExecution does not exist/is not available")),
            },
            "eth_getCode" => json!(code(address(&params[0]))),
            "eth_call" => return told(address(&params[0]["to"]), params[0]["input"].as_str().expect("input")),
            _ => return Err((-32601, "no such method")),
        })
    }

    /// Each round has four proposals, and a leader whose commit has the round's number.
    fn dag(&self, params: &Value) -> Result<Dag, (i64, &'static str)> {
        let number = |at: usize| {
            let text = params[at].as_str().expect("a number");
            u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number")
        };
        let (from, to) = match params[0].as_str() {
            Some("latest") => (self.head, self.head),
            _ => (number(0), number(1).min(self.head)),
        };
        if from > self.head {
            return Err((-32602, "invalid round range: the newest round is before it"));
        }
        let rounds = from.max(1)..=to;
        let vertices = rounds.clone().flat_map(|round| (0..VALIDATORS).map(move |author| vertex(round, author))).collect();
        let slots = rounds.map(leader).collect();
        Ok(Dag { from_round: from, to_round: to, newest_round: self.head, vertices, slots, order: vec![], dropped: 0 })
    }

    fn certified(&self) -> u64 {
        self.chain.certificates.range(..=self.head).next_back().map_or(0, |(height, _)| *height)
    }

    fn named(&self, number: u64) -> HeadBlock {
        let Made { whole, .. } = &self.chain.blocks[number as usize];
        HeadBlock { hash: whole.block.hash, number, timestamp_ms: whole.block.timestamp.to::<u64>() * 1_000 }
    }
}

fn proposal(round: u64, author: u64) -> B256 {
    keccak256(format!("{round} {author}"))
}

fn vertex(round: u64, author: u64) -> DagVertex {
    DagVertex {
        round,
        author,
        digest: proposal(round, author),
        parents: (0..VALIDATORS).filter(|_| round > 1).map(|author| proposal(round - 1, author)).collect(),
        batch_bytes: 100,
        batch_digest: None,
        proposed_ms: None,
        accepted_ms: Some(round),
        holders: Vec::new(),
    }
}

fn leader(round: u64) -> LeaderSlot {
    let validator = round % VALIDATORS;
    LeaderSlot {
        round,
        rank: 0,
        validator,
        status: SlotStatus::Committed,
        digest: Some(proposal(round, validator)),
        why: None,
        decided_ms: Some(round),
        commit: Some(round),
        voters: Vec::new(),
        confirmers: Vec::new(),
    }
}

fn address(value: &Value) -> Address {
    value.as_str().and_then(|text| text.parse().ok()).expect("an address")
}

/// Two threads alternate. Every third transaction ran twice, all others once.
pub fn execution(made: &Made) -> Execution {
    let transactions = made.whole.block.transactions.len() as u64;
    let of_each = |of: fn(u64) -> u64| (0..transactions).map(|position| of(position) as u8).collect();
    let again = transactions.div_ceil(3);
    Execution {
        threads: 2,
        runs: transactions + again,
        runs_again: again,
        waits: 1,
        adopted: 0,
        duration_us: 1_000 + made.whole.block.number.to::<u64>(),
        lane_of: of_each(|position| position % 2),
        runs_of: of_each(|position| if position % 3 == 0 { 2 } else { 1 }),
        received_of: (0..transactions).flat_map(|position| received_ms(position).to_be_bytes()).collect(),
    }
}

/// Returns when the node received the transaction at this position. Every other one was received by another node.
pub fn received_ms(position: u64) -> u64 {
    if position.is_multiple_of(2) { 1_700_000_000_000 + position } else { 0 }
}

fn committee() -> Validators {
    let validator = |index| Validator {
        index,
        consensus_key: B256::ZERO,
        bls_key: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
        votes: 1,
    };
    Validators {
        epoch: 0,
        committee_hash: B256::ZERO,
        engine: "mahi-mahi".into(),
        fault_model: FaultModel::Byzantine,
        quorum: 3,
        signatures: SignatureChecks::Everyone,
        validators: (0..VALIDATORS).map(validator).collect(),
    }
}

/// Returns the code of an account, which depends on the first byte of its address.
pub fn code(address: Address) -> Bytes {
    let abi = r#"[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"<b>","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"}]"#;
    match address.as_slice()[0] % 4 {
        0 => corniche_abi::interface::embed(b"\0asm\x01\0\0\0", abi.as_bytes()).into(),
        1 => Bytes::from_static(b"no module at all"),
        2 => corniche_abi::interface::embed(b"\0asm\x01\0\0\0", b"[").into(),
        _ => Bytes::new(),
    }
}

/// Token metadata, as untrusted contracts return it.
fn told(token: Address, input: &str) -> Result<Value, (i64, &'static str)> {
    let text: &[u8] = match token.as_slice()[0] % 4 {
        0 => b"<script>alert(1)</script>",
        1 => &[0xff, 0xfe, 0, b'x', 0x1b],
        2 => &[b'm'; 5_000],
        _ => return Err((3, "execution reverted")),
    };
    let string = || {
        let mut answer = [U256::from(32), U256::from(text.len())].map(|word| word.to_be_bytes::<32>()).concat();
        answer.extend_from_slice(text);
        answer.resize(answer.len().next_multiple_of(32), 0);
        json!(Bytes::from(answer))
    };
    match input {
        "0x313ce567" => Ok(json!(B256::from(U256::from(18)))),
        "0x95d89b41" if token.as_slice()[1].is_multiple_of(2) => Err((-32000, "out of gas")),
        _ => Ok(string()),
    }
}

fn block(made: &Made) -> Value {
    let block = &made.whole.block;
    json!({
        "number": block.number, "hash": block.hash, "parentHash": block.parent_hash, "timestamp": block.timestamp, "miner": block.miner,
        "gasUsed": block.gas_used, "gasLimit": block.gas_limit, "baseFeePerGas": block.base_fee_per_gas, "size": block.size,
        "stateRoot": block.state_root, "transactionsRoot": block.transactions_root, "receiptsRoot": block.receipts_root,
        "mixHash": block.mix_hash, "extraData": block.extra_data,
        "transactions": block.transactions.iter().map(transaction).collect::<Vec<_>>(),
    })
}

fn transaction(transaction: &Transaction) -> Value {
    json!({
        "hash": transaction.hash, "from": transaction.from, "to": transaction.to, "nonce": transaction.nonce, "value": transaction.value,
        "input": transaction.input, "gas": transaction.gas, "type": transaction.kind, "maxFeePerGas": transaction.max_fee_per_gas,
        "maxPriorityFeePerGas": transaction.max_priority_fee_per_gas,
    })
}

fn receipt(receipt: &Receipt) -> Value {
    let log = |log: &Log| json!({"address": log.address, "topics": log.topics, "data": log.data});
    json!({
        "transactionHash": receipt.transaction_hash, "status": receipt.status, "gasUsed": receipt.gas_used,
        "effectiveGasPrice": receipt.effective_gas_price, "contractAddress": receipt.contract_address,
        "logs": receipt.logs.iter().map(log).collect::<Vec<_>>(),
    })
}
