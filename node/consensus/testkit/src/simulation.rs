//! Virtual time: one event queue, and all interaction between nodes.
//!
//! A *process* is a running program; its *identity* is the validator it plays. Both are the same number, except for
//! Byzantine doubles: several processes share one identity. Methods that inject faults or access state take processes.
//! Messages name identities.
//!
//! Events with the same time are processed in the order in which they were scheduled. So a run is a function of the
//! processes, the settings and the seed.

use crate::{Action, Adversary, Delivery, DiskModel, Event, Links, Micros, Process, Random, adversary::View};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    mem,
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

#[derive(Clone, Copy, Default)]
struct Pair {
    /// Odd while connected; incremented whenever a connection is made or broken.
    connection: u32,
    /// Never connected.
    separated: bool,
    /// Arrival time of the last message that was not reordered. Later ones do not arrive before it.
    last_arrival: Micros,
}

struct QueueEntry<M> {
    at: Micros,
    sequence: u64,
    scheduled: Scheduled<M>,
}

enum Scheduled<M> {
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
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for QueueEntry<M> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
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

    /// Returns true if two processes are connected now.
    pub fn is_connected(&self, one: usize, other: usize) -> bool {
        self.pairs[self.pair(one, other)].connection % 2 == 1
    }

    /// `None` while the power is off.
    pub fn process(&self, process: usize) -> Option<&P> {
        self.nodes[process].process.as_ref()
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

    pub fn set_adversary(&mut self, adversary: Option<Box<dyn Adversary<P::Message>>>) {
        self.adversary = adversary;
        let held: Vec<_> = mem::take(&mut self.held).into_values().flatten().collect();
        held.into_iter().for_each(|arrival| self.schedule(self.now, arrival));
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

    /// Keeps connections only within a group. Processes that are not listed join the first group.
    pub fn partition(&mut self, groups: &[Vec<usize>]) {
        self.nodes.iter_mut().for_each(|node| node.group = 0);
        for (number, group) in (0u32..).zip(groups) {
            group.iter().for_each(|process| self.nodes[*process].group = number);
        }
        (0..self.nodes.len()).for_each(|process| self.reconnect(process));
    }

    pub fn heal(&mut self) {
        self.partition(&[]);
    }

    /// Disconnects two processes for good, independently of their groups.
    pub fn separate(&mut self, one: usize, other: usize) {
        for pair in [self.pair(one, other), self.pair(other, one)] {
            self.pairs[pair].separated = true;
        }
        self.reconnect(one);
    }

    /// Processes all events up to `end`; the time is then `end`.
    pub fn run_until(&mut self, end: Micros) {
        while self.queue.peek().is_some_and(|Reverse(entry)| entry.at <= end) {
            self.step();
        }
        self.now = self.now.max(end);
    }

    pub fn run_for(&mut self, time: Micros) {
        self.run_until(self.now + time);
    }

    /// Runs until `done`, which is called after every event, or until `end`. Returns the last result of `done`.
    pub fn run_until_done(&mut self, end: Micros, mut done: impl FnMut(&Self) -> bool) -> bool {
        while !done(self) {
            if self.queue.peek().is_none_or(|Reverse(entry)| entry.at > end) {
                self.now = self.now.max(end);
                return done(self);
            }
            self.step();
        }
        true
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

    fn send(&mut self, from: usize, at: Micros, to: usize, message: &P::Message, bytes: usize) {
        for position in 0..self.processes[to].len() {
            let receiver = self.processes[to][position];
            self.statistics.messages += 1;
            self.statistics.bytes += bytes as u64;
            if self.is_connected(from, receiver) {
                let node = &mut self.nodes[from];
                node.egress_free = node.egress_free.max(at) + self.links.transmission(bytes);
                let leaves = node.egress_free;
                self.transmit(from, receiver, leaves, message);
            } else {
                self.statistics.lost += 1;
            }
        }
    }

    /// Puts a message into the network.
    fn transmit(&mut self, from: usize, to: usize, leaves: Micros, message: &P::Message) {
        let (sender, receiver) = (self.nodes[from].identity, self.nodes[to].identity);
        let delivery = self.adversary_delivery(sender, receiver, message);
        let copies = if self.links.loses(sender, receiver, &mut self.transit) {
            self.statistics.lost += 1;
            0
        } else {
            1 + usize::from(self.transit.chance_ppm(self.links.duplication))
        };
        let pair = self.pair(from, to);
        for _ in 0..copies {
            let mut transit = self.links.draw(sender, receiver, &mut self.transit);
            let in_order = !self.transit.chance_ppm(self.links.reordering);
            if !in_order {
                transit += Micros(self.transit.below(transit.0 + 1));
            }
            let connection = self.pairs[pair].connection;
            let arrival = Scheduled::Arrival { from: from as u32, to: to as u32, connection, message: message.clone() };
            match delivery {
                Delivery::Hold(key) => self.held.entry((receiver, key)).or_default().push(arrival),
                Delivery::Delayed(extra) => self.schedule(leaves + transit + extra, arrival),
                Delivery::Normal if in_order => {
                    let last = &mut self.pairs[pair].last_arrival;
                    *last = (*last).max(leaves + transit);
                    let at = *last;
                    self.schedule(at, arrival);
                }
                Delivery::Normal => self.schedule(leaves + transit, arrival),
            }
        }
    }

    fn adversary_delivery(&mut self, from: usize, to: usize, message: &P::Message) -> Delivery {
        let Some(mut adversary) = self.adversary.take() else { return Delivery::Normal };
        let up = |identity: usize| self.processes[identity].iter().any(|process| self.is_up(*process));
        let mut view = View { now: self.now, up: &up, released: Vec::new() };
        let delivery = adversary.delivery(&mut view, from, to, message);
        let released = view.released;
        self.adversary = Some(adversary);
        for (receiver, below) in released {
            let delay = self.links.delay(from, receiver).max(Micros(1));
            while let Some(key) = self.held.range((receiver, 0)..(receiver, below)).next().map(|(key, _)| *key) {
                let arrivals = self.held.remove(&key).unwrap_or_default();
                arrivals.into_iter().for_each(|arrival| self.schedule(self.now + delay, arrival));
            }
        }
        delivery
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

    /// Connects or disconnects one process and each other one, according to power, group, identity and separation.
    fn reconnect(&mut self, process: usize) {
        for other in 0..self.nodes.len() {
            let pair = self.pair(process, other);
            let (one, two) = (&self.nodes[process], &self.nodes[other]);
            let wanted = one.process.is_some()
                && two.process.is_some()
                && one.identity != two.identity
                && one.group == two.group
                && !self.pairs[pair].separated;
            if wanted != self.is_connected(process, other) {
                let back = self.pair(other, process);
                for pair in [pair, back] {
                    self.pairs[pair].connection += 1;
                    self.pairs[pair].last_arrival = Micros::ZERO;
                }
                self.notify_peer(process, other, wanted);
                self.notify_peer(other, process, wanted);
            }
        }
    }

    /// Updates the connection count of `process` to the identity of `other`, and notifies `process` if the peer came up
    /// or went down.
    fn notify_peer(&mut self, process: usize, other: usize, up: bool) {
        let identity = self.nodes[other].identity;
        let count = &mut self.connected[process * self.processes.len() + identity];
        *count = if up { *count + 1 } else { *count - 1 };
        let event = match (up, *count) {
            (true, 1) => Event::Up(identity),
            (false, 0) => Event::Down(identity),
            _ => return,
        };
        let incarnation = self.nodes[process].incarnation;
        self.schedule(self.now, Scheduled::Local { node: process as u32, incarnation, event });
    }

    fn pair(&self, from: usize, to: usize) -> usize {
        from * self.nodes.len() + to
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
