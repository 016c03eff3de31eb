//! `corniche contract`: checking, deploying, calling and sending to contracts from the command line.

mod abi;
mod check;

use crate::exit::{self, Exit, Failed};
use abi::Arguments;
use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use corniche_client::{Call, Client, ClientError, Draft, Receipt, Wait};
use corniche_crypto::EthereumKey;
use corniche_harness::creation;
use corniche_types::{Address, Bytes, U256};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Deploy and use contracts
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Say whether a module would deploy and what it costs, or what is wrong with it and what to do; needs no node
    Check(check::Check),
    /// Deploy a contract from plain `cargo build` output and print its address
    Deploy(Deploy),
    /// Ask a contract something, without a transaction; prints one returned value a line
    ///
    /// Example: corniche contract call 0x5FbD… 'balanceOf(address)(uint256)' 0xf39F…
    Call(CallArgs),
    /// Send a transaction to a contract or an account, wait for its receipt and print its hash
    ///
    /// Example: corniche contract send 0x5FbD… 'transfer(address,uint256)' 0xf39F… 1000
    Send(Send),
    /// Print the creation data of a contract as hexadecimal, for wallets and other tools
    ///
    /// Without ARGs it is what those tools call bytecode: they append the ABI-encoded constructor arguments themselves.
    Pack(Pack),
}

#[derive(clap::Args, Debug)]
struct Pack {
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// Constructor arguments
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// The constructor's signature, for instance 'constructor(string,uint256)'; not needed with --abi
    #[arg(long, value_name = "SIGNATURE")]
    constructor: Option<String>,
    /// The contract's ABI as JSON
    #[arg(long, value_name = "FILE")]
    abi: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct Deploy {
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// Constructor arguments
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// The constructor's signature, for instance 'constructor(string,uint256)'; not needed with --abi
    #[arg(long, value_name = "SIGNATURE")]
    constructor: Option<String>,
    /// Send the code compressed: smaller and cheaper, unpacked by every node
    #[arg(long)]
    compress: bool,
    #[command(flatten)]
    paying: Paying,
    #[command(flatten)]
    node: Node,
}

#[derive(clap::Args, Debug)]
struct CallArgs {
    #[arg(value_name = "ADDRESS")]
    to: Address,
    /// 'name(types)(returned types)', or a name of --abi
    #[arg(value_name = "FUNCTION")]
    function: String,
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Account that the contract sees as its caller
    #[arg(long, value_name = "ADDRESS")]
    from: Option<Address>,
    #[command(flatten)]
    node: Node,
}

#[derive(clap::Args, Debug)]
struct Send {
    #[arg(value_name = "ADDRESS")]
    to: Address,
    /// 'name(types)', or a name of --abi; without it the transaction only moves --value
    #[arg(value_name = "FUNCTION")]
    function: Option<String>,
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    #[command(flatten)]
    paying: Paying,
    #[command(flatten)]
    node: Node,
}

/// Which node, and how to answer.
#[derive(clap::Args, Debug)]
struct Node {
    /// JSON-RPC URL of a node
    #[arg(long, value_name = "URL", env = "CORNICHE_RPC", default_value = "http://127.0.0.1:8545")]
    rpc: String,
    /// The contract's ABI as JSON: names functions, the constructor and errors
    #[arg(long, value_name = "FILE")]
    abi: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Who pays, and how much at most.
#[derive(clap::Args, Debug)]
struct Paying {
    /// Private key of the sender as hexadecimal; other users of this machine can see it, prefer the environment or a file
    #[arg(long, value_name = "HEX", env = "CORNICHE_KEY", hide_env_values = true)]
    key: Option<String>,
    /// File that holds the private key, mode 0600, for instance keys/fee.key
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    key_file: Option<PathBuf>,
    /// Amount to send along: wei, or with a unit like 1.5ether or 20gwei
    #[arg(long, value_name = "AMOUNT", default_value = "0", value_parser = amount)]
    value: U256,
    /// Most gas to use; estimated when absent
    #[arg(long, value_name = "GAS")]
    gas: Option<u64>,
    /// Nonce; the account's next one when absent
    #[arg(long, value_name = "N")]
    nonce: Option<u64>,
    /// Seconds to wait for the receipt
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// Runs `corniche contract`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Check(check) => check.run(),
        Command::Deploy(deploy) => deploy.run(),
        Command::Call(call) => call.run(),
        Command::Send(send) => send.run(),
        Command::Pack(pack) => pack.run(),
    }
}

/// Reads a module and says early what nodes would refuse anyway.
fn read_wasm(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let help = "build it with `cargo build --release --target wasm32-unknown-unknown`";
    ensure!(bytes.starts_with(b"\0asm"), "{} is not a WebAssembly module; {help}", path.display());
    Ok(bytes)
}

impl Deploy {
    fn run(&self) -> anyhow::Result<()> {
        let abi = abi::Interface::open(self.node.abi.as_deref())?;
        let wasm = read_wasm(&self.file)?;
        let encoded = abi.constructor_arguments(self.constructor.as_deref(), Arguments(&self.arguments))?;
        let data = match encoded {
            Some(encoded) => creation::with_arguments(&wasm, &encoded)?,
            None if self.compress => creation::compressed(&wasm)?,
            None => wasm,
        };
        let receipt = self.paying.submit(&self.node, &abi, Draft::create(data))?;
        let address = receipt.contract_address.context("the receipt of a creation names no contract")?;
        exit::result(match self.node.json {
            true => format!("{:#}", receipt_json(&receipt)),
            false => address.to_checksum(None),
        });
        Ok(())
    }
}

impl Pack {
    fn run(&self) -> anyhow::Result<()> {
        let wasm = read_wasm(&self.file)?;
        let abi = abi::Interface::open(self.abi.as_deref())?;
        let arguments = Arguments(&self.arguments);
        let encoded = match arguments.0.is_empty() && abi.takes_arguments(self.constructor.as_deref())? {
            true => Vec::new(),
            false => abi.constructor_arguments(self.constructor.as_deref(), arguments)?.unwrap_or_default(),
        };
        exit::result(Bytes::from(creation::with_arguments(&wasm, &encoded)?));
        Ok(())
    }
}

impl CallArgs {
    fn run(&self) -> anyhow::Result<()> {
        let abi = abi::Interface::open(self.node.abi.as_deref())?;
        let function = abi.function(&self.function)?;
        let input = abi::encode_call(&function, Arguments(&self.arguments))?;
        let call = Call { from: self.from, to: Some(self.to), value: U256::ZERO, input };
        let client = Client::new(&self.node.rpc);
        let output = client.call(&call).map_err(|error| explain(error, &abi))?;
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
    fn run(&self) -> anyhow::Result<()> {
        let abi = abi::Interface::open(self.node.abi.as_deref())?;
        let input = match &self.function {
            Some(function) => abi::encode_call(&abi.function(function)?, Arguments(&self.arguments))?,
            None => Bytes::new(),
        };
        let receipt = self.paying.submit(&self.node, &abi, Draft::call(self.to, input))?;
        exit::result(match self.node.json {
            true => format!("{:#}", receipt_json(&receipt)),
            false => receipt.transaction_hash.to_string(),
        });
        Ok(())
    }
}

impl Paying {
    /// Signs, submits and waits; a reverted transaction is an error with its reason as far as it can be had.
    fn submit(&self, node: &Node, abi: &abi::Interface, draft: Draft) -> anyhow::Result<Receipt> {
        let key = self.key()?;
        let client = Client::new(&node.rpc);
        let draft = Draft { value: self.value, gas_limit: self.gas, nonce: self.nonce, ..draft };
        let hash = client.send(&key, &draft).map_err(|error| explain(error, abi))?;
        exit::note(format_args!("sent {hash}"));
        let receipt =
            client.wait(hash, Wait::at_most(Duration::from_secs(self.timeout))).map_err(|error| explain(error, abi))?;
        if !receipt.status() {
            return Err(self.reverted(&client, &receipt, &key, &draft, abi));
        }
        Ok(receipt)
    }

    /// Receipts carry no reason, so the call is asked again; the state has moved on, so this is a hint and not a proof.
    fn reverted(
        &self,
        client: &Client,
        receipt: &Receipt,
        key: &EthereumKey,
        draft: &Draft,
        abi: &abi::Interface,
    ) -> anyhow::Error {
        let to = draft.to.to().copied();
        let call = Call { from: Some(key.address()), to, value: draft.value, input: draft.input.clone() };
        let reason = match client.call(&call) {
            Err(error) => format!("{:#}", explain(error, abi)),
            Ok(_) => "it would succeed now; perhaps it ran out of gas".to_owned(),
        };
        let message = format!("transaction {} failed, using {} gas: {reason}", receipt.transaction_hash, receipt.gas_used);
        Failed::new(Exit::Reverted, message).into()
    }

    fn key(&self) -> anyhow::Result<EthereumKey> {
        match (&self.key, &self.key_file) {
            (Some(text), _) => EthereumKey::from_hex(text).context("--key or CORNICHE_KEY is not a private key"),
            (None, Some(path)) => crate::keys::read_secret(path, EthereumKey::from_hex),
            (None, None) => bail!("who signs? give --key-file, --key or CORNICHE_KEY"),
        }
    }
}

/// Gives each kind of failure its exit code and reverts their reason.
fn explain(error: ClientError, abi: &abi::Interface) -> anyhow::Error {
    let exit = match &error {
        ClientError::Unreachable { .. } => Exit::Unreachable,
        ClientError::Refused { .. } => Exit::Refused,
        ClientError::Reverted { .. } => Exit::Reverted,
        ClientError::Deadline { .. } => Exit::Deadline,
        ClientError::Nonsense { .. } | ClientError::Unproven { .. } | ClientError::Unsignable(_) => Exit::Failure,
    };
    let message = match &error {
        ClientError::Reverted { message, data } => match abi.revert_reason(data) {
            Some(reason) if !message.contains(&reason) => format!("{message}: {reason}"),
            _ => message.clone(),
        },
        _ => error.to_string(),
    };
    Failed::new(exit, message).into()
}

fn receipt_json(receipt: &Receipt) -> Value {
    json!({
        "transactionHash": receipt.transaction_hash,
        "blockNumber": receipt.block_number,
        "blockHash": receipt.block_hash,
        "gasUsed": receipt.gas_used,
        "contractAddress": receipt.contract_address,
        "logs": receipt.logs().len(),
    })
}

/// An amount in wei, or with one of the units people use.
fn amount(text: &str) -> Result<U256, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => "wei",
        unit => unit,
    };
    if digits.is_empty() || digits.starts_with('-') {
        return Err(format!("{text} is not an amount"));
    }
    let parsed = alloy_primitives::utils::parse_units(digits, unit).map_err(|error| error.to_string())?;
    Ok(parsed.get_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_wei_or_name_their_unit() {
        assert_eq!(amount("1000"), Ok(U256::from(1000)));
        assert_eq!(amount("1.5gwei"), Ok(U256::from(1_500_000_000)));
        assert_eq!(amount("2ether"), Ok(U256::from(2_000_000_000_000_000_000u64)));
        for bad in ["", "ether", "-1", "1 ether", "1parsec", "0x10"] {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }
}
