//! Converts a block to rows. A pure function of the node's response.

use super::events::{self, TokenEvent};
use crate::{
    database::{Place, Rows, int},
    node::{Log, Receipt, Transaction, WholeBlock},
};
use alloy_primitives::{Address, B256, U256};
use corniche_types::SHARDED_ENGINE;
use std::collections::{BTreeMap, BTreeSet};

/// Roles of an account in a transaction: bits of `activity.roles`.
pub mod role {
    /// Signed the transaction.
    pub const SENDER: u64 = 1;
    /// Received the transaction.
    pub const RECIPIENT: u64 = 2;
    /// Was created by it.
    pub const CREATED: u64 = 4;
    /// Emitted a log in it.
    pub const LOGGED: u64 = 8;
    /// Was called by an inner call.
    pub const CALLED: u64 = 16;
    /// Sent or received a token.
    pub const MOVED: u64 = 32;
}

/// An inconsistent block: the node is faulty, or has another format.
#[derive(Debug, thiserror::Error)]
#[error("block {number}: invalid response of the node: {problem}")]
pub struct InvalidBlock {
    /// Block number.
    pub number: u64,
    /// Description of the inconsistency.
    pub problem: String,
}

/// The data of a block that can be derived from the block alone.
#[derive(Debug)]
pub struct Digest {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
    /// Hash of the parent block.
    pub parent: B256,
    /// Block time in Unix milliseconds.
    pub time_ms: u64,
    /// Committee index of the leader.
    pub leader: Option<u64>,
    /// Rows that are written without further processing.
    pub rows: Vec<Rows>,
    /// Token transfers and approvals in order, each with its transaction.
    pub token_events: Vec<(Place, TokenEvent)>,
    /// Accounts in the block, with the number of its transactions that each sent or received.
    pub accounts: BTreeMap<Address, u64>,
    /// Contracts created by its transactions: address, creator, transaction.
    pub created: Vec<(Address, Address, Place)>,
    /// Contracts that emitted logs.
    pub loggers: BTreeSet<Address>,
    /// Number of executed transactions, including failed ones, without skipped ones.
    pub transactions: u64,
    /// Number of failed transactions.
    pub failed: u64,
    /// Number of transactions that were ordered but not executed.
    pub skipped: u64,
    /// Gas used by all transactions.
    pub gas_used: u64,
    /// Numbers of batches and transactions by author.
    pub by_author: BTreeMap<u64, (u64, u64)>,
    /// `true` if a contract was called, so that there are calls to trace.
    pub has_calls: bool,
    /// Transactions, logs and transfers without a row, because the block has no more places. Balances include omitted
    /// transfers, except those of omitted transactions.
    pub left_out: u64,
}

const BLOCKS: &[&str] = &[
    "number",
    "hash",
    "parent",
    "time_ms",
    "seen_ms",
    "leader",
    "fee_address",
    "first_commit",
    "last_commit",
    "transactions",
    "skipped",
    "gas_used",
    "gas_limit",
    "base_fee",
    "bytes",
    "state_root",
    "transactions_root",
    "receipts_root",
    "randomness",
    "extra",
];
const TRANSACTIONS: &[&str] = &[
    "place",
    "hash",
    "sender",
    "recipient",
    "created",
    "kind",
    "nonce",
    "value",
    "selector",
    "gas_limit",
    "gas_used",
    "cumulative_gas",
    "gas_price",
    "max_fee",
    "max_tip",
    "succeeded",
    "author",
    "logs",
    "time_ms",
    "input",
];

/// Converts a block. `seen_ms` is the time of receipt, if the block is new.
pub fn digest(whole: &WholeBlock, seen_ms: Option<u64>) -> Result<Digest, InvalidBlock> {
    digest_within(whole, seen_ms, Place::ROOM)
}

/// Like [`digest`], with at most `room` items of one kind in a block, at most [`Place::ROOM`]. Further items are
/// omitted.
pub fn digest_within(whole: &WholeBlock, seen_ms: Option<u64>, room: usize) -> Result<Digest, InvalidBlock> {
    let number: u64 = whole.block.number.to();
    let invalid = |problem: String| InvalidBlock { number, problem };
    let (block, receipts) = (&whole.block, &whole.receipts);
    if block.transactions.len() != receipts.len() {
        return Err(invalid(format!(
            "expected one receipt per transaction: {} transactions, {} receipts",
            block.transactions.len(),
            receipts.len()
        )));
    }
    let authors = authors(whole);
    if !authors.is_empty() && authors.len() != block.transactions.len() {
        return Err(invalid(format!(
            "expected one batch entry per transaction: {} transactions, {} entries",
            block.transactions.len(),
            authors.len()
        )));
    }
    let mut digest = Digest::of_header(whole);
    digest.left_out = block.transactions.len().saturating_sub(room) as u64;
    digest.block(whole, seen_ms);
    digest.ordering(whole);
    let mut rows = TransactionRows::new(room);
    let mut activity = BTreeMap::new();
    for (position, (transaction, receipt)) in block.transactions.iter().zip(receipts).take(room).enumerate() {
        if transaction.hash != receipt.transaction_hash {
            return Err(invalid(format!(
                "receipt out of order: expected {}, got {}",
                receipt.transaction_hash, transaction.hash
            )));
        }
        let place = Place::new(number, position as u64);
        let author = authors.get(position).copied();
        digest.transaction(place, transaction, receipt, author, &mut rows, &mut activity)?;
    }
    digest.tokens(&mut activity, room);
    let mut active = Rows::new("activity", &["address", "place", "roles"]);
    for ((address, place), roles) in activity {
        active.push([address.into(), Place(place).into(), roles.into()]);
    }
    digest.rows.extend([rows.transactions, rows.logs, active]);
    Ok(digest)
}

struct TransactionRows {
    transactions: Rows,
    logs: Rows,
    /// Gas used by the transactions so far.
    gas: u64,
    /// Maximum number of logs of a block that get rows.
    room: usize,
}

impl TransactionRows {
    fn new(room: usize) -> Self {
        let logs = &["place", "transaction_place", "address", "topics", "event", "data"];
        Self { transactions: Rows::new("transactions", TRANSACTIONS), logs: Rows::new("logs", logs), gas: 0, room }
    }
}

/// Roles by account and place of the transaction.
type Activity = BTreeMap<(Address, i64), u64>;

impl Digest {
    /// Returns the approximate size in memory in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.iter().map(Rows::bytes).sum::<usize>() + size_of_val(self.token_events.as_slice())
    }

    /// Returns a digest without rows and without effects of transactions.
    fn of_header(whole: &WholeBlock) -> Self {
        let (block, ordering) = (&whole.block, whole.ordering.as_ref());
        let header_ms = block.timestamp.to::<u64>().saturating_mul(1_000);
        Self {
            number: block.number.to(),
            hash: block.hash,
            parent: block.parent_hash,
            time_ms: ordering.map_or(header_ms, |ordering| ordering.timestamp_ms),
            // A sharded chain has no leaders.
            leader: ordering.filter(|ordering| ordering.engine != SHARDED_ENGINE).map(|ordering| ordering.leader),
            rows: Vec::new(),
            token_events: Vec::new(),
            accounts: BTreeMap::new(),
            created: Vec::new(),
            loggers: BTreeSet::new(),
            transactions: block.transactions.len() as u64,
            failed: 0,
            skipped: ordering.map_or(0, |ordering| ordering.skipped.len() as u64),
            gas_used: block.gas_used.to(),
            by_author: BTreeMap::new(),
            has_calls: false,
            left_out: 0,
        }
    }

    fn block(&mut self, whole: &WholeBlock, seen_ms: Option<u64>) {
        let WholeBlock { block, ordering, .. } = whole;
        let ordering = ordering.as_ref();
        let mut rows = Rows::new("blocks", BLOCKS);
        rows.push([
            self.number.into(),
            block.hash.into(),
            block.parent_hash.into(),
            self.time_ms.into(),
            seen_ms.into(),
            self.leader.into(),
            block.miner.into(),
            ordering.map(|ordering| ordering.first_commit).into(),
            ordering.map(|ordering| ordering.last_commit).into(),
            self.transactions.into(),
            self.skipped.into(),
            self.gas_used.into(),
            block.gas_limit.to::<u64>().into(),
            wei(block.base_fee_per_gas).into(),
            block.size.to::<u64>().into(),
            block.state_root.into(),
            block.transactions_root.into(),
            block.receipts_root.into(),
            block.mix_hash.into(),
            block.extra_data.clone().into(),
        ]);
        self.rows.push(rows);
    }

    fn ordering(&mut self, whole: &WholeBlock) {
        let Some(ordering) = &whole.ordering else { return };
        let mut batches = Rows::new("batches", &["block", "position", "author", "digest", "first", "count"]);
        let mut position = 0;
        for batch in &ordering.batches {
            self.by_author.entry(batch.author).or_default().0 += 1;
            if batch.count == 0 {
                // A batch without transactions in this block has no position.
                continue;
            }
            batches.push([
                self.number.into(),
                position.into(),
                batch.author.into(),
                batch.digest.into(),
                batch.first.into(),
                batch.count.into(),
            ]);
            position = position.saturating_add(batch.count);
        }
        // A faulty node may list a position twice.
        let mut skipped = Rows::or("skipped", &["block", "position", "hash", "reason"], "DO NOTHING");
        for one in &ordering.skipped {
            skipped.push([self.number.into(), one.position.into(), one.hash.into(), one.reason.clone().into()]);
        }
        self.rows.extend([batches, skipped]);
    }

    fn transaction(
        &mut self,
        place: Place,
        transaction: &Transaction,
        receipt: &Receipt,
        author: Option<u64>,
        rows: &mut TransactionRows,
        activity: &mut Activity,
    ) -> Result<(), InvalidBlock> {
        let succeeded = receipt.status.to::<u64>() == 1;
        let created = receipt.contract_address.filter(|_| transaction.to.is_none() && succeeded);
        self.failed += u64::from(!succeeded);
        self.has_calls |= transaction.to.is_none() || !transaction.input.is_empty() || receipt.gas_used.to::<u64>() > 21_000;
        if let Some(author) = author {
            self.by_author.entry(author).or_default().1 += 1;
        }
        let mut had_part = |account: Address, role: u64| *activity.entry((account, place.0)).or_default() |= role;
        had_part(transaction.from, role::SENDER);
        *self.accounts.entry(transaction.from).or_default() += 1;
        if let Some(to) = transaction.to {
            had_part(to, role::RECIPIENT);
            *self.accounts.entry(to).or_default() += u64::from(to != transaction.from);
        }
        if let Some(created) = created {
            had_part(created, role::CREATED);
            *self.accounts.entry(created).or_default() += 1;
            self.created.push((created, transaction.from, place));
        }
        rows.gas = rows.gas.saturating_add(receipt.gas_used.to());
        rows.transactions.push([
            place.into(),
            transaction.hash.into(),
            transaction.from.into(),
            transaction.to.into(),
            created.into(),
            transaction.kind.to::<u64>().into(),
            transaction.nonce.to::<u64>().into(),
            transaction.value.into(),
            transaction.input[..transaction.input.len().min(4)].to_vec().into(),
            transaction.gas.to::<u64>().into(),
            receipt.gas_used.to::<u64>().into(),
            rows.gas.into(),
            wei(receipt.effective_gas_price).into(),
            transaction.max_fee_per_gas.map(wei).into(),
            transaction.max_priority_fee_per_gas.map(wei).into(),
            succeeded.into(),
            author.into(),
            (receipt.logs.len() as u64).into(),
            self.time_ms.into(),
            transaction.input.clone().into(),
        ]);
        self.logs(place, &receipt.logs, rows, activity)
    }

    fn logs(
        &mut self,
        transaction: Place,
        logs: &[Log],
        rows: &mut TransactionRows,
        activity: &mut Activity,
    ) -> Result<(), InvalidBlock> {
        for log in logs {
            if log.topics.len() > 4 {
                return Err(InvalidBlock {
                    number: self.number,
                    problem: format!("expected at most 4 topics in a log, got {}", log.topics.len()),
                });
            }
            *activity.entry((log.address, transaction.0)).or_default() |= role::LOGGED;
            self.loggers.insert(log.address);
            self.token_events.extend(events::read(log).into_iter().map(|moved| (transaction, moved)));
            if rows.logs.len() == rows.room {
                self.left_out += 1;
                continue;
            }
            rows.logs.push([
                Place::new(self.number, rows.logs.len() as u64).into(),
                transaction.into(),
                log.address.into(),
                log.topics.concat().into(),
                log.topics.first().copied().into(),
                log.data.clone().into(),
            ]);
        }
        Ok(())
    }

    /// Writes rows for token transfers. A place within the block identifies each of them.
    fn tokens(&mut self, activity: &mut Activity, room: usize) {
        let columns = &["place", "transaction_place", "token", "sender", "recipient", "token_id", "amount", "time_ms"];
        let mut transfers = Rows::new("transfers", columns);
        let mut sides = Rows::new("transfer_sides", &["address", "place"]);
        for (transaction, moved) in &self.token_events {
            let TokenEvent::Transfer { token, from, to, id, amount, .. } = moved else { continue };
            let parties: BTreeSet<Address> = [*from, *to].into_iter().filter(|party| !party.is_zero()).collect();
            for party in &parties {
                *activity.entry((*party, transaction.0)).or_default() |= role::MOVED;
                self.accounts.entry(*party).or_default();
            }
            if transfers.len() == room {
                self.left_out += 1;
                continue;
            }
            let place = Place::new(self.number, transfers.len() as u64);
            transfers.push([
                place.into(),
                (*transaction).into(),
                (*token).into(),
                (*from).into(),
                (*to).into(),
                id.map(B256::from).into(),
                (*amount).into(),
                self.time_ms.into(),
            ]);
            parties.into_iter().for_each(|party| sides.push([party.into(), place.into()]));
        }
        self.rows.extend([transfers, sides]);
    }
}

/// Returns the author of each executed transaction's batch. Positions count over all batches; skipped ones are omitted.
fn authors(whole: &WholeBlock) -> Vec<u64> {
    let Some(ordering) = &whole.ordering else { return Vec::new() };
    let skipped: BTreeSet<u64> = ordering.skipped.iter().map(|skipped| skipped.position).collect();
    let most = whole.block.transactions.len() + skipped.len();
    let ordered = ordering.batches.iter().flat_map(|batch| (0..batch.count).map(|_| batch.author));
    // One more than expected is enough to detect a mismatch.
    (0u64..).zip(ordered).take(most + 1).filter(|(position, _)| !skipped.contains(position)).map(|(_, author)| author).collect()
}

/// Converts a gas price to wei, at most 2^63-1. Real prices are far below that.
fn wei(price: U256) -> u64 {
    int(price.saturating_to::<u64>()) as u64
}
