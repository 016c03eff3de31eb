//! NeoBFT for the binary.

use super::{EngineEntry, VALID_KEYS};
use anyhow::{Context, ensure};
use corniche_engine::{Committee, Engine};
use corniche_neobft::{Config, Neobft, NeobftVerifier, Setup, Signatures, crypto};
use corniche_pipeline::EngineFactory;
use corniche_service::{EngineParts, EngineStart, Keyring, Signing, VerifierFactory};
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
    let is_remote = keys.sets().any(|keys| matches!(keys.signing, Signing::Remote(_)));
    ensure!(!is_remote, "a remote signer does not know the statements of neobft yet; use keys in `keys`, without `signer`");
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
        let own = keys.member_of(&committee).and_then(|(_, own)| match &own.signing {
            Signing::Own { consensus, .. } => crypto::ValidatorKeys::new(&committee, consensus.clone()),
            Signing::Remote(_) => None,
        });
        let signer = Arc::new(own.expect("invariant: only members have engines"));
        let signatures = signatures(&committee).expect(VALID_KEYS);
        Box::new(Neobft::new(Setup { config, committee, signer, signatures, records, unsigned, resume, now }))
            as Box<dyn Engine>
    });
    Ok((verifier, factory))
}
