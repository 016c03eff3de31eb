//! Requests, headers and packets as bytes.

use crate::{
    AUTHENTICATED_BYTES, AUTHENTICATOR_BYTES, Error, HEADER_BYTES, Kind, MAGIC, MAX_PACKET_BYTES, MAX_PAYLOAD_BYTES,
    MAX_RECEIVERS, Suite, TAGS_PER_PACKET, VERSION, header_hash, payload_digest,
    suite::{KIND_REQUEST, KIND_START},
};

/// A packet from a sender to the sequencer. Nothing in it is authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Group that the sender writes to.
    pub group: u32,
    /// Digest as the sender wrote it; see [`Request::verify_digest`].
    pub digest: [u8; 32],
    /// Payload.
    pub payload: &'a [u8],
}

impl<'a> Request<'a> {
    /// Makes a request. Fails if the payload exceeds [`MAX_PAYLOAD_BYTES`].
    pub fn new(group: u32, payload: &'a [u8]) -> Result<Self, Error> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(Error::PayloadTooLong(payload.len()));
        }
        Ok(Self { group, digest: payload_digest(group, payload), payload })
    }

    /// Decodes a datagram from a sender. Fields of the sequencer are ignored, whatever they hold.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, Error> {
        let (header, payload) = split(datagram)?;
        let kind: u8 = byte(header, 3);
        if kind != KIND_REQUEST {
            return Err(Error::Kind { expected: "0 (request)", found: kind });
        }
        Ok(Self { group: u32::from_be_bytes(array(header, 4)), digest: array(header, 24), payload })
    }

    /// Encodes the datagram, with zeros in the fields of the sequencer.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        put(&mut bytes, 0, &MAGIC.to_be_bytes());
        put(&mut bytes, 2, &[VERSION, KIND_REQUEST]);
        put(&mut bytes, 4, &self.group.to_be_bytes());
        put(&mut bytes, 24, &self.digest);
        bytes.extend_from_slice(self.payload);
        bytes
    }

    /// Fails with [`Error::Digest`] unless the digest is that of the payload.
    pub fn verify_digest(&self) -> Result<(), Error> {
        if payload_digest(self.group, self.payload) == self.digest { Ok(()) } else { Err(Error::Digest) }
    }
}

/// Encodes a request with this payload. Fails if the payload exceeds [`MAX_PAYLOAD_BYTES`].
pub fn encode_request(group: u32, payload: &[u8]) -> Result<Vec<u8>, Error> {
    Request::new(group, payload).map(|request| request.encode())
}

/// Asks the sequencer to begin an epoch of a group (E2). A request's header with another kind and the epoch; the payload is the
/// certificate, which the sequencer must check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart<'a> {
    /// Group.
    pub group: u32,
    /// Epoch to begin.
    pub epoch: u32,
    /// Proof that the receivers agreed to begin it; empty for the first epoch.
    pub certificate: &'a [u8],
}

impl<'a> EpochStart<'a> {
    /// Decodes a datagram. Fails unless it is canonical.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, Error> {
        let (header, certificate) = split(datagram)?;
        let kind: u8 = byte(header, 3);
        if kind != KIND_START {
            return Err(Error::Kind { expected: "3 (start of an epoch)", found: kind });
        }
        let [group, epoch] = [4, 8].map(|at| u32::from_be_bytes(array(header, at)));
        let start = Self { group, epoch, certificate };
        if start.encode()? == datagram { Ok(start) } else { Err(Error::NotZero("unused")) }
    }

    /// Encodes the datagram. Fails if the certificate exceeds [`MAX_PAYLOAD_BYTES`].
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = encode_request(self.group, self.certificate)?;
        put(&mut bytes, 3, &[KIND_START]);
        put(&mut bytes, 8, &self.epoch.to_be_bytes());
        Ok(bytes)
    }
}

/// Header of a stamped packet: well-formed, but not authentic before [`Header::verify_tag`] or [`Header::verify_signature`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Group.
    pub group: u32,
    /// Epoch of the sequencer.
    pub epoch: u32,
    /// HM: index of the packet in its vector. PK: 0.
    pub subgroup: u8,
    /// HM: number of receivers of the group. PK: 0.
    pub receivers: u8,
    /// Suite, which implies the kind.
    pub suite: Suite,
    /// Sequence number, from 1 in each epoch.
    pub seq: u64,
    /// Digest of the payload.
    pub digest: [u8; 32],
    /// HM: four tags. PK: signature, or zeros.
    pub authenticator: [u8; AUTHENTICATOR_BYTES],
    /// PK: number of the packet whose hash is `prev_hash`; 0 for the first one. HM: 0.
    pub prev_seq: u64,
    /// PK: hash of the previous packet. HM: 0.
    pub prev_hash: [u8; 32],
}

impl Header {
    /// Decodes the header of a stamped packet. Fails unless every rule of the format holds, with zeros in all unused bytes.
    pub fn decode(header: &[u8; HEADER_BYTES]) -> Result<Self, Error> {
        check_start(header)?;
        let (kind, suite) = (byte(header, 3), byte(header, 14));
        if kind != Kind::Hm as u8 && kind != Kind::Pk as u8 {
            return Err(Error::Kind { expected: "1 (HM) or 2 (PK)", found: kind });
        }
        let suite = Suite::try_from(suite)?;
        if suite.kind() as u8 != kind {
            return Err(Error::SuiteOfOtherKind { suite, kind });
        }
        let header = Self {
            group: u32::from_be_bytes(array(header, 4)),
            epoch: u32::from_be_bytes(array(header, 8)),
            subgroup: byte(header, 12),
            receivers: byte(header, 13),
            suite,
            seq: u64::from_be_bytes(array(header, 16)),
            digest: array(header, 24),
            authenticator: array(header, AUTHENTICATED_BYTES),
            prev_seq: u64::from_be_bytes(array(header, 120)),
            prev_hash: array(header, 128),
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), Error> {
        if self.seq == 0 {
            return Err(Error::ZeroSeq);
        }
        let zero = |is_zero: bool, field: &'static str| if is_zero { Ok(()) } else { Err(Error::NotZero(field)) };
        match self.suite.kind() {
            Kind::Hm => {
                zero(self.prev_seq == 0, "prev_seq of HM")?;
                zero(self.prev_hash == [0; 32], "prev_hash of HM")?;
                let receivers = usize::from(self.receivers);
                if !(1..=MAX_RECEIVERS).contains(&receivers) {
                    return Err(Error::Receivers(receivers));
                }
                let subgroups = self.subgroups();
                if self.subgroup >= subgroups {
                    return Err(Error::Subgroup { subgroups, found: self.subgroup });
                }
                // The last packet of a vector has tags of the receivers that are left.
                let tags = (receivers - usize::from(self.subgroup) * TAGS_PER_PACKET).min(TAGS_PER_PACKET);
                let unused = &self.authenticator[tags * self.suite.tag_bytes()..];
                zero(unused.iter().all(|byte| *byte == 0), "unused part of the authenticator")
            }
            Kind::Pk => {
                zero(self.subgroup == 0, "subgroup of PK")?;
                zero(self.receivers == 0, "receivers of PK")?;
                if self.prev_seq >= self.seq {
                    return Err(Error::PrevSeq { seq: self.seq, prev_seq: self.prev_seq });
                }
                Ok(())
            }
        }
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, &self.authenticated());
        put(&mut bytes, AUTHENTICATED_BYTES, &self.authenticator);
        put(&mut bytes, 120, &self.prev_seq.to_be_bytes());
        put(&mut bytes, 128, &self.prev_hash);
        bytes
    }

    /// Returns bytes 0 to 56, which tags and header hashes cover.
    pub fn authenticated(&self) -> [u8; AUTHENTICATED_BYTES] {
        let mut bytes = [0; AUTHENTICATED_BYTES];
        put(&mut bytes, 0, &MAGIC.to_be_bytes());
        put(&mut bytes, 2, &[VERSION, self.suite.kind() as u8]);
        put(&mut bytes, 4, &self.group.to_be_bytes());
        put(&mut bytes, 8, &self.epoch.to_be_bytes());
        put(&mut bytes, 12, &[self.subgroup, self.receivers, self.suite as u8]);
        put(&mut bytes, 16, &self.seq.to_be_bytes());
        put(&mut bytes, 24, &self.digest);
        bytes
    }

    /// Returns the header hash of a PK packet, which is prev_hash of the next packet. HM packets have no use for it.
    pub fn hash(&self) -> [u8; 32] {
        header_hash(&self.authenticated(), self.prev_seq, &self.prev_hash)
    }

    /// Returns the number of packets in the vector: ⌈n/4⌉ for HM, 1 for PK.
    pub fn subgroups(&self) -> u8 {
        match self.suite.kind() {
            Kind::Hm => self.receivers.div_ceil(TAGS_PER_PACKET as u8),
            Kind::Pk => 1,
        }
    }
}

/// A stamped packet: well-formed, but neither authentic nor of matching digest before it was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Header.
    pub header: Header,
    /// Payload.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Decodes a datagram from the sequencer. Fails as [`Header::decode`], and if the size is out of range.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, Error> {
        let (header, payload) = split(datagram)?;
        Ok(Self { header: Header::decode(header)?, payload })
    }

    /// Encodes the datagram.
    pub fn encode(&self) -> Vec<u8> {
        [&self.header.encode()[..], self.payload].concat()
    }

    /// Fails with [`Error::Digest`] unless the digest is that of the payload. Then the packet counts as not received (L2).
    pub fn verify_digest(&self) -> Result<(), Error> {
        if payload_digest(self.header.group, self.payload) == self.header.digest { Ok(()) } else { Err(Error::Digest) }
    }
}

/// Splits a datagram into header and payload. Checks what requests and stamped packets share.
fn split(datagram: &[u8]) -> Result<(&[u8; HEADER_BYTES], &[u8]), Error> {
    let (header, payload) = datagram.split_first_chunk().ok_or(Error::TooShort(datagram.len()))?;
    if datagram.len() > MAX_PACKET_BYTES {
        return Err(Error::TooLong(datagram.len()));
    }
    check_start(header)?;
    Ok((header, payload))
}

fn check_start(header: &[u8; HEADER_BYTES]) -> Result<(), Error> {
    let magic = u16::from_be_bytes(array(header, 0));
    if magic != MAGIC {
        return Err(Error::Magic(magic));
    }
    let version = byte(header, 2);
    if version != VERSION {
        return Err(Error::Version(version));
    }
    if byte(header, 15) != 0 { Err(Error::NotZero("reserved byte")) } else { Ok(()) }
}

/// Returns `N` bytes of the header from `offset` on. Offsets are constants of the format.
fn array<const N: usize>(header: &[u8; HEADER_BYTES], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[offset..offset + N]);
    bytes
}

fn byte(header: &[u8; HEADER_BYTES], offset: usize) -> u8 {
    header[offset]
}

fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    bytes[offset..offset + field.len()].copy_from_slice(field);
}
