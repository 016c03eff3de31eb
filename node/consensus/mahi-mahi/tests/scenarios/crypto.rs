//! Deterministic doubles: as binding as the real ones inside a test, and a thousand times cheaper.

use corniche_engine::Committee;
use corniche_mahi_mahi::{Coin, CoinShare, CoinValue, Signature, Signatures, Signer, coin::elect};
use corniche_types::{Address, B256, Bytes, EngineConfig, FeeRules, Genesis, TimestampMs, ValidatorIndex, ValidatorInfo};
use std::{collections::BTreeMap, sync::Arc};

/// A committee whose keys are never looked at.
pub fn committee(size: usize) -> Committee {
    let validator = |position: usize| ValidatorInfo {
        consensus_key: B256::with_last_byte(u8::try_from(position).unwrap()),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
    };
    Committee::from_genesis(&genesis((0..size).map(validator).collect(), Vec::new(), Bytes::new()))
}

pub fn genesis(validators: Vec<ValidatorInfo>, coin_shares: Vec<Bytes>, coin_public_key: Bytes) -> Genesis {
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
        engine: EngineConfig { name: "mahi-mahi".into(), parameters: BTreeMap::new() },
        validators,
        coin_shares,
        coin_public_key,
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

    fn coin_share(&self, message: &[u8]) -> CoinShare {
        stretch("share", self.0.0, message)
    }
}

/// A Byzantine double: signs properly, but its coin shares are noise.
pub struct BadShares(pub ValidatorIndex);

impl Signer for BadShares {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, digest: &B256) -> Signature {
        FakeKeys(self.0).sign(digest)
    }

    fn coin_share(&self, message: &[u8]) -> CoinShare {
        stretch("noise", self.0.0, message)
    }
}

pub struct FakeSignatures;

impl Signatures for FakeSignatures {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        FakeKeys(author).sign(digest) == *signature
    }
}

/// Combines to the same value whatever good shares it is given, like a threshold signature. Some values can be dictated.
#[derive(Default)]
pub struct FakeCoin {
    dictated: BTreeMap<Vec<u8>, CoinValue>,
}

impl FakeCoin {
    /// The coin of `message` will put `leaders` first, in this order.
    pub fn dictate(&mut self, message: Vec<u8>, leaders: &[u16], committee_size: usize) {
        let wanted: Vec<_> = leaders.iter().copied().map(ValidatorIndex).collect();
        let mut values = (0..=u16::MAX).map(|salt| stretch("dictated", salt, &message));
        let value = values.find(|value: &CoinValue| elect(value, committee_size).order.starts_with(&wanted));
        self.dictated.insert(message, value.expect("a few leaders come first in one of many orders"));
    }

    fn value(&self, message: &[u8]) -> CoinValue {
        self.dictated.get(message).copied().unwrap_or_else(|| stretch("coin", 0, message))
    }

    pub fn shared(self) -> Arc<dyn Coin> {
        Arc::new(self)
    }
}

impl Coin for FakeCoin {
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, CoinShare)]) -> Option<CoinValue> {
        let good = shares.iter().all(|(author, share)| self.verify_share(*author, message, share));
        good.then(|| self.value(message))
    }

    fn verify(&self, message: &[u8], value: &CoinValue) -> bool {
        self.value(message) == *value
    }

    fn verify_share(&self, author: ValidatorIndex, message: &[u8], share: &CoinShare) -> bool {
        FakeKeys(author).coin_share(message) == *share
    }
}
