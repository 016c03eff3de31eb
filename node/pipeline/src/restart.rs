//! Point where a node continues after a restart, from its stored blocks.

use crate::epoch::EpochStart;
use corniche_types::{B256, Genesis, Header, Height, OrderingRecord, Resume, certified, header_hash};

/// Values that [`Setup`](crate::Setup) and [`ExecutionStart`](crate::ExecutionStart) need and no record contains.
pub struct RestartPoint {
    /// Header of the newest stored block, or of the genesis.
    pub head: Header,
    /// Epoch of the next block.
    pub epoch: EpochStart,
    /// See [`Setup::ordering`](crate::Setup::ordering).
    pub ordering: OrderingStart,
    /// See [`ExecutionStart::gas_in_second`](crate::ExecutionStart::gas_in_second).
    pub gas_in_second: u64,
    /// See [`ExecutionStart::hashes`](crate::ExecutionStart::hashes).
    pub hashes: Vec<B256>,
    /// See [`Setup::uncertified`](crate::Setup::uncertified).
    pub uncertified: Vec<(Height, B256)>,
}

/// Point where ordering continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderingStart {
    pub epoch: EpochStart,
    pub resume: Resume,
    /// True if the last block of the epoch is stored and not certified. The engine then runs on, so that other validators reach
    /// that block too, and everything that it delivers is dropped (E14).
    pub is_closing: bool,
}

/// Stored chain: blocks from height 1 to the head, and the header of the genesis.
pub trait StoredChain {
    fn header(&self, height: Height) -> Header;
    fn ordering(&self, height: Height) -> OrderingRecord;
    fn resume(&self, height: Height) -> Resume;
}

impl RestartPoint {
    /// Restart after the block at `head`, with certificates up to `certified`. `resume` is the newest stored point: that of the
    /// head, or a later one.
    pub fn new(genesis: &Genesis, head: Height, certified: Height, resume: Resume, stored: &impl StoredChain) -> Self {
        let newest = stored.header(head);
        let down = (1..=head.0).rev().map(|number| stored.header(Height(number)));
        let same_second = down.take_while(|header| header.timestamp == newest.timestamp);
        let gas_in_second = same_second.map(|header| header.gas_used).sum();
        let hash = |number: u64| header_hash(&stored.header(Height(number)));
        let hashes = certified::unwritten(head.0).map(hash).collect();
        let uncertified = (certified.0 + 1..=head.0).map(|number| (Height(number), hash(number))).collect();
        let (epoch, ordering) = continue_ordering(genesis, head, certified, resume, stored);
        Self { head: newest, epoch, ordering, gas_in_second, hashes, uncertified }
    }
}

fn continue_ordering(
    genesis: &Genesis,
    head: Height,
    certified: Height,
    resume: Resume,
    stored: &impl StoredChain,
) -> (EpochStart, OrderingStart) {
    let newest = (head > Height(0)).then(|| stored.ordering(head));
    let of_head = |record: &OrderingRecord| EpochStart::find(genesis, record.epoch, head, |height| stored.ordering(height));
    let running = newest.as_ref().map_or_else(|| EpochStart::genesis(genesis), of_head);
    let Some(next) = newest.as_ref().and_then(EpochStart::after) else {
        return (running, OrderingStart { epoch: running, resume, is_closing: false });
    };
    if certified >= head {
        return (next, OrderingStart { epoch: next, resume, is_closing: false });
    }
    let before = head.0.checked_sub(1).filter(|before| *before > 0);
    let resume = before.map_or_else(Resume::default, |before| stored.resume(Height(before)));
    (next, OrderingStart { epoch: running, resume, is_closing: true })
}
