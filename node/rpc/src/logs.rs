//! Log queries within limits, on the blocks of the chain.

use crate::backend::ChainBlock;
use crate::log_match::{LogFilter, json_bytes, matching, may_match};
use crate::node::Node;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_rpc_types_eth::{Filter, FilterBlockOption, Log};
use corniche_api::{Reason, RpcError};
use corniche_origin::Origin;
use corniche_types::Height;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

/// Number of blocks between two checks of the deadline.
const DEADLINE_CHECK_INTERVAL: u64 = 64;

/// Checks a filter's number of addresses and topics, because each is compared with every log.
///
/// # Errors
///
/// [`Reason::TooManyAddresses`] or [`Reason::TooManyTopics`].
fn check(node: &Node, filter: &Filter) -> Result<(), RpcError> {
    let limit = node.config.max_log_criteria;
    if filter.address.len() > limit {
        return Err(Reason::TooManyAddresses.with(limit));
    }
    if filter.topics.iter().any(|alternatives| alternatives.len() > limit) {
        return Err(Reason::TooManyTopics.with(limit));
    }
    Ok(())
}

/// Checks a filter that the server keeps, and reserves its addresses and topics.
///
/// # Errors
///
/// Those of [`check`], and [`Reason::TooManyLogCriteria`].
pub(crate) fn keep(node: &Node, client: Origin, filter: Filter) -> Result<Arc<LogFilter>, RpcError> {
    check(node, &filter)?;
    let criteria = filter.address.len() + filter.topics.iter().map(|alternatives| alternatives.len()).sum::<usize>();
    let reservation = node.log_criteria.reserve(client, criteria)?;
    Ok(Arc::new(LogFilter::new(filter, reservation)))
}

/// `eth_getLogs`.
pub(crate) fn search(node: &Node, filter: &Filter) -> Result<Vec<Log>, RpcError> {
    check(node, filter)?;
    let mut collector = LogCollector::new(node);
    let heights = heights(node, filter)?;
    let deadline = Instant::now() + node.config.max_log_time;
    for height in heights.clone() {
        if height % DEADLINE_CHECK_INTERVAL == 0 && height > *heights.start() && Instant::now() >= deadline {
            let searched = format!("blocks {:#x} to {:#x} searched", heights.start(), height - 1);
            return Err(Reason::QueryTooLong.with(format!("{:?}, {searched}; ask for fewer blocks", node.config.max_log_time)));
        }
        if let Some(block) = candidate(node, filter, Height(height))? {
            collector.add(matching(&block, filter))?;
        }
    }
    Ok(collector.logs)
}

/// Refuses a filter that begins with a block that this node does not have, before it is kept. A filter without a number begins at the
/// head.
///
/// # Errors
///
/// [`Reason::BlockNotAvailable`].
pub(crate) fn ensure_begin_kept(node: &Node, filter: &Filter) -> Result<(), RpcError> {
    let from = match filter.block_option.get_from_block() {
        Some(BlockNumberOrTag::Number(number)) => *number,
        Some(BlockNumberOrTag::Earliest) => 0,
        _ => return Ok(()),
    };
    let to = filter.block_option.get_to_block().and_then(BlockNumberOrTag::as_number);
    node.ensure_range_kept(from..=to.unwrap_or(u64::MAX))
}

/// Heights covered by a filter, clipped to existing blocks. Refuses ranges above the limit, and ranges with a block that this node
/// does not have: it cannot know their logs.
fn heights(node: &Node, filter: &Filter) -> Result<RangeInclusive<u64>, RpcError> {
    let (from, to) = match filter.block_option {
        FilterBlockOption::AtBlockHash(hash) => {
            let height = node.backend.height_of(&hash).ok_or_else(|| Reason::UnknownBlock.error())?;
            node.ensure_kept(height)?;
            return Ok(height.0..=height.0);
        }
        FilterBlockOption::Range { from_block, to_block } => (from_block.unwrap_or_default(), to_block.unwrap_or_default()),
    };
    let head = node.backend.head().0;
    // Numbers above the head are valid here; tags always resolve.
    let number = |block: BlockNumberOrTag| match block.as_number() {
        Some(number) => number,
        None => node.height(BlockId::Number(block)).map_or(head, |height| height.0),
    };
    let (from, to) = (number(from), number(to));
    if from > to {
        return Err(Reason::InvalidBlockRange.error());
    }
    let to = to.min(head);
    node.ensure_range_kept(from..=to)?;
    check_span(node, from, to)?;
    Ok(from..=to)
}

/// Refuses a range that spans too much time; the error contains the largest range from the same block.
fn check_span(node: &Node, from: u64, to: u64) -> Result<(), RpcError> {
    let time = |height| node.backend.timestamp(Height(height));
    let (Some(begin), Some(end)) = (time(from), time(to)) else { return Ok(()) };
    let limit = node.config.max_log_span.as_secs();
    if end.saturating_sub(begin) <= limit {
        return Ok(());
    }
    let (mut within, mut beyond) = (from, to);
    while beyond - within > 1 {
        let middle = within + (beyond - within) / 2;
        if time(middle).is_some_and(|middle| middle.saturating_sub(begin) <= limit) {
            within = middle;
        } else {
            beyond = middle;
        }
    }
    let range = format!("[{from:#x}, {within:#x}]");
    Err(Reason::BlockRangeTooLarge
        .with(format!("{limit} seconds from the first block to the last; this block range should work: {range}")))
}

/// Logs for a filter or subscription.
pub(crate) struct LogBatch {
    pub logs: Vec<Log>,
    /// Height at which the next query starts.
    pub next: u64,
}

/// Finds logs of the blocks `from..=to` for a filter or subscription. Stops early, after a whole block, at
/// the limits of count, size or time. Logs of one block that alone exceed the size limit are omitted, and those of blocks that
/// this node does not have: the call stops before them, or, if it found no logs before, returns an error and the height after them.
pub(crate) fn collect_logs(node: &Node, filter: &Filter, from: u64, to: u64) -> Result<LogBatch, (RpcError, u64)> {
    let last = filter.block_option.get_to_block().and_then(BlockNumberOrTag::as_number);
    let first = filter.block_option.get_from_block().and_then(BlockNumberOrTag::as_number);
    let deadline = Instant::now() + node.config.max_log_time;
    let limit = node.config.max_response_bytes;
    let (mut logs, mut bytes) = (Vec::new(), 0);
    let mut next = from;
    while next <= to && next - from < node.config.max_log_blocks && logs.len() < node.config.max_logs {
        if next.is_multiple_of(DEADLINE_CHECK_INTERVAL) && next > from && Instant::now() >= deadline {
            break;
        }
        let in_range = first.is_none_or(|first| next >= first) && last.is_none_or(|last| next <= last);
        let block = match if in_range { candidate(node, filter, Height(next)) } else { Ok(None) } {
            Ok(block) => block,
            // Later blocks follow with the next call.
            Err(error) if logs.is_empty() => return Err((error, node.backend.first_block().0.max(next + 1))),
            Err(_) => break,
        };
        if let Some(block) = block {
            let more: usize = matching(&block, filter).map(|log| json_bytes(&log)).sum();
            if more > limit {
                let message = format!("logs of block {next:#x}, about {more} bytes of at most {limit}, are omitted");
                return if logs.is_empty() {
                    Err((Reason::ResponseTooLarge.with(message), next + 1))
                } else {
                    Ok(LogBatch { logs, next })
                };
            }
            if bytes + more > limit {
                break;
            }
            bytes += more;
            logs.extend(matching(&block, filter));
        }
        next += 1;
    }
    Ok(LogBatch { logs, next })
}

/// Returns the block if it has logs and its bloom matches the filter.
fn candidate(node: &Node, filter: &Filter, height: Height) -> Result<Option<Arc<ChainBlock>>, RpcError> {
    match node.backend.logs_bloom(height) {
        Some(bloom) if !may_match(bloom, filter) => Ok(None),
        _ => node.block_at(height),
    }
}

/// Results so far; enforces the limits on number and size.
struct LogCollector {
    logs: Vec<Log>,
    bytes: usize,
    max_logs: usize,
    max_bytes: usize,
}

impl LogCollector {
    fn new(node: &Node) -> Self {
        Self { logs: Vec::new(), bytes: 0, max_logs: node.config.max_logs, max_bytes: node.config.max_response_bytes }
    }

    fn add(&mut self, logs: impl Iterator<Item = Log>) -> Result<(), RpcError> {
        for log in logs {
            if self.logs.len() == self.max_logs {
                let phrase = Reason::TooManyResults.phrase();
                let message = format!("{phrase} {} results", self.max_logs);
                return Err(RpcError::new(Reason::TooManyResults.code(), message));
            }
            self.bytes += json_bytes(&log);
            if self.bytes > self.max_bytes {
                return Err(Reason::ResponseTooLarge.error());
            }
            self.logs.push(log);
        }
        Ok(())
    }
}
