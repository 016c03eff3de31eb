//! The certifier: a state machine over executed headers, shares and certificates.

use crate::{
    Share, VerifiedCertificate, WeakCertificate,
    keys::{Keys, Signature},
};
use corniche_engine::Committee;
use corniche_types::{B256, Bytes, Certificate, Height, SignerBitmap, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Shares and certificates for heights further above the newest executed or certified block than this are dropped.
pub const SHARES_AHEAD: u64 = 64;
/// Most executed headers kept that wait for a certificate. Only a follower that executes a long run under one certificate
/// comes near; the oldest go first, because a later certificate covers them.
const EXECUTED_KEPT: usize = 1024;
/// After so many shares that did not verify, a sender is on probation: its shares are not looked at before they are needed.
const PROBATION_LIES: u32 = 3;
/// They are needed when certification lags so many blocks behind. More than it does as a rule, and well below what execution may run ahead, so
/// that a chain that needs one of these shares goes on.
const PROBATION_LAG: u64 = 16;

/// What the certifier owes the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send our share to every other validator.
    Broadcast(Bytes),
    /// The newest certificate: for a block that we executed to the same header.
    Certified(Certificate),
    /// A quorum certified another header than ours. The node must stop; the certifier has.
    Diverged { ours: B256, certificate: Certificate },
    /// This validator sent a share that is never valid.
    Accuse { validator: ValidatorIndex, evidence: Bytes },
}

/// See the crate documentation.
pub struct Certifier {
    committee: Committee,
    keys: Keys,
    /// Newest executed height; `None` until the first [`Self::executed`].
    newest_executed: Option<Height>,
    /// Headers we executed above `certified`.
    executed: BTreeMap<Height, OwnHeader>,
    /// Newest certified height.
    certified: Height,
    /// Others' shares above `certified`, by height and signer; `None` for one that was false, so that no validator makes us
    /// check more than one share a height.
    shares: BTreeMap<Height, BTreeMap<ValidatorIndex, Option<Received>>>,
    /// Certificates for heights that we have not executed yet.
    waiting: BTreeMap<Height, VerifiedCertificate>,
    /// Shares that did not verify, by sender, up to [`PROBATION_LIES`]. Later shares of these senders are checked before they are used.
    lies: BTreeMap<ValidatorIndex, u32>,
    diverged: bool,
    out: VecDeque<Output>,
}

struct OwnHeader {
    hash: B256,
    /// Ours, for a validator.
    signature: Option<Signature>,
}

struct Received {
    header_hash: B256,
    signature: Signature,
    /// Checked singly.
    verified: bool,
    bytes: Bytes,
}

impl Certifier {
    pub fn new(committee: Committee, keys: Keys) -> Self {
        Self {
            committee,
            keys,
            newest_executed: None,
            executed: BTreeMap::new(),
            certified: Height(0),
            shares: BTreeMap::new(),
            waiting: BTreeMap::new(),
            lies: BTreeMap::new(),
            diverged: false,
            out: VecDeque::new(),
        }
    }

    /// The next thing owed.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Newest certified height.
    pub fn certified(&self) -> Height {
        self.certified
    }

    /// We executed this block, durably. Heights only grow; one at or below the newest is ignored.
    pub fn executed(&mut self, height: Height, header_hash: B256) {
        if self.diverged || height <= self.certified || self.newest_executed.is_some_and(|newest| height <= newest) {
            return;
        }
        self.newest_executed = Some(height);
        let message = self.signed_bytes(height, header_hash);
        let signature = self.keys.own.as_ref().map(|key| key.sign(&message));
        self.executed.insert(height, OwnHeader { hash: header_hash, signature });
        if self.executed.len() > EXECUTED_KEPT {
            self.executed.pop_first();
        }
        if let Some(certificate) = self.waiting.remove(&height) {
            self.apply(certificate.into_inner());
        }
        if self.executed.contains_key(&height) && !self.diverged {
            self.out.extend(self.own_share(height).map(Output::Broadcast));
            self.check_waiting(height);
            self.try_certify(height);
        }
    }

    /// A share arrived from validator `from` over an authenticated connection.
    pub fn share(&mut self, from: ValidatorIndex, bytes: Bytes) {
        let own = self.keys.own.as_ref().map(|key| key.index());
        if self.diverged || Some(from) == own || self.committee.member(from).is_none() {
            return;
        }
        let of_this_epoch = |share: &Share| share.epoch == self.committee.epoch();
        let Some(share) = Share::decode(&bytes).ok().filter(of_this_epoch) else { return self.accuse(from, bytes) };
        let height = share.height;
        let known = self.shares.get(&height).is_some_and(|signers| signers.contains_key(&from));
        // The first share counts: a second, different one helps nobody but its sender.
        if known || height <= self.certified || !self.is_near(height) {
            return;
        }
        let (header_hash, signature) = (share.header_hash, share.signature);
        let received = Received { header_hash, signature, verified: false, bytes };
        self.shares.entry(height).or_default().insert(from, Some(received));
        let must_check = self.lies.contains_key(&from);
        if self.is_on_probation(from) && !self.lags() || must_check && !self.check(from, height) {
            return;
        }
        self.try_certify(height);
    }

    /// A certificate was learned: from a peer, or at start from the store.
    pub fn certificate(&mut self, certificate: VerifiedCertificate) {
        let height = certificate.height;
        if self.diverged || height <= self.certified {
            return;
        }
        match self.newest_executed {
            // Nothing executed yet: this is where the store says we are.
            None => self.forget_through(height),
            Some(newest) if height > newest => {
                if self.is_near(height) {
                    self.waiting.insert(height, certificate);
                }
            }
            Some(_) => self.apply(certificate.into_inner()),
        }
    }

    /// The highest block above our newest, at most at `through`, that [`WeakCertificate`] vouches for. Verifies signatures: one aggregate,
    /// unless a validator lies for the first time.
    pub fn weak_certificate(&mut self, through: Height) -> Option<WeakCertificate> {
        if self.diverged {
            return None;
        }
        let above = self.newest().next();
        let heights: Vec<Height> = self.shares.range(above..).map(|(height, _)| *height).filter(|at| *at <= through).collect();
        heights.into_iter().rev().find_map(|height| {
            let candidates: BTreeSet<B256> = self.received(height).map(|(_, received)| received.header_hash).collect();
            let validity = self.committee.validity();
            candidates.into_iter().find_map(|header_hash| self.aggregate(height, header_hash, validity)).map(WeakCertificate)
        })
    }

    /// The highest block that another validator says it executed, if it is above our newest.
    pub fn newest_share(&self) -> Option<Height> {
        self.shares.last_key_value().map(|(height, _)| *height).filter(|height| *height > self.newest())
    }

    /// Our shares of the newest [`SHARES_AHEAD`] blocks without a certificate: for a validator that may have missed them.
    pub fn own_shares(&self) -> Vec<Bytes> {
        let newest = self.executed.keys().rev().take(SHARES_AHEAD as usize);
        let mut heights: Vec<Height> = newest.copied().collect();
        heights.reverse();
        heights.into_iter().filter_map(|height| self.own_share(height)).collect()
    }

    fn own_share(&self, height: Height) -> Option<Bytes> {
        let header = self.executed.get(&height)?;
        let signature = header.signature?;
        Some(Share { epoch: self.committee.epoch(), height, header_hash: header.hash, signature }.encode())
    }

    fn is_near(&self, height: Height) -> bool {
        height.0 <= self.newest().0.saturating_add(SHARES_AHEAD)
    }

    /// The newest block that we executed or know a certificate of.
    fn newest(&self) -> Height {
        self.certified.max(self.newest_executed.unwrap_or_default())
    }

    /// Makes a certificate for `height` if a quorum signed one header of it, whichever; a header other than ours is found out
    /// by the comparison in [`Self::apply`].
    fn try_certify(&mut self, height: Height) {
        if !self.executed.contains_key(&height) {
            return;
        }
        let mut candidates: BTreeSet<B256> = self.executed.get(&height).map(|own| own.hash).into_iter().collect();
        candidates.extend(self.received(height).map(|(_, received)| received.header_hash));
        for header_hash in candidates {
            if let Some(certificate) = self.aggregate(height, header_hash, self.committee.quorum()) {
                return self.apply(certificate);
            }
        }
    }

    /// Combines first and verifies once; looks at single shares only when that fails, and then never again for the same ones. `None` with
    /// fewer than `threshold` signers.
    fn aggregate(&mut self, height: Height, header_hash: B256, threshold: usize) -> Option<Certificate> {
        loop {
            let signers = self.signers(height, header_hash);
            if signers.len() < threshold {
                return None;
            }
            let message = self.signed_bytes(height, header_hash);
            let shares: Vec<(ValidatorIndex, Signature)> = signers.iter().map(|(signer, share)| (*signer, *share)).collect();
            if let Some(signature) = self.keys.committee.combine(&message, &shares) {
                return Some(Certificate {
                    epoch: self.committee.epoch(),
                    committee_hash: self.committee.hash(),
                    height,
                    header_hash,
                    fault_model: self.committee.fault_model(),
                    signers: SignerBitmap::from_signers(signers.into_keys(), self.committee.size()),
                    signature: Bytes::copy_from_slice(&signature),
                });
            }
            if !self.remove_false_shares(height, header_hash) {
                return None;
            }
        }
    }

    /// Others' shares of this height that may be used: none that is known to be false, nor an unchecked one of a validator that lied since.
    /// That one could spoil one aggregate more.
    fn received(&self, height: Height) -> impl Iterator<Item = (ValidatorIndex, &Received)> {
        let signers = self.shares.get(&height).into_iter().flatten();
        let known = signers.filter_map(|(from, received)| Some((*from, received.as_ref()?)));
        known.filter(|(from, received)| received.verified || !self.lies.contains_key(from))
    }

    /// Everyone who says they signed this header, ourselves included.
    fn signers(&self, height: Height, header_hash: B256) -> BTreeMap<ValidatorIndex, Signature> {
        let signed = self.received(height).filter(|(_, received)| received.header_hash == header_hash);
        let mut signers: BTreeMap<_, _> = signed.map(|(from, received)| (from, received.signature)).collect();
        let own_header = self.executed.get(&height).filter(|header| header.hash == header_hash);
        if let (Some(own), Some(signature)) = (&self.keys.own, own_header.and_then(|header| header.signature)) {
            signers.insert(own.index(), signature);
        }
        signers
    }

    /// Checks the unchecked shares of this header one by one; true if any was false.
    fn remove_false_shares(&mut self, height: Height, header_hash: B256) -> bool {
        let mut false_shares = Vec::new();
        let mut signers = self.shares.remove(&height).unwrap_or_default();
        for (from, entry) in &mut signers {
            let Some(received) = entry.as_mut().filter(|received| received.header_hash == header_hash) else { continue };
            received.verified = received.verified || self.verify_singly(*from, height, received);
            if !received.verified {
                false_shares.extend(entry.take().map(|received| (*from, received.bytes)));
            }
        }
        self.shares.insert(height, signers);
        let any = !false_shares.is_empty();
        for (from, bytes) in false_shares {
            self.accuse(from, bytes);
        }
        any
    }

    fn is_on_probation(&self, from: ValidatorIndex) -> bool {
        self.lies.get(&from).is_some_and(|lies| *lies >= PROBATION_LIES)
    }

    fn lags(&self) -> bool {
        self.newest_executed.unwrap_or_default().0.saturating_sub(self.certified.0) >= PROBATION_LAG
    }

    /// Checks what senders that lied have sent unchecked for this height, when certification lags behind. Lower heights need none: its
    /// certificate covers them.
    fn check_waiting(&mut self, height: Height) {
        if !self.lags() {
            return;
        }
        let unchecked = |(from, received): (&ValidatorIndex, &Option<Received>)| {
            (self.lies.contains_key(from) && received.as_ref().is_some_and(|received| !received.verified)).then_some(*from)
        };
        let waiting: Vec<_> = self.shares.get(&height).into_iter().flatten().filter_map(unchecked).collect();
        waiting.into_iter().for_each(|from| _ = self.check(from, height));
    }

    /// Checks a share. True when it is good.
    fn check(&mut self, from: ValidatorIndex, height: Height) -> bool {
        let Some(mut received) = self.shares.get_mut(&height).and_then(|signers| signers.get_mut(&from)?.take()) else {
            return false;
        };
        received.verified = self.verify_singly(from, height, &received);
        if !received.verified {
            self.accuse(from, received.bytes);
            return false;
        }
        // The chain needs it: probation ends, and begins again with the next lie.
        self.lies.entry(from).and_modify(|lies| *lies = (*lies).min(PROBATION_LIES - 1));
        self.shares.entry(height).or_default().insert(from, Some(received));
        true
    }

    fn verify_singly(&self, from: ValidatorIndex, height: Height, received: &Received) -> bool {
        let message = self.signed_bytes(height, received.header_hash);
        self.keys.committee.verify_share(from, &message, &received.signature)
    }

    fn accuse(&mut self, validator: ValidatorIndex, evidence: Bytes) {
        let lies = self.lies.entry(validator).or_default();
        *lies = (*lies + 1).min(PROBATION_LIES);
        self.out.push_back(Output::Accuse { validator, evidence });
    }

    /// Takes a valid certificate; one for a height whose header we do not know any more says nothing we could compare.
    fn apply(&mut self, certificate: Certificate) {
        let height = certificate.height;
        let Some(own) = self.executed.get(&height) else { return };
        if own.hash != certificate.header_hash {
            self.diverged = true;
            let ours = own.hash;
            self.out.push_back(Output::Diverged { ours, certificate });
            return;
        }
        self.forget_through(height);
        self.out.push_back(Output::Certified(certificate));
    }

    /// `height` is certified, and with it all its ancestors.
    fn forget_through(&mut self, height: Height) {
        self.certified = height;
        let after = height.next();
        self.executed = self.executed.split_off(&after);
        self.shares = self.shares.split_off(&after);
        self.waiting = self.waiting.split_off(&after);
    }

    fn signed_bytes(&self, height: Height, header_hash: B256) -> Vec<u8> {
        let (epoch, hash, model) = (self.committee.epoch(), self.committee.hash(), self.committee.fault_model());
        Certificate::signed_bytes(self.committee.chain_id(), epoch, hash, height, header_hash, model)
    }
}
