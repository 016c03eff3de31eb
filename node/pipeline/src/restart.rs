//! Point where a node continues after a restart, from its stored headers.

use corniche_types::{B256, Header, Height, certified, header_hash};

/// Values that [`Setup`](crate::Setup) and [`ExecutionStart`](crate::ExecutionStart) need and no record contains.
pub struct RestartPoint {
    /// Header of the newest stored block, or of the genesis.
    pub head: Header,
    /// See [`ExecutionStart::gas_in_second`](crate::ExecutionStart::gas_in_second).
    pub gas_in_second: u64,
    /// See [`ExecutionStart::hashes`](crate::ExecutionStart::hashes).
    pub hashes: Vec<B256>,
    /// See [`Setup::uncertified`](crate::Setup::uncertified).
    pub uncertified: Vec<(Height, B256)>,
}

impl RestartPoint {
    /// Restart after the block at `head`, with certificates up to `certified`. `header` returns a stored header, from 0
    /// to `head`.
    pub fn new(head: Height, certified: Height, header: impl Fn(Height) -> Header) -> Self {
        let newest = header(head);
        let down = (1..=head.0).rev().map(|number| header(Height(number)));
        let same_second = down.take_while(|header| header.timestamp == newest.timestamp);
        let gas_in_second = same_second.map(|header| header.gas_used).sum();
        let hash = |number: u64| header_hash(&header(Height(number)));
        let hashes = certified::unwritten(head.0).map(hash).collect();
        let uncertified = (certified.0 + 1..=head.0).map(|number| (Height(number), hash(number))).collect();
        Self { head: newest, gas_in_second, hashes, uncertified }
    }
}
