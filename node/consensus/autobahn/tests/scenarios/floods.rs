//! Limits on data and requests caused by a faulty leader or owner: a tip in a cut costs one request and one car, while
//! its slot is open (C3, Y4, G5).

use crate::{
    cluster::{Cluster, plain},
    scripted::{FORKER, ScriptedValidator, tell, without_owner},
};
use corniche_autobahn::{
    Config,
    message::{Availability, Message, SignedCar, Tip},
};
use corniche_engine::Recipients;

fn config() -> Config {
    Config { optimistic_tips: false, view_timeout_ms: 300, retain_slots: 8, ..plain() }
}

/// Requests for cars that this validator sent to the forker.
fn requests(cluster: &Cluster, node: usize) -> Vec<Tip> {
    let asked = cluster.seen(node).sent.iter().filter_map(|(_, to, message)| match message {
        Message::FetchCars { tip, .. } if *to == Recipients::One(FORKER) => Some(*tip),
        _ => None,
    });
    asked.collect()
}

/// Names a tip of its lane in the next slot it leads, to one validator only, and lets the slot be decided.
fn propose(
    cluster: &mut Cluster,
    scripted: &ScriptedValidator,
    tip: Tip,
    parent: Option<&Availability>,
    answer: Option<&[SignedCar]>,
) {
    let (mut cut, previous) = scripted.next_cut(cluster);
    cut.tips[FORKER.as_usize()] = tip;
    tell(cluster, 1, &scripted.prepare(cut, parent.into_iter().cloned().collect(), previous));
    if let Some(cars) = answer {
        tell(cluster, 1, &Message::Cars { tip, cars: cars.to_vec() });
    }
    let now = cluster.simulation.now();
    (1..4).for_each(|node| cluster.submit(node, &format!("{node} at {now}")));
    cluster.run_for(1_500);
}

#[test]
fn uncertified_chain_tip_is_not_requested() {
    let (mut cluster, mut scripted) = without_owner(config());
    let mut cars: Vec<SignedCar> = Vec::new();
    let mut tip = scripted.context.start(FORKER);
    for _ in 0..1_000 {
        let car = scripted.car(tip, None, 10);
        tip = scripted.tip(&car);
        cars.push(car);
    }
    for _ in 0..10 {
        propose(&mut cluster, &scripted, tip, None, Some(&cars));
    }
    assert!(requests(&cluster, 1).is_empty());
    let (held, records) = (cluster.engine(1).footprint(), cluster.records(1).len());
    assert!(cluster.seen(1).log.len() > 10 && held[0] < 50, "{held:?}");
    assert!(records < 300, "{records} records");
}

#[test]
fn uncommitted_bodies_are_dropped_with_slots() {
    for answers in [true, false] {
        let (mut cluster, mut scripted) = without_owner(config());
        let first = scripted.car(scripted.context.start(FORKER), None, 10);
        let parent = scripted.tip(&first);
        (1..4).for_each(|to| tell(&mut cluster, to, &Message::Car(first.clone())));
        cluster.run_for(50);
        let certificate = scripted.certificate(&cluster, parent, &[1]);
        let mut named = Vec::new();
        for _ in 0..40 {
            let car = scripted.car(parent, None, 10);
            let tip = scripted.tip(&car);
            named.push(tip);
            let answer = [car];
            propose(&mut cluster, &scripted, tip, Some(&certificate), answers.then_some(&answer[..]));
        }
        let asked = requests(&cluster, 1);
        assert!(named.iter().all(|tip| asked.contains(tip)), "each was asked for, as its parent was shown");
        let (held, records) = (cluster.engine(1).footprint(), cluster.records(1).len());
        assert!(held[0] < 30, "answers {answers}: {held:?}");
        assert!(records < 150, "answers {answers}: {records} records");
        // Requests must end.
        cluster.run_for(2_000);
        let before = requests(&cluster, 1).len();
        cluster.run_for(60_000);
        assert_eq!(requests(&cluster, 1).len(), before);
        assert!((1..4).all(|node| cluster.seen(node).log.len() == cluster.seen(1).log.len()));
    }
}
