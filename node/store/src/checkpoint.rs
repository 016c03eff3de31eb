//! Checkpoint and indices as keys and values.
//!
//! | key | value |
//! |---|---|
//! | `m` | [`Meta`]: height and hash of the checkpoint |
//! | `a` address | account |
//! | `s` address slot | 32 bytes, never zero |
//! | `c` code hash | code |
//! | `b` height | position of the block's record |
//! | `h` block hash | height |
//! | `t` transaction hash | height, index among the receipts |
//! | `f` height | position of the record of its certificate |
//!
//! Old states are stored beside them; see `history`.
//!
//! One batch moves all of them from one height to another, including `m`. Heights are big-endian, so that
//! keys sort by height.

use crate::Identity;
use crate::block::{Recent, StoredBlock};
use crate::kv::{Batch, Kv, KvError};
use crate::log::Position;
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_state::{Account, Changes};
use corniche_types::{Address, B256, Bytes, Height, keccak256, wire};

const ADDRESS_BYTES: usize = 20;
/// Bytes of a batch of a whole state.
const STATE_BATCH_BYTES: usize = 16 << 20;
const META: &[u8] = b"m";
const ACCOUNT: u8 = b'a';
const STORAGE: u8 = b's';
const CODE: u8 = b'c';
const BLOCK: u8 = b'b';
const HASH: u8 = b'h';
const TRANSACTION: u8 = b't';
const CERTIFICATE: u8 = b'f';

/// Identity and height of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) struct Meta {
    pub chain_id: u64,
    pub genesis_hash: B256,
    pub height: Height,
    pub hash: B256,
    /// Position in the block log after that block.
    pub end: Position,
    /// Highest height in the index of certificates.
    pub certified: Option<Height>,
}

/// Certificate to be added to the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CertificateAt {
    pub height: Height,
    pub at: Position,
}

/// Batch that creates the checkpoint at height 0.
pub(crate) fn genesis_batch(identity: Identity, hash: B256, changes: &Changes) -> Batch {
    let mut batch = Batch::new();
    put_state(&mut batch, changes);
    put_hash(&mut batch, hash, Height(0));
    let Identity { chain_id, genesis_hash } = identity;
    let end = Position::default();
    put_meta(&mut batch, &Meta { chain_id, genesis_hash, height: Height(0), hash, end, certified: None });
    batch
}

/// Batch that moves the checkpoint over `blocks`, its successors in order. `certified` is the highest height
/// in the index so far. `None` if there are no blocks.
pub(crate) fn batch(
    identity: Identity,
    blocks: &[Recent],
    certificates: &[CertificateAt],
    mut certified: Option<Height>,
) -> Option<(Batch, Meta)> {
    let last = blocks.last()?;
    let mut batch = Batch::new();
    for recent in blocks {
        put_state(&mut batch, &recent.block.committed.changes);
        put_indices(&mut batch, recent);
    }
    for certificate in certificates {
        batch.insert(height_key(CERTIFICATE, certificate.height), Some(encode(&certificate.at)));
        certified = certified.max(Some(certificate.height));
    }
    let Identity { chain_id, genesis_hash } = identity;
    let (height, hash, end) = (last.block.height(), last.block.hash, last.after);
    let meta = Meta { chain_id, genesis_hash, height, hash, end, certified };
    put_meta(&mut batch, &meta);
    Some((batch, meta))
}

/// Removes a block from the indices.
pub(crate) fn remove_block(batch: &mut Batch, block: &StoredBlock) {
    batch.insert(height_key(BLOCK, block.height()), None);
    batch.insert(key(HASH, &[block.hash.as_slice()]), None);
    for receipt in block.receipts() {
        batch.insert(key(TRANSACTION, &[receipt.transaction_hash.as_slice()]), None);
    }
}

pub(crate) fn remove_certificate(batch: &mut Batch, height: Height) {
    batch.insert(height_key(CERTIFICATE, height), None);
}

/// Writes accounts, slots and codes of a whole state, in several batches. Keys ascend: a database takes them many times faster than
/// keys in the order of a snapshot.
pub(crate) fn write_state(kv: &dyn Kv, state: &Changes) -> Result<(), KvError> {
    let codes = state.code.iter().map(|(hash, code)| (code_key(hash), Some(code.to_vec())));
    let (mut batch, mut bytes) = (Batch::new(), 0);
    for (key, value) in entries(state).chain(codes) {
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        batch.insert(key, value);
        if bytes >= STATE_BATCH_BYTES {
            kv.apply(&std::mem::take(&mut batch))?;
            bytes = 0;
        }
    }
    kv.apply(&batch)
}

/// Batch that sets the height of the checkpoint.
pub(crate) fn meta_batch(meta: &Meta) -> Batch {
    let mut batch = Batch::new();
    put_meta(&mut batch, meta);
    batch
}

/// Batch with the indices of a block whose changes are in the checkpoint already.
pub(crate) fn index_batch(recent: &Recent) -> Batch {
    let mut batch = Batch::new();
    put_indices(&mut batch, recent);
    batch
}

fn put_indices(batch: &mut Batch, recent: &Recent) {
    let (block, height) = (&recent.block, recent.block.height());
    put_hash(batch, block.hash, height);
    batch.insert(height_key(BLOCK, height), Some(encode(&recent.at)));
    for (index, receipt) in (0u32..).zip(&block.committed.receipts) {
        batch.insert(key(TRANSACTION, &[receipt.transaction_hash.as_slice()]), Some(encode(&(height, index))));
    }
}

fn put_state(batch: &mut Batch, changes: &Changes) {
    batch.extend(entries(changes));
    for (hash, code) in &changes.code {
        batch.insert(code_key(hash), Some(code.to_vec()));
    }
}

/// Accounts and slots in stored form; `None` marks those that do not exist.
pub(crate) fn entries(changes: &Changes) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
    let accounts = changes
        .accounts
        .iter()
        .map(|(address, account)| (account_key(address), account.as_ref().filter(|account| !account.is_empty()).map(encode)));
    let slots = changes
        .storage
        .iter()
        .map(|((address, slot), value)| (storage_key(address, slot), (!value.is_zero()).then(|| value.to_vec())));
    accounts.chain(slots)
}

pub(crate) fn account_key(address: &Address) -> Vec<u8> {
    key(ACCOUNT, &[address.as_slice()])
}

pub(crate) fn storage_key(address: &Address, slot: &B256) -> Vec<u8> {
    key(STORAGE, &[address.as_slice(), slot.as_slice()])
}

pub(crate) fn code_key(hash: &B256) -> Vec<u8> {
    key(CODE, &[hash.as_slice()])
}

fn put_hash(batch: &mut Batch, hash: B256, height: Height) {
    batch.insert(key(HASH, &[hash.as_slice()]), Some(encode(&height)));
}

pub(crate) fn put_meta(batch: &mut Batch, meta: &Meta) {
    batch.insert(META.to_vec(), Some(encode(meta)));
}

/// `None` if the key-value store has no checkpoint.
pub(crate) fn meta(kv: &dyn Kv) -> Result<Option<Meta>, KvError> {
    kv.get(META)?.map(|bytes| decode(&bytes)).transpose()
}

/// Loads the whole state of the checkpoint. Checks the code's hashes; accounts and storage are checked by the
/// caller with the state root.
pub(crate) fn load_state(kv: &dyn Kv) -> Result<Changes, KvError> {
    let mut state = Changes::default();
    kv.scan(ACCOUNT, &mut |key, value| {
        let address = Address::try_from(&key[1..]).map_err(|_| malformed(key))?;
        state.accounts.insert(address, Some(decode::<Account>(value)?));
        Ok(())
    })?;
    kv.scan(STORAGE, &mut |key, value| {
        let (address, slot) = key[1..].split_at_checked(ADDRESS_BYTES).ok_or_else(|| malformed(key))?;
        let address = Address::try_from(address).map_err(|_| malformed(key))?;
        let slot = B256::try_from(slot).map_err(|_| malformed(key))?;
        state.storage.insert((address, slot), B256::try_from(value).map_err(|_| malformed(key))?);
        Ok(())
    })?;
    kv.scan(CODE, &mut |key, value| {
        let hash = B256::try_from(&key[1..]).map_err(|_| malformed(key))?;
        if keccak256(value) != hash {
            return Err(KvError(format!("the code {hash} is not the one of that hash")));
        }
        state.code.insert(hash, Bytes::copy_from_slice(value));
        Ok(())
    })?;
    let accounts = state.accounts.values().flatten();
    if let Some(account) =
        accounts.filter(|account| account.has_code()).find(|account| !state.code.contains_key(&account.code_hash))
    {
        return Err(KvError(format!("the code {} is missing", account.code_hash)));
    }
    Ok(state)
}

pub(crate) fn block_position(kv: &dyn Kv, height: Height) -> Result<Option<Position>, KvError> {
    kv.get(&height_key(BLOCK, height))?.map(|bytes| decode(&bytes)).transpose()
}

pub(crate) fn height_of(kv: &dyn Kv, hash: &B256) -> Result<Option<Height>, KvError> {
    kv.get(&key(HASH, &[hash.as_slice()]))?.map(|bytes| decode(&bytes)).transpose()
}

pub(crate) fn transaction(kv: &dyn Kv, hash: &B256) -> Result<Option<(Height, u32)>, KvError> {
    kv.get(&key(TRANSACTION, &[hash.as_slice()]))?.map(|bytes| decode(&bytes)).transpose()
}

/// Certificate with the lowest height at or above `height`.
pub(crate) fn certificate_from(kv: &dyn Kv, height: Height) -> Result<Option<CertificateAt>, KvError> {
    let Some((key, value)) = kv.next(&height_key(CERTIFICATE, height))? else { return Ok(None) };
    let Some((&CERTIFICATE, rest)) = key.split_first() else { return Ok(None) };
    let bytes = rest.try_into().map_err(|_| malformed(&key))?;
    Ok(Some(CertificateAt { height: Height(u64::from_be_bytes(bytes)), at: decode(&value)? }))
}

fn key(prefix: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![prefix];
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn height_key(prefix: u8, height: Height) -> Vec<u8> {
    key(prefix, &[&height.0.to_be_bytes()])
}

pub(crate) fn encode<T: BorshSerialize>(value: &T) -> Vec<u8> {
    wire::encode(value)
}

pub(crate) fn decode<T: BorshDeserialize>(bytes: &[u8]) -> Result<T, KvError> {
    wire::decode(bytes).map_err(|error| KvError(error.to_string()))
}

fn malformed(key: &[u8]) -> KvError {
    KvError(format!("malformed entry {key:02x?}"))
}
