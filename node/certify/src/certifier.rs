//! Certifier: state machine over executed headers, shares and certificates.

use crate::{
    Share, VerifiedCertificate, WeakCertificate,
    keys::{Keys, Signature},
};
use corniche_engine::Committee;
use corniche_types::evidence::{Contradiction, Evidence};
use corniche_types::{B256, Bytes, Certificate, Height, SignerBitmap, ValidatorIndex, Votes};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Shares and certificates more than this many heights above the newest executed or certified block are
/// dropped.
pub const MAX_SHARES_AHEAD: u64 = 64;
/// Maximum number of executed headers that wait for a certificate. Only a follower that executes a long run
/// of blocks under one certificate reaches it. The oldest are removed first, because a later certificate
/// covers them.
const MAX_EXECUTED: usize = 1024;
/// Number of false shares after which a sender is on probation: its shares are checked only when they are
/// needed.
const PROBATION_FALSE_SHARES: u32 = 3;
/// Certification lag in blocks from which shares of senders on probation are needed. It is above the usual
/// lag, and well below the distance that execution may run ahead, so that a chain that needs such a share
/// continues.
const PROBATION_LAG: u64 = 16;

/// Output of the certifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send our share to every other validator.
    Broadcast(Bytes),
    /// Newest certificate, for a header that we executed too.
    Certified(Certificate),
    /// A quorum certified a different header than ours. The certifier has stopped, and the node must stop.
    Diverged { ours: B256, certificate: Certificate },
    /// This validator sent a share that can never be valid.
    Accuse { validator: ValidatorIndex, evidence: Bytes },
    /// This validator signed the certified header of a height, and then another one.
    Contradicted { validator: ValidatorIndex, shares: [Bytes; 2], proof: Option<Box<Evidence>> },
}

/// See the crate documentation.
pub struct Certifier {
    committee: Committee,
    keys: Keys,
    /// Highest executed height; `None` until the first [`Self::executed`].
    newest_executed: Option<Height>,
    /// Executed headers above `certified`.
    executed: BTreeMap<Height, OwnHeader>,
    /// Newest certified height.
    certified: Height,
    /// Others' shares above `certified`, by height and signer. `None` for a false one, so that a validator
    /// can cause at most one check per height.
    shares: BTreeMap<Height, BTreeMap<ValidatorIndex, Option<Received>>>,
    /// Certificates for heights that are not executed yet.
    waiting: BTreeMap<Height, VerifiedCertificate>,
    /// Number of false shares by sender, up to [`PROBATION_FALSE_SHARES`]. Later shares of these senders are checked
    /// before they are used.
    false_shares: BTreeMap<ValidatorIndex, u32>,
    /// Shares for a second header, by height and signer: one each. `None` for one that replaced the first.
    seconds: BTreeMap<(Height, ValidatorIndex), Option<Received>>,
    /// No header up to this height is signed (K4).
    silent_through: Height,
    diverged: bool,
    out: VecDeque<Output>,
}

struct OwnHeader {
    hash: B256,
    /// Our signature, at validators.
    signature: Option<Signature>,
}

struct Received {
    header_hash: B256,
    signature: Signature,
    /// True if it was verified individually.
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
            false_shares: BTreeMap::new(),
            seconds: BTreeMap::new(),
            silent_through: Height(0),
            diverged: false,
            out: VecDeque::new(),
        }
    }

    /// Starts above a certified height, such as the last one of the epoch before.
    #[must_use]
    pub fn above(self, certified: Height) -> Self {
        Self { certified, ..self }
    }

    /// Signs no header up to this height from now on.
    pub fn keep_silent(&mut self, through: Height) {
        self.silent_through = through;
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Newest certified height.
    pub fn certified(&self) -> Height {
        self.certified
    }

    /// Records that we executed this block, durably. Heights must increase; others are ignored.
    pub fn executed(&mut self, height: Height, header_hash: B256) {
        if self.diverged || height <= self.certified || self.newest_executed.is_some_and(|newest| height <= newest) {
            return;
        }
        self.newest_executed = Some(height);
        let signature = self.sign(height, header_hash);
        self.executed.insert(height, OwnHeader { hash: header_hash, signature });
        if self.executed.len() > MAX_EXECUTED {
            self.executed.pop_first();
        }
        if let Some(certificate) = self.waiting.remove(&height) {
            self.apply(certificate.into_inner());
        }
        if self.executed.contains_key(&height) && !self.diverged {
            self.out.extend(self.own_share(height).map(Output::Broadcast));
            self.accept_corrections(height);
            self.check_waiting_shares(height);
            self.try_certify(height);
        }
    }

    /// Handles a share from validator `from`, received over an authenticated connection.
    pub fn share(&mut self, from: ValidatorIndex, bytes: Bytes) {
        let own = self.keys.own.as_ref().map(|key| key.index());
        if self.diverged || Some(from) == own || self.committee.member(from).is_none() {
            return;
        }
        let Ok(share) = Share::decode(&bytes) else { return self.accuse(from, bytes) };
        // Not now: its sender has ended the epoch already, or not yet (E13).
        if share.epoch != self.committee.epoch() {
            return;
        }
        let height = share.height;
        let known = self.shares.get(&height).and_then(|signers| signers.get(&from));
        let (header_hash, signature) = (share.header_hash, share.signature);
        let received = Received { header_hash, signature, verified: false, bytes };
        if let Some(first) = known {
            if first.as_ref().is_some_and(|first| first.header_hash != header_hash) {
                self.seconds.entry((height, from)).or_insert(Some(received));
                self.accept_corrections(height);
                self.try_certify(height);
            }
            return;
        }
        if height <= self.certified || !self.is_in_range(height) {
            return;
        }
        self.shares.entry(height).or_default().insert(from, Some(received));
        let must_check = self.false_shares.contains_key(&from);
        if self.is_on_probation(from) && !self.lags() || must_check && !self.check(from, height) {
            return;
        }
        self.try_certify(height);
    }

    /// Handles a certificate, from a peer or at start from the store.
    pub fn certificate(&mut self, certificate: VerifiedCertificate) {
        let height = certificate.height;
        if self.diverged || height <= self.certified {
            return;
        }
        match self.newest_executed {
            // Nothing is executed yet: this is the store's position.
            None => self.mark_certified(height),
            Some(newest) if height > newest => {
                if self.is_in_range(height) {
                    self.waiting.insert(height, certificate);
                }
            }
            Some(_) => self.apply(certificate.into_inner()),
        }
    }

    /// Returns a weak certificate for the highest possible block above our newest, at most at `through`.
    /// Verifies one aggregate signature, or more if a validator sends its first false share.
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

    /// Height of the highest block for which another validator sent a share, if it is above our newest.
    pub fn newest_share(&self) -> Option<Height> {
        self.shares.last_key_value().map(|(height, _)| *height).filter(|height| *height > self.newest())
    }

    /// Our shares of the newest [`MAX_SHARES_AHEAD`] blocks without a certificate, for a validator that may have
    /// missed them. Those that the signer did not make before are asked for again.
    pub fn own_shares(&mut self) -> Vec<Bytes> {
        let newest = self.executed.iter().rev().take(MAX_SHARES_AHEAD as usize);
        let unsigned = newest.filter(|(_, own)| own.signature.is_none());
        for (height, hash) in unsigned.map(|(height, own)| (*height, own.hash)).collect::<Vec<_>>() {
            let signature = self.sign(height, hash);
            if let Some(own) = self.executed.get_mut(&height).filter(|_| signature.is_some()) {
                own.signature = signature;
                self.try_certify(height);
            }
        }
        let newest = self.executed.keys().rev().take(MAX_SHARES_AHEAD as usize);
        let mut heights: Vec<Height> = newest.copied().collect();
        heights.reverse();
        heights.into_iter().filter_map(|height| self.own_share(height)).collect()
    }

    fn sign(&self, height: Height, header_hash: B256) -> Option<Signature> {
        let own = self.keys.own.as_ref().filter(|_| height > self.silent_through)?;
        own.sign(height, header_hash, &self.signed_bytes(height, header_hash))
    }

    /// Replaces shares by second ones for the header that we executed. Validators that missed an upgrade sign wrong headers, and the
    /// right ones after they have repaired it. That must not be punished, and the chain may need their shares.
    fn accept_corrections(&mut self, height: Height) {
        let Some(own) = self.executed.get(&height).map(|own| own.hash) else { return };
        for ((_, from), second) in self.seconds.range_mut((height, ValidatorIndex(0))..=(height, ValidatorIndex(u16::MAX))) {
            if let Some(second) = second.take_if(|second| second.header_hash == own) {
                self.shares.entry(height).or_default().insert(*from, Some(second));
            }
        }
    }

    /// Compares second shares up to a certified height with the first ones. If the first one is for the certified header and both are
    /// valid, their signer is convicted by them.
    fn compare_through(&mut self, height: Height) {
        let later = self.seconds.split_off(&(height.next(), ValidatorIndex(0)));
        for ((height, from), second) in std::mem::replace(&mut self.seconds, later) {
            let Some(second) = second.filter(|_| !self.is_on_probation(from)) else { continue };
            let Some(own) = self.executed.get(&height).map(|own| own.hash) else { continue };
            let is_right = self.share_of(from, height).is_some_and(|first| first.header_hash == own);
            if !is_right || !self.check(from, height) {
                continue;
            }
            if !self.verify_share_of(from, height, &second) {
                self.accuse(from, second.bytes);
                continue;
            }
            let Some(first) = self.share_of(from, height) else { continue };
            let headers = [first, &second].map(|share| (share.header_hash, share.signature));
            let contradiction = Contradiction::of_headers(height, self.committee.fault_model(), headers[0], headers[1]);
            let proof = contradiction.and_then(|contradiction| self.committee.evidence(from, contradiction));
            let shares = [first.bytes.clone(), second.bytes];
            self.out.push_back(Output::Contradicted { validator: from, shares, proof });
        }
    }

    /// The share of a validator that counts.
    fn share_of(&self, from: ValidatorIndex, height: Height) -> Option<&Received> {
        self.shares.get(&height)?.get(&from)?.as_ref()
    }

    fn own_share(&self, height: Height) -> Option<Bytes> {
        let header = self.executed.get(&height)?;
        let signature = header.signature?;
        Some(Share { epoch: self.committee.epoch(), height, header_hash: header.hash, signature }.encode())
    }

    fn is_in_range(&self, height: Height) -> bool {
        height.0 <= self.newest().0.saturating_add(MAX_SHARES_AHEAD)
    }

    /// Newest block that we executed or have a certificate for.
    fn newest(&self) -> Height {
        self.certified.max(self.newest_executed.unwrap_or_default())
    }

    /// Makes a certificate for `height` if a quorum signed the same header, even if it is not ours;
    /// [`Self::apply`] then detects the difference.
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

    /// Combines the shares and verifies the result once. Verifies individual shares only if that fails, and
    /// each at most once. `None` if the signers have fewer votes than `threshold`.
    fn aggregate(&mut self, height: Height, header_hash: B256, threshold: Votes) -> Option<Certificate> {
        loop {
            let signers = self.signers(height, header_hash);
            if self.committee.weigh(signers.keys().copied()) < threshold {
                return None;
            }
            let message = self.signed_bytes(height, header_hash);
            let shares: Vec<(ValidatorIndex, Signature)> = signers.iter().map(|(signer, share)| (*signer, *share)).collect();
            let combined = match (&self.keys.own, &shares[..]) {
                (Some(key), [own]) if own.0 == key.index() => self.keys.committee.combine_own(&message, *own),
                _ => self.keys.committee.combine(&message, &shares),
            };
            if let Some(signature) = combined {
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

    /// Usable shares of others for this height: without false ones, and without unverified ones of validators
    /// that sent a false share since. Such a validator could spoil one more aggregate.
    fn received(&self, height: Height) -> impl Iterator<Item = (ValidatorIndex, &Received)> {
        let signers = self.shares.get(&height).into_iter().flatten();
        let known = signers.filter_map(|(from, received)| Some((*from, received.as_ref()?)));
        known.filter(|(from, received)| received.verified || !self.false_shares.contains_key(from))
    }

    /// All signers of this header, including us.
    fn signers(&self, height: Height, header_hash: B256) -> BTreeMap<ValidatorIndex, Signature> {
        let signed = self.received(height).filter(|(_, received)| received.header_hash == header_hash);
        let mut signers: BTreeMap<_, _> = signed.map(|(from, received)| (from, received.signature)).collect();
        let own_header = self.executed.get(&height).filter(|header| header.hash == header_hash);
        if let (Some(own), Some(signature)) = (&self.keys.own, own_header.and_then(|header| header.signature)) {
            signers.insert(own.index(), signature);
        }
        signers
    }

    /// Verifies the unverified shares of this header individually; returns true if any was false.
    fn remove_false_shares(&mut self, height: Height, header_hash: B256) -> bool {
        let mut rejected = Vec::new();
        let mut signers = self.shares.remove(&height).unwrap_or_default();
        for (from, entry) in &mut signers {
            let Some(received) = entry.as_mut().filter(|received| received.header_hash == header_hash) else { continue };
            received.verified = received.verified || self.verify_share_of(*from, height, received);
            if !received.verified {
                rejected.extend(entry.take().map(|received| (*from, received.bytes)));
            }
        }
        self.shares.insert(height, signers);
        let any = !rejected.is_empty();
        for (from, bytes) in rejected {
            self.accuse(from, bytes);
        }
        any
    }

    fn is_on_probation(&self, from: ValidatorIndex) -> bool {
        self.false_shares.get(&from).is_some_and(|false_shares| *false_shares >= PROBATION_FALSE_SHARES)
    }

    fn lags(&self) -> bool {
        self.newest_executed.unwrap_or_default().0.saturating_sub(self.certified.0) >= PROBATION_LAG
    }

    /// When certification lags, verifies the waiting shares for this height of senders with false shares.
    /// Lower heights need no check: this height's certificate covers them.
    fn check_waiting_shares(&mut self, height: Height) {
        if !self.lags() {
            return;
        }
        let unchecked = |(from, received): (&ValidatorIndex, &Option<Received>)| {
            (self.false_shares.contains_key(from) && received.as_ref().is_some_and(|received| !received.verified))
                .then_some(*from)
        };
        let waiting: Vec<_> = self.shares.get(&height).into_iter().flatten().filter_map(unchecked).collect();
        waiting.into_iter().for_each(|from| _ = self.check(from, height));
    }

    /// Verifies a share; returns true if it is valid.
    fn check(&mut self, from: ValidatorIndex, height: Height) -> bool {
        let Some(mut received) = self.shares.get_mut(&height).and_then(|signers| signers.get_mut(&from)?.take()) else {
            return false;
        };
        received.verified = self.verify_share_of(from, height, &received);
        if !received.verified {
            self.accuse(from, received.bytes);
            return false;
        }
        // The chain needs it: probation ends, and begins again with the next false share.
        self.false_shares
            .entry(from)
            .and_modify(|false_shares| *false_shares = (*false_shares).min(PROBATION_FALSE_SHARES - 1));
        self.shares.entry(height).or_default().insert(from, Some(received));
        true
    }

    fn verify_share_of(&self, from: ValidatorIndex, height: Height, received: &Received) -> bool {
        let message = self.signed_bytes(height, received.header_hash);
        self.keys.committee.verify_share(from, &message, &received.signature)
    }

    fn accuse(&mut self, validator: ValidatorIndex, evidence: Bytes) {
        let false_shares = self.false_shares.entry(validator).or_default();
        *false_shares = (*false_shares + 1).min(PROBATION_FALSE_SHARES);
        self.out.push_back(Output::Accuse { validator, evidence });
    }

    /// Applies a valid certificate. Ignored if the header of its height is no longer known, because there is
    /// nothing to compare.
    fn apply(&mut self, certificate: Certificate) {
        let height = certificate.height;
        let Some(own) = self.executed.get(&height) else { return };
        if own.hash != certificate.header_hash {
            self.diverged = true;
            let ours = own.hash;
            self.out.push_back(Output::Diverged { ours, certificate });
            return;
        }
        self.mark_certified(height);
        self.out.push_back(Output::Certified(certificate));
    }

    /// Marks `height` as certified, and thereby all its ancestors.
    fn mark_certified(&mut self, height: Height) {
        self.compare_through(height);
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
