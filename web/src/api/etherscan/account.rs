//! Balances of accounts.

use super::{Answer, Parameters, Refusal};
use crate::{
    database::{Read, sql},
    site::Site,
};
use alloy_primitives::{Address, U256};
use corniche_client::Request;
use serde_json::json;

/// Most accounts of one request.
const MOST: usize = 20;

/// Returns the balance of one account in wei.
pub async fn balance(site: &Site, parameters: &Parameters) -> Answer {
    let address = parameters.address("address")?;
    let balances = ask(site, parameters, &[address]).await?;
    Ok(json!(balances.first().map(U256::to_string)))
}

/// Returns the balances of several accounts in wei. Addresses are repeated as the request spelled them.
pub async fn balances(site: &Site, parameters: &Parameters) -> Answer {
    let named: Vec<_> = parameters.get("address").unwrap_or_default().split(',').map(str::trim).collect();
    if named.len() > MOST {
        return Err(Refusal::no(format!("Error! At most {MOST} addresses")));
    }
    let addresses: Result<Vec<Address>, _> = named.iter().map(|address| address.parse()).collect();
    let addresses = addresses.map_err(|_| Refusal::no("Error! Invalid address format"))?;
    let balances = ask(site, parameters, &addresses).await?;
    let row = |(account, balance): (&str, &U256)| json!({"account": account, "balance": balance.to_string()});
    Ok(named.into_iter().zip(&balances).map(row).collect())
}

async fn ask(site: &Site, parameters: &Parameters, addresses: &[Address]) -> Result<Vec<U256>, Refusal> {
    if parameters.get("tag").is_some_and(|tag| tag != "latest") {
        return Err(Refusal::no("Error! tag: only latest is supported"));
    }
    let request = |address: &Address| Request { method: "eth_getBalance", params: json!([address, "latest"]) };
    let away = |_| Refusal::no("Error! The node does not answer");
    let balances = site.node.ask_all(addresses.iter().map(request).collect()).await.map_err(away)?;
    balances.into_iter().collect::<Result<_, _>>().map_err(|_| Refusal::no("Error! The node does not answer"))
}

/// Returns the balance of a token; for a token with ids, the total of all ids.
pub async fn token_balance(site: &Site, parameters: &Parameters) -> Answer {
    let (holder, token) = (parameters.address("address")?, parameters.address("contractaddress")?);
    let text = "SELECT amount FROM balances WHERE token = $1 AND holder = $2 AND token_id = $3";
    let row = sql(text).bind(token.to_vec()).bind(holder.to_vec()).bind(Vec::new());
    let row = row.fetch_optional(site.database.readers()).await?;
    let amount = row.map(|row| row.amount("amount")).transpose()?.unwrap_or_default();
    Ok(json!(amount.to_string()))
}
