//! The engine's kit for the test arena (feature `kit`), with modelled keys.
//!
//! **For tests and simulations only.** The keys are keyed hashes that anyone can compute. In a test they bind like the
//! real ones and cost a thousandth. A genesis cannot choose them: no code of a node constructs them.

use crate::{
    Coin, CoinShare, CoinValue, Config, MahiMahi, MahiVerifier, Setup, Signature, Signatures, Signer,
    coin::elect,
    message::{Context, Message, SignedBlock},
};
use corniche_engine::{Committee, Verifier, VertexId};
use corniche_testkit::{Forgery, Kit, Measured, Random, derive_bytes};
use corniche_types::{B256, Bytes, ValidatorIndex, wire};
use std::{collections::BTreeMap, rc::Rc, sync::Arc};

const NAME: &str = "mahi-mahi";

/// Mahi-Mahi with one committee and modelled keys.
pub struct MahiKit {
    pub config: Config,
    committee: Committee,
    coin: Arc<dyn Coin>,
}

impl MahiKit {
    /// A committee of this size with fast pacing, so that short runs cover many rounds.
    pub fn quick(size: usize) -> Rc<dyn Kit> {
        let config = Config {
            min_round_ms: 10,
            parent_grace_ms: 2,
            heartbeat_ms: 1_000,
            gc_depth: 30,
            retain_rounds: 60,
            ..Config::default()
        };
        Rc::new(Self::new(committee(size), config))
    }

    pub fn new(committee: Committee, config: Config) -> Self {
        Self { config, committee, coin: Arc::new(FakeCoin::default()) }
    }

    fn context(&self) -> Context {
        Context::new(&self.committee)
    }

    fn vertex(&self, block: &SignedBlock) -> VertexId {
        let digest = self.context().digest(&block.content);
        VertexId { round: block.content.round.0, author: block.content.author, digest }
    }
}

impl Kit for MahiKit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&self, setup: corniche_testkit::Setup) -> Box<dyn Measured> {
        let corniche_testkit::Setup { me, seed, records, unsigned, resume, now, forgery } = setup;
        let signer: Arc<dyn Signer> = match forgery {
            Some(Forgery::Share) => Arc::new(BadShares(me)),
            _ => Arc::new(FakeKeys(me)),
        };
        let (config, committee, coin) = (self.config.clone(), self.committee.clone(), self.coin.clone());
        let (signer, signatures) = (Some(signer), Arc::new(FakeSignatures));
        Box::new(MahiMahi::new(Setup { config, committee, signer, signatures, coin, seed, records, unsigned, resume, now }))
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(MahiVerifier::new(self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures)))
    }

    fn published_proposal(&self, message: &Bytes) -> Option<VertexId> {
        match wire::decode(message) {
            Ok(Message::Block(block)) => Some(self.vertex(&block)),
            _ => None,
        }
    }

    fn recorded_proposal(&self, record: &Bytes) -> Option<VertexId> {
        wire::decode(record).ok().map(|block| self.vertex(&block))
    }

    fn forge(&self, author: ValidatorIndex, forgery: Forgery, message: &Bytes, random: &mut Random) -> Option<Bytes> {
        let Ok(Message::Block(mut block)) = wire::decode(message) else { return None };
        let content = &mut block.content;
        match forgery {
            Forgery::Share => content.coin_share = BadShares(author).coin_share(&self.context().coin_message(content.round)),
            Forgery::Parents => {
                let place = random.below(content.parents.len() as u64) as usize;
                match random.below(4) {
                    // No validator ever has this block.
                    0 => {
                        content.parents[place].digest =
                            B256::from(derive_bytes("nowhere", author.0, &random.draw().to_le_bytes()))
                    }
                    1 => content.parents.push(content.parents[place]),
                    2 => content.parents.truncate(place),
                    // Valid, but casts other votes.
                    _ => content.parents[1..].reverse(),
                }
            }
        }
        block.signature = FakeKeys(author).sign(&self.context().digest(&block.content));
        Some(Message::Block(block).encode())
    }

    /// A round commits at most ℓ leaders, and blocks `retain_rounds` below the floor are pruned.
    fn max_lag(&self) -> u64 {
        self.config.retain_rounds
    }

    fn max_footprint(&self) -> usize {
        self.config.max_footprint(self.committee.size())
    }
}

impl Measured for MahiMahi {
    fn footprint(&self) -> usize {
        MahiMahi::footprint(self).iter().sum()
    }
}

/// A committee whose keys are never used.
pub fn committee(size: usize) -> Committee {
    corniche_testkit::committee(NAME, size)
}

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
