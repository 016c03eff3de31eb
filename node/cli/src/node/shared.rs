//! What the threads of a node and its RPC server share: queues, answers that users wait for, numbers, and the end.

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

/// Answer to a user's transaction.
pub type Submitted = Result<B256, RpcError>;

/// Numbers for `/metrics`.
#[derive(Default)]
pub struct Counters {
    pub head: AtomicU64,
    pub finalized: AtomicU64,
    pub executed: AtomicU64,
    /// Runs of ordered transactions, those after the first one of each, and results that were ready and adopted.
    pub transactions_run: AtomicU64,
    pub transactions_run_again: AtomicU64,
    pub transactions_adopted: AtomicU64,
    /// Runs before ordering, those of them without a result, and transactions seen but above their author's share.
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

/// A development chain as it is while nothing is under way.
pub struct Still {
    pub height: Height,
    pub clock: Clock,
    /// What waits for a block, by arrival.
    pub pool: Vec<Bytes>,
}

/// What the threads and the RPC server share.
pub struct Shared {
    pub inbox: Inbox<Input>,
    pub mirror: Mirror,
    pub counters: Counters,
    pub executions: Executions,
    pub events: broadcast::Sender<ChainEvent>,
    /// Told when the trace of the ordering has more to read.
    pub dag: watch::Sender<()>,
    /// How often a development chain began to go back and was done with it: odd while it does, when nobody takes anything.
    turns: watch::Sender<u64>,
    /// Users waiting for admission's answer, by ticket.
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<Submitted>>>,
    next_reply: AtomicU64,
    pub next_base_fee: AtomicU64,
    /// What a development chain was told it is; [`u64::MAX`]: nothing.
    said_base_fee: AtomicU64,
    /// Proposals on their way to the execution thread, to be run early.
    pub early: AtomicUsize,
    /// The newest height peers say is certified.
    pub target: AtomicU64,
    /// Offences already logged, by validator and number.
    accused: Mutex<BTreeSet<(ValidatorIndex, u8)>>,
    /// Why the node stopped by itself, if it did.
    halt_reason: Mutex<Option<String>>,
    halt_signal: Notify,
    /// Where ordering resumes after everything that was given to the disk.
    pub resume: Mutex<Resume>,
    /// The writer's store, once its thread has ended; wanted by a development chain that goes back.
    pub left: Mutex<Option<Store>>,
    pub keep_store: std::sync::atomic::AtomicBool,
    /// What a development chain was like when it was quiet last.
    pub quiet: Mutex<Option<Still>>,
    /// Set when the disk is nearly full: no transactions are taken any more.
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

    /// Hands a checked transaction to admission; the answer comes through the channel.
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
                // There will be no answer.
                self.waiting().remove(&reply);
            } else {
                self.answer(reply, Err(Reason::ServerBusy.with("too many transactions wait for admission; try again")));
            }
        }
        receiver
    }

    /// The same once it can be answered. Whom a development chain left without an answer by going back asks the chain that it is then.
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

    /// Waits while a development chain goes back.
    async fn settled(&self) -> u64 {
        self.turns.subscribe().wait_for(|turns| turns % 2 == 0).await.map_or(0, |turns| *turns)
    }

    /// From now on, and until [`Self::has_gone_back`], who asks for admission waits.
    pub fn goes_back(&self) {
        self.turns.send_modify(|turns| *turns |= 1);
    }

    /// Whether it worked or not.
    pub fn has_gone_back(&self) {
        self.turns.send_modify(|turns| *turns = turns.next_multiple_of(2));
    }

    /// Tells a development chain what to do; the answer is the hash of the last block that it made for that, if any.
    pub fn order(&self, order: DevOrder) -> oneshot::Receiver<Submitted> {
        let (sender, receiver) = oneshot::channel();
        let reply = self.next_reply.fetch_add(1, Ordering::Relaxed);
        self.waiting().insert(reply, sender);
        // Behind the transactions that came before it.
        if self.inbox.order(Input::Dev { order, reply }).is_err() {
            // There will be no answer.
            self.waiting().remove(&reply);
        }
        receiver
    }

    /// What is known of a chain that was just opened.
    pub fn starts_at(&self, height: Height, certified: Height, base_fee: u64, resume: Resume) {
        self.resumes_at(resume);
        self.counters.head.store(height.0, Ordering::Relaxed);
        self.counters.finalized.store(certified.0, Ordering::Relaxed);
        self.next_base_fee.store(base_fee, Ordering::Relaxed);
    }

    /// Wei that a gas costs at least in the next block, as far as that can be known.
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

    /// After the threads ended: everything but the numbers as it was at the start. Who waits for an answer is told that there will
    /// be none.
    pub fn start_over(&self) {
        self.mirror.clear();
        self.waiting().clear();
        // Last: what is taken from now on is answered.
        self.inbox.reopen();
        self.early.store(0, Ordering::Relaxed);
        self.target.store(0, Ordering::Relaxed);
    }

    /// True once for each validator and offence. Committee and offences are few, so this is bounded.
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
        self.dismiss();
    }

    /// Ends the pipeline. Who waits for an answer is told that there will be none.
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
