//! The state machine of a node that syncs.
//!
//! Each phase has a file. `run` lets the phase do what it can, until nothing changes. A phase knows only what is under way from the table
//! of pending requests, so a request that ends in any way needs no clean-up: the phase sends the next one.
//!
//! | what a peer does | consequence |
//! |---|---|
//! | sends what is never valid | banned |
//! | does not have it | not asked for it again |
//! | is busy | not asked before the time it names, at most 30 s |
//! | refuses, fails or is late | asked again after a pause, which doubles; asked for fewer chunks if it was late |
//!
//! A manifest whose hash is right but which does not fold to the final header is the fault of all peers that offer it: honest nodes check
//! a snapshot before they offer it. A manifest that is wrong in what the fold does not cover (lengths, codes) is found out by its first
//! contradiction. Honest peers do not have it, so they are never asked for its chunks with success, and never blamed.

mod chunks;
mod manifest;
mod offers;
mod peers;
mod trust;
mod work;

use crate::message::{Offer, StateRequest, StateResponse};
use crate::tail::{TailError, verify_tail};
use chunks::Download;
use corniche_crypto::Committees;
use corniche_state::chunks::ManifestError;
use corniche_types::{B256, Bytes, Epoch, EpochChange, Height, SnapshotTail, TimestampMs, TrustPoint};
use manifest::Joining;
use offers::Offers;
use peers::{Peers, Pending};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use trust::Trust;

/// A peer's public key.
pub type PeerId = [u8; 32];

/// Time for a response, without its bytes.
const RESPONSE_MS: u64 = 5_000;
/// Slowest rate at which a peer may send: 64 kB/s.
const BYTES_PER_MS: u64 = 64;
/// Time without anything useful from any peer, after which a node follows from the genesis, or gives a snapshot up.
const PATIENCE_MS: u64 = 120_000;
/// Time for which a snapshot that made no progress is not chosen again.
const ASIDE_MS: u64 = 60_000;
/// Times that a snapshot can make no progress before it is never chosen again.
const MAX_STALLS: u32 = 3;
/// Most snapshots that are remembered as wrong.
const MAX_REFUSED: usize = 1_024;

/// Number of a request, which is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Why a request has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The peer refused it, or does not know such requests.
    Refused,
    /// The transport gave up after its own timeout. The peer gets smaller requests.
    TimedOut,
    /// The connection failed, or the request could not be sent.
    Unreachable,
}

/// Identity of the chain, and when the node syncs by a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct FetchConfig {
    /// Id of the chain.
    pub chain_id: u64,
    /// Hash of the genesis.
    pub genesis_hash: B256,
    /// The last block of an epoch that must be in the chain. Nothing of an earlier epoch is believed without it.
    pub trust: Option<TrustPoint>,
    /// Most blocks for which following from the genesis is preferred, by the highest certified block among the peers: 20,000 by default.
    /// `None`: a snapshot is preferred always.
    pub only_if_ahead_by: Option<u64>,
}

/// The proved state that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The block after which the state is.
    pub height: Height,
    /// Hash of that block's header.
    pub header_hash: B256,
    /// State root in that header, to which the chunks fold.
    pub state_root: B256,
    /// keccak-256 of the manifest.
    pub manifest: B256,
}

/// A chunk that the manifest before has as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reused {
    /// Position in the manifest before.
    pub from: u32,
    /// Position in the new manifest.
    pub to: u32,
}

/// Work for the caller, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send the request, and report its response or failure to [`Fetch::answered`].
    Ask {
        /// Receiver.
        peer: PeerId,
        /// Number to report.
        id: RequestId,
        /// Content.
        request: StateRequest,
        /// Milliseconds until the request is given up. The transport must allow as many.
        timeout_ms: u64,
    },
    /// Disconnect and ban the peer. It is forgotten here, like after [`Fetch::peer_down`].
    Ban {
        /// Sender of something that is never valid.
        peer: PeerId,
        /// Description of the wrong content.
        reason: String,
    },
    /// Keep an epoch change. It is verified, and they come in order without a gap.
    KeepChange(Box<EpochChange>),
    /// Keep a proved manifest and its tail. Chunk files of a manifest that was kept before are its own only if they are in `reused`: rename
    /// these to the new positions, and delete all others. Codes stay, because their names are their hashes.
    Keep {
        /// Encoded manifest.
        manifest: Bytes,
        /// Its verified tail.
        tail: Box<SnapshotTail>,
        /// Chunks to rename, by ascending new position.
        reused: Vec<Reused>,
    },
    /// Keep a verified chunk of the manifest that was kept last.
    KeepChunk {
        /// Position in the manifest.
        index: u32,
        /// Encoded chunk.
        bytes: Bytes,
    },
    /// Keep a verified code.
    KeepCode {
        /// Its keccak-256.
        hash: B256,
        /// The code.
        bytes: Bytes,
    },
    /// All chunks and codes of the manifest that was kept last are kept. Install them. This is the last output.
    Finished(Target),
    /// Follow blocks from the genesis instead. This is the last output.
    FollowFromGenesis {
        /// Reason for the log.
        reason: String,
    },
}

/// Parts that an earlier run kept. The caller has verified each chunk file by [`Chunk::verify`](corniche_state::chunks::Chunk::verify) against this
/// manifest, and each code by its hash. A checksum is not enough: a power cut during [`Output::Keep`] may leave a file under the position
/// that it had in the manifest before.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Encoded manifest.
    pub manifest: Bytes,
    /// Its tail.
    pub tail: Box<SnapshotTail>,
    /// Positions of the kept chunks.
    pub chunks: BTreeSet<u32>,
    /// Hashes of the kept codes.
    pub codes: BTreeSet<B256>,
}

/// Why a sync cannot go on with what was kept. Delete it and start with [`Fetch::new`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ResumeError {
    /// The tail is invalid, or the epoch changes up to its epoch were not kept.
    #[error("kept {0}")]
    Tail(#[from] TailError),
    /// The manifest is invalid, or another one than the tail proves.
    #[error("kept {0}")]
    Manifest(#[from] WrongManifest),
}

/// Why a manifest is not the one that a tail proves.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WrongManifest {
    /// It is malformed, or does not fold to the state root.
    #[error("{0}")]
    Manifest(#[from] ManifestError),
    /// It is for another chain or block.
    #[error("manifest: expected that of block {height} of this chain")]
    Other {
        /// Height of the block.
        height: Height,
    },
    /// A code is empty, or too large for a response.
    #[error("manifest: expected codes of 1 to {most} bytes, got {found}")]
    Code {
        /// Most bytes of a code.
        most: u32,
        /// Bytes in the manifest.
        found: u32,
    },
    /// A chunk is too large for a response.
    #[error("manifest: expected chunks of at most {most} bytes, got {found}")]
    Chunk {
        /// Most bytes of a chunk.
        most: u32,
        /// Bytes in the manifest.
        found: u32,
    },
}

/// Name of what a sync does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Fetches epoch changes.
    Trust,
    /// Chooses a snapshot.
    Offers,
    /// Fetches its tail and manifest.
    Manifest,
    /// Fetches its chunks and codes.
    Chunks,
    /// Is finished, or follows from the genesis.
    Ended,
}

impl Phase {
    /// Returns the name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Offers => "offers",
            Self::Manifest => "manifest",
            Self::Chunks => "chunks",
            Self::Ended => "ended",
        }
    }
}

/// Progress of a sync, for logs and metrics. Totals are 0 before the manifest is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Newest epoch whose committee is known.
    pub epoch: Epoch,
    /// Connected peers.
    pub peers: usize,
    /// Block of the snapshot.
    pub height: Option<Height>,
    /// Chunks that are kept, and all.
    pub chunks: (usize, usize),
    /// Chunks that are requested and not kept yet.
    pub chunks_under_way: usize,
    /// Bytes of chunks that are kept, and all.
    pub bytes: (u64, u64),
    /// Codes that are kept, and all.
    pub codes: (usize, usize),
}

/// A sync under way. Report everything that happens, then drain [`Self::poll`]; call [`Self::tick`] at [`Self::deadline`].
pub struct Fetch {
    config: FetchConfig,
    committees: Committees,
    now: TimestampMs,
    peers: Peers,
    state: State,
    offers: Offers,
    /// Set once a manifest is proved. Stays while another snapshot is looked for, so that equal chunks are kept.
    download: Option<Download>,
    /// Offers that were proved wrong, or made no progress too often.
    refused: BTreeSet<Offer>,
    /// Offers that made no progress.
    aside: BTreeMap<Offer, Aside>,
    outputs: VecDeque<Output>,
}

/// An offer that made no progress.
#[derive(Clone, Copy, Default)]
struct Aside {
    /// Time at which it may be chosen again.
    until: TimestampMs,
    /// How often in a row it made none.
    stalls: u32,
}

enum State {
    Trust(Trust),
    Offers,
    Manifest(Box<Joining>),
    Chunks,
    Ended,
}

impl Fetch {
    /// Starts with nothing but trusted committees: those of the genesis, or of a trusted block, and of later epochs that are kept.
    pub fn new(config: FetchConfig, committees: Committees, now: TimestampMs) -> Self {
        Self {
            config,
            committees,
            now,
            peers: Peers::default(),
            state: State::Trust(Trust::default()),
            offers: Offers::default(),
            download: None,
            refused: BTreeSet::new(),
            aside: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Goes on with what an earlier run kept: only chunks and codes that are missing are fetched.
    ///
    /// # Errors
    ///
    /// The manifest or its tail is not one that these committees prove.
    pub fn resume(config: FetchConfig, committees: Committees, kept: Kept, now: TimestampMs) -> Result<Self, ResumeError> {
        let mut fetch = Self::new(config, committees, now);
        let offer = Offer {
            height: kept.tail.height(),
            header_hash: corniche_types::header_hash(&kept.tail.header.0),
            manifest: corniche_types::keccak256(&kept.manifest),
            manifest_bytes: u32::try_from(kept.manifest.len()).unwrap_or(u32::MAX),
        };
        verify_tail(&kept.tail, &fetch.committees, offer.height, offer.header_hash)?;
        let manifest = manifest::check(&kept.manifest, &config, &offer, &kept.tail.header.0.state_root)?;
        fetch.download = Some(Download::new(manifest, offer, kept.tail.header.0.state_root, now, kept.chunks, &kept.codes));
        fetch.state = State::Chunks;
        fetch.run();
        Ok(fetch)
    }

    /// A peer connected.
    pub fn peer_up(&mut self, now: TimestampMs, peer: PeerId) {
        self.peers.add(peer);
        self.tick(now);
    }

    /// A peer disconnected. Its requests need no further report.
    pub fn peer_down(&mut self, now: TimestampMs, peer: &PeerId) {
        self.now = self.now.max(now);
        if let Some(pending) = self.peers.remove(peer) {
            self.put_back(&pending);
        }
        self.run();
    }

    /// A request ended. Requests that were given up are ignored.
    pub fn answered(&mut self, now: TimestampMs, id: RequestId, result: Result<Bytes, Failed>) {
        self.now = self.now.max(now);
        self.expire();
        if let Some(pending) = self.peers.finish(id) {
            match result {
                Ok(bytes) => self.receive(pending, &bytes),
                Err(failed) => self.fail(&pending, failed),
            }
        }
        self.run();
    }

    /// Handles deadlines.
    pub fn tick(&mut self, now: TimestampMs) {
        self.now = self.now.max(now);
        self.expire();
        self.run();
    }

    /// Returns the next thing that the caller owes.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Time of the next [`Self::tick`], if nothing else happens. It is later than the last reported time.
    pub fn deadline(&self) -> Option<TimestampMs> {
        let phase = match &self.state {
            State::Ended => return None,
            State::Trust(trust) => trust.deadline(),
            State::Offers => self.offers.deadline(&self.peers, self.now),
            State::Manifest(joining) => Some(joining.until),
            State::Chunks => self.download.as_ref().map(Download::deadline),
        };
        let later = |at: &TimestampMs| *at > self.now;
        [phase.filter(later), self.peers.deadline(self.now)].into_iter().flatten().min()
    }

    /// Returns the known committees.
    pub fn committees(&self) -> &Committees {
        &self.committees
    }

    /// Returns how far the sync is.
    pub fn progress(&self) -> Progress {
        let download = self.download.as_ref();
        Progress {
            phase: match self.state {
                State::Trust(_) => Phase::Trust,
                State::Offers => Phase::Offers,
                State::Manifest(_) => Phase::Manifest,
                State::Chunks => Phase::Chunks,
                State::Ended => Phase::Ended,
            },
            epoch: self.committees.newest().epoch(),
            peers: self.peers.len(),
            height: download.map(|download| download.offer.height),
            chunks: download.map_or((0, 0), |download| download.chunks.progress()),
            chunks_under_way: download.map_or(0, |download| download.chunks.under_way()),
            bytes: download.map_or((0, 0), Download::bytes),
            codes: download.map_or((0, 0), |download| download.codes.progress()),
        }
    }

    /// Lets the phase do what it can, until nothing changes.
    fn run(&mut self) {
        while match self.state {
            State::Trust(_) => self.run_trust(),
            State::Offers => self.run_offers(),
            State::Manifest(_) => self.run_manifest(),
            State::Chunks => self.run_chunks(),
            State::Ended => false,
        } {}
    }

    fn receive(&mut self, pending: Pending, bytes: &[u8]) {
        use {StateRequest as Q, StateResponse as R};
        let peer = pending.peer;
        let response = match StateResponse::decode(bytes) {
            Ok(response) => response,
            Err(error) => {
                self.put_back(&pending);
                return self.ban(peer, format!("response: {error}"));
            }
        };
        if !matches!(response, R::Busy { .. }) {
            self.peers.record_success(&peer);
        }
        match (&pending.request, response) {
            (_, R::Busy { ms }) => {
                self.peers.pause(&peer, self.now, ms);
                self.put_back(&pending);
            }
            (Q::EpochChanges { .. }, R::EpochChanges(changes)) => self.on_changes(peer, changes),
            (Q::Snapshots, R::Snapshots { certified, offers }) => self.peers.record_offers(&peer, certified, offers),
            (Q::Tail { manifest, part }, R::Part(bytes)) => self.on_tail_part(peer, *manifest, *part, &bytes),
            (Q::Manifest { hash, part }, R::Part(bytes)) => self.on_part(peer, *hash, *part, &bytes),
            (Q::Tail { manifest: hash, .. } | Q::Manifest { hash, .. }, R::NotHere) => self.skip_for_manifest(peer, *hash),
            (Q::Chunks { manifest, .. }, R::NotHere) => self.on_no_chunks(peer, *manifest, &pending),
            (Q::Chunks { manifest, indexes }, R::Chunks(chunks)) => self.on_chunks(peer, *manifest, indexes, chunks),
            (Q::Codes { hashes }, R::Codes(codes)) => self.on_codes(peer, hashes, codes),
            // It has no data of this kind, which is no fault.
            (_, R::NotHere) => self.fail(&pending, Failed::Refused),
            (request, _) => {
                let reason = format!("response of another kind than the request {request:.80?}");
                self.put_back(&pending);
                self.ban(peer, reason);
            }
        }
    }

    /// A request ended without a response.
    fn fail(&mut self, pending: &Pending, failed: Failed) {
        self.peers.record_failure(&pending.peer, self.now, failed);
        if let StateRequest::Tail { manifest: hash, .. } | StateRequest::Manifest { hash, .. } = pending.request {
            self.skip_for_manifest(pending.peer, hash);
        }
        self.put_back(pending);
    }

    /// Gives up requests that are late.
    fn expire(&mut self) {
        for pending in self.peers.take_late(self.now) {
            self.fail(&pending, Failed::TimedOut);
        }
    }

    /// Bans the peer, and puts back what was asked of it.
    fn ban(&mut self, peer: PeerId, reason: String) {
        if let Some(pending) = self.peers.remove(&peer) {
            self.put_back(&pending);
        }
        self.outputs.push_back(Output::Ban { peer, reason });
    }

    /// Asks a peer that is idle.
    fn ask(&mut self, peer: PeerId, request: StateRequest, expected_bytes: u64) {
        let timeout_ms = RESPONSE_MS + expected_bytes / BYTES_PER_MS;
        let id = self.peers.start(peer, request.clone(), TimestampMs(self.now.0 + timeout_ms), self.now);
        self.outputs.push_back(Output::Ask { peer, id, request, timeout_ms });
    }

    /// Remembers that an offer is wrong, from any peer.
    fn refuse(&mut self, offer: Offer) {
        self.refused.insert(offer);
        if self.refused.len() > MAX_REFUSED {
            // The lowest, because the newest is chosen.
            self.refused.pop_first();
        }
    }

    /// Does not choose this snapshot for some time. So peers that offer one without serving it hold up the sync only a few times.
    /// The same holds for peers that always offer another one.
    fn set_aside(&mut self, offer: Offer) {
        for peer in self.peers.iter_mut() {
            peer.stalls += u32::from(peer.offers.iter().any(|(_, offers)| offers.contains(&offer)));
        }
        let stalls = self.aside.get(&offer).map_or(0, |aside| aside.stalls) + 1;
        if stalls >= MAX_STALLS {
            self.aside.remove(&offer);
            return self.refuse(offer);
        }
        self.aside.insert(offer, Aside { until: TimestampMs(self.now.0 + ASIDE_MS), stalls });
        if self.aside.len() > MAX_REFUSED {
            self.aside.pop_first();
        }
    }

    fn follow_from_genesis(&mut self, reason: String) -> bool {
        self.end(Output::FollowFromGenesis { reason })
    }

    fn end(&mut self, output: Output) -> bool {
        self.outputs.push_back(output);
        self.state = State::Ended;
        true
    }
}
