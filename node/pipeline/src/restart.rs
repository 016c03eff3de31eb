//! Point where a node continues after a restart, from its stored blocks.

use crate::epoch::{ChainBase, EpochStart};
use corniche_types::{B256, Header, Height, OrderingRecord, Resume, certified, header_hash};

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

/// Point where ordering continues. If the last block of an epoch is stored and not certified, it is in that epoch: the engine
/// then runs on, so that other validators reach that block too, and everything that it delivers is dropped (E14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderingStart {
    pub epoch: EpochStart,
    pub resume: Resume,
}

impl RestartPoint {
    /// Restart after the block at `head`, with certificates up to `certified`. `resume` is the newest stored point: that of the
    /// head, or a later one. `header` returns a stored header, up to `head`; `ordering` returns the ordering record of a block from
    /// `base` on, but not of the genesis, and the point where ordering resumes after it.
    pub fn new(
        base: ChainBase,
        head: Height,
        certified: Height,
        resume: Resume,
        header: impl Fn(Height) -> Header,
        ordering: impl Fn(Height) -> (OrderingRecord, Resume),
    ) -> Self {
        let newest = header(head);
        let down = (1..=head.0).rev().map(|number| header(Height(number)));
        let same_second = down.take_while(|header| header.timestamp == newest.timestamp);
        let gas_in_second = same_second.map(|header| header.gas_used).sum();
        let hash = |number: u64| header_hash(&header(Height(number)));
        let hashes = certified::unwritten(head.0).map(hash).collect();
        let uncertified = (certified.0 + 1..=head.0).map(|number| (Height(number), hash(number))).collect();
        let (epoch, ordering) = continue_ordering(base, head, certified, resume, ordering);
        Self { head: newest, epoch, ordering, gas_in_second, hashes, uncertified }
    }
}

fn continue_ordering(
    base: ChainBase,
    head: Height,
    certified: Height,
    resume: Resume,
    stored: impl Fn(Height) -> (OrderingRecord, Resume),
) -> (EpochStart, OrderingStart) {
    let newest = (head > Height(0)).then(|| stored(head).0);
    let running = match &newest {
        None => base.epoch,
        Some(newest) => EpochStart::find(base, newest.epoch, head, |height| stored(height).0),
    };
    let Some(next) = newest.and_then(|newest| EpochStart::after(&newest)) else {
        return (running, OrderingStart { epoch: running, resume });
    };
    if certified >= head {
        return (next, OrderingStart { epoch: next, resume });
    }
    let before = head.0.checked_sub(1).filter(|before| *before > 0);
    let resume = before.map_or_else(Resume::default, |before| stored(Height(before)).1);
    (next, OrderingStart { epoch: running, resume })
}
