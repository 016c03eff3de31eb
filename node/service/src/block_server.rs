//! Serves blocks and snapshots to peers that sync from this node, on two threads: one for validators, one for other peers. Peers
//! take turns, so a peer with many requests delays only itself. The network limits the bytes sent to each peer.

use crate::{
    fair_queue::{FairQueue, ItemWeight, SourceLimit, TotalLimit, WhenFull},
    shared::count,
    snapshots::StateSource,
};
use corniche_network::{Peer, PeerKey, Reply};
use corniche_pipeline::{BlockSource, FollowedBlock, Request, Response, serve_blocks};
use corniche_rpc::yield_to_ordering;
use corniche_store::Reader;
use corniche_sync::{StateRequest, StateResponse};
use corniche_types::{Bytes, Certificate, Header, Height, wire};
use std::{sync::Arc, thread};

/// Limits on queued requests per peer; the network allows one at a time.
const REQUEST_LIMIT: SourceLimit = SourceLimit { items: 8, bytes: 1 << 20, when_full: WhenFull::Refuse };
/// Maximum bytes of the queued requests of all validators together, and the same for all guests together.
const MAX_TOTAL_BYTES: usize = 8 << 20;
/// Cost of reading and encoding a response in µs, about the same for all requests.
const READ_US: u64 = 5_000;

/// Pause of a peer whose request for state has no room.
const BUSY_MS: u32 = 1_000;

type Queue = Arc<FairQueue<PeerKey, (Bytes, Reply)>>;

/// Threads that serve requests. Dropping it stops them.
pub struct BlockServers {
    validators: Queue,
    guests: Queue,
}

impl BlockServers {
    pub fn spawn(source: &StateSource) -> Self {
        let queue = |total| Arc::new(FairQueue::new(REQUEST_LIMIT, total));
        let servers = Self {
            validators: queue(TotalLimit::for_validators(MAX_TOTAL_BYTES)),
            guests: queue(TotalLimit::for_guests(MAX_TOTAL_BYTES)),
        };
        for (name, queue, is_validator) in [("serve", &servers.validators, true), ("serve-guests", &servers.guests, false)] {
            let (queue, source) = (queue.clone(), source.clone());
            let body = move || {
                if !is_validator {
                    yield_to_ordering();
                }
                let blocks = StoredBlocks(source.reader.clone());
                while let Some((request, reply)) = queue.take() {
                    let response = if StateRequest::is_one(&request) {
                        let response =
                            StateRequest::decode(&request).ok().map(|request| corniche_sync::serve(request, &source));
                        count(&source.stats.served_bytes, response.as_ref().map_or(0, Vec::len));
                        response
                    } else {
                        respond(&request, is_validator, &blocks).map(|response| wire::encode(&response))
                    };
                    // Dropping `reply` refuses the request.
                    if let Some(response) = response {
                        reply.send(response.into());
                    }
                }
            };
            thread::Builder::new().name(name.into()).spawn(body).expect("the system has room for a thread");
        }
        servers
    }

    /// Queues a request; refuses it if there is no room.
    pub fn serve(&self, from: Peer, request: Bytes, reply: Reply) {
        let queue = if from.is_validator { &self.validators } else { &self.guests };
        let weight = ItemWeight { bytes: request.len(), cost: READ_US };
        if let Err((request, reply)) = queue.try_offer(from.id, (request, reply), weight)
            && let Some(response) = refusal(&request)
        {
            reply.send(response);
        }
    }
}

/// Response to a request for which there is no room. `None`: the reply is dropped, which followers take as a refusal. A node that
/// fetches state learns when to ask again.
fn refusal(request: &[u8]) -> Option<Bytes> {
    StateRequest::is_one(request).then(|| StateResponse::Busy { ms: BUSY_MS }.encode().into())
}

impl Drop for BlockServers {
    fn drop(&mut self) {
        self.validators.close();
        self.guests.close();
    }
}

/// Returns `None` if the request cannot be decoded, or if only validators may send it and the sender is not a validator.
fn respond(request: &[u8], is_validator: bool, stored: &impl BlockSource) -> Option<Response> {
    match wire::decode(request).ok()? {
        Request::Executed { .. } if !is_validator => None,
        request => Some(serve_blocks(request, stored)),
    }
}

/// Blocks of this node's store, served to peers that sync.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Source without blocks.
    struct Empty;

    impl BlockSource for Empty {
        fn block(&self, _: Height) -> Option<FollowedBlock> {
            None
        }

        fn header(&self, _: Height) -> Option<Header> {
            None
        }

        fn certificate_from(&self, _: Height) -> Option<Certificate> {
            None
        }
    }

    #[test]
    fn requests_for_state_are_postponed_when_there_is_no_room() {
        let response = refusal(&StateRequest::Snapshots.encode()).unwrap();
        assert_eq!(StateResponse::decode(&response), Ok(StateResponse::Busy { ms: BUSY_MS }));
        assert_eq!(refusal(&wire::encode(&Request::Blocks { from: Height(1), offset: 0 })), None);
    }

    #[test]
    fn uncertified_blocks_only_for_validators() {
        let certified = wire::encode(&Request::Blocks { from: Height(1), offset: 0 });
        let executed = wire::encode(&Request::Executed { from: Height(1), through: Height(2), offset: 0 });
        let answered = |request: &[u8], is_validator| respond(request, is_validator, &Empty).is_some();
        assert!(answered(&certified, true) && answered(&certified, false) && answered(&executed, true));
        assert!(!answered(&executed, false) && !answered(b"junk", true));
    }
}
