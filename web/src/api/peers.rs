//! The peer graph.

use super::{ask::Ask, form::object, problem::Problem};
use crate::mesh;
use alloy_primitives::B256;

object! {
    /// What the nodes say of their links that this explorer asks. All readers together ask them once in 5 seconds.
    Mesh {
        /// When they were asked, in Unix milliseconds.
        asked_ms: u64 = 1_700_000_000_000u64,
        /// The node that is followed, then the others as they were given.
        nodes: Vec<MeshNode>,
    }
}

object! {
    /// A node that is asked.
    MeshNode {
        /// Whether it answered.
        answers: bool,
        /// Who it is, by the last of its answers.
        own: Option<MeshPeer>,
        /// Whom it has links with, at most 1,000.
        peers: Vec<MeshPeer>,
    }
}

object! {
    /// A member of the network, as a node tells of it.
    MeshPeer {
        /// Its network key as libp2p writes it.
        peer_id: String = "12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp",
        /// ed25519: the identity of its connections.
        network_key: B256,
        /// Its position in the committee.
        validator: Option<u64> = 2,
        /// What its software calls itself: its own word.
        version: Option<String> = "corniche/0.1.0",
        /// When the link came up, by the node's clock.
        connected_ms: Option<u64> = 1_700_000_000_000u64,
        /// Microseconds of the last ping there and back.
        round_trip_us: Option<u64> = 420,
    }
}

/// `/api/v1/peers`
pub async fn list(ask: Ask) -> Result<Mesh, Problem> {
    let round = ask.site.mesh.now().await;
    let committee = ask.site.now().committee;
    let peer = |peer: &corniche_api::Peer| MeshPeer {
        peer_id: peer.peer_id.clone(),
        network_key: peer.network_key,
        validator: committee.as_ref().and_then(|committee| mesh::seat(committee, peer)),
        version: peer.version.clone(),
        connected_ms: peer.connected_ms,
        round_trip_us: peer.round_trip_us,
    };
    let node = |row: &mesh::Row| MeshNode {
        answers: row.peers.is_some(),
        own: row.own.as_ref().map(peer),
        peers: row.peers.iter().flatten().map(peer).collect(),
    };
    Ok(Mesh { asked_ms: round.asked_ms, nodes: round.rows.iter().map(node).collect() })
}
