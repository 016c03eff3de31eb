//! The most CPU time that a block's gas can buy: `cargo bench --profile dev --workspace --bench worst_block`.
//! `CORNICHE_SEED` selects another search, `CORNICHE_STEPS` a longer one.
//!
//! Runs known bad shapes ([`shapes`]) and a search: loops over random mixes of instructions and host calls, of which
//! the most expensive are mutated and tried again. The measure is CPU time of one thread per gas, the minimum of
//! several runs. The limit is half a second for a whole block of [`BLOCK_GAS`]. Deployments count too: they buy
//! compiler time.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)] // a tool: it prints, and the environment sets the seed of a search

mod shapes;
mod support;

use alloy_primitives::{Address, Bytes};
use corniche_vm::VmConfig;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use shapes::{Shape, fragments};
use std::io::Write;
use support::{Bench, SUBJECT, again, module, processor_time};

/// The default `block_gas_limit` of a genesis.
const BLOCK_GAS: u64 = 30_000_000;
const BAR_MS: f64 = 500.0;
/// Gas of a first measurement; candidates that look expensive are measured again with more.
const LOOK_GAS: u64 = 1_000_000;
const LONG_GAS: u64 = 6_000_000;
/// Numbers of executors for which a node keeps instances.
const THREADS: [u32; 3] = [2, 4, 16];
/// Number of mixes that are kept and mutated.
const KEPT: usize = 12;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Milliseconds for a full block.
fn per_block(per_gas: f64) -> f64 {
    per_gas * BLOCK_GAS as f64 / 1e6
}

fn measure(bench: &mut Bench, wasm: &[u8], gas: u64, times: u32) -> f64 {
    bench.deploy(SUBJECT, wasm);
    bench.least(times, Some(SUBJECT), &Bytes::new(), gas).per_gas()
}

/// A loop: fragments, with the number of repetitions of each.
#[derive(Clone)]
struct Mix(Vec<(usize, usize)>);

impl Mix {
    fn random(random: &mut Random, fragments: usize) -> Self {
        let parts = 1 + random.below(4);
        Self((0..parts).map(|_| (random.below(fragments), 1 << random.below(6))).collect())
    }

    fn changed(&self, random: &mut Random, fragments: usize) -> Self {
        let mut parts = self.0.clone();
        let at = random.below(parts.len());
        match random.below(4) {
            0 if parts.len() > 1 => drop(parts.remove(at)),
            1 if parts.len() < 8 => parts.push((random.below(fragments), 1 << random.below(6))),
            2 => parts[at].1 = 1 << random.below(7),
            _ => parts[at].0 = random.below(fragments),
        }
        Self(parts)
    }

    fn wasm(&self, pages: u32) -> Vec<u8> {
        let fragments = fragments(pages);
        let body: String = self.0.iter().map(|(fragment, times)| fragments[*fragment].repeat(*times)).collect();
        shapes::mixed(pages, &body)
    }

    fn describe(&self, pages: u32) -> String {
        let fragments = fragments(pages);
        let parts: Vec<String> =
            self.0.iter().map(|(fragment, times)| format!("{times} × {}", fragments[*fragment].trim())).collect();
        format!("{pages} pages: {}", parts.join(" "))
    }
}

/// Numbers that are a function of the seed.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }
}

fn search(bench: &mut Bench, seed: u64, steps: u64) -> Vec<(String, f64)> {
    let mut random = Random(SplitMix64::seed_from_u64(seed));
    let count = fragments(1).len();
    let mut kept: Vec<(f64, u32, Mix)> = Vec::new();
    for step in 0..steps {
        let pages = [1, 2, 17, 32, 64, 128][random.below(6)];
        let (pages, mix) = match kept.get(random.below(KEPT)) {
            Some((_, pages, mix)) if step % 3 > 0 => (*pages, mix.changed(&mut random, count)),
            _ => (pages, Mix::random(&mut random, count)),
        };
        kept.push((measure(bench, &mix.wasm(pages), LOOK_GAS, 2), pages, mix));
        kept.sort_by(|one, other| other.0.total_cmp(&one.0));
        kept.truncate(KEPT);
    }
    // Measure again, because the first measurement may have been disturbed.
    kept.iter().map(|(_, pages, mix)| (mix.describe(*pages), measure(bench, &mix.wasm(*pages), LONG_GAS, 5))).collect()
}

/// Nanoseconds per gas of a deployment; the gas for its input is not included.
fn deployment(bench: &Bench, wasm: &[u8], salt: u64) -> f64 {
    // A custom section makes each code unique, so none is compiled already.
    let mut unique = wasm.to_vec();
    unique.extend_from_slice(&[0, 10, 1, b'n']);
    unique.extend_from_slice(&salt.to_le_bytes());
    let mut data = vec![0xef, 0xf0, 0, 0];
    let mut writer = brotli::CompressorWriter::new(&mut data, 4_096, 9, 22);
    writer.write_all(&unique).unwrap();
    drop(writer);
    let (cost, end) = bench.run(None, &data.into(), 4_000_000_000);
    assert!(matches!(end, corniche_vm::ExecutionStatus::Success), "{} bytes: {end:?}", wasm.len());
    cost.per_gas()
}

fn main() {
    let (seed, steps) = (variable("CORNICHE_SEED", 1), variable("CORNICHE_STEPS", 400));
    let start = processor_time();
    let mut bench = Bench::new(&VmConfig { executors: 1, callers: 2, ..VmConfig::default() });
    bench.deploy(Address::repeat_byte(0xee), &module("1", "", "", &again("(call $msg_reentrant) drop")));
    let mut found: Vec<(String, f64)> = Vec::new();
    for Shape { name, wasm } in shapes::shapes() {
        found.push((name, measure(&mut bench, &wasm, LONG_GAS, 3)));
    }
    for (index, Shape { name, wasm }) in shapes::deployments().into_iter().enumerate() {
        let tries = (0..2).map(|turn| deployment(&bench, &wasm, (index * 2 + turn) as u64));
        found.push((format!("deployment: {name}, {} bytes", wasm.len()), tries.fold(f64::MAX, f64::min)));
    }
    let mut keeps_nothing = Bench::new(&VmConfig { executors: 1, callers: 2, idle_instance_bytes: 0, ..VmConfig::default() });
    found.extend(shapes::cold(&mut keeps_nothing));
    for threads in THREADS {
        // The runs are calls, and a node keeps a quarter of the instances for calls that it keeps for blocks.
        let idle_instance_bytes = 4 * VmConfig::default().idle_instance_bytes;
        let mut bench = Bench::new(&VmConfig { executors: 1, callers: threads, idle_instance_bytes, ..VmConfig::default() });
        let rows = [shapes::warm(&mut bench), shapes::nested(&mut bench), shapes::grown(&mut bench)].concat();
        found.extend(rows.into_iter().map(|(name, per_gas)| (format!("{name}, {threads} threads"), per_gas)));
    }
    found.extend(search(&mut bench, seed, steps));
    found.sort_by(|one, other| other.1.total_cmp(&one.1));
    println!("seed {seed}, {steps} steps, {:.0} s; a block has {BLOCK_GAS} gas\n", (processor_time() - start) / 1e9);
    println!("| what | ns a gas | ms a block |\n|---|---|---|");
    for (name, per_gas) in &found {
        println!("| {name} | {per_gas:.2} | {:.0} |", per_block(*per_gas));
    }
    // Happens once per code and start of a node, so it cannot fill a block.
    for (name, nanoseconds) in shapes::unpaid() {
        println!("\n{name}: {:.0} µs", nanoseconds / 1e3);
    }
    let worst = per_block(found[0].1);
    println!("\nthe worst takes {worst:.0} ms of {BAR_MS:.0}");
    if worst > BAR_MS {
        std::process::exit(1);
    }
}
