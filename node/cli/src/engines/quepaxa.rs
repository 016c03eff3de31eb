//! QuePaxa for the binary.

use super::EngineEntry;
use corniche_engine::Engine;
use corniche_pipeline::EngineFactory;
use corniche_quepaxa::{Config, QuePaxa, QuePaxaVerifier, Setup};
use corniche_service::{EngineParts, EngineStart, Keyring, VerifierFactory, fresh_seed};
use corniche_types::Genesis;
use std::sync::Arc;

pub const ENTRY: EngineEntry = EngineEntry {
    name: "quepaxa",
    check: |genesis| Config::from_genesis(genesis).map(drop),
    max_message_bytes: |genesis| Ok(Config::from_genesis(genesis)?.max_message_bytes(genesis.max_validators())),
    bounds: "",
    build,
    single_node: Some(&[("batch_interval_ms", 0)]),
    has_sequencer: false,
};

/// No message of this engine is signed, so it needs none of the keys.
fn build(genesis: &Genesis, keys: Keyring) -> anyhow::Result<EngineParts> {
    let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    let verifier_config = config.clone();
    let verifier: VerifierFactory =
        Box::new(move |committee| Arc::new(QuePaxaVerifier::new(verifier_config.clone(), committee.clone())));
    let factory: EngineFactory = Box::new(move |start| {
        let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
        let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
        let (me, _) = keys.member_of(&committee).expect("invariant: only members have engines");
        let seed = fresh_seed();
        Box::new(QuePaxa::new(Setup { config, committee, me, seed, records, unsigned, resume, now })) as Box<dyn Engine>
    });
    Ok((verifier, factory))
}
