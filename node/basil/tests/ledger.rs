//! Closed watermarks: prefixes of the serial order that cannot change any more (specification §8.2, A5).

use corniche_basil::attestation::{CheckedRoots, Checker, Decision, Statement, attest};
use corniche_basil::certificate::{CertificateError, Justification, Proposal};
use corniche_basil::closed::{check_closed, list_hash};
use corniche_basil::config::Config;
use corniche_basil::message::{Message, Peer};
use corniche_basil::shards::{ReplicaId, ShardId};
use corniche_basil::shared::Shared;
use corniche_basil_testing::doubles::{Liar, Lie};
use corniche_basil_testing::{Keys, START, Secret, World, checker, client_id, exact, unwritten};
use std::collections::BTreeMap;
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

/// Equal signed lists of 4f + 1 replicas of each shard prove what a range contains, also while a replica is silent.
#[test]
fn a_range_gets_a_certificate() {
    let mut world = world();
    let silent = world.all_replicas()[3];
    world.stop_replica(silent);
    let keys = world.keys_on_each_shard();
    let mut lists: BTreeMap<_, Vec<_>> = world.shards.ids().map(|shard| (shard, Vec::new())).collect();
    for salt in 0..6 {
        let touched = if salt % 2 == 0 { &keys[..] } else { &keys[..1] };
        let timestamp = world.execute(client_id(ALICE), touched);
        let id = world.commit(client_id(ALICE), timestamp, touched, salt);
        assert_eq!(world.wait(client_id(ALICE), id).0, Decision::Commit);
        touched.iter().for_each(|key| lists.get_mut(&world.shards.shard_of(key)).unwrap().push(id));
    }
    let (from_us, below_us) = (START * 1_000, (START + 3_000) * 1_000);
    let ids = lists.clone();
    let lists: BTreeMap<_, _> = lists.iter().map(|(shard, ids)| (*shard, list_hash(&world.shards, ids))).collect();
    world.with_client(client_id(EXPORTER), |client, now| assert!(client.certify(now, from_us, below_us, ids.clone())));
    world.run(20_000);
    let certificate = world.clients[&client_id(EXPORTER)].certified[&(from_us, below_us)].clone();
    assert_eq!(certificate.len(), 2 * world.shards.reachable());
    let mut roots = CheckedRoots::default();
    let mut check = |lists: &BTreeMap<_, _>, certificate: &[_]| {
        let mut checker = Checker::new(&world.shards, &Keys, &mut roots);
        check_closed(from_us, below_us, lists, certificate, &mut checker)
    };
    assert_eq!(check(&lists, &certificate), Ok(()));
    assert!(matches!(check(&lists, &certificate[1..]), Err(CertificateError::Votes { got: 4, .. })));
    let repeated = [&certificate[..1], &certificate[..9]].concat();
    assert_eq!(check(&lists, &repeated), Err(CertificateError::Foreign));
    let mut other = lists.clone();
    other.insert(ShardId(1), list_hash(&world.shards, &[]));
    assert_eq!(check(&other, &certificate), Err(CertificateError::Foreign));
    let mut forged = certificate.clone();
    forged[0].proof.signature[0] ^= 1;
    assert!(matches!(check(&lists, &forged), Err(CertificateError::Signature(_))));
}

/// A list that misses a committed transaction gets no certificate.
#[test]
fn a_wrong_list_gets_no_certificate() {
    let mut world = world();
    let keys = world.keys_on_each_shard();
    let timestamp = world.execute(client_id(ALICE), &keys);
    let id = world.commit(client_id(ALICE), timestamp, &keys, 1);
    assert_eq!(world.wait(client_id(ALICE), id).0, Decision::Commit);
    let lists: BTreeMap<_, _> = world.shards.ids().map(|shard| (shard, Vec::new())).collect();
    let (from_us, below_us) = (START * 1_000, (START + 3_000) * 1_000);
    world.with_client(client_id(EXPORTER), |client, now| assert!(client.certify(now, from_us, below_us, lists)));
    world.run(60_000);
    assert!(world.clients[&client_id(EXPORTER)].certified.is_empty());
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

/// T commits with the votes of three correct replicas and of a liar that does not list it. Two correct ones never voted. The exporter
/// hears the others late, so two of its five lists contain T: f + 1.
#[test]
fn a_transaction_on_f_plus_1_lists_is_exported() {
    let mut world = World::new(1, 2, Config { close_ms: 1_000, close_after_ms: 500, ..exact() }, 1);
    let keys = world.keys_on(ShardId(0), 1);
    let replica = |member| ReplicaId { shard: ShardId(0), member };
    let alice = Peer::Client(client_id(ALICE));
    let (id, transaction) = world.forge(client_id(ALICE), START * 1_000 + 1, vec![], &keys, 1);
    for member in [0, 1, 2, 5] {
        world.post(alice, Peer::Replica(replica(member)), Arc::new(Message::Prepare(transaction.clone())));
    }
    world.run(50);
    let vote = |member| {
        let secret = Secret(*world.shards.key(replica(member)).unwrap());
        let vote = Statement::Vote { id, vote: Decision::Commit };
        attest(&world.shards, replica(member), &secret, vec![vote]).remove(0)
    };
    let justification = Justification::Votes([0, 1, 2, 5].map(vote).to_vec());
    let proposal = Shared::new(Proposal { transaction, decision: Decision::Commit, justification });
    // The decision is logged, and its client stops.
    for member in 0..6 {
        world.post(alice, Peer::Replica(replica(member)), Arc::new(Message::Log(proposal.clone())));
    }
    world.run(5_000);
    world.replicas.get_mut(&replica(5)).unwrap().liar = Some(Liar::new(Lie::FakeLists));
    world.delay = Box::new(|_, from, to, _| match (from, to) {
        (Peer::Replica(replica), Peer::Client(_)) if replica.member < 2 => Some(50),
        (Peer::Replica(replica), Peer::Client(_)) if replica.member == 2 => Some(400),
        _ => Some(10),
    });
    assert_eq!(world.export(client_id(EXPORTER), 0, (START + 1_000) * 1_000), Ok(vec![id]));
    checker::check(&world.shards, &world.decided).unwrap();
}

/// Replicas forget what is decided after `keep_ms`. Time in which all of them are stopped does not count.
#[test]
fn a_stop_of_all_members_loses_nothing() {
    let config = Config { close_ms: 1_000, close_after_ms: 500, keep_ms: 2_000, ..exact() };
    let mut world = World::new(2, 2, config, 1);
    let keys = world.keys_on_each_shard();
    let mut expected = Vec::new();
    for salt in 0..5 {
        let timestamp = world.execute(client_id(ALICE), &keys);
        let id = world.commit(client_id(ALICE), timestamp, &keys, salt);
        assert_eq!(world.wait(client_id(ALICE), id).0, Decision::Commit);
        expected.push(id);
    }
    world.run(100);
    world.all_replicas().into_iter().for_each(|replica| world.stop_replica(replica));
    world.run(600_000);
    world.all_replicas().into_iter().for_each(|replica| world.start_replica(replica));
    world.run(1_500);
    let below_us = (START + 300_000) * 1_000;
    assert_eq!(world.export(client_id(EXPORTER), START * 1_000, below_us), Ok(expected));
}

/// A client stops after it reached one replica. No export contains the transaction, and it must not keep ranges from their certificates.
#[test]
fn a_transaction_on_one_list_stops_no_certificate() {
    let mut world = world();
    let keys = world.keys_on_each_shard();
    let replicas = world.all_replicas();
    for (number, replica) in [(1, replicas[0]), (2, replicas[1])] {
        let (_, transaction) = world.forge(client_id(ALICE), START * 1_000 + number, vec![], &keys, number);
        world.post(Peer::Client(client_id(ALICE)), Peer::Replica(replica), Arc::new(Message::Prepare(transaction)));
    }
    world.run(10_000);
    let (from_us, below_us) = (START * 1_000, (START + 3_000) * 1_000);
    assert_eq!(world.export(client_id(EXPORTER), from_us, below_us), Ok(vec![]));
    let lists = world.shards.ids().map(|shard| (shard, Vec::new())).collect();
    world.with_client(client_id(EXPORTER), |client, now| assert!(client.certify(now, from_us, below_us, lists)));
    world.run(10_000);
    let exporter = &world.clients[&client_id(EXPORTER)];
    assert!(exporter.certified.contains_key(&(from_us, below_us)));
    assert!(exporter.recovered.is_empty(), "nobody has to finish them first");
}

/// Two replicas have a transaction of a client that stopped, and an export did not hear the second one. Both wait for its decision, and only
/// clients recover. The exporter hears of it when it collects the certificate.
#[test]
fn a_replica_that_waits_for_a_decision_gets_it() {
    let mut world = World::new(1, 2, Config { close_ms: 1_000, close_after_ms: 500, ..exact() }, 1);
    let keys = world.keys_on(ShardId(0), 1);
    let replicas = world.all_replicas();
    let (id, transaction) = world.forge(client_id(ALICE), START * 1_000 + 1, vec![], &keys, 1);
    for replica in [replicas[0], replicas[1]] {
        world.post(Peer::Client(client_id(ALICE)), Peer::Replica(replica), Arc::new(Message::Prepare(transaction.clone())));
    }
    let silent = replicas[1];
    world.delay = Box::new(move |_, from, to, _| {
        let is_lost = from == Peer::Replica(silent) && matches!(to, Peer::Client(_));
        (!is_lost).then_some(10)
    });
    world.run(2_000);
    let (from_us, below_us) = (START * 1_000, (START + 1_000) * 1_000);
    assert_eq!(world.export(client_id(EXPORTER), from_us, below_us), Ok(vec![]));
    let complete = |world: &World, replica| world.replicas[&replica].replica.as_ref().unwrap().complete_us();
    assert!(complete(&world, replicas[0]) < below_us, "it waits for {id}");
    let lists = [(ShardId(0), Vec::new())].into();
    world.with_client(client_id(EXPORTER), |client, now| assert!(client.certify(now, from_us, below_us, lists)));
    world.run(30_000);
    assert!(complete(&world, replicas[0]) >= below_us);
    checker::check(&world.shards, &world.decided).unwrap();
}
