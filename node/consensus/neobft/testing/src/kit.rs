//! The engine with one committee and modelled keys.

use crate::{BadKeys, FakeKeys, FakeSignatures, ModelledGroup, NAME, committee, committee_of};
use corniche_aom_wire::Suite;
use corniche_engine::{Committee, Verifier, VertexId};
use corniche_neobft::{Config, Neobft, NeobftVerifier, Setup, Signer};
use corniche_testkit::{Forgery, Group, Kit, Measured, MeasuredEngine, Random, unequal_votes};
use corniche_types::{Bytes, ValidatorIndex};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// NeoBFT with one committee and modelled keys.
pub struct NeobftKit {
    pub config: Config,
    committee: Committee,
    suite: Suite,
}

impl NeobftKit {
    /// A committee of this size with short timers, so that short runs cover many views. Packets have tags.
    pub fn quick(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self::new(committee(size), quick_config(), Suite::SipHash64))
    }

    /// Like [`Self::quick`], with unequal votes.
    pub fn quick_weighted(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self::new(committee_of(&unequal_votes(size)), quick_config(), Suite::SipHash64))
    }

    /// Like [`Self::quick`], with signed packets.
    pub fn quick_signed(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self::new(committee(size), quick_config(), Suite::Ed25519))
    }

    /// Like [`Self::quick`], for a network that may equivocate.
    pub fn quick_byzantine(size: usize) -> Rc<dyn Kit> {
        let config = Config { byzantine_network: true, ..quick_config() };
        Rc::new(Self::new(committee(size), config, Suite::SipHash64))
    }

    pub fn new(committee: Committee, config: Config, suite: Suite) -> Self {
        Self { config, committee, suite }
    }
}

fn quick_config() -> Config {
    Config {
        reorder_ms: 40,
        max_buffered: 2_048,
        max_jump: 1_024,
        query_ms: 100,
        gap_ms: 800,
        request_ms: 300,
        aom_ms: 1_000,
        view_ms: 600,
        max_view_ms: 5_000,
        // Links of schedules lose much more than a network.
        max_drops: 1_000_000,
        sync_slots: 16,
        retain_slots: 200,
        open_slots: 512,
        ..Config::default()
    }
}

impl Kit for NeobftKit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&self, setup: corniche_testkit::Setup) -> Box<dyn Measured> {
        let corniche_testkit::Setup { me, seed: _, records, unsigned, resume, now, forgery } = setup;
        let signer: Arc<dyn Signer> = match forgery {
            Some(Forgery::Share) => Arc::new(BadKeys(me)),
            _ => Arc::new(FakeKeys(me)),
        };
        let (config, committee, signatures) = (self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures));
        let setup = Setup { config, committee, signer, signatures, records, unsigned, resume, now };
        Box::new(MeasuredEngine { engine: Neobft::new(setup), footprint: Neobft::footprint, describe: Neobft::describe })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(NeobftVerifier::new(self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures)))
    }

    /// Authors send their requests to the group; no message between members publishes one.
    fn published_proposal(&self, _: &Bytes) -> Option<VertexId> {
        None
    }

    fn recorded_proposal(&self, _: &Bytes) -> Option<VertexId> {
        None
    }

    fn forge(&self, _: ValidatorIndex, _: Forgery, _: &Bytes, _: &mut Random) -> Option<Bytes> {
        None
    }

    fn max_lag(&self) -> u64 {
        self.config.retain_slots
    }

    fn max_footprint(&self) -> usize {
        self.config.max_footprint(self.committee.size())
    }

    fn group(&self) -> Option<Rc<RefCell<dyn Group>>> {
        Some(Rc::new(RefCell::new(ModelledGroup::new(&self.committee, &self.config, self.suite))))
    }
}
