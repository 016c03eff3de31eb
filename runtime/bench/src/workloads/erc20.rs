//! Token transfers, `contracts/erc20`. A popular sender's transfers also depend on each other through its
//! nonce.

use super::{Generator, Sizes, call};
use crate::{
    chain::Chain,
    random::Keys,
    solidity::{self, address_key, slot_of},
};
use corniche_types::U256;

/// Slot of the balances, after name, symbol, decimals and supply.
const BALANCES: u64 = 4;

pub fn uniform(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    let keys = Keys::uniform(chain.accounts.len() as u64);
    transfers(chain, keys)
}

pub fn zipf(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    let keys = Keys::zipf(chain.accounts.len() as u64, 0.9);
    transfers(chain, keys)
}

fn transfers(chain: &mut Chain<'_>, keys: Keys) -> anyhow::Result<Generator> {
    let addresses = chain.accounts.addresses().to_vec();
    let each = U256::from(1_000_000_000u64);
    let (name, symbol, supply) = (String::new(), String::new(), each * U256::from(addresses.len()));
    let token = chain.deploy("erc20", Some(&solidity::encode(&[name.into(), symbol.into(), supply.into()])))?;
    chain.fill(token, addresses.iter().map(|address| (slot_of(BALANCES, address_key(address)), each)));
    Ok(Box::new(move |random, _| {
        let (from, to) = keys.draw_two(random);
        let input = solidity::call("transfer(address,uint256)", &[addresses[to as usize].into(), 1u64.into()]);
        call(from as usize, token, input)
    }))
}
