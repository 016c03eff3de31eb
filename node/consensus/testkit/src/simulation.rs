//! Virtual time: one event queue, and all interaction between nodes.
//!
//! A *process* is a running program; its *identity* is the validator it plays. Both are the same number, except for
//! Byzantine doubles: several processes share one identity. Methods that inject faults or access state take processes.
//! Messages name identities.
//!
//! Events with the same time are processed in the order in which they were scheduled. So a run is a function of the
//! processes, the settings and the seed.

mod network;
mod queue;

use crate::{Action, Adversary, DiskModel, Event, Links, Micros, Process, Random};
use network::Pair;
use queue::{QueueEntry, Scheduled};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

/// Starts a process from `(process, its disk, now, a seed)`.
pub type Start<P> = Box<dyn FnMut(usize, <P as Process>::Disk, Micros, u64) -> P>;

/// Maximum number of timers of one process that fire at the same virtual time. A process that exceeds it is broken.
const MAX_TIMERS_AT_ONCE: u32 = 1_000;

/// Nodes, links, disks and time.
pub struct Simulation<P: Process> {
    now: Micros,
    queue: BinaryHeap<Reverse<QueueEntry<P::Message>>>,
    /// Number of scheduled events; breaks ties between events with the same time.
    sequence: u64,
    nodes: Vec<Node<P>>,
    /// Processes of each identity.
    processes: Vec<Vec<usize>>,
    pub links: Links,
    pub disks: DiskModel,
    adversary: Option<Box<dyn Adversary<P::Message>>>,
    /// Messages that the adversary holds back, by receiver and [`Delivery::Hold`] number.
    held: BTreeMap<(usize, u64), Vec<Scheduled<P::Message>>>,
    /// Indexed by ordered pair of processes.
    pairs: Vec<Pair>,
    /// Number of connected processes of each identity, indexed by process and identity.
    connected: Vec<u8>,
    start: Start<P>,
    /// Source of the processes' seeds.
    starts: Random,
    /// Source of delays, losses and duplicates.
    transit: Random,
    pub statistics: Statistics,
}

/// Counters since the start of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// All events taken from the queue.
    pub events: u64,
    /// Sent messages, counted once per recipient, even if they are lost.
    pub messages: u64,
    pub bytes: u64,
    pub delivered: u64,
    /// Sent without a connection, lost on a link, or in transit when a connection broke.
    pub lost: u64,
}

struct Node<P: Process> {
    identity: usize,
    process: Option<P>,
    /// Present while the power is off.
    disk: Option<P::Disk>,
    /// Incremented whenever the power goes on or off. Events of earlier incarnations are ignored.
    incarnation: u32,
    /// Processes of different groups are not connected.
    group: u32,
    busy_until: Micros,
    /// Events that arrived while the node was busy.
    inbox: VecDeque<Event<P::Message>>,
    /// Time of the process's timer in the queue.
    timer: Option<Micros>,
    timers_at_once: (Micros, u32),
    disk_free: Micros,
    egress_free: Micros,
}

impl<P: Process> Simulation<P> {
    /// One process per validator, all powered off with empty disks until [`Simulation::start_all`].
    pub fn new(links: Links, disks: DiskModel, seed: u64, start: Start<P>) -> Self {
        let size = links.size();
        Self::with_identities((0..size).collect(), links, disks, seed, start)
    }

    /// Process p plays `identities[p]`. Processes of one identity are not connected to each other.
    pub fn with_identities(identities: Vec<usize>, links: Links, disks: DiskModel, seed: u64, start: Start<P>) -> Self {
        let mut processes = vec![Vec::new(); links.size()];
        identities.iter().enumerate().for_each(|(process, identity)| processes[*identity].push(process));
        let random = Random::new(seed);
        Self {
            now: Micros::START,
            queue: BinaryHeap::new(),
            sequence: 0,
            pairs: vec![Pair::default(); identities.len() * identities.len()],
            connected: vec![0; identities.len() * links.size()],
            nodes: identities.into_iter().map(Node::new).collect(),
            processes,
            links,
            disks,
            adversary: None,
            held: BTreeMap::new(),
            start,
            starts: random.fork("starts"),
            transit: random.fork("transit"),
            statistics: Statistics::default(),
        }
    }

    pub fn now(&self) -> Micros {
        self.now
    }

    /// Number of processes.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    pub fn identity(&self, process: usize) -> usize {
        self.nodes[process].identity
    }

    pub fn is_up(&self, process: usize) -> bool {
        self.nodes[process].process.is_some()
    }

    /// `None` while the power is off.
    pub fn process(&self, process: usize) -> Option<&P> {
        self.nodes[process].process.as_ref()
    }

    /// Contents of a disk while the power is off; `None` while it is on.
    pub fn stored(&self, process: usize) -> Option<&P::Disk> {
        self.nodes[process].disk.as_ref()
    }

    /// Disk of a process while the power is off; `None` while it is on.
    pub fn disk(&mut self, process: usize) -> Option<&mut P::Disk> {
        self.nodes[process].disk.as_mut()
    }

    /// Applies `change` to a running process, then executes its pending actions. Returns `None` while the power is off.
    pub fn with<R>(&mut self, process: usize, change: impl FnOnce(&mut P) -> R) -> Option<R> {
        let result = self.nodes[process].process.as_mut().map(change)?;
        self.drain(process);
        Some(result)
    }

    pub fn start_all(&mut self) {
        (0..self.nodes.len()).for_each(|process| self.restart(process));
    }

    /// Powers a process on, with the contents of its disk. Does nothing to a running process.
    pub fn restart(&mut self, process: usize) {
        let now = self.now;
        let node = &mut self.nodes[process];
        let Some(disk) = node.disk.take() else { return };
        node.incarnation += 1;
        // Ends of connections that it was too busy for when the power went off. Their wake-up belongs to the old incarnation, so
        // nothing behind them would be delivered any more.
        node.inbox.clear();
        (node.busy_until, node.disk_free, node.egress_free, node.timer) = (now, now, now, None);
        let started = (self.start)(process, disk, now, self.starts.draw());
        self.nodes[process].process = Some(started);
        self.drain(process);
        self.reconnect(process);
    }

    /// Powers a process off immediately.
    pub fn crash(&mut self, process: usize) {
        let Some(running) = self.nodes[process].process.take() else { return };
        self.nodes[process].disk = Some(running.power_off());
        self.nodes[process].incarnation += 1;
        self.nodes[process].inbox.clear();
        self.reconnect(process);
    }

    /// Powers a process off and erases its disk.
    pub fn lose_disk(&mut self, process: usize) {
        self.crash(process);
        self.nodes[process].disk = Some(P::Disk::default());
    }

    /// Processes all events up to `end`; the time is then `end`.
    pub fn run_until(&mut self, end: Micros) {
        while self.step_until(end) {}
    }

    pub fn run_for(&mut self, time: Micros) {
        self.run_until(self.now + time);
    }

    /// Runs until `done`, which is called after every event, or until `end`. Returns the last result of `done`.
    pub fn run_until_done(&mut self, end: Micros, mut done: impl FnMut(&Self) -> bool) -> bool {
        while !done(self) {
            if !self.step_until(end) {
                return done(self);
            }
        }
        true
    }

    /// Processes the next event if it happens by `end`. Otherwise the time is then `end`, and the result is false.
    pub fn step_until(&mut self, end: Micros) -> bool {
        if self.queue.peek().is_none_or(|Reverse(entry)| entry.at > end) {
            self.now = self.now.max(end);
            return false;
        }
        self.step()
    }

    /// Processes the next event. Returns false if the queue is empty.
    pub fn step(&mut self) -> bool {
        let Some(Reverse(QueueEntry { at, scheduled, .. })) = self.queue.pop() else { return false };
        self.now = at;
        self.statistics.events += 1;
        match scheduled {
            Scheduled::Arrival { from, to, connection, message } => {
                let (from, to) = (from as usize, to as usize);
                if self.pairs[self.pair(from, to)].connection == connection {
                    self.statistics.delivered += 1;
                    self.enqueue(to, Event::Message { from: self.nodes[from].identity, message });
                } else {
                    self.statistics.lost += 1;
                }
            }
            Scheduled::Local { node, incarnation, event } => {
                if self.nodes[node as usize].incarnation == incarnation {
                    self.enqueue(node as usize, event);
                }
            }
            Scheduled::Timer { node, incarnation } => self.fire_timer(node as usize, incarnation),
            Scheduled::Idle { node, incarnation } => self.drain_inbox(node as usize, incarnation),
        }
        true
    }

    /// Delivers an event now, or when the process is free.
    fn enqueue(&mut self, process: usize, event: Event<P::Message>) {
        let node = &mut self.nodes[process];
        if node.busy_until <= self.now && node.inbox.is_empty() {
            return self.deliver(process, event);
        }
        node.inbox.push_back(event);
        if node.inbox.len() == 1 {
            let (at, incarnation) = (node.busy_until, node.incarnation);
            self.schedule(at, Scheduled::Idle { node: process as u32, incarnation });
        }
    }

    fn drain_inbox(&mut self, process: usize, incarnation: u32) {
        while self.nodes[process].incarnation == incarnation {
            let node = &mut self.nodes[process];
            if node.busy_until > self.now {
                let at = node.busy_until;
                return self.schedule(at, Scheduled::Idle { node: process as u32, incarnation });
            }
            let Some(event) = node.inbox.pop_front() else { return };
            let last = node.inbox.is_empty();
            self.deliver(process, event);
            if last {
                return;
            }
        }
    }

    fn deliver(&mut self, process: usize, event: Event<P::Message>) {
        let now = self.now;
        if let Some(running) = &mut self.nodes[process].process {
            running.handle(now, event);
            self.drain(process);
        }
    }

    fn drain(&mut self, process: usize) {
        let mut at = self.now.max(self.nodes[process].busy_until);
        while let Some(action) = self.nodes[process].process.as_mut().and_then(Process::poll) {
            match action {
                Action::Send { to, message, bytes } => self.send(process, at, to, &message, bytes),
                Action::Write { id, bytes } => self.write(process, at, id, bytes),
                Action::Work(time) => at += time,
            }
        }
        self.nodes[process].busy_until = at;
        self.set_timer(process);
    }

    fn write(&mut self, process: usize, at: Micros, id: u64, bytes: usize) {
        let node = &mut self.nodes[process];
        node.disk_free = node.disk_free.max(at) + self.disks.transfer(bytes);
        let (done, incarnation) = (node.disk_free + self.disks.sync, node.incarnation);
        self.schedule(done, Scheduled::Local { node: process as u32, incarnation, event: Event::Written(id) });
    }

    /// Keeps one timer per node in the queue, at or before the node's deadline. The deadline is checked when it fires.
    fn set_timer(&mut self, process: usize) {
        let node = &mut self.nodes[process];
        let Some(deadline) = node.process.as_ref().and_then(Process::deadline) else { return };
        let at = deadline.max(self.now).max(node.busy_until);
        if node.timer.is_none_or(|timer| at < timer) {
            node.timer = Some(at);
            let incarnation = node.incarnation;
            self.schedule(at, Scheduled::Timer { node: process as u32, incarnation });
        }
    }

    fn fire_timer(&mut self, process: usize, incarnation: u32) {
        let node = &mut self.nodes[process];
        if node.incarnation != incarnation || node.timer != Some(self.now) {
            return;
        }
        node.timer = None;
        let due = node.process.as_ref().and_then(Process::deadline).is_some_and(|deadline| deadline <= self.now);
        if due && node.busy_until <= self.now {
            let (at, count) = node.timers_at_once;
            node.timers_at_once = if at == self.now { (at, count + 1) } else { (self.now, 0) };
            assert!(
                count < MAX_TIMERS_AT_ONCE,
                "process {process} makes no progress at {}: its deadline does not move",
                self.now
            );
            self.deliver(process, Event::Deadline);
        } else {
            self.set_timer(process);
        }
    }

    fn schedule(&mut self, at: Micros, scheduled: Scheduled<P::Message>) {
        self.sequence += 1;
        self.queue.push(Reverse(QueueEntry { at, sequence: self.sequence, scheduled }));
    }
}

impl<P: Process> Node<P> {
    fn new(identity: usize) -> Self {
        Self {
            identity,
            process: None,
            disk: Some(P::Disk::default()),
            incarnation: 0,
            group: 0,
            busy_until: Micros::ZERO,
            inbox: VecDeque::new(),
            timer: None,
            timers_at_once: (Micros::ZERO, 0),
            disk_free: Micros::ZERO,
            egress_free: Micros::ZERO,
        }
    }
}
