//! Fetches the chunks and codes of a proved manifest (Y9, Y10).

use super::work::{Limit, Work};
use super::{Fetch, Output, PATIENCE_MS, PeerId, Pending, Reused, State, Target};
use crate::message::{MAX_CODES, MAX_RESPONSE_BYTES, Offer, StateRequest};
use corniche_state::chunks::{Chunk, Entry, Manifest, Prefix};
use corniche_types::{B256, Bytes, KECCAK_EMPTY, TimestampMs, keccak256};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that must come in a window of [`PATIENCE_MS`]: half of what the slowest peer that is not late sends. Otherwise peers that offer a
/// snapshot which nobody else has could hold the sync up with a chunk now and then.
const MIN_WINDOW_BYTES: u64 = PATIENCE_MS * 32;
/// Most peers with requests for chunks and codes.
const MAX_ASKED_PEERS: usize = 16;

/// A proved snapshot, and what of it is kept.
pub(super) struct Download {
    pub offer: Offer,
    /// Peers that offered it when it was chosen. None after a restart.
    pub offerers: BTreeSet<PeerId>,
    state_root: B256,
    manifest: Manifest,
    prefixes: Vec<Prefix>,
    pub chunks: Work,
    pub codes: Work,
    /// Bytes of the kept chunks.
    kept_bytes: u64,
    /// Beginning of the running window of [`PATIENCE_MS`].
    window: TimestampMs,
    /// Bytes of chunks and codes that came in this window.
    received: u64,
}

/// Contradiction in a manifest, found by something that is proved.
enum Contradiction {
    /// An account in this chunk has a code that is not listed.
    CodeMissing(B256),
    /// A code has another length.
    CodeLength(B256),
}

impl Download {
    pub fn new(
        manifest: Manifest,
        offer: Offer,
        state_root: B256,
        now: TimestampMs,
        chunks: impl IntoIterator<Item = u32>,
        codes: &BTreeSet<B256>,
    ) -> Self {
        let chunks = Work::new(manifest.chunks.len(), chunks);
        let kept_codes =
            (0..).zip(&manifest.codes).filter(|(_, code)| codes.contains(&code.hash)).map(|(position, _)| position);
        let codes = Work::new(manifest.codes.len(), kept_codes);
        let kept_bytes = chunks.kept().iter().map(|index| u64::from(manifest.chunks[*index as usize].bytes)).sum();
        let prefixes = manifest.prefixes();
        Self {
            offer,
            offerers: BTreeSet::new(),
            state_root,
            manifest,
            prefixes,
            chunks,
            codes,
            kept_bytes,
            window: now,
            received: 0,
        }
    }

    /// Goes on with another manifest. Keeps all codes, and the chunks with equal prefix, kind and hash.
    pub fn switch(self, manifest: Manifest, offer: Offer, state_root: B256, now: TimestampMs) -> (Self, Vec<Reused>) {
        let codes: BTreeSet<_> =
            self.codes.kept().iter().map(|position| self.manifest.codes[*position as usize].hash).collect();
        let reused = self.reused(&manifest);
        let next = Self::new(manifest, offer, state_root, now, reused.iter().map(|chunk| chunk.to), &codes);
        (next, reused)
    }

    /// Kept chunks that another manifest has as well.
    fn reused(&self, next: &Manifest) -> Vec<Reused> {
        // The accounts in kept chunks have codes of this manifest. If the next one lists all of them, no chunk needs to be read again.
        let listed: BTreeSet<_> = next.codes.iter().map(|code| code.hash).collect();
        if !self.manifest.codes.iter().all(|code| listed.contains(&code.hash)) {
            return Vec::new();
        }
        let kept: BTreeMap<_, _> = self.chunks.kept().iter().map(|index| (self.prefixes[*index as usize], *index)).collect();
        let next_chunks = (0..).zip(next.prefixes()).zip(&next.chunks);
        let equal = next_chunks.filter_map(|((to, prefix), chunk)| {
            let from = *kept.get(&prefix)?;
            // Number of entries and bytes follow from the hash. A manifest with others is wrong, and so is any chunk that fits it.
            (self.manifest.chunks[from as usize] == *chunk).then_some(Reused { from, to })
        });
        equal.collect()
    }

    /// Begins a window, in which enough must come.
    pub fn begin_window(&mut self, now: TimestampMs) {
        (self.window, self.received) = (now, 0);
    }

    /// End of the running window.
    pub fn deadline(&self) -> TimestampMs {
        TimestampMs(self.window.0 + PATIENCE_MS)
    }

    /// Bytes of the kept chunks, and of all.
    pub fn bytes(&self) -> (u64, u64) {
        (self.kept_bytes, self.manifest.chunk_bytes())
    }

    fn target(&self) -> Target {
        let Offer { height, header_hash, manifest, .. } = self.offer;
        Target { height, header_hash, state_root: self.state_root, manifest }
    }

    fn is_done(&self) -> bool {
        self.chunks.is_done() && self.codes.is_done()
    }

    fn code_position(&self, hash: &B256) -> Option<u32> {
        let position = self.manifest.codes.binary_search_by_key(hash, |code| code.hash).ok()?;
        u32::try_from(position).ok()
    }

    /// Takes chunks or codes for a request to a peer, with their bytes. Codes come first: a wrong list of codes is found early.
    fn take(&mut self, peer: PeerId, wants: Wants) -> Option<(StateRequest, u64)> {
        let Self { manifest, chunks, codes, offer, .. } = self;
        let code_bytes = |position: u32| u64::from(manifest.codes[position as usize].length);
        let chunk_bytes = |index: u32| u64::from(manifest.chunks[index as usize].bytes);
        let bytes = MAX_RESPONSE_BYTES as u64;
        let code_limit = Limit { items: if wants.codes { MAX_CODES } else { 0 }, bytes };
        let chunk_limit = Limit { items: wants.chunks, bytes };
        let mut taken_codes = codes.take(peer, code_limit, code_bytes);
        let mut taken = Vec::new();
        if taken_codes.is_empty() {
            taken = chunks.take(peer, chunk_limit, chunk_bytes);
        }
        if taken_codes.is_empty() && taken.is_empty() {
            taken_codes = codes.take_second(peer, code_limit, code_bytes);
        }
        if !taken_codes.is_empty() {
            let hashes = taken_codes.iter().map(|position| manifest.codes[*position as usize].hash).collect();
            return Some((StateRequest::Codes { hashes }, taken_codes.into_iter().map(code_bytes).sum()));
        }
        if taken.is_empty() {
            taken = chunks.take_second(peer, chunk_limit, chunk_bytes);
        }
        let expected = taken.iter().copied().map(chunk_bytes).sum();
        (!taken.is_empty()).then_some((StateRequest::Chunks { manifest: offer.manifest, indexes: taken }, expected))
    }

    /// Verifies a chunk. Checks that the codes of its accounts are listed.
    fn verify(&self, index: u32, bytes: &[u8]) -> Result<Option<Contradiction>, String> {
        let position = index as usize;
        let chunk = Chunk::verify(bytes, self.prefixes[position], &self.manifest.chunks[position]);
        let chunk = chunk.map_err(|error| format!("{error} (chunk {index})"))?;
        let codes = chunk.entries.iter().filter_map(|entry| match entry {
            Entry::Account(_, account) if account.code_hash != KECCAK_EMPTY => Some(account.code_hash),
            _ => None,
        });
        Ok(codes.into_iter().find(|hash| self.code_position(hash).is_none()).map(Contradiction::CodeMissing))
    }
}

/// Items to request from a peer.
#[derive(Clone, Copy)]
struct Wants {
    codes: bool,
    /// Most chunks.
    chunks: usize,
}

impl Fetch {
    pub(super) fn run_chunks(&mut self) -> bool {
        let now = self.now;
        let Some(download) = &mut self.download else { return false };
        if download.is_done() {
            let target = download.target();
            return self.end(Output::Finished(target));
        }
        if self.peers.len() == 0 {
            // Without peers no snapshot makes progress.
            download.begin_window(now);
            return false;
        }
        if download.deadline() <= now && download.received >= MIN_WINDOW_BYTES {
            self.aside.remove(&download.offer);
            download.begin_window(now);
        }
        if download.deadline() <= now || self.is_gone() {
            return self.leave_snapshot();
        }
        let is_work = |request: &&StateRequest| matches!(request, StateRequest::Chunks { .. } | StateRequest::Codes { .. });
        let mut asked = self.peers.pending().filter(is_work).count();
        for peer in self.peers.ready(now) {
            if asked >= MAX_ASKED_PEERS {
                break;
            }
            let (Some(download), Some(state)) = (&mut self.download, self.peers.get(&peer)) else { continue };
            let wants = Wants { codes: !state.lacks_codes, chunks: if state.lacks_chunks { 0 } else { state.share } };
            if let Some((request, expected_bytes)) = download.take(peer, wants) {
                self.ask(peer, request, expected_bytes);
                asked += 1;
            }
        }
        false
    }

    /// Returns whether no connected peer has what is missing.
    fn is_gone(&self) -> bool {
        let Some(download) = &self.download else { return false };
        let lacks_chunks = !download.chunks.is_done() && self.peers.iter().all(|(_, peer)| peer.lacks_chunks);
        let lacks_codes = !download.codes.is_done() && self.peers.iter().all(|(_, peer)| peer.lacks_codes);
        lacks_chunks || lacks_codes
    }

    /// Looks for another snapshot, and keeps what was fetched.
    fn leave_snapshot(&mut self) -> bool {
        let Some(download) = &mut self.download else { return false };
        download.chunks.stop();
        download.codes.stop();
        let offer = download.offer;
        self.set_aside(offer);
        self.offers.finish(&mut self.peers);
        self.state = State::Offers;
        true
    }

    /// The chunks and codes of a request that ended are missing again.
    pub(super) fn put_back(&mut self, pending: &Pending) {
        let Some(download) = &mut self.download else { return };
        match &pending.request {
            StateRequest::Chunks { manifest, indexes } if *manifest == download.offer.manifest => {
                download.chunks.put_back(&pending.peer, indexes.iter().copied());
            }
            StateRequest::Codes { hashes } => {
                let positions: Vec<_> = hashes.iter().filter_map(|hash| download.code_position(hash)).collect();
                download.codes.put_back(&pending.peer, positions);
            }
            _ => {}
        }
    }

    pub(super) fn on_no_chunks(&mut self, peer: PeerId, manifest: B256, pending: &Pending) {
        self.put_back(pending);
        if self.is_current(manifest)
            && let Some(peer) = self.peers.get_mut(&peer)
        {
            peer.lacks_chunks = true;
        }
    }

    /// Returns whether chunks of this manifest are wanted. Others are of a snapshot that was left.
    fn is_current(&self, manifest: B256) -> bool {
        matches!(self.state, State::Chunks)
            && self.download.as_ref().is_some_and(|download| download.offer.manifest == manifest)
    }

    pub(super) fn on_chunks(&mut self, peer: PeerId, manifest: B256, indexes: &[u32], chunks: Vec<Bytes>) {
        if !self.is_current(manifest) {
            return;
        }
        if let Some(download) = &mut self.download {
            // Those that the response does not have are missing again, and those that it has follow.
            download.chunks.put_back(&peer, indexes.iter().copied());
        }
        if chunks.is_empty() || chunks.len() > indexes.len() {
            return self.ban(peer, format!("chunks: expected 1 to {}, got {}", indexes.len(), chunks.len()));
        }
        for (index, bytes) in indexes.iter().copied().zip(chunks) {
            let Some(download) = self.download.as_mut().filter(|download| !download.chunks.is_kept(index)) else { continue };
            match download.verify(index, &bytes) {
                Ok(None) => {
                    download.chunks.keep(index);
                    if let Some(peer) = self.peers.get_mut(&peer) {
                        peer.stalls = 0;
                    }
                    download.kept_bytes += bytes.len() as u64;
                    download.received += bytes.len() as u64;
                    self.outputs.push_back(Output::KeepChunk { index, bytes });
                }
                Ok(Some(contradiction)) => return self.refuse_download(&contradiction),
                Err(reason) => return self.ban(peer, reason),
            }
        }
    }

    pub(super) fn on_codes(&mut self, peer: PeerId, hashes: &[B256], codes: Vec<Bytes>) {
        let (State::Chunks, Some(download)) = (&self.state, &mut self.download) else { return };
        let positions: Vec<_> = hashes.iter().filter_map(|hash| download.code_position(hash)).collect();
        download.codes.put_back(&peer, positions);
        if codes.is_empty() || codes.len() > hashes.len() {
            return self.ban(peer, format!("codes: expected 1 to {}, got {}", hashes.len(), codes.len()));
        }
        for (hash, bytes) in hashes.iter().zip(codes) {
            let Some(download) = &mut self.download else { return };
            // It may be of a manifest that was left.
            let Some(position) = download.code_position(hash) else { continue };
            if bytes.is_empty() {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.lacks_codes = true;
                }
                continue;
            }
            if download.codes.is_kept(position) {
                continue;
            }
            if keccak256(&bytes) != *hash {
                return self.ban(peer, format!("code: expected hash {hash}, got another"));
            }
            if bytes.len() != download.manifest.codes[position as usize].length as usize {
                return self.refuse_download(&Contradiction::CodeLength(*hash));
            }
            download.codes.keep(position);
            download.received += bytes.len() as u64;
            self.outputs.push_back(Output::KeepCode { hash: *hash, bytes });
        }
    }

    /// The manifest folds, but something that is proved contradicts what the fold does not cover.
    fn refuse_download(&mut self, contradiction: &Contradiction) {
        let Some(download) = &mut self.download else { return };
        let (offer, offerers) = (download.offer, std::mem::take(&mut download.offerers));
        let reason = match contradiction {
            Contradiction::CodeMissing(hash) => format!("offered a manifest without code {hash} of an account"),
            Contradiction::CodeLength(hash) => format!("offered a manifest with another length of code {hash}"),
        };
        self.leave_snapshot();
        self.refuse_and_ban(offer, offerers, &reason);
    }
}
