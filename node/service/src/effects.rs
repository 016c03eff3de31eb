//! The surroundings of a node in a process: other threads, the network, files, and the state that RPC reads.

use crate::{
    backend::refusal_error,
    clock,
    epoch_log::EpochLog,
    epochs::EpochVerifiers,
    execution::{MAX_QUEUED_PROPOSALS, Task},
    journal::Journal,
    multicast::GroupMember,
    shared::{Shared, count},
};
use corniche_admission::Refusal;
use corniche_api::TransactionStatus;
use corniche_crypto::VerifiedTransaction;
use corniche_engine::{Committee, Offence, TraceEvent, Vertex};
use corniche_network::{Channel, NetworkHandle, PeerKey};
use corniche_pipeline::{
    CommandResponse, Effects, Executed, Fault, Halted, Input, NodeKey, PeerMessage, Pipeline, Plan, Request, Response, Seat,
    Write,
};
use corniche_rpc::ChainEvent;
use corniche_staking::Notice;
use corniche_state::CommittedBlock;
use corniche_store::Trace;
use corniche_types::{B256, Block, Bytes, Height, SkipReason, TrustPoint, ValidatorIndex, keccak256, wire};
use std::{
    sync::{Arc, PoisonError, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

/// Implements the driver's effects with threads.
pub struct ThreadedEffects {
    pub journal: Journal,
    pub tasks: mpsc::Sender<Task>,
    /// Groups for the writer thread, which syncs those that wait together. The driver bounds their number.
    pub groups: mpsc::Sender<Vec<Write>>,
    pub trace: Option<Trace>,
    pub network: Option<(NetworkHandle, tokio::runtime::Handle)>,
    /// The validator's multicast group, if the genesis has one.
    pub group: Option<GroupMember>,
    pub shared: Arc<Shared>,
    pub verifiers: Arc<EpochVerifiers>,
    pub epoch_log: EpochLog,
    /// The end of an epoch that must be in the chain.
    pub trust: Option<TrustPoint>,
    /// Time at which the clocks of validators were read.
    pub clocks_read: Instant,
}

/// Interval at which the clocks of validators are read.
const CLOCKS_INTERVAL: Duration = Duration::from_secs(1);

impl Effects for ThreadedEffects {
    fn observe(&mut self, pipeline: &Pipeline) {
        self.shared.target.store(pipeline.target().0, Ordering::Relaxed);
        self.shared.counters.ordering.store(pipeline.is_ordering().into(), Ordering::Relaxed);
        self.note_unavailable(pipeline.unavailable_block());
        let coin = pipeline.coin();
        self.shared.counters.coin_generation.store(coin.generation.0, Ordering::Relaxed);
        self.shared.counters.coin_exposed_votes.store(coin.exposed.0.into(), Ordering::Relaxed);
        self.shared.counters.coin_share_missing.store(coin.lacks_share.into(), Ordering::Relaxed);
        self.shared.counters.evidence_pending.store(pipeline.pending_evidence() as u64, Ordering::Relaxed);
        for (counter, pending) in self.shared.counters.notices_pending.iter().zip(pipeline.pending_notices()) {
            counter.store(pending as u64, Ordering::Relaxed);
        }
        // Not after each event.
        if self.clocks_read.elapsed() >= CLOCKS_INTERVAL {
            self.clocks_read = Instant::now();
            *self.shared.clock_leads.lock().unwrap_or_else(PoisonError::into_inner) = pipeline.clock_leads();
        }
        // Set before the command's sender gets its response.
        self.shared.set_requested_base_fee(pipeline.requested_base_fee());
    }

    fn send(&mut self, to: &[NodeKey], message: PeerMessage) {
        let Some((network, _)) = &self.network else { return };
        let channel = match message {
            PeerMessage::CertificateShare(_) | PeerMessage::Certificate(_) => Channel::Votes,
            // Attestations leave before the batches that they are needed for.
            PeerMessage::Engine(_)
            | PeerMessage::EpochEngine(..)
            | PeerMessage::Epoch { .. }
            | PeerMessage::Notice(_)
            | PeerMessage::Transactions(_)
            | PeerMessage::Attestations(_) => Channel::Bulk,
        };
        // A full queue drops messages; peers request what they miss.
        network.broadcast(to.iter().map(|to| PeerKey((*to).into())), channel, message.encode());
    }

    fn request(&mut self, to: NodeKey, request: Request) {
        let Some((network, runtime)) = &self.network else { return };
        let (network, shared) = (network.clone(), self.shared.clone());
        runtime.spawn(async move {
            let bytes = network.request(PeerKey(to.into()), wire::encode(&request).into()).await.ok();
            let response = bytes.and_then(|bytes| wire::decode::<Response>(&bytes).ok());
            shared.inbox.push_response(Input::Response { from: to, response }.into());
        });
    }

    fn multicast(&mut self, request: Bytes) {
        if let Some(group) = &self.group {
            group.multicast(&request);
        }
    }

    fn ask_sequencer(&mut self, epoch: u32, certificate: Bytes) {
        let Some(group) = &mut self.group else { return };
        if u64::from(epoch) > self.shared.counters.multicast_epoch.load(Ordering::Relaxed) {
            tracing::info!(epoch, "the validators replace the sequencer");
        }
        self.shared.counters.multicast_epoch.store(epoch.into(), Ordering::Relaxed);
        for key in group.ask(epoch, &certificate) {
            self.shared.inbox.push_response(Input::Sequencer(key).into());
        }
    }

    fn penalise(&mut self, peer: NodeKey, fault: Fault) {
        if let Some((network, _)) = &self.network {
            self.shared.penalise(network, PeerKey(peer.into()), fault);
        }
    }

    fn start_epoch(&mut self, committee: Committee, is_member: bool) {
        tracing::info!(epoch = committee.epoch().0, is_member, "an epoch starts");
        self.verifiers.start(&committee, is_member);
        self.epoch_log.keep(&committee);
        if let Some(contradiction) = self.trust.and_then(|trust| self.epoch_log.contradiction(trust)) {
            self.shared.halt(contradiction);
        }
        let epoch = committee.epoch();
        self.shared.start_epoch(committee);
        let _ = self.shared.events.send(ChainEvent::Epoch(epoch));
    }

    fn change_seats(&mut self, seats: Vec<Seat>) {
        if let Some((network, _)) = &self.network {
            let seats = seats.into_iter().map(|seat| {
                let endpoints = seat.endpoints.iter().filter_map(|endpoint| endpoint.parse().ok()).collect();
                (PeerKey(seat.network_key.into()), endpoints)
            });
            network.set_validators(seats.collect());
        }
    }

    fn execute(&mut self, plan: Plan) -> Vec<Executed> {
        self.shared.pool_view.ordered(plan.block.ordered.iter().map(|transaction| keccak256(&transaction.raw)));
        // The thread ends only when the node is stopping.
        let _ = self.tasks.send(Task::Execute(plan));
        Vec::new()
    }

    fn speculate(&mut self, author: ValidatorIndex, transactions: Vec<Bytes>) {
        // Incremented here and decremented by the receiver. A count that is too high skips too many proposals, never
        // too few.
        if self.shared.queued_proposals.load(Ordering::Relaxed) < MAX_QUEUED_PROPOSALS {
            self.shared.queued_proposals.fetch_add(1, Ordering::Relaxed);
            let _ = self.tasks.send(Task::Speculate { author, transactions });
        }
    }

    fn write(&mut self, group: Vec<Write>) {
        // The thread ends only when the node is stopping.
        let _ = self.groups.send(group);
    }

    fn appended(&mut self, blocks: Vec<Arc<CommittedBlock>>) {
        // The copy of the pool changes on this thread only, so that no executed transaction can return.
        for block in blocks {
            self.shared.epoch_gap.note(block.block.ordering.next.is_some(), Instant::now());
            self.count_refused_notices(&block.block);
            let executed: Vec<B256> = block.receipts.iter().map(|receipt| receipt.transaction_hash).collect();
            executed.iter().for_each(|hash| self.journal.executed(hash));
            self.shared.pool_view.executed(&executed);
        }
    }

    fn submitted(&mut self, reply: u64, result: Result<B256, Refusal>) {
        count(&self.shared.counters.refused, usize::from(result.is_err()));
        self.shared.respond(reply, result.map_err(refusal_error));
    }

    fn command_done(&mut self, response: CommandResponse) {
        self.shared.command_done(response);
    }

    fn pending(&mut self, transaction: VerifiedTransaction, from_user: bool) {
        if from_user {
            // On disk before the user gets the response.
            self.journal.add(&transaction);
        }
        let hash = transaction.hash();
        self.shared.pool_view.pending(transaction, clock::now());
        let _ = self.shared.events.send(ChainEvent::Pending(hash));
    }

    fn dropped(&mut self, hash: B256, status: corniche_pipeline::TransactionStatus) {
        self.journal.dropped(&hash);
        self.shared.pool_view.dropped(hash, api_status(status), clock::now());
    }

    fn accuse(&mut self, validator: ValidatorIndex, offence: Offence, evidence: Vec<Bytes>) {
        count(&self.shared.counters.accusations, 1);
        // A peer that violates the protocol may do so at any rate, so each offence is logged once.
        if !self.shared.is_first_accusation(validator, offence) {
            return;
        }
        let evidence: Vec<B256> = evidence.iter().map(|bytes| corniche_crypto::digest(bytes)).collect();
        tracing::warn!(
            validator = validator.0,
            ?offence,
            ?evidence,
            "a validator broke the rules; this offence of it is only counted from now on"
        );
    }

    fn trace(&mut self, event: TraceEvent) {
        tracing::debug!("{event:?}");
        if let Some(vertex) = own_proposal(&event, self.group.as_ref().map(GroupMember::index)) {
            count(&self.shared.counters.proposals, 1);
            count(&self.shared.counters.proposed_batches, usize::from(vertex.batch_digest.is_some()));
        }
        if let Some(trace) = &self.trace {
            trace.record(clock::now(), event);
        }
    }

    fn warn(&mut self, warning: String) {
        tracing::warn!("{warning}");
    }

    fn halt(&mut self, halted: Halted) {
        self.shared.halt(halted);
    }
}

impl ThreadedEffects {
    fn count_refused_notices(&self, block: &Block) {
        let refused = block.ordering.skipped.iter().filter(|skipped| skipped.reason == SkipReason::NoticeRefused);
        for notice in refused.filter_map(|skipped| Notice::decode(&block.ordered.get(skipped.position as usize)?.raw)) {
            count(&self.shared.counters.notices_refused[notice.kind() as usize], 1);
        }
    }

    fn note_unavailable(&self, block: Option<Height>) {
        let height = block.map_or(0, |height| height.0);
        let before = self.shared.unavailable_block.swap(height, Ordering::Relaxed);
        if height > 0 && height != before {
            tracing::warn!(
                height,
                "no connected peer has the next block any more: connect to an archive, or stop the node, move its data directory away \
                 and start again, so that it begins with a snapshot; a validator keeps its keys"
            );
        }
    }
}

/// The own proposal that an event begins. The author of a request in a group learns its slot only when the packet comes, so
/// its engine accepts such proposals and never reports them before. `group_index`: this validator in the group, if there is one.
fn own_proposal(event: &TraceEvent, group_index: Option<ValidatorIndex>) -> Option<&Vertex> {
    match event {
        TraceEvent::Proposed(vertex) => Some(vertex),
        TraceEvent::Accepted(vertex) if group_index == Some(vertex.id.author) => Some(vertex),
        _ => None,
    }
}

fn api_status(status: corniche_pipeline::TransactionStatus) -> TransactionStatus {
    use corniche_pipeline::TransactionStatus as PoolStatus;
    match status {
        PoolStatus::Dropped(reason) => TransactionStatus::Dropped { reason },
        PoolStatus::Replaced(by) => TransactionStatus::Replaced { by },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_engine::VertexId;

    #[test]
    fn each_own_proposal_counts_once() {
        let vertex = |author| {
            let id = VertexId { round: 1, author: ValidatorIndex(author), digest: B256::ZERO };
            Vertex { id, parents: Vec::new(), batch_bytes: 0, batch_digest: None }
        };
        // With a DAG or lanes: signed, and accepted later.
        assert!(own_proposal(&TraceEvent::Proposed(vertex(2)), None).is_some());
        assert!(own_proposal(&TraceEvent::Accepted(vertex(2)), None).is_none());
        // In a group: accepted only.
        assert!(own_proposal(&TraceEvent::Accepted(vertex(2)), Some(ValidatorIndex(2))).is_some());
        assert!(own_proposal(&TraceEvent::Accepted(vertex(1)), Some(ValidatorIndex(2))).is_none());
    }
}
