//! Seeded schedules of everything at once: epochs, crashes, partitions, Byzantine members, wrong dealings, unequal votes, and
//! committees and keys that change.

use super::{byzantine::byzantine, fault, lasting};
use crate::{Report, Scenario, Verdict, node::NodeProcess, scenario::parse, simulate::Run};
use corniche_testkit::{Micros, Random};
use corniche_types::FaultModel;
use std::{fmt::Write, fs};

/// Two parts of the network that do not hear each other.
fn partition(random: &mut Random, nodes: usize, at: u64, until: u64) -> String {
    let mut order: Vec<usize> = (0..nodes).collect();
    random.shuffle(&mut order);
    let (one, other) = order.split_at(random.between(1, nodes as u64 - 1) as usize);
    format!("[[fault]]\nkind = \"partition\"\nat = \"{at}ms\"\nuntil = \"{until}ms\"\ngroups = [{one:?}, {other:?}]")
}

/// Draws a scenario file. All faults but a Byzantine member are healed at the end. So every change of the committee happens, and
/// everything is committed.
fn draw(engine: &str, seed: u64) -> String {
    let mut random = Random::new(seed).fork("epochs");
    let delay_ms = random.between(3, 8);
    // A quarter of an epoch is then enough to deal a coin, also with a Byzantine member. For one that is missing, every round of
    // Mahi-Mahi waits `parent_grace_ms`, however short the delays are.
    let shortest_ms = if engine == "mahi-mahi" { 2200 } else { 0 };
    let epoch_ms = (delay_ms * random.between(440, 560)).max(shortest_ms);
    let (members, joining) = (random.between(4, 5) as usize, random.below(3) as usize);
    let (nodes, epochs) = (members + joining, random.between(4, 5));
    let end_ms = epochs * epoch_ms;
    let mut text = format!("engine = \"{engine}\"\nnodes = {nodes}\nepoch_ms = {epoch_ms}\nduration = \"{end_ms}ms\"\n");
    let mut add = |line: String| writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
    // They take ten times as long, and decide nothing differently.
    if random.one_in(100) {
        add("crypto = \"real\"".into());
    }
    if random.one_in(3) {
        add(format!("votes = {:?}", votes(&mut random, members, nodes)));
    }
    // The defaults are for long epochs: a Byzantine member would delay every block beyond the part in which a committee is made.
    let timeouts = match engine {
        "autobahn" => "view_timeout_ms = 150\nmax_view_timeout_ms = 1000".to_owned(),
        "mir" => "idle_ms = 100\ntimeout_ms = 300\nmax_timeout_ms = 1000\nresend_ms = 60".to_owned(),
        "sadl-racs" => format!("timeout_ms = {}\nresend_ms = 60\nstatus_ms = 200", [5, 30, 100, 300][random.below(4) as usize]),
        "baxos" => "resend_ms = 60\nstatus_ms = 200".to_owned(),
        // Any hedging delay is right, also one below the delay of the links.
        "quepaxa" => format!("hedge_ms = {}\nresend_ms = 60\nstatus_ms = 200", [0, 5, 30, 100][random.below(4) as usize]),
        _ => "fetch_delay_ms = 20\nfetch_retry_ms = 60".to_owned(),
    };
    add(format!("[engine_config]\n{timeouts}"));
    add(format!("[network]\ndelay_ms = {delay_ms}\njitter = 0.{}", random.below(10)));
    if random.one_in(3) {
        add(format!("loss = 0.00{}\nreorder = 0.0{}\nduplicate = 0.0{}", random.below(5), random.below(9), random.below(9)));
    }
    let payload = if random.one_in(4) { "transfer" } else { "none" };
    add(format!("[load]\nrate = {}\ntx_bytes = 200\npayload = \"{payload}\"\npatience = \"2s\"", random.between(10, 30)));

    let has_byzantine = random.one_in(4) && FaultModel::of_engine(engine) == FaultModel::Byzantine;
    let byzantine_node = random.below(members as u64) as usize;
    if has_byzantine {
        let mut behaviours = vec!["equivocator", "silent", "garbage", "twin", "withholder"];
        if engine != "mir" {
            behaviours.push("coin-share-forger");
        }
        let behaviour = behaviours[random.below(behaviours.len() as u64) as usize];
        add(byzantine(&[byzantine_node], behaviour));
    }
    // Changes of the committee. It keeps four members besides a Byzantine one.
    for node in members..nodes {
        add(fault("join", random.between(100, end_ms / 2), &[node]));
    }
    let spare = nodes - 4 - usize::from(has_byzantine).min(nodes - 4);
    let mut candidates: Vec<usize> = (0..nodes).filter(|node| !has_byzantine || *node != byzantine_node).collect();
    random.shuffle(&mut candidates);
    let leaving = random.below(spare.min(2) as u64 + 1) as usize;
    // Nothing changes if fewer than four announce themselves.
    let may_rotate = nodes - usize::from(has_byzantine) >= 4;
    let rotating = if may_rotate { random.below(3) as usize } else { 0 };
    for (place, node) in candidates.iter().take(leaving + rotating).enumerate() {
        let from = if *node < members { 100 } else { end_ms / 2 };
        let kind = if place < leaving { "leave" } else { "rotate" };
        add(fault(kind, random.between(from, end_ms * 3 / 4), &[*node]));
    }
    // At and around the ends of epochs, one after the other.
    let mut free_from = 0;
    // A validator without records is faulty until the end of the next epoch. So there is one such loss, and no Byzantine member
    // besides. Under Mahi-Mahi a loss in epoch 0 looks like a first start.
    let mut may_lose_disk = !has_byzantine;
    loop {
        let end = (free_from / epoch_ms + random.between(1, 2)) * epoch_ms;
        let at = (end + random.below(700)).saturating_sub(random.below(300)).max(free_from);
        let until = at + random.between(20, epoch_ms * 3 / 2);
        if until + 100 >= end_ms {
            break;
        }
        free_from = until + random.between(10, epoch_ms);
        let node = candidates[random.below(candidates.len() as u64) as usize];
        let restart = format!("restart_at = \"{until}ms\"");
        match random.below(if may_lose_disk && at >= 2 * epoch_ms { 7 } else { 6 }) {
            0 => add(format!("{}{restart}", fault("crash", at, &[node]))),
            1 => {
                let mut all = candidates.clone();
                all.sort_unstable();
                add(format!("{}{restart}", fault("crash", at, &all)));
            }
            2 => add(partition(&mut random, nodes, at, until)),
            3 => add(lasting("no_notices", at, until, &[node])),
            4 => add(lasting("bad_dealer", at, until, &[node])),
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

/// Draws votes of which no node has more than may be faulty, with and without the nodes that join. Later committees see to that
/// themselves (S4).
fn votes(random: &mut Random, members: usize, nodes: usize) -> Vec<u64> {
    let is_tolerant = |votes: &[u64]| votes.iter().all(|own| *own <= (votes.iter().sum::<u64>() - 1) / 3);
    loop {
        let votes: Vec<u64> = (0..nodes).map(|_| random.between(1, 4)).collect();
        if is_tolerant(&votes) && is_tolerant(&votes[..members]) {
            return votes;
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}: expected a number")))
}

/// Runs a schedule. Returns true if it passes; otherwise prints everything about it.
fn passes(name: &str, text: &str, seed: Option<u64>) -> (bool, Report) {
    let scenario: Scenario = parse(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    let mut run = Run::new(&scenario, seed.unwrap_or(scenario.seed), None).expect("the scenario needs nothing");
    run.finish();
    let mut report = run.report();
    // Everybody may have been down at the ends of epochs. Now that all faults have ended, the epochs end, too.
    if report.epochs_ended < 3 {
        let rest = scenario.epoch_ms.map_or(Micros::ZERO, |epoch_ms| Micros::from_millis(4 * epoch_ms));
        run.run_until(run.simulation.now() + rest);
        report = run.report();
    }
    let passes = report.verdict == Verdict::Pass && report.duplicated == 0 && report.epochs_ended >= 3;
    if !passes {
        println!("{name}:\n{text}\n{}\n{:#?}\n{:#?}", report.text(), report.violations, report.unfinished);
        println!("committees {:?}", report.committees);
        for node in 0..run.simulation.size() {
            println!("node {node}: {}", run.simulation.process(node).map_or("down".into(), NodeProcess::progress));
        }
    }
    (passes, report)
}

/// Runs drawn schedules of one engine; `CORNICHE_SCHEDULES` is their number, `CORNICHE_SEED` the seed of the first one.
fn run_schedules(engine: &str) {
    let (first, count) = (number("CORNICHE_SEED", 1), number("CORNICHE_SCHEDULES", 20));
    let (mut epochs, mut kept, mut changes, mut failed) = (0, 0, 0, Vec::new());
    for seed in first..first + count {
        let (passes, report) = passes(&format!("{engine}, seed {seed}"), &draw(engine, seed), Some(seed));
        if !passes {
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

/// Draws a scenario file of NeoBFT. All faults but Byzantine members are healed at the end. In a hybrid network the sequencer only
/// crashes, repeats or omits.
fn draw_multicast(seed: u64) -> String {
    let mut random = Random::new(seed).fork("multicast");
    let (nodes, delay_ms, end_ms) = (random.between(4, 10) as usize, random.between(1, 8), random.between(4, 8) * 1_000);
    let (byzantine_network, suite) = (random.below(2), [1, 1, 2, 5, 5, 4][random.below(6) as usize]);
    let mut text = format!("engine = \"neobft\"\nnodes = {nodes}\nduration = \"{end_ms}ms\"\n");
    let mut add = |line: String| writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
    if random.one_in(100) {
        add("crypto = \"real\"".into());
    }
    let votes = if random.one_in(3) { votes(&mut random, nodes, nodes) } else { vec![1; nodes] };
    add(format!("votes = {votes:?}"));
    let (sync, max_jump) = ([4, 16, 64][random.below(3) as usize], 2_000);
    add(format!(
        "[engine_config]\nbyzantine_network = {byzantine_network}\nreorder_ms = {}\nquery_ms = 100\ngap_ms = {}\nrequest_ms = 200\n\
         aom_ms = 600\nview_ms = 300\nmax_view_ms = 3000\nmax_drops = {}\nmax_jump = {max_jump}\nsync_slots = {sync}\n\
         retain_slots = {}\nopen_slots = {}\nclock_ms = {}",
        random.below(10),
        random.between(200, 600),
        if random.one_in(4) { 50_000 } else { 1_000_000 },
        [2 * sync, 200, 1_000][random.below(3) as usize].max(2 * sync),
        [2 * sync, 256][random.below(2) as usize].max(2 * sync),
        random.between(100, 1_000),
    ));
    let loss_ppm = [0, 10, 100, 1_000, 10_000][random.below(5) as usize];
    let place = if random.one_in(3) { "host" } else { "path" };
    add(format!(
        "[sequencer]\nplace = \"{place}\"\nsuite = {suite}\nsign_every = {}\nloss = {}\ninstall_ms = {}",
        [1, 4, 32][random.below(3) as usize],
        loss_ppm as f64 / 1_000_000.0,
        random.between(1, 200),
    ));
    add(format!("[network]\ndelay_ms = {delay_ms}\njitter = 0.{}", random.below(10)));
    if random.one_in(3) {
        add(format!("loss = 0.00{}\nreorder = 0.0{}\nduplicate = 0.0{}", random.below(5), random.below(9), random.below(9)));
    }
    let payload = if random.one_in(4) { "transfer" } else { "none" };
    let tx_bytes = [200, 200, 3_000][random.below(3) as usize];
    add(format!(
        "[load]\nrate = {}\ntx_bytes = {tx_bytes}\npayload = \"{payload}\"\npatience = \"2s\"",
        if random.one_in(4) && nodes <= 6 { random.between(60, 300) } else { random.between(10, 60) },
    ));

    // At most F votes.
    let mut candidates: Vec<usize> = (0..nodes).collect();
    random.shuffle(&mut candidates);
    if random.one_in(2) {
        let mut left = (votes.iter().sum::<u64>() - 1) / 3;
        let behaviours = ["equivocator", "silent", "garbage", "twin", "withholder", "late", "gap-liar", "gap-liar", "twin"];
        for node in candidates.clone() {
            if votes[node] > left || random.one_in(4) {
                continue;
            }
            left -= votes[node];
            candidates.retain(|other| *other != node);
            add(byzantine(&[node], behaviours[random.below(behaviours.len() as u64) as usize]));
        }
    }
    // Faults of the sequencer.
    for _ in 0..random.below(4) {
        let does = match random.below(if byzantine_network == 1 { 7 } else { 5 }) {
            0 | 1 => "does = \"silent\"".into(),
            2 => "does = \"duplicates\"".into(),
            3 => format!("does = \"jump\"\nnumbers = {}", random.between(1, 60)),
            4 => format!("does = \"jump\"\nnumbers = {}", max_jump + random.between(1, max_jump)),
            _ => {
                let mut shown: Vec<usize> = (0..nodes).collect();
                random.shuffle(&mut shown);
                shown.truncate(random.between(1, nodes as u64 - 1) as usize);
                format!("does = \"equivocates\"\nnodes = {shown:?}")
            }
        };
        add(format!("[[fault]]\nkind = \"sequencer\"\nat = \"{}ms\"\n{does}", random.between(1, end_ms * 3 / 4)));
    }
    // Faults of members and links, one after the other.
    let mut free_from = random.below(1_500);
    loop {
        let at = free_from + random.below(800);
        let until = at + random.between(20, 1_500);
        if until + 100 >= end_ms {
            break;
        }
        free_from = until + random.below(800);
        let some = candidates.len().min(random.between(1, 3) as usize);
        random.shuffle(&mut candidates);
        let restart = format!("restart_at = \"{until}ms\"");
        match random.below(6) {
            0 => add(format!("{}{restart}", fault("crash", at, &candidates[..some]))),
            1 if random.one_in(2) => add(format!("{}{restart}", fault("crash", at, &candidates))),
            2 => add(partition(&mut random, nodes, at, until)),
            3 => {
                let slow = lasting("slow", at, until, &candidates[..some]);
                add(format!("{slow}execute_ms = {}\nwrite_ms = {}", random.below(100), random.below(60)));
            }
            4 => add(format!("{}fraction = 0.{}", lasting("loss", at, until, &candidates[..some]), random.between(1, 9))),
            _ => add(format!("{}extra_ms = {}", lasting("delay", at, until, &candidates[..some]), random.between(5, 300))),
        }
    }
    text
}

/// Runs a schedule of a multicast group. Returns true if it passes; otherwise prints everything about it.
fn multicast_passes(name: &str, text: &str, seed: Option<u64>) -> (bool, Report) {
    let scenario: Scenario = parse(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    let mut run = Run::new(&scenario, seed.unwrap_or(scenario.seed), None).expect("the scenario needs nothing");
    run.finish();
    let report = run.report();
    let height = run.network.checks.borrow().height();
    let behind = run.behind(height);
    let passes = report.verdict == Verdict::Pass && report.duplicated == 0 && behind.is_empty();
    if !passes {
        let states = |run: &Run<'_>| -> Vec<String> {
            let nodes = 0..run.simulation.size();
            nodes.map(|node| run.simulation.process(node).map_or("down".into(), NodeProcess::progress)).collect()
        };
        states(&run);
        run.run_until(run.simulation.now() + Micros::from_seconds(1));
        println!("{name}:\n{text}\n{}\n{:#?}\nbehind {height}: {behind:?}", report.text(), report.violations);
        states(&run).iter().enumerate().for_each(|(node, state)| println!("node {node}: {state}"));
    }
    (passes, report)
}

#[test]
fn schedules_neobft() {
    let (first, count) = (number("CORNICHE_SEED", 1), number("CORNICHE_SCHEDULES", 20));
    let (mut failovers, mut committed, mut failed) = (0, 0, Vec::new());
    for seed in first..first + count {
        let (passes, report) = multicast_passes(&format!("neobft, seed {seed}"), &draw_multicast(seed), Some(seed));
        if !passes {
            failed.push(seed);
        }
        failovers += report.failovers;
        committed += report.committed;
    }
    println!("neobft: {count} schedules from seed {first}: {committed} transactions, {failovers} failovers");
    assert!(failed.is_empty(), "neobft: {} of {count} failed: seeds {failed:?}", failed.len());
    assert!(failovers > 0 || count < 10, "no sequencer was replaced");
}

#[test]
fn schedules_mahi_mahi() {
    run_schedules("mahi-mahi");
}

#[test]
fn schedules_autobahn() {
    run_schedules("autobahn");
}

#[test]
fn schedules_mir() {
    run_schedules("mir");
}

#[test]
fn schedules_quepaxa() {
    run_schedules("quepaxa");
}

#[test]
fn schedules_sadl_racs() {
    run_schedules("sadl-racs");
}

#[test]
fn schedules_baxos() {
    run_schedules("baxos");
}

/// Name and text of each kept schedule in a folder.
fn kept(folder: &str) -> Vec<(String, String)> {
    let folder = format!("{}/tests/fixtures/{folder}", env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut files: Vec<_> = files.map(|entry| entry.expect("the folder is readable").path()).collect();
    files.sort();
    let read = |file: std::path::PathBuf| {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file.display().to_string(), text)
    };
    files.into_iter().map(read).collect()
}

/// Schedules of NeoBFT that failed once.
#[test]
fn kept_multicast_schedules_pass() {
    let mut failed = kept("multicast");
    failed.retain(|(name, text)| !multicast_passes(name, text, None).0);
    assert!(failed.is_empty(), "{:?}", failed.iter().map(|(name, _)| name).collect::<Vec<_>>());
}

/// Schedules that failed once.
#[test]
fn kept_schedules_pass() {
    let mut failed = kept("schedules");
    failed.retain(|(name, text)| !passes(name, text, None).0);
    assert!(failed.is_empty(), "{:?}", failed.iter().map(|(name, _)| name).collect::<Vec<_>>());
}

/// A second validator lost its disk before the first one had recovered. The epoch may then stall, but nothing diverges.
#[test]
fn two_lost_disks_break_nothing() {
    for (name, text) in kept("losses") {
        let (_, report) = passes(&name, &text, None);
        assert!(report.violations.is_empty() && report.duplicated == 0, "{name}: {:#?}", report.violations);
    }
}
