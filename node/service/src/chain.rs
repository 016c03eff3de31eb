//! Opens a chain from its data directory and prepares it to run: store, state, virtual machine, engine and
//! pipeline.

use crate::{
    NodeConfig,
    backend::{Dag, Readers},
    clock,
    epochs::EpochVerifiers,
    genesis::VerifiedGenesis,
    keys::{Keyring, MemberKeys, Signing},
    warm_up::WarmUp,
};
use anyhow::{Context, bail, ensure};
use corniche_admission::{PoolConfig, Rotation};
use corniche_crypto::evidence::Evidence;
use corniche_engine::{Committee, Verifier};
use corniche_executor::{SingleThread, SpeculationLimits, WorkerPool};
use corniche_pipeline::{
    CertificateKeys, ChainBase, EngineFactory, EpochStart, ExecutionStage, ExecutionStart, Extension, Halted, NodeKeys,
    NoticeAuthor, Pipeline, RestartPoint, Runner, Sealer, Setup, is_one_validator, is_useful,
};
use corniche_signer::RemoteSigner;
use corniche_state::{SharedTree, State, StateView};
use corniche_store::{CodeCache, DataDirectory, History, Options, Reader, Recovered, Store, Trace, snapshots::StoredSnapshot};
use corniche_threads::Threads;
use corniche_types::{B256, Epoch, Genesis, Header, Height, KnownVersions, Resume, header_hash, wire};
use corniche_vm::{Rules, Vm, VmConfig, wasm::ModuleCache};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Upper limit: each thread reserves address space for contract instances.
const MAX_EXECUTION_THREADS: usize = 16;

/// Checkpoint interval in blocks, and lag behind the head, for a node that keeps old states on disk. States
/// that are not on disk yet must be in memory, which holds several times as many.
const HISTORY_CHECKPOINT_BLOCKS: u64 = 32;

/// Verifier of peers' messages, and factory of the engine from the store's state.
pub type EngineParts = (VerifierFactory, EngineFactory);

/// Creates the verifier of a committee's messages.
pub type VerifierFactory = Box<dyn Fn(&Committee) -> Arc<dyn Verifier> + Send + Sync>;

/// Builds the engine of a genesis for a validator. Called at each start of the chain's threads.
pub type EngineBuilder = fn(&Genesis, Keyring) -> anyhow::Result<EngineParts>;

/// Keys of a validator, and its engine.
#[derive(Clone)]
pub struct Validator {
    pub keys: Keyring,
    pub engine: EngineBuilder,
}

/// Configuration, keys and location of a chain.
pub struct NodeContext {
    pub config: NodeConfig,
    pub genesis: Arc<Genesis>,
    /// `None`: a full node.
    pub validator: Option<Validator>,
    pub data: PathBuf,
    /// True if the data directory is deleted with the process, so that nothing has to wait for the disk.
    pub temporary: bool,
}

/// Seed for an engine, different at every start: old responses to "what did I sign last?" must not count as new ones.
pub fn fresh_seed() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = B256::random().0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Opened chain, ready to continue.
pub struct Chain {
    pub store: Store,
    pub state: State,
    pub tree: SharedTree,
    pub vm: Vm,
    pub verifiers: Arc<EpochVerifiers>,
    pub pipeline: Pipeline,
    pub runner: Runner,
    pub sealer: Sealer,
    pub threads: Arc<dyn WorkerPool>,
    pub height: Height,
    pub certified: Height,
    pub resume: Resume,
    /// Code of the state that is not compiled yet. A validator votes when it is.
    pub warm_up: Option<WarmUp>,
    /// Base fee of the next block if it were made now.
    pub base_fee: u64,
}

impl NodeContext {
    pub fn new(
        config: NodeConfig,
        genesis: VerifiedGenesis,
        validator: Option<Validator>,
        data: PathBuf,
    ) -> anyhow::Result<Self> {
        if let Some(Validator { keys, .. }) = &validator {
            check_keys(&genesis, &keys.current)?;
        }
        Ok(Self { config, genesis: Arc::new(genesis.into()), validator, data, temporary: false })
    }

    /// Store options of this chain.
    pub fn options(&self) -> Options {
        // Only a validator has an engine to trace.
        let trace_bytes = if self.is_validator() { self.config.limits.trace_mib.saturating_mul(1 << 20) } else { 0 };
        let (default, history) = (Options::default(), self.config.state.history);
        Options {
            backend: self.config.index,
            trace_bytes,
            sync: !self.temporary,
            history,
            checkpoint_lag: if self.keeps_history() { HISTORY_CHECKPOINT_BLOCKS } else { default.checkpoint_lag },
            checkpoint_blocks: if self.keeps_history() { HISTORY_CHECKPOINT_BLOCKS } else { default.checkpoint_blocks },
            ..default
        }
    }

    fn keeps_history(&self) -> bool {
        self.config.state.history != History::Off
    }

    /// Opens the chain, with an existing virtual machine or a new one. The extension is `None` on a real network.
    pub fn open(&self, rebuild: bool, vm: Option<Vm>, extension: Option<Box<dyn Extension>>) -> anyhow::Result<Chain> {
        let (store, recovered) = Store::open(&self.data, &self.genesis, Options { rebuild, ..self.options() })?;
        if let Some(keys) = self.keys() {
            claim_data_dir(&self.data, keys.consensus_key(), &recovered.state.latest())?;
        }
        report_recovery(&recovered)?;
        let chain = self.prepare(store, recovered, vm, extension)?;
        if self.genesis.has_known_coin() && chain.pipeline.coin().generation == Epoch(0) {
            tracing::warn!(
                "the creator of the genesis dealt the coin and could know it; `corniche genesis draft` begins one that nobody knows"
            );
        }
        Ok(chain)
    }

    /// Prepares the opened store to run.
    pub fn prepare(
        &self,
        store: Store,
        recovered: Recovered,
        vm: Option<Vm>,
        extension: Option<Box<dyn Extension>>,
    ) -> anyhow::Result<Chain> {
        let (genesis, limits) = (&self.genesis, &self.config.limits);
        let reader = store.reader();
        let threads = limits.execution_threads.clamp(1, MAX_EXECUTION_THREADS);
        let (vm, warm_up) = match vm {
            Some(vm) => (vm, None),
            None => {
                let vm = open_vm(genesis, threads, store.code_cache())?;
                let warm_up = WarmUp::new(&vm, &recovered.state);
                (vm, warm_up)
            }
        };
        // Commands need the engine from the start.
        let warm_up = if extension.is_some() { warm_up.and_then(WarmUp::finish) } else { warm_up };
        let build = |Validator { keys, engine }: &Validator| engine(genesis, keys.clone());
        let (verifier_factory, engine_factory) = self.validator.as_ref().map(build).transpose()?.unzip();
        let base = chain_base(genesis, recovered.base.as_deref());
        // The block of a snapshot is certified, by itself or by a later one.
        let certified = recovered.certificate.as_ref().map_or(base.height, |certificate| certificate.height.max(base.height));
        let height = recovered.head.height();
        let restart = RestartPoint::new(
            base,
            height,
            certified,
            recovered.resume.clone(),
            |height| header_at(&reader, height),
            |height| reader.ordering(height).expect("invariant: every height from the base up to the head is stored"),
        );
        let state = recovered.state.clone();
        let stage = ExecutionStage::new(
            genesis.clone(),
            vm.clone(),
            ExecutionStart {
                state: state.clone(),
                tree: recovered.tree,
                head: restart.head.clone(),
                epoch: restart.epoch,
                known: KnownVersions::default(),
                gas_in_second: restart.gas_in_second,
                hashes: restart.hashes,
            },
        );
        let base_fee = stage.base_fee_at(clock::now().0 / 1000);
        let (runner, sealer) = stage.split();
        let tree = sealer.tree();
        let runner = if limits.speculation { runner.with_speculation(SpeculationLimits::default()) } else { runner };
        // The execution thread is one of them.
        let threads: Arc<dyn WorkerPool> =
            if threads > 1 { Arc::new(Threads::start(threads)?) } else { Arc::new(SingleThread) };
        let directives = extension.as_ref().map(|extension| extension.directives());
        let runner = runner.with_pool(threads.clone()).with_directives(directives);
        let resume = recovered.resume.clone();
        let min_recent = if self.keeps_history() { Options::default().checkpoint_lag } else { 0 };
        let committee = restart.ordering.epoch.committee(genesis, &state.latest());
        let is_member = self.keyring().is_some_and(|keys| keys.member_of(&committee).is_some());
        if self.is_validator() && !is_member {
            let epoch = committee.epoch().0;
            tracing::info!(
                epoch,
                "the keys are of no member of the committee: the node follows, and announces itself once they are registered"
            );
        }
        let verifiers = Arc::new(EpochVerifiers::new(&committee, is_member, verifier_factory));
        let has_no_block = height == Height(0) || reader.block(height).is_none();
        let never_signed = DataDirectory::new(&self.data).unsigned().exists();
        let pipeline = Pipeline::new(Setup {
            genesis: genesis.clone(),
            known: KnownVersions::default(),
            keys: self.node_keys(self.keyring(), engine_factory),
            evidence: self.evidence(&state.latest())?,
            may_vote: warm_up.is_none(),
            never_signed,
            // Without stake nothing is punished, and a chain may begin at once.
            lost_blocks: self.is_validator() && genesis.epochs().is_some() && has_no_block && !never_signed,
            records: recovered.safety,
            state: state.clone(),
            head: (height > Height(0)).then(|| recovered.head.block().clone()),
            head_hash: header_hash(&restart.head),
            base_fee,
            ordering: restart.ordering,
            certificate: recovered.certificate.as_deref().cloned(),
            certified,
            uncertified: restart.uncertified,
            recent_states: limits.recent_states.max(min_recent),
            pool: PoolConfig { max_transactions: limits.pool_transactions, ..PoolConfig::from_genesis(genesis) },
            rotation: Some(rotation(&reader, height)),
            extension,
            now: clock::now(),
        });
        Ok(Chain {
            resume,
            store,
            state,
            tree,
            vm,
            verifiers,
            pipeline,
            runner,
            sealer,
            threads,
            height,
            certified,
            warm_up,
            base_fee,
        })
    }

    /// Returns the evidence that this node still has to report. Removes files with any other content.
    fn evidence(&self, view: &dyn StateView) -> anyhow::Result<Vec<Evidence>> {
        let mut open = Vec::new();
        for (path, bytes) in DataDirectory::new(&self.data).read_evidence()? {
            match wire::decode::<Evidence>(&bytes) {
                Ok(evidence) if is_useful(&self.genesis, view, &evidence) => open.push(evidence),
                _ => fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?,
            }
        }
        Ok(open)
    }

    /// True for a node with a validator's keys. Where the committee changes, it need not be a member.
    pub fn is_validator(&self) -> bool {
        self.validator.is_some()
    }

    /// Builds the uses of these keys.
    fn node_keys(&self, keys: Option<&Keyring>, engine: Option<EngineFactory>) -> NodeKeys {
        let keys = keys.cloned();
        let version = self.config.announced_version();
        NodeKeys {
            engine,
            notices: keys.as_ref().map(|keys| NoticeAuthor { version, ..keys.notice_author(self.genesis.chain_id) }),
            certificates: Arc::new(move |committee| {
                let own = keys.as_ref().and_then(|keys| keys.member_of(committee));
                let own = own.map(|(index, own)| own.certificate_signer(committee, index));
                CertificateKeys { own, ..CertificateKeys::bls(committee, None) }
            }),
        }
    }

    /// Other keys for the running pipeline.
    ///
    /// # Errors
    ///
    /// The node was started without keys, or the engine refuses these.
    pub fn rebuild_keys(&self, keys: &Keyring) -> anyhow::Result<NodeKeys> {
        let Validator { engine, .. } = self.validator.as_ref().context("this node was started without keys")?;
        let (_, factory) = engine(&self.genesis, keys.clone())?;
        note_key(&self.data, keys.current.consensus_key())?;
        Ok(self.node_keys(Some(keys), Some(factory)))
    }

    fn keyring(&self) -> Option<&Keyring> {
        self.validator.as_ref().map(|validator| &validator.keys)
    }

    /// Signer of the validator, if it is another process.
    pub fn remote_signer(&self) -> Option<&Arc<RemoteSigner>> {
        match &self.keys()?.signing {
            Signing::Remote(signer) => Some(signer),
            Signing::Own { .. } => None,
        }
    }

    /// Keys with which the node was started.
    pub fn keys(&self) -> Option<&MemberKeys> {
        self.keyring().map(|keys| &keys.current)
    }
}

impl Chain {
    /// View for RPC.
    pub fn readers(&self, is_validator: bool) -> Readers {
        let dag = match (is_validator, self.trace()) {
            (false, _) => Dag::FullNode,
            (true, None) => Dag::NotTraced,
            (true, Some(trace)) => Dag::Traced(trace),
        };
        Readers { reader: self.store.reader(), state: self.state.clone(), tree: self.tree.clone(), dag }
    }

    pub fn trace(&self) -> Option<Trace> {
        self.store.trace()
    }
}

/// Logs what was recovered.
///
/// # Errors
///
/// The node must not continue.
fn report_recovery(recovered: &Recovered) -> anyhow::Result<()> {
    if recovered.safety_lost {
        tracing::warn!("the safety log is lost; this validator does not vote until a quorum has told it what it signed");
    }
    if let Some(reason) = &recovered.rebuilt {
        tracing::warn!(reason, "state and indices were rebuilt from the block log");
    }
    if let Some(certificate) = &recovered.divergence {
        let message =
            format!("this node executed block {} differently than other validators; see docs/operate.md", certificate.height);
        return Err(Halted::from(message).into());
    }
    Ok(())
}

/// A virtual machine for the contracts of a chain, with so many threads of the executor.
///
/// # Errors
///
/// The system has too little address space.
pub fn open_vm(genesis: &Genesis, executors: usize, cache: CodeCache) -> anyhow::Result<Vm> {
    Ok(Vm::new(&vm_config(genesis, executors), Arc::new(DiskModuleCache(cache)))?)
}

fn vm_config(genesis: &Genesis, executors: usize) -> VmConfig {
    let [a, b, c, d, e, f, g, h, ..] = B256::random().0;
    let executors = u32::try_from(executors).expect("clamped by the caller");
    let rules = Rules { console: genesis.is_development() };
    let staking = genesis.staking.clone().map(Arc::new);
    VmConfig { executors, rules, staking, table_secret: u64::from_le_bytes([a, b, c, d, e, f, g, h]), ..VmConfig::default() }
}

/// Checks that the genesis lists these keys. Where the committee changes, it need not: the validator may become a member later,
/// and keys in the genesis may be replaced.
fn check_keys(genesis: &Genesis, keys: &MemberKeys) -> anyhow::Result<()> {
    if genesis.epochs().is_some() {
        return Ok(());
    }
    let index = keys.index_in(genesis)?;
    index.context("no validator of this genesis has these keys; start without keys to run a full node").map(drop)
}

/// A data directory belongs to one validator: in another's directory it would not find its own signatures. The file `VALIDATOR` lists
/// the consensus keys that have signed in it. A further one must be registered for the same validator (E16).
fn claim_data_dir(data: &Path, consensus_key: B256, view: &dyn StateView) -> anyhow::Result<()> {
    let own = consensus_key.to_string();
    let unsigned = DataDirectory::new(data).unsigned();
    match std::fs::read_to_string(&unsigned) {
        Ok(key) if key.trim() != own => bail!(
            "{} names the consensus key {}, these keys are of {own}; delete the file, or use the keys created with it",
            unsigned.display(),
            key.trim()
        ),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot read {}", unsigned.display()));
        }
        _ => {}
    }
    let listed = DataDirectory::new(data).read_validator()?;
    let before = listed.as_deref().unwrap_or_default();
    let keys_before = || before.lines().map(str::trim);
    if keys_before().any(|key| key == own) {
        return Ok(());
    }
    let is_same = |key: B256| is_one_validator(view, [key, consensus_key]);
    ensure!(
        listed.is_none() || keys_before().any(|key| key.parse().is_ok_and(is_same)),
        "{} belongs to the validator with the consensus key {}, these keys are of {own}; start each on its own directory",
        data.display(),
        before.trim()
    );
    note_key(data, consensus_key)
}

/// Adds a consensus key that signs in this data directory to `VALIDATOR`, durably.
fn note_key(data: &Path, consensus_key: B256) -> anyhow::Result<()> {
    let directory = DataDirectory::new(data);
    let mut listed = directory.read_validator()?.unwrap_or_default();
    if listed.lines().any(|key| key.trim() == consensus_key.to_string()) {
        return Ok(());
    }
    if !listed.is_empty() && !listed.ends_with('\n') {
        listed.push('\n');
    }
    writeln!(listed, "{consensus_key}").expect("invariant: a string can grow");
    Ok(directory.write_validator(&listed)?)
}

/// Where the blocks of this node begin.
fn chain_base(genesis: &Genesis, snapshot: Option<&StoredSnapshot>) -> ChainBase {
    let Some(snapshot) = snapshot else { return ChainBase::genesis(genesis) };
    let change = snapshot.tail().change.as_ref();
    let epoch = change.map_or_else(
        || EpochStart::genesis(genesis),
        |change| EpochStart::after_change(change).expect("invariant: the tail of a snapshot is verified"),
    );
    ChainBase { height: snapshot.height(), epoch }
}

/// Rotation of senders as of the head. Reads all headers of a rotation, which may be thousands on a fast chain.
fn rotation(reader: &Reader, head: Height) -> Rotation {
    Rotation::from_headers((1..=head.0).rev().map_while(|number| reader.header(Height(number))))
}

pub fn header_at(reader: &Reader, height: Height) -> Header {
    reader.header(height).expect("invariant: every height up to the head is stored")
}

/// Cache of compiled contracts in the data directory.
struct DiskModuleCache(CodeCache);

impl ModuleCache for DiskModuleCache {
    fn get(&self, key: &B256) -> Option<Vec<u8>> {
        self.0.get(&key.0)
    }

    fn contains(&self, key: &B256) -> bool {
        self.0.contains(&key.0)
    }

    fn put(&self, key: &B256, artefact: &[u8]) {
        self.0.put(&key.0, artefact);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ValidatorKeys;

    #[test]
    fn data_of_other_validator_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let [owner, other] = [1, 2].map(|seed| ValidatorKeys::from_seed([seed; 32]));
        let view = State::default().latest();
        claim_data_dir(directory.path(), owner.consensus.public(), &view).unwrap();
        claim_data_dir(directory.path(), owner.consensus.public(), &view).unwrap();
        let refusal = claim_data_dir(directory.path(), other.consensus.public(), &view).unwrap_err().to_string();
        for key in [&owner, &other] {
            assert!(refusal.contains(&key.consensus.public().to_string()), "{refusal}");
        }
        claim_data_dir(directory.path(), owner.consensus.public(), &view).unwrap();
        // The statement that nothing was signed is about one key, too.
        other.declare_unsigned(directory.path()).unwrap();
        let refusal = claim_data_dir(directory.path(), owner.consensus.public(), &view).unwrap_err().to_string();
        assert!(refusal.contains("UNSIGNED names the consensus key"), "{refusal}");
        owner.declare_unsigned(directory.path()).unwrap();
        claim_data_dir(directory.path(), owner.consensus.public(), &view).unwrap();
        // Content that is not text matches no validator.
        std::fs::write(directory.path().join("VALIDATOR"), [0xff; 4]).unwrap();
        assert!(
            claim_data_dir(directory.path(), owner.consensus.public(), &view)
                .unwrap_err()
                .to_string()
                .starts_with("cannot read ")
        );
    }
}
