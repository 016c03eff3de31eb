//! The committees of a chain, one after the other: `corniche_getEpochChanges`.

use crate::{Certificate, quantity};
use corniche_types::{Bytes, LightMember, Votes, decode_header, encode_header};
use serde::{Deserialize, Serialize};

/// Most epoch changes in a response.
pub const MAX_EPOCH_CHANGES: u64 = 64;

/// Proof of the committee that follows an epoch, signed by the committee of the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EpochChange {
    /// Epoch that ends.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// RLP of the header of its last block.
    pub header: Bytes,
    /// Head of that block's ordering record. Its keccak-256 is the header's `extraData`.
    pub head: Bytes,
    /// Certificate of that block.
    pub certificate: Certificate,
    /// Members of the next committee, by index. Null if BLS keys and votes stay.
    pub members: Option<Vec<CommitteeMember>>,
}

/// A member of a committee, as clients need it that check certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitteeMember {
    /// Compressed BLS12-381 point, 96 bytes.
    pub bls_key: Bytes,
    /// Its votes.
    pub votes: u32,
}

/// Why a served epoch change cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EpochChangeFormatError {
    /// The certificate cannot be read.
    #[error("epoch change: {0}")]
    Certificate(#[from] crate::CertificateError),
    /// The header is not the RLP of a header.
    #[error("epoch change: the header cannot be decoded")]
    Header,
    /// A BLS key does not have 96 bytes.
    #[error("epoch change: a BLS key does not have 96 bytes")]
    Key,
}

impl From<&corniche_types::EpochChange> for EpochChange {
    fn from(change: &corniche_types::EpochChange) -> Self {
        let member = |member: &LightMember| CommitteeMember { bls_key: member.bls_key.to_vec().into(), votes: member.votes.0 };
        Self {
            epoch: change.certificate.epoch.0,
            header: encode_header(&change.header).into(),
            head: change.head.clone(),
            certificate: (&change.certificate).into(),
            members: change.members.as_ref().map(|members| members.iter().map(member).collect()),
        }
    }
}

impl TryFrom<EpochChange> for corniche_types::EpochChange {
    type Error = EpochChangeFormatError;

    /// Converts it for `corniche_crypto::CommitteeKeys::advance`.
    fn try_from(json: EpochChange) -> Result<Self, EpochChangeFormatError> {
        let member = |member: CommitteeMember| -> Result<LightMember, EpochChangeFormatError> {
            let bls_key = member.bls_key.as_ref().try_into().map_err(|_| EpochChangeFormatError::Key)?;
            Ok(LightMember { bls_key, votes: Votes(member.votes) })
        };
        Ok(Self {
            header: decode_header(&json.header).ok_or(EpochChangeFormatError::Header)?,
            head: json.head,
            certificate: json.certificate.try_into()?,
            members: json.members.map(|members| members.into_iter().map(member).collect::<Result<_, _>>()).transpose()?,
        })
    }
}
