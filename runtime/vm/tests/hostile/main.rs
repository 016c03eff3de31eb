//! A corpus of hostile contracts: each module implements one attack.
//!
//! A module is refused at deployment, or it runs and ends with a bounded cost. Outcome and exact gas are frozen in
//! `frozen.txt`, for each gas version. Every module runs with an empty and a full pool of instances and on a second
//! compiler, none of which may have a visible effect. The test prints CPU time per gas without a check; more than 25 ns
//! is a finding.
//!
//! `cargo test -p corniche-vm --test hostile -- --nocapture` prints the table; with `UPDATE_GAS=1` it writes
//! `frozen.txt` again.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, clippy::disallowed_types)] // a table, a variable of the environment, a lock

mod binary;
mod calls;
mod code;
mod features;
mod host;
mod limits;
mod memory;
#[path = "../../benches/support/mod.rs"]
mod support;

use alloy_primitives::{Address, Bytes, keccak256};
use corniche_types::ProtocolRules;
use corniche_vm::wasm::{Backend, validate};
use corniche_vm::{ExecutionStatus, NoCache, Rules, Vm, VmConfig};
use std::collections::BTreeSet;
use std::sync::Arc;
use support::{Artefacts, Bench, Cost, NOTHING, SUBJECT, processor_time};

/// An attack.
pub struct Attack {
    pub name: String,
    /// The attacker's goal.
    pub goal: &'static str,
    pub wasm: Vec<u8>,
    /// Gas limit of the call.
    pub gas: u64,
    /// Other contracts that it calls.
    pub others: Vec<(Address, Vec<u8>)>,
}

/// Enough to measure a loop, and for the most expensive single step.
const GAS: u64 = 1_000_000;
/// CPU time per gas, in ns, above which an attack is a finding.
const FINDING: f64 = 25.0;

pub fn attack(name: impl Into<String>, goal: &'static str, wasm: Vec<u8>) -> Attack {
    Attack { name: name.into(), goal, wasm, gas: GAS, others: Vec::new() }
}

impl Attack {
    #[must_use]
    pub fn gas(self, gas: u64) -> Self {
        Self { gas, ..self }
    }

    #[must_use]
    pub fn with(mut self, at: Address, wasm: Vec<u8>) -> Self {
        self.others.push((at, wasm));
        self
    }
}

fn attacks() -> Vec<Attack> {
    [
        binary::attacks(),
        features::attacks(),
        limits::attacks(),
        code::attacks(),
        memory::attacks(),
        host::attacks(),
        calls::attacks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Nodes with one chain, which differ in everything that must stay invisible.
struct Nodes {
    /// Keeps no instances and no code: each run loads everything.
    cold: Bench,
    /// Keeps as many instances as a node with eight executors.
    warm: Bench,
    other_compiler: Bench,
}

impl Nodes {
    fn new() -> Self {
        let config = VmConfig { executors: 1, callers: 1, ..VmConfig::default() };
        let cold = VmConfig { contract_cache_bytes: 0, idle_instance_bytes: 0, ..config.clone() };
        let warm = VmConfig { callers: 8, ..config.clone() };
        let winch = Vm::with_backend(&config, Backend::Winch, Arc::new(NoCache)).unwrap();
        Self {
            cold: Bench::with_cache(&cold, Arc::<Artefacts>::default()),
            warm: Bench::new(&warm),
            other_compiler: Bench::on(winch),
        }
    }

    fn each(&mut self) -> [&mut Bench; 3] {
        [&mut self.cold, &mut self.warm, &mut self.other_compiler]
    }
}

/// Result of one attack under one gas version.
struct Outcome {
    frozen: String,
    /// Times in ns per gas: deployment (validation if the module is refused, otherwise compilation), a run on the cold
    /// node, a run on the warm one.
    deployment: f64,
    cold: f64,
    warm: f64,
}

fn try_out(nodes: &mut Nodes, rules: &'static ProtocolRules, attack: &Attack) -> Outcome {
    let schedule = corniche_vm::wasm::gas::schedule(rules.gas_version).unwrap();
    let head = format!("{} | {}", attack.name, rules.gas_version);
    let start = processor_time();
    let checked = validate::check_with_schedule(schedule, Rules::default(), &attack.wasm);
    let nanoseconds = processor_time() - start;
    // Minimum additional cost of a creation.
    let creation = 32_000;
    let price = match checked {
        Ok(checked) => checked.compile_gas(),
        Err(error) => {
            let paid = creation + schedule.compile_gas(attack.wasm.len(), []);
            let frozen = format!("{head} | refused: {error}");
            return Outcome { frozen, deployment: nanoseconds / paid as f64, cold: 0.0, warm: 0.0 };
        }
    };
    for bench in nodes.each() {
        bench.rules = rules;
        bench.deploy(SUBJECT, &attack.wasm);
        attack.others.iter().for_each(|(at, wasm)| bench.deploy(*at, wasm));
    }
    let start = processor_time();
    nodes.cold.vm.compile_ahead(rules.gas_version, &keccak256(&attack.wasm), &attack.wasm).unwrap();
    let deployment = (processor_time() - start) / (price + creation) as f64;
    let (cold, end) = run(&nodes.cold, attack, 1);
    let (warm, again) = run(&nodes.warm, attack, 2);
    let (other, elsewhere) = run(&nodes.other_compiler, attack, 1);
    assert_eq!((&again, warm.gas), (&end, cold.gas), "{head}: the pool of instances shows");
    assert_eq!((&elsewhere, other.gas), (&end, cold.gas), "{head}: the compiler shows");
    let frozen = format!("{head} | {price} to deploy, {} to run: {}", cold.gas, text(&end));
    Outcome { frozen, deployment, cold: cold.per_gas(), warm: warm.per_gas() }
}

/// Returns the cheapest of `times + 1` runs. Gas and outcome of all runs must be equal.
fn run(bench: &Bench, attack: &Attack, times: u32) -> (Cost, ExecutionStatus) {
    let input = Bytes::new();
    let run = || bench.run(Some(SUBJECT), &input, attack.gas);
    let mut best = run();
    for _ in 0..times {
        // Loads another code, so that the node without a pool does not keep this one.
        bench.run(Some(NOTHING), &input, 100_000);
        let next = run();
        assert_eq!((next.0.gas, &next.1), (best.0.gas, &best.1), "{}: the second run differs", attack.name);
        best.0.nanoseconds = best.0.nanoseconds.min(next.0.nanoseconds);
    }
    best
}

fn text(end: &ExecutionStatus) -> String {
    match end {
        ExecutionStatus::Success => "success".into(),
        ExecutionStatus::Revert => "revert".into(),
        end => end.reason().unwrap_or_default(),
    }
}

#[test]
fn attack_results_are_frozen() {
    let attacks = attacks();
    let names: BTreeSet<&str> = attacks.iter().map(|attack| attack.name.as_str()).collect();
    assert!(names.len() == attacks.len() && names.len() >= 60, "{} attacks, {} names", attacks.len(), names.len());
    assert!(attacks.iter().all(|attack| attack.goal.ends_with('.')), "a goal is a sentence");
    let mut nodes = Nodes::new();
    let mut rows = Vec::new();
    for attack in &attacks {
        for rules in [&ProtocolRules::V1, &ProtocolRules::V2] {
            rows.push(try_out(&mut nodes, rules, attack));
        }
    }
    let frozen: String = rows.iter().map(|row| format!("{}\n", row.frozen)).collect();
    rows.sort_by(|one, other| other.worst().total_cmp(&one.worst()));
    println!("{} attacks; ns per gas of deployment, cold run, warm run", attacks.len());
    for row in &rows {
        let mark = if row.worst() > FINDING { "FINDING" } else { "" };
        println!("{:7.2} {:7.2} {:7.2} {mark:7} {}", row.deployment, row.cold, row.warm, row.frozen);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/frozen.txt");
    if std::env::var_os("UPDATE_GAS").is_some() {
        std::fs::write(path, &frozen).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    for (found, expected) in frozen.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(frozen.lines().count(), expected.lines().count(), "frozen.txt has other attacks; UPDATE_GAS=1 rewrites it");
}

impl Outcome {
    fn worst(&self) -> f64 {
        self.deployment.max(self.cold).max(self.warm)
    }
}
