//! Short runs of small networks, and tests of the checks.

mod adversaries;
mod byzantine;
mod checkers;
mod committees;
mod delays;
mod durable;
mod epochs;
mod multicast;
mod schedules;
mod slow;
mod votes;

use crate::{Micros, Report, Scenario, Verdict, load, scenario::parse, simulate, simulate::Run};

/// A network with the given rest of the scenario file.
fn scenario(nodes: usize, rest: &str) -> Scenario {
    let text = format!("engine = \"mahi-mahi\"\nnodes = {nodes}\n{rest}");
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const CALM: &str = "
duration = \"6s\"
[network]
delay_ms = 20
[load]
rate = 200
tx_bytes = 200
";

fn run(scenario: &Scenario, seed: u64) -> Report {
    simulate(scenario, seed, None).expect("the scenario needs nothing")
}

/// Everything was committed exactly once, and there is no violation.
fn passes(report: &Report) {
    assert_eq!(report.verdict, Verdict::Pass, "{}\n{:#?}", report.text(), report.violations);
    assert!(report.submitted > 0 && report.lost == 0 && report.duplicated == 0, "{}", report.text());
}

#[test]
fn calm_network_commits_everything() {
    let report = run(&scenario(4, CALM), 1);
    passes(&report);
    assert_eq!((report.submitted, report.committed), (1_200, 1_200), "{}", report.text());
    assert!(report.stalled_us < 500_000, "{}", report.text());
}

#[test]
fn seed_determines_report() {
    let scenario = scenario(4, CALM);
    let (one, again, other) = (run(&scenario, 1), run(&scenario, 1), run(&scenario, 2));
    assert_eq!(one.json(), again.json());
    assert_ne!(one.digest, other.digest);
}

fn fault(kind: &str, at_ms: u64, nodes: &[usize]) -> String {
    format!("[[fault]]\nkind = \"{kind}\"\nat = \"{at_ms}ms\"\nnodes = {nodes:?}\n")
}

fn lasting(kind: &str, at_ms: u64, until_ms: u64, nodes: &[usize]) -> String {
    format!("{}until = \"{until_ms}ms\"\n", fault(kind, at_ms, nodes))
}

/// No side is a quorum. Clients learn of commits just before the partition when they turn to the other side after their
/// patience. That is not a commit inside the partition.
#[test]
fn partition_without_quorum_commits_nothing() {
    for engine in ["autobahn", "mahi-mahi"] {
        for seed in 0..4 {
            let text = format!(
                "engine = \"{engine}\"\nnodes = 4\nduration = \"12s\"\n[network]\ndelay_ms = 50\n[load]\nrate = 200\n\
                 [[fault]]\nkind = \"partition\"\nat = \"3s\"\nuntil = \"10s\"\ngroups = [[0, 1], [2, 3]]\n"
            );
            let report = run(&parse(&text).expect("a scenario"), seed);
            passes(&report);
            // Slots that had the votes of a quorum before the partition are committed within a few delays.
            let inside: Vec<_> = report.timeline.iter().filter(|second| (4..10).contains(&second.second)).collect();
            assert_eq!(inside.len(), 6);
            assert!(inside.iter().all(|second| second.committed == 0), "{engine}, seed {seed}: {inside:#?}");
            assert!(report.timeline.iter().filter(|second| second.second < 3).all(|second| second.committed > 100));
        }
    }
}

#[test]
fn payloads_give_the_same_verdict() {
    let load = |payload: &str| format!("{CALM}payload = \"{payload}\"\n");
    for payload in ["none", "transfer"] {
        passes(&run(&scenario(4, &load(payload)), 3));
    }
}

/// The contract as built by `make contracts`.
fn wasm(name: &str) -> Vec<u8> {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/contracts/wasm32-unknown-unknown/release");
    let directory = std::env::var("CONTRACTS_WASM_DIR").unwrap_or_else(|_| built.to_owned());
    let path = format!("{directory}/{name}.wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}; run `make contracts` first"))
}

#[test]
fn undeployable_contract_is_refused() {
    let scenario = scenario(4, &format!("{CALM}payload = \"counter\"\ncontract = \"counter.wasm\"\n"));
    for code in [&b""[..], b"words", b"\0asm\x01\0\0\0"] {
        let refusal = simulate(&scenario, 1, Some(code)).unwrap_err();
        assert!(refusal.contains("cannot be deployed"), "{refusal}");
    }
}

#[test]
fn load_stops_in_time() {
    let load = "duration = \"2s\"\n[network]\ndelay_ms = 20\n[load]\nrate = 10\nstop = \"50ms\"\n";
    let scenario = scenario(4, load);
    for seed in 0..50 {
        let at = load::Clients::new(&scenario, seed).next_at();
        assert!(at <= Micros::START + Micros::from_millis(50) || at == Micros::NEVER, "seed {seed}: {at:?}");
    }
}

#[test]
fn contracts_run_in_the_vm() {
    for payload in ["counter", "erc20"] {
        let wasm = wasm(payload);
        let load = format!("{CALM}payload = \"{payload}\"\ncontract = \"{payload}.wasm\"\n");
        let scenario = scenario(4, &load);
        let mut run = Run::new(&scenario, 3, Some(&wasm)).expect("the scenario needs nothing else");
        run.finish();
        passes(&run.report());
        let node = run.simulation.process(0).expect("it is up");
        let receipts = node.disk().blocks().iter().flat_map(|block| &block.receipts);
        assert!(
            receipts.clone().count() == 1_200 && receipts.clone().all(|receipt| receipt.success && receipt.logs.len() == 1)
        );
    }
}

#[test]
fn every_kind_of_fault_passes() {
    let faults = [
        "kind = \"crash\"\nat = \"2s\"\nnodes = [1]\n",
        "kind = \"crash\"\nat = \"1s\"\nnodes = [0]\nrestart_at = \"3s\"\n",
        "kind = \"crash\"\nat = \"1s\"\nnodes = [0, 1, 2, 3]\nrestart_at = \"2s\"\n",
        "kind = \"disk_loss\"\nat = \"1s\"\nnodes = [2]\nrestart_at = \"2500ms\"\n",
        "kind = \"partition\"\nat = \"1s\"\nuntil = \"3s\"\ngroups = [[0, 1], [2, 3]]\n",
        "kind = \"partition\"\nat = \"1s\"\nuntil = \"3s\"\ngroups = [[0, 1, 2], [3]]\n",
        "kind = \"delay\"\nat = \"1s\"\nuntil = \"3s\"\nnodes = [3]\nextra_ms = 300\n",
        "kind = \"slow\"\nat = \"1s\"\nuntil = \"3s\"\nnodes = [1]\nexecute_ms = 100\nwrite_ms = 50\n",
        "kind = \"loss\"\nat = \"1s\"\nuntil = \"3s\"\nfrom = [0, 1]\nto = [2, 3]\nfraction = 0.3\n",
    ];
    for fault in faults {
        for seed in 0..3 {
            let report = run(&scenario(4, &format!("{CALM}[[fault]]\n{fault}")), seed);
            assert_eq!(report.verdict, Verdict::Pass, "seed {seed}, {fault}{}\n{:#?}", report.text(), report.violations);
            assert!(report.submitted >= 1_190, "seed {seed}, {fault}{}", report.text());
        }
    }
}

const FIVE_REGIONS: &str = "
[network]
regions = [\"us-east-2\", \"us-west-2\", \"af-south-1\", \"ap-east-1\", \"eu-south-1\"]
rtt_ms = [
    [0.5, 52.0, 230.0, 195.0, 108.0],
    [52.0, 0.5, 280.0, 148.0, 152.0],
    [230.0, 280.0, 0.5, 300.0, 158.0],
    [195.0, 148.0, 300.0, 0.5, 195.0],
    [108.0, 152.0, 158.0, 195.0, 0.5],
]
jitter = 0.05
";

#[test]
#[ignore = "minutes; part of make soak"]
fn fifty_nodes_for_a_minute() {
    let rest = format!("duration = \"60s\"\n{FIVE_REGIONS}[load]\nrate = 1000\ntx_bytes = 512\n");
    let report = run(&scenario(50, &rest), 1);
    println!("{}", report.text());
    passes(&report);
}
