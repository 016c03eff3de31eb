//! From executed blocks to commit certificates.
//!
//! ```text
//! executed(height, hash) ─▶ own share ─▶ Broadcast
//!                                             share(from, bytes) ─▶ a quorum agrees ─▶ aggregate, verify once ─▶ Certified
//!                                             certificate(learned) ────────────────────────────────────────────▶ Certified
//!                                             share(from, bytes) ─▶ f + 1 agree ─▶ aggregate, verify once ─▶ weak_certificate
//! ```
//! A validator signs each header that it executed. [`Certifier`] collects the others' shares and makes a
//! certificate once a quorum has signed the same header. A full node signs nothing; it only compares
//! certificates with its own headers.
//!
//! Invariants:
//! - Only blocks that this node executed itself are certified: shares and certificates for later heights
//!   wait.
//! - A certificate for a different header than ours stops the certifier with one [`Output::Diverged`]. Either
//!   more validators are faulty than the fault model allows, or we have a bug. Nothing is certified after it.
//! - Certificates of others are verified before they come here ([`VerifiedCertificate`]), on any thread.
//! - One certificate covers all ancestors, so heights only increase, and data at or below the newest is
//!   dropped.
//! - A [`WeakCertificate`] (f + 1 shares) tells a lagging validator which block is correct. It certifies
//!   nothing: it changes no state here and leads to no `Certified` (decision 0019).
//! - Memory is bounded: one share per validator and height, up to [`MAX_SHARES_AHEAD`] heights ahead.
//! - A validator that signs two headers of one height is convicted by both shares, if one node gets them (validators.md §6).
//! - Verification is bounded: shares are verified only once a quorum agrees or a lagging validator asks.
//!   After a validator's first false share, its later shares are verified before they are used, one per
//!   height, so it can spoil only one aggregate. After three false shares they are verified only while
//!   certification lags 16 blocks behind. So a validator that lies at every height costs nothing as long as
//!   the others are a quorum, and one that stopped lying can be part of a quorum again.
//!
//! Alternative not chosen: a certificate for every height. Under load a later one often completes first, and
//! covers the earlier heights.

mod certifier;
mod keys;
mod share;
mod verified;

pub use certifier::{Certifier, MAX_SHARES_AHEAD, Output};
pub use keys::{Keys, Signature, Signatures, Signer};
pub use share::Share;
pub use verified::{CertificateVerifier, VerifiedCertificate, WeakCertificate};
