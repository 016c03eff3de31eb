//! Request buckets: rows 2, 4 and 8 of Mir-BFT's checklist, on our engines. One validator proposes, the
//! others keep copies, and no validator can censor a transaction.

use crate::{
    common::{Disk, USERS, genesis, transfer_from, user_number},
    engines::EngineKind,
    world::{BadLink, Cluster, VALIDATORS},
};
use corniche_admission::{MIN_TURN_MS, ROTATION_LEAD_MS, ROTATION_SECONDS, TURN_MS};
use corniche_types::B256;
use std::collections::{BTreeMap, BTreeSet};

/// Longer than ordering and execution take here.
const ORDERING_MS: u64 = 700;

/// Number of times each transaction was ordered.
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

/// Chain of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    pub engine: EngineKind,
    pub coin: u8,
}

/// Idle chain with a few blocks, well after a rotation began.
fn started(chain: Chain) -> Cluster {
    started_on(chain, &Disk::default())
}

fn started_on(chain: Chain, disk: &Disk) -> Cluster {
    let mut cluster = Cluster::with_coin(chain.engine, &[], disk, genesis(VALIDATORS), chain.coin);
    // The first commit may have the time of the genesis, and its block may be the only one of its rotation.
    for nonces in [0..3, 3..4] {
        cluster.submit(0, nonces);
        cluster.run_until(5_000, "a start", Cluster::settled);
    }
    cluster.run_for(ROTATION_LEAD_MS + 1_000);
    cluster
}

/// Time to execute this user's next transaction, submitted only to validator `to`; the others get it by
/// forwarding.
fn time_to_execute(cluster: &mut Cluster, user: u8, nonce: u64, to: usize) -> u64 {
    let transaction = transfer_from(&user_number(user), nonce, 10);
    let given = cluster.now;
    cluster.give(to, &transaction);
    cluster.run_until(30_000, "executed", |cluster| is_executed_everywhere(cluster, transaction.hash()));
    cluster.now - given
}

pub fn broadcast_transaction_is_ordered_once(chain: Chain) {
    let mut cluster = started(chain);
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

pub fn transactions_are_spread_over_proposers(chain: Chain) {
    let mut cluster = started(chain);
    let before = cluster.ordered(0).len();
    let owners: Vec<usize> = (0..USERS).map(|user| cluster.order_of(&user_number(user))[0]).collect();
    (0..USERS).for_each(|user| cluster.give(2, &transfer_from(&user_number(user), 0, 10)));
    cluster.run_until(5_000, "all executed", Cluster::settled);
    let ordered = cluster.ordered(0).split_off(before);
    for (author, hash) in &ordered {
        let user = (0..USERS).find(|user| transfer_from(&user_number(*user), 0, 10).hash() == *hash).unwrap();
        assert_eq!(*author, owners[usize::from(user)], "by its owner");
    }
    let authors: BTreeSet<usize> = ordered.iter().map(|(author, _)| *author).collect();
    // In some rotations a validator owns none of so few users.
    assert!(ordered.len() == usize::from(USERS) && authors.len() >= VALIDATORS - 1, "{ordered:?}");
}

pub fn censoring_owner_costs_one_turn(chain: Chain) {
    for receiver_place in 1..VALIDATORS {
        let mut cluster = started(chain);
        let order = cluster.order_of(&user_number(0));
        cluster.censors.insert(order[0]);
        let took = time_to_execute(&mut cluster, 0, 0, order[receiver_place]);
        assert!((TURN_MS..TURN_MS + ORDERING_MS).contains(&took), "{took} ms, given to place {receiver_place}");
        assert!(cluster.ordered(0).last().is_some_and(|(author, _)| *author == order[1]), "by the next");
        cluster.assert_agreement();
    }
}

/// The engine does not let the owner propose now, and all know that.
pub fn resting_owner_costs_no_turn(chain: Chain) {
    let mut cluster = started(chain);
    let order = cluster.order_of(&user_number(0));
    cluster.resting.insert(order[0]);
    (0..VALIDATORS).for_each(|index| cluster.kill(index));
    (0..VALIDATORS).for_each(|index| cluster.start(index));
    // The first block after the start takes longer.
    time_to_execute(&mut cluster, 1, 0, order[1]);
    for receiver_place in 0..VALIDATORS {
        let took = time_to_execute(&mut cluster, 0, receiver_place as u64, order[receiver_place]);
        assert!(took < ORDERING_MS, "{took} ms, given to place {receiver_place}");
        assert!(cluster.ordered(0).last().is_some_and(|(author, _)| *author == order[1]), "by the next");
    }
    assert!(occurrences(&cluster).values().all(|count| *count == 1));
    cluster.assert_agreement();
}

pub fn full_node_adds_no_turn(chain: Chain) {
    for censors in 0..=2u64 {
        let mut cluster = started(chain);
        cluster.start_full_node();
        cluster.run_for(500);
        let order = cluster.order_of(&user_number(0));
        cluster.censors.extend(&order[..censors as usize]);
        let took = time_to_execute(&mut cluster, 0, 0, VALIDATORS);
        assert!((censors * TURN_MS..censors * TURN_MS + ORDERING_MS).contains(&took), "{took} ms, {censors} censor");
    }
}

pub fn restored_transactions_are_left_to_owners(chain: Chain) {
    let mut cluster = started(chain);
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

pub fn transactions_survive_their_owner(chain: Chain) {
    let mut cluster = started(chain);
    let order = cluster.order_of(&user_number(0));
    let transaction = transfer_from(&user_number(0), 0, 10);
    let before = cluster.forwarded;
    cluster.give(order[0], &transaction);
    cluster.run_for(3);
    assert_eq!(cluster.forwarded - before, 1, "the next has it, whatever becomes of the proposal");
    cluster.kill(order[0]);
    cluster.run_until(10_000, "executed", |cluster| is_executed_everywhere(cluster, transaction.hash()));
}

pub fn two_censoring_owners_cost_two_turns(chain: Chain) {
    for receiver_place in 2..VALIDATORS {
        let mut cluster = started(chain);
        let order = cluster.order_of(&user_number(0));
        cluster.censors.extend(&order[..2]);
        let took = time_to_execute(&mut cluster, 0, 0, order[receiver_place]);
        assert!((2 * TURN_MS..2 * TURN_MS + ORDERING_MS).contains(&took), "{took} ms, given to place {receiver_place}");
    }
}

pub fn detected_crash_costs_no_turn(chain: Chain) {
    let mut cluster = started(chain);
    let order = cluster.order_of(&user_number(0));
    cluster.kill(order[0]);
    let took = time_to_execute(&mut cluster, 0, 0, order[3]);
    // One of four is offline: some slots of its wait for it.
    assert!(took < TURN_MS, "{took} ms");
    assert!(cluster.ordered(order[1]).last().is_some_and(|(author, _)| *author == order[1]), "by the next");
}

pub fn undetected_crash_costs_one_turn(chain: Chain) {
    let mut cluster = started(chain);
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

pub fn nonces_over_several_validators_keep_order(chain: Chain) {
    let mut cluster = started(chain);
    let before = cluster.ordered(0).len();
    // In reverse, so that all but the last arrive before their predecessor.
    for nonce in (0..30).rev() {
        cluster.give(nonce as usize % VALIDATORS, &transfer_from(&user_number(0), nonce, 10));
        cluster.run_for(4);
    }
    cluster.run_until(5_000, "all executed", Cluster::settled);
    let ordered: Vec<B256> = cluster.ordered(0).split_off(before).into_iter().map(|(_, hash)| hash).collect();
    let expected: Vec<B256> = (0..30).map(|nonce| transfer_from(&user_number(0), nonce, 10).hash()).collect();
    assert_eq!(ordered, expected, "each once, in order");
}

pub fn rotation_changes_proposers(chain: Chain) {
    let mut cluster = started(chain);
    let before = cluster.ordered(0).len();
    let mut owners = Vec::new();
    const SECONDS: u64 = 20;
    for nonce in 0..SECONDS {
        owners.push(cluster.order_of(&user_number(0))[0]);
        cluster.give(0, &transfer_from(&user_number(0), nonce, 10));
        cluster.run_for(1_000);
    }
    cluster.run_until(5_000, "all executed", Cluster::settled);
    let ordered = cluster.ordered(0).split_off(before);
    assert_eq!(ordered.len() as u64, SECONDS, "each once, at the edges of rotations as well");
    let authors: Vec<usize> = ordered.iter().map(|(author, _)| *author).collect();
    assert_eq!(authors, owners, "each by who owned it when it came");
    let changes = authors.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let rotations = (SECONDS / ROTATION_SECONDS) as usize;
    assert!(changes <= rotations + 2, "{changes} changes in {rotations} rotations");
}

/// Many users at once, with transactions in flight at every start of a rotation.
pub fn rotation_causes_no_duplicates(chain: Chain) {
    let mut cluster = started(chain);
    let (before, first) = (cluster.ordered(0).len(), cluster.rotation(0));
    let rotation_ms = 1_000 * ROTATION_SECONDS;
    let edge = (cluster.now / rotation_ms + 1) * rotation_ms;
    cluster.run_for(edge - 500 - cluster.now);
    let mut given = 0;
    while cluster.now < edge + ROTATION_LEAD_MS + 1_000 {
        let number = given as u64;
        let (user, to) = ((number % u64::from(USERS)) as u8, (number % 5 % VALIDATORS as u64) as usize);
        cluster.give(to, &transfer_from(&user_number(user), number / u64::from(USERS), 10));
        given += 1;
        cluster.run_for(30);
    }
    assert_ne!(cluster.rotation(0), first);
    cluster.run_until(ORDERING_MS, "all executed, without a turn", Cluster::settled);
    assert_eq!(cluster.ordered(0).len() - before, given, "each once");
}

pub fn slow_clock_costs_no_turn(chain: Chain) {
    let mut cluster = started(chain);
    cluster.slow_clocks.insert(3, 150);
    for step in 0.. {
        assert!(step < 500, "a rotation within 50 s");
        if cluster.rotation(0) != cluster.rotation(3) {
            break;
        }
        if step % 5 == 0 {
            cluster.submit(0, cluster.submitted..cluster.submitted + 1);
        }
        cluster.run_for(100);
    }
    // It still uses the old rotation.
    let given: Vec<_> = (0..USERS).map(|user| transfer_from(&user_number(user), 0, 10)).collect();
    given.iter().for_each(|transaction| cluster.give(3, transaction));
    cluster.run_until(TURN_MS - 100, "no turn is waited for", |cluster| {
        let receipts = cluster.nodes[&0].disk.blocks.iter().flat_map(|block| &block.receipts);
        let executed: BTreeSet<B256> = receipts.map(|receipt| receipt.transaction_hash).collect();
        given.iter().all(|transaction| executed.contains(&transaction.hash()))
    });
}

pub fn forwarded_transactions_survive_forwarder(chain: Chain) {
    let mut cluster = started(chain);
    let order = cluster.order_of(&user_number(0));
    let transaction = transfer_from(&user_number(0), 0, 10);
    cluster.give(order[3], &transaction);
    cluster.run_for(3);
    cluster.kill(order[3]);
    cluster.run_until(5_000, "executed", |cluster| is_executed_everywhere(cluster, transaction.hash()));
}

pub fn higher_price_wins(chain: Chain) {
    let mut cluster = started(chain);
    let user = user_number(0);
    let [low, high] = [10, 11].map(|tip| transfer_from(&user, 1, tip));
    // A transaction behind a nonce gap is never in flight.
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

pub fn lossy_links_lose_no_transactions(chain: Chain) {
    let mut cluster = started(chain);
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

/// Users that submit transactions to validators, one after the other.
struct Users {
    nonces: [u64; USERS as usize],
    /// Submitted and not executed there: time, user, validator.
    waiting: BTreeMap<B256, (u64, u8, usize)>,
    /// Number of blocks of each validator that were processed.
    seen: BTreeMap<usize, usize>,
}

impl Users {
    fn new() -> Self {
        Self { nonces: [0; USERS as usize], waiting: BTreeMap::new(), seen: BTreeMap::new() }
    }

    /// Submits one every 20 ms to validators that do not censor; returns the latencies, in order.
    fn load(&mut self, cluster: &mut Cluster, ms: u64) -> Vec<u64> {
        let asked: Vec<usize> = (0..cluster.validators()).filter(|index| !cluster.censors.contains(index)).collect();
        let (end, mut taken) = (cluster.now + ms, Vec::new());
        for number in 0.. {
            if cluster.now >= end && self.waiting.is_empty() {
                break;
            }
            assert!(cluster.now < end + 10_000, "{} wait for ever", self.waiting.len());
            let is_free = |user: &u8| !self.waiting.values().any(|(_, waiting, _)| waiting == user);
            let user = (0..USERS).map(|user| (user + (number % usize::from(USERS)) as u8) % USERS).find(is_free);
            if let Some(user) = user.filter(|_| cluster.now < end && number % 4 == 0) {
                let to = asked[number / 4 % asked.len()];
                let transaction = transfer_from(&user_number(user), self.nonces[usize::from(user)], 10);
                self.nonces[usize::from(user)] += 1;
                self.waiting.insert(transaction.hash(), (cluster.now, user, to));
                cluster.give(to, &transaction);
            }
            cluster.run_for(5);
            for (index, node) in &cluster.nodes {
                let seen = self.seen.entry(*index).or_default();
                for receipt in node.disk.blocks[*seen..].iter().flat_map(|block| &block.receipts) {
                    let hash = receipt.transaction_hash;
                    if let Some((given, ..)) = self.waiting.get(&hash).filter(|(_, _, to)| to == index).copied() {
                        self.waiting.remove(&hash);
                        taken.push(cluster.now - given);
                    }
                }
                *seen = node.disk.blocks.len();
            }
        }
        taken
    }
}

fn p99(taken: &[u64]) -> u64 {
    let mut sorted = taken.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() * 99 / 100]
}

/// The limit is four times the calm latency; until silent proposers are known, they cost a short turn each.
#[allow(clippy::print_stdout)] // prints the figures
pub fn silent_proposers_cost_users_little(engine: EngineKind) {
    for validators in [4, 7] {
        let mut cluster = Cluster::with_coin(engine, &[], &Disk::default(), genesis(validators), 1);
        let mut users = Users::new();
        let calm = p99(&users.load(&mut cluster, 4_000));
        let faulty = (validators - 1) / 3;
        cluster.censors.extend(validators - faulty..validators);
        // Turns rotate, so each silent proposer is found out when users first wait for it.
        let found_out = p99(&users.load(&mut cluster, 16_000));
        let after = p99(&users.load(&mut cluster, 4_000));
        println!("{engine:?}, {validators} validators, p99 calm {calm} ms, then {found_out} ms, then {after} ms");
        // Links are much faster here than the shortest turn; two silent ones in a row cost two turns until
        // they are known.
        assert!(found_out <= faulty as u64 * MIN_TURN_MS + 4 * calm, "p99 {calm} ms, then {found_out} ms");
        assert!(after <= 4 * calm, "p99 {calm} ms, then {after} ms");
        cluster.assert_agreement();
    }
}

pub fn silent_validator_recovers(engine: EngineKind) {
    let mut cluster = Cluster::with_coin(engine, &[], &Disk::default(), genesis(VALIDATORS), 1);
    let mut users = Users::new();
    users.load(&mut cluster, 1_000);
    cluster.censors.insert(3);
    users.load(&mut cluster, 400);
    cluster.censors.clear();
    users.load(&mut cluster, 20_000);
    // A transaction executed at one validator may not be executed everywhere yet.
    cluster.run_for(ORDERING_MS);
    let before = cluster.ordered(0).len();
    let again = users.load(&mut cluster, 2_000);
    cluster.run_for(ORDERING_MS);
    let ordered = cluster.ordered(0).split_off(before);
    assert_eq!(ordered.len(), again.len(), "each once");
    assert!(ordered.iter().any(|(author, _)| *author == 3));
}

/// A faulty validator forwards its users' transactions only to the second in the order, so that the owner
/// seems silent.
pub fn withheld_copies_make_nobody_silent(engine: EngineKind) {
    let mut cluster = started(Chain { engine, coin: 1 });
    let order = cluster.order_of(&user_number(0));
    for nonce in 0..2 {
        let transaction = transfer_from(&user_number(0), nonce, 10);
        cluster.pass_on(order[3], order[1], &transaction);
        cluster.run_until(TURN_MS + ORDERING_MS, "executed", |cluster| is_executed_everywhere(cluster, transaction.hash()));
        // After the second has received one alone, it sends the next to the owner itself.
        let expected = order[usize::from(nonce == 0)];
        assert!(cluster.ordered(0).last().is_some_and(|(author, _)| *author == expected), "nonce {nonce}");
    }
    for nonce in 2..6 {
        let before = cluster.ordered(0).len();
        let owner = cluster.order_of(&user_number(0))[0];
        let took = time_to_execute(&mut cluster, 0, nonce, order[1]);
        assert!(took < ORDERING_MS, "{took} ms");
        cluster.run_for(TURN_MS);
        let ordered = cluster.ordered(0).split_off(before);
        assert_eq!(ordered.iter().map(|(author, _)| *author).collect::<Vec<_>>(), [owner], "by its owner alone");
    }
}

/// Latency from submission to execution at the receiving validator, under a light load of many users; with
/// buckets, and with every validator proposing what it receives.
#[allow(clippy::print_stdout)] // prints the figures
pub fn latency(chain: Chain) {
    let measure = |without_buckets: bool| {
        let mut cluster = started_on(chain, &Disk { without_buckets, ..Disk::default() });
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
    println!("{chain:?}: (p50, p99, copies passed on) with buckets {with:?}, without {without:?}");
    assert_eq!(without.2, 0);
    assert!(with.1 < TURN_MS, "nothing waits for a turn");
}
