//! Threads of a node. One runs the pipeline; others execute blocks, hash executed blocks, and write to disk;
//! a few verify messages from peers and users. The queues between them are bounded, directly or by the number
//! of the pipeline's requests.
//!
//! ```text
//! network ─▶ verify ×n ─▶ inbox ─▶ PIPELINE ─▶ execute ─▶ seal ─▶ (inbox)
//!   rpc   ─▶ verify ×n ─┘            │    └──▶ write ───▶ (inbox), readers
//!                                    └───────▶ network
//! ```
//!
//! The pipeline thread runs [`Driver`], the same loop as in the simulator; `effects` connects it with the other threads.

use crate::{
    NodeConfig, clock,
    effects::ThreadedEffects,
    epoch_log::EpochLog,
    epochs::EpochVerifiers,
    execution::{Tasks, run_execution, run_sealing},
    inbox::{Inbox, Received},
    journal::Journal,
    multicast::GroupMember,
    shared::Shared,
    writer::run_writer,
};
use corniche_executor::WorkerPool;
use corniche_network::NetworkHandle;
use corniche_pipeline::{AHEAD_OF_CERTIFICATION, Driver, Effects, Event, Input, Pipeline, Runner, Sealer};
use corniche_store::Store;
use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Capacity of the queue of executed blocks that wait for hashing. When it is full, execution waits.
const SEAL_QUEUE_CAPACITY: usize = 4;

// Executing a block writes the hash of the header that far below it; the block being sealed and those in the
// queue have no hash yet.
const _: () = assert!(SEAL_QUEUE_CAPACITY + 2 <= AHEAD_OF_CERTIFICATION as usize);

/// Stack size of threads that run no contracts.
const STACK_BYTES: usize = 8 << 20;

/// Connections of a chain with other nodes and with sequencers.
#[derive(Default)]
pub struct Connections {
    pub network: Option<(NetworkHandle, tokio::runtime::Handle)>,
    /// The validator's multicast group, if the genesis has one.
    pub group: Option<GroupMember>,
}

/// Starts the pipeline, execution, sealing and writer threads, and waits until the transactions restored to
/// the pool are visible. The threads end when the inbox is closed.
pub fn spawn(
    (pipeline, verifiers, journal, epoch_log): (Pipeline, Arc<EpochVerifiers>, Journal, EpochLog),
    (runner, sealer): (Runner, Sealer),
    threads: Arc<dyn WorkerPool>,
    store: Store,
    config: &NodeConfig,
    shared: Arc<Shared>,
    Connections { network, mut group }: Connections,
) -> Vec<JoinHandle<()>> {
    let (tasks, tasks_in) = mpsc::channel();
    let (groups, groups_in) = mpsc::channel();
    let spawn = |name: &str, stack: usize, body: Box<dyn FnOnce() + Send>| {
        let builder = thread::Builder::new().name(name.into()).stack_size(stack);
        builder.spawn(body).expect("the system has room for a thread")
    };
    let (unsealed, unsealed_in) = mpsc::sync_channel(SEAL_QUEUE_CAPACITY);
    let (trust, trace) = (config.sync.trust_point(), store.trace());
    let packets = group.as_mut().and_then(GroupMember::take_receiver);
    let packets_shared = shared.clone();
    let effects = ThreadedEffects {
        journal,
        tasks,
        groups,
        trace,
        network,
        group,
        shared: shared.clone(),
        verifiers,
        epoch_log,
        trust,
        clocks_read: std::time::Instant::now(),
    };
    let kept_blocks = config.history.blocks;
    let (execution, sealing, writer) = (shared.clone(), shared.clone(), shared.clone());
    let (started, has_started) = mpsc::channel();
    let mut spawned = vec![
        spawn(
            "pipeline",
            STACK_BYTES,
            Box::new(move || halt_on_panic(&shared, "pipeline", || run_pipeline(pipeline, effects, started))),
        ),
        spawn(
            "execution",
            corniche_vm::THREAD_STACK_BYTES,
            Box::new(move || {
                halt_on_panic(&execution, "execution", || {
                    run_execution(runner, &*threads, Tasks::new(tasks_in), unsealed, &execution)
                })
            }),
        ),
        spawn(
            "sealing",
            STACK_BYTES,
            Box::new(move || halt_on_panic(&sealing, "sealing", || run_sealing(sealer, &unsealed_in, &sealing))),
        ),
        spawn(
            "writer",
            STACK_BYTES,
            Box::new(move || halt_on_panic(&writer, "writer", || run_writer(store, &groups_in, kept_blocks, &writer))),
        ),
    ];
    if let Some(packets) = packets {
        let body = move || halt_on_panic(&packets_shared, "packets", || packets.run(&packets_shared));
        spawned.push(spawn("packets", STACK_BYTES, Box::new(body)));
    }
    // An error means that the thread has passed its start, or has ended.
    let _: Result<(), _> = has_started.recv();
    spawned
}

/// A broken invariant of our own stops the node, with the invariant in the message (design §7).
fn halt_on_panic(shared: &Shared, name: &str, body: impl FnOnce()) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        shared.halt(format!("{name}: {}", text.unwrap_or_default()));
    }
}

// ---- the pipeline ------------------------------------------------------------------------------------------------------

/// Runs the driver until the inbox is closed. `started` is dropped once the outputs of the start are done.
fn run_pipeline(pipeline: Pipeline, mut effects: ThreadedEffects, started: mpsc::Sender<()>) {
    let shared = effects.shared.clone();
    let mut driver = Driver::new(pipeline);
    driver.handle(clock::now(), [], &mut effects);
    drop(started);
    while let Some(event) = next_event(&driver, &shared.inbox) {
        driver.handle(clock::now(), [event], &mut effects);
    }
    // A stop loses nothing: the writer ends after this group.
    let waiting = driver.into_waiting_writes();
    if !waiting.is_empty() {
        effects.write(waiting);
    }
}

/// Waits for the next event; `None` if the inbox is closed.
fn next_event(driver: &Driver, inbox: &Inbox<Event>) -> Option<Event> {
    let received = if driver.is_disk_behind() {
        inbox.receive_response()
    } else {
        let now = clock::now();
        let timeout = driver.deadline().map(|deadline| Duration::from_millis(deadline.0.saturating_sub(now.0)));
        inbox.receive(timeout, !driver.pipeline().holds_users())
    };
    match received {
        Received::Item(event) => Some(event),
        Received::TimedOut => Some(Input::Deadline.into()),
        Received::Closed => None,
    }
}
