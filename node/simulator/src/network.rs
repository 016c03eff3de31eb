//! Data shared by all nodes of a simulated network, and the messages between them.
//!
//! Messages are encoded once and checked once for all recipients: a check is a function of the sender and the bytes.

use crate::{
    checks::Checks,
    disk::Records,
    engines::{Checker, Engines},
    execution::Executors,
    genesis::Secrets,
    report::{Spent, Work},
    scenario::Cost,
};
use corniche_engine::{Committee, PeerFault, TraceEvent, Verified, VertexId};
use corniche_pipeline::{NodeKey, PeerMessage, Request, Response};
use corniche_testkit::Micros;
use corniche_types::{Bytes, Epoch, Genesis, ValidatorIndex};
use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// Data shared by all nodes of one simulated network.
pub struct Network {
    pub genesis: Arc<Genesis>,
    pub committee: Committee,
    pub engines: Engines,
    pub checker: Checker,
    pub secrets: Secrets,
    pub cost: Cost,
    pub executors: Rc<Executors>,
    pub checks: RefCell<Checks>,
    pub records: RefCell<Records>,
    /// Total cost of all nodes for ordering and for certificates.
    pub spent: RefCell<[Spent; 2]>,
    /// The newest round whose leaders an honest node knows, and these leaders. If leaders take turns, the last
    /// proposer.
    pub elected: RefCell<(u64, Vec<ValidatorIndex>)>,
    /// Receives the trace events of honest nodes' engines.
    pub observer: Option<RefCell<Observer>>,
}

/// Called with the virtual time, the node and the event.
pub type Observer = Box<dyn FnMut(Micros, usize, &TraceEvent)>;

/// Messages between nodes. All recipients share one copy.
#[derive(Clone)]
pub enum Message {
    Peer(Rc<SharedMessage>),
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
    pub fn check(&self, network: &Network, epoch: Epoch, from: usize, bytes: &Bytes) -> &(Result<Verified, PeerFault>, Work) {
        self.checked.get_or_init(|| network.checker.check(epoch, validator(from), bytes))
    }
}

impl Message {
    /// Returns the proposal in a message, for adversaries.
    pub fn peek(&self, network: &Network, from: usize) -> Option<VertexId> {
        let Self::Peer(shared) = self else { return None };
        let (epoch, bytes) = match &shared.message {
            PeerMessage::Engine(bytes) => (Epoch(0), bytes),
            PeerMessage::EpochEngine(epoch, bytes) => (*epoch, bytes),
            _ => return None,
        };
        let (verdict, _) = shared.check(network, epoch, from, bytes);
        network.engines.peek(verdict.as_ref().ok()?)
    }
}

pub fn validator(index: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(index).expect("a scenario has at most 1000 nodes"))
}

/// Returns the validator of a node key.
pub fn identity_of(key: &NodeKey) -> usize {
    let [.., high, low] = *key;
    usize::from(u16::from_be_bytes([high, low])) - 1
}
