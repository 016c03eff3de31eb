//! A faulty validator orders with the others but certifies nothing, while an honest one is offline. Ordering
//! continues, and nothing above the newest certificate can be certified. Once the honest one is back, the
//! chain must continue without the faulty one.

use crate::{
    common::{Disk, transfer_from, user_number},
    engines::EngineKind,
    world::{Cluster, Uncertifying},
};
use corniche_pipeline::AHEAD_OF_CERTIFICATION;

const FAULTY: usize = 3;
const AWAY: usize = 1;
/// Validators that continue ordering with the faulty one.
const WAITING: [usize; 2] = [0, 2];
/// Number of blocks waiting for execution at which a node stops passing messages to its engine.
const FULL: usize = 128;

/// Running chain with one unreachable validator.
fn one_is_away(engine: EngineKind, parameters: &[(&str, u64)], fault: Uncertifying) -> Cluster {
    // The faulty validator proposes the transactions that it receives, even while the others' proposals are
    // empty.
    let mut cluster = Cluster::with_disks(engine, parameters, &Disk { without_buckets: true, ..Disk::default() });
    cluster.uncertifying.insert(FAULTY, fault);
    cluster.cut_off.insert(AWAY);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "three certify without the faulty one", Cluster::settled);
    cluster.part(&[AWAY]);
    cluster
}

fn load(cluster: &mut Cluster, ms: u64) {
    cluster.submit(FAULTY, cluster.submitted..cluster.submitted + 1);
    cluster.run_for(ms);
}

/// The others order until their backlog is full.
fn blocked(engine: EngineKind, fault: Uncertifying) -> Cluster {
    blocked_with(engine, &[], fault)
}

fn blocked_with(engine: EngineKind, parameters: &[(&str, u64)], fault: Uncertifying) -> Cluster {
    let mut cluster = one_is_away(engine, parameters, fault);
    let certified = cluster.certified(0);
    let is_full = |cluster: &Cluster| WAITING.iter().all(|index| cluster.nodes[index].pipeline.waiting_blocks() >= FULL);
    while !is_full(&cluster) {
        // Autobahn waits for a leader that is offline.
        load(&mut cluster, 400);
        assert!(cluster.submitted < 1_000, "they order without the one that is away");
    }
    (0..10).for_each(|_| load(&mut cluster, 400));
    assert!(WAITING.iter().all(|index| cluster.certified(*index) == certified), "nothing is certified meanwhile");
    let heights = WAITING.map(|index| cluster.nodes[&index].disk.blocks.len() as u64);
    assert_eq!(heights, [certified + AHEAD_OF_CERTIFICATION; 2]);
    cluster
}

/// All reach each other again: the backlog and new transactions are executed and certified.
fn goes_on(mut cluster: Cluster) {
    let certified = cluster.certified(0);
    cluster.heal();
    cluster.run_until(10_000, "progress", |cluster| cluster.certified(0) > certified);
    drains(cluster, certified);
}

fn drains(mut cluster: Cluster, certified: u64) {
    let has_drained = |cluster: &Cluster| {
        let top = cluster.nodes[&FAULTY].disk.blocks.len();
        let at_top = |index: usize| cluster.nodes[&index].disk.blocks.len() == top && cluster.certified(index) == top as u64;
        top as u64 > certified + AHEAD_OF_CERTIFICATION + FULL as u64 && [0, 1, 2].into_iter().all(at_top)
    };
    cluster.run_until(20_000, "all of it is executed and certified", has_drained);
    let transaction = transfer_from(&user_number(0), 0, 10);
    cluster.give(AWAY, &transaction);
    cluster.run_until(10_000, "what comes now is certified", |cluster| {
        let has_it = |index: &usize| {
            let mut blocks = cluster.nodes[index].disk.blocks.iter().take(cluster.certified(*index) as usize);
            blocks.any(|block| block.receipts.iter().any(|receipt| receipt.transaction_hash == transaction.hash()))
        };
        [0, 1, 2].iter().all(has_it)
    });
    cluster.assert_agreement();
}

pub fn returning_validator_unblocks_chain(engine: EngineKind) {
    goes_on(blocked(engine, Uncertifying::Silent));
}

/// The others have long forgotten the data that the offline one lacks.
pub fn blocked_chain_continues_without_engine_history(engine: EngineKind) {
    goes_on(blocked_with(engine, &engine.forgetting(10), Uncertifying::Silent));
}

/// The offline one learns of certified blocks, but only the faulty validator has their certificates.
pub fn unserved_certificate_blocks_no_chain(engine: EngineKind) {
    goes_on(blocked(engine, Uncertifying::Luring));
}

pub fn forged_shares_block_no_chain(engine: EngineKind) {
    goes_on(blocked(engine, Uncertifying::Forging));
}

pub fn blocked_chain_continues_under_light_load(engine: EngineKind) {
    let mut cluster = one_is_away(engine, &[], Uncertifying::Silent);
    (0..600).for_each(|_| load(&mut cluster, 1_000));
    goes_on(cluster);
}

pub fn blocked_chain_continues_after_restart(engine: EngineKind) {
    let mut cluster = blocked(engine, Uncertifying::Silent);
    WAITING.iter().for_each(|index| cluster.kill(*index));
    cluster.run_for(1_000);
    WAITING.iter().for_each(|index| cluster.start(*index));
    cluster.run_for(5_000);
    goes_on(cluster);
}

/// Ordering continues while the offline one catches up.
pub fn blocked_chain_continues_under_load(engine: EngineKind) {
    let mut cluster = blocked(engine, Uncertifying::Silent);
    let certified = cluster.certified(0);
    cluster.heal();
    for _ in 0..400 {
        load(&mut cluster, 50);
    }
    assert!(
        cluster.certified(0) > certified + AHEAD_OF_CERTIFICATION + FULL as u64,
        "{} after {certified}",
        cluster.certified(0)
    );
    drains(cluster, certified);
}
