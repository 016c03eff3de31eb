//! One engine as a process: its clock, its disk, its verifier and its messages. What its users do, and what is recorded or
//! checked, is up to its [`Surroundings`].

use crate::{Action, Event, Group, Micros, Process};
use corniche_engine::{Batch, Engine, Input, Output, Recipients, Ticket, Verified, Verifier};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

/// A message in transit. It is verified once, however many processes receive it.
#[derive(Clone)]
pub struct Packet(Rc<Sealed>);

struct Sealed {
    bytes: Bytes,
    verified: OnceCell<Result<Verified, String>>,
    /// For a request to the multicast group: the datagrams for each receiver, once it was stamped.
    stamped: Option<OnceCell<Vec<Vec<Bytes>>>>,
}

impl Packet {
    pub fn new(bytes: Bytes) -> Self {
        Self(Rc::new(Sealed { bytes, verified: OnceCell::new(), stamped: None }))
    }

    /// A request to the multicast group.
    fn request(bytes: Bytes) -> Self {
        Self(Rc::new(Sealed { bytes, verified: OnceCell::new(), stamped: Some(OnceCell::new()) }))
    }

    /// Returns true for a request to the multicast group; any other packet is a message of an engine.
    pub fn is_request(&self) -> bool {
        self.0.stamped.is_some()
    }

    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Result of `verifier`, cached: the verifiers of all receivers agree.
    pub fn verified(&self, from: ValidatorIndex, verifier: &dyn Verifier) -> &Result<Verified, String> {
        self.0.verified.get_or_init(|| verifier.verify(from, &self.0.bytes).map_err(|fault| fault.0))
    }
}

/// Records of an engine, by ticket.
pub type Records = BTreeMap<Ticket, Bytes>;

/// State that survives a power cut.
#[derive(Clone, Debug, Default)]
pub struct EngineDisk<N> {
    pub records: Records,
    /// A record was written, or the disk was lost. Durable before the first record.
    pub may_have_signed: bool,
    /// Data kept outside the engine.
    pub notes: N,
}

/// A message that an engine sends.
pub struct Sending<'a> {
    pub from: usize,
    pub recipients: Recipients,
    /// The recipients by identity.
    pub to: &'a [usize],
    pub message: &'a Bytes,
    /// The sender's durable records.
    pub records: &'a Records,
}

/// Messages that a process sends.
#[derive(Default)]
pub struct Outbox(VecDeque<Action<Packet>>);

impl Outbox {
    fn multicast(&mut self, receivers: usize, request: Bytes) {
        let packet = Packet::request(request);
        let bytes = packet.bytes().len();
        self.0.extend((0..receivers).map(|to| Action::Send { to, message: packet.clone(), bytes }));
    }

    pub fn send(&mut self, to: &[usize], message: Bytes) {
        let packet = Packet::new(message);
        let bytes = packet.bytes().len();
        self.0.extend(to.iter().map(|to| Action::Send { to: *to, message: packet.clone(), bytes }));
    }
}

/// Everything around one engine in a test.
pub trait Surroundings: Sized {
    type Engine: Engine;
    /// Data that survives a power cut, besides the records.
    type Notes: Default;

    /// Lead of the validator's clock, ms.
    fn clock_ahead_ms(&self) -> i64 {
        0
    }

    /// Returns a batch for an engine that asks, if there is one.
    fn next_batch(&mut self) -> Option<Batch>;

    /// The engine sends a message.
    fn on_send(&mut self, now: Micros, sending: Sending<'_>, outbox: &mut Outbox);

    /// The multicast group of the run, if the engine has one.
    fn group(&self) -> Option<Rc<RefCell<dyn Group>>> {
        None
    }

    /// The engine sends a request to the group. Returns what is sent instead.
    fn on_multicast(&mut self, request: Bytes) -> Option<Bytes> {
        Some(request)
    }

    /// A message that the verifier accepted arrived. Returns true if the engine receives it.
    fn on_receive(&mut self, _now: Micros, _from: usize, _message: &Bytes, _outbox: &mut Outbox) -> bool {
        true
    }

    /// The verifier refused a message.
    fn on_refused(&mut self, from: usize, fault: &str);

    /// A record is on disk.
    fn on_written(&mut self, _record: &Bytes) {}

    /// The engine used a ticket twice.
    fn on_ticket_reused(&mut self, ticket: Ticket);

    /// The engine delivers, returns a batch, accuses or reports.
    fn on_output(&mut self, now: Micros, output: Output);

    /// The engine has nothing more to do now.
    fn after_step(&mut self, _engine: &Self::Engine) {}

    /// Number of the oldest records in writing that reach the disk although power fails.
    fn surviving_writes(&mut self, _in_writing: usize) -> usize {
        0
    }

    fn into_notes(self) -> Self::Notes;
}

/// One engine with its surroundings.
pub struct EngineHost<S: Surroundings> {
    pub me: ValidatorIndex,
    committee_size: usize,
    pub engine: S::Engine,
    pub surroundings: S,
    verifier: Arc<dyn Verifier>,
    pub records: Records,
    may_have_signed: bool,
    in_writing: Records,
    /// The engine asked for a batch.
    wants: bool,
    outbox: Outbox,
    /// Inputs of the group on their way, by time of arrival.
    arriving: BTreeMap<(Micros, u64), Input>,
    arrivals: u64,
    /// Power fails inside the step in which the engine writes this many further records. Then the process does nothing
    /// any more, and the test has to power it off. `None`: never.
    pub writes_until_failure: Option<usize>,
}

/// Arguments of [`EngineHost::start`].
pub struct HostSetup<S: Surroundings> {
    pub me: usize,
    pub committee_size: usize,
    pub engine: S::Engine,
    pub verifier: Arc<dyn Verifier>,
    pub records: Records,
    pub may_have_signed: bool,
    pub surroundings: S,
}

impl<S: Surroundings> EngineHost<S> {
    pub fn start(setup: HostSetup<S>, now: Micros) -> Self {
        let HostSetup { me, committee_size, engine, verifier, records, may_have_signed, surroundings } = setup;
        let (in_writing, outbox) = Default::default();
        let (me, wants) = (index(me), false);
        let mut host = Self {
            me,
            committee_size,
            engine,
            surroundings,
            verifier,
            records,
            may_have_signed,
            in_writing,
            wants,
            outbox,
            arriving: BTreeMap::new(),
            arrivals: 0,
            writes_until_failure: None,
        };
        host.drain(now);
        if let Some(group) = host.surroundings.group() {
            let keys = group.borrow_mut().keys(now, host.me.as_usize());
            keys.into_iter().for_each(|key| host.input(now, Input::Sequencer(key)));
        }
        host
    }

    /// True if no record was ever written.
    pub fn is_unsigned(&self) -> bool {
        !self.may_have_signed
    }

    /// True once power failed in a step: see [`EngineHost::writes_until_failure`].
    pub fn has_failed(&self) -> bool {
        self.writes_until_failure == Some(0)
    }

    pub fn input(&mut self, now: Micros, input: Input) {
        if self.has_failed() {
            return;
        }
        self.engine.handle(self.clock(now), input);
        self.drain(now);
    }

    /// Time on the validator's clock.
    fn clock(&self, now: Micros) -> TimestampMs {
        clock(now, self.surroundings.clock_ahead_ms())
    }

    /// Does what the engine asks for, and answers its request for a batch.
    pub fn drain(&mut self, now: Micros) {
        loop {
            while let Some(output) = self.engine.poll() {
                self.perform(now, output);
                if self.has_failed() {
                    return;
                }
            }
            let Some(batch) = self.wants.then(|| self.surroundings.next_batch()).flatten() else { break };
            self.wants = false;
            self.engine.handle(self.clock(now), Input::Batch(batch));
        }
        self.surroundings.after_step(&self.engine);
    }

    fn perform(&mut self, now: Micros, output: Output) {
        match output {
            Output::WantBatch { .. } => self.wants = true,
            Output::Send { to: recipients, message } => {
                let from = self.me.as_usize();
                let to: Vec<usize> = match recipients {
                    Recipients::All => (0..self.committee_size).filter(|peer| *peer != from).collect(),
                    Recipients::One(peer) => vec![peer.as_usize()],
                };
                let sending = Sending { from, recipients, to: &to, message: &message, records: &self.records };
                self.surroundings.on_send(now, sending, &mut self.outbox);
            }
            Output::Persist(ticket, record) => {
                self.may_have_signed = true;
                self.writes_until_failure = self.writes_until_failure.map(|left| left.saturating_sub(1));
                self.outbox.0.push_back(Action::Write { id: ticket.0, bytes: record.len() });
                if self.records.contains_key(&ticket) || self.in_writing.insert(ticket, record).is_some() {
                    self.surroundings.on_ticket_reused(ticket);
                }
            }
            Output::Multicast(request) => {
                if let Some(request) = self.surroundings.on_multicast(request) {
                    self.outbox.multicast(self.committee_size, request);
                }
            }
            Output::AskSequencer { epoch, certificate } => {
                if let Some(group) = self.surroundings.group() {
                    let key = group.borrow_mut().ask(now, self.me.as_usize(), epoch, &certificate);
                    key.into_iter().for_each(|(at, key)| self.arrive(at, Input::Sequencer(key)));
                }
            }
            Output::ReleaseBelow(ticket) => self.records = self.records.split_off(&ticket),
            output => self.surroundings.on_output(now, output),
        }
    }

    fn written(&mut self, now: Micros, ticket: Ticket) {
        if self.has_failed() {
            return;
        }
        if let Some(record) = self.in_writing.remove(&ticket) {
            self.surroundings.on_written(&record);
            self.records.insert(ticket, record);
        }
        self.input(now, Input::Durable(ticket));
    }

    fn arrive(&mut self, at: Micros, input: Input) {
        self.arrivals += 1;
        self.arriving.insert((at, self.arrivals), input);
    }

    /// Passes on what has arrived from the group.
    fn take_arrived(&mut self, now: Micros) {
        while let Some(entry) = self.arriving.first_entry().filter(|entry| entry.key().0 <= now) {
            let input = entry.remove();
            self.input(now, input);
        }
    }

    /// A request to the group passes the sequencer.
    fn receive_stamped(&mut self, now: Micros, packet: &Packet) {
        let (Some(stamped), Some(group)) = (&packet.0.stamped, self.surroundings.group()) else { return };
        let at = now + group.borrow().extra_delay();
        let datagrams = stamped.get_or_init(|| group.borrow_mut().stamp(now, packet.bytes()));
        for datagram in datagrams.get(self.me.as_usize()).into_iter().flatten() {
            self.arrive(at, Input::Packet(datagram.clone()));
        }
        self.take_arrived(now);
    }

    /// A message arrives.
    pub fn receive(&mut self, now: Micros, from: usize, packet: &Packet) {
        if packet.is_request() {
            return self.receive_stamped(now, packet);
        }
        match packet.verified(index(from), &*self.verifier) {
            Ok(message) => {
                let message = message.clone();
                if self.surroundings.on_receive(now, from, packet.bytes(), &mut self.outbox) {
                    self.input(now, Input::Message { from: index(from), message });
                }
            }
            Err(fault) => self.surroundings.on_refused(from, fault),
        }
    }
}

impl<S: Surroundings> Process for EngineHost<S> {
    type Message = Packet;
    type Disk = EngineDisk<S::Notes>;

    fn handle(&mut self, now: Micros, event: Event<Packet>) {
        match event {
            Event::Up(peer) => self.input(now, Input::PeerUp(index(peer))),
            Event::Down(peer) => self.input(now, Input::PeerDown(index(peer))),
            Event::Message { from, message } => self.receive(now, from, &message),
            Event::Written(id) => self.written(now, Ticket(id)),
            Event::Deadline => {
                self.take_arrived(now);
                self.input(now, Input::Deadline);
            }
        }
    }

    fn poll(&mut self) -> Option<Action<Packet>> {
        self.outbox.0.pop_front()
    }

    fn deadline(&self) -> Option<Micros> {
        if self.has_failed() {
            return None;
        }
        let at = |deadline: TimestampMs| deadline.0.saturating_add_signed(self.surroundings.clock_ahead_ms().saturating_neg());
        let engine = self.engine.deadline().map(|deadline| Micros::from_timestamp(TimestampMs(at(deadline))));
        let arriving = self.arriving.first_key_value().map(|((at, _), _)| *at);
        [engine, arriving].into_iter().flatten().min()
    }

    fn power_off(mut self) -> Self::Disk {
        let survivors = self.surroundings.surviving_writes(self.in_writing.len());
        self.records.extend(self.in_writing.into_iter().take(survivors));
        let notes = self.surroundings.into_notes();
        EngineDisk { records: self.records, may_have_signed: self.may_have_signed, notes }
    }
}

/// Time on a clock that is ahead by this many ms.
pub(crate) fn clock(now: Micros, ahead_ms: i64) -> TimestampMs {
    TimestampMs(now.timestamp().0.saturating_add_signed(ahead_ms))
}

pub(crate) fn index(identity: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(identity).expect("the committee size fits the index type"))
}
