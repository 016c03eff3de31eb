//! What the ordering engine did lately: `corniche_getDag`, and the subscription to `corniche_dag`.

use crate::quantity;
use alloy_primitives::{B256, U64};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Which rounds to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DagRange {
    /// Both ends included. Parameters: two quantities.
    Rounds {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// The newest so many rounds. Parameters: `"latest"` and a quantity.
    Latest {
        /// How many; fewer where there are not as many.
        count: u64,
    },
}

/// The first parameter of `corniche_getDag`; the second is a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a round number or \"latest\"")]
pub enum FirstRound {
    /// The first of the rounds; the second parameter is the last.
    Number(U64),
    /// The newest rounds; the second parameter is how many.
    Latest(Latest),
}

/// The word `latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Latest {
    /// `"latest"`, and nothing else.
    Latest,
}

impl DagRange {
    /// As the parameters say it.
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

/// A window of the DAG as one validator saw it. It is kept for people who look, and bounded: old rounds go, and a validator
/// that was busy may have let some events go. Autobahn's picture has the same words: a vertex is a car, `round` its place in its author's
/// lane; a slot's `round` is the slot's number. Only there votes are messages of their own, and so only there fields name who signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dag {
    /// First round of the window.
    #[serde(with = "quantity")]
    pub from_round: u64,
    /// Last round of the window.
    #[serde(with = "quantity")]
    pub to_round: u64,
    /// The newest round this validator knows anything of.
    #[serde(with = "quantity")]
    pub newest_round: u64,
    /// By round, then author. Two of one round and author that were both accepted mean that the author contradicted itself;
    /// one that was only proposed was lost in a crash of this validator before anyone saw it.
    pub vertices: Vec<DagVertex>,
    /// By round, then rank. A round is missing while its leaders are not known.
    pub slots: Vec<LeaderSlot>,
    /// What the slots of these rounds committed, in the order in which they are delivered with their histories;
    /// ends before the first slot that is still undecided.
    pub order: Vec<B256>,
    /// Events this validator let go since it started, of whatever round.
    #[serde(with = "quantity")]
    pub dropped: u64,
}

/// What a subscription to `corniche_dag` is told: there is more to show than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DagGrowth {
    /// As [`Dag::newest_round`]. What came may be about an older one, of which a verdict was found.
    #[serde(with = "quantity")]
    pub newest_round: u64,
}

/// One proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DagVertex {
    /// The round it was proposed in.
    #[serde(with = "quantity")]
    pub round: u64,
    /// Validator by position in the committee.
    #[serde(with = "quantity")]
    pub author: u64,
    /// What parents and slots name it by.
    pub digest: B256,
    /// Digests of its parents.
    pub parents: Vec<B256>,
    /// Bytes of its batch of transactions.
    #[serde(with = "quantity")]
    pub batch_bytes: u64,
    /// What [`Ordering`](crate::Ordering)'s batches name it by; absent for an empty one, which no block names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_digest: Option<B256>,
    /// When this validator signed it, if it is its own: Unix milliseconds by its own clock.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub proposed_ms: Option<u64>,
    /// When this validator had it with its whole history, by the same clock.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub accepted_ms: Option<u64>,
    /// Under Autobahn: validators by position in the committee who signed that they hold it and all below it in its lane, ascending; enough of
    /// them that one is honest. Absent while this validator knows of no such proof of availability: that of a car further up covers it as well.
    #[serde(default, with = "quantity::list", skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<u64>,
}

/// One leader slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderSlot {
    /// The round that it leads.
    #[serde(with = "quantity")]
    pub round: u64,
    /// Position among the leaders of its round.
    #[serde(with = "quantity")]
    pub rank: u64,
    /// The leader, by position in the committee.
    #[serde(with = "quantity")]
    pub validator: u64,
    /// What became of it so far.
    pub status: SlotStatus,
    /// The committed proposal: under Mahi-Mahi the leader's vertex, under Autobahn a cut through all lanes, which is no vertex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<B256>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it was decided: Unix milliseconds by this validator's clock.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub decided_ms: Option<u64>,
    /// The number of its commit, by which [`Ordering`](crate::Ordering) says what is in a block; absent until its turn has come.
    #[serde(default, with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub commit: Option<u64>,
    /// Under Autobahn: validators by position in the committee whose votes for the cut are in the certificate, ascending. All of them the fast
    /// way; a quorum in the first step of the slow way, of which this validator may have seen only the second: then absent.
    #[serde(default, with = "quantity::list", skip_serializing_if = "Vec::is_empty")]
    pub voters: Vec<u64>,
    /// Under Autobahn: a quorum that confirmed the votes in the second step of the slow way, likewise. Absent for the fast way, which has none.
    #[serde(default, with = "quantity::list", skip_serializing_if = "Vec::is_empty")]
    pub confirmers: Vec<u64>,
}

/// What became of a leader slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SlotStatus {
    /// Its proposal is part of the order.
    Committed,
    /// It is left out of the order for good.
    Skipped,
    /// Neither yet.
    Undecided,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_survive_being_parameters() {
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
    fn words_are_stable() {
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
