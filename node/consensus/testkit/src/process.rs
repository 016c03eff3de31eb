//! What runs in a [`World`](crate::World).

use crate::Micros;

/// One node's program, without I/O: an engine alone, or a whole pipeline with its store.
///
/// The world hands it one [`Event`], then takes every [`Action`] until `None`, then looks at [`Process::deadline`].
pub trait Process {
    /// Cheap to clone (`Rc`, `Arc`): all recipients share one.
    type Message: Clone;
    /// What outlives a power cut. The default is an empty disk.
    type Disk: Default;

    /// `now` never decreases. It may be later than the event: the node was busy ([`Action::Work`]).
    fn handle(&mut self, now: Micros, event: Event<Self::Message>);

    /// The next thing the world owes, or `None`.
    fn poll(&mut self) -> Option<Action<Self::Message>>;

    /// When [`Event::Deadline`] is due if nothing else happens.
    fn deadline(&self) -> Option<Micros>;

    /// Power off. Only what was reported [`Event::Written`] is surely there afterwards.
    fn power_off(self) -> Self::Disk;
}

/// What happens to a process. Peers are named by their identity (a validator's index), whichever process plays it.
#[derive(Clone, Debug)]
pub enum Event<M> {
    /// A connection to this peer was made. What was sent to it before may be lost.
    Up(usize),
    /// The connection ended; what was on its way, in both directions, is lost.
    Down(usize),
    Message {
        from: usize,
        message: M,
    },
    /// The write of this number is on disk. Writes finish in the order in which they were asked for.
    Written(u64),
    Deadline,
}

/// What a process does.
#[derive(Clone, Debug)]
pub enum Action<M> {
    /// Lost when there is no connection. `bytes` is what bandwidth and statistics count.
    Send { to: usize, message: M, bytes: usize },
    /// Answered by [`Event::Written`].
    Write { id: u64, bytes: usize },
    /// The node computes for this long: what it does next leaves later, and what happens to it meanwhile waits.
    Work(Micros),
}
