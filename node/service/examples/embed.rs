//! Starts a node in a program of one's own, submits a transaction and reads the receipt.

use alloy_consensus::TxEip1559;
use anyhow::{Context, bail};
use corniche_autobahn::{Autobahn, AutobahnVerifier, Config, Setup, crypto};
use corniche_console::dev_accounts::dev_accounts;
use corniche_engine::Committee;
use corniche_service::{
    EngineFactory, EngineParts, EngineStart, Keyring, NetworkSpec, Node, NodeConfig, NodeSetup, Signing, Validator,
    VerifiedGenesis, VerifierFactory, fresh_seed, make_network, runtime,
};
use corniche_types::{Address, EngineConfig, Genesis};
use std::sync::Arc;

pub fn main() -> anyhow::Result<()> {
    let engine = EngineConfig { name: "autobahn".into(), parameters: [("car_interval_ms".into(), 0)].into() };
    let mut network = make_network(&NetworkSpec { validators: 1, block_ms: 0, ..NetworkSpec::new(engine) })?;
    let data = tempfile::tempdir()?;
    let config = NodeConfig { rpc: ([127, 0, 0, 1], 0).into(), ..NodeConfig::default() };
    runtime(&config)?.block_on(async {
        let chain_id = network.genesis.chain_id;
        let validator = network.validators.pop().map(|keys| Validator { keys: keys.into(), engine: autobahn });
        let genesis = VerifiedGenesis::new(network.genesis)?;
        let node = Node::start(NodeSetup::new(config, genesis, validator, data.path().into())).await?;
        let to = Address::repeat_byte(1).into();
        let transfer = TxEip1559 { chain_id, gas_limit: 21_000, max_fee_per_gas: 2_000_000_000, to, ..Default::default() };
        let hash = node.submit(dev_accounts()[0].key.sign(transfer)).await?;
        let receipt = node.receipt(&hash).await.context("the node stopped")?;
        anyhow::ensure!(receipt.success, "the transfer failed");
        eprintln!("{hash} used {} gas; JSON-RPC is served on {}", receipt.gas_used, node.rpc_address());
        node.stop().await;
        Ok(())
    })
}

pub fn autobahn(genesis: &Genesis, keys: Keyring) -> anyhow::Result<EngineParts> {
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
