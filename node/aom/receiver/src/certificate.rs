//! Proof that the sequencer gave a number to a payload.

use crate::{EpochKey, MAX_CHAIN, MAX_CONFIRMED};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_aom_wire::{AUTHENTICATOR_BYTES, Header, Kind, MAX_RECEIVERS, Suite, genesis_hash, payload_digest};
use corniche_types::{Bytes, ValidatorIndex, wire};

/// One packet with its proof (oc). Every receiver of the group can check it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct OrderingCertificate {
    pub epoch: u32,
    pub seq: u64,
    pub payload: Bytes,
    pub proof: Proof,
    /// Byzantine network: CONFIRMs of members with a quorum of votes. Otherwise empty.
    #[borsh(deserialize_with = "wire::at_most::<MAX_RECEIVERS, _, _>")]
    pub confirms: Vec<ConfirmVote>,
}

/// Authenticator of a packet.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Proof {
    /// The complete vector of tags, by subgroup.
    Hm {
        #[borsh(deserialize_with = "wire::at_most::<MAX_RECEIVERS, _, _>")]
        vector: Vec<[u8; AUTHENTICATOR_BYTES]>,
    },
    /// The hash chain from this packet to a signed one.
    Pk {
        prev_seq: u64,
        prev_hash: [u8; 32],
        /// The packets after this one, ascending, up to the signed one. Empty if this packet is signed.
        #[borsh(deserialize_with = "wire::at_most::<MAX_CHAIN, _, _>")]
        chain: Vec<Link>,
        signature: [u8; AUTHENTICATOR_BYTES],
    },
}

/// A packet in the hash chain. Its `prev_seq` and `prev_hash` are those of the link before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Link {
    pub seq: u64,
    pub digest: [u8; 32],
}

/// A member's CONFIRM: "I received these digests first, at the numbers from `from` on" (L4).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ConfirmVote {
    pub member: ValidatorIndex,
    pub from: u64,
    #[borsh(deserialize_with = "wire::at_most::<MAX_CONFIRMED, _, _>")]
    pub digests: Vec<[u8; 32]>,
    /// Signature of the member on group, epoch, `from` and `digests`. The caller makes and checks it.
    pub signature: [u8; 64],
}

impl ConfirmVote {
    /// The digest that the member confirms for this number.
    pub fn digest(&self, seq: u64) -> Option<[u8; 32]> {
        let place = usize::try_from(seq.checked_sub(self.from)?).ok()?;
        self.digests.get(place).copied()
    }
}

/// Data for the check of a certificate, besides the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub chain_id: u64,
    pub group: u32,
    pub me: u16,
    pub receivers: u16,
}

impl OrderingCertificate {
    /// Digest of the payload, as in the packet's header.
    pub fn digest(&self, group: u32) -> [u8; 32] {
        payload_digest(group, &self.payload)
    }

    fn header(&self, group: u32, suite: Suite) -> Header {
        Header {
            group,
            epoch: self.epoch,
            subgroup: 0,
            receivers: 0,
            suite,
            seq: self.seq,
            digest: self.digest(group),
            authenticator: [0; AUTHENTICATOR_BYTES],
            prev_seq: 0,
            prev_hash: [0; 32],
        }
    }

    /// Checks the sequencer's part. CONFIRMs are checked by the receiver's quorum and the caller's signatures.
    pub(crate) fn is_authentic(&self, key: &EpochKey, scope: &Scope) -> bool {
        if self.seq == 0 {
            return false;
        }
        match (&self.proof, key) {
            (Proof::Hm { vector }, EpochKey::Hm(key)) => {
                let subgroup = usize::from(scope.me / 4);
                let Some(authenticator) = vector.get(subgroup) else { return false };
                let header = Header {
                    subgroup: subgroup as u8,
                    receivers: scope.receivers as u8,
                    authenticator: *authenticator,
                    ..self.header(scope.group, key.scope().suite)
                };
                // L3: an incomplete vector proves nothing to others.
                vector.len() == usize::from(header.subgroups()) && header.verify_tag(key).is_ok()
            }
            (Proof::Pk { prev_seq, prev_hash, chain, signature }, EpochKey::Pk(key)) => {
                let first = Header { prev_seq: *prev_seq, prev_hash: *prev_hash, ..self.header(scope.group, key.suite()) };
                is_chain_start(&first, scope)
                    && walk(first, chain, *signature).is_some_and(|last| last.verify_signature(key).is_ok())
            }
            _ => false,
        }
    }
}

/// Returns false for a first packet that does not begin the epoch's chain.
pub(crate) fn is_chain_start(header: &Header, scope: &Scope) -> bool {
    header.prev_seq != 0 || header.prev_hash == genesis_hash(scope.chain_id, scope.group, header.epoch)
}

/// Follows the chain forward from `first` and returns the signed header. `None` if the numbers do not ascend.
fn walk(first: Header, chain: &[Link], signature: [u8; AUTHENTICATOR_BYTES]) -> Option<Header> {
    let mut header = first;
    if header.prev_seq >= header.seq {
        return None;
    }
    for link in chain {
        if link.seq <= header.seq {
            return None;
        }
        header = Header { seq: link.seq, digest: link.digest, prev_seq: header.seq, prev_hash: header.hash(), ..header };
    }
    (header.suite.kind() == Kind::Pk).then_some(Header { authenticator: signature, ..header })
}
