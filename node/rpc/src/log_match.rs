//! Logs of one block that match a filter or subscription.

use crate::backend::{ChainBlock, Reverted};
use crate::convert;
use alloy_rpc_types_eth::{Filter, Log};

/// Approximate size of one log as JSON without its data, in bytes.
const LOG_JSON_BYTES: usize = 700;

/// Logs of reverted blocks, marked as removed, for a client that got all blocks below `reported_below`.
pub(crate) fn removed<'r>(reverted: &'r Reverted, filter: &'r Filter, reported_below: u64) -> impl Iterator<Item = Log> + 'r {
    let known = reverted.removed.iter().filter(move |block| block.height().0 < reported_below);
    known.flat_map(move |block| matching(block, filter)).map(|log| Log { removed: true, ..log })
}

/// Logs of one block that match by address and topics.
pub(crate) fn matching(block: &ChainBlock, filter: &Filter) -> impl Iterator<Item = Log> {
    convert::logs(block)
        .filter(|log| filter.matches_address(log.inner.address) && filter.matches_topics(log.inner.data.topics()))
}

/// Approximate size of a log as JSON, in bytes.
pub(crate) fn json_bytes(log: &Log) -> usize {
    LOG_JSON_BYTES + 2 * log.inner.data.data.len()
}
