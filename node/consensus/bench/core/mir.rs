//! Mir-BFT as a benchmark subject.

use crate::recording::{BenchTarget, index};
use corniche_crypto::ConsensusKey;
use corniche_engine::{Committee, Engine, Resume, Verifier};
use corniche_mir::{
    Config, Mir, MirVerifier, Setup, Signature, Signatures, Signer,
    crypto::{CommitteeKeys, ValidatorKeys},
    message::Statement,
};
use corniche_testkit::Micros;
use corniche_types::{Address, B256, Bytes, ValidatorIndex, ValidatorInfo, Votes};
use std::sync::Arc;

/// Timeout, ms; no epoch ends by its timer.
const NEVER_MS: u64 = 3_600_000;

pub struct MirBench {
    config: Config,
    committee: Committee,
    signers: Vec<Arc<dyn Signer>>,
    signatures: Arc<dyn Signatures>,
}

impl MirBench {
    /// `retained`: number of batches of each validator to keep.
    pub fn new(size: usize, retained: u64, real: bool) -> Self {
        let window = 64.max(4 * size as u64);
        let config = Config {
            batch_interval_ms: 1,
            max_stretch: 1,
            checkpoint_interval: window / 4,
            window,
            retain: (2 * window).max(retained * size as u64),
            timeout_ms: NEVER_MS,
            max_timeout_ms: NEVER_MS,
            ..Config::default()
        };
        let (committee, signers, signatures) = if real { real_keys(size) } else { modelled_keys(size) };
        Self { config, committee, signers, signatures }
    }
}

impl BenchTarget for MirBench {
    fn name(&self) -> &'static str {
        "mir"
    }

    fn size(&self) -> usize {
        self.committee.size()
    }

    fn start(&self, me: ValidatorIndex) -> Box<dyn Engine> {
        Box::new(Mir::new(Setup {
            config: self.config.clone(),
            committee: self.committee.clone(),
            signer: self.signers[me.as_usize()].clone(),
            records: Vec::new(),
            unsigned: true,
            resume: Resume::default(),
            now: Micros::START.timestamp(),
        }))
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(MirVerifier::new(self.config.clone(), self.committee.clone(), self.signatures.clone()))
    }

    fn withholds(&self, _: usize, _: &Bytes) -> bool {
        false
    }

    fn release(&self, _: u64) -> Vec<Bytes> {
        Vec::new()
    }
}

type Keys = (Committee, Vec<Arc<dyn Signer>>, Arc<dyn Signatures>);

fn real_keys(size: usize) -> Keys {
    let secret = |position: usize| ConsensusKey::from_seed([u8::try_from(position).unwrap() + 1; 32]);
    let validator = |position| ValidatorInfo {
        consensus_key: secret(position).public(),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
        votes: Votes(1),
        stake: None,
    };
    let committee = Committee::from_genesis(&corniche_testkit::genesis("mir", (0..size).map(validator).collect()));
    let signer = |position| Arc::new(ValidatorKeys::new(&committee, secret(position)).unwrap()) as Arc<dyn Signer>;
    let signers = (0..size).map(signer).collect();
    let signatures = Arc::new(CommitteeKeys::new(&committee).unwrap());
    (committee, signers, signatures)
}

/// Keys of negligible cost, so that the measured cost is the engine's own.
fn modelled_keys(size: usize) -> Keys {
    let signer = |position| Arc::new(Modelled(index(position))) as Arc<dyn Signer>;
    (corniche_mir_testing::committee(size), (0..size).map(signer).collect(), Arc::new(Modelled(index(0))))
}

struct Modelled(ValidatorIndex);

impl Signer for Modelled {
    fn index(&self) -> ValidatorIndex {
        self.0
    }
    fn sign(&self, _: &Statement, _: &B256) -> Option<Signature> {
        Some([1; 64])
    }
}

impl Signatures for Modelled {
    fn verify(&self, _: ValidatorIndex, _: &B256, _: &Signature) -> bool {
        true
    }
}
