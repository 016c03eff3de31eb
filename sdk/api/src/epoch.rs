//! Epochs and their committees: `corniche_getEpoch`, `corniche_getCommittee` and the subscription `epochs`.

use crate::{Latest, quantity};
use alloy_primitives::{Address, B256, Bytes, U64};
use corniche_types::{LightMember, Votes};
use serde::{Deserialize, Serialize};

/// Epoch of a request: a number, or `latest` for the running one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected an epoch number or \"latest\"")]
pub enum EpochId {
    /// The epoch with this number.
    Number(U64),
    /// The running epoch.
    Latest(Latest),
}

impl EpochId {
    /// Number of the epoch; `None` for the running one.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number.to()),
            Self::Latest(Latest::Latest) => None,
        }
    }
}

/// An epoch: `corniche_getEpoch`. Times are in Unix milliseconds of the chain's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EpochInfo {
    /// Its number; the first epoch has 0.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// Height of its first block, which may not exist yet.
    #[serde(with = "quantity")]
    pub first_block: u64,
    /// Height of its last block; `null` while it runs.
    #[serde(with = "quantity::optional")]
    pub last_block: Option<u64>,
    /// Time of the last block of the epoch before; the genesis time in epoch 0.
    #[serde(with = "quantity")]
    pub start_ms: u64,
    /// Time of its last block; `null` while it runs.
    #[serde(with = "quantity::optional")]
    pub end_ms: Option<u64>,
    /// Time from which a block is its last one; `null` if epochs never end.
    #[serde(with = "quantity::optional")]
    pub due_ms: Option<u64>,
    /// Hash of its committee, part of everything that the members sign.
    pub committee_hash: B256,
    /// Protocol version of its first block.
    #[serde(with = "quantity")]
    pub protocol_version: u64,
    /// The next epoch, as the last block names it; `null` while the epoch runs.
    pub next: Option<FollowingEpoch>,
}

/// The epoch after another, as the last block of that one names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FollowingEpoch {
    /// Hash of its committee.
    pub committee_hash: B256,
    /// Hash of BLS keys, votes and fault model of its committee.
    pub light_root: B256,
    /// Protocol version of its blocks.
    #[serde(with = "quantity")]
    pub protocol_version: u64,
}

/// Committee of an epoch: `corniche_getCommittee`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitteeInfo {
    /// Its epoch.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// Hash of the committee.
    pub committee_hash: B256,
    /// Minimum votes of the signers of a certificate.
    #[serde(with = "quantity")]
    pub quorum: u64,
    /// Members by index.
    pub members: Vec<CommitteeSeat>,
}

impl CommitteeInfo {
    /// BLS keys and votes of the members, for a light client that begins in this epoch.
    ///
    /// # Errors
    ///
    /// A key does not have 96 bytes, or votes are out of range.
    pub fn light_members(&self) -> Result<Vec<LightMember>, CommitteeFormatError> {
        let member = |seat: &CommitteeSeat| {
            let bls_key = seat.bls_key.as_ref().try_into().ok()?;
            Some(LightMember { bls_key, votes: Votes(u32::try_from(seat.votes).ok()?) })
        };
        self.members.iter().map(|seat| member(seat).ok_or(CommitteeFormatError(seat.index))).collect()
    }
}

/// A member of a served committee cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("committee: member {0} needs a BLS key of 96 bytes, and votes below 2^32")]
pub struct CommitteeFormatError(u64);

/// A member of a committee. A node keeps only BLS keys and votes of past committees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitteeSeat {
    /// Position in the committee, from 0.
    #[serde(with = "quantity")]
    pub index: u64,
    /// Number of the validator in the staking contract. `null` without staking, and for committees that are more than 63 epochs old.
    #[serde(with = "quantity::optional")]
    pub id: Option<u64>,
    /// Compressed BLS12-381 point, 96 bytes; verifies signatures of headers.
    pub bls_key: Bytes,
    /// Its votes in every quorum.
    #[serde(with = "quantity")]
    pub votes: u64,
    /// ed25519 public key that signs the engine's messages; `null` for past epochs.
    pub consensus_key: Option<B256>,
    /// ed25519 public key of its connections; `null` for past epochs.
    pub network_key: Option<B256>,
    /// Recipient of its tips; `null` for past epochs.
    pub fee_address: Option<Address>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn epoch_ids_are_numbers_or_latest() {
        let read = |value| serde_json::from_value::<EpochId>(value).map(EpochId::number);
        assert_eq!(read(json!("0x1f")).unwrap(), Some(31));
        assert_eq!(read(json!("latest")).unwrap(), None);
        for bad in [json!("earliest"), json!(null), json!({})] {
            assert_eq!(read(bad).unwrap_err().to_string(), "expected an epoch number or \"latest\"");
        }
    }
}
