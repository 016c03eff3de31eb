//! `corniche snapshot`: snapshots of the state as files, for nodes that cannot fetch them from peers.

use crate::genesis;
use anyhow::Context;
use clap::Subcommand;
use corniche_console::exit;
use corniche_service::{NodeConfig, SnapshotCopy, Sync, Trust};
use std::path::PathBuf;

/// List, make, check and move snapshots of the state
///
/// A node makes snapshots by itself and serves them to others, which fetch them when their data directory is empty. These commands do the
/// same with files. They check the same: everything is proved from the genesis.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    List(ListArgs),
    Make(MakeArgs),
    Verify(VerifyArgs),
    Export(ExportArgs),
    Import(ImportArgs),
}

/// List the snapshots of a data directory, newest first; the node may run
#[derive(clap::Args, Debug)]
struct ListArgs {
    /// Genesis file of the chain
    #[arg(long, value_name = "FILE")]
    genesis: PathBuf,
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// Make a snapshot of the newest certified state of a node that does not run
#[derive(clap::Args, Debug)]
struct MakeArgs {
    /// Configuration file of the node
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// Check an exported snapshot: committees, block, every chunk and every code
#[derive(clap::Args, Debug)]
struct VerifyArgs {
    /// Genesis file of the chain
    #[arg(long, value_name = "FILE")]
    genesis: PathBuf,
    /// Directory of the exported snapshot
    #[arg(value_name = "SNAPSHOT")]
    from: PathBuf,
}

/// Copy a snapshot out of a data directory, with what proves it; the node may run
#[derive(clap::Args, Debug)]
struct ExportArgs {
    /// Genesis file of the chain
    #[arg(long, value_name = "FILE")]
    genesis: PathBuf,
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Height of the snapshot; default: the newest one
    #[arg(long, value_name = "HEIGHT")]
    height: Option<u64>,
    /// Directory to create
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Check an exported snapshot and put it into an empty data directory, where a node begins with it
#[derive(clap::Args, Debug)]
struct ImportArgs {
    /// Genesis file of the chain
    #[arg(long, value_name = "FILE")]
    genesis: PathBuf,
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Trust point that the snapshot must contain, or `genesis`, as `trust` in the section `[sync]` of a configuration
    #[arg(long, value_name = "POINT")]
    trust: Option<Trust>,
    /// Directory of the exported snapshot
    #[arg(value_name = "SNAPSHOT")]
    from: PathBuf,
}

/// Runs `corniche snapshot`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::List(ListArgs { genesis, data }) => {
            let genesis = genesis::load(&genesis)?;
            for snapshot in corniche_service::list_snapshots(&genesis, &data)? {
                let manifest = snapshot.manifest();
                let (entries, chunks, bytes) = (manifest.entries(), manifest.chunks.len(), manifest.chunk_bytes());
                let (height, hash) = (snapshot.height(), snapshot.manifest_hash());
                exit::result(format_args!("{height}  {entries} entries  {chunks} chunks  {bytes} bytes  {hash}"));
            }
        }
        Command::Make(MakeArgs { config, data }) => {
            let config = NodeConfig::load(&config)?;
            let genesis = genesis::load(&config.genesis)?;
            let path = corniche_service::make_snapshot(config, genesis, None, &data)?;
            exit::result(path.display());
        }
        Command::Verify(VerifyArgs { genesis, from }) => {
            let genesis = genesis::load(&genesis)?;
            let copy = SnapshotCopy::open(&genesis, &from)?;
            exit::result(format_args!("the snapshot of block {} is valid", copy.height()));
        }
        Command::Export(ExportArgs { genesis, data, height, out }) => {
            let genesis = genesis::load(&genesis)?;
            let copy = SnapshotCopy::export(&genesis, &data, height, &out)
                .with_context(|| format!("cannot export from {}", data.display()))?;
            exit::result(format_args!("the snapshot of block {} is in {}", copy.height(), out.display()));
        }
        Command::Import(ImportArgs { genesis, data, trust, from }) => {
            let genesis = genesis::load(&genesis)?;
            let copy = SnapshotCopy::open(&genesis, &from)?;
            copy.import(&data, &Sync { trust, ..Sync::default() })?;
            exit::result(format_args!(
                "a node with the data directory {} begins after block {}",
                data.display(),
                copy.height()
            ));
        }
    }
    Ok(())
}
