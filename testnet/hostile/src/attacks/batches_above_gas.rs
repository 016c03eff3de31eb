//! Faulty proposers put far more declared gas into a batch than `batch_gas` allows: a full batch of transactions that declare half a
//! block each.
//!
//! Must hold: such a batch is refused or cut before it becomes thousands of blocks; honest transfers go through.

use super::{Attack, By};
use crate::{
    field::Field,
    insider::{self, Mischief},
};
use alloy_consensus::TxEip1559;
use corniche_admission::batch::{BATCH_OVERHEAD, ENTRY_OVERHEAD, encode};
use corniche_crypto::EthereumKey;
use corniche_types::{Bytes, Genesis, U256};

pub const ATTACK: Attack = Attack {
    name: "batches-above-gas",
    item: "B4",
    about: "validators propose batches that declare hundreds of times batch_gas",
    by: By::Validators,
    engine: None,
    restart: None,
    // One batch is a few thousand blocks already.
    few: 1,
    run: |field| Box::pin(run(field)),
};

async fn run(field: &Field) -> anyhow::Result<()> {
    let genesis = &field.victims.genesis;
    insider::run(field, |_| Ok(Box::new(Declared::new(genesis, genesis.block_gas_limit / 2)?))).await
}

/// Full batches of unfunded transactions that declare this much gas each. They are skipped when executed and cost the attacker nothing.
pub struct Declared {
    batches: Vec<Bytes>,
    next: usize,
}

impl Declared {
    pub fn new(genesis: &Genesis, gas: u64) -> anyhow::Result<Self> {
        let seed = corniche_crypto::digest(b"corniche-hostile/unfunded").0;
        let key = EthereumKey::from_bytes(&seed)?;
        let raw = |nonce: u64| {
            key.sign(TxEip1559 {
                chain_id: genesis.chain_id,
                nonce,
                gas_limit: gas,
                max_fee_per_gas: 1 << 40,
                max_priority_fee_per_gas: 1,
                to: key.address().into(),
                value: U256::from(1),
                ..Default::default()
            })
        };
        let entry = raw(u64::from(u32::MAX)).len() + ENTRY_OVERHEAD;
        let count = (genesis.batch_bytes as usize - BATCH_OVERHEAD) / entry;
        let transactions: Vec<_> = (0..count as u64).map(raw).collect();
        Ok(Self { batches: vec![encode(&transactions)?], next: 0 })
    }
}

impl Mischief for Declared {
    fn batch(&mut self) -> Option<Bytes> {
        self.next += 1;
        self.batches.get(self.next % self.batches.len()).cloned()
    }
}
