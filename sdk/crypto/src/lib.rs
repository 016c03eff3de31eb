//! All signatures in Corniche: the signed data, its verification, and types for verified data.
//!
//! - **Users** sign transactions with secp256k1. `VerifiedTransaction` is a transaction with a known sender (feature
//!   `transactions`, enabled by default).
//! - **Validators** sign engine messages with ed25519. A single function turns [`Signed`] into [`Verified`], under a
//!   [`Domain`].
//! - **Validators** sign headers with BLS12-381 (min_sig: 48-byte signatures, 96-byte keys). A quorum's aggregate is a
//!   certificate, verified with [`verify_certificate`] or [`CommitteeKeys`]. It makes a [`FinalBlock`].
//! - **The threshold coin** is a BLS signature whose key is shared among the validators. One dealer makes it ([`deal_coin`]), or all validators
//!   together ([`settle`]).
//!
//! Invariants: a parsed public key or signature is in its prime-order group and is not the identity. Everything that
//! validators sign starts with a tag, the chain id, the epoch and the committee's hash, so no signature can be replayed
//! in another context. Secrets are erased when they are dropped, and are never printed.
//!
//! Use this crate through these types. It provides no raw curve arithmetic; `recover` exists only for the precompile and for measurements.

#![warn(missing_docs)]

mod bls;
mod certificate;
mod coin;
mod coin_key;
mod dealing;
pub mod evidence;
mod finality;
mod genesis;
#[cfg(feature = "transactions")]
mod impersonation;
mod light;
mod light_client;
mod pairing;
mod scalar;
mod secret;
mod signed;
#[cfg(feature = "transactions")]
mod transaction;

pub use bls::{
    BLS_PUBLIC_KEY_BYTES, BLS_SIGNATURE_BYTES, BlsPublicKey, BlsSecretKey, BlsSignature, bls_aggregate, bls_combine,
    bls_verify, bls_verify_aggregate, bls_verify_sum, verify_possession, verify_possession_for,
};
pub use certificate::{CertificateClaim, CertificateError, CommitteeKeys, check_claim, verify_certificate};
pub use coin::{CoinDeal, CoinPublicKeys, CoinSecretShare, CoinShare, deal_coin};
pub use coin_key::{COIN_KEY_BYTES, CoinKey, is_coin_key};
pub use dealing::{CoinOpening, CoinTarget, Dealing, Dealings, DealtCoin, VerifiedDealing, settle};
pub use finality::{FinalBlock, HeaderError};
pub use genesis::{GenesisKeyError, verify_genesis};
#[cfg(feature = "transactions")]
pub use impersonation::{ImpersonationPermit, impersonate};
pub use light::{Committees, EpochChangeError, FinalityError, MAX_MEMBERS};
pub use light_client::{Conflict, LightClient, LightError, TrustPointError};
pub use secret::SecretError;
pub use signed::{ConsensusKey, ConsensusPublicKey, Domain, SignatureInvalid, Signed, Verified};
#[cfg(feature = "transactions")]
pub use transaction::{EthereumKey, Known, SignatureError, VerifiedTransaction, recover, recovery_count};

use corniche_types::B256;

/// Hashes with blake3, the hash function for everything that is not Ethereum's (batches, engine messages).
pub fn digest(bytes: &[u8]) -> B256 {
    B256::new(*blake3::hash(bytes).as_bytes())
}
