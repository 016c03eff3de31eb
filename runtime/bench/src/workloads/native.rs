//! Transfers of the native currency: the execution engine itself, without contracts.

use super::{Draft, Generator, Sizes};
use crate::{chain::Chain, random::Keys};
use alloy_primitives::TxKind;
use corniche_types::Bytes;

pub fn uniform(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    let addresses = chain.accounts.addresses().to_vec();
    let keys = Keys::uniform(addresses.len() as u64);
    Ok(Box::new(move |random, _| {
        let (from, to) = keys.draw_two(random);
        Draft {
            sender: from as usize,
            to: TxKind::Call(addresses[to as usize]),
            value: 1,
            input: Bytes::new(),
            gas_limit: 21_000,
        }
    }))
}
