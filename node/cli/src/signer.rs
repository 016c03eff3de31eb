//! `corniche signer`: keeps a validator's signing keys in a process of its own.

use crate::{keys, logging};
use anyhow::Context;
use corniche_signer::{SecretKeys, Server, ServerOptions};
use corniche_types::Epoch;
use std::path::PathBuf;

/// Sign for a validator's node over a Unix socket, and refuse to sign twice
///
/// The keys need not be readable by the node, and marks on disk outlive its memory: a node that is started twice or restored from a
/// backup cannot sign contradictory messages. The node asks for each signature (`signer = "unix:PATH"` in node.toml). See
/// docs/operate.md.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory with consensus.key and bls.key; given twice while the validator replaces its keys
    #[arg(long, value_name = "DIR", required = true)]
    keys: Vec<PathBuf>,
    /// Path of the socket, in a directory that exists
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Directory of the marks; created if it does not exist. Never copy it, and never start from an older copy
    #[arg(long, value_name = "DIR")]
    marks: PathBuf,
    /// First epoch to sign in if there are no marks yet. The operator promises that the validator has signed nothing in it. Without it,
    /// nothing is signed in the first epoch that the node asks about
    #[arg(long, value_name = "EPOCH")]
    from_epoch: Option<u64>,
    /// User id of the node; default: this process's own
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
    std::thread::Builder::new().name("signals".into()).spawn(move || wait_for_signal().map(|()| stop.stop()))?;
    tracing::info!(socket = %options.socket.display(), keys = public.join(", "), "signer is up");
    server.serve()?;
    Ok(())
}

/// Waits for the end of the process.
fn wait_for_signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot wait for signals")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        Ok(())
    })
}
