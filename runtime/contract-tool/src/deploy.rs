//! `corniche contract deploy` and `pack`.

use super::{
    abi::{Arguments, Interface},
    module,
    options::Node,
    paying::{self, Paying},
};
use alloy_dyn_abi::{DynSolValue, JsonAbiExt};
use alloy_json_abi::{Error, Function, JsonAbi};
use anyhow::{Context, ensure};
use corniche_client::{Draft, Receipt};
use corniche_console::exit;
use corniche_harness::creation;
use corniche_types::{Address, B256, Bytes, U256, keccak256};
use corniche_vm::wasm::CONSTRUCTOR_SELECTOR;
use std::path::{Path, PathBuf};

/// Contract in every genesis that creates contracts at addresses derived from a salt.
const DEPLOYER: Address = alloy_primitives::address!("cEcba2F1DC234f70Dd89F2041029807F8D03A990");

#[derive(clap::Args, Debug)]
pub struct Deploy {
    /// Module file, or folder of a contract, which is built as by `corniche contract build`
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Constructor arguments
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Constructor signature, for instance 'constructor(string,uint256)', for a module without an ABI
    #[arg(long, value_name = "SIGNATURE")]
    constructor: Option<String>,
    /// Deploy without running the constructor that the ABI declares
    #[arg(long, conflicts_with_all = ["constructor", "arguments"])]
    no_constructor: bool,
    /// Salt, a number or 32 bytes, for an address that depends only on it, the code and the arguments (CREATE2): equal on every chain
    #[arg(long, value_name = "SALT", value_parser = salt)]
    salt: Option<B256>,
    /// Send the code uncompressed, which costs more gas
    #[arg(long, conflicts_with = "salt")]
    raw: bool,
    /// URL of an explorer, to print the link to the contract's page
    #[arg(long, value_name = "URL", env = "CORNICHE_EXPLORER")]
    explorer: Option<String>,
    /// Amount to send with the transaction: in wei, or with a unit, for instance 1.5ether or 20gwei
    #[arg(long, value_name = "AMOUNT", default_value = "0", value_parser = paying::wei)]
    value: U256,
    #[command(flatten)]
    paying: Paying,
    #[command(flatten)]
    node: Node,
}

#[derive(clap::Args, Debug)]
pub struct Pack {
    /// Module file, or folder of a contract, which is built as by `corniche contract build`
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Constructor arguments
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Constructor signature, for instance 'constructor(string,uint256)', for a module without an ABI
    #[arg(long, value_name = "SIGNATURE")]
    constructor: Option<String>,
    /// File with the ABI as JSON, for a module without an ABI
    #[arg(long, value_name = "FILE")]
    abi: Option<PathBuf>,
}

impl Deploy {
    pub fn run(&self) -> anyhow::Result<()> {
        let client = self.node.rpc.client();
        let wasm = module::at(&self.path)?;
        let abi = interface(&wasm, self.node.abi.as_deref())?;
        let encoded = match self.no_constructor {
            true => None,
            false => abi.constructor_arguments(self.constructor.as_deref(), Arguments(&self.arguments))?,
        };
        let ran = encoded.is_some();
        let draft = match self.salt {
            Some(salt) => Draft::call(DEPLOYER, self.through_deployer(&wasm, encoded, salt)?),
            None => Draft::create(match encoded {
                Some(encoded) => creation::with_arguments(&wasm, &encoded)?,
                None if self.raw => wasm.clone(),
                None => creation::compressed(&wasm)?,
            }),
        };
        let draft = Draft { value: self.value, ..draft };
        let explaining = Interface(with_deployers_errors(abi.0.clone()));
        let key = self.paying.key(&client)?;
        let receipt = self.paying.submit(&client, &key, |data| explaining.revert_reason(data), draft)?;
        let address = created(&receipt).context("the receipt names no new contract")?;
        if !ran && abi.constructor(self.constructor.as_deref())?.is_some() {
            exit::note(
                "the constructor that its ABI declares was not run: whoever calls it first decides what the contract begins with",
            );
        }
        if let Some(explorer) = &self.explorer {
            exit::note(format_args!("{}/address/{address}", explorer.trim_end_matches('/')));
        }
        exit::result(match self.node.json {
            true => {
                let mut told = paying::receipt_json(&receipt);
                told["contractAddress"] = serde_json::json!(address);
                told["constructorRan"] = ran.into();
                format!("{told:#}")
            }
            false => address.to_checksum(None),
        });
        Ok(())
    }

    /// deploy(bytes,bytes,uint256,bytes32): creates the contract, calls its constructor with the value, and
    /// logs the address.
    fn through_deployer(&self, wasm: &[u8], arguments: Option<Vec<u8>>, salt: B256) -> anyhow::Result<Vec<u8>> {
        let constructor = match arguments {
            // Without arguments it is already the selector.
            Some(arguments) if arguments == CONSTRUCTOR_SELECTOR => arguments,
            Some(arguments) => [&CONSTRUCTOR_SELECTOR[..], &arguments].concat(),
            None => Vec::new(),
        };
        ensure!(!constructor.is_empty() || self.value.is_zero(), "--value goes to the constructor, and none is run");
        let deploy = Function::parse("deploy(bytes,bytes,uint256,bytes32)")?;
        let code = creation::compressed(wasm)?;
        Ok(deploy.abi_encode_input(&[
            DynSolValue::Bytes(code),
            DynSolValue::Bytes(constructor),
            DynSolValue::Uint(self.value, 256),
            DynSolValue::FixedBytes(salt, 32),
        ])?)
    }
}

impl Pack {
    pub fn run(&self) -> anyhow::Result<()> {
        let wasm = module::at(&self.path)?;
        let abi = interface(&wasm, self.abi.as_deref())?;
        let arguments = Arguments(&self.arguments);
        let encoded = match arguments.0.is_empty() && abi.takes_arguments(self.constructor.as_deref())? {
            true => Vec::new(),
            false => abi.constructor_arguments(self.constructor.as_deref(), arguments)?.unwrap_or_default(),
        };
        exit::result(Bytes::from(creation::with_arguments(&wasm, &encoded)?));
        Ok(())
    }
}

/// Interface from the file, or else the one embedded in the module.
fn interface(wasm: &[u8], file: Option<&Path>) -> anyhow::Result<Interface> {
    match file {
        Some(path) => Interface::open(path),
        None => Ok(Interface(module::abi_of(wasm).unwrap_or_default())),
    }
}

fn with_deployers_errors(mut abi: JsonAbi) -> JsonAbi {
    for error in [
        "ContractInitializationError(address newContract, bytes reason)",
        "ContractDeploymentError(bytes code)",
        "RefundExcessValueError(uint256 excess)",
    ] {
        let error = Error::parse(error).expect("the signatures above are well-formed");
        abi.errors.entry(error.name.clone()).or_default().push(error);
    }
    abi
}

/// Address of a created contract: from the receipt, or from the deployer's log ContractDeployed(address).
fn created(receipt: &Receipt) -> Option<Address> {
    let deployed = keccak256("ContractDeployed(address)");
    let log = receipt.logs().iter().find(|log| log.address() == DEPLOYER && log.topic0() == Some(&deployed));
    let logged = || B256::try_from(log?.data().data.as_ref()).ok().map(Address::from_word);
    receipt.contract_address.or_else(logged)
}

/// Parses a number, or 32 bytes as hexadecimal.
fn salt(text: &str) -> Result<B256, String> {
    let salt = text.parse::<U256>().map_err(|_| format!("{text} is neither a number nor 32 bytes as hexadecimal"))?;
    match salt.is_zero() {
        true => Err("a salt of 0 means none at all to the deployer; take another".into()),
        false => Ok(salt.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salt_is_number_or_bytes() {
        assert_eq!(salt("7").unwrap(), B256::with_last_byte(7));
        let bytes = B256::repeat_byte(0xab);
        assert_eq!(salt(&bytes.to_string()).unwrap(), bytes);
        for bad in ["", "0", "0x0", "pepper", "-1"] {
            assert!(salt(bad).is_err(), "{bad}");
        }
    }
}
