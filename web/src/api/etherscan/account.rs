//! Balances of accounts.

use super::{Answer, EtherscanError, Parameters};
use crate::{
    app_state::AppState,
    database::{Read, sql},
};
use alloy_primitives::{Address, U256};
use corniche_client::Request;
use serde_json::json;

/// Maximum number of accounts of one request.
const MAX_ADDRESSES: usize = 20;

/// Returns the balance of one account in wei.
pub async fn balance(app: &AppState, parameters: &Parameters) -> Answer {
    let address = parameters.address("address")?;
    let balances = ask(app, parameters, &[address]).await?;
    Ok(json!(balances.first().map(U256::to_string)))
}

/// Returns the balances of several accounts in wei. Addresses are repeated as the request spelled them.
pub async fn balances(app: &AppState, parameters: &Parameters) -> Answer {
    let named: Vec<_> = parameters.get("address").unwrap_or_default().split(',').map(str::trim).collect();
    if named.len() > MAX_ADDRESSES {
        return Err(EtherscanError::rejected(format!("Error! At most {MAX_ADDRESSES} addresses")));
    }
    let addresses: Result<Vec<Address>, _> = named.iter().map(|address| address.parse()).collect();
    let addresses = addresses.map_err(|_| EtherscanError::rejected("Error! Invalid address format"))?;
    let balances = ask(app, parameters, &addresses).await?;
    let row = |(account, balance): (&str, &U256)| json!({"account": account, "balance": balance.to_string()});
    Ok(named.into_iter().zip(&balances).map(row).collect())
}

async fn ask(app: &AppState, parameters: &Parameters, addresses: &[Address]) -> Result<Vec<U256>, EtherscanError> {
    if parameters.get("tag").is_some_and(|tag| tag != "latest") {
        return Err(EtherscanError::rejected("Error! tag: only latest is supported"));
    }
    let request = |address: &Address| Request { method: "eth_getBalance", params: json!([address, "latest"]) };
    let away = |_| EtherscanError::rejected("Error! The node does not answer");
    let balances = app.node.ask_all(addresses.iter().map(request).collect()).await.map_err(away)?;
    balances.into_iter().collect::<Result<_, _>>().map_err(|_| EtherscanError::rejected("Error! The node does not answer"))
}

/// Returns the balance of a token; for a token with ids, the total of all ids.
pub async fn token_balance(app: &AppState, parameters: &Parameters) -> Answer {
    let (holder, token) = (parameters.address("address")?, parameters.address("contractaddress")?);
    let text = "SELECT amount FROM balances WHERE token = $1 AND holder = $2 AND token_id = $3";
    let row = sql(text).bind(token.to_vec()).bind(holder.to_vec()).bind(Vec::new());
    let row = row.fetch_optional(app.database.readers()).await?;
    let amount = row.map(|row| row.amount("amount")).transpose()?.unwrap_or_default();
    Ok(json!(amount.to_string()))
}
