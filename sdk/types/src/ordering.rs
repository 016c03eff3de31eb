//! The ordering record: how consensus ordered a block. `corniche_getOrdering` returns it; the header's `extraData` is its
//! hash. From protocol version 5 on the record has a short head and a tail, which lists batches and skipped transactions.
//! `extraData` is then the hash of the head, and the head ends with the hash of the tail. A client that follows the
//! committee does not need tails.

use crate::{CommitIndex, Epoch, TimestampMs, ValidatorIndex};
use alloy_primitives::{B256, Bytes, keccak256};
use borsh::io::{self, Read, Write};
use borsh::{BorshDeserialize, BorshSerialize};

/// Part of a proposer's batch in a block: transactions `first .. first + count` of the batch.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct BatchRef {
    /// Proposer of the batch.
    pub author: ValidatorIndex,
    /// blake3 of the batch's bytes.
    pub digest: B256,
    /// Index in the batch of the first transaction, from 0.
    pub first: u32,
    /// Number of consecutive transactions.
    pub count: u32,
}

/// Why an ordered transaction was not executed. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
#[borsh(use_discriminant = true)]
#[repr(u8)]
pub enum SkipReason {
    /// Not a transaction, oversized, or of an unsupported type.
    Undecodable = 1,
    /// Invalid signature, including high-s.
    BadSignature = 2,
    /// For another chain, or without replay protection.
    WrongChain = 3,
    /// Nonce below the sender's: a duplicate, or superseded.
    NonceTooLow = 4,
    /// Nonce above the sender's. Returns to the author's pool.
    NonceTooHigh = 5,
    /// The balance does not cover gas limit × max fee + value. Returns to the author's pool.
    Underfunded = 6,
    /// Max fee below the base fee. Returns to the author's pool.
    Underpriced = 7,
    /// Intrinsic gas above the gas limit.
    IntrinsicGas = 8,
    /// Gas limit above the block's gas limit.
    GasLimit = 9,
    /// Priority fee above the max fee.
    TipAboveFee = 10,
    /// The sender has contract code (EIP-3607).
    SenderNotEoa = 11,
    /// Creation data above the size limit (EIP-3860 with our number).
    InitCodeSize = 12,
    /// The nonce is at its maximum (EIP-2681).
    NonceMax = 13,
    /// Not a transaction: a notice of a validator to the staking contract, which took effect.
    Notice = 14,
    /// A notice without effect: late, repeated, badly signed, or more than a block takes.
    NoticeRefused = 15,
}

impl SkipReason {
    /// Returns whether the transaction may become valid later: it then returns to the pool of the validator that
    /// proposed it.
    pub fn returns_to_pool(self) -> bool {
        matches!(self, Self::NonceTooHigh | Self::Underfunded | Self::Underpriced)
    }
}

/// One skipped transaction of a block.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Skipped {
    /// Position among the block's ordered transactions.
    pub position: u32,
    /// keccak-256 of the bytes as ordered.
    pub hash: B256,
    /// Why it was not executed.
    pub reason: SkipReason,
}

/// Data about the next epoch, in the last block of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct NextEpoch {
    /// Hash of the next committee.
    pub committee_hash: B256,
    /// Hash of what a light client needs of that committee: BLS keys, votes and fault model.
    pub light_root: B256,
    /// Version of the rules of its blocks.
    pub protocol_version: u32,
}

/// Record of how a block was ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderingRecord {
    /// Version of the rules under which the block was built and executed; see [`ProtocolRules`](crate::ProtocolRules).
    pub protocol_version: u32,
    /// Name of the engine in the genesis, such as `mahi-mahi`.
    pub engine: String,
    /// Epoch of the committee that ordered the block.
    pub epoch: Epoch,
    /// Hash of the committee that ordered the block.
    pub committee_hash: B256,
    /// The next epoch, in its predecessor's last block; otherwise `None`. Records below version 5 cannot hold it.
    pub next: Option<NextEpoch>,
    /// First commit with transactions in the block.
    pub first_commit: CommitIndex,
    /// Last commit with transactions in the block; the next block may continue it.
    pub last_commit: CommitIndex,
    /// Number of ordered transactions of `last_commit` in this and earlier blocks.
    pub last_commit_consumed: u32,
    /// Leader of the last commit.
    pub leader: ValidatorIndex,
    /// Time of the last commit.
    pub time: TimestampMs,
    /// Randomness of the last commit; the header's `mixHash`.
    pub randomness: B256,
    /// Sources of the ordered transactions, in order.
    pub batches: Vec<BatchRef>,
    /// keccak-256 over the hashes of all ordered transactions, in order, including skipped ones.
    pub transactions_hash: B256,
    /// Transactions that were not executed, by ascending position.
    pub skipped: Vec<Skipped>,
    /// keccak-256 of the encoded [`Resume`] point after the last commit that is complete in this block. So a
    /// certificate also covers the point from which another validator can resume ordering.
    pub resume_hash: B256,
}

/// Precedes the protocol version. Records of version 1 have neither: they start with the length of the engine's name.
const VERSION_MARKER: u32 = u32::MAX;
/// First version whose records have a head and a tail. It is no field of [`ProtocolRules`](crate::ProtocolRules), because a record is
/// decoded before its rules are known.
const HEAD_VERSION: u32 = 5;
/// Maximum bytes of an engine's name.
const MAX_ENGINE_BYTES: u32 = 64;

impl BorshSerialize for OrderingRecord {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        if self.protocol_version > 1 {
            (VERSION_MARKER, self.protocol_version).serialize(writer)?;
        }
        (&self.engine, &self.epoch, &self.committee_hash).serialize(writer)?;
        if self.has_head() {
            self.next.serialize(writer)?;
        } else {
            assert!(self.next.is_none(), "invariant: epochs end under version {HEAD_VERSION} or later");
            // Hash of the next block's committee.
            self.committee_hash.serialize(writer)?;
        }
        let commits = (&self.first_commit, &self.last_commit, &self.last_commit_consumed);
        let agreed = (&self.leader, &self.time, &self.randomness);
        let content = (&self.batches, &self.transactions_hash, &self.skipped, &self.resume_hash);
        (commits, agreed, content).serialize(writer)
    }
}

impl BorshDeserialize for OrderingRecord {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let (mut protocol_version, mut length) = (1, u32::deserialize_reader(reader)?);
        if length == VERSION_MARKER {
            (protocol_version, length) = BorshDeserialize::deserialize_reader(reader)?;
            if protocol_version < 2 {
                return Err(invalid(format!("expected a version above 1 behind the marker, got {protocol_version}")));
            }
        }
        if length > MAX_ENGINE_BYTES {
            return Err(invalid(format!("expected an engine name of at most {MAX_ENGINE_BYTES} bytes, got {length}")));
        }
        let mut engine = vec![0; length as usize];
        reader.read_exact(&mut engine)?;
        let engine = String::from_utf8(engine).map_err(|error| invalid(error.to_string()))?;
        let (epoch, committee_hash) = BorshDeserialize::deserialize_reader(reader)?;
        let mut next = None;
        if protocol_version >= HEAD_VERSION {
            next = BorshDeserialize::deserialize_reader(reader)?;
        } else if B256::deserialize_reader(reader)? != committee_hash {
            // Also keeps a head from being read as a record of version 1, which has no marker.
            return Err(invalid(format!("expected no other committee next under version {protocol_version}")));
        }
        let (first_commit, last_commit, last_commit_consumed) = BorshDeserialize::deserialize_reader(reader)?;
        let (leader, time, randomness) = BorshDeserialize::deserialize_reader(reader)?;
        let (batches, transactions_hash, skipped, resume_hash) = BorshDeserialize::deserialize_reader(reader)?;
        Ok(Self {
            protocol_version,
            engine,
            epoch,
            committee_hash,
            next,
            first_commit,
            last_commit,
            last_commit_consumed,
            leader,
            time,
            randomness,
            batches,
            transactions_hash,
            skipped,
            resume_hash,
        })
    }
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("ordering record: {problem}"))
}

impl OrderingRecord {
    /// Returns whether the record has a head and a tail, and so whether `extraData` covers the head only.
    pub fn has_head(&self) -> bool {
        self.protocol_version >= HEAD_VERSION
    }

    /// Returns the hash of the next block's committee.
    pub fn next_committee_hash(&self) -> B256 {
        self.next.as_ref().map_or(self.committee_hash, |next| next.committee_hash)
    }

    /// Returns the version of the next block's epoch, where epochs end (see [`Genesis::version_at`](crate::Genesis::version_at)).
    pub fn next_protocol_version(&self) -> u32 {
        self.next.as_ref().map_or(self.protocol_version, |next| next.protocol_version)
    }

    /// Returns the canonical bytes of the tail: batches and skipped transactions.
    pub fn encode_tail(&self) -> Vec<u8> {
        crate::wire::encode(&(&self.batches, &self.skipped))
    }

    /// Returns the canonical bytes that [`Self::hash`] covers: the head (validators.md, E5), or the whole record below
    /// protocol version 5.
    pub fn encode_hashed(&self) -> Vec<u8> {
        if !self.has_head() {
            return crate::wire::encode(self);
        }
        let tail_hash = keccak256(self.encode_tail());
        let rules = (&self.engine, self.protocol_version);
        let committees = (self.epoch, self.committee_hash, &self.next);
        let commits = (self.first_commit, self.last_commit, self.last_commit_consumed);
        let agreed = (self.leader, self.time, self.randomness);
        let hashes = (self.transactions_hash, self.resume_hash, tail_hash);
        crate::wire::encode(&(rules, committees, commits, agreed, hashes))
    }

    /// Returns keccak-256 of [`Self::encode_hashed`]: the header's `extraData`.
    pub fn hash(&self) -> B256 {
        keccak256(self.encode_hashed())
    }

    /// Returns [`Self::hash`] as the header's `extraData`.
    pub fn extra_data(&self) -> Bytes {
        Bytes::copy_from_slice(self.hash().as_slice())
    }
}

/// Point at which an ordering engine resumes: after commit `index` of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    /// Epoch of the engine.
    pub epoch: Epoch,
    /// Last complete commit of the epoch; 0 at its beginning.
    pub index: CommitIndex,
    /// The engine's checkpoint at that commit; empty at the beginning of an epoch.
    pub checkpoint: Bytes,
}

/// Precedes the epoch in the encoding of a [`Resume`] point. Epoch 0 has neither, like all points before there were epochs.
const EPOCH_MARKER: u64 = u64::MAX;

impl BorshSerialize for Resume {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        if self.epoch != Epoch(0) {
            (EPOCH_MARKER, self.epoch).serialize(writer)?;
        }
        (self.index, &self.checkpoint).serialize(writer)
    }
}

impl BorshDeserialize for Resume {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let (mut epoch, mut index) = (Epoch(0), u64::deserialize_reader(reader)?);
        if index == EPOCH_MARKER {
            (epoch, index) = BorshDeserialize::deserialize_reader(reader)?;
            if epoch == Epoch(0) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "resume point: expected an epoch above 0 behind the marker",
                ));
            }
        }
        let checkpoint = BorshDeserialize::deserialize_reader(reader)?;
        Ok(Self { epoch, index: CommitIndex(index), checkpoint })
    }
}

impl Resume {
    /// Returns the beginning of an epoch.
    pub fn start_of(epoch: Epoch) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Returns whether no commit comes before.
    pub fn is_genesis(&self) -> bool {
        self.place() == (Epoch(0), CommitIndex(0))
    }

    /// Returns the position among all commits. They are numbered from 1 in each epoch.
    pub fn place(&self) -> (Epoch, CommitIndex) {
        (self.epoch, self.index)
    }

    /// Returns keccak-256 of the encoding, as in [`OrderingRecord::resume_hash`].
    pub fn hash(&self) -> B256 {
        keccak256(crate::wire::encode(self))
    }
}
