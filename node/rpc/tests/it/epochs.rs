//! `corniche_getEpoch`, `corniche_getCommittee`, `corniche_getOffences`, `corniche_getSyncStatus`, and the subscription `epochs`.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{Fixture, TestChain, transfer};
use corniche_api::{CommitteeInfo, EpochInfo, Offence, Offences, SyncStatus};
use corniche_rpc::RpcConfig;
use corniche_staking::{
    ValidatorId,
    record::{Committee, Header, PastCommittee, set_convicted},
};
use corniche_types::{B256, Epoch};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

async fn read<T: DeserializeOwned>(fixture: &Fixture, method: &str, params: Value) -> T {
    serde_json::from_value(fixture.client.result(method, params).await).unwrap()
}

#[tokio::test]
async fn epochs_are_found_by_number_and_name() {
    let fixture = Fixture::start().await;
    fixture.chain.begin_epoch(2);
    let epoch = async |id| read::<Option<EpochInfo>>(&fixture, "corniche_getEpoch", json!([id])).await;
    let (past, running) = (epoch("0x1").await.unwrap(), epoch("latest").await.unwrap());
    assert_eq!((past.epoch, past.last_block, past.end_ms), (1, Some(20), Some(running.start_ms)));
    assert_eq!((running.epoch, running.first_block, running.last_block), (2, 21, None));
    assert_eq!(past.next.unwrap().committee_hash, running.committee_hash);
    assert_eq!(epoch("0x2").await, Some(running));
    assert_eq!(epoch("0x3").await, None);
    for bad in [json!([]), json!(["pending"]), json!([1.5]), json!(["0x1", 1])] {
        assert_eq!(fixture.client.error("corniche_getEpoch", bad).await.0, -32602);
    }
}

#[tokio::test]
async fn past_committees_have_some_keys() {
    let fixture = Fixture::start().await;
    fixture.chain.begin_epoch(1);
    let committee = async |id| read::<Option<CommitteeInfo>>(&fixture, "corniche_getCommittee", json!([id])).await;
    let (past, running) = (committee("0x0").await.unwrap(), committee("latest").await.unwrap());
    assert_eq!((past.epoch, running.epoch, past.quorum), (0, 1, 3));
    assert_eq!((past.members[3].consensus_key, past.members[3].fee_address), (None, None));
    assert!(running.members.iter().all(|member| member.consensus_key.is_some() && member.network_key.is_some()));
    assert_eq!(past.members[3].bls_key, running.members[3].bls_key);
    assert_eq!(committee("0x2").await, None);
}

async fn offences(fixture: &Fixture, from: &str) -> Offences {
    read(fixture, "corniche_getOffences", json!([from])).await
}

#[tokio::test]
async fn offences_are_those_of_the_state() {
    let fixture = Fixture::start().await;
    assert_eq!(offences(&fixture, "0x0").await, Offences::default());
    fixture.chain.stake(|slots| {
        begin_epochs(slots, 2);
        for (epoch, id) in [(0, 3), (2, 0), (2, 1)] {
            set_convicted(slots, Epoch(epoch), ValidatorId(id)).unwrap();
        }
    });
    let offence = |epoch, id| Offence { epoch, id, index: id, votes: 2 };
    let all = [offence(0, 3), offence(2, 0), offence(2, 1)];
    assert_eq!(offences(&fixture, "0x0").await, Offences { offences: all.to_vec(), next: None });
    assert_eq!(offences(&fixture, "0x1").await.offences, all[1..]);
    assert_eq!(offences(&fixture, "0x3").await.offences, []);
    assert_eq!(fixture.client.error("corniche_getOffences", json!(["latest"])).await.0, -32602);
}

/// Begins epochs of the same committee, as kept ones do.
fn begin_epochs(slots: &mut std::collections::BTreeMap<B256, B256>, last: u64) {
    let committee = Committee::load(slots, Epoch(0)).unwrap();
    for epoch in (1..=last).map(Epoch) {
        committee.store(slots, epoch).unwrap();
        PastCommittee::store(slots, epoch, B256::with_last_byte(epoch.0 as u8), &committee).unwrap();
        let header = Header::load(slots).unwrap();
        Header { epoch, ..header }.store(slots).unwrap();
    }
}

/// Epochs are whole, and the next request continues after the last one.
#[tokio::test]
async fn many_offences_take_several_requests() {
    let fixture = Fixture::serve(TestChain::staked(200), RpcConfig::default()).await;
    fixture.chain.stake(|slots| {
        begin_epochs(slots, 70);
        for epoch in 67..=70 {
            (0..200).for_each(|id| set_convicted(slots, Epoch(epoch), ValidatorId(id)).unwrap());
        }
    });
    let first = offences(&fixture, "0x0").await;
    assert_eq!((first.offences.len(), first.next), (400, Some(69)));
    assert_eq!(first.offences.iter().map(|offence| offence.epoch).max(), Some(68));
    let rest = offences(&fixture, "0x45").await;
    assert_eq!((rest.offences.len(), rest.next), (400, None));
}

#[tokio::test]
async fn chain_without_staking_has_no_offences() {
    let fixture = Fixture::serve(TestChain::without_staking(), RpcConfig::default()).await;
    assert_eq!(fixture.client.result("corniche_getOffences", json!(["0x0"])).await, Value::Null);
}

#[tokio::test]
async fn sync_status_names_base_and_snapshots() {
    let fixture = Fixture::start().await;
    for nonce in 0..5 {
        fixture.chain.mine(&[(transfer(nonce), vec![])]);
    }
    fixture.chain.finalize(4);
    let whole: SyncStatus = read(&fixture, "corniche_getSyncStatus", json!([])).await;
    assert_eq!((whole.base, whole.first_block, whole.head, whole.certified), (None, 1, 5, 4));
    assert_eq!((whole.follows, whole.snapshots.len()), (true, 1));
    fixture.chain.prune_below(4);
    let pruned: SyncStatus = read(&fixture, "corniche_getSyncStatus", json!([])).await;
    assert_eq!((pruned.base, pruned.first_block), (Some(3), 4));
}

/// One notification for each epoch, also for those that were not announced, and none for epochs that ran before.
#[tokio::test]
async fn each_epoch_is_notified_once() {
    let chain = TestChain::new();
    chain.begin_epoch(3);
    let fixture = Fixture::serve(chain, RpcConfig::default()).await;
    let mut socket = fixture.client.websocket().await;
    let epochs = socket.subscribe(json!(["epochs"])).await;
    fixture.chain.begin_epoch(40);
    fixture.chain.announce_epoch();
    fixture.chain.announce_epoch();
    for epoch in 4..=40 {
        assert_eq!(socket.notification(&epochs).await["epoch"], format!("{epoch:#x}"));
    }
    fixture.chain.begin_epoch(41);
    fixture.chain.announce_epoch();
    let told = socket.notification(&epochs).await;
    assert_eq!(told, fixture.client.result("corniche_getEpoch", json!(["latest"])).await);
    assert_eq!(told["lastBlock"], Value::Null);
    assert_eq!(socket.call("eth_unsubscribe", json!([epochs])).await["result"], true);
}

#[tokio::test]
async fn epochs_need_their_namespace() {
    let fixture = Fixture::with(RpcConfig { namespaces: "eth".parse().unwrap(), ..RpcConfig::default() }).await;
    let mut socket = fixture.client.websocket().await;
    let refused = socket.call("eth_subscribe", json!(["epochs"])).await;
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
}
