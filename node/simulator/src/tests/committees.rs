//! Committees that change: nodes join and leave, lose seats and come back, and deal wrong coins. Then seeded schedules of
//! everything at once.

use super::{byzantine::byzantine, passes, run};
use crate::{Report, Scenario, Verdict, node::NodeProcess, scenario::parse, simulate::Run};
use corniche_testkit::Random;
use std::fmt::Write;

const ENGINES: [&str; 2] = ["mahi-mahi", "autobahn"];

/// A calm network. Coins are dealt within 3/8 of the closing time, a quarter of an epoch: that takes some ten delays.
const NETWORK: &str = "
duration = \"12s\"
[network]
delay_ms = 5
[load]
rate = 100
tx_bytes = 200
";

fn network(engine: &str, nodes: usize, rest: &str) -> Scenario {
    let text = format!("engine = \"{engine}\"\nnodes = {nodes}\nepoch_ms = 2000\n{rest}");
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn fault(kind: &str, at_ms: u64, nodes: &[usize]) -> String {
    format!("[[fault]]\nkind = \"{kind}\"\nat = \"{at_ms}ms\"\nnodes = {nodes:?}\n")
}

fn lasting(kind: &str, at_ms: u64, until_ms: u64, nodes: &[usize]) -> String {
    format!("{}until = \"{until_ms}ms\"\n", fault(kind, at_ms, nodes))
}

fn has_committee(report: &Report, members: &[usize]) -> bool {
    report.committees.iter().any(|committee| {
        let mut committee = committee.clone();
        committee.sort_unstable();
        committee == members
    })
}

#[test]
fn nodes_join_and_leave() {
    for engine in ENGINES {
        let faults = [fault("join", 2_400, &[4]), fault("join", 4_600, &[5]), fault("leave", 6_600, &[1])].concat();
        let report = run(&network(engine, 6, &format!("{NETWORK}{faults}")), 1);
        passes(&report);
        for expected in [&[0, 1, 2, 3, 4][..], &[0, 1, 2, 3, 4, 5], &[0, 2, 3, 4, 5]] {
            assert!(has_committee(&report, expected), "{engine}: {expected:?} of {:?}", report.committees);
        }
        assert_eq!(report.epochs_kept, 0, "{engine}\n{}", report.text());
    }
}

/// A newcomer signs with its share of a coin that was dealt on the chain.
#[test]
fn coins_are_dealt_with_real_keys() {
    let rest = NETWORK.replace("12s", "5s").replace("rate = 100", "rate = 20");
    let faults = fault("join", 300, &[4]);
    let report = run(&network("mahi-mahi", 5, &format!("crypto = \"real\"\n{rest}{faults}")), 1);
    passes(&report);
    assert!(has_committee(&report, &[0, 1, 2, 3, 4]), "{:?}", report.committees);
}

/// Schedules that end without progress. A validator that follows across the end of epoch 0, or that lost its disk and then its seat,
/// enters the next epoch as one without records, and abstains. With another faulty member a quorum is missing, so the epoch stalls
/// for ever.
#[test]
#[ignore = "known: these epochs stall"]
fn kept_stalls_make_progress() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/stalls");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder exists").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut stalled = Vec::new();
    for path in files {
        let scenario = parse(&std::fs::read_to_string(&path).expect("a file")).expect("a scenario");
        let report = run(&scenario, scenario.seed);
        println!("{}: {}", path.display(), report.text());
        if report.verdict != Verdict::Pass {
            stalled.push(path);
        }
    }
    assert!(stalled.is_empty(), "{stalled:?}");
}

/// A member that does not announce itself loses its seat for an epoch; so does one that is down.
#[test]
fn absent_members_lose_their_seats() {
    for engine in ENGINES {
        let silent = lasting("no_notices", 4_000, 5_900, &[2]);
        let crash = format!("{}restart_at = \"11000ms\"\n", fault("crash", 8_200, &[0]));
        let report = run(&network(engine, 5, &format!("{NETWORK}{silent}{crash}")), 1);
        passes(&report);
        for expected in [&[0, 1, 3, 4][..], &[1, 2, 3, 4]] {
            assert!(has_committee(&report, expected), "{engine}: {expected:?} of {:?}", report.committees);
        }
        assert_eq!(report.epochs_kept, 0, "{engine}\n{}", report.text());
    }
}

/// Without a coin the old committee stays. With F bad dealers of four there is always one.
#[test]
fn bad_dealers_keep_no_committee() {
    for seed in 0..4 {
        let faults = [lasting("bad_dealer", 0, 12_000, &[2]), fault("join", 2_400, &[4])].concat();
        let report = run(&network("mahi-mahi", 5, &format!("{NETWORK}{faults}")), seed);
        passes(&report);
        assert!(has_committee(&report, &[0, 1, 2, 3, 4]), "{:?}", report.committees);
        assert_eq!(report.epochs_kept, 0, "{}", report.text());
    }
    let faults = [lasting("bad_dealer", 0, 10_000, &[1, 2]), fault("join", 2_400, &[4])].concat();
    let kept: u64 = (0..4).map(|seed| run(&network("mahi-mahi", 5, &format!("{NETWORK}{faults}")), seed).epochs_kept).sum();
    assert!(kept > 0, "two bad dealers of four never prevented a coin");
}

/// Three silent members of seven are too many to go on without, so all keep their seats.
#[test]
fn mass_silence_keeps_the_committee() {
    for engine in ENGINES {
        let faults = lasting("no_notices", 4_000, 7_900, &[1, 2, 3]);
        let report = run(&network(engine, 7, &format!("{NETWORK}{faults}")), 1);
        passes(&report);
        assert!(report.epochs_kept >= 1, "{engine}\n{}", report.text());
    }
}

fn scenario_file(name: &str) -> Scenario {
    let path = format!("{}/../../testnet/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    parse(&text).unwrap_or_else(|error| panic!("{path}:{error}"))
}

/// Neither a crashed dealer nor F silent receivers nor F bad dealers keep a new committee from taking over.
#[test]
fn faulty_dealers_and_receivers_keep_no_epoch() {
    for name in ["epochs-crashed-dealer", "epochs-silent-receivers", "epochs-bad-dealers"] {
        let scenario = scenario_file(name);
        let report = run(&scenario, scenario.seed);
        passes(&report);
        let changes = report.committees.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(report.epochs_kept == 0 && changes >= 2, "{name}: {:?}\n{}", report.committees, report.text());
    }
}

// ---- schedules -----------------------------------------------------------------------------------------------------------

/// Draws a scenario file. At most one member is faulty for long, and all of them are healed at the end. So every change of the
/// committee happens, and everything is committed.
fn draw(engine: &str, seed: u64) -> String {
    let mut random = Random::new(seed).fork("epochs");
    let epoch_ms = random.between(8, 14) * 250;
    // A quarter of an epoch is then enough to deal a coin, also with a Byzantine member.
    let max_delay_ms = epoch_ms / 4 / 160;
    let (members, joining) = (random.between(4, 6) as usize, random.below(3) as usize);
    let (nodes, epochs) = (members + joining, random.between(5, 8));
    let end_ms = epochs * epoch_ms;
    let mut text = format!("engine = \"{engine}\"\nnodes = {nodes}\nepoch_ms = {epoch_ms}\nduration = \"{end_ms}ms\"\n");
    let mut add = |line: String| writeln!(text, "{line}").expect("writing to a string cannot fail");
    if random.one_in(12) {
        add("crypto = \"real\"".into());
    }
    add(format!("[network]\ndelay_ms = {}\njitter = 0.{}", random.between(1, max_delay_ms), random.below(10)));
    if random.one_in(3) {
        add(format!("loss = 0.00{}\nreorder = 0.0{}\nduplicate = 0.0{}", random.below(5), random.below(9), random.below(9)));
    }
    let payload = if random.one_in(4) { "transfer" } else { "none" };
    add(format!("[load]\nrate = {}\ntx_bytes = 200\npayload = \"{payload}\"\npatience = \"2s\"", random.between(10, 60)));

    let has_byzantine = random.one_in(4);
    let byzantine_node = random.below(members as u64) as usize;
    if has_byzantine {
        let behaviours = ["equivocator", "silent", "garbage", "twin"];
        let behaviour = behaviours[random.below(behaviours.len() as u64) as usize];
        add(byzantine(&[byzantine_node], behaviour).trim_end().into());
    }
    // Changes of the committee, in the first half.
    for node in members..nodes {
        add(fault("join", random.between(100, end_ms / 2), &[node]).trim_end().into());
    }
    let spare = nodes - 4 - usize::from(has_byzantine).min(nodes - 4);
    let mut candidates: Vec<usize> = (0..nodes).filter(|node| !has_byzantine || *node != byzantine_node).collect();
    random.shuffle(&mut candidates);
    let leaving = random.below(spare.min(2) as u64 + 1) as usize;
    for node in candidates.iter().take(leaving) {
        let from = if *node < members { 100 } else { end_ms / 2 };
        add(fault("leave", random.between(from, end_ms * 3 / 4), &[*node]).trim_end().into());
    }
    // At and around the ends of epochs, one after the other.
    // Not before epoch 1: a validator that misses the end of epoch 0 counts as one that lost its records, so as faulty.
    let mut free_from = epoch_ms + 700;
    // A validator without records is faulty while it catches up, so there is one such loss and no Byzantine one.
    let mut may_lose_disk = !has_byzantine;
    let around_end = |random: &mut Random, from: u64| {
        let end = (from / epoch_ms + random.between(1, 2)) * epoch_ms;
        (end + random.below(700)).saturating_sub(random.below(300)).max(from)
    };
    loop {
        let at = around_end(&mut random, free_from);
        let until = at + random.between(20, epoch_ms * 3 / 2);
        if until + 100 >= end_ms {
            break;
        }
        free_from = until + random.between(10, epoch_ms);
        let node = candidates[random.below(candidates.len() as u64) as usize];
        let restart = format!("restart_at = \"{until}ms\"");
        match random.below(if may_lose_disk { 7 } else { 6 }) {
            0 => add(format!("{}{restart}", fault("crash", at, &[node]))),
            1 => {
                let mut all = candidates.clone();
                all.sort_unstable();
                add(format!("{}{restart}", fault("crash", at, &all)));
            }
            2 => {
                let mut order: Vec<usize> = (0..nodes).collect();
                random.shuffle(&mut order);
                let (one, other) = order.split_at(random.between(1, nodes as u64 - 1) as usize);
                add(format!(
                    "[[fault]]\nkind = \"partition\"\nat = \"{at}ms\"\nuntil = \"{until}ms\"\ngroups = [{one:?}, {other:?}]"
                ));
            }
            3 => add(lasting("no_notices", at, until, &[node]).trim_end().into()),
            4 => add(lasting("bad_dealer", at, until, &[node]).trim_end().into()),
            5 => {
                let slow = lasting("slow", at, until, &[node]);
                add(format!("{slow}execute_ms = {}\nwrite_ms = {}", random.below(100), random.below(60)));
            }
            _ => {
                may_lose_disk = false;
                add(format!("{}{restart}", fault("disk_loss", at, &[node])));
            }
        }
    }
    text
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}: expected a number")))
}

/// Runs drawn schedules of one engine; `CORNICHE_SCHEDULES` is their number, `CORNICHE_SEED` the seed of the first one.
fn run_schedules(engine: &str) {
    let (first, count) = (number("CORNICHE_SEED", 1), number("CORNICHE_SCHEDULES", 20));
    let (mut epochs, mut kept, mut changes, mut failed) = (0, 0, 0, Vec::new());
    for seed in first..first + count {
        let text = draw(engine, seed);
        let scenario = parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        let mut run = Run::new(&scenario, seed, None).expect("the scenario needs nothing");
        run.finish();
        let report = run.report();
        if report.verdict != Verdict::Pass || report.duplicated > 0 || report.epochs_ended < 3 {
            let (violations, unfinished) = (&report.violations, &report.unfinished);
            println!("{engine}, seed {seed}:\n{text}\n{}\n{violations:#?}\n{unfinished:#?}\n", report.text());
            println!("committees {:?}", report.committees);
            for node in 0..run.simulation.size() {
                println!("node {node}: {}", run.simulation.process(node).map_or("down".into(), NodeProcess::progress));
            }
            failed.push(seed);
        }
        epochs += report.epochs_ended;
        kept += report.epochs_kept;
        changes += report.committees.windows(2).filter(|pair| pair[0] != pair[1]).count();
    }
    println!("{engine}: {count} schedules from seed {first}: {epochs} epochs, {kept} kept, {changes} changes of the committee");
    assert!(failed.is_empty(), "{engine}: {} of {count} failed: seeds {failed:?}", failed.len());
    assert!(changes > 0 || count < 10, "no committee changed");
}

#[test]
fn schedules_mahi_mahi() {
    run_schedules("mahi-mahi");
}

#[test]
fn schedules_autobahn() {
    run_schedules("autobahn");
}
