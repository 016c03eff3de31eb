//! Message delays, hedging, leaders and recovery of the whole engine, on a network whose links all take one delay.

use corniche_engine::{Engine, Input, Output, Resume, Ticket, Verifier};
use corniche_lanes::MAX_OPEN_BATCHES;
use corniche_quepaxa::{
    Config, QuePaxa, QuePaxaVerifier, Setup,
    message::{Message, Proposal, RequestId, Slot, Tip, Value},
    record::Record,
    rules::{FIRST_STEP, Register},
};
use corniche_quepaxa_testing::{QuePaxaSubject, committee};
use corniche_testkit::{
    Delivery, Micros,
    crashes::{self, CrashCluster, CrashEngine, DELAY, LOST, decisions, have, lose_disk, notes, submit},
};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeSet;

type Cluster = CrashCluster<QuePaxaSubject>;

// X14: the silence after a lost disk.
corniche_testkit::crash_scenarios!(
    QuePaxaSubject,
    loss_of_a_disk_survives_a_power_cut,
    disk_lost_at_the_genesis_is_not_a_first_start,
    silence_ends_on_an_idle_chain,
    clocks_that_are_wrong_move_nothing
);

fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

/// Validator 0 always leads, the others hedge in the order of their indices, and no other timer matters.
fn plain() -> Config {
    QuePaxaSubject::plain(10_000, 10_000)
}

fn cluster(size: usize, config: Config) -> Cluster {
    crashes::cluster(size, config)
}

fn records(cluster: &Cluster, node: usize) -> usize {
    cluster.seen(node).count(|message| matches!(message, Message::Record { .. }))
}

#[test]
fn leader_decides_its_own_batch_in_one_round_trip() {
    let mut cluster = cluster(4, plain());
    assert_eq!(submit(&mut cluster, 0, "a"), [2, 3, 3, 3], "Record, Answer; Decided for the others");
    assert_eq!((records(&cluster, 0), records(&cluster, 1)), (3, 0), "nobody hedges in time");
    cluster.assert_equal_logs(0..4);
}

#[test]
fn batches_of_others_need_one_delay_more() {
    let mut cluster = cluster(4, plain());
    assert_eq!(submit(&mut cluster, 2, "a"), [3, 4, 4, 4], "Batch, Record, Answer; Decided");
    assert_eq!(decisions(&cluster, 0), [("leader".to_owned(), 1)].into());
}

/// M9: the next proposer takes over after its delay, in three round trips, and nothing is interrupted.
#[test]
fn crashed_leader_costs_a_hedging_delay_and_three_round_trips() {
    let mut cluster = cluster(4, plain());
    cluster.simulation.crash(0);
    let since = cluster.simulation.now();
    cluster.submit(2, "a");
    cluster.run_for(100 * DELAY);
    let at = |node: usize| (cluster.seen(node).delivered_at("a").unwrap().0 - since.0) / 1_000;
    // The batch arrives, δ passes, three requests and answers, and the decision.
    assert_eq!([1, 2, 3].map(at), [DELAY + 100 + 6 * DELAY, DELAY + 100 + 7 * DELAY, DELAY + 100 + 7 * DELAY]);
    assert_eq!(decisions(&cluster, 1), [("common".to_owned(), 1)].into());
    cluster.simulation.restart(0);
    cluster.run_for(5 * DELAY);
    assert_eq!(submit(&mut cluster, 0, "b"), [2, 3, 3, 3], "the leader leads again at once");
    cluster.assert_equal_logs(0..4);
}

/// X9, H2: a leader that stalls in the middle of a slot is helped.
#[test]
fn stalled_leader_is_helped() {
    let mut cluster = cluster(4, plain());
    // Its requests reach one recorder only.
    cluster.set_rule(|_, from, to, message| match message {
        Message::Record { .. } if from == 0 && to != 3 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    cluster.run_for(100 * DELAY);
    assert!(have(&cluster, 0..4, "a"));
    cluster.assert_equal_logs(0..4);
}

/// H3, M8: without any hedging delay all propose, and every slot still decides.
#[test]
fn all_propose_at_once() {
    let mut cluster = cluster(5, Config { hedge_ms: 0, ..plain() });
    cluster.load(0..5, true);
    cluster.run_for(200 * DELAY);
    cluster.load(0..5, false);
    cluster.run_for(100 * DELAY);
    assert!(cluster.seen(0).log.len() > 30, "{} commits in two seconds", cluster.seen(0).log.len());
    cluster.assert_equal_logs(0..5);
}

/// L2: a network that loses everything of the leader's first step stops nothing.
#[test]
fn blocked_leader_stops_nothing() {
    let mut cluster = cluster(4, Config { hedge_ms: 20, ..plain() });
    cluster.set_rule(|_, from, _, message| match message {
        Message::Record { .. } if from == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.load(0..4, true);
    cluster.run_for(100 * DELAY);
    assert!(cluster.seen(2).log.len() > 5, "{} commits in a second", cluster.seen(2).log.len());
    cluster.assert_equal_logs(0..4);
}

/// M10: after every validator has led, the fastest leads, and one that becomes slow is replaced.
#[test]
fn fastest_validator_leads() {
    let config = Config { tune_leader: true, epoch_slots: 8, window: 4, ..plain() };
    let mut cluster = cluster(4, config);
    let slow = |cluster: &mut Cluster, node: usize| {
        cluster.simulation.links.port(node).delay = Micros::from_millis(5 * DELAY);
    };
    (0..3).for_each(|node| slow(&mut cluster, node));
    let leader = |cluster: &mut Cluster, rounds: u64| {
        cluster.load(0..4, true);
        cluster.run_for(rounds);
        let leaders: Vec<_> = cluster.seen(3).log.iter().map(|(_, ordered)| ordered.leader).collect();
        leaders.last().copied().unwrap()
    };
    assert_eq!(leader(&mut cluster, 20_000), index(3));
    // Now validator 3 is the slow one.
    (0..3).for_each(|node| cluster.simulation.links.port(node).delay = Micros::from_millis(0));
    cluster.simulation.links.port(3).delay = Micros::from_millis(30 * DELAY);
    assert_ne!(leader(&mut cluster, 30_000), index(3));
    cluster.assert_equal_logs(0..4);
}

/// M11: a leader has several slots open, so throughput does not end at one slot per round trip.
#[test]
fn slots_are_pipelined() {
    let commits = |window: u64| {
        let mut cluster = cluster(3, Config { window, open_batches: 8, batch_interval_ms: 5, max_stretch: 1, ..plain() });
        cluster.load([0], true);
        cluster.run_for(1_000);
        cluster.seen(0).log.len()
    };
    let (one, four) = (commits(1), commits(4));
    assert!(four >= 3 * one, "{one} commits with one open slot, {four} with four");
}

/// O5: a recorder without the batches does not answer, and fetches them first.
#[test]
fn decided_batches_are_held_by_a_quorum() {
    let mut cluster = cluster(3, plain());
    // Nobody but the leader gets the batch from its author.
    cluster.set_rule(|_, from, to, message| match message {
        Message::Batch(_) if from == 2 && to == 1 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(2, "a");
    cluster.run_for(2 * DELAY);
    cluster.simulation.crash(2);
    cluster.run_for(10 * DELAY);
    assert!(have(&cluster, [1], "a"), "validator 1 fetched it from the leader");
    cluster.assert_equal_logs(0..2);
}

/// X14: a recorder that lost its disk is silent in every slot in which it may have answered, and helps later.
#[test]
fn recorder_without_a_disk_is_silent_at_first() {
    let mut cluster = cluster(3, plain());
    submit(&mut cluster, 0, "a");
    cluster.simulation.crash(1);
    let resume = cluster.resume_after(1, 1);
    let disk = cluster.disk(1);
    disk.records.clear();
    // The reports do not arrive.
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Highest { .. }) { LOST } else { Delivery::Normal });
    cluster.simulation.crash(2);
    cluster.restart_at(1, resume);
    cluster.submit(0, "b");
    cluster.run_for(100 * DELAY);
    assert!(!have(&cluster, [0], "b"), "it answered without its register");
    let answers = |cluster: &Cluster| cluster.seen(1).count(|message| matches!(message, Message::Answer { .. }));
    assert_eq!(answers(&cluster), 0);
    cluster.clear_rule();
    cluster.simulation.restart(2);
    cluster.run_for(1_500 * DELAY);
    for text in ["c", "d", "e", "f", "g", "h"] {
        submit(&mut cluster, 0, text);
    }
    assert!(answers(&cluster) > 0, "it helps after `window` slots");
    cluster.assert_equal_logs(0..3);
}

/// A leader whose clock is ahead does not move the time of the chain.
#[test]
fn clock_that_is_ahead_moves_nothing() {
    let mut cluster = cluster(3, plain());
    cluster.simulation.crash(0);
    cluster.clocks.borrow_mut()[0] = 3_600_000;
    cluster.simulation.restart(0);
    cluster.run_for(5 * DELAY);
    submit(&mut cluster, 1, "a");
    let now = cluster.simulation.now().timestamp();
    assert!(cluster.seen(1).log.iter().all(|(_, ordered)| ordered.time <= now));
}

/// X14: a recorder that lost its disk reports the highest slot in which it may have answered, not only those that it knows.
#[test]
fn second_lost_disk_hears_of_the_first() {
    let mut cluster = cluster(5, plain());
    for text in ["a", "b", "c"] {
        submit(&mut cluster, 0, text);
    }
    // Validators 2 and 3 know nothing, and 4 is off, so only validator 0 knows the slots of validator 1.
    let highest = |cluster: &Cluster, node: usize| {
        let reports = cluster.seen(node).sent.iter().filter_map(|(_, _, message)| match message {
            Message::Highest { slot, .. } => Some(slot.0),
            _ => None,
        });
        reports.max()
    };
    for node in [1, 4] {
        cluster.simulation.crash(node);
        cluster.disk(node).records.clear();
        let resume = cluster.resume_after(node, 1);
        // Nobody decides a slot meanwhile, so validator 1 stays silent in the slots after.
        cluster.set_rule(|_, _, _, message| match message {
            Message::Record { .. } | Message::Decided { .. } => LOST,
            _ => Delivery::Normal,
        });
        cluster.restart_at(node, resume);
        cluster.run_for(20 * DELAY);
    }
    assert_eq!(highest(&cluster, 1), Some(7), "three slots, and four that may be open");
}

/// O5: a proposer does not take over a value whose batches nobody alive has.
#[test]
fn value_without_batches_is_not_taken_over() {
    let mut cluster = cluster(3, Config { resend_ms: 200, ..plain() });
    // Nobody gets the leader's batch, but all get its request and its answers.
    cluster.set_rule(|_, from, _, message| match message {
        Message::Batch(_) if from == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    cluster.run_for(25 * DELAY);
    cluster.simulation.crash(0);
    cluster.submit(1, "b");
    cluster.run_for(200 * DELAY);
    assert!(have(&cluster, [1, 2], "b"), "{}", cluster.engine(1).describe());
    cluster.assert_equal_logs(1..3);
}

fn submit_to(cluster: &mut Cluster, nodes: &[usize], node: usize, text: &str) {
    cluster.submit(node, text);
    cluster.run_for(200 * DELAY);
    assert!(have(cluster, nodes.iter().copied(), text));
}

/// Times since `since`, ms, at which a validator sent such a message.
fn sent_at(cluster: &Cluster, node: usize, since: Micros, wanted: impl Fn(&Message) -> bool) -> Vec<u64> {
    let sent = cluster.seen(node).sent.iter().filter(|(at, _, message)| *at >= since && wanted(message));
    sent.map(|(at, ..)| (at.0 - since.0) / 1_000).collect()
}

fn is_record(message: &Message) -> bool {
    matches!(message, Message::Record { .. })
}

fn is_answer(message: &Message) -> bool {
    matches!(message, Message::Answer { .. })
}

/// §2: nothing leaves before the record that it relies on is on disk.
#[test]
fn messages_wait_for_their_records() {
    const SYNC: u64 = 4;
    let mut cluster = cluster(3, plain());
    cluster.simulation.disks.sync = Micros::from_millis(SYNC);
    let since = cluster.simulation.now();
    submit(&mut cluster, 0, "a");
    assert_eq!(sent_at(&cluster, 0, since, |message| matches!(message, Message::Batch(_))), [SYNC]);
    assert_eq!(sent_at(&cluster, 0, since, is_record), [2 * SYNC; 2], "the batch, then the own value");
    // The batch arrives before the request, and both are written.
    assert_eq!(sent_at(&cluster, 1, since, is_answer), [2 * SYNC + DELAY + SYNC]);
}

/// X2: a leader that starts again proposes its value again, although time and the lanes went on.
#[test]
fn restarted_leader_proposes_its_value_again() {
    let mut cluster = cluster(3, Config { hedge_ms: 10_000, ..plain() });
    cluster.set_rule(|_, _, _, message| if is_record(message) { LOST } else { Delivery::Normal });
    let proposed = |cluster: &Cluster| {
        let values = cluster.seen(0).sent.iter().filter_map(|(_, _, message)| match message {
            Message::Record { request, proposal } if request.slot == Slot(1) => Some(proposal.value.clone()),
            _ => None,
        });
        values.collect::<BTreeSet<_>>()
    };
    cluster.submit(0, "a");
    cluster.run_for(DELAY);
    let before = proposed(&cluster);
    assert_eq!(before.len(), 1);
    cluster.simulation.crash(0);
    cluster.submit(1, "b");
    cluster.run_for(2 * DELAY);
    cluster.simulation.restart(0);
    cluster.run_for(10 * DELAY);
    assert_eq!(proposed(&cluster), before);
}

/// X14: a recorder that starts again knows its registers, so it confirms what was decided.
#[test]
fn restarted_recorder_knows_its_registers() {
    let mut cluster = cluster(3, plain());
    // The leader decides with validator 1, and nobody else hears of it.
    cluster.set_rule(|_, from, to, message| match message {
        Message::Record { .. } if from == 0 && to == 2 => LOST,
        Message::Decided { .. } => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    cluster.run_for(3 * DELAY);
    assert!(have(&cluster, [0], "a"));
    cluster.simulation.crash(0);
    cluster.simulation.crash(1);
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    cluster.simulation.restart(1);
    cluster.run_for(100 * DELAY);
    assert!(have(&cluster, [2], "a"));
    cluster.assert_equal_logs(0..3);
}

/// X14: the reports of less than a quorum may lack a slot in which this recorder answered.
#[test]
fn silence_needs_reports_of_a_quorum() {
    let mut cluster = cluster(5, plain());
    submit(&mut cluster, 0, "a");
    [1, 3, 4].iter().for_each(|node| cluster.simulation.crash(*node));
    cluster.disk(1).records.clear();
    let resume = cluster.resume_after(1, 1);
    cluster.restart_at(1, resume);
    cluster.run_for(20 * DELAY);
    assert_eq!(notes(&cluster, 1, "votes-regained"), 0, "two reports of five");
    cluster.simulation.restart(3);
    cluster.run_for(20 * DELAY);
    assert_eq!(notes(&cluster, 1, "votes-regained"), 1, "three reports");
}

/// One engine without a network.
struct Alone {
    engine: QuePaxa,
    verifier: QuePaxaVerifier,
}

impl Alone {
    /// Validator 1 of three.
    fn start(records: Vec<(Ticket, Bytes)>) -> Self {
        let (config, committee, me) = (plain(), committee(3), index(1));
        let verifier = QuePaxaVerifier::new(config.clone(), committee.clone());
        let (unsigned, resume, now) = (records.is_empty(), Resume::default(), Self::NOW);
        Self { engine: QuePaxa::new(Setup { config, committee, me, seed: 1, records, unsigned, resume, now }), verifier }
    }

    const NOW: TimestampMs = TimestampMs(10);

    fn receive(&mut self, from: usize, message: &Message) -> Vec<Output> {
        let message = self.verifier.verify(index(from), &message.encode()).unwrap();
        self.input(Input::Message { from: index(from), message })
    }

    /// Like [`Self::receive`], then writes all records.
    fn receive_and_write(&mut self, from: usize, message: &Message) -> Vec<Output> {
        let mut outputs = self.receive(from, message);
        outputs.extend(self.write(&outputs));
        outputs
    }

    /// Outputs once the records of these ones are on disk.
    fn write(&mut self, outputs: &[Output]) -> Vec<Output> {
        let tickets = outputs.iter().filter_map(|output| match output {
            Output::Persist(ticket, _) => Some(*ticket),
            _ => None,
        });
        tickets.flat_map(|ticket| self.input(Input::Durable(ticket))).collect()
    }

    fn input(&mut self, input: Input) -> Vec<Output> {
        self.engine.handle(Self::NOW, input);
        self.outputs()
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.engine.poll()).collect()
    }
}

/// A value with this tip of validator 1.
fn value(tip: Tip) -> Value {
    Value { time: TimestampMs(5), tips: vec![Tip::default(), tip, Tip::default()], schedule: Vec::new() }
}

/// A chain is executed again beside an older log of records. Slots before the oldest decision were answered once.
#[test]
fn forgotten_slots_are_not_answered_again() {
    let value = value(Tip::default());
    let answers = |first: u64| {
        let decided = Record::Decided { slot: Slot(first), value: value.clone() };
        let mut alone = Alone::start(vec![(Ticket(1), wire::encode(&decided).into())]);
        let request = RequestId { slot: Slot(1), step: FIRST_STEP, run: Alone::NOW };
        let proposal = Proposal { priority: 9, proposer: index(0), value: value.clone() };
        let outputs = alone.receive_and_write(0, &Message::Record { request, proposal });
        let is_answer = |output: &Output| match output {
            Output::Send { message, .. } => matches!(wire::decode(message), Ok(Message::Answer { .. })),
            _ => false,
        };
        outputs.iter().any(is_answer)
    };
    // Slots of the window may be decided in any order.
    assert!(answers(2) && answers(2 + plain().window - 1));
    assert!(!answers(1_000));
}

/// O6: the register of a slot is needed until its decision is on disk.
#[test]
fn registers_are_kept_until_the_decision_is_on_disk() {
    let mut register = Register::default();
    let value = value(Tip::default());
    register.record(FIRST_STEP, Proposal { priority: 9, proposer: index(0), value: value.clone() });
    // Nothing older holds it back.
    let register = Record::Register { slot: Slot(1), register };
    let mut alone = Alone::start(vec![(Ticket(1), wire::encode(&register).into())]);
    let is_released = |output: &Output| matches!(output, Output::ReleaseBelow(ticket) if *ticket > Ticket(1));
    assert!(!alone.outputs().iter().any(is_released), "the slot is open");
    let decided = alone.receive(0, &Message::Decided { first: Slot(1), values: vec![value] });
    // Others may need this validator in the slot as long as it can forget the decision. So the caller must not have it either.
    let is_delivered = |output: &Output| matches!(output, Output::Deliver(_));
    assert!(!decided.iter().any(is_released) && !decided.iter().any(is_delivered), "the decision may be lost");
    let outputs = alone.write(&decided);
    assert!(outputs.iter().any(is_released) && outputs.iter().any(is_delivered));
}

/// X14: decisions that are only in memory do not end the silence, and its record goes after another one came.
#[test]
fn silence_ends_with_decisions_on_disk() {
    let silent = Record::Silent(Some(Slot(3)));
    let mut alone = Alone::start(vec![(Ticket(1), wire::encode(&silent).into())]);
    let is_released = |output: &Output| matches!(output, Output::ReleaseBelow(ticket) if *ticket > Ticket(1));
    let decided = alone.receive(0, &Message::Decided { first: Slot(1), values: vec![value(Tip::default()); 3] });
    assert!(!decided.iter().any(is_released), "the decisions may be lost");
    let delivered = alone.write(&decided);
    assert!(delivered.iter().any(|output| matches!(output, Output::Deliver(_))));
    assert!(!delivered.iter().any(is_released), "an empty log would count as lost again");
    assert!(alone.write(&delivered).iter().any(is_released));
}

/// K5: own batches that this validator cannot have made show that another process uses its keys.
#[test]
fn twin_is_found_by_its_batches() {
    let open_batches = MAX_OPEN_BATCHES;
    let is_twin = |output: &Output| matches!(output, Output::Twin(_));
    let digest = B256::with_last_byte(1);
    let decided = |slot: u64, number: u64| Message::Decided { first: Slot(slot), values: vec![value(Tip { number, digest })] };
    let report = |slot: u64| Message::Highest { run: Alone::NOW, slot: Slot(slot), time: Alone::NOW };
    let outputs = |reported: bool, number: u64| {
        let mut alone = Alone::start(Vec::new());
        let reports = if reported { vec![0, 2] } else { vec![0] };
        reports.into_iter().for_each(|from| assert!(!alone.receive(from, &report(0)).iter().any(is_twin)));
        alone.receive_and_write(0, &decided(1, number))
    };
    // An earlier run had a full lane, and its disk was lost.
    assert!(!outputs(true, open_batches + 1).iter().any(is_twin));
    assert!(outputs(true, open_batches + 2).iter().any(is_twin));
    assert!(!outputs(false, open_batches + 2).iter().any(is_twin), "others may know more of earlier runs");

    // An earlier run knew slot 1, in which any of its batches may have been delivered.
    let mut alone = Alone::start(Vec::new());
    [0, 2].into_iter().for_each(|from| _ = alone.receive(from, &report(1)));
    assert!(!alone.receive_and_write(0, &decided(1, 99)).iter().any(is_twin));
}

/// An author that lost its disk uses a number again. The batch that loses returns, and is ordered later.
#[test]
fn batch_that_lost_its_number_returns() {
    let mut cluster = cluster(3, Config { resend_ms: 50, ..plain() });
    let is_report = |message: &Message| matches!(message, Message::Highest { .. });
    // Only the leader gets the first batch, and nobody its proposal.
    cluster.set_rule(move |_, from, to, message| match message {
        Message::Batch(_) if from == 1 && to == 2 => LOST,
        message if is_record(message) || is_report(message) => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(1, "a");
    cluster.run_for(2 * DELAY);
    cluster.simulation.crash(1);
    cluster.disk(1).records.clear();
    cluster.disk(1).notes.queue.clear();
    cluster.submit(1, "b");
    cluster.restart_at(1, Resume::default());
    cluster.run_for(DELAY);
    // Without reports it stays silent, so that its first batch is not an empty one.
    cluster.set_rule(move |_, _, _, message| if is_report(message) { LOST } else { Delivery::Normal });
    cluster.run_for(100 * DELAY);
    let requeued: Vec<_> = cluster.seen(1).requeued.iter().map(|batch| batch.bytes.to_vec()).collect();
    assert_eq!(requeued, [b"b"], "both batches had number 1");
    for text in ["a", "b"] {
        assert!(have(&cluster, 0..3, text), "{text}");
    }
    cluster.assert_equal_logs(0..3);
}

/// H2, X9: a proposer that sees another one advance waits again.
#[test]
fn nobody_joins_a_proposer_that_advances() {
    let mut cluster = cluster(3, plain());
    (0..3).for_each(|node| cluster.simulation.links.port(node).delay = Micros::from_millis(3 * DELAY));
    cluster.simulation.crash(0);
    submit_to(&mut cluster, &[1, 2], 1, "a");
    assert_eq!(decisions(&cluster, 1), [("common".to_owned(), 1)].into());
    // The batch arrives after 30 ms. 200 ms later, validator 1 is in its third step.
    assert_eq!(records(&cluster, 2), 0);
}

/// O5: an answer with a value whose batches are missing does not count.
#[test]
fn answer_without_batches_does_not_count() {
    let mut cluster = cluster(3, Config { hedge_ms: 0, resend_ms: 200, ..plain() });
    // Only the leader has its batch, and its answers, with its value, are the first ones.
    [1, 2].into_iter().for_each(|node| cluster.simulation.links.port(node).delay = Micros::from_millis(2 * DELAY));
    cluster.set_rule(|_, from, _, message| match message {
        Message::Batch(_) if from == 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "a");
    cluster.submit(1, "b");
    cluster.run_for(5 * DELAY + DELAY / 2);
    cluster.simulation.crash(0);
    cluster.run_for(200 * DELAY);
    assert!(have(&cluster, [1, 2], "b"), "{}", cluster.engine(1).describe());
    cluster.assert_equal_logs(1..3);
}

/// X2, X14: a leader that lost its disk may have proposed other values.
#[test]
fn leader_without_a_disk_proposes_in_later_slots_only() {
    let mut cluster = cluster(3, plain());
    submit(&mut cluster, 0, "a");
    lose_disk(&mut cluster, 0, 1);
    for text in ["b", "c", "d", "e", "f", "g"] {
        submit(&mut cluster, 0, text);
    }
    let slots = cluster.seen(0).sent.iter().filter_map(|(_, _, message)| match message {
        Message::Record { request, .. } => Some(request.slot),
        _ => None,
    });
    assert_eq!(slots.min(), Some(Slot(1 + plain().window + 1)));
}
