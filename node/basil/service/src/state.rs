//! State that a gateway's thread and its RPC server share.

use crate::live::Live;
use corniche_admission::{Event, Pool};
use corniche_rpc::ChainEvent;
use corniche_state::StateView;
use corniche_types::{Address, B256, Height};
use prometheus_client::metrics::counter::Counter;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// Number of transactions whose reason for leaving the pool is kept.
const MAX_LEFT: usize = 4_096;
/// Events that a slow subscriber may be behind.
const EVENTS: usize = 4_096;

/// Counts since the gateway started.
#[derive(Debug, Default)]
pub struct Counts {
    /// Transactions of this gateway by their way.
    pub fast: Counter,
    pub logged: Counter,
    pub reconciled: Counter,
    /// Attempts that aborted, and were repeated.
    pub retries: Counter,
    pub dropped: Counter,
    pub refused: Counter,
    /// Transactions of other gateways that this one finished.
    pub recovered: Counter,
    /// Transactions in blocks.
    pub exported: Counter,
}

/// State of a gateway.
pub struct GatewayState {
    pool: Mutex<Pool>,
    live: Mutex<Live>,
    left: Mutex<AllLeft>,
    pub events: broadcast::Sender<ChainEvent>,
    pub counts: Counts,
    certified: AtomicU64,
}

/// Why a transaction left the pool without being executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    Dropped(String),
    Replaced(B256),
}

/// The newest ones.
#[derive(Default)]
struct AllLeft {
    reasons: BTreeMap<B256, Left>,
    order: VecDeque<B256>,
}

impl GatewayState {
    pub fn new(pool: Pool, live: Live, certified: Height) -> Self {
        Self {
            pool: Mutex::new(pool),
            live: Mutex::new(live),
            left: Mutex::default(),
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

    /// Takes transactions out of the pool: they are committed, or dropped. Returns others that left meanwhile.
    pub fn leave_pool(&self, transactions: &[(B256, Address)], base_fee: u64) -> Vec<B256> {
        let state = self.state();
        let mut pool = self.pool();
        pool.on_block(&*state, base_fee, transactions, &[]);
        let events = pool.take_events();
        drop(pool);
        self.note_events(events)
    }

    /// Remembers why transactions left the pool. Returns them.
    pub fn note_events(&self, events: Vec<Event>) -> Vec<B256> {
        let note = |event: Event| {
            let hash = event.hash();
            match event {
                Event::Dropped { reason, .. } => self.note_left(hash, Left::Dropped(reason.to_string())),
                Event::Replaced { by, .. } => self.note_left(hash, Left::Replaced(by)),
            }
            hash
        };
        events.into_iter().map(note).collect()
    }

    pub fn note_dropped(&self, hash: B256, reason: String) {
        self.counts.dropped.inc();
        self.note_left(hash, Left::Dropped(reason));
    }

    fn note_left(&self, hash: B256, left: Left) {
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if all.reasons.insert(hash, left).is_none() {
            all.order.push_back(hash);
        }
        if all.order.len() > MAX_LEFT
            && let Some(oldest) = all.order.pop_front()
        {
            all.reasons.remove(&oldest);
        }
    }

    /// Why a transaction left the pool without being executed.
    pub fn left(&self, hash: &B256) -> Option<Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).reasons.get(hash).cloned()
    }

    pub fn send(&self, event: ChainEvent) {
        // An error means that nobody listens.
        let _ = self.events.send(event);
    }
}
