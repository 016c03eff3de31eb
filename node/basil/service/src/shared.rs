//! State that a gateway's thread and its RPC server share.

use crate::live::Live;
use corniche_admission::Pool;
use corniche_rpc::ChainEvent;
use corniche_state::StateView;
use corniche_types::{Address, B256, Height};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// Number of dropped transactions whose reason is kept.
const MAX_DROPPED: usize = 4_096;
/// Events that a slow subscriber may be behind.
const EVENTS: usize = 4_096;

/// Counts since the gateway started.
#[derive(Debug, Default)]
pub struct Counts {
    /// Transactions of this gateway by their way.
    pub fast: AtomicU64,
    pub logged: AtomicU64,
    pub reconciled: AtomicU64,
    /// Attempts that aborted, and were repeated.
    pub retries: AtomicU64,
    pub dropped: AtomicU64,
    pub refused: AtomicU64,
    /// Transactions of other gateways that this one finished.
    pub recovered: AtomicU64,
    /// Transactions in blocks.
    pub exported: AtomicU64,
}

impl Counts {
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// See the module.
pub struct Shared {
    pool: Mutex<Pool>,
    live: Mutex<Live>,
    dropped: Mutex<Dropped>,
    pub events: broadcast::Sender<ChainEvent>,
    pub counts: Counts,
    certified: AtomicU64,
}

#[derive(Default)]
struct Dropped {
    reasons: BTreeMap<B256, String>,
    order: VecDeque<B256>,
}

impl Shared {
    pub fn new(pool: Pool, live: Live, certified: Height) -> Self {
        Self {
            pool: Mutex::new(pool),
            live: Mutex::new(live),
            dropped: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
            counts: Counts::default(),
            certified: AtomicU64::new(certified.0),
        }
    }

    pub fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// State after everything that this gateway knows to be committed.
    pub fn state(&self) -> Arc<dyn StateView> {
        self.live().state()
    }

    pub fn certified(&self) -> Height {
        Height(self.certified.load(Ordering::Relaxed))
    }

    pub fn set_certified(&self, height: Height) {
        self.certified.store(height.0, Ordering::Relaxed);
        self.send(ChainEvent::Finalized(height));
    }

    /// Takes transactions out of the pool: they are committed, or dropped.
    pub fn leave_pool(&self, transactions: &[(B256, Address)], base_fee: u64) {
        let state = self.state();
        self.pool().on_block(&*state, base_fee, transactions, &[]);
    }

    pub fn note_dropped(&self, hash: B256, reason: String) {
        Counts::add(&self.counts.dropped, 1);
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        if dropped.reasons.insert(hash, reason).is_none() {
            dropped.order.push_back(hash);
        }
        if dropped.order.len() > MAX_DROPPED
            && let Some(oldest) = dropped.order.pop_front()
        {
            dropped.reasons.remove(&oldest);
        }
    }

    pub fn dropped(&self, hash: &B256) -> Option<String> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).reasons.get(hash).cloned()
    }

    pub fn send(&self, event: ChainEvent) {
        // An error means that nobody listens.
        let _ = self.events.send(event);
    }
}
