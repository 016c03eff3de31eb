//! Smallbank with the parameters of Basil's evaluation: a million customers, of which a thousand get 90 % of
//! the accesses; 60 % balance, 10 % each of the four writes. A balance query is a transaction here, not a
//! call outside the block. Savings accounts only receive deposits, so nothing reverts.

use super::{Generator, Sizes, call};
use crate::{
    chain::Chain,
    random::Random,
    solidity::{self, Value, slot_of},
};
use anyhow::ensure;
use corniche_types::U256;

const SAVINGS: u64 = 0;
const CHECKING: u64 = 1;

pub fn mix(chain: &mut Chain<'_>, sizes: &Sizes) -> anyhow::Result<Generator> {
    let (customers, hot) = (sizes.smallbank_customers, sizes.smallbank_hot);
    ensure!(0 < hot && hot < customers, "--smallbank-hot is above 0 and below --smallbank-customers");
    let bank = chain.deploy("bench_smallbank", None)?;
    let slots = (0..customers).flat_map(|customer| [SAVINGS, CHECKING].map(|table| slot_of(table, U256::from(customer))));
    chain.fill(bank, slots.map(|slot| (slot, U256::from(1_000_000_000_000u64))));
    let customer = move |random: &mut Random| match random.percent(90) {
        true => random.below(hot),
        false => random.between(hot, customers - 1),
    };
    Ok(Box::new(move |random, sender| {
        let who = customer(random);
        let amount = U256::from(random.between(1, 100));
        let with_amount = |signature: &str, amount: U256| solidity::call(signature, &[who.into(), amount.into()]);
        let input = match random.below(10) {
            0..6 => solidity::call("balance(uint256)", &[who.into()]),
            6 => with_amount("depositChecking(uint256,int256)", amount),
            7 => with_amount("transactSavings(uint256,int256)", amount),
            8 => with_amount("writeCheck(uint256,int256)", amount),
            _ => {
                let other: Value = customer(random).into();
                solidity::call("amalgamate(uint256,uint256)", &[who.into(), other])
            }
        };
        call(sender, bank, input)
    }))
}
