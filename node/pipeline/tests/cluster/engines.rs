//! Ordering engines with real keys, composed as in the binary; other code here uses only their trait.

use crate::common::{bls_key, consensus_key, network_key};
use corniche_crypto::{CoinDeal, CoinPublicKeys, deal_coin};
use corniche_engine::{Committee, Engine, Input, Output, Verifier};
use corniche_mahi_mahi::crypto::ThresholdCoin;
use corniche_mahi_mahi::{Coin, CoinShare, CoinShares, CoinValue};
use corniche_pipeline::{CommitteeCoin, EngineFactory, EngineStart};
use corniche_types::{B256, Bytes, Epoch, Genesis, TimestampMs, ValidatorIndex, wire};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Ordering engine.
#[derive(Clone, Copy, Debug)]
pub enum EngineKind {
    MahiMahi,
    Autobahn,
}
use EngineKind::{Autobahn, MahiMahi};

/// Secrets of a genesis' validators.
pub struct Secrets {
    deal: CoinDeal,
    opened: Arc<Mutex<Opened>>,
}

/// Verified values of the coin, by epoch, committee and message.
type Opened = BTreeMap<(Epoch, B256, Vec<u8>), CoinValue>;

/// The coin of all validators of a test. Any shares open the same value, so what one of them verified, the others need not verify again:
/// that was a third of the time.
struct SharedCoin {
    coin: ThresholdCoin,
    keys: CoinPublicKeys,
    committee: Committee,
    opened: Arc<Mutex<Opened>>,
}

impl Coin for SharedCoin {
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, CoinShares)]) -> Option<CoinValue> {
        let key = (self.committee.epoch(), self.committee.hash(), message.to_vec());
        let mut opened = self.opened.lock().unwrap();
        if let Some(known) = opened.get(&key) {
            let wrapped = |shares: &CoinShares| shares.iter().copied().map(corniche_crypto::CoinShare).collect();
            let shares: Vec<_> = shares.iter().map(|(author, shares)| (*author, wrapped(shares))).collect();
            let value = self.keys.combine(self.committee.quorum(), &shares)?.to_bytes();
            return (value == *known).then_some(value);
        }
        let value = self.coin.combine(message, shares)?;
        opened.insert(key, value);
        Some(value)
    }

    fn verify(&self, message: &[u8], value: &CoinValue) -> bool {
        self.coin.verify(message, value)
    }

    fn verify_shares(&self, author: ValidatorIndex, message: &[u8], shares: &[CoinShare]) -> bool {
        self.coin.verify_shares(author, message, shares)
    }
}

impl Secrets {
    /// Sets the engine of the genesis, and gives its validators keys. `coin` seeds the leaders that Mahi-Mahi
    /// elects.
    pub fn deal(genesis: &mut Genesis, engine: EngineKind, parameters: &[(&str, u64)], coin: u8) -> Self {
        genesis.engine.name = engine.word().into();
        genesis.engine.parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        for (index, member) in genesis.validators.iter_mut().enumerate() {
            member.consensus_key = consensus_key(index).public();
            member.network_key = network_key(index).public();
        }
        let committee = Committee::from_genesis(genesis);
        let deal = deal_coin(committee.weights(), committee.quorum(), [coin; 32]);
        (genesis.coin_public_key, genesis.coin_shares) = deal.public.to_genesis();
        corniche_crypto::verify_genesis(genesis).unwrap();
        Self { deal, opened: Arc::default() }
    }
}

/// Proposes batches with a thousand times the allowed gas.
struct Greedy(Box<dyn Engine>);

impl Engine for Greedy {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.0.handle(now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        Some(match self.0.poll()? {
            Output::WantBatch { bytes, gas } => Output::WantBatch { bytes, gas: 1_000 * gas },
            output => output,
        })
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.0.deadline()
    }
}

pub fn greedy(factory: EngineFactory) -> EngineFactory {
    Box::new(move |start| Box::new(Greedy(factory(start))))
}

/// Lets only some validators propose, as engines with leaders do.
struct Led {
    engine: Box<dyn Engine>,
    /// Not said yet.
    proposers: Option<BTreeSet<ValidatorIndex>>,
    proposes: bool,
}

impl Engine for Led {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.engine.handle(now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        let proposers = self.proposers.take().map(Output::Proposers);
        let mut outputs = proposers.into_iter().chain(std::iter::from_fn(|| self.engine.poll()));
        outputs.find(|output| self.proposes || !matches!(output, Output::WantBatch { .. }))
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.engine.deadline()
    }
}

pub fn led(factory: EngineFactory, index: usize, proposers: BTreeSet<ValidatorIndex>) -> EngineFactory {
    Box::new(move |start| {
        let proposes = proposers.iter().any(|proposer| proposer.as_usize() == index);
        Box::new(Led { engine: factory(start), proposers: Some(proposers.clone()), proposes })
    })
}

/// Makes another proposal from an own one; `None` for other messages.
type MakeSibling = Box<dyn Fn(&Bytes) -> Option<Bytes> + Send>;

/// Sends a second proposal with each own one, signed as well.
struct Equivocating {
    engine: Box<dyn Engine>,
    sibling: MakeSibling,
    next: Option<Output>,
}

impl Engine for Equivocating {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.engine.handle(now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        let output = self.engine.poll()?;
        if let Output::Send { to, message } = &output
            && let Some(sibling) = (self.sibling)(message)
        {
            self.next = Some(Output::Send { to: *to, message: sibling });
        }
        Some(output)
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.engine.deadline()
    }
}

impl EngineKind {
    /// The factory of a validator that contradicts itself in its proposals.
    pub fn equivocating(self, index: usize, factory: EngineFactory) -> EngineFactory {
        Box::new(move |start| {
            let sibling = self.sibling(index, &start.committee);
            Box::new(Equivocating { engine: factory(start), sibling, next: None })
        })
    }

    fn sibling(self, index: usize, committee: &Committee) -> MakeSibling {
        match self {
            MahiMahi => {
                use corniche_mahi_mahi::{Signer as _, crypto, message::*};
                let signer = crypto::ValidatorKeys::new(committee, consensus_key(index), None).unwrap();
                let context = Context::new(committee);
                Box::new(move |message| {
                    let Ok(Message::Block(mut block)) = wire::decode::<Message>(message) else { return None };
                    if block.content.author != signer.index() {
                        return None;
                    }
                    block.content.timestamp.0 += 1;
                    block.signature = signer.sign_digest(&context.digest(&block.content));
                    Some(Message::Block(block).encode())
                })
            }
            Autobahn => {
                use corniche_autobahn::{crypto, message::*};
                let signer = crypto::ValidatorKeys::new(committee, consensus_key(index), None).unwrap();
                let context = Context::new(committee);
                Box::new(move |message| {
                    let Ok(Message::Prepare(mut prepare)) = wire::decode::<Message>(message) else { return None };
                    let sign = |SignedPrepare { cut, view, .. }: &SignedPrepare| {
                        signer.sign_digest(&context.prepare(cut.slot, *view, context.cut(cut)))
                    };
                    // It also forwards those of others. Signatures are deterministic.
                    if prepare.signature != sign(&prepare) {
                        return None;
                    }
                    prepare.cut.time.0 += 1;
                    prepare.signature = sign(&prepare);
                    Some(Message::Prepare(prepare).encode())
                })
            }
        }
    }

    /// Coin seeds under which a scenario runs: four, or as many as `CORNICHE_COINS` says.
    #[allow(clippy::disallowed_methods)] // tests are configured by their environment
    pub fn coins(self) -> std::ops::RangeInclusive<u8> {
        let coins = std::env::var("CORNICHE_COINS").ok().and_then(|coins| coins.parse().ok()).unwrap_or(4);
        match self {
            MahiMahi => 1..=coins,
            Autobahn => 1..=1,
        }
    }

    /// True if its validators open a coin together.
    pub fn has_coin(self) -> bool {
        matches!(self, MahiMahi)
    }

    fn word(self) -> &'static str {
        match self {
            MahiMahi => "mahi-mahi",
            Autobahn => "autobahn",
        }
    }

    /// Parameters with which an engine, and its peers, forget data older than about this many commits.
    pub fn forgetting(self, commits: u64) -> Vec<(&'static str, u64)> {
        match self {
            MahiMahi => vec![("gc_depth", commits), ("retain_rounds", commits)],
            Autobahn => vec![("retain_slots", commits)],
        }
    }

    pub fn verifier(self, genesis: &Genesis, committee: &Committee) -> Box<dyn Verifier> {
        let committee = committee.clone();
        match self {
            MahiMahi => {
                use corniche_mahi_mahi::{Config, MahiVerifier, crypto};
                let signatures = Arc::new(crypto::CommitteeSignatures::new(&committee).unwrap());
                Box::new(MahiVerifier::new(Config::from_genesis(genesis).unwrap(), committee, signatures))
            }
            Autobahn => {
                use corniche_autobahn::{AutobahnVerifier, Config};
                let config = Config::from_genesis(genesis).unwrap();
                let signatures = autobahn_signatures(&config, &committee);
                Box::new(AutobahnVerifier::new(config, committee, signatures))
            }
        }
    }

    /// Factory of a validator's engine. `start` differs at every start.
    pub fn factory(self, genesis: &Genesis, secrets: &Secrets, index: usize, start: u64) -> EngineFactory {
        match self {
            MahiMahi => {
                use corniche_mahi_mahi::{Config, MahiMahi, Setup, crypto};
                let config = Config::from_genesis(genesis).unwrap();
                // A newcomer has no share of the genesis coin.
                let share = secrets.deal.shares.get(index).cloned();
                let opened = Arc::clone(&secrets.opened);
                let genesis_coin = CommitteeCoin { keys: CoinPublicKeys::from_genesis(genesis).unwrap(), share };
                Box::new(move |EngineStart { committee, epoch, records, has_all_records: unsigned, resume, coin, now }| {
                    let config = Config { genesis_time: epoch.time, ..config.clone() };
                    let CommitteeCoin { keys, share } = coin.unwrap_or_else(|| genesis_coin.clone());
                    let coin = Arc::new(SharedCoin {
                        coin: ThresholdCoin::new(&committee, keys.clone()),
                        keys,
                        committee: committee.clone(),
                        opened: Arc::clone(&opened),
                    });
                    let signer = crypto::ValidatorKeys::new(&committee, consensus_key(index), share).unwrap();
                    let signatures = Arc::new(crypto::CommitteeSignatures::new(&committee).unwrap());
                    let signer = Some(Arc::new(signer) as _);
                    let seed = start * 1_000 + now.0;
                    let setup = Setup { config, committee, signer, signatures, coin, seed, records, unsigned, resume, now };
                    Box::new(MahiMahi::new(setup)) as Box<dyn Engine>
                })
            }
            Autobahn => {
                use corniche_autobahn::{Autobahn, Config, Setup, crypto};
                let config = Config::from_genesis(genesis).unwrap();
                Box::new(move |EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. }| {
                    let (time, randomness) = (epoch.time, epoch.randomness);
                    let config = Config { genesis_time: time, genesis_randomness: randomness, ..config.clone() };
                    let bls = config.bls.then(|| bls_key(index));
                    let signer = crypto::ValidatorKeys::new(&committee, consensus_key(index), bls).unwrap();
                    let (signer, signatures) = (Some(Arc::new(signer) as _), autobahn_signatures(&config, &committee));
                    let seed = start * 1_000 + now.0;
                    Box::new(Autobahn::new(Setup {
                        config,
                        committee,
                        signer,
                        signatures,
                        seed,
                        records,
                        unsigned,
                        resume,
                        now,
                    })) as Box<dyn Engine>
                })
            }
        }
    }
}

fn autobahn_signatures(config: &corniche_autobahn::Config, committee: &Committee) -> Arc<dyn corniche_autobahn::Signatures> {
    use corniche_autobahn::crypto::{BlsCertificates, Ed25519Certificates};
    if config.bls {
        Arc::new(BlsCertificates::new(committee).unwrap())
    } else {
        Arc::new(Ed25519Certificates::new(committee).unwrap())
    }
}
