//! Packets of the current epoch on their way to being ready.

use crate::{
    EpochKey, Link, MAX_CHAIN, OrderingCertificate, Proof,
    certificate::{Scope, is_chain_start},
    receiver::Suspicion,
};
use corniche_aom_wire::{AUTHENTICATOR_BYTES, Header, Kind, Packet};
use corniche_types::Bytes;
use std::collections::BTreeMap;

/// Maximum number of packets with one number and different contents that wait for authentication.
const MAX_VARIANTS: usize = 4;

/// Packets that are not authentic yet.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// HM: parts of vectors.
    vectors: BTreeMap<u64, Vec<Vector>>,
    /// PK: packets without a signature.
    unsigned: BTreeMap<u64, Vec<(Header, Bytes)>>,
}

#[derive(Debug)]
struct Vector {
    digest: [u8; 32],
    payload: Bytes,
    parts: Vec<Option<[u8; AUTHENTICATOR_BYTES]>>,
    is_own_verified: bool,
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

impl Assembly {
    /// Number of held numbers.
    pub fn count(&self) -> usize {
        self.vectors.len() + self.unsigned.len()
    }

    pub fn release(&mut self, through: u64) {
        let first = through.saturating_add(1);
        self.vectors = self.vectors.split_off(&first);
        self.unsigned = self.unsigned.split_off(&first);
    }

    pub fn add(&mut self, packet: &Packet<'_>, payload: Bytes, key: &EpochKey, scope: &Scope) -> Assembled {
        let header = packet.header;
        match key {
            EpochKey::Hm(key) => {
                if header.suite != key.scope().suite || u16::from(header.receivers) != scope.receivers {
                    return Assembled::Forged;
                }
                let is_own = u16::from(header.subgroup) == scope.me / 4;
                if is_own && header.verify_tag(key).is_err() {
                    return Assembled::Forged;
                }
                self.add_part(&header, payload, is_own)
            }
            EpochKey::Pk(key) => {
                if header.suite != key.suite() || header.suite.kind() != Kind::Pk || !is_chain_start(&header, scope) {
                    return Assembled::Forged;
                }
                if !header.is_signed() {
                    let variants = self.unsigned.entry(header.seq).or_default();
                    if variants.len() < MAX_VARIANTS && variants.iter().all(|(other, _)| *other != header) {
                        variants.push((header, payload));
                    }
                    return Assembled::Nothing;
                }
                if header.verify_signature(key).is_err() {
                    return Assembled::Forged;
                }
                Assembled::Authentic(self.walk_back(header, payload))
            }
        }
    }

    /// L3: a vector counts when it is complete and the own tag is right.
    fn add_part(&mut self, header: &Header, payload: Bytes, is_own: bool) -> Assembled {
        let variants = self.vectors.entry(header.seq).or_default();
        let place = match variants.iter().position(|vector| vector.digest == header.digest) {
            Some(place) => place,
            None if variants.len() >= MAX_VARIANTS && !is_own => return Assembled::Nothing,
            None => {
                let parts = vec![None; usize::from(header.subgroups())];
                variants.push(Vector { digest: header.digest, payload, parts, is_own_verified: false });
                variants.len() - 1
            }
        };
        let vector = &mut variants[place];
        vector.is_own_verified |= is_own;
        vector.parts[usize::from(header.subgroup)].get_or_insert(header.authenticator);
        if !vector.is_own_verified || vector.parts.iter().any(Option::is_none) {
            return Assembled::Nothing;
        }
        let vector = variants.swap_remove(place);
        if variants.is_empty() {
            self.vectors.remove(&header.seq);
        }
        let tags = vector.parts.into_iter().flatten().collect();
        Assembled::Authentic(vec![OrderingCertificate {
            epoch: header.epoch,
            seq: header.seq,
            payload: vector.payload,
            proof: Proof::Hm { vector: tags },
            confirms: Vec::new(),
        }])
    }

    /// L3: a signed packet proves the unsigned ones before it, as far as none is missing.
    fn walk_back(&mut self, signed: Header, payload: Bytes) -> Vec<OrderingCertificate> {
        let signature = signed.authenticator;
        let certificate = |header: &Header, payload, chain: &[Link]| OrderingCertificate {
            epoch: header.epoch,
            seq: header.seq,
            payload,
            proof: Proof::Pk { prev_seq: header.prev_seq, prev_hash: header.prev_hash, chain: chain.to_vec(), signature },
            confirms: Vec::new(),
        };
        let mut proven = vec![certificate(&signed, payload, &[])];
        // Ascending from the packet after `header` to the signed one.
        let mut chain: Vec<Link> = Vec::new();
        let mut header = signed;
        while chain.len() < MAX_CHAIN {
            let is_previous = |(other, _): &&(Header, Bytes)| other.hash() == header.prev_hash;
            let previous = self.unsigned.get(&header.prev_seq).and_then(|variants| variants.iter().find(is_previous)).cloned();
            let Some((previous, payload)) = previous else { break };
            self.unsigned.remove(&previous.seq);
            chain.insert(0, Link { seq: header.seq, digest: header.digest });
            proven.push(certificate(&previous, payload, &chain));
            header = previous;
        }
        proven.reverse();
        proven
    }

    /// Two authentic packets with one number and different payloads (E1). HM finds it by the own tag alone.
    pub fn conflicting(&self, header: &Header) -> Option<Suspicion> {
        let vectors = self.vectors.get(&header.seq)?;
        let is_other = |vector: &Vector| vector.is_own_verified && vector.digest != header.digest;
        vectors.iter().any(is_other).then_some(Suspicion::Equivocation { seq: header.seq })
    }
}
