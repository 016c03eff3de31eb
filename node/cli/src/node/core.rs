//! The threads of a node. One runs the pipeline; around it one executes, one writes to disk, and a few check what peers and
//! users send. Queues between them are bounded, or bounded by what the pipeline asked for.
//!
//! ```text
//! network ─▶ verify ×n ─▶ inbox ─▶ PIPELINE ─▶ execute ─▶ (inbox)
//!   rpc   ─▶ verify ×n ─┘            │    └──▶ write ───▶ (inbox), readers
//!                                    └───────▶ network
//! ```

use super::{
    clock,
    inbox::{Inbox, Received},
    mirror::Mirror,
};
use corniche_api::{Reason, RpcError, TransactionStatus};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::{Ticket, Verifier};
use corniche_executor::verify_ordered;
use corniche_network::{Channel, Fault, NetworkHandle, PeerKey};
use corniche_pipeline::{Executed, ExecutionStage, Input, NodeKey, Output, PeerMessage, Pipeline, Plan, Response};
use corniche_rpc::ChainEvent;
use corniche_state::CommittedBlock;
use corniche_store::{Space, Store, Trace};
use corniche_types::{
    B256, Bytes, Certificate, OrderedTransaction, Resume, SkipReason, Transaction, ValidatorIndex, keccak256, wire,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, broadcast, oneshot};

/// Answer to a user's transaction.
pub type Submitted = Result<B256, RpcError>;

/// Numbers for `/metrics`.
#[derive(Default)]
pub struct Counters {
    pub head: AtomicU64,
    pub finalized: AtomicU64,
    pub executed: AtomicU64,
    pub skipped: AtomicU64,
    pub refused: AtomicU64,
    pub accusations: AtomicU64,
    pub inbox_dropped: AtomicU64,
    pub peer_faults: AtomicU64,
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// What the threads and the RPC server share.
pub struct Shared {
    pub inbox: Inbox<Input>,
    pub mirror: Mirror,
    pub counters: Counters,
    pub events: broadcast::Sender<ChainEvent>,
    /// Users waiting for admission's answer, by ticket.
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<Submitted>>>,
    next_reply: AtomicU64,
    pub next_base_fee: AtomicU64,
    /// The newest height peers say is certified.
    pub target: AtomicU64,
    /// Why the node stopped by itself, if it did.
    halt_reason: Mutex<Option<String>>,
    halt_signal: Notify,
    /// Set when the disk is nearly full: no transactions are taken any more.
    pub refusing: std::sync::atomic::AtomicBool,
}

impl Shared {
    pub fn new(inbox: usize, base_fee: u64) -> Self {
        Self {
            inbox: Inbox::new(inbox),
            mirror: Mirror::default(),
            counters: Counters::default(),
            events: broadcast::channel(4_096).0,
            waiting: Mutex::default(),
            next_reply: AtomicU64::new(1),
            next_base_fee: AtomicU64::new(base_fee),
            target: AtomicU64::new(0),
            halt_reason: Mutex::default(),
            halt_signal: Notify::new(),
            refusing: false.into(),
        }
    }

    /// Hands a checked transaction to admission; the answer comes through the channel.
    pub fn submit(&self, transaction: VerifiedTransaction) -> oneshot::Receiver<Submitted> {
        let (sender, receiver) = oneshot::channel();
        if self.refusing.load(Ordering::Relaxed) {
            let _ = sender.send(Err(Reason::NotAccepting.with("the disk is nearly full")));
            return receiver;
        }
        let reply = self.next_reply.fetch_add(1, Ordering::Relaxed);
        self.waiting().insert(reply, sender);
        if self.inbox.transaction(Input::Submit { transaction, reply: Some(reply) }).is_err() {
            self.answer(reply, Err(Reason::ServerBusy.with("too many transactions wait for admission; try again")));
        }
        receiver
    }

    fn answer(&self, reply: u64, answer: Submitted) {
        if let Some(sender) = self.waiting().remove(&reply) {
            let _ = sender.send(answer);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, oneshot::Sender<Submitted>>> {
        self.waiting.lock().expect("invariant: nobody panics while holding the waiting users")
    }

    /// Waits until the node stops by itself, and says why.
    pub async fn halted(&self) -> String {
        loop {
            let notified = self.halt_signal.notified();
            if let Some(reason) = self.halt_reason().clone() {
                return reason;
            }
            notified.await;
        }
    }

    fn halt_reason(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.halt_reason.lock().expect("invariant: nobody panics while holding the reason")
    }

    /// Stops the node's threads; the reason is for the operator.
    pub fn halt(&self, reason: String) {
        self.halt_reason().get_or_insert(reason);
        self.halt_signal.notify_waiters();
        self.inbox.close();
    }
}

/// A job for the writer thread; jobs are done in order.
enum Write {
    Record(Ticket, Bytes),
    ReleaseBelow(Ticket),
    ReadSafetyLog,
    Block(Arc<CommittedBlock>),
    Certificate(Certificate),
    Progress(Resume),
    /// The last thing this node does.
    Divergence {
        reason: String,
        certificate: Certificate,
    },
}

/// Jobs waiting for the disk. A full queue stops the pipeline until the disk has caught up, which waits for nobody.
const WRITES_WAITING: usize = 16_384;

/// Stack of a thread that runs no contract.
const STACK_BYTES: usize = 8 << 20;

/// Starts the pipeline, execution and writer threads. They end when the inbox is closed.
pub fn spawn(
    mut pipeline: Pipeline,
    stage: ExecutionStage,
    store: Store,
    shared: Arc<Shared>,
    trace: Option<Trace>,
    network: Option<(NetworkHandle, tokio::runtime::Handle)>,
) -> Vec<JoinHandle<()>> {
    let (plans, plans_in) = mpsc::channel();
    let (writes, writes_in) = mpsc::sync_channel(WRITES_WAITING);
    let spawn = |name: &str, stack: usize, body: Box<dyn FnOnce() + Send>| {
        let builder = thread::Builder::new().name(name.into()).stack_size(stack);
        builder.spawn(body).expect("the system has room for a thread")
    };
    let ports = Ports { plans, writes, trace, network, shared: shared.clone() };
    let (execution, writer) = (shared.clone(), shared.clone());
    vec![
        spawn("pipeline", STACK_BYTES, Box::new(move || guarded(&shared, "pipeline", || run_pipeline(&mut pipeline, &ports)))),
        spawn(
            "execution",
            corniche_vm::THREAD_STACK_BYTES,
            Box::new(move || guarded(&execution, "execution", || run_execution(stage, &plans_in, &execution))),
        ),
        spawn("writer", STACK_BYTES, Box::new(move || guarded(&writer, "writer", || run_writer(store, &writes_in, &writer)))),
    ]
}

/// A broken invariant of our own stops the node and names the invariant (design §7).
fn guarded(shared: &Shared, name: &str, body: impl FnOnce()) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        shared.halt(format!("{name}: {}", text.unwrap_or_default()));
    }
}

// ---- the pipeline ------------------------------------------------------------------------------------------------------

/// Where the pipeline's outputs go.
struct Ports {
    plans: mpsc::Sender<Plan>,
    writes: mpsc::SyncSender<Write>,
    trace: Option<Trace>,
    network: Option<(NetworkHandle, tokio::runtime::Handle)>,
    shared: Arc<Shared>,
}

fn run_pipeline(pipeline: &mut Pipeline, ports: &Ports) {
    // Executed, and not yet known to be durable. The copy of the pool drops their transactions on this thread, where they also
    // enter it, so that none can come back in between.
    let mut appending: VecDeque<Arc<CommittedBlock>> = VecDeque::new();
    loop {
        while let Some(output) = pipeline.poll() {
            if let Output::Append(block) = &output {
                appending.push_back(block.clone());
            }
            ports.carry_out(output);
        }
        let now = clock::now();
        let timeout = pipeline.deadline().map(|deadline| Duration::from_millis(deadline.0.saturating_sub(now.0)));
        let input = match ports.shared.inbox.receive(timeout) {
            Received::Item(input) => input,
            Received::TimedOut => Input::Deadline,
            Received::Closed => return,
        };
        let durable = if let Input::Appended(height) = &input { Some(*height) } else { None };
        pipeline.handle(clock::now(), input);
        while let Some(block) = appending.pop_front_if(|block| durable.is_some_and(|height| block.block.height() <= height)) {
            ports.shared.mirror.executed(block.receipts.iter().map(|receipt| receipt.transaction_hash));
        }
        ports.shared.target.store(pipeline.target().0, Ordering::Relaxed);
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
                // The thread is gone only when the node is stopping.
                let _ = self.plans.send(plan);
            }
            Output::Pending(transaction) => {
                let hash = transaction.hash();
                shared.mirror.pending(transaction);
                let _ = shared.events.send(ChainEvent::Pending(hash));
            }
            Output::Dropped { hash, status } => shared.mirror.gone(hash, status_word(status)),
            Output::Accuse { validator, offence, evidence } => {
                count(&shared.counters.accusations, 1);
                let evidence: Vec<B256> = evidence.iter().map(|bytes| corniche_crypto::digest(bytes)).collect();
                tracing::warn!(validator = validator.0, ?offence, ?evidence, "a validator broke the rules");
            }
            Output::Trace(event) => {
                tracing::debug!("{event:?}");
                if let Some(trace) = &self.trace {
                    trace.record(clock::now(), event);
                }
            }
            Output::Halt { reason, certificate } => self.write(Write::Divergence { reason, certificate }),
        }
    }

    fn write(&self, write: Write) {
        // The thread is gone only when the node is stopping.
        let _ = self.writes.send(write);
    }

    fn send(&self, to: NodeKey, message: &PeerMessage) {
        let Some((network, _)) = &self.network else { return };
        let channel = match message {
            PeerMessage::CertificateShare(_) | PeerMessage::Certificate(_) => Channel::Votes,
            PeerMessage::Engine(_) | PeerMessage::Transactions(_) => Channel::Bulk,
        };
        // A full queue drops; whoever lacks something asks for it.
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

// ---- execution ---------------------------------------------------------------------------------------------------------

fn run_execution(mut stage: ExecutionStage, plans: &mpsc::Receiver<Plan>, shared: &Shared) {
    while let Ok(plan) = plans.recv() {
        let executed: Executed = stage.execute(plan.block, verify_in_parallel);
        shared.next_base_fee.store(stage.base_fee_at(clock::now().0 / 1000), Ordering::Relaxed);
        shared.inbox.answer(Input::Executed(Box::new(executed)));
    }
}

/// Signature checks of one block on two threads when there are enough to pay for it.
fn verify_in_parallel(ordered: &[OrderedTransaction], chain_id: u64) -> Vec<Result<VerifiedTransaction, SkipReason>> {
    const WORTH_A_THREAD: usize = 32;
    let check = |part: &[OrderedTransaction]| -> Vec<_> {
        part.iter().map(|transaction| verify_ordered(&transaction.raw, chain_id)).collect()
    };
    if ordered.len() < WORTH_A_THREAD {
        return check(ordered);
    }
    let (left, right) = ordered.split_at(ordered.len() / 2);
    thread::scope(|scope| {
        let other = scope.spawn(|| check(right));
        let mut verified = check(left);
        verified.extend(other.join().expect("invariant: checking a signature does not panic"));
        verified
    })
}

// ---- disk --------------------------------------------------------------------------------------------------------------

/// How often free space is looked at while there is something to write.
const SPACE_EVERY: Duration = Duration::from_secs(5);

/// Takes what is there, appends all of it, syncs once, then tells everyone: group commit.
fn run_writer(mut store: Store, writes: &mpsc::Receiver<Write>, shared: &Shared) {
    let mut space_checked = None::<Instant>;
    while let Ok(first) = writes.recv() {
        let mut group = vec![first];
        group.extend(writes.try_iter().take(1_023));
        if let Err(error) = write_group(&mut store, group, shared) {
            return shared.halt(format!("the disk failed: {error}"));
        }
        if space_checked.is_none_or(|at| at.elapsed() >= SPACE_EVERY) {
            space_checked = Some(Instant::now());
            if let Err(reason) = check_space(&store, shared) {
                return shared.halt(reason);
            }
        }
    }
}

/// A nearly full disk stops admission, then the node, cleanly (design §6).
fn check_space(store: &Store, shared: &Shared) -> Result<(), String> {
    let space = store.space().map_err(|error| error.to_string())?;
    let low = space != Space::Enough;
    if shared.refusing.swap(low, Ordering::Relaxed) != low {
        tracing::warn!(
            ?space,
            "{}",
            if low { "the disk is nearly full: transactions are refused" } else { "the disk has room again" }
        );
    }
    match space {
        Space::Exhausted => Err("the disk is full; free some space and start the node again".into()),
        Space::Enough | Space::Low => Ok(()),
    }
}

fn write_group(store: &mut Store, group: Vec<Write>, shared: &Shared) -> Result<(), corniche_store::StoreError> {
    let mut appended: Vec<Arc<CommittedBlock>> = Vec::new();
    let mut finalized = None;
    let (mut release, mut diverged) = (None, None);
    let mut read_safety_log = false;
    for write in group {
        match write {
            Write::Record(ticket, record) => {
                // An engine whose history was lost records nothing before it knows it again.
                if store.is_history_lost() {
                    store.append_history_known()?;
                }
                store.append_safety(ticket, &record)?;
            }
            Write::ReleaseBelow(ticket) => release = Some(ticket),
            Write::ReadSafetyLog => read_safety_log = true,
            Write::Block(block) => {
                store.append_block(block.clone())?;
                appended.push(block);
            }
            Write::Certificate(certificate) => {
                finalized = Some(certificate.height);
                store.append_certificate(&certificate)?;
            }
            Write::Progress(resume) => store.append_progress(&resume)?,
            Write::Divergence { reason, certificate } => {
                store.append_divergence(&certificate)?;
                diverged = Some(reason);
            }
        }
    }
    let synced = store.sync()?;
    for ticket in synced.tickets {
        shared.inbox.answer(Input::Durable(ticket));
    }
    for block in &appended {
        let height = block.block.height();
        shared.counters.head.store(height.0, Ordering::Relaxed);
        count(&shared.counters.executed, block.receipts.len());
        count(&shared.counters.skipped, block.block.ordering.skipped.len());
        let _ = shared.events.send(ChainEvent::Head(height));
    }
    if let Some(block) = appended.last() {
        shared.inbox.answer(Input::Appended(block.block.height()));
    }
    if let Some(height) = finalized {
        shared.counters.finalized.store(height.0, Ordering::Relaxed);
        let _ = shared.events.send(ChainEvent::Finalized(height));
    }
    // Only what is durable makes a record unnecessary, so this comes after the sync.
    if let Some(ticket) = release {
        store.release_safety_below(ticket)?;
    }
    if let Some(reason) = diverged {
        shared.halt(reason);
    }
    if read_safety_log {
        shared.inbox.answer(Input::SafetyLog(store.safety_records()?));
    }
    Ok(())
}

// ---- what peers send ---------------------------------------------------------------------------------------------------

/// A message as it came from the network.
type Unchecked = (PeerKey, Option<ValidatorIndex>, Bytes);

/// Checks peers' messages on a few threads; a peer's messages keep their order because it stays with one thread. Everybody
/// outside the committee shares one thread of its own, so that nobody there can crowd out a validator.
pub struct Verifiers {
    guests: mpsc::SyncSender<Unchecked>,
    validators: Vec<mpsc::SyncSender<Unchecked>>,
}

impl Verifiers {
    pub fn spawn(
        threads: usize,
        chain_id: u64,
        verifier: Option<Arc<dyn Verifier>>,
        shared: &Arc<Shared>,
        network: &NetworkHandle,
    ) -> Self {
        let queue = |name: String, capacity: usize| {
            let (sender, receiver) = mpsc::sync_channel::<Unchecked>(capacity);
            let (shared, network, verifier) = (shared.clone(), network.clone(), verifier.clone());
            let body = move || {
                while let Ok((peer, validator, bytes)) = receiver.recv() {
                    match check(peer, validator, &bytes, chain_id, verifier.as_deref()) {
                        Ok(inputs) => inputs.into_iter().for_each(|input| {
                            // A full inbox drops peers' messages; whoever lacks something asks for it.
                            let taken = match input {
                                Input::Submit { .. } => shared.inbox.transaction(input),
                                _ => shared.inbox.message(input),
                            };
                            count(&shared.counters.inbox_dropped, usize::from(taken.is_err()));
                        }),
                        Err(fault) => {
                            tracing::debug!(%peer, fault, "a peer broke the rules");
                            count(&shared.counters.peer_faults, 1);
                            network.penalise(peer, Fault::NeverValid);
                        }
                    }
                }
            };
            thread::Builder::new().name(name).spawn(body).expect("the system has room for a thread");
            sender
        };
        Self {
            guests: queue("verify-guests".into(), 64),
            validators: (0..threads.max(1)).map(|number| queue(format!("verify-{number}"), 1_024)).collect(),
        }
    }

    /// Queues one message; a full queue drops it.
    pub fn check(&self, peer: PeerKey, validator: Option<ValidatorIndex>, bytes: Bytes) {
        let queue = match validator {
            Some(index) => &self.validators[index.as_usize() % self.validators.len()],
            None => &self.guests,
        };
        let _ = queue.try_send((peer, validator, bytes));
    }
}

/// Decodes and checks one message: inputs for the pipeline, or the sender's fault.
fn check(
    peer: PeerKey,
    validator: Option<ValidatorIndex>,
    bytes: &Bytes,
    chain_id: u64,
    verifier: Option<&dyn Verifier>,
) -> Result<Vec<Input>, String> {
    let message = PeerMessage::decode(bytes).map_err(|error| error.to_string())?;
    let from_validator = validator.ok_or("a message that only validators send");
    Ok(match message {
        PeerMessage::Engine(bytes) => {
            let from = from_validator?;
            let Some(verifier) = verifier else { return Ok(Vec::new()) };
            let message = verifier.verify(from, &bytes).map_err(|fault| fault.to_string())?;
            vec![Input::Engine { from, message }]
        }
        PeerMessage::CertificateShare(bytes) => vec![Input::CertificateShare { from: from_validator?, bytes }],
        PeerMessage::Certificate(certificate) => vec![Input::Certificate { from: peer.0.0, certificate }],
        PeerMessage::Transactions(raw) => raw
            .into_iter()
            .map(|raw| {
                let transaction = Transaction::decode(raw).map_err(|error| error.to_string())?;
                let transaction = VerifiedTransaction::verify(transaction, chain_id).map_err(|error| error.to_string())?;
                Ok(Input::Submit { transaction, reply: None })
            })
            .collect::<Result<_, String>>()?,
    })
}
