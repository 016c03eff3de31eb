//! Fetches and proves a tail and a manifest, before any chunk is requested (Y8).
//!
//! All parts of a tail come from one peer, and so do those of a manifest. So a wrong one is the fault of that peer.

use super::{Download, Fetch, FetchConfig, Output, PeerId, State, Trust, WrongManifest};
use crate::message::{Offer, PART_BYTES, StateRequest};
use crate::tail::{TailError, verify_tail};
use corniche_crypto::FinalityError;
use corniche_state::chunks::Manifest;
use corniche_types::{B256, Epoch, SnapshotTail, TimestampMs, keccak256, wire};
use std::collections::BTreeSet;

/// Most bytes of a manifest: 65,536 chunks and 2^20 codes have 40 MiB. The same for a tail: 65,536 headers have about 40 MB.
pub(super) const MAX_MANIFEST_BYTES: u32 = 48 << 20;
/// Most bytes of a chunk or a code: what the transport carries, less the frame.
const MAX_CONTENT_BYTES: u32 = (16 << 20) - 1_024;
/// Time without a valid tail or part after which the snapshot is set aside.
const STALLED_MS: u64 = 60_000;

/// A snapshot that is not proved yet.
pub(super) struct Joining {
    offer: Offer,
    offerers: BTreeSet<PeerId>,
    /// Verified.
    tail: Option<Box<SnapshotTail>>,
    /// Parts of the tail so far, or of the manifest once the tail is verified.
    bytes: Vec<u8>,
    /// Sender of these parts.
    source: Option<PeerId>,
    /// Peers that are not asked again.
    pub tried: BTreeSet<PeerId>,
    /// Peers whose tail needed later epochs. They are asked for these once.
    extended: BTreeSet<PeerId>,
    /// Time at which it is set aside.
    pub until: TimestampMs,
}

impl Joining {
    pub fn new(offer: Offer, offerers: BTreeSet<PeerId>, now: TimestampMs) -> Self {
        Self {
            offer,
            offerers,
            tail: None,
            bytes: Vec::new(),
            source: None,
            tried: BTreeSet::new(),
            extended: BTreeSet::new(),
            until: TimestampMs(now.0 + STALLED_MS),
        }
    }

    /// Returns whether this is the next part, from the peer that sent the ones before.
    fn expects(&self, peer: PeerId, part: u32) -> bool {
        self.source == Some(peer) && self.bytes.len() == part as usize * PART_BYTES
    }

    pub fn restart(&mut self, now: TimestampMs) {
        self.until = TimestampMs(now.0 + STALLED_MS);
    }
}

/// Checks a manifest against a final header.
pub(super) fn check(bytes: &[u8], config: &FetchConfig, offer: &Offer, state_root: &B256) -> Result<Manifest, WrongManifest> {
    let manifest = Manifest::decode(bytes)?;
    let found = (manifest.chain_id, manifest.genesis_hash, manifest.height, manifest.header_hash);
    if found != (config.chain_id, config.genesis_hash, offer.height, offer.header_hash) {
        return Err(WrongManifest::Other { height: offer.height });
    }
    manifest.verify(state_root)?;
    let most = MAX_CONTENT_BYTES;
    if let Some(code) = manifest.codes.iter().find(|code| code.length == 0 || code.length > most) {
        return Err(WrongManifest::Code { most, found: code.length });
    }
    if let Some(chunk) = manifest.chunks.iter().find(|chunk| chunk.bytes > most) {
        return Err(WrongManifest::Chunk { most, found: chunk.bytes });
    }
    Ok(manifest)
}

impl Fetch {
    pub(super) fn run_manifest(&mut self) -> bool {
        let State::Manifest(joining) = &mut self.state else { return false };
        let is_pending = |request: &StateRequest| matches!(request, StateRequest::Tail { .. } | StateRequest::Manifest { .. });
        let candidates: Vec<_> =
            joining.offerers.difference(&joining.tried).filter(|peer| self.peers.get(peer).is_some()).collect();
        if candidates.is_empty() || joining.until <= self.now {
            let offer = joining.offer;
            self.set_aside(offer);
            self.state = State::Offers;
            return true;
        }
        if self.peers.pending().any(is_pending) {
            return false;
        }
        let source = joining.source.filter(|source| candidates.contains(&source));
        let next = || self.peers.ready(self.now).into_iter().find(|peer| candidates.contains(&peer));
        let Some(peer) = source.or_else(next).filter(|peer| self.peers.is_ready(peer, self.now)) else { return false };
        if source.is_none() {
            joining.bytes = Vec::new();
            joining.source = Some(peer);
        }
        let hash = joining.offer.manifest;
        let part = (joining.bytes.len() / PART_BYTES) as u32;
        let request = match &joining.tail {
            None => StateRequest::Tail { manifest: hash, part },
            Some(_) => StateRequest::Manifest { hash, part },
        };
        self.ask(peer, request, PART_BYTES as u64);
        false
    }

    /// Does not ask this peer again for the tail and manifest.
    pub(super) fn skip_for_manifest(&mut self, peer: PeerId, hash: B256) {
        if let Some(joining) = self.joining(hash) {
            joining.tried.insert(peer);
        }
    }

    fn joining(&mut self, hash: B256) -> Option<&mut Joining> {
        match &mut self.state {
            State::Manifest(joining) if joining.offer.manifest == hash => Some(joining),
            _ => None,
        }
    }

    pub(super) fn on_tail_part(&mut self, peer: PeerId, hash: B256, part: u32, bytes: &[u8]) {
        let now = self.now;
        let Some(joining) = self.joining(hash).filter(|joining| joining.tail.is_none() && joining.expects(peer, part)) else {
            return;
        };
        joining.bytes.extend_from_slice(bytes);
        joining.restart(now);
        let is_too_long = bytes.len() > PART_BYTES || joining.bytes.len() > MAX_MANIFEST_BYTES as usize;
        if bytes.len() == PART_BYTES && !is_too_long {
            return;
        }
        let tail = std::mem::take(&mut joining.bytes);
        if is_too_long {
            return self
                .ban(peer, format!("tail: expected parts of at most {PART_BYTES} bytes, got {} bytes in all", tail.len()));
        }
        match wire::decode(&tail) {
            Ok(tail) => self.on_tail(peer, hash, Box::new(tail)),
            Err(error) => self.ban(peer, format!("tail: {error}")),
        }
    }

    fn on_tail(&mut self, peer: PeerId, hash: B256, tail: Box<SnapshotTail>) {
        let (now, newest) = (self.now, self.committees.newest().epoch());
        let Some(Offer { height, header_hash, .. }) = self.joining(hash).map(|joining| joining.offer) else { return };
        let epoch = tail.certificate.epoch;
        match verify_tail(&tail, &self.committees, height, header_hash) {
            Ok(()) => {
                if let Some(joining) = self.joining(hash) {
                    joining.tail = Some(tail);
                    joining.restart(now);
                }
            }
            // From before the trusted block. It may be right, but cannot be proved here.
            Err(TailError::Finality(FinalityError::UnknownEpoch(_))) if epoch < newest => self.skip_for_manifest(peer, hash),
            Err(TailError::Finality(FinalityError::UnknownEpoch(_))) if self.is_first_of(peer, hash) => {
                self.extend_trust(peer, epoch)
            }
            Err(error) => self.ban(peer, error.to_string()),
        }
    }

    /// Records that a peer's tail needs later epochs; returns whether it is the first time.
    fn is_first_of(&mut self, peer: PeerId, hash: B256) -> bool {
        self.joining(hash).is_some_and(|joining| joining.extended.insert(peer))
    }

    fn extend_trust(&mut self, peer: PeerId, epoch: Epoch) {
        if let State::Manifest(joining) = std::mem::replace(&mut self.state, State::Offers) {
            self.state = State::Trust(Trust::for_tail(peer, epoch, joining));
        }
    }

    pub(super) fn on_part(&mut self, peer: PeerId, hash: B256, part: u32, bytes: &[u8]) {
        let now = self.now;
        let Some(joining) = self.joining(hash) else { return };
        let whole = joining.offer.manifest_bytes as usize;
        if joining.tail.is_none() || !joining.expects(peer, part) {
            return;
        }
        let expected = PART_BYTES.min(whole - joining.bytes.len());
        if bytes.len() != expected {
            let reason = format!("manifest: expected a part of {expected} bytes, got {}", bytes.len());
            return self.ban(peer, reason);
        }
        joining.bytes.extend_from_slice(bytes);
        joining.restart(now);
        if joining.bytes.len() < whole {
            return;
        }
        let found = keccak256(&joining.bytes);
        if found != hash {
            joining.bytes = Vec::new();
            return self.ban(peer, format!("manifest: expected hash {hash}, got {found}"));
        }
        self.on_manifest();
    }

    /// The manifest is complete and has the offered hash.
    fn on_manifest(&mut self) {
        let State::Manifest(joining) = std::mem::replace(&mut self.state, State::Offers) else { return };
        let Joining { offer, offerers, tail: Some(tail), bytes, .. } = *joining else { return };
        let state_root = tail.header.0.state_root;
        match check(&bytes, &self.config, &offer, &state_root) {
            Ok(manifest) => {
                let reused = self.start_download(manifest, offer, state_root);
                self.set_offerers(offerers);
                self.outputs.push_back(Output::Keep { manifest: bytes.into(), tail, reused });
            }
            Err(error) => self.refuse_and_ban(offer, offerers, &format!("offered a wrong {error}")),
        }
    }

    /// Refuses a snapshot that is proved wrong, and bans the peers that offer it: honest ones check before they offer.
    pub(super) fn refuse_and_ban(&mut self, offer: Offer, offerers: BTreeSet<PeerId>, reason: &str) {
        self.refuse(offer);
        for peer in offerers.into_iter().filter(|peer| self.peers.get(peer).is_some()).collect::<Vec<_>>() {
            self.ban(peer, reason.to_owned());
        }
    }

    /// Begins with the chunks of a proved manifest. Returns those that are kept already.
    fn start_download(&mut self, manifest: Manifest, offer: Offer, state_root: B256) -> Vec<super::Reused> {
        let (download, reused) = match self.download.take() {
            None => (Download::new(manifest, offer, state_root, self.now, BTreeSet::new(), &BTreeSet::new()), Vec::new()),
            Some(before) => before.switch(manifest, offer, state_root, self.now),
        };
        self.download = Some(download);
        self.continue_download();
        reused
    }

    /// Remembers the peers that answer for the manifest.
    fn set_offerers(&mut self, offerers: BTreeSet<PeerId>) {
        if let Some(download) = &mut self.download {
            download.offerers = offerers;
        }
    }

    /// Fetches the chunks of the manifest that is proved.
    pub(super) fn continue_download(&mut self) {
        self.offers.finish(&mut self.peers);
        self.peers.iter_mut().for_each(|peer| (peer.lacks_chunks, peer.lacks_codes) = (false, false));
        if let Some(download) = &mut self.download {
            download.begin_window(self.now);
        }
        self.state = State::Chunks;
    }
}
