//! Networks that mean harm.

use crate::Micros;

/// Decides about every message that is sent. It sees whom it is from and for, and looks into it as far as it was given a function
/// for that.
pub trait Adversary<M> {
    fn fate(&mut self, view: &mut View<'_>, from: usize, to: usize, message: &M) -> Fate;
}

/// What an adversary sees besides the message, and its second way to act.
pub struct View<'a> {
    pub now: Micros,
    /// Whether a validator's power is on.
    pub up: &'a dyn Fn(usize) -> bool,
    pub(crate) released: Vec<(usize, u64)>,
}

/// What becomes of a message, unless its link loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// As its link says.
    Normal,
    /// This much later; it does not keep its place.
    Later(Micros),
    /// Kept until [`View::release`] names its receiver and a greater number.
    Hold(u64),
}

impl View<'_> {
    /// What is held for `receiver` under numbers below `below` arrives a link's delay from now.
    pub fn release(&mut self, receiver: usize, below: u64) {
        self.released.push((receiver, below));
    }
}
