//! Modelled keys and coin: keyed hashes that anyone can compute.

use corniche_engine::Unsigned;
use corniche_mahi_mahi::{Coin, CoinShare, CoinShares, CoinValue, Signature, Signatures, Signer, coin::elect};
use corniche_testkit::derive_bytes;
use corniche_types::{B256, ValidatorIndex, Votes, Weights, evidence::Heading};
use std::{collections::BTreeMap, sync::Arc};

/// Modelled keys of one validator with these votes.
pub struct FakeKeys(pub ValidatorIndex, pub Votes);

impl Signer for FakeKeys {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, _: &Heading, digest: &B256) -> Result<Signature, Unsigned> {
        Ok(sign(self.0, digest))
    }

    fn coin_shares(&self, message: &[u8]) -> CoinShares {
        let further = (1..self.1.0).map(|seat| derive_bytes("share", self.0.0, &[message, &seat.to_le_bytes()].concat()));
        std::iter::once(derive_bytes("share", self.0.0, message)).chain(further).collect()
    }
}

/// A validator's modelled signature of a block.
pub fn sign(author: ValidatorIndex, digest: &B256) -> Signature {
    derive_bytes("signature", author.0, digest.as_slice())
}

/// A Byzantine double with these votes: signs correctly, but its coin shares are noise.
pub struct BadShares(pub ValidatorIndex, pub Votes);

impl Signer for BadShares {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, _: &Heading, digest: &B256) -> Result<Signature, Unsigned> {
        Ok(sign(self.0, digest))
    }

    fn coin_shares(&self, message: &[u8]) -> CoinShares {
        vec![derive_bytes("noise", self.0.0, message); self.1.as_usize()]
    }
}

pub struct FakeSignatures;

impl Signatures for FakeSignatures {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        sign(author, digest) == *signature
    }
}

/// Any good shares combine to one value, like a threshold signature. Tests can dictate values.
#[derive(Default)]
pub struct FakeCoin {
    dictated: BTreeMap<Vec<u8>, CoinValue>,
}

impl FakeCoin {
    /// Makes the coin of `message` put `leaders` first, in this order.
    pub fn dictate(&mut self, message: Vec<u8>, leaders: &[u16], committee: &Weights) {
        let seats = committee.seats();
        let wanted: Vec<_> = leaders.iter().copied().map(ValidatorIndex).collect();
        let mut values = (0..=u16::MAX).map(|salt| derive_bytes("dictated", salt, &message));
        let value = values.find(|value: &CoinValue| elect(value, &seats).order.starts_with(&wanted));
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
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, CoinShares)]) -> Option<CoinValue> {
        let good = shares.iter().all(|(author, shares)| self.verify_shares(*author, message, shares));
        good.then(|| self.value(message))
    }

    fn verify(&self, message: &[u8], value: &CoinValue) -> bool {
        self.value(message) == *value
    }

    /// The verifier compares the number of shares with the author's votes.
    fn verify_shares(&self, author: ValidatorIndex, message: &[u8], shares: &[CoinShare]) -> bool {
        let votes = Votes(shares.len() as u32);
        votes > Votes(0) && FakeKeys(author, votes).coin_shares(message) == shares
    }
}
