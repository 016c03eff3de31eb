//! The engine with one committee and modelled keys.

use crate::{
    BadKeys, FakeKeys, FakeSignatures, NAME, committee, committee_of,
    doubles::{self, ByzantineCoalition, ConductChecker},
};
use corniche_engine::{Committee, Verifier, VertexId};
use corniche_mir::{
    Config, Mir, MirVerifier, Setup, Signer,
    message::{Context, EpochNumber, Message, Proposal, Statement},
    record::Record,
};
use corniche_testkit::{Coalition, Forgery, Kit, Measured, MeasuredEngine, MessageChecker, Random, unequal_votes};
use corniche_types::{B256, Bytes, ValidatorIndex, wire};
use std::{collections::BTreeMap, rc::Rc, sync::Arc};

/// Mir-BFT with one committee and modelled keys.
pub struct MirKit {
    pub config: Config,
    committee: Committee,
}

impl MirKit {
    /// A committee of this size with short timers and epochs, so that short runs cover many epochs. All have one vote.
    pub fn quick(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self::new(committee(size), Self::quick_config()))
    }

    /// Like [`Self::quick`], with unequal votes.
    pub fn quick_weighted(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self::new(committee_of(&unequal_votes(size)), Self::quick_config()))
    }

    pub fn new(committee: Committee, config: Config) -> Self {
        Self { config, committee }
    }

    pub fn quick_config() -> Config {
        Config {
            batch_interval_ms: 5,
            idle_ms: 150,
            epoch_length: 12,
            checkpoint_interval: 8,
            window: 24,
            timeout_ms: 500,
            max_timeout_ms: 4_000,
            resend_ms: 100,
            retain: 120,
            ..Config::default()
        }
    }

    fn vertex(&self, epoch: EpochNumber, proposal: &Proposal) -> VertexId {
        // A leader may propose for one number again in a later epoch.
        let round = epoch.0 << 32 | proposal.sn.0;
        VertexId { round, author: proposal.author, digest: Context::new(&self.committee).proposal(proposal) }
    }
}

impl Kit for MirKit {
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
        let (config, committee) = (self.config.clone(), self.committee.clone());
        let setup = Setup { config, committee, signer, records, unsigned, resume, now };
        Box::new(MeasuredEngine { engine: Mir::new(setup), footprint: Mir::footprint, describe: Mir::describe })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(MirVerifier::new(self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures)))
    }

    fn published_proposal(&self, message: &Bytes) -> Option<VertexId> {
        match wire::decode(message) {
            Ok(Message::PrePrepare { epoch, proposal, .. }) => Some(self.vertex(epoch, &proposal)),
            _ => None,
        }
    }

    fn recorded_proposal(&self, record: &Bytes) -> Option<VertexId> {
        match wire::decode(record) {
            Ok(Record::Accepted { epoch, proposal: Some(proposal), .. }) => Some(self.vertex(epoch, &proposal)),
            _ => None,
        }
    }

    /// A PRE-PREPARE for another number, which its sender may not lead, or with another batch.
    fn forge(&self, author: ValidatorIndex, forgery: Forgery, message: &Bytes, random: &mut Random) -> Option<Bytes> {
        let Ok(Message::PrePrepare { epoch, mut proposal, .. }) = wire::decode(message) else { return None };
        if forgery != Forgery::Parents {
            return None;
        }
        if random.one_in(2) {
            proposal.sn.0 += random.between(1, 3);
        } else {
            proposal.batch = B256::from([random.draw() as u8; 32]).to_vec().into();
        }
        let digest = Context::new(&self.committee).proposal(&proposal);
        let statement = Statement::Prepare { epoch, sn: proposal.sn, digest };
        let signature = FakeKeys(author).sign_digest(&Context::new(&self.committee).digest(&statement));
        Some(Message::PrePrepare { epoch, proposal, signature }.encode())
    }

    fn max_lag(&self) -> u64 {
        self.config.retain
    }

    fn max_footprint(&self) -> usize {
        self.config.max_footprint(self.committee.size())
    }

    fn engine_doubles(&self) -> &'static [&'static str] {
        &doubles::NAMES
    }

    fn coalition(&self, members: &BTreeMap<usize, &'static str>) -> Option<Box<dyn Coalition>> {
        Some(Box::new(ByzantineCoalition::new(self.config.clone(), self.committee.clone(), members)))
    }

    fn message_checker(&self) -> Option<Box<dyn MessageChecker>> {
        Some(Box::new(ConductChecker::new(&self.committee)))
    }

    /// Changes parameters in half of the cases.
    fn with_random_parameters(&self, random: &mut Random, _: bool) -> Option<Rc<dyn Kit>> {
        if random.one_in(2) {
            return None;
        }
        let (checkpoint_interval, timeout_ms) = (random.between(1, 12), random.between(4, 12) * 100);
        let config = Config {
            batch_interval_ms: random.between(1, 20),
            max_stretch: random.between(1, 3),
            fill_ms: random.between(0, 10),
            idle_ms: random.between(60, timeout_ms / 3),
            open_batches: random.between(1, 4),
            epoch_length: random.between(1, 30),
            checkpoint_interval,
            window: random.between(2 * checkpoint_interval, 48),
            timeout_ms,
            ..self.config.clone()
        };
        Some(Rc::new(Self::new(self.committee.clone(), config)))
    }
}
