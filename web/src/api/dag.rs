//! The consensus DAG as the node reports it.

use super::{
    problem::Problem,
    request::ApiRequest,
    schema::{HasSchema, object},
};
use crate::{
    indexer::dag::Round,
    views::{
        reference::Schema,
        rounds::{MAX_ROUNDS, Window},
    },
};
use corniche_api::DagVertex;
use serde::Serialize;
use serde_json::json;

object! {
    /// Rounds of the consensus DAG; under Autobahn and NeoBFT slots.
    Dag {
        /// Name of the ordering engine.
        engine: String = "mahi-mahi",
        /// First round of the response.
        from_round: u64 = 4_101,
        /// Last round of the response.
        to_round: u64 = 4_101,
        /// Oldest round that the explorer has.
        oldest_round: u64 = 1,
        /// Newest round that the explorer has.
        newest_round: u64 = 4_180,
        /// Known rounds: `round`, with its `vertices` and `slots` as in `corniche_getDag`.
        rounds: Vec<DagRound>,
        /// Under Autobahn: vertices accepted while these slots were decided.
        cars: Vec<DagVertex> = [],
    }
}

/// A round with its number.
#[derive(Clone, Debug, Serialize)]
pub struct DagRound {
    round: u64,
    #[serde(flatten)]
    content: Round,
}

impl HasSchema for DagRound {
    fn schema() -> Schema {
        Schema::Plain { kind: "JSON", example: json!({"round": 4_101, "slots": [], "vertices": []}) }
    }
}

/// Documented in the schema of the node's RPC.
impl HasSchema for DagVertex {
    fn schema() -> Schema {
        Schema::Plain { kind: "JSON", example: json!({}) }
    }
}

/// `/api/v1/dag`
pub async fn show(request: ApiRequest) -> Result<Dag, Problem> {
    let (from, to) = (request.whole("from")?, request.whole("to")?);
    if let (Some(from), Some(to)) = (from, to)
        && (from > to || to - from >= MAX_ROUNDS)
    {
        return Err(Problem::bad(format!("from, to: expected the first and the last of at most {MAX_ROUNDS} rounds")));
    }
    let window = Window::range(&request.app, from, to).await?;
    let window = window.ok_or_else(|| Problem::missing("no rounds are known yet"))?;
    Ok(Dag {
        engine: window.engine,
        from_round: window.first,
        to_round: window.last,
        oldest_round: window.oldest,
        newest_round: window.newest,
        rounds: window.rounds.into_iter().map(|(round, content)| DagRound { round, content }).collect(),
        cars: window.cars,
    })
}
