//! Request buckets: rows 2, 4 and 8 of Mir-BFT's checklist, on our engines. One proposes, the others keep copies, and nobody can
//! keep a transaction out.

use crate::{
    common::{Disk, USERS, transfer_from, user_number},
    engines::EngineKind,
    world::{BadLink, Cluster, VALIDATORS},
};
use corniche_admission::{ROTATION_SECONDS, TURN_MS};
use corniche_types::B256;
use std::collections::{BTreeMap, BTreeSet};

/// More than ordering and executing take here.
const ORDERING_MS: u64 = 700;

/// How often each was ordered.
fn occurrences(cluster: &Cluster) -> BTreeMap<B256, usize> {
    let mut occurrences = BTreeMap::new();
    let index = *cluster.nodes.keys().next().unwrap();
    cluster.ordered(index).into_iter().for_each(|(_, hash)| *occurrences.entry(hash).or_default() += 1);
    occurrences
}

fn is_executed_everywhere(cluster: &Cluster, hash: B256) -> bool {
    cluster.nodes.values().all(|node| {
        let mut receipts = node.disk.blocks.iter().flat_map(|block| &block.receipts);
        receipts.any(|receipt| receipt.transaction_hash == hash)
    })
}

/// A chain that has a few blocks and is idle.
fn started(engine: EngineKind) -> Cluster {
    let mut cluster = Cluster::new(engine, &[]);
    cluster.submit(0, 0..4);
    cluster.run_until(5_000, "a start", Cluster::settled);
    cluster.run_for(1_000);
    cluster
}

/// How long this user's next transaction takes that is given to that validator; all others are told by forwarding alone.
fn time_to_execute(cluster: &mut Cluster, user: u8, nonce: u64, to: usize) -> u64 {
    let transaction = transfer_from(&user_number(user), nonce, 10);
    let given = cluster.now;
    cluster.give(to, &transaction);
    cluster.run_until(30_000, "executed", |cluster| is_executed_everywhere(cluster, transaction.hash()));
    cluster.now - given
}

pub fn what_is_given_to_everybody_is_ordered_once(engine: EngineKind) {
    let mut cluster = started(engine);
    let mut given = BTreeSet::new();
    for nonce in 0..12 {
        for user in 0..USERS {
            let transaction = transfer_from(&user_number(user), nonce, 10);
            given.insert(transaction.hash());
            (0..VALIDATORS).for_each(|index| cluster.give(index, &transaction));
            cluster.run_for(3);
        }
    }
    cluster.run_until(5_000, "all executed", |cluster| {
        cluster.nodes.keys().all(|index| cluster.executed(*index) == given.len() + 4)
    });
    let occurrences = occurrences(&cluster);
    assert!(given.iter().all(|hash| occurrences[hash] == 1), "each once, and none skipped");
    cluster.assert_agreement();
}

pub fn users_of_one_validator_are_proposed_by_all_of_them(engine: EngineKind) {
    let mut cluster = started(engine);
    let before = cluster.ordered(0).len();
    (0..USERS).for_each(|user| cluster.give(2, &transfer_from(&user_number(user), 0, 10)));
    cluster.run_until(5_000, "all executed", Cluster::settled);
    let ordered = cluster.ordered(0).split_off(before);
    for (author, hash) in &ordered {
        let user = (0..USERS).map(user_number).find(|user| transfer_from(user, 0, 10).hash() == *hash).unwrap();
        assert_eq!(*author, cluster.order_of(&user)[0], "by its owner");
    }
    let authors: BTreeSet<usize> = ordered.iter().map(|(author, _)| *author).collect();
    assert_eq!(authors.len(), VALIDATORS, "{ordered:?}");
}

pub fn a_censoring_owner_costs_a_turn(engine: EngineKind) {
    for receiver_place in 1..VALIDATORS {
        let mut cluster = started(engine);
        let order = cluster.order_of(&user_number(0));
        cluster.censors.insert(order[0]);
        let took = time_to_execute(&mut cluster, 0, 0, order[receiver_place]);
        assert!((TURN_MS..TURN_MS + ORDERING_MS).contains(&took), "{took} ms, given to place {receiver_place}");
        assert!(cluster.ordered(0).last().is_some_and(|(author, _)| *author == order[1]), "by the next");
        cluster.assert_agreement();
    }
}

pub fn a_full_node_costs_its_users_no_turn(engine: EngineKind) {
    for censors in 0..=2u64 {
        let mut cluster = started(engine);
        cluster.start_full_node();
        cluster.run_for(500);
        let order = cluster.order_of(&user_number(0));
        cluster.censors.extend(&order[..censors as usize]);
        let took = time_to_execute(&mut cluster, 0, 0, VALIDATORS);
        assert!((censors * TURN_MS..censors * TURN_MS + ORDERING_MS).contains(&took), "{took} ms, {censors} censor");
    }
}

pub fn what_is_kept_over_a_restart_is_left_to_its_owners(engine: EngineKind) {
    let mut cluster = started(engine);
    cluster.kill(3);
    cluster.run_for(500);
    let kept: Vec<_> = (0..USERS).map(|user| transfer_from(&user_number(user), 0, 10)).collect();
    cluster.start_with(3, &kept);
    kept.iter().for_each(|transaction| cluster.give(0, transaction));
    cluster.run_for(8_000);
    let occurrences = occurrences(&cluster);
    let ordered: Vec<usize> = kept.iter().map(|transaction| occurrences[&transaction.hash()]).collect();
    assert_eq!(ordered, vec![1; kept.len()], "each once");
}

pub fn what_an_owner_is_given_survives_it(engine: EngineKind) {
    let mut cluster = started(engine);
    let order = cluster.order_of(&user_number(0));
    let transaction = transfer_from(&user_number(0), 0, 10);
    let before = cluster.forwarded;
    cluster.give(order[0], &transaction);
    cluster.run_for(3);
    assert_eq!(cluster.forwarded - before, 1, "the next has it, whatever becomes of the proposal");
    cluster.kill(order[0]);
    cluster.run_until(10_000, "executed", |cluster| is_executed_everywhere(cluster, transaction.hash()));
}

pub fn two_censoring_owners_cost_two_turns(engine: EngineKind) {
    for receiver_place in 2..VALIDATORS {
        let mut cluster = started(engine);
        let order = cluster.order_of(&user_number(0));
        cluster.censors.extend(&order[..2]);
        let took = time_to_execute(&mut cluster, 0, 0, order[receiver_place]);
        assert!((2 * TURN_MS..2 * TURN_MS + ORDERING_MS).contains(&took), "{took} ms, given to place {receiver_place}");
    }
}

pub fn a_crash_that_is_noticed_costs_no_turn(engine: EngineKind) {
    let mut cluster = started(engine);
    let order = cluster.order_of(&user_number(0));
    cluster.kill(order[0]);
    let took = time_to_execute(&mut cluster, 0, 0, order[3]);
    // One of four is away: some slots of its wait for it.
    assert!(took < TURN_MS, "{took} ms");
    assert!(cluster.ordered(order[1]).last().is_some_and(|(author, _)| *author == order[1]), "by the next");
}

pub fn a_crash_that_nobody_notices_costs_a_turn(engine: EngineKind) {
    let mut cluster = started(engine);
    let order = cluster.order_of(&user_number(0));
    cluster.bad.insert(order[0], BadLink { delay: 2, loss: 100 });
    let transaction = transfer_from(&user_number(0), 0, 10);
    let given = cluster.now;
    cluster.give(order[2], &transaction);
    cluster.run_until(30_000, "executed by the other three", |cluster| {
        let mut receipts = cluster.nodes[&order[2]].disk.blocks.iter().flat_map(|block| &block.receipts);
        receipts.any(|receipt| receipt.transaction_hash == transaction.hash())
    });
    let took = cluster.now - given;
    assert!((TURN_MS..2 * TURN_MS).contains(&took), "{took} ms");
}

pub fn nonces_given_to_different_validators_are_ordered_in_order(engine: EngineKind) {
    let mut cluster = started(engine);
    let before = cluster.ordered(0).len();
    // Backwards, so that all but the last come before the one they follow on.
    for nonce in (0..30).rev() {
        cluster.give(nonce as usize % VALIDATORS, &transfer_from(&user_number(0), nonce, 10));
        cluster.run_for(4);
    }
    cluster.run_until(5_000, "all executed", Cluster::settled);
    let ordered: Vec<B256> = cluster.ordered(0).split_off(before).into_iter().map(|(_, hash)| hash).collect();
    let expected: Vec<B256> = (0..30).map(|nonce| transfer_from(&user_number(0), nonce, 10).hash()).collect();
    assert_eq!(ordered, expected, "each once, in order");
}

pub fn a_rotation_changes_who_proposes(engine: EngineKind) {
    let mut cluster = started(engine);
    let before = cluster.ordered(0).len();
    let mut owners = Vec::new();
    for nonce in 0..180 {
        owners.push(cluster.order_of(&user_number(0))[0]);
        cluster.give(0, &transfer_from(&user_number(0), nonce, 10));
        cluster.run_for(1_000);
    }
    cluster.run_until(5_000, "all executed", Cluster::settled);
    let ordered = cluster.ordered(0).split_off(before);
    assert_eq!(ordered.len(), 180, "each once, at the edges of rotations as well");
    let authors: Vec<usize> = ordered.iter().map(|(author, _)| *author).collect();
    assert_eq!(authors, owners, "each by who owned it when it came");
    let changes = authors.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let rotations = 180 / ROTATION_SECONDS as usize;
    assert!((2..=rotations + 1).contains(&changes), "{changes} changes in {rotations} rotations");
}

pub fn a_rotation_that_is_seen_late_costs_no_turn(engine: EngineKind) {
    let mut cluster = started(engine);
    cluster.bad.insert(3, BadLink { delay: 150, loss: 0 });
    for step in 0.. {
        assert!(step < 10_000, "a rotation within 100 s");
        if cluster.rotation(0) != cluster.rotation(3) {
            break;
        }
        if step % 20 == 0 {
            cluster.submit(0, cluster.submitted..cluster.submitted + 1);
        }
        cluster.run_for(10);
    }
    // It still goes by the old one.
    let given: Vec<_> = (0..USERS).map(|user| transfer_from(&user_number(user), 0, 10)).collect();
    given.iter().for_each(|transaction| cluster.give(3, transaction));
    cluster.run_until(TURN_MS - 100, "no turn is waited for", |cluster| {
        let receipts = cluster.nodes[&0].disk.blocks.iter().flat_map(|block| &block.receipts);
        let executed: BTreeSet<B256> = receipts.map(|receipt| receipt.transaction_hash).collect();
        given.iter().all(|transaction| executed.contains(&transaction.hash()))
    });
}

pub fn what_was_passed_on_survives_the_one_who_did(engine: EngineKind) {
    let mut cluster = started(engine);
    let order = cluster.order_of(&user_number(0));
    let transaction = transfer_from(&user_number(0), 0, 10);
    cluster.give(order[3], &transaction);
    cluster.run_for(3);
    cluster.kill(order[3]);
    cluster.run_until(5_000, "executed", |cluster| is_executed_everywhere(cluster, transaction.hash()));
}

pub fn the_higher_of_two_prices_wins_wherever_it_was_named(engine: EngineKind) {
    let mut cluster = started(engine);
    let user = user_number(0);
    let [low, high] = [10, 11].map(|tip| transfer_from(&user, 1, tip));
    // Behind a gap nothing is in flight.
    cluster.give(1, &low);
    cluster.run_for(50);
    cluster.give(3, &high);
    cluster.run_for(50);
    cluster.give(2, &transfer_from(&user, 0, 10));
    cluster.run_until(5_000, "executed", |cluster| is_executed_everywhere(cluster, high.hash()));
    cluster.run_for(3 * TURN_MS);
    let occurrences = occurrences(&cluster);
    assert_eq!((occurrences.get(&high.hash()), occurrences.get(&low.hash())), (Some(&1), None));
}

pub fn nothing_is_lost_over_links_that_lose_messages(engine: EngineKind) {
    let mut cluster = started(engine);
    cluster.bad.insert(1, BadLink { delay: 5, loss: 60 });
    for user in 0..USERS {
        cluster.give(1, &transfer_from(&user_number(user), 0, 10));
        cluster.run_for(20);
    }
    cluster.run_for(2_000);
    cluster.bad.clear();
    cluster.run_until(30_000, "all executed", Cluster::settled);
    cluster.assert_agreement();
}

/// From submission to execution at the validator that was asked, over a light load of many users; with buckets, and where
/// everybody proposes what it is given.
#[allow(clippy::print_stdout)] // what it is run for
pub fn latency(engine: EngineKind) {
    let measure = |without_buckets: bool| {
        let mut cluster = Cluster::with_disks(engine, &[], &Disk { without_buckets, ..Disk::default() });
        cluster.submit(0, 0..4);
        cluster.run_until(5_000, "a start", Cluster::settled);
        let mut taken = Vec::new();
        for number in 0..120u64 {
            let (user, to) = ((number % u64::from(USERS)) as u8, (number % 4) as usize);
            let transaction = transfer_from(&user_number(user), number / u64::from(USERS), 10);
            let given = cluster.now;
            cluster.give(to, &transaction);
            cluster.run_until(5_000, "executed", |cluster| {
                let mut receipts = cluster.nodes[&to].disk.blocks.iter().rev().flat_map(|block| &block.receipts);
                receipts.any(|receipt| receipt.transaction_hash == transaction.hash())
            });
            taken.push(cluster.now - given);
            cluster.run_for(37);
        }
        taken.sort_unstable();
        (taken[60], taken[118], cluster.forwarded)
    };
    let (with, without) = (measure(false), measure(true));
    println!("{engine:?}: (p50, p99, copies passed on) with buckets {with:?}, without {without:?}");
    assert_eq!(without.2, 0);
    assert!(with.1 < TURN_MS, "nothing waits for a turn");
}
