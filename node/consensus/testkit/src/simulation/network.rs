//! Connections between processes, and the way of a message.

use super::{Scheduled, Simulation};
use crate::{Adversary, Delivery, Event, Micros, Process, adversary::View};
use std::mem;

#[derive(Clone, Copy, Default)]
pub(super) struct Pair {
    /// Odd while connected; incremented whenever a connection is made or broken.
    pub connection: u32,
    /// Never connected.
    pub separated: bool,
    /// Arrival time of the last message that was not reordered. Later ones do not arrive before it.
    pub last_arrival: Micros,
}

impl<P: Process> Simulation<P> {
    /// Returns true if two processes are connected now.
    pub fn is_connected(&self, one: usize, other: usize) -> bool {
        self.pairs[self.pair(one, other)].connection % 2 == 1
    }

    pub fn set_adversary(&mut self, adversary: Option<Box<dyn Adversary<P::Message>>>) {
        self.adversary = adversary;
        let held: Vec<_> = mem::take(&mut self.held).into_values().flatten().collect();
        held.into_iter().for_each(|arrival| self.schedule(self.now, arrival));
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

    pub(super) fn send(&mut self, from: usize, at: Micros, to: usize, message: &P::Message, bytes: usize) {
        for position in 0..self.processes[to].len() {
            let receiver = self.processes[to][position];
            if receiver == from {
                self.send_to_self(from, at, message);
                continue;
            }
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

    /// Sends a message through the network and back to its sender, as a multicast does.
    fn send_to_self(&mut self, process: usize, at: Micros, message: &P::Message) {
        let (identity, incarnation) = (self.nodes[process].identity, self.nodes[process].incarnation);
        if self.links.loses(identity, identity, &mut self.transit) {
            return;
        }
        let arrival = at + self.links.draw(identity, identity, &mut self.transit);
        let event = Event::Message { from: identity, message: message.clone() };
        self.schedule(arrival, Scheduled::Local { node: process as u32, incarnation, event });
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

    /// Connects or disconnects one process and each other one, according to power, group, identity and separation.
    pub(super) fn reconnect(&mut self, process: usize) {
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

    pub(super) fn pair(&self, from: usize, to: usize) -> usize {
        from * self.nodes.len() + to
    }
}
