//! A genesis with real keys.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used)] // the lint spares test functions, not their helpers

pub mod chain;

use corniche_crypto::{BlsSecretKey, ConsensusKey, deal_coin};
use corniche_types::{
    Address, B256, Certificate, EngineConfig, FaultModel, FeeRules, Genesis, GenesisStake, Height, SignerBitmap,
    StakingParameters, TimestampMs, ValidatorIndex, ValidatorInfo, Weights,
};

pub fn bls_key(validator: u8) -> BlsSecretKey {
    BlsSecretKey::from_seed([100 + validator; 32])
}

pub fn genesis(validators: u8) -> Genesis {
    let infos = (0..validators).map(|i| ValidatorInfo {
        consensus_key: ConsensusKey::from_seed([i; 32]).public(),
        bls_key: bls_key(i).public().to_bytes().to_vec().into(),
        bls_proof: bls_key(i).prove_possession().to_bytes().to_vec().into(),
        network_key: ConsensusKey::from_seed([50 + i; 32]).public(),
        fee_address: Address::repeat_byte(i),
        votes: corniche_types::Votes(1),
        stake: None,
    });
    let weights = Weights::one_each(validators.into(), FaultModel::Byzantine);
    let (coin_public_key, coin_shares) = deal_coin(&weights, weights.quorum(), [9; 32]).public.to_genesis();
    Genesis {
        protocol_version: 1,
        upgrades: Vec::new(),
        chain_id: 77,
        currency: "COR".into(),
        timestamp_ms: TimestampMs(1_000),
        block_ms: 50,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 30_000_000,
        epoch_blocks: 1_000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1_000_000 },
        engine: EngineConfig { name: "mahi-mahi".into(), parameters: Default::default() },
        validators: infos.collect(),
        coin_shares,
        coin_public_key,
        accounts: Default::default(),
        signatures: Default::default(),
        staking: None,
        coin_draft: None,
        multicast: None,
    }
}

/// A genesis of a chain whose epochs end, after a day each.
pub fn staked_genesis(validators: u8) -> Genesis {
    let mut genesis = genesis(validators);
    genesis.protocol_version = 5;
    genesis.staking = Some(StakingParameters::default());
    for validator in &mut genesis.validators {
        validator.stake = Some(GenesisStake { owner: validator.fee_address, coin_key: Default::default() });
    }
    genesis
}

/// A certificate over `header_hash` by these validators.
pub fn certify(genesis: &Genesis, signers: &[u8], height: u64, header_hash: B256) -> Certificate {
    let unsigned = Certificate {
        epoch: corniche_types::Epoch(0),
        committee_hash: genesis.committee_hash(),
        height: Height(height),
        header_hash,
        fault_model: genesis.fault_model(),
        signers: SignerBitmap::from_signers(signers.iter().map(|&i| ValidatorIndex(i.into())), genesis.validators.len()),
        signature: Default::default(),
    };
    let message = Certificate::signed_bytes(
        genesis.chain_id,
        unsigned.epoch,
        unsigned.committee_hash,
        unsigned.height,
        header_hash,
        unsigned.fault_model,
    );
    let signatures: Vec<_> = signers.iter().map(|&i| bls_key(i).sign(&message)).collect();
    let signature = corniche_crypto::bls_aggregate(&signatures).map(|sum| sum.to_bytes().to_vec()).unwrap_or_default();
    Certificate { signature: signature.into(), ..unsigned }
}
