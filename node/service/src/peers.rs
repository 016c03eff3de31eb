//! Connected peers, in the format of `corniche_getPeers`.

use corniche_api::{Peer, Peers};
use corniche_engine::Committee;
use corniche_network::{AGENT_VERSION, NetworkHandle, PeerInfo, PeerKey};
use std::time::UNIX_EPOCH;

/// This node and its peers. Omits addresses: the client may be anyone, and validators' addresses are only for
/// nodes that connect to them.
pub fn peers_response(committee: &Committee, identity: Option<PeerKey>, network: Option<&NetworkHandle>) -> Peers {
    let own = |key| Peer { version: Some(AGENT_VERSION.into()), ..named(committee, key) };
    let infos = network.map(NetworkHandle::peer_infos).unwrap_or_default();
    Peers { own: identity.map(own), peers: infos.into_iter().map(|info| connected(committee, info)).collect() }
}

fn connected(committee: &Committee, info: PeerInfo) -> Peer {
    let since = info.connected.duration_since(UNIX_EPOCH).unwrap_or_default();
    Peer {
        version: info.agent_version,
        connected_ms: Some(since.as_millis() as u64),
        round_trip_us: info.round_trip.map(|time| time.as_micros() as u64),
        ..named(committee, info.peer.id)
    }
}

/// Peer with this key, and its place in the committee.
fn named(committee: &Committee, key: PeerKey) -> Peer {
    let index = committee.index_of(&key.0);
    Peer {
        peer_id: key.to_string(),
        network_key: key.0,
        validator: index.map(|index| index.0.into()),
        fee_address: index.and_then(|index| committee.member(index)).map(|member| member.fee_address),
        version: None,
        connected_ms: None,
        round_trip_us: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkSpec, make_network, testing::spec};
    use corniche_network::{NetworkIdentity, Peer as Linked};
    use std::time::Duration;

    #[test]
    fn single_node_reports_itself() {
        let network = make_network(&NetworkSpec { validators: 4, ..spec() }).unwrap();
        let committee = Committee::from_genesis(&network.genesis);
        let key = PeerKey(network.validators[2].network.public());
        let Peers { own, peers } = peers_response(&committee, Some(key), None);
        let own = own.expect("it has a key");
        assert_eq!((own.validator, own.fee_address), (Some(2), Some(network.genesis.validators[2].fee_address)));
        assert_eq!((own.peer_id, own.network_key), (key.to_string(), key.0));
        assert_eq!((own.version.as_deref(), own.connected_ms, own.round_trip_us), (Some(AGENT_VERSION), None, None));
        assert_eq!(peers, []);
        assert_eq!(peers_response(&committee, None, None), Peers { own: None, peers: vec![] });
    }

    #[test]
    fn guest_has_no_validator_index() {
        let network = make_network(&NetworkSpec { validators: 1, ..spec() }).unwrap();
        let id = NetworkIdentity::from_seed([7; 32]).key();
        let connected_at = UNIX_EPOCH + Duration::from_millis(1_234);
        let round_trip = Some(Duration::from_nanos(420_900));
        let info =
            PeerInfo { peer: Linked { id, is_validator: false }, connected: connected_at, agent_version: None, round_trip };
        let peer = connected(&Committee::from_genesis(&network.genesis), info);
        assert_eq!((peer.validator, peer.fee_address, peer.version), (None, None, None));
        assert_eq!((peer.connected_ms, peer.round_trip_us), (Some(1_234), Some(420)));
    }
}
