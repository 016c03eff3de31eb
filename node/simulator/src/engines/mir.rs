//! Mir-BFT in the simulator.

use super::{
    Builder, Charge, EngineNetwork, MEMBERS_ONLY, MeasuredEngine, Start, Tune,
    digest_keys::{signatures, signer},
};
use crate::{crypto::Metered, genesis::Secrets, scenario::Behaviour};
use corniche_engine::{Committee, Verified, Verifier, VertexId};
use corniche_mir::{Config, Mir, MirVerifier, Setup, Signer, crypto::Protocol, message::Message, verify::Checked};
use corniche_pipeline::EngineStart;
use corniche_types::Genesis;
use std::sync::Arc;

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

impl EngineNetwork for Network {
    fn max_held(&self) -> usize {
        self.config.max_footprint(self.nodes)
    }

    fn peek(&self, message: &Verified) -> Option<VertexId> {
        let Checked { message: Message::PrePrepare { proposal, .. }, digest } = message.0.downcast_ref()? else { return None };
        Some(VertexId { round: proposal.sn.0, author: proposal.author, digest: *digest })
    }

    fn verifier(&self, committee: &Committee, Charge { cost, meter }: Charge) -> Box<dyn Verifier> {
        let signatures = Metered { cost, meter, keys: signatures::<Protocol>(self.is_modelled, committee) };
        Box::new(MirVerifier::new(self.config.clone(), committee.clone(), Arc::new(signatures)))
    }

    fn builder(&self, node: usize, secrets: &Secrets, charge: Charge, _: Option<Behaviour>) -> Builder {
        let (config, secrets) = (self.config.clone(), secrets.clone());
        let Charge { cost, meter } = charge;
        Box::new(move |Start { start, .. }| {
            let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
            let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
            let keys = signer::<Protocol>(node, &secrets, &committee).expect(MEMBERS_ONLY);
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
