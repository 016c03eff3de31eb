//! Compiles the chain's code before the node needs it.
//!
//! Compiled code is specific to one binary and one processor. After an update, a move, or the loss of `code/`
//! there is none. A block that calls such code would then wait for the compiler, although its gas pays only
//! for loading. So a validator compiles all code of its state before it votes. Until then it serves RPC and
//! follows, as a full node does.

use corniche_state::State;
use corniche_types::{B256, Bytes};
use corniche_vm::{THREAD_STACK_BYTES, Vm};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Interval of progress lines in the log.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Code of the state without an artefact.
pub struct WarmUp {
    vm: Vm,
    /// Code hash, gas version and stored code.
    code: Vec<(B256, u8, Bytes)>,
}

impl WarmUp {
    /// Returns `None` if all code is compiled.
    pub fn new(vm: &Vm, state: &State) -> Option<Self> {
        let code = state.code_in_use().into_iter().map(|((hash, gas_version), code)| (hash, gas_version, code));
        let code: Vec<_> = code.filter(|(hash, gas_version, _)| !vm.is_compiled(*gas_version, hash)).collect();
        (!code.is_empty()).then(|| Self { vm: vm.clone(), code })
    }

    /// Compiles beside the node, then calls `done`. A validator uses all processors because others may wait for its vote; a full node
    /// uses one.
    pub fn start(self, is_validator: bool, done: impl FnOnce() + Send + 'static) {
        let threads = if is_validator { processors() } else { 1 };
        let body = move || {
            self.compile(threads);
            done();
        };
        builder().spawn(body).expect("the system has room for a thread");
    }

    /// Compiles before it returns. Nothing is left to do then.
    pub fn finish(self) -> Option<Self> {
        self.compile(processors());
        None
    }

    fn compile(&self, threads: usize) {
        let progress = Progress::new(self.code.len());
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((hash, gas_version, code)) = self.code.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.vm.compile_ahead(*gas_version, hash, code) {
                    // Calls of it will fail; other code need not wait for that.
                    tracing::error!(%hash, %error, "code of the state cannot be compiled");
                }
                progress.advance();
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.min(self.code.len()) {
                // A system without room for more threads compiles on fewer.
                let _ = builder().spawn_scoped(scope, work);
            }
            work();
        });
        tracing::info!(
            contracts = self.code.len(),
            seconds = progress.began.elapsed().as_secs(),
            "the code of contracts is compiled"
        );
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn builder() -> thread::Builder {
    thread::Builder::new().name("compile".into()).stack_size(THREAD_STACK_BYTES)
}

struct Progress {
    contracts: usize,
    compiled: AtomicUsize,
    began: Instant,
    reported: Mutex<Instant>,
}

impl Progress {
    fn new(contracts: usize) -> Self {
        tracing::info!(
            contracts,
            "compiling the code of contracts for this binary and processor; a validator votes afterwards"
        );
        let began = Instant::now();
        Self { contracts, compiled: AtomicUsize::new(0), began, reported: Mutex::new(began) }
    }

    fn advance(&self) {
        let compiled = self.compiled.fetch_add(1, Ordering::Relaxed) + 1;
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.elapsed() >= REPORT_INTERVAL {
            *reported = Instant::now();
            tracing::info!(contracts = self.contracts, compiled, "compiling the code of contracts");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        EngineParts, Keyring, NetworkSpec, Validator, VerifiedGenesis,
        chain::{Chain, NodeContext},
        clock, make_network,
        testing::spec,
    };
    use corniche_engine::{Engine, Input as EngineInput, Output as EngineOutput, PeerFault, Verified, Verifier};
    use corniche_pipeline::{Input, Output};
    use corniche_types::{Address, Genesis, GenesisAccount, TimestampMs, ValidatorIndex, keccak256};
    use std::sync::{Arc, mpsc};

    fn contract(result: u8) -> Bytes {
        let text = format!(
            r#"(module (memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const {result}))"#
        );
        wat::parse_str(text).unwrap().into()
    }

    /// Engine that does nothing.
    struct Silent;

    impl Engine for Silent {
        fn handle(&mut self, _: TimestampMs, _: EngineInput) {}

        fn poll(&mut self) -> Option<EngineOutput> {
            None
        }

        fn deadline(&self) -> Option<TimestampMs> {
            None
        }
    }

    impl Verifier for Silent {
        fn cost(&self, _: &[u8]) -> u64 {
            0
        }

        fn verify(&self, _: ValidatorIndex, _: &Bytes) -> Result<Verified, PeerFault> {
            Err(PeerFault("nothing is expected".into()))
        }
    }

    fn silent_engine(_: &Genesis, _: Keyring) -> anyhow::Result<EngineParts> {
        Ok((Box::new(|_| Arc::new(Silent)), Box::new(|_| Box::new(Silent))))
    }

    /// A validator with its data directory, and one that lost its compiled code: both open at once, and vote only
    /// with all code compiled.
    #[test]
    fn validator_compiles_before_voting() {
        let directory = tempfile::tempdir().unwrap();
        let mut network = make_network(&NetworkSpec { validators: 1, ..spec() }).unwrap();
        let codes = [0, 1, 2].map(contract);
        for (number, code) in (1..).zip(&codes) {
            let account = GenesisAccount { code: code.clone(), nonce: 1, ..GenesisAccount::default() };
            network.genesis.accounts.insert(Address::repeat_byte(number), account);
        }
        let data = directory.path().join("data");
        let config = toml::from_str("genesis = 'genesis.json'").unwrap();
        let validator = network.validators.pop().map(|keys| Validator { keys: keys.into(), engine: silent_engine });
        let context =
            NodeContext::new(config, VerifiedGenesis::new(network.genesis).unwrap(), validator, data.clone()).unwrap();
        let gas_version = corniche_types::ProtocolRules::LATEST.gas_version;
        let is_compiled = |vm: &Vm| codes.iter().all(|code| vm.is_compiled(gas_version, &keccak256(code)));
        for _ in 0..2 {
            let mut chain = context.open(false, None, None).unwrap();
            assert!(!is_compiled(&chain.vm), "the start waits for no compiler");
            let reads_safety_log = |chain: &mut Chain| {
                std::iter::from_fn(|| chain.pipeline.poll()).any(|output| matches!(output, Output::ReadSafetyLog))
            };
            assert!(!reads_safety_log(&mut chain), "no engine is built");
            let (done, is_done) = mpsc::channel();
            let vm = chain.vm.clone();
            chain.warm_up.take().expect("code is missing").start(true, move || done.send(vm).unwrap());
            assert!(is_compiled(&is_done.recv().unwrap()));
            chain.pipeline.handle(clock::now(), Input::MayVote);
            assert!(reads_safety_log(&mut chain));
            drop(chain);
            assert!(context.open(false, None, None).unwrap().warm_up.is_none(), "artefacts stay");
            std::fs::remove_dir_all(data.join("code")).unwrap();
        }
    }
}
