//! The pending blocks that need one missing block.

use crate::message::BlockRef;
use corniche_types::ValidatorIndex;
use std::collections::{BTreeMap, BTreeSet};

/// An equivocator's account may hold thousands of blocks that need the same one, so queries for accounts do not visit blocks.
#[derive(Default)]
pub(super) struct Dependents {
    blocks: BTreeSet<BlockRef>,
    /// These blocks by the account that holds them. No set is empty.
    by_account: BTreeMap<ValidatorIndex, BTreeSet<BlockRef>>,
}

impl Dependents {
    pub fn insert(&mut self, block: BlockRef, account: ValidatorIndex) {
        self.blocks.insert(block);
        self.by_account.entry(account).or_default().insert(block);
    }

    pub fn remove(&mut self, block: &BlockRef, account: ValidatorIndex) {
        self.blocks.remove(block);
        if let Some(blocks) = self.by_account.get_mut(&account) {
            blocks.remove(block);
            if blocks.is_empty() {
                self.by_account.remove(&account);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &BlockRef> {
        self.blocks.iter()
    }

    /// The accounts that hold these blocks, each once, in the order of their lowest blocks.
    pub fn accounts(&self) -> Vec<ValidatorIndex> {
        let lowest = |(account, blocks): (&ValidatorIndex, &BTreeSet<BlockRef>)| Some((*blocks.first()?, *account));
        let mut lowest: Vec<_> = self.by_account.iter().inspect(|_| count_visit()).filter_map(lowest).collect();
        lowest.sort_unstable();
        lowest.into_iter().map(|(_, account)| account).collect()
    }
}

#[cfg(test)]
thread_local! {
    /// Number of entries that queries for accounts looked at, so that tests bound their work without a clock.
    pub(super) static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

pub(super) fn count_visit() {
    #[cfg(test)]
    VISITS.set(VISITS.get() + 1);
}
