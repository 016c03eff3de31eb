//! Limits of the server. They do not affect the chain; each bounds the cost that clients can cause.

use alloy_primitives::U256;
use corniche_api::Namespaces;
use corniche_crypto::EthereumKey;
use corniche_origin::Proxy;
use std::sync::Arc;
use std::time::Duration;

/// Limits of the server; the defaults are in `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcConfig {
    /// Methods of other namespaces get "method not found", with a hint how to enable them.
    pub namespaces: Namespaces,
    /// Settings of `/faucet`; `None` disables it.
    pub faucet: Option<FaucetConfig>,
    /// Maximum number of open connections, WebSockets included; further ones are closed at once. Default
    /// 1,024.
    pub max_connections: usize,
    /// Maximum number of open connections per address, trusted proxies excepted. Default 1,024.
    pub max_connections_per_address: usize,
    /// Requests per second and address; each element of a batch counts. `None` (default): unlimited. Bursts
    /// of a few seconds' worth are allowed.
    pub requests_per_second: Option<u32>,
    /// Requests per second and connection, with the same bursts; they count for the address too. `None`
    /// (default): unlimited.
    pub requests_per_second_per_connection: Option<u32>,
    /// True if loopback clients have no rate limit and no limit on their share of the budgets. Clients behind
    /// trusted proxies are not loopback clients, wherever the proxy runs. Default false.
    pub spare_loopback: bool,
    /// Proxies whose `X-Forwarded-For` names the client.
    pub trusted_proxies: Vec<Proxy>,
    /// Host names that requests may use for this node; IP addresses are always allowed. Prevents DNS
    /// rebinding, where a web page's own name resolves to this node. `None`: any name. Default `localhost`.
    pub hosts: Option<Vec<String>>,
    /// Maximum number of open WebSockets, default 256. One address may use a quarter of it, and a quarter of
    /// the bytes in flight, the filters, their addresses and topics, and the awaited receipts.
    pub max_websockets: usize,
    /// A connection without traffic in either direction is closed after this time, default 90 s. WebSockets
    /// are pinged earlier.
    pub idle_timeout: Duration,
    /// Time from the head of an HTTP request to the last byte of its body, default 20 s.
    pub body_timeout: Duration,
    /// Size of one request body or WebSocket message, in bytes. Default 2 MiB.
    pub max_request_bytes: usize,
    /// Total bytes of request bodies that are being read or processed. Default 128 MiB.
    pub max_request_bytes_in_flight: usize,
    /// Size of one response, in bytes. Default 16 MiB.
    pub max_response_bytes: usize,
    /// Total bytes of large responses that are being sent. Default 256 MiB.
    pub max_response_bytes_in_flight: usize,
    /// Requests per batch, default 1,000.
    pub max_batch: usize,
    /// Concurrent requests per WebSocket, default 16; at this number the server stops reading from it.
    pub max_requests_per_websocket: usize,
    pub max_subscriptions_per_websocket: usize,
    /// Bytes of notifications that one block or one pending transaction may cause on one WebSocket. Beyond
    /// that, the client is disconnected. Default 64 MiB.
    pub max_notified_bytes: usize,
    /// A subscriber that is this many blocks behind is disconnected: it would not catch up. Default 10,000.
    pub max_blocks_behind: u64,
    /// Number of pending transactions that a subscriber may be behind, default 1,024.
    pub max_pending_behind: usize,
    /// Filters of all clients together, default 1,024.
    pub max_filters: usize,
    /// A filter that is not polled for this long is dropped. Default 300 s.
    pub filter_lifetime: Duration,
    /// Timeouts of `eth_sendRawTransactionSync` if the client gives none (default 2 s), and at most (default
    /// 20 s).
    pub receipt_timeout: Duration,
    pub max_receipt_timeout: Duration,
    /// Maximum number of requests that wait for a receipt at the same time. Default 1,024.
    pub max_awaited_receipts: usize,
    /// Gas limit of one `eth_call` or of one run of `eth_estimateGas`. Default 50,000,000.
    pub call_gas_cap: u64,
    /// Timeout of one call, estimate, simulation or trace, without the time in the queue. Default 5 s.
    pub max_call_time: Duration,
    /// Calls and estimates that run at the same time: by default one less than cores, at least 1, at most 4.
    /// The virtual machine keeps room for a few beside block execution; see
    /// `corniche_vm::wasm::EngineConfig::callers`.
    pub max_running_calls: usize,
    /// Queued calls and estimates, default 256; addresses take turns. When the queue is full, the address
    /// with the most queued jobs gets "server busy".
    pub max_waiting_calls: usize,
    /// Reads of blocks and logs that run at the same time. Default: number of cores, at least 2.
    pub max_running_reads: usize,
    pub max_waiting_reads: usize,
    /// Time between the first and the last block of one log query, default 31 days. Block intervals vary from
    /// milliseconds to a minute, so a limit on the number of blocks would say little.
    pub max_log_span: Duration,
    /// Timeout of one log query, default 5 s.
    pub max_log_time: Duration,
    /// Blocks that one poll of a log filter or subscription covers, default 100,000.
    pub max_log_blocks: u64,
    /// Logs per response, default 10,000.
    pub max_logs: usize,
    /// Addresses of one log filter, and topics per position. Default 1,000.
    pub max_log_criteria: usize,
    /// Addresses and topics of all filters and log subscriptions together; one address may use a quarter. Each takes up to
    /// 400 bytes, and is compared with the bloom of each block that has logs. Default 65,536.
    pub max_log_criteria_in_use: usize,
    /// Slots per `eth_getStorageValues`, default 1,024.
    pub max_slots: usize,
    /// Keys changed between the head and the block of an `eth_getProof`, default 131,072: well below a second
    /// of work.
    pub max_proof_keys: usize,
    /// Blocks per `eth_feeHistory`, default 1,024.
    pub max_fee_history: u64,
    /// Rounds per `corniche_getDag`, default 200.
    pub max_dag_rounds: u64,
    /// Proposals per `corniche_getDag` response, default 2,000.
    pub max_dag_vertices: usize,
    /// Minimum of the suggested tip, in wei per gas. Default 1,000,000.
    pub minimum_tip: u64,
    /// Origins that browsers may call from; `None` (default): any. The server holds no keys and no cookies.
    pub allowed_origins: Option<Vec<String>>,
}

impl Default for RpcConfig {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            namespaces: Namespaces::default(),
            faucet: None,
            max_connections: 1024,
            max_connections_per_address: 1024,
            requests_per_second: None,
            requests_per_second_per_connection: None,
            spare_loopback: false,
            trusted_proxies: Vec::new(),
            hosts: Some(vec!["localhost".into()]),
            max_websockets: 256,
            idle_timeout: Duration::from_secs(90),
            body_timeout: Duration::from_secs(20),
            max_request_bytes: 2 << 20,
            max_request_bytes_in_flight: 128 << 20,
            max_response_bytes: 16 << 20,
            max_response_bytes_in_flight: 256 << 20,
            max_batch: 1000,
            max_requests_per_websocket: 16,
            max_subscriptions_per_websocket: 32,
            max_notified_bytes: 64 << 20,
            max_blocks_behind: 10_000,
            max_pending_behind: 1024,
            max_filters: 1024,
            filter_lifetime: Duration::from_secs(300),
            receipt_timeout: Duration::from_secs(2),
            max_receipt_timeout: Duration::from_secs(20),
            max_awaited_receipts: 1024,
            call_gas_cap: 50_000_000,
            max_call_time: Duration::from_secs(5),
            max_running_calls: (cores - 1).clamp(1, 4),
            max_waiting_calls: 256,
            max_running_reads: cores.max(2),
            max_waiting_reads: 1024,
            max_log_span: Duration::from_secs(31 * 24 * 3600),
            max_log_time: Duration::from_secs(5),
            max_log_blocks: 100_000,
            max_logs: 10_000,
            max_log_criteria: 1000,
            max_log_criteria_in_use: 1 << 16,
            max_slots: 1024,
            max_proof_keys: 1 << 17,
            max_fee_history: 1024,
            max_dag_rounds: 200,
            max_dag_vertices: 2000,
            minimum_tip: 1_000_000,
            allowed_origins: None,
        }
    }
}

/// Key, amount and limits of the faucet.
#[derive(Clone)]
pub struct FaucetConfig {
    pub key: Arc<EthereumKey>,
    /// Wei per grant.
    pub wei: U256,
    /// Grants per day for one account, and for one client. IPv6 clients count by /48 network, since one
    /// client can use every address in it.
    pub per_account: u32,
    pub per_client: u32,
    /// Grants per day in all, at most 100,000.
    pub per_day: u32,
}

impl std::fmt::Debug for FaucetConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaucetConfig").field("account", &self.key.address()).field("wei", &self.wei).finish_non_exhaustive()
    }
}

impl PartialEq for FaucetConfig {
    fn eq(&self, other: &Self) -> bool {
        let parts = |config: &Self| (config.key.address(), config.wei, config.per_account, config.per_client, config.per_day);
        parts(self) == parts(other)
    }
}

impl Eq for FaucetConfig {}
