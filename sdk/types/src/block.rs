//! Blocks: Ethereum's header, the ordering record and the ordered transactions.

use crate::{Height, OrderingRecord, ValidatorIndex, wire};
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::Decodable;
use borsh::{BorshDeserialize, BorshSerialize};

/// One ordered transaction from a batch, valid or not.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct OrderedTransaction {
    /// Author of the batch: the tip goes to this validator's fee address.
    pub author: ValidatorIndex,
    /// The transaction's bytes in the batch.
    pub raw: Bytes,
}

/// Everything that a full node needs to re-execute a block, and that is stored of it apart from results.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Block {
    /// Ethereum's header as of London; it is hashed and certified.
    #[borsh(serialize_with = "serialize_header", deserialize_with = "deserialize_header")]
    pub header: Header,
    /// Record of the block's ordering; its hash is the header's `extraData`.
    pub ordering: OrderingRecord,
    /// Every ordered transaction, including skipped ones, in order.
    pub ordered: Vec<OrderedTransaction>,
}

impl Block {
    /// Returns the number in the header.
    pub fn height(&self) -> Height {
        Height(self.header.number)
    }

    /// Returns the [`header_hash`] of the header.
    pub fn hash(&self) -> B256 {
        header_hash(&self.header)
    }

    /// Returns the hash that [`OrderingRecord::transactions_hash`] must equal.
    pub fn transactions_hash(ordered: &[OrderedTransaction]) -> B256 {
        let hashes: Vec<u8> = ordered.iter().flat_map(|transaction| keccak256(&transaction.raw).0).collect();
        keccak256(hashes)
    }

    /// Returns the executed transactions in order: those of the transactions root.
    pub fn executed(&self) -> impl Iterator<Item = &OrderedTransaction> {
        let mut skipped = self.ordering.skipped.iter().map(|skipped| skipped.position).peekable();
        self.ordered.iter().enumerate().filter_map(move |(position, transaction)| {
            if skipped.peek().is_some_and(|&next| next as usize == position) {
                skipped.next();
                return None;
            }
            Some(transaction)
        })
    }

    /// Encodes the block in the chain's own encoding ([`wire`]), with the header in RLP.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// Decodes a block. Does not check that header, ordering record and transactions match.
    pub fn decode(bytes: &[u8]) -> Result<Self, wire::WireError> {
        wire::decode(bytes)
    }
}

/// Returns the block hash: keccak-256 of the header's RLP.
pub fn header_hash(header: &Header) -> B256 {
    header.hash_slow()
}

/// A header in the chain's own encoding: its length, then RLP.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct EncodedHeader(#[borsh(serialize_with = "serialize_header", deserialize_with = "deserialize_header")] pub Header);

/// RLP of a header, whose keccak-256 is its hash.
pub fn encode_header(header: &Header) -> Vec<u8> {
    alloy_rlp::encode(header)
}

/// Decodes a header. `None` for anything else, also with bytes after it.
pub fn decode_header(rlp: &[u8]) -> Option<Header> {
    let mut rest = rlp;
    let header = Header::decode(&mut rest).ok()?;
    rest.is_empty().then_some(header)
}

pub(crate) fn serialize_header<W: borsh::io::Write>(header: &Header, writer: &mut W) -> borsh::io::Result<()> {
    alloy_rlp::encode(header).serialize(writer)
}

pub(crate) fn deserialize_header<R: borsh::io::Read>(reader: &mut R) -> borsh::io::Result<Header> {
    let rlp = Vec::<u8>::deserialize_reader(reader)?;
    let mut rest = rlp.as_slice();
    let invalid = |text: String| borsh::io::Error::new(borsh::io::ErrorKind::InvalidData, text);
    let header = Header::decode(&mut rest).map_err(|error| invalid(format!("header: {error}")))?;
    if !rest.is_empty() {
        return Err(invalid("bytes after the header".into()));
    }
    Ok(header)
}
