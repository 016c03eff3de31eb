//! Recent activity of the ordering engine: `corniche_getDag`, and the subscription to `corniche_dag`.

use crate::quantity;
use alloy_primitives::{B256, U64};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Range of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DagRange {
    /// Rounds from `from` to `to`, both included. Parameters: two quantities.
    Rounds {
        /// First round.
        from: u64,
        /// Last round.
        to: u64,
    },
    /// The newest `count` rounds. Parameters: `"latest"` and a quantity.
    Latest {
        /// Number of rounds; fewer are returned if fewer exist.
        count: u64,
    },
}

/// The first parameter of `corniche_getDag`; the second is a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a round number or \"latest\"")]
pub enum FirstRound {
    /// First round; the second parameter is the last round.
    Number(U64),
    /// The newest rounds; the second parameter is their number.
    Latest(Latest),
}

/// The string `latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Latest {
    /// `"latest"`, the only valid value.
    Latest,
}

impl DagRange {
    /// Range from the two parameters of a request.
    pub fn new(first: FirstRound, second: u64) -> Self {
        match first {
            FirstRound::Number(from) => Self::Rounds { from: from.to(), to: second },
            FirstRound::Latest(Latest::Latest) => Self::Latest { count: second },
        }
    }

    /// The parameters of a request, as [`Self::new`] reads them.
    pub fn params(self) -> Value {
        match self {
            Self::Rounds { from, to } => json!([U64::from(from), U64::from(to)]),
            Self::Latest { count } => json!(["latest", U64::from(count)]),
        }
    }
}

/// A window of the DAG as one validator saw it. It is for display only, and bounded: old rounds are deleted, and a busy validator may
/// have dropped some events. Autobahn uses the same fields: a vertex is a car, and its `round` is its position in its author's lane;
/// a slot's `round` is the slot's number. Only Autobahn has separate vote messages, so only there do fields list the signers. NeoBFT has a
/// log: every `round` is a slot of the log, from 1, without holes; a vertex is the entry of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dag {
    /// First round of the window.
    #[serde(with = "quantity")]
    pub from_round: u64,
    /// Last round of the window.
    #[serde(with = "quantity")]
    pub to_round: u64,
    /// Newest round known to this validator.
    #[serde(with = "quantity")]
    pub newest_round: u64,
    /// Sorted by round, then author. Two accepted vertices of one round and author mean that the author equivocated. A vertex that was
    /// only proposed was lost in a crash of this validator before any peer received it. Under NeoBFT a round has one vertex, or none if
    /// its slot has no request; further ones were in the slot before the log was rolled back, and only the slot's `digest` counts.
    pub vertices: Vec<DagVertex>,
    /// Sorted by round, then rank. A round is missing while its leaders are not known. Under NeoBFT a slot is
    /// listed once it is final, with rank 0.
    pub slots: Vec<LeaderSlot>,
    /// Commits of the slots of these rounds, in the order in which they are delivered with their histories. Ends before the first
    /// undecided slot.
    pub order: Vec<B256>,
    /// Events of any round that this validator dropped since it started.
    #[serde(with = "quantity")]
    pub dropped: u64,
}

/// Notification of a `corniche_dag` subscription: new data is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DagGrowth {
    /// Same as [`Dag::newest_round`]. The new data may be about an older round, for instance its decision.
    #[serde(with = "quantity")]
    pub newest_round: u64,
}

/// A proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DagVertex {
    /// Round in which it was proposed.
    #[serde(with = "quantity")]
    pub round: u64,
    /// Author, by position in the committee. Under NeoBFT the member that wrote the request.
    #[serde(with = "quantity")]
    pub author: u64,
    /// Digest by which parents and slots refer to it.
    pub digest: B256,
    /// Digests of its parents. Empty under NeoBFT.
    pub parents: Vec<B256>,
    /// Size of its batch of transactions in bytes. Under NeoBFT 0 if the request carries only its author's clock.
    #[serde(with = "quantity")]
    pub batch_bytes: u64,
    /// Digest of its batch in [`Ordering`](crate::Ordering); absent for an empty batch, which no block contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_digest: Option<B256>,
    /// When this validator signed it, for its own proposals only: Unix milliseconds of its own clock.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub proposed_ms: Option<u64>,
    /// When this validator had it with its whole history, by the same clock.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub accepted_ms: Option<u64>,
    /// Under Autobahn: validators, by position in the committee, ascending, that signed that they hold it and all below it in its lane;
    /// enough of them that one is honest. Absent while this validator has no such proof of availability. The proof of a later car in the
    /// lane covers it too.
    #[serde(default, with = "quantity::list", skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<u64>,
}

/// A leader slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderSlot {
    /// Round of the slot.
    #[serde(with = "quantity")]
    pub round: u64,
    /// Position among the leaders of its round.
    #[serde(with = "quantity")]
    pub rank: u64,
    /// The leader, by position in the committee. Under NeoBFT the author of the request; for a slot without an author, the slot's number
    /// modulo the size of the committee.
    #[serde(with = "quantity")]
    pub validator: u64,
    /// Current decision.
    pub status: SlotStatus,
    /// The committed proposal: under Mahi-Mahi the leader's vertex, under Autobahn a cut through all lanes, which is not a vertex;
    /// under NeoBFT the entry of the log, which is a vertex if it has an author. Absent for a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<B256>,
    /// Rule that decided the slot. Under NeoBFT `packet N of epoch E` or `gap at N of epoch E`: the number that the sequencer gave, and the
    /// epoch of the group, both decimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it was decided: Unix milliseconds of this validator's clock.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub decided_ms: Option<u64>,
    /// Number of its commit, as in [`Ordering`](crate::Ordering); absent until it is committed in order. Under NeoBFT the slot's number; a
    /// gap is an empty commit.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub commit: Option<u64>,
    /// Under Autobahn: validators, by position in the committee, ascending, whose votes for the cut are in the certificate. On the fast
    /// path, all validators. On the slow path, a quorum in its first step; absent if this validator saw only the second step.
    #[serde(default, with = "quantity::list", skip_serializing_if = "Vec::is_empty")]
    pub voters: Vec<u64>,
    /// Under Autobahn: the quorum that confirmed the votes in the second step of the slow path. Absent on the fast path, which has no such step.
    #[serde(default, with = "quantity::list", skip_serializing_if = "Vec::is_empty")]
    pub confirmers: Vec<u64>,
}

/// Decision about a leader slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SlotStatus {
    /// Its proposal is part of the order.
    Committed,
    /// It is permanently left out of the order. Under NeoBFT: its number has no request.
    Skipped,
    /// Not decided yet.
    Undecided,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_round_trip_as_parameters() {
        for range in [DagRange::Rounds { from: 16, to: 300 }, DagRange::Latest { count: 20 }] {
            let params = range.params();
            let first: FirstRound = serde_json::from_value(params[0].clone()).unwrap();
            let second: U64 = serde_json::from_value(params[1].clone()).unwrap();
            assert_eq!(DagRange::new(first, second.to()), range, "{params}");
        }
        let error = serde_json::from_value::<FirstRound>(json!("newest")).unwrap_err();
        assert_eq!(error.to_string(), "expected a round number or \"latest\"");
    }

    #[test]
    fn json_format_is_stable() {
        let slot = LeaderSlot {
            round: 16,
            rank: 1,
            validator: 2,
            status: SlotStatus::Skipped,
            digest: None,
            why: Some("a quorum without votes".into()),
            decided_ms: Some(1_000),
            commit: None,
            voters: vec![],
            confirmers: vec![],
        };
        let expected = json!({
            "round": "0x10", "rank": "0x1", "validator": "0x2", "status": "skipped", "why": "a quorum without votes",
            "decidedMs": "0x3e8",
        });
        assert_eq!(serde_json::to_value(&slot).unwrap(), expected);
        assert_eq!(serde_json::from_value::<LeaderSlot>(expected).unwrap(), slot);
        assert_eq!(serde_json::to_value(DagGrowth { newest_round: 16 }).unwrap(), json!({"newestRound": "0x10"}));
        let agreed = LeaderSlot { commit: Some(16), voters: vec![0, 1, 17], confirmers: vec![1, 2, 17], ..slot };
        let delivered = serde_json::to_value(&agreed).unwrap();
        assert_eq!(delivered["commit"], "0x10");
        let signers = (&delivered["voters"], &delivered["confirmers"]);
        assert_eq!(signers, (&json!(["0x0", "0x1", "0x11"]), &json!(["0x1", "0x2", "0x11"])));
        assert_eq!(serde_json::from_value::<LeaderSlot>(delivered).unwrap(), agreed);
        let vertex = DagVertex {
            round: 1,
            author: 0,
            digest: B256::ZERO,
            parents: vec![],
            batch_bytes: 0,
            batch_digest: None,
            proposed_ms: None,
            accepted_ms: Some(1),
            holders: vec![],
        };
        let json = serde_json::to_value(&vertex).unwrap();
        assert_eq!(
            json,
            json!({"round": "0x1", "author": "0x0", "digest": B256::ZERO, "parents": [], "batchBytes": "0x0", "acceptedMs": "0x1"})
        );
        assert_eq!(serde_json::from_value::<DagVertex>(json).unwrap(), vertex);
        let held = DagVertex { holders: vec![0, 3], ..vertex };
        let json = serde_json::to_value(&held).unwrap();
        assert_eq!(json["holders"], json!(["0x0", "0x3"]));
        assert_eq!(serde_json::from_value::<DagVertex>(json).unwrap(), held);
    }
}
