//! Certificate cryptography for simulations: keyed hashes that cost almost nothing, and a meter that says what the real
//! operations would have cost.
//!
//! Modelled keys are no secret and sign nothing of value: they exist in this crate only, no genesis can ask for them, and the
//! node's own binary builds its keys with [`corniche_certify::Keys::bls`].

use crate::scenario::Cost;
use corniche_certify::{Keys, Signature, Signatures, Signer};
use corniche_engine::Committee;
use corniche_testkit::Micros;
use corniche_types::ValidatorIndex;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Virtual processor time that one node owes for cryptography. The node's process takes it after every event.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<AtomicU64>);

impl Meter {
    pub fn charge(&self, micros: u64) {
        self.0.fetch_add(micros, Ordering::Relaxed);
    }

    pub fn take(&self) -> Micros {
        Micros(self.0.swap(0, Ordering::Relaxed))
    }
}

/// `keys`, with every operation charged to `meter`. What they sign and accept stays the same.
pub fn metered(keys: &Keys, cost: Cost, meter: &Meter) -> Keys {
    let committee = Arc::new(Metered { keys: keys.committee.clone(), cost, meter: meter.clone() });
    let own = keys.own.clone().map(|keys| Arc::new(Metered { keys, cost, meter: meter.clone() }) as Arc<dyn Signer>);
    Keys { committee, own }
}

struct Metered<K: ?Sized> {
    cost: Cost,
    meter: Meter,
    keys: Arc<K>,
}

impl Signer for Metered<dyn Signer> {
    fn index(&self) -> ValidatorIndex {
        self.keys.index()
    }

    fn sign(&self, message: &[u8]) -> Signature {
        self.meter.charge(self.cost.share_us);
        self.keys.sign(message)
    }
}

impl Signatures for Metered<dyn Signatures> {
    fn verify_share(&self, signer: ValidatorIndex, message: &[u8], share: &Signature) -> bool {
        self.meter.charge(self.cost.combine_us);
        self.keys.verify_share(signer, message, share)
    }

    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, Signature)]) -> Option<Signature> {
        self.meter.charge(self.cost.combine_us);
        self.keys.combine(message, shares)
    }

    fn verify(&self, message: &[u8], signers: &[ValidatorIndex], combined: &Signature) -> bool {
        self.meter.charge(self.cost.combine_us);
        self.keys.verify(message, signers, combined)
    }
}

/// The modelled keys of a committee, and of one validator of it.
pub fn modelled(committee: &Committee, own: ValidatorIndex) -> Keys {
    let keys = Modelled { committee: *committee.hash(), own };
    Keys { committee: Arc::new(keys), own: Some(Arc::new(keys)) }
}

/// Every validator's "signature" is a hash of the committee, its index and the message.
#[derive(Clone, Copy)]
struct Modelled {
    committee: [u8; 32],
    own: ValidatorIndex,
}

impl Modelled {
    fn share(&self, signer: ValidatorIndex, message: &[u8]) -> Signature {
        let mut signed = Vec::with_capacity(34 + message.len());
        signed.extend_from_slice(&self.committee);
        signed.extend_from_slice(&signer.0.to_le_bytes());
        signed.extend_from_slice(message);
        stretch(&signed)
    }

    /// Binds the signers and the message, as an aggregate does.
    fn sum(&self, message: &[u8], signers: impl Iterator<Item = ValidatorIndex>) -> Signature {
        let mut signed = Vec::with_capacity(128 + message.len());
        signed.extend_from_slice(&self.committee);
        signers.for_each(|signer| signed.extend_from_slice(&signer.0.to_le_bytes()));
        signed.extend_from_slice(message);
        stretch(&signed)
    }
}

fn stretch(bytes: &[u8]) -> Signature {
    let mut signature = [0; 48];
    signature[..32].copy_from_slice(corniche_crypto::digest(bytes).as_slice());
    signature
}

impl Signer for Modelled {
    fn index(&self) -> ValidatorIndex {
        self.own
    }

    fn sign(&self, message: &[u8]) -> Signature {
        self.share(self.own, message)
    }
}

impl Signatures for Modelled {
    fn verify_share(&self, signer: ValidatorIndex, message: &[u8], share: &Signature) -> bool {
        self.share(signer, message) == *share
    }

    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, Signature)]) -> Option<Signature> {
        let sound = shares.iter().all(|(signer, share)| self.verify_share(*signer, message, share));
        sound.then(|| self.sum(message, shares.iter().map(|(signer, _)| *signer)))
    }

    fn verify(&self, message: &[u8], signers: &[ValidatorIndex], combined: &Signature) -> bool {
        self.sum(message, signers.iter().copied()) == *combined
    }
}
