//! Autobahn for the binary.

use super::{EngineEntry, VALID_KEYS, remote};
use anyhow::Context;
use corniche_autobahn::{Autobahn, AutobahnVerifier, Config, Setup, Signatures, Signer, crypto};
use corniche_engine::{Committee, Engine};
use corniche_pipeline::EngineFactory;
use corniche_service::{EngineParts, EngineStart, Keyring, RemoteKeys, Signing, VerifierFactory, fresh_seed};
use corniche_types::Genesis;
use std::sync::Arc;

pub const ENTRY: EngineEntry = EngineEntry {
    name: "autobahn",
    check: |genesis| Config::from_genesis(genesis).map(drop),
    max_message_bytes: |genesis| {
        let config = Config::from_genesis(genesis)?;
        // Besides the batch, a car has a proof: 66 bytes per signer.
        let car = 66 * genesis.max_validators() + 4_096;
        Ok((config.fetch_bytes as usize).max(config.batch_bytes as usize) + car)
    },
    bounds: "fetch_bytes",
    build,
    single_node: Some(&[("car_interval_ms", 0)]),
    has_sequencer: false,
};

fn build(genesis: &Genesis, keys: Keyring) -> anyhow::Result<EngineParts> {
    let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    let committee = Committee::from_genesis(genesis);
    let bls = config.bls;
    let signer = move |committee: &Committee| -> Option<Arc<dyn Signer>> {
        let (index, own) = keys.member_of(committee)?;
        Some(match &own.signing {
            Signing::Own { consensus, bls: secret } => {
                Arc::new(crypto::ValidatorKeys::new(committee, consensus.clone(), bls.then(|| secret.clone()))?)
            }
            Signing::Remote(signer) => {
                Arc::new(remote::AutobahnSigner { keys: RemoteKeys::new(own, signer, committee, index), bls })
            }
        })
    };
    let signatures = move |committee: &Committee| -> Option<Arc<dyn Signatures>> {
        Some(match bls {
            true => Arc::new(crypto::BlsCertificates::new(committee)?),
            false => Arc::new(crypto::Ed25519Certificates::new(committee)?),
        })
    };
    signatures(&committee).context("the genesis' keys are damaged")?;
    let verifier_config = config.clone();
    let verifier: VerifierFactory = Box::new(move |committee| {
        let signatures = signatures(committee).expect(VALID_KEYS);
        Arc::new(AutobahnVerifier::new(verifier_config.clone(), committee.clone(), signatures))
    });
    let factory: EngineFactory = Box::new(move |start| {
        let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
        let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
        let (signer, signatures) = (signer(&committee), signatures(&committee).expect(VALID_KEYS));
        let seed = fresh_seed();
        Box::new(Autobahn::new(Setup { config, committee, signer, signatures, seed, records, unsigned, resume, now }))
            as Box<dyn Engine>
    });
    Ok((verifier, factory))
}
