//! Compiles the chain's code before the node needs it.
//!
//! Compiled code is specific to one binary and one processor. After an update, a move, or the loss of `code/`
//! there is none. A block that calls such code would then wait for the compiler, although its gas pays only
//! for loading. So a validator compiles all code of its state before it votes. A full node, for which nothing
//! waits, compiles while it follows.

use corniche_state::State;
use corniche_types::{B256, Bytes};
use corniche_vm::{THREAD_STACK_BYTES, Vm};
use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Interval of progress lines in the log.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Compiles code without compiled form, on all processors; returns when done.
pub fn compile_before_voting(vm: &Vm, state: &State) -> io::Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    compile(vm, &code_of(state), threads)
}

/// Compiles code without compiled form, on one thread, while the node runs.
pub fn compile_in_background(vm: &Vm, state: &State) -> io::Result<()> {
    let (vm, code) = (vm.clone(), code_of(state));
    let builder = thread::Builder::new().name("compile".into());
    builder.spawn(move || {
        if let Err(error) = compile(&vm, &code, 1) {
            tracing::warn!(%error, "the code of contracts is compiled when it is called");
        }
    })?;
    Ok(())
}

fn code_of(state: &State) -> Vec<(B256, u8, Bytes)> {
    state.code_in_use().into_iter().map(|((hash, gas_version), code)| (hash, gas_version, code)).collect()
}

fn compile(vm: &Vm, code: &[(B256, u8, Bytes)], threads: usize) -> io::Result<()> {
    let progress = Progress::new(code.len());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((hash, gas_version, code)) = code.get(next.fetch_add(1, Ordering::Relaxed)) {
            match vm.compile_ahead(*gas_version, hash, code) {
                Ok(compiled) => progress.advance(compiled),
                // Calls of it will fail; other code need not wait for that.
                Err(error) => tracing::error!(%hash, %error, "code of the state cannot be compiled"),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.min(code.len()) {
            let builder = thread::Builder::new().name("compile".into()).stack_size(THREAD_STACK_BYTES);
            builder.spawn_scoped(scope, work)?;
        }
        Ok::<(), io::Error>(())
    })?;
    progress.end();
    Ok(())
}

struct Progress {
    contracts: usize,
    checked: AtomicUsize,
    compiled: AtomicUsize,
    began: Instant,
    reported: Mutex<Instant>,
}

impl Progress {
    fn new(contracts: usize) -> Self {
        let began = Instant::now();
        Self { contracts, checked: AtomicUsize::new(0), compiled: AtomicUsize::new(0), began, reported: Mutex::new(began) }
    }

    fn advance(&self, compiled: bool) {
        let checked = self.checked.fetch_add(1, Ordering::Relaxed) + 1;
        if !compiled {
            return;
        }
        let compiled = self.compiled.fetch_add(1, Ordering::Relaxed) + 1;
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled == 1 {
            tracing::info!(contracts = self.contracts, "compiling the code of contracts for this binary and processor");
        } else if reported.elapsed() >= REPORT_INTERVAL {
            *reported = Instant::now();
            tracing::info!(contracts = self.contracts, checked, compiled, "compiling the code of contracts");
        }
    }

    fn end(&self) {
        let compiled = self.compiled.load(Ordering::Relaxed);
        if compiled > 0 {
            tracing::info!(compiled, seconds = self.began.elapsed().as_secs(), "the code of contracts is compiled");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        genesis::{NetworkSpec, make_network},
        node::chain::Site,
    };
    use corniche_types::{Address, GenesisAccount, keccak256};

    fn contract(result: u8) -> Bytes {
        let text = format!(
            r#"(module (memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const {result}))"#
        );
        wat::parse_str(text).unwrap().into()
    }

    /// A validator with its data directory, and one that lost its compiled code: both vote only after all
    /// code is compiled.
    #[test]
    fn a_validator_has_compiled_all_code_before_it_votes() {
        let directory = tempfile::tempdir().unwrap();
        let mut network = make_network(&NetworkSpec { validators: 1, ..NetworkSpec::default() }).unwrap();
        let codes = [0, 1, 2].map(contract);
        for (number, code) in (1..).zip(&codes) {
            let account = GenesisAccount { code: code.clone(), nonce: 1, ..GenesisAccount::default() };
            network.genesis.accounts.insert(Address::repeat_byte(number), account);
        }
        let data = directory.path().join("data");
        let config = toml::from_str("genesis = 'genesis.json'").unwrap();
        let site = Site::new(config, network.genesis, network.validators.pop(), data.clone(), false).unwrap();
        let gas_version = corniche_types::ProtocolRules::LATEST.gas_version;
        for _ in 0..2 {
            let chain = site.open(false, None).unwrap();
            for code in &codes {
                assert_eq!(chain.vm.compile_ahead(gas_version, &keccak256(code), code), Ok(false), "its artefact is there");
            }
            drop(chain);
            std::fs::remove_dir_all(data.join("code")).unwrap();
        }
    }
}
