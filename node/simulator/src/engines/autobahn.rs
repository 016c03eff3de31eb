//! Autobahn in the simulator.

use super::{Builder, Charge, EngineNetwork, MEMBERS_ONLY, MeasuredEngine, Start, Tune};
use crate::{
    crypto::{Modelled, ModelledShares},
    genesis::Secrets,
    scenario::{Behaviour, Cost},
};
use corniche_autobahn::{
    Authored, Autobahn, AutobahnVerifier, Config, Setup, Share, Signature, Signatures, Signer, crypto,
    message::Statement,
    message::{Context, Message},
    verify::Checked,
};
use corniche_engine::{Committee, Unsigned, Verified, Verifier, VertexId};
use corniche_pipeline::EngineStart;
use corniche_types::{B256, Bytes, Genesis, ValidatorIndex, wire};
use std::sync::Arc;

const MADE_HERE: &str = "invariant: the genesis was made here, from these keys";

pub struct Network {
    config: Config,
    committee: Committee,
    nodes: usize,
    is_modelled: bool,
}

impl Network {
    pub fn new(genesis: &Genesis, secrets: &Secrets, tune: Option<Tune>) -> Result<Self, String> {
        let mut config = Config::from_genesis(genesis)?;
        if let Some(Tune::Autobahn(tune)) = tune {
            tune(&mut config);
        }
        let committee = Committee::from_genesis(genesis);
        Ok(Self { config, committee, nodes: secrets.names.count(), is_modelled: secrets.shares.is_none() })
    }
}

fn signatures(is_modelled: bool, config: &Config, committee: &Committee) -> Arc<dyn Signatures> {
    match (is_modelled, config.bls) {
        (true, _) => Arc::new(modelled(config, committee, ValidatorIndex(0))),
        (false, true) => Arc::new(crypto::BlsCertificates::new(committee).expect(MADE_HERE)),
        (false, false) => Arc::new(crypto::Ed25519Certificates::new(committee).expect(MADE_HERE)),
    }
}

/// Signer of a node; `None` if it is no member.
fn signer(node: usize, secrets: &Secrets, config: &Config, committee: &Committee) -> Option<Arc<dyn Signer>> {
    let index = secrets.names.index(committee, node)?;
    if secrets.shares.is_none() {
        return Some(Arc::new(modelled(config, committee, index)));
    }
    let set = secrets.key_set(committee, node);
    let bls = config.bls.then(|| secrets.bls_key(node, set));
    let signer = crypto::ValidatorKeys::new(committee, secrets.consensus_key(node, set), bls);
    Some(Arc::new(signer.expect(MADE_HERE)))
}

fn modelled(config: &Config, committee: &Committee, me: ValidatorIndex) -> ModelledShares {
    ModelledShares { keys: Modelled::new(committee, me), bls: config.bls }
}

impl EngineNetwork for Network {
    fn max_held(&self) -> usize {
        self.config.max_footprint(self.nodes)
    }

    fn peek(&self, message: &Verified) -> Option<VertexId> {
        let Checked::Car(car) = message.0.downcast_ref()? else { return None };
        Some(car.tip().into())
    }

    fn verifier(&self, committee: &Committee, charge: Charge) -> Box<dyn Verifier> {
        let signatures = Metered { bls: self.config.bls, charge, keys: signatures(self.is_modelled, &self.config, committee) };
        Box::new(AutobahnVerifier::new(self.config.clone(), committee.clone(), Arc::new(signatures)))
    }

    fn forge_parent(&self, secrets: &Secrets, node: usize, bytes: &Bytes, random: u64) -> Option<Bytes> {
        let Ok(Message::Car(mut car)) = wire::decode::<Message>(bytes) else { return None };
        car.car.parent = corniche_crypto::digest(&random.to_le_bytes());
        let signer = signer(node, secrets, &self.config, &self.committee)?;
        car.signature = Context::new(&self.committee).sign_car(&car.car, &*signer)?;
        Some(Message::Car(car).encode())
    }

    fn builder(&self, node: usize, secrets: &Secrets, charge: Charge, behaviour: Option<Behaviour>) -> Builder {
        let (config, is_modelled, secrets) = (self.config.clone(), self.is_modelled, secrets.clone());
        Box::new(move |Start { seed, start }| {
            let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
            let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
            let (bls, charge) = (config.bls, charge.clone());
            let mut keys = signer(node, &secrets, &config, &committee).expect(MEMBERS_ONLY);
            if behaviour == Some(Behaviour::CoinShareForger) {
                keys = Arc::new(FalseShares(keys));
            }
            let signer: Option<Arc<dyn Signer>> = Some(Arc::new(Metered { bls, charge: charge.clone(), keys }));
            let keys = signatures(is_modelled, &config, &committee);
            let signatures: Arc<dyn Signatures> = Arc::new(Metered { bls, charge, keys });
            Box::new(Autobahn::new(Setup { config, committee, signer, signatures, seed, records, unsigned, resume, now }))
        })
    }
}

impl MeasuredEngine for Autobahn {
    fn footprint(&self) -> usize {
        Autobahn::footprint(self).into_iter().sum()
    }
}

/// Signs its cars and proposals correctly, but sends false shares.
struct FalseShares(Arc<dyn Signer>);

impl Signer for FalseShares {
    fn index(&self) -> ValidatorIndex {
        self.0.index()
    }

    fn sign(&self, authored: &Authored, digest: &B256) -> Option<Signature> {
        self.0.sign(authored, digest)
    }

    fn share(&self, statement: &Statement, digest: &B256) -> Result<Share, Unsigned> {
        let mut share = self.0.share(statement, digest)?.to_vec();
        share[0] ^= 1;
        Ok(share.into())
    }
}

/// Keys whose operations cost as much as in the scenario.
struct Metered<K: ?Sized> {
    bls: bool,
    charge: Charge,
    keys: Arc<K>,
}

impl Signer for Metered<dyn Signer> {
    fn index(&self) -> ValidatorIndex {
        self.keys.index()
    }

    fn sign(&self, authored: &Authored, digest: &B256) -> Option<Signature> {
        self.charge.meter.signed(self.charge.cost.sign_us);
        self.keys.sign(authored, digest)
    }

    fn share(&self, statement: &Statement, digest: &B256) -> Result<Share, Unsigned> {
        let Cost { sign_us, share_us, .. } = self.charge.cost;
        self.charge.meter.signed(if self.bls { share_us } else { sign_us });
        self.keys.share(statement, digest)
    }
}

impl Signatures for Metered<dyn Signatures> {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.charge.meter.checked(1, self.charge.cost.verify_us);
        self.keys.verify(author, digest, signature)
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool {
        let Cost { verify_us, combine_us, .. } = self.charge.cost;
        self.charge.meter.checked(1, if self.bls { combine_us } else { verify_us });
        self.keys.verify_share(signer, digest, share)
    }

    /// The cost of adding is negligible compared with checking.
    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
        self.keys.combine(shares)
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        let Cost { verify_us, combine_us, .. } = self.charge.cost;
        let signatures = signed.len() as u64;
        match self.bls {
            true => self.charge.meter.checked(1, combine_us),
            false => self.charge.meter.checked(signatures, verify_us * signatures),
        }
        self.keys.verify_seal(signed, seal)
    }
}
