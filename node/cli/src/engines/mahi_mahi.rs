//! Mahi-Mahi for the binary.

use super::{EngineEntry, VALID_KEYS, remote};
use anyhow::{Context, ensure};
use corniche_crypto::CoinPublicKeys;
use corniche_engine::{Committee, Engine};
use corniche_mahi_mahi::{Coin, Config, MahiMahi, MahiVerifier, Setup, Signatures, Signer, crypto};
use corniche_pipeline::{CommitteeCoin, EngineFactory};
use corniche_service::{EngineParts, EngineStart, Keyring, RemoteKeys, Signing, VerifierFactory, fresh_seed};
use corniche_types::Genesis;
use std::sync::Arc;

pub const ENTRY: EngineEntry = EngineEntry {
    name: "mahi-mahi",
    check: |genesis| Config::from_genesis(genesis).map(drop),
    max_message_bytes: |genesis| {
        let config = Config::from_genesis(genesis)?;
        Ok(config.max_message_bytes(&genesis.weights()))
    },
    bounds: "fetch_bytes",
    build,
    single_node: Some(&[("min_round_ms", 0), ("parent_grace_ms", 0)]),
    has_sequencer: false,
};

fn build(genesis: &Genesis, keys: Keyring) -> anyhow::Result<EngineParts> {
    let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    let committee = Committee::from_genesis(genesis);
    let public_coin = CoinPublicKeys::from_genesis(genesis).context("the genesis' coin keys are damaged")?;
    let share = keys.sets().find_map(|keys| keys.coin.clone());
    ensure!(share.as_ref().is_none_or(|share| public_coin.include(share)), "coin.key is no share of this genesis");
    let genesis_coin = CommitteeCoin { keys: public_coin, share };
    let signatures = |committee: &Committee| {
        crypto::CommitteeSignatures::new(committee).map(|signatures| Arc::new(signatures) as Arc<dyn Signatures>)
    };
    signatures(&committee).context("the genesis' consensus keys are damaged")?;
    let verifier_config = config.clone();
    let verifier: VerifierFactory = Box::new(move |committee| {
        let signatures = signatures(committee).expect(VALID_KEYS);
        Arc::new(MahiVerifier::new(verifier_config.clone(), committee.clone(), signatures))
    });
    let factory: EngineFactory = Box::new(move |start| {
        let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, coin, now } = start;
        let config = Config { genesis_time: epoch.time, ..config.clone() };
        let CommitteeCoin { keys: public_coin, share } = coin.unwrap_or_else(|| genesis_coin.clone());
        if share.is_none() {
            tracing::error!(epoch = epoch.epoch.0, "this validator has no share of the coin, so it does not help to open it");
        }
        let signer = keys.member_of(&committee).and_then(|(index, own)| match &own.signing {
            Signing::Own { consensus, .. } => {
                let keys = crypto::ValidatorKeys::new(&committee, consensus.clone(), share)?;
                Some(Arc::new(keys) as Arc<dyn Signer>)
            }
            Signing::Remote(signer) => {
                let keys = RemoteKeys::new(own, signer, &committee, index);
                Some(Arc::new(remote::MahiMahiSigner { keys, coin: share, votes: committee.votes(index) }) as _)
            }
        });
        let signatures = signatures(&committee).expect(VALID_KEYS);
        let coin: Arc<dyn Coin> = Arc::new(crypto::ThresholdCoin::new(&committee, public_coin));
        let seed = fresh_seed();
        Box::new(MahiMahi::new(Setup { config, committee, signer, signatures, coin, seed, records, unsigned, resume, now }))
            as Box<dyn Engine>
    });
    Ok((verifier, factory))
}
