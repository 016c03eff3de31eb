//! Sends one wei, waits until the transaction is final, and prints the recipient's balance. Trusts only the genesis:
//! `verify GENESIS.json ACCOUNT`.
//!
//! `CORNICHE_KEY` is the sender's private key as hex digits. `CORNICHE_RPC` is the URL of a node, by default
//! `http://127.0.0.1:8545`.

use corniche_client::{Client, Draft, Wait};
use corniche_crypto::{EthereumKey, LightClient};
use corniche_types::{Address, Genesis, U256};
use std::{env, error::Error};

#[allow(clippy::print_stdout)] // its result
fn main() -> Result<(), Box<dyn Error>> {
    let [genesis, account] = env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "verify GENESIS.json ACCOUNT")?;
    let account: Address = account.parse()?;
    let key = EthereumKey::from_hex(&env::var("CORNICHE_KEY")?)?;
    let client = Client::new(env::var("CORNICHE_RPC").unwrap_or("http://127.0.0.1:8545".into()));

    // The committee, with proofs of possession. It is checked once and used for every certificate.
    let genesis = Genesis::from_json(&std::fs::read_to_string(genesis)?)?;
    let mut light = LightClient::from_genesis(&genesis)?;

    let hash = client.send(&key, &Draft::transfer(account, U256::ONE))?;
    let (block, certificate) = client.wait_final(hash, &mut light, Wait::default())?;
    let members = light.committees().of(certificate.epoch).map_or(0, |committee| committee.keys().len());
    let signers = certificate.signers.signers(members).ok_or("another committee's bitmap")?;
    println!("{hash} is final in block {block}: {} of {members} validators signed", signers.len());

    let (proven, header) = client.prove_account(account, &[], &mut light)?;
    println!("{account} has {} wei in block {}, state {}", proven.balance, header.number, header.state_root);
    Ok(())
}
