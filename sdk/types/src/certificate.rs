//! Commit certificates: proof that a quorum of validators executed a block to one header.

use crate::{Epoch, Height, ValidatorIndex, Votes};
use alloy_primitives::{B256, Bytes};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Faults of validators that an engine tolerates, and so do its certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[borsh(use_discriminant = true)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum FaultModel {
    /// At most F of W ≥ 3F+1 votes belong to Byzantine validators.
    #[default]
    Byzantine = 1,
    /// At most F of W ≥ 2F+1 votes belong to validators that crash.
    Crash = 2,
}

impl FaultModel {
    /// Fault model of the engine with this name.
    pub fn of_engine(name: &str) -> Self {
        match name {
            "quepaxa" | "sadl-racs" | "baxos" => Self::Crash,
            _ => Self::Byzantine,
        }
    }

    /// Returns what the validators may do without harm, in plain words.
    pub fn tolerates(self) -> &'static str {
        match self {
            Self::Byzantine => "liars with less than a third of the votes",
            Self::Crash => "crashes only, of less than half of the votes: one validator that lies can split the chain",
        }
    }

    /// Returns F, the most votes of faulty validators among `total`.
    pub fn faulty(self, total: Votes) -> Votes {
        let others = total.0.saturating_sub(1);
        match self {
            Self::Byzantine => Votes(others / 3),
            Self::Crash => Votes(others / 2),
        }
    }
}

impl fmt::Display for FaultModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Byzantine => "byzantine",
            Self::Crash => "crash",
        })
    }
}

/// One bit per validator, least significant bit of byte 0 first; exactly ⌈n/8⌉ bytes, unused bits zero.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignerBitmap(pub Bytes);

impl SignerBitmap {
    /// Returns the bitmap of these validators. Each must be in a committee of this size.
    pub fn from_signers(signers: impl IntoIterator<Item = ValidatorIndex>, committee_size: usize) -> Self {
        let mut bits = vec![0u8; committee_size.div_ceil(8)];
        for signer in signers {
            bits[signer.as_usize() / 8] |= 1 << (signer.as_usize() % 8);
        }
        Self(bits.into())
    }

    /// Returns the signers in ascending order; `None` if the bitmap is not the canonical one for `committee_size`.
    pub fn signers(&self, committee_size: usize) -> Option<Vec<ValidatorIndex>> {
        if self.0.len() != committee_size.div_ceil(8) {
            return None;
        }
        let set = |index: &u16| self.0[usize::from(*index) / 8] & (1 << (index % 8)) != 0;
        let width = u16::try_from(self.0.len() * 8).ok()?;
        let signers: Vec<_> = (0..width).filter(set).map(ValidatorIndex).collect();
        signers.iter().all(|signer| signer.as_usize() < committee_size).then_some(signers)
    }
}

/// A quorum's aggregate BLS signature of one header. A certificate covers all ancestors of its block.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Certificate {
    /// Epoch of the committee that signed.
    pub epoch: Epoch,
    /// Identifies that committee in its signatures ([`Genesis::committee_hash`](crate::Genesis::committee_hash)).
    pub committee_hash: B256,
    /// Height of the block.
    pub height: Height,
    /// keccak-256 of the block's header.
    pub header_hash: B256,
    /// Fault model that determines the quorum.
    pub fault_model: FaultModel,
    /// Validators whose signatures are aggregated.
    pub signers: SignerBitmap,
    /// Compressed BLS12-381 G1 point, 48 bytes (min_sig).
    pub signature: Bytes,
}

impl Certificate {
    /// Returns the bytes that each validator signs: domain tag ‖ chain id ‖ epoch ‖ committee hash ‖ height ‖ header
    /// hash ‖ fault model.
    pub fn signed_bytes(
        chain_id: u64,
        epoch: Epoch,
        committee_hash: B256,
        height: Height,
        header_hash: B256,
        fault_model: FaultModel,
    ) -> Vec<u8> {
        crate::wire::encode(&("corniche-certificate", chain_id, epoch, committee_hash, height, header_hash, fault_model))
    }
}
