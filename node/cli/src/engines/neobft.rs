//! NeoBFT for the binary.

use super::{EngineEntry, VALID_KEYS, consensus_key, refuse_remote_signer};
use anyhow::Context;
use corniche_engine::{Committee, Engine};
use corniche_neobft::{Config, Neobft, NeobftVerifier, Setup, Signatures, crypto};
use corniche_pipeline::EngineFactory;
use corniche_service::{EngineParts, EngineStart, Keyring, VerifierFactory};
use corniche_types::Genesis;
use std::sync::Arc;

pub const ENTRY: EngineEntry = EngineEntry {
    name: "neobft",
    check: |genesis| Config::from_genesis(genesis).map(drop),
    max_message_bytes: |genesis| Ok(Config::from_genesis(genesis)?.max_message_bytes(genesis.validators.len())),
    bounds: "fetch_bytes, or open_slots and sync_slots",
    build,
    single_node: None,
    has_sequencer: true,
};

fn build(genesis: &Genesis, keys: Keyring) -> anyhow::Result<EngineParts> {
    let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    refuse_remote_signer(ENTRY.name, &keys)?;
    let committee = Committee::from_genesis(genesis);
    let signatures =
        |committee: &Committee| crypto::CommitteeKeys::new(committee).map(|keys| Arc::new(keys) as Arc<dyn Signatures>);
    signatures(&committee).context("the genesis' consensus keys are damaged")?;
    let verifier_config = config.clone();
    let verifier: VerifierFactory = Box::new(move |committee| {
        let signatures = signatures(committee).expect(VALID_KEYS);
        Arc::new(NeobftVerifier::new(verifier_config.clone(), committee.clone(), signatures))
    });
    let factory: EngineFactory = Box::new(move |start| {
        let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
        let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
        let signer = crypto::ValidatorKeys::new(&committee, consensus_key(&keys, &committee));
        let signer = Arc::new(signer.expect(VALID_KEYS));
        let signatures = signatures(&committee).expect(VALID_KEYS);
        Box::new(Neobft::new(Setup { config, committee, signer, signatures, records, unsigned, resume, now }))
            as Box<dyn Engine>
    });
    Ok((verifier, factory))
}
