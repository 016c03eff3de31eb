//! State shared by the threads of a node and its RPC server: queues, pending responses, counters, and
//! shutdown.

use super::{executions::Executions, inbox::Inbox, mirror::Mirror};
use corniche_api::{Reason, RpcError};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Offence;
use corniche_pipeline::{
    Input,
    dev::{Clock, DevOrder},
};
use corniche_rpc::ChainEvent;
use corniche_store::Store;
use corniche_types::{B256, Bytes, Height, Resume, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use tokio::sync::{Notify, broadcast, oneshot, watch};

/// Response to a user's transaction.
pub type Submitted = Result<B256, RpcError>;

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
    pub refused: AtomicU64,
    pub accusations: AtomicU64,
    pub inbox_dropped: AtomicU64,
    pub peer_faults: AtomicU64,
}

pub fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// State of a development chain while no block is in progress.
pub struct Still {
    pub height: Height,
    pub clock: Clock,
    /// Transactions waiting for a block, by arrival.
    pub pool: Vec<Bytes>,
}

/// State shared by the threads and the RPC server.
pub struct Shared {
    pub inbox: Inbox<Input>,
    pub mirror: Mirror,
    pub counters: Counters,
    pub executions: Executions,
    pub events: broadcast::Sender<ChainEvent>,
    /// Signals new events in the trace of the ordering.
    pub dag: watch::Sender<()>,
    /// Number of started and completed reverts of a development chain: odd during a revert, when no
    /// transactions are accepted.
    turns: watch::Sender<u64>,
    /// Users waiting for admission's response, by ticket.
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<Submitted>>>,
    next_reply: AtomicU64,
    pub next_base_fee: AtomicU64,
    /// Base fee set on a development chain; [`u64::MAX`]: none.
    said_base_fee: AtomicU64,
    /// Number of proposals queued for speculative execution.
    pub early: AtomicUsize,
    /// Highest height that peers claim to be certified.
    pub target: AtomicU64,
    /// Offences already logged, by validator and offence.
    accused: Mutex<BTreeSet<(ValidatorIndex, u8)>>,
    /// Reason why the node halted, if it did.
    halt_reason: Mutex<Option<String>>,
    halt_signal: Notify,
    /// Point where ordering resumes after everything submitted to the writer.
    pub resume: Mutex<Resume>,
    /// The writer's store, after its thread has ended; used by reverts of a development chain.
    pub left: Mutex<Option<Store>>,
    pub keep_store: std::sync::atomic::AtomicBool,
    /// Last state of a quiet development chain.
    pub quiet: Mutex<Option<Still>>,
    /// True if the disk is nearly full: no transactions are accepted.
    pub refusing: std::sync::atomic::AtomicBool,
}

impl Shared {
    pub fn new(inbox: usize, base_fee: u64) -> Self {
        Self {
            inbox: Inbox::new(inbox),
            mirror: Mirror::default(),
            counters: Counters::default(),
            executions: Executions::default(),
            events: broadcast::channel(4_096).0,
            dag: watch::Sender::default(),
            turns: watch::Sender::default(),
            waiting: Mutex::default(),
            next_reply: AtomicU64::new(1),
            next_base_fee: AtomicU64::new(base_fee),
            said_base_fee: AtomicU64::new(u64::MAX),
            early: AtomicUsize::new(0),
            target: AtomicU64::new(0),
            accused: Mutex::default(),
            halt_reason: Mutex::default(),
            halt_signal: Notify::new(),
            resume: Mutex::default(),
            left: Mutex::default(),
            keep_store: false.into(),
            quiet: Mutex::default(),
            refusing: false.into(),
        }
    }

    /// Submits a verified transaction to admission; the response comes through the channel.
    pub fn submit(&self, transaction: VerifiedTransaction) -> oneshot::Receiver<Submitted> {
        let (sender, receiver) = oneshot::channel();
        if self.refusing.load(Ordering::Relaxed) {
            let _ = sender.send(Err(Reason::NotAccepting.with("the disk is nearly full")));
            return receiver;
        }
        let reply = self.next_reply.fetch_add(1, Ordering::Relaxed);
        self.waiting().insert(reply, sender);
        if self.inbox.transaction(Input::Submit { transaction, from: None, reply: Some(reply) }).is_err() {
            if self.inbox.is_closed() {
                // There will be no response.
                self.waiting().remove(&reply);
            } else {
                self.answer(reply, Err(Reason::ServerBusy.with("too many transactions wait for admission; try again")));
            }
        }
        receiver
    }

    /// Like [`Self::submit`], but waits for a revert to end, and retries if a revert of a development chain
    /// discards the request.
    pub async fn admit(&self, check: impl Fn() -> Result<VerifiedTransaction, RpcError>) -> Submitted {
        let mut turn = self.settled().await;
        loop {
            if let Ok(answer) = self.submit(check()?).await {
                return answer;
            }
            let now = self.settled().await;
            if now == turn {
                return Err(Reason::NotAccepting.with("the node is stopping"));
            }
            turn = now;
        }
    }

    /// Waits until no revert is in progress.
    async fn settled(&self) -> u64 {
        self.turns.subscribe().wait_for(|turns| turns % 2 == 0).await.map_or(0, |turns| *turns)
    }

    /// Marks the start of a revert: submissions wait until [`Self::has_gone_back`].
    pub fn goes_back(&self) {
        self.turns.send_modify(|turns| *turns |= 1);
    }

    /// Marks the end of a revert, successful or not.
    pub fn has_gone_back(&self) {
        self.turns.send_modify(|turns| *turns = turns.next_multiple_of(2));
    }

    /// Sends a command to a development chain. The response is the hash of the last block that it made, if
    /// any.
    pub fn order(&self, order: DevOrder) -> oneshot::Receiver<Submitted> {
        let (sender, receiver) = oneshot::channel();
        let reply = self.next_reply.fetch_add(1, Ordering::Relaxed);
        self.waiting().insert(reply, sender);
        // Queued after earlier transactions.
        if self.inbox.order(Input::Dev { order, reply }).is_err() {
            // There will be no response.
            self.waiting().remove(&reply);
        }
        receiver
    }

    /// Sets the values of a chain that was just opened.
    pub fn starts_at(&self, height: Height, certified: Height, base_fee: u64, resume: Resume) {
        self.resumes_at(resume);
        self.counters.head.store(height.0, Ordering::Relaxed);
        self.counters.finalized.store(certified.0, Ordering::Relaxed);
        self.next_base_fee.store(base_fee, Ordering::Relaxed);
    }

    /// Expected base fee of the next block, in wei.
    pub fn next_base_fee(&self) -> u64 {
        match self.said_base_fee.load(Ordering::Relaxed) {
            u64::MAX => self.next_base_fee.load(Ordering::Relaxed),
            said => said,
        }
    }

    pub fn say_base_fee(&self, said: Option<u64>) {
        self.said_base_fee.store(said.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn resumes_at(&self, resume: Resume) {
        *self.resume.lock().expect("invariant: nobody panics while holding the resume point") = resume;
    }

    /// Resets everything except the counters, after the threads have ended. Pending requests get an error.
    pub fn start_over(&self) {
        self.mirror.clear();
        self.waiting().clear();
        // Last: requests accepted from now on get a response.
        self.inbox.reopen();
        self.early.store(0, Ordering::Relaxed);
        self.target.store(0, Ordering::Relaxed);
    }

    /// True once per validator and offence. Bounded, because committee and offences are small.
    pub fn is_first_accusation(&self, validator: ValidatorIndex, offence: Offence) -> bool {
        let mut accused = self.accused.lock().expect("invariant: nobody panics while holding the accusations");
        accused.insert((validator, offence as u8))
    }

    pub fn answer(&self, reply: u64, answer: Submitted) {
        if let Some(sender) = self.waiting().remove(&reply) {
            let _ = sender.send(answer);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, oneshot::Sender<Submitted>>> {
        self.waiting.lock().expect("invariant: nobody panics while holding the waiting users")
    }

    /// Waits until the node halts; returns the reason.
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
        self.dismiss();
    }

    /// Closes the inbox. Pending requests get an error.
    pub fn dismiss(&self) {
        self.inbox.close();
        self.waiting().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{inbox::Received, testing::transfer};
    use futures::FutureExt;

    #[test]
    fn whom_a_chain_left_without_an_answer_by_going_back_asks_the_chain_that_it_is_then() {
        let shared = Shared::new(10, 1);
        let admit = |nonce| Box::pin(shared.admit(move || Ok(transfer(0, nonce))));
        let mut early = admit(1);
        assert!((&mut early).now_or_never().is_none(), "it waits for admission");
        shared.goes_back();
        shared.dismiss();
        let mut meanwhile = admit(2);
        assert!((&mut early).now_or_never().is_none() && (&mut meanwhile).now_or_never().is_none());
        shared.start_over();
        shared.has_gone_back();
        for asked in [&mut early, &mut meanwhile] {
            assert!((&mut *asked).now_or_never().is_none(), "it waits for admission");
            let Received::Item(Input::Submit { reply: Some(reply), .. }) = shared.inbox.receive(None, true) else {
                panic!("nothing was asked");
            };
            shared.answer(reply, Ok(B256::repeat_byte(7)));
            assert_eq!((&mut *asked).now_or_never(), Some(Ok(B256::repeat_byte(7))));
        }
    }

    #[test]
    fn an_offence_of_a_validator_is_mentioned_once() {
        let shared = Shared::new(10, 1);
        let [one, other] = [1, 2].map(ValidatorIndex);
        assert!(shared.is_first_accusation(one, Offence::BadSignature));
        assert!((0..1_000).all(|_| !shared.is_first_accusation(one, Offence::BadSignature)));
        assert!(shared.is_first_accusation(one, Offence::Equivocation));
        assert!(shared.is_first_accusation(other, Offence::BadSignature));
    }

    #[test]
    fn a_node_that_stops_says_so_also_where_going_back_did_not_work() {
        let shared = Shared::new(10, 1);
        shared.goes_back();
        shared.dismiss();
        let mut asked = std::pin::pin!(shared.admit(|| Ok(transfer(0, 1))));
        assert!(asked.as_mut().now_or_never().is_none());
        shared.has_gone_back();
        let refused = asked.now_or_never().unwrap().unwrap_err();
        assert!(refused.message.contains("the node is stopping"), "{refused}");
    }
}
