//! Data shared by all nodes of a simulated network, and the messages between them.
//!
//! Messages are encoded once and checked once for all recipients: a check is a function of the sender and the bytes.

use crate::{
    checks::Checks,
    disk::Records,
    engines::{Checker, Engines},
    execution::Executors,
    genesis::Secrets,
    multicast::{GroupRequest, Multicast},
    notices::Conduct,
    report::{Spent, Work},
    scenario::Cost,
};
use corniche_engine::{PeerFault, TraceEvent, Verified};
use corniche_pipeline::{PeerMessage, Request, Response};
use corniche_testkit::Micros;
use corniche_types::{Bytes, Epoch, Genesis, ValidatorIndex};
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    sync::Arc,
};

/// Data shared by all nodes of one simulated network.
pub struct Network {
    pub genesis: Arc<Genesis>,
    pub engines: Engines,
    pub checker: Checker,
    pub secrets: Secrets,
    /// By process.
    pub conduct: Vec<Arc<Conduct>>,
    /// Processes that never started. Their keys have signed nothing.
    pub unstarted: RefCell<BTreeSet<usize>>,
    pub cost: Cost,
    pub executors: Rc<Executors>,
    pub checks: RefCell<Checks>,
    pub records: RefCell<Records>,
    /// The multicast group, if the engine orders by one.
    pub multicast: Option<Multicast>,
    /// Copies of requests that the network made, and no sender.
    pub copies: Cell<u64>,
    /// Total cost of all nodes for ordering and for certificates.
    pub spent: RefCell<[Spent; 2]>,
    /// The newest epoch and round whose leaders an honest node knows, and these leaders. If leaders take turns, the last
    /// proposer.
    pub elected: RefCell<((Epoch, u64), Vec<usize>)>,
    /// Receives the trace events of honest nodes' engines.
    pub observer: Option<RefCell<Observer>>,
}

/// Called with the virtual time, the node and the event.
pub type Observer = Box<dyn FnMut(Micros, usize, &TraceEvent)>;

/// Messages between nodes. All recipients share one copy.
#[derive(Clone)]
pub enum Message {
    Peer(Rc<SharedMessage>),
    /// A request to the multicast group.
    Multicast(Rc<GroupRequest>),
    Request(Request),
    Response(Rc<Response>),
}

/// A message shared by its recipients.
pub struct SharedMessage {
    message: PeerMessage,
    /// Size on the wire.
    bytes: usize,
    /// Result of the engine's verifier, and the work of the keys for it.
    checked: OnceCell<(Result<Verified, PeerFault>, Work)>,
}

impl SharedMessage {
    pub fn new(message: PeerMessage) -> Rc<Self> {
        let bytes = match &message {
            // A version, a tag and a length around the content. The content is large and already encoded.
            PeerMessage::Engine(bytes) | PeerMessage::CertificateShare(bytes) => bytes.len() + 6,
            PeerMessage::EpochEngine(_, bytes) => bytes.len() + 14,
            message => message.encode().len(),
        };
        Rc::new(Self { message, bytes, checked: OnceCell::new() })
    }

    pub fn message(&self) -> &PeerMessage {
        &self.message
    }

    /// Size on the wire.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts one message to one recipient.
    pub fn count(&self, [ordering, certificates]: &mut [Spent; 2]) {
        let spent = match &self.message {
            PeerMessage::Engine(_) | PeerMessage::EpochEngine(..) => ordering,
            PeerMessage::CertificateShare(_) | PeerMessage::Certificate(_) => certificates,
            PeerMessage::Transactions(_)
            | PeerMessage::Attestations(_)
            | PeerMessage::Notice(_)
            | PeerMessage::Epoch { .. } => return,
        };
        spent.messages += 1;
        spent.bytes += self.bytes as u64;
    }

    /// Result of the engine's verifier, and the work of the keys for it.
    pub fn check(
        &self,
        network: &Network,
        epoch: Epoch,
        from: ValidatorIndex,
        bytes: &Bytes,
    ) -> &(Result<Verified, PeerFault>, Work) {
        self.checked.get_or_init(|| network.checker.check(epoch, from, bytes))
    }
}

impl Message {
    /// Returns the round of the proposal in a message, and its author, for adversaries.
    pub fn peek(&self, network: &Network, from: usize) -> Option<(u64, usize)> {
        let Self::Peer(shared) = self else { return None };
        let (epoch, bytes) = match &shared.message {
            PeerMessage::Engine(bytes) => (Epoch(0), bytes),
            PeerMessage::EpochEngine(epoch, bytes) => (*epoch, bytes),
            _ => return None,
        };
        let (names, committee) = (&network.secrets.names, network.checker.committee(epoch)?);
        let (verdict, _) = shared.check(network, epoch, names.index(&committee, from)?, bytes);
        let vertex = network.engines.peek(verdict.as_ref().ok()?)?;
        Some((vertex.round, names.member(&committee, vertex.author)?))
    }
}

/// Index of a validator of the genesis.
pub fn validator(index: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(index).expect("a scenario has at most 1000 nodes"))
}
