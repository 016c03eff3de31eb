//! Modelled keys and coin: keyed hashes that anyone can compute.

use corniche_mahi_mahi::{Coin, CoinShare, CoinValue, Signature, Signatures, Signer, coin::elect};
use corniche_testkit::derive_bytes;
use corniche_types::{B256, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// Modelled keys of one validator.
pub struct FakeKeys(pub ValidatorIndex);

impl Signer for FakeKeys {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, digest: &B256) -> Signature {
        derive_bytes("signature", self.0.0, digest.as_slice())
    }

    fn coin_share(&self, message: &[u8]) -> CoinShare {
        derive_bytes("share", self.0.0, message)
    }
}

/// A Byzantine double: signs correctly, but its coin shares are noise.
pub struct BadShares(pub ValidatorIndex);

impl Signer for BadShares {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, digest: &B256) -> Signature {
        FakeKeys(self.0).sign(digest)
    }

    fn coin_share(&self, message: &[u8]) -> CoinShare {
        derive_bytes("noise", self.0.0, message)
    }
}

pub struct FakeSignatures;

impl Signatures for FakeSignatures {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        FakeKeys(author).sign(digest) == *signature
    }
}

/// Any good shares combine to one value, like a threshold signature. Tests can dictate values.
#[derive(Default)]
pub struct FakeCoin {
    dictated: BTreeMap<Vec<u8>, CoinValue>,
}

impl FakeCoin {
    /// Makes the coin of `message` put `leaders` first, in this order.
    pub fn dictate(&mut self, message: Vec<u8>, leaders: &[u16], committee_size: usize) {
        let wanted: Vec<_> = leaders.iter().copied().map(ValidatorIndex).collect();
        let mut values = (0..=u16::MAX).map(|salt| derive_bytes("dictated", salt, &message));
        let value = values.find(|value: &CoinValue| elect(value, committee_size).order.starts_with(&wanted));
        self.dictated.insert(message, value.expect("a few leaders come first in one of many orders"));
    }

    fn value(&self, message: &[u8]) -> CoinValue {
        self.dictated.get(message).copied().unwrap_or_else(|| derive_bytes("coin", 0, message))
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
