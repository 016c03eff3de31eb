//! Wire format of one validator's signature over one header.

use crate::keys::Signature;
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{B256, Bytes, Epoch, Height, wire};

/// Share of a certificate. The connection identifies the signer; the signature is verified only when it is
/// needed.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Share {
    pub epoch: Epoch,
    pub height: Height,
    pub header_hash: B256,
    pub signature: Signature,
}

impl Share {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, wire::WireError> {
        wire::decode(bytes)
    }
}
