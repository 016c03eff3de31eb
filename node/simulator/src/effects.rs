//! The surroundings of a simulated node, in virtual time: its links, its processor and its disk.
//!
//! Work that the node does on other threads happens immediately here, and costs virtual time where that matters.
//! Signatures are charged to the node's processor ([`Meter`]). Writes take the disk's time.

use crate::{
    crypto::Meter,
    disk::{Disk, bytes_of},
    engines::EngineEvents,
    execution::Executor,
    multicast::{GroupRequest, PacketCost},
    network::{Message, Network, SharedMessage},
};
use corniche_admission::Refusal;
use corniche_engine::{Committee, Offence, SequencerKey, TraceEvent};
use corniche_pipeline::{Effects, Event, Executed, Fault, Halted, Input, NodeKey, PeerMessage, Pipeline, Plan, Request, Write};
use corniche_testkit::{Action, Micros};
use corniche_types::{B256, Bytes, Epoch, ValidatorIndex};
use std::{
    cell::Cell,
    collections::{BTreeMap, VecDeque},
    mem,
    rc::Rc,
};

/// Implements the driver's effects with virtual time.
pub struct VirtualEffects {
    pub network: Rc<Network>,
    /// Number of this process.
    pub process: usize,
    /// The validator it plays.
    pub identity: usize,
    pub now: Micros,
    pub executor: Executor,
    /// Work of the engine's keys.
    pub meter: Meter,
    /// Work of the certificate keys.
    pub certificate_meter: Meter,
    /// Time for recovering senders of transactions since it was last taken, µs.
    recovering_us: Cell<u64>,
    pub engine_events: EngineEvents,
    pub disk: Disk,
    pub actions: VecDeque<Action<Message>>,
    /// Inputs of the multicast group on their way, by time of arrival.
    arriving: BTreeMap<(Micros, u64), Input>,
    arrivals: u64,
    /// Index of this validator in the group.
    receiver: Option<ValidatorIndex>,
    packet_cost: PacketCost,
    /// Result of the last submission.
    pub submitted: Option<Result<(), Refusal>>,
    /// True if the validator is Byzantine at any time: its trace is ignored.
    pub byzantine: bool,
    /// Epoch of the node, which the checks know.
    epoch: Option<Epoch>,
    speed: Speed,
    /// Plans being executed, each with its completion time.
    executing: VecDeque<(Micros, Plan)>,
    /// Start of the next write on a slow disk.
    write_at: Option<Micros>,
    /// The write in progress, with its number.
    writing: (u64, Vec<Write>),
}

/// Additional time of a slow node for a block and for a write.
#[derive(Clone, Copy, Debug, Default)]
struct Speed {
    execute: Micros,
    write: Micros,
}

impl VirtualEffects {
    pub fn new(network: Rc<Network>, [process, identity]: [usize; 2], now: Micros, executor: Executor, disk: Disk) -> Self {
        let receiver = network.secrets.names.index(&Committee::from_genesis(&network.genesis), identity);
        Self {
            network,
            process,
            identity,
            now,
            executor,
            meter: Meter::default(),
            certificate_meter: Meter::default(),
            recovering_us: Cell::default(),
            engine_events: EngineEvents::default(),
            disk,
            actions: VecDeque::new(),
            arriving: BTreeMap::new(),
            arrivals: 0,
            receiver,
            packet_cost: PacketCost::new(),
            submitted: None,
            byzantine: false,
            epoch: None,
            speed: Speed::default(),
            executing: VecDeque::new(),
            write_at: None,
            writing: (0, Vec::new()),
        }
    }

    /// Time of the next result or write, if the node does not wait for another event.
    pub fn deadline(&self) -> Option<Micros> {
        let executed = self.executing.front().map(|(until, _)| *until);
        let arriving = self.arriving.first_key_value().map(|((at, _), _)| *at);
        [executed, self.write_at, arriving].into_iter().flatten().min()
    }

    // ---- the multicast group -------------------------------------------------------------------------------------------

    fn arrive(&mut self, at: Micros, input: Input) {
        self.arrivals += 1;
        self.arriving.insert((at, self.arrivals), input);
    }

    /// A copy of a request arrives.
    pub fn receive(&mut self, request: &GroupRequest) {
        let network = self.network.clone();
        let Some((multicast, me)) = network.multicast.as_ref().zip(self.receiver) else { return };
        let (at, datagrams) = multicast.receive(self.now, me, request);
        datagrams.into_iter().for_each(|datagram| self.arrive(at, Input::Packet(datagram)));
    }

    /// Returns the next input of the group that has arrived.
    pub fn arrived(&mut self) -> Option<Input> {
        let entry = self.arriving.first_entry().filter(|entry| entry.key().0 <= self.now)?;
        let input = entry.remove();
        if let (Input::Packet(datagram), Some(me)) = (&input, self.receiver) {
            self.packet_cost.charge(me, datagram, self.network.cost, &self.meter);
        }
        Some(input)
    }

    /// Keys of sequencers that this validator gets at its start.
    pub fn multicast_keys(&self) -> Vec<SequencerKey> {
        let multicast = self.network.multicast.as_ref().zip(self.receiver);
        multicast.map_or_else(Vec::new, |(multicast, me)| multicast.keys(self.now, me))
    }

    /// From now on, blocks take this much longer to execute and writes to become durable.
    pub fn slow_down(&mut self, execute: Micros, write: Micros) {
        self.speed = Speed { execute, write };
        // Work in progress continues at the new speed.
        let mut until = self.now;
        for (due, _) in &mut self.executing {
            until += execute;
            *due = until;
        }
        self.write_at = self.write_at.map(|at| at.min(self.now + write));
    }

    /// Executes the plans that are due.
    pub fn execute_due(&mut self) -> Vec<Executed> {
        let mut results = Vec::new();
        while let Some((_, plan)) = self.executing.pop_front_if(|(until, _)| *until <= self.now) {
            let executed = self.executor.execute(plan.block);
            self.network.checks.borrow_mut().executed(self.process, self.now, &executed, self.executor.state());
            results.push(executed);
        }
        results
    }

    /// [`Self::execute_due`], as events.
    pub fn executed_events(&mut self) -> impl Iterator<Item = Event> + use<> {
        self.execute_due().into_iter().map(|executed| Input::Executed(Box::new(executed)).into())
    }

    /// Write `number` is done: it is on the disk.
    pub fn written(&mut self, number: u64) -> Event {
        assert_eq!(number, self.writing.0, "invariant: one write at a time");
        let group = mem::take(&mut self.writing.1);
        let reads_safety_log = group.iter().any(|write| matches!(write, Write::ReadSafetyLog));
        group.into_iter().for_each(|write| self.disk.apply(write));
        Event::Written { groups: 1, safety_log: reads_safety_log.then(|| self.disk.records()) }
    }

    /// Charges the recovery of one sender.
    pub fn charge_recovery(&self) {
        self.recovering_us.set(self.recovering_us.get() + self.network.cost.recover_us);
    }

    /// Moves the pending processor time before the other actions, and adds the work to the network's totals.
    pub fn charge(&mut self) {
        let works = [self.meter.take(), self.certificate_meter.take()];
        let mut totals = self.network.spent.borrow_mut();
        totals.iter_mut().zip(works).for_each(|(spent, work)| spent.work += work);
        let micros = works.iter().map(|work| work.micros).sum::<u64>() + self.recovering_us.take();
        if micros > 0 {
            self.actions.push_front(Action::Work(Micros(micros)));
        }
    }

    /// Powers the disk off: all completed writes survive, and the first `survive` of the others. `waiting` have not begun.
    pub fn power_off(mut self, waiting: Vec<Write>, survive: impl FnOnce(usize) -> usize) -> Disk {
        let unsynced: Vec<Write> = self.writing.1.into_iter().chain(waiting).collect();
        let survive = survive(unsynced.len());
        unsynced.into_iter().take(survive).for_each(|write| self.disk.apply(write));
        self.disk
    }
}

impl Effects for VirtualEffects {
    fn observe(&mut self, pipeline: &Pipeline) {
        let committee = pipeline.committee();
        if self.epoch != Some(committee.epoch()) {
            self.epoch = Some(committee.epoch());
            let members = self.network.secrets.names.members(committee);
            self.network.checks.borrow_mut().entered(self.process, committee, members, pipeline.coin());
        }
        for event in self.engine_events.take() {
            self.network.checks.borrow_mut().on_engine_event(self.process, self.now, event);
        }
    }

    fn send(&mut self, to: &[NodeKey], message: PeerMessage) {
        let shared = SharedMessage::new(message);
        let bytes = shared.bytes();
        let names = &self.network.secrets.names;
        let send = |to| Action::Send { to: names.number(to), message: Message::Peer(shared.clone()), bytes };
        self.actions.extend(to.iter().map(send));
    }

    fn request(&mut self, to: NodeKey, request: Request) {
        let to = self.network.secrets.names.number(&to);
        self.actions.push_back(Action::Send { to, message: Message::Request(request), bytes: 24 });
    }

    /// The network copies the request. So it is on the sender's line once.
    fn multicast(&mut self, request: Bytes) {
        let request = GroupRequest::new(request);
        let first_other = usize::from(self.identity == 0);
        let bytes = |to: usize| if to == first_other { request.bytes().len() } else { 0 };
        let send = |to| Action::Send { to, message: Message::Multicast(request.clone()), bytes: bytes(to) };
        self.actions.extend((0..self.network.secrets.names.count()).map(send));
    }

    fn ask_sequencer(&mut self, epoch: u32, certificate: Bytes) {
        let network = self.network.clone();
        let Some((multicast, me)) = network.multicast.as_ref().zip(self.receiver) else { return };
        if let Some((at, key)) = multicast.ask(self.now, me, epoch, &certificate) {
            self.arrive(at, Input::Sequencer(key));
        }
    }

    fn penalise(&mut self, peer: NodeKey, fault: Fault) {
        let peer = self.network.secrets.names.number(&peer);
        self.network.checks.borrow_mut().peer_fault(self.process, peer, &fault.0);
    }

    fn start_epoch(&mut self, committee: Committee, _: bool) {
        self.network.checker.start_epoch(&self.network.engines, &committee);
    }

    fn execute(&mut self, plan: Plan) -> Vec<Executed> {
        let free = self.executing.back().map_or(self.now, |(until, _)| *until);
        self.executing.push_back((free + self.speed.execute, plan));
        self.execute_due()
    }

    /// One write at a time. A slow disk waits before it begins.
    fn is_disk_ready(&mut self) -> bool {
        self.writing.1.is_empty() && *self.write_at.get_or_insert(self.now + self.speed.write) <= self.now
    }

    fn write(&mut self, group: Vec<Write>) {
        self.write_at = None;
        let (number, writing) = &mut self.writing;
        *number += 1;
        let bytes = group.iter().map(bytes_of).sum();
        let mut records = self.network.records.borrow_mut();
        let share = |write| match write {
            Write::Record(ticket, record) => Write::Record(ticket, records.share(record)),
            other => other,
        };
        *writing = group.into_iter().map(share).collect();
        self.actions.push_back(Action::Write { id: *number, bytes });
    }

    fn submitted(&mut self, _: u64, result: Result<B256, Refusal>) {
        self.submitted = Some(result.map(|_| ()));
    }

    fn accuse(&mut self, validator: ValidatorIndex, offence: Offence, _: Vec<Bytes>) {
        self.network.checks.borrow_mut().accused(self.process, validator, offence);
    }

    fn trace(&mut self, event: TraceEvent) {
        if self.byzantine {
            return;
        }
        if let Some(observer) = &self.network.observer {
            (observer.borrow_mut())(self.now, self.process, &event);
        }
        match event {
            TraceEvent::Elected { round, leaders } => {
                let mut elected = self.network.elected.borrow_mut();
                let (epoch, names) = (self.epoch.unwrap_or_default(), &self.network.secrets.names);
                if (epoch, round) > elected.0
                    && let Some(committee) = self.network.checker.committee(epoch)
                {
                    let leaders = leaders.into_iter().filter_map(|leader| names.member(&committee, leader));
                    *elected = ((epoch, round), leaders.collect());
                }
            }
            // If leaders take turns, the newest leader is the last proposer.
            TraceEvent::Note { name, .. } if name == "prepare" => {
                self.network.elected.borrow_mut().1 = vec![self.process];
            }
            TraceEvent::Decided { why, .. } => self.network.checks.borrow_mut().decided(self.process, &why),
            _ => {}
        }
    }

    fn halt(&mut self, halted: Halted) {
        self.network.checks.borrow_mut().halted(self.process, &halted.reason);
    }
}
