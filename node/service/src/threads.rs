//! Threads of a node. One runs the pipeline; others execute blocks, hash executed blocks, and write to disk;
//! a few verify messages from peers and users. The queues between them are bounded, directly or by the number
//! of the pipeline's requests.
//!
//! ```text
//! network ─▶ verify ×n ─▶ inbox ─▶ PIPELINE ─▶ execute ─▶ seal ─▶ (inbox)
//!   rpc   ─▶ verify ×n ─┘            │    └──▶ write ───▶ (inbox), readers
//!                                    └───────▶ network
//! ```

use crate::{
    clock,
    execution::{MAX_QUEUED_PROPOSALS, Task, Tasks, run_execution, run_sealing},
    inbox::Received,
    journal::Journal,
    shared::{Shared, count},
    writer::{WriteJob, run_writer},
};
use corniche_api::TransactionStatus;
use corniche_executor::WorkerPool;
use corniche_network::{Channel, Fault, NetworkHandle, PeerKey};
use corniche_pipeline::{AHEAD_OF_CERTIFICATION, Input, NodeKey, Output, PeerMessage, Pipeline, Response, Runner, Sealer};
use corniche_rpc::ChainEvent;
use corniche_state::CommittedBlock;
use corniche_store::{Store, Trace};
use corniche_types::{B256, Bytes, Height, keccak256, wire};
use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Capacity of the writer's queue. When it is full, the pipeline waits for the disk, which depends on nothing
/// else.
const WRITE_QUEUE_CAPACITY: usize = 16_384;

/// Capacity of the queue of executed blocks that wait for hashing. When it is full, execution waits.
const SEAL_QUEUE_CAPACITY: usize = 4;

// Executing a block writes the hash of the header that far below it; the block being sealed and those in the
// queue have no hash yet.
const _: () = assert!(SEAL_QUEUE_CAPACITY + 2 <= AHEAD_OF_CERTIFICATION as usize);

/// Stack size of threads that run no contracts.
const STACK_BYTES: usize = 8 << 20;

/// Starts the pipeline, execution, sealing and writer threads, and waits until the transactions restored to
/// the pool are visible. The threads end when the inbox is closed.
pub fn spawn(
    (mut pipeline, mut journal): (Pipeline, Journal),
    (runner, sealer): (Runner, Sealer),
    threads: Arc<dyn WorkerPool>,
    store: Store,
    shared: Arc<Shared>,
    trace: Option<Trace>,
    network: Option<(NetworkHandle, tokio::runtime::Handle)>,
) -> Vec<JoinHandle<()>> {
    let (tasks, tasks_in) = mpsc::channel();
    let (writes, writes_in) = mpsc::sync_channel(WRITE_QUEUE_CAPACITY);
    let spawn = |name: &str, stack: usize, body: Box<dyn FnOnce() + Send>| {
        let builder = thread::Builder::new().name(name.into()).stack_size(stack);
        builder.spawn(body).expect("the system has room for a thread")
    };
    let (unsealed, unsealed_in) = mpsc::sync_channel(SEAL_QUEUE_CAPACITY);
    let sink = OutputSink { tasks, writes, trace, network, shared: shared.clone() };
    let (execution, sealing, writer) = (shared.clone(), shared.clone(), shared.clone());
    let (started, has_started) = mpsc::channel();
    let spawned = vec![
        spawn(
            "pipeline",
            STACK_BYTES,
            Box::new(move || halt_on_panic(&shared, "pipeline", || run_pipeline(&mut pipeline, &mut journal, &sink, started))),
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
            Box::new(move || halt_on_panic(&writer, "writer", || run_writer(store, &writes_in, &writer))),
        ),
    ];
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

/// Receivers of the pipeline's outputs.
struct OutputSink {
    tasks: mpsc::Sender<Task>,
    writes: mpsc::SyncSender<WriteJob>,
    trace: Option<Trace>,
    network: Option<(NetworkHandle, tokio::runtime::Handle)>,
    shared: Arc<Shared>,
}

fn run_pipeline(pipeline: &mut Pipeline, journal: &mut Journal, sink: &OutputSink, started: mpsc::Sender<()>) {
    let mut appending = Appending::default();
    let mut started = Some(started);
    loop {
        while let Some(output) = pipeline.poll() {
            match &output {
                Output::Append(block) => appending.push(block.clone()),
                // On disk before the user gets the response.
                Output::Pending { transaction, from_user: true } => journal.add(transaction),
                Output::Dropped { hash, .. } => journal.dropped(hash),
                _ => {}
            }
            sink.handle(output);
        }
        started.take();
        let now = clock::now();
        let timeout = pipeline.deadline().map(|deadline| Duration::from_millis(deadline.0.saturating_sub(now.0)));
        let input = match sink.shared.inbox.receive(timeout, !pipeline.holds_users()) {
            Received::Item(input) => input,
            Received::TimedOut => Input::Deadline,
            Received::Closed => return,
        };
        let durable = if let Input::Appended(height) = &input { Some(*height) } else { None };
        pipeline.handle(clock::now(), input);
        if let Some(height) = durable {
            appending.durable(height, |transactions| {
                transactions.iter().for_each(|hash| journal.executed(hash));
                sink.shared.pool_view.executed(transactions);
            });
        }
        sink.shared.target.store(pipeline.target().0, Ordering::Relaxed);
        // Set before the command's sender gets its response.
        sink.shared.set_requested_base_fee(pipeline.requested_base_fee());
    }
}

/// Executed blocks that are not known to be durable yet. Their transactions leave the copy of the pool on
/// this thread, which also adds transactions, so that none can return in between.
#[derive(Default)]
struct Appending(VecDeque<Arc<CommittedBlock>>);

impl Appending {
    fn push(&mut self, block: Arc<CommittedBlock>) {
        self.0.push_back(block);
    }

    /// Everything up to `height` is on disk: these transactions are now found in their blocks.
    fn durable(&mut self, height: Height, mut executed: impl FnMut(Vec<B256>)) {
        while let Some(block) = self.0.pop_front_if(|block| block.block.height() <= height) {
            executed(block.receipts.iter().map(|receipt| receipt.transaction_hash).collect());
        }
    }
}

impl OutputSink {
    fn handle(&self, output: Output) {
        let shared = &self.shared;
        match output {
            Output::Submitted { reply, result } => {
                count(&shared.counters.refused, usize::from(result.is_err()));
                shared.respond(reply, result.map_err(crate::backend::refusal_error));
            }
            Output::CommandDone(response) => shared.command_done(response),
            Output::Send { to, message } => self.send(to, &message),
            Output::Request { to, request } => self.request(to, wire::encode(&request).into()),
            Output::Penalise { peer, fault } => {
                if let Some((network, _)) = &self.network {
                    tracing::debug!(fault = fault.0, "a peer broke the rules");
                    count(&shared.counters.peer_faults, 1);
                    network.penalise(PeerKey(peer.into()), Fault::NeverValid);
                }
            }
            Output::Persist(ticket, record) => self.write(WriteJob::Record(ticket, record)),
            Output::ReleaseBelow(ticket) => self.write(WriteJob::ReleaseBelow(ticket)),
            Output::ReadSafetyLog => self.write(WriteJob::ReadSafetyLog),
            Output::Append(block) => self.write(WriteJob::Block(block)),
            Output::AppendCertificate(certificate) => self.write(WriteJob::Certificate(certificate)),
            Output::AppendProgress(resume) => self.write(WriteJob::Progress(resume)),
            Output::Execute(plan) => {
                shared.pool_view.ordered(plan.block.ordered.iter().map(|transaction| keccak256(&transaction.raw)));
                // The thread ends only when the node is stopping.
                let _ = self.tasks.send(Task::Execute(plan));
            }
            Output::Available { author, transactions } => {
                // Incremented here and decremented by the receiver. A count that is too high skips too many
                // proposals, never too few.
                if shared.queued_proposals.load(Ordering::Relaxed) < MAX_QUEUED_PROPOSALS {
                    shared.queued_proposals.fetch_add(1, Ordering::Relaxed);
                    let _ = self.tasks.send(Task::Speculate { author, transactions });
                }
            }
            Output::Pending { transaction, .. } => {
                let hash = transaction.hash();
                shared.pool_view.pending(transaction, clock::now());
                let _ = shared.events.send(ChainEvent::Pending(hash));
            }
            Output::Dropped { hash, status } => shared.pool_view.dropped(hash, api_status(status), clock::now()),
            Output::Accuse { validator, offence, evidence } => {
                count(&shared.counters.accusations, 1);
                // A peer that violates the protocol may do so at any rate, so each offence is logged once.
                if !shared.is_first_accusation(validator, offence) {
                    return;
                }
                let evidence: Vec<B256> = evidence.iter().map(|bytes| corniche_crypto::digest(bytes)).collect();
                tracing::warn!(
                    validator = validator.0,
                    ?offence,
                    ?evidence,
                    "a validator broke the rules; this offence of it is only counted from now on"
                );
            }
            Output::Trace(event) => {
                tracing::debug!("{event:?}");
                if let Some(trace) = &self.trace {
                    trace.record(clock::now(), event);
                }
            }
            Output::Halt { reason, certificate } => self.write(WriteJob::Halt { reason, certificate }),
        }
    }

    fn write(&self, write: WriteJob) {
        // The thread ends only when the node is stopping.
        let _ = self.writes.send(write);
    }

    fn send(&self, to: NodeKey, message: &PeerMessage) {
        let Some((network, _)) = &self.network else { return };
        let channel = match message {
            PeerMessage::CertificateShare(_) | PeerMessage::Certificate(_) => Channel::Votes,
            PeerMessage::Engine(_) | PeerMessage::Transactions(_) => Channel::Bulk,
        };
        // A full queue drops messages; peers request what they miss.
        let _ = network.send(PeerKey(to.into()), channel, message.encode());
    }

    fn request(&self, to: NodeKey, request: Bytes) {
        let Some((network, runtime)) = &self.network else { return };
        let (network, shared) = (network.clone(), self.shared.clone());
        runtime.spawn(async move {
            let bytes = network.request(PeerKey(to.into()), request).await.ok();
            let response = bytes.and_then(|bytes| wire::decode::<Response>(&bytes).ok());
            shared.inbox.push_response(Input::Response { from: to, response });
        });
    }
}

fn api_status(status: corniche_pipeline::TransactionStatus) -> TransactionStatus {
    use corniche_pipeline::TransactionStatus as PoolStatus;
    match status {
        PoolStatus::Dropped(reason) => TransactionStatus::Dropped { reason },
        PoolStatus::Replaced(by) => TransactionStatus::Replaced { by },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        pool_view::PoolView,
        testing::{genesis, transfer},
    };
    use corniche_types::Receipt;

    fn block_of(height: u64, transaction: B256) -> Arc<CommittedBlock> {
        let mut block = corniche_store::genesis_block(&genesis());
        block.block.header.number = height;
        block.receipts = vec![Receipt {
            transaction_hash: transaction,
            type_byte: 2,
            success: true,
            gas_used: 21_000,
            cumulative_gas_used: 21_000,
            effective_gas_price: 1,
            sender: Default::default(),
            to: None,
            contract_address: None,
            logs: vec![],
            output: Bytes::new(),
        }];
        Arc::new(block)
    }

    /// Otherwise a transaction is for a moment neither in the pool nor in a block, and a query for it returns nothing.
    #[test]
    fn pool_view_keeps_transactions_until_durable() {
        let pool = PoolView::default();
        let transactions = [transfer(0, 1), transfer(1, 1), transfer(2, 1)];
        let mut appending = Appending::default();
        for (height, transaction) in (1..).zip(&transactions) {
            pool.pending(transaction.clone(), clock::now());
            appending.push(block_of(height, transaction.hash()));
        }
        let kept =
            || transactions.iter().map(|transaction| pool.transaction(&transaction.hash()).is_some()).collect::<Vec<_>>();
        appending.durable(Height(0), |transactions| pool.executed(transactions));
        assert_eq!(kept(), [true, true, true]);
        appending.durable(Height(2), |transactions| pool.executed(transactions));
        assert_eq!(kept(), [false, false, true]);
        appending.durable(Height(3), |transactions| pool.executed(transactions));
        assert_eq!(kept(), [false, false, false]);
    }
}
