//! What `eth_getProof` answers, held against a state root.

use alloy_rpc_types_eth::EIP1186AccountProofResponse;
use corniche_types::{Address, B256, U256, proof};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an account holds, every value of it shown. Of an account that is not there all are zero, the code hash too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvenAccount {
    /// Whose account it is.
    pub address: Address,
    /// Wei.
    pub balance: U256,
    /// Of its next transaction.
    #[serde(with = "crate::quantity")]
    pub nonce: u64,
    /// keccak-256 of its code; of an account without code, of nothing.
    pub code_hash: B256,
    /// The slots that were asked for, in that order.
    pub storage: Vec<ProvenSlot>,
}

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenSlot {
    /// Where.
    pub key: B256,
    /// Zero where nothing is.
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
    /// Checks the answer to a question for `address` and `slots`. What the answer claims without a proof must be what the proof shows.
    pub fn check(
        state_root: &B256,
        address: Address,
        slots: &[StorageKey],
        answer: &EIP1186AccountProofResponse,
    ) -> Result<Self, String> {
        if answer.address != address {
            return Err(format!("proof: asked for {address}, the answer is about {}", answer.address));
        }
        let account = proof::verify_account(state_root, &address, &answer.account_proof).map_err(of(&address))?;
        // Of an account that is not there, Ethereum's nodes answer zeros.
        let (balance, nonce, code_hash) =
            account.map_or_else(Default::default, |account| (account.balance, account.nonce, account.code_hash));
        if (answer.balance, answer.nonce, answer.code_hash) != (balance, nonce, code_hash) {
            return Err(format!("proof: {address} holds something else than the answer claims"));
        }
        if answer.storage_proof.len() != slots.len() {
            return Err(format!("proof: asked for {} slots, the answer has {}", slots.len(), answer.storage_proof.len()));
        }
        let check = |(StorageKey(key), shown): (&StorageKey, &alloy_rpc_types_eth::EIP1186StorageProof)| {
            if shown.key.as_b256() != *key {
                return Err(format!("proof: asked for slot {key}, the answer is about {}", shown.key.as_b256()));
            }
            let value = proof::verify_storage(state_root, &address, key, &shown.proof).map_err(of(key))?;
            if B256::from(shown.value) != value {
                return Err(format!("proof: slot {key} holds something else than the answer claims"));
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
