//! The peer graph.

use super::{problem::Problem, request::ApiRequest, schema::object};
use crate::peer_graph;
use alloy_primitives::B256;

object! {
    /// Connections reported by the nodes that this explorer queries. The nodes are queried at most once in 5 seconds.
    PeerGraph {
        /// When they were queried, in Unix milliseconds.
        asked_ms: u64 = 1_700_000_000_000u64,
        /// The followed node, then the others in the configured order.
        nodes: Vec<PeerGraphNode>,
    }
}

object! {
    /// A queried node.
    PeerGraphNode {
        /// True if it responded.
        answers: bool,
        /// Identity of the node, from its last response.
        own: Option<PeerGraphPeer>,
        /// Connected peers, at most 1,000.
        peers: Vec<PeerGraphPeer>,
    }
}

object! {
    /// A member of the network, as reported by a node.
    PeerGraphPeer {
        /// Network key in libp2p's format.
        peer_id: String = "12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp",
        /// ed25519 public key; the identity of its connections.
        network_key: B256,
        /// Position in the committee; null if it is not a validator.
        validator: Option<u64> = 2,
        /// Version reported by the peer itself; not verified.
        version: Option<String> = "corniche/0.1.0",
        /// When the connection was established, in Unix milliseconds of the node's clock.
        connected_ms: Option<u64> = 1_700_000_000_000u64,
        /// Round-trip time of the last ping in microseconds.
        round_trip_us: Option<u64> = 420,
    }
}

/// `/api/v1/peers`
pub async fn list(request: ApiRequest) -> Result<PeerGraph, Problem> {
    let poll = request.app.peer_graph.now().await;
    let committee = request.app.status().committee;
    let peer = |peer: &corniche_api::Peer| PeerGraphPeer {
        peer_id: peer.peer_id.clone(),
        network_key: peer.network_key,
        validator: committee.as_ref().and_then(|committee| peer_graph::committee_index(committee, peer)),
        version: peer.version.clone(),
        connected_ms: peer.connected_ms,
        round_trip_us: peer.round_trip_us,
    };
    let node = |row: &peer_graph::NodePeers| PeerGraphNode {
        answers: row.peers.is_some(),
        own: row.own.as_ref().map(peer),
        peers: row.peers.iter().flatten().map(peer).collect(),
    };
    Ok(PeerGraph { asked_ms: poll.polled_ms, nodes: poll.rows.iter().map(node).collect() })
}
