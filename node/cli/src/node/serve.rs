//! Blocks for peers that follow, read on threads of their own: one for validators, one for everybody else. Each peer's requests are
//! answered in turn with the others', so whoever asks most waits behind itself. The network bounds what is sent to whom.

use super::fair::{FairQueue, Share};
use corniche_network::{Peer, PeerKey, Reply};
use corniche_pipeline::{FollowedBlock, Request, Response, answer_blocks};
use corniche_store::Reader;
use corniche_types::{Bytes, Height, wire};
use std::{sync::Arc, thread};

/// Requests of one peer that wait; the network lets one through at a time.
const SHARE: Share = Share { items: 8, bytes: 1 << 20 };
const ALL_BYTES: usize = 8 << 20;

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
            let (queue, reader) = (queue.clone(), reader.clone());
            let body = move || {
                while let Some((request, reply)) = queue.take() {
                    // Dropping `reply` refuses what does not decode.
                    if let Ok(Request::Blocks { from }) = wire::decode(&request) {
                        reply.send(wire::encode(&answer(&reader, from)).into());
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
        let bytes = request.len();
        queue.offer(from.id, (request, reply), bytes);
    }
}

impl Drop for BlockServers {
    fn drop(&mut self) {
        self.validators.close();
        self.guests.close();
    }
}

fn answer(reader: &Reader, from: Height) -> Response {
    let block = |height| {
        let committed = reader.block(height)?.committed.clone();
        Some(FollowedBlock { block: committed.block.clone(), resume: committed.resume.clone() })
    };
    answer_blocks(from, block, |height| reader.certificate(height).filter(|found| found.height == height).as_deref().cloned())
}
