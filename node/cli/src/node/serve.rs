//! Blocks for peers that follow, read on threads of their own: one for validators, one for everybody else. Each peer's requests are
//! answered in turn with the others', so whoever asks most waits behind itself. The network bounds what is sent to whom.

use super::fair::{FairQueue, Load, Share, WhenFull};
use corniche_network::{Peer, PeerKey, Reply};
use corniche_pipeline::{BlockSource, FollowedBlock, Request, answer_blocks};
use corniche_store::Reader;
use corniche_types::{Bytes, Certificate, Header, Height, wire};
use std::{sync::Arc, thread};

/// Requests of one peer that wait; the network lets one through at a time.
const SHARE: Share = Share { items: 8, bytes: 1 << 20, when_full: WhenFull::Refuse };
const ALL_BYTES: usize = 8 << 20;
/// Every request is answered with about as much: reading and encoding it, µs.
const READ_US: u64 = 5_000;

type Queue = Arc<FairQueue<PeerKey, (Bytes, Reply)>>;

/// Answers requests until dropped.
pub struct BlockServers {
    validators: Queue,
    guests: Queue,
}

impl BlockServers {
    pub fn spawn(reader: &Reader) -> Self {
        let queue = || Arc::new(FairQueue::new(SHARE, ALL_BYTES));
        let servers = Self { validators: queue(), guests: queue() };
        for (name, queue) in [("serve", &servers.validators), ("serve-guests", &servers.guests)] {
            let (queue, stored) = (queue.clone(), StoredBlocks(reader.clone()));
            let body = move || {
                while let Some((request, reply)) = queue.take() {
                    // Dropping `reply` refuses what does not decode.
                    if let Ok(Request::Blocks { from, offset }) = wire::decode(&request) {
                        reply.send(wire::encode(&answer_blocks(from, offset, &stored)).into());
                    }
                }
            };
            thread::Builder::new().name(name.into()).spawn(body).expect("the system has room for a thread");
        }
        servers
    }

    /// Queues a request. One for which there is no room is refused.
    pub fn serve(&self, from: Peer, request: Bytes, reply: Reply) {
        let queue = if from.validator.is_some() { &self.validators } else { &self.guests };
        let load = Load { bytes: request.len(), cost: READ_US };
        queue.offer(from.id, (request, reply), load);
    }
}

impl Drop for BlockServers {
    fn drop(&mut self) {
        self.validators.close();
        self.guests.close();
    }
}

/// Source of the blocks that peers follow.
struct StoredBlocks(Reader);

impl BlockSource for StoredBlocks {
    fn block(&self, height: Height) -> Option<FollowedBlock> {
        let committed = self.0.block(height)?.committed.clone();
        Some(FollowedBlock { block: committed.block.clone(), resume: committed.resume.clone() })
    }

    fn header(&self, height: Height) -> Option<Header> {
        self.0.header(height)
    }

    fn certificate_from(&self, height: Height) -> Option<Certificate> {
        self.0.certificate(height).as_deref().cloned()
    }
}
