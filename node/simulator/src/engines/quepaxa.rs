//! QuePaxa in the simulator. It signs nothing, so nothing is charged.

use super::{Builder, Charge, EngineNetwork, MEMBERS_ONLY, MeasuredEngine, Start, Tune};
use crate::{genesis::Secrets, scenario::Behaviour};
use corniche_engine::{Committee, Verified, Verifier, VertexId};
use corniche_pipeline::EngineStart;
use corniche_quepaxa::{
    Config, QuePaxa, QuePaxaVerifier, Setup,
    message::{Context, Message},
    verify::Checked,
};
use corniche_types::Genesis;

pub struct Network {
    config: Config,
    context: Context,
    nodes: usize,
}

impl Network {
    pub fn new(genesis: &Genesis, secrets: &Secrets, tune: Option<Tune>) -> Result<Self, String> {
        let mut config = Config::from_genesis(genesis)?;
        if let Some(Tune::QuePaxa(tune)) = tune {
            tune(&mut config);
        }
        Ok(Self { config, context: Context::new(&Committee::from_genesis(genesis)), nodes: secrets.names.count() })
    }
}

impl EngineNetwork for Network {
    fn max_held(&self) -> usize {
        self.config.max_footprint(self.nodes)
    }

    /// Requests of proposers: an attack on them delays slots.
    fn peek(&self, message: &Verified) -> Option<VertexId> {
        let Message::Record { request, proposal } = &message.0.downcast_ref::<Checked>()?.0 else { return None };
        let digest = self.context.value(request.slot, &proposal.value);
        Some(VertexId { round: request.slot.0, author: proposal.proposer, digest })
    }

    fn verifier(&self, committee: &Committee, _: Charge) -> Box<dyn Verifier> {
        Box::new(QuePaxaVerifier::new(self.config.clone(), committee.clone()))
    }

    fn builder(&self, node: usize, secrets: &Secrets, _: Charge, _: Option<Behaviour>) -> Builder {
        let (config, names) = (self.config.clone(), secrets.names.clone());
        Box::new(move |Start { seed, start }| {
            let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
            let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
            let me = names.index(&committee, node).expect(MEMBERS_ONLY);
            Box::new(QuePaxa::new(Setup { config, committee, me, seed, records, unsigned, resume, now }))
        })
    }
}

impl MeasuredEngine for QuePaxa {
    fn footprint(&self) -> usize {
        QuePaxa::footprint(self)
    }
}
