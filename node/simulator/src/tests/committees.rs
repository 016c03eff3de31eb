//! Committees that change: nodes join and leave, replace keys, lose seats and come back, and deal wrong coins.

use super::{fault, lasting, passes, run};
use crate::{Report, Scenario, genesis::KeySet, scenario::parse, simulate::Run};

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

/// The second rotation happens while the first node is down. It finds its own in the committee when it is back.
#[test]
fn keys_are_replaced_in_mid_run() {
    let rest = NETWORK.replace("12s", "8s").replace("rate = 100", "rate = 20");
    for engine in ENGINES {
        let crash = format!("{}restart_at = \"5500ms\"\n", fault("crash", 3_500, &[1]));
        let faults = [fault("rotate", 2_400, &[1]), crash, fault("rotate", 4_600, &[3])].concat();
        let scenario = network(engine, 5, &format!("crypto = \"real\"\n{rest}{faults}"));
        let mut run = Run::new(&scenario, 1, None).expect("the scenario needs nothing");
        run.finish();
        passes(&run.report());
        let committee = run.network.checker.newest();
        let sets = (0..5).map(|node| run.network.secrets.key_set(&committee, node));
        let (first, next) = (KeySet::First, KeySet::Next);
        assert!(sets.eq([first, next, first, next, first]), "{engine}");
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
