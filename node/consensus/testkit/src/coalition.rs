//! Byzantine validators of an engine's own kind. Their attacks need knowledge of the engine's messages.

use crate::{Micros, Random};
use corniche_engine::Ordered;
use corniche_types::Bytes;

/// The Byzantine validators of one run that are of their engine's own kind. They share all knowledge and all keys. Each
/// also runs the real engine, so it takes part in consensus. The coalition sees what that engine receives, and decides what
/// is sent.
pub trait Coalition {
    /// A member received a message that the verifier accepted. Returns true if the member's engine receives it too.
    fn on_receive(&mut self, ctx: &mut MemberContext<'_>, from: usize, message: &Bytes) -> bool;

    /// A member's engine sends this. The coalition sends its own messages instead.
    fn on_send(&mut self, ctx: &mut MemberContext<'_>, to: &[usize], message: &Bytes);
}

/// Context of one member's action.
pub struct MemberContext<'a> {
    pub me: usize,
    pub now: Micros,
    pub random: &'a mut Random,
    pub(crate) sent: Vec<(Vec<usize>, Bytes)>,
    pub(crate) proofs: Vec<String>,
}

impl<'a> MemberContext<'a> {
    pub fn new(me: usize, now: Micros, random: &'a mut Random) -> Self {
        Self { me, now, random, sent: Vec::new(), proofs: Vec::new() }
    }

    /// Sends from this member.
    pub fn send(&mut self, to: impl IntoIterator<Item = usize>, message: Bytes) {
        let to: Vec<_> = to.into_iter().filter(|to| *to != self.me).collect();
        self.sent.push((to, message));
    }

    /// Reports that the coalition holds two contradicting certificates. That must be impossible while at most f validators
    /// are faulty.
    pub fn report_violation(&mut self, violation: String) {
        self.proofs.push(violation);
    }
}

/// Receives everything that correct validators send: each message once, in the order of sending, across power cuts. It
/// knows which messages an engine of its kind never sends.
pub trait MessageChecker {
    fn check(&mut self, from: usize, message: &Bytes) -> Result<(), String>;

    /// Called when the first validator delivers a commit.
    fn on_delivered(&mut self, _commit: &Ordered) {}
}
