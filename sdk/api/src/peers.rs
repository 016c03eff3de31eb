//! Peers of a node: `corniche_getPeers`.

use crate::quantity;
use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

/// A node and its connected peers. Network addresses are never returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peers {
    /// The queried node; `None` if it has neither a network nor a validator's keys, and so no identity among peers.
    pub own: Option<Peer>,
    /// Peers, sorted by network key.
    pub peers: Vec<Peer>,
}

/// A member of a network. Unknown fields are omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// Network key in libp2p's format: `12D3Koo…`
    pub peer_id: String,
    /// ed25519 public key; the identity of its connections. Also part of [`Validator`](crate::Validator).
    pub network_key: B256,
    /// Position in the committee, for validators only.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub validator: Option<u64>,
    /// Recipient of its tips, for validators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fee_address: Option<Address>,
    /// Version reported by the peer itself, for instance `corniche/0.1.0`. Not verified. At most 64 characters of printable ASCII.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When the connection was established: Unix milliseconds of the queried node's clock. Absent for that node itself.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub connected_ms: Option<u64>,
    /// Round-trip time of the last ping, in microseconds. Absent for the queried node itself.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_format_is_stable() {
        let stranger = Peer {
            peer_id: "12D3KooW".into(),
            network_key: B256::ZERO,
            validator: None,
            fee_address: None,
            version: None,
            connected_ms: Some(1_000),
            round_trip_us: None,
        };
        let (version, round_trip_us) = (Some("corniche/0.1.0".into()), Some(420));
        let (validator, fee_address) = (Some(2), Some(Address::ZERO));
        let validator = Peer { validator, fee_address, version, round_trip_us, ..stranger.clone() };
        let peers = Peers { own: None, peers: vec![stranger, validator] };
        let expected = json!({"own": null, "peers": [
            {"peerId": "12D3KooW", "networkKey": B256::ZERO, "connectedMs": "0x3e8"},
            {
                "peerId": "12D3KooW", "networkKey": B256::ZERO, "validator": "0x2", "feeAddress": Address::ZERO,
                "version": "corniche/0.1.0", "connectedMs": "0x3e8", "roundTripUs": "0x1a4",
            },
        ]});
        assert_eq!(serde_json::to_value(&peers).unwrap(), expected);
        assert_eq!(serde_json::from_value::<Peers>(expected).unwrap(), peers);
    }
}
