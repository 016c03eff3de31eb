//! The server's limits. None of them affects results of the chain; each bounds what clients can cost the node.

use crate::faucet::FaucetConfig;
use corniche_api::Namespaces;
use corniche_origin::Proxy;
use std::time::Duration;

/// How much the server does for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcConfig {
    /// Methods of others are answered as unknown ones are, and with how to switch them on.
    pub namespaces: Namespaces,
    /// What `/faucet` gives; `None`: there is none.
    pub faucet: Option<FaucetConfig>,
    /// Open connections, WebSockets included; further ones are closed at once.
    pub max_connections: usize,
    /// Open connections from one address that is no trusted proxy's.
    pub max_connections_per_address: usize,
    /// Requests per second from one address, elements of batches counted; `None`: any number. A few seconds of them may come at once.
    pub requests_per_second: Option<u32>,
    /// Requests per second of one connection, likewise; they count for its address too.
    pub requests_per_second_per_connection: Option<u32>,
    /// Whether loopback clients have no rate limit and no bound on their share of what all clients share. Clients behind trusted
    /// proxies are not loopback clients, wherever the proxy is.
    pub spare_loopback: bool,
    /// Proxies whose `X-Forwarded-For` names the client.
    pub trusted_proxies: Vec<Proxy>,
    /// Names by which requests may call this node, beside addresses: a page whose own name leads here, made to read what it may not, calls
    /// by another. `None`: any.
    pub hosts: Option<Vec<String>>,
    /// Open WebSockets. One address may have a quarter of this, of the bytes in flight, of the filters and of the awaited receipts.
    pub max_websockets: usize,
    /// A connection on which nothing moves in either direction for this long is closed. WebSockets are pinged well before.
    pub idle_timeout: Duration,
    /// From the head of an HTTP request to the last byte of its body.
    pub body_timeout: Duration,
    /// Bytes of one request body or WebSocket message.
    pub max_request_bytes: usize,
    /// Bytes of all request bodies that are being read or answered.
    pub max_request_bytes_in_flight: usize,
    /// Bytes of one response.
    pub max_response_bytes: usize,
    /// Bytes of all large responses that clients are still fetching.
    pub max_response_bytes_in_flight: usize,
    /// Requests in one batch.
    pub max_batch: usize,
    /// Requests of one WebSocket that are answered at the same time; reading stops at this number.
    pub max_requests_per_websocket: usize,
    pub max_subscriptions_per_websocket: usize,
    /// Bytes of notifications that one block, or one pending transaction, may bring to one WebSocket, whose client is dropped beyond that.
    pub max_notified_bytes: usize,
    /// A subscriber this many blocks behind is disconnected: it would not catch up.
    pub max_blocks_behind: u64,
    /// Pending transactions a subscriber to them may be behind.
    pub max_pending_behind: usize,
    /// Filters of all clients together.
    pub max_filters: usize,
    /// A filter nobody asks for this long is dropped.
    pub filter_lifetime: Duration,
    /// How long `eth_sendRawTransactionSync` waits for a receipt when the client does not say, and at most.
    pub receipt_timeout: Duration,
    pub max_receipt_timeout: Duration,
    /// Requests that wait for a receipt at the same time.
    pub max_awaited_receipts: usize,
    /// Gas of one `eth_call` or one try of `eth_estimateGas`.
    pub call_gas_cap: u64,
    /// How long one call, estimate, simulation or trace may run, its turn not counted.
    pub max_call_time: Duration,
    /// Calls and estimates that run at the same time. The virtual machine keeps room for a few beside block execution;
    /// see `corniche_vm::wasm::EngineConfig::callers`.
    pub max_running_calls: usize,
    /// Calls and estimates that wait for their turn, which goes round among addresses; beyond that, whoever has most waiting
    /// is told "server busy".
    pub max_waiting_calls: usize,
    /// Block and log readings that run at the same time.
    pub max_running_reads: usize,
    pub max_waiting_reads: usize,
    /// Time between the first and the last block of one log query. Blocks follow each other in milliseconds or in a minute, so their
    /// number says little.
    pub max_log_span: Duration,
    /// How long one log query may take.
    pub max_log_time: Duration,
    /// Blocks that a filter or a subscriber for logs is taken forward at once.
    pub max_log_blocks: u64,
    /// Logs one query may answer with.
    pub max_logs: usize,
    /// Addresses, and topics at one position, of one log filter.
    pub max_log_criteria: usize,
    /// Slots of one `eth_getStorageValues`.
    pub max_slots: usize,
    /// Keys that blocks between the head and the one of an `eth_getProof` may have changed: well below a second.
    pub max_proof_keys: usize,
    /// Blocks of one `eth_feeHistory`.
    pub max_fee_history: u64,
    /// Rounds of one `corniche_getDag`.
    pub max_dag_rounds: u64,
    /// Proposals one `corniche_getDag` may answer with.
    pub max_dag_vertices: usize,
    /// Wei per gas suggested as tip when recent blocks paid less.
    pub minimum_tip: u64,
    /// Origins that browsers may call from; `None` admits all. The server holds no keys and no cookies.
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
