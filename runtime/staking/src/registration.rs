//! Keys of a validator, and the proofs that it has their secrets.

use crate::{
    Slots,
    contract::{CallError, revert},
    interface::Staking,
    record,
};
use alloy_primitives::{Address, B256, Bytes, FixedBytes, keccak256};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_crypto::{
    BLS_PUBLIC_KEY_BYTES, BLS_SIGNATURE_BYTES, BlsPublicKey, BlsSignature, ConsensusPublicKey, Domain, Signed,
    verify_possession,
};
use corniche_types::Epoch;

/// Bytes of a signature by the consensus key.
const CONSENSUS_PROOF_BYTES: usize = 64;

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
    pub coin: FixedBytes<BLS_SIGNATURE_BYTES>,
}

/// Statement that the consensus key signs for a registration (S7). It binds all keys to the owner, so nobody registers keys of
/// others.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Registration {
    /// Owner of the validator.
    pub owner: Address,
    /// The BLS key.
    pub bls: FixedBytes<BLS_PUBLIC_KEY_BYTES>,
    /// The network key.
    pub network: B256,
    /// The coin key.
    pub coin: FixedBytes<BLS_SIGNATURE_BYTES>,
}

/// Returns the domain under which a [`Registration`] is signed.
pub fn registration_domain(chain_id: u64) -> Domain {
    Domain { tag: "corniche-register", chain_id, epoch: Epoch(0), committee_hash: B256::ZERO }
}

impl Keys {
    /// Returns the hashes of the keys by column. A hash identifies a key across all columns.
    pub fn hashes(&self) -> [B256; 4] {
        [keccak256(self.consensus), keccak256(self.bls), keccak256(self.network), keccak256(self.coin)]
    }

    /// Returns the hash of both keys that sign for a committee. Evidence shows the keys.
    pub fn signing_hash(&self) -> B256 {
        keccak256([self.consensus.as_slice(), self.bls.as_slice()].concat())
    }

    /// Returns the statement that the consensus key signs.
    pub fn registration(&self, owner: Address) -> Registration {
        Registration { owner, bls: self.bls, network: self.network, coin: self.coin }
    }
}

/// Unchecked keys and proofs of a call.
pub(crate) struct SubmittedKeys {
    consensus: B256,
    consensus_proof: Bytes,
    bls: Bytes,
    bls_proof: Bytes,
    network: B256,
    coin: Bytes,
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
    /// Checks that the keys are valid, that nobody has used them, and that the owner has their secrets (S7). `current` are the
    /// keys that may stay. Signatures come last, because they take longest.
    pub fn check<S: Slots>(
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
        ConsensusPublicKey::parse(&keys.network).ok_or_else(|| bad_key(Column::Network))?;
        // A signature is a point of the same group.
        BlsSignature::from_bytes(keys.coin.as_slice()).ok_or_else(|| bad_key(Column::Coin))?;
        let bls = BlsPublicKey::from_bytes(keys.bls.as_slice()).ok_or_else(|| bad_key(Column::Bls))?;

        let signature: [u8; CONSENSUS_PROOF_BYTES] =
            self.consensus_proof.as_ref().try_into().map_err(|_| bad_proof(Column::Consensus))?;
        let signed = Signed { payload: keys.registration(owner), signature };
        signed.verify(&consensus, &registration_domain(chain_id)).map_err(|_| bad_proof(Column::Consensus))?;
        let proof = BlsSignature::from_bytes(&self.bls_proof).ok_or_else(|| bad_proof(Column::Bls))?;
        verify_possession(&bls, &proof).then_some(keys).ok_or_else(|| bad_proof(Column::Bls))
    }
}

fn bad_key<E>(column: Column) -> CallError<E> {
    revert(Staking::BadKey { column: column as u8 })
}

fn bad_proof<E>(column: Column) -> CallError<E> {
    revert(Staking::BadProof { column: column as u8 })
}

impl From<Staking::registerCall> for SubmittedKeys {
    fn from(call: Staking::registerCall) -> Self {
        Self {
            consensus: call.consensusKey,
            consensus_proof: call.consensusProof,
            bls: call.blsKey,
            bls_proof: call.blsProof,
            network: call.networkKey,
            coin: call.coinKey,
        }
    }
}

impl From<Staking::rotateCall> for SubmittedKeys {
    fn from(call: Staking::rotateCall) -> Self {
        Self {
            consensus: call.consensusKey,
            consensus_proof: call.consensusProof,
            bls: call.blsKey,
            bls_proof: call.blsProof,
            network: call.networkKey,
            coin: call.coinKey,
        }
    }
}
