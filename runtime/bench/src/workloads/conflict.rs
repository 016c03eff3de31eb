//! Every transaction increments one counter, `contracts/counter`, so no two can run in parallel.

use super::{Generator, Sizes, call};
use crate::{chain::Chain, solidity};

pub fn one_slot(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    let counter = chain.deploy("counter", None)?;
    Ok(Box::new(move |_, sender| call(sender, counter, solidity::call("increment()", &[]))))
}
