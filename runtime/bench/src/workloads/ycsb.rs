//! YCSB-T as in Basil's evaluation (RW-U, RW-Z): two keys, each read and then written, uniform or by Zipf
//! 0.9. Difference: fewer keys by default (`--ycsb-keys`).

use super::{Generator, Sizes, call};
use crate::{
    chain::Chain,
    random::Keys,
    solidity::{self, Value, slot_of},
};
use anyhow::ensure;
use corniche_types::U256;

pub fn uniform(chain: &mut Chain<'_>, sizes: &Sizes) -> anyhow::Result<Generator> {
    transactions(chain, Keys::uniform(sizes.ycsb_keys), sizes)
}

pub fn zipf(chain: &mut Chain<'_>, sizes: &Sizes) -> anyhow::Result<Generator> {
    transactions(chain, Keys::zipf(sizes.ycsb_keys, 0.9), sizes)
}

fn transactions(chain: &mut Chain<'_>, keys: Keys, sizes: &Sizes) -> anyhow::Result<Generator> {
    ensure!(sizes.ycsb_keys > 0, "--ycsb-keys: expected at least 1, got 0");
    let table = chain.deploy("bench_ycsb", None)?;
    chain.fill(table, (0..sizes.ycsb_keys).map(|key| (slot_of(0, U256::from(key)), U256::from(key + 1))));
    Ok(Box::new(move |random, sender| {
        let (first, second) = keys.draw_two(random);
        let both = || Value::Array(vec![first.into(), second.into()]);
        let arguments = [both(), both(), random.between(1, 1 << 32).into()];
        call(sender, table, solidity::call("transact(uint256[],uint256[],uint256)", &arguments))
    }))
}
