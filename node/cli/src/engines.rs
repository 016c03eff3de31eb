//! The ordering engines by the word that chooses one in a genesis: the only place of the binary that names any.

use crate::{
    exit::{Exit, Failed},
    keys::ValidatorKeys,
};
use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use corniche_crypto::CoinPublicKeys;
use corniche_engine::{Committee, Engine, Verifier};
use corniche_pipeline::EngineFactory;
use corniche_types::{B256, EngineConfig, Genesis};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// An engine's word, and what the binary must know about it.
struct Named {
    word: &'static str,
    /// Refuses parameters that the engine does not take.
    check: fn(&Genesis) -> Result<(), String>,
    build: fn(&Genesis, ValidatorKeys) -> anyhow::Result<Built>,
    /// Parameters for a chain of one node that nobody else waits for.
    alone: &'static [(&'static str, u64)],
}

/// What a validator needs of its engine: who checks peers' messages, and what makes an instance from where the store stands.
pub type Built = (Arc<dyn Verifier>, EngineFactory);

const ENGINES: &[Named] = &[
    Named {
        word: "mahi-mahi",
        check: |genesis| corniche_mahi_mahi::Config::from_genesis(genesis).map(drop),
        build: mahi_mahi,
        alone: &[("min_round_ms", 0), ("parent_grace_ms", 0)],
    },
    Named {
        word: "autobahn",
        check: |genesis| corniche_autobahn::Config::from_genesis(genesis).map(drop),
        build: autobahn,
        alone: &[("car_interval_ms", 0)],
    },
];

/// The engine of a network whose maker names none.
pub const DEFAULT: &str = "mahi-mahi";

/// What may stand after `--engine`; the parser says so where another word does.
pub fn words() -> PossibleValuesParser {
    ENGINES.iter().map(|engine| engine.word).collect::<Vec<_>>().into()
}

fn named(word: &str) -> anyhow::Result<&'static Named> {
    let words: Vec<_> = ENGINES.iter().map(|engine| engine.word).collect();
    let engine = ENGINES.iter().find(|engine| engine.word == word);
    engine.with_context(|| format!("this build has no engine named {word}; there are {}", words.join(", ")))
}

/// Whether this build has the genesis' engine, and the engine takes its parameters.
pub fn check(genesis: &Genesis) -> anyhow::Result<()> {
    match (named(&genesis.engine.name)?.check)(genesis) {
        Ok(()) => Ok(()),
        Err(refusal) => bail!("{refusal}"),
    }
}

/// Refuses to go on with what `place` holds when another engine was asked for.
pub fn expect(genesis: &Genesis, asked: Option<&str>, place: &Path) -> anyhow::Result<()> {
    let own = &genesis.engine.name;
    if let Some(asked) = asked.filter(|asked| asked != own) {
        let place = place.display();
        let message =
            format!("{place} holds a chain on {own}, not on {asked}; a genesis chooses once, so take another directory");
        return Err(Failed::new(Exit::Usage, message).into());
    }
    Ok(())
}

/// The verifier and the factory of a validator's engine.
pub fn build(genesis: &Genesis, keys: ValidatorKeys) -> anyhow::Result<Built> {
    (named(&genesis.engine.name)?.build)(genesis, keys)
}

/// An engine's configuration for a chain of one node.
pub fn alone(word: &str) -> anyhow::Result<EngineConfig> {
    let engine = named(word)?;
    let parameters = engine.alone.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<BTreeMap<_, _>>();
    Ok(EngineConfig { name: engine.word.to_owned(), parameters })
}

/// Different at every start: old answers to "what did I sign last?" must not be taken for new ones.
fn fresh_seed() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = B256::random().0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

fn mahi_mahi(genesis: &Genesis, keys: ValidatorKeys) -> anyhow::Result<Built> {
    use corniche_mahi_mahi::{Coin, Config, MahiMahi, MahiVerifier, Setup, Signatures, Signer, real};

    let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    let committee = Committee::from_genesis(genesis);
    let coin_share = keys.coin.context("coin.key is missing; whoever made the genesis dealt it to this validator")?;
    let signer = real::ValidatorKeys::new(&committee, keys.consensus, coin_share);
    let signer: Arc<dyn Signer> = Arc::new(signer.context("coin.key is the share of another validator")?);
    let public_coin = CoinPublicKeys::from_genesis(genesis).context("the genesis' coin keys are damaged")?;
    let coin: Arc<dyn Coin> = Arc::new(real::ThresholdCoin::new(&committee, public_coin));
    let signatures = real::CommitteeSignatures::new(&committee).context("the genesis' consensus keys are damaged")?;
    let signatures: Arc<dyn Signatures> = Arc::new(signatures);
    let verifier = MahiVerifier::new(config.clone(), committee.clone(), signatures.clone());
    let factory: EngineFactory = Box::new(move |records, resume, now| {
        let (config, committee, signer) = (config.clone(), committee.clone(), Some(signer.clone()));
        let (signatures, coin, seed) = (signatures.clone(), coin.clone(), fresh_seed());
        Box::new(MahiMahi::new(Setup { config, committee, signer, signatures, coin, seed, records, resume, now }))
            as Box<dyn Engine>
    });
    Ok((Arc::new(verifier), factory))
}

fn autobahn(genesis: &Genesis, keys: ValidatorKeys) -> anyhow::Result<Built> {
    use corniche_autobahn::{Autobahn, AutobahnVerifier, Config, Setup, Signatures, Signer, real};

    let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    let committee = Committee::from_genesis(genesis);
    let signer = real::ValidatorKeys::new(&committee, keys.consensus, config.bls.then_some(keys.bls));
    let signer: Arc<dyn Signer> = Arc::new(signer.context("bls.key is another validator's")?);
    let signatures: Arc<dyn Signatures> = if config.bls {
        Arc::new(real::Sums::new(&committee).context("the genesis' BLS keys are damaged")?)
    } else {
        Arc::new(real::Lists::new(&committee).context("the genesis' consensus keys are damaged")?)
    };
    let verifier = AutobahnVerifier::new(config.clone(), committee.clone(), signatures.clone());
    let factory: EngineFactory = Box::new(move |records, resume, now| {
        let (config, committee) = (config.clone(), committee.clone());
        let (signer, signatures) = (Some(signer.clone()), signatures.clone());
        Box::new(Autobahn::new(Setup { config, committee, signer, signatures, seed: fresh_seed(), records, resume, now }))
            as Box<dyn Engine>
    });
    Ok((Arc::new(verifier), factory))
}
