//! Finds an account's activity without an index: by binary search where states are kept, block by block
//! elsewhere.

use super::{full_receipt, full_transaction, involves, recorder, visit_unreverted};
use crate::backend::ChainBlock;
use crate::jsonrpc::{Json, json};
use crate::node::{Node, ensure_available};
use crate::replay::Replay;
use alloy_primitives::{Address, B256, Bytes};
use corniche_api::{Reason, RpcError};
use corniche_state::Account;
use corniche_types::{Height, Transaction};
use serde::Serialize;
use serde_json::{Value, json as value};
use std::sync::Arc;
use std::time::Instant;

/// Approximate size in bytes as JSON: of a transaction with its receipt, without data and logs, and of a log
/// without its data.
const TRANSACTION_JSON_BYTES: usize = 1_600;
const LOG_JSON_BYTES: usize = 700;
/// Maximum number of transactions per page, as in Erigon.
const MAX_PAGE: usize = 25;

/// Block-by-block scan with the timeout of log queries.
struct Scan<'n> {
    node: &'n Node,
    deadline: Instant,
}

impl<'n> Scan<'n> {
    fn new(node: &'n Node) -> Self {
        Self { node, deadline: Instant::now() + node.config.max_log_time }
    }

    /// Returns the block, or `None` after the deadline. Refuses a block that this node does not have.
    fn block(&self, height: u64) -> Result<Option<Arc<ChainBlock>>, RpcError> {
        if Instant::now() >= self.deadline {
            return Ok(None);
        }
        self.node.block_at(Height(height))
    }

    /// Timeout error; block `next` is the first one not searched.
    fn timeout_error(&self, next: u64, advice: &str) -> RpcError {
        Reason::QueryTooLong.with(format!("{:?}, block {next:#x} not searched yet; {advice}", self.node.config.max_log_time))
    }
}

/// `ots_searchTransactionsBefore`: transactions of blocks below `block`, newest first. 0 means all blocks.
pub(crate) fn search_before(node: &Node, address: Address, block: u64, size: usize) -> Result<Json, RpcError> {
    let end = node.backend.head().0 + 1;
    let from_tip = block == 0 || block >= end;
    let page = Page::search(node, &address, size, (0..if from_tip { end } else { block }).rev(), Order::NewestFirst)?;
    page.to_json(from_tip, page.searched_all)
}

/// `ots_searchTransactionsAfter`: transactions of blocks above `block`, newest first. 0 means all blocks.
pub(crate) fn search_after(node: &Node, address: Address, block: u64, size: usize) -> Result<Json, RpcError> {
    let heights = block.saturating_add(1)..=node.backend.head().0;
    let mut page = Page::search(node, &address, size, heights, Order::OldestFirst)?;
    page.transactions.reverse();
    page.receipts.reverse();
    page.to_json(page.searched_all, block == 0)
}

/// Order of the search, for blocks and for transactions within them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    NewestFirst,
    OldestFirst,
}

/// Transactions of an account, in the order of the search.
#[derive(Default)]
struct Page {
    transactions: Vec<Value>,
    receipts: Vec<Value>,
    /// Approximate size as JSON.
    bytes: usize,
    /// True if the search reached the end in this direction.
    searched_all: bool,
}

impl Page {
    /// Collects whole blocks until the page is full, so it may have more than `size` transactions. At the
    /// timeout, or at a block that this node does not have, returns what it has, or the error if it has nothing.
    fn search(
        node: &Node,
        address: &Address,
        size: usize,
        mut heights: impl Iterator<Item = u64>,
        order: Order,
    ) -> Result<Self, RpcError> {
        if size == 0 || size > MAX_PAGE {
            return Err(RpcError::invalid_params(format!("page size {size}: at least 1, at most {MAX_PAGE}")));
        }
        let scan = Scan::new(node);
        let mut page = Self::default();
        while page.transactions.len() < size {
            let Some(height) = heights.next() else {
                page.searched_all = true;
                return Ok(page);
            };
            let found =
                scan.block(height).and_then(|block| block.ok_or_else(|| scan.timeout_error(height, "continue from there")));
            let block = match found {
                Ok(block) => block,
                Err(error) if page.transactions.is_empty() => return Err(error),
                Err(_) => return Ok(page),
            };
            let involved = |index: &usize| block.receipts.get(*index).is_some_and(|receipt| involves(receipt, address));
            let mut found: Vec<usize> = (0..block.transactions.len()).filter(involved).collect();
            if order == Order::NewestFirst {
                found.reverse();
            }
            for index in found {
                page.add(node, &block, index)?;
            }
        }
        page.searched_all = heights.next().is_none();
        Ok(page)
    }

    fn add(&mut self, node: &Node, block: &ChainBlock, index: usize) -> Result<(), RpcError> {
        let logs = block.receipts[index].logs.iter().map(|log| LOG_JSON_BYTES + 2 * log.data.len()).sum::<usize>();
        self.bytes += TRANSACTION_JSON_BYTES + 2 * block.transactions[index].len() + logs;
        if self.bytes > node.config.max_response_bytes {
            return Err(Reason::ResponseTooLarge.error());
        }
        self.transactions.push(full_transaction(block, index)?);
        self.receipts.push(full_receipt(block, index)?);
        Ok(())
    }

    fn to_json(&self, first: bool, last: bool) -> Result<Json, RpcError> {
        json(&value!({
            "txs": self.transactions,
            "receipts": self.receipts,
            "firstPage": first,
            "lastPage": last,
        }))
    }
}

/// Lowest height whose state is kept; all above it are kept too.
fn oldest_state(node: &Node) -> u64 {
    let (mut pruned, mut kept) = (None, node.backend.head().0);
    loop {
        let low = pruned.map_or(0, |pruned: u64| pruned + 1);
        if low >= kept {
            return kept;
        }
        let middle = low + (kept - low) / 2;
        if node.available_state(Height(middle)).is_some() {
            kept = middle;
        } else {
            pruned = Some(middle);
        }
    }
}

/// First block of `oldest..=head` after which the account satisfies the predicate. The predicate must stay
/// true once it is true, and be true at the head.
fn first_block(
    node: &Node,
    address: &Address,
    oldest: u64,
    wanted: impl Fn(&Account) -> bool,
) -> Result<Option<u64>, RpcError> {
    let satisfied = |height: u64| {
        let (_, state) = node.state(height.into())?;
        let satisfied = state.account(address).is_some_and(|account| wanted(&account));
        ensure_available(&*state).map(|()| satisfied)
    };
    let (mut low, mut high) = (oldest, node.backend.head().0);
    while low < high {
        let middle = low + (high - low) / 2;
        if satisfied(middle)? { high = middle } else { low = middle + 1 }
    }
    Ok(satisfied(low)?.then_some(low))
}

/// `ots_getTransactionBySenderAndNonce`.
pub(crate) fn by_sender_and_nonce(node: &Node, sender: Address, nonce: u64) -> Result<Option<B256>, RpcError> {
    let now = node.state(Default::default())?.1.account(&sender).unwrap_or_default();
    // A contract's nonce counts its creations; only on a development chain may it send transactions.
    if now.nonce <= nonce || (now.has_code() && node.dev().is_none()) {
        return Ok(None);
    }
    let in_block = |block: &ChainBlock| {
        let own = block.receipts.iter().zip(&block.transactions).filter(|(receipt, _)| receipt.sender == sender);
        let with_nonce = |raw: &Bytes| Transaction::decode(raw.clone()).is_ok_and(|transaction| transaction.nonce() == nonce);
        own.filter(|(_, raw)| with_nonce(raw)).map(|(receipt, _)| receipt.transaction_hash).next()
    };
    let oldest = oldest_state(node);
    let used = |account: &Account| account.nonce > nonce;
    let Some(height) = first_block(node, &sender, oldest, used)? else { return Ok(None) };
    if height > oldest || oldest == 0 {
        return Ok(node.block_at(Height(height))?.and_then(|block| in_block(&block)));
    }
    let scan = Scan::new(node);
    for height in (1..=oldest).rev() {
        let advice = "the states needed to find it are pruned";
        let block = scan.block(height)?.ok_or_else(|| scan.timeout_error(height, advice))?;
        if let Some(hash) = in_block(&block) {
            return Ok(Some(hash));
        }
    }
    Ok(None)
}

/// Creator of a contract, and the transaction.
#[derive(Debug, Serialize)]
pub(crate) struct Creator {
    hash: B256,
    creator: Address,
}

/// `ots_getContractCreator`: null for accounts without code and for contracts of the genesis.
pub(crate) fn contract_creator(node: &Node, address: Address) -> Result<Option<Creator>, RpcError> {
    if !super::has_code(node, &address, Default::default())? {
        return Ok(None);
    }
    let deployed = |block: &ChainBlock| {
        let creation = block.receipts.iter().find(|receipt| receipt.success && receipt.contract_address == Some(address));
        creation.map(|receipt| Creator { hash: receipt.transaction_hash, creator: receipt.sender })
    };
    let oldest = oldest_state(node);
    let Some(height) = first_block(node, &address, oldest, Account::has_code)? else { return Ok(None) };
    if height > oldest {
        let block = node.block_at(Height(height))?.ok_or_else(|| Reason::HeaderNotFound.error())?;
        return match deployed(&block) {
            Some(creator) => Ok(Some(creator)),
            None => find_internal_creation(node, block, address),
        };
    }
    let scan = Scan::new(node);
    let pruned = format!("states below block {oldest:#x}, which would lead to it, are not kept");
    for height in (1..=oldest).rev() {
        let block = scan.block(height)?.ok_or_else(|| scan.timeout_error(height, &pruned))?;
        if let Some(creator) = deployed(&block) {
            return Ok(Some(creator));
        }
    }
    if oldest == 0 {
        return Ok(None);
    }
    Err(Reason::StateNotAvailable
        .with(format!("no transaction deployed it: a contract made it, or the genesis has it; {pruned}")))
}

/// Finds the creation by another contract, within one of the block's transactions.
fn find_internal_creation(node: &Node, block: Arc<ChainBlock>, address: Address) -> Result<Option<Creator>, RpcError> {
    let hashes: Vec<B256> = block.receipts.iter().map(|receipt| receipt.transaction_hash).collect();
    let mut replay = Replay::new(node, block)?;
    for hash in hashes {
        let mut trace = recorder(node);
        replay.run(Some(&mut trace))?;
        let mut creator = None;
        visit_unreverted(trace.root(), &mut |_, frame| {
            if frame.kind.is_create() && frame.to == address {
                creator = Some(frame.from);
            }
        });
        if let Some(creator) = creator {
            return Ok(Some(Creator { hash, creator }));
        }
        if trace.overflowed() {
            return Err(Reason::TraceTooLarge.with(format!("transaction {hash}, which may have made it")));
        }
    }
    Ok(None)
}
