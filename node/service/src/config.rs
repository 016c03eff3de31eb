//! The configuration file of one node: local matters only; what affects results is in the genesis.

mod sync;

pub use sync::{BlockHistory, Snapshots, Sync, SyncMode, Trust, check_point};

use anyhow::Context;
use corniche_api::Namespaces;
use corniche_crypto::EthereumKey;
use corniche_origin::Proxy;
use corniche_rpc::{FaucetConfig, RpcConfig};
use corniche_store::{Backend, History};
use corniche_types::KnownVersions;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::net::TcpListener;

/// `node.toml`. Relative paths are relative to the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Genesis file. The program reads it, and the keys: [`NodeSetup`](crate::NodeSetup) contains both.
    pub genesis: PathBuf,
    /// Directory of a validator's keys (`corniche keys new`). Without it the node is a full node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<PathBuf>,
    /// Where the validator's signer listens (`corniche signer`): `"unix:PATH"`. Without it the keys that sign are in `keys`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<SignerAddress>,
    /// File with a full node's libp2p identity; made when it does not exist. A validator's is among its keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_key: Option<PathBuf>,
    /// Where JSON-RPC is served over HTTP and WebSocket.
    #[serde(default = "default_rpc")]
    pub rpc: SocketAddr,
    /// Where `/metrics` is served: an address, or `"off"`. Without it loopback, 2000 above the RPC port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsAddress>,
    /// Multiaddresses to listen on for peers; empty: none.
    #[serde(default)]
    pub listen: Vec<String>,
    /// Multiaddresses of peers to dial, each with its `/p2p/` identity.
    #[serde(default)]
    pub peers: Vec<String>,
    /// Addresses of a validator whose genesis has a multicast group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast: Option<Multicast>,
    /// Highest protocol version that this validator announces. A lower one than the build knows withholds its votes for the
    /// upgrade (U5). The node executes all versions that its build knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_version: Option<u32>,
    /// Also dials validators at the addresses that they announce. Turn it off if only the addresses in `peers` reach them.
    #[serde(default = "default_true", skip_serializing_if = "Clone::clone")]
    pub learn_addresses: bool,
    /// Database of the state's checkpoint and the indices: `"sled"` or `"redb"`. After a change the node builds them again from
    /// the block log.
    #[serde(default, with = "backend_name")]
    pub index: Backend,
    #[serde(default)]
    pub state: StateHistory,
    #[serde(default)]
    pub history: BlockHistory,
    #[serde(default)]
    pub sync: Sync,
    #[serde(default)]
    pub snapshots: Snapshots,
    #[serde(default)]
    pub serve: Serve,
    /// Faucet of a test network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faucet: Option<Faucet>,
    #[serde(default)]
    pub limits: Limits,
}

/// Addresses of a multicast group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Multicast {
    /// UDP address for packets of the sequencers. Only they should reach it.
    pub listen: SocketAddr,
    /// Multicast address to join, if the sequencers send to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<IpAddr>,
    /// Address of the network interface for multicast, both ways; default: the system's choice. IPv4 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Ipv4Addr>,
    /// UDP addresses of the sequencers for requests, in the order of the genesis.
    pub sequencers: Vec<SocketAddr>,
}

/// Address of a remote signer: a Unix socket. Written as `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SignerAddress(PathBuf);

impl SignerAddress {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<String> for SignerAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let path = text.strip_prefix("unix:").filter(|path| !path.is_empty());
        path.map(|path| Self(path.into()))
            .ok_or_else(|| format!("signer: expected \"unix:\" and a path, got {text:?}; correct it"))
    }
}

impl From<SignerAddress> for String {
    fn from(address: SignerAddress) -> Self {
        format!("unix:{}", address.0.display())
    }
}

/// Configured address of `/metrics`. Written as an address with a port, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MetricsAddress {
    At(SocketAddr),
    Off,
}

/// The default port of `/metrics`, above that of RPC.
pub const METRICS_ABOVE_RPC: u16 = 2000;

impl MetricsAddress {
    /// Binds the configured address. `None`: on loopback, [`METRICS_ABOVE_RPC`] above the port of `rpc`, or a free port if that one is
    /// taken.
    pub async fn bind(configured: Option<Self>, rpc: SocketAddr) -> anyhow::Result<Option<TcpListener>> {
        match configured {
            Some(Self::Off) => Ok(None),
            Some(Self::At(address)) => {
                let bound = TcpListener::bind(address).await;
                bound.map(Some).with_context(|| {
                    format!("metrics: expected to serve on {address}, which failed; choose another address or \"off\"")
                })
            }
            None => {
                let port = if rpc.port() == 0 { 0 } else { rpc.port().checked_add(METRICS_ABOVE_RPC).unwrap_or(0) };
                let bound = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                    // Nobody asked for this port, so it stops nobody from starting.
                    Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
                    bound => bound,
                };
                Ok(Some(bound.context("metrics: expected a free port on loopback, got none; set metrics = \"off\"")?))
            }
        }
    }
}

impl TryFrom<String> for MetricsAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let address = text.parse().map(Self::At);
        address.map_err(|_| format!("metrics: expected an address with a port or \"off\", got {text:?}; correct it"))
    }
}

impl From<MetricsAddress> for String {
    fn from(metrics: MetricsAddress) -> Self {
        match metrics {
            MetricsAddress::At(address) => address.to_string(),
            MetricsAddress::Off => "off".into(),
        }
    }
}

/// Old states to keep.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateHistory {
    /// Blocks below the newest whose states are kept on disk, or `"archive"`: all. 0: those of `limits.recent_states` are all there are. An
    /// archive of a chain that has blocks already is built from the block log when the node starts.
    #[serde(with = "history_value")]
    pub history: History,
}

/// Limits and namespaces of RPC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Serve {
    /// Namespaces of methods, or `"all"`. Without it: what wallets, libraries and indexers call.
    pub namespaces: Namespaces,
    /// Names by which requests may call this node, beside addresses; `"*"`: any.
    pub hosts: Vec<String>,
    /// Origins of pages that may call; `"*"`: any.
    pub origins: Vec<String>,
    /// Requests per second from one address; 0: any number.
    pub requests_per_second: u32,
    /// Requests per second of one connection, likewise.
    pub requests_per_second_per_connection: u32,
    /// Open connections, WebSockets included. Each takes an open file, of which the system limits the number (`open_files`).
    pub connections: usize,
    /// Open WebSockets.
    pub websockets: usize,
    /// Open connections from one address.
    pub connections_per_address: usize,
    /// True if loopback clients have no rate limit and no limit on their share of the resources of all clients. Do not use this
    /// behind a proxy on the same machine, unless the proxy is in `trusted_proxies`.
    pub spare_loopback: bool,
    /// Addresses or networks of proxies whose `X-Forwarded-For` names the client.
    pub trusted_proxies: Vec<Proxy>,
    /// Seconds between the first and the last block of one query for logs.
    pub log_span_seconds: u64,
}

impl Default for Serve {
    fn default() -> Self {
        Self {
            namespaces: Namespaces::default(),
            hosts: vec!["localhost".into()],
            origins: vec!["*".into()],
            requests_per_second: 2_000,
            requests_per_second_per_connection: 1_000,
            connections: RpcConfig::default().max_connections,
            websockets: RpcConfig::default().max_websockets,
            connections_per_address: 512,
            spare_loopback: RpcConfig::default().spare_loopback,
            trusted_proxies: Vec::new(),
            log_span_seconds: RpcConfig::default().max_log_span.as_secs(),
        }
    }
}

impl Serve {
    pub fn rpc(&self) -> RpcConfig {
        let named = |list: &[String]| if list.iter().any(|name| name == "*") { None } else { Some(list.to_vec()) };
        RpcConfig {
            namespaces: self.namespaces.clone(),
            hosts: named(&self.hosts),
            allowed_origins: named(&self.origins),
            requests_per_second: (self.requests_per_second > 0).then_some(self.requests_per_second),
            requests_per_second_per_connection: (self.requests_per_second_per_connection > 0)
                .then_some(self.requests_per_second_per_connection),
            max_connections: self.connections,
            max_websockets: self.websockets,
            max_connections_per_address: self.connections_per_address,
            spare_loopback: self.spare_loopback,
            trusted_proxies: self.trusted_proxies.clone(),
            max_log_span: Duration::from_secs(self.log_span_seconds),
            ..RpcConfig::default()
        }
    }
}

/// Amounts of `POST /faucet`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faucet {
    /// File with the secret key, in hexadecimal digits, of the account that gives.
    pub key: PathBuf,
    /// Wei at a time, in decimal digits.
    #[serde(default = "default_wei")]
    pub wei: String,
    /// Times a day for one account, and for one client address.
    #[serde(default = "default_per_account")]
    pub per_account: u32,
    #[serde(default = "default_per_client")]
    pub per_client: u32,
    /// Times a day for all together.
    #[serde(default = "default_per_day")]
    pub per_day: u32,
}

fn default_wei() -> String {
    "1000000000000000000".into()
}

fn default_per_account() -> u32 {
    1
}

fn default_per_client() -> u32 {
    10
}

fn default_per_day() -> u32 {
    1_000
}

impl Faucet {
    /// Defaults of a test network.
    pub fn with_key(key: PathBuf) -> Self {
        Self { key, wei: default_wei(), per_account: default_per_account(), per_client: 100, per_day: default_per_day() }
    }

    pub fn rpc(&self) -> anyhow::Result<FaucetConfig> {
        let key = corniche_console::secret::read(&self.key, EthereumKey::from_hex)?;
        let wei = self.wei.parse().with_context(|| format!("[faucet] wei: {:?} is not a number", self.wei))?;
        let Self { per_account, per_client, per_day, .. } = *self;
        Ok(FaucetConfig { key: Arc::new(key), wei, per_account, per_client, per_day })
    }
}

/// Bounds of local queues and pools.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Messages waiting for the pipeline before peers and users are pushed back.
    pub inbox: usize,
    /// Inbound connections with peers outside the committee. Validators have slots of their own on top.
    pub guests: usize,
    /// Those from one address (IPv6: one /64).
    pub guests_per_address: usize,
    /// Transactions in the pool.
    pub pool_transactions: usize,
    /// Threads that carry sockets: RPC, users' signatures and peers' bytes.
    pub socket_threads: usize,
    /// Threads that check signatures and peers' messages.
    pub verify_threads: usize,
    /// Threads that execute blocks.
    pub execution_threads: usize,
    /// True if transactions are executed as soon as a proposal with them arrives, so that their results are ready when they are
    /// ordered. Results do not change.
    pub speculation: bool,
    /// Blocks below the newest whose states can still be asked for (`eth_call` at a number). They lie in memory, about 100 bytes for each
    /// value that a block changed; those from before the last start are gone.
    pub recent_states: u64,
    /// Mebibytes on disk for what a validator's engine did lately, shown by `corniche_getDag`; 0: none.
    pub trace_mib: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inbox: 8_192,
            guests: 64,
            guests_per_address: 8,
            pool_transactions: 50_000,
            socket_threads: 2,
            verify_threads: 2,
            execution_threads: 2,
            speculation: true,
            recent_states: 256,
            trace_mib: 64,
        }
    }
}

mod history_value {
    use corniche_store::History;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum HistoryValue {
        Number(u64),
        Text(String),
    }

    pub fn serialize<S: Serializer>(history: &History, serializer: S) -> Result<S::Ok, S::Error> {
        match history {
            History::Off => serializer.serialize_u64(0),
            History::Blocks(blocks) => serializer.serialize_u64(*blocks),
            History::Archive => serializer.serialize_str("archive"),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<History, D::Error> {
        let value = match HistoryValue::deserialize(deserializer)? {
            HistoryValue::Number(blocks) => blocks.to_string(),
            HistoryValue::Text(text) => text,
        };
        value.parse().map_err(D::Error::custom)
    }
}

mod backend_name {
    use corniche_store::Backend;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(index: &Backend, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(index.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Backend, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

fn default_true() -> bool {
    true
}

fn default_rpc() -> SocketAddr {
    ([127, 0, 0, 1], 8545).into()
}

impl Default for NodeConfig {
    /// Full node without peers, with RPC on loopback.
    fn default() -> Self {
        Self {
            genesis: PathBuf::new(),
            keys: None,
            signer: None,
            network_key: None,
            rpc: default_rpc(),
            metrics: None,
            listen: Vec::new(),
            peers: Vec::new(),
            max_version: None,
            multicast: None,
            learn_addresses: true,
            index: Backend::default(),
            state: StateHistory::default(),
            history: BlockHistory::default(),
            sync: Sync::default(),
            snapshots: Snapshots::default(),
            serve: Serve::default(),
            faucet: None,
            limits: Limits::default(),
        }
    }
}

impl NodeConfig {
    /// Returns the protocol version that a validator announces: the highest that the build knows, or a lower one by
    /// configuration (U5).
    pub fn announced_version(&self) -> u32 {
        let known = KnownVersions::default().highest();
        self.max_version.map_or(known, |max| max.min(known))
    }

    /// Reads a configuration file and makes its paths absolute.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the configuration {}", path.display()))?;
        let mut config: Self = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        sync::check(&config)?;
        config.genesis = folder.join(&config.genesis);
        config.network_key = config.network_key.map(|key| folder.join(key));
        config.keys = config.keys.map(|keys| folder.join(keys));
        config.signer = config.signer.map(|SignerAddress(path)| SignerAddress(folder.join(path)));
        if let Some(faucet) = &mut config.faucet {
            faucet.key = folder.join(&faucet.key);
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_testkit::mutate::mutated;

    #[test]
    fn unknown_keys_are_refused() {
        let error = toml::from_str::<NodeConfig>("genesis = 'g.json'\nrcp = '127.0.0.1:1'").unwrap_err();
        assert!(error.to_string().contains("rcp"), "{error}");
    }

    /// `max_version` withholds an announcement (U5). It does not announce what the build does not know.
    #[test]
    fn max_version_limits_the_announcement() {
        let known = KnownVersions::default().highest();
        let announced =
            |text: &str| toml::from_str::<NodeConfig>(&format!("genesis = 'g.json'\n{text}")).unwrap().announced_version();
        assert_eq!(announced(""), known);
        assert_eq!(announced(&format!("max_version = {}", known - 1)), known - 1);
        assert_eq!(announced(&format!("max_version = {}", known + 1)), known);
    }

    #[test]
    fn unknown_namespaces_are_refused() {
        let read = |serve: &str| toml::from_str::<NodeConfig>(&format!("genesis = 'g.json'\n{serve}"));
        let default = read("").unwrap();
        assert_eq!(default.serve.rpc().namespaces, Namespaces::default());
        assert!(toml::to_string(&default).unwrap().contains("[serve]\nnamespaces = [\"corniche\", \"eth\", "));
        let some = read("[serve]\nnamespaces = ['eth', 'web3']").unwrap();
        assert_eq!(some.serve.rpc().namespaces, "eth,web3".parse().unwrap());
        let error = read("[serve]\nnamespaces = ['personal']").unwrap_err().to_string();
        assert!(error.contains("unknown namespace \"personal\""), "{error}");
    }

    #[test]
    fn history_setting_parses() {
        let read = |state: &str| toml::from_str::<NodeConfig>(&format!("genesis = 'g.json'\n{state}"));
        for (text, history) in [
            ("", History::Off),
            ("[state]\nhistory = 0", History::Off),
            ("[state]\nhistory = 90000", History::Blocks(90_000)),
            ("[state]\nhistory = 'archive'", History::Archive),
        ] {
            let config = read(text).unwrap();
            assert_eq!(config.state.history, history, "{text}");
            let again: NodeConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
            assert_eq!(again.state.history, history, "{text}");
        }
        let error = read("[state]\nhistory = 'everything'").unwrap_err().to_string();
        assert!(error.contains("neither a number of blocks nor \"archive\""), "{error}");
    }

    #[test]
    fn server_settings_are_passed_on() {
        let text = "genesis = 'g.json'\n[serve]\nhosts = ['rpc.example']\norigins = ['https://app.example']\n\
                    requests_per_second = 0\nrequests_per_second_per_connection = 3\nconnections = 9\nwebsockets = 8\nconnections_per_address = 7\nlog_span_seconds = 60\n\
                    spare_loopback = true\ntrusted_proxies = ['127.0.0.1', '10.0.0.0/8']";
        let rpc = toml::from_str::<NodeConfig>(text).unwrap().serve.rpc();
        assert_eq!(rpc.hosts, Some(vec!["rpc.example".to_string()]));
        assert_eq!(rpc.allowed_origins, Some(vec!["https://app.example".to_string()]));
        assert_eq!(rpc.requests_per_second, None);
        assert_eq!((rpc.max_connections, rpc.max_websockets, rpc.max_connections_per_address), (9, 8, 7));
        assert_eq!(rpc.requests_per_second_per_connection, Some(3));
        assert!(rpc.spare_loopback);
        assert_eq!(rpc.trusted_proxies, ["127.0.0.1", "10.0.0.0/8"].map(|text| text.parse::<Proxy>().unwrap()));
        let written = toml::to_string(&toml::from_str::<NodeConfig>(text).unwrap()).unwrap();
        assert!(written.contains("trusted_proxies = [\"127.0.0.1/32\", \"10.0.0.0/8\"]"), "{written}");
        assert_eq!(rpc.max_log_span, Duration::from_secs(60));
        let rpc = Serve { hosts: vec!["*".into()], ..Serve::default() }.rpc();
        assert_eq!((rpc.hosts, rpc.allowed_origins, rpc.requests_per_second), (None, None, Some(2_000)));
        assert!(!Serve::default().rpc().spare_loopback, "a proxy on this machine would make everyone a loopback client");
        assert_eq!(Serve::default().rpc().hosts, Some(vec!["localhost".to_string()]));
    }

    #[tokio::test]
    async fn metrics_address_is_separate() {
        let read = |metrics: &str| toml::from_str::<NodeConfig>(&format!("genesis = 'g.json'\n{metrics}"));
        let address = "127.0.0.1:9100".parse().unwrap();
        for (text, metrics) in [
            ("", None),
            ("metrics = 'off'", Some(MetricsAddress::Off)),
            ("metrics = '127.0.0.1:9100'", Some(MetricsAddress::At(address))),
        ] {
            let config = read(text).unwrap();
            assert_eq!(config.metrics, metrics, "{text}");
            assert_eq!(toml::from_str::<NodeConfig>(&toml::to_string(&config).unwrap()).unwrap().metrics, metrics);
        }
        let error = read("metrics = '9100'").unwrap_err().to_string();
        assert!(error.contains("expected an address with a port or \"off\", got \"9100\""), "{error}");

        let rpc = |port: u16| SocketAddr::from(([0, 0, 0, 0], port));
        assert!(MetricsAddress::bind(Some(MetricsAddress::Off), rpc(1)).await.unwrap().is_none());
        let port = |listener: &Option<TcpListener>| listener.as_ref().unwrap().local_addr().unwrap();
        let taken = MetricsAddress::bind(None, rpc(0)).await.unwrap();
        assert!(port(&taken).ip().is_loopback(), "whatever RPC listens on");
        let below = port(&taken).port() - METRICS_ABOVE_RPC;
        let other = MetricsAddress::bind(None, rpc(below)).await.unwrap();
        assert_ne!(port(&other), port(&taken), "a default that is taken gives way");
        let refused = MetricsAddress::bind(Some(MetricsAddress::At(port(&taken))), rpc(0)).await.unwrap_err().to_string();
        assert!(refused.starts_with("metrics: expected to serve on 127.0.0.1:"), "{refused}");
    }

    #[test]
    fn unknown_index_setting_is_refused() {
        let read = |index: &str| toml::from_str::<NodeConfig>(&format!("genesis = 'g.json'\n{index}"));
        assert_eq!(read("").unwrap().index, Backend::Redb);
        let sled = read("index = 'sled'").unwrap();
        assert_eq!(sled.index, Backend::Sled);
        assert!(toml::to_string(&sled).unwrap().contains("index = \"sled\""), "and it is written as it is read");
        let error = read("index = 'rocks'").unwrap_err().to_string();
        assert!(error.contains("\"rocks\" is unknown; there are \"sled\" and \"redb\""), "{error}");
    }

    /// The fuzz target of `node.toml`.
    #[test]
    fn mutated_files_never_panic() {
        let seeds = [
            "genesis = 'g.json'\n",
            "genesis = 'g.json'\nkeys = 'keys'\nrpc = '127.0.0.1:8545'\nmetrics = 'off'\nlisten = ['/ip4/0.0.0.0/udp/9000/quic-v1']\n\
             peers = ['/dns4/peer.example/tcp/9000']\nlearn_addresses = false\nindex = 'redb'\n[state]\nhistory = 90000\n",
            "genesis = 'g.json'\n[serve]\nnamespaces = ['eth', 'web3']\nhosts = ['rpc.example']\norigins = ['*']\nrequests_per_second = 0\n\
             log_span_seconds = 60\ntrusted_proxies = ['10.0.0.0/8', '::1']\n[limits]\nguests = 64\nexecution_threads = 2\n",
        ];
        let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
        let words: &[&[u8]] = &[
            b"[limits]\n",
            b"[[serve]]\n",
            b"=",
            b"'",
            b"\"\"\"",
            b"\n",
            b"-1",
            b"9223372036854775807",
            b"1e999",
            b"{",
            b"[[[[",
            b"/0",
        ];
        let (mut read, mut refused) = (0, 0);
        for case in 0..3_000 {
            let bytes = mutated(case, &seeds, words);
            match std::str::from_utf8(&bytes).map(toml::from_str::<NodeConfig>) {
                Ok(Ok(config)) => {
                    config.serve.rpc();
                    let written = toml::to_string(&config).unwrap();
                    assert!(toml::from_str::<NodeConfig>(&written).is_ok(), "case {case}: {written}");
                    read += 1;
                }
                _ => refused += 1,
            }
        }
        assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
    }
}
