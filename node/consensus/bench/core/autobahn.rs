//! Autobahn as a benchmark subject.

use crate::{
    Backlog,
    recording::{BenchTarget, index},
};
use corniche_autobahn::{
    Authored, Autobahn, AutobahnVerifier, Config, Setup, Share, Signature, Signatures, Signer,
    crypto::{BlsCertificates, Ed25519Certificates, ValidatorKeys},
    message::Statement,
    message::{Message, Position, SignedCar},
};
use corniche_crypto::{BlsSecretKey, ConsensusKey};
use corniche_engine::{Committee, Engine, Resume, Unsigned, Verifier};
use corniche_testkit::Micros;
use corniche_types::{Address, B256, Bytes, ValidatorIndex, ValidatorInfo, wire};
use std::sync::Arc;

/// View timeout, ms; no view ends by its timer.
const NEVER_MS: u64 = 3_600_000;

pub struct AutobahnBench {
    config: Config,
    keys: Keys,
    backlog: Option<Backlog>,
}

/// Cryptography of certificates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CertificateKind {
    /// Modelled and free of cost; size as for lists.
    Modelled,
    /// Lists of ed25519 signatures.
    Ed25519Certificates,
    /// Sums of BLS signatures.
    BlsCertificates,
}

struct Keys {
    committee: Committee,
    signers: Vec<Arc<dyn Signer>>,
    signatures: Arc<dyn Signatures>,
}

impl AutobahnBench {
    /// `retained`: number of slots to keep.
    pub fn new(size: usize, retained: u64, kind: CertificateKind, backlog: Option<Backlog>) -> Self {
        let config = Config {
            retain_slots: retained,
            car_interval_ms: 0,
            view_timeout_ms: NEVER_MS,
            max_view_timeout_ms: NEVER_MS,
            bls: kind == CertificateKind::BlsCertificates,
            ..Config::default()
        };
        let keys = if kind == CertificateKind::Modelled { modelled_keys(size) } else { real_keys(size, config.bls) };
        Self { config, keys, backlog }
    }
}

impl BenchTarget for AutobahnBench {
    fn name(&self) -> &'static str {
        "autobahn"
    }

    fn size(&self) -> usize {
        self.keys.committee.size()
    }

    fn start(&self, me: ValidatorIndex) -> Box<dyn Engine> {
        Box::new(Autobahn::new(Setup {
            config: self.config.clone(),
            committee: self.keys.committee.clone(),
            signer: Some(self.keys.signers[me.as_usize()].clone()),
            signatures: self.keys.signatures.clone(),
            seed: 1,
            records: Vec::new(),
            unsigned: false,
            resume: Resume::default(),
            now: Micros::START.timestamp(),
        }))
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        let Keys { committee, signatures, .. } = &self.keys;
        Arc::new(AutobahnVerifier::new(self.config.clone(), committee.clone(), signatures.clone()))
    }

    /// Withholds slots from all validators; or one car of lane 1 from validator 0, so that it cannot execute anything
    /// after it.
    fn withholds(&self, to: usize, message: &Bytes) -> bool {
        let is_it = |car: &SignedCar| car.car.lane == ValidatorIndex(1) && car.car.position == Position(3);
        match (self.backlog, wire::decode(message)) {
            (Some(Backlog::All), Ok(message)) => matches!(
                message,
                Message::Prepare(_)
                    | Message::PrepareVote { .. }
                    | Message::Confirm(_)
                    | Message::ConfirmAck(_)
                    | Message::Commit(_)
            ),
            (Some(Backlog::One), Ok(Message::Car(car))) => to == 0 && is_it(&car),
            (Some(Backlog::One), Ok(Message::Cars { cars, .. })) => to == 0 && cars.iter().any(is_it),
            _ => false,
        }
    }

    fn release(&self, _: u64) -> Vec<Bytes> {
        Vec::new()
    }
}

fn real_keys(size: usize, bls: bool) -> Keys {
    let seed = |position: usize, kind: u8| [u8::try_from(position).unwrap() * 2 + kind + 1; 32];
    let secrets = |position| (ConsensusKey::from_seed(seed(position, 0)), BlsSecretKey::from_seed(seed(position, 1)));
    let validator = |(consensus, bls): (ConsensusKey, BlsSecretKey)| ValidatorInfo {
        consensus_key: consensus.public(),
        bls_key: bls.public().to_bytes().to_vec().into(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
        votes: corniche_types::Votes(1),
        stake: None,
    };
    let committee =
        Committee::from_genesis(&corniche_testkit::genesis("autobahn", (0..size).map(secrets).map(validator).collect()));
    let signer = |(consensus, share): (ConsensusKey, BlsSecretKey)| {
        Arc::new(ValidatorKeys::new(&committee, consensus, bls.then_some(share)).unwrap()) as Arc<dyn Signer>
    };
    let signers = (0..size).map(secrets).map(signer).collect();
    let signatures: Arc<dyn Signatures> = if bls {
        Arc::new(BlsCertificates::new(&committee).unwrap())
    } else {
        Arc::new(Ed25519Certificates::new(&committee).unwrap())
    };
    Keys { committee, signers, signatures }
}

/// Keys of negligible cost, so that the measured cost is the engine's own.
fn modelled_keys(size: usize) -> Keys {
    let signer = |position| Arc::new(Modelled(index(position))) as Arc<dyn Signer>;
    let signers = (0..size).map(signer).collect();
    Keys { committee: corniche_autobahn_testing::committee(size), signers, signatures: Arc::new(Modelled(index(0))) }
}

struct Modelled(ValidatorIndex);

impl Signer for Modelled {
    fn index(&self) -> ValidatorIndex {
        self.0
    }
    fn sign(&self, _: &Authored, _: &B256) -> Option<Signature> {
        Some([1; 64])
    }
    fn share(&self, _: &Statement, _: &B256) -> Result<Share, Unsigned> {
        Ok(Bytes::from_static(&[2; 64]))
    }
}

impl Signatures for Modelled {
    fn verify(&self, _: ValidatorIndex, _: &B256, _: &Signature) -> bool {
        true
    }
    fn verify_share(&self, _: ValidatorIndex, _: &B256, _: &Share) -> bool {
        true
    }
    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
        Some(vec![2; 64 * shares.len()].into())
    }
    fn verify_seal(&self, _: &[(ValidatorIndex, B256)], _: &Bytes) -> bool {
        true
    }
}
