//! Blocks, and the few messages that repair losses of the network.
//!
//! The block is the only consensus message: it proposes, votes, certifies and carries coin shares. The others (`Hello`,
//! `Welcome`, `Fetch`, `Found`, `Coins`) never carry a decision.

use crate::keys::{CoinShare, CoinValue, Signature};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Scope, Vertex, VertexId, batch_digest};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    fmt,
    ops::{Add, Sub},
};

/// Domain tag of a block's digest.
pub const BLOCK_TAG: &str = "corniche-mahi-mahi-block";
/// Domain tag of a round's coin.
pub const COIN_TAG: &str = "corniche-mahi-mahi-coin";
/// Blocks of higher rounds are rejected, so that arithmetic on rounds cannot overflow.
pub const MAX_ROUND: Round = Round(1 << 48);
/// Highest timestamp of a block; thousands of years ahead.
pub const MAX_TIMESTAMP: TimestampMs = TimestampMs(1 << 48);

/// A round of the DAG; 0 holds the genesis blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Round(pub u64);

/// Saturates: requests of peers may name any round.
impl Add<u64> for Round {
    type Output = Self;
    fn add(self, rounds: u64) -> Self {
        Self(self.0.saturating_add(rounds))
    }
}

/// Saturates at round 0.
impl Sub<u64> for Round {
    type Output = Self;
    fn sub(self, rounds: u64) -> Self {
        Self(self.0.saturating_sub(rounds))
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a block. Ordered by round, author, digest: the order of delivery within a commit (D8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct BlockRef {
    pub round: Round,
    pub author: ValidatorIndex,
    pub digest: B256,
}

/// Smallest reference of a round, for ranges.
pub(crate) fn first_of(round: Round) -> BlockRef {
    BlockRef { round, author: ValidatorIndex(0), digest: B256::ZERO }
}

impl fmt::Debug for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "B(v{},{})#{:02x}{:02x}", self.author, self.round, self.digest[0], self.digest[1])
    }
}

impl From<BlockRef> for VertexId {
    fn from(block: BlockRef) -> Self {
        Self { round: block.round.0, author: block.author, digest: block.digest }
    }
}

/// The signed part of a block.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Content {
    pub author: ValidatorIndex,
    pub round: Round,
    pub timestamp: TimestampMs,
    /// The order fixes this block's votes (F1); the first is the author's own previous block (V5).
    pub parents: Vec<BlockRef>,
    /// The author's share of this round's coin. Block validity does not depend on it: see `coin`.
    pub coin_share: CoinShare,
    /// Opaque to the engine; empty if the author had no transactions.
    pub batch: Bytes,
}

/// A block as it is sent and recorded.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignedBlock {
    pub content: Content,
    pub signature: Signature,
}

/// A block whose own bytes were checked (V1–V5, V7). Its history may still be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    signed: SignedBlock,
    reference: BlockRef,
    /// Computed here and not when the block is traced: blocks are checked on any thread, but traced on the engine's.
    batch_digest: Option<B256>,
}

impl Block {
    /// Only for blocks that this node signed, recorded or verified.
    pub(crate) fn trusted(signed: SignedBlock, context: &Context) -> Self {
        let Content { round, author, ref batch, .. } = signed.content;
        let digest = context.digest(&signed.content);
        let batch_digest = (!batch.is_empty()).then(|| batch_digest(batch));
        Self { signed, reference: BlockRef { round, author, digest }, batch_digest }
    }

    pub fn reference(&self) -> BlockRef {
        self.reference
    }

    pub fn round(&self) -> Round {
        self.reference.round
    }

    pub fn author(&self) -> ValidatorIndex {
        self.reference.author
    }

    pub fn parents(&self) -> &[BlockRef] {
        &self.signed.content.parents
    }

    pub fn content(&self) -> &Content {
        &self.signed.content
    }

    /// Approximate bytes of memory.
    pub(crate) fn weight(&self) -> usize {
        // The entries in tables and a record take about as much as a small block.
        self.content().batch.len() + self.parents().len() * 42 + 1_024
    }

    pub fn signed(&self) -> &SignedBlock {
        &self.signed
    }

    /// This block as shown in a trace.
    pub fn vertex(&self) -> Vertex {
        let parents = self.parents().iter().copied().map(VertexId::from).collect();
        // V7 keeps batches far below this limit.
        let batch_bytes = u32::try_from(self.content().batch.len()).unwrap_or(u32::MAX);
        Vertex { id: self.reference.into(), parents, batch_bytes, batch_digest: self.batch_digest }
    }

    /// Encodes the record of this block. The record is also the evidence for accusations of its author.
    pub fn encode(&self) -> Bytes {
        wire::encode(&self.signed).into()
    }
}

/// Computes digests and coin messages of one committee of one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(Scope);

impl Context {
    pub fn new(committee: &Committee) -> Self {
        Self(Scope::new(committee))
    }

    /// A block's identity: the hash of exactly the signed content. So a second signature on the same content does not
    /// make an equivocation.
    pub fn digest(&self, content: &Content) -> B256 {
        self.0.digest(BLOCK_TAG, content)
    }

    /// The message whose threshold signature is the coin of `round` (C1).
    pub fn coin_message(&self, round: Round) -> Vec<u8> {
        self.0.encode(COIN_TAG, &round)
    }

    /// The genesis block of `author`: unsigned, empty, known to all, never delivered.
    pub fn genesis(&self, author: ValidatorIndex) -> BlockRef {
        BlockRef { round: Round(0), author, digest: self.0.digest("corniche-mahi-mahi-genesis", &author) }
    }
}

/// All messages between validators.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// A new block, from its author.
    Block(SignedBlock),
    Hello(Hello),
    Welcome(Welcome),
    Fetch(Fetch),
    Found(Found),
    Coins(CoinHelp),
}

impl Message {
    /// First byte of an encoding after the version, by kind.
    pub(crate) const BLOCK: u8 = 0;
    pub(crate) const WELCOME: u8 = 2;
    pub(crate) const FOUND: u8 = 4;
}

/// Greeting: asks the receiver for its later blocks, and for the sender's own blocks that it remembers.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Hello {
    /// Ties the response to this start of the sender.
    pub nonce: u64,
    /// Highest round of the receiver's blocks that the sender holds. The receiver pushes later ones.
    pub after: Round,
    /// Highest round of its own blocks that the sender knows. The receiver reports a higher one.
    pub own: Round,
    /// Coins that the sender cannot open from blocks. The receiver sends shares or values.
    pub coins: Vec<Round>,
}

/// Response to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Welcome {
    pub nonce: u64,
    /// The highest block of the greeting peer, if it is above `Hello::own`. A signed block rather than a number, so
    /// that a liar cannot push the peer beyond rounds it never signed.
    pub latest: Option<SignedBlock>,
    /// K2: a block of a round that the sender has reached and that the greeting peer can fetch from it; usually the
    /// sender's own highest one. `None` if the sender does not know how far it got itself.
    pub named: Option<BlockRef>,
}

/// Requests blocks by reference.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Fetch {
    pub wanted: Vec<BlockRef>,
    /// Also send their history above this round, as far as it fits.
    pub above: Round,
}

/// Response to [`Fetch`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Found {
    /// In ascending order of rounds.
    pub blocks: Vec<SignedBlock>,
    /// Requested, but unknown here or pruned; another peer may have them.
    pub missing: Vec<BlockRef>,
}

/// Help with coins that cannot be opened from blocks alone.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CoinHelp {
    /// Coins that are open at the sender.
    pub values: Vec<(Round, CoinValue)>,
    /// The sender's own shares of coins that are closed.
    pub shares: Vec<(Round, CoinShare)>,
}

impl Message {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}
