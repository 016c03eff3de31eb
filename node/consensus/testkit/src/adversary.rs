//! Adversaries that control the network.

use crate::Micros;

/// Decides the fate of every message sent. It sees the sender and the receiver, and reads the content as far as it was
/// given a function for that.
pub trait Adversary<M> {
    fn delivery(&mut self, view: &mut View<'_>, from: usize, to: usize, message: &M) -> Delivery;
}

/// An adversary's view besides the message, and its way to release held messages.
pub struct View<'a> {
    pub now: Micros,
    /// Returns true if the validator's power is on.
    pub up: &'a dyn Fn(usize) -> bool,
    pub(crate) released: Vec<(usize, u64)>,
}

/// Delivery of a message, unless its link loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Normal delivery by the link's model.
    Normal,
    /// Delayed by this much; may be overtaken by later messages.
    Delayed(Micros),
    /// Held until [`View::release`] names its receiver and a greater number.
    Hold(u64),
}

impl View<'_> {
    /// Releases the messages held for `receiver` under numbers below `below`. They arrive one link delay from now.
    pub fn release(&mut self, receiver: usize, below: u64) {
        self.released.push((receiver, below));
    }
}
