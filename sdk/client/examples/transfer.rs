//! Sends wei to an account and waits for the receipt: `transfer ACCOUNT WEI`.
//!
//! `CORNICHE_KEY` is the sender's private key as hex digits. `CORNICHE_RPC` is the URL of a node, by default
//! `http://127.0.0.1:8545`.

use corniche_client::{Client, Draft, Wait};
use corniche_crypto::EthereumKey;
use corniche_types::{Address, U256};
use std::{env, error::Error};

#[allow(clippy::print_stdout)] // its result
fn main() -> Result<(), Box<dyn Error>> {
    let [to, wei] = env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "transfer ACCOUNT WEI")?;
    let (to, wei): (Address, U256) = (to.parse()?, wei.parse()?);
    // Not an argument, because all users of the machine can read arguments.
    let key = EthereumKey::from_hex(&env::var("CORNICHE_KEY")?)?;
    let client = Client::new(env::var("CORNICHE_RPC").unwrap_or("http://127.0.0.1:8545".into()));

    let before = client.balance(to)?;
    let hash = client.send(&key, &Draft::transfer(to, wei))?;
    let receipt = client.wait(hash, Wait::default())?;
    if !receipt.status() {
        return Err(format!("{hash} was executed and failed").into());
    }
    println!("{hash} in block {}", receipt.block_number.ok_or("no block")?);
    println!("{to} had {before} wei and has {}", client.balance(to)?);
    Ok(())
}
