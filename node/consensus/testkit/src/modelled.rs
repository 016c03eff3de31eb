//! Committees for tests, and bytes that replace signatures.

use corniche_engine::Committee;
use corniche_types::{Address, B256, Bytes, EngineConfig, FeeRules, Genesis, SignatureChecks, TimestampMs, ValidatorInfo};
use std::collections::BTreeMap;

/// A committee of this size for this engine. Its keys are never used.
pub fn committee(engine: &str, size: usize) -> Committee {
    let validator = |position: usize| ValidatorInfo {
        consensus_key: B256::with_last_byte(u8::try_from(position).expect("the committee size fits the index type")),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
    };
    Committee::from_genesis(&genesis(engine, (0..size).map(validator).collect()))
}

/// A genesis with these validators and default contents.
pub fn genesis(engine: &str, validators: Vec<ValidatorInfo>) -> Genesis {
    Genesis {
        // The committee hash of this version is part of the engines' fixtures.
        protocol_version: 1,
        upgrades: Vec::new(),
        chain_id: 7,
        currency: "TEST".into(),
        timestamp_ms: TimestampMs(0),
        block_ms: 0,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 30_000_000,
        epoch_blocks: 1_000_000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1 },
        engine: EngineConfig { name: engine.into(), parameters: BTreeMap::new() },
        validators,
        coin_shares: Vec::new(),
        coin_public_key: Bytes::new(),
        accounts: BTreeMap::new(),
        signatures: SignatureChecks::Everyone,
    }
}

/// Modelled signature of `owner` on `message` for one purpose. It is a hash that anyone can compute, so it is binding
/// only in tests.
pub fn derive_bytes<const N: usize>(purpose: &str, owner: u16, message: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let mut hasher = blake3::Hasher::new();
    hasher.update(purpose.as_bytes()).update(&owner.to_le_bytes()).update(message).finalize_xof().fill(&mut out);
    out
}
