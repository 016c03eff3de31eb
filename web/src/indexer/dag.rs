//! The consensus DAG as the node reports it: rounds, slots and cars, or the slots of a log. They change until they are
//! decided, so the newest are polled, and changes are written.
//!
//! A node keeps consensus events in a ring buffer, which may lose some, and drops old ones. So each response is merged
//! with what was written before. After downtime the explorer continues where it stopped, as far back as the node's data
//! goes.

mod form;
mod planner;
mod round;
mod schedule;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod validation;

pub use form::{AUTOBAHN, Form, MIR, NEOBFT};
pub use round::Round;
pub use validation::distinct;

use super::{
    IndexError, now_ms,
    subscription::{Notifications, Topics},
};
use crate::{
    database::{DatabaseError, Read, Rows, int, sql},
    indexer_status::IndexerStatus,
    live::{Live, Tick},
    node::{Node, NodeError},
};
use alloy_primitives::{B256, keccak256};
use corniche_api::{Dag, DagRange, DagVertex, Reason};
use planner::RangePlanner;
use schedule::NextPoll;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{AnyConnection, AnyPool, Connection};
use std::{collections::BTreeMap, time::Instant};
use validation::validated;

/// Maximum number of rows whose last reported version is cached as a hash.
const MAX_CACHED_HASHES: usize = 8_192;

/// A sequence with its own numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sequence {
    /// Rounds with all their content; under Autobahn and NeoBFT slots.
    Rounds,
    /// Cars of one validator, under Autobahn.
    Lane(u64),
}

/// The sync task for the DAG.
#[derive(Debug)]
pub struct SyncTask {
    keep: u64,
    form: Form,
    /// Size of the committee.
    validators: u64,
    next_poll: NextPoll,
    /// `None` if the node was not asked yet, or may have lost its data.
    planner: Option<RangePlanner>,
    /// Hashes of the last reported versions.
    reported_hashes: BTreeMap<(Sequence, u64), B256>,
}

impl SyncTask {
    /// Keeps `keep` rounds. With 0, it requests nothing.
    pub fn new(keep: u64) -> Self {
        Self {
            keep,
            form: Form::default(),
            validators: 0,
            next_poll: NextPoll::AtOnce,
            planner: None,
            reported_hashes: BTreeMap::new(),
        }
    }

    /// Returns the topics to subscribe to.
    pub fn topics(&self) -> Topics {
        if self.keep == 0 { Topics::Heads } else { Topics::HeadsAndDag }
    }

    /// Sets engine and committee size. The node may have been replaced, or have restarted.
    pub fn chain_identified(&mut self, engine: &str, validators: u64) {
        (self.form, self.validators) = (Form::of(engine), validators);
        self.planner = None;
        self.next_poll = NextPoll::AtOnce;
    }

    /// Resets the lane after a revert of the chain.
    pub fn reset(&mut self) {
        self.planner = None;
        self.reported_hashes.clear();
    }

    /// Polls the node if it is time.
    pub async fn follow(
        &mut self,
        node: &Node,
        connection: &mut AnyConnection,
        live: &Live,
        indexer_status: &IndexerStatus,
        notifications: &Notifications,
    ) -> Result<(), IndexError> {
        let now = Instant::now();
        if !self.next_poll.is_due(now, notifications.dag()) {
            return Ok(());
        }
        if self.keep == 0 {
            self.next_poll = NextPoll::after_refusal(now);
            indexer_status.set_dag_unavailable("the explorer is configured to keep no rounds".to_owned());
            return Ok(());
        }
        self.next_poll = NextPoll::After(now);
        notifications.dag_poll_started();
        let result = self.poll(node, connection, live, indexer_status).await;
        if let NextPoll::After(began) = self.next_poll {
            self.next_poll = NextPoll::after_poll(began, Instant::now());
        }
        match result {
            Err(IndexError::Node(error)) if error.is_refusal() || error.has_reason(Reason::TooManyResults) => {
                self.refused(&error, indexer_status);
                Ok(())
            }
            answer => answer,
        }
    }

    fn refused(&mut self, error: &NodeError, indexer_status: &IndexerStatus) {
        if error.has_reason(Reason::TooManyResults) && self.planner.as_mut().is_some_and(RangePlanner::halve_width) {
            // The committee is so large that the node allows fewer rounds for each request.
            self.next_poll = NextPoll::AtOnce;
        } else if error.has_reason(Reason::InvalidRoundRange) && self.planner.take().is_some() {
            // The node's newest round has decreased: it lost its trace.
            self.next_poll = NextPoll::AtOnce;
        } else {
            self.planner = None;
            self.next_poll = NextPoll::after_refusal(Instant::now());
            tracing::info!(%error, "no DAG data from the node");
            indexer_status.set_dag_unavailable(error.to_string());
        }
    }

    async fn poll(
        &mut self,
        node: &Node,
        connection: &mut AnyConnection,
        live: &Live,
        indexer_status: &IndexerStatus,
    ) -> Result<(), IndexError> {
        if self.planner.is_none() {
            let ends = ends(connection).await?;
            let newest = node.dag(DagRange::Latest { count: 1 }).await?.newest_round;
            self.planner = Some(RangePlanner::new(self.form, self.keep, newest, ends));
        }
        let ranges = self.planner.as_mut().map(RangePlanner::next_ranges).unwrap_or_default();
        let mut changed = false;
        for (from, to) in ranges {
            let answer = match node.dag(DagRange::Rounds { from, to }).await {
                Ok(dag) => {
                    let dag = validated(dag, (from, to), self.validators);
                    indexer_status.set_dag_dropped(dag.dropped);
                    self.take(connection, &dag).await.map_err(IndexError::from)
                }
                Err(error) => Err(error.into()),
            };
            if let (Err(_), Some(planner)) = (&answer, &mut self.planner) {
                planner.reschedule(from);
            }
            changed |= answer?;
        }
        let Some(planner) = &self.planner else { return Ok(()) };
        if planner.is_catching_up() {
            self.next_poll = NextPoll::AtOnce;
        }
        if changed {
            live.send(Tick::Dag { round: planner.end(Sequence::Rounds).unwrap_or(0) });
        }
        Ok(())
    }

    /// Writes the changes of a response. Returns `false` if nothing changed.
    async fn take(&mut self, connection: &mut AnyConnection, dag: &Dag) -> Result<bool, DatabaseError> {
        let (form, Some(planner)) = (self.form, &mut self.planner) else { return Ok(false) };
        planner.record(dag);
        let mut rounds: BTreeMap<u64, Round> = BTreeMap::new();
        let mut cars: BTreeMap<(u64, u64), Vec<DagVertex>> = BTreeMap::new();
        for vertex in &dag.vertices {
            match form {
                Form::Lanes | Form::Batches => cars.entry((vertex.author, vertex.round)).or_default().push(vertex.clone()),
                Form::Rounds | Form::Log | Form::Numbers => {
                    rounds.entry(vertex.round).or_default().vertices.push(vertex.clone())
                }
            }
        }
        for slot in &dag.slots {
            rounds.entry(slot.round).or_default().slots.push(slot.clone());
        }
        rounds.retain(|number, round| self.is_changed(Sequence::Rounds, *number, round));
        cars.retain(|(lane, position), cars| self.is_changed(Sequence::Lane(*lane), *position, cars));
        if rounds.is_empty() && cars.is_empty() {
            return Ok(false);
        }
        let written = self.write(connection, rounds, cars).await;
        if written.is_err() {
            // The node will report it again.
            self.reported_hashes.clear();
        }
        written.map(|()| true)
    }

    /// Returns `true` if this version differs from the last one, and its number is in the kept range.
    fn is_changed(&mut self, sequence: Sequence, number: u64, what: &impl Serialize) -> bool {
        let hash = keccak256(serde_json::to_vec(what).unwrap_or_default());
        if self.reported_hashes.len() >= MAX_CACHED_HASHES {
            // A version that is no longer cached is compared with the written row.
            self.reported_hashes.clear();
        }
        let first = self.planner.as_ref().map_or(0, |planner| planner.first_kept(sequence));
        self.reported_hashes.insert((sequence, number), hash) != Some(hash) && number >= first
    }

    async fn write(
        &self,
        connection: &mut AnyConnection,
        rounds: BTreeMap<u64, Round>,
        cars: BTreeMap<(u64, u64), Vec<DagVertex>>,
    ) -> Result<(), DatabaseError> {
        let Some(planner) = &self.planner else { return Ok(()) };
        let mut transaction = connection.begin().await?;
        let (seen_ms, mut merged) = (now_ms(), Vec::with_capacity(rounds.len()));
        let kept = (!rounds.is_empty()).then_some((planner.first_kept(Sequence::Rounds), planner.last_kept(Sequence::Rounds)));
        for (number, report) in rounds {
            let row = sql("SELECT content FROM dag_rounds WHERE round = $1").bind(int(number));
            let mut round: Round = known(row.fetch_optional(&mut *transaction).await?)?;
            round.absorb(report);
            merged.push((number, round));
        }
        for rows in rows(merged, seen_ms) {
            rows.write(&mut transaction).await?;
        }
        let conflict = "(lane, position) DO UPDATE SET content = excluded.content";
        let mut rows = Rows::or("dag_cars", &["lane", "position", "at_ms", "content"], conflict);
        let mut touched = BTreeMap::new();
        for ((lane, position), report) in cars {
            let row = sql("SELECT content FROM dag_cars WHERE lane = $1 AND position = $2").bind(int(lane)).bind(int(position));
            let vertices = known(row.fetch_optional(&mut *transaction).await?)?;
            let mut here = Round { vertices, slots: Vec::new() };
            here.absorb(Round { vertices: report, slots: Vec::new() });
            let at_ms = here.vertices.iter().filter_map(|car| car.accepted_ms.or(car.proposed_ms)).min().unwrap_or(seen_ms);
            rows.push([lane.into(), position.into(), at_ms.into(), json(&here.vertices).into()]);
            touched.insert(lane, (planner.first_kept(Sequence::Lane(lane)), planner.last_kept(Sequence::Lane(lane))));
        }
        rows.write(&mut transaction).await?;
        if let Some((first, last)) = kept {
            let old = sql("DELETE FROM dag_rounds WHERE round < $1").bind(int(first));
            old.execute(&mut *transaction).await?;
            let beyond = sql("DELETE FROM dag_rounds WHERE round > $1").bind(int(last));
            beyond.execute(&mut *transaction).await?;
        }
        for (lane, (first, last)) in touched {
            let old = sql("DELETE FROM dag_cars WHERE lane = $1 AND position < $2").bind(int(lane)).bind(int(first));
            old.execute(&mut *transaction).await?;
            let beyond = sql("DELETE FROM dag_cars WHERE lane = $1 AND position > $2").bind(int(lane)).bind(int(last));
            beyond.execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

fn json(what: &impl Serialize) -> String {
    serde_json::to_string(what).unwrap_or_default()
}

/// Returns the content of a row, or the default if it does not exist.
fn known<T: DeserializeOwned + Default>(row: Option<sqlx::any::AnyRow>) -> Result<T, DatabaseError> {
    row.map_or(Ok(T::default()), |row| content(&row))
}

/// Decodes a row of `dag_rounds` (a [`Round`]) or `dag_cars` (a list of vertices).
pub fn content<T: DeserializeOwned>(row: &sqlx::any::AnyRow) -> Result<T, DatabaseError> {
    let text = row.text("content")?;
    serde_json::from_str(&text).map_err(|error| DatabaseError::InvalidValue { column: "content", problem: error.to_string() })
}

/// Returns the rows of rounds and of their leaders' commits. `seen_ms` is the time of receipt in Unix milliseconds.
pub fn rows(rounds: impl IntoIterator<Item = (u64, Round)>, seen_ms: u64) -> [Rows; 2] {
    let conflict = "(round) DO UPDATE SET content = excluded.content";
    let mut kept = Rows::or("dag_rounds", &["round", "seen_ms", "content"], conflict);
    // By commit, so that a commit that is reported twice gives one row.
    let mut led = BTreeMap::new();
    for (number, round) in rounds {
        led.extend(round.slots.iter().filter_map(|slot| Some((slot.commit?, (slot.round, slot.rank)))));
        kept.push([number.into(), seen_ms.into(), json(&round).into()]);
    }
    let conflict = "(number) DO UPDATE SET round = excluded.round, rank = excluded.rank";
    let mut leaders = Rows::or("leaders", &["number", "round", "rank"], conflict);
    for (commit, (round, rank)) in led {
        leaders.push([commit, round, rank].map(Into::into));
    }
    [kept, leaders]
}

/// Leader of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Round; under Autobahn and NeoBFT the slot.
    pub round: u64,
    /// Rank among the leaders of that round, from 0.
    pub rank: u64,
    /// `true` if the round is still stored.
    pub is_kept: bool,
}

/// Returns the leader of this commit, if the node reported it.
pub async fn leader_of(readers: &AnyPool, commit: u64) -> Result<Option<Leader>, DatabaseError> {
    let text = "SELECT l.round, l.rank, d.round AS kept FROM leaders l LEFT JOIN dag_rounds d ON d.round = l.round WHERE l.number = $1";
    let row = sql(text).bind(int(commit)).fetch_optional(readers).await?;
    row.map(|row| {
        Ok(Leader { round: row.number("round")?, rank: row.number("rank")?, is_kept: row.maybe_int("kept")?.is_some() })
    })
    .transpose()
}

/// Returns the highest stored number of each sequence.
async fn ends(connection: &mut AnyConnection) -> Result<BTreeMap<Sequence, u64>, DatabaseError> {
    let mut ends = BTreeMap::new();
    let row = sql("SELECT round FROM dag_rounds ORDER BY round DESC LIMIT 1").fetch_optional(&mut *connection).await?;
    if let Some(row) = row {
        ends.insert(Sequence::Rounds, row.number("round")?);
    }
    // One index lookup for each lane.
    let (mut after, text) = (-1, "SELECT lane, position FROM dag_cars WHERE lane > $1 ORDER BY lane, position LIMIT 1");
    while let Some(row) = sql(text).bind(after).fetch_optional(&mut *connection).await? {
        after = row.int("lane")?;
        let last = "SELECT position FROM dag_cars WHERE lane = $1 ORDER BY position DESC LIMIT 1";
        let last = sql(last).bind(after).fetch_one(&mut *connection).await?.number("position")?;
        ends.insert(Sequence::Lane(row.number("lane")?), last);
    }
    Ok(ends)
}
