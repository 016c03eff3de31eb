//! Committees for tests, and bytes that replace signatures.

use crate::engine_host::index;
use corniche_engine::Committee;
use corniche_types::{
    Address, B256, Bytes, EngineConfig, FeeRules, Genesis, SignatureChecks, TimestampMs, ValidatorInfo, Votes,
};
use std::collections::BTreeMap;

/// A committee of this size for this engine, in which all have one vote. Its keys are never used.
pub fn committee(engine: &str, size: usize) -> Committee {
    committee_of(engine, &vec![1; size])
}

/// Like [`committee`], with these votes.
pub fn committee_of(engine: &str, votes: &[u32]) -> Committee {
    let validator = |(position, votes): (usize, &u32)| ValidatorInfo {
        consensus_key: B256::with_last_byte(u8::try_from(position).expect("the committee size fits the index type")),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
        votes: Votes(*votes),
        stake: None,
    };
    Committee::from_genesis(&genesis(engine, votes.iter().enumerate().map(validator).collect()))
}

/// Unequal votes for a committee of this size. No member of four or more has more than F votes.
pub fn unequal_votes(size: usize) -> Vec<u32> {
    let pattern: &[u32] = if size < 6 { &[2, 2, 2, 1] } else { &[3, 2, 2, 1, 1, 1] };
    pattern.iter().copied().cycle().take(size).collect()
}

/// The first members in `order` that can be faulty together: those with up to F votes.
pub fn faulty_members(committee: &Committee, order: impl IntoIterator<Item = usize>) -> impl Iterator<Item = usize> {
    let mut votes = Votes(0);
    order.into_iter().take_while(move |member| {
        votes += committee.votes(index(*member));
        votes <= committee.max_faulty()
    })
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
        staking: None,
        coin_draft: None,
        multicast: None,
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
