//! Minting, `contracts/mint`: all mints raise one number, either by reading and writing it or by adding to it
//! without reading.

use super::{Generator, Sizes, call};
use crate::{chain::Chain, solidity};

pub fn plain(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    mints(chain, "mintPlain()")
}

pub fn commutative(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    mints(chain, "mint()")
}

fn mints(chain: &mut Chain<'_>, signature: &'static str) -> anyhow::Result<Generator> {
    let contract = chain.deploy("mint", Some(&solidity::encode(&[u64::MAX.into()])))?;
    Ok(Box::new(move |_, sender| call(sender, contract, solidity::call(signature, &[]))))
}
