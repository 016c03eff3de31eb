//! Calls inside transactions. The node runs blocks again for them, so this lane follows at its own pace, a few blocks side by side in a turn,
//! and only blocks in which a contract ran. A block whose state the node holds no more is passed over.

use super::{IndexError, digest::role, progress::Progress, write};
use crate::{
    database::{DatabaseError, Place, Read, Rows, sql},
    node::{Node, NodeError, TracedTransaction},
};
use alloy_primitives::Address;
use futures::{StreamExt, stream};
use sqlx::{AnyConnection, Connection};
use std::{collections::BTreeSet, time::Instant};

/// Where it stands in `meta`: the newest block that was looked at.
const KEY: &str = "traced";

/// Blocks that one turn looks through for calls.
const BLOCKS_AT_ONCE: u64 = 1_000;

/// Blocks of one turn whose calls are asked for, all at the same time: a block's calls may be as large as an answer of the node.
const TRACES_AT_ONCE: usize = 4;

/// How often a block's calls are asked for.
const MOST_ATTEMPTS: u32 = 40;

/// Nobody is told how far this lane is while it is no farther behind the blocks.
const NEAR: u64 = 32;

/// Most calls of a block that are kept.
const MOST_CALLS: usize = 50_000;

/// Most characters of an error, and most bytes of what was answered with it.
const MOST_ERROR: usize = 256;
const MOST_OUTPUT: usize = 1_024;

/// The lane.
#[derive(Debug)]
pub struct Lane {
    wanted: bool,
    /// Whether the node serves traces.
    pub served: bool,
    traced: Option<u64>,
    /// Of catching up with the blocks, once that began.
    progress: Option<Progress>,
    /// A block that could not be had, and how often it was asked for.
    failed: (u64, u32),
}

impl Lane {
    /// Nothing is done unless `wanted`.
    pub fn new(wanted: bool) -> Self {
        Self { wanted, served: false, traced: None, progress: None, failed: (0, 0) }
    }

    /// The chain begins again.
    pub fn forget(&mut self) {
        (self.traced, self.failed) = (None, (0, 0));
    }

    /// The newest block that was looked at; none where calls are not asked for.
    pub async fn reached(&mut self, connection: &mut AnyConnection) -> Result<Option<u64>, DatabaseError> {
        if !self.wanted || !self.served {
            return Ok(None);
        }
        if self.traced.is_none() {
            let known = write::remembered(connection, KEY).await?;
            self.traced = Some(known.and_then(|known| known.parse().ok()).unwrap_or(0));
        }
        Ok(self.traced)
    }

    /// Looks at the next blocks with calls, up to `tip`. Answers whether there may be more.
    pub async fn follow(&mut self, node: &Node, connection: &mut AnyConnection, tip: u64) -> Result<bool, IndexError> {
        let Some(traced) = self.reached(connection).await? else { return Ok(false) };
        let until = tip.min(traced + BLOCKS_AT_ONCE);
        // Nobody asks again and again for what comes after a block that cannot be had.
        let most = if self.failed.0 > traced { 1 } else { TRACES_AT_ONCE };
        let blocks = with_calls(connection, traced, until, most).await?;
        let are_all = blocks.len() < most;
        let ask = |number| {
            let node = node.clone();
            async move { (number, node.trace_block(number).await) }
        };
        let requests: Vec<_> = blocks.into_iter().map(ask).collect();
        // In the order of the blocks, whichever is answered first: nothing before the block where this lane stands is missing.
        let mut answers = stream::iter(requests).buffered(TRACES_AT_ONCE);
        let mut reached = traced;
        while let Some((number, answer)) = answers.next().await {
            if !self.take(node, connection, number, answer).await? {
                return Ok(false);
            }
            write::remember(connection, KEY, number.to_string()).await?;
            self.reach(number, tip);
            reached = number;
        }
        if are_all {
            if until > reached {
                write::remember(connection, KEY, until.to_string()).await?;
            }
            // A node that catches up may have fewer blocks than were looked at.
            reached = until.max(reached);
            self.reach(reached, tip);
        }
        Ok(reached < tip)
    }

    /// Writes a block's calls, or passes it over where they cannot be had. Answers whether the lane is done with it.
    async fn take(
        &mut self,
        node: &Node,
        connection: &mut AnyConnection,
        number: u64,
        answer: Result<Vec<TracedTransaction>, NodeError>,
    ) -> Result<bool, IndexError> {
        match answer {
            Ok(traced) => write_block(connection, number, traced).await?,
            // A node that began anew meanwhile has the block later.
            Err(error) if error.is_final() && node.block_hash(number).await?.is_some() => {
                tracing::debug!(number, %error, "no calls of this block");
            }
            // The other lanes go on, and this one tries again; not for ever.
            Err(error) if !self.failed_too_often(number) => {
                tracing::debug!(number, %error, "the calls of this block are asked for again");
                return Ok(false);
            }
            Err(error) => tracing::warn!(number, %error, "the calls of this block are left out"),
        }
        Ok(true)
    }

    /// It has come to this block. A line now and then while there is far to go.
    fn reach(&mut self, number: u64, tip: u64) {
        self.traced = Some(number);
        let (is_near, now) = (tip.saturating_sub(number) <= NEAR, Instant::now());
        let progress = self.progress.get_or_insert_with(|| Progress::begin(number, now));
        if let Some(per_second) = progress.come_to(number, is_near, now) {
            tracing::info!("read the calls of {number} of {tip} blocks, {per_second:.0} a second");
        }
    }

    /// Counts a failure of a block.
    fn failed_too_often(&mut self, number: u64) -> bool {
        let before = if self.failed.0 == number { self.failed.1 } else { 0 };
        self.failed = (number, before + 1);
        self.failed.1 >= MOST_ATTEMPTS
    }
}

/// The first blocks after `traced`, up to `until`, in which a contract ran, so many at most.
async fn with_calls(connection: &mut AnyConnection, traced: u64, until: u64, most: usize) -> Result<Vec<u64>, DatabaseError> {
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

/// Writes what the transactions of a block called, and why some were undone.
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
    for (position, outermost) in traced.into_iter().enumerate().filter_map(|(at, traced)| Some((at, traced.result?))) {
        let transaction = Place::new(block, position as u64);
        if let Some(error) = cut(outermost.error.as_deref()) {
            let output = outermost.output[..outermost.output.len().min(MOST_OUTPUT)].to_vec();
            undone.push([transaction.into(), error.into(), cut(outermost.revert_reason.as_deref()).into(), output.into()]);
        }
        let inside = MOST_CALLS - rows.len().min(MOST_CALLS);
        for (depth, frame) in outermost.in_order(1 + inside).into_iter().skip(1) {
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
    // Bits, without an operator for them that both databases have.
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
    text.map(|text| text.chars().take(MOST_ERROR).collect())
}

/// One of the words there are.
fn kind(word: &str) -> &'static str {
    const WORDS: [&str; 6] = ["CALL", "DELEGATECALL", "STATICCALL", "CALLCODE", "CREATE", "CREATE2"];
    WORDS.into_iter().find(|known| *known == word).unwrap_or("CALL")
}
