//! What nodes say to each other besides the engine's own messages: certificates, transactions, and the stream of blocks that
//! full nodes and lagging validators follow.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_certify::Share;
use corniche_types::{Block, Bytes, Certificate, EncodedHeader, Header, Height, Resume, wire};

/// Most bytes of blocks in one [`Response`]. A larger block goes in parts.
pub const RESPONSE_BYTES: usize = 4 << 20;
/// Bytes of one [`Part`]. Less than a response, so that slow links bring one in time.
pub const PART_BYTES: usize = 1 << 20;
/// Most blocks in one [`Response`].
pub const RESPONSE_BLOCKS: usize = 512;
/// Most headers in one [`Response`]: 600 bytes each. Certificates are closer to each other than that.
pub const RESPONSE_HEADERS: usize = 1_024;
/// Most transactions in one [`PeerMessage::Transactions`].
pub const FORWARDED_TRANSACTIONS: usize = 256;

/// Most bytes of transactions in one [`PeerMessage::Transactions`], unless a single one is larger.
pub const FORWARDED_BYTES: usize = 512 << 10;

/// One-way messages.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum PeerMessage {
    /// Opaque to everyone but the engine and its verifier. Validators only.
    Engine(Bytes),
    /// A validator's signature over a header. Validators only.
    CertificateShare(Bytes),
    /// The newest certificate the sender knows.
    Certificate(Certificate),
    /// Raw transactions for the receiver's pool.
    Transactions(Vec<Bytes>),
}

/// Questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Request {
    /// Certified blocks from this height on. Of a block that goes in parts, the one that begins at `offset`.
    Blocks { from: Height, offset: u64 },
    /// Executed blocks from one height through another, certified or not. The requester knows the last one's hash. Validators only:
    /// nobody else follows blocks without a certificate.
    Executed { from: Height, through: Height, offset: u64 },
}

/// Consecutive blocks from the requested height, and why to believe them: the headers from the last block up to one that the
/// certificate is for, or up to the last one requested ([`Request::Executed`]), without a certificate. A part of one block instead
/// where that is larger than [`RESPONSE_BYTES`]. Nothing when the responder lacks the blocks, or a certificate at or above the
/// requested height.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Response {
    pub blocks: Vec<FollowedBlock>,
    /// Without those in `blocks`.
    pub headers: Vec<EncodedHeader>,
    pub certificate: Option<Certificate>,
    /// The first part comes with its block's header and certificate, the others alone.
    pub part: Option<Part>,
}

impl Response {
    /// Height of the first block or header; `None` for a part that is not a block's first, and where there is nothing.
    pub fn first(&self) -> Option<Height> {
        let block = self.blocks.first().map(|followed| followed.block.height());
        block.or_else(|| self.headers.first().map(|header| Height(header.0.number)))
    }
}

/// Part of a block.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Part {
    /// Bytes of the whole [`FollowedBlock`], encoded.
    pub length: u64,
    /// Place of the first byte.
    pub offset: u64,
    /// [`PART_BYTES`], or less at the end.
    pub bytes: Bytes,
}

/// A block as followers get it: everything that is needed to execute it and, for a validator, to resume ordering after it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct FollowedBlock {
    pub block: Block,
    pub resume: Resume,
}

impl PeerMessage {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }

    /// Whether this is an encoding of [`Self::Certificate`], if it is one of anything.
    pub fn carries_certificate(bytes: &[u8]) -> bool {
        const CERTIFICATE: u8 = 2;
        bytes.starts_with(&[wire::VERSION, CERTIFICATE])
    }

    /// Whether this is an encoding of [`Self::Transactions`], if it is one of anything: they are checked apart from the rest.
    pub fn carries_transactions(bytes: &[u8]) -> bool {
        const TRANSACTIONS: u8 = 3;
        bytes.starts_with(&[wire::VERSION, TRANSACTIONS])
    }

    /// The engine's message in an encoding of [`Self::Engine`], without decoding it.
    pub fn engine_bytes(bytes: &[u8]) -> Option<&[u8]> {
        /// A version, a tag and a length.
        const BEFORE: usize = 6;
        const ENGINE: u8 = 0;
        bytes.get(BEFORE..).filter(|_| bytes.starts_with(&[wire::VERSION, ENGINE]))
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, wire::WireError> {
        let message = wire::decode(bytes)?;
        match &message {
            Self::Transactions(raw) if raw.len() > FORWARDED_TRANSACTIONS => {
                Err(wire::WireError::Malformed(format!("{} transactions in one message", raw.len())))
            }
            // Refused where its sender pays for it.
            Self::CertificateShare(bytes) => Share::decode(bytes).map(|_| message),
            _ => Ok(message),
        }
    }
}

impl Part {
    /// The part of an encoded block that begins at `offset`.
    fn of(encoded: &[u8], offset: u64) -> Option<Self> {
        let start = usize::try_from(offset).ok().filter(|start| *start < encoded.len())?;
        let end = encoded.len().min(start.saturating_add(PART_BYTES));
        let bytes = Bytes::copy_from_slice(&encoded[start..end]);
        Some(Self { length: encoded.len() as u64, offset, bytes })
    }
}

/// Stored blocks, as [`answer_blocks`] reads them.
pub trait BlockSource {
    fn block(&self, height: Height) -> Option<FollowedBlock>;
    fn header(&self, height: Height) -> Option<Header>;
    /// The lowest certificate that is not below this height.
    fn certificate_from(&self, height: Height) -> Option<Certificate>;
}

/// Answers a request from what is stored.
pub fn answer(request: Request, stored: &impl BlockSource) -> Response {
    match request {
        Request::Blocks { from, offset: 0 } => answer_blocks(from, stored),
        Request::Executed { from, through, offset: 0 } => answer_executed(from, through, stored),
        Request::Blocks { from, offset } | Request::Executed { from, offset, .. } => {
            let part = stored.block(from).and_then(|block| Part::of(&wire::encode(&block), offset));
            Response { part, ..Response::default() }
        }
    }
}

/// Collects the answer to [`Request::Blocks`]: as many blocks as fit, to the last one that has a certificate of its own if there
/// is one, so that headers are needed only where blocks are large.
fn answer_blocks(from: Height, stored: &impl BlockSource) -> Response {
    let Some(mut certificate) = stored.certificate_from(from) else { return Response::default() };
    let (mut blocks, mut bytes, mut certified) = (Vec::new(), 0, None);
    while blocks.len() < RESPONSE_BLOCKS {
        let height = Height(from.0 + blocks.len() as u64);
        if certificate.height < height {
            let Some(next) = stored.certificate_from(height) else { break };
            certificate = next;
        }
        let Some(block) = stored.block(height) else { break };
        bytes += borsh::object_length(&block).expect("counting cannot fail");
        if bytes > RESPONSE_BYTES {
            if blocks.is_empty() {
                return first_part(&block, certificate.height, Some(certificate), stored);
            }
            break;
        }
        blocks.push(block);
        if certificate.height == height {
            certified = Some((blocks.len(), certificate.clone()));
        }
    }
    match certified {
        Some((count, certificate)) => {
            blocks.truncate(count);
            Response { blocks, certificate: Some(certificate), ..Response::default() }
        }
        None => {
            let next = Height(from.0 + blocks.len() as u64);
            let Some(headers) = headers(next, certificate.height, stored) else { return Response::default() };
            Response { blocks, headers, certificate: Some(certificate), part: None }
        }
    }
}

/// Collects the answer to [`Request::Executed`]: as many blocks as fit, and headers for the rest.
fn answer_executed(from: Height, through: Height, stored: &impl BlockSource) -> Response {
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    while blocks.len() < RESPONSE_BLOCKS && from.0 + blocks.len() as u64 <= through.0 {
        let Some(block) = stored.block(Height(from.0 + blocks.len() as u64)) else { return Response::default() };
        bytes += borsh::object_length(&block).expect("counting cannot fail");
        if bytes > RESPONSE_BYTES {
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
    let part = Part::of(&wire::encode(block), 0);
    match headers(block.block.height(), through, stored) {
        Some(headers) => Response { blocks: Vec::new(), headers, certificate, part },
        None => Response::default(),
    }
}

/// `None` if there are too many.
fn headers(from: Height, through: Height, stored: &impl BlockSource) -> Option<Vec<EncodedHeader>> {
    let count = (through.0 + 1).saturating_sub(from.0);
    let heights = (count <= RESPONSE_HEADERS as u64).then_some(from.0..=through.0)?;
    heights.map(|height| stored.header(Height(height)).map(EncodedHeader)).collect()
}
