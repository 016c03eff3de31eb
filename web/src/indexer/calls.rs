//! Inner calls, from traces. The node has to re-execute blocks, so this task has its own pace: a few blocks
//! concurrently in each turn, and only blocks with contract calls. Blocks whose state the node has pruned are skipped.

use super::{IndexError, digest::role, progress::Progress, write};
use crate::{
    database::{DatabaseError, Place, Read, Rows, sql},
    node::{Node, NodeError, TracedTransaction},
};
use alloy_primitives::Address;
use corniche_api::Reason;
use futures::{StreamExt, stream};
use sqlx::{AnyConnection, Connection};
use std::{collections::BTreeSet, time::Instant};

/// Key in `meta`: the newest block that was processed.
pub(super) const KEY: &str = "traced";

/// Maximum number of blocks that one turn searches for calls.
const BLOCKS_AT_ONCE: u64 = 1_000;

/// Maximum number of concurrent trace requests in one turn. The trace of one block may be as large as the node's response limit.
const TRACES_AT_ONCE: usize = 4;

/// Maximum number of attempts to trace a block.
const MAX_ATTEMPTS: u32 = 40;

/// Progress is not logged while the task is at most this many blocks behind.
const NEAR: u64 = 32;

/// Maximum number of calls of a block that are kept.
const MAX_CALLS: usize = 50_000;

/// Maximum number of characters of an error message, and maximum number of bytes of its return data.
const MAX_ERROR: usize = 256;
const MAX_OUTPUT: usize = 1_024;

/// The sync task for inner calls.
#[derive(Debug)]
pub struct SyncTask {
    wanted: bool,
    /// `true` if the node serves traces.
    pub served: bool,
    traced: Option<u64>,
    /// Progress log, once the task started to catch up.
    progress: Option<Progress>,
    /// Number of the block that failed last, and its number of failures.
    failed: (u64, u32),
}

impl SyncTask {
    /// Does nothing unless `wanted`.
    pub fn new(wanted: bool) -> Self {
        Self { wanted, served: false, traced: None, progress: None, failed: (0, 0) }
    }

    /// Resets the task after a revert of the chain.
    pub fn reset(&mut self) {
        (self.traced, self.failed) = (None, (0, 0));
    }

    /// Returns the newest processed block; `None` if calls are not indexed.
    pub async fn reached(&mut self, connection: &mut AnyConnection) -> Result<Option<u64>, DatabaseError> {
        if !self.wanted || !self.served {
            return Ok(None);
        }
        if self.traced.is_none() {
            let known = write::meta(connection, KEY).await?;
            self.traced = Some(known.and_then(|known| known.parse().ok()).unwrap_or(0));
        }
        Ok(self.traced)
    }

    /// Processes the next blocks with calls, up to `tip`. Returns `true` if there may be more.
    pub async fn follow(&mut self, node: &Node, connection: &mut AnyConnection, tip: u64) -> Result<bool, IndexError> {
        let Some(traced) = self.reached(connection).await? else { return Ok(false) };
        let until = tip.min(traced + BLOCKS_AT_ONCE);
        // After a failed block, the blocks behind it are not requested repeatedly.
        let most = if self.failed.0 > traced { 1 } else { TRACES_AT_ONCE };
        let blocks = blocks_with_calls(connection, traced, until, most).await?;
        let are_all = blocks.len() < most;
        let ask = |number| {
            let node = node.clone();
            async move { (number, node.trace_block(number).await) }
        };
        let requests: Vec<_> = blocks.into_iter().map(ask).collect();
        // In block order, so that no call is missing before the block that the task has reached.
        let mut responses = stream::iter(requests).buffered(TRACES_AT_ONCE);
        let mut reached = traced;
        while let Some((number, response)) = responses.next().await {
            if !self.take(node, connection, number, response).await? {
                return Ok(false);
            }
            write::set_meta(connection, KEY, number.to_string()).await?;
            self.reach(number, tip);
            reached = number;
        }
        if are_all {
            if until > reached {
                write::set_meta(connection, KEY, until.to_string()).await?;
            }
            // A node that syncs may have fewer blocks than were searched.
            reached = until.max(reached);
            self.reach(reached, tip);
        }
        Ok(reached < tip)
    }

    /// Writes the calls of a block, or skips a block that cannot be traced. Returns `false` if the block has to be
    /// retried.
    async fn take(
        &mut self,
        node: &Node,
        connection: &mut AnyConnection,
        number: u64,
        response: Result<Vec<TracedTransaction>, NodeError>,
    ) -> Result<bool, IndexError> {
        match response {
            Ok(traced) => write_block(connection, number, traced).await?,
            // The node had the block when it was indexed, and deleted it since.
            Err(error) if error.has_reason(Reason::BlockNotAvailable) => {
                tracing::debug!(number, %error, "no trace of this block");
            }
            // The block must still exist: a wiped node will have it later.
            Err(error) if error.is_final() && node.block_hash(number).await?.is_some() => {
                tracing::debug!(number, %error, "no trace of this block");
            }
            // The other tasks continue, and this one retries a limited number of times.
            Err(error) if !self.failed_too_often(number) => {
                tracing::debug!(number, %error, "cannot trace the block; retrying");
                return Ok(false);
            }
            Err(error) => tracing::warn!(number, %error, "cannot trace the block; skipping it"),
        }
        Ok(true)
    }

    /// Advances to this block. Logs progress from time to time while far behind.
    fn reach(&mut self, number: u64, tip: u64) {
        self.traced = Some(number);
        let (is_near, now) = (tip.saturating_sub(number) <= NEAR, Instant::now());
        let progress = self.progress.get_or_insert_with(|| Progress::begin(number, now));
        if let Some(per_second) = progress.advance(number, is_near, now) {
            tracing::info!("traced {number} of {tip} blocks, {per_second:.0} blocks per second");
        }
    }

    /// Counts a failure of a block. Returns `true` after [`MAX_ATTEMPTS`] failures.
    fn failed_too_often(&mut self, number: u64) -> bool {
        let before = if self.failed.0 == number { self.failed.1 } else { 0 };
        self.failed = (number, before + 1);
        self.failed.1 >= MAX_ATTEMPTS
    }
}

/// Returns the first blocks with contract calls after `traced` and up to `until`, at most `most`.
async fn blocks_with_calls(
    connection: &mut AnyConnection,
    traced: u64,
    until: u64,
    most: usize,
) -> Result<Vec<u64>, DatabaseError> {
    let text = "SELECT place FROM transactions WHERE place >= $1 AND place < $2 AND gas_used > 21000 ORDER BY place LIMIT 1";
    let (mut blocks, mut last) = (Vec::new(), traced);
    while blocks.len() < most {
        let query = sql(text).bind(Place::first(last + 1).0).bind(Place::first(until + 1).0);
        let Some(next) = query.fetch_optional(&mut *connection).await? else { break };
        last = next.place("place")?.block();
        blocks.push(last);
    }
    Ok(blocks)
}

/// Writes the inner calls and the revert reasons of a block.
pub async fn write_block(
    connection: &mut AnyConnection,
    block: u64,
    traced: Vec<TracedTransaction>,
) -> Result<(), DatabaseError> {
    let columns =
        &["place", "transaction_place", "depth", "kind", "sender", "recipient", "value", "selector", "gas_used", "error"];
    let mut rows = Rows::or("calls", columns, "DO NOTHING");
    let mut undone = Rows::or("undone", &["place", "error", "reason", "output"], "DO NOTHING");
    let mut sides = Rows::or("call_sides", &["address", "place"], "DO NOTHING");
    let mut called: BTreeSet<(Address, Place)> = BTreeSet::new();
    for (position, outermost) in
        traced.into_iter().take(Place::ROOM).enumerate().filter_map(|(at, traced)| Some((at, traced.result?)))
    {
        let transaction = Place::new(block, position as u64);
        if let Some(error) = cut(outermost.error.as_deref()) {
            let output = outermost.output[..outermost.output.len().min(MAX_OUTPUT)].to_vec();
            undone.push([transaction.into(), error.into(), cut(outermost.revert_reason.as_deref()).into(), output.into()]);
        }
        let inside = MAX_CALLS - rows.len().min(MAX_CALLS);
        for (depth, frame) in outermost.flatten_calls(1 + inside).into_iter().skip(1) {
            let place = Place::new(block, rows.len() as u64);
            let selector = frame.input.get(..4).map(<[u8]>::to_vec);
            rows.push([
                place.into(),
                transaction.into(),
                depth.into(),
                kind(&frame.kind).to_owned().into(),
                frame.from.into(),
                frame.to.into(),
                frame.value.unwrap_or_default().into(),
                selector.into(),
                frame.gas_used.to::<u64>().into(),
                cut(frame.error.as_deref()).into(),
            ]);
            for side in BTreeSet::from_iter([Some(frame.from), frame.to].into_iter().flatten()) {
                sides.push([side.into(), place.into()]);
                called.insert((side, transaction));
            }
        }
    }
    // Emulates bitwise OR, for which the databases have no common operator.
    let conflict =
        "(address, place) DO UPDATE SET roles = activity.roles + CASE WHEN activity.roles / 16 % 2 = 0 THEN 16 ELSE 0 END";
    let mut parts = Rows::or("activity", &["address", "place", "roles"], conflict);
    for (address, place) in called {
        parts.push([address.into(), place.into(), role::CALLED.into()]);
    }
    let mut transaction = connection.begin().await?;
    rows.write(&mut transaction).await?;
    sides.write(&mut transaction).await?;
    undone.write(&mut transaction).await?;
    parts.write(&mut transaction).await?;
    transaction.commit().await?;
    Ok(())
}

fn cut(text: Option<&str>) -> Option<String> {
    text.map(|text| text.chars().take(MAX_ERROR).collect())
}

/// Returns the static name of a call type; `CALL` for unknown ones.
fn kind(word: &str) -> &'static str {
    const WORDS: [&str; 6] = ["CALL", "DELEGATECALL", "STATICCALL", "CALLCODE", "CREATE", "CREATE2"];
    WORDS.into_iter().find(|known| *known == word).unwrap_or("CALL")
}
