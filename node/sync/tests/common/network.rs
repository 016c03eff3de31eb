//! Peers and a node that syncs from them, in virtual time. Requests are encoded and decoded on the way, as on a wire.

use super::chain::{Chain, Library};
use corniche_crypto::Committees;
use corniche_state::Tree;
use corniche_state::chunks::{Chunk, Entry, Manifest};
use corniche_sync::{Failed, Fetch, Kept, Output, PeerId, RequestId, StateRequest, StateResponse, Target, serve};
use corniche_types::*;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Latency of a peer that is not slow.
const LATENCY_MS: u64 = 20;
pub const START: u64 = 1_000_000;

/// Reaction of a peer to a request. `None`: it never answers.
pub type Answer = Box<dyn Fn(&Library, StateRequest) -> Option<Vec<u8>>>;

pub struct Peer {
    pub library: Library,
    pub latency_ms: u64,
    answer: Answer,
}

impl Peer {
    pub fn honest(library: Library) -> Self {
        Self::new(library, |library, request| Some(serve(request, library)))
    }

    pub fn new(library: Library, answer: impl Fn(&Library, StateRequest) -> Option<Vec<u8>> + 'static) -> Self {
        Self { library, latency_ms: LATENCY_MS, answer: Box::new(answer) }
    }

    /// Serves honestly, but replaces each response that `lie` has another one for.
    pub fn liar(library: Library, lie: impl Fn(StateResponse) -> StateResponse + 'static) -> Self {
        Self::new(library, move |library, request| {
            let honest = StateResponse::decode(&serve(request, library)).unwrap();
            Some(lie(honest).encode())
        })
    }

    /// Never answers.
    pub fn silent(library: Library) -> Self {
        Self::new(library, |_, _| None)
    }

    pub fn slow(self, latency_ms: u64) -> Self {
        Self { latency_ms, ..self }
    }
}

/// Changes the tail in a response, if that is one and has one part.
pub fn change_tail(response: StateResponse, change: impl Fn(&mut SnapshotTail)) -> StateResponse {
    let StateResponse::Part(bytes) = &response else { return response };
    let Ok(mut tail) = wire::decode::<SnapshotTail>(bytes) else { return response };
    change(&mut tail);
    StateResponse::Part(wire::encode(&tail).into())
}

pub fn id(number: u8) -> PeerId {
    [number; 32]
}

enum Event {
    Answer(RequestId, Result<Bytes, Failed>),
    Leave(u8),
    Join(u8, Box<Peer>),
    Library(u8, Library),
    Tick,
}

/// Files of the node. They survive a restart.
#[derive(Default)]
pub struct Disk {
    pub changes: Vec<EpochChange>,
    pub manifest: Option<(Bytes, Box<SnapshotTail>)>,
    pub chunks: BTreeMap<u32, Bytes>,
    pub codes: BTreeMap<B256, Bytes>,
}

impl Disk {
    fn kept(&self) -> Option<Kept> {
        let (manifest, tail) = self.manifest.clone()?;
        let chunks = self.chunks.keys().copied().collect();
        Some(Kept { manifest, tail, chunks, codes: self.codes.keys().copied().collect() })
    }
}

pub struct Network {
    pub chain: Rc<Chain>,
    pub fetch: Fetch,
    pub now: u64,
    peers: BTreeMap<u8, Peer>,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    pub disk: Disk,
    /// All outputs with their time.
    pub log: Vec<(u64, Output)>,
    pub bans: BTreeMap<u8, String>,
    pub target: Option<Target>,
    pub gave_up: Option<String>,
    /// Chunks of the final manifest that were reused.
    pub reused: usize,
}

impl Network {
    pub fn new(chain: &Rc<Chain>, peers: Vec<Peer>) -> Self {
        let fetch = Fetch::new(chain.config(), chain.committees(), TimestampMs(START));
        Self::with(chain, fetch, peers)
    }

    pub fn with(chain: &Rc<Chain>, fetch: Fetch, peers: Vec<Peer>) -> Self {
        let mut network = Self {
            chain: chain.clone(),
            fetch,
            now: START,
            peers: BTreeMap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            disk: Disk::default(),
            log: Vec::new(),
            bans: BTreeMap::new(),
            target: None,
            gave_up: None,
            reused: 0,
        };
        for (number, peer) in (0..).zip(peers) {
            network.peers.insert(number, peer);
            network.fetch.peer_up(TimestampMs(START), id(number));
        }
        network
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((time, self.sequence), event);
    }

    /// Changes the latency of a peer.
    pub fn slow_down(&mut self, peer: u8, latency_ms: u64) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.latency_ms = latency_ms;
        }
    }

    pub fn leave_at(&mut self, time: u64, peer: u8) {
        self.at(time, Event::Leave(peer));
    }

    pub fn join_at(&mut self, time: u64, number: u8, peer: Peer) {
        self.at(time, Event::Join(number, Box::new(peer)));
    }

    /// From then on the peer has these snapshots only.
    pub fn library_at(&mut self, time: u64, peer: u8, library: Library) {
        self.at(time, Event::Library(peer, library));
    }

    /// Power goes off and on: only the disk is left, and all peers connect again.
    pub fn restart(&mut self) {
        let mut committees: Committees = self.chain.committees();
        self.disk.changes.iter().for_each(|change| committees.advance(change).unwrap());
        let (config, now) = (self.chain.config(), TimestampMs(self.now));
        self.fetch = match self.disk.kept() {
            Some(kept) => Fetch::resume(config, committees, kept, now).unwrap(),
            None => Fetch::new(config, committees, now),
        };
        self.events.retain(|_, event| !matches!(event, Event::Answer(..) | Event::Tick));
        for number in self.peers.keys() {
            self.fetch.peer_up(now, id(*number));
        }
    }

    /// Runs until `stop` says so after an output, the sync ends, or an hour has passed.
    pub fn run_until(&mut self, mut stop: impl FnMut(&Output) -> bool) -> bool {
        loop {
            while let Some(output) = self.fetch.poll() {
                let is_stop = stop(&output);
                self.apply(output);
                if is_stop {
                    return true;
                }
            }
            if self.target.is_some() || self.gave_up.is_some() {
                return false;
            }
            if let Some(deadline) = self.fetch.deadline() {
                assert!(deadline.0 > self.now, "a deadline is in the future");
                self.at(deadline.0, Event::Tick);
            }
            let Some(((time, _), event)) = self.events.pop_first() else { panic!("nothing happens any more") };
            assert!(time < START + 3_600_000, "no end after an hour: {:?}", self.fetch.progress());
            self.now = time.max(self.now);
            self.handle(event);
        }
    }

    pub fn run(&mut self) {
        self.run_until(|_| false);
    }

    fn handle(&mut self, event: Event) {
        let now = TimestampMs(self.now);
        match event {
            Event::Answer(request, result) => self.fetch.answered(now, request, result),
            Event::Tick => {
                // Only the newest deadline counts.
                self.events.retain(|_, event| !matches!(event, Event::Tick));
                self.fetch.tick(now);
            }
            Event::Leave(number) => {
                if self.peers.remove(&number).is_some() {
                    self.fetch.peer_down(now, &id(number));
                }
            }
            Event::Join(number, peer) => {
                self.peers.insert(number, *peer);
                self.fetch.peer_up(now, id(number));
            }
            Event::Library(number, library) => {
                if let Some(peer) = self.peers.get_mut(&number) {
                    peer.library = library;
                }
            }
        }
    }

    fn apply(&mut self, output: Output) {
        match &output {
            Output::Ask { peer, id, request, timeout_ms } => {
                let peer = &self.peers[&peer[0]];
                let encoded = request.encode();
                assert!(encoded.len() < 64 << 10 && StateRequest::is_one(&encoded));
                let answer = (peer.answer)(&peer.library, StateRequest::decode(&encoded).unwrap());
                let (time, result) = match answer {
                    Some(bytes) if peer.latency_ms < *timeout_ms => (self.now + peer.latency_ms, Ok(bytes.into())),
                    _ => (self.now + timeout_ms, Err(Failed::TimedOut)),
                };
                self.at(time, Event::Answer(*id, result));
            }
            Output::Ban { peer, reason } => {
                self.peers.remove(&peer[0]);
                self.bans.insert(peer[0], reason.clone());
            }
            Output::KeepChange(change) => self.disk.changes.push((**change).clone()),
            Output::Keep { manifest, tail, reused } => {
                let mut before = std::mem::take(&mut self.disk.chunks);
                self.disk.chunks = reused.iter().map(|chunk| (chunk.to, before.remove(&chunk.from).unwrap())).collect();
                self.disk.manifest = Some((manifest.clone(), tail.clone()));
                self.reused = reused.len();
            }
            Output::KeepChunk { index, bytes } => {
                assert_eq!(self.disk.chunks.insert(*index, bytes.clone()), None, "chunk {index} was fetched twice");
            }
            Output::KeepCode { hash, bytes } => {
                assert_eq!(self.disk.codes.insert(*hash, bytes.clone()), None, "code {hash} was fetched twice");
            }
            Output::Finished(target) => self.target = Some(*target),
            Output::FollowFromGenesis { reason } => self.gave_up = Some(reason.clone()),
        }
        self.log.push((self.now, output));
    }

    /// The files are the state of the target, without anything that is missing.
    pub fn assert_installed(&self) -> Target {
        let target = self.target.unwrap_or_else(|| panic!("not finished: {:?}, banned {:?}", self.gave_up, self.bans));
        let (manifest, tail) = self.disk.manifest.as_ref().unwrap();
        assert_eq!(keccak256(manifest), target.manifest);
        let manifest = Manifest::decode(manifest).unwrap();
        assert_eq!(
            (manifest.height, tail.height(), manifest.chunks.len()),
            (target.height, target.height, self.disk.chunks.len())
        );
        let mut tree = Tree::default();
        for ((prefix, info), bytes) in manifest.prefixes().into_iter().zip(&manifest.chunks).zip(self.disk.chunks.values()) {
            let chunk = Chunk::verify(bytes, prefix, info).expect("each chunk is one of the final manifest");
            for entry in &chunk.entries {
                if let Entry::Account(_, account) = entry {
                    let code = self.disk.codes.get(&account.code_hash);
                    assert!(account.code_hash == KECCAK_EMPTY || code.is_some_and(|code| keccak256(code) == account.code_hash));
                }
            }
            tree.apply(&chunk.into_changes());
        }
        assert_eq!(tree.root(), target.state_root);
        assert_eq!(self.chain.header(target.height.0).state_root, target.state_root);
        target
    }

    /// Numbers of the banned peers.
    pub fn banned(&self) -> BTreeSet<u8> {
        self.bans.keys().copied().collect()
    }

    /// Requests for chunks, with the manifest and their time.
    pub fn chunk_requests(&self) -> Vec<(u64, u8, B256, Vec<u32>)> {
        let requests = self.log.iter().filter_map(|(time, output)| match output {
            Output::Ask { peer, request: StateRequest::Chunks { manifest, indexes }, .. } => {
                Some((*time, peer[0], *manifest, indexes.clone()))
            }
            _ => None,
        });
        requests.collect()
    }
}
