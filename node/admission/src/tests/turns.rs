//! Turns: owners propose at once, others at their turn; transactions are forwarded meanwhile.

use super::world::*;
use crate::{EDGE_MS, MIN_TURN_MS, ROTATION_LEAD_MS, ROTATION_SECONDS, Refusal, Rotation, Standing, TURN_MS};
use corniche_types::{Address, B256, Header, TimestampMs, U256, ValidatorIndex};

/// Forwarded to this validator by another one.
fn copy(place: u32) -> Standing {
    Standing { place: Some(place), passed_on: true, ..Standing::ALONE }
}

/// Submitted to this validator by a user.
fn ours(place: u32) -> Standing {
    Standing { place: Some(place), ours: true, ..Standing::ALONE }
}

fn told(world: &mut World, most: usize) -> Vec<(u32, u8, u64)> {
    let told = world.pool.take_turns(most, usize::MAX);
    world.pool.assert_consistent();
    told.into_iter().map(|(turns, tx)| (turns, number_of(tx.sender()), tx.nonce())).collect()
}

#[test]
fn only_the_owner_proposes_at_once() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(0)).unwrap();
    world.admit_as(&draft(2, 0), copy(1)).unwrap();
    world.admit_as(&draft(3, 0), ours(0)).unwrap();
    world.admit_as(&draft(4, 0), ours(2)).unwrap();
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
fn turns_are_shorter_where_the_network_is_fast() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(1)).unwrap();
    world.admit_as(&draft(2, 0), ours(2)).unwrap();
    world.pool.set_turn(0);
    world.pool.assert_consistent();
    assert_eq!((world.pool.turn(), world.pool.next_due()), (MIN_TURN_MS, Some(TimestampMs(MIN_TURN_MS))));
    world.wait(MIN_TURN_MS);
    assert_eq!(told(&mut world, 9), [(1, 2, 0)]);
    assert_eq!(world.cut(), [(1, 0)]);
    world.wait(MIN_TURN_MS);
    assert_eq!(world.cut(), [(2, 0)]);
    world.pool.set_turn(u64::MAX);
    assert_eq!(world.pool.turn(), TURN_MS);
}

#[test]
fn a_sender_waits_with_its_next_transaction_wherever_that_was_cut() {
    let mut world = World::new();
    world.wait(10);
    (0..2).for_each(|nonce| world.admit_as(&draft(1, nonce), copy(1)).unwrap());
    world.pool.set_asked(&draft(1, 0).hash(), vec![ValidatorIndex(3)]);
    let since = |world: &World, nonce| world.pool.waited(&draft(1, nonce).hash()).map(|waited| (waited.since.0, waited.asked));
    let first = Some((10, vec![ValidatorIndex(3)]));
    assert_eq!((since(&world, 0), since(&world, 1)), (first.clone(), None));
    world.wait(TURN_MS);
    assert_eq!(world.cut(), [(1, 0), (1, 1)]);
    assert_eq!(since(&world, 0), first, "in flight");
    world.block(&[draft(1, 0)]);
    assert!(since(&world, 1).is_some());
}

#[test]
fn a_node_that_proposes_nothing_never_does() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), Standing { place: None, ours: true, ..Standing::ALONE }).unwrap();
    world.wait(100 * TURN_MS);
    assert_eq!(world.cut(), []);
    assert_eq!(told(&mut world, 9), [(100, 1, 0)]);
}

#[test]
fn turns_are_counted_while_nothing_of_the_sender_is_executed() {
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
fn an_owner_that_is_slow_on_purpose_holds_up_nobody_for_long() {
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
fn others_are_told_of_what_a_slow_owner_holds_up() {
    let mut world = World::new();
    let drafts: Vec<_> = (0..8).map(|nonce| draft(1, nonce)).collect();
    drafts.iter().for_each(|draft| world.admit_as(draft, ours(2)).unwrap());
    for nonce in 0..5 {
        world.wait(TURN_MS - 1);
        assert_eq!(told(&mut world, 9), []);
        world.block(&drafts[nonce..=nonce]);
    }
    world.wait(TURN_MS - 1);
    assert_eq!(told(&mut world, 9), [(5, 1, 5), (5, 1, 6), (5, 1, 7)]);
}

#[test]
fn a_full_node_costs_its_users_no_turn() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), Standing { ours: true, ..copy(3) }).unwrap();
    world.wait(TURN_MS - 1);
    assert_eq!(world.cut(), []);
    world.wait(1);
    assert_eq!(world.cut(), [(1, 0)], "it had waited for the others already");
}

#[test]
fn others_are_told_so_many_bytes_at_a_time() {
    let mut world = World::new();
    let long = |from, nonce| Draft { input: vec![0; 1_000], gas: 100_000, ..draft(from, nonce) };
    for from in 1..=3 {
        (0..3).for_each(|nonce| world.admit_as(&long(from, nonce), ours(1)).unwrap());
    }
    world.wait(TURN_MS);
    let mut told = |bytes| {
        let told = world.pool.take_turns(99, bytes);
        world.pool.assert_consistent();
        told.iter().map(|(turns, tx)| (*turns, number_of(tx.sender()), tx.nonce())).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    // The sender's remaining transactions get their turn when these are executed.
    for (bytes, expected) in [(5_000, 4), (1, 1), (5_000, 0)] {
        let some = told(bytes);
        assert_eq!(some.len(), expected);
        all.extend(some.into_iter().map(|(_, from, _)| from));
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, [1, 2, 3], "each sender in its turn");
}

#[test]
fn what_cannot_be_proposed_anywhere_has_no_turns() {
    let mut world = World::new();
    world.admit_as(&draft(1, 1), ours(1)).unwrap();
    world.admit_as(&draft(2, 0).max_fee(200), ours(1)).unwrap();
    world.base_fee = 300;
    world.on_block(&[], &[]);
    world.wait(10 * TURN_MS);
    assert_eq!((told(&mut world, 9), world.pool.next_due(), world.pool.next_turn()), (vec![], None, None));
    // The gap is filled and the fee falls: now the owner has a turn.
    world.base_fee = BASE_FEE;
    world.account(1).nonce = 1;
    world.on_block(&[(B256::ZERO, address(1))], &[]);
    assert_eq!(world.cut(), []);
    world.wait(TURN_MS);
    assert_eq!(world.cut(), [(1, 1), (2, 0)]);
}

#[test]
fn a_block_of_others_transactions_makes_ready_what_follows_on_them() {
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
fn what_is_owned_goes_before_what_is_taken_over() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0).tip(90), copy(1)).unwrap();
    world.wait(TURN_MS);
    world.admit_as(&draft(2, 0).tip(1), copy(0)).unwrap();
    assert_eq!(world.cut(), [(2, 0), (1, 0)]);
}

#[test]
fn one_that_comes_again_is_known_better() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(2)).unwrap();
    assert_eq!(world.cut(), []);
    assert!(matches!(world.admit_as(&draft(1, 0), copy(1)), Err(Refusal::AlreadyKnown { .. })));
    assert_eq!(world.cut(), []);
    assert!(matches!(world.admit_as(&draft(1, 0), copy(0)), Err(Refusal::AlreadyKnown { .. })));
    assert_eq!(world.cut(), [(1, 0)]);
}

#[test]
fn others_are_told_turn_by_turn_of_what_users_gave_us_and_of_nothing_else() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), ours(3)).unwrap();
    world.admit_as(&draft(2, 0), copy(1)).unwrap();
    world.admit_as(&draft(3, 0), ours(0)).unwrap();
    assert_eq!(world.pool.next_turn(), Some(TimestampMs(TURN_MS)));
    assert_eq!(told(&mut world, 9), []);
    world.wait(TURN_MS);
    let mut first = told(&mut world, 9);
    first.sort_unstable();
    assert_eq!(first, [(1, 1, 0), (1, 3, 0)]);
    assert_eq!(told(&mut world, 9), [], "once a turn");
    // Transactions in flight need no forwarding.
    world.pool.cut(1 << 20, 30_000_000, &world.accounts, world.base_fee).unwrap();
    world.wait(TURN_MS);
    assert_eq!(told(&mut world, 9), [(2, 1, 0)]);
    world.wait(TURN_MS);
    assert_eq!(told(&mut world, 0), []);
    assert_eq!(told(&mut world, 1), [(3, 1, 0)]);
    let mut world = World::new();
    world.admit_as(&draft(1, 0), ours(1)).unwrap();
    world.admit_as(&draft(1, 1), ours(1)).unwrap();
    world.wait(3 * TURN_MS + 1);
    assert_eq!(told(&mut world, 9), [(3, 1, 0), (3, 1, 1)], "one that slept tells what the time is");
}

#[test]
fn a_rotation_takes_in_what_came_at_its_edge_and_leaves_the_rest_where_it_is() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(0)).unwrap();
    world.admit_as(&draft(2, 0), copy(2)).unwrap();
    world.wait(EDGE_MS + 1);
    world.admit_as(&draft(3, 0), copy(2)).unwrap();
    world.admit_as(&draft(4, 0), copy(1)).unwrap();
    world.admit_as(&draft(5, 0), ours(2)).unwrap();
    world.admit_as(&draft(6, 0), copy(2)).unwrap();
    world.pool.rotate(TimestampMs(world.now.0 - EDGE_MS), |sender| *sender != address(6));
    world.pool.assert_consistent();
    assert_eq!(world.cut(), [(1, 0), (3, 0)], "not what the owner before has as well");
}

#[test]
fn an_owner_in_doubt_leaves_it_to_the_other() {
    let mut world = World::new();
    world.admit_as(&draft(1, 0), copy(1).at_edge()).unwrap();
    world.admit_as(&draft(2, 0), copy(1).at_edge()).unwrap();
    world.admit_as(&draft(3, 0), copy(0).at_edge()).unwrap();
    world.admit_as(&draft(4, 0), copy(2).at_edge()).unwrap();
    assert_eq!(world.cut(), [(3, 0), (4, 0)], "these can only have been meant for the owner");
    world.wait(EDGE_MS - 1);
    assert_eq!(world.cut(), []);
    world.block(&[draft(1, 0)]);
    world.wait(1);
    assert_eq!(world.cut(), [(2, 0)]);
}

fn header(timestamp: u64, randomness: u8) -> Header {
    Header { timestamp, mix_hash: B256::repeat_byte(randomness), ..Header::default() }
}

#[test]
fn every_node_finds_the_same_rotation_from_the_start_or_by_following() {
    let second = ROTATION_SECONDS;
    let chain: Vec<Header> = (0..40).map(|number| header(second * 7 + number * 3, number as u8)).collect();
    let mut following = Rotation::default();
    for end in 0..=chain.len() {
        assert_eq!(Rotation::of_chain(chain[..end].iter().rev().cloned()), following, "after {end} blocks");
        if let Some(header) = chain.get(end) {
            following = following.next(header).unwrap_or(following);
        }
    }
    assert!(Rotation::default().next(&header(second - 1, 1)).is_none());
}

#[test]
fn a_rotation_begins_at_one_time_for_all_who_see_its_first_block_in_time() {
    let begins = |now| Rotation::begins(&header(60, 1), TimestampMs(now)).0;
    let time = 60_000 + ROTATION_LEAD_MS;
    assert_eq!([60_000, 60_001, time - 1, time + 9].map(begins), [time; 4]);
    assert_eq!(begins(7), 7 + ROTATION_LEAD_MS, "a clock far behind the chain's");
}

#[test]
fn a_rotation_spreads_senders_evenly_and_the_next_one_moves_them() {
    let senders: Vec<Address> = (0..4_000u64).map(|number| Address::left_padding_from(&number.to_be_bytes())).collect();
    let [one, other] = [1, 2].map(|byte| Rotation::of_chain([header(byte * 60, byte as u8)]));
    let mut owned = [0; 4];
    senders.iter().for_each(|sender| owned[one.owner(sender, 4)] += 1);
    assert!(owned.iter().all(|owned| (900..1_100).contains(owned)), "{owned:?}");
    let stayed = senders.iter().filter(|sender| one.owner(sender, 4) == other.owner(sender, 4)).count();
    assert!((900..1_100).contains(&stayed), "{stayed} of 4,000 by chance");
}
