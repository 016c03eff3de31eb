//! Method table: maps each method to its handler and parses the parameters.
//!
//! Methods that only read memory run in place. Methods that read blocks or run contracts use the bounded
//! threads of [`Node::read`](crate::node::Node::read) and [`Node::call`](crate::node::Node::call).

use crate::access_list;
use crate::call;
use crate::dag;
use crate::dev;
use crate::fees;
use crate::filter_polls;
use crate::filters::FilterKind;
use crate::jsonrpc::{Json, Params, json};
use crate::logs;
use crate::ots::{self, BlockName};
use crate::prepare::CallRequest;
use crate::proofs;
use crate::raw;
use crate::reads;
use crate::requests::RequestContext;
use crate::session::Topic;
use crate::simulate;
use crate::submit::{submit, submit_and_wait};
use crate::trace::{self, TraceRequest};
use crate::txpool;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, Bytes, U64, U128, U256, keccak256};
use alloy_rpc_types_eth::{Filter, Index};
use corniche_api::{Certificate, DagRange, Method, Ordering, Reason, RpcError, openrpc};
use corniche_state::StateView;
use std::collections::BTreeMap;
use std::sync::Arc;

impl RequestContext<'_> {
    /// Handles one request of a method that this node serves.
    pub async fn dispatch(&mut self, method: Method, params: &Params<'_>) -> Result<Json, RpcError> {
        let (node, origin) = (self.node, self.client.origin);
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
            Method::EthSyncing => params.at_most(0).and_then(|_| reads::syncing(node)),
            Method::EthAccounts => params.at_most(0).and_then(|_| json(&dev::accounts(node))),
            Method::EthBlockNumber => params.at_most(0).and_then(|_| json(&U64::from(backend.head().0))),

            Method::EthGetBalance => {
                let (address, block) = account_at(params)?;
                node.read_state(origin, block, move |state| json(&state.account(&address).unwrap_or_default().balance)).await
            }
            Method::EthGetTransactionCount => {
                let (address, block) = account_at(params)?;
                if block == BlockId::Number(BlockNumberOrTag::Pending) {
                    return json(&U64::from(backend.pending_nonce(&address)));
                }
                node.read_state(origin, block, move |state| json(&U64::from(state.account(&address).unwrap_or_default().nonce)))
                    .await
            }
            Method::EthGetCode => {
                let (address, block) = account_at(params)?;
                let code = move |state: &dyn StateView| {
                    let account = state.account(&address).unwrap_or_default();
                    json(&if account.has_code() { state.code(&account.code_hash).unwrap_or_default() } else { Bytes::new() })
                };
                node.read_state(origin, block, code).await
            }
            Method::EthGetStorageAt => {
                params.at_most(3)?;
                let (address, slot) = (params.required(0)?, B256::from(params.required::<U256>(1)?));
                let block = block_or_latest(params, 2)?;
                node.read_state(origin, block, move |state| json(&state.storage(&address, &slot))).await
            }
            Method::EthGetProof => {
                let (address, slots) = (params.at_most(3)?.required(0)?, params.required(1)?);
                let block = block_or_latest(params, 2)?;
                node.prove(origin, move |node| proofs::get(node, address, slots, block)).await
            }

            Method::EthGetStorageValues => {
                let wanted: BTreeMap<Address, Vec<U256>> = params.at_most(2)?.required(0)?;
                let block = block_or_latest(params, 1)?;
                node.read(origin, move |node| json(&reads::storage_values(node, wanted, block)?)).await
            }

            Method::EthCall => {
                let call_request = call_request(params)?;
                node.call(origin, move |node| json(&call::call(node, call_request)?)).await
            }
            Method::EthEstimateGas => {
                let call_request = call_request(params)?;
                node.call(origin, move |node| json(&U64::from(call::estimate(node, call_request)?))).await
            }

            Method::EthCreateAccessList => {
                let call_request = call_request(params)?;
                node.call(origin, move |node| json(&access_list::create(node, call_request)?)).await
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

            Method::EthSendTransaction
            | Method::EvmMine
            | Method::EvmIncreaseTime
            | Method::EvmSetNextBlockTimestamp
            | Method::EvmSnapshot
            | Method::EvmRevert
            | Method::EvmSetAutomine
            | Method::EvmSetIntervalMining
            | Method::HardhatGetAutomine
            | Method::HardhatMine
            | Method::HardhatSetBalance
            | Method::HardhatSetNonce
            | Method::HardhatSetCode
            | Method::HardhatSetStorageAt
            | Method::HardhatImpersonateAccount
            | Method::HardhatStopImpersonatingAccount
            | Method::HardhatReset
            | Method::HardhatSetNextBlockBaseFeePerGas
            | Method::HardhatSetPrevRandao
            | Method::HardhatDropTransaction
            | Method::HardhatMetadata
            | Method::AnvilSetNextBlockBaseFeePerGas
            | Method::AnvilDropTransaction
            | Method::AnvilDropAllTransactions
            | Method::AnvilRemovePoolTransactions
            | Method::AnvilNodeInfo
            | Method::AnvilReset
            | Method::AnvilGetAutomine
            | Method::AnvilMine
            | Method::AnvilSetBalance
            | Method::AnvilSetNonce
            | Method::AnvilSetCode
            | Method::AnvilSetStorageAt
            | Method::AnvilImpersonateAccount
            | Method::AnvilStopImpersonatingAccount => dev::handle(node, origin, method, params).await,
            Method::EthSendRawTransaction => submit(node, params).await,
            Method::EthSendRawTransactionSync => submit_and_wait(node, origin, params).await,
            Method::EthGetTransactionByHash => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| reads::transaction_by_hash(node, &hash)).await
            }
            Method::EthGetTransactionByBlockHashAndIndex => {
                let (block, index) = (block_by_hash(params)?, params.at_most(2)?.required(1)?);
                node.read(origin, move |node| reads::transaction_in_block(node, block, index)).await
            }
            Method::EthGetTransactionByBlockNumberAndIndex => {
                let (block, index) = (block_by_number(params)?, params.at_most(2)?.required(1)?);
                node.read(origin, move |node| reads::transaction_in_block(node, block, index)).await
            }
            Method::EthGetRawTransactionByHash | Method::DebugGetRawTransaction => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| json(&raw::transaction(node, &hash))).await
            }
            Method::EthGetRawTransactionByBlockHashAndIndex => {
                let (block, index) = (block_by_hash(params)?, params.at_most(2)?.required(1)?);
                node.read(origin, move |node| json(&raw::transaction_in_block(node, block, index))).await
            }
            Method::EthGetRawTransactionByBlockNumberAndIndex => {
                let (block, index) = (block_by_number(params)?, params.at_most(2)?.required(1)?);
                node.read(origin, move |node| json(&raw::transaction_in_block(node, block, index))).await
            }
            Method::EthGetTransactionReceipt => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| reads::receipt(node, &hash)).await
            }

            Method::EthGetBlockByNumber => {
                let (block, full) = (block_by_number(params)?, params.at_most(2)?.optional(1)?.unwrap_or(false));
                node.read(origin, move |node| reads::block_json(node, block, full)).await
            }
            Method::EthGetBlockByHash => {
                let (block, full) = (block_by_hash(params)?, params.at_most(2)?.optional(1)?.unwrap_or(false));
                node.read(origin, move |node| reads::block_json(node, block, full)).await
            }
            Method::EthGetBlockReceipts => {
                let block = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| reads::block_receipts(node, block)).await
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
                json(&node.add_filter(origin, FilterKind::Logs(Box::new(filter)))?)
            }
            Method::EthNewBlockFilter => {
                params.at_most(0)?;
                json(&node.add_filter(origin, FilterKind::Blocks)?)
            }
            Method::EthNewPendingTransactionFilter => {
                let full = params.at_most(1)?.optional(0)?.unwrap_or(false);
                json(&node.add_filter(origin, FilterKind::Pending { full })?)
            }
            Method::EthGetFilterChanges => {
                let id: U128 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| filter_polls::changes(node, id)).await
            }
            Method::EthGetFilterLogs => {
                let id: U128 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| filter_polls::all_logs(node, id)).await
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
                node.read(origin, move |node| json(&reads::transaction_report(node, &hash))).await
            }
            Method::CornicheGetHeads => {
                params.at_most(0)?;
                node.read(origin, |node| json(&reads::heads(node)?)).await
            }
            Method::CornicheGetValidators => params.at_most(0).and_then(|_| json(&backend.validators())),
            Method::CornicheGetPeers => params.at_most(0).and_then(|_| json(&backend.peers())),
            Method::CornicheGetStatistics => params.at_most(0).and_then(|_| json(&backend.statistics())),
            Method::CornicheGetExecution => {
                let block = block_or_latest(params.at_most(1)?, 0)?;
                node.read(origin, move |node| json(&node.height(block).and_then(|height| node.backend.execution(height)))).await
            }
            Method::CornicheGetDag => {
                let range = DagRange::new(params.at_most(2)?.required(0)?, params.required::<U64>(1)?.to());
                node.read(origin, move |node| json(&dag::section(node, range)?)).await
            }

            Method::OtsGetApiLevel => params.at_most(0).and_then(|_| json(&ots::API_LEVEL)),
            Method::OtsHasCode => {
                let (address, block) = account_at(params)?;
                json(&ots::has_code(node, &address, block)?)
            }
            Method::OtsGetTransactionError => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| json(&ots::transaction_error(node, &hash)?)).await
            }
            Method::OtsTraceTransaction => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.call(origin, move |node| ots::trace_transaction(node, &hash)).await
            }
            Method::OtsGetInternalOperations => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                node.call(origin, move |node| ots::internal_operations(node, &hash)).await
            }
            Method::OtsGetBlockDetails => {
                let block: BlockName = params.at_most(1)?.required(0)?;
                node.read(origin, move |node| ots::block_details(node, block.into())).await
            }
            Method::OtsGetBlockDetailsByHash => {
                let block = block_by_hash(params.at_most(1)?)?;
                node.read(origin, move |node| ots::block_details(node, block)).await
            }
            Method::OtsGetBlockTransactions => {
                let block: BlockName = params.at_most(3)?.required(0)?;
                let (page, size): (Index, Index) = (params.required(1)?, params.required(2)?);
                node.read(origin, move |node| ots::block_transactions(node, block.into(), page.0, size.0)).await
            }
            Method::OtsSearchTransactionsBefore => {
                let (address, block, size) = ots_page(params)?;
                node.read(origin, move |node| ots::search_before(node, address, block, size)).await
            }
            Method::OtsSearchTransactionsAfter => {
                let (address, block, size) = ots_page(params)?;
                node.read(origin, move |node| ots::search_after(node, address, block, size)).await
            }
            Method::OtsGetTransactionBySenderAndNonce => {
                let (sender, nonce): (Address, Index) = (params.at_most(2)?.required(0)?, params.required(1)?);
                node.read(origin, move |node| json(&ots::by_sender_and_nonce(node, sender, nonce.0 as u64)?)).await
            }
            Method::OtsGetContractCreator => {
                let address: Address = params.at_most(1)?.required(0)?;
                node.call(origin, move |node| json(&ots::contract_creator(node, address)?)).await
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
                Topic::Logs(Arc::new(filter))
            }
            "syncing" => Topic::Syncing { reported: None },
            "newPendingTransactions" => Topic::Pending { full: params.optional(1)?.unwrap_or(false) },
            "corniche_dag" => {
                dag::growth(self.node)?;
                Topic::Dag
            }
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

/// Parses address and block; a missing block means `latest`.
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

fn call_request(params: &Params<'_>) -> Result<CallRequest, RpcError> {
    params.at_most(4)?;
    Ok(CallRequest {
        request: params.required(0)?,
        block: block_or_latest(params, 1)?,
        overrides: params.optional(2)?,
        block_overrides: params.optional(3)?,
    })
}

/// Parses account, first block and page size.
fn ots_page(params: &Params<'_>) -> Result<(Address, u64, usize), RpcError> {
    let (address, block, size): (_, Index, Index) = (params.at_most(3)?.required(0)?, params.required(1)?, params.required(2)?);
    Ok((address, block.0 as u64, size.0))
}

fn trace_request(params: &Params<'_>, position: usize) -> Result<TraceRequest, RpcError> {
    Ok(params.optional(position)?.unwrap_or_default())
}
