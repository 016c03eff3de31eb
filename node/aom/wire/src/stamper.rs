//! The sequencer of one group in one epoch.

use crate::{
    AUTHENTICATOR_BYTES, Error, HEADER_BYTES, Header, MAX_RECEIVERS, Request, SigningKey, Suite, TAGS_PER_PACKET, TagKey,
    TagScope, genesis_hash,
};

/// Sequencer of one group in one epoch: counter, hash chain and keys.
///
/// A stamper neither checks digests nor limits rates. It must never be made twice for one epoch: two stampers would give one
/// number to two requests (Q5).
#[derive(Debug)]
pub struct Stamper {
    group: u32,
    epoch: u32,
    /// Number of the last stamped packet; 0 before the first one.
    seq: u64,
    authority: Authority,
}

#[derive(Debug)]
enum Authority {
    Hm {
        suite: Suite,
        keys: Vec<TagKey>,
    },
    Pk {
        key: SigningKey,
        sign_every: u32,
        /// Packets since the last signed one, without it.
        unsigned: u32,
        /// Number and hash of the last packet in the chain.
        prev_seq: u64,
        prev_hash: [u8; 32],
    },
}

/// One stamped request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// Its number.
    pub seq: u64,
    /// Number of packets.
    pub packets: usize,
    /// Size of each packet, in bytes.
    pub packet_bytes: usize,
    /// The packet has a signature.
    pub signed: bool,
}

impl Stamper {
    /// Makes a sequencer with tags. `keys` has the key of every receiver, in order; all have one group, epoch and suite.
    pub fn hm(keys: Vec<TagKey>) -> Result<Self, Error> {
        let first = *keys.first().ok_or(Error::Receivers(0))?.scope();
        if keys.len() > MAX_RECEIVERS {
            return Err(Error::Receivers(keys.len()));
        }
        let TagScope { group, epoch, suite, .. } = first;
        for (index, key) in (0..).zip(&keys) {
            let scope = key.scope();
            if scope.receiver != index {
                return Err(Error::KeyOrder { expected: index, found: scope.receiver });
            }
            if scope.group != group {
                return Err(Error::Group { expected: group, found: scope.group });
            }
            if scope.epoch != epoch {
                return Err(Error::Epoch { expected: epoch, found: scope.epoch });
            }
            if scope.suite != suite {
                return Err(Error::Suite { expected: suite, found: scope.suite });
            }
        }
        Ok(Self { group, epoch, seq: 0, authority: Authority::Hm { suite, keys } })
    }

    /// Makes a sequencer with signatures, in the first packet and then in every `sign_every`-th one since the last signed one.
    pub fn pk(chain_id: u64, group: u32, epoch: u32, key: SigningKey, sign_every: u32) -> Result<Self, Error> {
        if sign_every == 0 {
            return Err(Error::SignEvery);
        }
        let prev_hash = genesis_hash(chain_id, group, epoch);
        // The first packet is due at once.
        let authority = Authority::Pk { key, sign_every, unsigned: sign_every - 1, prev_seq: 0, prev_hash };
        Ok(Self { group, epoch, seq: 0, authority })
    }

    /// Continues after number `seq`, whose packet has the hash `prev_hash` (HM ignores it), as if that packet was signed.
    ///
    /// For test vectors and simulated faults. A real sequencer never resumes an epoch (Q5).
    pub fn continue_after(mut self, seq: u64, hash: [u8; 32]) -> Self {
        self.seq = seq;
        if let Authority::Pk { unsigned, prev_seq, prev_hash, .. } = &mut self.authority {
            (*unsigned, *prev_seq, *prev_hash) = (0, seq, hash);
        }
        self
    }

    /// Returns the group.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// Returns the epoch.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the suite.
    pub fn suite(&self) -> Suite {
        match &self.authority {
            Authority::Hm { suite, .. } => *suite,
            Authority::Pk { key, .. } => key.suite(),
        }
    }

    /// Returns the number of the last stamped packet; 0 before the first one.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns true if the newest packet waits for a signature of a later one.
    pub fn owes_signature(&self) -> bool {
        matches!(self.authority, Authority::Pk { unsigned: 1.., prev_seq: 1.., .. })
    }

    /// Takes the next number without a packet, as a coprocessor that dropped it. The hash chain skips the number.
    ///
    /// For test vectors and simulated faults. Fails if all numbers are used.
    pub fn lose(&mut self) -> Result<u64, Error> {
        self.seq = self.next_seq()?;
        Ok(self.seq)
    }

    /// Q1. The counter stops at its maximum.
    fn next_seq(&self) -> Result<u64, Error> {
        self.seq.checked_add(1).ok_or(Error::Exhausted(self.epoch))
    }

    /// Stamps a request: ⌈n/4⌉ packets for HM, one for PK. Fails if the request is of another group or all numbers are used.
    pub fn stamp(&mut self, request: &Request<'_>) -> Result<Vec<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        let stamped = self.stamp_into(request, &mut bytes)?;
        Ok(bytes.chunks(stamped.packet_bytes).map(<[u8]>::to_vec).collect())
    }

    /// Like [`Stamper::stamp`], but appends the packets to `out`, one after the other.
    pub fn stamp_into(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<Stamped, Error> {
        self.append(request, false, out)
    }

    /// Makes a heartbeat: an empty payload with the next number. PK: always signed. Fails if all numbers are used.
    pub fn heartbeat(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        let stamped = self.heartbeat_into(&mut bytes)?;
        Ok(bytes.chunks(stamped.packet_bytes).map(<[u8]>::to_vec).collect())
    }

    /// Like [`Stamper::heartbeat`], but appends the packets to `out`.
    pub fn heartbeat_into(&mut self, out: &mut Vec<u8>) -> Result<Stamped, Error> {
        self.append(&Request::new(self.group, &[])?, true, out)
    }

    fn append(&mut self, request: &Request<'_>, sign: bool, out: &mut Vec<u8>) -> Result<Stamped, Error> {
        if request.group != self.group {
            return Err(Error::Group { expected: self.group, found: request.group });
        }
        let seq = self.next_seq()?;
        let mut header = Header {
            group: self.group,
            epoch: self.epoch,
            subgroup: 0,
            receivers: 0,
            suite: self.suite(),
            seq,
            digest: request.digest,
            authenticator: [0; AUTHENTICATOR_BYTES],
            prev_seq: 0,
            prev_hash: [0; 32],
        };
        let mut stamped = Stamped { seq, packets: 1, packet_bytes: HEADER_BYTES + request.payload.len(), signed: false };
        match &mut self.authority {
            // Q2
            Authority::Hm { suite, keys } => {
                header.receivers = keys.len() as u8;
                stamped.packets = usize::from(header.subgroups());
                for (subgroup, keys) in (0..).zip(keys.chunks(TAGS_PER_PACKET)) {
                    header.subgroup = subgroup;
                    header.authenticator = [0; AUTHENTICATOR_BYTES];
                    let authenticated = header.authenticated();
                    for (key, tag) in keys.iter().zip(header.authenticator.chunks_exact_mut(suite.tag_bytes())) {
                        key.write_tag(&authenticated, tag);
                    }
                    out.extend_from_slice(&header.encode());
                    out.extend_from_slice(request.payload);
                }
            }
            // Q3, Q4
            Authority::Pk { key, sign_every, unsigned, prev_seq, prev_hash } => {
                (header.prev_seq, header.prev_hash) = (*prev_seq, *prev_hash);
                (*prev_seq, *prev_hash) = (seq, header.hash());
                stamped.signed = sign || *unsigned + 1 >= *sign_every;
                *unsigned = if stamped.signed { 0 } else { *unsigned + 1 };
                if stamped.signed {
                    header.authenticator = key.sign(prev_hash);
                }
                out.extend_from_slice(&header.encode());
                out.extend_from_slice(request.payload);
            }
        }
        self.seq = seq;
        Ok(stamped)
    }
}
