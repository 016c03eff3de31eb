//! `corniche explorer`: the explorer as its own process, for any node. `corniche dev` and `corniche testnet
//! up` start one too.

use crate::logging;
use crate::signals;
use anyhow::Context;
use corniche_console::exit;
use corniche_origin::Proxy;
use corniche_web::{Config, Explorer, indexer::Keep, limits::Rate};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// Default port of an explorer.
pub const PORT: u16 = 4000;

/// Database file in an explorer's directory.
const FILE: &str = "explorer.sqlite";

/// Run a block explorer that follows a node
#[derive(clap::Args, Debug)]
pub struct Args {
    /// URL of the node's JSON-RPC. The explorer shows the DAG if it is a validator, and inner calls if it serves the namespace `debug`
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545", env = "CORNICHE_RPC")]
    node: String,
    /// URL of another node of the same network, queried only for its peers; may be repeated. The network page shows the round-trip times
    /// between the queried nodes
    #[arg(long, value_name = "URL")]
    also_ask: Vec<String>,
    /// Directory of the index database. It can be deleted: the explorer indexes the chain again
    #[arg(long, value_name = "DIR", default_value = ".explorer")]
    data: PathBuf,
    /// URL of a PostgreSQL database to use instead of the directory: postgres://USER@HOST/NAME
    #[arg(long, value_name = "URL", env = "CORNICHE_DATABASE", hide_env_values = true, conflicts_with = "data")]
    database: Option<String>,
    /// Address of the HTTP server; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))]
    listen: SocketAddr,
    /// Ticker of the native currency
    #[arg(long, value_name = "TEXT", default_value = "CRN")]
    currency: String,
    /// Number of DAG rounds to keep; 0 disables DAG requests to the node
    #[arg(long, value_name = "ROUNDS", default_value_t = Keep::default().dag_rounds)]
    dag_rounds: u64,
    /// Do not request inner calls, for which the node executes blocks again
    #[arg(long)]
    no_calls: bool,
    /// Address of a trusted proxy, or a network of proxies (10.0.0.0/8); may be repeated. Its `X-Forwarded-For` gives the client address
    /// for rate limits
    #[arg(long, value_name = "ADDRESS")]
    trusted_proxy: Vec<Proxy>,
    /// Print the first line as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `corniche explorer` until it is stopped.
pub fn run(args: Args) -> anyhow::Result<()> {
    logging::start();
    // Its clients may have more connections than the usual soft limit.
    corniche_service::raise_open_files();
    let database = match &args.database {
        Some(url) => url.clone(),
        None => in_directory(&args.data)?,
    };
    let config = Config {
        node: args.node,
        also_ask: args.also_ask,
        database,
        listen: args.listen,
        currency: args.currency,
        keep: Keep { dag_rounds: args.dag_rounds, calls: !args.no_calls },
        rate: Rate::default(),
        proxies: args.trusted_proxy,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let explorer = Explorer::open(&config).await?;
        let url = format!("http://{}", explorer.address()?);
        match args.json {
            true => exit::result(serde_json::json!({"explorer": url, "node": config.node})),
            false => exit::result(format_args!("Corniche explorer of {}\n\n  {url}\n\nStop with Ctrl-C", config.node)),
        }
        explorer.run(signals::stop_signal()).await?;
        anyhow::Ok(())
    });
    // Pending requests to a node end with the process.
    runtime.shutdown_background();
    result
}

/// Starts the explorer of a node in this process.
pub async fn beside(node: SocketAddr, port: u16, data: &Path, keep: Keep, currency: &str) -> anyhow::Result<Explorer> {
    let config = Config {
        node: format!("http://{node}"),
        also_ask: Vec::new(),
        database: in_directory(data)?,
        listen: (Ipv4Addr::LOCALHOST, port).into(),
        currency: currency.to_owned(),
        keep,
        rate: Rate { burst: f64::INFINITY, per_second: f64::INFINITY },
        proxies: Vec::new(),
    };
    Explorer::open(&config).await.with_context(|| format!("cannot begin the explorer over {}", data.join(FILE).display()))
}

/// URL of a database file in this directory.
fn in_directory(directory: &Path) -> anyhow::Result<String> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    Ok(format!("sqlite://{}?mode=rwc", directory.join(FILE).display()))
}
