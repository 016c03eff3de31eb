//! Decided slots, from decision to delivery, and what a validator does without its disk.

use corniche_engine::{Batch, Committee, Ordered, Output, Resume};
use corniche_lanes::{
    Added, Decisions, EarlierRuns, Exchange, LaneConfig, LaneContext, LaneValue, Lanes, MAX_SLOTS_AHEAD, Next, Order, Reports,
    Silence, Slot, Tip, retention_floor,
};
use corniche_testkit::committee;
use corniche_types::{B256, CommitIndex, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeMap;

const ME: ValidatorIndex = ValidatorIndex(0);
const GENESIS: (TimestampMs, B256) = (TimestampMs(7), B256::ZERO);

#[derive(Clone, Debug, PartialEq)]
struct Value {
    time: u64,
    tips: Vec<Tip>,
}

impl LaneValue for Value {
    fn tips(&self) -> &[Tip] {
        &self.tips
    }

    fn time(&self) -> TimestampMs {
        TimestampMs(self.time)
    }
}

fn empty(time: u64) -> Value {
    Value { time, tips: vec![Tip::default(); 3] }
}

fn exchange(committee: &Committee) -> Exchange {
    let lanes = Lanes::new(LaneContext::new(committee, "test"), &[Tip::default(); 3]);
    let config =
        LaneConfig { open_batches: 2, batch_interval_ms: 10, max_stretch: 1, batch_bytes: 1_000, batch_gas: 30_000_000 };
    Exchange::new(config, ME, 3, lanes, TimestampMs(0))
}

fn order(resume: &Resume) -> Order<Slot> {
    Order::new(resume, &committee("quepaxa", 3), GENESIS, "test-randomness")
}

fn ordered(outputs: Vec<Output>) -> Ordered {
    let ordered =
        outputs.into_iter().find_map(|output| if let Output::Deliver(ordered) = output { Some(ordered) } else { None });
    ordered.expect("a delivery")
}

fn deliver(order: &mut Order<Slot>, exchange: &mut Exchange, slot: u64, value: &Value) -> Ordered {
    let batches = exchange.lanes.next_batches(&value.tips, order.tips()).unwrap();
    let next = Next { at: Slot(slot), value, digest: B256::with_last_byte(1), leader: ValidatorIndex(2) };
    ordered(order.deliver(exchange, next, batches))
}

#[test]
fn decisions_wait_for_the_ones_before_and_for_the_disk() {
    let mut decisions = Decisions::recovered(Slot(0), BTreeMap::new());
    assert_eq!(decisions.add(Slot(2), &empty(2), Slot(0)), Added::New);
    assert_eq!((decisions.contiguous(), decisions.last()), (Slot(0), Some(Slot(2))));
    assert_eq!(decisions.add(Slot(1), &empty(1), Slot(0)), Added::New);
    assert_eq!(decisions.contiguous(), Slot(2));
    assert_eq!(decisions.durable(Slot(1)), None, "a power cut may lose it");
    assert!(!decisions.is_settled(Slot(1), Slot(0)));
    decisions.mark_durable(Slot(1));
    assert_eq!(decisions.durable(Slot(1)), Some(&empty(1)));
    assert!(decisions.is_settled(Slot(1), Slot(0)));
    assert_eq!(decisions.values_from(Slot(1), 9), [empty(1), empty(2)]);
    assert_eq!(decisions.values_from(Slot(1), 1), [empty(1)]);
    assert_eq!(decisions.waiting(Slot(1)).collect::<Vec<_>>(), [&empty(2)]);
}

#[test]
fn slots_are_decided_once() {
    let mut decisions = Decisions::recovered(Slot(0), BTreeMap::new());
    assert_eq!(decisions.add(Slot(1), &empty(1), Slot(0)), Added::New);
    assert_eq!(decisions.add(Slot(1), &empty(1), Slot(0)), Added::Ignored);
    assert_eq!(decisions.add(Slot(1), &empty(2), Slot(0)), Added::Contradiction);
    assert_eq!(decisions.add(Slot(2 + MAX_SLOTS_AHEAD), &empty(1), Slot(0)), Added::Ignored, "too far ahead");
    assert_eq!(decisions.add(Slot(2), &empty(1), Slot(2)), Added::Ignored, "it was delivered and forgotten");
    assert_eq!(decisions.count(), 1);
}

#[test]
fn decisions_before_a_gap_are_not_kept() {
    let records = [2, 5, 6, 8].map(|slot| (Slot(slot), empty(slot)));
    let decisions = Decisions::recovered(Slot(6), records.into());
    assert_eq!((decisions.floor(), decisions.contiguous(), decisions.count()), (Slot(4), Slot(6), 3));
    assert!(decisions.durable(Slot(8)).is_some(), "records are on disk");
}

#[test]
fn old_decisions_are_forgotten_with_their_batches() {
    assert_eq!(retention_floor(10, 9, 3), 7, "of the delivered ones, 3 are kept");
    assert_eq!(retention_floor(10, 5, 3), 5, "the others may need what is not certified");
    assert_eq!(retention_floor(20, 5, 3), 8, "but not for ever");
    let mut exchange = exchange(&committee("quepaxa", 3));
    exchange.handle_own_batch(Batch { bytes: b"a".to_vec().into() }, TimestampMs(0));
    let mut value = empty(1);
    value.tips[0] = exchange.lanes.newest(ME);
    let mut decisions = Decisions::recovered(Slot(0), BTreeMap::new());
    decisions.add(Slot(1), &value, Slot(0));
    decisions.release(Slot(1), &mut exchange);
    assert_eq!((decisions.count(), decisions.floor(), exchange.lanes.count()), (0, Slot(1), 0));
    assert!(decisions.is_settled(Slot(1), Slot(1)));
}

/// The checkpoint has everything: another engine that starts from it goes on in the same way.
#[test]
fn deliveries_continue_from_a_checkpoint() {
    let mut exchange = exchange(&committee("quepaxa", 3));
    exchange.handle_own_batch(Batch { bytes: b"a".to_vec().into() }, TimestampMs(0));
    let mut value = empty(9);
    value.tips[0] = exchange.lanes.newest(ME);
    let mut first = order(&Resume::default());
    let one = deliver(&mut first, &mut exchange, 1, &value);
    assert_eq!((one.index, one.leader, one.time), (CommitIndex(1), ValidatorIndex(2), TimestampMs(9)));
    assert_eq!(one.batches, [(ME, Batch { bytes: b"a".to_vec().into() })]);
    // Neither time nor a lane goes back.
    let resume = Resume { index: one.index, checkpoint: one.checkpoint.clone(), ..Resume::default() };
    let mut second = order(&resume);
    assert_eq!(second.state(), first.state());
    let two = deliver(&mut first, &mut exchange, 2, &empty(1));
    assert_eq!((two.time, two.batches.len(), first.tip(ME)), (TimestampMs(9), 0, value.tips[0]));
    assert_eq!(deliver(&mut second, &mut exchange, 2, &empty(1)), two);
    assert_ne!(one.randomness, two.randomness);
}

#[test]
#[should_panic(expected = "decisions are executed in order")]
fn deliveries_have_no_gaps() {
    let mut exchange = exchange(&committee("quepaxa", 3));
    deliver(&mut order(&Resume::default()), &mut exchange, 2, &empty(1));
}

/// Engines that were separate before have this format on disk and in certificates.
#[test]
fn checkpoint_is_its_fields_in_their_order() {
    let state = order(&Resume::default()).state().clone();
    let fields = (state.at, state.delivered.clone(), state.time, state.randomness);
    assert_eq!(wire::encode(&state), wire::encode(&fields));
}

#[test]
fn older_log_is_silent_where_it_forgot() {
    let beside = |silence: Silence<Slot>, first: u64| silence.beside(Some(Slot(first)), Slot(1), 2);
    assert_eq!(beside(Silence::Nowhere, 4), Silence::Nowhere, "open slots may be decided in any order");
    assert_eq!(beside(Silence::Nowhere, 5), Silence::Through(Slot(4)));
    assert_eq!(beside(Silence::Through(Slot(9)), 5), Silence::Through(Slot(9)));
    assert_eq!(Silence::Nowhere.beside(None, Slot(1), 2), Silence::Nowhere);
}

#[test]
fn reports_of_a_quorum_count() {
    let (committee, mut reports) = (committee("quepaxa", 5), Reports::default());
    assert_eq!(reports.add(ValidatorIndex(1), Slot(9), &committee), None);
    assert_eq!(reports.add(ValidatorIndex(1), Slot(4), &committee), None, "one report of each, the last one");
    assert_eq!(reports.add(ValidatorIndex(2), Slot(3), &committee), None);
    assert_eq!(reports.add(ValidatorIndex(4), Slot(2), &committee), Some(Slot(4)));
}

/// K5: an earlier run with a full lane may have lost its disk. A batch beyond the lane's room is that of another process.
#[test]
fn batch_that_no_earlier_run_can_have_made_is_from_a_twin() {
    let (committee, tip) = (committee("quepaxa", 3), |number: u64| Tip { number, ..Tip::default() });
    let exchange = exchange(&committee);
    let is_twin = |runs: &mut EarlierRuns<Slot>, number: u64| runs.check(&exchange, ME, tip(number)).is_some();
    let mut runs = EarlierRuns::default();
    runs.bound(Slot(3), tip(5));
    assert!(runs.needs_reports() && !is_twin(&mut runs, 99), "others may know more of earlier runs");
    assert_eq!(runs.add(ValidatorIndex(1), Slot(4), &committee), None);
    assert_eq!(runs.add(ValidatorIndex(2), Slot(3), &committee), Some(Slot(4)));
    assert_eq!(runs.add(ValidatorIndex(1), Slot(9), &committee), None, "this run may be in later slots");
    runs.bound(Slot(3), tip(5));
    assert!(!runs.needs_reports() && !is_twin(&mut runs, 99), "any earlier batch may be delivered in slot 4");
    runs.bound(Slot(4), tip(6));
    runs.bound(Slot(5), tip(8));
    assert_eq!([15, 16].map(|number| is_twin(&mut runs, number)), [false, true]);
}
