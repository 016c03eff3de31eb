//! Ethereum transactions: types 0 (EIP-155), 1 (EIP-2930) and 2 (EIP-1559).

use alloy_consensus::{
    Signed, Transaction as _, TxEip1559, TxEip2930, TxEnvelope, TxLegacy,
    transaction::{RlpEcdsaDecodableTx, SignableTransaction},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};

/// Maximum bytes of one transaction: 128 KiB.
pub const MAX_TRANSACTION_BYTES: usize = 128 * 1024;

/// Why bytes are not a transaction of this chain. The texts are geth's, because wallets match them.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// More than [`MAX_TRANSACTION_BYTES`].
    #[error("oversized data: transaction size {size}, limit {MAX_TRANSACTION_BYTES}")]
    Oversized {
        /// Number of bytes.
        size: usize,
    },
    /// EIP-2718 type 3, 4 or unknown.
    #[error("transaction type not supported")]
    TypeNotSupported {
        /// The first byte: the EIP-2718 type.
        type_byte: u8,
    },
    /// Not canonical RLP of a transaction, or trailing bytes.
    #[error("rlp: {0}")]
    Malformed(String),
}

/// A decoded transaction with its exact bytes. Its signature is *not* verified; see
/// `corniche_crypto::VerifiedTransaction`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    envelope: TxEnvelope,
    raw: Bytes,
    hash: B256,
}

impl Transaction {
    /// Decodes the EIP-2718 bytes of one transaction; non-canonical RLP and trailing bytes are errors.
    pub fn decode(raw: Bytes) -> Result<Self, DecodeError> {
        // Hash once, here: alloy's own function would hash again.
        let envelope = read(&raw, || keccak256(&raw))?;
        Ok(Self { hash: *envelope.tx_hash(), envelope, raw })
    }

    /// Returns the gas limit in these bytes: like [`Self::decode`], without computing the hash.
    pub fn declared_gas(raw: &[u8]) -> Result<u64, DecodeError> {
        read(raw, || B256::ZERO).map(|envelope| envelope.gas_limit())
    }

    /// Returns keccak-256 of the raw bytes.
    pub fn hash(&self) -> B256 {
        self.hash
    }

    /// Returns the bytes as signed and sent.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// Returns the decoded form.
    pub fn envelope(&self) -> &TxEnvelope {
        &self.envelope
    }

    /// Returns the EIP-2718 type: 0, 1 or 2.
    pub fn type_byte(&self) -> u8 {
        self.envelope.tx_type() as u8
    }

    /// Returns the chain id; `None` only for a legacy transaction without replay protection (EIP-155).
    pub fn chain_id(&self) -> Option<u64> {
        self.envelope.chain_id()
    }

    /// Returns the nonce: the number of the sender's earlier transactions.
    pub fn nonce(&self) -> u64 {
        self.envelope.nonce()
    }

    /// Returns the gas limit, which is paid in advance.
    pub fn gas_limit(&self) -> u64 {
        self.envelope.gas_limit()
    }

    /// Returns the maximum wei per gas that the sender pays; the gas price for types 0 and 1.
    pub fn max_fee_per_gas(&self) -> u128 {
        self.envelope.max_fee_per_gas()
    }

    /// Returns the maximum tip for the batch's author, in wei per gas; the gas price for types 0 and 1.
    pub fn max_priority_fee_per_gas(&self) -> u128 {
        self.envelope.priority_fee_or_price()
    }

    /// Returns the wei per gas paid at `base_fee`; valid only if [`Self::max_fee_per_gas`] is at least `base_fee`.
    pub fn effective_gas_price(&self, base_fee: u64) -> u128 {
        self.envelope.effective_gas_price(Some(base_fee))
    }

    /// Returns the callee, or creation.
    pub fn kind(&self) -> TxKind {
        self.envelope.kind()
    }

    /// Returns the callee; `None` for a creation.
    pub fn to(&self) -> Option<Address> {
        self.envelope.to()
    }

    /// Returns the value in wei.
    pub fn value(&self) -> U256 {
        self.envelope.value()
    }

    /// Returns the call's input; for a creation, the code and the constructor's arguments.
    pub fn input(&self) -> &Bytes {
        self.envelope.input()
    }

    /// Returns the access list: addresses with storage keys.
    pub fn access_list(&self) -> Vec<(Address, Vec<B256>)> {
        let items = self.envelope.access_list().map(|list| list.0.as_slice()).unwrap_or_default();
        items.iter().map(|item| (item.address, item.storage_keys.clone())).collect()
    }

    /// Returns the sender's signature, not verified.
    pub fn signature(&self) -> &Signature {
        self.envelope.signature()
    }

    /// Returns the hash that the sender signed.
    pub fn signature_hash(&self) -> B256 {
        match &self.envelope {
            TxEnvelope::Legacy(signed) => signed.tx().signature_hash(),
            TxEnvelope::Eip2930(signed) => signed.tx().signature_hash(),
            TxEnvelope::Eip1559(signed) => signed.tx().signature_hash(),
            _ => unreachable!("decode admits types 0, 1 and 2 only"),
        }
    }

    /// Returns the maximum wei that the sender can lose: gas limit × max fee + value; `None` if that exceeds 256 bits.
    pub fn max_cost(&self) -> Option<U256> {
        U256::from(self.gas_limit()).checked_mul(U256::from(self.max_fee_per_gas()))?.checked_add(self.value())
    }
}

/// Decodes an envelope; `hash` provides its hash.
fn read(raw: &[u8], hash: impl FnOnce() -> B256) -> Result<TxEnvelope, DecodeError> {
    if raw.len() > MAX_TRANSACTION_BYTES {
        return Err(DecodeError::Oversized { size: raw.len() });
    }
    match raw {
        [] => Err(DecodeError::Malformed("empty transaction".into())),
        [1, rest @ ..] => signed::<TxEip2930>(rest, hash).map(TxEnvelope::Eip2930),
        [2, rest @ ..] => signed::<TxEip1559>(rest, hash).map(TxEnvelope::Eip1559),
        [0xc0..=0xff, ..] => signed::<TxLegacy>(raw, hash).map(TxEnvelope::Legacy),
        [byte, ..] => Err(DecodeError::TypeNotSupported { type_byte: *byte }),
    }
}

fn signed<T: RlpEcdsaDecodableTx>(mut rest: &[u8], hash: impl FnOnce() -> B256) -> Result<Signed<T>, DecodeError> {
    let malformed = |error: alloy_rlp::Error| DecodeError::Malformed(error.to_string());
    let (transaction, signature) = T::rlp_decode_with_signature(&mut rest).map_err(malformed)?;
    match rest.len() {
        0 => Ok(Signed::new_unchecked(transaction, signature, hash())),
        more => Err(DecodeError::Malformed(format!("{more} bytes after the transaction"))),
    }
}
