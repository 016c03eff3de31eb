//! `corniche sequencer`: orders requests of data-centre groups.

use crate::{genesis, logging, signals};
use anyhow::{Context, bail};
use corniche_aom_sequencer::{Config, Group, GroupConfig, Sequencer, public_key};
use corniche_aom_wire::{Kind, Suite, exchange_public};
use corniche_console::{exit, secret};
use corniche_engine::Committee;
use corniche_neobft::{NeobftVerifier, crypto::CommitteeKeys, verify::check_epoch_certificate};
use corniche_types::{Bytes, Genesis};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use zeroize::Zeroizing;

/// Number the requests of data-centre groups, and send them with proofs of their order to all validators
///
/// A sequencer is on standby until the validators of a genesis ask it to begin an epoch. It never resumes one: the data directory records the
/// used epochs. See docs/run-a-sequencer.md.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file
    #[arg(long, value_name = "FILE", required_unless_present = "public_key")]
    config: Option<PathBuf>,
    /// Directory for the record of used epochs; created if missing. Never copy it, and never restore it
    #[arg(long, value_name = "DIR", required_unless_present = "public_key")]
    data: Option<PathBuf>,
    /// Print the public key of a key file, for the genesis, and stop
    #[arg(long, value_name = "FILE", requires = "suite", conflicts_with_all = ["config", "data"])]
    public_key: Option<PathBuf>,
    /// Suite of the public key: 1 or 2 (keyed hashes), 4 (ECDSA secp256k1) or 5 (ed25519)
    #[arg(long, value_name = "NUMBER", requires = "public_key", value_parser = suite)]
    suite: Option<Suite>,
}

/// Runs `corniche sequencer` until it is stopped.
pub fn run(args: Args) -> anyhow::Result<()> {
    logging::start();
    if let (Some(path), Some(suite)) = (&args.public_key, args.suite) {
        exit::result(own_key(path, suite, &*read_secret(path)?)?);
        return Ok(());
    }
    let (Some(path), Some(data)) = (args.config, args.data) else {
        bail!("--config and --data are needed; give both");
    };
    let config = Config::load(&path)?;
    let group = |group: &GroupConfig| {
        let genesis = group.genesis.display();
        genesis::load(&group.genesis)
            .and_then(|loaded| resolve(&config, group, &loaded))
            .with_context(|| format!("group of {genesis}"))
    };
    let groups = config.groups.iter().map(group).collect::<Result<Vec<_>, _>>()?;
    let sequencer = Sequencer::start(&config, groups, &data).with_context(|| format!("in {}", path.display()))?;
    let stop = sequencer.stop_handle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot wait for signals")?;
    let wait = move || {
        runtime.block_on(signals::stop_signal());
        stop.stop();
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    let admin = sequencer.admin().map_or_else(|| "none".into(), |admin| admin.to_string());
    tracing::info!(address = %sequencer.address(), admin, groups = config.groups.len(), "sequencer is on standby");
    sequencer.wait().context("the sequencer stopped")
}

fn suite(text: &str) -> Result<Suite, String> {
    let suite = text.parse().ok().and_then(|number: u8| Suite::try_from(number).ok());
    suite.filter(|suite| *suite != Suite::HalfSipHash64).ok_or_else(|| "expected 1, 2, 4 or 5".into())
}

fn read_secret(path: &Path) -> anyhow::Result<Zeroizing<[u8; 32]>> {
    secret::read(path, |text| {
        let mut key = Zeroizing::new([0; 32]);
        hex::decode_to_slice(text, &mut *key).map(|()| key)
    })
}

/// Returns the public key as in a genesis.
fn own_key(path: &Path, suite: Suite, secret: &[u8; 32]) -> anyhow::Result<String> {
    let key = public_key(suite, secret).with_context(|| path.display().to_string())?;
    Ok(Bytes::from(key).to_string())
}

/// Combines a group of the file with its genesis and key.
fn resolve(config: &Config, group: &GroupConfig, genesis: &Genesis) -> anyhow::Result<Group> {
    let Some(multicast) = &genesis.multicast else {
        bail!(
            "genesis: expected `multicast` with the sequencers, got none; its engine {} needs no sequencer",
            genesis.engine.name
        );
    };
    let engine = corniche_neobft::Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    let suite = Suite::try_from(multicast.suite)?;
    let secret = read_secret(&group.key)?;
    let own = own_key(&group.key, suite, &secret)?;
    let index = multicast.sequencers.iter().position(|key| key.to_string() == own);
    let Some(index) = index else {
        bail!("genesis: expected {own}, the public key of {}, among the sequencers; it lists others", group.key.display());
    };
    let exchange_keys = match suite.kind() {
        Kind::Hm => genesis.validators.iter().map(|validator| exchange_public(&validator.network_key.0)).collect(),
        Kind::Pk => Ok(Vec::new()),
    };
    let committee = Committee::from_genesis(genesis);
    let keys = CommitteeKeys::new(&committee).context("the genesis' consensus keys are damaged")?;
    let (chain_id, number) = (committee.chain_id(), engine.group);
    let max_payload_bytes = config.max_payload_bytes.unwrap_or(engine.payload_bytes as usize);
    let verifier = NeobftVerifier::new(engine, committee, Arc::new(keys));
    Ok(Group {
        chain_id,
        group: number,
        suite,
        sequencers: multicast.sequencers.len() as u32,
        index: index as u32,
        secret,
        exchange_keys: exchange_keys.context("the genesis' network keys are damaged")?,
        max_payload_bytes,
        destinations: group.destinations(config.back_end, genesis.validators.len())?,
        authority: Box::new(move |epoch, certificate| {
            check_epoch_certificate(&verifier, &Bytes::copy_from_slice(certificate)) == Some(epoch)
        }),
    })
}
