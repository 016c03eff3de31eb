//! Tests of [`SyncTask`] with a simulated node that invents round numbers, loses data, restarts and rejects requests.

use super::{
    testing::{Fixture, NodeScript, digest, grow, slot, vertex},
    *,
};
use crate::indexer::subscription::DagNotice;
use corniche_api::{LeaderSlot, SlotStatus};

#[tokio::test]
async fn catch_up_leaves_no_gap() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| grow(script, 1..=1_500, SlotStatus::Committed));
    fixture.looks(4).await;
    let rounds = fixture.rounds().await;
    assert_eq!(rounds.keys().copied().collect::<Vec<_>>(), (1..=1_500).collect::<Vec<_>>());
    assert!(rounds.values().all(|round| round.vertices.len() == 4 && round.slots.len() == 1));
}

#[tokio::test]
async fn fast_node_leaves_no_gap() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| grow(script, 1..=100, SlotStatus::Committed));
    fixture.looks(3).await;
    fixture.update_node(|script| grow(script, 101..=900, SlotStatus::Committed));
    fixture.looks(3).await;
    assert_eq!(fixture.rounds().await.len(), 900);
}

#[tokio::test]
async fn restart_resumes_at_stored_rounds() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| grow(script, 1..=300, SlotStatus::Undecided));
    fixture.looks(3).await;
    fixture.restart();
    fixture.update_node(|script| {
        script.slots.iter_mut().for_each(|known| *known = slot(known.round, SlotStatus::Committed));
        grow(script, 301..=700, SlotStatus::Committed);
    });
    fixture.looks(3).await;
    let rounds = fixture.rounds().await;
    assert_eq!(rounds.len(), 700);
    let open: Vec<_> = rounds.iter().filter(|(_, round)| round.slots[0].status == SlotStatus::Undecided).collect();
    assert!(open.is_empty(), "{} verdicts were missed", open.len());
}

/// A slot may stay undecided for hundreds of rounds.
#[tokio::test]
async fn late_verdict_is_stored() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| {
        grow(script, 1..=10, SlotStatus::Undecided);
        grow(script, 11..=300, SlotStatus::Committed);
    });
    fixture.looks(3).await;
    fixture.update_node(|script| script.slots[4] = slot(5, SlotStatus::Skipped));
    fixture.looks(9).await;
    assert_eq!(fixture.rounds().await[&5].slots[0].status, SlotStatus::Skipped);
}

/// A decided slot waits for earlier slots; its commit is reported later.
#[tokio::test]
async fn late_commit_is_stored() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| {
        grow(script, 1..=300, SlotStatus::Committed);
        script.slots.iter_mut().filter(|slot| slot.round != 5).for_each(|slot| slot.commit = Some(10 * slot.round));
    });
    fixture.looks(3).await;
    let readers = fixture.database.readers().clone();
    let round_of = async |commit| leader_of(&readers, commit).await.unwrap().map(|slot| slot.round);
    assert_eq!((round_of(40).await, round_of(50).await, round_of(60).await), (Some(4), None, Some(6)));
    fixture.update_node(|script| script.slots[4].commit = Some(50));
    fixture.looks(9).await;
    assert_eq!((round_of(50).await, round_of(51).await, round_of(3_001).await), (Some(5), None, None));
}

/// A node of another version reports only verdicts. It must not be asked for commits repeatedly.
#[tokio::test]
async fn node_without_commits_is_not_polled_for_them() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| grow(script, 1..=300, SlotStatus::Committed));
    fixture.looks(4).await;
    let before = fixture.script.lock().unwrap().requests;
    fixture.looks(16).await;
    let requests = fixture.script.lock().unwrap().requests - before;
    assert!(requests <= 32, "{requests} requests in 16 polls");
}

#[tokio::test]
async fn stored_rounds_outlive_node_data() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| grow(script, 1..=20, SlotStatus::Committed));
    fixture.looks(2).await;
    let before = fixture.rounds().await;
    // The node's ring buffer now starts within round 15, and after a restart it knows less about round 16.
    fixture.update_node(|script| {
        script.vertices.retain(|vertex| vertex.round > 15 || vertex.round == 15 && vertex.author > 1);
        script.slots.retain(|slot| slot.round > 15);
        script.slots[0] = slot(16, SlotStatus::Undecided);
        grow(script, 21..=22, SlotStatus::Committed);
    });
    fixture.looks(2).await;
    fixture.restart();
    fixture.looks(2).await;
    let after = fixture.rounds().await;
    assert_eq!(after.len(), 22);
    for (number, round) in before {
        assert_eq!(after[&number], round, "round {number}");
    }
}

#[tokio::test]
async fn node_with_lost_trace_is_followed_from_its_newest_round() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| grow(script, 1..=200, SlotStatus::Committed));
    fixture.looks(3).await;
    fixture.update_node(|script| *script = NodeScript { most: 2_000, ..NodeScript::default() });
    fixture.looks(2).await;
    fixture.update_node(|script| grow(script, 201..=210, SlotStatus::Committed));
    fixture.looks(3).await;
    assert_eq!(fixture.rounds().await.len(), 210);
}

#[tokio::test]
async fn old_rounds_are_deleted() {
    let mut fixture = Fixture::set("mahi-mahi", 50).await;
    fixture.update_node(|script| grow(script, 1..=500, SlotStatus::Committed));
    fixture.looks(3).await;
    fixture.update_node(|script| grow(script, 501..=510, SlotStatus::Committed));
    fixture.looks(2).await;
    assert_eq!(fixture.rounds().await.keys().copied().collect::<Vec<_>>(), (461..=510).collect::<Vec<_>>());
}

#[tokio::test]
async fn leaders_outlive_their_rounds() {
    let mut fixture = Fixture::set("mahi-mahi", 50).await;
    for rounds in [1..=45, 46..=90, 91..=120] {
        fixture.update_node(|script| {
            grow(script, rounds, SlotStatus::Committed);
            script.slots.iter_mut().for_each(|slot| slot.commit = Some(10 * slot.round));
        });
        fixture.looks(2).await;
    }
    let readers = fixture.database.readers();
    let leader = async |commit| leader_of(readers, commit).await.unwrap();
    for (round, is_kept) in [(7, false), (70, false), (71, true), (120, true)] {
        assert_eq!(leader(10 * round).await, Some(Leader { round, rank: 0, is_kept }));
    }
    assert_eq!(leader(11).await, None, "no leader has this commit");
}

#[tokio::test]
async fn too_many_results_halves_request_width() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| {
        script.most = 10;
        grow(script, 1..=40, SlotStatus::Committed);
    });
    fixture.looks(12).await;
    assert_eq!(fixture.rounds().await.len(), 40);
    assert_eq!(fixture.indexer_status.snapshot().dag_unavailable, None);
}

#[tokio::test]
async fn full_node_is_polled_rarely() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| script.full_node = true);
    fixture.looks(1).await;
    let requests = fixture.script.lock().unwrap().requests;
    let in_a_while = Instant::now() + std::time::Duration::from_secs(30);
    assert!(matches!(fixture.task.next_poll, NextPoll::NotBefore(then) if then > in_a_while), "{:?}", fixture.task.next_poll);
    assert_eq!(requests, 1);
    assert!(fixture.indexer_status.snapshot().dag_unavailable.unwrap().contains("a full node orders nothing"));
}

/// A poll consumes an earlier notification. A notification that arrives while the task may not poll is kept.
#[tokio::test]
async fn notification_is_kept_until_next_poll() {
    let mut fixture = Fixture::set("mahi-mahi", 20_000).await;
    fixture.update_node(|script| grow(script, 1..=20, SlotStatus::Committed));
    fixture.notifications.set_dag(DagNotice::Grew);
    fixture.looks(1).await;
    assert_eq!(fixture.notifications.dag(), DagNotice::Quiet);
    let requests = fixture.script.lock().unwrap().requests;
    fixture.notifications.set_dag(DagNotice::Grew);
    fixture.task.next_poll = NextPoll::after_refusal(Instant::now());
    fixture.turn().await;
    assert_eq!((fixture.notifications.dag(), fixture.script.lock().unwrap().requests), (DagNotice::Grew, requests));
}

/// A log with one entry for each slot. Every fifth slot is a gap.
fn grow_log(script: &mut NodeScript, slots: std::ops::RangeInclusive<u64>, commits: bool) {
    for number in slots {
        let is_gap = number % 5 == 0;
        let status = if is_gap { SlotStatus::Skipped } else { SlotStatus::Committed };
        script.vertices.extend((!is_gap).then(|| vertex(number % 4, number)));
        script.slots.push(LeaderSlot { commit: commits.then_some(number), ..slot(number, status) });
    }
}

#[tokio::test]
async fn log_is_followed_by_slot() {
    let mut fixture = Fixture::set(NEOBFT, 20_000).await;
    fixture.update_node(|script| grow_log(script, 1..=1_500, true));
    fixture.looks(4).await;
    // More slots than a poll covers, of which the last are not final.
    fixture.update_node(|script| {
        grow_log(script, 1_501..=1_900, true);
        script.vertices.extend((1_901..=1_903).map(|number| vertex(0, number)));
    });
    fixture.looks(4).await;
    let rounds = fixture.rounds().await;
    assert!(rounds.keys().copied().eq(1..=1_903));
    assert_eq!((rounds[&1_900].vertices.len(), rounds[&1_900].slots[0].status), (0, SlotStatus::Skipped));
    assert_eq!((rounds[&1_901].vertices.len(), rounds[&1_901].slots.len()), (1, 0));
    assert_eq!(fixture.cars().await, BTreeMap::new());
    fixture.update_node(|script| script.slots.push(LeaderSlot { commit: Some(1_901), ..slot(1_901, SlotStatus::Committed) }));
    fixture.looks(1).await;
    assert_eq!(fixture.rounds().await[&1_901].slots[0].commit, Some(1_901));
}

/// A view change puts another request into a slot. Both are kept, and the verdict names one.
#[tokio::test]
async fn rolled_back_request_is_kept() {
    let mut fixture = Fixture::set(NEOBFT, 20_000).await;
    fixture.update_node(|script| script.vertices.push(vertex(0, 1)));
    fixture.looks(2).await;
    fixture.update_node(|script| {
        script.vertices.push(vertex(3, 1));
        script.slots.push(LeaderSlot { digest: Some(digest(3, 1)), ..slot(1, SlotStatus::Committed) });
    });
    fixture.looks(1).await;
    let round = fixture.rounds().await.remove(&1).unwrap();
    assert_eq!(round.vertices.iter().map(|vertex| vertex.author).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(round.slots[0].digest, Some(digest(3, 1)));
}

/// Gaps are empty commits, so their slots wait for them like others.
#[tokio::test]
async fn late_commit_of_gap_is_stored() {
    let mut fixture = Fixture::set(NEOBFT, 20_000).await;
    fixture.update_node(|script| {
        grow_log(script, 1..=300, true);
        script.slots[4].commit = None;
    });
    fixture.looks(3).await;
    let readers = fixture.database.readers().clone();
    assert_eq!(leader_of(&readers, 5).await.unwrap(), None);
    fixture.update_node(|script| script.slots[4].commit = Some(5));
    fixture.looks(9).await;
    assert_eq!(leader_of(&readers, 5).await.unwrap(), Some(Leader { round: 5, rank: 0, is_kept: true }));
}

/// The length of a lane depends on the speed of its owner, and slots have their own numbers.
#[tokio::test]
async fn lanes_are_followed_to_their_own_ends() {
    let mut fixture = Fixture::set(AUTOBAHN, 20_000).await;
    let lengths = [(0, 300), (1, 40), (2, 900), (3, 5)];
    fixture.update_node(|script| {
        script.vertices =
            lengths.iter().flat_map(|(lane, length)| (1..=*length).map(|position| vertex(*lane, position))).collect();
        script.slots = (1..=450).map(|number| slot(number, SlotStatus::Committed)).collect();
    });
    fixture.looks(3).await;
    let whole = |lengths: [(u64, u64); 4]| -> BTreeMap<u64, Vec<u64>> {
        lengths.into_iter().map(|(lane, length)| (lane, (1..=length).collect())).collect()
    };
    assert_eq!(fixture.cars().await, whole(lengths));
    // Everything advances at its own pace, including lane 3, which had stopped.
    let lengths = [(0, 310), (1, 41), (2, 930), (3, 9)];
    fixture.update_node(|script| {
        script.vertices =
            lengths.iter().flat_map(|(lane, length)| (1..=*length).map(|position| vertex(*lane, position))).collect();
        script.slots = (1..=470).map(|number| slot(number, SlotStatus::Committed)).collect();
    });
    fixture.looks(1).await;
    assert_eq!(fixture.cars().await, whole(lengths));
    assert_eq!(fixture.rounds().await.len(), 470);
    assert!(fixture.rounds().await.values().all(|round| round.vertices.is_empty()));
}

/// The node dropped more events than a poll covers, or the owner of a lane was offline.
#[tokio::test]
async fn gap_in_lane_does_not_stop_sync() {
    let mut fixture = Fixture::set(AUTOBAHN, 20_000).await;
    fixture.update_node(|script| {
        script.vertices = (1..=50).map(|position| vertex(0, position)).collect();
        script.slots = (1..=60).map(|number| slot(number, SlotStatus::Committed)).collect();
    });
    fixture.looks(3).await;
    fixture.update_node(|script| script.vertices.extend((400..=420).map(|position| vertex(0, position))));
    fixture.looks(10).await;
    assert_eq!(fixture.cars().await[&0], (1..=50).chain(400..=420).collect::<Vec<_>>());
}

/// Sets the range and all commits to impossible numbers, and adds entries with impossible numbers.
fn corrupt_numbers(dag: &mut Dag) {
    (dag.from_round, dag.to_round, dag.newest_round) = (0, u64::MAX, u64::MAX);
    dag.slots.iter_mut().for_each(|slot| slot.commit = Some(u64::MAX));
    for far in [u64::MAX, 1 << 63, i64::MAX as u64] {
        dag.vertices.extend([DagVertex { author: far, ..vertex(0, 100) }, DagVertex { round: far, ..vertex(0, 1) }]);
        let slot = slot(100, SlotStatus::Committed);
        dag.slots.extend([
            LeaderSlot { round: far, ..slot.clone() },
            LeaderSlot { rank: far, ..slot.clone() },
            LeaderSlot { validator: far, ..slot },
        ]);
    }
}

#[tokio::test]
async fn invalid_numbers_are_ignored() {
    for engine in ["mahi-mahi", AUTOBAHN, NEOBFT, MIR, "quepaxa"] {
        let mut fixture = Fixture::set(engine, 100).await;
        fixture.update_node(|script| {
            grow(script, 1..=300, SlotStatus::Committed);
            script.twist = Some(corrupt_numbers as fn(&mut Dag));
        });
        fixture.looks(20).await;
        let requests = fixture.script.lock().unwrap().requests;
        assert!(requests < 200, "{engine}: {requests} requests");
        fixture.update_node(|script| script.twist = None);
        fixture.looks(10).await;
        let rounds = fixture.rounds().await;
        let whole: Vec<u64> = (201..=300).collect();
        assert_eq!(rounds.keys().copied().collect::<Vec<_>>(), whole, "{engine}");
        assert!(rounds.values().all(|round| round.slots.len() == 1 && round.slots[0].commit.is_none()), "{engine}");
        let lanes = if Form::of(engine).has_lanes() { 0..4 } else { 0..0 };
        assert_eq!(fixture.cars().await, lanes.map(|lane| (lane, whole.clone())).collect::<BTreeMap<_, _>>(), "{engine}");
    }
}

#[tokio::test]
async fn jumping_node_does_not_fill_database() {
    for engine in ["mahi-mahi", AUTOBAHN, NEOBFT, MIR, "quepaxa"] {
        let mut fixture = Fixture::set(engine, 10).await;
        for far in (1..=20).rev().map(|millions| millions * 1_000_000) {
            fixture.update_node(|script| {
                *script = NodeScript { most: 2_000, ..NodeScript::default() };
                grow(script, far - 5..=far, SlotStatus::Committed);
            });
            fixture.looks(4).await;
        }
        let whole: Vec<u64> = (999_995..=1_000_000).collect();
        assert_eq!(fixture.rounds().await.into_keys().collect::<Vec<_>>(), whole, "{engine}");
        let lanes = if Form::of(engine).has_lanes() { 0..4 } else { 0..0 };
        assert_eq!(fixture.cars().await, lanes.map(|lane| (lane, whole.clone())).collect::<BTreeMap<_, _>>(), "{engine}");
    }
}

#[test]
fn equivocating_proposer_is_bounded() {
    let mut round = Round::default();
    let round_with = |vertex| Round { vertices: vec![vertex], slots: Vec::new() };
    for other in 0..100 {
        round.absorb(round_with(DagVertex { digest: digest(9, other), ..vertex(1, 5) }));
    }
    round.absorb(round_with(vertex(2, 5)));
    assert_eq!(round.vertices.iter().map(|vertex| vertex.author).collect::<Vec<_>>(), [1, 1, 1, 1, 2]);
}

/// The owner of the lane is slow, or was offline from the beginning.
#[tokio::test]
async fn lane_far_behind_is_found() {
    let mut fixture = Fixture::set(AUTOBAHN, 100).await;
    fixture.update_node(|script| {
        script.slots = (4_900..=5_000).map(|number| slot(number, SlotStatus::Committed)).collect();
        script.vertices = (1..=5).map(|position| vertex(3, position)).collect();
    });
    fixture.looks(10).await;
    assert_eq!(fixture.cars().await, BTreeMap::from([(3, (1..=5).collect::<Vec<u64>>())]));
    fixture.update_node(|script| script.vertices.extend((6..=7).map(|position| vertex(3, position))));
    fixture.looks(1).await;
    assert_eq!(fixture.cars().await, BTreeMap::from([(3, (1..=7).collect::<Vec<u64>>())]));
}
