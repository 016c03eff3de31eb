//! The engine's cryptography for production: ed25519 with the validators' consensus keys.

use corniche_committee_keys::ed25519;

/// Mir-BFT, as a signer.
pub struct Protocol;

impl ed25519::Protocol for Protocol {
    const TAG: &'static str = "corniche-mir";
}

/// One validator's secret.
pub type ValidatorKeys = ed25519::ValidatorKeys<Protocol>;
/// The committee's keys, parsed once.
pub type CommitteeKeys = ed25519::CommitteeKeys<Protocol>;
