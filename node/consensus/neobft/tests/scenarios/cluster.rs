//! NeoBFT as the subject of scenarios.

use corniche_aom_wire::Suite;
use corniche_engine::{Committee, Verifier};
use corniche_neobft::{
    Config, Neobft, NeobftVerifier, Setup,
    message::{Confirmed, DropProof, Entry, Message, Slot, Statement, Value, View, ViewCertificate, Votes},
};
use corniche_neobft_testing::{FakeKeys, FakeSignatures, ModelledGroup, committee};
use corniche_testkit::{Delivery, EngineStart, Group, Links, Micros, ScenarioCluster, Sending, Subject};
use corniche_types::{B256, Bytes, ValidatorIndex, wire};
use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
    rc::Rc,
    sync::Arc,
};

/// One message delay, ms.
pub const DELAY: u64 = 10;
/// The message never arrives.
pub const LOST: Delivery = Delivery::Hold(u64::MAX);

pub struct NeobftSubject {
    config: Config,
    committee: Committee,
    group: Rc<RefCell<ModelledGroup>>,
    /// A faulty validator whose QUERY-REPLYs have one entry.
    pub is_meagre: Option<usize>,
}

impl Subject for NeobftSubject {
    type Engine = Neobft;
    type Message = Message;
    const RESUBMITS: bool = false;

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&mut self, me: usize, start: EngineStart) -> Neobft {
        let EngineStart { seed: _, records, unsigned, resume, now } = start;
        let (config, committee, signatures) = (self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures));
        Neobft::new(Setup {
            config,
            committee,
            signer: Arc::new(FakeKeys(index(me))),
            signatures,
            records,
            unsigned,
            resume,
            now,
        })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(NeobftVerifier::new(self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures)))
    }

    fn group(&self) -> Option<Rc<RefCell<dyn Group>>> {
        Some(self.group.clone())
    }

    fn decode(message: &Bytes) -> Message {
        wire::decode(message).unwrap()
    }

    fn on_send(&mut self, sending: &Sending<'_>, message: &Message) -> Vec<(Vec<usize>, Bytes)> {
        let mut sent = sending.message.clone();
        if let Message::QueryReply { view, from, entries, .. } = message
            && self.is_meagre == Some(sending.from)
        {
            let entries = entries[..1].to_vec();
            sent = Message::QueryReply { view: *view, from: *from, entries, checkpoint: None }.encode();
        }
        vec![(sending.to.to_vec(), sent)]
    }
}

pub fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

/// Long timers, no clocks: only the network determines the run.
pub fn plain() -> Config {
    Config {
        reorder_ms: 0,
        query_ms: 1_000,
        gap_ms: 10_000,
        request_ms: 5_000,
        aom_ms: 10_000,
        view_ms: 10_000,
        clock_ms: 3_600_000,
        sync_slots: 8,
        retain_slots: 64,
        open_slots: 64,
        max_drops: 1_000_000,
        ..Config::default()
    }
}

pub struct Cluster {
    cluster: ScenarioCluster<NeobftSubject>,
    pub group: Rc<RefCell<ModelledGroup>>,
}

impl Deref for Cluster {
    type Target = ScenarioCluster<NeobftSubject>;

    fn deref(&self) -> &Self::Target {
        &self.cluster
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.cluster
    }
}

impl Cluster {
    /// All validators run and are connected; the first packet with every author's time is final.
    pub fn new(size: usize, config: Config) -> Self {
        Self::with_suite(size, config, Suite::SipHash64)
    }

    pub fn with_suite(size: usize, config: Config, suite: Suite) -> Self {
        Self::of(committee(size), config, suite)
    }

    pub fn of(committee: Committee, config: Config, suite: Suite) -> Self {
        let size = committee.size();
        let group = Rc::new(RefCell::new(ModelledGroup::new(&committee, &config, suite)));
        let subject = NeobftSubject { config, committee, group: group.clone(), is_meagre: None };
        let links = Links::uniform(size, Micros::from_millis(DELAY));
        let mut cluster = Self { cluster: ScenarioCluster::new(subject, links, 1), group };
        cluster.simulation.start_all();
        cluster.run_for(5 * DELAY);
        cluster
    }

    /// Drops the packets of these numbers at these receivers.
    pub fn lose(&self, lost: &'static [(u64, usize)]) {
        self.group.borrow_mut().loss = Some(Box::new(move |seq, receiver| lost.contains(&(seq, receiver))));
    }

    /// The view of a running validator.
    pub fn view(&self, node: usize) -> View {
        self.engine(node).progress().0
    }

    /// The last slots of its log, of the durable part, of the final part, and that was executed.
    pub fn slots(&self, node: usize) -> [u64; 4] {
        self.engine(node).progress().1.map(|Slot(slot)| slot)
    }

    pub fn is_no_op(&self, node: usize, slot: u64) -> bool {
        matches!(self.engine(node).entry(Slot(slot)), Some(Entry::NoOp(_)))
    }

    /// Delays from `since` until a validator delivered this text.
    pub fn delays(&self, node: usize, text: &str, since: Micros) -> Option<u64> {
        let at = self.seen(node).delivered_at(text)?;
        let passed = at.0 - since.0;
        assert_eq!(passed % (DELAY * 1_000), 0, "a whole number of delays: {passed} µs");
        Some(passed / (DELAY * 1_000))
    }

    /// Number of messages of one kind that a validator sent.
    pub fn count(&self, node: usize, wanted: impl Fn(&Message) -> bool) -> usize {
        self.seen(node).count(wanted)
    }

    /// Runs until everybody of `nodes` delivered all these texts.
    pub fn run_until_delivered(&mut self, nodes: &[usize], texts: &[&str], limit_ms: u64) {
        let is_done = |cluster: &ScenarioCluster<NeobftSubject>| {
            nodes.iter().all(|node| texts.iter().all(|text| cluster.seen(*node).delivered_at(text).is_some()))
        };
        if !self.cluster.run_while(limit_ms, |cluster| !is_done(cluster)) {
            let states: Vec<_> = nodes.iter().map(|node| format!("\n{node}: {}", self.engine(*node).describe())).collect();
            panic!("{texts:?} not delivered within {limit_ms} ms{}", states.concat());
        }
    }
}

/// Scripted packets.
impl Cluster {
    /// Stamps a payload. Returns the datagrams of each receiver, which the test delivers.
    pub fn stamp(&mut self, payload: &[u8]) -> Vec<Vec<Bytes>> {
        let request = corniche_aom_wire::encode_request(1, payload).unwrap().into();
        let now = self.simulation.now();
        self.group.borrow_mut().stamp(now, &request)
    }

    /// A packet arrives at these validators.
    pub fn arrive(&mut self, packet: &[Vec<Bytes>], nodes: &[usize]) {
        for node in nodes {
            for datagram in packet[*node].clone() {
                self.input(*node, corniche_engine::Input::Packet(datagram));
            }
        }
    }

    /// Sends a scripted message of a validator; returns false if the verifier refuses it.
    pub fn tell(&mut self, from: usize, to: usize, message: &Message) -> bool {
        let before = self.seen(to).refused.len();
        self.receive(from, to, &message.encode());
        self.seen(to).refused.len() == before
    }

    pub fn context(&self) -> corniche_neobft::message::Context {
        corniche_neobft::message::Context::new(&self.committee, 1)
    }

    pub fn sign(&self, node: usize, statement: &Statement) -> [u8; 64] {
        self.context().sign(statement, &FakeKeys(index(node))).unwrap()
    }

    /// Signatures of these validators under one statement.
    pub fn votes(&self, nodes: &[usize], statement: &Statement) -> Votes {
        nodes.iter().map(|node| (index(*node), self.sign(*node, statement))).collect()
    }

    /// The certificate of a view that these validators confirmed.
    pub fn view_certificate(&self, nodes: &[usize], confirmed: Confirmed) -> ViewCertificate {
        ViewCertificate { confirmed, votes: self.votes(nodes, &Statement::ViewConfirm(confirmed)) }
    }

    /// Proof that these validators committed a drop.
    pub fn drop_proof(&self, nodes: &[usize], view: View, slot: Slot) -> DropProof {
        let votes = self.votes(nodes, &Statement::GapCommit { view, slot, value: Value::Drop });
        DropProof { view, slot, committed: true, votes }
    }
}

/// A PROGRESS of a validator with an empty log.
pub fn progress(view: View, left: Option<View>, certificate: Option<ViewCertificate>) -> Message {
    Message::Progress { view, left, slot: Slot(0), hash: B256::ZERO, certificate, checkpoint: None, asks: false }
}
