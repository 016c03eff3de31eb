//! Development chains in programs of one's own: on any runtime, and several in one process.

use alloy_consensus::TxEip1559;
use anyhow::{Context, bail};
use corniche_api::Namespaces;
use corniche_autobahn::{Autobahn, AutobahnVerifier, Config, Setup, crypto};
use corniche_client::{Client, ClientError};
use corniche_console::dev_accounts::dev_accounts;
use corniche_crypto::{VerifiedTransaction, impersonate};
use corniche_engine::Committee;
use corniche_rpc::yield_to_ordering;
use corniche_service::{
    EngineFactory, EngineParts, EngineStart, Keyring, NetworkSpec, Node, NodeConfig, NodeHandle, NodeSetup, Serve, Signing,
    Validator, VerifiedGenesis, VerifierFactory, fresh_seed, make_network, runtime,
};
use corniche_types::{Address, B256, Bytes, EngineConfig, Genesis, Transaction, U256};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{Arc, Barrier},
    time::Duration,
};
use tempfile::TempDir;

const STRANGER: Address = Address::repeat_byte(0x77);

/// Node with one validator, and its data directory.
struct Chain {
    node: NodeHandle,
    client: Client,
    _data: TempDir,
}

impl Chain {
    async fn dev(chain_id: u64) -> Self {
        let data = tempfile::tempdir().unwrap();
        Self::new(corniche_devchain::start(setup(chain_id, data.path())).await.unwrap(), data)
    }

    async fn network(chain_id: u64) -> Self {
        let data = tempfile::tempdir().unwrap();
        Self::new(Node::start(setup(chain_id, data.path())).await.unwrap(), data)
    }

    fn new(node: NodeHandle, data: TempDir) -> Self {
        let client = Client::new(format!("http://{}", node.rpc_address()));
        Self { node, client, _data: data }
    }

    /// Sends a request from another thread, because this one may be the only one of the runtime.
    async fn request<R: DeserializeOwned + Send + 'static>(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<R, ClientError> {
        let client = self.client.clone();
        tokio::task::spawn_blocking(move || client.transport().request(method, params)).await.unwrap()
    }

    async fn height(&self) -> U256 {
        self.request("eth_blockNumber", json!([])).await.unwrap()
    }

    async fn mine(&self) {
        self.request::<Value>("evm_mine", json!([])).await.unwrap();
    }
}

fn setup(chain_id: u64, data: &Path) -> NodeSetup {
    let engine = EngineConfig { name: "autobahn".into(), parameters: [("car_interval_ms".into(), 0)].into() };
    let spec = NetworkSpec { validators: 1, block_ms: 0, chain_id: Some(chain_id), ..NetworkSpec::new(engine) };
    let mut network = make_network(&spec).unwrap();
    let serve = Serve { namespaces: Namespaces::all(), ..Serve::default() };
    let config = NodeConfig { rpc: ([127, 0, 0, 1], 0).into(), serve, ..NodeConfig::default() };
    let validator = network.validators.pop().map(|keys| Validator { keys: keys.into(), engine: autobahn });
    NodeSetup::new(config, VerifiedGenesis::new(network.genesis).unwrap(), validator, data.into())
}

fn autobahn(genesis: &Genesis, keys: Keyring) -> anyhow::Result<EngineParts> {
    let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    let Signing::Own { consensus, .. } = keys.current.signing else { bail!("the keys are not in this process") };
    let signer = move |committee: &Committee| crypto::ValidatorKeys::new(committee, consensus.clone(), None);
    let signatures = |committee: &Committee| crypto::Ed25519Certificates::new(committee);
    let committee = Committee::from_genesis(genesis);
    signer(&committee).context("not a validator's keys")?;
    signatures(&committee).context("the committee's keys are damaged")?;
    // Checked above: every epoch has the members of the genesis.
    const CHECKED: &str = "the keys are those of the genesis";
    let verifier_config = config.clone();
    let verifier: VerifierFactory = Box::new(move |committee| {
        let signatures = Arc::new(signatures(committee).expect(CHECKED));
        Arc::new(AutobahnVerifier::new(verifier_config.clone(), committee.clone(), signatures))
    });
    let factory: EngineFactory = Box::new(move |start| {
        let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
        let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
        let signer = Some(Arc::new(signer(&committee).expect(CHECKED)) as _);
        let (signatures, seed) = (Arc::new(signatures(&committee).expect(CHECKED)), fresh_seed());
        Box::new(Autobahn::new(Setup { config, committee, signer, signatures, seed, records, unsigned, resume, now }))
    });
    Ok((verifier, factory))
}

/// Transfer of a funded account without its signature.
fn unsigned(chain_id: u64) -> Bytes {
    let to = STRANGER.into();
    let transfer = TxEip1559 { chain_id, gas_limit: 21_000, max_fee_per_gas: 2_000_000_000, to, ..TxEip1559::default() };
    impersonate(transfer, dev_accounts()[1].address)
}

#[test]
fn current_thread_runtime_reverts_and_resets() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let chain = Chain::dev(31).await;
        let snapshot: U256 = chain.request("evm_snapshot", json!([])).await.unwrap();
        chain.mine().await;
        assert_eq!(chain.height().await, U256::ONE);
        assert!(chain.request::<bool>("evm_revert", json!([snapshot])).await.unwrap());
        assert_eq!(chain.height().await, U256::ZERO);
        chain.mine().await;
        chain.mine().await;
        assert_eq!(chain.height().await, U256::from(2));
        chain.request::<Value>("anvil_reset", json!([])).await.unwrap();
        assert_eq!(chain.height().await, U256::ZERO);
        chain.mine().await;
        assert_eq!(chain.height().await, U256::ONE);
        chain.node.stop().await;
    });
}

/// Nice values of the pipelines' threads of this process.
fn pipeline_priorities() -> Vec<i64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    // A thread may end meanwhile.
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.join("stat")).ok());
    let pipelines = stats.filter(|stat| stat.contains("(pipeline)"));
    // The third field follows the name; the nice value is the nineteenth.
    pipelines.map(|stat| stat.rsplit(") ").next().unwrap().split(' ').nth(16).unwrap().parse().unwrap()).collect()
}

#[test]
fn reverted_chain_keeps_priority() {
    let threads = 4;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().max_blocking_threads(threads).build().unwrap();
    runtime.block_on(async {
        let chain = Chain::dev(51).await;
        let snapshot: U256 = chain.request("evm_snapshot", json!([])).await.unwrap();
        // All threads on which the runtime blocks have served reads.
        let all = Arc::new(Barrier::new(threads));
        let read = || {
            let all = all.clone();
            tokio::task::spawn_blocking(move || {
                yield_to_ordering();
                all.wait();
            })
        };
        futures::future::join_all((0..threads).map(|_| read())).await;
        assert!(chain.request::<bool>("evm_revert", json!([snapshot])).await.unwrap());
        let priorities = pipeline_priorities();
        assert!(!priorities.is_empty() && priorities.iter().all(|nice| *nice <= 0), "{priorities:?}");
        chain.node.stop().await;
    });
}

#[test]
fn impersonation_belongs_to_one_chain() {
    runtime(&NodeConfig::default()).unwrap().block_on(async {
        let (first, second, network) = (Chain::dev(41).await, Chain::dev(42).await, Chain::network(43).await);
        // Unsigned transactions: on both development chains, and not on the network beside them.
        for (chain, chain_id) in [(&first, 41), (&second, 42)] {
            let hash = chain.node.submit(unsigned(chain_id)).await.unwrap();
            assert!(chain.node.receipt(&hash).await.unwrap().success);
        }
        assert!(network.node.submit(unsigned(43)).await.is_err());

        // Impersonated accounts: only on the chain that was asked.
        let transfer = json!([{"from": STRANGER, "to": STRANGER}]);
        for chain in [&first, &second] {
            chain.request::<Value>("hardhat_setBalance", json!([STRANGER, "0xde0b6b3a7640000"])).await.unwrap();
        }
        first.request::<Value>("hardhat_impersonateAccount", json!([STRANGER])).await.unwrap();
        first.request::<B256>("eth_sendTransaction", transfer.clone()).await.unwrap();
        second.request::<B256>("eth_sendTransaction", transfer).await.unwrap_err();

        // A chain that has ended permits nothing any more, and takes nothing from the other.
        let is_valid = |chain_id| {
            let transaction = Transaction::decode(unsigned(chain_id)).unwrap();
            VerifiedTransaction::verify(transaction, chain_id).is_ok()
        };
        first.node.stop().await;
        let ended = async {
            while is_valid(41) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the last connection to the first chain ends");
        assert!(is_valid(42));
        second.node.stop().await;
        network.node.stop().await;
    });
}
