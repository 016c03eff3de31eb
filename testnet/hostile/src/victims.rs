//! The processes under attack: a network in a temporary directory, with the keys and addresses that an attacker uses.

use crate::{options::Options, output::log_line};
use anyhow::{Context, bail, ensure};
use corniche_client::{Client, Draft, Wait};
use corniche_crypto::EthereumKey;
use corniche_network::PeerAddress;
use corniche_processes::{LocalNetwork, Memory, NetworkOptions, Node};
use corniche_types::{Address, B256, Genesis, U256};
use serde::Deserialize;
use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Request timeout: a slower response counts as none.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Victims {
    network: LocalNetwork,
    /// The validators in the order of the genesis, then the full node.
    pub members: Vec<Member>,
}

/// Addresses and keys of a node, as an attacker uses them.
pub struct Member {
    pub rpc: String,
    pub peer: PeerAddress,
    /// Keys of a validator; a full node has none.
    pub keys: PathBuf,
}

/// The part of `node.toml` that a peer needs.
#[derive(Deserialize)]
struct Listening {
    listen: Vec<String>,
}

impl Victims {
    /// Starts a network on free ports, with one full node that has to follow, and waits until every node responds.
    pub fn up(options: &Options, engine: &str, signatures: Option<&str>) -> anyhow::Result<Self> {
        let &Options { ref corniche, validators, keep, .. } = options;
        let prefix = "corniche-hostile-";
        // Validators are liable, and no epoch ends meanwhile. Sharded checks would need fewer validators than the default.
        let staking = signatures.is_none().then_some("epoch_ms=86400000");
        let options =
            NetworkOptions { corniche, engine: Some(engine), signatures, staking, validators, full_nodes: 1, prefix, keep };
        let network = LocalNetwork::up(&options)?;
        if keep {
            log_line(format_args!("logs and data are kept in {}", network.directory().display()));
        }
        let members = network.nodes.iter().map(Member::new).collect::<anyhow::Result<_>>()?;
        Ok(Self { network, members })
    }

    pub fn genesis(&self) -> &Genesis {
        &self.network.genesis
    }

    /// Index of the full node, which every final check includes.
    pub fn follower(&self) -> usize {
        self.members.len() - 1
    }

    /// A funded account that nobody uses.
    pub fn idle_account(&self) -> Option<Address> {
        Some(self.network.accounts.get(2)?.address())
    }

    pub fn client(&self, index: usize) -> Client {
        self.network.client(index, REQUEST_TIMEOUT)
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub fn stop(&self, index: usize) -> anyhow::Result<()> {
        self.network.stop(index)
    }

    /// Starts a stopped process on its data and waits until it responds.
    pub fn start(&self, index: usize) -> anyhow::Result<()> {
        self.network.start(index)
    }

    /// `None` if the process is stopped or has ended by itself.
    pub fn memory(&self, index: usize) -> Option<Memory> {
        self.network.memory(index)
    }

    /// Sends a transfer through one of these nodes and waits until all of them have executed it. Returns the duration.
    pub fn transfer(&self, nodes: &[usize], timeout: Duration) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let wait = Wait { longest_pause: POLL_INTERVAL, ..Wait::at_most(timeout) };
        let first = *nodes.first().context("expected at least one honest node")?;
        // The load uses the first account, the faucet the last.
        let key = self.network.accounts.get(1).context("no account is funded")?;
        let client = self.client(first);
        // A node may temporarily refuse a transfer that it accepts later.
        let mut refusal = None;
        let sent = wait.until(|| Ok(self.offer(&client, key).map_err(|error| refusal = Some(error)).ok()))?;
        let Some(hash) = sent else { bail!("node {first} accepts no transfer: {:#}", refusal.unwrap_or_else(no_reason)) };
        for index in nodes {
            let client = self.client(*index);
            let left = timeout.saturating_sub(started.elapsed());
            let found = Wait { deadline: left, ..wait }.until(|| Ok(client.receipt(hash).ok().flatten()))?;
            ensure!(found.is_some(), "node {index} has no receipt of {hash} after {} ms", started.elapsed().as_millis());
        }
        Ok(started.elapsed())
    }

    fn offer(&self, client: &Client, key: &EthereumKey) -> anyhow::Result<B256> {
        let mut draft = Draft::transfer(key.address(), U256::from(1));
        draft.gas_limit = Some(21_000);
        draft.max_fee_per_gas = Some(client.fees()?.max_fee_per_gas.saturating_mul(10));
        Ok(client.send(key, &draft)?)
    }

    /// Checks that these nodes have equal blocks at the highest height of any of them.
    pub fn agree(&self, nodes: &[usize], timeout: Duration) -> anyhow::Result<()> {
        let heights = nodes.iter().map(|index| Ok(self.client(*index).block_number()?)).collect::<anyhow::Result<Vec<_>>>()?;
        let height = heights.into_iter().max().unwrap_or(0);
        let mut hashes = Vec::new();
        for index in nodes {
            let client = self.client(*index);
            let block = Wait::at_most(timeout).until(|| Ok(client.block(height).ok().flatten()))?;
            hashes.push(block.with_context(|| format!("node {index} did not reach block {height}"))?.hash);
        }
        ensure!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "block {height} differs: {hashes:?}");
        Ok(())
    }
}

impl Member {
    fn new(node: &Node) -> anyhow::Result<Self> {
        let text = fs::read_to_string(&node.config)?;
        let listening: Listening = toml::from_str(&text).with_context(|| format!("cannot read {}", node.config.display()))?;
        let address = listening.listen.first().context("node.toml: expected a listen address")?;
        let folder = node.config.parent().context("node.toml has a parent directory")?;
        let own = [folder.join("keys/network.key"), folder.join("network.key")];
        let key = own.iter().find(|path| path.exists()).context("the node has no network key")?;
        let peer = format!("{address}/p2p/{}", crate::keys::network(key)?.key()).parse()?;
        Ok(Self { rpc: node.rpc.clone(), peer, keys: folder.join("keys") })
    }
}

fn no_reason() -> anyhow::Error {
    anyhow::anyhow!("no reason given")
}
