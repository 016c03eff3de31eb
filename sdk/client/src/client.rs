//! The client: read state; fill in, sign and submit transactions; wait for receipts.

use crate::{
    draft::Draft,
    error::ClientError,
    transport::{Request, Transport},
};
use alloy_consensus::TxEip1559;
use alloy_rpc_types_eth::TransactionReceipt;
use corniche_crypto::EthereumKey;
use corniche_types::{Address, B256, Bytes, U256, keccak256};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant},
};

/// A receipt as returned by JSON-RPC.
pub type Receipt = TransactionReceipt;

/// Default timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A client of a node. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
}

/// The fields of a block that the client uses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// Block number; 0 for the genesis.
    #[serde(deserialize_with = "quantity")]
    pub number: u64,
    /// keccak-256 of the header.
    pub hash: B256,
    /// State root after the block.
    pub state_root: B256,
    /// Unix time in seconds.
    #[serde(deserialize_with = "quantity")]
    pub timestamp: u64,
    /// Base fee in wei per gas.
    pub base_fee_per_gas: U256,
    /// Hashes of the executed transactions.
    pub transactions: Vec<B256>,
}

/// Fees in wei per gas for a transaction sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fees {
    /// Max fee, tip included.
    pub max_fee_per_gas: u128,
    /// Max priority fee (tip).
    pub max_priority_fee_per_gas: u128,
}

/// A read-only call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Caller; the zero address if absent.
    pub from: Option<Address>,
    /// Called contract; `None` for a creation, which is only for estimates.
    pub to: Option<Address>,
    /// Value in wei.
    pub value: U256,
    /// Calldata: selector and arguments.
    pub input: Bytes,
}

/// Timeout and polling intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Timeout, counted from the first poll.
    pub deadline: Duration,
    /// First pause. Each later one is 1.5 times as long, up to `longest_pause`.
    pub first_pause: Duration,
    /// Longest pause.
    pub longest_pause: Duration,
}

impl Default for Wait {
    fn default() -> Self {
        let first_pause = Duration::from_millis(5);
        Self { deadline: Duration::from_secs(30), first_pause, longest_pause: Duration::from_millis(250) }
    }
}

impl Wait {
    /// Default pauses with another timeout.
    pub fn at_most(deadline: Duration) -> Self {
        Self { deadline, ..Self::default() }
    }

    /// Polls until there is a result; `None` if the deadline passes first. Polls at least once.
    pub fn until<T>(&self, mut poll: impl FnMut() -> Result<Option<T>, ClientError>) -> Result<Option<T>, ClientError> {
        let started = Instant::now();
        let mut pause = self.first_pause;
        loop {
            if let Some(answer) = poll()? {
                return Ok(Some(answer));
            }
            let left = self.deadline.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(pause.min(left));
            pause = (pause + pause / 2).min(self.longest_pause);
        }
    }
}

impl Client {
    /// Creates a client of the node at this URL. Sends no request.
    pub fn new(url: impl Into<String>) -> Self {
        Self::with_timeout(url, REQUEST_TIMEOUT)
    }

    /// Creates a client with another timeout for each request than the default of 30 seconds.
    pub fn with_timeout(url: impl Into<String>, timeout: Duration) -> Self {
        Self { transport: Transport::new(url, timeout) }
    }

    /// Returns the transport, for batches and for methods without a function here.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Returns the chain id.
    pub fn chain_id(&self) -> Result<u64, ClientError> {
        self.number("eth_chainId", json!([]))
    }

    /// Returns the number of the newest executed block.
    pub fn block_number(&self) -> Result<u64, ClientError> {
        self.number("eth_blockNumber", json!([]))
    }

    /// Returns a block, or `None` if the chain is shorter.
    pub fn block(&self, number: u64) -> Result<Option<Block>, ClientError> {
        self.request("eth_getBlockByNumber", json!([format!("{number:#x}"), false]))
    }

    /// Returns the newest block that a certificate covers.
    pub fn finalized_block(&self) -> Result<Option<Block>, ClientError> {
        self.request("eth_getBlockByNumber", json!(["finalized", false]))
    }

    /// Returns the balance of an account in wei, at the latest block.
    pub fn balance(&self, address: Address) -> Result<U256, ClientError> {
        self.request("eth_getBalance", json!([address, "latest"]))
    }

    /// Returns the nonce of the account's next transaction, including pending ones in the node's pool.
    pub fn nonce(&self, address: Address) -> Result<u64, ClientError> {
        self.number("eth_getTransactionCount", json!([address, "pending"]))
    }

    /// Returns an account's code exactly as deployed; empty if it has none.
    pub fn code(&self, address: Address) -> Result<Bytes, ClientError> {
        self.request("eth_getCode", json!([address, "latest"]))
    }

    /// Calls a contract at the latest block and returns its return data.
    pub fn call(&self, call: &Call) -> Result<Bytes, ClientError> {
        self.request("eth_call", json!([call_object(call), "latest"]))
    }

    /// Returns a gas limit with which this call succeeds.
    pub fn estimate_gas(&self, call: &Call) -> Result<u64, ClientError> {
        self.number("eth_estimateGas", json!([call_object(call)]))
    }

    /// Returns twice the latest base fee plus the tip that the node suggests. This suffices for half a minute of rising
    /// fees.
    pub fn fees(&self) -> Result<Fees, ClientError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct BaseFee {
            base_fee_per_gas: U256,
        }
        let latest: BaseFee = self.request("eth_getBlockByNumber", json!(["latest", false]))?;
        let tip: U256 = self.request("eth_maxPriorityFeePerGas", json!([]))?;
        let fee = latest.base_fee_per_gas.saturating_mul(U256::from(2)).saturating_add(tip);
        Ok(Fees { max_fee_per_gas: fee.saturating_to(), max_priority_fee_per_gas: tip.saturating_to() })
    }

    /// Fills in the missing fields of the draft, signs it and returns the encoded transaction.
    pub fn sign(&self, key: &EthereumKey, draft: &Draft) -> Result<Bytes, ClientError> {
        let from = key.address();
        let or_ask = |given: Option<u64>, ask: &dyn Fn() -> Result<u64, ClientError>| given.map_or_else(ask, Ok);
        let fees = match (draft.max_fee_per_gas, draft.max_priority_fee_per_gas) {
            (Some(max_fee_per_gas), Some(max_priority_fee_per_gas)) => Fees { max_fee_per_gas, max_priority_fee_per_gas },
            (max_fee, tip) => {
                let asked = self.fees()?;
                let max_fee_per_gas = max_fee.unwrap_or(asked.max_fee_per_gas.max(tip.unwrap_or_default()));
                let tip = tip.unwrap_or(asked.max_priority_fee_per_gas.min(max_fee_per_gas));
                Fees { max_fee_per_gas, max_priority_fee_per_gas: tip }
            }
        };
        let call = Call { from: Some(from), to: draft.to.to().copied(), value: draft.value, input: draft.input.clone() };
        Ok(key.sign(TxEip1559 {
            chain_id: self.chain_id()?,
            nonce: or_ask(draft.nonce, &|| self.nonce(from))?,
            gas_limit: or_ask(draft.gas_limit, &|| self.estimate_gas(&call))?,
            max_fee_per_gas: fees.max_fee_per_gas,
            max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
            to: draft.to,
            value: draft.value,
            access_list: Default::default(),
            input: draft.input.clone(),
        }))
    }

    /// Submits a signed transaction and returns its hash.
    pub fn submit(&self, raw: &Bytes) -> Result<B256, ClientError> {
        self.request("eth_sendRawTransaction", json!([raw]))
    }

    /// Submits many transactions in one request. Each has its own result, in order.
    pub fn submit_all(&self, raw: &[Bytes]) -> Result<Vec<Result<B256, ClientError>>, ClientError> {
        let request = |raw: &Bytes| Request { method: "eth_sendRawTransaction", params: json!([raw]) };
        self.transport.batch(&raw.iter().map(request).collect::<Vec<_>>())
    }

    /// Fills in, signs and submits a transaction. Computes the hash locally and checks the node's response against it.
    pub fn send(&self, key: &EthereumKey, draft: &Draft) -> Result<B256, ClientError> {
        let raw = self.sign(key, draft)?;
        let hash = keccak256(&raw);
        let answered = self.submit(&raw)?;
        if answered != hash {
            let problem = format!("expected hash {hash}, got {answered}");
            return Err(ClientError::InvalidResponse { method: "eth_sendRawTransaction".into(), problem });
        }
        Ok(hash)
    }

    /// Returns the receipt, or `None` while the transaction is not in a block.
    pub fn receipt(&self, hash: B256) -> Result<Option<Receipt>, ClientError> {
        self.request("eth_getTransactionReceipt", json!([hash]))
    }

    /// Polls for the receipt until it is available or the deadline passes. The transaction may have reverted.
    pub fn wait(&self, hash: B256, wait: Wait) -> Result<Receipt, ClientError> {
        let receipt = wait.until(|| self.receipt(hash))?;
        receipt.ok_or(ClientError::Deadline { hash, waited: wait.deadline })
    }

    /// Sends a request with any method.
    pub(crate) fn request<R: DeserializeOwned + Send>(&self, method: &str, params: Value) -> Result<R, ClientError> {
        self.transport.request(method, params)
    }

    fn number(&self, method: &str, params: Value) -> Result<u64, ClientError> {
        let number: U256 = self.request(method, params)?;
        let nonsense =
            |_| ClientError::InvalidResponse { method: method.to_owned(), problem: format!("{number} is out of range") };
        u64::try_from(number).map_err(nonsense)
    }
}

fn call_object(call: &Call) -> Value {
    let mut object = json!({ "value": call.value, "input": call.input });
    for (name, address) in [("from", call.from), ("to", call.to)] {
        if let Some(address) = address {
            object[name] = json!(address);
        }
    }
    object
}

fn quantity<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    u64::try_from(U256::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_polls_at_least_once() {
        let wait = Wait::at_most(Duration::ZERO);
        assert_eq!(wait.until(|| Ok(Some(7))).unwrap(), Some(7));
        let mut asked = 0;
        let nothing = wait.until(|| {
            asked += 1;
            Ok(None::<()>)
        });
        assert_eq!((nothing.unwrap(), asked), (None, 1));
    }

    #[test]
    fn creation_call_object_omits_to() {
        let call = Call { input: Bytes::from_static(&[0, 0x61]), ..Call::default() };
        assert_eq!(call_object(&call), json!({ "value": "0x0", "input": "0x0061" }));
    }

    #[test]
    fn block_parses_node_response() {
        let block: Block = serde_json::from_value(json!({
            "number": "0x10", "hash": B256::ZERO, "stateRoot": B256::ZERO, "timestamp": "0x6553f100",
            "baseFeePerGas": "0x3b9aca00", "transactions": [B256::ZERO], "gasUsed": "0x5208",
        }))
        .unwrap();
        assert_eq!((block.number, block.timestamp), (16, 1_700_000_000));
        assert_eq!(block.transactions.len(), 1);
    }
}
