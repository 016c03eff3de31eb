//! Every transaction increments one counter, `contracts/counter`: nothing can run at the same time as anything else.

use super::{Generator, Sizes, call};
use crate::bench::{chain::Chain, solidity};

pub fn one_slot(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    let counter = chain.deploy("counter", None)?;
    Ok(Box::new(move |_, sender| call(sender, counter, solidity::call("increment()", &[]))))
}
