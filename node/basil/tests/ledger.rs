//! Closed watermarks: prefixes of the serial order that cannot change any more (specification §8.2, A5).

use corniche_basil::attestation::Decision;
use corniche_basil::config::Config;
use corniche_basil::message::{Message, Peer};
use corniche_basil::shards::{ReplicaId, ShardId};
use corniche_basil_testing::doubles::{Liar, Lie};
use corniche_basil_testing::{START, World, checker, client_id, exact, unwritten};
use std::sync::Arc;

const ALICE: u8 = 0;
const EXPORTER: u8 = 1;

fn world() -> World {
    World::new(2, 2, Config { close_ms: 1_000, close_after_ms: 500, ..exact() }, 1)
}

fn send_to_all(world: &mut World, message: Message) {
    let message = Arc::new(message);
    for replica in world.all_replicas() {
        world.post(Peer::Client(client_id(ALICE)), Peer::Replica(replica), Arc::clone(&message));
    }
}

#[test]
fn an_export_contains_everything_once_in_order() {
    let mut world = world();
    let keys = world.keys_on_each_shard();
    let mut expected = Vec::new();
    for salt in 0..10 {
        // Every second transaction touches one shard only.
        let touched = if salt % 2 == 0 { &keys[..] } else { &keys[..1] };
        let timestamp = world.execute(client_id(ALICE), touched);
        let id = world.commit(client_id(ALICE), timestamp, touched, salt);
        assert_eq!(world.wait(client_id(ALICE), id).0, Decision::Commit);
        world.run(100);
        expected.push(id);
    }
    world.run(5_000);
    let (start, end) = (START * 1_000, START * 1_000 + 4_000_000);
    assert_eq!(world.export(client_id(EXPORTER), start, end), Ok(expected));
    assert_eq!(world.export(client_id(EXPORTER), end, end + 1_000_000), Ok(vec![]));
}

#[test]
fn a_watermark_that_is_not_closed_waits() {
    let mut world = world();
    let below_us = (START + 20_000) * 1_000;
    world.with_client(client_id(EXPORTER), |client, now| assert!(client.export(now, 0, below_us)));
    world.run(20_000);
    assert!(world.clients[&client_id(EXPORTER)].exported.is_empty(), "it closes half a second later");
    world.run(2_000);
    assert_eq!(world.clients[&client_id(EXPORTER)].exported.len(), 1);
}

#[test]
fn an_unseen_transaction_below_a_closed_watermark_aborts() {
    let mut world = world();
    world.run(5_000);
    let keys = world.keys_on_each_shard();
    let reads = keys.iter().map(unwritten).collect();
    let (id, late) = world.forge(client_id(ALICE), START * 1_000 + 1, reads, &keys, 1);
    send_to_all(&mut world, Message::Prepare(late.clone()));
    world.run(1_000);
    world.with_client(client_id(EXPORTER), |client, now| client.recover(now, late));
    world.run(1_000);
    assert_eq!(world.clients[&client_id(EXPORTER)].recovered, [id]);
    assert!(world.decided.iter().all(|decided| decided.decision() == Decision::Abort));
    assert_eq!(world.export(client_id(EXPORTER), 0, (START + 1_000) * 1_000), Ok(vec![]));
}

#[test]
fn an_export_finishes_a_stalled_transaction() {
    let mut world = world();
    let keys = world.keys_on_each_shard();
    let reads = keys.iter().map(unwritten).collect();
    let (id, stalled) = world.forge(client_id(ALICE), START * 1_000 + 1, reads, &keys, 1);
    send_to_all(&mut world, Message::Prepare(stalled));
    world.run(5_000);
    assert!(world.decided.is_empty());
    assert_eq!(world.export(client_id(EXPORTER), 0, (START + 1_000) * 1_000), Ok(vec![id]));
    checker::check(&world.shards, &world.decided).unwrap();
}

#[test]
fn a_liar_that_lists_nothing_true_changes_nothing() {
    for member in 0..6 {
        let mut world = world();
        for shard in world.shards.ids() {
            let liar = Some(Liar::new(Lie::FakeLists));
            world.replicas.get_mut(&ReplicaId { shard, member }).unwrap().liar = liar;
        }
        let keys = world.keys_on(ShardId(0), 2);
        let timestamp = world.execute(client_id(ALICE), &keys);
        let id = world.commit(client_id(ALICE), timestamp, &keys, 1);
        world.run(5_000);
        assert_eq!(world.export(client_id(EXPORTER), 0, (START + 1_000) * 1_000), Ok(vec![id]));
    }
}
