//! Decisions that differ, and the fallback that reconciles them (specification §3.7). A client and a replica lie together: the replica
//! votes both ways, and the client logs both decisions.

use corniche_basil::attestation::{Attestation, Decision, Statement, attest};
use corniche_basil::certificate::{Justification, Proposal};
use corniche_basil::config::Config;
use corniche_basil::message::{Message, Peer};
use corniche_basil::shards::{ReplicaId, ShardId};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{SignedTransaction, TransactionId};
use corniche_basil::verify::leader;
use corniche_basil_testing::doubles::{Liar, Lie};
use corniche_basil_testing::{DELAY, START, Secret, World, checker, client_id, exact, unwritten};
use std::sync::Arc;

const LIAR: u8 = 0;
const HELPER: u8 = 1;
/// Votes both ways.
const DOUBLE: u16 = 5;

fn replica(member: u16) -> ReplicaId {
    ReplicaId { shard: ShardId(0), member }
}

fn vote(world: &World, id: TransactionId, member: u16, vote: Decision) -> Attestation {
    let secret = Secret(*world.shards.key(replica(member)).unwrap());
    attest(&world.shards, replica(member), &secret, vec![Statement::Vote { id, vote }]).remove(0)
}

/// A network in which `T` has a quorum for both decisions: four replicas vote Commit and replica 0 Abort, replica 5 both. Replicas 0, 1
/// and 2 logged Commit, and the others Abort. `leader_lies`: the leader of the first view is silent, and the double voter as well.
fn divergent(leader_lies: bool) -> (World, TransactionId, Shared<SignedTransaction>) {
    let config = Config { fast_path_ms: 0, ..exact() };
    let mut world = World::new(1, 2, config, 1);
    let keys = world.keys_on(ShardId(0), 1);
    let of_salt = |salt| world.forge(client_id(LIAR), START * 1_000 + 1, vec![unwritten(&keys[0])], &keys, salt);
    let is_wanted = |id: TransactionId| (leader(id, 1, ShardId(0), &world.shards) == replica(DOUBLE)) == leader_lies;
    let (id, transaction) = (0..).map(of_salt).find(|(id, _)| is_wanted(*id)).unwrap();
    // Replica 0 prepares a later reader, so it votes Abort for T.
    let (_, reader) = world.forge(client_id(HELPER), START * 1_000 + 2, vec![unwritten(&keys[0])], &[], 0);
    let liar = Peer::Client(client_id(LIAR));
    world.post(Peer::Client(client_id(HELPER)), Peer::Replica(replica(0)), Arc::new(Message::Prepare(reader)));
    world.run(DELAY);
    for member in 0..6 {
        world.post(liar, Peer::Replica(replica(member)), Arc::new(Message::Prepare(Shared::clone(&transaction))));
    }
    world.run(DELAY);
    let commits = (1..=4).map(|member| vote(&world, id, member, Decision::Commit)).collect();
    let aborts = [0, DOUBLE].map(|member| vote(&world, id, member, Decision::Abort)).to_vec();
    let proposal = |decision, votes| {
        let justification = Justification::Votes(votes);
        let transaction = Shared::clone(&transaction);
        Arc::new(Message::Log(Shared::new(Proposal { transaction, decision, justification })))
    };
    let (commit, abort) = (proposal(Decision::Commit, commits), proposal(Decision::Abort, aborts));
    for member in 0..6 {
        let message = if member < 3 { &commit } else { &abort };
        world.post(liar, Peer::Replica(replica(member)), Arc::clone(message));
    }
    world.run(3 * DELAY);
    let lie = if leader_lies { Lie::BadElections } else { Lie::VoteBoth };
    world.replicas.get_mut(&replica(DOUBLE)).unwrap().liar = Some(Liar::new(lie));
    (world, id, transaction)
}

fn recover(world: &mut World, id: TransactionId, transaction: Shared<SignedTransaction>) -> u64 {
    let start = world.now;
    world.with_client(client_id(HELPER), |client, now| client.recover(now, transaction));
    while !world.clients[&client_id(HELPER)].recovered.contains(&id) {
        assert!(world.step(start + 60_000), "not recovered");
    }
    (world.now - start) / DELAY
}

/// RP and its replies 2, InvokeFB 1, ElectFb 1, DecFb 1, ST2R 1.
#[test]
fn a_correct_leader_reconciles_in_six_delays() {
    let (mut world, id, transaction) = divergent(false);
    assert_eq!(recover(&mut world, id, transaction), 6);
    let invocations = world.count("invoke");
    assert_eq!((invocations, world.count("decide")), (6, 5));
    world.run(1_000);
    checker::check(&world.shards, &world.decided).unwrap();
}

#[test]
fn a_silent_leader_costs_one_more_election() {
    let (mut world, id, transaction) = divergent(true);
    let delays = recover(&mut world, id, transaction);
    // Timers of two views and of the client, in delays of 10 ms.
    assert!(delays <= 60, "{delays}");
    // Messages are counted if they leave: the silent leader's do not.
    assert_eq!(world.count("decide"), 5, "the leader of view 2");
    world.run(1_000);
    checker::check(&world.shards, &world.decided).unwrap();
}

/// Every replica restarts between the steps of a fallback, one after the other, with what it persisted.
#[test]
fn restarts_keep_logged_decisions() {
    for restarted in 0..5 {
        for after in 1..6 {
            let (mut world, id, transaction) = divergent(false);
            world.with_client(client_id(HELPER), |client, now| client.recover(now, transaction));
            world.run(after * DELAY - 1);
            world.stop_replica(replica(restarted));
            world.start_replica(replica(restarted));
            world.run(60_000);
            assert!(world.clients[&client_id(HELPER)].recovered.contains(&id), "replica {restarted} after {after}");
            checker::check(&world.shards, &world.decided).unwrap();
        }
    }
}

/// Others go on while one transaction is reconciled.
#[test]
fn a_fallback_stops_nobody_else() {
    let (mut world, _, transaction) = divergent(true);
    world.with_client(client_id(HELPER), |client, now| client.recover(now, transaction));
    let keys = world.keys_on(ShardId(0), 3);
    for salt in 0..10 {
        let timestamp = world.execute(client_id(HELPER), &keys[1..]);
        let id = world.commit(client_id(HELPER), timestamp, &keys[1..], salt);
        let (decision, delays) = world.wait(client_id(HELPER), id);
        assert_eq!(decision, Decision::Commit);
        assert!(delays <= 4, "{delays}");
        world.run(DELAY);
    }
}
