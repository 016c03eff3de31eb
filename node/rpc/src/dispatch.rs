//! The table of methods: which handler answers which, and with what parameters.
//!
//! What is answered from memory is answered in place; what reads blocks or runs contracts goes through the bounded threads
//! of [`Node::read`] and [`Node::call`].

use crate::access_list;
use crate::budget::Reservation;
use crate::call::{self, Trial};
use crate::convert;
use crate::dag;
use crate::fees;
use crate::filters::{self, Kind};
use crate::jsonrpc::{Body, Call, Json, Message, Params, json, write_response};
use crate::listener::Origin;
use crate::logs;
use crate::node::{LARGE_RESPONSE_BYTES, Node};
use crate::raw;
use crate::session::{Session, Topic};
use crate::simulate;
use crate::submit::{submit, submit_and_wait, submit_timed};
use crate::trace::{self, TraceRequest};
use crate::txpool;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, Bytes, U64, U128, U256, keccak256};
use alloy_rpc_types_eth::{Filter, Index};
use corniche_api::{
    Certificate, DagRange, HeadBlock, Heads, Method, Ordering, Reason, RpcError, TransactionReport, TransactionStatus,
    TransactionTimes, openrpc,
};
use corniche_types::Height;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a body is answered with.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// Empty: the client wants no answer.
    pub text: String,
    /// Subscriptions made by it. They start when the client has been told their names.
    pub subscribed: Vec<U128>,
    /// To be kept until the text is sent.
    pub reserved: Reservation,
}

/// Where a request came from: subscriptions need a WebSocket.
struct Caller<'a> {
    node: &'a Arc<Node>,
    session: Option<&'a Session>,
    /// Takes its turn among others.
    origin: Origin,
    subscribed: Vec<U128>,
    reserved: Reservation,
}

/// Answers one HTTP body or WebSocket message.
pub(crate) async fn answer(node: &Arc<Node>, session: Option<&Session>, origin: Origin, bytes: &[u8]) -> Reply {
    let mut caller = Caller { node, session, origin, subscribed: Vec::new(), reserved: Reservation::default() };
    let mut text = String::new();
    match Body::parse(bytes, node.config.max_batch) {
        Body::Refused(error) => caller.refuse(&mut text, error),
        Body::Single(message) => caller.answer_one(&mut text, message).await,
        Body::Batch(elements) => caller.answer_batch(&mut text, &elements).await,
    }
    Reply { text, subscribed: caller.subscribed, reserved: caller.reserved }
}

/// Most transactions of one batch that wait for admission's answer at a time.
const SUBMITTED_TOGETHER: usize = 16;

/// The transactions that a batch begins with, as many as may wait together.
fn submissions<'a>(node: &Node, elements: &[&'a RawValue]) -> Vec<Call<'a>> {
    let mut calls = Vec::new();
    for element in elements.iter().take(SUBMITTED_TOGETHER) {
        match Message::parse(element.get()) {
            Message::Call(call) if served(node, &call.method) == Ok(Method::EthSendRawTransaction) => calls.push(call),
            _ => break,
        }
    }
    calls
}

/// The method of that name, if this node answers it.
fn served(node: &Node, name: &str) -> Result<Method, RpcError> {
    let method = Method::from_name(name).ok_or_else(|| RpcError::method_not_found(name))?;
    if node.config.namespaces.serves(method) { Ok(method) } else { Err(RpcError::not_served(method)) }
}

/// Adds what an element is answered, if anything, to a batch's answers.
fn append_element(out: &mut String, one: &str) {
    if !one.is_empty() {
        out.push(if out.is_empty() { '[' } else { ',' });
        out.push_str(one);
    }
}

impl Caller<'_> {
    /// Elements are answered in order, one after the other, so that a batch takes one place among the bounded jobs. Only
    /// transactions go to admission a few at a time, in order: waiting for its word on each would wake two threads for each.
    async fn answer_batch(&mut self, out: &mut String, elements: &[&RawValue]) {
        let mut rest = elements;
        while let Some((element, others)) = rest.split_first() {
            let room = self.room_for_more(out.len());
            let submissions = if room.is_ok() { submissions(self.node, rest) } else { Vec::new() };
            if !submissions.is_empty() {
                rest = &rest[submissions.len()..];
                self.submit_together(out, &submissions).await;
                continue;
            }
            rest = others;
            let mut one = String::new();
            match room {
                Ok(()) => self.answer_one(&mut one, Message::parse(element.get())).await,
                // What is left is not worked on any more.
                Err(error) => self.decline(&mut one, Message::parse(element.get()), error),
            }
            append_element(out, &one);
        }
        if !out.is_empty() {
            out.push(']');
        }
    }

    /// Each is polled in its turn, so that the transactions reach admission in the order of the batch.
    async fn submit_together(&mut self, out: &mut String, calls: &[Call<'_>]) {
        let (node, origin) = (self.node, self.origin);
        let submit_one = async |call: &Call<'_>| match node.rates.take(origin, Instant::now()) {
            Ok(()) => submit_timed(node, &call.params).await,
            Err(error) => (Err(error), Duration::ZERO),
        };
        let waiting: Vec<_> = calls.iter().map(submit_one).collect();
        for (call, (result, took)) in calls.iter().zip(futures::future::join_all(waiting).await) {
            let mut one = String::new();
            self.finish(&mut one, call, Method::EthSendRawTransaction, result, took);
            append_element(out, &one);
        }
    }

    /// Whether another element may be answered when the answer has `written` bytes already.
    fn room_for_more(&mut self, written: usize) -> Result<(), RpcError> {
        if written > self.node.config.max_response_bytes {
            return Err(Reason::ResponseTooLarge.error());
        }
        if written > LARGE_RESPONSE_BYTES && written > self.reserved.bytes() {
            let more = self.node.response_bytes.reserve(written);
            self.reserved.join(more.ok_or_else(|| Reason::ServerBusy.error())?);
        }
        Ok(())
    }

    async fn answer_one(&mut self, out: &mut String, message: Message<'_>) {
        let call = match message {
            Message::Notification => return,
            Message::Invalid => return self.refuse(out, Message::invalid()),
            Message::Call(call) => call,
        };
        if let Err(error) = self.node.rates.take(self.origin, Instant::now()) {
            return self.decline(out, Message::Call(call), error);
        }
        let method = match served(self.node, &call.method) {
            Ok(method) => method,
            Err(error) => {
                self.node.metrics.unknown_method(&error);
                return write_response(out, call.id.get(), &Err(error));
            }
        };
        let begun = Instant::now();
        let result = self.result(method, &call.params).await;
        self.finish(out, &call, method, result, begun.elapsed());
    }

    fn finish(&mut self, out: &mut String, call: &Call<'_>, method: Method, result: Result<Json, RpcError>, took: Duration) {
        self.node.metrics.answered(method, &result, took);
        write_response(out, call.id.get(), &result);
        if let Ok(answer) = result {
            self.reserved.join(answer.reserved);
        }
    }

    /// Answers a message that is not worked on.
    fn decline(&self, out: &mut String, message: Message<'_>, error: RpcError) {
        match message {
            Message::Notification => {}
            Message::Invalid => self.refuse(out, Message::invalid()),
            Message::Call(Call { id, .. }) => {
                self.node.metrics.refused(&error);
                write_response(out, id.get(), &Err(error));
            }
        }
    }

    /// Answers what cannot be answered by name and id.
    fn refuse(&self, out: &mut String, error: RpcError) {
        self.node.metrics.refused(&error);
        write_response(out, "null", &Err(error));
    }

    async fn result(&mut self, method: Method, params: &Params<'_>) -> Result<Json, RpcError> {
        let (node, origin) = (self.node, self.origin);
        let backend = &node.backend;
        match method {
            Method::Web3ClientVersion => params.at_most(0).and_then(|_| json(&backend.client_version())),
            Method::Web3Sha3 => json(&keccak256(params.at_most(1)?.required::<Bytes>(0)?)),
            Method::NetVersion => params.at_most(0).and_then(|_| json(&backend.chain_id().to_string())),
            Method::NetListening => params.at_most(0).and_then(|_| json(&true)),
            Method::NetPeerCount => params.at_most(0).and_then(|_| json(&U64::from(backend.peer_count()))),
            Method::RpcDiscover => {
                params.at_most(0)?;
                node.read(origin, |node| json(&openrpc::document(&node.backend.client_version(), &node.config.namespaces)))
                    .await
            }
            Method::RpcModules => params
                .at_most(0)
                .and_then(|_| json(&node.config.namespaces.names().map(|name| (name, "1.0")).collect::<BTreeMap<_, _>>())),
            Method::EthChainId => params.at_most(0).and_then(|_| json(&U64::from(backend.chain_id()))),
            Method::EthSyncing => params.at_most(0).and_then(|_| syncing(node)),
            Method::EthAccounts => params.at_most(0).and_then(|_| json::<[Address; 0]>(&[])),
            Method::EthBlockNumber => params.at_most(0).and_then(|_| json(&U64::from(backend.head().0))),

            Method::EthGetBalance => {
                let (address, block) = account_at(params)?;
                json(&node.state(block)?.1.account(&address).unwrap_or_default().balance)
            }
            Method::EthGetTransactionCount => {
                let (address, block) = account_at(params)?;
                json(&U64::from(nonce(node, &address, block)?))
            }
            Method::EthGetCode => {
                let (address, block) = account_at(params)?;
                let state = node.state(block)?.1;
                let account = state.account(&address).unwrap_or_default();
                json(&if account.has_code() { state.code(&account.code_hash).unwrap_or_default() } else { Bytes::new() })
            }
            Method::EthGetStorageAt => {
                params.at_most(3)?;
                let (address, slot) = (params.required(0)?, B256::from(params.required::<U256>(1)?));
                json(&node.state(block_or_latest(params, 2)?)?.1.storage(&address, &slot))
            }

            Method::EthGetStorageValues => {
                let wanted: BTreeMap<Address, Vec<U256>> = params.at_most(2)?.required(0)?;
                let block = block_or_latest(params, 1)?;
                node.read(origin, move |node| json(&storage_values(node, wanted, block)?)).await
            }

            Method::EthCall => {
                let trial = trial(params)?;
                node.call(origin, move |node| json(&call::call(node, trial)?)).await
            }
            Method::EthEstimateGas => {
                let trial = trial(params)?;
                node.call(origin, move |node| json(&U64::from(call::estimate(node, trial)?))).await
            }

            Method::EthCreateAccessList => {
                let trial = trial(params)?;
                node.call(origin, move |node| json(&access_list::create(node, trial)?)).await
            }

            Method::EthSimulateV1 => {
                let (payload, block) = (params.at_most(2)?.required(0)?, block_or_latest(params, 1)?);
                node.call(origin, move |node| simulate::simulate(node, payload, block)).await
            }

            Method::EthGasPrice => {
                params.at_most(0)?;
                node.read(origin, |node| json(&U64::from(fees::gas_price(node)))).await
            }
            Method::EthBaseFee => params.at_most(0).and_then(|_| json(&U64::from(backend.next_base_fee()))),
            Method::EthMaxPriorityFeePerGas => {
                params.at_most(0)?;
                node.read(origin, |node| json(&U64::from(fees::suggested_tip(node)))).await
            }
            Method::EthFeeHistory => {
                params.at_most(3)?;
                let (count, newest) = (params.required::<Index>(0)?, block_or_latest(params, 1)?);
                let percentiles: Option<Vec<f64>> = params.optional(2)?;
                node.read(origin, move |node| json(&fees::history(node, count.0, newest, percentiles.as_deref())?)).await
            }

            Method::EthSendRawTransaction => submit(node, params).await,
            Method::EthSendRawTransactionSync => submit_and_wait(node, params).await,
            Method::EthGetTransactionByHash => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| transaction_by_hash(node, &hash)).await
            }
            Method::EthGetTransactionByBlockHashAndIndex => {
                let (block, index) = (block_by_hash(params)?, params.at_most(2)?.required(1)?);
                node.read(origin, move |node| transaction_in_block(node, block, index)).await
            }
            Method::EthGetTransactionByBlockNumberAndIndex => {
                let (block, index) = (block_by_number(params)?, params.at_most(2)?.required(1)?);
                node.read(origin, move |node| transaction_in_block(node, block, index)).await
            }
            Method::EthGetTransactionReceipt => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| receipt(node, &hash)).await
            }

            Method::EthGetBlockByNumber => {
                let (block, full) = (block_by_number(params)?, params.at_most(2)?.optional(1)?.unwrap_or(false));
                node.read(origin, move |node| block_json(node, block, full)).await
            }
            Method::EthGetBlockByHash => {
                let (block, full) = (block_by_hash(params)?, params.at_most(2)?.optional(1)?.unwrap_or(false));
                node.read(origin, move |node| block_json(node, block, full)).await
            }
            Method::EthGetBlockReceipts => {
                let block = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| block_receipts(node, block)).await
            }
            Method::EthGetBlockTransactionCountByNumber => {
                let block = block_by_number(params.at_most(1)?)?;
                node.read(origin, move |node| json(&node.block(block).map(|block| U64::from(block.transactions.len())))).await
            }
            Method::EthGetBlockTransactionCountByHash => {
                let block = block_by_hash(params.at_most(1)?)?;
                node.read(origin, move |node| json(&node.block(block).map(|block| U64::from(block.transactions.len())))).await
            }
            Method::EthGetUncleCountByBlockNumber => {
                let block = block_by_number(params.at_most(1)?)?;
                json(&node.height(block).map(|_| U64::ZERO))
            }
            Method::EthGetUncleCountByBlockHash => {
                let block = block_by_hash(params.at_most(1)?)?;
                json(&node.height(block).map(|_| U64::ZERO))
            }
            Method::EthGetUncleByBlockNumberAndIndex => {
                let _: (BlockId, Index) = (block_by_number(params)?, params.at_most(2)?.required(1)?);
                json(&())
            }
            Method::EthGetUncleByBlockHashAndIndex => {
                let _: (BlockId, Index) = (block_by_hash(params)?, params.at_most(2)?.required(1)?);
                json(&())
            }

            Method::EthGetLogs => {
                let filter: Filter = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| json(&logs::search(node, &filter)?)).await
            }
            Method::EthNewFilter => {
                let filter: Filter = params.at_most(1)?.required(0)?;
                logs::check(node, &filter)?;
                json(&node.filters.add(Kind::Logs(Box::new(filter)), backend.head(), (node.clock)())?)
            }
            Method::EthNewBlockFilter => {
                params.at_most(0)?;
                json(&node.filters.add(Kind::Blocks, backend.head(), (node.clock)())?)
            }
            Method::EthNewPendingTransactionFilter => {
                let full = params.at_most(1)?.optional(0)?.unwrap_or(false);
                json(&node.filters.add(Kind::Pending { full }, backend.head(), (node.clock)())?)
            }
            Method::EthGetFilterChanges => {
                let id: U128 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| filters::changes(node, id)).await
            }
            Method::EthGetFilterLogs => {
                let id: U128 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| filters::all_logs(node, id)).await
            }
            Method::EthUninstallFilter => json(&node.filters.remove(params.at_most(1)?.required(0)?)),

            Method::EthSubscribe => self.subscribe(params),
            Method::EthUnsubscribe => {
                let session = self.session.ok_or_else(|| Reason::NotificationsNotSupported.error())?;
                let id: U128 = params.at_most(1)?.required(0)?;
                if session.unsubscribe(id) { json(&true) } else { Err(Reason::SubscriptionNotFound.error()) }
            }

            Method::TxpoolStatus => {
                params.at_most(0)?;
                node.read(origin, txpool::status).await
            }
            Method::TxpoolContent => {
                params.at_most(0)?;
                node.read(origin, txpool::content).await
            }
            Method::TxpoolContentFrom => {
                let sender: Address = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| txpool::content_from(node, &sender)).await
            }
            Method::TxpoolInspect => {
                params.at_most(0)?;
                node.read(origin, txpool::inspect).await
            }

            Method::DebugGetRawHeader => {
                let block = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| json(&raw::header(node, block)?)).await
            }
            Method::DebugGetRawBlock => {
                let block = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| json(&raw::whole_block(node, block)?)).await
            }
            Method::DebugGetRawReceipts => {
                let block = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| json(&raw::receipts(node, block)?)).await
            }
            Method::DebugGetRawTransaction => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| json(&raw::transaction(node, &hash))).await
            }

            Method::CornicheGetOrdering => {
                let block = block_or_latest(params.at_most(1)?, 0)?;
                node.read(origin, move |node| {
                    let block = node.block(block);
                    json(&block.and_then(|block| block.ordering.as_ref().map(Ordering::from)))
                })
                .await
            }
            Method::CornicheGetCertificate => {
                let block = block_or_latest(params.at_most(1)?, 0)?;
                node.read(origin, move |node| {
                    let certificate = node.height(block).and_then(|height| node.backend.certificate(height));
                    json(&certificate.as_ref().map(Certificate::from))
                })
                .await
            }
            Method::CornicheGetTransactionStatus => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| json(&transaction_report(node, &hash))).await
            }
            Method::CornicheGetHeads => {
                params.at_most(0)?;
                node.read(origin, |node| json(&heads(node)?)).await
            }
            Method::CornicheGetValidators => params.at_most(0).and_then(|_| json(&backend.validators())),
            Method::CornicheGetStatistics => params.at_most(0).and_then(|_| json(&backend.statistics())),
            Method::CornicheGetDag => {
                let range = DagRange::new(params.at_most(2)?.required(0)?, params.required::<U64>(1)?.to());
                node.read(origin, move |node| json(&dag::window(node, range)?)).await
            }

            Method::DebugTraceTransaction => {
                let (hash, request): (B256, TraceRequest) = (params.at_most(2)?.required(0)?, trace_request(params, 1)?);
                node.call(origin, move |node| trace::transaction(node, &hash, &request)).await
            }
            Method::DebugTraceBlockByNumber => {
                let (block, request) = (block_by_number(params.at_most(2)?)?, trace_request(params, 1)?);
                node.call(origin, move |node| trace::block(node, block, &request)).await
            }
            Method::DebugTraceBlockByHash => {
                let (block, request) = (block_by_hash(params.at_most(2)?)?, trace_request(params, 1)?);
                node.call(origin, move |node| trace::block(node, block, &request)).await
            }
            Method::DebugTraceCall => {
                let (call, block) = (params.at_most(3)?.required(0)?, block_or_latest(params, 1)?);
                let request = trace_request(params, 2)?;
                node.call(origin, move |node| trace::call(node, call, block, request)).await
            }
        }
    }

    fn subscribe(&mut self, params: &Params<'_>) -> Result<Json, RpcError> {
        let session = self.session.ok_or_else(|| Reason::NotificationsNotSupported.error())?;
        let topic = match params.at_most(2)?.required::<String>(0)?.as_str() {
            "newHeads" => Topic::NewHeads,
            "logs" => {
                let filter: Filter = params.optional(1)?.unwrap_or_default();
                logs::check(self.node, &filter)?;
                Topic::Logs(Box::new(filter))
            }
            "syncing" => Topic::Syncing { told: None },
            "newPendingTransactions" => Topic::Pending { full: params.optional(1)?.unwrap_or(false) },
            other => {
                let name: String = other.chars().take(64).collect();
                return Err(RpcError::new(
                    corniche_api::ErrorCode::MethodNotFound,
                    format!("no \"{name}\" subscription in eth namespace"),
                ));
            }
        };
        let id = session.subscribe(topic, self.node.backend.head())?;
        self.subscribed.push(id);
        json(&id)
    }
}

/// Address and block; a missing block is the latest.
fn account_at(params: &Params<'_>) -> Result<(Address, BlockId), RpcError> {
    Ok((params.at_most(2)?.required(0)?, block_or_latest(params, 1)?))
}

fn block_or_latest(params: &Params<'_>, position: usize) -> Result<BlockId, RpcError> {
    Ok(params.optional(position)?.unwrap_or_default())
}

fn block_by_number(params: &Params<'_>) -> Result<BlockId, RpcError> {
    params.required::<BlockNumberOrTag>(0).map(BlockId::Number)
}

fn block_by_hash(params: &Params<'_>) -> Result<BlockId, RpcError> {
    params.required::<B256>(0).map(BlockId::from)
}

fn trial(params: &Params<'_>) -> Result<Trial, RpcError> {
    params.at_most(4)?;
    Ok(Trial {
        request: params.required(0)?,
        block: block_or_latest(params, 1)?,
        overrides: params.optional(2)?,
        block_overrides: params.optional(3)?,
    })
}

fn trace_request(params: &Params<'_>, position: usize) -> Result<TraceRequest, RpcError> {
    Ok(params.optional(position)?.unwrap_or_default())
}

fn syncing(node: &Node) -> Result<Json, RpcError> {
    match node.backend.syncing() {
        None => json(&false),
        Some(progress) => json(&convert::progress(progress)),
    }
}

/// Slots of several accounts at once, as many as one request may name.
fn storage_values(
    node: &Node,
    wanted: BTreeMap<Address, Vec<U256>>,
    block: BlockId,
) -> Result<BTreeMap<Address, Vec<B256>>, RpcError> {
    let (slots, most) = (wanted.values().map(Vec::len).sum::<usize>(), node.config.max_slots);
    if slots > most {
        return Err(Reason::TooManySlots.with(format!("{slots} of at most {most}")));
    }
    let state = node.state(block)?.1;
    let values = |(address, slots): (Address, Vec<U256>)| {
        let values = slots.into_iter().map(|slot| state.storage(&address, &B256::from(slot))).collect();
        (address, values)
    };
    Ok(wanted.into_iter().map(values).collect())
}

/// `pending` counts what waits in the pool: the nonce to use next.
fn nonce(node: &Node, address: &Address, block: BlockId) -> Result<u64, RpcError> {
    if block == BlockId::Number(BlockNumberOrTag::Pending) {
        return Ok(node.backend.pending_nonce(address));
    }
    Ok(node.state(block)?.1.account(address).unwrap_or_default().nonce)
}

fn block_json(node: &Node, block: BlockId, full: bool) -> Result<Json, RpcError> {
    let block = node.block(block);
    json(&block.map(|block| convert::block(&block, full)).transpose()?)
}

fn block_receipts(node: &Node, block: BlockId) -> Result<Json, RpcError> {
    let Some(block) = node.block(block) else { return json(&()) };
    let receipts = (0..block.receipts.len()).map(|index| convert::receipt(&block, index));
    json(&receipts.collect::<Result<Vec<_>, _>>()?)
}

fn transaction_in_block(node: &Node, block: BlockId, index: Index) -> Result<Json, RpcError> {
    let block = node.block(block).filter(|block| index.0 < block.transactions.len());
    json(&block.map(|block| convert::transaction(&block, index.0)).transpose()?)
}

fn transaction_by_hash(node: &Node, hash: &B256) -> Result<Json, RpcError> {
    if let Some((height, index)) = node.backend.transaction(hash) {
        return transaction_in_block(node, BlockId::from(height.0), Index(index as usize));
    }
    if let Some(waiting) = node.backend.pool_transaction(hash) {
        return json(&convert::pending_transaction(waiting.transaction(), waiting.sender()));
    }
    // It may have gone from the pool into a block between the two looks.
    match node.backend.transaction(hash) {
        Some((height, index)) => transaction_in_block(node, BlockId::from(height.0), Index(index as usize)),
        None => json(&()),
    }
}

/// A status, and the times that are known.
fn transaction_report(node: &Node, hash: &B256) -> Option<TransactionReport> {
    let status = node.backend.status(hash)?;
    let times = match status {
        TransactionStatus::Executed { block_number, .. } | TransactionStatus::Certified { block_number, .. } => {
            let ordered = node.backend.block(Height(block_number)).map(|block| block.time().0);
            TransactionTimes { ordered_ms: ordered, ..TransactionTimes::default() }
        }
        _ => node.backend.pool_times(hash),
    };
    Some(TransactionReport { status, times })
}

fn heads(node: &Node) -> Result<Heads, RpcError> {
    let head = |height| -> Result<HeadBlock, RpcError> {
        let block = node.backend.block(height).ok_or_else(|| RpcError::internal("no block at a head"))?;
        Ok(HeadBlock { hash: block.hash, number: height.0, timestamp_ms: block.time().0 })
    };
    Ok(Heads { executed: head(node.backend.head())?, certified: head(node.backend.finalized())? })
}

fn receipt(node: &Node, hash: &B256) -> Result<Json, RpcError> {
    let Some((height, index)) = node.backend.transaction(hash) else { return json(&()) };
    let Some(block) = node.backend.block(height) else { return json(&()) };
    json(&convert::receipt(&block, index as usize)?)
}
