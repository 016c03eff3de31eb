//! Commit certificates as JSON: `corniche_getCertificate`.

use crate::quantity;
use alloy_primitives::{B256, Bytes};
use corniche_types::{Epoch, FaultModel, Height, SignerBitmap};
use serde::{Deserialize, Serialize};

/// A certificate as JSON, for display and for clients that verify it. It covers the block at `block_number` and all
/// its ancestors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Number of the committee that signed.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// Hash of that committee's keys ([`Genesis::committee_hash`](corniche_types::Genesis::committee_hash)), part of the signed message.
    pub committee_hash: B256,
    /// Height of the newest covered block.
    #[serde(with = "quantity")]
    pub block_number: u64,
    /// keccak-256 of that block's header.
    pub block_hash: B256,
    /// `byzantine` or `crash`.
    pub fault_model: String,
    /// One bit per validator, least significant bit of the first byte first.
    pub signers: Bytes,
    /// Compressed BLS12-381 point, 48 bytes.
    pub signature: Bytes,
}

/// Reason why a served certificate cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("certificate: unknown fault model {0}")]
pub struct CertificateError(String);

impl From<&corniche_types::Certificate> for Certificate {
    fn from(certificate: &corniche_types::Certificate) -> Self {
        Self {
            epoch: certificate.epoch.0,
            committee_hash: certificate.committee_hash,
            block_number: certificate.height.0,
            block_hash: certificate.header_hash,
            fault_model: certificate.fault_model.to_string(),
            signers: certificate.signers.0.clone(),
            signature: certificate.signature.clone(),
        }
    }
}

impl TryFrom<Certificate> for corniche_types::Certificate {
    type Error = CertificateError;

    /// Converts it for `corniche_crypto::verify_certificate`.
    fn try_from(json: Certificate) -> Result<Self, CertificateError> {
        let fault_model = match json.fault_model.as_str() {
            "byzantine" => FaultModel::Byzantine,
            "crash" => FaultModel::Crash,
            _ => return Err(CertificateError(json.fault_model)),
        };
        Ok(Self {
            epoch: Epoch(json.epoch),
            committee_hash: json.committee_hash,
            height: Height(json.block_number),
            header_hash: json.block_hash,
            fault_model,
            signers: SignerBitmap(json.signers),
            signature: json.signature,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::ValidatorIndex;

    #[test]
    fn certificate_round_trips_through_json() {
        let certificate = corniche_types::Certificate {
            epoch: Epoch(2),
            committee_hash: B256::repeat_byte(3),
            height: Height(300),
            header_hash: B256::repeat_byte(4),
            fault_model: FaultModel::Byzantine,
            signers: SignerBitmap::from_signers([0, 2, 3].map(ValidatorIndex), 4),
            signature: Bytes::from(vec![7; 48]),
        };
        let text = serde_json::to_string(&Certificate::from(&certificate)).unwrap();
        assert!(text.contains("\"blockNumber\":\"0x12c\""));
        let json: Certificate = serde_json::from_str(&text).unwrap();
        assert_eq!(corniche_types::Certificate::try_from(json).unwrap(), certificate);
    }
}
