//! Blocks: Ethereum's header, the ordering record and the ordered transactions.

use crate::{Height, OrderingRecord, ValidatorIndex, wire};
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::Decodable;
use borsh::{BorshDeserialize, BorshSerialize};

/// One ordered transaction as it came out of a batch, valid or not.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct OrderedTransaction {
    /// Author of the batch: the tip goes to this validator's fee address.
    pub author: ValidatorIndex,
    /// Its bytes as they stood in the batch.
    pub raw: Bytes,
}

/// All that a full node needs to re-execute a block, and all that is stored of it besides results.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Block {
    /// Ethereum's, as London has it; what is hashed and certified.
    #[borsh(serialize_with = "serialize_header", deserialize_with = "deserialize_header")]
    pub header: Header,
    /// How it came to be; its hash is the header's `extraData`.
    pub ordering: OrderingRecord,
    /// Every ordered transaction, skipped ones included, in order.
    pub ordered: Vec<OrderedTransaction>,
}

impl Block {
    /// The number in the header.
    pub fn height(&self) -> Height {
        Height(self.header.number)
    }

    /// [`header_hash`] of the header.
    pub fn hash(&self) -> B256 {
        header_hash(&self.header)
    }

    /// The hash that [`OrderingRecord::transactions_hash`] must equal.
    pub fn transactions_hash(ordered: &[OrderedTransaction]) -> B256 {
        let hashes: Vec<u8> = ordered.iter().flat_map(|transaction| keccak256(&transaction.raw).0).collect();
        keccak256(hashes)
    }

    /// The raw bytes of the transactions that were executed, in order: the ones under the transactions root.
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

    /// Our own encoding ([`wire`]), with the header in RLP.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// The reverse. That header, ordering record and transactions belong together is not checked.
    pub fn decode(bytes: &[u8]) -> Result<Self, wire::WireError> {
        wire::decode(bytes)
    }
}

/// keccak-256 of the header's RLP: the block hash.
pub fn header_hash(header: &Header) -> B256 {
    header.hash_slow()
}

/// A header by itself in our own encoding: RLP behind its length.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct EncodedHeader(#[borsh(serialize_with = "serialize_header", deserialize_with = "deserialize_header")] pub Header);

fn serialize_header<W: borsh::io::Write>(header: &Header, writer: &mut W) -> borsh::io::Result<()> {
    alloy_rlp::encode(header).serialize(writer)
}

fn deserialize_header<R: borsh::io::Read>(reader: &mut R) -> borsh::io::Result<Header> {
    let rlp = Vec::<u8>::deserialize_reader(reader)?;
    let mut rest = rlp.as_slice();
    let invalid = |text: String| borsh::io::Error::new(borsh::io::ErrorKind::InvalidData, text);
    let header = Header::decode(&mut rest).map_err(|error| invalid(format!("header: {error}")))?;
    if !rest.is_empty() {
        return Err(invalid("bytes after the header".into()));
    }
    Ok(header)
}
