//! Proof that one committee follows another: what a light client needs at the end of an epoch.

use crate::block::{deserialize_header, serialize_header};
use crate::{B256, Bytes, Certificate, CommitIndex, Epoch, FaultModel, NextEpoch, TimestampMs, ValidatorIndex, Votes, wire};
use alloy_consensus::Header;
use alloy_primitives::keccak256;
use borsh::{BorshDeserialize, BorshSerialize};

/// Head of the ordering record of a block ([`OrderingRecord::encode_hashed`](crate::OrderingRecord::encode_hashed)), from protocol
/// version 5 on.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct RecordHead {
    /// Name of the engine.
    pub engine: String,
    /// Version of the rules of the block.
    pub protocol_version: u32,
    /// Epoch of the block.
    pub epoch: Epoch,
    /// Hash of the committee that ordered the block.
    pub committee_hash: B256,
    /// The next epoch, in the last block of an epoch.
    pub next: Option<NextEpoch>,
    /// First and last commit in the block, and the part of the last one that is ordered.
    pub commits: (CommitIndex, CommitIndex, u32),
    /// Leader, time and randomness of the last commit.
    pub agreed: (ValidatorIndex, TimestampMs, B256),
    /// Hashes of the ordered transactions, of the resume point, and of the tail.
    pub hashes: (B256, B256, B256),
}

impl RecordHead {
    /// Decodes a head. A head has one encoding.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let head: Self = wire::decode(bytes).ok()?;
        (wire::encode(&head) == bytes).then_some(head)
    }
}

/// A member of a committee, as a light client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct LightMember {
    /// Compressed BLS12-381 point of G2: verifies signatures of headers.
    pub bls_key: [u8; 96],
    /// Its votes.
    pub votes: Votes,
}

/// Hash of what a light client needs of a committee ([`NextEpoch::light_root`]).
pub fn light_root(fault_model: FaultModel, members: &[LightMember]) -> B256 {
    keccak256(wire::encode(&("corniche-light", fault_model, members)))
}

/// Proof of the committee that follows an epoch. The committee of the epoch signed it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct EpochChange {
    /// Header of the last block of the epoch.
    #[borsh(serialize_with = "serialize_header", deserialize_with = "deserialize_header")]
    pub header: Header,
    /// Head of that block's ordering record, whose hash is in the header.
    pub head: Bytes,
    /// Certificate of that block.
    pub certificate: Certificate,
    /// Members of the next committee. `None` if BLS keys and votes stay.
    pub members: Option<Vec<LightMember>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchRef, OrderingRecord};

    /// The head that a light client decodes is the one that a block's header covers.
    #[test]
    fn head_is_that_of_the_ordering_record() {
        let next = NextEpoch { committee_hash: B256::repeat_byte(1), light_root: B256::repeat_byte(2), protocol_version: 6 };
        let record = OrderingRecord {
            protocol_version: 5,
            engine: "autobahn".into(),
            epoch: Epoch(3),
            committee_hash: B256::repeat_byte(3),
            next: Some(next.clone()),
            first_commit: CommitIndex(7),
            last_commit: CommitIndex(9),
            last_commit_consumed: 4,
            leader: ValidatorIndex(2),
            time: TimestampMs(99),
            randomness: B256::repeat_byte(4),
            batches: vec![BatchRef { author: ValidatorIndex(1), digest: B256::repeat_byte(5), first: 0, count: 2 }],
            transactions_hash: B256::repeat_byte(6),
            skipped: Vec::new(),
            resume_hash: B256::repeat_byte(7),
        };
        let bytes = record.encode_hashed();
        let head = RecordHead::decode(&bytes).unwrap();
        assert_eq!((head.epoch, head.committee_hash, head.next), (record.epoch, record.committee_hash, Some(next)));
        assert_eq!(head.agreed, (record.leader, record.time, record.randomness));
        assert_eq!(RecordHead::decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(RecordHead::decode(&bytes[..bytes.len() - 1]), None);
    }
}
