//! Attacks of one lying client, and bad luck: no replica stops, no key freezes, and memory stays bounded.

use corniche_basil::attestation::{CheckedRoots, Checker, Decision, Statement, attest};
use corniche_basil::certificate::{Certificate, Decided, Justification, Proposal};
use corniche_basil::client::backoff_ms;
use corniche_basil::config::Config;
use corniche_basil::message::{Message, Peer};
use corniche_basil::shards::{Key, ReplicaId, ShardId};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{Read, SignedTransaction, Timestamp, TransactionId, Version};
use corniche_basil_testing::doubles::{Liar, Lie};
use corniche_basil_testing::{Keys, START, Secret, World, client_id, exact, key, unwritten};
use corniche_types::B256;
use std::sync::Arc;

/// Lies.
const ALICE: u8 = 0;
const BOB: u8 = 1;

fn read_of(key: &Key, id: TransactionId, writer: &SignedTransaction) -> Read {
    let version = Version { timestamp: writer.timestamp, writer: id };
    Read { key: key.clone(), version, value: writer.written(key).cloned().unwrap_or_default() }
}

fn post_all(world: &mut World, message: Message) {
    let message = Arc::new(message);
    for replica in world.all_replicas() {
        world.post(Peer::Client(client_id(ALICE)), Peer::Replica(replica), Arc::clone(&message));
    }
}

/// Transactions of which each reads what the one before wrote.
fn chain(world: &World, key: &Key, length: u64) -> Vec<Shared<SignedTransaction>> {
    let mut chain = Vec::new();
    let mut read = unwritten(key);
    for number in 0..length {
        let (id, one) =
            world.forge(client_id(ALICE), START * 1_000 + 1 + number, vec![read], std::slice::from_ref(key), number);
        read = read_of(key, id, &one);
        chain.push(one);
    }
    chain
}

/// Bob commits a transaction on these keys, after any number of aborts. Returns the number of attempts.
fn commit(world: &mut World, client: u8, keys: &[Key]) -> u32 {
    for attempt in 1..100 {
        let timestamp = world.execute(client_id(client), keys);
        let id = world.commit(client_id(client), timestamp, keys, u64::from(attempt));
        if world.wait(client_id(client), id).0 == Decision::Commit {
            return attempt;
        }
        world.run(backoff_ms(attempt));
    }
    panic!("no commit in 100 attempts")
}

#[test]
fn a_chain_of_parked_transactions_needs_no_stack() {
    let mut world = World::new(1, 2, exact(), 1);
    let keys = world.keys_on(ShardId(0), 1);
    for one in chain(&world, &keys[0], 4_000).into_iter().rev() {
        post_all(&mut world, Message::Prepare(one));
    }
    world.run(10_000);
    commit(&mut world, BOB, &keys);
}

/// Pitfall 19.
#[test]
fn a_chain_of_stalled_transactions_is_short() {
    let mut world = World::new(1, 2, exact(), 1);
    let keys = world.keys_on(ShardId(0), 1);
    for one in chain(&world, &keys[0], 1_100) {
        post_all(&mut world, Message::Prepare(one));
    }
    world.run(50);
    commit(&mut world, BOB, &keys);
}

#[test]
fn a_full_quota_keeps_nobody_from_finishing_a_transaction() {
    let mut world = World::new(2, 2, Config { max_open: 2, ..exact() }, 1);
    let x = world.keys_on(ShardId(0), 1);
    let y = world.keys_on(ShardId(1), 4);
    for (number, key) in (0..2).zip(&y) {
        let (_, one) = world.forge(client_id(ALICE), START * 1_000 + 1 + number, vec![], std::slice::from_ref(key), number);
        post_all(&mut world, Message::Prepare(one));
    }
    world.run(100);
    let mut both = vec![x[0].clone(), y[3].clone()];
    both.sort();
    let (_, poison) = world.forge(client_id(ALICE), START * 1_000 + 10, vec![], &both, 9);
    post_all(&mut world, Message::Prepare(poison));
    world.run(100);
    commit(&mut world, BOB, &x);
}

#[test]
fn lost_certificates_do_not_block_their_own_client() {
    let mut world = World::new(1, 2, exact(), 1);
    let keys = world.keys_on(ShardId(0), 1);
    world.delay = Box::new(|_, _, _, message| if matches!(message, Message::Writeback(_)) { None } else { Some(10) });
    commit(&mut world, BOB, &keys);
    world.run(100);
    world.delay = Box::new(|_, _, _, _| Some(10));
    commit(&mut world, BOB, &keys);
}

/// Nothing ever reads these keys, so nobody but the replicas themselves misses the certificates.
#[test]
fn lost_certificates_do_not_use_up_a_quota() {
    let mut world = World::new(1, 2, Config { max_open: 16, close_ms: 0, ..exact() }, 1);
    world.delay = Box::new(
        |random, _, _, message| {
            if matches!(message, Message::Writeback(_)) && random.chance(20) { None } else { Some(10) }
        },
    );
    for number in 0..400 {
        commit(&mut world, BOB, &[key(number)]);
        world.run(500);
    }
}

#[test]
fn invented_writers_are_forgotten() {
    let mut world = World::new(2, 2, exact(), 1);
    let x = world.keys_on(ShardId(0), 2);
    let fake = |(number, key): (u64, Key)| Read {
        key,
        version: Version {
            timestamp: Timestamp { time_us: START * 1_000 + 5, client: client_id(9) },
            writer: B256::left_padding_from(&(number + 7).to_be_bytes()),
        },
        value: None,
    };
    for count in [60, 1_100] {
        let mut reads: Vec<_> = (0..).zip(world.keys_on(ShardId(1), count)).map(fake).collect();
        reads.sort_by(|a, b| a.key.cmp(&b.key));
        let (_, poison) = world.forge(client_id(ALICE), world.now * 1_000 - 1, reads, &x[..1], 9);
        post_all(&mut world, Message::Prepare(poison));
        world.run(50);
        commit(&mut world, BOB, &x[..1]);
        world.run(20_000);
        let asked = world.count("fetch");
        world.run(10_000);
        // Replicas audit what they did not decide; nobody asks for what does not exist.
        assert!(world.count("fetch") - asked <= 2 * 6 * 5 * 10, "{}", world.count("fetch") - asked);
        let (_, stalled) = world.forge(client_id(ALICE), world.now * 1_000, vec![unwritten(&x[1])], &x[1..], 1);
        post_all(&mut world, Message::Prepare(stalled));
        world.run(50);
        commit(&mut world, BOB, &x[1..]);
        for (id, node) in &world.replicas {
            let footprint = node.replica.as_ref().map_or(0, corniche_basil::replica::Replica::footprint);
            assert!(footprint < 100, "{id:?} {footprint}");
        }
    }
}

/// Four replicas committed the first transaction of a timestamp. The second one reaches only those that did not vote for the first.
#[test]
fn a_second_transaction_of_a_timestamp_replaces_nothing() {
    let mut world = World::new(1, 2, exact(), 1);
    let keys = world.keys_on(ShardId(0), 1);
    let replicas = world.all_replicas();
    let (id, first) = world.forge(client_id(ALICE), START * 1_000 + 1, vec![], &keys, 1);
    let (_, second) = world.forge(client_id(ALICE), START * 1_000 + 1, vec![], &keys, 2);
    let alice = Peer::Client(client_id(ALICE));
    for replica in &replicas[..4] {
        world.post(alice, Peer::Replica(*replica), Arc::new(Message::Prepare(first.clone())));
    }
    world.run(50);
    let sign = |world: &World, replica: ReplicaId, statement| {
        attest(&world.shards, replica, &Secret(*world.shards.key(replica).unwrap()), vec![statement]).remove(0)
    };
    let vote = Statement::Vote { id, vote: Decision::Commit };
    let votes = replicas[..4].iter().map(|replica| sign(&world, *replica, vote.clone())).collect();
    let justification = Justification::Votes(votes);
    let proposal = Proposal { transaction: first.clone(), decision: Decision::Commit, justification };
    post_all(&mut world, Message::Log(Shared::new(proposal)));
    world.run(50);
    let logged = Statement::Logged { id, decision: Decision::Commit, decision_view: 0, current_view: 0 };
    let logged = replicas.iter().map(|replica| sign(&world, *replica, logged.clone())).collect();
    let decided = Decided { transaction: first, certificate: Certificate::Logged(Decision::Commit, logged) };
    post_all(&mut world, Message::Writeback(Shared::new(decided)));
    world.run(50);
    for replica in &replicas[4..] {
        world.post(alice, Peer::Replica(*replica), Arc::new(Message::Prepare(second.clone())));
    }
    world.run(50);
    world.replicas.get_mut(&replicas[0]).unwrap().liar = Some(Liar::new(Lie::VoteAbort));
    assert!(commit(&mut world, BOB, &keys) <= 2);
}

/// Every reply with a value contains its certificate.
#[test]
fn certificates_contain_each_signer_once() {
    let world = World::new(1, 1, exact(), 1);
    let keys = world.keys_on(ShardId(0), 1);
    let (id, transaction) = world.forge(client_id(ALICE), START * 1_000 + 1, vec![], &keys, 1);
    let vote = |replica: ReplicaId| {
        let secret = Secret(*world.shards.key(replica).unwrap());
        attest(&world.shards, replica, &secret, vec![Statement::Vote { id, vote: Decision::Commit }]).remove(0)
    };
    let mut votes: Vec<_> = world.all_replicas().into_iter().map(vote).collect();
    let check = |votes| {
        let decided = Decided { transaction: transaction.clone(), certificate: Certificate::FastCommit(votes) };
        decided.check(&mut Checker::new(&world.shards, &Keys, &mut CheckedRoots::default()))
    };
    assert_eq!(check(votes.clone()), Ok(()));
    votes.push(votes[0].clone());
    assert!(check(votes).is_err());
}
