//! A transaction that entered the pool, for subscribers of all connections.

use crate::backend::Backend;
use crate::convert;
use crate::txpool;
use corniche_crypto::VerifiedTransaction;
use corniche_types::B256;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::{Arc, OnceLock};

/// Maximum size of JSON that connections share. It stays in memory until the slowest connection has taken the event, and
/// connections may be `max_pending_behind` events behind.
const MAX_SHARED_BYTES: usize = 4 << 10;

/// One event, shared by all connections.
#[derive(Debug)]
pub(crate) struct PendingTransaction {
    pub hash: B256,
    shared: OnceLock<Shared>,
}

/// A full transaction for notifications.
#[derive(Clone, Debug)]
pub(super) struct RenderedTransaction {
    pub json: Arc<RawValue>,
    /// Approximate size of the JSON.
    pub bytes: usize,
}

#[derive(Debug)]
enum Shared {
    Rendered(RenderedTransaction),
    /// The transaction has left the pool.
    Gone,
    /// Each connection renders it, and sends it with a reservation.
    TooLarge,
}

impl PendingTransaction {
    pub fn new(hash: B256) -> Self {
        Self { hash, shared: OnceLock::new() }
    }

    /// Renders the transaction for the first connection that needs it, and returns the same text to the others. `None` if it
    /// has left the pool.
    pub(super) fn rendered(&self, backend: &dyn Backend) -> Option<RenderedTransaction> {
        let render_small = || match backend.pool_transaction(&self.hash) {
            None => Shared::Gone,
            Some(waiting) if txpool::json_bytes(&waiting) > MAX_SHARED_BYTES => Shared::TooLarge,
            Some(waiting) => Shared::Rendered(render(&waiting)),
        };
        match self.shared.get_or_init(render_small) {
            Shared::Rendered(rendered) => Some(rendered.clone()),
            Shared::Gone => None,
            Shared::TooLarge => backend.pool_transaction(&self.hash).map(|waiting| render(&waiting)),
        }
    }
}

fn render(waiting: &VerifiedTransaction) -> RenderedTransaction {
    let transaction = convert::pending_transaction(waiting.transaction(), waiting.sender());
    let json = to_raw_value(&transaction).expect("transactions have string keys only");
    RenderedTransaction { json: json.into(), bytes: txpool::json_bytes(waiting) }
}
