//! Method table: maps each method to its handler. The handlers, by group, parse the parameters.
//!
//! Methods that only read memory run in place. Methods that read blocks or run contracts use the bounded
//! threads of [`Node::read`](crate::node::Node::read) and [`Node::call`](crate::node::Node::call).

mod accounts;
mod blocks;
mod calls;
mod corniche;
mod filters;
mod gas_prices;
mod general;
mod otterscan;
mod params;
mod pool;
mod subscriptions;
mod transactions;

use crate::budget::Reservation;
use crate::client::Client;
use crate::dev;
use crate::jsonrpc::{Json, Params};
use crate::node::Node;
use crate::session::Session;
use crate::submit::{submit, submit_and_wait};
use alloy_primitives::U128;
use corniche_api::{Method, RpcError};
use std::sync::Arc;

/// Connection and client of a request. Subscriptions need a WebSocket, i.e. a `session`.
pub(crate) struct RequestContext<'a> {
    pub node: &'a Arc<Node>,
    pub session: Option<&'a Session>,
    /// Rate limits and turns count per client.
    pub client: &'a Client,
    pub subscribed: Vec<U128>,
    /// Memory for the responses so far.
    pub reserved: Reservation,
}

impl RequestContext<'_> {
    /// Handles one request of a method that this node serves. A table: the match has one line per method, so that the
    /// compiler finds methods without a handler.
    pub async fn dispatch(&mut self, method: Method, params: &Params<'_>) -> Result<Json, RpcError> {
        let (node, origin) = (self.node, self.client.origin);
        match method {
            Method::Web3ClientVersion => general::client_version(node, params),
            Method::Web3Sha3 => general::sha3(params),
            Method::NetVersion => general::network_id(node, params),
            Method::NetListening => general::listening(params),
            Method::NetPeerCount => general::peer_count(node, params),
            Method::RpcDiscover => general::discover(node, origin, params).await,
            Method::RpcModules => general::modules(node, params),
            Method::EthChainId => general::chain_id(node, params),
            Method::EthSyncing => general::syncing(node, params),
            Method::EthAccounts => general::accounts(node, params),
            Method::EthBlockNumber => general::block_number(node, params),

            Method::EthGetBalance => accounts::balance(node, origin, params).await,
            Method::EthGetTransactionCount => accounts::nonce(node, origin, params).await,
            Method::EthGetCode => accounts::code(node, origin, params).await,
            Method::EthGetStorageAt => accounts::storage_at(node, origin, params).await,
            Method::EthGetStorageValues => accounts::storage_values(node, origin, params).await,
            Method::EthGetProof => accounts::proof(node, origin, params).await,

            Method::EthSendRawTransaction => submit(node, params).await,
            Method::EthSendRawTransactionSync => submit_and_wait(node, origin, params).await,
            Method::EthGetTransactionByHash => transactions::by_hash(node, origin, params).await,
            Method::EthGetTransactionByBlockHashAndIndex => transactions::by_block_hash(node, origin, params).await,
            Method::EthGetTransactionByBlockNumberAndIndex => transactions::by_block_number(node, origin, params).await,
            Method::EthGetTransactionReceipt => transactions::receipt(node, origin, params).await,
            Method::EthGetRawTransactionByHash | Method::DebugGetRawTransaction => {
                transactions::raw_by_hash(node, origin, params).await
            }
            Method::EthGetRawTransactionByBlockHashAndIndex => transactions::raw_by_block_hash(node, origin, params).await,
            Method::EthGetRawTransactionByBlockNumberAndIndex => transactions::raw_by_block_number(node, origin, params).await,

            Method::EthGetBlockByNumber => blocks::by_number(node, origin, params).await,
            Method::EthGetBlockByHash => blocks::by_hash(node, origin, params).await,
            Method::EthGetBlockReceipts => blocks::receipts(node, origin, params).await,
            Method::EthGetBlockTransactionCountByNumber => blocks::transaction_count_by_number(node, origin, params).await,
            Method::EthGetBlockTransactionCountByHash => blocks::transaction_count_by_hash(node, origin, params).await,
            Method::EthGetUncleCountByBlockNumber => blocks::uncle_count_by_number(node, params),
            Method::EthGetUncleCountByBlockHash => blocks::uncle_count_by_hash(node, params),
            Method::EthGetUncleByBlockNumberAndIndex => blocks::uncle_by_number(params),
            Method::EthGetUncleByBlockHashAndIndex => blocks::uncle_by_hash(params),
            Method::DebugGetRawHeader => blocks::raw_header(node, origin, params).await,
            Method::DebugGetRawBlock => blocks::raw_block(node, origin, params).await,
            Method::DebugGetRawReceipts => blocks::raw_receipts(node, origin, params).await,

            Method::EthCall => calls::call(node, origin, params).await,
            Method::EthEstimateGas => calls::estimate_gas(node, origin, params).await,
            Method::EthCreateAccessList => calls::create_access_list(node, origin, params).await,
            Method::EthSimulateV1 => calls::simulate(node, origin, params).await,
            Method::DebugTraceCall => calls::trace(node, origin, params).await,
            Method::DebugTraceTransaction => calls::trace_transaction(node, origin, params).await,
            Method::DebugTraceBlockByNumber => calls::trace_block_by_number(node, origin, params).await,
            Method::DebugTraceBlockByHash => calls::trace_block_by_hash(node, origin, params).await,

            Method::EthGasPrice => gas_prices::gas_price(node, origin, params).await,
            Method::EthMaxPriorityFeePerGas => gas_prices::max_priority_fee(node, origin, params).await,
            Method::EthFeeHistory => gas_prices::fee_history(node, origin, params).await,
            Method::EthBaseFee => gas_prices::base_fee(node, params),

            Method::EthGetLogs => filters::logs(node, origin, params).await,
            Method::EthNewFilter => filters::new_log_filter(node, origin, params),
            Method::EthNewBlockFilter => filters::new_block_filter(node, origin, params),
            Method::EthNewPendingTransactionFilter => filters::new_pending_filter(node, origin, params),
            Method::EthGetFilterChanges => filters::changes(node, origin, params).await,
            Method::EthGetFilterLogs => filters::all_logs(node, origin, params).await,
            Method::EthUninstallFilter => filters::uninstall(node, params),

            Method::EthSubscribe => self.subscribe(params),
            Method::EthUnsubscribe => self.unsubscribe(params),

            Method::TxpoolStatus => pool::status(node, origin, params).await,
            Method::TxpoolContent => pool::content(node, origin, params).await,
            Method::TxpoolContentFrom => pool::content_from(node, origin, params).await,
            Method::TxpoolInspect => pool::inspect(node, origin, params).await,

            Method::CornicheGetOrdering => corniche::ordering(node, origin, params).await,
            Method::CornicheGetEpochChanges => corniche::epoch_changes(node, origin, params).await,
            Method::CornicheGetEpoch => corniche::epoch(node, origin, params).await,
            Method::CornicheGetCommittee => corniche::committee(node, origin, params).await,
            Method::CornicheGetCertificate => corniche::certificate(node, origin, params).await,
            Method::CornicheGetTransactionStatus => corniche::transaction_status(node, origin, params).await,
            Method::CornicheGetHeads => corniche::heads(node, origin, params).await,
            Method::CornicheGetValidators => corniche::validators(node, params),
            Method::CornicheGetStaking => corniche::staking(node, origin, params).await,
            Method::CornicheGetOffences => corniche::offences(node, origin, params).await,
            Method::CornicheGetSyncStatus => corniche::sync_status(node, params),
            Method::CornicheGetPeers => corniche::peers(node, params),
            Method::CornicheGetStatistics => corniche::statistics(node, params),
            Method::CornicheGetExecution => corniche::execution(node, origin, params).await,
            Method::CornicheGetShards => corniche::shards(node, params),
            Method::CornicheGetShard => corniche::shard(node, params),
            Method::CornicheGetShardedTransaction => corniche::sharded_transaction(node, origin, params).await,
            Method::CornicheGetShardCertificate => corniche::shard_certificate(node, origin, params).await,
            Method::CornicheGetDag => corniche::dag(node, origin, params).await,

            Method::OtsGetApiLevel => otterscan::api_level(params),
            Method::OtsHasCode => otterscan::has_code(node, params),
            Method::OtsGetTransactionError => otterscan::transaction_error(node, origin, params).await,
            Method::OtsTraceTransaction => otterscan::trace_transaction(node, origin, params).await,
            Method::OtsGetInternalOperations => otterscan::internal_operations(node, origin, params).await,
            Method::OtsGetBlockDetails => otterscan::block_details(node, origin, params).await,
            Method::OtsGetBlockDetailsByHash => otterscan::block_details_by_hash(node, origin, params).await,
            Method::OtsGetBlockTransactions => otterscan::block_transactions(node, origin, params).await,
            Method::OtsSearchTransactionsBefore => otterscan::search_before(node, origin, params).await,
            Method::OtsSearchTransactionsAfter => otterscan::search_after(node, origin, params).await,
            Method::OtsGetTransactionBySenderAndNonce => otterscan::by_sender_and_nonce(node, origin, params).await,
            Method::OtsGetContractCreator => otterscan::contract_creator(node, origin, params).await,

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
        }
    }
}
