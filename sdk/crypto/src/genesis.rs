//! Verification of the keys in a genesis.

use crate::{
    bls::{BlsPublicKey, BlsSignature, verify_possession},
    coin::CoinPublicKeys,
    coin_key::is_coin_key,
    signed::ConsensusPublicKey,
};
use corniche_types::{Genesis, ValidatorIndex};
use std::collections::BTreeSet;

/// Why the keys in a genesis are refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum GenesisKeyError {
    /// A validator's key is invalid.
    #[error("genesis: {field} of validator {validator} {problem}")]
    Validator {
        /// The validator's index.
        validator: ValidatorIndex,
        /// Name of the key's field.
        field: &'static str,
        /// Why the key is invalid.
        problem: &'static str,
    },
    /// The coin's public key or a share of it is not a point of the group, or is the identity.
    #[error("genesis: a coin key is not a point of the group")]
    CoinKey,
    /// There is not one share per vote, or quorums of shares and only these do not make the coin.
    #[error("genesis: the coin's key shares do not belong to its public key")]
    CoinInconsistent,
}

/// Checks every key of a genesis: that it is valid and listed once, that each BLS key has a proof of possession, and
/// that any quorum of coin shares makes the coin.
pub fn verify_genesis(genesis: &Genesis) -> Result<(), GenesisKeyError> {
    member_keys(genesis)?;
    let mut seen = BTreeSet::new();
    for (validator, info) in (0u16..).map(ValidatorIndex).zip(&genesis.validators) {
        for (field, key) in [("consensus_key", &info.consensus_key), ("network_key", &info.network_key)] {
            let refuse = |problem| Err(GenesisKeyError::Validator { validator, field, problem });
            if ConsensusPublicKey::parse(key).is_none() {
                return refuse("is not an ed25519 public key");
            }
            // Across both fields: a key must not serve two purposes.
            if !seen.insert(*key) {
                return refuse("is listed twice");
            }
        }
        if info.stake.as_ref().is_some_and(|stake| !is_coin_key(&stake.coin_key)) {
            let problem = "is not a compressed point of the group";
            return Err(GenesisKeyError::Validator { validator, field: "coin_key", problem });
        }
    }
    let coin = CoinPublicKeys::from_genesis(genesis).ok_or(GenesisKeyError::CoinKey)?;
    let weights = genesis.weights();
    let complete = genesis.coin_shares.len() == weights.total().as_usize();
    (complete && coin.is_consistent(weights.quorum())).then_some(()).ok_or(GenesisKeyError::CoinInconsistent)
}

/// Returns the validators' BLS keys in order; checks proofs of possession and that all keys differ.
pub(crate) fn member_keys(genesis: &Genesis) -> Result<Vec<BlsPublicKey>, GenesisKeyError> {
    let mut seen = BTreeSet::new();
    let mut keys = Vec::with_capacity(genesis.validators.len());
    for (validator, info) in (0u16..).map(ValidatorIndex).zip(&genesis.validators) {
        let refuse = |field, problem| GenesisKeyError::Validator { validator, field, problem };
        let key = BlsPublicKey::from_bytes(&info.bls_key).ok_or(refuse("bls_key", "is not a compressed point of the group"))?;
        let proof =
            BlsSignature::from_bytes(&info.bls_proof).ok_or(refuse("bls_proof", "is not a compressed point of the group"))?;
        if !verify_possession(&key, &proof) {
            return Err(refuse("bls_proof", "does not prove possession of bls_key"));
        }
        if !seen.insert(key.to_bytes()) {
            return Err(refuse("bls_key", "is listed twice"));
        }
        keys.push(key);
    }
    Ok(keys)
}
