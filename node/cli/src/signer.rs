//! `corniche signer`: keeps a validator's signing keys in a process of its own.

use crate::{keys, logging, signals};
use anyhow::Context;
use corniche_signer::{SecretKeys, Server, ServerOptions};
use corniche_types::Epoch;
use std::path::PathBuf;

/// Hold a validator's signing keys in a process of its own, and refuse contradictory signatures
///
/// The node asks for each signature over a Unix socket (`signer = "unix:PATH"` in node.toml). A record on disk, the marks, says how far the
/// validator has signed. So a node that is started twice, or restored from a backup, cannot sign twice. See "Remote signer" in
/// docs/operate.md.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory with consensus.key and bls.key. Give the option twice while the validator replaces its keys
    #[arg(long, value_name = "DIR", required = true)]
    keys: Vec<PathBuf>,
    /// Unix socket to create; its directory must exist
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Directory for the marks; created if missing. Never copy it, and never restore it
    #[arg(long, value_name = "DIR")]
    marks: PathBuf,
    /// Sign from this epoch on, if there are no marks yet. Safe if the keys signed nothing in it, or if the node keeps its safety/. Default:
    /// the epoch after the first one that the node asks about. A chain without stake stays in epoch 0 and needs 0
    #[arg(long, value_name = "EPOCH")]
    from_epoch: Option<u64>,
    /// User id that may connect; default: the signer's own
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
}

/// Runs `corniche signer` until it is stopped.
pub fn run(args: Args) -> anyhow::Result<()> {
    logging::start();
    let Args { keys, socket, marks, from_epoch, uid } = args;
    let load = |directory: &PathBuf| {
        let (consensus, bls) = keys::load_signing(directory)?;
        Ok(SecretKeys { consensus, bls })
    };
    let keys = keys.iter().map(load).collect::<anyhow::Result<Vec<_>>>()?;
    let public: Vec<_> = keys.iter().map(|keys| keys.public().0.to_string()).collect();
    let options = ServerOptions { socket, marks, uid, from_epoch: from_epoch.map(Epoch) };
    let mut server = Server::bind(&options, keys)?;
    let stop = server.stop_handle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot wait for signals")?;
    let wait = move || {
        runtime.block_on(signals::stop_signal());
        stop.stop();
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    tracing::info!(socket = %options.socket.display(), keys = public.join(", "), "signer is up");
    server.serve()?;
    Ok(())
}
