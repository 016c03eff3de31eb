//! `corniche_getDag`, and notifications of DAG growth.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use crate::common::dag::{batch, decided, digest, sample, vertex};
use crate::common::{Fixture, WebSocket};
use corniche_api::{Dag, DagVertex, LeaderSlot, SlotStatus};
use corniche_engine::TraceEvent;
use corniche_rpc::RpcConfig;
use corniche_types::{TimestampMs, ValidatorIndex};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const METHOD: &str = "corniche_getDag";

async fn dag(fixture: &Fixture, params: Value) -> Dag {
    serde_json::from_value(fixture.client.result(METHOD, params).await).unwrap()
}

/// Round and author of every vertex.
fn places(dag: &Dag) -> Vec<(u64, u64)> {
    dag.vertices.iter().map(|vertex| (vertex.round, vertex.author)).collect()
}

fn statuses(dag: &Dag) -> Vec<(u64, SlotStatus)> {
    dag.slots.iter().map(|slot| (slot.round, slot.status)).collect()
}

#[tokio::test]
async fn dag_has_proposals_leaders_and_order() {
    let fixture = Fixture::start().await;
    fixture.chain.trace(sample());
    let whole = dag(&fixture, json!(["0x1", "0x4"])).await;
    assert_eq!((whole.from_round, whole.to_round, whole.newest_round, whole.dropped), (1, 4, 4, 3));
    assert_eq!(places(&whole), (1..=4).flat_map(|round| (0..4).map(move |author| (round, author))).collect::<Vec<_>>());
    let own = DagVertex {
        round: 2,
        author: 0,
        digest: digest(2, 0),
        parents: (0..4).map(|author| digest(1, author)).collect(),
        batch_bytes: 0,
        batch_digest: None,
        proposed_ms: Some(2_000),
        accepted_ms: Some(2_010),
        holders: vec![],
    };
    assert_eq!(whole.vertices[4], own);
    assert_eq!((whole.vertices[5].proposed_ms, whole.vertices[5].accepted_ms), (None, Some(2_011)));
    assert_eq!(whole.vertices[5].batch_digest, Some(batch(2, 1)));
    use SlotStatus::{Committed, Skipped, Undecided};
    assert_eq!(statuses(&whole), [(1, Committed), (2, Skipped), (3, Undecided), (4, Committed)]);
    let first = LeaderSlot {
        round: 1,
        rank: 0,
        validator: 0,
        status: Committed,
        digest: Some(digest(1, 0)),
        why: Some("a quorum of certificates".into()),
        decided_ms: Some(5_001),
        commit: Some(9),
        voters: vec![],
        confirmers: vec![],
    };
    assert_eq!(whole.slots[0], first);
    assert_eq!(whole.slots[3].commit, None, "committed, and not delivered");
    assert_eq!(whole.order, [digest(1, 0)], "nothing is delivered past the undecided slot");
}

#[tokio::test]
async fn dag_has_holders_and_voters() {
    let fixture = Fixture::start().await;
    let by = |validators: &[u16]| validators.iter().copied().map(ValidatorIndex).collect::<Vec<_>>();
    let held = |author, holders: &[u16]| TraceEvent::Held { vertex: vertex(1, author).id, holders: by(holders) };
    let agreed = |round, voters: &[u16], confirmers: &[u16]| {
        let (voters, confirmers) = (by(voters), by(confirmers));
        TraceEvent::Agreed { round, rank: 0, voters, confirmers }
    };
    let events = [
        // Signatures may arrive before or after the proposal they are for.
        held(1, &[1, 3]),
        TraceEvent::Accepted(vertex(1, 1)),
        TraceEvent::Accepted(vertex(1, 0)),
        held(0, &[0, 2]),
        TraceEvent::Accepted(vertex(1, 2)),
        // Events repeated after a restart, and events of a proposal that never arrives.
        held(0, &[0, 1]),
        held(3, &[2, 3]),
        agreed(1, &[], &[0, 1, 2]),
        decided(1, 1, true, "slow in view 0"),
        decided(2, 2, true, "fast in view 0"),
        agreed(2, &[0, 1, 2, 3], &[]),
        agreed(1, &[1, 2, 3], &[1, 2, 3]),
        agreed(3, &[0, 1, 2, 3], &[]),
    ];
    fixture.chain.trace(events.into_iter().map(|event| (TimestampMs(1), event)).collect());
    let seen = dag(&fixture, json!(["0x1", "0x3"])).await;
    let holders: Vec<_> = seen.vertices.iter().map(|vertex| vertex.holders.as_slice()).collect();
    assert_eq!(holders, [&[0, 2][..], &[1, 3], &[]]);
    let [first, second] = seen.slots.as_slice() else { panic!("{:?}", seen.slots) };
    assert_eq!((first.voters.as_slice(), first.confirmers.as_slice()), (&[1, 2, 3][..], &[0, 1, 2][..]));
    assert_eq!((second.voters.as_slice(), second.confirmers.as_slice()), (&[0, 1, 2, 3][..], &[][..]));
}

#[tokio::test]
async fn newest_rounds_by_count() {
    let fixture = Fixture::start().await;
    fixture.chain.trace(sample());
    let latest = dag(&fixture, json!(["latest", "0x2"])).await;
    assert_eq!((latest.from_round, latest.to_round), (3, 4));
    assert_eq!(places(&latest).first(), Some(&(3, 0)));
    let more_than_there_are = dag(&fixture, json!(["latest", 200])).await;
    assert_eq!((more_than_there_are.from_round, more_than_there_are.vertices.len()), (0, 16));
    let into_the_future = dag(&fixture, json!(["0x4", "0x9"])).await;
    assert_eq!((into_the_future.to_round, into_the_future.vertices.len()), (4, 4));
}

#[tokio::test]
async fn repeated_events_change_nothing() {
    let fixture = Fixture::start().await;
    fixture.chain.trace(sample());
    let before = dag(&fixture, json!(["0x1", "0x4"])).await;
    let later = sample().into_iter().map(|(time, event)| (TimestampMs(time.0 + 60_000), event));
    fixture.chain.trace(sample().into_iter().chain(later).collect());
    assert_eq!(dag(&fixture, json!(["0x1", "0x4"])).await, before);
    let mut other = vertex(2, 3);
    other.id.digest = digest(2, 77);
    fixture.chain.trace(sample().into_iter().chain([(TimestampMs(1), TraceEvent::Accepted(other))]).collect());
    let twice = dag(&fixture, json!(["0x2", "0x2"])).await;
    assert_eq!(places(&twice), [(2, 0), (2, 1), (2, 2), (2, 3), (2, 3)]);
}

/// Round 2's leader is not known yet, so nothing after round 2 is delivered, although round 3 is decided.
#[tokio::test]
async fn order_ends_at_missing_leader() {
    let fixture = Fixture::start().await;
    let of_round_2 =
        |event: &TraceEvent| matches!(event, TraceEvent::Elected { round: 2, .. } | TraceEvent::Decided { round: 2, .. });
    let mut events = sample();
    events.retain(|(_, event)| !of_round_2(event));
    events.push((TimestampMs(9_000), decided(3, 2, true, "by an anchor")));
    fixture.chain.trace(events);
    let seen = dag(&fixture, json!(["0x1", "0x4"])).await;
    assert_eq!(seen.slots.iter().map(|slot| slot.round).collect::<Vec<_>>(), [1, 3, 4]);
    assert_eq!(seen.order, [digest(1, 0)]);
}

#[tokio::test]
async fn round_with_several_leaders() {
    let fixture = Fixture::start().await;
    let leaders = [3, 1].map(ValidatorIndex).to_vec();
    fixture.chain.trace(vec![(TimestampMs(1), TraceEvent::Elected { round: 7, leaders })]);
    let seen = dag(&fixture, json!(["0x7", "0x7"])).await;
    let slots: Vec<_> = seen.slots.iter().map(|slot| (slot.rank, slot.validator, slot.status)).collect();
    assert_eq!(slots, [(0, 3, SlotStatus::Undecided), (1, 1, SlotStatus::Undecided)]);
}

#[tokio::test]
async fn invalid_dag_ranges_are_rejected() {
    let fixture = Fixture::with(RpcConfig { max_dag_rounds: 3, max_dag_vertices: 8, ..RpcConfig::default() }).await;
    let refused = |params: Value| fixture.client.error(METHOD, params);
    let full_node = refused(json!(["latest", "0x1"])).await;
    assert_eq!(full_node, (-32000, "this node has no DAG to show: a full node".into()));
    fixture.chain.trace(sample());
    let table = [
        (json!(["0x3", "0x2"]), -32602, "invalid round range: the first round, 3, is after the last, 2"),
        (json!(["0x5", "0x6"]), -32602, "invalid round range: the newest round is 4"),
        (json!(["latest", "0x0"]), -32602, "invalid round range: the number of rounds is 0"),
        (json!(["0x1", "0x4"]), -32602, "exceed maximum round range: at most 3 rounds"),
        (json!(["0x0", "0xffffffffffffffff"]), -32602, "exceed maximum round range: at most 3 rounds"),
        (json!(["latest", "0xffffffffffffffff"]), -32602, "exceed maximum round range: at most 3 rounds"),
        (json!(["0x1", "0x3"]), -32005, "query returned more than 8 vertices; ask for fewer rounds"),
        (json!(["0x1"]), -32602, "missing value for required argument 1"),
        (json!(["0x1", "0x2", "0x3"]), -32602, "too many arguments, want at most 2"),
        (json!(["0x1", "latest"]), -32602, "invalid argument 1"),
        (json!(["newest", "0x1"]), -32602, "invalid argument 0: expected a round number or \"latest\""),
    ];
    for (params, code, message) in table {
        let (found_code, found) = refused(params.clone()).await;
        assert_eq!(found_code, code, "{params}: {found}");
        assert!(found.starts_with(message), "{params}: {found}");
    }
    // Two rounds are within all limits, but not if their events are repeated five times.
    let again = (0..5).flat_map(|_| sample()).collect();
    assert_eq!(dag(&fixture, json!(["0x1", "0x2"])).await.vertices.len(), 8);
    fixture.chain.trace(again);
    assert_eq!(refused(json!(["0x1", "0x2"])).await.1, "query returned more than 32 events; ask for fewer rounds");
}

/// A single proposal in this round.
fn reaching(round: u64) -> Vec<(TimestampMs, TraceEvent)> {
    vec![(TimestampMs(round), TraceEvent::Accepted(vertex(round, 0)))]
}

fn newest(round: u64) -> Value {
    json!({"newestRound": format!("{round:#x}")})
}

/// Client that follows the DAG and was notified of round 4.
async fn follower(fixture: &Fixture) -> (WebSocket, String) {
    fixture.chain.trace(reaching(4));
    let mut socket = fixture.client.websocket().await;
    let name = socket.subscribe(json!(["corniche_dag"])).await;
    assert_eq!(socket.notification(&name).await, newest(4));
    (socket, name)
}

#[tokio::test]
async fn dag_notifications_are_rate_limited() {
    let fixture = Fixture::start().await;
    let began = Instant::now();
    let (mut socket, name) = follower(&fixture).await;
    for round in 5..=8 {
        fixture.chain.trace(reaching(round));
        assert_eq!(socket.notification(&name).await, newest(round));
    }
    // A decision on an older round is growth too.
    fixture.chain.trace([reaching(8), vec![(TimestampMs(9), decided(5, 0, false, "a quorum without votes"))]].concat());
    assert_eq!(socket.notification(&name).await, newest(8));
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn slow_subscriber_gets_newest_round() {
    let fixture = Fixture::start().await;
    let (mut socket, name) = follower(&fixture).await;
    // The server does not run between these.
    (5..=200).for_each(|round| fixture.chain.trace(reaching(round)));
    assert_eq!(socket.notification(&name).await, newest(200));
    socket.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "eth_chainId"}).to_string()).await;
    assert_eq!(socket.next().await.unwrap()["id"], 7, "nothing waited for the client");
}

#[tokio::test]
async fn unsubscribe_stops_dag_notifications() {
    let fixture = Fixture::start().await;
    let (mut socket, name) = follower(&fixture).await;
    let heads = socket.subscribe(json!(["newHeads"])).await;
    assert_eq!(socket.call("eth_unsubscribe", json!([name])).await["result"], true);
    let (mut other, others_name) = follower(&fixture).await;
    fixture.chain.trace(reaching(5));
    // By now the first client would have been notified.
    assert_eq!(other.notification(&others_name).await, newest(5));
    fixture.chain.mine(&[]);
    assert_eq!(socket.notification(&heads).await["number"], "0x1");
}

#[tokio::test]
async fn dag_subscription_needs_dag() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    let follow = json!(["corniche_dag"]);
    let refused = socket.call("eth_subscribe", follow.clone()).await["error"].clone();
    assert_eq!(refused, json!({"code": -32000, "message": "this node has no DAG to show: a full node"}));
    assert_eq!(refused, fixture.client.call(METHOD, json!(["latest", "0x1"])).await["error"]);

    let fixture = Fixture::with(RpcConfig { namespaces: "eth".parse().unwrap(), ..RpcConfig::default() }).await;
    fixture.chain.trace(sample());
    let mut socket = fixture.client.websocket().await;
    let refused = socket.call("eth_subscribe", follow).await["error"].clone();
    assert_eq!(refused["code"], -32601);
    assert_eq!(refused, fixture.client.call(METHOD, json!(["latest", "0x1"])).await["error"]);
}
