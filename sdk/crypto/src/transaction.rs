//! Transactions with known senders, and users' keys.

use crate::{
    impersonation::impersonated,
    secret::{self, SecretError},
};
use alloy_consensus::{SignableTransaction, Signed as AlloySigned, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, U256, keccak256, uint};
use corniche_types::Transaction;
use secp256k1::{
    Message, PublicKey, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Half the order of secp256k1, rounded down: the maximum `s` of a transaction (EIP-2).
const HALF_ORDER: U256 = uint!(0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0_U256);

/// A transaction for this chain with a valid signature. Cheap to clone.
#[derive(Clone, Debug)]
pub struct VerifiedTransaction(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    transaction: Transaction,
    sender: Address,
    is_impersonated: bool,
}

/// Knowledge about a transaction before its signature is checked.
#[derive(Clone, Debug)]
pub enum Known {
    /// It was checked before.
    Verified(VerifiedTransaction),
    /// Its sender, attested by enough validators that one of them is honest.
    Attested(Address),
}

/// Why a transaction's signature is refused. The texts are geth's, because wallets match them.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SignatureError {
    /// Signed for another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    InvalidChainId {
        /// The transaction's chain id.
        have: u64,
        /// This chain's id.
        want: u64,
    },
    /// A legacy transaction that could be replayed on any chain.
    #[error("only replay-protected (EIP-155) transactions allowed over RPC")]
    Unprotected,
    /// `s` is in the upper half: the malleable counterpart of a valid signature (EIP-2).
    #[error("invalid transaction v, r, s values: s is above half of the curve's order")]
    HighS,
    /// No public key matches.
    #[error("invalid transaction v, r, s values")]
    Invalid,
}

impl VerifiedTransaction {
    /// Checks chain id, replay protection and signature, cheap checks first. Takes about 35 µs.
    pub fn verify(transaction: Transaction, chain_id: u64) -> Result<Self, SignatureError> {
        check_form(&transaction, chain_id)?;
        let signature = transaction.signature();
        let (r, s) = (signature.r(), signature.s());
        RECOVERIES.fetch_add(1, Ordering::Relaxed);
        let (sender, is_impersonated) = match recover(transaction.signature_hash(), r, s, signature.v()) {
            Some(signer) => (signer, false),
            None => (impersonated(chain_id, r, s).ok_or(SignatureError::Invalid)?, true),
        };
        Ok(Self(Arc::new(Inner { transaction, sender, is_impersonated })))
    }

    /// Like [`Self::verify`], but uses what is `known` by hash, if anything. An earlier result is a hint only: it is used
    /// only if it has exactly these bytes and is for this chain. An attested sender replaces the check of the signature, so
    /// the caller must have it from more validators than may be faulty.
    pub fn verify_cached(
        transaction: Transaction,
        chain_id: u64,
        known: impl FnOnce(&B256) -> Option<Known>,
    ) -> Result<Self, SignatureError> {
        match known(&transaction.hash()) {
            Some(Known::Verified(known)) if known.raw() == transaction.raw() && known.chain_id() == Some(chain_id) => Ok(known),
            Some(Known::Attested(sender)) => {
                check_form(&transaction, chain_id)?;
                Ok(Self(Arc::new(Inner { transaction, sender, is_impersonated: false })))
            }
            Some(Known::Verified(_)) | None => Self::verify(transaction, chain_id),
        }
    }

    /// Returns the signed transaction.
    pub fn transaction(&self) -> &Transaction {
        &self.0.transaction
    }

    /// Returns the signer's address.
    pub fn sender(&self) -> Address {
        self.0.sender
    }

    /// Returns whether the transaction has no signature and is accepted because this is a development chain
    /// ([`impersonate`](crate::impersonate)). Such a sender may have code: EIP-3607 protects against a key for a contract's address, and
    /// here is no key.
    pub fn is_impersonated(&self) -> bool {
        self.0.is_impersonated
    }

    /// Returns keccak-256 of the raw bytes.
    pub fn hash(&self) -> B256 {
        self.0.transaction.hash()
    }
}

/// Checks everything about a signature that needs no elliptic curve.
fn check_form(transaction: &Transaction, chain_id: u64) -> Result<(), SignatureError> {
    match transaction.chain_id() {
        None => Err(SignatureError::Unprotected),
        Some(have) if have != chain_id => Err(SignatureError::InvalidChainId { have, want: chain_id }),
        Some(_) if transaction.signature().s() > HALF_ORDER => Err(SignatureError::HighS),
        Some(_) => Ok(()),
    }
}

/// Derefs to the transaction, so `tx.nonce()` works as on a [`Transaction`].
impl std::ops::Deref for VerifiedTransaction {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        self.transaction()
    }
}

impl PartialEq for VerifiedTransaction {
    fn eq(&self, other: &Self) -> bool {
        self.hash() == other.hash()
    }
}

impl Eq for VerifiedTransaction {}

/// Recovers the signer's address from a signature of `hash`. Accepts a high `s`, like Ethereum's precompile.
pub fn recover(hash: B256, r: U256, s: U256, odd_y: bool) -> Option<Address> {
    let mut compact = [0u8; 64];
    compact[..32].copy_from_slice(&r.to_be_bytes::<32>());
    compact[32..].copy_from_slice(&s.to_be_bytes::<32>());
    let recovery_id = if odd_y { RecoveryId::One } else { RecoveryId::Zero };
    let signature = RecoverableSignature::from_compact(&compact, recovery_id).ok()?;
    let key = signature.recover(Message::from_digest(hash.0)).ok()?;
    Some(address_of(&key))
}

static RECOVERIES: AtomicU64 = AtomicU64::new(0);

/// Number of senders that this process has recovered from signatures of transactions. For metrics.
pub fn recovery_count() -> u64 {
    RECOVERIES.load(Ordering::Relaxed)
}

fn address_of(key: &PublicKey) -> Address {
    // Skips the first byte of the uncompressed form, which is the constant 4.
    Address::from_slice(&keccak256(&key.serialize_uncompressed()[1..])[12..])
}

/// A user's key.
#[derive(Clone)]
pub struct EthereumKey(SecretKey);

impl EthereumKey {
    /// Creates a key. Refuses zero and numbers not below the order of secp256k1.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, SecretError> {
        SecretKey::from_secret_bytes(*bytes).map(Self).map_err(|_| SecretError::OutOfRange)
    }

    /// Parses the output of [`Self::to_hex`], and keys of other wallets: 32 bytes, with or without `0x`.
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        Self::from_bytes(&secret::from_hex(text)?)
    }

    /// Returns the secret, for a key file or the list of funded development accounts.
    pub fn to_hex(&self) -> String {
        secret::to_hex(&self.0.to_secret_bytes())
    }

    /// Returns the account of this key: the last 20 bytes of the public key's keccak-256.
    pub fn address(&self) -> Address {
        address_of(&self.0.public_key())
    }

    /// Signs a hash. Deterministic (RFC 6979), low-s.
    pub fn sign_hash(&self, hash: B256) -> Signature {
        let signature = RecoverableSignature::sign_ecdsa_recoverable(Message::from_digest(hash.0), &self.0);
        let (recovery_id, compact) = signature.serialize_compact();
        Signature::from_bytes_and_parity(&compact, recovery_id.to_u8() & 1 == 1)
    }

    /// Signs a `TxLegacy` (with a chain id), `TxEip2930` or `TxEip1559` and returns the bytes to send.
    pub fn sign<T>(&self, transaction: T) -> Bytes
    where
        T: SignableTransaction<Signature>,
        TxEnvelope: From<AlloySigned<T>>,
    {
        let signature = self.sign_hash(transaction.signature_hash());
        TxEnvelope::from(transaction.into_signed(signature)).encoded_2718().into()
    }
}

impl Drop for EthereumKey {
    fn drop(&mut self) {
        self.0.non_secure_erase();
    }
}

impl std::fmt::Debug for EthereumKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EthereumKey({})", self.address())
    }
}
