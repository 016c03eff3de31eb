//! Metrics of the node, besides those of its RPC server.

mod committee;
mod staking;
mod sync;

pub use sync::SyncMetrics;

use crate::{backend::ReaderHandle, clock, shared::Shared};
use corniche_network::{NetworkHandle, PeerKey};
use corniche_pipeline::{dealing_checks, version_votes};
use corniche_signer::{RESPONSE_BUCKETS_US, RemoteSigner, SignerStats, StatementKind};
use corniche_staking::{NoticeKind, StateSlots, coin::DealingProgress};
use corniche_types::{B256, Genesis, ProtocolRules};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelValue, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::Registry,
};
use staking::{PHASES, StakingFigures};
use std::{
    fmt,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Reads the node's counters on each scrape.
pub struct NodeMetrics {
    pub genesis: Arc<Genesis>,
    pub shared: Arc<Shared>,
    pub network: Option<NetworkHandle>,
    /// Identity among peers, with or without a network.
    pub identity: Option<PeerKey>,
    /// Consensus key of a validator. Any key that it ever registered tells which one it is.
    pub consensus_key: Option<B256>,
    /// Gives the current trace: a suspended chain resumes with another one, and the old one must end.
    pub readers: Arc<ReaderHandle>,
    pub signer: Option<Arc<RemoteSigner>>,
}

impl NodeMetrics {
    pub fn register(self, mut registry: Registry) -> Registry {
        registry.register_collector(Box::new(self));
        registry
    }
}

impl NodeMetrics {
    /// Version of the next block, and votes of the next committee by the versions that its members announced last (U2).
    fn encode_versions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let readers = self.readers.current();
        let head = readers.reader.head().height();
        let record = readers.reader.ordering(head).map(|(record, _)| record);
        let epoch_version = record.map_or(self.genesis.protocol_version, |record| record.next_protocol_version());
        let version = self.genesis.version_at(head.next(), epoch_version);
        gauge(encoder, "corniche_protocol_version", "Protocol version of the next block", version.into())?;
        if self.genesis.epochs().is_none() {
            return Ok(());
        }
        let help = "Votes of the next committee, or the running one before the freeze, by the protocol version that each member announced last";
        let votes = version_votes(&readers.state.latest());
        let by_version = votes.iter().map(|(version, votes)| (version.to_string(), votes.0.into()));
        gauges(encoder, "corniche_protocol_votes", help, "version", by_version)?;
        let unknown = votes.iter().filter(|(version, _)| ProtocolRules::of(**version).is_none());
        let help = "Those of these votes whose version this build does not know";
        gauge(encoder, "corniche_protocol_unknown_votes", help, unknown.map(|(_, votes)| u64::from(votes.0)).sum())
    }
}

impl fmt::Debug for NodeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeMetrics")
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    signed_gauge(encoder, name, help, i64::try_from(value).unwrap_or(i64::MAX))
}

fn signed_gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    let metric = ConstGauge::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// A gauge with one label.
fn gauges<'a, L: EncodeLabelValue>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &'a str,
    label: &'a str,
    values: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let metric = ConstGauge::new(0i64);
    let mut family = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
    for (value, number) in values {
        let number = ConstGauge::new(i64::try_from(number).unwrap_or(i64::MAX));
        number.encode(family.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = ConstCounter::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// Figures of the coin that is dealt now; 0 while none is.
fn encode_dealing(encoder: &mut DescriptorEncoder<'_>, dealing: Option<DealingProgress>) -> fmt::Result {
    let (dealings, unacknowledged, most) = dealing.map_or((0, 0, 0), |progress| {
        (progress.dealings as u64, progress.unacknowledged.0.into(), progress.max_unacknowledged.0.into())
    });
    let help = "Right dealings of the coin that is dealt now";
    gauge(encoder, "corniche_dkg_dealings", help, dealings)?;
    let help = "Most votes of members that have not acknowledged one of the dealings";
    gauge(encoder, "corniche_dkg_unacked_votes_max", help, unacknowledged)?;
    let help = "Most votes without an acknowledgement with which a dealing counts";
    gauge(encoder, "corniche_dkg_unacked_votes_limit", help, most)?;
    let (checks, us) = dealing_checks();
    counter(encoder, "corniche_dkg_checks", "Dealings that this process checked in blocks", checks)?;
    let seconds = ConstCounter::new(us as f64 / 1e6);
    let help = "Time for these checks, in seconds";
    seconds.encode(encoder.encode_descriptor("corniche_dkg_check_seconds", help, None, seconds.metric_type())?)
}

/// Histogram of the signer's response times.
struct ResponseTimes<'a>(&'a SignerStats);

impl EncodeMetric for ResponseTimes<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let SignerStats { response_ns_sum, responses, .. } = self.0;
        let bounds = RESPONSE_BUCKETS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::MAX]);
        let buckets: Vec<_> = bounds.zip(responses.iter().copied()).collect();
        encoder.encode_histogram::<NoLabelSet>(*response_ns_sum as f64 / 1e9, responses.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

fn read(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

impl NodeMetrics {
    /// Figures of the staking contract. None on a chain without it, and while the state cannot be read.
    fn encode_staking(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(parameters) = &self.genesis.staking else { return Ok(()) };
        let state = self.readers.current().state.latest();
        let figures = StakingFigures::load(&mut StateSlots(&state), parameters, self.consensus_key, clock::now());
        let Ok(figures) = figures else { return Ok(()) };
        if let Some(ends_ms) = figures.ends_ms {
            let help = "Seconds until the running epoch ends, by the clock of this node; negative once it should have ended";
            signed_gauge(encoder, "corniche_epoch_ends_seconds", help, ends_ms.div_euclid(1_000))?;
            let help =
                "Seconds before the end of an epoch in which the next committee is made; announcements take as long before";
            gauge(encoder, "corniche_epoch_closing_seconds", help, parameters.closing_ms / 1_000)?;
        }
        let help = "1 for the step of the running epoch that was last, 0 for the others";
        let phases = PHASES.into_iter().map(|(phase, name)| (name, u64::from(phase == figures.phase)));
        gauges(encoder, "corniche_epoch_phase", help, "phase", phases)?;
        encode_dealing(encoder, figures.dealing)?;
        let kept = "Epochs in a row for which the running committee was kept, because no next one was ready";
        gauge(encoder, "corniche_epochs_kept", kept, figures.kept)?;
        let convictions = "Convictions of validators for the newest 64 epochs";
        gauge(encoder, "corniche_convictions", convictions, figures.convictions)?;
        let Some(own) = figures.own else { return Ok(()) };
        gauge(encoder, "corniche_own_votes", "Votes of this validator in the running committee", own.votes.0.into())?;
        let announced = "1 once this validator has announced itself for the next epoch";
        gauge(encoder, "corniche_announced", announced, own.has_announced.into())?;
        let convictions = "Convictions of this validator for the newest 64 epochs";
        gauge(encoder, "corniche_own_convictions", convictions, own.convictions)
    }

    /// Notices by kind, gaps between epochs, and clocks of validators.
    fn encode_epochs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counters = &self.shared.counters;
        let help = "Notices to the staking contract that the state lacks, own ones and those of peers";
        let pending = NoticeKind::ALL.iter().zip(&counters.notices_pending).map(|(kind, count)| (kind.name(), read(count)));
        gauges(encoder, "corniche_notices_pending", help, "kind", pending)?;
        let refused = ConstCounter::new(0u64);
        let help = "Notices in blocks without effect: late, repeated, wrong, or above the limit of a block";
        let mut family = encoder.encode_descriptor("corniche_notices_refused", help, None, refused.metric_type())?;
        for (kind, count) in NoticeKind::ALL.iter().zip(&counters.notices_refused) {
            ConstCounter::new(read(count)).encode(family.encode_family(&[("kind", kind.name())])?)?;
        }
        let gap = &self.shared.epoch_gap.seconds;
        let help = "Time from the last block of an epoch to the first of the next one, in seconds";
        gap.encode(encoder.encode_descriptor("corniche_epoch_gap_seconds", help, None, gap.metric_type())?)?;
        let help = "Milliseconds by which the newest proposal of a validator was ahead of the clock of this node";
        let leads = self.shared.clock_leads.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let leads = leads.into_iter().map(|(validator, ms)| (validator.0.to_string(), ms));
        gauges(encoder, "corniche_clock_ahead_ms", help, "validator", leads)
    }

    /// Connected votes, and signers of the newest certificates.
    fn encode_committee(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let committee = self.shared.committee();
        let peers = self.network.as_ref().map(NetworkHandle::peers).unwrap_or_default();
        let keys = peers.into_iter().map(|peer| peer.id).chain(self.identity);
        let connected = "Votes of connected members of the running committee, with those of this node";
        gauge(encoder, "corniche_votes_connected", connected, committee::votes_of(&committee, keys).0.into())?;
        let own = self.identity.and_then(|key| committee.index_of(&key.0));
        let certificates = committee::newest_certificates(&self.readers.current().reader, &committee);
        let help = "Certificates among the newest ten of this epoch without the signature of a member";
        let metric = ConstGauge::new(0i64);
        let mut family =
            encoder.encode_descriptor("corniche_votes_missing_from_certificate", help, None, metric.metric_type())?;
        for (index, missing) in committee::missing(&committee, &certificates) {
            let is_own = if own == Some(index) { "true" } else { "false" };
            let labels = [("validator", index.0.to_string()), ("own", is_own.to_owned())];
            ConstGauge::new(i64::try_from(missing).unwrap_or(i64::MAX)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_snapshots(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats = &self.shared.snapshots;
        let height = "Height of the newest snapshot of the state, 0 if there is none";
        gauge(encoder, "corniche_snapshot_height", height, read(&stats.height))?;
        gauge(encoder, "corniche_snapshot_bytes", "Bytes of the newest snapshot, without codes", read(&stats.bytes))?;
        let seconds = "Time it took to make the newest snapshot of this process";
        let metric = ConstGauge::new(read(&stats.milliseconds) as f64 / 1e3);
        metric.encode(encoder.encode_descriptor("corniche_snapshot_seconds", seconds, None, metric.metric_type())?)?;
        let served = "Bytes of responses to nodes that fetch a snapshot";
        counter(encoder, "corniche_state_served_bytes", served, read(&stats.served_bytes))?;
        let given_up = "Snapshots that were given up since the newest one was made";
        gauge(encoder, "corniche_snapshots_given_up", given_up, read(&stats.given_up))?;
        match self.readers.current().reader.free_space() {
            Ok(free) => gauge(encoder, "corniche_free_disk_bytes", "Free bytes on the disk of the data directory", free),
            Err(_) => Ok(()),
        }
    }
}

impl Collector for NodeMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = &self.shared.counters;
        let engine = Info::new([("name", self.genesis.engine.name.as_str())]);
        engine.encode(encoder.encode_descriptor("corniche_engine", "Ordering engine", None, engine.metric_type())?)?;
        gauge(&mut encoder, "corniche_head_height", "Newest durable block", read(&counters.head))?;
        gauge(&mut encoder, "corniche_finalized_height", "Newest certified block", read(&counters.finalized))?;
        let ordering = "1 while this validator takes part in ordering, 0 while it follows";
        gauge(&mut encoder, "corniche_ordering", ordering, read(&counters.ordering))?;
        let committee = self.shared.committee();
        gauge(&mut encoder, "corniche_epoch", "Running epoch", committee.epoch().0)?;
        gauge(&mut encoder, "corniche_committee_members", "Members of the running committee", committee.size() as u64)?;
        gauge(&mut encoder, "corniche_committee_votes", "Votes of the running committee", committee.total().0.into())?;
        self.encode_staking(&mut encoder)?;
        self.encode_committee(&mut encoder)?;
        self.encode_epochs(&mut encoder)?;
        self.encode_snapshots(&mut encoder)?;
        self.encode_versions(&mut encoder)?;
        let generation = "Epoch that the running coin was dealt for, 0 for the coin of the genesis";
        gauge(&mut encoder, "corniche_coin_generation", generation, read(&counters.coin_generation))?;
        let age = "Epochs since the running coin was dealt";
        let generation = read(&counters.coin_generation);
        gauge(&mut encoder, "corniche_coin_generation_age", age, committee.epoch().0.saturating_sub(generation))?;
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
            let times = ResponseTimes(&stats);
            let help = "Time until the remote signer answered, in seconds";
            times.encode(encoder.encode_descriptor("corniche_signer_seconds", help, None, times.metric_type())?)?;
            let help = "Statements that the remote signer refused";
            let refused = ConstCounter::new(0u64);
            let mut family = encoder.encode_descriptor("corniche_signer_refused", help, None, refused.metric_type())?;
            for (kind, count) in StatementKind::ALL.iter().zip(stats.refused) {
                ConstCounter::new(count).encode(family.encode_family(&[("statement", kind.name())])?)?;
            }
        }
        let unavailable = "1 while no peer has the next block of this node any more";
        let is_unavailable = u64::from(read(&self.shared.unavailable_block) > 0);
        gauge(&mut encoder, "corniche_next_block_unavailable", unavailable, is_unavailable)?;
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
        if self.genesis.multicast.is_some() {
            let help = "Epoch of the multicast group that this validator is in";
            gauge(&mut encoder, "corniche_multicast_epoch", help, read(&counters.multicast_epoch))?;
            let help = "Packets of the multicast group received";
            counter(&mut encoder, "corniche_multicast_packets", help, read(&counters.packets_received))?;
            let help = "Datagrams received that are no packets of the multicast group";
            counter(&mut encoder, "corniche_multicast_packets_refused", help, read(&counters.packets_refused))?;
        }
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
