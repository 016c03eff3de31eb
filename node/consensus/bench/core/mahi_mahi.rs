//! Mahi-Mahi as a benchmark subject.

use crate::{
    Backlog,
    recording::{BenchTarget, index},
};
use corniche_crypto::{CoinPublicKeys, ConsensusKey, deal_coin};
use corniche_engine::{Committee, Engine, Resume, Unsigned, Verifier};
use corniche_mahi_mahi::{
    Coin, CoinShare, CoinShares, CoinValue, Config, MahiMahi, MahiVerifier, Setup, Signature, Signatures, Signer,
    crypto::{CommitteeSignatures, ThresholdCoin, ValidatorKeys},
    message::{CoinHelp, Context, Message, Round},
};
use corniche_testkit::Micros;
use corniche_types::{Address, B256, Bytes, FaultModel, ValidatorIndex, ValidatorInfo, Weights, evidence::Heading, wire};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

pub struct MahiMahiBench {
    config: Config,
    keys: Keys,
    backlog: Option<Backlog>,
    /// While true, the coins of the backlog stay closed to validator 0.
    closed: Arc<AtomicBool>,
}

struct Keys {
    committee: Committee,
    signers: Vec<Arc<dyn Signer>>,
    signatures: Arc<dyn Signatures>,
    coin: Arc<dyn Coin>,
}

impl MahiMahiBench {
    /// `retained`: number of rounds to keep.
    pub fn new(size: usize, retained: u64, real: bool, backlog: Option<Backlog>) -> Self {
        let config =
            Config { gc_depth: retained, retain_rounds: retained, min_round_ms: 0, parent_grace_ms: 5, ..Config::default() };
        let keys = if real { real_keys(size) } else { modelled_keys(size) };
        Self { config, keys, backlog, closed: Arc::default() }
    }

    fn coin(&self, me: ValidatorIndex) -> Arc<dyn Coin> {
        let (Some(backlog), ValidatorIndex(0)) = (self.backlog, me) else { return self.keys.coin.clone() };
        // The first coin that elects leaders.
        let first = Context::new(&self.keys.committee).coin_message(Round(self.config.wave_length));
        let only = (backlog == Backlog::One).then_some(first);
        Arc::new(ClosedCoin { coin: self.keys.coin.clone(), closed: self.closed.clone(), only })
    }
}

impl BenchTarget for MahiMahiBench {
    fn name(&self) -> &'static str {
        "mahi-mahi"
    }

    fn size(&self) -> usize {
        self.keys.committee.size()
    }

    fn start(&self, me: ValidatorIndex) -> Box<dyn Engine> {
        self.closed.store(true, Relaxed);
        Box::new(MahiMahi::new(Setup {
            config: self.config.clone(),
            committee: self.keys.committee.clone(),
            signer: Some(self.keys.signers[me.as_usize()].clone()),
            signatures: self.keys.signatures.clone(),
            coin: self.coin(me),
            seed: 1,
            records: Vec::new(),
            unsigned: false,
            resume: Resume::default(),
            now: Micros::START.timestamp(),
        }))
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        let Keys { committee, signatures, .. } = &self.keys;
        Arc::new(MahiVerifier::new(self.config.clone(), committee.clone(), signatures.clone()))
    }

    /// Withholds from validator 0 the values of coins that it cannot open.
    fn withholds(&self, to: usize, message: &Bytes) -> bool {
        to == 0 && self.backlog.is_some() && matches!(wire::decode(message), Ok(Message::Coins(_)))
    }

    /// Returns the values of all coins, oldest first.
    fn release(&self, proposals: u64) -> Vec<Bytes> {
        self.closed.store(false, Relaxed);
        let context = Context::new(&self.keys.committee);
        let value = |round: &Round| Some((*round, self.keys.coin.combine(&context.coin_message(*round), &[])?));
        let rounds: Vec<_> = (1..=proposals).map(Round).collect();
        let help = |rounds: &[Round]| CoinHelp::new(rounds.iter().filter_map(value).collect(), Vec::new());
        rounds.chunks(64).map(|rounds| Message::Coins(help(rounds)).encode()).collect()
    }
}

fn real_keys(size: usize) -> Keys {
    let key = |position: usize| ConsensusKey::from_seed([u8::try_from(position).unwrap() + 1; 32]);
    let consensus: Vec<_> = (0..size).map(key).collect();
    let weights = Weights::one_each(size, FaultModel::Byzantine);
    let deal = deal_coin(&weights, weights.quorum(), [9; 32]);
    let validator = |key: &ConsensusKey| ValidatorInfo {
        consensus_key: key.public(),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
        votes: corniche_types::Votes(1),
        stake: None,
    };
    let mut genesis = corniche_testkit::genesis("mahi-mahi", consensus.iter().map(validator).collect());
    (genesis.coin_public_key, genesis.coin_shares) = deal.public.to_genesis();
    let committee = Committee::from_genesis(&genesis);
    let signer = |(key, share)| Arc::new(ValidatorKeys::new(&committee, key, Some(share)).unwrap()) as Arc<dyn Signer>;
    let signers = consensus.into_iter().zip(deal.shares).map(signer).collect();
    let signatures = Arc::new(CommitteeSignatures::new(&committee).unwrap());
    let coin = Arc::new(ThresholdCoin::new(&committee, CoinPublicKeys::from_genesis(&genesis).unwrap()));
    Keys { committee, signers, signatures, coin }
}

/// Keys of negligible cost, so that the measured cost is the engine's own.
fn modelled_keys(size: usize) -> Keys {
    let signer = |position| Arc::new(Modelled(index(position))) as Arc<dyn Signer>;
    Keys {
        committee: corniche_mahi_mahi_testing::committee(size),
        signers: (0..size).map(signer).collect(),
        signatures: Arc::new(Modelled(index(0))),
        coin: Arc::new(ModelledCoin),
    }
}

struct Modelled(ValidatorIndex);

impl Signer for Modelled {
    fn index(&self) -> ValidatorIndex {
        self.0
    }
    fn sign(&self, _: &Heading, _: &B256) -> Result<Signature, Unsigned> {
        Ok([1; 64])
    }
    fn coin_shares(&self, _: &[u8]) -> CoinShares {
        vec![[2; 48]]
    }
}

impl Signatures for Modelled {
    fn verify(&self, _: ValidatorIndex, _: &B256, _: &Signature) -> bool {
        true
    }
}

struct ModelledCoin;

impl Coin for ModelledCoin {
    fn combine(&self, message: &[u8], _: &[(ValidatorIndex, CoinShares)]) -> Option<CoinValue> {
        let mut value = [0; 48];
        value[..32].copy_from_slice(&message[message.len() - 32..]);
        Some(value)
    }
    fn verify(&self, _: &[u8], _: &CoinValue) -> bool {
        true
    }
    fn verify_shares(&self, _: ValidatorIndex, _: &[u8], _: &[CoinShare]) -> bool {
        true
    }
}

struct ClosedCoin {
    coin: Arc<dyn Coin>,
    closed: Arc<AtomicBool>,
    /// The only closed coin; `None` for all.
    only: Option<Vec<u8>>,
}

impl Coin for ClosedCoin {
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, CoinShares)]) -> Option<CoinValue> {
        let concerned = self.only.as_ref().is_none_or(|only| only == message);
        if concerned && self.closed.load(Relaxed) { None } else { self.coin.combine(message, shares) }
    }
    fn verify(&self, message: &[u8], value: &CoinValue) -> bool {
        self.coin.verify(message, value)
    }
    fn verify_shares(&self, author: ValidatorIndex, message: &[u8], shares: &[CoinShare]) -> bool {
        self.coin.verify_shares(author, message, shares)
    }
}
