//! The beginning of an epoch (validators.md §3).
//!
//! The last block of an epoch names the next committee ([`OrderingRecord::next`]). Its time and its randomness are those from
//! which the next engine starts. So everything that an epoch needs follows from one record.

use corniche_engine::Committee;
use corniche_types::{B256, Epoch, Genesis, Height, OrderingRecord, StakingParameters, TimestampMs};

/// Beginning of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    pub epoch: Epoch,
    /// Hash of the epoch's committee.
    pub committee_hash: B256,
    /// Time of the last block before it; the time of the genesis for epoch 0 (E1).
    pub time: TimestampMs,
    /// Randomness of that block; zero for epoch 0.
    pub randomness: B256,
}

impl EpochStart {
    /// Beginning of epoch 0.
    pub fn genesis(genesis: &Genesis) -> Self {
        let (committee_hash, time) = (genesis.committee_hash(), genesis.timestamp_ms);
        Self { epoch: Epoch(0), committee_hash, time, randomness: B256::ZERO }
    }

    /// Beginning of the epoch after a block with this record; `None` if the block is not the last one of its epoch.
    pub fn after(record: &OrderingRecord) -> Option<Self> {
        let next = record.next.as_ref()?;
        let (epoch, committee_hash) = (record.epoch.next(), next.committee_hash);
        Some(Self { epoch, committee_hash, time: record.time, randomness: record.randomness })
    }

    /// Beginning of an epoch of a chain with blocks up to `head`. `record` returns the ordering record of a block from height 1
    /// on; the search reads a logarithmic number of them.
    ///
    /// # Panics
    ///
    /// The chain has not reached the epoch.
    pub fn find(genesis: &Genesis, epoch: Epoch, head: Height, record: impl Fn(Height) -> OrderingRecord) -> Self {
        if epoch == Epoch(0) {
            return Self::genesis(genesis);
        }
        // Blocks up to `before` are of earlier epochs, blocks from `after` on are not.
        let (mut before, mut after) = (0, head.0 + 1);
        while before + 1 < after {
            let middle = before + (after - before) / 2;
            if record(Height(middle)).epoch < epoch { before = middle } else { after = middle }
        }
        let start = (before > 0).then(|| record(Height(before))).and_then(|record| Self::after(&record));
        start.filter(|start| start.epoch == epoch).expect("invariant: an epoch begins after the last block of the one before")
    }

    /// Time from which a block is the last one of the epoch (E2); `None` if epochs never end.
    pub fn end(&self, genesis: &Genesis) -> Option<TimestampMs> {
        self.at(genesis, |parameters| parameters.epoch_ms)
    }

    /// Time from which a block decides about the next committee; `None` if epochs never end.
    pub fn freeze(&self, genesis: &Genesis) -> Option<TimestampMs> {
        self.at(genesis, |parameters| parameters.epoch_ms.saturating_sub(parameters.closing_ms))
    }

    /// Time from which validators announce themselves for the next epoch (S12); `None` if epochs never end.
    pub fn announcements(&self, genesis: &Genesis) -> Option<TimestampMs> {
        self.at(genesis, |parameters| parameters.epoch_ms.saturating_sub(parameters.closing_ms.saturating_mul(2)))
    }

    fn at(&self, genesis: &Genesis, offset_ms: impl FnOnce(&StakingParameters) -> u64) -> Option<TimestampMs> {
        let parameters = genesis.staking.as_ref().filter(|parameters| !parameters.never_ends())?;
        Some(TimestampMs(self.time.0.saturating_add(offset_ms(parameters))))
    }

    /// The epoch's committee. Its members are those of the genesis: no other committee takes over yet.
    pub fn committee(&self, genesis: &Genesis) -> Committee {
        Committee::from_genesis(genesis).in_epoch(self.epoch, self.committee_hash)
    }
}
