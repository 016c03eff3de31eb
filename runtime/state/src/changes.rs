//! What a transaction or a block changed, and a block together with all that it led to.

use crate::Account;
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{Address, B256, Block, Bytes, Receipt, Resume};
use std::collections::BTreeMap;

/// New values by key. Applying the same changes twice is harmless.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Changes {
    /// `None`: the account does not exist any more.
    pub accounts: BTreeMap<Address, Option<Account>>,
    /// Zero: the slot is empty again.
    pub storage: BTreeMap<(Address, B256), B256>,
    /// New code by its hash. Code is never removed.
    pub code: BTreeMap<B256, Bytes>,
}

impl Changes {
    /// Adds what came after; later values win.
    pub fn merge(&mut self, later: Self) {
        self.accounts.extend(later.accounts);
        self.storage.extend(later.storage);
        self.code.extend(later.code);
    }
}

/// A block with everything it led to: what the store appends in one piece.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CommittedBlock {
    pub block: Block,
    /// One per executed transaction, in order.
    pub receipts: Vec<Receipt>,
    pub changes: Changes,
    /// Where ordering resumes after this block: the last commit that is complete in it.
    pub resume: Resume,
}
