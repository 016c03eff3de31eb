//! Logs of one block that match a filter or subscription.

use crate::backend::{ChainBlock, Reverted};
use crate::budget::Reservation;
use crate::convert::{self, LogPosition};
use alloy_primitives::Bloom;
use alloy_rpc_types_eth::{Filter, Log};
use std::ops::Deref;

/// Approximate size of one log as JSON without its data, in bytes.
pub(crate) const LOG_JSON_BYTES: usize = 700;

/// Filter of a client that polls or subscribes, with the reservation for its addresses and topics.
pub(crate) struct LogFilter {
    filter: Filter,
    _reservation: Reservation,
}

impl LogFilter {
    pub fn new(filter: Filter, reservation: Reservation) -> Self {
        Self { filter, _reservation: reservation }
    }
}

impl Deref for LogFilter {
    type Target = Filter;

    fn deref(&self) -> &Filter {
        &self.filter
    }
}

/// Logs of reverted blocks, marked as removed, for a client that got all blocks below `reported_below`.
pub(crate) fn removed<'r>(reverted: &'r Reverted, filter: &'r Filter, reported_below: u64) -> impl Iterator<Item = Log> + 'r {
    let known = reverted.removed.iter().filter(move |block| block.height().0 < reported_below);
    known.flat_map(move |block| matching(block, filter)).map(|log| Log { removed: true, ..log })
}

/// False if no log of a block with this bloom matches.
pub(crate) fn may_match(bloom: Bloom, filter: &Filter) -> bool {
    // Most blocks of a quiet chain have no logs, and an empty filter matches every bloom.
    !bloom.is_zero() && filter.matches_bloom(bloom)
}

/// Logs of one block that match by address and topics.
pub(crate) fn matching(block: &ChainBlock, filter: &Filter) -> impl Iterator<Item = Log> {
    matching_positions(block, filter).map(|position| convert::log(block, position))
}

/// Positions of the logs of one block that match by address and topics.
pub(crate) fn matching_positions(block: &ChainBlock, filter: &Filter) -> impl Iterator<Item = LogPosition> {
    let matching = convert::log_positions(block)
        .filter(|(_, log)| filter.matches_address(log.address) && filter.matches_topics(&log.topics));
    matching.map(|(position, _)| position)
}

/// Approximate size of a log as JSON, in bytes.
pub(crate) fn json_bytes(log: &Log) -> usize {
    LOG_JSON_BYTES + 2 * log.inner.data.data.len()
}
