//! What running blocks took on the node that is followed. A node keeps that of its newest blocks only, and only while it runs, so this lane
//! looks at the head alone; what it missed stays unknown.

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

/// Where it stands in `meta`: the newest block that was asked for.
const KEY: &str = "executions";

/// Blocks asked for in one turn, and how far below the newest one a node may know anything.
const AT_ONCE: u64 = 64;
const REACH: u64 = 1_024;

/// The lane.
#[derive(Debug, Default)]
pub struct Lane {
    /// Whether the node has the method, as far as is known.
    served: bool,
    asked: Option<u64>,
}

impl Lane {
    /// It may be another node than before.
    pub fn introduced(&mut self) {
        self.served = true;
    }

    /// The chain begins again.
    pub fn forget(&mut self) {
        self.asked = None;
    }

    /// Asks for the next blocks, up to `tip`. Answers whether there are more.
    pub async fn follow(&mut self, node: &Node, connection: &mut AnyConnection, tip: u64) -> Result<bool, IndexError> {
        if !self.served {
            return Ok(false);
        }
        let asked = match self.asked {
            Some(asked) => asked,
            None => write::remembered(connection, KEY).await?.and_then(|known| known.parse().ok()).unwrap_or(0),
        };
        let asked = asked.max(tip.saturating_sub(REACH));
        let until = tip.min(asked + AT_ONCE);
        if until <= asked {
            return Ok(false);
        }
        let request = |number| Request { method: "corniche_getExecution", params: json!([quantity(number)]) };
        let answers = node.ask_all::<Option<Execution>>((asked + 1..=until).map(request).collect()).await;
        let answers: Result<Vec<_>, _> =
            answers.and_then(|answers| answers.into_iter().map(|answer| answer.map_err(NodeError::from)).collect());
        let told = match answers {
            Ok(told) => told,
            // Nothing else waits for what is only told in passing: it is asked for again at the next block, or not at all.
            Err(error) => {
                tracing::debug!(%error, "the node does not say what blocks took");
                self.served = !error.is_refusal();
                return Ok(false);
            }
        };
        let text = "SELECT number, transactions FROM blocks WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3";
        let blocks = sql(text).bind(int(asked)).bind(int(until)).bind(int(AT_ONCE)).fetch_all(&mut *connection).await;
        let mut rows = rows();
        for (block, told) in blocks.map_err(DatabaseError::from)?.iter().zip(told) {
            push(&mut rows, block.number("number")?, block.number("transactions")?, told);
        }
        let mut transaction = connection.begin().await.map_err(DatabaseError::from)?;
        rows.write(&mut transaction).await?;
        write::remember(&mut transaction, KEY, until.to_string()).await?;
        transaction.commit().await.map_err(DatabaseError::from)?;
        self.asked = Some(until);
        Ok(until < tip)
    }
}

/// Rows of what running blocks took, for [`push`].
pub fn rows() -> Rows {
    let columns =
        &["block", "threads", "runs", "runs_again", "waits", "adopted", "duration_us", "lane_of", "runs_of", "received_of"];
    Rows::or("executions", columns, "(block) DO NOTHING")
}

/// One more, unless it is of another block.
pub fn push(rows: &mut Rows, block: u64, transactions: u64, told: Option<Execution>) {
    // Of another block than this one, or of none.
    let fits = |told: &Execution| {
        let received = told.received_of.len() as u64;
        [&told.lane_of, &told.runs_of].iter().all(|each| each.len() as u64 == transactions)
            && [0, 8 * transactions].contains(&received)
    };
    let Some(told) = told.filter(fits) else { return };
    rows.push([
        block.into(),
        told.threads.into(),
        told.runs.into(),
        told.runs_again.into(),
        told.waits.into(),
        told.adopted.into(),
        told.duration_us.into(),
        told.lane_of.into(),
        told.runs_of.into(),
        told.received_of.into(),
    ]);
}

/// What running a block took, if the node said so in time. When its transactions came is left out: [`received_ms`] tells it of one.
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

/// When a transaction came to the node, by that node's clock, if the node said so in time.
pub async fn received_ms(readers: &AnyPool, at: Place) -> Result<Option<u64>, DatabaseError> {
    let text = "SELECT SUBSTR(received_of, CAST($1 AS INTEGER), 8) AS received FROM executions WHERE block = $2";
    let query = sql(text).bind(int(8 * at.position() + 1)).bind(int(at.block()));
    let Some(row) = query.fetch_optional(readers).await? else { return Ok(None) };
    let ms: [u8; 8] = row.beginning("received")?.try_into().unwrap_or_default();
    Ok(Some(u64::from_be_bytes(ms)).filter(|ms| *ms > 0))
}
