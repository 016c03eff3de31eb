//! The engine in the test arena (feature `kit`): modelled keys, and what the arena must know.
//!
//! **For tests and simulations only.** The keys are keyed hashes that anybody can compute; inside a test they bind like the real ones
//! and cost a thousandth. They cannot be chosen in a genesis: nothing in a node constructs them.

use crate::{Share, Signature, Signatures, Signer};
use corniche_engine::Committee;
use corniche_types::{Address, B256, Bytes, EngineConfig, FeeRules, Genesis, TimestampMs, ValidatorIndex, ValidatorInfo};
use std::collections::BTreeMap;

/// A committee whose keys are never looked at.
pub fn committee(size: usize) -> Committee {
    let validator = |position: usize| ValidatorInfo {
        consensus_key: B256::with_last_byte(u8::try_from(position).expect("committees are small")),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
    };
    Committee::from_genesis(&genesis((0..size).map(validator).collect()))
}

pub fn genesis(validators: Vec<ValidatorInfo>) -> Genesis {
    Genesis {
        protocol_version: 1,
        chain_id: 7,
        currency: "TEST".into(),
        timestamp_ms: TimestampMs(0),
        block_ms: 0,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 30_000_000,
        epoch_blocks: 1_000_000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1 },
        engine: EngineConfig { name: "autobahn".into(), parameters: BTreeMap::new() },
        validators,
        coin_shares: Vec::new(),
        coin_public_key: Bytes::new(),
        accounts: BTreeMap::new(),
    }
}

fn stretch<const N: usize>(purpose: &str, owner: u16, message: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let mut hasher = blake3::Hasher::new();
    hasher.update(purpose.as_bytes()).update(&owner.to_le_bytes()).update(message).finalize_xof().fill(&mut out);
    out
}

/// One validator's double keys.
pub struct FakeKeys(pub ValidatorIndex);

impl Signer for FakeKeys {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, digest: &B256) -> Signature {
        stretch("signature", self.0.0, digest.as_slice())
    }

    fn share(&self, digest: &B256) -> Share {
        stretch::<32>("share", self.0.0, digest.as_slice()).to_vec().into()
    }
}

/// Everyone's double keys. A seal is the hash of the shares.
pub struct FakeSignatures;

impl Signatures for FakeSignatures {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        FakeKeys(author).sign(digest) == *signature
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool {
        FakeKeys(signer).share(digest) == *share
    }

    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
        let mut hasher = blake3::Hasher::new();
        shares.iter().for_each(|(_, share)| _ = hasher.update(share));
        Some(hasher.finalize().as_bytes().to_vec().into())
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        let shares: Vec<_> = signed.iter().map(|(signer, digest)| (*signer, FakeKeys(*signer).share(digest))).collect();
        self.combine(&shares).as_ref() == Some(seal)
    }
}
