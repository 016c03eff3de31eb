//! Byzantine validators: whole nodes whose outgoing messages are altered.
//!
//! An enemy runs the protocol like every node, so it keeps up and has an insider's knowledge; only its outgoing
//! messages differ. Twins and equivocators are two such nodes with one key.

use crate::{
    network::{Message, Network, SharedMessage},
    scenario::Behaviour,
};
use corniche_pipeline::PeerMessage;
use corniche_testkit::{Action, Random};
use corniche_types::Bytes;
use std::rc::Rc;

/// Behaviour of one Byzantine process.
pub struct ByzantineNode {
    behaviour: Behaviour,
    identity: usize,
    /// True for the second process of a pair with one key.
    is_copy: bool,
    /// Recipients of a withholder.
    recipients: Vec<usize>,
    random: Random,
    /// The last altered message and its replacement: all recipients get the same.
    last: Option<(Rc<SharedMessage>, Rc<SharedMessage>)>,
}

impl ByzantineNode {
    pub fn new(network: &Network, behaviour: Behaviour, identity: usize, is_copy: bool, mut random: Random) -> Self {
        let (committee, names) = (network.checker.newest(), &network.secrets.names);
        let mut others = names.members(&committee);
        others.retain(|other| *other != identity);
        others.sort_unstable();
        random.shuffle(&mut others);
        let others = others.into_iter().filter_map(|other| names.index(&committee, other));
        let recipients = committee.take_votes(others, committee.validity());
        let recipients = recipients.into_iter().filter_map(|index| names.member(&committee, index)).collect();
        Self { behaviour, identity, is_copy, recipients, random, last: None }
    }

    /// Returns the action to perform instead of `action`.
    pub fn transform(&mut self, network: &Network, action: Action<Message>) -> Option<Action<Message>> {
        let Action::Send { to, message, bytes } = action else { return Some(action) };
        // The network shows everybody the same request.
        let is_multicast = matches!(message, Message::Multicast(_));
        match self.behaviour {
            Behaviour::Silent => None,
            _ if is_multicast => Some(Action::Send { to, message, bytes }),
            Behaviour::Withholder if !self.recipients.contains(&to) => None,
            Behaviour::Equivocator if self.is_hidden_from(network, to, &message) => None,
            Behaviour::Garbage | Behaviour::ParentForger => Some(self.forge(network, to, message, bytes)),
            Behaviour::GapLiar | Behaviour::TagForger => Some(self.distort(network, to, message, bytes)),
            Behaviour::Withholder | Behaviour::Equivocator | Behaviour::Late | Behaviour::Twin | Behaviour::CoinShareForger => {
                Some(Action::Send { to, message, bytes })
            }
        }
    }

    /// The first of the pair shows its proposals to validators with even numbers, the copy to those with odd numbers.
    fn is_hidden_from(&self, network: &Network, to: usize, message: &Message) -> bool {
        let own = message.peek(network, self.identity).is_some_and(|(_, author)| author == self.identity);
        own && (to % 2 == 1) != self.is_copy
    }

    fn forge(&mut self, network: &Network, to: usize, message: Message, bytes: usize) -> Action<Message> {
        let Message::Peer(shared) = &message else { return Action::Send { to, message, bytes } };
        if let Some((_, transformed)) = self.last.as_ref().filter(|(original, _)| Rc::ptr_eq(original, shared)) {
            return Action::Send { to, message: Message::Peer(transformed.clone()), bytes };
        }
        let Some(forged_message) = self.forged_message(network, shared.message()) else {
            return Action::Send { to, message, bytes };
        };
        let transformed = SharedMessage::new(forged_message);
        self.last = Some((shared.clone(), transformed.clone()));
        Action::Send { to, message: Message::Peer(transformed), bytes }
    }

    /// Each receiver gets a message of its own.
    fn distort(&mut self, network: &Network, to: usize, message: Message, bytes: usize) -> Action<Message> {
        let random = self.random.draw();
        let distorted = match &message {
            Message::Peer(shared) => match shared.message() {
                PeerMessage::Engine(bytes) => {
                    network.engines.distort(&network.secrets, self.behaviour, [self.identity, to], bytes, random)
                }
                _ => None,
            },
            _ => None,
        };
        match distorted {
            Some(engine) => {
                let shared = SharedMessage::new(PeerMessage::Engine(engine));
                let bytes = shared.bytes();
                Action::Send { to, message: Message::Peer(shared), bytes }
            }
            None => Action::Send { to, message, bytes },
        }
    }

    fn forged_message(&mut self, network: &Network, message: &PeerMessage) -> Option<PeerMessage> {
        match (self.behaviour, message) {
            (Behaviour::Garbage, PeerMessage::Engine(bytes)) => Some(PeerMessage::Engine(self.noise(bytes.len()))),
            (Behaviour::Garbage, PeerMessage::EpochEngine(epoch, bytes)) => {
                Some(PeerMessage::EpochEngine(*epoch, self.noise(bytes.len())))
            }
            (Behaviour::Garbage, PeerMessage::CertificateShare(bytes)) => {
                Some(PeerMessage::CertificateShare(self.noise(bytes.len())))
            }
            // Only every second proposal, so that valid and forged ones mix.
            (Behaviour::ParentForger, PeerMessage::Engine(bytes)) if self.random.one_in(2) => {
                let random = self.random.draw();
                network.engines.forge_parent(&network.secrets, self.identity, bytes, random).map(PeerMessage::Engine)
            }
            _ => None,
        }
    }

    fn noise(&mut self, length: usize) -> Bytes {
        (0..length.min(1024)).map(|_| self.random.draw() as u8).collect::<Vec<u8>>().into()
    }
}
