//! QuePaxa, SADL-RACS and Baxos in the simulator. They sign nothing, so nothing is charged.

use super::{Builder, Charge, EngineNetwork, MEMBERS_ONLY, MeasuredEngine, Start, Tune};
use crate::{genesis::Secrets, scenario::Behaviour};
use corniche_engine::{Committee, Verified, Verifier, VertexId};
use corniche_pipeline::EngineStart;
use corniche_types::{B256, Genesis};

/// A module with the network of one engine. The crates have the same names for their types; `seed` is there if the engine draws random
/// numbers. `peek` returns the proposal in a message: an attack on it delays slots.
macro_rules! engine {
    ($module:ident, $engine:ident::$type:ident, $verifier:ident $(, $seed:ident)?; $peek:expr) => {
        pub mod $module {
            use super::*;
            use $engine::{$type, Config, Setup, message::Message, verify::Checked};

            pub struct Network {
                config: Config,
                nodes: usize,
            }

            impl Network {
                pub fn new(genesis: &Genesis, secrets: &Secrets, tune: Option<Tune>) -> Result<Self, String> {
                    let mut config = Config::from_genesis(genesis)?;
                    if let Some(Tune::$type(tune)) = tune {
                        tune(&mut config);
                    }
                    Ok(Self { config, nodes: secrets.names.count() })
                }
            }

            impl EngineNetwork for Network {
                fn max_held(&self) -> usize {
                    self.config.max_footprint(self.nodes)
                }

                fn peek(&self, message: &Verified) -> Option<VertexId> {
                    let peek: fn(&Message) -> Option<VertexId> = $peek;
                    peek(&message.0.downcast_ref::<Checked>()?.0)
                }

                fn verifier(&self, committee: &Committee, _: Charge) -> Box<dyn Verifier> {
                    Box::new($engine::$verifier::new(self.config.clone(), committee.clone()))
                }

                fn builder(&self, node: usize, secrets: &Secrets, _: Charge, _: Option<Behaviour>) -> Builder {
                    let (config, names) = (self.config.clone(), secrets.names.clone());
                    Box::new(move |Start { seed: _seed, start }| {
                        let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
                        let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
                        let me = names.index(&committee, node).expect(MEMBERS_ONLY);
                        $(let $seed = _seed;)?
                        Box::new($type::new(Setup { config, committee, me, $($seed,)? records, unsigned, resume, now }))
                    })
                }
            }

            impl MeasuredEngine for $type {
                fn footprint(&self) -> usize {
                    $type::footprint(self)
                }
            }
        }
    };
}

engine!(quepaxa, corniche_quepaxa::QuePaxa, QuePaxaVerifier, seed; |message| {
    let Message::Record { request, proposal } = message else { return None };
    Some(VertexId { round: request.slot.0, author: proposal.proposer, digest: B256::ZERO })
});

engine!(racs, corniche_racs::Racs, RacsVerifier; |message| {
    let Message::Propose { block, .. } = message else { return None };
    Some(VertexId { round: block.rank.round.0, author: block.proposer, digest: B256::ZERO })
});

engine!(baxos, corniche_baxos::Baxos, BaxosVerifier, seed; |message| {
    let Message::Propose { request, value, .. } = message else { return None };
    Some(VertexId { round: request.slot.0, author: value.proposer, digest: B256::ZERO })
});
