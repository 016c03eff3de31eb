//! The peer graph: which nodes are connected, at which distance, as reported by the nodes that this explorer asks. A
//! node knows only its own links, so further nodes may be asked for theirs. Also keeps what the followed node reports
//! about itself.
//!
//! Readers cause no load on the nodes. All nodes are asked at most once within [`REFRESH_INTERVAL`], regardless of how many
//! readers come and whether they wait for the response.

use crate::{clock::now_ms, format::clean};
use alloy_primitives::U64;
use corniche_api::{Peer, Peers, Shards, Staking, Statistics, Validators};
use corniche_client::{Client, Request};
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Mutex, task};

/// How long a response is reused.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(5);

/// Timeout of a request. A node that exceeds it is shown as silent.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of peers of a node that are kept.
const MAX_PEERS: usize = 1_000;

/// Maximum number of validators with stake that are kept; the contract has no more.
const MAX_VALIDATORS: usize = 1_000;

/// Maximum number of endpoints of a validator, and of characters of each. Bytes that are not printable have four characters.
const MAX_ENDPOINTS: usize = 4;
const MAX_ENDPOINT: usize = 256;

/// Maximum number of characters of a client version or a peer id.
const MAX_TEXT: usize = 64;

/// The peer graph; see the module. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PeerGraph {
    nodes: Vec<Client>,
    last: Last<Poll>,
    node_info: Last<NodeInfo>,
}

/// Time and result of the last request.
type Last<T> = Arc<Mutex<Option<(Instant, Arc<T>)>>>;

/// Responses of all nodes to the last requests.
#[derive(Clone, Debug, Default)]
pub struct Poll {
    /// Time of the requests, in Unix milliseconds.
    pub polled_ms: u64,
    /// One row for each node: first the followed node, then the others in the configured order.
    pub rows: Vec<NodePeers>,
}

/// Response of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePeers {
    /// The node's own identity, from its last response.
    pub own: Option<Peer>,
    /// Peers to which the node has links, or `None` if it did not respond.
    pub peers: Option<Vec<Peer>>,
}

/// Facts that the followed node reports about itself. A field is `None` if the node did not answer.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// Client version.
    pub version: Option<String>,
    /// Number of peers.
    pub peers: Option<u64>,
    /// Sync progress; `Some(None)` if the node is in sync.
    pub syncing: Option<Option<Progress>>,
    /// Execution statistics since the node started.
    pub statistics: Option<Statistics>,
    /// Stake after its newest block; also `None` on chains without staking.
    pub staking: Option<Staking>,
    /// Shards; also `None` on chains without shards.
    pub shards: Option<Shards>,
}

/// Progress of a node that syncs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Its newest block.
    pub current_block: U64,
    /// The newest block that it knows of.
    pub highest_block: U64,
}

impl PeerGraph {
    /// Creates the graph from RPC URLs, the followed node first. No request is sent before the first reader asks.
    pub fn new<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Self {
        Self::with_timeout_of(urls, REQUEST_TIMEOUT)
    }

    fn with_timeout_of<U: AsRef<str>>(urls: impl IntoIterator<Item = U>, timeout: Duration) -> Self {
        let nodes = urls.into_iter().map(|url| Client::with_timeout(url.as_ref(), timeout)).collect();
        Self { nodes, last: Arc::default(), node_info: Arc::default() }
    }

    /// Returns the peers of all nodes, at most [`REFRESH_INTERVAL`] old.
    pub async fn now(&self) -> Arc<Poll> {
        self.at(Instant::now()).await
    }

    async fn at(&self, now: Instant) -> Arc<Poll> {
        let peer_graph = self.clone();
        // Runs in a task so that a reader who disconnects does not cancel the round. Otherwise readers that come and go
        // would each start a new one.
        task::spawn(async move { peer_graph.poll(now).await }).await.unwrap_or_default()
    }

    async fn poll(&self, now: Instant) -> Arc<Poll> {
        let ask = |before: Option<Arc<Poll>>| async move {
            self.ask(before.as_ref().map(|poll| poll.rows.as_slice()).unwrap_or_default()).await
        };
        shared(&self.last, now, ask).await
    }

    /// Returns facts about the followed node, at most [`REFRESH_INTERVAL`] old.
    pub async fn node_info(&self) -> Arc<NodeInfo> {
        self.node_info_at(Instant::now()).await
    }

    async fn node_info_at(&self, now: Instant) -> Arc<NodeInfo> {
        let peer_graph = self.clone();
        task::spawn(async move { shared(&peer_graph.node_info, now, |_| peer_graph.fetch_node_info()).await })
            .await
            .unwrap_or_default()
    }

    async fn fetch_node_info(&self) -> NodeInfo {
        let Some(node) = self.nodes.first().cloned() else { return NodeInfo::default() };
        task::spawn_blocking(move || NodeInfo::ask(&node)).await.unwrap_or_default()
    }

    async fn ask(&self, known: &[NodePeers]) -> Poll {
        let requests = self.nodes.iter().cloned().map(|node| task::spawn_blocking(move || node.peers()));
        let answers = join_all(requests).await.into_iter().map(|answer| answer.ok()?.ok());
        let identity = |at: usize| known.get(at).and_then(|row| row.own.clone());
        let row = |(at, answer): (usize, Option<Peers>)| {
            answer.map_or_else(|| NodePeers { own: identity(at), peers: None }, NodePeers::of)
        };
        Poll { polled_ms: now_ms(), rows: answers.enumerate().map(row).collect() }
    }
}

/// Returns the last result if it is younger than [`REFRESH_INTERVAL`]; otherwise runs `ask` with the previous result.
/// Callers that arrive during the request wait here and share its result.
async fn shared<T, F: Future<Output = T>>(last: &Last<T>, now: Instant, ask: impl FnOnce(Option<Arc<T>>) -> F) -> Arc<T> {
    let mut last = last.lock().await;
    if let Some((began, known)) = &*last
        && now.saturating_duration_since(*began) < REFRESH_INTERVAL
    {
        return Arc::clone(known);
    }
    let before = last.as_ref().map(|(_, known)| Arc::clone(known));
    let answer = Arc::new(ask(before).await);
    *last = Some((now, Arc::clone(&answer)));
    answer
}

impl NodeInfo {
    fn ask(node: &Client) -> Self {
        let request = |method| Request { method, params: json!([]) };
        let requests = ["web3_clientVersion", "net_peerCount", "eth_syncing", "corniche_getShards"].map(request);
        let answers = node.transport().batch::<Value>(&requests).unwrap_or_default();
        let mut answers = answers.into_iter().map(Result::ok);
        let mut next = || answers.next().flatten();
        Self {
            version: next()
                .and_then(|version| version.as_str().map(|version| clean(&version.chars().take(100).collect::<String>()))),
            peers: next().and_then(|peers| serde_json::from_value::<U64>(peers).ok()).map(|peers| peers.to()),
            syncing: next().and_then(|syncing| match syncing {
                Value::Bool(false) => Some(None),
                progress => serde_json::from_value(progress).ok().map(Some),
            }),
            shards: next().and_then(|shards| serde_json::from_value(shards).ok()),
            statistics: node.statistics().ok(),
            staking: node.staking().ok().flatten().map(bounded),
        }
    }
}

impl NodePeers {
    /// Converts a response, bounded in size.
    fn of(Peers { own, peers }: Peers) -> Self {
        Self { own: own.map(sanitized), peers: Some(peers.into_iter().take(MAX_PEERS).map(sanitized).collect()) }
    }
}

/// Returns the committee index of a peer, if the committee lists its network key at that index.
pub fn committee_index(committee: &Validators, peer: &Peer) -> Option<u64> {
    let index = peer.validator?;
    let validator = committee.validators.get(usize::try_from(index).ok()?)?;
    (validator.network_key == peer.network_key).then_some(index)
}

/// Bounds and cleans the texts, which are untrusted.
fn sanitized(peer: Peer) -> Peer {
    let version = peer.version.map(|version| clean(&version.chars().take(MAX_TEXT).collect::<String>()));
    let peer_id = peer.peer_id.chars().filter(char::is_ascii_alphanumeric).take(MAX_TEXT).collect();
    Peer { peer_id, version: version.filter(|version| !version.is_empty()), ..peer }
}

/// Bounds the number of validators, and bounds and cleans their endpoints, which are untrusted.
fn bounded(mut staking: Staking) -> Staking {
    staking.validators.truncate(MAX_VALIDATORS);
    for validator in &mut staking.validators {
        validator.endpoints.truncate(MAX_ENDPOINTS);
        for endpoint in &mut validator.endpoints {
            *endpoint = clean(&endpoint.chars().take(MAX_ENDPOINT).collect::<String>());
        }
    }
    staking
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256};
    use axum::{Json, Router, routing::post};
    use corniche_api::StakingRules;
    use corniche_types::StakingParameters;
    use futures::{FutureExt, future::join};
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::net::TcpListener;

    fn peer(key: u8) -> Peer {
        Peer {
            peer_id: format!("12D3KooW{key}"),
            network_key: B256::with_last_byte(key),
            validator: Some(key.into()),
            fee_address: None,
            version: Some("corniche/0.1.0".into()),
            connected_ms: Some(1),
            round_trip_us: Some(420),
        }
    }

    /// Starts a node that counts requests and answers request number `n` if `answers(n)` is true.
    async fn node(peers: Peers, answers: impl Fn(u64) -> bool + Clone + Send + Sync + 'static) -> (String, Arc<AtomicU64>) {
        let requests = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&requests);
        let answer = move || {
            let result = answers(counter.fetch_add(1, Ordering::Relaxed)).then(|| peers.clone());
            async move { Json(json!({"jsonrpc": "2.0", "id": 1, "result": result})) }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(answer))).await });
        (url, requests)
    }

    fn alone(key: u8) -> Peers {
        Peers { own: Some(peer(key)), peers: vec![] }
    }

    #[tokio::test]
    async fn concurrent_readers_share_a_request() {
        let (url, requests) = node(alone(1), |_| true).await;
        let peer_graph = PeerGraph::new([url]);
        let begin = Instant::now();
        let rounds = join_all((0..50).map(|_| peer_graph.at(begin))).await;
        assert!(rounds.iter().all(|poll| poll.rows[0].own == Some(peer(1))), "{rounds:?}");
        peer_graph.at(begin + REFRESH_INTERVAL - Duration::from_millis(1)).await;
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        join(peer_graph.at(begin + REFRESH_INTERVAL), peer_graph.at(begin + REFRESH_INTERVAL)).await;
        assert_eq!(requests.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn node_info_is_requested_once_for_all_readers() {
        let (url, requests) = node(alone(1), |_| true).await;
        let (other, never) = node(alone(2), |_| true).await;
        let peer_graph = PeerGraph::new([url, other]);
        let begin = Instant::now();
        join_all((0..50).map(|_| peer_graph.node_info_at(begin))).await;
        peer_graph.node_info_at(begin + REFRESH_INTERVAL - Duration::from_millis(1)).await;
        assert_eq!(requests.load(Ordering::Relaxed), 3, "four questions together, one for its statistics, one for stake");
        peer_graph.node_info_at(begin + REFRESH_INTERVAL).await;
        assert_eq!(requests.load(Ordering::Relaxed), 6);
        assert_eq!(never.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn cancelled_readers_cause_no_requests() {
        let (url, requests) = node(alone(1), |_| true).await;
        let peer_graph = PeerGraph::new([url]);
        let begin = Instant::now();
        for _ in 0..50 {
            // Starts a request and drops it before the response.
            assert!(peer_graph.at(begin).now_or_never().is_none());
            task::yield_now().await;
        }
        peer_graph.at(begin).await;
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn silent_node_keeps_its_identity() {
        // The second node answers once. The third one accepts a connection and never responds.
        let (well, _) = node(alone(1), |_| true).await;
        let (ill, _) = node(alone(2), |question| question == 0).await;
        let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mute = (format!("http://{}", mute.local_addr().unwrap()), mute);
        let peer_graph = PeerGraph::with_timeout_of([&well, &ill, &mute.0], Duration::from_millis(200));
        let begin = Instant::now();
        let rows = |first: Option<u8>, second: Option<u8>| {
            let row = |known: u8, answers: Option<u8>| NodePeers { own: Some(peer(known)), peers: answers.map(|_| vec![]) };
            vec![row(1, first), row(2, second), NodePeers::default()]
        };
        assert_eq!(peer_graph.at(begin).await.rows, rows(Some(1), Some(2)));
        assert_eq!(peer_graph.at(begin + REFRESH_INTERVAL).await.rows, rows(Some(1), None));
        assert_eq!(peer_graph.at(begin + REFRESH_INTERVAL * 2).await.rows, rows(Some(1), None), "it is still known");
    }

    #[test]
    fn peer_texts_are_truncated() {
        let hostile = Peer {
            peer_id: format!("<b>é{}", "1".repeat(500)),
            version: Some(format!("\u{202e}\u{0}a{}", "b".repeat(1 << 20))),
            ..peer(7)
        };
        let mute = Peer { version: Some("\u{200b}\n".into()), ..peer(7) };
        let row = NodePeers::of(Peers { own: Some(hostile), peers: vec![mute; 2_000] });
        let own = row.own.unwrap();
        assert_eq!(own.peer_id, format!("b{}", "1".repeat(63)));
        assert_eq!(own.version, Some(format!("a{}", "b".repeat(61))));
        let peers = row.peers.unwrap();
        assert_eq!((peers.len(), &peers[0].version), (1_000, &None));
    }

    #[test]
    fn endpoints_are_truncated() {
        let staking = json!({
            "epoch": "0x0", "startMs": "0x0", "startBlock": "0x0", "announcementsMs": null, "freezeMs": null, "endMs": null,
            "phase": "open", "votePrice": "0x1", "parameters": StakingRules::from(&StakingParameters::default()),
            "validators": vec![json!({
                "id": "0x0", "owner": Address::ZERO, "nextOwner": null, "operator": Address::ZERO, "fee": Address::ZERO,
                "bonded": "0x1", "queued": "0x0", "free": "0x0", "jailedUntil": "0x0", "consensusKey": B256::ZERO,
                "blsKey": "0x", "networkKey": B256::ZERO, "coinKey": "0x", "votes": "0x1", "nextVotes": null,
                "announced": false, "endpoints": vec![format!("\u{202e}a{}", "b".repeat(1_000)); 9],
            }); 1_001],
        });
        let Staking { validators, .. } = bounded(serde_json::from_value(staking).unwrap());
        assert_eq!(validators.len(), 1_000);
        assert_eq!(validators[0].endpoints, vec![format!("a{}", "b".repeat(254)); 4]);
    }
}
