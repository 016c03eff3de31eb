//! Four validators with real signatures and certificates on a virtual network, with every engine. They agree.
//! One that was offline or badly connected for long follows and then votes again. After a crash of all of
//! them, everything executed still exists.

mod buckets;
#[path = "../common/mod.rs"]
mod common;
mod engines;
mod epochs;
mod sharding;
mod uncertified;
mod upgrade;
mod world;

use common::{Disk, Node, first_rules, genesis, whole_block};
use corniche_pipeline::AHEAD_OF_CERTIFICATION;
use engines::EngineKind;
use world::{BadLink, Cluster, Part, VALIDATORS};

/// Makes each scenario a test with each engine.
macro_rules! under_every_engine {
    ($($scenario:ident)*) => {
        mod mahi_mahi {
            $(#[test] fn $scenario() { super::$scenario(crate::engines::EngineKind::MahiMahi) })*
        }
        mod autobahn {
            $(#[test] fn $scenario() { super::$scenario(crate::engines::EngineKind::Autobahn) })*
        }
    };
}

/// Makes each scenario a test with each engine and several coin seeds: with a single seed the timing is
/// arbitrary.
macro_rules! with_every_coin {
    ($($scenario:ident)*) => {
        under_every_engine! { $($scenario)* }

        $(#[allow(clippy::print_stdout)] // prints the seed of a failure
        fn $scenario(engine: EngineKind) {
            for coin in engine.coins() {
                println!("coin {coin}");
                super::buckets::$scenario(super::buckets::Chain { engine, coin });
            }
        })*
    };
}

under_every_engine! {
    four_validators_agree
    validator_recovers_from_long_absence
    validator_behind_bad_link_votes_again
    validator_recovers_from_idle_absence
    short_absence_is_repaired_by_engine
    all_crashed_validators_continue
    records_are_kept_until_state_is_durable
    seed_determines_chain
    equal_partition_orders_nothing
    validator_recovers_from_lost_disk
    validator_with_slow_disk_votes_again
    validator_with_slow_processor_votes_again
    validator_restarted_far_behind_votes_again
    lost_shares_are_sent_again
    backlogged_validators_continue_after_execution
}

mod epochs_end {
    use crate::epochs::*;

    under_every_engine! {
        epochs_end_under_load
        transactions_in_flight_are_handed_back
        slow_processor_changes_no_end
        silent_epoch_ends
        absent_validator_follows
        parted_validator_follows
        power_cut_before_certificate
        power_cut_after_certificate
        lost_disk_in_later_epoch
        all_of_a_quorum_reach_the_end
        restart_without_records_of_the_epoch
        members_announce_themselves
        committee_changes
        member_returns_when_others_have_left
        a_third_changes_in_every_epoch
        equivocator_is_convicted
        evidence_survives_its_witnesses
        twin_stops
        two_headers_are_punished
        lost_blocks_keep_a_validator_silent
        silent_validator_helps_when_it_is_needed
    }
}

mod protocol_versions {
    use crate::upgrade::*;

    under_every_engine! {
        upgrade_needs_all_of_four
        one_left_behind_stops_and_returns
        full_node_left_behind_stops_and_returns
    }
}

mod request_buckets {
    use super::EngineKind;

    with_every_coin! {
        broadcast_transaction_is_ordered_once
        transactions_are_spread_over_proposers
        censoring_owner_costs_one_turn
        resting_owner_costs_no_turn
        two_censoring_owners_cost_two_turns
        full_node_adds_no_turn
        restored_transactions_are_left_to_owners
        transactions_survive_their_owner
        detected_crash_costs_no_turn
        undetected_crash_costs_one_turn
        nonces_over_several_validators_keep_order
        rotation_changes_proposers
        rotation_causes_no_duplicates
        slow_clock_costs_no_turn
        forwarded_transactions_survive_forwarder
        higher_price_wins
        lossy_links_lose_no_transactions
    }

    mod silence {
        use crate::buckets::*;

        under_every_engine! {
            silent_proposers_cost_users_little
            silent_validator_recovers
            withheld_copies_make_nobody_silent
        }
    }

    /// Figures of docs/performance.md.
    mod figures {
        use crate::{
            EngineKind,
            buckets::{self, Chain},
        };

        under_every_engine! { latency }

        fn latency(engine: EngineKind) {
            buckets::latency(Chain { engine, coin: 1 });
        }
    }
}

mod signature_sharding {
    use super::sharding::*;

    under_every_engine! {
        attestations_save_checks
        wrong_attestations_change_nothing
        missing_attestations_change_nothing
    }
}

mod uncertified_blocks {
    use super::uncertified::*;

    under_every_engine! {
        returning_validator_unblocks_chain
        blocked_chain_continues_under_light_load
        blocked_chain_continues_after_restart
        blocked_chain_continues_under_load
        blocked_chain_continues_without_engine_history
        unserved_certificate_blocks_no_chain
        forged_shares_block_no_chain
    }
}

/// Row 23 of Autobahn's checklist: certificates are aggregated BLS shares.
#[test]
fn autobahn_with_aggregates_agrees() {
    let mut cluster = Cluster::new(EngineKind::Autobahn, &[("bls", 1)]);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "executed and certified everywhere", Cluster::settled);
    cluster.assert_agreement();
}

fn four_validators_agree(engine: EngineKind) {
    let mut cluster = Cluster::new(engine, &[]);
    cluster.submit(0, 0..40);
    cluster.run_until(5_000, "40 transfers executed and certified everywhere", Cluster::settled);
    cluster.assert_agreement();
    cluster.run_for(2_000);
    let before = cluster.sent;
    cluster.run_for(60_000);
    // Mahi-Mahi: twelve heartbeats per minute, each with one or a few rounds of one small message to each
    // peer.
    let messages = cluster.sent - before;
    assert!(messages < 1_500, "{messages} messages in an idle minute");
    cluster.submit(2, 40..41);
    cluster.run_until(1_000, "an idle network wakes up", Cluster::settled);
}

fn validator_recovers_from_long_absence(engine: EngineKind) {
    // Retained data must cover everything ordered since the last certified block.
    let mut cluster = Cluster::new(engine, &engine.forgetting(10));
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", Cluster::settled);
    cluster.kill(3);
    let height = cluster.heights()[0];
    while cluster.heights()[0] < height + 30 {
        cluster.load();
        assert!(cluster.submitted < 2_000, "three go on");
    }
    cluster.start(3);
    cluster.run_until(10_000, "the fourth has caught up", Cluster::settled);
    assert!(cluster.nodes[&3].traces.iter().any(|name| name == "following"), "it was below the others' horizon");
    cluster.run_until(10_000, "it has rejoined", |cluster| cluster.nodes[&3].traces.iter().any(|name| name == "rejoined"));
    // Now it is needed: the other two are no quorum.
    cluster.kill(1);
    cluster.submit(2, cluster.submitted..cluster.submitted + 10);
    cluster.run_until(10_000, "three, the returned one among them, go on", Cluster::settled);
    cluster.assert_agreement();
}

/// Validator 3 runs all the time and is connected, but its link is bad until the others have forgotten the
/// data that it lacks.
fn hardly_heard(engine: EngineKind, bad: BadLink, load_goes_on: bool) {
    let mut cluster = Cluster::new(engine, &engine.forgetting(10));
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", Cluster::settled);
    cluster.bad.insert(3, bad);
    let behind = |cluster: &Cluster| cluster.heights()[0] - cluster.heights()[3];
    while behind(&cluster) <= 12 {
        cluster.load();
        assert!(cluster.submitted < 2_000, "{} blocks behind with {} % lost", behind(&cluster), bad.loss);
    }
    cluster.bad.clear();
    if load_goes_on {
        let healed = cluster.now;
        cluster.load();
        while behind(&cluster) > 3 {
            cluster.load();
            assert!(cluster.now - healed < 15_000, "{} blocks behind, {:?}", behind(&cluster), cluster.nodes[&3].traces);
        }
    }
    cluster.load();
    cluster.run_until(10_000, "it has caught up", Cluster::settled);
    // It is needed: the other two are no quorum.
    cluster.kill(1);
    cluster.submit(2, cluster.submitted..cluster.submitted + 10);
    cluster.run_until(15_000, "it proposes and votes", Cluster::settled);
    assert!(cluster.nodes[&3].traces.iter().any(|name| name == "following"), "it was below the others' horizon");
    assert!(cluster.nodes[&3].traces.iter().any(|name| name == "rejoined"));
    cluster.assert_agreement();
}

fn validator_behind_bad_link_votes_again(engine: EngineKind) {
    for (loss, delay, load_goes_on) in [(100, 2, false), (97, 50, true), (90, 400, true), (70, 2_000, false)] {
        hardly_heard(engine, BadLink { delay, loss }, load_goes_on);
    }
}

/// An idle chain closes an empty block per minute, so its newest resume point is never older than the data
/// that the engines retain (400 rounds of half a second, ten slots). So a late node participates again at
/// once.
fn validator_recovers_from_idle_absence(engine: EngineKind) {
    let parameters: &[_] = match engine {
        EngineKind::MahiMahi => &[("gc_depth", 10), ("retain_rounds", 400), ("heartbeat_ms", 500)],
        EngineKind::Autobahn => &[("retain_slots", 10)],
    };
    let mut cluster = Cluster::new(engine, parameters);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", Cluster::settled);
    cluster.kill(3);
    cluster.run_for(400_000);
    cluster.start(3);
    cluster.run_for(120_000);
    cluster.kill(1);
    cluster.submit(2, 10..20);
    cluster.run_until(60_000, "three of four go on", Cluster::settled);
}

fn short_absence_is_repaired_by_engine(engine: EngineKind) {
    let mut cluster = Cluster::new(engine, &[]);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", Cluster::settled);
    cluster.kill(2);
    cluster.submit(1, 10..20);
    cluster.run_for(600);
    cluster.start(2);
    cluster.run_until(10_000, "all four agree", Cluster::settled);
    cluster.kill(0);
    cluster.submit(2, 20..30);
    cluster.run_until(10_000, "the restarted one proposes and votes", Cluster::settled);
    cluster.assert_agreement();
}

fn all_crashed_validators_continue(engine: EngineKind) {
    // At intervals of a few milliseconds in the life of a transaction, and under load.
    for moment in (0..120).step_by(7) {
        let mut cluster = Cluster::new(engine, &[]);
        cluster.submit(0, 0..5);
        cluster.submit(0, 5..20);
        cluster.run_for(moment);
        let before: Vec<_> = cluster.nodes.values().map(Node::hashes).collect();
        let executed = (0..VALIDATORS).map(|index| cluster.executed(index)).max().unwrap();
        (0..VALIDATORS).for_each(|index| cluster.kill(index));
        (0..VALIDATORS).for_each(|index| cluster.start(index));
        // Transactions that were only in a pool are lost with it; wallets send them again.
        cluster.submit(1, 0..20);
        cluster.run_until(10_000, "the chain goes on", Cluster::settled);
        for (hashes, node) in before.iter().zip(cluster.nodes.values()) {
            assert_eq!(hashes[..], node.hashes()[..hashes.len()], "killed after {moment} ms, {executed} executed");
        }
        cluster.assert_agreement();
    }
}

fn records_are_kept_until_state_is_durable(engine: EngineKind) {
    // Ordering runs far ahead of four slow disks, beyond the engine's horizon, and then the power fails.
    let mut cluster = Cluster::new(engine, &engine.forgetting(8));
    cluster.nodes.values_mut().for_each(|node| node.slow_disk = true);
    for step in 0..20 {
        cluster.submit(0, step * 2..step * 2 + 2);
        cluster.run_for(100);
    }
    assert!(cluster.nodes.values().all(|node| node.waiting_appends.len() > 8), "far ahead of the disk");
    (0..VALIDATORS).for_each(|index| cluster.kill(index));
    (0..VALIDATORS).for_each(|index| cluster.start(index));
    cluster.run_until(20_000, "everything ordered is ordered again", Cluster::settled);
    cluster.assert_agreement();
}

fn seed_determines_chain(engine: EngineKind) {
    let run = || {
        let mut cluster = Cluster::new(engine, &[]);
        cluster.submit(0, 0..15);
        cluster.run_until(5_000, "executed", Cluster::settled);
        cluster.nodes[&0].hashes()
    };
    assert_eq!(run(), run());
}

fn equal_partition_orders_nothing(engine: EngineKind) {
    let mut cluster = Cluster::new(engine, &[]);
    cluster.submit(0, 0..20);
    cluster.run_for(35);
    // A split during operation.
    cluster.part(&[0, 1]);
    cluster.run_for(1_000);
    let before = cluster.heights();
    for step in 2..12 {
        cluster.submit(step as usize % 4, step * 10..step * 10 + 10);
        cluster.run_for(2_000);
    }
    assert_eq!(cluster.heights(), before, "neither half is a quorum");
    cluster.heal();
    // Wallets resubmit the transactions of the half that was behind.
    cluster.submit(0, 0..120);
    cluster.submit(2, 0..120);
    cluster.run_until(5_000, "all of it, at once after they meet", Cluster::settled);
    cluster.assert_agreement();
}

/// Validator 3 orders with the others, but executes so far behind them that it drops their shares of its next
/// blocks.
fn executes_far_behind(engine: EngineKind, part: Part) -> Cluster {
    let mut cluster = Cluster::new(engine, &[]);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", Cluster::settled);
    cluster.stall(3, part);
    while (cluster.heights()[0] - cluster.heights()[3]) as u64 <= 3 * AHEAD_OF_CERTIFICATION {
        cluster.load();
        assert!(cluster.submitted < 2_000, "three go on");
    }
    cluster
}

/// The load has ended: no further messages help validator 3.
fn catches_up_and_votes(mut cluster: Cluster) {
    cluster.run_until(20_000, "it has caught up", Cluster::settled);
    // A restarted engine may fetch the commits itself. Then it never stops ordering.
    let orders = |cluster: &Cluster| {
        let mut modes = cluster.nodes[&3].traces.iter().filter(|name| ["following", "rejoined"].contains(&name.as_str()));
        modes.next_back().is_none_or(|last| last == "rejoined")
    };
    cluster.run_until(20_000, "it orders", orders);
    cluster.kill(1);
    cluster.submit(2, cluster.submitted..cluster.submitted + 10);
    cluster.run_until(20_000, "it is needed and votes", Cluster::settled);
    cluster.assert_agreement();
}

fn validator_with_slow_disk_votes_again(engine: EngineKind) {
    let mut cluster = executes_far_behind(engine, Part::Disk);
    cluster.resume(3);
    catches_up_and_votes(cluster);
}

fn validator_with_slow_processor_votes_again(engine: EngineKind) {
    let mut cluster = executes_far_behind(engine, Part::Processor);
    cluster.resume(3);
    catches_up_and_votes(cluster);
}

/// Its disk has the blocks before it fell behind, or also those that it could still execute, and the records
/// of everything ordered since.
fn validator_restarted_far_behind_votes_again(engine: EngineKind) {
    for resumes_before in [false, true] {
        let mut cluster = executes_far_behind(engine, Part::Disk);
        if resumes_before {
            cluster.resume(3);
        }
        cluster.kill(3);
        cluster.start(3);
        catches_up_and_votes(cluster);
    }
}

/// No validator has a certificate that would help the others, so none can follow.
fn lost_shares_are_sent_again(engine: EngineKind) {
    let mut cluster = Cluster::new(engine, &[]);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", Cluster::settled);
    cluster.certificates_are_lost = true;
    (0..100).for_each(|_| cluster.load());
    let certified = |cluster: &Cluster| cluster.nodes[&0].pipeline.certified_height().0;
    assert!(cluster.heights().iter().all(|height| *height as u64 == certified(&cluster) + AHEAD_OF_CERTIFICATION));
    cluster.certificates_are_lost = false;
    cluster.run_until(5_000, "all of it is executed and certified", Cluster::settled);
    cluster.assert_agreement();
}

/// A faulty proposer's few batches make many blocks: everyone has twice the limit waiting, and takes no
/// messages of the engine.
fn backlogged_validators_continue_after_execution(engine: EngineKind) {
    let genesis = first_rules(genesis(VALIDATORS));
    let mut cluster = Cluster::with_genesis(engine, &[], &Disk::default(), genesis);
    cluster.kill(0);
    cluster.greedy.insert(0);
    cluster.start(0);
    (0..VALIDATORS).for_each(|index| cluster.stall(index, Part::Processor));
    for nonce in 0..300 {
        cluster.give(0, &whole_block(nonce));
    }
    let are_full = |cluster: &Cluster| cluster.nodes.values().all(|node| node.pipeline.waiting_blocks() == 128);
    cluster.run_until(10_000, "much is ordered", are_full);
    cluster.run_for(10_000);
    (0..VALIDATORS).for_each(|index| cluster.resume(index));
    cluster.run_until(20_000, "all of it is executed", Cluster::settled);
    cluster.submit(1, 300..310);
    cluster.run_until(5_000, "and it goes on", Cluster::settled);
    cluster.assert_agreement();
}

fn validator_recovers_from_lost_disk(engine: EngineKind) {
    for away in [0, 500, 5_000] {
        let mut cluster = Cluster::new(engine, &engine.forgetting(10));
        cluster.submit(0, 0..10);
        cluster.run_until(5_000, "a start", Cluster::settled);
        cluster.submit(3, 10..40);
        cluster.run_for(20);
        cluster.kill(3);
        cluster.disks.remove(&3);
        cluster.submit(0, 10..40);
        cluster.run_for(away);
        cluster.start(3);
        cluster.run_until(20_000, "it has everything again", Cluster::settled);
        // It signs nothing again that it may have signed before, so for some commits it counts among the f
        // faulty ones.
        (0..50).for_each(|_| cluster.load());
        cluster.kill(1);
        cluster.submit(2, cluster.submitted..cluster.submitted + 10);
        cluster.run_until(20_000, "it is needed and votes", Cluster::settled);
        cluster.assert_agreement();
    }
}
