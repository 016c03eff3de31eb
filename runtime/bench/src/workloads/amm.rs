//! Swaps in one constant-product pool, `contracts/bench/amm`, half in each direction: every transaction reads
//! and writes both reserves.

use super::{Generator, Sizes, call};
use crate::{
    chain::Chain,
    solidity::{self, address_key, slot_of},
};
use corniche_types::U256;

/// Slots of the two tokens' balances, after the reserves.
const BALANCES: [u64; 2] = [2, 3];

pub fn swaps(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    let reserve = U256::from(1_000_000_000_000_000u64);
    let pool = chain.deploy("bench_amm", Some(&solidity::encode(&[reserve.into(), reserve.into()])))?;
    let addresses = chain.accounts.addresses();
    let owners = addresses.iter().flat_map(|address| BALANCES.map(|token| slot_of(token, address_key(address))));
    chain.fill(pool, owners.map(|slot| (slot, U256::from(1_000_000_000u64))));
    Ok(Box::new(move |random, sender| {
        let (first_in, paid) = (random.percent(50), random.between(1, 10_000));
        call(sender, pool, solidity::call("swap(bool,uint256,uint256)", &[first_in.into(), paid.into(), 0u64.into()]))
    }))
}
