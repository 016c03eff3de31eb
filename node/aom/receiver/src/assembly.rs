//! Packets of the current epoch on their way to being ready.

use crate::{
    EpochKey, Link, MAX_CHAIN, OrderingCertificate, Proof,
    certificate::{Scope, is_chain_start},
    receiver::Suspicion,
};
use corniche_aom_wire::{AUTHENTICATOR_BYTES, Header, Kind};
use corniche_types::Bytes;
use std::collections::BTreeMap;

/// Maximum number of unverified variants of one number (and subgroup). A forged variant displaces the real one only if this many
/// came before it.
const MAX_VARIANTS: usize = 16;
/// Maximum number of vectors with a right own tag and different payloads. Two show an equivocation.
const MAX_VERIFIED: usize = 2;
/// Maximum bytes of everything that is not authentic yet. About 5,000 packets of one Ethernet frame: a sequencer signs every 32nd
/// packet, and parts of one vector come together, so far less waits without an attack.
pub(crate) const MAX_PARTIAL_BYTES: usize = 8 << 20;
/// Bytes of an item besides its payload.
const ITEM_BYTES: usize = 256;

/// Packets that are not authentic yet.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// HM: vectors whose own tag is right, and that miss other parts.
    vectors: BTreeMap<u64, Vec<Vector>>,
    /// HM: parts of other subgroups that came before the own one. Nothing about them can be checked.
    parts: BTreeMap<u64, Vec<Part>>,
    /// PK: packets without a signature. A payload that is too large is not kept, but its header belongs to the chain.
    unsigned: BTreeMap<u64, Vec<(Header, Option<Bytes>)>>,
    /// Bytes of all these.
    bytes: usize,
}

#[derive(Debug)]
struct Vector {
    digest: [u8; 32],
    payload: Bytes,
    parts: Vec<Option<[u8; AUTHENTICATOR_BYTES]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    digest: [u8; 32],
    subgroup: u8,
    authenticator: [u8; AUTHENTICATOR_BYTES],
}

/// Result of one datagram.
#[derive(Debug)]
pub(crate) enum Assembled {
    /// Nothing is complete yet, or the datagram repeats another one.
    Nothing,
    /// The tag or the signature is wrong.
    Forged,
    /// Packets became authentic.
    Authentic(Vec<OrderingCertificate>),
}

impl Vector {
    fn bytes(&self) -> usize {
        ITEM_BYTES + self.payload.len() + self.parts.len() * AUTHENTICATOR_BYTES
    }
}

fn unsigned_bytes((_, payload): &(Header, Option<Bytes>)) -> usize {
    ITEM_BYTES + payload.as_ref().map_or(0, |payload| payload.len())
}

/// Bytes of the items of one number.
fn sum<T>(items: Option<Vec<T>>, bytes: impl Fn(&T) -> usize) -> usize {
    items.iter().flatten().map(bytes).sum()
}

/// Drops the numbers before `first`. Returns their bytes.
fn release<T>(items: &mut BTreeMap<u64, Vec<T>>, first: u64, bytes: impl Fn(&T) -> usize) -> usize {
    let kept = items.split_off(&first);
    std::mem::replace(items, kept).values().flatten().map(bytes).sum()
}

impl Assembly {
    /// Number of held numbers.
    pub fn count(&self) -> usize {
        self.vectors.len() + self.parts.len() + self.unsigned.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn release(&mut self, through: u64) {
        let first = through.saturating_add(1);
        self.bytes -= release(&mut self.vectors, first, Vector::bytes)
            + release(&mut self.parts, first, |_| ITEM_BYTES)
            + release(&mut self.unsigned, first, unsigned_bytes);
    }

    /// Makes room for an item of this number: higher numbers give way, unverified ones first. Returns false if there are none.
    fn make_room(&mut self, seq: u64, bytes: usize, is_verified: bool) -> bool {
        while self.bytes + bytes > MAX_PARTIAL_BYTES {
            let unverified = self.parts.keys().next_back().max(self.unsigned.keys().next_back()).copied();
            // A packet that proves itself displaces every guess.
            let least = if is_verified { 0 } else { seq };
            if let Some(last) = unverified.filter(|last| *last > least) {
                self.bytes -= sum(self.parts.remove(&last), |_| ITEM_BYTES);
                self.bytes -= sum(self.unsigned.remove(&last), unsigned_bytes);
            } else if let Some(last) = self.vectors.keys().next_back().copied().filter(|last| *last > seq && is_verified) {
                self.bytes -= sum(self.vectors.remove(&last), Vector::bytes);
            } else {
                return false;
            }
        }
        self.bytes += bytes;
        true
    }

    /// Takes a packet whose payload has the right digest; `None` for one that is too large.
    pub fn add(&mut self, header: &Header, payload: Option<Bytes>, key: &EpochKey, scope: &Scope) -> Assembled {
        match key {
            EpochKey::Hm(key) => {
                if header.suite != key.scope().suite || u16::from(header.receivers) != scope.receivers {
                    return Assembled::Forged;
                }
                let is_own = u16::from(header.subgroup) == scope.me / 4;
                if is_own && header.verify_tag(key).is_err() {
                    return Assembled::Forged;
                }
                payload.map_or(Assembled::Nothing, |payload| self.add_part(header, payload, is_own))
            }
            EpochKey::Pk(key) => {
                if header.suite != key.suite() || header.suite.kind() != Kind::Pk || !is_chain_start(header, scope) {
                    return Assembled::Forged;
                }
                if !header.is_signed() {
                    self.add_unsigned(*header, payload);
                    return Assembled::Nothing;
                }
                if header.verify_signature(key).is_err() {
                    return Assembled::Forged;
                }
                Assembled::Authentic(self.walk_back(*header, payload))
            }
        }
    }

    fn add_unsigned(&mut self, header: Header, payload: Option<Bytes>) {
        let variants = self.unsigned.get(&header.seq).map_or(&[][..], Vec::as_slice);
        if variants.len() >= MAX_VARIANTS || variants.iter().any(|(other, _)| *other == header) {
            return;
        }
        let variant = (header, payload);
        if self.make_room(header.seq, unsigned_bytes(&variant), false) {
            self.unsigned.entry(header.seq).or_default().push(variant);
        }
    }

    /// L3: a vector counts when it is complete and the own tag is right. A part of another subgroup counts only with the digest
    /// that the own tag proves, so a forged digest displaces nothing.
    fn add_part(&mut self, header: &Header, payload: Bytes, is_own: bool) -> Assembled {
        let Header { seq, digest, subgroup, authenticator, .. } = *header;
        let verified = self.vectors.get(&seq).map_or(0, Vec::len);
        let is_known = self.vectors.get(&seq).is_some_and(|vectors| vectors.iter().any(|vector| vector.digest == digest));
        if !is_known && !is_own {
            if verified == 0 {
                self.keep_part(seq, Part { digest, subgroup, authenticator });
            }
            return Assembled::Nothing;
        }
        if !is_known {
            let vector = Vector { digest, payload, parts: vec![None; usize::from(header.subgroups())] };
            if verified >= MAX_VERIFIED || !self.make_room(seq, vector.bytes(), true) {
                return Assembled::Nothing;
            }
            self.vectors.entry(seq).or_default().push(vector);
        }
        let early = self.parts.remove(&seq).unwrap_or_default();
        self.bytes -= early.len() * ITEM_BYTES;
        let Some(vectors) = self.vectors.get_mut(&seq) else { return Assembled::Nothing };
        let Some(place) = vectors.iter().position(|vector| vector.digest == digest) else { return Assembled::Nothing };
        for part in early.into_iter().chain([Part { digest, subgroup, authenticator }]).filter(|part| part.digest == digest) {
            if let Some(slot) = vectors[place].parts.get_mut(usize::from(part.subgroup)) {
                slot.get_or_insert(part.authenticator);
            }
        }
        if vectors[place].parts.iter().any(Option::is_none) {
            return Assembled::Nothing;
        }
        let vector = vectors.swap_remove(place);
        self.bytes -= vector.bytes();
        if vectors.is_empty() {
            self.vectors.remove(&seq);
        }
        Assembled::Authentic(vec![OrderingCertificate {
            epoch: header.epoch,
            seq,
            payload: vector.payload,
            proof: Proof::Hm { vector: vector.parts.into_iter().flatten().collect() },
            confirms: Vec::new(),
        }])
    }

    /// A part of another subgroup before the own one.
    fn keep_part(&mut self, seq: u64, part: Part) {
        let parts = self.parts.get(&seq).map_or(&[][..], Vec::as_slice);
        let of_subgroup = parts.iter().filter(|other| other.subgroup == part.subgroup).count();
        if of_subgroup < MAX_VARIANTS && !parts.contains(&part) && self.make_room(seq, ITEM_BYTES, false) {
            self.parts.entry(seq).or_default().push(part);
        }
    }

    /// L3: a signed packet proves the unsigned ones before it, as far as none is missing.
    fn walk_back(&mut self, signed: Header, payload: Option<Bytes>) -> Vec<OrderingCertificate> {
        let signature = signed.authenticator;
        let certificate = |header: &Header, payload, chain: &[Link]| OrderingCertificate {
            epoch: header.epoch,
            seq: header.seq,
            payload,
            proof: Proof::Pk { prev_seq: header.prev_seq, prev_hash: header.prev_hash, chain: chain.to_vec(), signature },
            confirms: Vec::new(),
        };
        let mut proven = Vec::from_iter(payload.map(|payload| certificate(&signed, payload, &[])));
        // Ascending from the packet after `header` to the signed one.
        let mut chain: Vec<Link> = Vec::new();
        let mut header = signed;
        while chain.len() < MAX_CHAIN {
            let is_previous = |(other, _): &&(Header, Option<Bytes>)| other.hash() == header.prev_hash;
            let previous = self.unsigned.get(&header.prev_seq).and_then(|variants| variants.iter().find(is_previous)).cloned();
            let Some((previous, payload)) = previous else { break };
            self.bytes -= sum(self.unsigned.remove(&previous.seq), unsigned_bytes);
            chain.insert(0, Link { seq: header.seq, digest: header.digest });
            proven.extend(payload.map(|payload| certificate(&previous, payload, &chain)));
            header = previous;
        }
        proven.reverse();
        proven
    }

    /// Two authentic packets with one number and different payloads (E1). HM finds it by the own tag alone.
    pub fn conflicting(&self, header: &Header) -> Option<Suspicion> {
        let vectors = self.vectors.get(&header.seq)?;
        vectors.iter().any(|vector| vector.digest != header.digest).then_some(Suspicion::Equivocation { seq: header.seq })
    }
}
