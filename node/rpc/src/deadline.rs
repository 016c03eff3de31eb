//! Timeouts of requests. Gas bounds the computation of one contract run. The timeout bounds everything else:
//! many runs, slow reads, long scans. It is local to this node and affects only its responses, never the
//! chain.

use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_api::{ErrorCode, Reason, RpcError};
use corniche_state::{Account, StateView};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Deadline of one request.
#[derive(Debug)]
pub(crate) struct RequestDeadline {
    expires_at: Instant,
    timeout: Duration,
    /// True once the deadline has stopped some work.
    interrupted_work: AtomicBool,
}

impl RequestDeadline {
    pub fn from_now(timeout: Duration) -> Arc<Self> {
        // A limit too large for the clock counts as none.
        let expires_at = Instant::now().checked_add(timeout).unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        Arc::new(Self { expires_at, timeout, interrupted_work: AtomicBool::new(false) })
    }

    /// Returns true after the deadline; the caller must stop, and [`Self::check`] discards the result.
    pub fn is_expired(&self) -> bool {
        let expired_now = Instant::now() >= self.expires_at;
        if expired_now {
            self.interrupted_work.store(true, Ordering::Relaxed);
        }
        expired_now
    }

    /// # Errors
    ///
    /// The deadline stopped the request. The text is geth's.
    pub fn check(&self) -> Result<(), RpcError> {
        if !self.interrupted_work.load(Ordering::Relaxed) {
            return Ok(());
        }
        let message = format!("{} (timeout = {:?})", Reason::ExecutionAborted.phrase(), self.timeout);
        Err(RpcError::new(ErrorCode::Refused, message))
    }
}

/// State view that interrupts its reader after the deadline.
pub(crate) struct DeadlineView {
    pub view: Arc<dyn StateView>,
    pub deadline: Arc<RequestDeadline>,
}

impl StateView for DeadlineView {
    fn account(&self, address: &Address) -> Option<Account> {
        self.view.account(address)
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.view.storage(address, slot)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.view.code(hash)
    }

    fn storage_within(&self, address: &Address, slot: &B256, low: &U256, high: &U256) -> bool {
        self.view.storage_within(address, slot, low, high)
    }

    fn interrupted(&self) -> bool {
        self.deadline.is_expired() || self.view.interrupted()
    }
}
