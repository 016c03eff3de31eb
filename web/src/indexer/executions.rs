//! Execution statistics of blocks on the followed node. A node keeps them only for its newest blocks and only in
//! memory, so this task reads only blocks near the head. Missed ones stay unknown.

use super::{IndexError, write};
use crate::{
    database::{DatabaseError, Place, Read, Rows, int, sql},
    node::{Node, NodeError, quantity},
};
use alloy_primitives::Bytes;
use corniche_api::Execution;
use corniche_client::Request;
use serde_json::json;
use sqlx::{AnyConnection, AnyPool, Connection};

/// Key in `meta`: the newest block that was requested.
pub(super) const KEY: &str = "executions";

/// Maximum number of blocks of one turn, and the distance below the head at which a node may still have statistics.
const AT_ONCE: u64 = 64;
const REACH: u64 = 1_024;

/// The sync task for execution statistics.
#[derive(Debug, Default)]
pub struct SyncTask {
    /// `false` once the node rejected the method.
    served: bool,
    requested: Option<u64>,
}

impl SyncTask {
    /// Resets the knowledge about the node, which may have been replaced.
    pub fn chain_identified(&mut self) {
        self.served = true;
    }

    /// Resets the task after a revert of the chain.
    pub fn reset(&mut self) {
        self.requested = None;
    }

    /// Processes the next blocks, up to `tip`. Returns `true` if there are more.
    pub async fn follow(&mut self, node: &Node, connection: &mut AnyConnection, tip: u64) -> Result<bool, IndexError> {
        if !self.served {
            return Ok(false);
        }
        let requested = match self.requested {
            Some(requested) => requested,
            None => write::meta(connection, KEY).await?.and_then(|known| known.parse().ok()).unwrap_or(0),
        };
        let requested = requested.max(tip.saturating_sub(REACH));
        let until = tip.min(requested + AT_ONCE);
        if until <= requested {
            return Ok(false);
        }
        let request = |number| Request { method: "corniche_getExecution", params: json!([quantity(number)]) };
        let responses = node.ask_all::<Option<Execution>>((requested + 1..=until).map(request).collect()).await;
        let responses: Result<Vec<_>, _> =
            responses.and_then(|responses| responses.into_iter().map(|response| response.map_err(NodeError::from)).collect());
        let statistics = match responses {
            Ok(statistics) => statistics,
            // Statistics are optional, so no other task waits for them. They are requested again with the next block.
            Err(error) => {
                tracing::debug!(%error, "no execution statistics from the node");
                self.served = !error.is_refusal();
                return Ok(false);
            }
        };
        let text = "SELECT number, transactions FROM blocks WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3";
        let blocks = sql(text).bind(int(requested)).bind(int(until)).bind(int(AT_ONCE)).fetch_all(&mut *connection).await;
        let mut rows = rows();
        for (block, statistics) in blocks.map_err(DatabaseError::from)?.iter().zip(statistics) {
            push(&mut rows, block.number("number")?, block.number("transactions")?, statistics);
        }
        let mut transaction = connection.begin().await.map_err(DatabaseError::from)?;
        rows.write(&mut transaction).await?;
        write::set_meta(&mut transaction, KEY, until.to_string()).await?;
        transaction.commit().await.map_err(DatabaseError::from)?;
        self.requested = Some(until);
        Ok(until < tip)
    }
}

/// Returns an empty list of rows, for [`push`].
pub fn rows() -> Rows {
    let columns =
        &["block", "threads", "runs", "runs_again", "waits", "adopted", "duration_us", "lane_of", "runs_of", "received_of"];
    Rows::or("executions", columns, "(block) DO NOTHING")
}

/// Adds the statistics of a block, unless they belong to another one.
pub fn push(rows: &mut Rows, block: u64, transactions: u64, statistics: Option<Execution>) {
    // The sizes must match, otherwise the statistics belong to another block.
    let fits = |statistics: &Execution| {
        let received = statistics.received_of.len() as u64;
        [&statistics.lane_of, &statistics.runs_of].iter().all(|each| each.len() as u64 == transactions)
            && [0, 8 * transactions].contains(&received)
    };
    let Some(statistics) = statistics.filter(fits) else { return };
    rows.push([
        block.into(),
        statistics.threads.into(),
        statistics.runs.into(),
        statistics.runs_again.into(),
        statistics.waits.into(),
        statistics.adopted.into(),
        statistics.duration_us.into(),
        statistics.lane_of.into(),
        statistics.runs_of.into(),
        statistics.received_of.into(),
    ]);
}

/// Returns the statistics of a block, if the node reported them in time. Without the transactions' times of receipt;
/// see [`received_ms`].
pub async fn of_block(readers: &AnyPool, block: u64) -> Result<Option<Execution>, DatabaseError> {
    let text =
        "SELECT threads, runs, runs_again, waits, adopted, duration_us, lane_of, runs_of FROM executions WHERE block = $1";
    let row = sql(text).bind(int(block)).fetch_optional(readers).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Execution {
        threads: row.number("threads")?,
        runs: row.number("runs")?,
        runs_again: row.number("runs_again")?,
        waits: row.number("waits")?,
        adopted: row.number("adopted")?,
        duration_us: row.number("duration_us")?,
        lane_of: row.bytes("lane_of")?.into(),
        runs_of: row.bytes("runs_of")?.into(),
        received_of: Bytes::new(),
    }))
}

/// Returns when the node received a transaction, on its own clock, if it reported that in time.
pub async fn received_ms(readers: &AnyPool, at: Place) -> Result<Option<u64>, DatabaseError> {
    let text = "SELECT SUBSTR(received_of, CAST($1 AS INTEGER), 8) AS received FROM executions WHERE block = $2";
    let query = sql(text).bind(int(8 * at.position() + 1)).bind(int(at.block()));
    let Some(row) = query.fetch_optional(readers).await? else { return Ok(None) };
    let ms: [u8; 8] = row.beginning("received")?.try_into().unwrap_or_default();
    Ok(Some(u64::from_be_bytes(ms)).filter(|ms| *ms > 0))
}
