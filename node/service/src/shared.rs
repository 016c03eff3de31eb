//! State shared by the threads of a node and its RPC server: queues, pending responses, counters, and
//! shutdown.

use crate::{
    epoch_gap::EpochGap, execution_stats::ExecutionStats, inbox::Inbox, pool_view::PoolView, recovered::RecoveredSenders,
    snapshots::SnapshotStats,
};
use corniche_api::{Reason, RpcError};
use corniche_crypto::{Known, VerifiedTransaction};
use corniche_engine::{Committee, Offence};
use corniche_network::{NetworkHandle, PeerKey};
use corniche_pipeline::{AttestedSenders, CommandResponse, Event, Fault, Halted, Input};
use corniche_rpc::ChainEvent;
use corniche_staking::NoticeKind;
use corniche_store::Store;
use corniche_types::{Address, B256, Bytes, Epoch, Genesis, Height, Resume, SignatureChecks, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use tokio::sync::{Notify, broadcast, oneshot, watch};

/// Response to a user's transaction.
pub type SubmitResult = Result<B256, RpcError>;

/// Counters for `/metrics`.
#[derive(Default)]
pub struct Counters {
    pub head: AtomicU64,
    pub finalized: AtomicU64,
    pub executed: AtomicU64,
    /// Executions of ordered transactions, repeated executions among them, and adopted speculative results.
    pub transactions_run: AtomicU64,
    pub transactions_run_again: AtomicU64,
    pub transactions_adopted: AtomicU64,
    /// Speculative executions, those without a result, and proposed transactions above their author's share.
    pub early_runs: AtomicU64,
    pub early_without_result: AtomicU64,
    pub early_passed_over: AtomicU64,
    pub skipped: AtomicU64,
    /// Own proposals, or own requests in the log of an engine with sequencers; and those of them with transactions.
    pub proposals: AtomicU64,
    pub proposed_batches: AtomicU64,
    pub refused: AtomicU64,
    pub accusations: AtomicU64,
    pub inbox_dropped: AtomicU64,
    pub peer_faults: AtomicU64,
    /// Datagrams of the multicast group that the pipeline got, and others. Epoch of the group.
    pub packets_received: AtomicU64,
    pub packets_refused: AtomicU64,
    pub multicast_epoch: AtomicU64,
    /// 1 while this validator takes part in ordering, otherwise 0.
    pub ordering: AtomicU64,
    /// The running epoch's coin, see [`corniche_pipeline::CoinStatus`].
    pub coin_generation: AtomicU64,
    pub coin_exposed_votes: AtomicU64,
    pub coin_share_missing: AtomicU64,
    pub evidence_pending: AtomicU64,
    /// Notices that the state lacks, and those that blocks refused, in the order of [`NoticeKind::ALL`].
    pub notices_pending: [AtomicU64; NoticeKind::ALL.len()],
    pub notices_refused: [AtomicU64; NoticeKind::ALL.len()],
}

pub fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// Called with the response to a command, on the pipeline's thread.
pub type CommandDone = Box<dyn FnOnce(&PoolView, Result<Bytes, String>) + Send>;

/// State shared by the threads and the RPC server.
pub struct Shared {
    pub inbox: Inbox<Event>,
    pub pool_view: PoolView,
    recovered: RecoveredSenders,
    committee: RwLock<Arc<Committee>>,
    /// `None`: every validator checks every signature.
    attested: Option<Mutex<AttestedSenders>>,
    pub counters: Counters,
    pub executions: ExecutionStats,
    pub snapshots: Arc<SnapshotStats>,
    pub epoch_gap: EpochGap,
    /// Milliseconds by which clocks of validators are ahead.
    pub clock_leads: Mutex<Vec<(ValidatorIndex, u64)>>,
    pub events: broadcast::Sender<ChainEvent>,
    /// Signals new events in the trace of the ordering.
    pub dag: watch::Sender<()>,
    /// Number of times that requests were held and released: odd while they are held.
    holds: watch::Sender<u64>,
    /// Users waiting for admission's response, by ticket.
    pending: Mutex<BTreeMap<u64, oneshot::Sender<SubmitResult>>>,
    /// Commands waiting for their response, by ticket.
    commands: Mutex<BTreeMap<u64, CommandDone>>,
    next_reply: AtomicU64,
    pub next_base_fee: AtomicU64,
    /// Base fee that the extension set; [`u64::MAX`]: none.
    requested_base_fee: AtomicU64,
    /// Number of proposals queued for speculative execution.
    pub queued_proposals: AtomicUsize,
    /// Highest height that peers claim to be certified.
    pub target: AtomicU64,
    /// The next block, if no peer has it any more; 0 otherwise.
    pub unavailable_block: AtomicU64,
    /// Offences already logged, by validator and offence.
    accused: Mutex<BTreeSet<(ValidatorIndex, u8)>>,
    /// Why the node halted, if it did.
    halted: Mutex<Option<Halted>>,
    halt_signal: Notify,
    /// Point where ordering resumes after everything submitted to the writer.
    pub resume: Mutex<Resume>,
    /// The writer's store, after its thread has ended; used by a suspension.
    pub returned_store: Mutex<Option<Store>>,
    pub return_store: std::sync::atomic::AtomicBool,
    /// True if the disk is nearly full: no transactions are accepted.
    pub disk_nearly_full: std::sync::atomic::AtomicBool,
}

impl Shared {
    pub fn new(inbox: usize, base_fee: u64, committee: Committee) -> Self {
        Self {
            inbox: Inbox::new(inbox),
            pool_view: PoolView::default(),
            recovered: RecoveredSenders::default(),
            committee: RwLock::new(Arc::new(committee)),
            attested: None,
            counters: Counters::default(),
            executions: ExecutionStats::default(),
            snapshots: Arc::default(),
            epoch_gap: EpochGap::default(),
            clock_leads: Mutex::default(),
            events: broadcast::channel(4_096).0,
            dag: watch::Sender::default(),
            holds: watch::Sender::default(),
            pending: Mutex::default(),
            commands: Mutex::default(),
            next_reply: AtomicU64::new(1),
            next_base_fee: AtomicU64::new(base_fee),
            requested_base_fee: AtomicU64::new(u64::MAX),
            queued_proposals: AtomicUsize::new(0),
            target: AtomicU64::new(0),
            unavailable_block: AtomicU64::new(0),
            accused: Mutex::default(),
            halted: Mutex::default(),
            halt_signal: Notify::new(),
            resume: Mutex::default(),
            returned_store: Mutex::default(),
            return_store: false.into(),
            disk_nearly_full: false.into(),
        }
    }

    /// Accepts attested senders, if the genesis has signatures checked by a part of the validators. Only for a validator: a
    /// full node checks every signature.
    #[must_use]
    pub fn with_attested_senders(self, genesis: &Genesis) -> Self {
        let senders = || Mutex::new(AttestedSenders::new(&self.committee()));
        Self { attested: (genesis.signatures == SignatureChecks::Sharded).then(senders), ..self }
    }

    /// Continues with another committee.
    pub fn start_epoch(&self, committee: Committee) {
        if let Some(mut attested) = self.attested() {
            *attested = AttestedSenders::new(&committee);
        }
        // Indices mean other validators now.
        self.accused.lock().expect("invariant: nobody panics while holding the accusations").clear();
        *self.committee.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(committee);
    }

    /// Committee of the running epoch.
    pub fn committee(&self) -> Arc<Committee> {
        self.committee.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records senders that a validator attested.
    pub fn record_attestations(&self, epoch: Epoch, from: ValidatorIndex, attestations: &[(B256, Address)]) {
        /// Attestations recorded under one lock, so that a flood delays no lookup.
        const AT_A_TIME: usize = 32;
        for part in attestations.chunks(AT_A_TIME) {
            let Some(mut attested) = self.attested() else { return };
            attested.record(epoch, from, part.iter().copied());
        }
    }

    /// Looks for the transaction in the pool, and for its sender among those recovered lately and in attestations.
    pub fn known(&self, hash: &B256) -> Option<Known> {
        let attested = || self.attested()?.sender(hash);
        let sender = || self.recovered.sender(hash).or_else(attested).map(Known::Attested);
        self.pool_view.transaction(hash).map(Known::Verified).or_else(sender)
    }

    /// Verifies a transaction with [`Self::known`], and remembers its sender.
    pub fn verify_once<E>(
        &self,
        verify: impl FnOnce(&dyn Fn(&B256) -> Option<Known>) -> Result<VerifiedTransaction, E>,
    ) -> Result<VerifiedTransaction, E> {
        verify(&|hash| self.known(hash)).inspect(|verified| self.recovered.record(verified))
    }

    /// True if attestations of a transaction that is not ordered yet may still come.
    pub fn awaits_attestations(&self) -> bool {
        self.attested.is_some()
    }

    fn attested(&self) -> Option<MutexGuard<'_, AttestedSenders>> {
        Some(self.attested.as_ref()?.lock().expect("invariant: nobody panics while holding the attestations"))
    }

    /// Submits a verified transaction to admission; the response comes through the channel.
    pub fn submit(&self, transaction: VerifiedTransaction) -> oneshot::Receiver<SubmitResult> {
        let (sender, receiver) = oneshot::channel();
        if self.disk_nearly_full.load(Ordering::Relaxed) {
            let _ = sender.send(Err(Reason::NotAccepting.with("the disk is nearly full")));
            return receiver;
        }
        let reply = self.next_reply.fetch_add(1, Ordering::Relaxed);
        self.pending().insert(reply, sender);
        if self.inbox.push_transaction(Input::Submit { transaction, from: None, reply: Some(reply) }.into()).is_err() {
            if self.inbox.is_closed() {
                // There will be no response.
                self.pending().remove(&reply);
            } else {
                self.respond(reply, Err(Reason::ServerBusy.with("too many transactions wait for admission; try again")));
            }
        }
        receiver
    }

    /// Like [`Self::submit`], but waits while requests are held, and retries if the exchange of the chain discards
    /// the request.
    pub async fn admit(&self, check: impl Fn() -> Result<VerifiedTransaction, RpcError>) -> SubmitResult {
        let mut release_count = self.wait_for_release().await;
        loop {
            if let Ok(response) = self.submit(check()?).await {
                return response;
            }
            let now = self.wait_for_release().await;
            if now == release_count {
                return Err(Reason::NotAccepting.with("the node is stopping"));
            }
            release_count = now;
        }
    }

    /// Waits until requests are not held.
    async fn wait_for_release(&self) -> u64 {
        self.holds.subscribe().wait_for(|holds| holds % 2 == 0).await.map_or(0, |holds| *holds)
    }

    /// Holds requests: submissions wait until [`Self::release_requests`].
    pub fn hold_requests(&self) {
        self.holds.send_modify(|holds| *holds |= 1);
    }

    /// Releases held requests, whether the chain was exchanged or not.
    pub fn release_requests(&self) {
        self.holds.send_modify(|holds| *holds = holds.next_multiple_of(2));
    }

    /// Sends a command to the extension. Without a response, `done` is dropped.
    pub fn command(&self, command: Bytes, done: CommandDone) {
        let reply = self.next_reply.fetch_add(1, Ordering::Relaxed);
        self.commands().insert(reply, done);
        // Queued after earlier transactions.
        if self.inbox.push_command(Input::Command { command, reply }.into()).is_err() {
            // There will be no response.
            self.commands().remove(&reply);
        }
    }

    /// Passes on the response to a command.
    pub fn command_done(&self, CommandResponse { reply, result }: CommandResponse) {
        let done = self.commands().remove(&reply);
        if let Some(done) = done {
            done(&self.pool_view, result);
        }
    }

    fn commands(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, CommandDone>> {
        self.commands.lock().expect("invariant: nobody panics while holding the waiting commands")
    }

    /// Sets the values of a chain that was just opened.
    pub fn set_start(&self, height: Height, certified: Height, base_fee: u64, resume: Resume) {
        self.set_resume(resume);
        self.counters.head.store(height.0, Ordering::Relaxed);
        self.counters.finalized.store(certified.0, Ordering::Relaxed);
        self.next_base_fee.store(base_fee, Ordering::Relaxed);
    }

    /// Expected base fee of the next block, in wei.
    pub fn next_base_fee(&self) -> u64 {
        match self.requested_base_fee.load(Ordering::Relaxed) {
            u64::MAX => self.next_base_fee.load(Ordering::Relaxed),
            requested => requested,
        }
    }

    pub fn set_requested_base_fee(&self, requested: Option<u64>) {
        self.requested_base_fee.store(requested.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn set_resume(&self, resume: Resume) {
        *self.resume.lock().expect("invariant: nobody panics while holding the resume point") = resume;
    }

    /// Resets everything except the counters, after the threads have ended. Pending requests get an error.
    pub fn reset(&self) {
        self.pool_view.clear();
        self.pending().clear();
        self.commands().clear();
        // Last: requests accepted from now on get a response.
        self.inbox.reopen();
        self.queued_proposals.store(0, Ordering::Relaxed);
        self.target.store(0, Ordering::Relaxed);
    }

    /// True once per validator and offence. Bounded, because committee and offences are small.
    pub fn is_first_accusation(&self, validator: ValidatorIndex, offence: Offence) -> bool {
        let mut accused = self.accused.lock().expect("invariant: nobody panics while holding the accusations");
        accused.insert((validator, offence as u8))
    }

    /// Counts a violation of the protocol, and lowers the peer's score.
    pub fn penalise(&self, network: &NetworkHandle, peer: PeerKey, Fault(reason): Fault) {
        tracing::debug!(%peer, reason, "a peer broke the rules");
        count(&self.counters.peer_faults, 1);
        network.penalise(peer, corniche_network::Fault::NeverValid);
    }

    pub fn respond(&self, reply: u64, response: SubmitResult) {
        if let Some(sender) = self.pending().remove(&reply) {
            let _ = sender.send(response);
        }
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, oneshot::Sender<SubmitResult>>> {
        self.pending.lock().expect("invariant: nobody panics while holding the waiting users")
    }

    /// Waits until the node halts; returns why.
    pub async fn halted(&self) -> Halted {
        loop {
            let notified = self.halt_signal.notified();
            if let Some(halted) = self.lock_halted().clone() {
                return halted;
            }
            notified.await;
        }
    }

    fn lock_halted(&self) -> std::sync::MutexGuard<'_, Option<Halted>> {
        self.halted.lock().expect("invariant: nobody panics while holding the reason")
    }

    /// Stops the node's threads.
    pub fn halt(&self, halted: impl Into<Halted>) {
        self.lock_halted().get_or_insert(halted.into());
        self.halt_signal.notify_waiters();
        self.shut_down();
    }

    /// Closes the inbox. Pending requests get an error.
    pub fn shut_down(&self) {
        self.inbox.close();
        self.pending().clear();
        self.commands().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        inbox::Received,
        testing::{committee, transfer},
    };
    use futures::FutureExt;

    #[test]
    fn held_requests_are_retried() {
        let shared = Shared::new(10, 1, committee());
        let admit = |nonce| Box::pin(shared.admit(move || Ok(transfer(0, nonce))));
        let mut early = admit(1);
        assert!((&mut early).now_or_never().is_none(), "it waits for admission");
        shared.hold_requests();
        shared.shut_down();
        let mut meanwhile = admit(2);
        assert!((&mut early).now_or_never().is_none() && (&mut meanwhile).now_or_never().is_none());
        shared.reset();
        shared.release_requests();
        for submission in [&mut early, &mut meanwhile] {
            assert!((&mut *submission).now_or_never().is_none(), "it waits for admission");
            let received = shared.inbox.receive(None, true);
            let Received::Item(Event::Input(Input::Submit { reply: Some(reply), .. })) = received else {
                panic!("nothing was asked");
            };
            shared.respond(reply, Ok(B256::repeat_byte(7)));
            assert_eq!((&mut *submission).now_or_never(), Some(Ok(B256::repeat_byte(7))));
        }
    }

    #[test]
    fn offence_is_logged_once() {
        let shared = Shared::new(10, 1, committee());
        let [one, other] = [1, 2].map(ValidatorIndex);
        assert!(shared.is_first_accusation(one, Offence::BadSignature));
        assert!((0..1_000).all(|_| !shared.is_first_accusation(one, Offence::BadSignature)));
        assert!(shared.is_first_accusation(one, Offence::Equivocation));
        assert!(shared.is_first_accusation(other, Offence::BadSignature));
    }

    #[test]
    fn release_after_stop_reports_stop() {
        let shared = Shared::new(10, 1, committee());
        shared.hold_requests();
        shared.shut_down();
        let mut submission = std::pin::pin!(shared.admit(|| Ok(transfer(0, 1))));
        assert!(submission.as_mut().now_or_never().is_none());
        shared.release_requests();
        let refused = submission.now_or_never().unwrap().unwrap_err();
        assert!(refused.message.contains("the node is stopping"), "{refused}");
    }
}
