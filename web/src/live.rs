//! Events that the browser receives while a page is open.

use alloy_primitives::B256;
use serde::Serialize;
use tokio::sync::broadcast;

/// Maximum number of ticks that a slow receiver may lag behind. Beyond that it misses ticks and receives a lag error.
const MAX_BEHIND: usize = 256;

/// An event that changes what pages show. The browser receives it as JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Tick {
    /// A block was written.
    Block {
        /// Block number.
        number: u64,
        /// Block hash.
        hash: B256,
        /// Block time in Unix milliseconds.
        time_ms: u64,
        /// Number of executed transactions.
        transactions: u64,
        /// Gas used by all transactions.
        gas_used: u64,
        /// Index of the leader in the committee.
        leader: Option<u64>,
    },
    /// All blocks up to this one are certified.
    Certified {
        /// The newest certified block.
        number: u64,
    },
    /// Rounds of the DAG were added or decided.
    Dag {
        /// The newest round.
        round: u64,
    },
    /// A development chain was reverted.
    Reverted,
}

/// Broadcasts ticks from the indexer to open pages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Live(broadcast::Sender<Tick>);

impl Default for Live {
    fn default() -> Self {
        Self(broadcast::channel(MAX_BEHIND).0)
    }
}

impl Live {
    /// Sends a tick to all receivers. Having no receiver is not an error.
    pub fn send(&self, tick: Tick) {
        let _ = self.0.send(tick);
    }

    /// Subscribes to future ticks.
    pub fn listen(&self) -> broadcast::Receiver<Tick> {
        self.0.subscribe()
    }
}
