//! The staking contract of a chain, over JSON-RPC.

use super::refusal;
use alloy_sol_types::SolCall;
use anyhow::{Context, ensure};
use corniche_client::{Client, ClientError, Request};
use corniche_contract_tool::{Rpc, explain_by};
use corniche_staking::interface::Staking;
use corniche_types::{Bytes, STAKING_ADDRESS};
use serde_json::{Value, json};

const METHOD: &str = "eth_call";

/// Node to call, and output format.
#[derive(clap::Args, Debug)]
pub struct Chain {
    #[command(flatten)]
    rpc: Rpc,
    /// Ticker of the native currency
    #[arg(long, value_name = "TICKER", default_value = "CRN")]
    pub currency: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Chain {
    /// Returns the contract. Sends no request.
    pub fn contract(&self) -> Contract<'_> {
        Contract { chain: self, client: self.rpc.client() }
    }
}

/// The staking contract of a chain.
pub struct Contract<'a> {
    pub chain: &'a Chain,
    pub client: Client,
}

impl Contract<'_> {
    /// Returns the running epoch.
    pub fn epoch(&self) -> anyhow::Result<Staking::epochReturn> {
        self.view(&Staking::epochCall {})
    }

    /// Calls a function that reads. Fails on a chain without the contract.
    pub fn view<C: SolCall>(&self, call: &C) -> anyhow::Result<C::Return> {
        self.decode::<C>(self.client.transport().request(METHOD, params(call)))
    }

    /// Calls a function that reads, once for each of these arguments, in one request. `None`: the contract refuses the call.
    pub fn views<C: SolCall>(&self, calls: impl Iterator<Item = C>) -> anyhow::Result<Vec<Option<C::Return>>> {
        let requests: Vec<_> = calls.map(|call| Request { method: METHOD, params: params(&call) }).collect();
        let outputs = self.client.transport().batch(&requests).map_err(|error| explain_by(error, &|_| None))?;
        let decode = |output| match output {
            Err(ClientError::Reverted { .. }) => Ok(None),
            output => self.decode::<C>(output).map(Some),
        };
        outputs.into_iter().map(decode).collect()
    }

    /// Returns a sentence for revert data of the contract.
    pub fn refusal(&self, data: &[u8]) -> Option<String> {
        refusal::sentence(data, &self.chain.currency)
    }

    fn decode<C: SolCall>(&self, output: Result<Bytes, ClientError>) -> anyhow::Result<C::Return> {
        let output = output.map_err(|error| explain_by(error, &|data| self.refusal(data)))?;
        ensure!(!output.is_empty(), "this chain has no staking contract");
        C::abi_decode_returns_validate(&output).with_context(|| format!("the node's result is not one of {}", C::SIGNATURE))
    }
}

fn params(call: &impl SolCall) -> Value {
    json!([{ "to": STAKING_ADDRESS, "input": Bytes::from(call.abi_encode()) }, "latest"])
}
