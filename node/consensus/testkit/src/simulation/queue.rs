//! Scheduled events, ordered by time, then by the order of scheduling.

use crate::{Event, Micros};
use std::cmp::Ordering;

pub(super) struct QueueEntry<M> {
    pub at: Micros,
    pub sequence: u64,
    pub scheduled: Scheduled<M>,
}

pub(super) enum Scheduled<M> {
    Arrival {
        from: u32,
        to: u32,
        connection: u32,
        message: M,
    },
    Local {
        node: u32,
        incarnation: u32,
        event: Event<M>,
    },
    Timer {
        node: u32,
        incarnation: u32,
    },
    /// A busy node is free again.
    Idle {
        node: u32,
        incarnation: u32,
    },
}

impl<M> PartialEq for QueueEntry<M> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl<M> Eq for QueueEntry<M> {}

impl<M> PartialOrd for QueueEntry<M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for QueueEntry<M> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}
