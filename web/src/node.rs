//! Client for the node's RPC: the requests that the explorer sends and the fields that it reads of each response.

mod types;

pub use types::{Block, Call, CallFrame, Log, Receipt, TracedTransaction, Transaction, WholeBlock};

use alloy_primitives::{Address, B256, Bytes, U64, U256, keccak256};
use corniche_api::{
    Certificate, Dag, DagRange, ErrorCode, Heads, Ordering, Reason, ShardCertificate, ShardedTransaction, TransactionReport,
    Validators,
};
use corniche_client::{Client, ClientError, Request};
use corniche_types::{Epoch, TrustPoint};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Maximum number of concurrent requests to the node, for pages and for the indexer each. Further requests wait.
pub(crate) const MAX_CONCURRENT: usize = 16;

/// Gas limit of a metadata call, many times the cost of reading a name. A batch of endless loops ends long before the
/// node's timeout.
const METADATA_CALL_GAS: &str = "0x1e8480";

const BLOCK: &str = "eth_getBlockByNumber";

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Async client of a node's RPC. Each request runs on a blocking thread.
#[derive(Clone, Debug)]
pub struct Node {
    client: Client,
    turns: Arc<Semaphore>,
}

/// Error of a request to the node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Error of the RPC client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The blocking thread ended without a result.
    #[error("the request ended without a response")]
    Lost,
}

impl NodeError {
    /// Returns `true` if the node rejected the request for good. A retry would not help, and the connection works.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Client(error) if is_refusal(error))
    }

    /// Returns `true` if requesting the trace again would not succeed. A truncated response is invalid as well, but is
    /// worth a retry.
    pub fn is_final(&self) -> bool {
        self.is_refusal() || self.has_reason(Reason::TraceTooLarge)
    }

    /// Returns the first block that the node has after the genesis, if it rejected the request because the block is below it.
    pub fn first_available_block(&self) -> Option<u64> {
        match self {
            Self::Client(error) => first_available_block(error),
            Self::Lost => None,
        }
    }

    /// Returns `true` if the node rejected the request for this reason.
    pub fn has_reason(&self, reason: Reason) -> bool {
        matches!(self, Self::Client(ClientError::Refused { refusal, .. }) if refusal.message.contains(reason.phrase()))
    }
}

fn first_available_block(error: &ClientError) -> Option<u64> {
    match error {
        ClientError::Refused { refusal, .. } => corniche_api::first_available_block(&refusal.message),
        _ => None,
    }
}

/// Returns `true` for a permanent rejection. A busy or failing node may answer later.
fn is_refusal(error: &ClientError) -> bool {
    const FOR_NOW: [ErrorCode; 2] = [ErrorCode::Internal, ErrorCode::LimitExceeded];
    match error {
        ClientError::Refused { refusal, .. } => FOR_NOW.iter().all(|code| i64::from(code.number()) != refusal.code),
        ClientError::Reverted { .. } => true,
        _ => false,
    }
}

/// Returns `true` if the response exceeds the node's size limit.
fn exceeds_batch_limit(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { refusal, .. } if refusal.code == i64::from(ErrorCode::ResponseTooLarge.number()))
}

impl Node {
    /// Creates a client for the node at this URL. Sends no request.
    pub fn new(url: &str) -> Self {
        Self { client: Client::with_timeout(url, REQUEST_TIMEOUT), turns: Arc::new(Semaphore::new(MAX_CONCURRENT)) }
    }

    /// Returns a client of this node with its own concurrency limit, so that neither has to wait for the other's
    /// requests.
    pub fn with_own_limit(&self) -> Self {
        Self::new(self.url())
    }

    /// Returns the configured URL.
    pub fn url(&self) -> &str {
        self.client.transport().url()
    }

    /// Runs one request on a blocking thread.
    async fn with<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Client) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| NodeError::Lost)?;
        let client = self.client.clone();
        let response = tokio::task::spawn_blocking(move || {
            let response = ask(&client);
            drop(turn);
            response
        });
        Ok(response.await.map_err(|_| NodeError::Lost)??)
    }

    /// Sends a request with any method.
    pub async fn ask<T: DeserializeOwned + Send + 'static>(&self, method: &'static str, params: Value) -> Result<T, NodeError> {
        self.with(move |client| client.transport().request(method, params)).await
    }

    /// Sends a batch. Each request has its own result.
    pub async fn ask_all<T: DeserializeOwned + Send + 'static>(
        &self,
        requests: Vec<Request>,
    ) -> Result<Vec<Result<T, ClientError>>, NodeError> {
        self.with(move |client| client.transport().batch(&requests)).await
    }

    /// Returns the newest executed block and the newest certified one.
    pub async fn heads(&self) -> Result<Heads, NodeError> {
        self.with(Client::heads).await
    }

    /// Returns the committee.
    pub async fn validators(&self) -> Result<Validators, NodeError> {
        self.with(Client::validators).await
    }

    /// Returns the end of the epoch before the running one, where light clients and new nodes can begin. `None` in epoch 0.
    pub async fn trust_point(&self) -> Result<Option<TrustPoint>, NodeError> {
        self.with(|client| client.trust_point(Epoch(client.validators()?.epoch))).await
    }

    /// Returns the consensus DAG of these rounds.
    pub async fn dag(&self, range: DagRange) -> Result<Dag, NodeError> {
        self.with(move |client| client.dag(range)).await
    }

    /// Returns the chain id and the hash of the genesis block, which together identify the chain.
    pub async fn identity(&self) -> Result<(u64, B256), NodeError> {
        let chain_id = self.with(Client::chain_id).await?;
        let genesis = self.block_hash(0).await?;
        Ok((chain_id, genesis.ok_or_else(|| invalid_response(BLOCK, "no block 0"))?))
    }

    /// Returns `true` for a development chain, which may be reverted.
    pub async fn is_development(&self) -> Result<bool, NodeError> {
        let modules: Value = self.ask("rpc_modules", json!([])).await?;
        Ok(modules.get("evm").is_some())
    }

    /// Returns `true` if the node serves traces.
    pub async fn has_traces(&self) -> Result<bool, NodeError> {
        let modules: Value = self.ask("rpc_modules", json!([])).await?;
        Ok(modules.get("debug").is_some())
    }

    /// Returns blocks from `first` on, at most `count`; fewer if the chain is shorter, or if the node does not have the next one.
    pub async fn whole_blocks(&self, first: u64, count: u64) -> Result<Vec<WholeBlock>, NodeError> {
        self.with(move |client| {
            let requests: Vec<_> = (first..first + count).flat_map(requests).collect();
            let responses: Vec<_> = client.transport().batch::<Box<RawValue>>(&requests)?;
            let mut responses = responses.into_iter();
            let mut blocks = Vec::new();
            while let (Some(block), Some(receipts), Some(ordering)) = (responses.next(), responses.next(), responses.next()) {
                let block = match block {
                    // The node has the genesis, but not the blocks after it.
                    Err(error) if !blocks.is_empty() && first_available_block(&error).is_some() => break,
                    block => block?,
                };
                let (block, receipts, ordering) = (decode(&block)?, decode(&receipts?)?, decode(&ordering?)?);
                let (Some(block), Some(receipts)): (Option<Block>, _) = (block, receipts) else { break };
                let ordering: Option<Ordering> = ordering;
                check_number(block.number, first + blocks.len() as u64)?;
                if ordering.is_none() && block.number > U64::ZERO {
                    // The ordering record is not available yet. The block is read again later.
                    break;
                }
                blocks.push(WholeBlock { block, receipts, ordering });
            }
            Ok(blocks)
        })
        .await
    }

    /// Returns the hash of a block, or `None` if it does not exist.
    pub async fn block_hash(&self, number: u64) -> Result<Option<B256>, NodeError> {
        #[derive(Deserialize)]
        struct Named {
            number: U64,
            hash: B256,
        }
        let block: Option<Named> = self.ask(BLOCK, json!([quantity(number), false])).await?;
        let Some(block) = block else { return Ok(None) };
        check_number(block.number, number)?;
        Ok(Some(block.hash))
    }

    /// Returns the certificate that covers a block. It may belong to a later block.
    pub async fn certificate(&self, number: u64) -> Result<Option<Certificate>, NodeError> {
        self.ask("corniche_getCertificate", json!([quantity(number)])).await
    }

    /// Returns the certificate that covers a block of a sharded chain. `None` on other chains.
    pub async fn shard_certificate(&self, number: u64) -> Result<Option<ShardCertificate>, NodeError> {
        self.ask("corniche_getShardCertificate", json!([quantity(number)])).await
    }

    /// Returns the way of a transaction over the shards. `None` on other chains.
    pub async fn sharded_transaction(&self, hash: B256) -> Result<Option<ShardedTransaction>, NodeError> {
        self.ask("corniche_getShardedTransaction", json!([hash])).await
    }

    /// Returns the shard of an account. `None` on chains without shards.
    pub async fn shard_of(&self, address: Address) -> Result<Option<u64>, NodeError> {
        let shard: Option<U64> = self.ask("corniche_getShard", json!([address])).await?;
        Ok(shard.map(|shard| shard.to()))
    }

    /// Returns call traces of all transactions of a block. The node rejects this if it serves no traces or has pruned
    /// the state.
    pub async fn trace_block(&self, number: u64) -> Result<Vec<TracedTransaction>, NodeError> {
        self.ask("debug_traceBlockByNumber", json!([quantity(number), {"tracer": "callTracer"}])).await
    }

    /// Returns the call trace of a transaction.
    pub async fn trace(&self, hash: B256) -> Result<CallFrame, NodeError> {
        self.ask("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}])).await
    }

    /// Returns the status of a transaction.
    pub async fn status(&self, hash: B256) -> Result<Option<TransactionReport>, NodeError> {
        self.with(move |client| client.transaction_status(hash)).await
    }

    /// Returns a signed transaction from a block or the pool. `None` if it is unknown, or if the bytes do not match the
    /// hash.
    pub async fn signed(&self, hash: B256) -> Result<Option<Bytes>, NodeError> {
        let signed: Option<Bytes> = self.ask("eth_getRawTransactionByHash", json!([hash])).await?;
        Ok(signed.filter(|signed| keccak256(signed) == hash))
    }

    /// Returns the current balance, next nonce and code of an account.
    pub async fn account(&self, address: Address) -> Result<(U256, u64, Bytes), NodeError> {
        let ask = |method| Request { method, params: json!([address, "latest"]) };
        let requests = vec![ask("eth_getBalance"), ask("eth_getTransactionCount"), ask("eth_getCode")];
        let responses: Vec<Result<Box<RawValue>, _>> = self.ask_all(requests).await?;
        let mut responses = responses.into_iter();
        let mut next = || responses.next().unwrap_or_else(|| Err(invalid_response("batch", "a response is missing")));
        let (balance, nonce, code) = (next()?, next()?, next()?);
        let nonce: U64 = decode(&nonce)?;
        Ok((decode(&balance)?, nonce.to(), decode(&code)?))
    }

    /// Calls contracts at the latest block. Contracts are untrusted, so each call has a low gas limit. `None` for a
    /// call that fails permanently.
    pub async fn calls(&self, calls: Vec<(Address, Bytes)>) -> Result<Vec<Option<Bytes>>, NodeError> {
        let request = |(to, input): &(Address, Bytes)| Request {
            method: "eth_call",
            params: json!([{"to": to, "input": input, "gas": METADATA_CALL_GAS}, "latest"]),
        };
        let requests: Vec<_> = calls.iter().map(request).collect();
        let responses: Vec<Result<Bytes, ClientError>> = self.ask_all(requests.clone()).await?;
        let mut found = Vec::with_capacity(calls.len());
        for (request, mut response) in requests.into_iter().zip(responses) {
            if response.as_ref().is_err_and(exceeds_batch_limit) {
                // The response to another call used up the size limit of the batch. This call may fit alone.
                response = self.ask_all(vec![request]).await?.pop().unwrap_or(response);
            }
            found.push(match response {
                Err(error) if is_refusal(&error) => None,
                response => Some(response?),
            });
        }
        Ok(found)
    }

    /// Calls contracts at the latest block and returns each result or revert.
    pub async fn eth_calls(&self, calls: &[Call]) -> Result<Vec<Result<Bytes, ClientError>>, NodeError> {
        let request = |call: &Call| Request { method: "eth_call", params: json!([call, "latest"]) };
        self.ask_all(calls.iter().map(request).collect()).await
    }

    /// Returns the code of an account after a block.
    pub async fn code_after(&self, address: Address, block: u64) -> Result<Bytes, NodeError> {
        self.ask("eth_getCode", json!([address, quantity(block)])).await
    }

    /// Returns the current code of several accounts.
    pub async fn codes(&self, addresses: Vec<Address>) -> Result<Vec<Bytes>, NodeError> {
        let request = |address: &Address| Request { method: "eth_getCode", params: json!([address, "latest"]) };
        let requests: Vec<_> = addresses.iter().map(request).collect();
        let responses: Vec<Result<Bytes, _>> = self.ask_all(requests).await?;
        Ok(responses.into_iter().collect::<Result<_, _>>()?)
    }
}

fn requests(number: u64) -> [Request; 3] {
    let number = quantity(number);
    [
        Request { method: BLOCK, params: json!([number, true]) },
        Request { method: "eth_getBlockReceipts", params: json!([number]) },
        Request { method: "corniche_getOrdering", params: json!([number]) },
    ]
}

/// Checks that the response has the requested block number.
fn check_number(answered: U64, asked: u64) -> Result<(), ClientError> {
    if answered == U64::from(asked) {
        return Ok(());
    }
    Err(invalid_response(BLOCK, &format!("expected block {asked}, got {answered}")))
}

/// Formats a number as an RPC quantity.
pub fn quantity(number: u64) -> String {
    format!("{number:#x}")
}

fn decode<T: DeserializeOwned>(response: &RawValue) -> Result<T, ClientError> {
    serde_json::from_str(response.get()).map_err(|error| invalid_response("batch", &error.to_string()))
}

fn invalid_response(method: &str, problem: &str) -> ClientError {
    ClientError::InvalidResponse { method: method.into(), problem: problem.into() }
}
