//! Autobahn as the subject of scenarios.

use crate::accuser::Accuser;
use corniche_autobahn::{
    Autobahn, AutobahnVerifier, Config, Setup, Signatures, Signer,
    message::{Message, Position},
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures, committee_of};
use corniche_engine::{Committee, Verifier};
pub use corniche_testkit::texts;
use corniche_testkit::{Delivery, EngineDisk, EngineStart, Links, Micros, ScenarioCluster, ScenarioDisk, Sending, Subject};
use corniche_types::{Bytes, ValidatorIndex, wire};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// One message delay, ms.
pub const DELAY: u64 = 10;

/// One committee with its keys.
pub struct AutobahnSubject {
    config: Config,
    committee: Committee,
    signers: Vec<Arc<dyn Signer>>,
    signatures: Arc<dyn Signatures>,
    accuser: Accuser,
}

impl Subject for AutobahnSubject {
    type Engine = Autobahn;
    type Message = Message;
    const RESUBMITS: bool = false;

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&mut self, me: usize, start: EngineStart) -> Autobahn {
        let EngineStart { seed, records, unsigned, resume, now } = start;
        let (config, committee, signatures) = (self.config.clone(), self.committee.clone(), self.signatures.clone());
        let signer = Some(self.signers[me].clone());
        Autobahn::new(Setup { config, committee, signer, signatures, seed, records, unsigned, resume, now })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        let (config, committee, signatures) = (self.config.clone(), self.committee.clone(), self.signatures.clone());
        Arc::new(AutobahnVerifier::new(config, committee, signatures))
    }

    fn decode(message: &Bytes) -> Message {
        wire::decode(message).unwrap()
    }

    fn on_send(&mut self, sending: &Sending<'_>, message: &Message) -> Vec<(Vec<usize>, Bytes)> {
        self.accuser.check(sending.from, message);
        vec![(sending.to.to_vec(), sending.message.clone())]
    }
}

/// State of a validator that survives a power cut.
pub type Disk = ScenarioDisk<AutobahnSubject>;

/// A disk without records, of a validator that may have signed anything.
pub fn lost_disk() -> Disk {
    EngineDisk { may_have_signed: true, ..Disk::default() }
}

pub fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

/// The message never arrives.
pub const LOST: Delivery = Delivery::Hold(u64::MAX);

pub struct Cluster(ScenarioCluster<AutobahnSubject>);

/// Long timers, and no waiting for others: only the network determines the run.
pub fn plain() -> Config {
    Config {
        coverage: 1,
        car_interval_ms: 0,
        view_timeout_ms: 2_000,
        fast_wait_ms: 2 * DELAY,
        status_ms: 60_000,
        ..Config::default()
    }
}

impl Deref for Cluster {
    type Target = ScenarioCluster<AutobahnSubject>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Cluster {
    /// All validators run, and their first greetings are done.
    pub fn new(size: usize, config: Config) -> Self {
        let links = Links::uniform(size, Micros::from_millis(DELAY));
        let mut cluster = Self::on(links, config);
        cluster.simulation.start_all();
        cluster.run_for(5 * DELAY);
        cluster
    }

    /// All validators are powered off.
    pub fn on(links: Links, config: Config) -> Self {
        let votes = vec![1; links.size()];
        Self::with_votes(&votes, links, config)
    }

    /// All validators are powered off, and have these votes.
    pub fn with_votes(votes: &[u32], links: Links, config: Config) -> Self {
        let signers = (0..votes.len()).map(|node| Arc::new(FakeKeys(index(node))) as Arc<dyn Signer>).collect();
        Self::with_keys(links, config, committee_of(votes), signers, Arc::new(FakeSignatures))
    }

    /// All validators are powered off; the test chooses the keys. Nothing is known about what they signed.
    pub fn with_keys(
        links: Links,
        config: Config,
        committee: Committee,
        signers: Vec<Arc<dyn Signer>>,
        signatures: Arc<dyn Signatures>,
    ) -> Self {
        let size = committee.size();
        let accuser = Accuser::new(&committee);
        let subject = AutobahnSubject { config, committee, signers, signatures, accuser };
        let mut cluster = Self(ScenarioCluster::new(subject, links, 1));
        (0..size).for_each(|node| *cluster.disk(node) = lost_disk());
        cluster
    }

    pub fn position(&self, node: usize, lane: usize) -> [u64; 3] {
        self.engine(node).positions(index(lane)).map(|Position(position)| position)
    }

    /// Sends a message of a scripted validator, whose node is off.
    pub fn tell(&mut self, from: usize, to: usize, message: &Message) {
        self.receive(from, to, &message.encode());
    }

    /// Runs until all `nodes` delivered `text`, at most ten seconds. Returns the number of delays after `since`.
    pub fn delays_until(&mut self, since: Micros, text: &str, nodes: &[usize]) -> u64 {
        let lacking = |cluster: &ScenarioCluster<AutobahnSubject>| {
            nodes.iter().any(|node| cluster.seen(*node).delivered_at(text).is_none())
        };
        assert!(self.run_while(10_000, lacking), "{text} was not delivered");
        let last = nodes.iter().map(|node| self.seen(*node).delivered_at(text).unwrap()).max().unwrap();
        let took = (last - since).0;
        assert_eq!(took % (DELAY * 1_000), 0, "{took} µs are no whole delays");
        took / (DELAY * 1_000)
    }

    /// Checks safety: equal logs, as far as both go, and no rejection or accusation of a correct validator.
    pub fn check(&self) {
        let up: Vec<usize> = (0..self.size()).filter(|node| self.simulation.is_up(*node)).collect();
        self.assert_equal_logs(up.iter().copied());
        for node in up.into_iter().map(|node| self.seen(node)) {
            assert!(node.refused.is_empty() && node.accused.is_empty(), "{:?} {:?}", node.refused, node.accused);
        }
    }
}

/// Returns true for a message of the slots, not of the lanes.
pub fn is_about_slots(message: &Message) -> bool {
    matches!(
        message,
        Message::Prepare(_)
            | Message::PrepareVote { .. }
            | Message::Confirm(_)
            | Message::ConfirmAck(_)
            | Message::Commit(_)
            | Message::Timeout(_)
            | Message::TimeoutQc(_)
    )
}
