//! State changes of a transaction or a block, and a committed block with all its results.

use crate::Account;
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{Address, B256, Block, Bytes, Receipt, Resume};
use std::collections::BTreeMap;

/// New values by key. Applying them is idempotent.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Changes {
    /// `None`: the account was deleted.
    pub accounts: BTreeMap<Address, Option<Account>>,
    /// Zero: the slot was cleared.
    pub storage: BTreeMap<(Address, B256), B256>,
    /// New code by its hash. Code is never removed.
    pub code: BTreeMap<B256, Bytes>,
}

impl Changes {
    /// Merges later changes; later values win.
    pub fn merge(&mut self, later: Self) {
        self.accounts.extend(later.accounts);
        self.storage.extend(later.storage);
        self.code.extend(later.code);
    }
}

/// A block with all its results, which the store appends atomically.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CommittedBlock {
    pub block: Block,
    /// One receipt per executed transaction, in order.
    pub receipts: Vec<Receipt>,
    pub changes: Changes,
    /// Position at which ordering resumes after this block: the last commit that it includes completely.
    pub resume: Resume,
}
