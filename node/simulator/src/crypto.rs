//! Cryptography for simulations: keyed hashes of negligible cost, and a meter that charges the cost of the real
//! operations.
//!
//! Modelled keys are not secret and sign nothing of value: they exist in this crate only, no genesis can select them,
//! and the node's own binary builds its keys with [`corniche_certify::Keys::bls`].

use crate::{report::Work, scenario::Cost};
use corniche_autobahn as autobahn;
use corniche_certify::{Keys, Signature, Signatures, Signer};
use corniche_committee_keys::{DigestSignatures, DigestSigner};
use corniche_engine::{Committee, Unsigned};
use corniche_mahi_mahi as mahi_mahi;
use corniche_types::{B256, Bytes, Height, ValidatorIndex, Votes, evidence::Heading};
use std::sync::{Arc, Mutex, PoisonError};

/// Work of one node's keys, that is, the virtual processor time it must spend. Its process takes it after every event.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Work>>);

impl Meter {
    /// Charges one signature.
    pub fn signed(&self, micros: u64) {
        self.add(Work { signed: 1, checked: 0, micros });
    }

    /// Charges this many signature checks, with their total time.
    pub fn checked(&self, checked: u64, micros: u64) {
        self.add(Work { signed: 0, checked, micros });
    }

    pub fn add(&self, work: Work) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += work;
    }

    pub fn take(&self) -> Work {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Wraps `keys` so that every operation is charged to `meter`. Signatures and checks stay unchanged.
pub fn metered(keys: &Keys, cost: Cost, meter: &Meter) -> Keys {
    let committee = Arc::new(Metered { keys: keys.committee.clone(), cost, meter: meter.clone() });
    let own = keys.own.clone().map(|keys| Arc::new(Metered { keys, cost, meter: meter.clone() }) as Arc<dyn Signer>);
    Keys { committee, own }
}

/// Keys of any kind whose operations are charged to a meter.
pub struct Metered<K: ?Sized> {
    pub cost: Cost,
    pub meter: Meter,
    pub keys: Arc<K>,
}

impl Signer for Metered<dyn Signer> {
    fn index(&self) -> ValidatorIndex {
        self.keys.index()
    }

    fn sign(&self, height: Height, header_hash: B256, message: &[u8]) -> Option<Signature> {
        self.meter.signed(self.cost.share_us);
        self.keys.sign(height, header_hash, message)
    }
}

impl Signatures for Metered<dyn Signatures> {
    fn verify_share(&self, signer: ValidatorIndex, message: &[u8], share: &Signature) -> bool {
        self.meter.checked(1, self.cost.combine_us);
        self.keys.verify_share(signer, message, share)
    }

    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, Signature)]) -> Option<Signature> {
        self.meter.checked(1, self.cost.combine_us);
        self.keys.combine(message, shares)
    }

    fn verify(&self, message: &[u8], signers: &[ValidatorIndex], combined: &Signature) -> bool {
        self.meter.checked(1, self.cost.combine_us);
        self.keys.verify(message, signers, combined)
    }
}

/// The modelled keys of one validator and its committee, for certificates and for the engine.
#[derive(Clone, Copy)]
pub struct Modelled {
    committee: B256,
    own: ValidatorIndex,
    own_votes: Votes,
}

impl Modelled {
    pub fn new(committee: &Committee, own: ValidatorIndex) -> Self {
        Self { committee: committee.hash(), own, own_votes: committee.votes(own) }
    }

    /// Keys for certificates; those of a member sign, too.
    pub fn for_certificates(self, is_member: bool) -> Keys {
        Keys { committee: Arc::new(self), own: is_member.then(|| Arc::new(self) as Arc<dyn Signer>) }
    }

    /// Modelled signature: a hash of the committee, the purpose, the signers and the message.
    fn hash(&self, purpose: u8, signers: impl Iterator<Item = ValidatorIndex>, message: &[u8]) -> B256 {
        let mut signed = Vec::with_capacity(256);
        signed.extend_from_slice(self.committee.as_slice());
        signed.push(purpose);
        signers.for_each(|signer| signed.extend_from_slice(&signer.0.to_le_bytes()));
        signed.push(purpose);
        signed.extend_from_slice(message);
        corniche_crypto::digest(&signed)
    }

    fn of<const BYTES: usize>(&self, purpose: u8, signer: ValidatorIndex, message: &[u8]) -> [u8; BYTES] {
        stretch(self.hash(purpose, std::iter::once(signer), message))
    }

    /// The combined coin does not depend on the choice of shares.
    fn coin(&self, message: &[u8]) -> mahi_mahi::CoinValue {
        stretch(self.hash(COIN, std::iter::empty(), message))
    }
}

const HEADER: u8 = 1;
const BLOCK: u8 = 2;
const COIN: u8 = 3;
const SHARE: u8 = 4;

fn stretch<const BYTES: usize>(hash: B256) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..32].copy_from_slice(hash.as_slice());
    bytes
}

impl Signer for Modelled {
    fn index(&self) -> ValidatorIndex {
        self.own
    }

    fn sign(&self, _: Height, _: B256, message: &[u8]) -> Option<Signature> {
        Some(self.of(HEADER, self.own, message))
    }
}

impl Signatures for Modelled {
    fn verify_share(&self, signer: ValidatorIndex, message: &[u8], share: &Signature) -> bool {
        self.of(HEADER, signer, message) == *share
    }

    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, Signature)]) -> Option<Signature> {
        let sound = shares.iter().all(|(signer, share)| self.verify_share(*signer, message, share));
        sound.then(|| stretch(self.hash(HEADER, shares.iter().map(|(signer, _)| *signer), message)))
    }

    fn verify(&self, message: &[u8], signers: &[ValidatorIndex], combined: &Signature) -> bool {
        stretch(self.hash(HEADER, signers.iter().copied(), message)) == *combined
    }
}

impl mahi_mahi::Signer for Modelled {
    fn index(&self) -> ValidatorIndex {
        self.own
    }

    fn sign(&self, _: &Heading, digest: &B256) -> Result<mahi_mahi::Signature, Unsigned> {
        Ok(self.of(BLOCK, self.own, digest.as_slice()))
    }

    /// Shares of one validator are alike: the coin does not depend on them.
    fn coin_shares(&self, message: &[u8]) -> mahi_mahi::CoinShares {
        vec![self.of(COIN, self.own, message); self.own_votes.as_usize()]
    }
}

impl mahi_mahi::Signatures for Modelled {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &mahi_mahi::Signature) -> bool {
        self.of(BLOCK, author, digest.as_slice()) == *signature
    }
}

impl mahi_mahi::Coin for Modelled {
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, mahi_mahi::CoinShares)]) -> Option<mahi_mahi::CoinValue> {
        let sound = shares.iter().all(|(author, shares)| mahi_mahi::Coin::verify_shares(self, *author, message, shares));
        sound.then(|| self.coin(message))
    }

    fn verify(&self, message: &[u8], value: &mahi_mahi::CoinValue) -> bool {
        self.coin(message) == *value
    }

    fn verify_shares(&self, author: ValidatorIndex, message: &[u8], shares: &[mahi_mahi::CoinShare]) -> bool {
        let share = self.of(COIN, author, message);
        !shares.is_empty() && shares.iter().all(|other| *other == share)
    }
}

/// NeoBFT and Mir-BFT.
impl DigestSigner for Modelled {
    fn member(&self) -> ValidatorIndex {
        self.own
    }

    fn sign_digest(&self, digest: &B256) -> Option<corniche_committee_keys::Signature> {
        Some(self.of(BLOCK, self.own, digest.as_slice()))
    }
}

impl DigestSignatures for Modelled {
    fn verify_digest(&self, signer: ValidatorIndex, digest: &B256, signature: &corniche_committee_keys::Signature) -> bool {
        self.of(BLOCK, signer, digest.as_slice()) == *signature
    }
}

/// Shares of realistic length: a seal is their list, as with ed25519, or one value, as with a sum of BLS points.
#[derive(Clone, Copy)]
pub struct ModelledShares {
    pub keys: Modelled,
    pub bls: bool,
}

impl autobahn::Signer for ModelledShares {
    fn index(&self) -> ValidatorIndex {
        self.keys.own
    }

    fn sign(&self, _: &autobahn::Authored, digest: &B256) -> Option<autobahn::Signature> {
        Some(self.keys.of(BLOCK, self.keys.own, digest.as_slice()))
    }

    fn share(&self, _: &autobahn::message::Statement, digest: &B256) -> Result<autobahn::Share, Unsigned> {
        Ok(self.share_of(self.keys.own, digest))
    }
}

impl ModelledShares {
    fn share_of(&self, signer: ValidatorIndex, digest: &B256) -> autobahn::Share {
        if self.bls {
            Bytes::from(self.keys.of::<48>(SHARE, signer, digest.as_slice()))
        } else {
            Bytes::from(self.keys.of::<64>(SHARE, signer, digest.as_slice()))
        }
    }
}

impl autobahn::Signatures for ModelledShares {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &autobahn::Signature) -> bool {
        self.keys.of(BLOCK, author, digest.as_slice()) == *signature
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &autobahn::Share) -> bool {
        self.share_of(signer, digest) == *share
    }

    fn combine(&self, shares: &[(ValidatorIndex, autobahn::Share)]) -> Option<Bytes> {
        let list = shares.iter().flat_map(|(_, share)| share.iter().copied()).collect::<Vec<u8>>();
        // A sum has no order and no parts. It is modelled by a hash of the list in ascending order of signers.
        Some(if self.bls { stretch::<48>(corniche_crypto::digest(&list)).into() } else { list.into() })
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        let shares: Vec<_> = signed.iter().map(|(signer, digest)| (*signer, self.share_of(*signer, digest))).collect();
        autobahn::Signatures::combine(self, &shares).is_some_and(|expected| expected == *seal)
    }
}
