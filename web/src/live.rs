//! What pages are told as it happens.

use crate::indexer::digest::Digest;
use alloy_primitives::B256;
use serde::Serialize;
use tokio::sync::broadcast;

/// Ticks that a slow reader may be behind; above that it misses some and is told so.
const MOST_BEHIND: usize = 256;

/// Something that changed what pages show. JSON of it is what the browser is sent.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Tick {
    /// A block is written.
    Block {
        /// Its number.
        number: u64,
        /// Its hash.
        hash: B256,
        /// Unix milliseconds.
        time_ms: u64,
        /// Executed.
        transactions: u64,
        /// By all of them.
        gas_used: u64,
        /// A validator by position in the committee.
        leader: Option<u64>,
    },
    /// All blocks up to this one are certified.
    Certified {
        /// The newest of them.
        number: u64,
    },
    /// Rounds of the DAG came or were decided.
    Dag {
        /// The newest.
        round: u64,
    },
    /// The chain of a developer went back.
    Reverted,
}

impl Tick {
    /// Of a block.
    pub fn of(digest: &Digest) -> Self {
        Self::Block {
            number: digest.number,
            hash: digest.hash,
            time_ms: digest.time_ms,
            transactions: digest.transactions,
            gas_used: digest.gas_used,
            leader: digest.leader,
        }
    }
}

/// Hands ticks from the indexer to whoever listens. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Live(broadcast::Sender<Tick>);

impl Default for Live {
    fn default() -> Self {
        Self(broadcast::channel(MOST_BEHIND).0)
    }
}

impl Live {
    /// Tells everybody; nobody is fine as well.
    pub fn send(&self, tick: Tick) {
        let _ = self.0.send(tick);
    }

    /// What comes from now on.
    pub fn listen(&self) -> broadcast::Receiver<Tick> {
        self.0.subscribe()
    }
}
