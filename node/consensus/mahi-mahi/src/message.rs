//! Blocks, and the few messages that repair losses of the network.
//!
//! The block is the only consensus message: it proposes, votes, certifies and carries coin shares. The others (`Hello`,
//! `Welcome`, `Fetch`, `Found`, `Coins`) never carry a decision.

use crate::keys::{CoinShare, CoinShares, CoinValue, Signature, Signer};
use borsh::{
    BorshDeserialize, BorshSerialize,
    io::{self, Read, Write},
};
use corniche_engine::{Committee, Scope, Unsigned, Vertex, VertexId, batch_digest};
use corniche_types::evidence::{Contradiction, Heading, tags};
use corniche_types::{B256, Bytes, MAX_VOTES, TimestampMs, ValidatorIndex, wire};
use std::{
    fmt,
    ops::{Add, Sub},
};

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

/// The signed part of a block. Encoded like a struct with one share before the batch. The length of the batch has
/// [`BATCH_LENGTH_BITS`] bits, and the bits above it are the number of further shares, which follow the batch. So the block of a
/// validator with one vote has the encoding of the first version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub author: ValidatorIndex,
    pub round: Round,
    pub timestamp: TimestampMs,
    /// The order fixes this block's votes (F1); the first is the author's own previous block (V5).
    pub parents: Vec<BlockRef>,
    /// The author's shares of this round's coin, one per vote. Block validity depends on their number only: see `coin`.
    pub coin_shares: CoinShares,
    /// Opaque to the engine; empty if the author had no transactions.
    pub batch: Bytes,
}

/// Holds the length of the largest batch, 16 MiB. The six bits above it hold the number of further shares.
const BATCH_LENGTH_BITS: u32 = 26;
const _: () = assert!(MAX_VOTES.0 - 1 < 1 << (u32::BITS - BATCH_LENGTH_BITS));
/// Bytes reserved before they are read.
const MAX_RESERVED: u32 = 1 << 20;

impl BorshSerialize for Content {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        let Some((first, further)) = self.coin_shares.split_first() else { return Err(invalid("a block without coin shares")) };
        let sizes = (u32::try_from(self.batch.len()).ok(), u32::try_from(further.len()).ok());
        let (Some(length), Some(count)) = sizes else { return Err(invalid("a block too large to encode")) };
        if length >> BATCH_LENGTH_BITS != 0 || count >> (u32::BITS - BATCH_LENGTH_BITS) != 0 {
            return Err(invalid("a block too large to encode"));
        }
        (self.author, self.round, self.timestamp, &self.parents, first).serialize(writer)?;
        (length | count << BATCH_LENGTH_BITS).serialize(writer)?;
        writer.write_all(&self.batch)?;
        further.iter().try_for_each(|share| share.serialize(writer))
    }
}

impl BorshDeserialize for Content {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let (author, round, timestamp, parents, first) = BorshDeserialize::deserialize_reader(reader)?;
        let lengths = u32::deserialize_reader(reader)?;
        let (length, count) = (lengths & ((1 << BATCH_LENGTH_BITS) - 1), lengths >> BATCH_LENGTH_BITS);
        // Reserves a bounded part only: the length is a stranger's claim.
        let mut batch = Vec::with_capacity(length.min(MAX_RESERVED) as usize);
        reader.by_ref().take(length.into()).read_to_end(&mut batch)?;
        if batch.len() as u64 != u64::from(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut coin_shares = vec![first];
        for _ in 0..count {
            coin_shares.push(BorshDeserialize::deserialize_reader(reader)?);
        }
        Ok(Self { author, round, timestamp, parents, coin_shares, batch: batch.into() })
    }
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
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
    /// Only for blocks that this node signed, recorded or verifies.
    pub(crate) fn trusted(signed: SignedBlock, context: &Context) -> Self {
        let Content { round, author, ref batch, .. } = signed.content;
        let batch_hash = batch_digest(batch);
        let digest = context.digest_with(&signed.content, batch_hash);
        let batch_digest = (!batch.is_empty()).then_some(batch_hash);
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
        self.variable_bytes() + 1_024
    }

    /// Encoded bytes of its batch, parents and coin shares. Everything else is below 256 bytes.
    pub(crate) fn variable_bytes(&self) -> usize {
        let Content { batch, parents, coin_shares, .. } = self.content();
        batch.len() + parents.len() * 42 + coin_shares.len().saturating_sub(1) * 48
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
pub struct Context {
    scope: Scope,
    signs_headings: bool,
}

impl Context {
    pub fn new(committee: &Committee) -> Self {
        Self { scope: Scope::new(committee), signs_headings: committee.rules().signs_headings }
    }

    /// A block's identity: the hash of exactly what is signed, the content or its heading. So a second signature on the
    /// same content does not make an equivocation.
    pub fn digest(&self, content: &Content) -> B256 {
        self.digest_with(content, batch_digest(&content.batch))
    }

    /// Like [`Self::digest`], with the hash of the batch.
    fn digest_with(&self, content: &Content, batch: B256) -> B256 {
        if !self.signs_headings {
            return self.scope.digest(tags::BLOCK, content);
        }
        self.scope.digest(tags::BLOCK, &heading(content, batch))
    }

    /// Signs a block.
    ///
    /// # Errors
    ///
    /// The signer gives no signature.
    pub fn sign(&self, content: &Content, signer: &dyn Signer) -> Result<Signature, Unsigned> {
        let batch = batch_digest(&content.batch);
        signer.sign(&heading(content, batch), &self.digest_with(content, batch))
    }

    /// Two blocks of one author and round, as a contradiction. `None` on chains whose blocks have no headings, and for other blocks.
    pub(crate) fn contradiction(&self, one: &Block, other: &Block) -> Option<Contradiction> {
        let signed = |block: &Block| {
            let SignedBlock { content, signature } = &block.signed;
            (heading(content, batch_digest(&content.batch)), *signature)
        };
        self.signs_headings.then(|| Contradiction::of_blocks(signed(one), signed(other))).flatten()
    }

    /// The message whose threshold signature is the coin of `round` (C1).
    pub fn coin_message(&self, round: Round) -> Vec<u8> {
        self.scope.encode(COIN_TAG, &round)
    }

    /// The genesis block of `author`: unsigned, empty, known to all, never delivered.
    pub fn genesis(&self, author: ValidatorIndex) -> BlockRef {
        BlockRef { round: Round(0), author, digest: self.scope.digest("corniche-mahi-mahi-genesis", &author) }
    }
}

/// Signed part of a block from protocol version 5 on, in place of the content (validators.md §6.2).
fn heading(content: &Content, batch: B256) -> Heading {
    let &Content { author, round, timestamp, ref parents, ref coin_shares, .. } = content;
    Heading { author, round: round.0, timestamp, parents: hash_of(parents), coin_shares: hash_of(coin_shares), batch }
}

fn hash_of<T: BorshSerialize>(value: &T) -> B256 {
    B256::from(*blake3::hash(&wire::encode(value)).as_bytes())
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
    /// The sender's own shares of coins that are closed; those of one round follow each other.
    shares: Vec<(Round, CoinShare)>,
}

impl CoinHelp {
    pub fn new(values: Vec<(Round, CoinValue)>, shares: Vec<(Round, CoinShares)>) -> Self {
        let of_round = |(round, shares): (Round, CoinShares)| shares.into_iter().map(move |share| (round, share));
        Self { values, shares: shares.into_iter().flat_map(of_round).collect() }
    }

    /// Number of values and shares to make and to check.
    pub fn checks(&self) -> usize {
        self.values.len() + self.shares.len()
    }

    /// The sender's shares by round.
    pub fn shares(&self) -> impl Iterator<Item = (Round, CoinShares)> {
        let of_one_round = self.shares.chunk_by(|(round, _), (next, _)| round == next);
        of_one_round.map(|shares| (shares[0].0, shares.iter().map(|(_, share)| *share).collect()))
    }
}

impl Message {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}
