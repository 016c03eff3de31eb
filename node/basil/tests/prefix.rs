//! Complete prefixes: replicas find what they missed, and forget what nobody needs any more.

use corniche_basil::attestation::Decision;
use corniche_basil::certificate::Certificate;
use corniche_basil::config::Config;
use corniche_basil::message::{Message, Peer};
use corniche_basil::record::Record;
use corniche_basil::replica::Replica;
use corniche_basil::shards::{Key, ReplicaId, ShardId};
use corniche_basil::transaction::{Read, Version};
use corniche_basil_testing::doubles::{LIES, Liar, Lie};
use corniche_basil_testing::workload::{Shape, Workload};
use corniche_basil_testing::{START, World, checker, client_id, exact, unwritten};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const ALICE: u8 = 0;

fn config() -> Config {
    Config { close_ms: 1_000, close_after_ms: 500, keep_ms: 2_000, audit_ms: 200, ..exact() }
}

fn commit(world: &mut World, client: u8, keys: &[Key], salt: u64) {
    let timestamp = world.execute(client_id(client), keys);
    let id = world.commit(client_id(client), timestamp, keys, salt);
    assert_eq!(world.wait(client_id(client), id).0, Decision::Commit);
}

fn footprints(world: &World) -> Vec<usize> {
    world.replicas.values().map(|node| node.replica.as_ref().map_or(0, Replica::footprint)).collect()
}

#[test]
fn memory_follows_the_number_of_keys() {
    let mut world = World::new(2, 1, config(), 1);
    let genesis = footprints(&world);
    let keys = world.keys_on_each_shard();
    for salt in 0..400 {
        commit(&mut world, ALICE, &keys, salt);
        world.run(100);
    }
    world.run(5_000);
    // Each shard has one key, and the transaction that wrote it.
    let added: Vec<_> = footprints(&world).iter().zip(genesis).map(|(now, before)| now - before).collect();
    assert!(added.iter().all(|added| *added <= 4), "{added:?}");
    commit(&mut world, ALICE, &keys, 400);
    world.run(5_000);
    let history = checker::check(&world.shards, &world.decided).unwrap();
    assert_eq!(history.commits, 401);
}

/// Pitfall 5: a second vote could differ from a forgotten one.
#[test]
fn nothing_is_voted_on_below_the_pruned_prefix() {
    let mut world = World::new(1, 1, config(), 1);
    let keys = world.keys_on(ShardId(0), 1);
    let old = world.now * 1_000 + 1;
    commit(&mut world, ALICE, &keys, 1);
    world.run(10_000);
    let votes = world.count("st1r");
    let (_, late) = world.forge(client_id(ALICE), old, vec![unwritten(&keys[0])], &keys, 7);
    for replica in world.all_replicas() {
        world.post(Peer::Client(client_id(ALICE)), Peer::Replica(replica), Arc::new(Message::Prepare(late.clone())));
    }
    world.run(1_000);
    assert_eq!(world.count("st1r"), votes);
}

/// A replica that heard nothing for a while has the same prefix afterwards, although a liar lists what does not exist.
#[test]
fn a_replica_finds_what_it_missed() {
    for lie in LIES {
        let mut world = World::new(1, 2, Config { keep_ms: 20_000, ..config() }, 1);
        let missing = ReplicaId { shard: ShardId(0), member: 4 };
        world.replicas.get_mut(&ReplicaId { shard: ShardId(0), member: 1 }).unwrap().liar = Some(Liar::new(lie));
        world.delay = Box::new(move |_, from, to, _| {
            let is_cut = from == Peer::Replica(missing) || to == Peer::Replica(missing);
            (!is_cut).then_some(10)
        });
        let keys = world.keys_on(ShardId(0), 5);
        let mut results = 0;
        for salt in 0..10 {
            // With a liar and a silent replica, f is exceeded, so some of these wait until the network is whole again.
            let timestamp = world.execute(client_id(ALICE), &keys[..2]);
            world.commit(client_id(ALICE), timestamp, &keys[..2], salt);
            world.run(300);
            results += 1;
        }
        world.delay = Box::new(|_, _, _, _| Some(10));
        world.run(60_000);
        let heard = |world: &World| {
            let by = |id: &ReplicaId| world.replicas[id].replica.as_ref().map(Replica::complete_us);
            by(&missing)
        };
        assert!(heard(&world) > Some((world.now - 5_000) * 1_000), "{lie:?}: {:?} at {}", heard(&world), world.now);
        let history = checker::check(&world.shards, &world.decided).unwrap();
        assert!(history.commits + history.aborts <= results);
        // It answers reads with the newest version.
        let newest = footprints(&world)[4];
        assert!(newest <= 40, "{lie:?} {newest}");
    }
}

/// Random workloads with short memory: histories stay serial, and replicas restart from their records.
#[test]
fn short_memory_changes_no_history() {
    for seed in 1..6 {
        let mut world = World::new(2, 4, Config { keep_ms: 5_000, ..config() }, seed);
        world.delay = Box::new(|random, _, _, _| Some(1 + random.below(20)));
        let shape = Shape { keys: 20, hot_percent: 30, hot_keys: 2, reads: 2, writes: 2 };
        let mut workload = Workload::new(&world, shape, 60, seed);
        workload.run(&mut world, 5_000);
        for id in world.all_replicas().into_iter().step_by(5) {
            world.stop_replica(id);
            world.start_replica(id);
        }
        workload.run(&mut world, 600_000);
        assert_eq!(workload.results.stuck, 0, "seed {seed}");
        world.run(20_000);
        checker::check(&world.shards, &world.decided).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(footprints(&world).iter().all(|footprint| *footprint <= 60), "seed {seed} {:?}", footprints(&world));
    }
}

/// A6: a replica without its disk votes again after it copied the state, and is as good as before.
#[test]
fn a_replica_without_its_disk_copies_the_state() {
    // The liar sends an empty state, first of all.
    for liar in [None, Some(Lie::StaleReads)] {
        let mut world = World::new(2, 1, config(), 3);
        let keys = world.keys_on_each_shard();
        let (other, lost) = (world.all_replicas()[0], world.all_replicas()[1]);
        for salt in 0..20 {
            commit(&mut world, ALICE, &keys, salt);
            world.run(300);
        }
        if let Some(lie) = liar {
            world.replicas.get_mut(&other).unwrap().liar = Some(Liar::new(lie));
        }
        world.lose_disk(lost);
        // Meanwhile the others go on, with logged decisions.
        for salt in 20..30 {
            commit(&mut world, ALICE, &keys, salt);
        }
        assert!(world.is_copying(lost));
        world.run(10_000);
        assert!(!world.is_copying(lost), "liar {liar:?}");
        let own = keys.iter().find(|key| world.shards.shard_of(key) == lost.shard).unwrap();
        let copied = &world.replicas[&lost].disk;
        let has_state =
            |record: &Record| matches!(record, Record::Decided(decided) if decided.transaction.written(own).is_some());
        assert!(copied.iter().any(has_state), "liar {liar:?}");
        // Without another replica, decisions need the votes of this one.
        world.replicas.get_mut(&other).unwrap().liar = None;
        world.stop_replica(other);
        for salt in 30..40 {
            commit(&mut world, ALICE, &keys, salt);
            world.run(300);
        }
        // A restart from the copied records changes nothing.
        world.stop_replica(lost);
        world.start_replica(lost);
        for salt in 40..50 {
            commit(&mut world, ALICE, &keys, salt);
        }
        let history = checker::check(&world.shards, &world.decided).unwrap();
        assert_eq!(history.commits, 50);
    }
}

/// It stays silent about everything that it may have signed before.
#[test]
fn a_copying_replica_is_silent() {
    let mut world = World::new(1, 1, config(), 4);
    let keys = world.keys_on(ShardId(0), 1);
    let lost = world.all_replicas()[0];
    commit(&mut world, ALICE, &keys, 1);
    world.run(3_000);
    world.lose_disk(lost);
    let started = world.now;
    commit(&mut world, ALICE, &keys, 2);
    world.run(20_000);
    assert!(!world.is_copying(lost));
    let signed = |decided: &&corniche_basil::shared::Shared<corniche_basil::certificate::Decided>| {
        let time_ms = decided.transaction.timestamp.time_us / 1_000;
        let signers = match &decided.certificate {
            Certificate::FastCommit(votes) | Certificate::Logged(_, votes) => votes,
            _ => return false,
        };
        time_ms >= started && time_ms < started + 500 && signers.iter().any(|vote| vote.replica == lost)
    };
    assert_eq!(world.decided.iter().filter(signed).count(), 0);
}

/// Clocks of clients may be ahead by δ. The replica voted on such a transaction, and must not do so again after the copy.
#[test]
fn a_copy_is_above_everything_that_was_signed() {
    let mut world = World::new(1, 1, config(), 8);
    let keys = world.keys_on(ShardId(0), 1);
    let (lost, alice) = (world.all_replicas()[0], Peer::Client(client_id(ALICE)));
    let votes = Rc::new(Cell::new(0));
    let seen = Rc::clone(&votes);
    world.delay = Box::new(move |_, from, _, message| {
        let is_vote = from == Peer::Replica(lost) && matches!(message, Message::Vote { .. });
        seen.set(seen.get() + u32::from(is_vote));
        Some(1)
    });
    let ahead_us = (world.now + config().delta_ms) * 1_000;
    let (_, transaction) = world.forge(client_id(ALICE), ahead_us, vec![], &keys, 1);
    let prepare = |world: &mut World| world.post(alice, Peer::Replica(lost), Arc::new(Message::Prepare(transaction.clone())));
    prepare(&mut world);
    world.run(100);
    assert_eq!(votes.get(), 1);
    world.lose_disk(lost);
    for _ in 0..200 {
        prepare(&mut world);
        world.run(100);
    }
    assert!(!world.is_copying(lost));
    assert_eq!(votes.get(), 1, "a second vote could differ");
}

/// The others remember `keep_ms`. A replica that was away for longer copies the state.
#[test]
fn a_replica_that_was_away_for_long_copies_the_state() {
    let mut world = World::new(1, 1, config(), 5);
    let keys = world.keys_on(ShardId(0), 2);
    let away = world.all_replicas()[2];
    commit(&mut world, ALICE, &keys, 0);
    world.run(3_000);
    world.stop_replica(away);
    for salt in 1..30 {
        commit(&mut world, ALICE, &keys, salt);
        world.run(500);
    }
    world.start_replica(away);
    world.run(2_000);
    assert!(world.is_copying(away));
    world.run(10_000);
    assert!(!world.is_copying(away));
    let complete = |world: &World, id| world.replicas[&id].replica.as_ref().unwrap().complete_us();
    assert!(complete(&world, away) >= complete(&world, world.all_replicas()[0]) - 2_000_000);
    checker::check(&world.shards, &world.decided).unwrap();
}

/// A client whose clock is late by more than `keep_ms` hears it.
#[test]
fn a_late_client_hears_why_nobody_responds() {
    let mut world = World::new(1, 1, config(), 6);
    let keys = world.keys_on(ShardId(0), 1);
    commit(&mut world, ALICE, &keys, 0);
    world.run(20_000);
    world.clients.get_mut(&client_id(ALICE)).unwrap().skew = -19_000;
    world.with_client(client_id(ALICE), |client, now| {
        let timestamp = client.begin(now);
        client.read(now, timestamp, keys[0].clone());
    });
    world.run(1_000);
    let late = world.clients[&client_id(ALICE)].late.unwrap();
    assert!(late / 1_000 > world.now - 19_000);
}

/// A snapshot has the marks of the prefix, also for a restart with a late clock, and transactions that wait for their writers.
#[test]
fn a_snapshot_keeps_marks_and_prepared_transactions() {
    let mut world = World::new(1, 1, config(), 9);
    let keys = world.keys_on(ShardId(0), 1);
    let (replica, alice) = (world.all_replicas()[0], Peer::Client(client_id(ALICE)));
    commit(&mut world, ALICE, &keys, 1);
    world.run(10_000);
    let start_us = world.now * 1_000;
    let read = commit_version(&mut world, &keys[0]);
    let (id, writer) = world.forge(client_id(ALICE), start_us + 1, vec![read], &keys, 2);
    let value = writer.written(&keys[0]).unwrap().clone();
    let version = Version { timestamp: writer.timestamp, writer: id };
    let (_, reader) =
        world.forge(client_id(ALICE), start_us + 2, vec![Read { key: keys[0].clone(), version, value }], &keys, 3);
    for transaction in [writer, reader.clone()] {
        world.post(alice, Peer::Replica(replica), Arc::new(Message::Prepare(transaction)));
    }
    world.run(100);
    let records = world.replicas[&replica].replica.as_ref().unwrap().snapshot();
    let has = |is_wanted: &dyn Fn(&Record) -> bool| records.iter().any(is_wanted);
    let is_late = |below_us: &u64| *below_us > START * 1_000 + 1_000_000;
    assert!(has(&|record| matches!(record, Record::Closed { below_us } if is_late(below_us))));
    assert!(has(&|record| matches!(record, Record::Complete { below_us } if is_late(below_us))));
    assert!(has(&|record| matches!(record, Record::Pruned { below_us } if is_late(below_us))));
    assert!(has(&|record| matches!(record, Record::Prepared(transaction) if *transaction == reader)), "{records:?}");
}

/// The committed value of a key, as a transaction reads it.
fn commit_version(world: &mut World, key: &Key) -> Read {
    let timestamp = world.execute(client_id(ALICE), std::slice::from_ref(key));
    let read = world.clients[&client_id(ALICE)].client.reads(timestamp).remove(0);
    world.with_client(client_id(ALICE), |client, _| client.abandon(timestamp));
    read
}
