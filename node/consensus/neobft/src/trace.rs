//! Events of the log for people: a vertex for each request, and a verdict for each slot.

use crate::{
    engine::Neobft,
    message::{Content, Entry, Request, Slot},
};
use corniche_aom_receiver::OrderingCertificate;
use corniche_engine::{Output, TraceEvent, Vertex, VertexId, batch_digest};
use corniche_types::{B256, CommitIndex, ValidatorIndex, wire};

impl Neobft {
    /// A request is in the log, and not final yet.
    pub(crate) fn trace_entry(&mut self, slot: Slot) {
        let Some((Entry::Request(packet), digest)) = self.log.get(slot).zip(self.log.hash(slot)) else { return };
        let vertex = vertex(packet, slot, digest);
        self.outputs.extend(vertex.map(|vertex| Output::Trace(TraceEvent::Accepted(vertex))));
    }

    /// A slot is final.
    pub(crate) fn trace_commit(&mut self, slot: Slot, leader: ValidatorIndex, commit: CommitIndex) {
        let round = slot.0;
        let (committed, why) = match self.log.get(slot) {
            Some(Entry::Request(packet)) => (self.log.hash(slot), format!("packet {} of epoch {}", packet.seq, packet.epoch)),
            Some(Entry::NoOp(proof)) => {
                let seq = self.seq(slot).filter(|_| proof.view.epoch == self.view().epoch);
                (None, format!("gap at {} of epoch {}", seq.unwrap_or_default(), proof.view.epoch))
            }
            None => return,
        };
        let decided = TraceEvent::Decided { round, rank: 0, leader, committed, why };
        self.outputs.push_back(Output::Trace(decided));
        self.outputs.push_back(Output::Trace(TraceEvent::Delivered { round, rank: 0, commit }));
    }
}

/// Heartbeats have no author, and so no vertex. The log-hash identifies a vertex: one request may have several slots.
fn vertex(packet: &OrderingCertificate, slot: Slot, digest: B256) -> Option<Vertex> {
    let request: Request = wire::decode(&packet.payload).ok()?;
    let (bytes, batch) = match &request.content {
        Content::Clock => (0, None),
        Content::Inline { batch, .. } => (batch.len() as u32, (!batch.is_empty()).then(|| batch_digest(batch))),
        Content::Reference { body, .. } => (body.bytes, Some(body.digest)),
    };
    let id = VertexId { round: slot.0, author: request.author, digest };
    Some(Vertex { id, parents: Vec::new(), batch_bytes: bytes, batch_digest: batch })
}
