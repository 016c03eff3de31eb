//! Row 37: the log is a function of the committed cuts and their cars, for any forks and any order of arrival. Row 17:
//! a stale tip changes nothing.

use corniche_autobahn::{
    Config,
    lanes::{self, Lanes, Recovered},
    message::{Car, Context, Cut, HashedCar, SignedCar, Slot, Tip},
    order::Order,
    rules::Schedule,
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures, committee};
use corniche_engine::{Committee, Ordered, Resume};
use corniche_testkit::Random;
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

const SIZE: usize = 4;

/// Lanes with forks, and cuts that name tips of any branch, also lower ones than before.
struct History {
    committee: Committee,
    cars: BTreeMap<Tip, Arc<HashedCar>>,
    cuts: Vec<Cut>,
}

fn history(seed: u64) -> History {
    let mut random = Random::new(seed);
    let committee = committee(SIZE);
    let context = Context::new(&committee);
    let mut tips: Vec<Vec<Tip>> = committee.indices().map(|lane| vec![context.start(lane)]).collect();
    let mut cars = BTreeMap::new();
    let mut cuts = Vec::new();
    for slot in 1..=20 {
        for lane in &mut tips {
            for _ in 0..random.below(4) {
                // Usually on the last car; a forker builds on any.
                let parent =
                    if random.one_in(4) { lane[random.below(lane.len() as u64) as usize] } else { lane[lane.len() - 1] };
                let batch = Bytes::from(random.draw().to_le_bytes().to_vec());
                let car = Car { lane: parent.lane, position: parent.position.next(), parent: parent.digest, batch };
                let car = HashedCar::trusted(SignedCar { car, signature: [0; 64], certificate: None }, &context);
                lane.push(car.tip());
                cars.insert(car.tip(), Arc::new(car));
            }
        }
        let tips = tips.iter().map(|lane| lane[lane.len() - 1 - random.below(lane.len().min(4) as u64) as usize]).collect();
        cuts.push(Cut { slot: Slot(slot), anchor: B256::ZERO, time: TimestampMs(random.below(100)), tips });
    }
    History { committee, cars, cuts }
}

fn order(committee: &Committee, resume: &Resume) -> Order {
    let schedule = Schedule::new(committee, &Config::default());
    Order::new(resume, committee, schedule, 4, (TimestampMs(0), B256::ZERO))
}

/// A validator that receives the cars in random order, and executes whenever it can; it may restart in between.
fn run(history: &History, random: &mut Random) -> Vec<Ordered> {
    let mut arrivals: Vec<_> = history.cars.values().cloned().collect();
    random.shuffle(&mut arrivals);
    let mut order = order(&history.committee, &Resume::default());
    let (mut held, mut log) = (Vec::new(), Vec::<Ordered>::new());
    let mut lanes = start(history, &order, &held);
    for car in arrivals {
        held.push(car.clone());
        lanes.insert(car);
        if random.one_in(5) {
            // A restart, with the data it has.
            let last =
                log.last().map(|last| Resume { index: last.index, checkpoint: last.checkpoint.clone(), ..Resume::default() });
            order = self::order(&history.committee, &last.unwrap_or_default());
            lanes = start(history, &order, &held);
        }
        while let Some(cut) = history.cuts.get(order.slot().0 as usize) {
            let Some(ordered) = order.execute(cut, |tip| lanes.chain(tip)) else { break };
            lanes.execute(&cut.tips);
            assert_eq!(lanes_executed(&lanes), order.executed());
            log.push(ordered);
        }
    }
    log
}

fn start(history: &History, order: &Order, held: &[Arc<HashedCar>]) -> Lanes {
    Lanes::new(lanes::Setup {
        config: Config::default(),
        committee: history.committee.clone(),
        signer: Some(Arc::new(FakeKeys(ValidatorIndex(0)))),
        signatures: Arc::new(FakeSignatures),
        executed: order.executed().to_vec(),
        records: held.iter().map(|car| Recovered::Car { car: car.clone(), voted: false }).collect(),
    })
}

fn lanes_executed(lanes: &Lanes) -> Vec<Tip> {
    (0..SIZE as u16).map(|lane| lanes.executed(ValidatorIndex(lane))).collect()
}

#[test]
fn row_37_same_log_for_any_arrival_order() {
    for seed in 0..100 {
        let history = history(seed);
        let mut random = Random::new(seed).fork("arrival");
        let first = run(&history, &mut random);
        assert_eq!(first.len(), 20, "seed {seed}: everything is executed once everything is there");
        for _ in 0..4 {
            assert_eq!(run(&history, &mut random), first, "seed {seed}");
        }
        // O2, O4: last_commit never decreases, so nothing is delivered twice: there are as many batches as executed
        // positions.
        let executed: u64 = {
            let mut highest = [0; SIZE];
            for cut in &history.cuts {
                cut.tips.iter().zip(&mut highest).for_each(|(tip, highest)| *highest = tip.position.0.max(*highest));
            }
            highest.iter().sum()
        };
        assert_eq!(first.iter().map(|ordered| ordered.batches.len() as u64).sum::<u64>(), executed, "seed {seed}");
        assert!(first.windows(2).all(|pair| pair[0].time <= pair[1].time && pair[0].index.next() == pair[1].index));
    }
}

#[test]
fn row_17_executed_tip_is_not_executed_again() {
    let History { committee, cars, cuts } = history(3);
    let mut order = order(&committee, &Resume::default());
    let empty = History { committee: committee.clone(), cars: BTreeMap::new(), cuts: Vec::new() };
    let held: Vec<_> = cars.values().cloned().collect();
    let mut lanes = start(&empty, &order, &held);
    for cut in &cuts {
        order.execute(cut, |tip| lanes.chain(tip)).unwrap();
        lanes.execute(&cut.tips);
    }
    // The next slot names the tips of an early one.
    let stale = Cut { slot: Slot(21), ..cuts[4].clone() };
    let before = order.executed().to_vec();
    let ordered = order.execute(&stale, |tip| panic!("{tip:?} is executed")).unwrap();
    assert!(ordered.batches.is_empty() && order.executed() == before);
    assert_eq!(ordered.index, CommitIndex(21));
}

#[test]
fn o5_lanes_are_interleaved_by_position() {
    let History { committee, cars, cuts } = history(1);
    let mut order = order(&committee, &Resume::default());
    let held: Vec<_> = cars.values().cloned().collect();
    let lanes = start(&History { committee: committee.clone(), cars: BTreeMap::new(), cuts: Vec::new() }, &order, &held);
    let chains: Vec<_> = cuts[5].tips.iter().map(|tip| lanes.chain(tip).unwrap()).collect();
    let mut expected = Vec::new();
    for offset in 0..chains.iter().map(Vec::len).max().unwrap() {
        expected.extend(chains.iter().filter_map(|chain| chain.get(offset)).map(|car| (car.lane(), car.batch().clone())));
    }
    let first = Cut { slot: Slot(1), ..cuts[5].clone() };
    let ordered = order.execute(&first, |tip| lanes.chain(tip)).unwrap();
    let batches: Vec<_> = ordered.batches.into_iter().map(|(lane, batch)| (lane, batch.bytes)).collect();
    assert!(chains.iter().any(|chain| chain.len() > 1));
    assert_eq!(batches, expected);
}
