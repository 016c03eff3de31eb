//! The engines by name, and what the simulator watches of them.
//!
//! An engine is built as the node builds it, with two things around it: its cryptography charges its cost to the node's
//! [`Meter`], and [`Watched`] notes what it proposes and what it orders. Neither changes what the engine does.

use crate::{
    crypto::{Meter, Metered, Modelled},
    genesis::Secrets,
    scenario::{Behaviour, Cost},
};
use corniche_crypto::CoinPublicKeys;
use corniche_engine::{Committee, Engine, Input, Ordered, Output, PeerFault, Resume, TraceEvent, Verified, Verifier, VertexId};
use corniche_mahi_mahi::{
    self as mahi_mahi, Coin, CoinShare, CoinValue, Signature, Signatures, Signer,
    message::{Context, Message, Round},
    real,
    verify::Checked,
};
use corniche_pipeline::EngineFactory;
use corniche_testkit::Random;
use corniche_types::{B256, Bytes, Genesis, TimestampMs, ValidatorIndex, wire};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// Engines that a scenario may name.
pub const NAMES: &[&str] = &["mahi-mahi"];

/// One engine of one network.
pub struct Engines {
    config: mahi_mahi::Config,
    committee: Committee,
    cost: Cost,
    signatures: Arc<dyn Signatures>,
    coin: Arc<dyn Coin>,
}

impl Engines {
    /// The engine that the genesis names, with what an experiment changes of its parameters. The error is for whoever wrote the
    /// scenario.
    pub fn new(
        genesis: &Genesis,
        secrets: &Secrets,
        cost: Cost,
        tune: Option<fn(&mut mahi_mahi::Config)>,
    ) -> Result<Self, String> {
        if !NAMES.contains(&genesis.engine.name.as_str()) {
            return Err(format!("no engine named {}; there are {}", genesis.engine.name, NAMES.join(", ")));
        }
        let mut config = mahi_mahi::Config::from_genesis(genesis)?;
        if let Some(tune) = tune {
            tune(&mut config);
        }
        let committee = Committee::from_genesis(genesis);
        let (signatures, coin): (Arc<dyn Signatures>, Arc<dyn Coin>) = match secrets {
            Secrets::Modelled => {
                let keys = Modelled::new(&committee, ValidatorIndex(0));
                (Arc::new(keys), Arc::new(keys))
            }
            Secrets::Real { .. } => {
                let keys = real::CommitteeSignatures::new(&committee).expect("invariant: the genesis was made here");
                let coin = CoinPublicKeys::from_genesis(genesis).expect("invariant: the genesis was made here");
                (Arc::new(keys), Arc::new(real::ThresholdCoin::new(&committee, coin)))
            }
        };
        Ok(Self { config, committee, cost, signatures, coin })
    }

    /// Most things that a correct engine holds, and most records in its safety log.
    pub fn most_held(&self) -> usize {
        self.config.most_held(self.committee.size())
    }

    /// The proposal in a message.
    pub fn peek(&self, message: &Verified) -> Option<VertexId> {
        let Checked::Block(block) = message.0.downcast_ref()? else { return None };
        Some(block.reference().into())
    }

    /// Checks messages, and says how many signatures that took.
    pub fn checker(&self) -> Checker {
        let count = Meter::default();
        let signatures = Counted { count: count.clone(), signatures: self.signatures.clone() };
        let verifier = mahi_mahi::MahiVerifier::new(self.config.clone(), self.committee.clone(), Arc::new(signatures));
        Checker { verifier: Box::new(verifier), count }
    }

    fn signer(&self, me: ValidatorIndex, secrets: &Secrets) -> Arc<dyn Signer> {
        match secrets {
            Secrets::Modelled => Arc::new(Modelled::new(&self.committee, me)),
            Secrets::Real { validators } => {
                let keys = &validators[me.as_usize()];
                let signer = real::ValidatorKeys::new(&self.committee, keys.consensus.clone(), keys.coin.clone());
                Arc::new(signer.expect("invariant: the genesis was made from these keys"))
            }
        }
    }

    /// A proposal of `me` in `bytes`, with one parent that does not exist, signed again. `None` when there is no proposal in them.
    pub fn forge_parent(&self, secrets: &Secrets, me: ValidatorIndex, bytes: &Bytes, random: u64) -> Option<Bytes> {
        let Ok(Message::Block(mut block)) = wire::decode::<Message>(bytes) else { return None };
        let others = block.content.parents.len().checked_sub(1).filter(|others| *others > 0)?;
        let place = 1 + usize::try_from(random % others as u64).ok()?;
        let parent = block.content.parents.get_mut(place).filter(|parent| parent.round > Round(0))?;
        parent.digest = corniche_crypto::digest(&random.to_le_bytes());
        block.signature = self.signer(me, secrets).sign(&Context::new(&self.committee).digest(&block.content));
        Some(Message::Block(block).encode())
    }

    /// Builds validator `me`'s engine, again and again; `random` makes each one's seed.
    pub fn factory(
        &self,
        me: ValidatorIndex,
        secrets: &Secrets,
        random: Random,
        meter: &Meter,
        sightings: &Sightings,
        behaviour: Option<Behaviour>,
    ) -> EngineFactory {
        let mut signer = self.signer(me, secrets);
        if behaviour == Some(Behaviour::CoinShareForger) {
            signer = Arc::new(FalseShares(signer));
        }
        let signer: Arc<dyn Signer> = Arc::new(Metered { keys: signer, cost: self.cost, meter: meter.clone() });
        let coin: Arc<dyn Coin> = Arc::new(Metered { keys: self.coin.clone(), cost: self.cost, meter: meter.clone() });
        let (config, committee, sightings) = (self.config.clone(), self.committee.clone(), sightings.clone());
        let random = Mutex::new(random);
        Box::new(move |records, resume: Resume, now: TimestampMs| {
            let setup = mahi_mahi::Setup {
                config: config.clone(),
                committee: committee.clone(),
                signer: Some(signer.clone()),
                coin: coin.clone(),
                seed: random.lock().unwrap_or_else(PoisonError::into_inner).draw(),
                records,
                resume,
                now,
            };
            let engine = mahi_mahi::MahiMahi::new(setup);
            let footprint = |engine: &mahi_mahi::MahiMahi| engine.footprint().into_iter().sum();
            Box::new(Watched { engine, footprint, inputs: 0, batch: Bytes::new(), sightings: sightings.clone() })
                as Box<dyn Engine>
        })
    }
}

/// The stateless half of an engine. See [`Engines::checker`].
pub struct Checker {
    verifier: Box<dyn Verifier>,
    count: Meter,
}

impl Checker {
    /// What the engine's verifier says, and the number of signatures it looked at.
    pub fn check(&self, from: ValidatorIndex, bytes: &Bytes) -> (Result<Verified, PeerFault>, u64) {
        self.count.take();
        let verdict = self.verifier.verify(from, bytes);
        (verdict, self.count.take().0)
    }
}

// ---- watching ----------------------------------------------------------------------------------------------------------

/// What one node's engine did since the last look.
#[derive(Clone, Default)]
pub struct Sightings {
    log: Arc<Mutex<Vec<Sighting>>>,
    footprint: Arc<AtomicUsize>,
}

/// How many inputs pass between two looks at how much an engine holds.
const INPUTS_BETWEEN_LOOKS: u32 = 1_024;

/// Something an engine did.
#[derive(Debug)]
pub enum Sighting {
    /// It proposed this batch, which is not empty.
    Proposed(Bytes),
    Ordered(Ordered),
}

impl Sightings {
    pub fn take(&self) -> Vec<Sighting> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many things the engine held when last looked at.
    pub fn footprint(&self) -> usize {
        self.footprint.load(Ordering::Relaxed)
    }

    fn add(&self, sighting: Sighting) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(sighting);
    }
}

/// An engine that is watched.
struct Watched<E> {
    engine: E,
    footprint: fn(&E) -> usize,
    inputs: u32,
    /// The last batch it was given.
    batch: Bytes,
    sightings: Sightings,
}

impl<E: Engine> Engine for Watched<E> {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.inputs = self.inputs.wrapping_add(1);
        if self.inputs.is_multiple_of(INPUTS_BETWEEN_LOOKS) {
            self.sightings.footprint.store((self.footprint)(&self.engine), Ordering::Relaxed);
        }
        if let Input::Batch(batch) = &input {
            self.batch = batch.bytes.clone();
        }
        self.engine.handle(now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        let output = self.engine.poll();
        match &output {
            Some(Output::Trace(TraceEvent::Proposed(vertex))) if vertex.batch_bytes > 0 => {
                self.sightings.add(Sighting::Proposed(std::mem::take(&mut self.batch)));
            }
            Some(Output::Deliver(ordered)) => self.sightings.add(Sighting::Ordered(ordered.clone())),
            _ => {}
        }
        output
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.engine.deadline()
    }
}

/// Signs its blocks, but its shares of the coin are not its own.
struct FalseShares(Arc<dyn Signer>);

impl Signer for FalseShares {
    fn index(&self) -> ValidatorIndex {
        self.0.index()
    }

    fn sign(&self, digest: &B256) -> Signature {
        self.0.sign(digest)
    }

    fn coin_share(&self, message: &[u8]) -> CoinShare {
        let mut share = self.0.coin_share(message);
        share[0] ^= 1;
        share
    }
}

// ---- keys --------------------------------------------------------------------------------------------------------------

/// Counts signature checks.
struct Counted {
    count: Meter,
    signatures: Arc<dyn Signatures>,
}

impl Signatures for Counted {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.count.charge(1);
        self.signatures.verify(author, digest, signature)
    }
}

impl Signer for Metered<dyn Signer> {
    fn index(&self) -> ValidatorIndex {
        self.keys.index()
    }

    fn sign(&self, digest: &B256) -> Signature {
        self.meter.charge(self.cost.sign_us);
        self.keys.sign(digest)
    }

    fn coin_share(&self, message: &[u8]) -> CoinShare {
        self.meter.charge(self.cost.share_us);
        self.keys.coin_share(message)
    }
}

impl Coin for Metered<dyn Coin> {
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, CoinShare)]) -> Option<CoinValue> {
        self.meter.charge(self.cost.combine_us);
        self.keys.combine(message, shares)
    }

    fn verify(&self, message: &[u8], value: &CoinValue) -> bool {
        self.meter.charge(self.cost.combine_us);
        self.keys.verify(message, value)
    }

    fn verify_share(&self, author: ValidatorIndex, message: &[u8], share: &CoinShare) -> bool {
        self.meter.charge(self.cost.combine_us);
        self.keys.verify_share(author, message, share)
    }
}
