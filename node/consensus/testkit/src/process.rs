//! Programs that run in a [`Simulation`](crate::Simulation).

use crate::Micros;

/// One node's program, without I/O: an engine alone, or a whole pipeline with its store.
///
/// The world passes one [`Event`], then takes every [`Action`] until `None`, then reads [`Process::deadline`].
pub trait Process {
    /// Cheap to clone (`Rc`, `Arc`): all recipients share one.
    type Message: Clone;
    /// State that survives a power cut. The default is an empty disk.
    type Disk: Default;

    /// `now` never decreases. It may be later than the event: the node was busy ([`Action::Work`]).
    fn handle(&mut self, now: Micros, event: Event<Self::Message>);

    /// Returns the next action for the world, or `None`.
    fn poll(&mut self) -> Option<Action<Self::Message>>;

    /// Time at which [`Event::Deadline`] is due if no other event happens.
    fn deadline(&self) -> Option<Micros>;

    /// Powers the process off. Only writes reported by [`Event::Written`] are guaranteed to survive.
    fn power_off(self) -> Self::Disk;
}

/// Events for a process. A peer is named by its identity (validator index), whichever process plays it.
#[derive(Clone, Debug)]
pub enum Event<M> {
    /// A connection to this peer was made. Earlier messages to it may be lost.
    Up(usize),
    /// The connection ended. Messages in transit, in both directions, are lost.
    Down(usize),
    Message {
        from: usize,
        message: M,
    },
    /// The write with this number is on disk. Writes complete in the order of the requests.
    Written(u64),
    Deadline,
}

/// Requests of a process.
#[derive(Clone, Debug)]
pub enum Action<M> {
    /// Lost without a connection. `bytes` is the size used for bandwidth and statistics.
    Send { to: usize, message: M, bytes: usize },
    /// Completed by [`Event::Written`].
    Write { id: u64, bytes: usize },
    /// The node computes for this long. Its next actions start later, and events meanwhile wait.
    Work(Micros),
}
