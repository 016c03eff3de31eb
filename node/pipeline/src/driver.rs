//! The loop around the pipeline: one for `corniche node`, `corniche dev` and the simulator.
//!
//! ```text
//!  events ─▶ Driver ─▶ Pipeline ─▶ outputs ─▶ Effects: peers, processors, disk, users
//!    ▲         └── group commit ──────────────▶    │
//!    └─────────────── later events ────────────────┘
//! ```
//! [`Driver::handle`] passes events to the pipeline, each output to one of the [`Effects`], and then starts the next
//! group of writes. The driver decides what happens, in which order; the effects decide when, on which machine. A node
//! implements them with threads, files and sockets, the simulator with virtual time. Invariants:
//!
//! - **Durable before visible.** The pipeline gets [`Input::Durable`] and [`Input::Appended`] only after
//!   [`Event::Written`], in the order of the writes. Its outputs that depend on a write come after that.
//! - **Group commit.** A group begins when the disk is ready, with everything requested before. Groups become durable in
//!   order.
//! - A node halts after its last write: [`Effects::halt`]. It handles no input between [`Output::Halt`] and that.

use crate::epoch::Seat;
use crate::execution::{Executed, VerifiedTransaction};
use crate::extension::CommandResponse;
use crate::io::{Fault, Halted, Input, NodeKey, Output, Plan, TransactionStatus};
use crate::message::{PeerMessage, Request};
use crate::pipeline::Pipeline;
use crate::writes::{Write, WriteQueue};
use corniche_admission::Refusal;
use corniche_engine::{Committee, Offence, Ticket, TraceEvent};
use corniche_state::CommittedBlock;
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex};
use std::sync::Arc;

/// Number of writes that are not durable at which the node waits for its disk. See [`Driver::is_disk_behind`].
const MAX_WAITING_WRITES: usize = 16_384;

/// Something that happened to a node.
#[expect(clippy::large_enum_variant, reason = "nearly every event is an input, and a box for each would cost more")]
pub enum Event {
    /// Not [`Input::Durable`], [`Input::Appended`], [`Input::CertificateAppended`] or [`Input::SafetyLog`]: the driver makes
    /// these.
    Input(Input),
    /// The oldest `groups` of [`Effects::write`] are durable. `safety_log` has the records after them, if they contain
    /// [`Write::ReadSafetyLog`].
    Written { groups: usize, safety_log: Option<Vec<(Ticket, Bytes)>> },
}

impl From<Input> for Event {
    fn from(input: Input) -> Self {
        Self::Input(input)
    }
}

/// Everything around a node: peers, processors, disk, users and operator. The driver calls these methods while it
/// handles an event. None waits for its result: a response is a later event.
pub trait Effects {
    /// The pipeline has handled inputs; their outputs follow.
    fn observe(&mut self, pipeline: &Pipeline);

    /// Sends a message to these peers; it may be lost.
    fn send(&mut self, to: &[NodeKey], message: PeerMessage);

    /// Requests blocks. Respond with [`Input::Response`].
    fn request(&mut self, to: NodeKey, request: Request);

    /// Sends a request to the multicast group. Only where the genesis has a group.
    fn multicast(&mut self, _request: Bytes) {}

    /// Asks the sequencer of an epoch of the group to serve it; see [`Output::AskSequencer`]. Respond with [`Input::Sequencer`].
    fn ask_sequencer(&mut self, _epoch: u32, _certificate: Bytes) {}

    /// The peer violated the protocol.
    fn penalise(&mut self, peer: NodeKey, fault: Fault);

    /// An epoch begins. Later messages of peers are verified with this committee; those of its engine by a member only.
    fn start_epoch(&mut self, committee: Committee, is_member: bool);

    /// These nodes are validators to the network from now on.
    fn change_seats(&mut self, _seats: Vec<Seat>) {}

    /// Executes plans, in order. Respond with [`Input::Executed`], or return the results that are ready now.
    fn execute(&mut self, plan: Plan) -> Vec<Executed>;

    /// These transactions will probably be ordered soon, in this order.
    fn speculate(&mut self, _author: ValidatorIndex, _transactions: Vec<Bytes>) {}

    /// False: the disk takes no group yet, and further writes join the next one. The driver asks again after the next
    /// event. A disk that is always ready must itself combine the groups that wait.
    fn is_disk_ready(&mut self) -> bool {
        true
    }

    /// Makes these writes durable, in order and after earlier groups. Respond with [`Event::Written`], once for groups that
    /// became durable together.
    fn write(&mut self, group: Vec<Write>);

    /// These blocks are durable, and the pipeline knows it.
    fn appended(&mut self, _blocks: Vec<Arc<CommittedBlock>>) {}

    /// Response to [`Input::Submit`].
    fn submitted(&mut self, reply: u64, result: Result<B256, Refusal>);

    /// Response to [`Input::Command`]. Blocks that it made are durable.
    fn command_done(&mut self, _response: CommandResponse) {}

    /// A transaction entered the pool; a user submitted it to this node, or it came from a peer. Called before
    /// [`Self::submitted`].
    fn pending(&mut self, _transaction: VerifiedTransaction, _from_user: bool) {}

    /// A transaction left the pool without being executed.
    fn dropped(&mut self, _hash: B256, _status: TransactionStatus) {}

    /// A validator violated the protocol, with evidence.
    fn accuse(&mut self, validator: ValidatorIndex, offence: Offence, evidence: Vec<Bytes>);

    fn trace(&mut self, event: TraceEvent);

    /// Something that the operator should know soon.
    fn warn(&mut self, _warning: String) {}

    /// Stops the node: continuing would be unsafe. Everything is written. The reason is for the operator.
    fn halt(&mut self, halted: Halted);
}

/// A node without its surroundings. See the module documentation.
pub struct Driver {
    pipeline: Pipeline,
    writes: WriteQueue,
    /// From [`Output::Halt`] on.
    halting: Option<Halted>,
}

impl Driver {
    pub fn new(pipeline: Pipeline) -> Self {
        Self { pipeline, writes: WriteQueue::default(), halting: None }
    }

    /// Handles events that arrived by `now`. Call it once without events at the start: the pipeline has outputs then.
    pub fn handle(&mut self, now: TimestampMs, events: impl IntoIterator<Item = Event>, effects: &mut impl Effects) {
        for event in events {
            match event {
                Event::Input(input) => self.pipeline.handle(now, input),
                Event::Written { groups, safety_log } => self.written(now, groups, safety_log, effects),
            }
        }
        effects.observe(&self.pipeline);
        while let Some(output) = self.pipeline.poll() {
            self.perform(now, output, effects);
        }
        if self.writes.is_due() && effects.is_disk_ready() {
            effects.write(self.writes.start());
        }
    }

    /// Time for the next [`Input::Deadline`].
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.pipeline.deadline().filter(|_| !self.is_halted())
    }

    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// True from [`Output::Halt`] on. Only [`Event::Written`] has an effect then.
    pub fn is_halted(&self) -> bool {
        self.halting.is_some()
    }

    /// True if so many writes are not durable that the node should handle nothing from peers and users before the disk
    /// has written them.
    pub fn is_disk_behind(&self) -> bool {
        self.writes.len() >= MAX_WAITING_WRITES
    }

    /// Writes that have not begun, in order. A clean stop writes them after the last group; a power cut may lose them.
    pub fn into_waiting_writes(self) -> Vec<Write> {
        self.writes.into_waiting()
    }

    /// Groups are durable.
    fn written(
        &mut self,
        now: TimestampMs,
        groups: usize,
        safety_log: Option<Vec<(Ticket, Bytes)>>,
        effects: &mut impl Effects,
    ) {
        let group = self.writes.finish(groups);
        let height = group.height();
        // The engine first: its messages wait for the records. All at once, so that one message can cover them.
        if !group.tickets.is_empty() {
            self.pipeline.handle(now, Input::Durable(group.tickets));
        }
        if let Some(height) = height {
            self.pipeline.handle(now, Input::Appended(height));
            effects.appended(group.blocks);
        }
        if let Some(height) = group.certified {
            self.pipeline.handle(now, Input::CertificateAppended(height));
        }
        if let Some(records) = safety_log {
            self.pipeline.handle(now, Input::SafetyLog(records));
        }
        if let Some(halted) = self.halting.clone().filter(|_| group.halts) {
            effects.halt(halted);
        }
    }

    fn perform(&mut self, now: TimestampMs, output: Output, effects: &mut impl Effects) {
        match output {
            Output::Send { to, message } => effects.send(&to, message),
            Output::Request { to, request } => effects.request(to, request),
            Output::Multicast(request) => effects.multicast(request),
            Output::AskSequencer { epoch, certificate } => effects.ask_sequencer(epoch, certificate),
            Output::Penalise { peer, fault } => effects.penalise(peer, fault),
            Output::Execute(plan) => {
                for executed in effects.execute(plan) {
                    self.pipeline.handle(now, Input::Executed(Box::new(executed)));
                    effects.observe(&self.pipeline);
                }
            }
            Output::Available { author, transactions } => effects.speculate(author, transactions),
            Output::Persist(ticket, record) => self.writes.push(Write::Record(ticket, record)),
            Output::ReleaseBelow(ticket) => self.writes.push(Write::ReleaseBelow(ticket)),
            Output::ReadSafetyLog => self.writes.push(Write::ReadSafetyLog),
            Output::Append(block) => self.writes.push(Write::Block(block)),
            Output::AppendCertificate(certificate) => self.writes.push(Write::Certificate(certificate)),
            Output::EpochStarted { committee, is_member } => effects.start_epoch(committee, is_member),
            Output::SeatsChanged(seats) => effects.change_seats(seats),
            Output::AppendProgress(resume) => self.writes.push(Write::Progress(resume)),
            Output::Submitted { reply, result } => effects.submitted(reply, result),
            Output::CommandDone(response) => effects.command_done(response),
            Output::Pending { transaction, from_user } => effects.pending(transaction, from_user),
            Output::Dropped { hash, status } => effects.dropped(hash, status),
            Output::Accuse { validator, offence, evidence } => effects.accuse(validator, offence, evidence),
            Output::StoreEvidence(evidence) => self.writes.push(Write::Evidence(evidence)),
            Output::Trace(event) => effects.trace(event),
            Output::Warn(warning) => effects.warn(warning),
            Output::Halt { halted, certificate } => {
                self.halting = Some(halted);
                self.writes.push(Write::Halt { evidence: certificate });
            }
        }
    }
}
