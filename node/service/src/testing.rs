//! Helpers shared by the tests of this folder.

use crate::{NetworkSpec, make_network};
use alloy_consensus::TxEip1559;
use alloy_primitives::TxKind;
use corniche_console::dev_accounts::dev_accounts;
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Committee;
use corniche_types::{Address, EngineConfig, Genesis, TimestampMs, U256};

const CHAIN: u64 = 7;

/// Equal for every call.
pub fn genesis() -> Genesis {
    let spec = NetworkSpec { validators: 1, timestamp_ms: TimestampMs(1), seed: [1; 32], ..spec() };
    make_network(&spec).unwrap().genesis
}

pub fn committee() -> Committee {
    Committee::from_genesis(&genesis())
}

/// Network of an engine that does nothing.
pub fn spec() -> NetworkSpec {
    NetworkSpec::new(EngineConfig { name: "none".into(), parameters: Default::default() })
}

/// Transfer of this amount by the first development account.
pub fn transfer(nonce: u64, wei: u64) -> VerifiedTransaction {
    signed(nonce, wei, Vec::new())
}

/// Transfer with input of this length.
pub fn long_transfer(nonce: u64, input: usize) -> VerifiedTransaction {
    signed(nonce, 1, vec![0; input])
}

fn signed(nonce: u64, wei: u64, input: Vec<u8>) -> VerifiedTransaction {
    let raw = dev_accounts()[0].key.sign(TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 1,
        max_priority_fee_per_gas: 0,
        to: TxKind::Call(Address::ZERO),
        value: U256::from(wei),
        access_list: Default::default(),
        input: input.into(),
    });
    corniche_admission::check(raw, CHAIN).unwrap()
}
