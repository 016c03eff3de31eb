//! Mir-BFT in the simulator.

use super::{Builder, Charge, EngineNetwork, MEMBERS_ONLY, MeasuredEngine, Start, Tune};
use crate::{
    crypto::{Metered, Modelled},
    genesis::Secrets,
    scenario::Behaviour,
};
use corniche_engine::{Committee, Verified, Verifier, VertexId};
use corniche_mir::{
    Config, Mir, MirVerifier, Setup, Signature, Signatures, Signer, crypto,
    message::{Message, Statement},
    verify::Checked,
};
use corniche_pipeline::EngineStart;
use corniche_types::{B256, Genesis, ValidatorIndex};
use std::sync::Arc;

const MADE_HERE: &str = "invariant: the genesis was made here, from these keys";

pub struct Network {
    config: Config,
    nodes: usize,
    is_modelled: bool,
}

impl Network {
    pub fn new(genesis: &Genesis, secrets: &Secrets, tune: Option<Tune>) -> Result<Self, String> {
        let mut config = Config::from_genesis(genesis)?;
        if let Some(Tune::Mir(tune)) = tune {
            tune(&mut config);
        }
        Ok(Self { config, nodes: secrets.names.count(), is_modelled: secrets.shares.is_none() })
    }
}

fn signatures(is_modelled: bool, committee: &Committee) -> Arc<dyn Signatures> {
    if is_modelled {
        return Arc::new(Modelled::new(committee, ValidatorIndex(0)));
    }
    Arc::new(crypto::CommitteeKeys::new(committee).expect(MADE_HERE))
}

/// Signer of a node; `None` if it is no member.
fn signer(node: usize, secrets: &Secrets, committee: &Committee) -> Option<Arc<dyn Signer>> {
    let index = secrets.names.index(committee, node)?;
    if secrets.shares.is_none() {
        return Some(Arc::new(Modelled::new(committee, index)));
    }
    let keys = secrets.consensus_key(node, secrets.key_set(committee, node));
    Some(Arc::new(crypto::ValidatorKeys::new(committee, keys).expect(MADE_HERE)))
}

impl EngineNetwork for Network {
    fn max_held(&self) -> usize {
        self.config.max_footprint(self.nodes)
    }

    fn peek(&self, message: &Verified) -> Option<VertexId> {
        let Checked { message: Message::PrePrepare { proposal, .. }, digest } = message.0.downcast_ref()? else { return None };
        Some(VertexId { round: proposal.sn.0, author: proposal.author, digest: *digest })
    }

    fn verifier(&self, committee: &Committee, Charge { cost, meter }: Charge) -> Box<dyn Verifier> {
        let signatures = Metered { cost, meter, keys: signatures(self.is_modelled, committee) };
        Box::new(MirVerifier::new(self.config.clone(), committee.clone(), Arc::new(signatures)))
    }

    fn builder(&self, node: usize, secrets: &Secrets, charge: Charge, _: Option<Behaviour>) -> Builder {
        let (config, secrets) = (self.config.clone(), secrets.clone());
        let Charge { cost, meter } = charge;
        Box::new(move |Start { start, .. }| {
            let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
            let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
            let keys = signer(node, &secrets, &committee).expect(MEMBERS_ONLY);
            let signer: Arc<dyn Signer> = Arc::new(Metered { keys, cost, meter: meter.clone() });
            Box::new(Mir::new(Setup { config, committee, signer, records, unsigned, resume, now }))
        })
    }
}

impl MeasuredEngine for Mir {
    fn footprint(&self) -> usize {
        Mir::footprint(self)
    }
}

impl Signer for Metered<dyn Signer> {
    fn index(&self) -> ValidatorIndex {
        self.keys.index()
    }

    fn sign(&self, statement: &Statement, digest: &B256) -> Option<Signature> {
        self.meter.signed(self.cost.sign_us);
        self.keys.sign(statement, digest)
    }
}

impl Signatures for Metered<dyn Signatures> {
    fn verify(&self, signer: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.meter.checked(1, self.cost.verify_us);
        self.keys.verify(signer, digest, signature)
    }
}
