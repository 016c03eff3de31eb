//! What nodes say to each other besides the engine's own messages: certificates, transactions, and the stream of blocks that
//! full nodes and lagging validators follow.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_certify::Share;
use corniche_types::{Block, Bytes, Certificate, Height, Resume, wire};

/// Most bytes of blocks in one [`Response`], unless a single block is larger.
pub const RESPONSE_BYTES: usize = 4 << 20;
/// Most blocks in one [`Response`].
pub const RESPONSE_BLOCKS: usize = 512;
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
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Request {
    /// Certified blocks from this height on.
    Blocks { from: Height },
}

/// Consecutive blocks from the requested height, the last of which the certificate is for; none when the responder has no
/// certificate at or above that height.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Response {
    pub blocks: Vec<FollowedBlock>,
    pub certificate: Option<Certificate>,
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

    /// Whether this is an encoding of [`Self::Transactions`], if it is one of anything: they are checked apart from the rest.
    pub fn carries_transactions(bytes: &[u8]) -> bool {
        const TRANSACTIONS: u8 = 3;
        bytes.starts_with(&[wire::VERSION, TRANSACTIONS])
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

/// Collects the answer to [`Request::Blocks`] from a reader of stored blocks: as many as fit, cut after the last one that has
/// a certificate.
pub fn answer_blocks(
    from: Height,
    block: impl Fn(Height) -> Option<FollowedBlock>,
    certificate: impl Fn(Height) -> Option<Certificate>,
) -> Response {
    let mut response = Response::default();
    let mut certified = 0;
    let mut bytes = 0;
    let mut height = from;
    while response.blocks.len() < RESPONSE_BLOCKS && (bytes < RESPONSE_BYTES || certified == 0) {
        let Some(followed) = block(height) else { break };
        bytes += followed.block.ordered.iter().map(|transaction| transaction.raw.len() + 64).sum::<usize>() + 1024;
        response.blocks.push(followed);
        if let Some(found) = certificate(height) {
            response.certificate = Some(found);
            certified = response.blocks.len();
        }
        height = height.next();
    }
    response.blocks.truncate(certified);
    response
}
