//! Every signature in Corniche: what is signed, how it is checked, and the types that say it was checked.
//!
//! - **Users** sign transactions with secp256k1; `VerifiedTransaction` is one whose sender is known (feature `transactions`, on by default).
//! - **Validators** sign engine messages with ed25519; [`Signed`] becomes [`Verified`] in one function, under a [`Domain`].
//! - **Validators** sign headers with BLS12-381 (min_sig: 48-byte signatures, 96-byte keys); a quorum's aggregate is a
//!   certificate, checked with [`verify_certificate`] or [`CommitteeKeys`]; what it makes final is a [`FinalBlock`].
//! - **The threshold coin** is a BLS signature whose key was shared among the validators ([`deal_coin`]).
//!
//! What always holds: a public key or signature that has been parsed is in its prime-order group and is not the identity;
//! everything validators sign begins with a tag, the chain id, the epoch and the committee's hash, so that no signature can
//! be shown again elsewhere; secrets are erased when dropped and never printed.
//!
//! Use this crate through those types. It offers no raw curve arithmetic, and `recover` exists for the precompile only.

#![warn(missing_docs)]

mod bls;
mod certificate;
mod coin;
mod finality;
mod genesis;
mod pairing;
mod scalar;
mod secret;
mod signed;
#[cfg(feature = "transactions")]
mod transaction;

pub use bls::{
    BLS_PUBLIC_KEY_BYTES, BLS_SIGNATURE_BYTES, BlsPublicKey, BlsSecretKey, BlsSignature, bls_aggregate, bls_combine,
    bls_verify, bls_verify_aggregate, bls_verify_sum, verify_possession,
};
pub use certificate::{CertificateClaim, CertificateError, CommitteeKeys, check_claim, verify_certificate};
pub use coin::{CoinDeal, CoinPublicKeys, CoinSecretShare, CoinShare, deal_coin};
pub use finality::{FinalBlock, HeaderError};
pub use genesis::{GenesisKeyError, verify_genesis};
pub use secret::SecretError;
pub use signed::{ConsensusKey, ConsensusPublicKey, Domain, SignatureInvalid, Signed, Verified};
#[cfg(feature = "transactions")]
pub use transaction::{EthereumKey, SignatureError, VerifiedTransaction, allow_impersonation, impersonate, recover};

use corniche_types::B256;

/// blake3: the hash of everything that is not Ethereum's (batches, engine messages).
pub fn digest(bytes: &[u8]) -> B256 {
    B256::new(*blake3::hash(bytes).as_bytes())
}
