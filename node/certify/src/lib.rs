//! From executed blocks to commit certificates.
//!
//! ```text
//! executed(height, hash) ─▶ own share ─▶ Broadcast
//!                                             share(from, bytes) ─▶ a quorum agrees ─▶ aggregate, verify once ─▶ Certified
//!                                             certificate(learned) ────────────────────────────────────────────▶ Certified
//!                                             share(from, bytes) ─▶ f + 1 agree ─▶ aggregate, verify once ─▶ weak_certificate
//! ```
//! A validator signs the header it executed; [`Certifier`] gathers others' shares and makes a certificate as soon as a
//! quorum signed the same header. A full node signs nothing and only compares certificates with what it executed.
//!
//! What always holds:
//! - Nothing is certified that this node has not executed itself: shares and certificates for later heights wait.
//! - A certificate for another header than ours ends everything with one [`Output::Diverged`]: either more validators than
//!   the fault model allows are faulty, or we have a bug. Nothing after it is certified.
//! - Learned certificates were verified before they come here ([`VerifiedCertificate`]), on whichever thread.
//! - One certificate covers all ancestors, so heights only grow and everything at or below the newest is forgotten.
//! - A [`WeakCertificate`] (f + 1 shares) shows a validator that lags which block is right. It certifies nothing: it changes no state
//!   here, and no `Certified` follows from it (decision 0019).
//! - Memory is bounded: per validator one share a height, [`SHARES_AHEAD`] heights ahead, and no share is verified before a
//!   quorum agrees or a validator that lags asks. A validator that sent a share that does not verify has its later shares checked
//!   before they are used, one a height, so it spoils one aggregate. After three such shares they are checked only while certification lags
//!   16 blocks behind. A validator that lies at every height costs nothing as long as the others are a quorum, and one that stopped
//!   lying is a part of a quorum again.
//!
//! We chose against a certificate for every height: under load a later one often completes first, and it says as much.

mod certifier;
mod keys;
mod share;
mod verified;

pub use certifier::{Certifier, Output, SHARES_AHEAD};
pub use keys::{Keys, Signature, Signatures, Signer};
pub use share::Share;
pub use verified::{CertificateVerifier, VerifiedCertificate, WeakCertificate};
