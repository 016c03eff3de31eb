//! Records that a replica persists (A7). All records of one batch of replies are one append.

use crate::attestation::{Decision, View};
use crate::certificate::Decided;
use crate::shared::Shared;
use crate::transaction::SignedTransaction;
use borsh::{BorshDeserialize, BorshSerialize};

/// One change that must survive a crash.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Record {
    /// The transaction is prepared: readers may depend on it.
    Prepared(Shared<SignedTransaction>),
    /// The one vote. An Abort after `Prepared` removes the transaction.
    Voted { transaction: Shared<SignedTransaction>, vote: Decision },
    /// The newest logged decision with its view, and the current view.
    Logged { transaction: Shared<SignedTransaction>, decision: Decision, decision_view: View, current_view: View },
    /// The transaction is decided.
    Decided(Shared<Decided>),
    /// The watermark is closed.
    Closed { below_us: u64 },
    /// Everything below is decided, and known here.
    Complete { below_us: u64 },
    /// Only the newest version of each key below is kept, after a copy of the state.
    Pruned { below_us: u64 },
}
