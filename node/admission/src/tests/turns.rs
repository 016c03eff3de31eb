//! Turns: owners propose at once, others at their turn; transactions are forwarded meanwhile.

use super::world::*;
use crate::{MIN_TURN_MS, ROTATION_LEAD_MS, ROTATION_OVERLAP_MS, ROTATION_SECONDS, Refusal, Responsibility, Rotation, TURN_MS};
use corniche_types::{Address, B256, Header, TimestampMs, U256, ValidatorIndex};
use std::collections::BTreeSet;

/// Forwarded to this validator by another one.
fn copy(position: u32) -> Responsibility {
    Responsibility { position: Some(position), forwarded: true, ..Responsibility::ALONE }
}

/// Submitted to this validator by a user.
fn responsible(position: u32) -> Responsibility {
    Responsibility { position: Some(position), is_responsible: true, ..Responsibility::ALONE }
}

fn overdue(world: &mut World, max: usize) -> Vec<(u32, u8, u64)> {
    let overdue = world.pool.take_overdue(max, usize::MAX);
    world.pool.assert_consistent();
    overdue.into_iter().map(|(turns, tx)| (turns, number_of(tx.sender()), tx.nonce())).collect()
}

#[test]
fn owner_proposes_at_once() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(0)).unwrap();
    world.admit_as(&draft(2, 0), copy(1)).unwrap();
    world.admit_as(&draft(3, 0), responsible(0)).unwrap();
    world.admit_as(&draft(4, 0), responsible(2)).unwrap();
    assert_eq!(world.cut(), [(1, 0), (3, 0)]);
    assert_eq!(world.pool.next_due(), Some(TimestampMs(TURN_MS)));
    world.wait(TURN_MS - 1);
    assert_eq!(world.cut(), []);
    world.wait(1);
    assert_eq!(world.cut(), [(2, 0)], "a copy was sent when its turn was near");
    world.wait(TURN_MS);
    assert_eq!(world.cut(), [(4, 0)], "a user's waits for both before it");
    assert_eq!(world.pool.next_due(), None);
}

#[test]
fn turns_follow_measured_latency() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(1)).unwrap();
    world.admit_as(&draft(2, 0), responsible(2)).unwrap();
    world.pool.set_turn(0);
    world.pool.assert_consistent();
    assert_eq!((world.pool.turn(), world.pool.next_due()), (MIN_TURN_MS, Some(TimestampMs(MIN_TURN_MS))));
    world.wait(MIN_TURN_MS);
    assert_eq!(overdue(&mut world, 9), [(1, 2, 0)]);
    assert_eq!(world.cut(), [(1, 0)]);
    world.wait(MIN_TURN_MS);
    assert_eq!(world.cut(), [(2, 0)]);
    world.pool.set_turn(u64::MAX);
    assert_eq!(world.pool.turn(), TURN_MS);
}

#[test]
fn turn_restarts_for_next_transaction() {
    let mut world = World::new();
    world.wait(10);
    (0..2).for_each(|nonce| world.admit_as(&draft(1, nonce), copy(1)).unwrap());
    world.pool.set_recipients(&draft(1, 0).hash(), vec![ValidatorIndex(3)]);
    let since =
        |world: &World, nonce| world.pool.waited(&draft(1, nonce).hash()).map(|waited| (waited.since.0, waited.recipients));
    let first = Some((10, vec![ValidatorIndex(3)]));
    assert_eq!((since(&world, 0), since(&world, 1)), (first.clone(), None));
    world.wait(TURN_MS);
    assert_eq!(world.cut(), [(1, 0), (1, 1)]);
    assert_eq!(since(&world, 0), first, "in flight");
    world.block(&[draft(1, 0)]);
    assert!(since(&world, 1).is_some());
}

#[test]
fn full_node_never_proposes() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), Responsibility { position: None, is_responsible: true, ..Responsibility::ALONE }).unwrap();
    world.wait(100 * TURN_MS);
    assert_eq!(world.cut(), []);
    assert_eq!(overdue(&mut world, 9), [(100, 1, 0)]);
}

#[test]
fn turns_count_without_executions() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(1)).unwrap();
    world.admit_as(&draft(1, 1), copy(1)).unwrap();
    world.wait(TURN_MS - 1);
    world.block(&[draft(1, 0)]);
    world.wait(1);
    assert_eq!(world.cut(), [], "the owner is at work");
    world.wait(TURN_MS - 1);
    assert_eq!(world.cut(), [(1, 1)]);
}

/// The owner orders one transaction per turn: each step restarts the turns, but the delay is bounded.
#[test]
fn slow_owner_delay_is_bounded() {
    let mut world = World::new();
    let drafts: Vec<_> = (0..8).map(|nonce| draft(1, nonce)).collect();
    drafts.iter().for_each(|draft| world.admit_as(draft, copy(1)).unwrap());
    for nonce in 0..4 {
        world.wait(TURN_MS - 1);
        assert_eq!(world.cut(), [], "after {nonce}");
        world.block(&drafts[nonce..=nonce]);
    }
    world.wait(4);
    assert_eq!(world.cut(), [(1, 4), (1, 5), (1, 6), (1, 7)], "four turns after they came");
    // If nothing waits for long, each step restarts the turns.
    let mut world = World::new();
    for nonce in 0..9 {
        world.admit_as(&draft(1, nonce + 1), copy(1)).unwrap_or_default();
        world.admit_as(&draft(1, nonce), copy(1)).unwrap_or_default();
        world.wait(TURN_MS - 1);
        assert_eq!(world.cut(), []);
        world.block(&[draft(1, nonce)]);
    }
}

#[test]
fn overdue_under_slow_owner() {
    let mut world = World::new();
    let drafts: Vec<_> = (0..8).map(|nonce| draft(1, nonce)).collect();
    drafts.iter().for_each(|draft| world.admit_as(draft, responsible(2)).unwrap());
    for nonce in 0..5 {
        world.wait(TURN_MS - 1);
        assert_eq!(overdue(&mut world, 9), []);
        world.block(&drafts[nonce..=nonce]);
    }
    world.wait(TURN_MS - 1);
    assert_eq!(overdue(&mut world, 9), [(5, 1, 5), (5, 1, 6), (5, 1, 7)]);
}

#[test]
fn full_node_adds_no_turn() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), Responsibility { is_responsible: true, ..copy(3) }).unwrap();
    world.wait(TURN_MS - 1);
    assert_eq!(world.cut(), []);
    world.wait(1);
    assert_eq!(world.cut(), [(1, 0)], "it had waited for the others already");
}

#[test]
fn overdue_bytes_are_bounded() {
    let mut world = World::new();
    let long = |from, nonce| Draft { input: vec![0; 1_000], gas: 100_000, ..draft(from, nonce) };
    for from in 1..=3 {
        (0..3).for_each(|nonce| world.admit_as(&long(from, nonce), responsible(1)).unwrap());
    }
    world.wait(TURN_MS);
    let mut overdue = |bytes| {
        let overdue = world.pool.take_overdue(99, bytes);
        world.pool.assert_consistent();
        overdue.iter().map(|(turns, tx)| (*turns, number_of(tx.sender()), tx.nonce())).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    // The sender's remaining transactions get their turn when these are executed.
    for (bytes, expected) in [(5_000, 4), (1, 1), (5_000, 0)] {
        let some = overdue(bytes);
        assert_eq!(some.len(), expected);
        all.extend(some.into_iter().map(|(_, from, _)| from));
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, [1, 2, 3], "each sender in its turn");
}

#[test]
fn unproposable_transactions_have_no_turns() {
    let mut world = World::new();
    world.admit_as(&draft(1, 1), responsible(1)).unwrap();
    world.admit_as(&draft(2, 0).max_fee(200), responsible(1)).unwrap();
    world.base_fee = 300;
    world.on_block(&[], &[]);
    world.wait(10 * TURN_MS);
    assert_eq!((overdue(&mut world, 9), world.pool.next_due(), world.pool.next_turn()), (vec![], None, None));
    // The gap is filled and the fee falls: now the owner has a turn.
    world.base_fee = BASE_FEE;
    world.account(1).nonce = 1;
    world.on_block(&[(B256::ZERO, address(1))], &[]);
    assert_eq!(world.cut(), []);
    world.wait(TURN_MS);
    assert_eq!(world.cut(), [(1, 1), (2, 0)]);
}

#[test]
fn foreign_block_makes_followers_ready() {
    // More senders than are checked per block; their nonce 0 was never in this pool.
    let mut world = World::new();
    for number in 10..=90 {
        world.account(number).balance = U256::from(ETHER);
        world.admit(&draft(number, 1)).unwrap();
    }
    for (ready, number) in (1..).zip(10..=90) {
        world.account(number).nonce = 1;
        world.on_block(&[(B256::ZERO, address(number))], &[]);
        assert_eq!(world.pool.ready_len(), ready);
    }
}

#[test]
fn owned_before_taken_over() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0).tip(90), copy(1)).unwrap();
    world.wait(TURN_MS);
    world.admit_as(&draft(2, 0).tip(1), copy(0)).unwrap();
    assert_eq!(world.cut(), [(2, 0), (1, 0)]);
}

#[test]
fn duplicate_merges_responsibility() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(2)).unwrap();
    assert_eq!(world.cut(), []);
    assert!(matches!(world.admit_as(&draft(1, 0), copy(1)), Err(Refusal::AlreadyKnown { .. })));
    assert_eq!(world.cut(), []);
    assert!(matches!(world.admit_as(&draft(1, 0), copy(0)), Err(Refusal::AlreadyKnown { .. })));
    assert_eq!(world.cut(), [(1, 0)]);
}

#[test]
fn only_own_transactions_become_overdue() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), responsible(3)).unwrap();
    world.admit_as(&draft(2, 0), copy(1)).unwrap();
    world.admit_as(&draft(3, 0), responsible(0)).unwrap();
    assert_eq!(world.pool.next_turn(), Some(TimestampMs(TURN_MS)));
    assert_eq!(overdue(&mut world, 9), []);
    world.wait(TURN_MS);
    let mut first = overdue(&mut world, 9);
    first.sort_unstable();
    assert_eq!(first, [(1, 1, 0), (1, 3, 0)]);
    assert_eq!(overdue(&mut world, 9), [], "once a turn");
    // Transactions in flight need no forwarding.
    world.pool.cut(1 << 20, 30_000_000, &world.accounts, world.base_fee).unwrap();
    world.wait(TURN_MS);
    assert_eq!(overdue(&mut world, 9), [(2, 1, 0)]);
    world.wait(TURN_MS);
    assert_eq!(overdue(&mut world, 0), []);
    assert_eq!(overdue(&mut world, 1), [(3, 1, 0)]);
    let mut world = World::new();
    world.admit_as(&draft(1, 0), responsible(1)).unwrap();
    world.admit_as(&draft(1, 1), responsible(1)).unwrap();
    world.wait(3 * TURN_MS + 1);
    assert_eq!(overdue(&mut world, 9), [(3, 1, 0), (3, 1, 1)], "one that slept tells what the time is");
}

#[test]
fn owner_that_proposes_nothing_hands_over() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(0)).unwrap();
    world.admit_as(&draft(2, 0), copy(1)).unwrap();
    let batch = world.pool.cut(1 << 20, 30_000_000, &world.accounts, world.base_fee).unwrap();
    world.admit_as(&draft(3, 0), copy(0)).unwrap();
    let hand_over = |world: &mut World| {
        let handed_over = world.pool.hand_over();
        world.pool.assert_consistent();
        handed_over.iter().map(|it| number_of(it.sender())).collect::<BTreeSet<_>>()
    };
    let overdue = |world: &mut World| overdue(world, 9).into_iter().map(|(_, sender, _)| sender).collect::<BTreeSet<_>>();
    assert_eq!(hand_over(&mut world), BTreeSet::from([2, 3]), "a batch has the first one");
    assert!(hand_over(&mut world).is_empty());
    world.wait(TURN_MS);
    assert_eq!(overdue(&mut world), BTreeSet::from([2, 3]));
    world.pool.requeue(batch);
    assert_eq!(hand_over(&mut world), BTreeSet::from([1]));
    world.wait(TURN_MS);
    assert_eq!(overdue(&mut world), BTreeSet::from([1, 2, 3]));
    assert_eq!(world.cut().len(), 3, "they stay here, too");
}

#[test]
fn rotation_adjusts_recent_arrivals_only() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(0)).unwrap();
    world.admit_as(&draft(2, 0), copy(2)).unwrap();
    world.wait(ROTATION_OVERLAP_MS + 1);
    world.admit_as(&draft(3, 0), copy(2)).unwrap();
    world.admit_as(&draft(4, 0), copy(1)).unwrap();
    world.admit_as(&draft(5, 0), responsible(2)).unwrap();
    world.admit_as(&draft(6, 0), copy(2)).unwrap();
    world.pool.rotate(TimestampMs(world.now.0 - ROTATION_OVERLAP_MS), |sender| *sender != address(6));
    world.pool.assert_consistent();
    assert_eq!(world.cut(), [(1, 0), (3, 0)], "not what the owner before has as well");
}

#[test]
fn disputed_owner_yields() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(1).adjust_for_rotation(2)).unwrap();
    world.admit_as(&draft(2, 0), copy(1).adjust_for_rotation(2)).unwrap();
    world.admit_as(&draft(3, 0), copy(0).adjust_for_rotation(2)).unwrap();
    world.admit_as(&draft(4, 0), copy(2).adjust_for_rotation(2)).unwrap();
    world.admit_as(&draft(5, 0), copy(2).adjust_for_rotation(3)).unwrap();
    assert_eq!(world.cut(), [(3, 0), (4, 0)], "these can only have been meant for the owner");
    world.wait(ROTATION_OVERLAP_MS - 1);
    assert_eq!(world.cut(), []);
    world.block(&[draft(1, 0)]);
    world.wait(1);
    assert_eq!(world.cut(), [(2, 0), (5, 0)]);
}

fn header(timestamp: u64, randomness: u8) -> Header {
    Header { timestamp, mix_hash: B256::repeat_byte(randomness), ..Header::default() }
}

#[test]
fn rotation_is_the_same_from_headers_or_blocks() {
    let second = ROTATION_SECONDS;
    let chain: Vec<Header> = (0..40).map(|number| header(second * 7 + number * 3, number as u8)).collect();
    let mut following = Rotation::default();
    for end in 0..=chain.len() {
        assert_eq!(Rotation::from_headers(chain[..end].iter().rev().cloned()), following, "after {end} blocks");
        if let Some(header) = chain.get(end) {
            following = following.next(header).unwrap_or(following);
        }
    }
    assert!(Rotation::default().next(&header(second - 1, 1)).is_none());
}

#[test]
fn rotation_start_is_common() {
    let begins = |now| Rotation::begins(&header(60, 1), TimestampMs(now)).0;
    let time = 60_000 + ROTATION_LEAD_MS;
    assert_eq!([60_000, 60_001, time - 1, time + 9].map(begins), [time; 4]);
    assert_eq!(begins(7), 7 + ROTATION_LEAD_MS, "a clock far behind the chain's");
}

#[test]
fn rotation_spreads_senders_evenly() {
    let senders: Vec<Address> = (0..4_000u64).map(|number| Address::left_padding_from(&number.to_be_bytes())).collect();
    let [one, other] = [1, 2].map(|byte| Rotation::from_headers([header(byte * 60, byte as u8)]));
    let mut owned = [0; 4];
    senders.iter().for_each(|sender| owned[one.owner(sender, 4)] += 1);
    assert!(owned.iter().all(|owned| (900..1_100).contains(owned)), "{owned:?}");
    let stayed = senders.iter().filter(|sender| one.owner(sender, 4) == other.owner(sender, 4)).count();
    assert!((900..1_100).contains(&stayed), "{stayed} of 4,000 by chance");
}
