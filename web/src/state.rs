//! How the explorer stands: what it follows, how far it is, and why it does not go on. The indexer writes it, every page reads it.

use crate::words::failure as words;
use alloy_primitives::B256;
use corniche_api::{Heads, Validators};
use std::sync::{PoisonError, RwLock};

/// Why the indexer ended for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The database was filled from another chain.
    #[error("{}", words::another_chain(.known, .found))]
    AnotherChain {
        /// Of the database.
        known: String,
        /// Of the node.
        found: String,
    },
    /// A bug of ours ended the indexer.
    #[error("{}", words::FAULT)]
    Broken,
    /// The node has other blocks than the ones that are written, which this chain cannot have.
    #[error("{}", words::contradiction(.number))]
    Contradiction {
        /// The block.
        number: u64,
    },
}

/// See the module.
#[derive(Debug, Default)]
pub struct Standing(RwLock<Snapshot>);

/// The standing at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Ticker of the chain's currency.
    pub currency: String,
    /// The chain's id, once the node was asked.
    pub chain_id: Option<u64>,
    /// The first block's hash.
    pub genesis: Option<B256>,
    /// A chain for development, which may go back.
    pub development: bool,
    /// Who orders and signs.
    pub committee: Option<Validators>,
    /// The node's newest blocks.
    pub heads: Option<Heads>,
    /// Why the node shows no DAG, if it refused.
    pub no_dag: Option<String>,
    /// What the node's trace of its ordering let go since it started.
    pub dag_dropped: u64,
    /// The newest block that is written, and its time in Unix milliseconds.
    pub indexed: Option<(u64, u64)>,
    /// The newest block that a certificate covers which is written; the node may know of a newer one.
    pub certified: Option<u64>,
    /// The newest block whose calls were looked for; none where nobody looks for them, or the node was not asked yet whether it tells them.
    pub traced: Option<u64>,
    /// Why the last turn failed, if it did.
    pub waits: Option<String>,
    /// Why there will be no other turn.
    pub halt: Option<Halt>,
}

impl Standing {
    /// Nothing is known but what the operator said.
    pub fn new(currency: String) -> Self {
        Self(RwLock::new(Snapshot { currency, ..Snapshot::default() }))
    }

    /// As it is now.
    pub fn now(&self) -> Snapshot {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The node said who it is.
    pub fn introduced(&self, chain_id: u64, genesis: B256, development: bool, committee: Validators) {
        self.change(|now| {
            (now.chain_id, now.genesis, now.development) = (Some(chain_id), Some(genesis), development);
            now.committee = Some(committee);
        });
    }

    /// The node said how far it is.
    pub fn heads(&self, heads: &Heads) {
        self.change(|now| now.heads = Some(heads.clone()));
    }

    /// The node showed its DAG, and how much of it was let go.
    pub fn dag(&self, dropped: u64) {
        self.change(|now| (now.no_dag, now.dag_dropped) = (None, dropped));
    }

    /// The node shows no DAG.
    pub fn no_dag(&self, why: String) {
        self.change(|now| now.no_dag = Some(why));
    }

    /// A block is written.
    pub fn indexed(&self, number: u64, time_ms: u64) {
        self.change(|now| now.indexed = Some((number, time_ms)));
    }

    /// Certificates are written that cover all blocks up to this one; none are once the chain went back.
    pub fn certified(&self, number: Option<u64>) {
        self.change(|now| now.certified = number);
    }

    /// Calls inside transactions are written up to this block.
    pub fn traced(&self, number: Option<u64>) {
        self.change(|now| now.traced = number);
    }

    /// A turn went well.
    pub fn works(&self) {
        self.change(|now| now.waits = None);
    }

    /// A turn failed, and will be tried again.
    pub fn waits(&self, why: String) {
        self.change(|now| now.waits = Some(why));
    }

    /// There will be no other turn.
    pub fn halt(&self, halt: Halt) {
        self.change(|now| now.halt = Some(halt));
    }
}
