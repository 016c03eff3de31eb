//! What the explorer asks a node for, and what of the answers it reads. Nothing else of a node is known here.

use alloy_primitives::{Address, B256, Bytes, U64, U256, keccak256};
use corniche_api::{Certificate, Dag, DagRange, ErrorCode, Heads, Ordering, Reason, TransactionReport, Validators};
use corniche_client::{Client, ClientError, Request};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Requests to the node that wait for an answer at once, of pages and of the indexer each; what is above waits its turn.
pub(crate) const MOST_AT_ONCE: usize = 16;

/// What a name costs many times over; a batch of loops ends long before the node's time is up.
const GAS_OF_A_CALL: &str = "0x1e8480";

/// The method that is asked for blocks.
const BLOCK: &str = "eth_getBlockByNumber";

/// A page does not wait for a node longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node's RPC, for tasks: each request waits on a thread of its own kind.
#[derive(Clone, Debug)]
pub struct Node {
    client: Client,
    turns: Arc<Semaphore>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The client's reason.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A thread that asked is gone.
    #[error("a request ended without an answer")]
    Lost,
}

impl NodeError {
    /// The node took the request and said no: asking again will not help, and the connection is fine.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Client(error) if is_refusal(error))
    }

    /// Asking for a trace again gets no other answer. One that broke off in the middle makes no sense either, so that is no reason.
    pub fn is_final(&self) -> bool {
        self.is_refusal() || self.says(Reason::TraceTooLarge)
    }

    /// The node said no for this reason.
    pub fn says(&self, reason: Reason) -> bool {
        matches!(self, Self::Client(ClientError::Refused { refusal, .. }) if refusal.message.contains(reason.phrase()))
    }
}

/// A no for good. A node that is busy or broken may answer later.
fn is_refusal(error: &ClientError) -> bool {
    const FOR_NOW: [ErrorCode; 2] = [ErrorCode::Internal, ErrorCode::LimitExceeded];
    match error {
        ClientError::Refused { refusal, .. } => FOR_NOW.iter().all(|code| i64::from(code.number()) != refusal.code),
        ClientError::Reverted { .. } => true,
        _ => false,
    }
}

/// The answer is larger than the node sends at once.
fn has_no_room(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { refusal, .. } if refusal.code == i64::from(ErrorCode::ResponseTooLarge.number()))
}

/// A block with its transactions, as `eth_getBlockByNumber` answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// Blocks before it.
    pub number: U64,
    /// Of its header.
    pub hash: B256,
    /// The block before.
    pub parent_hash: B256,
    /// Seconds since 1970.
    pub timestamp: U64,
    /// Whose fee address stands in the header.
    pub miner: Address,
    /// Of all transactions.
    pub gas_used: U64,
    /// The most they may use.
    pub gas_limit: U64,
    /// Wei per gas.
    #[serde(default)]
    pub base_fee_per_gas: U256,
    /// In RLP.
    #[serde(default)]
    pub size: U64,
    /// Of the state that it leaves.
    pub state_root: B256,
    /// Of its transactions.
    pub transactions_root: B256,
    /// Of their receipts.
    pub receipts_root: B256,
    /// What contracts read as randomness.
    pub mix_hash: B256,
    /// keccak-256 of the ordering record.
    pub extra_data: Bytes,
    /// In order.
    pub transactions: Vec<Transaction>,
}

/// A transaction of a block.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transaction {
    /// Of its bytes.
    pub hash: B256,
    /// Who signed it.
    pub from: Address,
    /// `None` for a creation.
    pub to: Option<Address>,
    /// How many the sender had sent before.
    pub nonce: U64,
    /// Wei that come with it.
    pub value: U256,
    /// What the contract is given.
    pub input: Bytes,
    /// Gas limit.
    pub gas: U64,
    /// 0, 1 or 2.
    #[serde(rename = "type", default)]
    pub kind: U64,
    /// Wei per gas at most.
    #[serde(default)]
    pub max_fee_per_gas: Option<U256>,
    /// Of that for the batch's author, at most.
    #[serde(default)]
    pub max_priority_fee_per_gas: Option<U256>,
}

/// What became of a transaction.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Which.
    pub transaction_hash: B256,
    /// 1, or 0 for what was reverted.
    pub status: U64,
    /// By this transaction alone.
    pub gas_used: U64,
    /// Wei per gas that were paid.
    pub effective_gas_price: U256,
    /// The contract that it made.
    #[serde(default)]
    pub contract_address: Option<Address>,
    /// In order.
    pub logs: Vec<Log>,
}

/// A log of a receipt.
#[derive(Clone, Debug, Deserialize)]
pub struct Log {
    /// The contract that wrote it.
    pub address: Address,
    /// Four at most; the first one names the event.
    pub topics: Vec<B256>,
    /// The rest of its values.
    pub data: Bytes,
}

/// All that the indexer reads of a block.
#[derive(Clone, Debug)]
pub struct WholeBlock {
    /// Header and transactions.
    pub block: Block,
    /// One for each transaction.
    pub receipts: Vec<Receipt>,
    /// `None` for the genesis block.
    pub ordering: Option<Ordering>,
}

/// A question to a contract, which changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Call {
    /// Who asks; nobody when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Address>,
    /// Who is asked.
    pub to: Address,
    /// Wei that would come with it.
    pub value: U256,
    /// Selector and arguments.
    pub input: Bytes,
    /// The most gas it may take; the node's limit when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gas: Option<U64>,
}

/// A frame of the `callTracer`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallFrame {
    /// CALL, DELEGATECALL, STATICCALL, CREATE, CREATE2.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Who called.
    #[serde(default)]
    pub from: Address,
    /// Who was called or made.
    #[serde(default)]
    pub to: Option<Address>,
    /// Wei that came with it.
    #[serde(default)]
    pub value: Option<U256>,
    /// What it might use.
    #[serde(default)]
    pub gas: U64,
    /// What it used, calls inside included.
    #[serde(default)]
    pub gas_used: U64,
    /// What it was given.
    #[serde(default)]
    pub input: Bytes,
    /// What it answered.
    #[serde(default)]
    pub output: Bytes,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<String>,
    /// In words of Solidity's `Error(string)`.
    #[serde(default)]
    pub revert_reason: Option<String>,
    /// What it called.
    #[serde(default)]
    pub calls: Vec<CallFrame>,
}

impl CallFrame {
    /// It and the calls inside it with their depths, in the order in which they began, so many at most. No recursion: a stranger decides
    /// how deep.
    pub fn in_order(self, most: usize) -> Vec<(u64, Self)> {
        let mut frames = Vec::new();
        let mut stack = vec![(0, self)];
        while let Some((depth, mut frame)) = stack.pop() {
            if frames.len() == most {
                break;
            }
            stack.extend(std::mem::take(&mut frame.calls).into_iter().rev().map(|inner| (depth + 1, inner)));
            frames.push((depth, frame));
        }
        frames
    }
}

/// A transaction of a traced block.
#[derive(Clone, Debug, Deserialize)]
pub struct TracedTransaction {
    /// Its outermost call; `None` when it could not be traced.
    #[serde(default)]
    pub result: Option<CallFrame>,
}

impl Node {
    /// The node at this URL. Nothing is asked before the first request.
    pub fn new(url: &str) -> Self {
        Self { client: Client::with_timeout(url, PATIENCE), turns: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }

    /// The same node, asked apart: neither waits for a turn because the other has all of its own.
    pub fn apart(&self) -> Self {
        Self::new(self.url())
    }

    /// As it was given.
    pub fn url(&self) -> &str {
        self.client.transport().url()
    }

    /// One request, on a thread that may wait.
    async fn with<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Client) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| NodeError::Lost)?;
        let client = self.client.clone();
        let answer = tokio::task::spawn_blocking(move || {
            let answer = ask(&client);
            drop(turn);
            answer
        });
        Ok(answer.await.map_err(|_| NodeError::Lost)??)
    }

    /// Any method.
    pub async fn ask<T: DeserializeOwned + Send + 'static>(&self, method: &'static str, params: Value) -> Result<T, NodeError> {
        self.with(move |client| client.transport().request(method, params)).await
    }

    /// Several requests at once, each answered or refused on its own.
    pub async fn ask_all<T: DeserializeOwned + Send + 'static>(
        &self,
        requests: Vec<Request>,
    ) -> Result<Vec<Result<T, ClientError>>, NodeError> {
        self.with(move |client| client.transport().batch(&requests)).await
    }

    /// The newest executed block and the newest certified one.
    pub async fn heads(&self) -> Result<Heads, NodeError> {
        self.with(Client::heads).await
    }

    /// The committee.
    pub async fn validators(&self) -> Result<Validators, NodeError> {
        self.with(Client::validators).await
    }

    /// What its ordering did in these rounds.
    pub async fn dag(&self, range: DagRange) -> Result<Dag, NodeError> {
        self.with(move |client| client.dag(range)).await
    }

    /// The chain's id and the hash of its first block: which chain this is.
    pub async fn identity(&self) -> Result<(u64, B256), NodeError> {
        let chain_id = self.with(Client::chain_id).await?;
        let genesis = self.block_hash(0).await?;
        Ok((chain_id, genesis.ok_or_else(|| nonsense(BLOCK, "there is no block 0"))?))
    }

    /// Whether it is a chain for development, which may go back.
    pub async fn is_development(&self) -> Result<bool, NodeError> {
        let modules: Value = self.ask("rpc_modules", json!([])).await?;
        Ok(modules.get("evm").is_some())
    }

    /// Whether it serves traces.
    pub async fn has_traces(&self) -> Result<bool, NodeError> {
        let modules: Value = self.ask("rpc_modules", json!([])).await?;
        Ok(modules.get("debug").is_some())
    }

    /// Blocks from `first` on, as many as there are of `count`.
    pub async fn whole_blocks(&self, first: u64, count: u64) -> Result<Vec<WholeBlock>, NodeError> {
        self.with(move |client| {
            let requests: Vec<_> = (first..first + count).flat_map(requests).collect();
            let answers: Vec<_> = client.transport().batch::<Box<RawValue>>(&requests)?;
            let mut answers = answers.into_iter();
            let mut blocks = Vec::new();
            while let (Some(block), Some(receipts), Some(ordering)) = (answers.next(), answers.next(), answers.next()) {
                let (block, receipts, ordering) = (decode(&block?)?, decode(&receipts?)?, decode(&ordering?)?);
                let (Some(block), Some(receipts)): (Option<Block>, _) = (block, receipts) else { break };
                let ordering: Option<Ordering> = ordering;
                check_number(block.number, first + blocks.len() as u64)?;
                if ordering.is_none() && block.number > U64::ZERO {
                    // How it was ordered is not there yet: the block is read when it is.
                    break;
                }
                blocks.push(WholeBlock { block, receipts, ordering });
            }
            Ok(blocks)
        })
        .await
    }

    /// A block's hash, if there is such a block.
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

    /// The certificate of a block, which may be a later one's.
    pub async fn certificate(&self, number: u64) -> Result<Option<Certificate>, NodeError> {
        self.ask("corniche_getCertificate", json!([quantity(number)])).await
    }

    /// The calls of a block's transactions. Refused where the node serves none or holds the state no more.
    pub async fn trace_block(&self, number: u64) -> Result<Vec<TracedTransaction>, NodeError> {
        self.ask("debug_traceBlockByNumber", json!([quantity(number), {"tracer": "callTracer"}])).await
    }

    /// The calls of a transaction.
    pub async fn trace(&self, hash: B256) -> Result<CallFrame, NodeError> {
        self.ask("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}])).await
    }

    /// Where a transaction stands.
    pub async fn status(&self, hash: B256) -> Result<Option<TransactionReport>, NodeError> {
        self.with(move |client| client.transaction_status(hash)).await
    }

    /// A transaction as it was signed, of a block or of the pool. `None` where there is none, and where the bytes are another one's.
    pub async fn signed(&self, hash: B256) -> Result<Option<Bytes>, NodeError> {
        let signed: Option<Bytes> = self.ask("eth_getRawTransactionByHash", json!([hash])).await?;
        Ok(signed.filter(|signed| keccak256(signed) == hash))
    }

    /// What an account owns, its next nonce and its code, now.
    pub async fn account(&self, address: Address) -> Result<(U256, u64, Bytes), NodeError> {
        let ask = |method| Request { method, params: json!([address, "latest"]) };
        let requests = vec![ask("eth_getBalance"), ask("eth_getTransactionCount"), ask("eth_getCode")];
        let answers: Vec<Result<Box<RawValue>, _>> = self.ask_all(requests).await?;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or_else(|| Err(nonsense("batch", "an answer is missing")));
        let (balance, nonce, code) = (next()?, next()?, next()?);
        let nonce: U64 = decode(&nonce)?;
        Ok((decode(&balance)?, nonce.to(), decode(&code)?))
    }

    /// What contracts return, now, for a little gas each: strangers wrote them. `None` for a call that fails whenever it is made.
    pub async fn calls(&self, calls: Vec<(Address, Bytes)>) -> Result<Vec<Option<Bytes>>, NodeError> {
        let request = |(to, input): &(Address, Bytes)| Request {
            method: "eth_call",
            params: json!([{"to": to, "input": input, "gas": GAS_OF_A_CALL}, "latest"]),
        };
        let requests: Vec<_> = calls.iter().map(request).collect();
        let answers: Vec<Result<Bytes, ClientError>> = self.ask_all(requests.clone()).await?;
        let mut found = Vec::with_capacity(calls.len());
        for (request, mut answer) in requests.into_iter().zip(answers) {
            if answer.as_ref().is_err_and(has_no_room) {
                // A neighbour's answer filled the batch's: alone it may fit.
                answer = self.ask_all(vec![request]).await?.pop().unwrap_or(answer);
            }
            found.push(match answer {
                Err(error) if is_refusal(&error) => None,
                answer => Some(answer?),
            });
        }
        Ok(found)
    }

    /// What contracts answer, now, each with what it said when it was undone.
    pub async fn questions(&self, calls: &[Call]) -> Result<Vec<Result<Bytes, ClientError>>, NodeError> {
        let request = |call: &Call| Request { method: "eth_call", params: json!([call, "latest"]) };
        self.ask_all(calls.iter().map(request).collect()).await
    }

    /// The code of an account after a block.
    pub async fn code_after(&self, address: Address, block: u64) -> Result<Bytes, NodeError> {
        self.ask("eth_getCode", json!([address, quantity(block)])).await
    }

    /// The code of several accounts, now.
    pub async fn codes(&self, addresses: Vec<Address>) -> Result<Vec<Bytes>, NodeError> {
        let request = |address: &Address| Request { method: "eth_getCode", params: json!([address, "latest"]) };
        let requests: Vec<_> = addresses.iter().map(request).collect();
        let answers: Vec<Result<Bytes, _>> = self.ask_all(requests).await?;
        Ok(answers.into_iter().collect::<Result<_, _>>()?)
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

/// The node answered with the block that it was asked for.
fn check_number(answered: U64, asked: u64) -> Result<(), ClientError> {
    if answered == U64::from(asked) {
        return Ok(());
    }
    Err(nonsense(BLOCK, &format!("block {answered}, which is not the one that was asked for")))
}

/// A number as RPC takes it.
pub fn quantity(number: u64) -> String {
    format!("{number:#x}")
}

fn decode<T: DeserializeOwned>(answer: &RawValue) -> Result<T, ClientError> {
    serde_json::from_str(answer.get()).map_err(|error| nonsense("batch", &error.to_string()))
}

fn nonsense(method: &str, problem: &str) -> ClientError {
    ClientError::Nonsense { method: method.into(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(gas: u64, calls: Vec<CallFrame>) -> CallFrame {
        CallFrame { gas_used: U64::from(gas), calls, ..CallFrame::default() }
    }

    #[test]
    fn frames_come_in_the_order_in_which_they_began() {
        let tree = frame(0, vec![frame(1, vec![frame(2, vec![]), frame(3, vec![])]), frame(4, vec![])]);
        let frames = tree.clone().in_order(10);
        let found: Vec<_> = frames.into_iter().map(|(depth, frame)| (depth, frame.gas_used.to::<u64>())).collect();
        assert_eq!(found, [(0, 0), (1, 1), (2, 2), (2, 3), (1, 4)]);
        assert_eq!(tree.in_order(3).len(), 3);
    }
}
