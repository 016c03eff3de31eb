//! Blocks and the few messages that repair what the network lost.
//!
//! The block is the only consensus message: proposing, voting, certifying and the coin all ride on it. The others
//! (`Hello`, `Welcome`, `Fetch`, `Found`, `Coins`) never carry a decision.

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
/// Blocks of rounds above this are refused, so that arithmetic on them is exact.
pub const MAX_ROUND: Round = Round(1 << 48);

/// A round of the DAG; 0 holds the genesis blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Round(pub u64);

/// Stops at the last number: questions of peers may name any round.
impl Add<u64> for Round {
    type Output = Self;
    fn add(self, rounds: u64) -> Self {
        Self(self.0.saturating_add(rounds))
    }
}

/// Stops at round 0.
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

/// Names a block. Ordered by round, author, digest: the order of delivery within a commit (D8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct BlockRef {
    pub round: Round,
    pub author: ValidatorIndex,
    pub digest: B256,
}

/// The least reference of a round, for ranges.
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

/// What an author signs.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Content {
    pub author: ValidatorIndex,
    pub round: Round,
    pub timestamp: TimestampMs,
    /// In the order that fixes this block's votes (F1); the first is the author's own previous block (V5).
    pub parents: Vec<BlockRef>,
    /// The author's share of this round's coin. Its validity is not part of the block's: see `coin`.
    pub coin_share: CoinShare,
    /// Opaque to the engine; empty when the author had nothing to say.
    pub batch: Bytes,
}

/// A block as it travels and as it is recorded.
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
    /// Worked out here and not where the block is traced: blocks are checked on any thread, traced on the engine's.
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

    /// Bytes of memory, about.
    pub(crate) fn weight(&self) -> usize {
        // A place in tables and a record take about as much as a small block.
        self.content().batch.len() + self.parents().len() * 42 + 1_024
    }

    pub fn signed(&self) -> &SignedBlock {
        &self.signed
    }

    /// This block as a trace shows it.
    pub fn vertex(&self) -> Vertex {
        let parents = self.parents().iter().copied().map(VertexId::from).collect();
        // V7 bounds batches far below.
        let batch_bytes = u32::try_from(self.content().batch.len()).unwrap_or(u32::MAX);
        Vertex { id: self.reference.into(), parents, batch_bytes, batch_digest: self.batch_digest }
    }

    /// The record of this block, which is also the evidence for anything its author is accused of.
    pub fn encode(&self) -> Bytes {
        wire::encode(&self.signed).into()
    }
}

/// Digests and coins of one committee of one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(Scope);

impl Context {
    pub fn new(committee: &Committee) -> Self {
        Self(Scope::new(committee))
    }

    /// A block's identity: the hash of exactly what is signed, so that a second signature on the same content is the
    /// same block and no "equivocation".
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

/// Everything validators send each other.
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
    /// First bytes of an encoding, after the version.
    pub(crate) const BLOCK: u8 = 0;
    pub(crate) const WELCOME: u8 = 2;
}

/// "Here I am": asks the receiver for its later blocks, and for what it remembers of mine.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Hello {
    /// Ties the answer to this start of the sender.
    pub nonce: u64,
    /// The highest round of the receiver's blocks that the sender holds: push the later ones.
    pub after: Round,
    /// The highest round of its own blocks that the sender knows: tell it of a higher one.
    pub own: Round,
    /// Coins that the sender cannot open from blocks: send help.
    pub coins: Vec<Round>,
}

/// The answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Welcome {
    pub nonce: u64,
    /// The asker's highest block, when it is above what the asker knew. A signed block rather than a number, so that a
    /// liar cannot push the asker beyond rounds it never signed.
    pub latest: Option<SignedBlock>,
    /// K2: a block of a round that the sender has reached, which the asker can get from it; its own highest one as a rule.
    /// None when the sender does not know itself how far it got.
    pub named: Option<BlockRef>,
}

/// Asks for blocks by name.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Fetch {
    pub wanted: Vec<BlockRef>,
    /// Send what these stand on too, down to above this round, as far as it fits.
    pub above: Round,
}

/// The answer to [`Fetch`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Found {
    /// In ascending rounds.
    pub blocks: Vec<SignedBlock>,
    /// Asked for, but unknown here or pruned: ask somebody else.
    pub missing: Vec<BlockRef>,
}

/// Help with coins that cannot be opened from blocks alone.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CoinHelp {
    /// Coins that are open at the sender.
    pub values: Vec<(Round, CoinValue)>,
    /// The sender's own shares of coins that are not.
    pub shares: Vec<(Round, CoinShare)>,
}

impl Message {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}
