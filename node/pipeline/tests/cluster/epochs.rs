//! Epochs end, and committees change: every transaction is ordered once, and nodes that were away follow.

use crate::{
    common::{
        CHAIN, Disk, Node, add_stake, bls_key, call_staking, coin_key, consensus_key, genesis as plain_genesis, network_key,
        user_number,
    },
    engines::EngineKind,
    world::{BadLink, Cluster, Part, VALIDATORS, number_of},
};
use alloy_sol_types::SolCall;
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_pipeline::{CoinStatus, HaltCause};
use corniche_staking::{
    SigningKeys, StateSlots, ValidatorId,
    interface::Staking,
    record::{Header, Validator, is_convicted},
    sign_keys,
};
use corniche_state::{CommittedBlock, StateView as _};
use corniche_types::{Address, Epoch, Genesis, Height, STAKING_ADDRESS, SkipReason, StakingParameters, U256, Votes};
use std::{collections::BTreeMap, sync::Arc};

pub const EPOCH_MS: u64 = 2_000;
/// Wei per vote and epoch.
const REWARD: u64 = 1_000;

pub fn genesis() -> Genesis {
    let mut genesis = plain_genesis(VALIDATORS);
    let reward_wei = U256::from(REWARD);
    // Mahi-Mahi gets a new coin in each epoch, the hardest case.
    let (closing_ms, coin_max_age) = (EPOCH_MS / 4, 1);
    let staking = StakingParameters { epoch_ms: EPOCH_MS, closing_ms, coin_max_age, reward_wei, ..Default::default() };
    add_stake(&mut genesis, staking);
    genesis
}

fn cluster(engine: EngineKind) -> Cluster {
    Cluster::with_genesis(engine, &[], &Disk::default(), genesis())
}

pub fn epoch(node: &Node) -> Epoch {
    node.pipeline.committee().epoch()
}

fn all_in(cluster: &Cluster, reached: u64) -> bool {
    cluster.nodes.values().all(|node| epoch(node) >= Epoch(reached))
}

/// Loads the cluster until all nodes are in an epoch.
pub fn load_until(cluster: &mut Cluster, reached: u64) {
    for _ in 0..400 {
        if all_in(cluster, reached) {
            return;
        }
        cluster.load();
    }
    panic!("epochs: {:?}", cluster.nodes.values().map(epoch).collect::<Vec<_>>());
}

pub fn settle(cluster: &mut Cluster) {
    cluster.run_until(20_000, "everything is executed and certified", Cluster::settled);
    cluster.assert_agreement();
}

/// Checks the epochs in the records of a node's blocks, and the certificates of their last blocks; returns their number.
fn check_epochs(node: &Node) -> u64 {
    let genesis = genesis();
    let (mut epoch, mut start) = (0, genesis.timestamp_ms);
    let mut committees = vec![genesis.committee_hash()];
    let mut last_commit = 0;
    for block in &node.disk.blocks {
        let record = &block.block.ordering;
        assert_eq!(record.epoch, Epoch(epoch));
        assert!(record.last_commit.0 >= last_commit, "commits count from 1 in each epoch");
        last_commit = record.last_commit.0;
        // The node of these tests has no committee hash of the engine's keys in its genesis, so only equality counts.
        assert_eq!(
            record.next.is_some(),
            record.time.0 >= start.0 + EPOCH_MS,
            "the first block at or after the end is the last"
        );
        assert_eq!(block.resume.epoch, Epoch(epoch + u64::from(record.next.is_some())));
        if let Some(next) = &record.next {
            let height = block.block.height();
            let certificate = &node.disk.certificates[&height];
            assert_eq!((certificate.epoch, certificate.height), (Epoch(epoch), height));
            assert!(!committees.contains(&next.committee_hash), "the committee's hash is new in each epoch");
            committees.push(next.committee_hash);
            (epoch, start, last_commit) = (epoch + 1, record.time, 0);
        }
    }
    epoch
}

/// Checks that the coin of each node's epoch was dealt in the epoch before, and that no member lacks its share.
fn check_coin(cluster: &Cluster) {
    for node in cluster.nodes.values() {
        let expected = if cluster.engine.has_coin() { epoch(node) } else { Epoch(0) };
        let none_is_public = CoinStatus { generation: expected, exposed: Votes(0), lacks_share: false };
        assert_eq!(node.pipeline.coin(), none_is_public);
    }
}

/// Some transactions are in the engine whenever an epoch ends. They go back to the pool, and are ordered in the next epoch.
pub fn transactions_in_flight_are_handed_back(engine: EngineKind) {
    let mut cluster = cluster(engine);
    for _ in 0..3 * EPOCH_MS / 5 {
        if all_in(&cluster, 2) {
            break;
        }
        cluster.submit(0, cluster.submitted..cluster.submitted + 1);
        cluster.run_for(5);
    }
    assert!(all_in(&cluster, 2), "two epochs end");
    settle(&mut cluster);
    assert_eq!(cluster.executed(0) as u64, cluster.submitted, "each transaction is executed once");
}

/// A validator that executes much later than the others ends the epoch with the same block.
pub fn slow_processor_changes_no_end(engine: EngineKind) {
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 1);
    cluster.stall(3, Part::Processor);
    for _ in 0..EPOCH_MS / 50 {
        if epoch(&cluster.nodes[&0]) == Epoch(2) {
            break;
        }
        cluster.load();
    }
    assert_eq!([0, 3].map(|index| epoch(&cluster.nodes[&index])), [Epoch(2), Epoch(1)]);
    cluster.resume(3);
    load_until(&mut cluster, 3);
    settle(&mut cluster);
    assert!(check_epochs(&cluster.nodes[&3]) >= 3);
}

pub fn epochs_end_under_load(engine: EngineKind) {
    let mut cluster = cluster(engine);
    cluster.start_full_node();
    load_until(&mut cluster, 6);
    settle(&mut cluster);
    for node in cluster.nodes.values() {
        assert!(check_epochs(node) >= 6);
        assert_eq!(node.penalties, []);
    }
    check_coin(&cluster);
    let executed = cluster.executed(0);
    assert_eq!(executed as u64, cluster.submitted, "each transaction is executed once");
    let ended = check_epochs(&cluster.nodes[&0]);
    let state = cluster.nodes[&0].state.latest();
    let rewards = |number: u8| state.account(&Address::repeat_byte(0xf0 + number));
    for number in 1..=4 {
        assert!(rewards(number).unwrap().balance >= U256::from(REWARD * ended), "each member earns in each epoch");
    }
}

/// Without load the end comes with an empty block, and the validators rest again.
pub fn silent_epoch_ends(engine: EngineKind) {
    let mut cluster = cluster(engine);
    cluster.submit(0, 0..4);
    settle(&mut cluster);
    cluster.run_for(3 * EPOCH_MS);
    assert!(all_in(&cluster, 2), "{:?}", cluster.nodes.values().map(epoch).collect::<Vec<_>>());
    for node in cluster.nodes.values() {
        check_epochs(node);
        // Steps of an epoch need blocks, and Mahi-Mahi has three more.
        let most = if engine.has_coin() { 50 } else { 20 };
        assert!(node.disk.blocks.len() < most, "{} blocks", node.disk.blocks.len());
    }
    cluster.submit(1, 4..8);
    settle(&mut cluster);
}

/// A validator that was away for whole epochs follows them and orders again; so does one that was away when an epoch ended.
pub fn absent_validator_follows(engine: EngineKind) {
    let mut cluster = cluster(engine);
    cluster.load();
    settle(&mut cluster);
    for epochs in [1, 3] {
        cluster.kill(3);
        let reached = epoch(&cluster.nodes[&0]).0 + epochs;
        load_until(&mut cluster, reached);
        cluster.start(3);
        load_until(&mut cluster, reached);
        settle(&mut cluster);
        let is_ordering = |cluster: &Cluster| cluster.nodes[&3].pipeline.is_ordering();
        cluster.run_until(10_000, "it orders again", is_ordering);
        check_epochs(&cluster.nodes[&3]);
    }
    // Its vote counts: without another one it completes the quorum.
    cluster.kill(1);
    cluster.submit(0, cluster.submitted..cluster.submitted + 4);
    let executed = cluster.submitted as usize;
    cluster.run_until(20_000, "three validators order", |cluster| {
        cluster.nodes.keys().all(|index| cluster.executed(*index) == executed)
    });
}

/// One part of the network misses the end of the epoch, and the certificate of its last block.
pub fn parted_validator_follows(engine: EngineKind) {
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 1);
    cluster.part(&[2]);
    (0..60).for_each(|_| cluster.load());
    assert!(epoch(&cluster.nodes[&0]).0 > epoch(&cluster.nodes[&2]).0);
    cluster.heal();
    let reached = epoch(&cluster.nodes[&0]).0;
    load_until(&mut cluster, reached);
    settle(&mut cluster);
    assert_eq!(cluster.nodes[&2].penalties, []);
    check_epochs(&cluster.nodes[&2]);
}

fn start_all(cluster: &mut Cluster) {
    (0..VALIDATORS).for_each(|index| cluster.start(index));
}

/// All have lost power at the end of epoch 1, of which no certificate was made.
fn killed_at_the_end(engine: EngineKind) -> Cluster {
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 1);
    cluster.certificates_are_lost = true;
    let is_at_end = |node: &Node| node.disk.blocks.last().is_some_and(|block| block.block.ordering.next.is_some());
    for _ in 0..100 {
        cluster.load();
    }
    let ends = cluster.nodes.values().filter(|node| is_at_end(node)).count();
    assert!(ends >= 1, "without certificates the epoch cannot end");
    assert!(cluster.nodes.values().all(|node| epoch(node) == Epoch(1)));
    (0..VALIDATORS).for_each(|index| cluster.kill(index));
    cluster.certificates_are_lost = false;
    cluster
}

/// The pools are lost, except for what engines had proposed. New transactions are ordered, and a further epoch ends.
fn goes_on(mut cluster: Cluster) {
    cluster.submitted = cluster.executed(0) as u64;
    load_until(&mut cluster, 3);
    settle(&mut cluster);
    for node in cluster.nodes.values() {
        check_epochs(node);
    }
}

/// All lose power when the last block of an epoch is stored and its certificate is not, at some of them or at all.
pub fn power_cut_before_certificate(engine: EngineKind) {
    let mut cluster = killed_at_the_end(engine);
    start_all(&mut cluster);
    cluster.run_until(10_000, "the next epoch starts", |cluster| all_in(cluster, 2));
    cluster.run_for(EPOCH_MS);
    goes_on(cluster);
}

/// All lose power when the certificate of the last block is stored and the entry into the next epoch is not. Their logs are
/// complete, so nobody waits for others that remember more.
pub fn power_cut_after_certificate(engine: EngineKind) {
    let mut cluster = killed_at_the_end(engine);
    let mut disks = cluster.disks.clone();
    start_all(&mut cluster);
    cluster.run_until(10_000, "the next epoch starts", |cluster| all_in(cluster, 2));
    (0..VALIDATORS).for_each(|index| cluster.kill(index));
    for (index, disk) in &mut disks {
        let end = disk.blocks.last().unwrap().block.clone();
        assert!(end.ordering.next.is_some(), "each has stored the last block");
        disk.certificates.insert(end.height(), cluster.disks[index].certificates[&end.height()].clone());
    }
    cluster.disks = disks;
    start_all(&mut cluster);
    assert!(all_in(&cluster, 2));
    goes_on(cluster);
}

/// One validator loses its disk during an epoch. It follows, votes again in the same epoch, and signs nothing twice.
pub fn lost_disk_in_later_epoch(engine: EngineKind) {
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 2);
    cluster.kill(3);
    cluster.disks.insert(3, Disk::default());
    cluster.start(3);
    let reached = epoch(&cluster.nodes[&0]).0;
    load_until(&mut cluster, reached);
    settle(&mut cluster);
    cluster.run_until(10_000, "it orders again", |cluster| cluster.nodes[&3].pipeline.is_ordering());
    load_until(&mut cluster, reached + 1);
    settle(&mut cluster);
    assert!(check_epochs(&cluster.nodes[&3]) > reached);
    check_coin(&cluster);
    assert_eq!(cluster.nodes[&0].disk.blocks.len(), cluster.nodes[&3].disk.blocks.len());
    assert!(cluster.nodes[&3].disk.certificates.contains_key(&Height(cluster.nodes[&3].disk.blocks.len() as u64)));
}

/// Notices that a node saw in each epoch: those that took effect, and others.
fn notices(node: &Node) -> BTreeMap<u64, (usize, usize)> {
    let mut notices = BTreeMap::<u64, (usize, usize)>::new();
    for record in node.disk.blocks.iter().map(|block| &block.block.ordering) {
        let (taken, refused) = notices.entry(record.epoch.0).or_default();
        *taken += record.skipped.iter().filter(|skipped| skipped.reason == SkipReason::Notice).count();
        *refused += record.skipped.iter().filter(|skipped| skipped.reason == SkipReason::NoticeRefused).count();
    }
    notices
}

/// Each validator announces itself once in each epoch, with load and without, after a restart, and when it follows. An absent
/// validator does not.
pub fn members_announce_themselves(engine: EngineKind) {
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 2);
    settle(&mut cluster);
    cluster.run_for(2 * EPOCH_MS);
    let ended = epoch(&cluster.nodes[&0]).0;
    assert!(ended >= 3);
    cluster.kill(3);
    load_until(&mut cluster, ended + 2);
    cluster.start(3);
    load_until(&mut cluster, ended + 4);
    settle(&mut cluster);
    let seen = notices(&cluster.nodes[&0]);
    let taken = |epoch: u64| seen.get(&epoch).map(|(taken, _)| *taken);
    // With a coin, each deals, and acknowledges the dealings.
    let all = if engine.has_coin() { 12 } else { 4 };
    // The first block comes after the end of epoch 0.
    assert!((1..ended).all(|epoch| taken(epoch) == Some(all)), "{seen:?}");
    // Three are too few for a committee.
    assert_eq!(taken(ended + 1), Some(3), "{seen:?}");
    assert_eq!(taken(ended + 3), Some(all), "{seen:?}");
    let refused: usize = seen.values().map(|(_, refused)| refused).sum();
    assert!(refused <= 80, "few are proposed twice: {seen:?}");
    assert_eq!(seen, notices(&cluster.nodes[&3]));
}

/// Signed call that registers a validator with the keys of this node, for a user that has sent nothing yet.
fn registration(index: usize, user: &EthereumKey) -> VerifiedTransaction {
    let (consensus, bls, network) = (consensus_key(index), bls_key(index), network_key(index));
    let coin = coin_key(index).public();
    let secrets = SigningKeys { consensus: &consensus, bls: &bls, network: &network, coin };
    let (fee, operator) = (Address::repeat_byte(0xe0 + index as u8), user.address());
    let call = Staking::registerCall { keys: sign_keys(&secrets, user.address(), CHAIN), fee, operator };
    call_staking(user, 0, StakingParameters::default().vote_wei, call.abi_encode())
}

/// Starts a node that has signed nothing, and registers it through validator 2.
fn join(cluster: &mut Cluster, index: usize) {
    cluster.disks.insert(index, Disk { never_signed: true, ..Disk::default() });
    cluster.start(index);
    cluster.give_beside(2, &registration(index, &user_number(9 + index as u8)));
}

/// Members of the committee in which a node is, by their numbers.
fn members(cluster: &Cluster, index: usize) -> Vec<usize> {
    let committee = cluster.nodes[&index].pipeline.committee();
    let mut members: Vec<usize> = committee.members().map(|(_, member)| number_of(&member.network_key.0)).collect();
    members.sort_unstable();
    members
}

pub fn is_ordering(cluster: &Cluster, index: usize) -> bool {
    cluster.nodes[&index].pipeline.is_ordering()
}

/// Loads the cluster until a node is in an epoch with these members.
fn load_until_members(cluster: &mut Cluster, of: usize, expected: &[usize]) {
    for _ in 0..200 {
        if members(cluster, of) == expected {
            return;
        }
        cluster.load();
    }
    panic!("members {:?}, expected {expected:?}", members(cluster, of));
}

/// Loads the cluster a little until a freeze.
fn load_until_freeze(cluster: &mut Cluster) {
    for _ in 0..2_000 {
        cluster.submit(0, cluster.submitted..cluster.submitted + 1);
        cluster.run_for(5);
        let state = cluster.nodes[&0].state.latest();
        if Header::load(&mut StateSlots(&state)).unwrap().phase.has_next() {
            return;
        }
    }
    panic!("no freeze within 10 s");
}

/// Validator 3 crashes at the first freeze, and the others deal the coin of the next epoch without it. Returns the status of that coin.
fn deal_without_a_member(cluster: &mut Cluster) -> CoinStatus {
    load_until(cluster, 1);
    load_until_freeze(cluster);
    cluster.kill(3);
    let reached = epoch(&cluster.nodes[&0]).0 + 1;
    load_until(cluster, reached);
    let shown = CoinStatus { generation: Epoch(reached), exposed: Votes(1), lacks_share: false };
    assert_eq!(cluster.nodes[&0].pipeline.coin(), shown);
    shown
}

/// A member crashes before it deals and acknowledges. The others show its values, so its share is public. It has its share when it
/// returns.
#[test]
fn silent_member_gets_its_share() {
    let mut genesis = genesis();
    genesis.staking.as_mut().unwrap().coin_max_age = 64;
    let mut cluster = Cluster::with_genesis(EngineKind::MahiMahi, &[], &Disk::default(), genesis);
    let shown = deal_without_a_member(&mut cluster);
    cluster.start(3);
    let has_returned = |cluster: &Cluster| is_ordering(cluster, 3) && epoch(&cluster.nodes[&3]) >= shown.generation;
    cluster.run_until(20_000, "it orders", has_returned);
    assert_eq!(cluster.nodes[&3].pipeline.coin(), shown, "the committee is the same, and so is its coin");
    // It is needed, also for the coin.
    cluster.kill(1);
    (0..5).for_each(|_| cluster.load());
    settle(&mut cluster);
    assert_eq!(cluster.nodes[&3].pipeline.coin(), shown);
}

/// Three newcomers crash before they acknowledge. Their votes are too many for openings, so the old committee and its coin stay. The
/// next dealing succeeds.
#[test]
fn silent_newcomers_do_not_take_over() {
    let mut cluster = cluster(EngineKind::MahiMahi);
    load_until(&mut cluster, 2);
    for index in 4..7 {
        join(&mut cluster, index);
    }
    cluster.run_until(20_000, "the newcomers are frozen", |cluster| cluster.nodes[&0].seats.len() == 7);
    let before = epoch(&cluster.nodes[&0]).0;
    (4..7).for_each(|index| cluster.kill(index));
    load_until(&mut cluster, before + 1);
    assert_eq!(members(&cluster, 0), [0, 1, 2, 3]);
    assert_eq!(cluster.nodes[&0].pipeline.coin().generation, Epoch(before), "the coin of the epoch before");
    load_until(&mut cluster, before + 2);
    assert_eq!(cluster.nodes[&0].pipeline.coin().generation, Epoch(before + 2));
    settle(&mut cluster);
    check_epochs(&cluster.nodes[&0]);
}

/// A newcomer registers, follows, orders with the others and signs. It is needed: with it, two of five may not be away. Then a
/// member that is away loses its seat, so that all members after it have other indices, and gets it back.
pub fn committee_changes(engine: EngineKind) {
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 1);
    join(&mut cluster, 4);
    let seats = |cluster: &Cluster| cluster.nodes[&0].seats.len();
    assert_eq!(seats(&cluster), 4);
    // From the freeze on it has a seat, so that it is connected before it orders.
    load_until_freeze(&mut cluster);
    assert_eq!((seats(&cluster), members(&cluster, 0).len()), (5, 4));
    load_until_members(&mut cluster, 0, &[0, 1, 2, 3, 4]);
    cluster.run_until(20_000, "the newcomer orders", |cluster| is_ordering(cluster, 4));
    let reached = epoch(&cluster.nodes[&0]).0 + 1;
    load_until(&mut cluster, reached);
    settle(&mut cluster);
    assert!(cluster.ordered(0).iter().any(|(author, _)| *author == 4), "it proposes its announcement");
    // A quorum of five has four members.
    cluster.kill(2);
    (0..3).for_each(|_| cluster.load());
    settle(&mut cluster);
    load_until_members(&mut cluster, 4, &[0, 1, 3, 4]);
    settle(&mut cluster);
    cluster.kill(4);
    (0..3).for_each(|_| cluster.load());
    settle(&mut cluster);
    cluster.start(4);
    cluster.start(2);
    let back = cluster.nodes.keys().copied().min().unwrap();
    load_until_members(&mut cluster, back, &[0, 1, 2, 3, 4]);
    cluster.run_until(20_000, "all order", |cluster| (0..5).all(|index| is_ordering(cluster, index)));
    settle(&mut cluster);
    let executed = cluster.executed(0) as u64;
    assert_eq!(executed, cluster.submitted + cluster.others, "each transaction is executed once");
    for node in cluster.nodes.values() {
        check_epochs(node);
        assert_eq!(node.penalties, []);
    }
    check_coin(&cluster);
    let state = cluster.nodes[&0].state.latest();
    let newcomer = state.account(&Address::repeat_byte(0xe4)).unwrap();
    assert!(newcomer.balance >= U256::from(REWARD), "it earns rewards");
    let leads = |block: &Arc<CommittedBlock>| block.block.header.beneficiary == Address::repeat_byte(0xe4);
    assert!(cluster.nodes[&0].disk.blocks.iter().any(leads), "its blocks name its fee address");
}

/// A member comes back when most others of its committee have left. Nobody can end its epoch any more, and those who could tell it are
/// guests. It follows them, and orders again.
pub fn member_returns_when_others_have_left(engine: EngineKind) {
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 1);
    cluster.kill(3);
    for index in 4..7 {
        join(&mut cluster, index);
    }
    load_until_members(&mut cluster, 0, &[0, 1, 2, 4, 5, 6]);
    cluster.kill(0);
    load_until_members(&mut cluster, 2, &[1, 2, 4, 5, 6]);
    cluster.kill(1);
    load_until_members(&mut cluster, 2, &[2, 4, 5, 6]);
    settle(&mut cluster);
    cluster.start(3);
    let reached = epoch(&cluster.nodes[&2]);
    cluster.run_until(40_000, "it follows", |cluster| epoch(&cluster.nodes[&3]) >= reached);
    load_until_members(&mut cluster, 3, &[2, 3, 4, 5, 6]);
    cluster.run_until(20_000, "it orders", |cluster| is_ordering(cluster, 3));
    settle(&mut cluster);
    check_epochs(&cluster.nodes[&3]);
    assert_eq!(cluster.nodes[&3].penalties, []);
}

/// A third of the committee is exchanged in every epoch, under load: one of six is away in turn, the first one twice.
pub fn a_third_changes_in_every_epoch(engine: EngineKind) {
    const NODES: usize = 6;
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 1);
    for index in 4..NODES {
        join(&mut cluster, index);
    }
    load_until_members(&mut cluster, 0, &[0, 1, 2, 3, 4, 5]);
    for round in 0..=NODES {
        let away = round % NODES;
        cluster.kill(away);
        let others: Vec<usize> = (0..NODES).filter(|index| *index != away).collect();
        load_until_members(&mut cluster, others[0], &others);
        cluster.start(away);
        settle(&mut cluster);
    }
    let executed = cluster.executed(0) as u64;
    assert_eq!(executed, cluster.submitted + cluster.others, "each transaction is executed once");
    for node in cluster.nodes.values() {
        check_epochs(node);
        assert_eq!(node.penalties, []);
    }
}

/// A genesis with which three members are enough for a committee.
fn small_committees() -> Genesis {
    let mut genesis = genesis();
    genesis.staking.as_mut().unwrap().min_validators = 3;
    genesis
}

/// Convictions in a node's newest state: number of the validator, and of epochs.
fn convicted(cluster: &Cluster, index: usize) -> Vec<(u32, usize)> {
    let state = cluster.nodes[&index].state.latest();
    let mut slots = StateSlots(&state);
    let epochs = 0..=epoch(&cluster.nodes[&index]).0;
    let mut count =
        |id: u32| epochs.clone().filter(|epoch| is_convicted(&mut slots, Epoch(*epoch), ValidatorId(id)).unwrap()).count();
    (0..4).map(|id| (id, count(id))).filter(|(_, count)| *count > 0).collect()
}

fn restart_equivocating(cluster: &mut Cluster, index: usize) {
    cluster.kill(index);
    cluster.equivocating.insert(index);
    cluster.start(index);
}

/// A validator that signs two proposals is convicted by evidence in a notice, loses stake, and is no member of the next committee. All
/// others go on, and none of them is convicted.
pub fn equivocator_is_convicted(engine: EngineKind) {
    let mut cluster = Cluster::with_genesis(engine, &[], &Disk::default(), small_committees());
    load_until(&mut cluster, 1);
    restart_equivocating(&mut cluster, 3);
    load_until_members(&mut cluster, 0, &[0, 1, 2]);
    for _ in 0..10 {
        cluster.load();
    }
    let times = match &convicted(&cluster, 0)[..] {
        [(3, times)] => *times,
        others => panic!("{others:?}"),
    };
    let state = cluster.nodes[&0].state.latest();
    let [honest, guilty] = [2, 3].map(|id| Validator::new(ValidatorId(id)).bonded(&mut StateSlots(&state)).unwrap());
    assert_eq!(guilty, honest - honest / U256::from(20) * U256::from(times));
    let balance = state.account(&STAKING_ADDRESS).unwrap().balance;
    assert_eq!(balance, honest * U256::from(3) + guilty, "what it lost is burnt");
}

/// A validator that signs two headers of one height is convicted by both shares (kind 4).
pub fn two_headers_are_punished(engine: EngineKind) {
    let mut cluster = Cluster::with_genesis(engine, &[], &Disk::default(), small_committees());
    load_until(&mut cluster, 1);
    cluster.two_faced = Some(3);
    // Both its shares come before a certificate is complete.
    for index in [1, 2] {
        cluster.bad.insert(index, BadLink { loss: 0, delay: 20 });
    }
    load_until_members(&mut cluster, 0, &[0, 1, 2]);
    assert!(matches!(convicted(&cluster, 0)[..], [(3, _)]), "{:?}", convicted(&cluster, 0));
}

/// A validator that lost its blocks signs no header that it may have signed before (K4).
pub fn lost_blocks_keep_a_validator_silent(engine: EngineKind) {
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 2);
    cluster.kill(3);
    let certified = cluster.certified(0);
    cluster.disks.insert(3, Disk { lost_blocks: true, ..Disk::default() });
    cluster.start(3);
    cluster.first_shares.clear();
    for _ in 0..150 {
        if cluster.first_shares.contains_key(&3) {
            break;
        }
        cluster.load();
    }
    let first = cluster.first_shares[&3];
    assert!(first > certified + 64, "certified {certified}, signed {first}");
    settle(&mut cluster);
}

/// If the others are too few to certify, the doubt does not count.
pub fn silent_validator_helps_when_it_is_needed(engine: EngineKind) {
    let mut cluster = cluster(engine);
    load_until(&mut cluster, 2);
    cluster.kill(3);
    cluster.disks.insert(3, Disk { lost_blocks: true, ..Disk::default() });
    cluster.start(3);
    cluster.first_shares.clear();
    let reached = epoch(&cluster.nodes[&0]).0;
    cluster.run_until(20_000, "it orders again", |cluster| {
        cluster.nodes[&3].pipeline.is_ordering() && epoch(&cluster.nodes[&3]).0 >= reached
    });
    // Its engine needs others with all votes until it is above everything that it may have signed.
    let before = cluster.certified(0);
    for _ in 0..100 {
        if cluster.certified(0) >= before + 30 {
            break;
        }
        cluster.load();
    }
    assert!(!cluster.first_shares.contains_key(&3));
    cluster.kill(2);
    let certified = cluster.certified(0);
    cluster.submit(0, cluster.submitted..cluster.submitted + 2);
    cluster.run_until(60_000, "a certificate", |cluster| cluster.certified(0) > certified);
}

/// All witnesses lose power before a block has their evidence. It is on their disks.
pub fn evidence_survives_its_witnesses(engine: EngineKind) {
    let mut cluster = Cluster::with_genesis(engine, &[], &Disk::default(), small_committees());
    load_until(&mut cluster, 1);
    restart_equivocating(&mut cluster, 3);
    let has_witness = |cluster: &Cluster| (0..3).any(|index| !cluster.nodes[&index].disk.evidence.is_empty());
    for _ in 0..2_000 {
        if has_witness(&cluster) {
            break;
        }
        cluster.submit(0, cluster.submitted..cluster.submitted + 1);
        cluster.run_for(2);
    }
    assert!(has_witness(&cluster), "no witness within 4 s");
    assert_eq!(convicted(&cluster, 0), [], "evidence must not be in a block yet");
    cluster.equivocating.clear();
    (0..VALIDATORS).for_each(|index| cluster.kill(index));
    (0..VALIDATORS).for_each(|index| cluster.start(index));
    cluster.submitted = cluster.executed(0) as u64;
    cluster.run_for(1_000);
    (0..40).for_each(|_| cluster.load());
    assert_eq!(convicted(&cluster, 0), [(3, 1)]);
}

/// At least one of two processes with a validator's keys finds out about the other and stops, if the second one starts from an empty disk
/// or from a copy (K5). The other validators go on.
pub fn twin_stops(engine: EngineKind) {
    for copies in [false, true] {
        let mut cluster = Cluster::with_genesis(engine, &[], &Disk::default(), small_committees());
        load_until(&mut cluster, 1);
        let disk = if copies { cluster.nodes[&3].disk.clone() } else { Disk::default() };
        let twin = cluster.start_twin(3, disk);
        let halted = |cluster: &Cluster, index: usize| cluster.nodes[&index].halted.as_ref().map(|halted| halted.cause);
        for _ in 0..40 {
            if [3, twin].iter().any(|index| halted(&cluster, *index).is_some()) {
                break;
            }
            // Two with equal records say the same until both have something of their own to say.
            for index in [3, twin] {
                cluster.submit(index, cluster.submitted..cluster.submitted + 1);
            }
            cluster.run_for(100);
        }
        let stopped: Vec<_> = [3, twin].into_iter().filter_map(|index| halted(&cluster, index)).collect();
        assert!(stopped.contains(&HaltCause::Twin), "copies: {copies}, {stopped:?}");
        let reached = epoch(&cluster.nodes[&0]).0 + 2;
        let others_reached = |cluster: &Cluster| (0..3).all(|index| epoch(&cluster.nodes[&index]).0 >= reached);
        for _ in 0..200 {
            if others_reached(&cluster) {
                break;
            }
            cluster.load();
        }
        assert!(others_reached(&cluster), "{:?}", cluster.progress());
        assert!((0..3).all(|index| cluster.nodes[&index].halted.is_none()));
    }
}

/// Without the fourth validator each of the three is needed, also by one that has already delivered the last block.
pub fn all_of_a_quorum_reach_the_end(engine: EngineKind) {
    let mut cluster = cluster(engine);
    cluster.load();
    settle(&mut cluster);
    cluster.kill(3);
    cluster.bad.insert(1, BadLink { loss: 0, delay: 60 });
    cluster.bad.insert(2, BadLink { loss: 0, delay: 150 });
    load_until(&mut cluster, 8);
    cluster.bad.clear();
    settle(&mut cluster);
    for node in cluster.nodes.values() {
        assert!(check_epochs(node) >= 8);
        assert_eq!(node.penalties, []);
    }
}

/// A validator that entered an epoch with all its records, and signed nothing yet, knows that after a restart. So three
/// validators restart at once without the fourth, and ask nobody else.
pub fn restart_without_records_of_the_epoch(engine: EngineKind) {
    let mut cluster = cluster(engine);
    cluster.submit(0, 0..4);
    settle(&mut cluster);
    cluster.kill(3);
    let reached = epoch(&cluster.nodes[&0]).0 + 2;
    cluster.run_until(4 * EPOCH_MS, "a silent epoch ends", |cluster| all_in(cluster, reached));
    (0..3).for_each(|index| cluster.kill(index));
    (0..3).for_each(|index| cluster.start(index));
    cluster.submit(1, 4..8);
    settle(&mut cluster);
}

/// One of three has stored the last block of an epoch when it loses its connections. The two others need what its engine sent last,
/// so it must still run (E8): they are too few to order without it, and one share of the block is not enough to follow. Under
/// Autobahn, where the leader is first; rounds of Mahi-Mahi keep three validators in step.
#[test]
fn first_at_the_end_helps_the_others() {
    let mut cluster = cluster(EngineKind::Autobahn);
    cluster.load();
    settle(&mut cluster);
    cluster.kill(3);
    cluster.bad.insert(1, BadLink { loss: 0, delay: 40 });
    cluster.bad.insert(2, BadLink { loss: 0, delay: 40 });
    load_until(&mut cluster, 2);
    let is_at_end = |cluster: &Cluster, index: usize| {
        let blocks = &cluster.nodes[&index].disk.blocks;
        blocks.last().is_some_and(|block| block.block.ordering.next.is_some() && block.block.ordering.epoch == Epoch(2))
    };
    cluster.submit(0, cluster.submitted..cluster.submitted + 2);
    let ended = |cluster: &Cluster| (0..3).filter(|index| is_at_end(cluster, *index)).collect::<Vec<_>>();
    for _ in 0..3 * EPOCH_MS {
        if !ended(&cluster).is_empty() {
            break;
        }
        cluster.run_for(1);
    }
    let first = ended(&cluster);
    assert_eq!(first.len(), 1, "one is first: {first:?}");
    cluster.part(&first);
    cluster.run_for(100);
    assert_eq!(ended(&cluster), first, "the others need it");
    cluster.heal();
    load_until(&mut cluster, 3);
    settle(&mut cluster);
}

/// Ten dealers: a block takes two dealings, so they take turns. One is away, and so its values are shown, eight openings in a block.
#[test]
fn many_dealers_take_turns() {
    const MEMBERS: usize = 10;
    let mut genesis = plain_genesis(MEMBERS);
    let staking = StakingParameters { epoch_ms: 4_000, closing_ms: 1_000, ..Default::default() };
    add_stake(&mut genesis, staking);
    let mut cluster = Cluster::with_genesis(EngineKind::MahiMahi, &[], &Disk::default(), genesis);
    deal_without_a_member(&mut cluster);
}
