//! Requests, answers and frames.
//!
//! A frame is its length (u32, little-endian), the version byte and a borsh encoding. The length counts the version byte and the
//! encoding. A message has exactly one encoding.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_crypto::{BLS_PUBLIC_KEY_BYTES, Domain};
use corniche_types::evidence::{Heading, SlotReport, VoteKind};
use corniche_types::wire::{self, WireError};
use corniche_types::{B256, Bytes, Epoch, FaultModel, Height, ValidatorIndex};

/// Longest frame in bytes, without its length. The longest request is a notice with a dealing, about 65 KiB.
pub const MAX_FRAME_BYTES: usize = 128 * 1024;

/// Bytes of the length before a frame.
const LENGTH_BYTES: usize = 4;

/// Committee for which a statement is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Scope {
    /// Chain id.
    pub chain_id: u64,
    /// Epoch of the committee.
    pub epoch: Epoch,
    /// Hash of the committee's keys.
    pub committee_hash: B256,
}

impl Scope {
    /// Returns the domain of a signature or digest for this committee.
    pub(crate) fn domain(&self, tag: &'static str) -> Domain {
        Domain { tag, chain_id: self.chain_id, epoch: self.epoch, committee_hash: self.committee_hash }
    }
}

/// Message of the node.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Request {
    /// First request of a connection. The first one ever binds the marks to this chain.
    Hello {
        /// Chain id.
        chain_id: u64,
        /// Hash of the genesis.
        genesis: B256,
    },
    /// Asks for a signature.
    Sign {
        /// ed25519 public key of the key set to use.
        key: B256,
        /// Committee for which the statement is made.
        scope: Scope,
        /// Statement to sign.
        statement: Statement,
    },
}

/// Statement of a validator. The signer makes the digests itself, so it knows what it signs.
///
/// `bls` selects the key of a share: BLS if the genesis has it so, otherwise ed25519.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Statement {
    /// Block of Mahi-Mahi.
    Block(Heading),
    /// Car in the validator's own lane of Autobahn.
    Car {
        /// The validator's index.
        lane: ValidatorIndex,
        /// Position in the lane, from 1.
        position: u64,
        /// Digest of the previous car.
        parent: B256,
        /// blake3 of the batch.
        batch: B256,
    },
    /// PREPARE of Autobahn.
    Prepare {
        /// The slot.
        slot: u64,
        /// The view.
        view: u32,
        /// Digest of the value.
        cut: B256,
    },
    /// Announcement of the validator's disk in Autobahn.
    DiskId {
        /// The validator's index.
        validator: ValidatorIndex,
        /// Number of the disk.
        disk: u64,
    },
    /// VOTE of Autobahn for a car of any lane.
    CarVote {
        /// The lane.
        lane: ValidatorIndex,
        /// Position in the lane.
        position: u64,
        /// Digest of the car.
        digest: B256,
        /// Kind of the share.
        bls: bool,
    },
    /// PREP-VOTE or CONFIRM-ACK of Autobahn.
    Vote {
        /// Kind of the vote.
        kind: VoteKind,
        /// The slot.
        slot: u64,
        /// The view.
        view: u32,
        /// Digest of the value.
        cut: B256,
        /// Kind of the share.
        bls: bool,
    },
    /// TIMEOUT of Autobahn.
    Timeout {
        /// The slot.
        slot: u64,
        /// View that is given up.
        view: u32,
        /// Earlier votes in the slot.
        report: SlotReport,
        /// Kind of the share.
        bls: bool,
    },
    /// Share of a certificate.
    Header {
        /// Height of the block.
        height: Height,
        /// keccak-256 of its header.
        hash: B256,
        /// Fault model of the certificate.
        fault_model: FaultModel,
    },
    /// Notice to the staking contract.
    Notice {
        /// borsh encoding of the contract's `Statement`: author and body.
        payload: Bytes,
    },
}

/// Kind of a [`Statement`], for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementKind {
    /// [`Statement::Block`]
    Block,
    /// [`Statement::Car`]
    Car,
    /// [`Statement::Prepare`]
    Prepare,
    /// [`Statement::DiskId`]
    DiskId,
    /// [`Statement::CarVote`]
    CarVote,
    /// [`Statement::Vote`]
    Vote,
    /// [`Statement::Timeout`]
    Timeout,
    /// [`Statement::Header`]
    Header,
    /// [`Statement::Notice`]
    Notice,
}

impl StatementKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Block,
        Self::Car,
        Self::Prepare,
        Self::DiskId,
        Self::CarVote,
        Self::Vote,
        Self::Timeout,
        Self::Header,
        Self::Notice,
    ];

    /// Returns the name, as in labels of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Car => "car",
            Self::Prepare => "prepare",
            Self::DiskId => "disk_id",
            Self::CarVote => "car_vote",
            Self::Vote => "vote",
            Self::Timeout => "timeout",
            Self::Header => "header",
            Self::Notice => "notice",
        }
    }
}

impl Statement {
    /// Returns the kind.
    pub fn kind(&self) -> StatementKind {
        match self {
            Self::Block(_) => StatementKind::Block,
            Self::Car { .. } => StatementKind::Car,
            Self::Prepare { .. } => StatementKind::Prepare,
            Self::DiskId { .. } => StatementKind::DiskId,
            Self::CarVote { .. } => StatementKind::CarVote,
            Self::Vote { .. } => StatementKind::Vote,
            Self::Timeout { .. } => StatementKind::Timeout,
            Self::Header { .. } => StatementKind::Header,
            Self::Notice { .. } => StatementKind::Notice,
        }
    }

    /// Returns whether the signature is a BLS signature (48 bytes) and not an ed25519 signature (64 bytes).
    pub fn is_bls(&self) -> bool {
        match self {
            Self::CarVote { bls, .. } | Self::Vote { bls, .. } | Self::Timeout { bls, .. } => *bls,
            Self::Header { .. } => true,
            Self::Block(_) | Self::Car { .. } | Self::Prepare { .. } | Self::DiskId { .. } | Self::Notice { .. } => false,
        }
    }
}

/// ed25519 and BLS public keys of one key set.
pub type PublicKeys = (B256, [u8; BLS_PUBLIC_KEY_BYTES]);

/// Response to a request.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Response {
    /// Response to [`Request::Hello`].
    Welcome {
        /// Public keys of the key sets that the signer holds.
        keys: Vec<PublicKeys>,
    },
    /// ed25519 signature (64 bytes) or BLS signature (48 bytes).
    Signed(Bytes),
    /// The request is refused. After a refused [`Request::Hello`] the signer closes the connection.
    Refused(Refusal),
    /// Another client is connected. The signer closes the connection.
    Busy,
    /// The frame has another version. The signer closes the connection.
    Unsupported,
}

/// Why a request is refused: the mark that it conflicts with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, BorshSerialize, BorshDeserialize)]
pub enum Refusal {
    /// The marks belong to another chain.
    #[error(
        "chain: expected chain {chain_id} with genesis {genesis}, to which the marks belong; use another directory of marks for another chain"
    )]
    OtherChain {
        /// Chain id of the marks.
        chain_id: u64,
        /// Genesis hash of the marks.
        genesis: B256,
    },
    /// No key set has this ed25519 key.
    #[error("key: the signer does not hold the key {key}; check its directory of keys")]
    UnknownKey {
        /// Requested key.
        key: B256,
    },
    /// A later epoch was signed.
    #[error("epoch: expected epoch {signed} or later, in which this signer has signed")]
    OldEpoch {
        /// Greatest epoch with a signature.
        signed: Epoch,
    },
    /// The epoch began when the signer had no marks.
    #[error(
        "epoch: expected epoch {open_from} or later, because earlier signatures are unknown; wait, or start the signer with --from-epoch if no other signer used these keys in the epoch"
    )]
    NoMarks {
        /// First epoch that may be signed.
        open_from: Epoch,
    },
    /// The round is not above the mark.
    #[error("block: expected a round above {mark}, or the last heading again")]
    Round {
        /// Highest signed round.
        mark: u64,
    },
    /// The position is below the mark.
    #[error("car: expected a position of at least {mark}")]
    Position {
        /// Position of the last car.
        mark: u64,
    },
    /// The slot is too old.
    #[error("slot: expected a slot above {mark}")]
    Slot {
        /// Highest closed slot.
        mark: u64,
    },
    /// A later view of the slot was signed.
    #[error("view: expected view {mark} or later, for which a statement of this kind was signed")]
    View {
        /// View of the last statement of this kind.
        mark: u32,
    },
    /// Another value was signed in this slot and view.
    #[error("value: expected {cut}, which was signed in this slot and view")]
    OtherValue {
        /// Digest of the signed value.
        cut: B256,
    },
    /// A TIMEOUT with another report was signed in this slot and view.
    #[error("timeout: expected the same report as in the TIMEOUT of this slot and view")]
    OtherReport,
    /// The view was given up.
    #[error("vote: expected a view above {mark}, which was given up by a TIMEOUT")]
    TimedOut {
        /// View of the last TIMEOUT.
        mark: u32,
    },
    /// The report of a TIMEOUT omits a vote.
    #[error("timeout: expected a report with a {kind:?} vote of view {view} for {cut}, or a later one")]
    ForgottenVote {
        /// Kind of the vote.
        kind: VoteKind,
        /// Its view.
        view: u32,
        /// Digest of its value.
        cut: B256,
    },
    /// The height is not above the mark, and the header is not known to be signed.
    #[error("header: expected a height above {mark}, or a header that was signed before")]
    Height {
        /// Highest signed height.
        mark: u64,
    },
}

/// Why bytes are not a frame.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is too long.
    #[error("frame: expected at most {MAX_FRAME_BYTES} bytes, got {bytes}")]
    Oversized {
        /// Its length.
        bytes: usize,
    },
    /// The version byte is another one.
    #[error("frame: expected version {}, got {found}", wire::VERSION)]
    Version {
        /// The byte.
        found: u8,
    },
    /// The encoding is not the one encoding of a message.
    #[error("frame: malformed message")]
    Malformed,
}

/// Encodes a message as a frame. Fails if it is too long.
pub fn encode_frame<T: BorshSerialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let body = wire::encode(message);
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MAX_FRAME_BYTES);
    let length = length.ok_or(FrameError::Oversized { bytes: body.len() })?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// Removes a frame from the front of `received` and decodes it. Returns `None` if the frame is not complete. After an error the
/// rest of the bytes has no meaning.
pub fn take_frame<T: BorshSerialize + BorshDeserialize>(received: &mut Vec<u8>) -> Result<Option<T>, FrameError> {
    let Some((length, rest)) = received.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let bytes = u32::from_le_bytes(*length) as usize;
    if bytes > MAX_FRAME_BYTES {
        return Err(FrameError::Oversized { bytes });
    }
    let Some(body) = rest.get(..bytes) else { return Ok(None) };
    let message = match wire::decode::<T>(body) {
        // Two encodings of one message would be two requests to compare.
        Ok(message) if wire::encode(&message) == body => message,
        Err(WireError::Version { found: Some(found) }) => return Err(FrameError::Version { found }),
        Ok(_) | Err(WireError::Version { found: None } | WireError::Malformed(_)) => return Err(FrameError::Malformed),
    };
    received.drain(..LENGTH_BYTES + bytes);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Request {
        Request::Hello { chain_id: 7, genesis: B256::repeat_byte(1) }
    }

    #[test]
    fn frame_has_fixed_encoding() {
        let mut expected = vec![42, 0, 0, 0, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        expected.extend([1; 32]);
        assert_eq!(encode_frame(&hello()), Ok(expected));
    }

    #[test]
    fn frames_are_taken_when_complete() {
        let frame = encode_frame(&hello()).unwrap();
        let mut received = Vec::new();
        for byte in &frame[..frame.len() - 1] {
            received.push(*byte);
            assert_eq!(take_frame::<Request>(&mut received), Ok(None));
        }
        received.push(frame[frame.len() - 1]);
        received.extend(&frame);
        assert_eq!(take_frame(&mut received), Ok(Some(hello())));
        assert_eq!(take_frame(&mut received), Ok(Some(hello())));
        assert_eq!((take_frame::<Request>(&mut received), received.len()), (Ok(None), 0));
    }

    #[test]
    fn length_is_checked_before_bytes_arrive() {
        let bytes = MAX_FRAME_BYTES + 1;
        let mut received = u32::try_from(bytes).unwrap().to_le_bytes().to_vec();
        assert_eq!(take_frame::<Request>(&mut received), Err(FrameError::Oversized { bytes }));
        assert!(encode_frame(&vec![0u8; MAX_FRAME_BYTES]).is_err());
        assert!(encode_frame(&vec![0u8; MAX_FRAME_BYTES - 5]).is_ok());
    }

    #[test]
    fn other_encodings_are_refused() {
        let frame = encode_frame(&hello()).unwrap();
        let version = {
            let mut frame = frame.clone();
            frame[4] = 2;
            take_frame::<Request>(&mut frame)
        };
        assert_eq!(version, Err(FrameError::Version { found: 2 }));
        let mut trailing = frame.clone();
        trailing[0] += 1;
        trailing.push(0);
        assert_eq!(take_frame::<Request>(&mut trailing), Err(FrameError::Malformed));
        let mut cut = frame[..frame.len() - 1].to_vec();
        cut[0] -= 1;
        assert_eq!(take_frame::<Request>(&mut cut), Err(FrameError::Malformed));
        assert_eq!(take_frame::<Request>(&mut vec![0; 4]), Err(FrameError::Malformed));
    }

    #[test]
    fn refusals_are_sentences() {
        let refusal = Refusal::NoMarks { open_from: Epoch(6) };
        assert!(refusal.to_string().starts_with("epoch: expected epoch 6 or later"));
        let (kind, cut) = (VoteKind::Confirmed, B256::ZERO);
        let forgotten = Refusal::ForgottenVote { kind, view: 2, cut }.to_string();
        assert!(forgotten.starts_with("timeout: expected a report with a Confirmed vote of view 2"), "{forgotten}");
    }
}
