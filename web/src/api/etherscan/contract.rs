//! ABIs and creators of contracts. Source code is never reported as verified.

use super::{Answer, EtherscanError, Parameters};
use crate::{
    abi::parse_abi,
    app_state::AppState,
    database::{Read, sql},
    texts,
};
use alloy_primitives::{Address, B256};
use serde_json::json;

/// Tools look for exactly this message.
const NOT_VERIFIED: &str = "Contract source code not verified";

/// Maximum number of contracts of one request.
const MAX_ADDRESSES: usize = 5;

async fn interface(app: &AppState, address: Address) -> Result<Option<String>, EtherscanError> {
    let row = sql("SELECT abi FROM contracts WHERE address = $1").bind(address.to_vec());
    let row = row.fetch_optional(app.database.readers()).await?;
    let abi = row.map(|row| row.text("abi")).transpose()?.filter(|abi| !abi.is_empty());
    // Compilers wrap an ABI in an object; tools expect the bare array.
    Ok(abi.and_then(|abi| parse_abi(&abi)).and_then(|abi| serde_json::to_string(&abi).ok()))
}

/// Returns the ABI.
pub async fn abi(app: &AppState, parameters: &Parameters) -> Answer {
    let abi = interface(app, parameters.address("address")?).await?;
    abi.map(|abi| json!(abi)).ok_or_else(|| EtherscanError::rejected(NOT_VERIFIED))
}

/// Returns the ABI. The field for source code is empty.
pub async fn source(app: &AppState, parameters: &Parameters) -> Answer {
    let abi = interface(app, parameters.address("address")?).await?;
    Ok(json!([{
        "SourceCode": "",
        "ABI": abi.unwrap_or_else(|| NOT_VERIFIED.to_owned()),
        "ContractName": "",
        "CompilerVersion": "",
        "OptimizationUsed": "0",
        "Runs": "0",
        "ConstructorArguments": "",
        "EVMVersion": "",
        "Library": "",
        "LicenseType": "",
        "Proxy": "0",
        "Implementation": "",
        "SwarmSource": "",
    }]))
}

/// Returns the creators of contracts. Genesis contracts have none.
pub async fn creation(app: &AppState, parameters: &Parameters) -> Answer {
    let named: Vec<_> = parameters.get("contractaddresses").unwrap_or_default().split(',').collect();
    if named.len() > MAX_ADDRESSES {
        return Err(EtherscanError::rejected(format!("Error! At most {MAX_ADDRESSES} addresses")));
    }
    let mut made = Vec::new();
    for address in named {
        let address: Address = address.trim().parse().map_err(|_| EtherscanError::rejected("Error! Invalid address format"))?;
        let text = "SELECT c.creator, t.hash FROM contracts c JOIN transactions t ON t.place = c.transaction_place WHERE c.address = $1";
        let row = sql(text).bind(address.to_vec()).fetch_optional(app.database.readers()).await?;
        let Some(row) = row else { continue };
        let (creator, hash): (Option<Address>, B256) = (row.maybe_address("creator")?, row.hash("hash")?);
        let creator = creator.map(|creator| format!("{creator:#x}"));
        made.push(json!({"contractAddress": format!("{address:#x}"), "contractCreator": creator, "txHash": hash}));
    }
    if made.is_empty() { Err(EtherscanError::rejected("No data found")) } else { Ok(made.into()) }
}

/// Rejects source code verification. The message names the command that compares source and code.
pub async fn verify(_: &AppState, parameters: &Parameters) -> Answer {
    let address =
        parameters.maybe_address("contractaddress")?.map_or_else(|| "ADDRESS".to_owned(), |address| address.to_string());
    Err(EtherscanError::rejected(format!(
        "This explorer does not verify source code. To compare a source with the code, run `{}` in the directory of the contract. getabi \
         needs no verification: it returns the ABI in the section corniche.abi of the module",
        texts::verify_command(address)
    )))
}

/// Status of a verification, which never exists.
pub async fn check(_: &AppState, _: &Parameters) -> Answer {
    Err(EtherscanError::rejected("Fail - Unable to verify"))
}
