//! Files of a new network: keys, genesis and configuration of each node.

use super::{
    SequencerPart, Testnet, Up,
    process::{NodeProcess, REPLICA},
};
use crate::{engines, explorer, genesis, keys};
use anyhow::{Context, bail, ensure};
use corniche_aom_sequencer::public_key;
use corniche_aom_wire::Suite;
use corniche_api::Namespaces;
use corniche_console::{dev_accounts::dev_accounts, secret};
use corniche_network::PeerKey;
use corniche_service::{
    Faucet, Limits, METRICS_ABOVE_RPC, MetricsAddress, Multicast, NetworkKey, NetworkSpec, NodeConfig, Serve, Sync, Trust,
    ValidatorKeys,
};
use corniche_types::{B256, Bytes, EngineConfig, MulticastGroup, SHARDED_ENGINE};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::Path,
};

/// Creates keys, genesis and configuration files of a new network.
pub(super) fn make(dir: &Path, up: &Up) -> anyhow::Result<Testnet> {
    let name = up.engine.as_deref().unwrap_or(engines::DEFAULT);
    let mut engine = EngineConfig { name: name.to_owned(), parameters: up.parameter.iter().cloned().collect() };
    let members = Members::of(up, name)?;
    engine.parameters.extend(members.parameters());
    let (validators, total) = (members.validators(), members.validators() + up.full_nodes);
    ensure!(validators >= 1, "a network needs at least one validator");
    ensure!(total <= 100, "more than 100 processes on one machine are not a testnet");
    let (votes, signatures) = (up.votes.clone(), up.signatures);
    let sequencers = if engines::has_sequencers(name)? {
        Sequencers::make(up, validators)?
    } else {
        ensure!(up.sequencer == SequencerPart::Process, "--sequencer: engine {name} has no sequencers");
        Sequencers::default()
    };
    let spec = NetworkSpec {
        validators,
        votes,
        engine,
        signatures,
        staking: up.staking.parameters()?,
        multicast: sequencers.group.clone(),
        block_ms: members.block_ms(),
        ..genesis::default_spec()
    };
    let network = genesis::make_network(&spec)?;
    fs::write(dir.join("genesis.json"), network.genesis.to_json())?;
    let mut ports = Ports::choose(up.base_port, total)?;
    // The gateways, which come last in the genesis, get the first ports: wallets connect to them.
    if let Members::Sharded { gateways, .. } = members {
        ports.rotate(gateways);
    }
    let peers = network.validators.iter().zip(&ports.peers).map(|(keys, port)| peer_address(&keys.network, *port)).collect();
    let files = NodeFiles {
        dir,
        up,
        members,
        validators: &network.validators,
        ports,
        peers,
        limits: limits(up, total),
        sequencers: &sequencers,
    };
    let mut nodes = (0..total).map(|index| files.write(index)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Members::Sharded { gateways, .. } = members {
        nodes.rotate_right(gateways);
    }
    let sequencers = sequencers.write(dir)?;
    let explorer = (!up.no_explorer).then(|| explorer_of(dir, up)).transpose()?;
    Ok(Testnet { chain_id: network.genesis.chain_id, nodes, sequencers, explorer })
}

/// Limits of nodes that share one machine and one address.
fn limits(up: &Up, total: usize) -> Limits {
    let default = Limits::default();
    // More threads than processors only wake each other.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Limits {
        socket_threads: (processors / total).clamp(1, default.socket_threads),
        execution_threads: (processors / total).clamp(1, default.execution_threads),
        // Speculation uses idle processors; here there may be none.
        speculation: processors >= total,
        guests: up.full_nodes.max(default.guests),
        guests_per_address: up.full_nodes.max(default.guests_per_address),
        ..default
    }
}

/// Validators of a network.
#[derive(Clone, Copy)]
enum Members {
    Committee(usize),
    /// Replicas of shards, and gateways.
    Sharded {
        shards: usize,
        gateways: usize,
    },
}

/// 5f + 1 with f = 1.
const REPLICAS_PER_SHARD: usize = 6;
/// Role of a gateway.
const GATEWAY: &str = "gateway";
/// Interval of a sharded network's blocks.
const SHARDED_BLOCK_MS: u64 = 1_000;

impl Members {
    fn of(up: &Up, engine: &str) -> anyhow::Result<Self> {
        if engine != SHARDED_ENGINE {
            ensure!(
                up.shards.is_none() && up.gateways.is_none(),
                "--shards and --gateways: engine {engine} has neither; add `--engine {SHARDED_ENGINE}`"
            );
            return Ok(Self::Committee(up.validators.unwrap_or(4)));
        }
        ensure!(
            up.validators.is_none() && up.full_nodes == 0,
            "--validators and --full-nodes: {engine} has replicas and gateways; use --shards and --gateways"
        );
        Ok(Self::Sharded { shards: up.shards.unwrap_or(1), gateways: up.gateways.unwrap_or(1) })
    }

    fn validators(self) -> usize {
        match self {
            Self::Committee(validators) => validators,
            Self::Sharded { shards, gateways } => shards * REPLICAS_PER_SHARD + gateways,
        }
    }

    fn parameters(self) -> Vec<(String, u64)> {
        match self {
            Self::Committee(_) => Vec::new(),
            Self::Sharded { shards, gateways } => {
                vec![("shards".into(), shards as u64), ("gateways".into(), gateways as u64)]
            }
        }
    }

    fn block_ms(self) -> u64 {
        match self {
            Self::Committee(_) => genesis::default_spec().block_ms,
            Self::Sharded { .. } => SHARDED_BLOCK_MS,
        }
    }

    /// Name and role of a validator.
    fn name(self, index: usize) -> (String, &'static str) {
        let Self::Sharded { shards, .. } = self else { return (format!("validator-{index}"), "validator") };
        let replicas = shards * REPLICAS_PER_SHARD;
        match index.checked_sub(replicas) {
            Some(gateway) => (format!("gateway-{gateway}"), GATEWAY),
            None => (format!("replica-{}-{}", index / REPLICAS_PER_SHARD, index % REPLICAS_PER_SHARD), REPLICA),
        }
    }

    /// True for the node that users connect to first.
    fn is_first(self, index: usize) -> bool {
        match self {
            Self::Committee(_) => index == 0,
            Self::Sharded { shards, .. } => index == shards * REPLICAS_PER_SHARD,
        }
    }
}

/// Writes the folder of each node. Validators come first, then full nodes.
struct NodeFiles<'a> {
    dir: &'a Path,
    up: &'a Up,
    members: Members,
    validators: &'a [ValidatorKeys],
    ports: Ports,
    /// Addresses of the validators for other nodes.
    peers: Vec<String>,
    limits: Limits,
    sequencers: &'a Sequencers,
}

impl NodeFiles<'_> {
    fn write(&self, index: usize) -> anyhow::Result<NodeProcess> {
        let validator = self.validators.get(index);
        let (name, role) = match validator {
            Some(_) => self.members.name(index),
            None => (format!("full-{}", index - self.validators.len()), "full"),
        };
        let folder = self.dir.join(&name);
        fs::create_dir_all(&folder)?;
        match validator {
            Some(keys) => {
                keys::save(keys, &folder.join("keys"))?;
                if role != GATEWAY {
                    keys.declare_unsigned(&folder.join("data"))?;
                }
            }
            None => secret::write(&folder.join("network.key"), &hex::encode(B256::random()))?,
        }
        let config = self.config(index, &folder)?;
        let config_path = folder.join("node.toml");
        fs::write(&config_path, toml::to_string(&config)?)?;
        let metrics = format!("http://127.0.0.1:{}/metrics", self.ports.metrics[index]);
        Ok(NodeProcess {
            rpc: if role == REPLICA { metrics.clone() } else { format!("http://{}", config.rpc) },
            metrics: Some(metrics),
            role: role.into(),
            data_dir: folder.join("data"),
            log: folder.join("node.log"),
            config: config_path,
            name,
            pid: None,
        })
    }

    fn config(&self, index: usize, folder: &Path) -> anyhow::Result<NodeConfig> {
        let is_validator = index < self.validators.len();
        // One node has a faucet, from the last funded account.
        let faucet = dev_accounts().pop().filter(|_| self.members.is_first(index));
        if let Some(account) = &faucet {
            secret::write(&folder.join("faucet.key"), account.secret)?;
        }
        let others = self.peers.iter().enumerate().filter(|(other, _)| *other != index);
        Ok(NodeConfig {
            max_version: None,
            multicast: self.sequencers.member(index),
            genesis: "../genesis.json".into(),
            faucet: faucet.map(|_| Faucet::with_key("faucet.key".into())),
            keys: is_validator.then(|| "keys".into()),
            signer: None,
            rpc: SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports.rpc[index])),
            metrics: Some(MetricsAddress::At(SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports.metrics[index])))),
            listen: vec![format!("/ip4/127.0.0.1/tcp/{}", self.ports.peers[index])],
            peers: others.map(|(_, peer)| peer.clone()).collect(),
            learn_addresses: true,
            index: Default::default(),
            state: Default::default(),
            history: Default::default(),
            // Networks on one machine have short epochs, and nothing to lose.
            sync: Sync { trust: Some(Trust::Genesis), ..Sync::default() },
            snapshots: Default::default(),
            network_key: (!is_validator).then(|| "network.key".into()),
            // All clients are on this machine, and load tests are the purpose.
            serve: Serve {
                namespaces: namespaces(self.up, self.members.is_first(index))?,
                spare_loopback: true,
                ..Serve::default()
            },
            limits: self.limits.clone(),
        })
    }
}

/// The explorer queries the first node, including traces of transactions.
fn namespaces(up: &Up, is_first: bool) -> anyhow::Result<Namespaces> {
    Ok(match &up.namespaces {
        Some(namespaces) => namespaces.clone(),
        None if is_first && !up.no_explorer => Namespaces::from_names(Namespaces::default().names().chain(["debug"]))?,
        None => Namespaces::default(),
    })
}

fn explorer_of(dir: &Path, up: &Up) -> anyhow::Result<NodeProcess> {
    let folder = dir.join("explorer");
    fs::create_dir_all(&folder)?;
    let free = |port: u16| -> anyhow::Result<SocketAddr> { Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.local_addr()?) };
    let usual = if up.base_port == 0 { 0 } else { explorer::PORT };
    let address = match up.explorer_port {
        Some(port) => free(port).with_context(|| format!("port {port} is taken; choose another --explorer-port"))?,
        None => free(usual).or_else(|_| free(0))?,
    };
    Ok(NodeProcess {
        name: "explorer".into(),
        role: "explorer".into(),
        rpc: format!("http://{address}"),
        metrics: None,
        data_dir: folder.clone(),
        log: dir.join("explorer.log"),
        config: folder,
        pid: None,
    })
}

/// Sequencers of a network, and the addresses of its multicast group.
#[derive(Default)]
struct Sequencers {
    group: Option<MulticastGroup>,
    secrets: Vec<B256>,
    /// For requests, one per sequencer.
    requests: Vec<SocketAddr>,
    /// For packets, one per validator, or the multicast address of all.
    packets: Packets,
    admin: Vec<SocketAddr>,
}

/// Destinations of packets.
enum Packets {
    Unicast(Vec<SocketAddr>),
    /// The first sequencer is an XDP program.
    Multicast {
        address: SocketAddr,
        validators: usize,
    },
}

impl Default for Packets {
    fn default() -> Self {
        Self::Unicast(Vec::new())
    }
}

/// Multicast address at the loopback interface, from the addresses for local use (RFC 2365).
const MULTICAST: Ipv4Addr = Ipv4Addr::new(239, 255, 160, 77);

impl Sequencers {
    /// Chooses keys and free ports.
    fn make(up: &Up, validators: usize) -> anyhow::Result<Self> {
        let suite = Suite::try_from(up.suite).with_context(|| format!("--suite {}: expected 1, 2, 4 or 5", up.suite))?;
        let secrets: Vec<_> = (0..up.sequencers).map(|_| B256::random()).collect();
        let public = |secret: &B256| anyhow::Ok(Bytes::from(public_key(suite, secret)?));
        let keys = secrets.iter().map(public).collect::<anyhow::Result<_>>()?;
        // All sockets are held until all ports are known, so that the ports differ.
        let udp = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no free UDP port on this machine");
        let sockets = (0..up.sequencers + validators).map(|_| udp()).collect::<anyhow::Result<Vec<_>>>()?;
        let mut requests = sockets.iter().map(UdpSocket::local_addr).collect::<Result<Vec<_>, _>>()?;
        let own = requests.split_off(up.sequencers);
        let packets = match (up.sequencer, &mut requests[..], &own[..]) {
            (SequencerPart::Xdp, [first, ..], [packets, ..]) => {
                check_xdp(up, validators)?;
                first.set_ip(MULTICAST.into());
                Packets::Multicast { address: (MULTICAST, packets.port()).into(), validators }
            }
            _ => Packets::Unicast(own),
        };
        let tcp = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on this machine");
        let listeners = (0..up.sequencers).map(|_| tcp()).collect::<anyhow::Result<Vec<_>>>()?;
        let admin = listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
        let group = Some(MulticastGroup { group: 1, suite: up.suite, sequencers: keys });
        Ok(Self { group, secrets, requests, packets, admin })
    }

    /// Configuration of a node; `None` for a full node, or without sequencers.
    fn member(&self, index: usize) -> Option<Multicast> {
        self.group.as_ref()?;
        let sequencers = self.requests.clone();
        match &self.packets {
            Packets::Unicast(addresses) => {
                Some(Multicast { listen: *addresses.get(index)?, join: None, interface: None, sequencers })
            }
            Packets::Multicast { address, validators } => (index < *validators).then(|| Multicast {
                listen: *address,
                join: Some(address.ip()),
                interface: Some(Ipv4Addr::LOCALHOST),
                sequencers,
            }),
        }
    }

    /// Writes the folder of each sequencer.
    fn write(&self, dir: &Path) -> anyhow::Result<Vec<NodeProcess>> {
        let write = |(index, secret): (usize, &B256)| {
            let name = format!("sequencer-{index}");
            let folder = dir.join(&name);
            fs::create_dir_all(&folder)?;
            secret::write(&folder.join("sequencer.key"), &hex::encode(secret))?;
            let config = folder.join("sequencer.toml");
            let (listen, admin) = (self.requests[index], self.admin[index]);
            let (back_end, destination) = match &self.packets {
                Packets::Unicast(addresses) => {
                    let receivers: Vec<_> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
                    (String::new(), format!("receivers = [{}]", receivers.join(", ")))
                }
                Packets::Multicast { address, .. } => {
                    let xdp = "back_end = \"xdp\"\n\n[xdp]\ninterface = \"lo\"\nmode = \"generic\"\n";
                    let back_end = if index == 0 { xdp } else { "back_end = \"multicast\"\n" };
                    let back_end = format!("{back_end}\n[multicast]\ninterface = \"{}\"\n", Ipv4Addr::LOCALHOST);
                    (back_end, format!("multicast = \"{address}\""))
                }
            };
            let text = format!(
                "listen = \"{listen}\"\nadmin = \"{admin}\"\n{back_end}\n[[groups]]\ngenesis = \"../genesis.json\"\n\
                 key = \"sequencer.key\"\n{destination}\n"
            );
            fs::write(&config, text)?;
            Ok(NodeProcess {
                rpc: format!("http://{admin}"),
                metrics: Some(format!("http://{admin}/metrics")),
                role: "sequencer".into(),
                data_dir: folder.join("data"),
                log: folder.join("sequencer.log"),
                config,
                name,
                pid: None,
            })
        };
        self.secrets.iter().enumerate().map(write).collect()
    }
}

/// Refuses what an XDP program cannot do, before anything is written.
fn check_xdp(up: &Up, validators: usize) -> anyhow::Result<()> {
    if !cfg!(feature = "xdp") {
        bail!(
            "--sequencer xdp: this program was built without it; build it with `cargo build --locked --workspace --bin corniche \
             --features corniche/xdp` (needs clang and libbpf-dev)"
        );
    }
    if up.suite != 1 || validators > 4 {
        bail!("--sequencer xdp: expected suite 1 and at most 4 validators, got suite {} and {validators}", up.suite);
    }
    Ok(())
}

fn peer_address(key: &NetworkKey, port: u16) -> String {
    format!("/ip4/127.0.0.1/tcp/{port}/p2p/{}", PeerKey(key.public()).to_peer_id())
}

struct Ports {
    rpc: Vec<u16>,
    peers: Vec<u16>,
    metrics: Vec<u16>,
}

impl Ports {
    /// Gives the first ports to the last nodes.
    fn rotate(&mut self, count: usize) {
        for ports in [&mut self.rpc, &mut self.peers, &mut self.metrics] {
            ports.rotate_left(count);
        }
    }

    fn choose(base: u16, count: usize) -> anyhow::Result<Self> {
        if base == 0 {
            // All listeners are held until all ports are known, so that the ports differ.
            let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on this machine");
            let listeners = (0..3 * count).map(|_| free()).collect::<anyhow::Result<Vec<_>>>()?;
            let mut ports =
                listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<anyhow::Result<Vec<_>>>()?;
            let metrics = ports.split_off(2 * count);
            let peers = ports.split_off(count);
            return Ok(Self { rpc: ports, peers, metrics });
        }
        let row = |first: u32| {
            let port = |index: usize| u16::try_from(first + index as u32).context("--base-port is too high");
            (0..count).map(port).collect::<anyhow::Result<Vec<_>>>()
        };
        let base = u32::from(base);
        let ports = Self { rpc: row(base)?, peers: row(base + 1000)?, metrics: row(base + u32::from(METRICS_ABOVE_RPC))? };
        for port in ports.rpc.iter().chain(&ports.peers).chain(&ports.metrics) {
            TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).with_context(|| {
                format!("port {port} is taken, perhaps by another testnet; stop it or choose another --base-port")
            })?;
        }
        Ok(ports)
    }
}
