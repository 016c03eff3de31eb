//! `corniche sequencer`: orders requests of data-centre groups.

use crate::{logging, signals};
use anyhow::Context;
use corniche_aom_sequencer::{Config, Secrets, Sequencer};
use corniche_console::{exit, secret};
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Number the requests of data-centre groups, and send them with proofs of their order to all receivers
///
/// A sequencer never resumes an epoch: each start needs an epoch above all earlier ones of its groups. The data directory records the used
/// ones. See docs/run-a-sequencer.md.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Directory for the record of used epochs; created if missing. Never copy it, and never restore it
    #[arg(long, value_name = "DIR", required_unless_present = "public_keys")]
    data: Option<PathBuf>,
    /// Print the public key of each group as JSON, and stop
    #[arg(long)]
    public_keys: bool,
}

/// Runs `corniche sequencer` until it is stopped.
pub fn run(args: Args) -> anyhow::Result<()> {
    logging::start();
    let Args { config: path, data, public_keys } = args;
    let config = Config::load(&path)?;
    let secrets = read_secrets(&config)?;
    let Some(data) = data.filter(|_| !public_keys) else {
        let keys: Vec<_> = config.public_keys(&secrets)?;
        let keys: serde_json::Map<_, _> = keys.into_iter().map(|(group, key)| (group.to_string(), key.into())).collect();
        exit::result(serde_json::to_string_pretty(&keys)?);
        return Ok(());
    };
    let sequencer = Sequencer::start(&config, &secrets, &data).with_context(|| format!("in {}", path.display()))?;
    let stop = sequencer.stop_handle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot wait for signals")?;
    let wait = move || {
        runtime.block_on(signals::stop_signal());
        stop.stop();
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    let admin = sequencer.admin().map_or_else(|| "none".into(), |admin| admin.to_string());
    tracing::info!(address = %sequencer.address(), admin, groups = config.groups.len(), "sequencer is up");
    sequencer.wait().context("the sequencer stopped")
}

fn read_secrets(config: &Config) -> anyhow::Result<Secrets> {
    let parse = |text: &str| {
        let mut key = Zeroizing::new([0; 32]);
        hex::decode_to_slice(text, &mut *key).map(|()| key)
    };
    config.groups.iter().map(|group| Ok((group.group, secret::read(&group.key, parse)?))).collect()
}
