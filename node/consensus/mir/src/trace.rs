//! Events for people: a vertex for each batch, and a verdict for each number.

use crate::{
    engine::Mir,
    message::{NULL, Proposal, Sn},
};
use corniche_engine::{Ordered, Output, TraceEvent, Vertex, VertexId, batch_digest};
use corniche_types::B256;

impl Mir {
    pub(crate) fn trace_accepted(&mut self, proposal: &Proposal, digest: B256) {
        self.outputs.push_back(Output::Trace(TraceEvent::Accepted(vertex(proposal, digest))));
    }

    pub(crate) fn trace_delivered(&mut self, sn: Sn, digest: B256, ordered: &Ordered) {
        let (round, leader, commit) = (sn.0, ordered.leader, ordered.index);
        let committed = (digest != NULL).then_some(digest);
        let verdict = if committed.is_some() { "committed" } else { "null" };
        let why = format!("{verdict} in epoch {}", self.epoch.epoch.0);
        self.outputs.push_back(Output::Trace(TraceEvent::Decided { round, rank: 0, leader, committed, why }));
        self.outputs.push_back(Output::Trace(TraceEvent::Delivered { round, rank: 0, commit }));
    }
}

/// Numbers are agreed on independently, so a batch has no parents.
pub(crate) fn vertex(proposal: &Proposal, digest: B256) -> Vertex {
    let batch = &proposal.batch;
    let id = VertexId { round: proposal.sn.0, author: proposal.author, digest };
    let batch_bytes = u32::try_from(batch.len()).unwrap_or(u32::MAX);
    Vertex { id, parents: Vec::new(), batch_bytes, batch_digest: (!batch.is_empty()).then(|| batch_digest(batch)) }
}
