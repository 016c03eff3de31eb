//! Messages between nodes, apart from the engine's own: certificates, transactions, and the block stream that
//! full nodes and lagging validators follow.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_certify::Share;
use corniche_types::{Address, B256, Block, Bytes, Certificate, EncodedHeader, Epoch, Header, Height, Resume, wire};
use std::io::{self, Write};

/// Maximum bytes of blocks in one [`Response`]. A larger block is sent in parts.
pub const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// Size of one [`Part`]. Less than a response, so that slow links deliver one in time.
pub const PART_BYTES: usize = 1 << 20;
/// Maximum size of an encoded block in parts, under rules that do not bound it.
pub const MAX_BLOCK_BYTES: u64 = 256 << 20;
/// Maximum number of blocks in one [`Response`].
pub const MAX_RESPONSE_BLOCKS: usize = 512;
/// Maximum number of headers in one [`Response`], of 600 bytes each. The distance between certificates is
/// smaller.
pub const MAX_RESPONSE_HEADERS: usize = 1_024;
/// Maximum number of transactions in one [`PeerMessage::Transactions`].
pub const MAX_FORWARDED_TRANSACTIONS: usize = 256;

/// Maximum bytes of transactions in one [`PeerMessage::Transactions`], unless a single one is larger.
pub const MAX_FORWARDED_BYTES: usize = 512 << 10;

/// Maximum number of transactions in one [`PeerMessage::Attestations`].
pub const MAX_ATTESTATIONS: usize = 1_024;

/// One-way messages.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum PeerMessage {
    /// Message of an engine of epoch 0. Opaque except to the engine and its verifier. Validators only.
    Engine(Bytes),
    /// A validator's signature over a header. Validators only.
    CertificateShare(Bytes),
    /// Newest certificate known to the sender.
    Certificate(Certificate),
    /// Raw transactions for the receiver's pool.
    Transactions(#[borsh(deserialize_with = "wire::at_most::<MAX_FORWARDED_TRANSACTIONS, _, _>")] Vec<Bytes>),
    /// Hashes and senders of transactions that the sending validator verified, or accepted from f + 1 attestations. Validators
    /// only.
    Attestations(#[borsh(deserialize_with = "wire::at_most::<MAX_ATTESTATIONS, _, _>")] Vec<(B256, Address)>),
    /// Message of an engine of a later epoch, as [`Self::Engine`].
    EpochEngine(Epoch, Bytes),
    /// The sender is in this epoch. Never sent in epoch 0, except as an answer. With `wants_answer` it does not know that the
    /// receiver is there, too, and asks for the receiver's epoch.
    Epoch { epoch: Epoch, wants_answer: bool },
    /// Entry for a batch: a notice to the staking contract, from a validator that does not order now, or will order later.
    Notice(Bytes),
}

/// Requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Request {
    /// Certified blocks from this height on. For a block in parts: the part that begins at `offset`, a multiple of
    /// [`PART_BYTES`].
    Blocks { from: Height, offset: u64 },
    /// Executed blocks from one height through another, certified or not. The requester knows the hash of the
    /// last one. Validators only: full nodes follow only certified blocks.
    Executed { from: Height, through: Height, offset: u64 },
}

/// Consecutive blocks from the requested height, with a proof: the headers from the last block up to the
/// certified one. For [`Request::Executed`]: up to the last requested height, without a certificate. A block
/// larger than [`MAX_RESPONSE_BYTES`] is sent in parts. Empty if the responder lacks the blocks, or a certificate
/// at or above the requested height.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Response {
    pub blocks: Vec<FollowedBlock>,
    /// Headers after those in `blocks`.
    pub headers: Vec<EncodedHeader>,
    pub certificate: Option<Certificate>,
    /// The first part comes with its block's header and certificate; later parts come alone.
    pub part: Option<Part>,
}

impl Response {
    /// Height of the first block or header; `None` for later parts and empty responses.
    pub fn first(&self) -> Option<Height> {
        let block = self.blocks.first().map(|followed| followed.block.height());
        block.or_else(|| self.headers.first().map(|header| Height(header.0.number)))
    }
}

/// Part of a block.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Part {
    /// Size of the whole encoded [`FollowedBlock`], in bytes.
    pub length: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// [`PART_BYTES`] bytes, or less at the end.
    pub bytes: Bytes,
}

/// Block in the form for followers: everything needed to execute it and, for a validator, to resume ordering
/// after it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct FollowedBlock {
    pub block: Block,
    pub resume: Resume,
}

impl PeerMessage {
    /// Message of an engine.
    pub fn engine(epoch: Epoch, message: Bytes) -> Self {
        if epoch == Epoch(0) { Self::Engine(message) } else { Self::EpochEngine(epoch, message) }
    }

    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }

    /// True if `bytes` have the prefix of [`Self::Certificate`]; does not validate them.
    pub fn carries_certificate(bytes: &[u8]) -> bool {
        const CERTIFICATE: u8 = 2;
        bytes.starts_with(&[wire::VERSION, CERTIFICATE])
    }

    /// True if `bytes` have the prefix of [`Self::Transactions`], which are verified separately; does not
    /// validate them.
    pub fn carries_transactions(bytes: &[u8]) -> bool {
        const TRANSACTIONS: u8 = 3;
        bytes.starts_with(&[wire::VERSION, TRANSACTIONS])
    }

    /// True if `bytes` have the prefix of [`Self::Attestations`]; does not validate them.
    pub fn carries_attestations(bytes: &[u8]) -> bool {
        const ATTESTATIONS: u8 = 4;
        bytes.starts_with(&[wire::VERSION, ATTESTATIONS])
    }

    /// Bytes of the engine's message in an encoded [`Self::Engine`] or [`Self::EpochEngine`], without decoding.
    pub fn engine_bytes(bytes: &[u8]) -> Option<&[u8]> {
        const LENGTH_BYTES: usize = 4;
        const EPOCH_BYTES: usize = 8;
        match bytes {
            [wire::VERSION, 0, rest @ ..] => rest.get(LENGTH_BYTES..),
            [wire::VERSION, 5, rest @ ..] => rest.get(EPOCH_BYTES + LENGTH_BYTES..),
            _ => None,
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, wire::WireError> {
        let message = wire::decode(bytes)?;
        match &message {
            // Refused here, where the sender is penalised.
            Self::CertificateShare(bytes) => Share::decode(bytes).map(|_| message),
            _ => Ok(message),
        }
    }
}

impl Part {
    /// Part of a block that begins at `offset`. Encodes the block without keeping more than the part.
    fn at(block: &FollowedBlock, offset: u64) -> Option<Self> {
        let mut window = Window { skip: usize::try_from(offset).ok()?, kept: Vec::new(), length: 0 };
        window
            .write_all(&[wire::VERSION])
            .and_then(|()| block.serialize(&mut window))
            .expect("writing into memory cannot fail");
        let Window { kept, length, .. } = window;
        (!kept.is_empty()).then(|| Self { length, offset, bytes: kept.into() })
    }
}

/// Keeps [`PART_BYTES`] of what is written, after the first `skip` bytes, and counts the rest.
struct Window {
    skip: usize,
    kept: Vec<u8>,
    length: u64,
}

impl Write for Window {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let skipped = self.skip.min(bytes.len());
        let kept = (bytes.len() - skipped).min(PART_BYTES - self.kept.len());
        self.kept.extend_from_slice(&bytes[skipped..][..kept]);
        self.skip -= skipped;
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stored blocks for [`serve_blocks`].
pub trait BlockSource {
    fn block(&self, height: Height) -> Option<FollowedBlock>;
    fn header(&self, height: Height) -> Option<Header>;
    /// Certificate with the lowest height at or above this one.
    fn certificate_from(&self, height: Height) -> Option<Certificate>;
}

/// Answers a request from stored blocks. An offset that no honest node requests costs no read, one beyond the end of its
/// block costs as much as the block's first part.
pub fn serve_blocks(request: Request, stored: &impl BlockSource) -> Response {
    match request {
        Request::Blocks { from, offset: 0 } => certified_response(from, stored),
        Request::Executed { from, through, offset: 0 } => executed_response(from, through, stored),
        Request::Blocks { from, offset } | Request::Executed { from, offset, .. } => {
            let is_plausible = offset.is_multiple_of(PART_BYTES as u64) && offset < MAX_BLOCK_BYTES;
            let block = is_plausible.then(|| stored.block(from)).flatten();
            Response { part: block.and_then(|block| Part::at(&block, offset)), ..Response::default() }
        }
    }
}

/// Answers [`Request::Blocks`] with as many blocks as fit. Ends, if possible, at a block with its own
/// certificate, so that headers are needed only for large blocks. Ends at the last block of an epoch (E11): only who executed it
/// knows the committee that certifies the next one. That block always has its own certificate.
fn certified_response(from: Height, stored: &impl BlockSource) -> Response {
    let Some(mut certificate) = stored.certificate_from(from) else { return Response::default() };
    let (mut blocks, mut bytes, mut certified) = (Vec::new(), 0, None);
    while blocks.len() < MAX_RESPONSE_BLOCKS {
        let height = Height(from.0 + blocks.len() as u64);
        if certificate.height < height {
            let Some(next) = stored.certificate_from(height) else { break };
            certificate = next;
        }
        let Some(block) = stored.block(height) else { break };
        bytes += borsh::object_length(&block).expect("counting cannot fail");
        if bytes > MAX_RESPONSE_BYTES {
            if blocks.is_empty() {
                return first_part(&block, certificate.height, Some(certificate), stored);
            }
            break;
        }
        let ends_epoch = block.block.ordering.next.is_some();
        blocks.push(block);
        if certificate.height == height {
            certified = Some((blocks.len(), certificate.clone()));
        }
        if ends_epoch {
            break;
        }
    }
    match certified {
        Some((count, certificate)) => {
            blocks.truncate(count);
            Response { blocks, certificate: Some(certificate), ..Response::default() }
        }
        // The first blocks are not stored, but perhaps their headers.
        None if blocks.is_empty() => Response::default(),
        None => {
            let next = Height(from.0 + blocks.len() as u64);
            let Some(headers) = headers(next, certificate.height, stored) else { return Response::default() };
            Response { blocks, headers, certificate: Some(certificate), part: None }
        }
    }
}

/// Answers [`Request::Executed`] with as many blocks as fit, and headers for the rest.
fn executed_response(from: Height, through: Height, stored: &impl BlockSource) -> Response {
    // Before anything is read: no answer reaches further.
    if count(from, through).is_none_or(|count| count > MAX_RESPONSE_BLOCKS + MAX_RESPONSE_HEADERS) {
        return Response::default();
    }
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    while blocks.len() < MAX_RESPONSE_BLOCKS && from.0 + blocks.len() as u64 <= through.0 {
        let Some(block) = stored.block(Height(from.0 + blocks.len() as u64)) else { return Response::default() };
        bytes += borsh::object_length(&block).expect("counting cannot fail");
        if bytes > MAX_RESPONSE_BYTES {
            if blocks.is_empty() {
                return first_part(&block, through, None, stored);
            }
            break;
        }
        blocks.push(block);
    }
    match headers(Height(from.0 + blocks.len() as u64), through, stored) {
        Some(headers) => Response { blocks, headers, ..Response::default() },
        None => Response::default(),
    }
}

fn first_part(block: &FollowedBlock, through: Height, certificate: Option<Certificate>, stored: &impl BlockSource) -> Response {
    let part = Part::at(block, 0);
    match headers(block.block.height(), through, stored) {
        Some(headers) => Response { blocks: Vec::new(), headers, certificate, part },
        None => Response::default(),
    }
}

/// `None` if there are too many.
fn headers(from: Height, through: Height, stored: &impl BlockSource) -> Option<Vec<EncodedHeader>> {
    if count(from, through)? > MAX_RESPONSE_HEADERS {
        return None;
    }
    (from.0..=through.0).map(|height| stored.header(Height(height)).map(EncodedHeader)).collect()
}

/// Number of heights from one to another; `None` if they do not fit into memory.
fn count(from: Height, through: Height) -> Option<usize> {
    let after = through.0.checked_add(1)?;
    usize::try_from(after.saturating_sub(from.0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{CommitIndex, OrderedTransaction, OrderingRecord, TimestampMs, ValidatorIndex};
    use std::cell::Cell;

    /// A chain of equal blocks without end, which counts what is read.
    #[derive(Default)]
    struct Endless {
        reads: Cell<usize>,
        ordered: Vec<OrderedTransaction>,
    }

    impl Endless {
        fn read(&self) {
            self.reads.set(self.reads.get() + 1);
        }
    }

    impl BlockSource for Endless {
        fn block(&self, height: Height) -> Option<FollowedBlock> {
            self.read();
            let ordering = OrderingRecord {
                protocol_version: 5,
                engine: "test".into(),
                epoch: Epoch(0),
                committee_hash: B256::ZERO,
                next: None,
                first_commit: CommitIndex(1),
                last_commit: CommitIndex(1),
                last_commit_consumed: 0,
                leader: ValidatorIndex(0),
                time: TimestampMs(0),
                randomness: B256::ZERO,
                batches: Vec::new(),
                transactions_hash: B256::ZERO,
                skipped: Vec::new(),
                resume_hash: B256::ZERO,
            };
            let header = Header { number: height.0, ..Header::default() };
            Some(FollowedBlock { block: Block { header, ordering, ordered: self.ordered.clone() }, resume: Resume::default() })
        }

        fn header(&self, height: Height) -> Option<Header> {
            self.read();
            Some(Header { number: height.0, ..Header::default() })
        }

        fn certificate_from(&self, _: Height) -> Option<Certificate> {
            None
        }
    }

    /// A peer chooses both heights.
    #[test]
    fn an_answer_reads_only_what_it_may_hold() {
        let answer = |from, through| {
            let stored = Endless::default();
            let response = serve_blocks(Request::Executed { from: Height(from), through: Height(through), offset: 0 }, &stored);
            (stored.reads.get(), response.blocks.len(), response.headers.len())
        };
        let (blocks, headers) = (MAX_RESPONSE_BLOCKS, MAX_RESPONSE_HEADERS);
        assert_eq!(answer(1, 600), (600, blocks, 88));
        assert_eq!(answer(1, 1_536), (blocks + headers, blocks, headers));
        for (from, through) in [(1, 1_537), (1, u64::MAX), (1, u64::MAX - 1), (0, u64::MAX), (9, 7), (u64::MAX, 0)] {
            assert_eq!(answer(from, through), (0, 0, 0), "{from} to {through}");
        }
        assert_eq!(answer(u64::MAX - 1, u64::MAX - 1), (1, 1, 0));
        assert_eq!(answer(u64::MAX, u64::MAX), (0, 0, 0));
    }
    /// A peer chooses the offset, and an answer without a part costs it nothing.
    #[test]
    fn an_offset_beyond_every_block_costs_no_read() {
        let stored = Endless::default();
        let part = PART_BYTES as u64;
        for offset in [1, part - 1, part + 1, MAX_BLOCK_BYTES, MAX_BLOCK_BYTES + part, 1 << 40, u64::MAX] {
            for request in
                [Request::Blocks { from: Height(7), offset }, Request::Executed { from: Height(7), through: Height(7), offset }]
            {
                assert_eq!(serve_blocks(request, &stored), Response::default());
                assert_eq!(stored.reads.get(), 0, "{request:?}");
            }
        }
        let beyond = Request::Blocks { from: Height(7), offset: MAX_BLOCK_BYTES - part };
        assert_eq!((serve_blocks(beyond, &stored), stored.reads.get()), (Response::default(), 1));
    }

    #[test]
    fn parts_join_to_the_encoded_block() {
        let raw = |byte| Bytes::from(vec![byte; 700_000]);
        let ordered = (0..8).map(|byte| OrderedTransaction { author: ValidatorIndex(0), raw: raw(byte) }).collect();
        let stored = Endless { ordered, ..Endless::default() };
        let encoded = wire::encode(&stored.block(Height(7)).unwrap());
        let mut joined = Vec::new();
        let request = |offset| Request::Executed { from: Height(7), through: Height(7), offset };
        while let Some(part) = serve_blocks(request(joined.len() as u64), &stored).part {
            assert_eq!((part.length, part.offset), (encoded.len() as u64, joined.len() as u64));
            assert!(part.bytes.len() == PART_BYTES || joined.len() + part.bytes.len() == encoded.len());
            joined.extend_from_slice(&part.bytes);
        }
        assert!(joined == encoded);
    }
}
