//! The loop around the pipeline: order of writes and of what depends on them.

use crate::common::{Disk, Node, genesis, transfer};
use corniche_admission::Refusal;
use corniche_engine::{
    Committee, Engine, Input as EngineInput, Offence, Output as EngineOutput, Recipients, Ticket, TraceEvent, Verified,
};
use corniche_pipeline::{
    Driver, Effects, EngineFactory, Event, Executed, ExecutionStage, Fault, Halted, Input, NodeKey, PeerMessage, Pipeline,
    Plan, Request, Write, verify_all,
};
use corniche_state::CommittedBlock;
use corniche_types::{B256, Bytes, Epoch, TimestampMs, ValidatorIndex};
use std::{collections::VecDeque, sync::Arc};

const NOW: TimestampMs = TimestampMs(2_000_000);
const PEER: NodeKey = [2; 32];

/// Persists a record for each message, and sends it when the record is durable.
#[derive(Default)]
struct Echo {
    records: u64,
    out: VecDeque<EngineOutput>,
}

impl Engine for Echo {
    fn handle(&mut self, _: TimestampMs, input: EngineInput) {
        match input {
            EngineInput::Message { .. } => {
                self.records += 1;
                self.out.push_back(EngineOutput::Persist(Ticket(self.records), Bytes::from_static(b"record")));
            }
            EngineInput::Durable(Ticket(number)) => {
                let message = Bytes::copy_from_slice(&[number as u8]);
                self.out.push_back(EngineOutput::Send { to: Recipients::All, message });
            }
            _ => {}
        }
    }

    fn poll(&mut self) -> Option<EngineOutput> {
        self.out.pop_front()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        None
    }
}

/// Logs the effects in their order. Execution takes no time, and the disk takes one group at a time.
struct Log {
    stage: ExecutionStage,
    lines: Vec<String>,
    disk_ready: bool,
    is_writing: bool,
}

impl Log {
    fn new(stage: ExecutionStage) -> Self {
        Self { stage, lines: Vec::new(), disk_ready: true, is_writing: false }
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

impl Effects for Log {
    fn observe(&mut self, _: &Pipeline) {}

    fn send(&mut self, to: &[NodeKey], message: PeerMessage) {
        if let PeerMessage::Engine(bytes) = message {
            self.lines.extend(to.iter().map(|_| format!("send {}", bytes[0])));
        }
    }

    fn request(&mut self, _: NodeKey, _: Request) {}

    fn penalise(&mut self, _: NodeKey, _: Fault) {}

    fn start_epoch(&mut self, _: Committee, _: bool) {}

    fn execute(&mut self, plan: Plan) -> Vec<Executed> {
        self.lines.push(format!("execute {}", plan.height.0));
        vec![self.stage.execute(plan.block, verify_all)]
    }

    fn is_disk_ready(&mut self) -> bool {
        self.disk_ready && !self.is_writing
    }

    fn write(&mut self, group: Vec<Write>) {
        self.is_writing = true;
        self.lines.push(format!("write{}", names(&group)));
    }

    fn appended(&mut self, blocks: Vec<Arc<CommittedBlock>>) {
        self.lines.extend(blocks.iter().map(|block| format!("appended {}", block.block.height().0)));
    }

    fn submitted(&mut self, _: u64, result: Result<B256, Refusal>) {
        self.lines.push(format!("submitted {}", result.is_ok()));
    }

    fn accuse(&mut self, _: ValidatorIndex, _: Offence, _: Vec<Bytes>) {}

    fn trace(&mut self, _: TraceEvent) {}

    fn halt(&mut self, halted: Halted) {
        self.lines.push(halted.reason);
    }
}

fn names(writes: &[Write]) -> String {
    let name = |write: &Write| match write {
        Write::Record(ticket, _) => format!(" record {}", ticket.0),
        Write::ReleaseBelow(ticket) => format!(" release {}", ticket.0),
        Write::ReadSafetyLog => " read".into(),
        Write::Block(block) => format!(" block {}", block.block.height().0),
        Write::Certificate(certificate) => format!(" certificate {}", certificate.height.0),
        Write::Progress(_) => " progress".into(),
        Write::Evidence(_) => " evidence".into(),
        Write::Halt { .. } => " halt".into(),
    };
    writes.iter().map(name).collect()
}

/// The group is durable, and the disk takes the next one.
fn written(log: &mut Log) -> Event {
    log.is_writing = false;
    Event::Written { groups: 1, safety_log: None }
}

fn finish_write(driver: &mut Driver, log: &mut Log) {
    let written = written(log);
    driver.handle(NOW, [written], log);
}

/// A validator of four with this engine, and its effects.
fn echo() -> (Driver, Log) {
    let genesis = genesis(4);
    let factory: EngineFactory = Box::new(|_| Box::<Echo>::default());
    let disk = Disk { without_buckets: true, ..Disk::default() };
    let Node { pipeline, stage, .. } = Node::start(1, &genesis, &genesis, Some((0, factory)), disk, NOW);
    let (mut driver, mut log) = (Driver::new(pipeline), Log::new(stage));
    driver.handle(NOW, [Input::PeerUp { peer: PEER, validator: Some(ValidatorIndex(1)) }.into()], &mut log);
    assert_eq!(log.take(), [""; 0]);
    (driver, log)
}

fn message() -> Event {
    Input::Engine { from: ValidatorIndex(1), epoch: Epoch(0), message: Verified(Arc::new(())) }.into()
}

#[test]
fn messages_wait_for_their_records() {
    let (mut driver, mut log) = echo();
    driver.handle(NOW, [message()], &mut log);
    assert_eq!(log.take(), ["write record 1"]);
    driver.handle(NOW, [message()], &mut log);
    driver.handle(NOW, [message()], &mut log);
    assert_eq!(log.take(), [""; 0], "one group at a time");
    finish_write(&mut driver, &mut log);
    assert_eq!(log.take(), ["send 1", "write record 2 record 3"]);
    let written = written(&mut log);
    driver.handle(NOW, [written, message()], &mut log);
    assert_eq!(log.take(), ["send 2", "send 3", "write record 4"]);
}

#[test]
fn slow_disk_begins_later_with_more() {
    let (mut driver, mut log) = echo();
    log.disk_ready = false;
    driver.handle(NOW, [message()], &mut log);
    driver.handle(NOW, [message()], &mut log);
    assert_eq!(log.take(), [""; 0]);
    log.disk_ready = true;
    driver.handle(NOW, [], &mut log);
    assert_eq!(log.take(), ["write record 1 record 2"]);
}

/// A disk that is always ready gets each group at once.
#[test]
fn groups_become_durable_in_order() {
    let (mut driver, mut log) = echo();
    for _ in 0..2 {
        driver.handle(NOW, [message()], &mut log);
        log.is_writing = false;
    }
    assert_eq!(log.take(), ["write record 1", "write record 2"]);
    finish_write(&mut driver, &mut log);
    assert_eq!(log.take(), ["send 1"]);
    finish_write(&mut driver, &mut log);
    assert_eq!(log.take(), ["send 2"]);
}

#[test]
fn groups_that_became_durable_together_are_one_event() {
    let (mut driver, mut log) = echo();
    for _ in 0..3 {
        driver.handle(NOW, [message()], &mut log);
        log.is_writing = false;
    }
    assert_eq!(log.take(), ["write record 1", "write record 2", "write record 3"]);
    driver.handle(NOW, [Event::Written { groups: 2, safety_log: None }], &mut log);
    assert_eq!(log.take(), ["send 1", "send 2"]);
    finish_write(&mut driver, &mut log);
    assert_eq!(log.take(), ["send 3"]);
}

#[test]
fn clean_stop_returns_waiting_writes() {
    let (mut driver, mut log) = echo();
    driver.handle(NOW, [message()], &mut log);
    driver.handle(NOW, [message()], &mut log);
    assert_eq!(log.take(), ["write record 1"]);
    assert_eq!(names(&driver.into_waiting_writes()), " record 2");
}

#[test]
fn node_with_full_queue_waits_for_disk() {
    let (mut driver, mut log) = echo();
    driver.handle(NOW, [message()], &mut log);
    for _ in 1..16_384 {
        assert!(!driver.is_disk_behind());
        driver.handle(NOW, [message()], &mut log);
    }
    assert!(driver.is_disk_behind());
    finish_write(&mut driver, &mut log);
    assert!(!driver.is_disk_behind());
}

/// Otherwise a transaction is for a moment neither in the pool nor in a block, and a query for it returns nothing.
#[test]
fn blocks_are_reported_when_durable() {
    let Node { pipeline, stage, .. } = Node::new(1, &genesis(4), Some(0));
    let (mut driver, mut log) = (Driver::new(pipeline), Log::new(stage));
    let submit = |nonce| Input::Submit { transaction: transfer(nonce), from: None, reply: Some(nonce) }.into();
    driver.handle(NOW, [submit(0)], &mut log);
    assert_eq!(log.take(), ["submitted true", "execute 1", "write block 1"]);
    driver.handle(NOW, [submit(1)], &mut log);
    driver.handle(NOW, [submit(2)], &mut log);
    assert_eq!(log.take(), ["submitted true", "execute 2", "submitted true", "execute 3"]);
    finish_write(&mut driver, &mut log);
    assert_eq!(log.take(), ["appended 1", "write block 2 block 3"]);
    finish_write(&mut driver, &mut log);
    assert_eq!(log.take(), ["appended 2", "appended 3"]);
}
