//! Transfers of the native currency: the execution engine itself, without contracts.

use super::{Draft, Generator, Sizes};
use crate::{chain::Chain, random::Keys};
use alloy_primitives::{Address, TxKind};
use corniche_types::Bytes;

pub fn uniform(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    let addresses = chain.accounts.addresses().to_vec();
    let keys = Keys::uniform(addresses.len() as u64);
    Ok(Box::new(move |random, _| {
        let (from, to) = keys.draw_two(random);
        payment(from as usize, addresses[to as usize])
    }))
}

pub fn one_recipient(chain: &mut Chain<'_>, _: &Sizes) -> anyhow::Result<Generator> {
    let recipient = chain.accounts.addresses()[0];
    let senders = chain.accounts.addresses().len().saturating_sub(1);
    anyhow::ensure!(senders > 0, "--accounts is at least 2");
    Ok(Box::new(move |_, turn| payment(1 + turn % senders, recipient)))
}

fn payment(sender: usize, to: Address) -> Draft {
    Draft { sender, to: TxKind::Call(to), value: 1, input: Bytes::new(), gas_limit: 21_000 }
}
