//! Mir-BFT as the subject of scenarios.

use corniche_engine::{Committee, Verifier};
use corniche_mir::{
    Config, Mir, MirVerifier, Setup, Signature, Signer,
    message::{
        CheckpointCertificate, Context, EpochCertificate, EpochConfig, EpochNumber, Message, Proposal, Sn, Statement, Status,
    },
};
use corniche_mir_testing::{FakeKeys, FakeSignatures, committee};
use corniche_testkit::{Delivery, EngineStart, Links, Micros, ScenarioCluster, Subject};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// One message delay, ms.
pub const DELAY: u64 = 10;
/// The message never arrives.
pub const LOST: Delivery = Delivery::Hold(u64::MAX);
pub const EPOCH: EpochNumber = EpochNumber(0);

pub struct MirSubject {
    config: Config,
    committee: Committee,
    /// True while no signer signs.
    no_signers: Arc<AtomicBool>,
}

/// A signer that may be unavailable.
struct Keys(FakeKeys, Arc<AtomicBool>);

impl Signer for Keys {
    fn index(&self) -> ValidatorIndex {
        self.0.index()
    }

    fn sign(&self, statement: &Statement, digest: &B256) -> Option<Signature> {
        if self.1.load(Ordering::Relaxed) { None } else { self.0.sign(statement, digest) }
    }
}

impl Subject for MirSubject {
    type Engine = Mir;
    type Message = Message;
    const RESUBMITS: bool = true;

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&mut self, me: usize, start: EngineStart) -> Mir {
        let EngineStart { seed: _, records, unsigned, resume, now } = start;
        let (config, committee) = (self.config.clone(), self.committee.clone());
        let signer = Arc::new(Keys(FakeKeys(index(me)), self.no_signers.clone()));
        Mir::new(Setup { config, committee, signer, records, unsigned, resume, now })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(MirVerifier::new(self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures)))
    }

    fn decode(message: &Bytes) -> Message {
        wire::decode(message).unwrap()
    }
}

pub fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

/// Short epochs; timers that are long compared with the network.
pub fn quick() -> Config {
    Config {
        batch_interval_ms: 1,
        max_stretch: 1,
        fill_ms: 0,
        idle_ms: 200,
        epoch_length: 8,
        checkpoint_interval: 8,
        window: 32,
        timeout_ms: 1_000,
        max_timeout_ms: 8_000,
        resend_ms: 100,
        retain: 200,
        ..Config::default()
    }
}

/// No timer ends: only messages determine the run.
pub fn plain() -> Config {
    let never = 3_600_000;
    Config { idle_ms: never, timeout_ms: never, max_timeout_ms: never, resend_ms: never, ..quick() }
}

pub struct Cluster(ScenarioCluster<MirSubject>);

impl Deref for Cluster {
    type Target = ScenarioCluster<MirSubject>;

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
    /// All validators run.
    pub fn new(size: usize, config: Config) -> Self {
        Self::of(committee(size), config)
    }

    pub fn of(committee: Committee, config: Config) -> Self {
        let links = Links::uniform(committee.size(), Micros::from_millis(DELAY));
        let mut cluster = Self(ScenarioCluster::new(MirSubject { config, committee, no_signers: Arc::default() }, links, 1));
        cluster.simulation.start_all();
        cluster
    }

    /// Only scripted messages arrive, and no timer ends.
    pub fn scripted(committee: Committee) -> Self {
        let mut cluster = Self::of(committee, plain());
        cluster.set_rule(|_, _, _, _| LOST);
        cluster.run_for(1);
        cluster
    }

    /// Makes all signers available, or unavailable.
    pub fn set_signers(&mut self, available: bool) {
        self.subject.borrow().no_signers.store(!available, Ordering::Relaxed);
    }

    pub fn delivered(&self, node: usize) -> u64 {
        self.engine(node).progress().0.0
    }

    pub fn epoch(&self, node: usize) -> u64 {
        self.engine(node).epoch_config().epoch.0
    }

    pub fn leaders(&self, node: usize) -> Vec<u16> {
        self.engine(node).epoch_config().leaders.iter().map(|leader| leader.0).collect()
    }

    /// Number of messages of one kind that a validator sent since its start.
    pub fn count(&self, node: usize, wanted: impl Fn(&Message) -> bool) -> usize {
        self.seen(node).count(wanted)
    }

    pub fn has_left(&self, node: usize) -> bool {
        self.count(node, |message| matches!(message, Message::EpochChange(_))) > 0
    }

    /// Runs until all of `nodes` delivered all these texts.
    pub fn run_until_delivered(&mut self, nodes: &[usize], texts: &[&str], limit_ms: u64) {
        let is_done = |cluster: &ScenarioCluster<MirSubject>| {
            nodes.iter().all(|node| texts.iter().all(|text| cluster.seen(*node).delivered_at(text).is_some()))
        };
        self.run_until(limit_ms, is_done);
    }

    /// Runs until `is_done`.
    pub fn run_until(&mut self, limit_ms: u64, is_done: impl Fn(&ScenarioCluster<MirSubject>) -> bool) {
        if !self.0.run_while(limit_ms, |cluster| !is_done(cluster)) {
            let up = (0..self.size()).filter(|node| self.simulation.is_up(*node));
            let states: Vec<_> = up.map(|node| format!("\n{node}: {}", self.engine(node).describe())).collect();
            panic!("not done within {limit_ms} ms{}", states.concat());
        }
    }

    /// The first transaction of each validator, at once.
    pub fn submit_all(&mut self, nodes: &[usize], prefix: &str) -> Vec<String> {
        let texts: Vec<_> = nodes.iter().map(|node| format!("{prefix}{node}")).collect();
        nodes.iter().zip(&texts).for_each(|(node, text)| self.submit(*node, text));
        texts
    }

    // ---- scripted messages ---------------------------------------------------------------------------------------------------

    /// Sends a scripted message of a validator. Returns false if the verifier refuses it.
    pub fn tell(&mut self, from: usize, to: usize, message: &Message) -> bool {
        let before = self.seen(to).refused.len();
        self.receive(from, to, &message.encode());
        self.seen(to).refused.len() == before
    }

    /// Like [`Self::tell`], then waits for the disk.
    pub fn tell_all(&mut self, from: &[usize], to: usize, message: impl Fn(&Self, usize) -> Message) {
        for sender in from {
            let message = message(self, *sender);
            assert!(self.tell(*sender, to, &message), "{message:?}");
            self.run_for(1);
        }
    }

    pub fn context(&self) -> Context {
        Context::new(&self.committee)
    }

    pub fn sign(&self, node: usize, statement: &Statement) -> [u8; 64] {
        self.context().sign(statement, &FakeKeys(index(node))).unwrap()
    }

    pub fn proposal(&self, sn: u64, author: usize, text: &str) -> (Proposal, B256) {
        let batch = text.as_bytes().to_vec().into();
        let proposal = Proposal { sn: Sn(sn), author: index(author), time: TimestampMs(1), batch };
        let digest = self.context().proposal(&proposal);
        (proposal, digest)
    }

    pub fn pre_prepare(&self, epoch: EpochNumber, proposal: &Proposal) -> Message {
        let digest = self.context().proposal(proposal);
        let statement = Statement::Prepare { epoch, sn: proposal.sn, digest };
        let signature = self.sign(proposal.author.as_usize(), &statement);
        Message::PrePrepare { epoch, proposal: proposal.clone(), signature }
    }

    pub fn prepare(&self, from: usize, epoch: EpochNumber, sn: u64, digest: B256) -> Message {
        let sn = Sn(sn);
        Message::Prepare { epoch, sn, digest, signature: self.sign(from, &Statement::Prepare { epoch, sn, digest }) }
    }

    /// A certified configuration of epoch 1, with ECHOs of members 0, 2 and 3.
    pub fn certificate(&self, config: EpochConfig) -> Message {
        let (epoch, digest) = (config.epoch, self.context().config(&config));
        let statement = Statement::Echo { epoch, config: digest };
        let votes = [0, 2, 3].map(|member| (index(member), self.sign(member, &statement))).to_vec();
        Message::Epoch(Box::new(EpochCertificate { config, votes }))
    }

    /// A stable checkpoint with the votes of members 0, 2 and 3.
    pub fn stable_checkpoint(&self, sn: u64, hash: B256) -> CheckpointCertificate {
        let statement = Statement::Checkpoint { sn: Sn(sn), hash };
        let votes = [0, 2, 3].map(|member| (index(member), self.sign(member, &statement))).to_vec();
        CheckpointCertificate { sn: Sn(sn), hash, votes }
    }

    pub fn wants(&self, epoch: u64) -> Message {
        let (epoch, wants) = (EPOCH, EpochNumber(epoch));
        Message::Status(Status { epoch, wants, delivered: Sn(0), stable: Sn(0), seeks: None, asks: false })
    }
}

pub fn commit(epoch: EpochNumber, sn: u64, digest: B256) -> Message {
    Message::Commit { epoch, sn: Sn(sn), digest }
}

pub fn is_commit(message: &Message) -> bool {
    matches!(message, Message::Commit { .. })
}

pub fn is_prepare(message: &Message) -> bool {
    matches!(message, Message::Prepare { .. })
}
