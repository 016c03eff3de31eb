//! A gateway: takes wallets' transactions, and drives them as a client of the shards (A2). Without I/O.
//!
//! The transactions of one wallet go one after the other: each needs the nonce that the one before it leaves. An aborted transaction is
//! tried again with a new timestamp, after a random back-off (P4). A nonce that is too high waits for the ones before it.

use crate::chain::{Chain, Run, hash};
use crate::keys;
use corniche_basil::MAX_CONSTANTS;
use corniche_basil::attestation::{Attestation, Decision};
use corniche_basil::certificate::Decided;
use corniche_basil::client::{Client, Output as ClientOutput, backoff_ms};
use corniche_basil::message::{Message, Peer};
use corniche_basil::shards::Key;
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{MAX_KEYS, Timestamp, TransactionError, TransactionId, Value};
use corniche_basil::verify::Checked;
use corniche_crypto::VerifiedTransaction;
use corniche_types::{Address, B256, Bytes, Receipt, SkipReason, TimestampMs, keccak256};
use lru::LruCache;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Maximum number of transactions at once.
pub const MAX_PENDING: usize = 16_384;
/// Number of attempts before a transaction is dropped.
pub const MAX_ATTEMPTS: u32 = 1_000;

/// Number of contracts whose code is kept.
const MAX_CODES: NonZeroUsize = NonZeroUsize::new(256).expect("above 0");
/// Longest wait for the nonces before a transaction's, until the next attempt, ms.
const NONCE_MS: u64 = 2_000;

/// Number of times that a gateway searches a used nonce's transaction for the wallet's.
const MAX_LOOKUPS: u32 = 8;

/// Why a gateway takes no transaction, or dropped it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    #[error("transaction: not valid ({0:?})")]
    Invalid(SkipReason),
    #[error("gateway: {0}; make the transaction smaller, or report this")]
    Refused(TransactionError),
    #[error("transaction: this gateway drives it already; wait for its receipt")]
    Known,
    #[error("gateway: busy with {MAX_PENDING} transactions; try again later")]
    Busy,
    #[error("transaction: expected at most {MAX_KEYS} values read and written")]
    TooLarge,
    #[error("transaction: expected calls of at most {MAX_CONSTANTS} contracts")]
    TooManyContracts,
    #[error("state: {0}; report this, and try again")]
    Impossible(String),
    #[error("transaction: dropped after {MAX_ATTEMPTS} attempts, because of conflicts; submit it again")]
    Conflicts,
}

/// Results of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Send {
        to: Peer,
        message: Arc<Message>,
    },
    /// The transaction is decided, with a certificate of its own. Its block comes later.
    Committed {
        hash: B256,
        receipt: Box<Receipt>,
        decided: Shared<Decided>,
        /// Number of attempts; `None` if another gateway proposed it.
        attempts: Option<u32>,
        /// True if this gateway finished another one's proposal.
        recovered: bool,
    },
    /// The transaction will not be tried again.
    Dropped {
        hash: B256,
        error: GatewayError,
    },
    /// See [`ClientOutput::Late`].
    Late {
        below_us: u64,
    },
    /// Another gateway's proposal is committed. This one finished it for a wallet's transaction that it does not drive itself, or drives it and
    /// lacks the code for its receipt.
    Recovered(Shared<Decided>),
    /// See [`Client::certify`].
    Certified {
        from_us: u64,
        below_us: u64,
        certificate: Vec<Attestation>,
    },
    /// See [`Client::export`].
    Exported {
        from_us: u64,
        below_us: u64,
        transactions: Vec<Shared<Decided>>,
    },
}

/// A gateway.
pub struct Gateway {
    chain: Chain,
    client: Client,
    pending: BTreeMap<B256, Pending>,
    /// Nonces and hashes of each wallet's transactions. Only the first one is driven.
    queues: BTreeMap<Address, BTreeSet<(u64, B256)>>,
    /// Transactions that became the first of their wallet.
    ready: Vec<B256>,
    executing: BTreeMap<Timestamp, B256>,
    /// Code that was read, by its hash.
    codes: LruCache<B256, Bytes>,
    deciding: BTreeMap<TransactionId, B256>,
    /// Attempts that start later.
    waiting: BTreeSet<(TimestampMs, B256)>,
    random: SplitMix64,
    outputs: VecDeque<Output>,
}

struct Pending {
    transaction: VerifiedTransaction,
    raw: Bytes,
    values: BTreeMap<Key, Value>,
    /// Code that it uses.
    codes: BTreeMap<B256, Bytes>,
    receipt: Option<Receipt>,
    /// True once it was the first of its wallet.
    is_driven: bool,
    /// True if accounts are read before the run asks for them.
    reads_ahead: bool,
    attempts: u32,
    lookups: u32,
}

impl Gateway {
    /// `seed` makes back-off random.
    pub fn new(chain: Chain, client: Client, seed: u64) -> Self {
        Self {
            chain,
            client,
            pending: BTreeMap::new(),
            queues: BTreeMap::new(),
            ready: Vec::new(),
            executing: BTreeMap::new(),
            codes: LruCache::new(MAX_CODES),
            deciding: BTreeMap::new(),
            waiting: BTreeSet::new(),
            random: SplitMix64::seed_from_u64(seed),
            outputs: VecDeque::new(),
        }
    }

    /// Takes a wallet's transaction of this chain.
    ///
    /// # Errors
    /// It is being driven already, or the gateway has too many.
    pub fn submit(&mut self, now: TimestampMs, transaction: VerifiedTransaction) -> Result<B256, GatewayError> {
        let (hash, raw) = (transaction.hash(), transaction.transaction().raw().clone());
        if self.pending.contains_key(&hash) {
            return Err(GatewayError::Known);
        }
        if self.pending.len() >= MAX_PENDING {
            return Err(GatewayError::Busy);
        }
        let (sender, nonce) = (transaction.sender(), transaction.transaction().nonce());
        let pending = Pending {
            transaction,
            raw,
            values: BTreeMap::new(),
            codes: BTreeMap::new(),
            receipt: None,
            is_driven: false,
            reads_ahead: true,
            attempts: 0,
            lookups: 0,
        };
        self.pending.insert(hash, pending);
        self.queues.entry(sender).or_default().insert((nonce, hash));
        self.drive_first(&sender);
        self.drain(now);
        Ok(hash)
    }

    /// Applies a message of a replica.
    pub fn handle(&mut self, now: TimestampMs, message: Checked) {
        self.client.handle(now, message);
        self.drain(now);
    }

    /// Runs timers.
    pub fn tick(&mut self, now: TimestampMs) {
        self.client.tick(now);
        while let Some((_, hash)) = self.waiting.first().copied().filter(|(at, _)| *at <= now) {
            self.waiting.pop_first();
            self.start(now, hash);
        }
        self.drain(now);
    }

    /// Time of the next [`Self::tick`].
    pub fn deadline(&self) -> Option<TimestampMs> {
        let waiting = self.waiting.first().map(|(at, _)| *at);
        [waiting, self.client.deadline()].into_iter().flatten().min()
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The client of the shards, to export the ledger and to finish transactions of gateways that stopped.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Forgets a wallet's transaction that is in the ledger: another gateway proposed it.
    pub fn settle(&mut self, now: TimestampMs, hash: &B256) {
        self.take(hash);
        self.drain(now);
    }

    /// Everything below this time is in the ledger, and what is not there can never commit: attempts with earlier timestamps begin again.
    pub fn give_up_below(&mut self, now: TimestampMs, below_us: u64) {
        let old: Vec<_> = self
            .executing
            .iter()
            .take_while(|(timestamp, _)| timestamp.time_us < below_us)
            .map(|(at, hash)| (*at, *hash))
            .collect();
        for (timestamp, hash) in old {
            self.executing.remove(&timestamp);
            self.client.abandon(timestamp);
            self.retry(now, hash, GatewayError::Conflicts);
        }
        for id in self.client.give_up_below(below_us) {
            if let Some(hash) = self.deciding.remove(&id) {
                self.retry(now, hash, GatewayError::Conflicts);
            }
        }
        self.drain(now);
    }

    /// Removes a transaction. The next one of its wallet follows.
    fn take(&mut self, hash: &B256) -> Option<Pending> {
        let pending = self.pending.remove(hash)?;
        let (sender, nonce) = (pending.transaction.sender(), pending.transaction.transaction().nonce());
        if let Some(queue) = self.queues.get_mut(&sender) {
            queue.remove(&(nonce, *hash));
            if queue.is_empty() {
                self.queues.remove(&sender);
            }
        }
        self.drive_first(&sender);
        Some(pending)
    }

    fn drive_first(&mut self, sender: &Address) {
        let first = self.queues.get(sender).and_then(BTreeSet::first).map(|(_, hash)| *hash);
        let first = first.and_then(|hash| Some((hash, self.pending.get_mut(&hash)?)));
        if let Some((hash, pending)) = first.filter(|(_, pending)| !pending.is_driven) {
            pending.is_driven = true;
            self.ready.push(hash);
        }
    }

    /// Number of transactions that are driven.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn start(&mut self, now: TimestampMs, hash: B256) {
        let Some(pending) = self.pending.get_mut(&hash) else { return };
        pending.values.clear();
        pending.codes.clear();
        pending.attempts += 1;
        let timestamp = self.client.begin(now);
        self.executing.insert(timestamp, hash);
        if pending.reads_ahead {
            // Each run reads these. Without this, each costs a round trip.
            let sender = pending.transaction.sender();
            let accounts = [Some(sender), pending.transaction.transaction().to()].into_iter().flatten();
            for key in accounts.flat_map(|account| [keys::balance_key(account), keys::code_name_key(account)]) {
                self.client.read(now, timestamp, key);
            }
        }
        self.run(now, timestamp, hash);
    }

    /// Runs the transaction as far as its values go.
    fn run(&mut self, now: TimestampMs, timestamp: Timestamp, hash: B256) {
        let Some(pending) = self.pending.get_mut(&hash) else {
            // Another gateway's proposal of this transaction committed while this attempt was reading.
            self.executing.remove(&timestamp);
            return self.client.abandon(timestamp);
        };
        // More values are on their way.
        if self.client.is_reading(timestamp) || self.client.read_count(timestamp) > pending.values.len() {
            return;
        }
        let names = keys::codes(pending.values.iter());
        if names.len() > MAX_CONSTANTS {
            return self.give_up(timestamp, hash, GatewayError::TooManyContracts);
        }
        for name in names.into_iter().filter(|name| !pending.codes.contains_key(name)).collect::<Vec<_>>() {
            match self.codes.get(&name) {
                Some(code) => _ = pending.codes.insert(name, code.clone()),
                None => self.client.read(now, timestamp, keys::code_key(&name)),
            }
        }
        if self.client.is_reading(timestamp) {
            return;
        }
        let (run, read) = self.chain.run(timestamp, &pending.transaction, &pending.values, &pending.codes);
        match run {
            // Replicas accept only values that the run reads.
            Run::Done(_) if read < pending.values.len() => {
                pending.reads_ahead = false;
                self.executing.remove(&timestamp);
                self.client.abandon(timestamp);
                self.start(now, hash);
            }
            Run::Needs(_) if pending.values.len() >= MAX_KEYS => self.give_up(timestamp, hash, GatewayError::TooLarge),
            Run::Needs(key) => self.client.read(now, timestamp, key),
            Run::Impossible(fault) => self.give_up(timestamp, hash, GatewayError::Impossible(fault)),
            Run::Invalid(SkipReason::NonceTooHigh) => self.later(now, timestamp, hash, SkipReason::NonceTooHigh),
            // Another gateway may have proposed this transaction, and stopped.
            Run::Invalid(SkipReason::NonceTooLow) if pending.lookups < MAX_LOOKUPS => {
                pending.lookups += 1;
                self.client.finish_writers(now, timestamp);
                self.later(now, timestamp, hash, SkipReason::NonceTooLow);
            }
            Run::Invalid(reason) => self.give_up(timestamp, hash, GatewayError::Invalid(reason)),
            Run::Done(ran) => {
                pending.receipt = Some(ran.receipt);
                pending.codes.clear();
                let call = pending.raw.clone();
                self.executing.remove(&timestamp);
                match self.client.commit(now, timestamp, ran.writes, call) {
                    Ok(id) => _ = self.deciding.insert(id, hash),
                    Err(error) => self.drop_pending(hash, GatewayError::Refused(error)),
                }
            }
        }
    }

    fn give_up(&mut self, timestamp: Timestamp, hash: B256, error: GatewayError) {
        self.executing.remove(&timestamp);
        self.client.abandon(timestamp);
        self.drop_pending(hash, error);
    }

    fn later(&mut self, now: TimestampMs, timestamp: Timestamp, hash: B256, reason: SkipReason) {
        self.executing.remove(&timestamp);
        self.client.abandon(timestamp);
        self.retry(now, hash, GatewayError::Invalid(reason));
    }

    /// `error` is the reason if there were too many attempts.
    fn retry(&mut self, now: TimestampMs, hash: B256, error: GatewayError) {
        let Some(attempts) = self.pending.get(&hash).map(|pending| pending.attempts) else { return };
        if attempts >= MAX_ATTEMPTS {
            return self.drop_pending(hash, error);
        }
        // A missing nonce may take long, and each attempt costs reads.
        let longest = if error == GatewayError::Invalid(SkipReason::NonceTooHigh) { NONCE_MS } else { backoff_ms(attempts) };
        let wait = 1 + self.random.next_u64() % longest;
        self.waiting.insert((TimestampMs(now.0 + wait), hash));
    }

    fn drop_pending(&mut self, hash: B256, error: GatewayError) {
        if self.take(&hash).is_some() {
            self.outputs.push_back(Output::Dropped { hash, error });
        }
    }

    fn drain(&mut self, now: TimestampMs) {
        loop {
            self.drain_client(now);
            let Some(hash) = self.ready.pop() else { return };
            self.start(now, hash);
        }
    }

    fn drain_client(&mut self, now: TimestampMs) {
        while let Some(output) = self.client.poll() {
            match output {
                ClientOutput::Send { to, message } => self.outputs.push_back(Output::Send { to, message }),
                ClientOutput::Value { timestamp, key, value } => {
                    let Some(hash) = self.executing.get(&timestamp).copied() else { continue };
                    if let Some(name) = keys::code_hash(&key) {
                        // Replicas look code up by its hash.
                        self.client.leave_out(timestamp, &key);
                        let Some(code) = value.filter(|code| keccak256(code) == name) else {
                            // Replicas that the deployment did not reach yet, or liars, answered first.
                            self.executing.remove(&timestamp);
                            self.client.abandon(timestamp);
                            let text = format!("code {name} is not where its hash says");
                            self.retry(now, hash, GatewayError::Impossible(text));
                            continue;
                        };
                        self.codes.put(name, code.clone());
                        if let Some(pending) = self.pending.get_mut(&hash) {
                            pending.codes.insert(name, code);
                        }
                    } else if let Some(pending) = self.pending.get_mut(&hash) {
                        pending.values.insert(key, value);
                    }
                    self.run(now, timestamp, hash);
                }
                ClientOutput::Finished { id, decided } => {
                    let Some(hash) = self.deciding.remove(&id) else { continue };
                    self.finish(now, hash, decided);
                }
                ClientOutput::Exported { from_us, below_us, transactions } => {
                    self.outputs.push_back(Output::Exported { from_us, below_us, transactions });
                }
                ClientOutput::Late { below_us } => self.outputs.push_back(Output::Late { below_us }),
                ClientOutput::Certified { from_us, below_us, certificate } => {
                    self.outputs.push_back(Output::Certified { from_us, below_us, certificate });
                }
                ClientOutput::Recovered { decided, took_part, .. } => self.recovered(decided, took_part),
            }
        }
    }

    fn finish(&mut self, now: TimestampMs, hash: B256, decided: Shared<Decided>) {
        if decided.decision() == Decision::Abort {
            return self.retry(now, hash, GatewayError::Conflicts);
        }
        // A call of a new contract often follows.
        for write in &decided.transaction.writes {
            if let (Some(name), Some(code)) = (keys::code_hash(&write.key), &write.value) {
                self.codes.put(name, code.clone());
            }
        }
        let Some(Pending { receipt: Some(receipt), attempts, .. }) = self.take(&hash) else { return };
        let (attempts, recovered) = (Some(attempts), false);
        self.outputs.push_back(Output::Committed { hash, receipt: Box::new(receipt), decided, attempts, recovered });
    }

    /// Another gateway's proposal is decided.
    fn recovered(&mut self, decided: Shared<Decided>, took_part: bool) {
        if decided.decision() == Decision::Abort {
            return;
        }
        let hash = hash(&decided.transaction.call);
        if !self.pending.contains_key(&hash) {
            return self.outputs.extend(took_part.then_some(Output::Recovered(decided)));
        }
        let codes = Chain::codes(&decided.transaction).into_iter().map(|name| Some((name, self.codes.peek(&name)?.clone())));
        let receipt = codes.collect::<Option<_>>().map(|codes| self.chain.receipt(&decided.transaction, &codes));
        self.take(&hash);
        // The service has the state, which contains the code.
        let Some(Ok(receipt)) = receipt else { return self.outputs.push_back(Output::Recovered(decided)) };
        let (receipt, attempts) = (Box::new(receipt), None);
        self.outputs.push_back(Output::Committed { hash, receipt, decided, attempts, recovered: took_part });
    }
}
