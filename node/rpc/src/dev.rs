//! Methods of development chains: mining and time on demand, snapshots, changes of accounts, and transactions
//! that the node signs or that are sent unsigned (impersonation).

use crate::backend::{AccountChange, ChainBlock, DevChain, DevCommand, DropTarget};
use crate::call;
use crate::fees;
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use crate::prepare::CallRequest;
use alloy_consensus::{TxEip1559, TxLegacy, TypedTransaction};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rpc_types_eth::TransactionRequest;
use corniche_api::{Method, Reason, RpcError};
use corniche_crypto::impersonate;
use corniche_origin::Origin;
use corniche_vm::{Rules, wasm};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

/// Maximum number of impersonated accounts.
const MAX_IMPERSONATED: usize = 10_000;

/// Handles one method of this module.
pub(crate) async fn handle(node: &Arc<Node>, origin: Origin, method: Method, params: &Params<'_>) -> Result<Json, RpcError> {
    let Some(dev) = node.dev() else { return Err(Reason::NotDevelopment.with("see `corniche dev`")) };
    if method == Method::EthSendTransaction {
        return send(node, origin, params).await;
    }
    // Success is `true` in hardhat's methods and null in anvil's.
    let done = || if method.namespace() == "anvil" { json(&()) } else { json(&true) };
    let command = match method {
        Method::EvmMine => return mine(dev, params).await,
        Method::HardhatMine | Method::AnvilMine => {
            let (blocks, interval) = (params.at_most(2)?.optional::<Quantity>(0)?, params.optional::<Quantity>(1)?);
            DevCommand::Mine {
                blocks: blocks.map_or(1, |blocks| blocks.0),
                interval_seconds: interval.map(|interval| interval.0),
            }
        }
        Method::EvmIncreaseTime => {
            let seconds = params.at_most(1)?.required::<Quantity>(0)?.0;
            return json(&dev.execute(DevCommand::IncreaseTime { seconds }).await?);
        }
        Method::EvmSetNextBlockTimestamp => {
            let timestamp = params.at_most(1)?.required::<Quantity>(0)?.0;
            return json(&dev.execute(DevCommand::SetNextTimestamp { timestamp }).await?);
        }
        Method::EvmSnapshot => {
            params.at_most(0)?;
            return json(&U64::from(dev.execute(DevCommand::Snapshot).await?));
        }
        Method::EvmRevert => {
            let id = params.at_most(1)?.required::<Quantity>(0)?.0;
            return json(&(dev.execute(DevCommand::Revert { id }).await? == 1));
        }
        Method::HardhatReset | Method::AnvilReset => {
            check_reset(params)?;
            dev.execute(DevCommand::Reset).await?;
            impersonated(node).clear();
            return done();
        }
        Method::EvmSetAutomine => DevCommand::SetAutomine(params.at_most(1)?.required(0)?),
        Method::EvmSetIntervalMining => DevCommand::SetInterval { ms: params.at_most(1)?.required::<Quantity>(0)?.0 },
        Method::HardhatGetAutomine | Method::AnvilGetAutomine => return params.at_most(0).and_then(|_| json(&dev.automine())),
        Method::HardhatImpersonateAccount | Method::AnvilImpersonateAccount => {
            let account = params.at_most(1)?.required(0)?;
            let mut impersonated = impersonated(node);
            if impersonated.len() >= MAX_IMPERSONATED {
                return Err(Reason::NotObeyed.with(format!("{MAX_IMPERSONATED} accounts are already impersonated")));
            }
            impersonated.insert(account);
            return done();
        }
        Method::HardhatStopImpersonatingAccount | Method::AnvilStopImpersonatingAccount => {
            impersonated(node).remove(&params.at_most(1)?.required::<Address>(0)?);
            return done();
        }
        Method::HardhatSetNextBlockBaseFeePerGas | Method::AnvilSetNextBlockBaseFeePerGas => {
            DevCommand::SetNextBaseFee { wei: params.at_most(1)?.required::<Quantity>(0)?.0 }
        }
        Method::HardhatSetPrevRandao => DevCommand::SetNextRandomness(params.at_most(1)?.required::<U256>(0)?.into()),
        Method::HardhatDropTransaction | Method::AnvilDropTransaction => {
            return drop_transaction(node, dev, method, params).await;
        }
        Method::AnvilDropAllTransactions => params.at_most(0).map(|_| DevCommand::DropTransactions(DropTarget::All))?,
        Method::AnvilRemovePoolTransactions => {
            DevCommand::DropTransactions(DropTarget::Sender(params.at_most(1)?.required(0)?))
        }
        Method::HardhatMetadata => return params.at_most(0).and_then(|_| metadata(node, dev)),
        Method::AnvilNodeInfo => {
            params.at_most(0)?;
            return node.read(origin, node_info).await;
        }
        method => DevCommand::SetAccounts(vec![account_change(method, params)?]),
    };
    dev.execute(command).await?;
    done()
}

/// viem sends an empty fork object to reset without a fork. Hardhat's form nests it in `forking`; anvil's
/// form may omit that level.
fn check_reset(params: &Params<'_>) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ResetOptions {
        forking: Option<Box<ResetOptions>>,
        json_rpc_url: Option<serde_json::Value>,
        block_number: Option<serde_json::Value>,
    }
    let mut next = params.at_most(1)?.optional::<ResetOptions>(0)?.map(Box::new);
    while let Some(options) = next {
        if let Some(given) = options.json_rpc_url.or(options.block_number) {
            return Err(
                Reason::NotObeyed.with(format!("forking is not supported, got {given}; a reset returns to the genesis"))
            );
        }
        next = options.forking;
    }
    Ok(())
}

fn account_change(method: Method, params: &Params<'_>) -> Result<AccountChange, RpcError> {
    let account: Address = params.required(0)?;
    Ok(match method {
        Method::HardhatSetBalance | Method::AnvilSetBalance => AccountChange::Balance(account, params.at_most(2)?.required(1)?),
        Method::HardhatSetNonce | Method::AnvilSetNonce => {
            AccountChange::Nonce(account, params.at_most(2)?.required::<U64>(1)?.to())
        }
        Method::HardhatSetCode | Method::AnvilSetCode => {
            let code: Bytes = params.at_most(2)?.required(1)?;
            check_code(&code)?;
            AccountChange::Code(account, code)
        }
        Method::HardhatSetStorageAt | Method::AnvilSetStorageAt => {
            let (slot, value): (U256, U256) = (params.at_most(3)?.required(1)?, params.required(2)?);
            AccountChange::Storage(account, slot.into(), value.into())
        }
        other => return Err(RpcError::internal(format!("unexpected method {}", other.name()))),
    })
}

/// Stored code is never checked again, so the checks of a deployment run here.
fn check_code(code: &Bytes) -> Result<(), RpcError> {
    if code.is_empty() {
        return Ok(());
    }
    let refused = |why: &dyn std::fmt::Display| RpcError::invalid_params(format!("invalid argument 1: no WebAssembly: {why}"));
    let wasm = wasm::unpack(code).map_err(|error| refused(&error))?;
    wasm::validate::check_with_rules(Rules::DEVELOPMENT, &wasm).map_err(|error| refused(&error)).map(|_| ())
}

/// Number in hexadecimal or decimal digits, or a JSON number.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "QuantityInput")]
struct Quantity(u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum QuantityInput {
    Number(u64),
    Text(String),
}

impl TryFrom<QuantityInput> for Quantity {
    type Error = String;

    fn try_from(digits: QuantityInput) -> Result<Self, String> {
        let text = match digits {
            QuantityInput::Number(number) => return Ok(Self(number)),
            QuantityInput::Text(text) => text,
        };
        let parsed = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        parsed.map(Self).map_err(|_| format!("{text:?} is not a 64-bit number"))
    }
}

/// `evm_mine`: hardhat passes a time; anvil a time, or an object with time and number of blocks.
async fn mine(dev: &dyn DevChain, params: &Params<'_>) -> Result<Json, RpcError> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum MineOptions {
        Timestamp(Quantity),
        Object { timestamp: Option<Quantity>, blocks: Option<Quantity> },
    }
    let (timestamp, blocks) = match params.at_most(1)?.optional(0)? {
        None => (None, None),
        Some(MineOptions::Timestamp(timestamp)) => (Some(timestamp), None),
        Some(MineOptions::Object { timestamp, blocks }) => (timestamp, blocks),
    };
    if let Some(Quantity(timestamp)) = timestamp {
        dev.execute(DevCommand::SetNextTimestamp { timestamp }).await?;
    }
    dev.execute(DevCommand::Mine { blocks: blocks.map_or(1, |blocks| blocks.0), interval_seconds: None }).await?;
    json(&U64::ZERO)
}

/// For a transaction in a block, hardhat returns an error and anvil null.
async fn drop_transaction(node: &Node, dev: &dyn DevChain, method: Method, params: &Params<'_>) -> Result<Json, RpcError> {
    let hash: B256 = params.at_most(1)?.required(0)?;
    let found = dev.execute(DevCommand::DropTransactions(DropTarget::Transaction(hash))).await? == 1;
    if method == Method::AnvilDropTransaction {
        return json(&found.then_some(hash));
    }
    match node.backend.transaction(&hash) {
        Some((height, _)) if !found => Err(Reason::NotObeyed.with(format!("the transaction is in block {height}"))),
        _ => json(&found),
    }
}

fn head(node: &Node) -> Result<Arc<ChainBlock>, RpcError> {
    node.backend.block(node.backend.head()).ok_or_else(|| Reason::HeaderNotFound.error())
}

/// `hardhat_metadata`.
fn metadata(node: &Node, dev: &dyn DevChain) -> Result<Json, RpcError> {
    let head = head(node)?;
    json(&serde_json::json!({
        "clientVersion": node.backend.client_version(),
        "chainId": node.backend.chain_id(),
        "instanceId": dev.instance(),
        "latestBlockNumber": head.header.number,
        "latestBlockHash": head.hash,
    }))
}

/// `anvil_nodeInfo`.
fn node_info(node: &Node) -> Result<Json, RpcError> {
    let head = head(node)?;
    json(&serde_json::json!({
        "currentBlockNumber": U64::from(head.header.number),
        "currentBlockTimestamp": head.header.timestamp,
        "currentBlockHash": head.hash,
        "hardFork": "shanghai",
        "transactionOrder": "fees",
        "environment": {
            "baseFee": U64::from(node.backend.next_base_fee()),
            "chainId": node.backend.chain_id(),
            "gasLimit": U64::from(head.header.gas_limit),
            "gasPrice": U64::from(fees::gas_price(node)),
        },
        "forkConfig": { "forkUrl": null, "forkBlockNumber": null, "forkRetryBackoff": null },
    }))
}

fn impersonated(node: &Node) -> MutexGuard<'_, BTreeSet<Address>> {
    // Every critical section leaves the set consistent.
    node.impersonated.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `eth_sendTransaction`.
async fn send(node: &Arc<Node>, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let request: TransactionRequest = params.at_most(1)?.required(0)?;
    // One at a time, so that no two transactions take the same nonce.
    let _guard = node.send_lock.lock().await;
    let raw = node.compute(origin, move |node| fill_and_sign(node, request)).await?;
    let hash = node.backend.submit(raw).await?;
    json::<B256>(&hash)
}

fn fill_and_sign(node: &Node, mut request: TransactionRequest) -> Result<Bytes, RpcError> {
    let from = request.from.ok_or_else(|| RpcError::invalid_params("missing value for \"from\""))?;
    let key = node.dev().and_then(|dev| dev.keys().into_iter().find(|key| key.address() == from));
    if key.is_none() && !impersonated(node).contains(&from) {
        return Err(Reason::UnknownAccount.with(from));
    }
    let nonce = request.nonce.unwrap_or_else(|| node.backend.pending_nonce(&from));
    let gas_limit = match request.gas {
        Some(gas) => gas,
        None => estimate(node, request.clone())?,
    };
    let chain_id = node.backend.chain_id();
    let (to, value) = (request.to.unwrap_or_default(), request.value.unwrap_or_default());
    let input = request.input.input.take().or(request.input.data.take()).unwrap_or_default();
    let transaction: TypedTransaction = match request.gas_price {
        Some(gas_price) => TxLegacy { chain_id: Some(chain_id), nonce, gas_price, gas_limit, to, value, input }.into(),
        None => {
            let base_fee = u128::from(node.backend.next_base_fee());
            let tip = request
                .max_priority_fee_per_gas
                .unwrap_or_else(|| request.max_fee_per_gas.unwrap_or(u128::MAX).min(fees::suggested_tip(node).into()));
            TxEip1559 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas: request.max_fee_per_gas.unwrap_or(base_fee * 2 + tip),
                max_priority_fee_per_gas: tip,
                to,
                value,
                access_list: request.access_list.unwrap_or_default(),
                input,
            }
            .into()
        }
    };
    Ok(match key {
        Some(key) => key.sign(transaction),
        None => impersonate(transaction, from),
    })
}

fn estimate(node: &Node, request: TransactionRequest) -> Result<u64, RpcError> {
    let block = BlockId::Number(BlockNumberOrTag::Pending);
    call::estimate(node, CallRequest { request, block, overrides: None, block_overrides: None })
}

/// `eth_accounts`: addresses of the development keys.
pub(crate) fn accounts(node: &Node) -> Vec<Address> {
    node.dev().map(|dev| dev.keys().iter().map(|key| key.address()).collect()).unwrap_or_default()
}
