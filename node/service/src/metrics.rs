//! Metrics of the node, besides those of its RPC server.

use crate::{backend::ReaderHandle, shared::Shared};
use corniche_network::NetworkHandle;
use corniche_signer::{RemoteSigner, StatementKind};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::Registry,
};
use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

/// Reads the node's counters on each scrape.
pub struct NodeMetrics {
    /// Name of the engine in the genesis.
    engine: String,
    shared: Arc<Shared>,
    network: Option<NetworkHandle>,
    /// Gives the current trace: a suspended chain resumes with another one, and the old one must end.
    readers: Arc<ReaderHandle>,
    signer: Option<Arc<RemoteSigner>>,
}

impl NodeMetrics {
    pub fn register(
        mut registry: Registry,
        engine: &str,
        shared: &Arc<Shared>,
        network: Option<&NetworkHandle>,
        readers: &Arc<ReaderHandle>,
        signer: Option<&Arc<RemoteSigner>>,
    ) -> Registry {
        let (shared, readers, signer) = (shared.clone(), readers.clone(), signer.cloned());
        let metrics = Self { engine: engine.to_owned(), shared, network: network.cloned(), readers, signer };
        registry.register_collector(Box::new(metrics));
        registry
    }
}

impl fmt::Debug for NodeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeMetrics")
    }
}

impl Collector for NodeMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = &self.shared.counters;
        let gauge = |encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64| {
            let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let counter = |encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64| {
            let metric = ConstCounter::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let engine = Info::new([("name", self.engine.as_str())]);
        engine.encode(encoder.encode_descriptor("corniche_engine", "Ordering engine", None, engine.metric_type())?)?;
        let read = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
        gauge(&mut encoder, "corniche_head_height", "Newest durable block", read(&counters.head))?;
        gauge(&mut encoder, "corniche_finalized_height", "Newest certified block", read(&counters.finalized))?;
        let ordering = "1 while this validator takes part in ordering, 0 while it follows";
        gauge(&mut encoder, "corniche_ordering", ordering, read(&counters.ordering))?;
        let committee = self.shared.committee();
        gauge(&mut encoder, "corniche_epoch", "Running epoch", committee.epoch().0)?;
        gauge(&mut encoder, "corniche_committee_members", "Members of the running committee", committee.size() as u64)?;
        gauge(&mut encoder, "corniche_committee_votes", "Votes of the running committee", committee.total().0.into())?;
        let generation = "Epoch that the running coin was dealt for, 0 for the coin of the genesis";
        gauge(&mut encoder, "corniche_coin_generation", generation, read(&counters.coin_generation))?;
        let exposed = "Votes of members whose shares of the coin are as good as public";
        gauge(&mut encoder, "corniche_coin_exposed_votes", exposed, read(&counters.coin_exposed_votes))?;
        let missing = "1 while this validator orders without a share of the coin";
        gauge(&mut encoder, "corniche_coin_share_missing", missing, read(&counters.coin_share_missing))?;
        let pending = "Proofs against validators that the chain does not have";
        gauge(&mut encoder, "corniche_evidence_pending", pending, read(&counters.evidence_pending))?;
        gauge(&mut encoder, "corniche_pool_transactions", "Transactions in the pool", self.shared.pool_view.len() as u64)?;
        counter(&mut encoder, "corniche_transactions_executed", "Transactions in blocks", read(&counters.executed))?;
        counter(
            &mut encoder,
            "corniche_transactions_adopted",
            "Ordered transactions whose result from before ordering was used",
            read(&counters.transactions_adopted),
        )?;
        counter(&mut encoder, "corniche_early_runs", "Runs before ordering", read(&counters.early_runs))?;
        counter(
            &mut encoder,
            "corniche_early_without_result",
            "Runs before ordering without a result",
            read(&counters.early_without_result),
        )?;
        counter(
            &mut encoder,
            "corniche_early_passed_over",
            "Transactions not run before ordering because of their author's limit",
            read(&counters.early_passed_over),
        )?;
        counter(&mut encoder, "corniche_transactions_run", "Runs of ordered transactions", read(&counters.transactions_run))?;
        counter(
            &mut encoder,
            "corniche_transactions_run_again",
            "Runs of ordered transactions after the first, because of a conflict",
            read(&counters.transactions_run_again),
        )?;
        counter(
            &mut encoder,
            "corniche_transactions_skipped",
            "Ordered transactions that were not valid",
            read(&counters.skipped),
        )?;
        counter(&mut encoder, "corniche_proposals", "Proposals of this validator", read(&counters.proposals))?;
        counter(
            &mut encoder,
            "corniche_proposed_batches",
            "Proposals of this validator with transactions",
            read(&counters.proposed_batches),
        )?;
        if let Some(signer) = &self.signer {
            let stats = signer.stats();
            gauge(&mut encoder, "corniche_signer_up", "1 while the remote signer answers", stats.is_up.into())?;
            counter(&mut encoder, "corniche_signer_signatures", "Signatures by the remote signer", stats.signed)?;
            counter(
                &mut encoder,
                "corniche_signer_failures",
                "Requests without an answer of the remote signer",
                stats.failures,
            )?;
            let waited = "Time in which the node waited for answers of the remote signer, in microseconds";
            counter(&mut encoder, "corniche_signer_waited_us", waited, stats.response_ns_sum / 1_000)?;
            let help = "Statements that the remote signer refused";
            let refused = ConstCounter::new(0u64);
            let mut family = encoder.encode_descriptor("corniche_signer_refused", help, None, refused.metric_type())?;
            for (kind, count) in StatementKind::ALL.iter().zip(stats.refused) {
                ConstCounter::new(count).encode(family.encode_family(&[("statement", kind.name())])?)?;
            }
        }
        let recovered = "Senders that this process recovered from signatures of transactions";
        counter(&mut encoder, "corniche_signatures_recovered", recovered, corniche_crypto::recovery_count())?;
        counter(&mut encoder, "corniche_transactions_refused", "Transactions admission refused", read(&counters.refused))?;
        counter(
            &mut encoder,
            "corniche_accusations",
            "Times a validator was seen breaking the rules",
            read(&counters.accusations),
        )?;
        counter(
            &mut encoder,
            "corniche_inbox_dropped",
            "Messages dropped because the inbox was full",
            read(&counters.inbox_dropped),
        )?;
        counter(&mut encoder, "corniche_peer_faults", "Messages of peers that are never valid", read(&counters.peer_faults))?;
        if let Some(trace) = self.readers.current().dag.traced() {
            let help = "Events of the engine that were not traced because the disk was behind";
            counter(&mut encoder, "corniche_trace_dropped", help, trace.dropped())?;
        }
        if let Some(network) = &self.network {
            gauge(&mut encoder, "corniche_peers", "Connected peers", network.peers().len() as u64)?;
            let stats = network.stats();
            let general = stats.general;
            let channels = [stats.votes, stats.bulk];
            let messages = channels.iter().map(|channel| channel.frames_sent).sum();
            counter(&mut encoder, "corniche_peer_messages_sent", "Messages sent to peers", messages)?;
            let bytes = channels.iter().map(|channel| channel.bytes_sent).sum();
            counter(&mut encoder, "corniche_peer_bytes_sent", "Bytes of messages sent to peers", bytes)?;
            let refused = "Peers' connections refused for want of a slot, or because of a ban";
            counter(&mut encoder, "corniche_peer_connections_refused", refused, general.connections_refused)?;
            let evicted = "Peers' connections closed because a newcomer needed their slot";
            counter(&mut encoder, "corniche_peer_connections_evicted", evicted, general.connections_evicted)?;
            counter(&mut encoder, "corniche_peer_requests_served", "Requests of peers answered", general.requests_served)?;
            let declined = "Requests of peers not answered: too many at once, or too slow";
            counter(&mut encoder, "corniche_peer_requests_refused", declined, general.requests_refused)?;
        }
        Ok(())
    }
}
