//! Scenarios of the pool.

use super::world::*;
use crate::{DropReason, Event, PoolConfig, Refusal, Responsibility};
use corniche_types::{TimestampMs, U256};

fn dropped(draft: &Draft, reason: DropReason) -> Event {
    Event::Dropped { hash: draft.hash(), reason }
}

// ---- the order of cutting ----

#[test]
fn highest_tip_first_then_earliest() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0).tip(10), draft(2, 0).tip(30), draft(3, 0).tip(20), draft(4, 0).tip(20)]);
    assert_eq!(world.cut(), [(2, 0), (3, 0), (4, 0), (1, 0)]);
}

#[test]
fn nonce_order_beats_tip() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0).tip(1), draft(1, 1).tip(99), draft(2, 0).tip(50), draft(2, 1).tip(40)]);
    assert_eq!(world.cut(), [(2, 0), (2, 1), (1, 0), (1, 1)], "1's dear second waits for its cheap first");
}

#[test]
fn effective_tip_decides() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0).tip(50).max_fee(120), draft(2, 0).tip(30).max_fee(1_000)]);
    assert_eq!(world.cut(), [(2, 0), (1, 0)], "1 pays 120 − 100");
    let (first, second) = (legacy(3, 0, 125), legacy(4, 0, 150));
    for transaction in [first, second] {
        world.pool.admit(transaction, &world.accounts, BASE_FEE, TimestampMs(0)).unwrap();
    }
    assert_eq!(world.cut(), [(4, 0), (3, 0)], "a gas price is fee and tip in one");
}

#[test]
fn underpriced_waits_for_lower_base_fee() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0).max_fee(110), draft(1, 1), draft(2, 0).max_fee(120)]);
    world.base_fee = 115;
    assert_eq!(world.cut(), [(2, 0)]);
    assert_eq!(world.pool.ready_len(), 3, "it is the fee that holds them up, no gap");
    world.base_fee = 110;
    assert_eq!(world.cut(), [(1, 0), (1, 1)]);
}

#[test]
fn batch_is_bounded_in_bytes_and_gas() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0).tip(30).gas(60_000), draft(2, 0).tip(20).gas(60_000), draft(3, 0).tip(10).gas(30_000)]);
    let by_gas = world.cut_at_most(1 << 20, 100_000).unwrap();
    assert_eq!(contents(&by_gas), [(1, 0), (3, 0)], "what does not fit is passed over");
    assert_eq!(world.cut(), [(2, 0)]);

    let mut world = World::new();
    world.admit_all(&[draft(1, 0), draft(2, 0), draft(3, 0)]);
    let entry = draft(1, 0).raw().len() as u32 + 4;
    let by_bytes = world.cut_at_most(1 + 2 * entry, 30_000_000).unwrap();
    assert_eq!(by_bytes.bytes.len() as u32, 1 + 2 * entry);
    assert_eq!(contents(&by_bytes), [(1, 0), (2, 0)]);
    assert_eq!(world.cut_at_most(entry, 30_000_000), None, "not even one");
    assert_eq!(world.cut_at_most(0, 30_000_000), None);
    assert_eq!(contents(&world.cut_at_most(1 + entry, 21_000).unwrap()), [(3, 0)]);
}

#[test]
fn large_transactions_do_not_block_others() {
    let mut world = World::with(PoolConfig { max_per_sender: 64, ..config() });
    for nonce in 0..5 {
        (1..=8).for_each(|from| world.admit(&draft(from, nonce).tip(500).gas(2_000_000)).unwrap());
    }
    world.admit(&draft(9, 0).tip(1)).unwrap();
    assert_eq!(contents(&world.cut_at_most(1 << 20, 1_000_000).unwrap()), [(9, 0)]);
}

// ---- gaps ----

#[test]
fn transactions_behind_nonce_gap_wait() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 1), draft(1, 2), draft(1, 4)]);
    assert_eq!(world.cut(), []);
    assert_eq!((world.pool.ready_len(), world.pool.queued_len(), world.pending_nonce(1)), (0, 3, 0));
    assert!(world.pool.get(&draft(1, 2).hash()).is_some(), "they are visible by hash");
    world.admit(&draft(1, 0)).unwrap();
    assert_eq!((world.pool.ready_len(), world.pool.queued_len(), world.pending_nonce(1)), (3, 1, 3));
    assert_eq!(world.cut(), [(1, 0), (1, 1), (1, 2)]);
}

#[test]
fn nonce_gap_closed_elsewhere() {
    let mut world = World::new();
    world.admit(&draft(1, 1)).unwrap();
    world.account(1).nonce = 1;
    world.on_block(&[], &[]);
    assert_eq!(world.cut(), [(1, 1)]);
}

#[test]
fn queued_transactions_expire() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0), draft(1, 2)]);
    world.now = TimestampMs(1_000);
    world.admit(&draft(2, 0)).unwrap();
    world.on_block(&[], &[]);
    assert_eq!(world.events(), [dropped(&draft(1, 2), DropReason::Expired)]);
    assert!(world.pool.get(&draft(1, 0).hash()).is_some(), "the ready one stays");
}

// ---- in flight ----

#[test]
fn cut_transactions_are_not_cut_twice() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0), draft(1, 1), draft(2, 0)]);
    let batch = world.cut_at_most(1 << 20, 30_000_000).unwrap();
    assert_eq!(world.cut(), []);
    world.admit(&draft(1, 2)).unwrap();
    assert_eq!(world.cut(), [(1, 2)], "what follows it may be");
    assert_eq!(world.pool.ready_len(), 4, "in flight is still pending");
    assert_eq!(world.pending_nonce(1), 3);
    world.pool.requeue(batch);
    world.pool.assert_consistent();
    assert_eq!(world.cut(), [(1, 0), (1, 1), (2, 0)], "in the order of arrival as before");
}

#[test]
fn executed_transactions_leave_without_event() {
    let mut world = World::new();
    let drafts = [draft(1, 0), draft(1, 1), draft(2, 0)];
    world.admit_all(&drafts);
    world.cut();
    world.block(&drafts);
    assert_eq!((world.pool.ready_len(), world.pool.queued_len()), (0, 0));
    assert!(world.events().is_empty());
    assert_eq!(world.pool.get(&draft(1, 0).hash()), None);
}

#[test]
fn returned_transactions_wait_again() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0), draft(1, 1)]);
    world.cut();
    world.on_block(&[], &[draft(1, 0).signed(), draft(1, 1).signed()]);
    assert_eq!(world.cut(), [(1, 0), (1, 1)]);
}

#[test]
fn returned_transactions_are_readmitted_or_dropped() {
    let mut world = World::new();
    world.account(2).nonce = 1;
    world.on_block(&[], &[draft(1, 0).max_fee(50).tip(5).signed(), draft(2, 0).signed()]);
    let refusal = Refusal::NonceTooLow { next: 1, nonce: 0 };
    assert_eq!(world.events(), [dropped(&draft(2, 0), DropReason::Refused(refusal))]);
    assert_eq!(world.cut(), []);
    world.base_fee = 50;
    assert_eq!(world.cut(), [(1, 0)], "an underpriced one is taken back nevertheless");
}

#[test]
fn lost_batches_are_retried_a_few_times() {
    let mut world = World::new();
    let lost = draft(1, 0);
    world.admit(&lost).unwrap();
    for _ in 0..3 {
        assert_eq!(world.cut(), [(1, 0)]);
        (0..255).for_each(|_| world.on_block(&[], &[]));
        assert_eq!(world.cut(), [], "not yet");
        world.on_block(&[], &[]);
    }
    assert_eq!(world.events(), [dropped(&lost, DropReason::Lost)]);
}

#[test]
fn requeue_all_after_engine_ends() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0), draft(2, 0)]);
    world.cut();
    world.pool.requeue_all();
    world.pool.assert_consistent();
    assert_eq!(world.cut(), [(1, 0), (2, 0)]);
}

#[test]
fn used_nonce_drops_pooled_transaction() {
    let mut world = World::new();
    let ours = [draft(1, 0), draft(1, 1)];
    world.admit_all(&ours);
    world.cut();
    world.account(1).nonce = 1;
    world.on_block(&[], &[]);
    assert_eq!(world.events(), [dropped(&ours[0], DropReason::Superseded { nonce: 0 })], "even in flight");
    assert!(world.pool.get(&ours[1].hash()).is_some());
}

#[test]
fn cut_refreshes_accounts() {
    let mut world = World::new();
    let drafts = [draft(1, 0), draft(1, 1), draft(2, 0)];
    world.admit_all(&drafts);
    // The pool does not know yet.
    world.account(1).nonce = 1;
    world.account(2).balance = U256::ZERO;
    assert_eq!(world.cut(), [(1, 1)]);
    let reasons = [DropReason::Superseded { nonce: 0 }, DropReason::InsufficientFunds];
    let [superseded, unfunded] = reasons;
    assert_eq!(world.events(), [dropped(&drafts[0], superseded), dropped(&drafts[2], unfunded)]);
}

// ---- money ----

#[test]
fn cut_stops_at_insufficient_balance() {
    let mut world = World::new();
    world.account(1).balance = U256::from(3 * 21_000_000);
    world.admit_all(&[draft(1, 0), draft(1, 1), draft(1, 2)]);
    world.account(1).balance = U256::from(2 * 21_000_000);
    assert_eq!(world.cut(), [(1, 0), (1, 1)], "the third would be skipped");
    assert_eq!(world.cut(), [], "and is not looked at again");
    // The first two cost less than their limits, so the balance covers the rest too.
    world.account(1).balance = U256::from(21_000_000);
    world.block(&[draft(1, 0), draft(1, 1)]);
    assert_eq!(world.cut(), [(1, 2)]);
}

#[test]
fn balance_in_flight_is_spent() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0), draft(1, 1)]);
    world.cut_at_most(1 << 20, 21_000).unwrap();
    world.account(1).balance = U256::from(21_000_000 * 2 - 1);
    assert_eq!(world.cut(), [], "the one under way may cost all of its limit");
    world.block(&[draft(1, 0)]);
    assert_eq!(world.cut(), [(1, 1)]);
}

#[test]
fn uncovered_transactions_are_dropped() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0), draft(1, 1).value(100)]);
    world.account(1).balance = U256::from(21_000_000);
    world.on_block(&[], &[]);
    assert_eq!(world.events(), [dropped(&draft(1, 1).value(100), DropReason::InsufficientFunds)]);
    assert_eq!(world.cut(), [(1, 0)]);
}

// ---- replacement ----

#[test]
fn replacement_raises_both_fees_by_a_tenth() {
    let old = draft(1, 0).max_fee(1_000).tip(15);
    for (max_fee, tip, taken) in [(1_099, 17, false), (1_100, 16, false), (1_100, 17, true), (5_000, 15, false)] {
        let mut world = World::new();
        world.admit(&old).unwrap();
        let new = draft(1, 0).max_fee(max_fee).tip(tip);
        match (world.admit(&new), taken) {
            (Ok(()), true) => {
                assert_eq!(world.events(), [Event::Replaced { hash: old.hash(), by: new.hash() }]);
                assert_eq!(world.pool.get(&old.hash()), None);
                assert_eq!(world.pool.ready_len(), 1);
            }
            (Err(refusal), false) => {
                assert!(refusal.to_string().starts_with("replacement transaction underpriced"), "{refusal}");
                assert_eq!(refusal, Refusal::ReplacementUnderpriced { needed_max_fee: 1_100, needed_tip: 17 });
                assert!(world.events().is_empty());
            }
            (result, _) => panic!("{max_fee}, {tip}: {result:?}"),
        }
    }
}

#[test]
fn replacement_must_raise_zero_tip() {
    let mut world = World::new();
    world.admit(&draft(1, 0).tip(0)).unwrap();
    assert!(world.admit(&draft(1, 0).tip(0).max_fee(2_000)).is_err());
    world.admit(&draft(1, 0).tip(1).max_fee(2_000)).unwrap();
}

#[test]
fn transactions_in_flight_cannot_be_replaced() {
    let mut world = World::new();
    world.admit(&draft(1, 0)).unwrap();
    world.cut();
    assert_eq!(world.admit(&draft(1, 0).tip(500).max_fee(5_000)), Err(Refusal::BeingOrdered { nonce: 0 }));
}

#[test]
fn replacement_frees_old_cost() {
    let mut world = World::new();
    world.account(1).balance = U256::from(21_000 * 1_100);
    world.admit(&draft(1, 0)).unwrap();
    world.admit(&draft(1, 0).max_fee(1_100).tip(11)).unwrap();
}

// ---- bounds ----

#[test]
fn full_pool_evicts_cheapest() {
    let mut world = World::with(PoolConfig { max_transactions: 3, ..config() });
    let cheapest = draft(2, 0).tip(5);
    world.admit_all(&[draft(1, 0).tip(10), cheapest.clone(), draft(3, 0).tip(20)]);
    assert_eq!(world.admit(&draft(4, 0).tip(5)), Err(Refusal::PoolFull), "not for one as cheap");
    world.admit(&draft(4, 0).tip(6)).unwrap();
    assert_eq!(world.events(), [dropped(&cheapest, DropReason::Evicted)]);
}

#[test]
fn queued_are_evicted_before_ready() {
    let mut world = World::with(PoolConfig { max_transactions: 2, ..config() });
    let gapped = draft(1, 5).tip(90);
    world.admit_all(&[gapped.clone(), draft(2, 0).tip(1)]);
    world.admit(&draft(3, 0).tip(2)).unwrap();
    assert_eq!(world.events(), [dropped(&gapped, DropReason::Evicted)]);
    assert_eq!(world.admit(&draft(4, 5).tip(90)), Err(Refusal::PoolFull), "and never the other way round");
}

#[test]
fn eviction_opens_no_gap() {
    let mut world = World::with(PoolConfig { max_transactions: 3, ..config() });
    // The cheap first one keeps the more expensive ones behind it from being worth more.
    let chain = [draft(1, 0).tip(1), draft(1, 1).tip(50), draft(1, 2).tip(60)];
    world.admit_all(&chain);
    world.admit(&draft(2, 0).tip(2)).unwrap();
    assert_eq!(world.events(), [dropped(&chain[2], DropReason::Evicted)]);
    assert_eq!(world.cut(), [(2, 0), (1, 0), (1, 1)]);
}

#[test]
fn transactions_in_flight_are_not_evicted() {
    let mut world = World::with(PoolConfig { max_transactions: 1, ..config() });
    world.admit(&draft(1, 0).tip(1)).unwrap();
    world.cut();
    assert_eq!(world.admit(&draft(2, 0).tip(500)), Err(Refusal::PoolFull));
}

#[test]
fn pool_bytes_are_bounded() {
    let large = |from| Draft { input: vec![0; 10_000], gas: 100_000, ..draft(from, 0) };
    let mut world = World::with(PoolConfig { max_bytes: 25_000, ..config() });
    world.admit_all(&[large(1).tip(1), large(2).tip(2)]);
    let small: Vec<Draft> = (3..=5).map(|from| draft(from, 0)).collect();
    // Two large ones and one small one fit; the next small one evicts a large one.
    world.admit_all(&small);
    assert_eq!(world.events(), [dropped(&large(1).tip(1), DropReason::Evicted)]);
}

#[test]
fn sender_at_limit_can_close_gap() {
    let mut world = World::with(PoolConfig { max_per_sender: 2, ..config() });
    let last = draft(1, 2);
    world.admit_all(&[draft(1, 1), last.clone()]);
    assert_eq!(world.admit(&draft(1, 3)), Err(Refusal::AccountLimit { limit: 2 }));
    world.admit(&draft(1, 0)).unwrap();
    assert_eq!(world.events(), [dropped(&last, DropReason::AccountLimit)]);
    assert_eq!(world.cut(), [(1, 0), (1, 1)]);
}

// ---- cost ----

/// Pool with senders that pay nothing, because their transactions are behind gaps.
fn world_of_gaps() -> World {
    let mut world = World::new();
    for number in 10..=90 {
        world.account(number).balance = U256::from(ETHER);
        world.admit(&draft(number, 1).max_fee(150).tip(u128::from(number))).unwrap();
    }
    world.checked = false;
    world.pool.reindexed = 0;
    world
}

#[test]
fn base_fee_moves_few_senders() {
    let mut world = world_of_gaps();
    // Their tips are limited by the priority fee up to base fee 140, 800 and 990, and paid up to 160 and 1,000.
    world.admit_all(&[draft(1, 0).max_fee(160).tip(20), draft(2, 0).tip(200), draft(3, 0)]);
    for (base_fee, moved) in [(140, 0), (141, 1), (160, 0), (140, 1), (161, 1), (100, 1), (801, 2), (100, 2), (1_001, 3)] {
        world.pool.reindexed = 0;
        world.base_fee = base_fee;
        world.on_block(&[], &[]);
        assert_eq!(world.pool.reindexed, moved, "{base_fee}");
    }
    world.pool.assert_consistent();
}

#[test]
fn turn_moves_few_senders() {
    let mut world = world_of_gaps();
    world.admit_all(&[draft(1, 0), draft(2, 0)]);
    let other = |position, is_responsible| Responsibility { position, is_responsible, ..Responsibility::ALONE };
    world.admit_as(&draft(3, 0), other(Some(1), false)).unwrap();
    world.admit_as(&draft(4, 0), other(Some(0), true)).unwrap();
    world.admit_as(&draft(5, 0), other(None, false)).unwrap();
    for (turn, wait) in [(1_000, 1_000), (500, 0)] {
        world.pool.reindexed = 0;
        world.pool.set_turn(turn);
        assert_eq!(world.pool.reindexed, 2, "3 waits for its turn or took over, and 4 may be forwarded");
        world.pool.assert_consistent();
        world.wait(wait);
    }
}
