//! Block with its results; block with the positions of its record.

use crate::log::Position;
use corniche_state::CommittedBlock;
use corniche_types::{B256, Block, Header, Height, Receipt};
use std::sync::Arc;

/// Block with its results and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    pub committed: Arc<CommittedBlock>,
    pub hash: B256,
}

impl StoredBlock {
    pub(crate) fn new(committed: Arc<CommittedBlock>) -> Self {
        Self { hash: committed.block.hash(), committed }
    }

    pub fn block(&self) -> &Block {
        &self.committed.block
    }

    pub fn header(&self) -> &Header {
        &self.committed.block.header
    }

    pub fn height(&self) -> Height {
        self.committed.block.height()
    }

    pub fn receipts(&self) -> &[Receipt] {
        &self.committed.receipts
    }
}

/// Block in the window, and the position of its record.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    pub block: Arc<StoredBlock>,
    pub at: Position,
    /// Position after its record.
    pub after: Position,
}

impl Recent {
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.after.offset - self.at.offset).unwrap_or(usize::MAX)
    }
}
