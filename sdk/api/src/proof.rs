//! Result of `eth_getProof`, verified against a state root.

use alloy_rpc_types_eth::EIP1186AccountProofResponse;
use corniche_types::{Address, B256, U256, proof};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Proven values of an account. All are zero for a missing account, including the code hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvenAccount {
    /// Address of the account.
    pub address: Address,
    /// Balance in wei.
    pub balance: U256,
    /// Nonce of its next transaction.
    #[serde(with = "crate::quantity")]
    pub nonce: u64,
    /// keccak-256 of its code; for an account without code, of the empty string.
    pub code_hash: B256,
    /// The requested slots, in the order of the request.
    pub storage: Vec<ProvenSlot>,
}

/// Proven value of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenSlot {
    /// Slot key.
    pub key: B256,
    /// Value; zero for an empty slot.
    pub value: B256,
}

/// A slot, in up to 32 bytes of hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageKey(pub B256);

impl Serialize for StorageKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StorageKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        U256::deserialize(deserializer).map(|number| Self(number.into()))
    }
}

impl ProvenAccount {
    /// Verifies the response for `address` and `slots`. Values outside the proof must match the proven ones.
    pub fn check(
        state_root: &B256,
        address: Address,
        slots: &[StorageKey],
        answer: &EIP1186AccountProofResponse,
    ) -> Result<Self, String> {
        if answer.address != address {
            return Err(format!("proof: expected account {address}, got {}", answer.address));
        }
        let account = proof::verify_account(state_root, &address, &answer.account_proof).map_err(of(&address))?;
        // Ethereum's nodes return zeros for a missing account.
        let (balance, nonce, code_hash) =
            account.map_or_else(Default::default, |account| (account.balance, account.nonce, account.code_hash));
        if (answer.balance, answer.nonce, answer.code_hash) != (balance, nonce, code_hash) {
            return Err(format!("proof: account {address} has other values than the response"));
        }
        if answer.storage_proof.len() != slots.len() {
            return Err(format!("proof: expected {} slots, got {}", slots.len(), answer.storage_proof.len()));
        }
        let check = |(StorageKey(key), shown): (&StorageKey, &alloy_rpc_types_eth::EIP1186StorageProof)| {
            if shown.key.as_b256() != *key {
                return Err(format!("proof: expected slot {key}, got {}", shown.key.as_b256()));
            }
            let value = proof::verify_storage(state_root, &address, key, &shown.proof).map_err(of(key))?;
            if B256::from(shown.value) != value {
                return Err(format!("proof: slot {key} has another value than the response"));
            }
            Ok(ProvenSlot { key: *key, value })
        };
        let storage = slots.iter().zip(&answer.storage_proof).map(check).collect::<Result<_, _>>()?;
        Ok(Self { address, balance, nonce, code_hash, storage })
    }
}

fn of(what: &impl std::fmt::Display) -> impl Fn(proof::ProofError) -> String {
    move |error| format!("proof of {what}: {error}")
}
