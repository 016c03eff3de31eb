//! Whom a node is connected with: `corniche_getPeers`.

use crate::quantity;
use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

/// A node and the peers it has links with. Where peers are, their addresses, is told to nobody who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peers {
    /// The node that was asked; `None` for one without a network and without a validator's keys, which has no name among peers.
    pub own: Option<Peer>,
    /// By network key.
    pub peers: Vec<Peer>,
}

/// A member of a network. What is not known is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// The network key as libp2p writes it: `12D3Koo…`
    pub peer_id: String,
    /// ed25519: the identity of its connections, which [`Validator`](crate::Validator) names as well.
    pub network_key: B256,
    /// Its place in the committee, if it is a validator.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub validator: Option<u64>,
    /// Whom its tips go to, if it is a validator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fee_address: Option<Address>,
    /// What its software calls itself, `corniche/0.1.0` for instance. A peer's own word, which nobody checks: at most 64 characters of
    /// printable ASCII.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When the link with it came up: Unix milliseconds by the clock of the node that was asked. None for that node itself.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub connected_ms: Option<u64>,
    /// How long the last ping to it and back took, in microseconds. None for the node itself.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_stable() {
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
