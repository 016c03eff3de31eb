//! Rows of the mechanism checklist (M1–M22, see the README) that no other scenario covers.

use crate::{
    cluster::{Cluster, index, quick},
    decisions::directly,
    drawing::Drawing,
    thesis_figures::{FIGURE_6_2, LEADERS_6_2},
};
use corniche_mahi_mahi::{
    Config,
    message::Round,
    rules::{Slot, Verdict},
    state::Checkpoint,
};
use corniche_types::{Bytes, wire};
use std::collections::BTreeMap;

/// One link delay, ms. It is so long that the grace for slow parents (1 ms) hardly counts.
const DELAY: u64 = 1_000;

/// A committee in lock-step. The last `crashed` validators are down; all others always have transactions.
fn lock_step(size: usize, crashed: usize, config: Config, rounds: u64) -> Cluster {
    let slow = 1_000 * DELAY;
    let patient = Config { parent_grace_ms: 1, heartbeat_ms: slow, fetch_delay_ms: slow, fetch_retry_ms: slow, ..config };
    let mut cluster = Cluster::honest(size, patient, 71);
    (size - crashed..size).for_each(|node| cluster.crash(node));
    cluster.network().link.min_ms = DELAY;
    cluster.network().link.max_ms = DELAY;
    cluster.run_for(2 * DELAY + 100);
    for step in 0..2 * rounds {
        (0..size - crashed).for_each(|node| cluster.submit(node, &format!("t{step}-{node}")));
        cluster.run_for(DELAY / 2);
    }
    cluster
}

/// Mean time from proposing a block to its commit at its author, in thousandths of a delay.
fn mean_delay(cluster: &Cluster, live: usize) -> u64 {
    let proposed: BTreeMap<Bytes, u64> =
        cluster.network().archive.values().map(|block| (block.content.batch.clone(), block.content.timestamp.0)).collect();
    // Excludes the start-up, and the last waves, which are not all committed.
    let window = 20 * DELAY..cluster.now() - 40 * DELAY;
    let mut delays = Vec::new();
    for node in 0..live {
        for (at, ordered) in &cluster.seen(node).log {
            let own = ordered.batches.iter().filter(|(author, _)| *author == index(node));
            let own = own.map(|(_, batch)| proposed[&batch.bytes]);
            delays.extend(own.filter(|proposed| window.contains(proposed)).map(|proposed| at.timestamp().0 - proposed));
        }
    }
    assert!(delays.len() > 500, "{}", delays.len());
    delays.iter().sum::<u64>() * 1_000 / DELAY / delays.len() as u64
}

/// Section 9.3 of the specification, in thousandths of a delay: (ℓ/n)·w + (1 − ℓ/n)·(w + 1/(1 − s)), where s is the
/// probability that all ℓ leaders of a round are crashed. Covers M4, M5, M8 and the whole decision rule: without the
/// direct skip, a crashed leader waits for an anchor.
#[test]
fn lock_step_delays_match_prediction() {
    for wave_length in [4, 5] {
        for leaders in 1..=3u16 {
            let config = Config { wave_length, leaders, min_round_ms: 0, ..quick() };
            let measured = mean_delay(&lock_step(10, 0, config.clone(), 150), 10);
            let predicted = 1_000 * wave_length + 1_000 - 100 * u64::from(leaders);
            assert!(measured.abs_diff(predicted) <= 50, "w = {wave_length}, l = {leaders}: {measured}, not {predicted}");
            let rounds = [2_400, 700, 400][usize::from(leaders) - 1];
            let measured = mean_delay(&lock_step(10, 3, config, rounds), 7);
            // 1/(1 − s) for s = 3/10, 3/45, 1/120.
            let skipping = [1_428, 1_071, 1_008][usize::from(leaders) - 1];
            let predicted = 1_000 * wave_length + (10 - u64::from(leaders)) * skipping / 10;
            println!("w = {wave_length}, l = {leaders}, 3 of 10 crashed: {measured} (predicted {predicted})");
            assert!(measured.abs_diff(predicted) <= 50, "w = {wave_length}, l = {leaders}: {measured}, not {predicted}");
        }
    }
}

#[test]
fn every_round_commits_at_wave_depth() {
    // M3: if all validators are honest and in step, no slot of any round is skipped.
    for (wave_length, leaders) in [(4, 1), (5, 1), (4, 3)] {
        let config = Config { wave_length, leaders, min_round_ms: 0, ..quick() };
        let cluster = lock_step(4, 0, config, 40);
        let log = &cluster.seen(2).log;
        let Slot { round, rank } = wire::decode::<Checkpoint>(&log.last().unwrap().1.checkpoint).unwrap().next;
        assert_eq!(log.len() as u64, (round.0 - 1) * u64::from(leaders) + u64::from(rank), "every slot commits");
        // All decidable slots are decided: the clock's own round is being proposed.
        assert!(round.0 + wave_length >= cluster.engine(2).clock().0, "{round} of {}", cluster.engine(2).clock());
    }
}

#[test]
fn unconnected_leaders_both_commit() {
    // M10: 0@2 does not reference 3@1.
    let text = "
        1 | 0:* | 1:* | 2:* | 3:*
        2 | 0:0 1 2 | 1:* | 2:* | 3:*
        3 | 0:* | 1:* | 2:* | 3:*
        4 | 0:* | 1:* | 2:* | 3:*
        5 | 0:* | 1:* | 2:* | 3:*
    ";
    let drawing = Drawing::parse(4, 4, text);
    let dag = drawing.dag();
    assert!(!dag.get(&drawing.reference("0@2")).unwrap().parents().contains(&drawing.reference("3@1")));
    assert_eq!(directly(&dag, 1, 3), Some(Verdict::Commit(drawing.reference("3@1"))));
    assert_eq!(directly(&dag, 2, 0), Some(Verdict::Commit(drawing.reference("0@2"))));
}

#[test]
fn undecided_slot_blocks_later_slots() {
    // M12: in figure 6.2, rounds 2 to 5 are decided by round 9, but L1a only by round 10.
    let drawing = Drawing::parse(4, 5, FIGURE_6_2);
    let before = drawing.blocks().filter(|block| block.round() < Round(10)).count();
    for (round, leader) in [(2, 0), (3, 1), (4, 3)] {
        let verdict = directly(&drawing.dag(), round, leader);
        assert!(matches!(verdict, Some(Verdict::Commit(_))), "{leader}@{round}");
    }
    assert!(drawing.run(&LEADERS_6_2, 0..before).is_empty());
    assert_eq!(drawing.run(&LEADERS_6_2, 0..drawing.blocks().count()).len(), 11);
}

#[test]
fn user_of_muted_validator_resubmits() {
    // M18: blocks of the muted validator are delivered later as well; execution drops the duplicate by its nonce (D10).
    let mut cluster = Cluster::honest(4, quick(), 72);
    cluster.run_for(100);
    cluster.network().muted.insert(3);
    cluster.submit(3, "censored");
    cluster.run_for(2_000);
    assert!(cluster.delivered(0).is_empty());
    cluster.submit(1, "censored");
    assert!(cluster.run_while(1_000, |cluster| cluster.delivered(0).is_empty()));
    cluster.network().muted.clear();
    cluster.connect(3);
    cluster.submit(0, "later");
    assert!(cluster.run_while(5_000, |cluster| !cluster.delivered(3).contains(&"later".to_owned())));
    cluster.assert_agreement();
}

/// M21. Set `CORNICHE_SOAK_ROUNDS=100000` for the long run.
#[test]
fn memory_is_flat_with_slow_joiner() {
    #[allow(clippy::disallowed_methods)] // The length of the run changes nothing in it.
    let rounds: u64 = std::env::var("CORNICHE_SOAK_ROUNDS").map_or(20_000, |rounds| rounds.parse().unwrap());
    let config = Config { gc_depth: 40, retain_rounds: 40, ..quick() };
    let mut cluster = Cluster::honest(4, config, 73);
    let (mut largest, mut records, mut step) = ([0; 3], 0, 0u64);
    while cluster.engine(0).clock().0 < rounds {
        step += 1;
        cluster.submit(step as usize % 3, &format!("t{step}"));
        cluster.run_for(40);
        for node in (0..4).filter(|node| cluster.simulation.is_up(*node)) {
            let footprint = cluster.engine(node).footprint();
            (0..3).for_each(|part| largest[part] = largest[part].max(footprint[part]));
            records = records.max(cluster.records(node).len());
        }
        // Validator 3 is repeatedly down for about twenty rounds, and restarts from its disk.
        match step % 200 {
            100 => cluster.crash(3),
            106 => {
                let commits = cluster.seen(3).log.len();
                cluster.restart(3, commits);
            }
            _ => {}
        }
    }
    cluster.run_for(3_000);
    // 80 rounds kept and some open ones, four blocks each.
    assert!(largest[0] <= 4 * 100 && largest[1] <= 200 && largest[2] <= 60, "blocks, waiting, verdicts: {largest:?}");
    assert!(records <= 4 * 120, "{records} records");
    assert_eq!(cluster.seen(3).log.len(), cluster.seen(0).log.len(), "the slow one says the same");
    cluster.assert_agreement();
}
