//! Deploys the counter of `contracts/counter`, changes it, reads it, and triggers its error: `deploy COUNTER.wasm`.
//!
//! `CORNICHE_KEY` is the sender's private key as hex digits. `CORNICHE_RPC` is the URL of a node, by default
//! `http://127.0.0.1:8545`.

use alloy_sol_types::{SolCall, SolError, sol};
use corniche_client::{Call, Client, ClientError, Draft, Receipt, Wait};
use corniche_crypto::EthereumKey;
use corniche_types::{Address, U256};
use std::{env, error::Error};

sol! {
    function number() view returns (uint256);
    function increment();
    function add(uint256 added);
    error CounterOverflow(uint256 number, uint256 added);
}

#[allow(clippy::print_stdout)] // its result
fn main() -> Result<(), Box<dyn Error>> {
    let module = std::fs::read(env::args().nth(1).ok_or("deploy COUNTER.wasm")?)?;
    let key = EthereumKey::from_hex(&env::var("CORNICHE_KEY")?)?;
    let client = Client::new(env::var("CORNICHE_RPC").unwrap_or("http://127.0.0.1:8545".into()));

    // The input of a creation is the module as the compiler wrote it.
    let receipt = sent(&client, &key, &Draft::create(module))?;
    let counter = receipt.contract_address.ok_or("no contract was created")?;
    println!("the counter is at {counter}");

    sent(&client, &key, &Draft::call(counter, addCall { added: U256::from(41) }.abi_encode()))?;
    sent(&client, &key, &Draft::call(counter, incrementCall {}.abi_encode()))?;
    println!("its number is {}", number(&client, counter)?);

    // A revert of the contract is a different error than a rejection by the node.
    let too_much = addCall { added: U256::MAX }.abi_encode();
    match client.call(&Call { to: Some(counter), input: too_much.into(), ..Call::default() }) {
        Err(ClientError::Reverted { data, .. }) => {
            let refusal = CounterOverflow::abi_decode(&data)?;
            println!("it does not go beyond its type: {} and {} is too much", refusal.number, refusal.added);
        }
        other => return Err(format!("not a revert: {other:?}").into()),
    }
    Ok(())
}

fn number(client: &Client, counter: Address) -> Result<U256, Box<dyn Error>> {
    let call = Call { to: Some(counter), input: numberCall {}.abi_encode().into(), ..Call::default() };
    Ok(numberCall::abi_decode_returns(&client.call(&call)?)?)
}

/// Sends a transaction and returns its receipt. Fails if it reverted.
fn sent(client: &Client, key: &EthereumKey, draft: &Draft) -> Result<Receipt, Box<dyn Error>> {
    let receipt = client.wait(client.send(key, draft)?, Wait::default())?;
    if receipt.status() { Ok(receipt) } else { Err(format!("{} was executed and failed", receipt.transaction_hash).into()) }
}
