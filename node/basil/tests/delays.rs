//! The acceptance table: decisions in message delays, with one faulty replica of six at most (specification §8.3).

use corniche_basil::attestation::Decision::{Abort, Commit};
use corniche_basil::message::{Message, Peer};
use corniche_basil::shards::{ReplicaId, ShardId};
use corniche_basil_testing::doubles::{Liar, Lie};
use corniche_basil_testing::{World, checker, client_id, exact, unwritten};
use corniche_types::Bytes;
use std::sync::Arc;

const ALICE: u8 = 0;
const BOB: u8 = 1;

fn world(shards: u16) -> World {
    World::new(shards, 2, exact(), 1)
}

#[test]
fn without_conflicts_a_transaction_takes_two_delays() {
    for shards in [1, 3] {
        let mut world = world(shards);
        let keys = world.keys_on_each_shard();
        let timestamp = world.execute(client_id(ALICE), &keys);
        let id = world.commit(client_id(ALICE), timestamp, &keys, 1);
        assert_eq!(world.wait(client_id(ALICE), id), (Commit, 2), "{shards} shards");
        assert_eq!(world.count("st2"), 0, "{shards} shards");
        // The application heard it before any replica applied it.
        assert_eq!(world.decided.len(), 1);
        world.run(1_000);
        checker::check(&world.shards, &world.decided).unwrap();
        assert_eq!(world.decided.len(), 1 + 6 * usize::from(shards));
    }
}

#[test]
fn reads_take_two_delays() {
    let mut world = world(1);
    let keys = world.keys_on_each_shard();
    let start = world.now;
    world.execute(client_id(ALICE), &keys);
    assert_eq!(world.now - start, 2 * corniche_basil_testing::DELAY);
    assert_eq!(world.count("read"), 3, "2f + 1 replicas are asked");
}

/// The slow path waits for missing votes, so the test sets that time to zero.
#[test]
fn a_silent_replica_costs_two_delays_and_one_shard_logs() {
    for shards in [1, 3] {
        let config = corniche_basil::config::Config { fast_path_ms: 0, ..exact() };
        let mut world = World::new(shards, 1, config, 1);
        let silent = ReplicaId { shard: ShardId(0), member: 3 };
        world.replicas.get_mut(&silent).unwrap().liar = Some(Liar::new(Lie::Silent));
        let keys = world.keys_on_each_shard();
        let timestamp = world.execute(client_id(ALICE), &keys);
        let id = world.commit(client_id(ALICE), timestamp, &keys, 1);
        assert_eq!(world.wait(client_id(ALICE), id), (Commit, 4), "{shards} shards");
        assert_eq!(world.count("st2"), 6, "the logging shard only");
    }
}

#[test]
fn abort_votes_decide_in_two_delays() {
    let mut world = world(1);
    let keys = world.keys_on(ShardId(0), 1);
    // Bob reads at a later timestamp and prepares; Alice's write would slip under it.
    let early = world.execute(client_id(ALICE), &[]);
    world.run(5);
    let late = world.execute(client_id(BOB), &keys);
    let bob = world.commit(client_id(BOB), late, &keys, 1);
    world.run(corniche_basil_testing::DELAY + 1);
    let alice = world.commit(client_id(ALICE), early, &keys, 2);
    assert_eq!(world.wait(client_id(ALICE), alice), (Abort, 2));
    assert_eq!(world.count("st2"), 0);
    assert_eq!(world.wait(client_id(BOB), bob).0, Commit);
    world.run(1_000);
    checker::check(&world.shards, &world.decided).unwrap();
}

#[test]
fn one_proof_of_a_conflict_aborts_in_two_delays() {
    let mut world = world(1);
    let keys = world.keys_on(ShardId(0), 1);
    let early = world.execute(client_id(ALICE), &[]);
    world.run(5);
    let late = world.execute(client_id(BOB), &keys);
    let bob = world.commit(client_id(BOB), late, &keys, 1);
    assert_eq!(world.wait(client_id(BOB), bob).0, Commit);
    world.run(1_000);
    // Only one replica answers at once.
    let first = Peer::Replica(ReplicaId { shard: ShardId(0), member: 0 });
    world.delay = Box::new(move |_, from, _, message| match message {
        Message::Vote { .. } if from != first => Some(corniche_basil_testing::DELAY * 100),
        _ => Some(corniche_basil_testing::DELAY),
    });
    let alice = world.commit(client_id(ALICE), early, &keys, 2);
    assert_eq!(world.wait(client_id(ALICE), alice), (Abort, 2));
    world.run(5_000);
    checker::check(&world.shards, &world.decided).unwrap();
}

#[test]
fn a_reader_of_a_prepared_value_waits_for_its_writer() {
    let mut world = world(1);
    let keys = world.keys_on(ShardId(0), 1);
    let first = world.execute(client_id(ALICE), &keys);
    let writer = world.commit(client_id(ALICE), first, &keys, 1);
    world.run(corniche_basil_testing::DELAY);
    // The writer is prepared. Bob reads its value and commits in two delays after the writer's certificate.
    let second = world.execute(client_id(BOB), &keys);
    let reads = world.clients[&client_id(BOB)].client.reads(second);
    assert_eq!(reads[0].version.writer, writer, "the prepared version was read");
    let reader = world.commit(client_id(BOB), second, &keys, 2);
    assert_eq!(world.wait(client_id(ALICE), writer).0, Commit);
    assert_eq!(world.wait(client_id(BOB), reader).0, Commit);
    world.run(1_000);
    let history = checker::check(&world.shards, &world.decided).unwrap();
    assert_eq!((history.commits, history.aborts), (2, 0));
}

#[test]
fn a_stalled_transaction_is_finished_by_its_reader() {
    let mut world = world(1);
    let keys = world.keys_on(ShardId(0), 1);
    // Alice stops after ST1.
    let (id, stalled) =
        world.forge(client_id(ALICE), corniche_basil_testing::START * 1_000 + 1, vec![unwritten(&keys[0])], &keys, 1);
    for replica in world.all_replicas() {
        world.post(Peer::Client(client_id(ALICE)), Peer::Replica(replica), Arc::new(Message::Prepare(stalled.clone())));
    }
    world.run(corniche_basil_testing::DELAY + 1);
    let timestamp = world.execute(client_id(BOB), &keys);
    assert_eq!(world.clients[&client_id(BOB)].client.reads(timestamp)[0].version.writer, id);
    let reader = world.commit(client_id(BOB), timestamp, &keys, 2);
    assert_eq!(world.wait(client_id(BOB), reader).0, Commit);
    assert_eq!(world.clients[&client_id(BOB)].recovered, [id]);
    world.run(1_000);
    assert_eq!(checker::check(&world.shards, &world.decided).unwrap().commits, 2);
}

#[test]
fn recovery_takes_one_round_trip() {
    let mut world = world(2);
    let keys = world.keys_on_each_shard();
    let reads = keys.iter().map(unwritten).collect();
    let (id, stalled) = world.forge(client_id(ALICE), corniche_basil_testing::START * 1_000 + 1, reads, &keys, 1);
    for replica in world.all_replicas() {
        world.post(Peer::Client(client_id(ALICE)), Peer::Replica(replica), Arc::new(Message::Prepare(stalled.clone())));
    }
    world.run(1_000);
    let start = world.now;
    world.with_client(client_id(BOB), |client, now| client.recover(now, stalled));
    while world.clients[&client_id(BOB)].recovered.is_empty() {
        assert!(world.step(start + 10_000));
    }
    assert_eq!((world.clients[&client_id(BOB)].recovered[0], (world.now - start) / corniche_basil_testing::DELAY), (id, 2));
}

#[test]
fn one_liar_that_votes_abort_aborts_nothing() {
    let config = corniche_basil::config::Config { fast_path_ms: 0, ..exact() };
    let mut world = World::new(1, 1, config, 1);
    world.replicas.get_mut(&ReplicaId { shard: ShardId(0), member: 2 }).unwrap().liar = Some(Liar::new(Lie::VoteAbort));
    let keys = world.keys_on(ShardId(0), 3);
    for salt in 0..20 {
        let timestamp = world.execute(client_id(ALICE), &keys);
        let id = world.commit(client_id(ALICE), timestamp, &keys, salt);
        assert_eq!(world.wait(client_id(ALICE), id), (Commit, 4), "the fast path is gone");
        world.run(100);
    }
    checker::check(&world.shards, &world.decided).unwrap();
}

#[test]
fn invented_versions_are_never_read() {
    for member in 0..6 {
        let mut world = world(1);
        world.replicas.get_mut(&ReplicaId { shard: ShardId(0), member }).unwrap().liar = Some(Liar::new(Lie::InventVersions));
        let keys = world.keys_on(ShardId(0), 2);
        for salt in 0..5 {
            let timestamp = world.execute(client_id(ALICE), &keys);
            let reads = world.clients[&client_id(ALICE)].client.reads(timestamp);
            assert!(reads.iter().all(|read| read.value != Some(Bytes::from_static(b"invented"))));
            let id = world.commit(client_id(ALICE), timestamp, &keys, salt);
            assert_eq!(world.wait(client_id(ALICE), id).0, Commit);
            world.run(100);
        }
        checker::check(&world.shards, &world.decided).unwrap();
    }
}
