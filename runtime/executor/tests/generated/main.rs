//! Random contracts: blocks deploy and call modules made of all permitted instructions and host calls. They run
//! serially, in parallel and on other back ends. Complete outputs are compared: receipts with gas and logs, skips,
//! changes, roots.
//!
//! Bytes are the only input, so a fuzzer can call [`Machines::try_bytes`] directly; here the bytes come from seeds.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // also in helpers; what a long run met

#[path = "../support/mod.rs"]
mod support;

mod case;
#[path = "../../../vm/tests/common/generate.rs"]
mod generate;

use alloy_primitives::{Address, Bytes};
use case::Case;
use corniche_executor::{BlockOutput, Statistics};
use corniche_state::{Changes, StateView, Tree};
use corniche_types::Receipt;
use corniche_vm::wasm::Backend;
use corniche_vm::{NoCache, Vm, VmConfig};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use support::test_chain::{TestChain, assert_same, block, contracts};

/// Virtual machines that must agree. The first is the configuration of nodes.
struct Machines {
    node: Vm,
    others: [(Backend, Vm); 2],
}

impl Machines {
    fn new() -> Self {
        let vm = |backend| {
            let config = VmConfig { executors: 16, callers: 1, ..VmConfig::default() };
            Vm::with_backend(&config, backend, Arc::new(NoCache)).unwrap()
        };
        let others = [Backend::Winch, Backend::Pulley].map(|backend| (backend, vm(backend)));
        Self { node: vm(Backend::default()), others }
    }

    /// Runs the case from `bytes` in every way. Returns `None` if there is no case.
    fn try_bytes(&self, bytes: &[u8]) -> Option<Met> {
        let case = Case::new(bytes).expect("bytes that have run out are zeros")?;
        let mut chain = TestChain::bare(self.node.clone());
        let mut met = Met { cases: 1, ..Met::default() };
        met += self.try_block(&mut chain, &case, &case.deployments, false);
        // Give the zero address the first contract's code. Most of a contract's memory is zero, so most of the addresses
        // that it calls are zero too.
        let [first, _] = contracts();
        let account = chain.snapshot().account(&first);
        let changes = Changes { accounts: [(Address::ZERO, account)].into(), ..Changes::default() };
        chain.append(&changes);
        met += self.try_block(&mut chain, &case, &case.calls, true);
        Some(met)
    }

    fn try_block(&self, chain: &mut TestChain, case: &Case, raws: &[Bytes], calls: bool) -> Met {
        let candidates = block(raws);
        let expected = chain.serial(&candidates);
        let (output, stepped) = chain.stepped(&candidates, case.workers, case.schedule, Vec::new());
        assert_same(&output, &expected, &format!("{} workers, stepped by {}", case.workers, case.schedule));
        let (output, _) = chain.threads(&candidates, case.threads, Vec::new());
        assert_same(&output, &expected, &format!("{} threads", case.threads));
        let root = |output: &BlockOutput| Tree::default().apply(&output.changes);
        for (backend, vm) in &self.others {
            let output = chain.on(vm).serial(&candidates);
            assert_same(&output, &expected, &format!("{backend:?}"));
            assert_eq!(root(&output), root(&expected), "{backend:?}");
        }
        chain.append(&expected.changes);
        if calls { Met::in_calls(&expected, stepped) } else { Met::in_deployments(&expected) }
    }
}

/// Coverage counters: a test in which nothing happens cannot fail.
#[derive(Debug, Default)]
struct Met {
    cases: u64,
    deployed: u64,
    calls: u64,
    skipped: u64,
    /// Transactions by outcome.
    ends: BTreeMap<String, u64>,
    slots_written: u64,
    logs: u64,
    /// Logs of a contract other than the one that the transaction called.
    logs_of_others: u64,
    stepped: Statistics,
}

impl Met {
    fn in_deployments(output: &BlockOutput) -> Self {
        Self { deployed: output.receipts.iter().filter(|receipt| receipt.success).count() as u64, ..Self::default() }
    }

    fn in_calls(output: &BlockOutput, stepped: Statistics) -> Self {
        let of_others = |receipt: &Receipt| receipt.logs.iter().filter(|log| Some(log.address) != receipt.to).count() as u64;
        let mut met = Self {
            calls: output.receipts.len() as u64,
            skipped: output.skipped.len() as u64,
            slots_written: output.changes.storage.len() as u64,
            logs: output.receipts.iter().map(|receipt| receipt.logs.len() as u64).sum(),
            logs_of_others: output.receipts.iter().map(of_others).sum(),
            stepped,
            ..Self::default()
        };
        for receipt in &output.receipts {
            let reason = String::from_utf8_lossy(&receipt.output);
            let known = ["out of gas", "contract trapped: "].iter().any(|start| reason.starts_with(start));
            let end = if receipt.success {
                "success"
            } else if known {
                &reason
            } else {
                "revert"
            };
            *met.ends.entry(end.into()).or_default() += 1;
        }
        met
    }

    fn ended(&self, how: &str) -> u64 {
        self.ends.iter().filter(|(end, _)| end.starts_with(how)).map(|(_, count)| count).sum()
    }
}

impl AddAssign for Met {
    fn add_assign(&mut self, more: Self) {
        self.cases += more.cases;
        self.deployed += more.deployed;
        self.calls += more.calls;
        self.skipped += more.skipped;
        more.ends.into_iter().for_each(|(end, count)| *self.ends.entry(end).or_default() += count);
        self.slots_written += more.slots_written;
        self.logs += more.logs;
        self.logs_of_others += more.logs_of_others;
        self.stepped += more.stepped;
    }
}

fn number(name: &str, usual: u64) -> u64 {
    #[allow(clippy::disallowed_methods)] // tests are configured by their environment
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Tests `CORNICHE_MODULES` seeds starting at `CORNICHE_SEED`: a few hundred in CI, thousands in `make soak`.
#[test]
fn serial_parallel_and_backends_agree() {
    let machines = Machines::new();
    let first = number("CORNICHE_SEED", 0);
    let seeds = number("CORNICHE_MODULES", 250);
    let mut met = Met::default();
    for seed in first..first + seeds {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| machines.try_bytes(&case::bytes(seed))));
        match found {
            Ok(found) => met += found.unwrap_or_default(),
            Err(panic) => {
                println!("seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{met:#?}");
    assert!(met.cases * 10 > seeds * 8, "too few come to anything: {met:?}");
    if seeds >= 100 {
        let share = |count: u64, of: u64, percent: u64| assert!(count * 100 >= of * percent, "{count} of {of}: {met:?}");
        share(met.deployed, met.cases, 100);
        share(met.ended("success"), met.calls, 25);
        share(met.ended("contract trapped"), met.calls, 5);
        share(met.ended("out of gas"), met.calls, 10);
        share(met.slots_written, met.cases, 100);
        share(met.logs, met.cases, 100);
        share(met.logs_of_others, met.logs, 2);
        share(met.stepped.invalidations, met.cases, 50);
    }
}
