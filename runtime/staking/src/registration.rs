//! Keys of a validator, and the proofs that it has their secrets.

use crate::{
    Slots,
    contract::{CallError, revert},
    interface::{Staking, SubmittedKeys},
    record,
};
use alloy_primitives::{Address, B256, Bytes, FixedBytes, keccak256};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_crypto::{
    BLS_PUBLIC_KEY_BYTES, BlsPublicKey, BlsSecretKey, BlsSignature, COIN_KEY_BYTES, ConsensusKey, ConsensusPublicKey, Domain,
    Signed, evidence::signing_hash, is_coin_key, verify_possession_for,
};
use corniche_types::Epoch;

/// Public keys of a validator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Keys {
    /// ed25519; verifies the engine's messages.
    pub consensus: B256,
    /// BLS, a compressed point of G2; verifies signatures of headers.
    pub bls: FixedBytes<BLS_PUBLIC_KEY_BYTES>,
    /// ed25519; identity in the network.
    pub network: B256,
    /// Compressed point of G1; encrypts shares of the coin.
    pub coin: FixedBytes<COIN_KEY_BYTES>,
}

impl Keys {
    /// Returns the hashes of the keys that nobody else may use, by column. A hash identifies a key across all columns.
    ///
    /// The coin key is not one of them. Two validators with one coin key harm nobody but themselves, because the encryption of
    /// shares binds the receiver's index.
    pub fn hashes(&self) -> [B256; 3] {
        [keccak256(self.consensus), keccak256(self.bls), keccak256(self.network)]
    }

    /// Returns the hash of both keys that sign for a committee. Evidence shows the keys.
    pub fn signing_hash(&self) -> B256 {
        signing_hash(&self.consensus, &self.bls)
    }
}

/// Statement that consensus key, BLS key and network key sign (S7). It binds all keys to the owner, so nobody else registers
/// them, even with a copy of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct Registration {
    owner: Address,
    keys: Keys,
}

/// Tags of the statement, one per signing key, so that no proof serves for another key.
const CONSENSUS_TAG: &str = "corniche-register";
const BLS_TAG: &str = "corniche-register-bls";
const NETWORK_TAG: &str = "corniche-register-network";

fn domain(tag: &'static str, chain_id: u64) -> Domain {
    Domain { tag, chain_id, epoch: Epoch(0), committee_hash: B256::ZERO }
}

/// Keys to register: the secrets of those that sign, and the public coin key.
#[derive(Clone, Copy, Debug)]
pub struct SigningKeys<'a> {
    /// Signs the engine's messages.
    pub consensus: &'a ConsensusKey,
    /// Signs headers.
    pub bls: &'a BlsSecretKey,
    /// Identity in the network.
    pub network: &'a ConsensusKey,
    /// Public coin key, compressed.
    pub coin: [u8; COIN_KEY_BYTES],
}

impl SigningKeys<'_> {
    /// Returns the public keys.
    pub fn public(&self) -> Keys {
        Keys {
            consensus: self.consensus.public(),
            bls: self.bls.public().to_bytes().into(),
            network: self.network.public(),
            coin: self.coin.into(),
        }
    }
}

/// Signs keys for a call of `register` or `rotate`. The owner is the sender of `register`. For `rotate` it is the validator's
/// owner, even if the operator sends the call.
///
/// Each signature is of a [`Domain`] digest of (owner, keys), with a tag of its own. That of the BLS key is a
/// [proof of possession](BlsSecretKey::prove_possession_for) for the digest. The coin key signs nothing.
pub fn sign_keys(secrets: &SigningKeys<'_>, owner: Address, chain_id: u64) -> SubmittedKeys {
    let keys = secrets.public();
    let statement = Registration { owner, keys };
    let sign = |key: &ConsensusKey, tag| Bytes::from(Signed::sign(statement, key, &domain(tag, chain_id)).signature);
    let bls_proof = secrets.bls.prove_possession_for(&domain(BLS_TAG, chain_id).digest(&statement));
    SubmittedKeys {
        consensus: keys.consensus,
        consensusProof: sign(secrets.consensus, CONSENSUS_TAG),
        bls: keys.bls.into(),
        blsProof: bls_proof.to_bytes().into(),
        network: keys.network,
        networkProof: sign(secrets.network, NETWORK_TAG),
        coin: keys.coin.into(),
    }
}

/// A key or a proof, as errors of the contract number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Column {
    Consensus = 0,
    Bls = 1,
    Network = 2,
    Coin = 3,
}

impl SubmittedKeys {
    /// Checks that the keys are valid, that nobody has used them, and that they are signed for the owner (S7). `current` are
    /// the keys that may stay. Signatures come last, because they take longest.
    pub(crate) fn check<S: Slots>(
        &self,
        slots: &mut S,
        owner: Address,
        chain_id: u64,
        current: Option<&Keys>,
    ) -> Result<Keys, CallError<S::Error>> {
        let keys = Keys {
            consensus: self.consensus,
            bls: self.bls.as_ref().try_into().map_err(|_| bad_key(Column::Bls))?,
            network: self.network,
            coin: self.coin.as_ref().try_into().map_err(|_| bad_key(Column::Coin))?,
        };
        if let Some(hash) = record::used_key(slots, &keys, current)? {
            return Err(revert(Staking::KeyUsed { keyHash: hash }));
        }
        let consensus = ConsensusPublicKey::parse(&keys.consensus).ok_or_else(|| bad_key(Column::Consensus))?;
        let network = ConsensusPublicKey::parse(&keys.network).ok_or_else(|| bad_key(Column::Network))?;
        if !is_coin_key(keys.coin.as_slice()) {
            return Err(bad_key(Column::Coin));
        }
        let bls = BlsPublicKey::from_bytes(keys.bls.as_slice()).ok_or_else(|| bad_key(Column::Bls))?;

        let statement = Registration { owner, keys };
        let signs = |key: &ConsensusPublicKey, proof: &Bytes, tag| {
            proof
                .as_ref()
                .try_into()
                .is_ok_and(|signature| Signed { payload: statement, signature }.verify(key, &domain(tag, chain_id)).is_ok())
        };
        if !signs(&consensus, &self.consensusProof, CONSENSUS_TAG) {
            return Err(bad_proof(Column::Consensus));
        }
        if !signs(&network, &self.networkProof, NETWORK_TAG) {
            return Err(bad_proof(Column::Network));
        }
        let digest = domain(BLS_TAG, chain_id).digest(&statement);
        let proof = BlsSignature::from_bytes(&self.blsProof).ok_or_else(|| bad_proof(Column::Bls))?;
        verify_possession_for(&bls, &digest, &proof).then_some(keys).ok_or_else(|| bad_proof(Column::Bls))
    }
}

fn bad_key<E>(column: Column) -> CallError<E> {
    revert(Staking::BadKey { column: column as u8 })
}

fn bad_proof<E>(column: Column) -> CallError<E> {
    revert(Staking::BadProof { column: column as u8 })
}
