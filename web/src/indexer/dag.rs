//! Rounds of the ordering as the node tells them. They change until all that is in them is decided, so the newest ones are asked for again
//! and again; what changed is written.

use super::{IndexError, now_ms};
use crate::{
    database::{DatabaseError, Rows, int, sql},
    live::{Live, Tick},
    node::Node,
};
use alloy_primitives::{B256, keccak256};
use corniche_api::{Dag, DagRange, DagVertex, LeaderSlot};
use serde::{Deserialize, Serialize};
use sqlx::{AnyConnection, Connection};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Between two looks; after a refusal (a full node has no DAG) it is longer.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_WITHOUT: Duration = Duration::from_secs(60);

/// Rounds asked for at once.
const AT_ONCE: u64 = 64;

/// A round, or under Autobahn the cars and the slot of that number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Proposals, by author.
    pub vertices: Vec<DagVertex>,
    /// Leader slots, by rank.
    pub slots: Vec<LeaderSlot>,
}

/// The lane.
#[derive(Debug)]
pub struct Lane {
    keep: u64,
    next_look: Option<Instant>,
    /// Hashes of the newest rounds as they were written.
    written: BTreeMap<u64, B256>,
}

impl Lane {
    /// Keeps so many rounds; none: nothing is asked.
    pub fn new(keep: u64) -> Self {
        Self { keep, next_look: None, written: BTreeMap::new() }
    }

    /// The chain begins again.
    pub fn forget(&mut self) {
        self.written.clear();
    }

    /// Looks, if it is time.
    pub async fn follow(&mut self, node: &Node, connection: &mut AnyConnection, live: &Live) -> Result<(), IndexError> {
        if self.keep == 0 || self.next_look.is_some_and(|next| Instant::now() < next) {
            return Ok(());
        }
        self.next_look = Some(Instant::now() + PAUSE);
        // From the first round that may still change.
        let range = match self.written.first_key_value() {
            Some((from, _)) => DagRange::Rounds { from: *from, to: from + AT_ONCE - 1 },
            None => DagRange::Latest { count: AT_ONCE },
        };
        let dag = match node.dag(range).await {
            Ok(dag) => dag,
            Err(error) if error.is_refusal() => {
                self.written.clear();
                self.next_look = Some(Instant::now() + PAUSE_WITHOUT);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let newest = dag.newest_round;
        if newest > dag.to_round {
            // There is more at once.
            self.next_look = None;
        }
        let changed = self.changed(by_round(&dag));
        self.settle(newest);
        if changed.is_empty() {
            return Ok(());
        }
        self.write(connection, changed, newest).await?;
        live.send(Tick::Dag { round: newest });
        Ok(())
    }

    /// Rounds that are not as they were written.
    fn changed(&mut self, rounds: BTreeMap<u64, Round>) -> Vec<(u64, String)> {
        let mut changed = Vec::new();
        for (number, round) in rounds {
            let content = serde_json::to_string(&round).unwrap_or_default();
            let hash = keccak256(&content);
            if self.written.insert(number, hash) != Some(hash) {
                changed.push((number, content));
            }
        }
        changed
    }

    /// Lets go of rounds that are far behind the newest one: whatever is still undecided there is asked for no more.
    fn settle(&mut self, newest: u64) {
        let first = newest.saturating_sub(AT_ONCE / 2).min(self.written.last_key_value().map_or(0, |(last, _)| *last));
        self.written = self.written.split_off(&first);
    }

    async fn write(
        &self,
        connection: &mut AnyConnection,
        changed: Vec<(u64, String)>,
        newest: u64,
    ) -> Result<(), DatabaseError> {
        let mut transaction = connection.begin().await?;
        let mut rows =
            Rows::or("dag_rounds", &["round", "seen_ms", "content"], "(round) DO UPDATE SET content = excluded.content");
        let seen_ms = now_ms();
        for (number, content) in changed {
            rows.push([number.into(), seen_ms.into(), content.into()]);
        }
        rows.write(&mut transaction).await?;
        let old = sql("DELETE FROM dag_rounds WHERE round < $1").bind(int(newest.saturating_sub(self.keep)));
        old.execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(())
    }
}

fn by_round(dag: &Dag) -> BTreeMap<u64, Round> {
    let mut rounds: BTreeMap<u64, Round> = BTreeMap::new();
    for vertex in &dag.vertices {
        rounds.entry(vertex.round).or_default().vertices.push(vertex.clone());
    }
    for slot in &dag.slots {
        rounds.entry(slot.round).or_default().slots.push(slot.clone());
    }
    rounds
}
