//! Measures snapshots of a state with N entries: `cargo run --release -p corniche-service --example state_sync -- 1000000`.
//!
//! Half of the entries are accounts, half are slots. Three nodes serve the snapshot over real connections on loopback, and a fourth one
//! with an empty data directory fetches it and opens its store.

use corniche_crypto::bls_combine;
use corniche_network::{Event, Network, NetworkConfig, NetworkIdentity};
use corniche_service::{FetchProgress, FetchSetup, NetworkSpec, ValidatorKeys, fetch_state, make_network};
use corniche_state::{Account, State, Tree};
use corniche_store::{
    DataDirectory, Identity, Options, Store, genesis_block,
    snapshots::{self, StoredSnapshot},
};
use corniche_sync::{Offer, SnapshotSource, StateRequest, build_below, serve};
use corniche_types::{
    Address, B256, Bytes, Certificate, EncodedHeader, Epoch, EpochChange, FaultModel, Genesis, Header, Height, Resume,
    SignerBitmap, SnapshotTail, StakingParameters, U256, ValidatorIndex, header_hash,
};
use std::{error::Error, fs, sync::Arc, time::Instant};

const SERVERS: usize = 3;

#[allow(clippy::print_stdout)] // its result
fn main() -> Result<(), Box<dyn Error>> {
    let entries: u64 = std::env::args().nth(1).ok_or("state_sync ENTRIES")?.parse()?;
    let spec = NetworkSpec {
        staking: Some(StakingParameters::default()),
        ..NetworkSpec::new(corniche_types::EngineConfig { name: "autobahn".into(), parameters: Default::default() })
    };
    let network = make_network(&spec)?;
    let genesis = network.genesis;
    let identity = Identity::of(&genesis);

    let (state, state_root) = synthetic(&genesis, entries);
    let tail = tail(&genesis, &network.validators, state_root)?;
    let served = tempfile::tempdir()?;
    let (before, started) = (reset_peak_memory()?, Instant::now());
    let made = snapshots::make(&DataDirectory::new(served.path()), identity, &state.latest(), &tail, &mut |_| true)?;
    let (made, seconds) = (made.ok_or("gave up")?, started.elapsed().as_secs_f64());
    let (found, bytes) = (made.manifest().entries(), made.manifest().chunk_bytes());
    let chunks = made.manifest().chunks.len();
    println!(
        "make: {found} entries, {chunks} chunks, {:.1} bytes an entry, {seconds:.1} s on one core",
        bytes as f64 / found as f64
    );
    println!("make: {} MiB of memory beside the state", peak_memory().saturating_sub(before) >> 20);
    drop(state);

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let joined = tempfile::tempdir()?;
    let made = Arc::new(made);
    let before = reset_peak_memory()?;
    let seconds = runtime.block_on(fetch(&genesis, &network.validators, &made, joined.path()))?;
    println!("fetch: {bytes} bytes in {seconds:.1} s, {:.1} MB/s from {SERVERS} nodes", bytes as f64 / seconds / 1e6);
    println!("fetch: {} MiB of memory, with the servers", peak_memory().saturating_sub(before) >> 20);

    let started = Instant::now();
    let (store, recovered) = Store::open(joined.path(), &genesis, Options::default())?;
    println!("open: {:.1} s from the snapshot, block {}", started.elapsed().as_secs_f64(), recovered.head.height());
    drop((store, recovered));
    let started = Instant::now();
    drop(Store::open(joined.path(), &genesis, Options::default())?);
    println!("open: {:.1} s from the checkpoint", started.elapsed().as_secs_f64());
    Ok(())
}

fn synthetic(genesis: &Genesis, entries: u64) -> (State, B256) {
    let mut changes = genesis_block(genesis).changes;
    let word = |seed: u64| B256::from(*blake3::hash(&seed.to_le_bytes()).as_bytes());
    for index in 0..entries / 2 {
        let balance = U256::from(1_000_000_000_000_000_000_u64).saturating_mul(U256::from(index));
        changes.accounts.insert(Address::from_word(word(index)), Some(Account { nonce: 1, balance, ..Account::default() }));
    }
    // As in tokens: balances under hashed slots.
    for index in entries / 2..entries {
        let (token, balance) = (Address::with_last_byte((index % 100) as u8), B256::from(U256::from(index) << 64));
        changes.storage.insert((token, word(index)), balance);
    }
    let root = Tree::default().apply(&changes);
    let state = State::with_seed(1);
    state.apply(Height(1), &changes);
    (state, root)
}

/// Block 1 with this state root, which all validators signed.
fn tail(genesis: &Genesis, validators: &[ValidatorKeys], state_root: B256) -> Result<SnapshotTail, Box<dyn Error>> {
    let first = genesis_block(genesis).block;
    let resume = Resume::default();
    let ordering = corniche_types::OrderingRecord { resume_hash: resume.hash(), ..first.ordering.clone() };
    let header = Header { parent_hash: first.hash(), number: 1, state_root, extra_data: ordering.extra_data(), ..first.header };
    let (hash, committee_hash) = (header_hash(&header), genesis.committee_hash());
    let message = Certificate::signed_bytes(genesis.chain_id, Epoch(0), committee_hash, Height(1), hash, FaultModel::Byzantine);
    let shares: Vec<_> = validators.iter().map(|keys| keys.bls.sign(&message).to_bytes()).collect();
    let certificate = Certificate {
        epoch: Epoch(0),
        committee_hash,
        height: Height(1),
        header_hash: hash,
        fault_model: FaultModel::Byzantine,
        signers: SignerBitmap::from_signers(
            (0..validators.len() as u32).map(|index| ValidatorIndex(index as _)),
            validators.len(),
        ),
        signature: bls_combine(&shares).ok_or("no signature")?.to_bytes().to_vec().into(),
    };
    let below = build_below(&header, |_| None).ok_or("no header")?;
    Ok(SnapshotTail { header: EncodedHeader(header), ordering, resume, above: vec![], certificate, below, change: None })
}

async fn fetch(
    genesis: &Genesis,
    validators: &[ValidatorKeys],
    served: &Arc<StoredSnapshot>,
    data: &std::path::Path,
) -> Result<f64, Box<dyn Error>> {
    let identity = |keys: &ValidatorKeys| NetworkIdentity::from_seed(keys.network.seed());
    let mut client = NetworkConfig::from_genesis(identity(&validators[SERVERS]), genesis);
    for keys in &validators[..SERVERS] {
        let mut config = NetworkConfig::from_genesis(identity(keys), genesis);
        config.listen.push("/ip4/127.0.0.1/tcp/0".parse()?);
        let (handle, mut events) = Network::start(config).await?;
        let address = &handle.listen_addresses()[0];
        client = client.with_bootstrap(&format!("{address}/p2p/{}", handle.key()))?;
        let source = Served(served.clone());
        tokio::spawn(async move {
            let _running = handle;
            while let Some(event) = events.recv().await {
                if let Event::Request { bytes, reply, .. } = event
                    && let Ok(request) = StateRequest::decode(&bytes)
                {
                    reply.send(serve(request, &source).into());
                }
            }
        });
    }
    let (handle, mut events) = Network::start(client).await?;
    let started = Instant::now();
    let setup = FetchSetup { genesis, data, only_if_ahead_by: None, trust: None, progress: &FetchProgress::new(None) };
    fetch_state(setup, &handle, &mut events, &mut Vec::new()).await?;
    Ok(started.elapsed().as_secs_f64())
}

struct Served(Arc<StoredSnapshot>);

impl SnapshotSource for Served {
    fn certified(&self) -> Height {
        Height(1)
    }

    fn epoch_change(&self, _: Epoch) -> Option<EpochChange> {
        None
    }

    fn offers(&self) -> Vec<Offer> {
        vec![Offer {
            height: self.0.height(),
            header_hash: self.0.manifest().header_hash,
            manifest: self.0.manifest_hash(),
            manifest_bytes: self.0.manifest_bytes().len() as u32,
        }]
    }

    fn manifest_part(&self, _: &B256, offset: u64, length: usize) -> Option<Bytes> {
        let bytes = self.0.manifest_bytes();
        let start = offset as usize;
        (start < bytes.len()).then(|| bytes.slice(start..bytes.len().min(start + length)))
    }

    fn chunk(&self, _: &B256, index: u32) -> Option<Bytes> {
        self.0.chunk(index as usize).ok().flatten().map(Bytes::from)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.0.code(hash).ok().flatten().map(Bytes::from)
    }

    fn tail_part(&self, _: &B256, offset: u64, length: usize) -> Option<Bytes> {
        self.0.tail_part(offset, length).ok().flatten().map(Bytes::from)
    }
}

/// Forgets the peak. Returns the memory in use, in bytes.
fn reset_peak_memory() -> std::io::Result<u64> {
    fs::write("/proc/self/clear_refs", "5")?;
    Ok(peak_memory())
}

/// Most memory that this process has used since the reset, in bytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}
