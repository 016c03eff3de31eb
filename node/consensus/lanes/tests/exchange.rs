//! The exchange of batches between two validators, step by step.

use corniche_engine::{Batch, Output};
use corniche_lanes::{Action, Clocks, Draws, Exchange, LaneBatch, LaneConfig, LaneContext, Lanes, MAX_AHEAD, Tip, advance};
use corniche_testkit::committee;
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};

const ME: ValidatorIndex = ValidatorIndex(0);
const OTHER: ValidatorIndex = ValidatorIndex(1);
const START: TimestampMs = TimestampMs(1_000);

fn exchange(me: ValidatorIndex) -> Exchange {
    let lanes = Lanes::new(LaneContext::new(&committee("quepaxa", 3), "test"), &nothing());
    let config =
        LaneConfig { open_batches: 2, batch_interval_ms: 10, max_stretch: 1, batch_bytes: 1_000, batch_gas: 30_000_000 };
    Exchange::new(config, me, 3, lanes, START)
}

fn nothing() -> Vec<Tip> {
    vec![Tip::default(); 3]
}

fn text(text: &str) -> Bytes {
    text.as_bytes().to_vec().into()
}

fn written(actions: &[Action]) -> Vec<Tip> {
    let tip = |action: &Action| if let Action::Persist(_, tip) = action { Some(*tip) } else { None };
    actions.iter().filter_map(tip).collect()
}

/// Makes a batch, writes it, and returns it.
fn make(author: &mut Exchange, me: ValidatorIndex, content: &str) -> LaneBatch {
    let actions = author.handle_own_batch(Batch { bytes: text(content) }, START);
    let [tip] = written(&actions)[..] else { panic!("one record: {actions:?}") };
    assert!(!actions.iter().any(|action| matches!(action, Action::Broadcast(_))), "nothing leaves before it is on disk");
    let durable = author.handle_durable(me, tip, &nothing());
    let sent = durable.into_iter().find_map(|action| if let Action::Broadcast(batch) = action { Some(batch) } else { None });
    sent.expect("it is sent once it is on disk")
}

fn receive(at: &mut Exchange, from: ValidatorIndex, batch: &LaneBatch) -> bool {
    let tip = at.lanes.tip(batch);
    let is_stored = !written(&at.handle_batch(from, batch.clone(), &nothing())).is_empty();
    if is_stored {
        at.handle_durable(batch.author, tip, &nothing());
    }
    is_stored
}

#[test]
fn batches_are_made_at_their_pace() {
    let mut author = exchange(ME);
    assert!(matches!(author.ask_for_batch(START, &nothing()), Some(Output::WantBatch { bytes: 1_000, gas: 30_000_000 })));
    assert!(author.ask_for_batch(START, &nothing()).is_none(), "one request at a time");
    let first = make(&mut author, ME, "a");
    assert_eq!(author.deadline(&nothing()), Some(TimestampMs(1_010)));
    assert!(author.ask_for_batch(TimestampMs(1_009), &nothing()).is_none());
    assert!(author.ask_for_batch(TimestampMs(1_010), &nothing()).is_some());
    let second = make(&mut author, ME, "b");
    assert_eq!(author.deadline(&nothing()), None, "two open batches are enough");
    let tip = author.lanes.tip(&first);
    assert_eq!((first.number, second.before()), (1, tip));
    assert_eq!(author.deadline(&[tip, Tip::default(), Tip::default()]), Some(TimestampMs(1_010)));
    let sent: Vec<usize> = (0..7).map(|_| author.announce_again(&nothing()).len()).collect();
    assert_eq!(sent, [0, 2, 0, 2, 0, 0, 0], "not at the first call, at which they may be new");
    assert!(
        author.announce_again(&[tip, Tip::default(), Tip::default()]).is_empty(),
        "one was delivered before the eighth call"
    );
}

#[test]
fn missing_batches_are_asked_for() {
    let (mut author, mut here) = (exchange(OTHER), exchange(ME));
    let batches: Vec<_> = ["a", "b", "c"].iter().map(|text| make(&mut author, OTHER, text)).collect();
    let tips: Vec<Tip> = batches.iter().map(|batch| author.lanes.tip(batch)).collect();
    let decided = [Tip::default(), tips[2], Tip::default()];
    assert_eq!(here.lanes.next_batches(&decided, &nothing()), Err(vec![(OTHER, tips[2])]));
    let fetch = |action: Option<Action>| match action {
        Some(Action::Fetch { to, author, tip }) => Some((to.0, author.0, tip.number)),
        _ => None,
    };
    assert!(!receive(&mut here, ValidatorIndex(2), &batches[2]), "nobody asked for it, and it is not from its author");
    assert_eq!(fetch(here.want(OTHER, tips[2], ValidatorIndex(2))), Some((2, 1, 3)));
    assert!(here.want(OTHER, tips[2], ValidatorIndex(2)).is_none(), "it is asked for already");
    assert_eq!(here.ask_again().len(), 1);
    assert!(receive(&mut here, ValidatorIndex(2), &batches[2]));
    assert_eq!(here.lanes.newest(OTHER), Tip::default(), "its author did not send it, so there is no lane up to it yet");
    assert!(receive(&mut here, OTHER, &batches[0]) && receive(&mut here, OTHER, &batches[1]));
    assert_eq!(here.lanes.next_batches(&decided, &nothing()), Ok(batches.clone()));
    assert_eq!(here.lanes.next_batches(&decided, &[Tip::default(), tips[1], Tip::default()]), Ok(vec![batches[2].clone()]));
    here.release(&[Tip::default(), tips[1], Tip::default()]);
    assert_eq!((here.lanes.count(), here.wanted()), (1, 0));
}

/// Copies that are on their way over a slow link are not multiplied.
#[test]
fn missing_batches_are_asked_for_more_and_more_seldom() {
    let (mut author, mut here) = (exchange(OTHER), exchange(ME));
    let tip = here.lanes.tip(&make(&mut author, OTHER, "late"));
    assert!(here.want(OTHER, tip, OTHER).is_some());
    let calls: Vec<usize> = (1..=24).filter(|_| !here.ask_again().is_empty()).collect();
    assert_eq!(calls, [1, 2, 4, 8, 16, 24]);
    here.peer_up(OTHER);
    assert!(!here.ask_again().is_empty(), "earlier requests may be lost");
}

/// An author with a connection sends its batches itself. Others ask once they know that a copy does not come, or after two timers.
#[test]
fn batches_on_their_way_are_not_asked_for() {
    let (mut author, mut here) = (exchange(OTHER), exchange(ME));
    let batches: Vec<_> = ["a", "b", "c", "d"].iter().map(|text| make(&mut author, OTHER, text)).collect();
    let tips: Vec<Tip> = batches.iter().map(|batch| author.lanes.tip(batch)).collect();
    let fetched = |actions: Vec<Action>| -> Vec<u64> {
        let number = |action| if let Action::Fetch { tip, .. } = action { Some(tip.number) } else { None };
        actions.into_iter().filter_map(number).collect()
    };
    here.peer_up(OTHER);
    assert!(here.want(OTHER, tips[1], OTHER).is_none() && here.want(OTHER, tips[2], OTHER).is_none());
    assert_eq!(fetched(here.handle_delivered(OTHER, 1)), [0; 0]);
    assert_eq!(fetched(here.handle_delivered(OTHER, 2)), [2]);
    assert!(here.want(OTHER, tips[0], OTHER).is_some(), "it was delivered before");
    assert_eq!([(); 3].map(|()| fetched(here.ask_again()).contains(&3)), [false, true, false]);
    // A copy that comes shows that earlier ones do not, also if there is no room for it.
    here.handle_batch(OTHER, LaneBatch { number: 99, ..batches[3].clone() }, &nothing());
    assert!(here.want(OTHER, tips[3], OTHER).is_some());
    here.peer_up(OTHER);
    assert!(here.want(OTHER, Tip { number: 6, ..tips[3] }, OTHER).is_none(), "it may have lost its disk");
    assert_eq!(fetched(here.peer_down(OTHER)), [6]);
    assert!(here.want(OTHER, Tip { number: 5, ..tips[3] }, OTHER).is_some(), "without a connection nothing comes");
}

#[test]
fn connections_of_others_do_not_delay_a_request() {
    let (mut author, mut here) = (exchange(OTHER), exchange(ME));
    let tip = here.lanes.tip(&make(&mut author, OTHER, "late"));
    here.peer_up(OTHER);
    assert!(here.want(OTHER, tip, OTHER).is_none());
    let mut ask_beside_a_connection = || {
        let asked = here.ask_again().len();
        here.peer_up(ValidatorIndex(2));
        asked
    };
    assert_eq!([ask_beside_a_connection(), ask_beside_a_connection()], [0, 1]);
}

/// Only the last missing batch of a lane is known. The ones before it do not wait again, and do not come from the silent author.
#[test]
fn missing_batches_of_a_lane_wait_once() {
    let (mut author, mut here) = (exchange(OTHER), exchange(ME));
    let batches: Vec<_> = ["a", "b", "c", "d"].iter().map(|text| make(&mut author, OTHER, text)).collect();
    let decided = [Tip::default(), author.lanes.tip(&batches[3]), Tip::default()];
    [OTHER, ValidatorIndex(2)].into_iter().for_each(|peer| here.peer_up(peer));
    let mut timers = 0;
    while let Err(missing) = here.lanes.next_batches(&decided, &nothing()) {
        let (author, tip) = missing[0];
        let mut action = here.want(author, tip, author);
        while action.is_none() {
            timers += 1;
            action = here.ask_again().pop();
        }
        assert!(receive(&mut here, ValidatorIndex(2), &batches[tip.number as usize - 1]));
    }
    assert_eq!(timers, 2);
}

#[test]
fn nothing_counts_before_it_is_on_disk() {
    let (mut author, mut here) = (exchange(OTHER), exchange(ME));
    let batch = make(&mut author, OTHER, "a");
    let tip = author.lanes.tip(&batch);
    assert_eq!(written(&here.handle_batch(OTHER, batch, &nothing())), [tip]);
    assert_eq!((here.lanes.durable_tip(OTHER, Tip::default()), here.lanes.newest(OTHER)), (Tip::default(), tip));
    let outputs = here.handle_durable(OTHER, tip, &nothing());
    assert!(outputs.iter().any(|action| matches!(action, Action::Output(Output::Available { .. }))));
    assert_eq!(here.lanes.durable_tip(OTHER, Tip::default()), tip);
}

#[test]
fn lanes_of_others_have_a_bound() {
    let (mut author, mut here) = (exchange(OTHER), exchange(ME));
    let batches: Vec<_> = (0..=MAX_AHEAD).map(|number| make(&mut author, OTHER, &format!("{number}"))).collect();
    let stored = batches.iter().filter(|batch| receive(&mut here, OTHER, batch)).count();
    assert_eq!(stored as u64, MAX_AHEAD);
}

#[test]
fn batches_that_lost_against_earlier_ones_go_back() {
    // This validator made one batch, lost its disk, and made another one with the same number.
    let (mut before, mut here) = (exchange(ME), exchange(ME));
    let first = make(&mut before, ME, "first");
    make(&mut here, ME, "second");
    let delivered = [before.lanes.tip(&first), Tip::default(), Tip::default()];
    assert!(here.want(ME, delivered[0], OTHER).is_some());
    assert!(receive(&mut here, OTHER, &first));
    here.lanes.follow(&delivered);
    let returned = here.displaced(Tip::default(), &delivered);
    assert!(matches!(&returned[..], [Output::Requeue(batch)] if batch.bytes == text("second")), "{returned:?}");
    assert!(here.displaced(delivered[0], &delivered).is_empty());
}

#[test]
fn delivered_numbers_never_go_back() {
    let tip = |number| Tip { number, ..Tip::default() };
    let mut delivered = [tip(3), tip(1)];
    advance(&mut delivered, &[tip(2), tip(4)]);
    assert_eq!(delivered, [tip(3), tip(4)]);
}

#[test]
fn wrong_clock_takes_the_median() {
    let committee = committee("quepaxa", 3);
    let mut clocks = Clocks::new(ME, 1_000);
    let now = TimestampMs(100_000);
    assert_eq!(clocks.time(&committee, now), None, "it knows no majority yet");
    clocks.note(OTHER, TimestampMs(100_200), now);
    assert_eq!(clocks.time(&committee, now), Some(now));
    clocks.note(OTHER, TimestampMs(90_000), now);
    clocks.note(ValidatorIndex(2), TimestampMs(90_500), now);
    assert_eq!(clocks.time(&committee, now), Some(TimestampMs(90_500)));
    assert_eq!(clocks.time(&committee, TimestampMs(101_001)), None, "what it heard is old");
    assert_eq!(clocks.leads(), [(OTHER, 0), (ValidatorIndex(2), 0)]);
}

#[test]
fn draws_differ_in_each_run() {
    let draw = |seed, me, run| Draws::new("test", seed, ValidatorIndex(me), TimestampMs(run)).draw();
    let first = draw(1, 0, 5);
    assert_eq!(first, draw(1, 0, 5));
    assert!([draw(2, 0, 5), draw(1, 1, 5), draw(1, 0, 6)].iter().all(|other| *other != first));
    let mut draws = Draws::new("test", 1, ME, START);
    assert_ne!(draws.draw(), draws.draw());
}
