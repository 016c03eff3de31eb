//! `corniche_getDag` converts an engine's events to a section of the DAG; also the notifications of DAG
//! growth.

use crate::backend::DagEvents;
use crate::node::Node;
use corniche_api::{Dag, DagGrowth, DagRange, DagVertex, LeaderSlot, Method, Reason, RpcError, SlotStatus};
use corniche_engine::{TraceEvent, Vertex, VertexId};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Each proposal has one event, or two at its author, and one more where validators sign that they hold it.
/// The rest is for leader slots and for events repeated after a restart.
const EVENTS_PER_VERTEX: usize = 4;

/// Returns the DAG of the requested rounds. Refuses a range that is too large: a truncated DAG would look
/// complete.
pub(crate) fn section(node: &Node, range: DagRange) -> Result<Dag, RpcError> {
    let newest_round = node.backend.dag_newest_round()?;
    let rounds = rounds(range, newest_round, node.config.max_dag_rounds)?;
    let limit = node.config.max_dag_vertices;
    let window_events = node.backend.dag_events(rounds.clone(), limit.saturating_mul(EVENTS_PER_VERTEX))?;
    let too_many = |amount: &str| {
        let phrase = Reason::TooManyResults.phrase();
        RpcError::new(Reason::TooManyResults.code(), format!("{phrase} {amount}; ask for fewer rounds"))
    };
    if window_events.more {
        return Err(too_many(&format!("{} events", limit.saturating_mul(EVENTS_PER_VERTEX))));
    }
    let dag = build_dag(window_events, &rounds, newest_round);
    if dag.vertices.len() > limit {
        return Err(too_many(&format!("{limit} vertices")));
    }
    Ok(dag)
}

/// Newest round of the DAG now. Refused wherever [`section`] is.
pub(crate) fn growth(node: &Node) -> Result<DagGrowth, RpcError> {
    let method = Method::CornicheGetDag;
    if !node.config.namespaces.serves(method) {
        return Err(RpcError::not_served(method));
    }
    Ok(DagGrowth { newest_round: node.backend.dag_newest_round()? })
}

/// Resolves the requested rounds, none above the newest.
fn rounds(range: DagRange, newest: u64, limit: u64) -> Result<RangeInclusive<u64>, RpcError> {
    let (from, to) = match range {
        DagRange::Rounds { from, to } if from > to => {
            return Err(Reason::InvalidRoundRange.with(format!("the first round, {from}, is after the last, {to}")));
        }
        DagRange::Rounds { from, to } => (from, to),
        DagRange::Latest { count: 0 } => return Err(Reason::InvalidRoundRange.with("the number of rounds is 0")),
        DagRange::Latest { count } => (newest.saturating_add(1).saturating_sub(count), newest),
    };
    if to - from >= limit {
        return Err(Reason::RoundRangeTooLarge.with(format!("at most {limit} rounds")));
    }
    if from > newest {
        return Err(Reason::InvalidRoundRange.with(format!("the newest round is {newest}")));
    }
    Ok(from..=to.min(newest))
}

#[derive(Default)]
struct DagBuilder {
    vertices: BTreeMap<VertexId, DagVertex>,
    /// Keyed by round and rank.
    slots: BTreeMap<(u64, u64), LeaderSlot>,
    /// Holders may be known before the proposal itself.
    holders: BTreeMap<VertexId, Vec<u64>>,
    /// Voters and confirmers of slots; may be all that is known about a slot.
    votes: BTreeMap<(u64, u64), (Vec<u64>, Vec<u64>)>,
}

fn build_dag(window_events: DagEvents, rounds: &RangeInclusive<u64>, newest_round: u64) -> Dag {
    let mut builder = DagBuilder::default();
    for (time, event) in window_events.events {
        builder.add_event(time, event);
    }
    let DagBuilder { vertices, slots, .. } = builder.with_signers();
    let slots: Vec<LeaderSlot> = slots.into_values().collect();
    Dag {
        from_round: *rounds.start(),
        to_round: *rounds.end(),
        newest_round,
        vertices: vertices.into_values().collect(),
        order: order(&slots),
        slots,
        dropped: window_events.dropped,
    }
}

impl DagBuilder {
    /// The first event of a kind counts: a restarted engine repeats some.
    fn add_event(&mut self, time: TimestampMs, event: TraceEvent) {
        match event {
            TraceEvent::Proposed(vertex) => _ = self.vertex(vertex).proposed_ms.get_or_insert(time.0),
            TraceEvent::Accepted(vertex) => _ = self.vertex(vertex).accepted_ms.get_or_insert(time.0),
            TraceEvent::Elected { round, leaders } => {
                for (rank, leader) in (0..).zip(leaders) {
                    self.slot(round, rank, leader);
                }
            }
            TraceEvent::Decided { round, rank, leader, committed, why } => {
                let slot = self.slot(round, rank.into(), leader);
                if slot.status == SlotStatus::Undecided {
                    slot.status = if committed.is_some() { SlotStatus::Committed } else { SlotStatus::Skipped };
                    slot.digest = committed;
                    slot.why = Some(why);
                    slot.decided_ms = Some(time.0);
                }
            }
            TraceEvent::Delivered { round, rank, commit } => {
                if let Some(slot) = self.slots.get_mut(&(round, rank.into())) {
                    slot.commit.get_or_insert(commit.0);
                }
            }
            TraceEvent::Held { vertex, holders } => _ = self.holders.entry(vertex).or_insert_with(|| numbers(holders)),
            TraceEvent::Agreed { round, rank, voters, confirmers } => {
                let (voted, confirmed) = self.votes.entry((round, rank.into())).or_default();
                for (known, reported) in [(voted, voters), (confirmed, confirmers)] {
                    if known.is_empty() {
                        *known = numbers(reported);
                    }
                }
            }
            TraceEvent::Note { .. } => {}
        }
    }

    /// Fills in holders, voters and confirmers.
    fn with_signers(mut self) -> Self {
        for (id, holders) in std::mem::take(&mut self.holders) {
            if let Some(vertex) = self.vertices.get_mut(&id) {
                vertex.holders = holders;
            }
        }
        for (key, (voters, confirmers)) in std::mem::take(&mut self.votes) {
            if let Some(slot) = self.slots.get_mut(&key) {
                (slot.voters, slot.confirmers) = (voters, confirmers);
            }
        }
        self
    }

    fn vertex(&mut self, vertex: Vertex) -> &mut DagVertex {
        let Vertex { id, parents, batch_bytes, batch_digest } = vertex;
        self.vertices.entry(id).or_insert_with(|| DagVertex {
            round: id.round,
            author: id.author.0.into(),
            digest: id.digest,
            parents: parents.iter().map(|parent| parent.digest).collect(),
            batch_bytes: batch_bytes.into(),
            batch_digest,
            proposed_ms: None,
            accepted_ms: None,
            holders: Vec::new(),
        })
    }

    fn slot(&mut self, round: u64, rank: u64, leader: ValidatorIndex) -> &mut LeaderSlot {
        self.slots.entry((round, rank)).or_insert_with(|| LeaderSlot {
            round,
            rank,
            validator: leader.0.into(),
            status: SlotStatus::Undecided,
            digest: None,
            why: None,
            decided_ms: None,
            commit: None,
            voters: Vec::new(),
            confirmers: Vec::new(),
        })
    }
}

fn numbers(validators: Vec<ValidatorIndex>) -> Vec<u64> {
    validators.into_iter().map(|validator| validator.0.into()).collect()
}

/// Digests committed up to the first slot that is undecided, or whose round has no elected leaders yet.
fn order(slots: &[LeaderSlot]) -> Vec<B256> {
    let Some(first) = slots.first() else { return Vec::new() };
    let mut previous = first.round;
    let delivered = slots.iter().take_while(|slot| {
        let next = slot.round <= previous.saturating_add(1);
        previous = slot.round;
        next && slot.status != SlotStatus::Undecided
    });
    delivered.filter_map(|slot| slot.digest).collect()
}
