//! Point where a node continues after a restart, from its stored blocks.

use crate::epoch::EpochStart;
use corniche_state::CommittedBlock;
use corniche_types::{B256, Genesis, Header, Height, Resume, certified, header_hash};
use std::sync::Arc;

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
    /// head, or a later one. `header` returns a stored header, from 0 to `head`, `block` a stored block, from 1 on.
    pub fn new(
        genesis: &Genesis,
        head: Height,
        certified: Height,
        resume: Resume,
        header: impl Fn(Height) -> Header,
        block: impl Fn(Height) -> Arc<CommittedBlock>,
    ) -> Self {
        let newest = header(head);
        let down = (1..=head.0).rev().map(|number| header(Height(number)));
        let same_second = down.take_while(|header| header.timestamp == newest.timestamp);
        let gas_in_second = same_second.map(|header| header.gas_used).sum();
        let hash = |number: u64| header_hash(&header(Height(number)));
        let hashes = certified::unwritten(head.0).map(hash).collect();
        let uncertified = (certified.0 + 1..=head.0).map(|number| (Height(number), hash(number))).collect();
        let (epoch, ordering) = continue_ordering(genesis, head, certified, resume, block);
        Self { head: newest, epoch, ordering, gas_in_second, hashes, uncertified }
    }
}

fn continue_ordering(
    genesis: &Genesis,
    head: Height,
    certified: Height,
    resume: Resume,
    block: impl Fn(Height) -> Arc<CommittedBlock>,
) -> (EpochStart, OrderingStart) {
    let newest = (head > Height(0)).then(|| block(head));
    let running = match &newest {
        None => EpochStart::genesis(genesis),
        Some(newest) => {
            EpochStart::find(genesis, newest.block.ordering.epoch, head, |height| block(height).block.ordering.clone())
        }
    };
    let Some(next) = newest.and_then(|newest| EpochStart::after(&newest.block.ordering)) else {
        return (running, OrderingStart { epoch: running, resume });
    };
    if certified >= head {
        return (next, OrderingStart { epoch: next, resume });
    }
    let before = head.0.checked_sub(1).filter(|before| *before > 0);
    let resume = before.map_or_else(Resume::default, |before| block(Height(before)).resume.clone());
    (next, OrderingStart { epoch: running, resume })
}
