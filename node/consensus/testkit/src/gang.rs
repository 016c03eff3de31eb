//! Byzantine validators of an engine's own kind: what they do wrong takes knowing the engine's messages.

use crate::{Micros, Random};
use corniche_engine::Ordered;
use corniche_types::Bytes;

/// The Byzantine validators of one run that are of their engine's own kind. They know everything together and have each other's keys. Each
/// runs the real engine besides, so it stays in the game: the gang hears what that engine hears, and decides what leaves.
pub trait Gang {
    /// A member was sent a message, which the verifier accepted. Whether its engine gets to see it.
    fn hear(&mut self, act: &mut Act<'_>, from: usize, message: &Bytes) -> bool;

    /// A member's engine wants this sent. What leaves is what the gang sends instead.
    fn say(&mut self, act: &mut Act<'_>, to: &[usize], message: &Bytes);
}

/// One member's turn.
pub struct Act<'a> {
    pub me: usize,
    pub now: Micros,
    pub random: &'a mut Random,
    pub(crate) sent: Vec<(Vec<usize>, Bytes)>,
    pub(crate) proofs: Vec<String>,
}

impl<'a> Act<'a> {
    pub fn new(me: usize, now: Micros, random: &'a mut Random) -> Self {
        Self { me, now, random, sent: Vec::new(), proofs: Vec::new() }
    }

    /// This member sends.
    pub fn send(&mut self, to: impl IntoIterator<Item = usize>, message: Bytes) {
        let to: Vec<_> = to.into_iter().filter(|to| *to != self.me).collect();
        self.sent.push((to, message));
    }

    /// The gang holds what must not exist while at most f validators are faulty: two certificates that contradict each other.
    pub fn prove(&mut self, violation: String) {
        self.proofs.push(violation);
    }
}

/// Listens to everything that correct validators send, each message once, in the order in which they send it, across power cuts. Knows what
/// an engine of its kind never says.
pub trait Judge {
    fn hear(&mut self, from: usize, message: &Bytes) -> Result<(), String>;

    /// A commit, when the first validator delivers it.
    fn delivered(&mut self, _commit: &Ordered) {}
}
