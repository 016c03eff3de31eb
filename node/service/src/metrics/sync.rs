//! Progress of a node that fetches a snapshot. Once the node has a chain, the figures stay as they were at the end.

use super::{gauge, gauges};
use corniche_sync::{Phase, Progress};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use std::fmt;
use tokio::sync::watch;

const PHASES: [Phase; 4] = [Phase::Trust, Phase::Offers, Phase::Manifest, Phase::Chunks];

/// Reads the progress on each scrape.
#[derive(Debug)]
pub struct SyncMetrics(pub watch::Receiver<Option<Progress>>);

impl Collector for SyncMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let progress = *self.0.borrow();
        let phases = PHASES.map(|phase| (phase.name(), progress.is_some_and(|progress| progress.phase == phase).into()));
        let help = "1 for what a node that fetches a snapshot does, 0 for the rest; all 0 once it has one";
        gauges(&mut encoder, "corniche_sync_phase", help, "phase", phases)?;
        let (kept, all) = progress.map_or((0, 0), |progress| progress.chunks);
        let requested = progress.map_or(0, |progress| progress.chunks_under_way);
        let chunks = [("fetched", kept), ("requested", requested), ("missing", all.saturating_sub(kept + requested))];
        let help = "Chunks of the snapshot that the node fetches, or began with";
        gauges(&mut encoder, "corniche_sync_chunks", help, "state", chunks.map(|(state, count)| (state, count as u64)))?;
        let fetching = progress.filter(|progress| progress.phase != Phase::Ended);
        let help = "Connected peers of a node that fetches a snapshot";
        gauge(&mut encoder, "corniche_sync_peers", help, fetching.map_or(0, |progress| progress.peers as u64))
    }
}
