//! Fills an empty data directory from a snapshot of peers: does what [`Fetch`] decides.

use crate::{clock, config::check_point, epoch_log};
use anyhow::{Context, bail};
use corniche_crypto::{CommitteeKeys, Committees};
use corniche_network::{Event, Events, Fault, NetworkHandle, Peer, PeerKey, RequestError};
use corniche_state::chunks::{Chunk, Manifest};
use corniche_store::{DataDirectory, Identity, snapshots::SnapshotDraft};
use corniche_sync::{
    Failed, Fetch, FetchConfig, Kept, Offer, Output, PeerId, Progress, RequestId, Reused, SnapshotSource, StateRequest, Target,
};
use corniche_types::{B256, Bytes, Epoch, EpochChange, Genesis, Height, LightMember, TrustPoint, keccak256, wire};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// Interval of progress lines in the log.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Time without any peer after which a node that may follow from the genesis does so: it may be the first of its network.
const ALONE: Duration = Duration::from_secs(30);

/// Snapshot to fetch, and the place for it.
pub struct FetchSetup<'a> {
    pub genesis: &'a Genesis,
    pub data: &'a Path,
    /// See [`FetchConfig::only_if_ahead_by`].
    pub only_if_ahead_by: Option<u64>,
    /// See [`FetchConfig::trust`].
    pub trust: Option<TrustPoint>,
    /// Gets the progress.
    pub progress: &'a FetchProgress,
}

/// Progress of a fetch, for other threads. `None` before it begins.
pub type FetchProgress = watch::Sender<Option<Progress>>;

/// Source of a node that has nothing yet.
struct Nothing;

impl SnapshotSource for Nothing {
    fn certified(&self) -> Height {
        Height(0)
    }

    fn epoch_change(&self, _: Epoch) -> Option<EpochChange> {
        None
    }

    fn offers(&self) -> Vec<Offer> {
        Vec::new()
    }

    fn manifest_part(&self, _: &B256, _: u64, _: usize) -> Option<Bytes> {
        None
    }

    fn chunk(&self, _: &B256, _: u32) -> Option<Bytes> {
        None
    }

    fn code(&self, _: &B256) -> Option<Bytes> {
        None
    }

    fn tail_part(&self, _: &B256, _: u64, _: usize) -> Option<Bytes> {
        None
    }
}

type Answer = (RequestId, Result<Bytes, Failed>);

/// Fetches a snapshot into `snapshots/`, where the store finds it, or leaves the directory without one. A call after an interruption goes
/// on where it stopped. `connected` gets the peers that are connected at the end.
///
/// # Errors
///
/// The data directory cannot be used, the trusted block is too old, the disk fails, or the network ends.
pub async fn fetch_state(
    setup: FetchSetup<'_>,
    network: &NetworkHandle,
    events: &mut Events,
    connected: &mut Vec<Peer>,
) -> anyhow::Result<()> {
    let data = DataDirectory::new(setup.data);
    let _lock = data.claim()?;
    let mut installer = Installer::open(&setup, data)?;
    let mut fetch = installer.begin(&setup)?;
    tracing::info!(
        "the data directory is empty: looking for a snapshot of the state; [sync] mode in the configuration changes this"
    );
    let (answers, mut answered) = unbounded_channel();
    let mut reporter = Reporter::new(fetch.progress());
    loop {
        setup.progress.send_replace(Some(fetch.progress()));
        while let Some(output) = fetch.poll() {
            match output {
                Output::Ask { peer, id, request, timeout_ms } => {
                    ask(network, &answers, peer, (id, request), Duration::from_millis(timeout_ms));
                }
                Output::Ban { peer, reason } => {
                    tracing::warn!(peer = %PeerKey(peer.into()), reason, "a peer sent wrong state");
                    // Disconnects it.
                    network.penalise(PeerKey(peer.into()), Fault::Forged);
                }
                Output::Finished(target) => return installer.finish(&target, &reporter),
                Output::FollowFromGenesis { reason } => {
                    tracing::info!(reason, "following block by block from the genesis");
                    return installer.discard();
                }
                kept => installer.keep(&setup, kept)?,
            }
        }
        reporter.report(fetch.progress());
        if setup.only_if_ahead_by.is_some() && !reporter.has_had_peers && reporter.started.elapsed() > ALONE {
            tracing::info!("no peer answers: following block by block from the genesis once there is one");
            return installer.discard();
        }
        wait(&mut fetch, events, &mut answered, connected).await?;
    }
}

/// Waits for one thing to happen, and reports it.
async fn wait(
    fetch: &mut Fetch,
    events: &mut Events,
    answered: &mut UnboundedReceiver<Answer>,
    connected: &mut Vec<Peer>,
) -> anyhow::Result<()> {
    let now = clock::now();
    let until = fetch.deadline().map_or(REPORT_INTERVAL, |at| Duration::from_millis(at.0.saturating_sub(now.0)));
    tokio::select! {
        event = events.recv() => match event {
            Some(Event::PeerUp(peer)) => {
                tracing::info!(%peer, "connected");
                connected.push(peer);
                fetch.peer_up(clock::now(), peer.id.0.0);
            }
            Some(Event::PeerDown(peer)) => {
                tracing::info!(%peer, "disconnected");
                connected.retain(|other| other.id != peer.id);
                fetch.peer_down(clock::now(), &peer.id.0.0);
            }
            Some(Event::Request { bytes, reply, .. }) => {
                // Others learn that this node has nothing, instead of waiting for it.
                if let Some(request) = StateRequest::is_one(&bytes).then(|| StateRequest::decode(&bytes).ok()).flatten() {
                    reply.send(corniche_sync::serve(request, &Nothing).into());
                }
            }
            Some(Event::Message { .. }) => {}
            None => bail!("the network ended while the state was fetched"),
        },
        Some((id, result)) = answered.recv() => fetch.answered(clock::now(), id, result),
        () = tokio::time::sleep(until.min(REPORT_INTERVAL)) => fetch.tick(clock::now()),
    }
    Ok(())
}

fn ask(
    network: &NetworkHandle,
    answers: &UnboundedSender<Answer>,
    peer: PeerId,
    (id, request): (RequestId, StateRequest),
    timeout: Duration,
) {
    let answers = answers.clone();
    let response = network.request_within(PeerKey(peer.into()), request.encode().into(), timeout);
    tokio::spawn(async move {
        let result = response.await.map_err(|error| match error {
            RequestError::Refused | RequestError::Busy => Failed::Refused,
            RequestError::TimedOut => Failed::TimedOut,
            RequestError::NotConnected
            | RequestError::RequestTooLarge { .. }
            | RequestError::AnswerTooLarge { .. }
            | RequestError::Failed(_) => Failed::Unreachable,
        });
        // An error means that the sync has ended.
        let _ = answers.send((id, result));
    });
}

/// Checks the age of the trusted block, if this change has it.
fn check_age(setup: &FetchSetup<'_>, change: &EpochChange) -> anyhow::Result<()> {
    let point = setup.trust.filter(|point| point.epoch == change.certificate.epoch);
    point.map_or(Ok(()), |point| check_point(setup.genesis, point, change, clock::now()))
}

/// Writes what was fetched.
struct Installer {
    data: DataDirectory,
    draft: SnapshotDraft,
    /// Members of the newest committee that is kept.
    members: Vec<LightMember>,
}

impl Installer {
    fn open(setup: &FetchSetup<'_>, data: DataDirectory) -> anyhow::Result<Self> {
        let draft = SnapshotDraft::open(data.sync())?;
        Ok(Self { data, draft, members: epoch_log::first_members(setup.genesis) })
    }

    /// Begins, or goes on with what an earlier run kept.
    fn begin(&mut self, setup: &FetchSetup<'_>) -> anyhow::Result<Fetch> {
        let committees = self.kept_committees(setup)?;
        let Identity { chain_id, genesis_hash } = Identity::of(setup.genesis);
        let config = FetchConfig { chain_id, genesis_hash, trust: setup.trust, only_if_ahead_by: setup.only_if_ahead_by };
        let Some(kept) = self.kept_snapshot() else { return Ok(Fetch::new(config, committees, clock::now())) };
        let (chunks, codes) = (kept.chunks.len(), kept.codes.len());
        match Fetch::resume(config, committees.clone(), kept, clock::now()) {
            Ok(fetch) => {
                tracing::info!(chunks, codes, "continuing with the snapshot that was begun");
                Ok(fetch)
            }
            Err(error) => {
                tracing::warn!(%error, "the snapshot that was begun cannot be used; fetching another one");
                fs::remove_dir_all(self.data.sync()).context("cannot remove sync/")?;
                self.draft = SnapshotDraft::open(self.data.sync())?;
                Ok(Fetch::new(config, committees, clock::now()))
            }
        }
    }

    /// Committees of the genesis, and of the epoch changes that an earlier run kept.
    fn kept_committees(&mut self, setup: &FetchSetup<'_>) -> anyhow::Result<Committees> {
        let mut committees = Committees::new(CommitteeKeys::from_genesis(setup.genesis)?);
        for epoch in (0..).map(Epoch) {
            let change = self.data.read_epoch_change(epoch).and_then(|bytes| wire::decode::<EpochChange>(&bytes).ok());
            let Some(change) = change.filter(|change| committees.advance(change).is_ok()) else { break };
            let hash = change.certificate.header_hash;
            if setup.trust.is_some_and(|trust| trust.contradicts(epoch, hash)) {
                bail!(
                    "epochs/ has another end of epoch {epoch} than [sync] trust; remove epochs/ and sync/, or correct the point"
                );
            }
            check_age(setup, &change)?;
            if let Some(members) = change.members {
                self.members = members;
            }
        }
        Ok(committees)
    }

    /// Parts of a snapshot that an earlier run kept. Chunks and codes that an interruption damaged are not counted.
    fn kept_snapshot(&self) -> Option<Kept> {
        let bytes = self.draft.read_manifest()?;
        let manifest = Manifest::decode(&bytes).ok()?;
        let tail = Box::new(self.draft.read_tail()?);
        let is_kept = |(index, (info, prefix))| {
            let bytes = self.draft.read_chunk(index)?;
            Chunk::verify(&bytes, prefix, info).ok()?;
            u32::try_from(index).ok()
        };
        let chunks = manifest.chunks.iter().zip(manifest.prefixes()).enumerate().filter_map(is_kept).collect();
        let is_code = |hash: &B256| self.draft.read_code(hash).is_some_and(|code| keccak256(code) == *hash);
        let codes: BTreeSet<B256> = manifest.codes.iter().map(|code| code.hash).filter(is_code).collect();
        Some(Kept { manifest: bytes.into(), tail, chunks, codes })
    }

    fn keep(&mut self, setup: &FetchSetup<'_>, output: Output) -> anyhow::Result<()> {
        match output {
            Output::KeepChange(change) => {
                check_age(setup, &change)?;
                epoch_log::import(&self.data, &change, &mut self.members)?;
            }
            Output::Keep { manifest, tail, reused } => {
                // In this order: the chunks that are there always belong to the manifest that is there.
                let moves: Vec<_> = reused.iter().map(|Reused { from, to }| (*from as usize, *to as usize)).collect();
                self.draft.restart(&moves)?;
                self.draft.write_tail(&tail)?;
                self.draft.write_manifest(&manifest)?;
                let height = tail.height().0;
                tracing::info!(height, reused = reused.len(), "fetching a snapshot");
            }
            Output::KeepChunk { index, bytes } => self.draft.write_chunk(index as usize, &bytes)?,
            Output::KeepCode { hash, bytes } => self.draft.write_code(&hash, &bytes)?,
            Output::Ask { .. } | Output::Ban { .. } | Output::Finished(_) | Output::FollowFromGenesis { .. } => {}
        }
        Ok(())
    }

    fn finish(self, target: &Target, reporter: &Reporter) -> anyhow::Result<()> {
        self.draft.finish(&self.data, target.height)?;
        let seconds = reporter.started.elapsed().as_secs_f32();
        tracing::info!(height = target.height.0, seconds, "the snapshot is complete; following from here");
        Ok(())
    }

    fn discard(self) -> anyhow::Result<()> {
        Ok(self.draft.discard()?)
    }
}

/// Logs progress.
struct Reporter {
    started: Instant,
    reported: Instant,
    last: Progress,
    has_had_peers: bool,
}

impl Reporter {
    fn new(progress: Progress) -> Self {
        let now = Instant::now();
        Self { started: now, reported: now, last: progress, has_had_peers: false }
    }

    fn report(&mut self, progress: Progress) {
        self.has_had_peers |= progress.peers > 0;
        if progress.phase == self.last.phase && self.reported.elapsed() < REPORT_INTERVAL {
            return;
        }
        let seconds = self.reported.elapsed().as_secs_f64().max(0.001);
        let rate = (progress.bytes.0.saturating_sub(self.last.bytes.0) as f64 / seconds / 1e6 * 10.0).round() / 10.0;
        let Progress { phase, epoch, peers, chunks, codes, .. } = progress;
        tracing::info!(
            phase = phase.name(),
            epoch = epoch.0,
            peers,
            chunks = %format_args!("{}/{}", chunks.0, chunks.1),
            codes = %format_args!("{}/{}", codes.0, codes.1),
            megabytes_per_second = rate,
            "fetching the state"
        );
        (self.reported, self.last) = (Instant::now(), progress);
    }
}
