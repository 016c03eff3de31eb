//! Small DAG as an engine's events.

use alloy_primitives::B256;
use corniche_engine::{TraceEvent, Vertex, VertexId};
use corniche_types::{CommitIndex, TimestampMs, ValidatorIndex};

/// Digest of an author's proposal in a round.
pub fn digest(round: u64, author: u16) -> B256 {
    B256::from_slice(&[[round as u8, author as u8].as_slice(), &[0xda; 30]].concat())
}

/// Digest of its batch.
pub fn batch(round: u64, author: u16) -> B256 {
    B256::from_slice(&[[round as u8, author as u8].as_slice(), &[0xba; 30]].concat())
}

fn id(round: u64, author: u16) -> VertexId {
    VertexId { round, author: ValidatorIndex(author), digest: digest(round, author) }
}

/// References all proposals of the round before.
pub fn vertex(round: u64, author: u16) -> Vertex {
    let parents = (0..4).filter(|_| round > 1).map(|parent| id(round - 1, parent)).collect();
    let batch_digest = (author > 0).then(|| batch(round, author));
    Vertex { id: id(round, author), parents, batch_bytes: 100 * u32::from(author), batch_digest }
}

pub fn decided(round: u64, leader: u16, committed: bool, why: &str) -> TraceEvent {
    let leader = ValidatorIndex(leader);
    let committed = committed.then(|| digest(round, leader.0));
    TraceEvent::Decided { round, rank: 0, leader, committed, why: why.into() }
}

pub fn round(event: &TraceEvent) -> u64 {
    match event {
        TraceEvent::Proposed(vertex) | TraceEvent::Accepted(vertex) => vertex.id.round,
        TraceEvent::Held { vertex, .. } => vertex.round,
        TraceEvent::Elected { round, .. }
        | TraceEvent::Decided { round, .. }
        | TraceEvent::Delivered { round, .. }
        | TraceEvent::Agreed { round, .. } => *round,
        TraceEvent::Note { .. } => 0,
    }
}

/// Four full rounds as validator 0 saw them, with one leader each. In the drawing a capital is a leader; the leader of round 2
/// is skipped, and round 3 is undecided although round 4 is not:
///
/// ```text
///  round     1  2  3  4
///  author 0  A  b  c  d
///         1  a  B  c  d
///         2  a  b  C  d
///         3  a  b  c  D
/// ```
pub fn sample() -> Vec<(TimestampMs, TraceEvent)> {
    let mut events = Vec::new();
    let at = |round: u64, ms: u64| TimestampMs(1_000 * round + ms);
    for round in 1..=4 {
        events.push((at(round, 0), TraceEvent::Proposed(vertex(round, 0))));
        for author in 0..4 {
            events.push((at(round, 10 + u64::from(author)), TraceEvent::Accepted(vertex(round, author))));
        }
    }
    let elected = |round: u64, leader| TraceEvent::Elected { round, leaders: vec![ValidatorIndex(leader)] };
    events.extend([
        (at(5, 0), elected(1, 0)),
        (at(5, 1), decided(1, 0, true, "a quorum of certificates")),
        (at(5, 1), TraceEvent::Delivered { round: 1, rank: 0, commit: CommitIndex(9) }),
        (at(5, 2), elected(2, 1)),
        (at(5, 3), decided(2, 1, false, "a quorum without votes")),
        (at(5, 4), elected(3, 2)),
        (at(5, 5), elected(4, 3)),
        (at(5, 6), decided(4, 3, true, "a quorum of certificates")),
    ]);
    events
}
