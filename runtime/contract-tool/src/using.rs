//! `corniche contract call`, `send` and `encode`.

use super::{
    abi,
    abi::{Arguments, Interface},
    errors,
    known::Known,
    options::Node,
    paying,
};
use anyhow::bail;
use corniche_client::Draft;
use corniche_console::exit;
use corniche_types::{Address, Bytes, U256};
use serde_json::Value;
use std::path::PathBuf;

#[derive(clap::Args, Debug)]
pub struct Call {
    #[arg(value_name = "ADDRESS")]
    to: Address,
    /// Function: a name in the contract's ABI, or 'name(types)(returned types)'
    #[arg(value_name = "FUNCTION")]
    function: String,
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Address of the caller
    #[arg(long, value_name = "ADDRESS")]
    from: Option<Address>,
    #[command(flatten)]
    node: Node,
}

#[derive(clap::Args, Debug)]
pub struct Send {
    #[arg(value_name = "ADDRESS")]
    to: Address,
    /// Function: a name in the contract's ABI, or 'name(types)'. Without it, the transaction only transfers --value
    #[arg(value_name = "FUNCTION")]
    function: Option<String>,
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Amount to send with the transaction: in wei, or with a unit, for instance 1.5ether or 20gwei
    #[arg(long, value_name = "AMOUNT", default_value = "0", value_parser = paying::wei)]
    value: U256,
    #[command(flatten)]
    paying: paying::Paying,
    #[command(flatten)]
    node: Node,
}

#[derive(clap::Args, Debug)]
pub struct Encode {
    /// Function: 'name(types)', or a name in the ABI of --abi
    #[arg(value_name = "FUNCTION")]
    function: String,
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// File with an ABI as JSON
    #[arg(long, value_name = "FILE")]
    abi: Option<PathBuf>,
}

impl Encode {
    pub fn run(&self) -> anyhow::Result<()> {
        let interface = self.abi.as_deref().map(Interface::open).transpose()?;
        if interface.is_none() && !self.function.contains('(') {
            bail!("write the function with its types, for instance '{}(address,uint256)', or give --abi", self.function);
        }
        let function = interface.as_ref().unwrap_or(Interface::nothing()).function(&self.function)?;
        exit::result(abi::encode_call(&function, Arguments(&self.arguments))?);
        Ok(())
    }
}

impl Call {
    pub fn run(&self) -> anyhow::Result<()> {
        let client = self.node.rpc.client();
        let known = Known::new(&self.node, &client, self.to)?;
        let function = known.function(&self.function)?;
        let input = abi::encode_call(&function, Arguments(&self.arguments))?;
        let call = corniche_client::Call { from: self.from, to: Some(self.to), value: U256::ZERO, input };
        let output =
            client.call(&call).map_err(|error| errors::explain_by(error, &|data| known.interface().revert_reason(data)))?;
        if output.is_empty() && !function.outputs.is_empty() && client.code(self.to)?.is_empty() {
            bail!("there is no contract at {}", self.to);
        }
        let values = abi::decode_output(&function, &output)?;
        match self.node.json {
            true => exit::result(Value::from(values)),
            false => values.iter().for_each(|value| exit::result(abi::plain(value))),
        }
        Ok(())
    }
}

impl Send {
    pub fn run(&self) -> anyhow::Result<()> {
        let client = self.node.rpc.client();
        let known = Known::new(&self.node, &client, self.to)?;
        let input = match &self.function {
            Some(function) => abi::encode_call(&known.function(function)?, Arguments(&self.arguments))?,
            None => Bytes::new(),
        };
        let draft = Draft { value: self.value, ..Draft::call(self.to, input) };
        let key = self.paying.key(&client)?;
        let receipt = self.paying.submit(&client, &key, |data| known.interface().revert_reason(data), draft)?;
        exit::result(match self.node.json {
            true => format!("{:#}", paying::receipt_json(&receipt)),
            false => receipt.transaction_hash.to_string(),
        });
        Ok(())
    }
}
