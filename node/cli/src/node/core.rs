//! Threads of a node. One runs the pipeline; others execute blocks, hash executed blocks, and write to disk;
//! a few verify messages from peers and users. The queues between them are bounded, directly or by the number
//! of the pipeline's requests.
//!
//! ```text
//! network ─▶ verify ×n ─▶ inbox ─▶ PIPELINE ─▶ execute ─▶ seal ─▶ (inbox)
//!   rpc   ─▶ verify ×n ─┘            │    └──▶ write ───▶ (inbox), readers
//!                                    └───────▶ network
//! ```

use super::{
    clock,
    disk::{Write, run_writer},
    execution::{EARLY_WAITING, Task, Tasks, run_execution, run_sealing},
    inbox::Received,
    journal::Journal,
    shared::{Shared, Still, count},
};
use corniche_api::TransactionStatus;
use corniche_executor::Pool;
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
const WRITES_WAITING: usize = 16_384;

/// Capacity of the queue of executed blocks that wait for hashing. When it is full, execution waits.
const SEALS_WAITING: usize = 4;

// Executing a block writes the hash of the header that far below it; the block being sealed and those in the
// queue have no hash yet.
const _: () = assert!(SEALS_WAITING + 2 <= AHEAD_OF_CERTIFICATION as usize);

/// Stack size of threads that run no contracts.
const STACK_BYTES: usize = 8 << 20;

/// Starts the pipeline, execution, sealing and writer threads, and waits until the transactions restored to
/// the pool are visible. The threads end when the inbox is closed.
pub fn spawn(
    (mut pipeline, mut journal): (Pipeline, Journal),
    (runner, sealer): (Runner, Sealer),
    threads: Arc<dyn Pool>,
    store: Store,
    shared: Arc<Shared>,
    trace: Option<Trace>,
    network: Option<(NetworkHandle, tokio::runtime::Handle)>,
) -> Vec<JoinHandle<()>> {
    let (tasks, tasks_in) = mpsc::channel();
    let (writes, writes_in) = mpsc::sync_channel(WRITES_WAITING);
    let spawn = |name: &str, stack: usize, body: Box<dyn FnOnce() + Send>| {
        let builder = thread::Builder::new().name(name.into()).stack_size(stack);
        builder.spawn(body).expect("the system has room for a thread")
    };
    let (ran, ran_in) = mpsc::sync_channel(SEALS_WAITING);
    let ports = Ports { tasks, writes, trace, network, shared: shared.clone() };
    let (execution, sealing, writer) = (shared.clone(), shared.clone(), shared.clone());
    let (begins, has_begun) = mpsc::channel();
    let spawned = vec![
        spawn(
            "pipeline",
            STACK_BYTES,
            Box::new(move || guarded(&shared, "pipeline", || run_pipeline(&mut pipeline, &mut journal, &ports, begins))),
        ),
        spawn(
            "execution",
            corniche_vm::THREAD_STACK_BYTES,
            Box::new(move || {
                guarded(&execution, "execution", || run_execution(runner, &*threads, Tasks::new(tasks_in), ran, &execution))
            }),
        ),
        spawn(
            "sealing",
            STACK_BYTES,
            Box::new(move || guarded(&sealing, "sealing", || run_sealing(sealer, &ran_in, &sealing))),
        ),
        spawn("writer", STACK_BYTES, Box::new(move || guarded(&writer, "writer", || run_writer(store, &writes_in, &writer)))),
    ];
    // An error means that the thread has passed its start, or has ended.
    let _: Result<(), _> = has_begun.recv();
    spawned
}

/// A broken invariant of our own stops the node, with the invariant in the message (design §7).
fn guarded(shared: &Shared, name: &str, body: impl FnOnce()) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        shared.halt(format!("{name}: {}", text.unwrap_or_default()));
    }
}

// ---- the pipeline ------------------------------------------------------------------------------------------------------

/// Receivers of the pipeline's outputs.
struct Ports {
    tasks: mpsc::Sender<Task>,
    writes: mpsc::SyncSender<Write>,
    trace: Option<Trace>,
    network: Option<(NetworkHandle, tokio::runtime::Handle)>,
    shared: Arc<Shared>,
}

fn run_pipeline(pipeline: &mut Pipeline, journal: &mut Journal, ports: &Ports, begins: mpsc::Sender<()>) {
    let mut appending = Appending::default();
    let mut begins = Some(begins);
    loop {
        while let Some(output) = pipeline.poll() {
            match &output {
                Output::Append(block) => appending.push(block.clone()),
                // On disk before the user gets the response.
                Output::Pending { transaction, from_user: true } => journal.add(transaction),
                Output::Dropped { hash, .. } => journal.gone(hash),
                _ => {}
            }
            ports.carry_out(output);
        }
        begins.take();
        let now = clock::now();
        let timeout = pipeline.deadline().map(|deadline| Duration::from_millis(deadline.0.saturating_sub(now.0)));
        let input = match ports.shared.inbox.receive(timeout, !pipeline.awaits_quiet()) {
            Received::Item(input) => input,
            Received::TimedOut => Input::Deadline,
            Received::Closed => return,
        };
        let durable = if let Input::Appended(height) = &input { Some(*height) } else { None };
        pipeline.handle(clock::now(), input);
        if let Some(height) = durable {
            appending.durable(height, |transactions| {
                transactions.iter().for_each(|hash| journal.executed(hash));
                ports.shared.mirror.executed(transactions);
            });
        }
        ports.shared.target.store(pipeline.target().0, Ordering::Relaxed);
        // Set before the command's sender gets its response.
        ports.shared.say_base_fee(pipeline.said_base_fee());
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

impl Ports {
    fn carry_out(&self, output: Output) {
        let shared = &self.shared;
        match output {
            Output::Submitted { reply, result } => {
                count(&shared.counters.refused, usize::from(result.is_err()));
                shared.answer(reply, result.map_err(super::backend::refusal_error));
            }
            Output::Obeyed { reply, result } => {
                let result = result.map(|block| block.unwrap_or_default());
                shared.answer(reply, result.map_err(|why| corniche_api::Reason::NotObeyed.with(why)));
            }
            Output::Quiet { reply, clock, height } => {
                let still = Still { height, clock, pool: shared.mirror.by_arrival() };
                *shared.quiet.lock().expect("invariant: nobody panics while holding the clock") = Some(still);
                shared.answer(reply, Ok(B256::ZERO));
            }
            Output::Send { to, message } => self.send(to, &message),
            Output::Request { to, request } => self.request(to, wire::encode(&request).into()),
            Output::Penalise { peer, fault } => {
                if let Some((network, _)) = &self.network {
                    tracing::debug!(fault = fault.0, "a peer broke the rules");
                    count(&shared.counters.peer_faults, 1);
                    network.penalise(PeerKey(peer.into()), Fault::NeverValid);
                }
            }
            Output::Persist(ticket, record) => self.write(Write::Record(ticket, record)),
            Output::ReleaseBelow(ticket) => self.write(Write::ReleaseBelow(ticket)),
            Output::ReadSafetyLog => self.write(Write::ReadSafetyLog),
            Output::Append(block) => self.write(Write::Block(block)),
            Output::AppendCertificate(certificate) => self.write(Write::Certificate(certificate)),
            Output::AppendProgress(resume) => self.write(Write::Progress(resume)),
            Output::Execute(plan) => {
                shared.mirror.ordered(plan.block.ordered.iter().map(|transaction| keccak256(&transaction.raw)));
                // The thread ends only when the node is stopping.
                let _ = self.tasks.send(Task::Run(plan));
            }
            Output::Available { author, transactions } => {
                // Incremented here and decremented by the receiver. A count that is too high skips too many
                // proposals, never too few.
                if shared.early.load(Ordering::Relaxed) < EARLY_WAITING {
                    shared.early.fetch_add(1, Ordering::Relaxed);
                    let _ = self.tasks.send(Task::Early { author, transactions });
                }
            }
            Output::Pending { transaction, .. } => {
                let hash = transaction.hash();
                shared.mirror.pending(transaction, clock::now());
                let _ = shared.events.send(ChainEvent::Pending(hash));
            }
            Output::Dropped { hash, status } => shared.mirror.gone(hash, status_word(status), clock::now()),
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
            Output::Halt { reason, certificate } => self.write(Write::Halt { reason, certificate }),
        }
    }

    fn write(&self, write: Write) {
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
            let answer = network.request(PeerKey(to.into()), request).await.ok();
            let response = answer.and_then(|bytes| wire::decode::<Response>(&bytes).ok());
            shared.inbox.answer(Input::Response { from: to, response });
        });
    }
}

fn status_word(status: corniche_pipeline::TransactionStatus) -> TransactionStatus {
    use corniche_pipeline::TransactionStatus as Word;
    match status {
        Word::Dropped(reason) => TransactionStatus::Dropped { reason },
        Word::Replaced(by) => TransactionStatus::Replaced { by },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{
        mirror::Mirror,
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
    fn the_pools_copy_keeps_transactions_until_their_block_is_durable() {
        let pool = Mirror::default();
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
