//! Transactions and their effects.

use super::{
    blocks,
    effects::{Call, Decoded, Log, Transfer, calls_of, logs_of, transfers_of},
    problem::Problem,
    request::{ApiRequest, Listing, cut},
    schema::{Amount, ChecksumAddress, object},
};
use crate::{
    abi::{self, KnownAbis},
    app_state::AppState,
    database::{DatabaseError, Place, Read, sql},
    texts::status,
    views,
};
use alloy_primitives::{B256, Bytes, U256};
use corniche_api::TransactionStatus;
use sqlx::any::AnyRow;

/// Maximum number of logs, transfers and calls, each, in the response for one transaction.
const FIRST: i64 = 50;

object! {
    /// An executed transaction.
    Transaction {
        /// Hash of the transaction.
        hash: B256,
        /// Number of its block.
        block: u64,
        /// Position in the block, from 0.
        position: u64 = 0,
        /// Agreed time of its order, in Unix milliseconds.
        time_ms: u64 = 1_700_000_000_000u64,
        /// `executed`; `certified` once a quorum signed its block or a later one.
        status: String = "certified",
        /// False if it was reverted; its fee was paid nevertheless.
        succeeded: bool,
        /// Sender.
        from: ChecksumAddress,
        /// Recipient; null for a contract creation.
        to: Option<ChecksumAddress>,
        /// Created contract; null if there is none.
        created: Option<ChecksumAddress> = null,
        /// Transaction type: 0, 1 or 2, as in Ethereum.
        kind: u64 = 2,
        /// Nonce: number of earlier transactions of the sender.
        nonce: u64 = 3,
        /// Wei sent with the transaction.
        value: Amount,
        /// First four bytes of its input.
        selector: Option<Bytes>,
        /// Name of the called method, from a known ABI; `transfer` if the input is empty.
        method: Option<String> = "transfer",
        /// Gas limit.
        gas_limit: u64 = 90_000,
        /// Gas used.
        gas_used: u64 = 51_234,
        /// Gas price paid, in wei per gas.
        gas_price: Amount = "1000000007",
        /// Total fee in wei.
        fee: Amount = "51234000358638",
        /// Maximum fee in wei per gas; only for type 2.
        max_fee: Option<Amount> = "2000000000",
        /// Maximum tip for the batch's author in wei per gas, part of the maximum fee; only for type 2.
        max_tip: Option<Amount> = "7",
        /// Validator whose batch contained it, by position in the committee.
        author: Option<u64> = 2,
        /// Number of logs.
        logs: u64 = 1,
    }
}

object! {
    /// A transaction with any status.
    TransactionInFull {
        /// Hash of the transaction.
        hash: B256,
        /// `pending`, `ordered`, `executed`, `certified`, `dropped` or `replaced`.
        status: String = "certified",
        /// Reason why it was dropped, or the hash of the transaction that replaced it.
        reason: Option<String> = null,
        /// Executed transaction; null until this explorer has its block.
        transaction: Option<Transaction>,
        /// Input of the transaction.
        input: Option<Bytes>,
        /// Decoded call; null if the contract's ABI is not known.
        call: Option<Decoded>,
        /// First 50 logs.
        logs: Vec<Log>,
        /// First 50 token transfers.
        transfers: Vec<Transfer>,
        /// First 50 inner calls.
        calls: Vec<Call>,
        /// True if these three lists are complete; otherwise their own endpoints return the rest.
        complete: bool,
    }
}

/// `/api/v1/transactions`
pub async fn list(request: ApiRequest) -> Result<Listing<Transaction>, Problem> {
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.kind, t.nonce, t.value, t.selector, t.gas_limit, \
             t.gas_used, t.gas_price, t.max_fee, t.max_tip, t.succeeded, t.author, t.logs, t.time_ms FROM transactions t \
             WHERE t.place < $1 ORDER BY t.place DESC LIMIT $2";
    let limit = request.limit()?;
    let rows = sql(text).bind(request.below()?.0).bind(limit + 1).fetch_all(request.app.database.readers()).await?;
    listing(&request.app, rows, limit).await
}

/// `/api/v1/blocks/{block}/transactions`
pub async fn of_block(request: ApiRequest) -> Result<Listing<Transaction>, Problem> {
    let block = blocks::find(&request).await?.number("number")?;
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.kind, t.nonce, t.value, t.selector, t.gas_limit, \
             t.gas_used, t.gas_price, t.max_fee, t.max_tip, t.succeeded, t.author, t.logs, t.time_ms FROM transactions t \
             WHERE t.place > $1 AND t.place < $2 ORDER BY t.place LIMIT $3";
    let (from, until) = (Place::first(block).0, Place::first(block + 1).0);
    let (after, limit) = (request.number(from - 1)?.max(from - 1), request.limit()?);
    let rows = sql(text).bind(after).bind(until).bind(limit + 1).fetch_all(request.app.database.readers()).await?;
    listing(&request.app, rows, limit).await
}

async fn listing(app: &AppState, mut rows: Vec<AnyRow>, limit: i64) -> Result<Listing<Transaction>, Problem> {
    let next = cut(&mut rows, limit, "place")?;
    Ok(Listing { items: of_rows(app, &rows).await?, next })
}

/// Makes transactions from rows with all columns but the input.
pub async fn of_rows(app: &AppState, rows: &[AnyRow]) -> Result<Vec<Transaction>, Problem> {
    let known = KnownAbis::methods_of(&app.database, rows).await?;
    let certified = app.certified();
    Ok(rows.iter().map(|row| of_row(row, &known, certified)).collect::<Result<_, _>>()?)
}

fn of_row(row: &AnyRow, known: &KnownAbis, certified: Option<u64>) -> Result<Transaction, DatabaseError> {
    let (place, beginning, to) = (row.place("place")?, row.bytes("selector")?, row.maybe_address("recipient")?);
    let (gas_used, gas_price) = (row.number("gas_used")?, row.number("gas_price")?);
    let selector = row.selector("selector")?.filter(|_| to.is_some());
    let method = match (to, selector) {
        (Some(_), None) if beginning.is_empty() => Some("transfer".to_owned()),
        (_, selector) => selector.and_then(|selector| known.method(selector)).map(|name| abi::text(&name)),
    };
    Ok(Transaction {
        hash: row.hash("hash")?,
        block: place.block(),
        position: place.position(),
        time_ms: row.number("time_ms")?,
        status: status::of_block(place.block(), certified).to_owned(),
        succeeded: row.int("succeeded")? == 1,
        from: ChecksumAddress(row.address("sender")?),
        to: to.map(ChecksumAddress),
        created: row.maybe_address("created")?.map(ChecksumAddress),
        kind: row.number("kind")?,
        nonce: row.number("nonce")?,
        value: Amount(row.amount("value")?),
        selector: selector.map(Bytes::from),
        method,
        gas_limit: row.number("gas_limit")?,
        gas_used,
        gas_price: gas_price.into(),
        fee: Amount(U256::from(gas_used) * U256::from(gas_price)),
        max_fee: row.maybe_number("max_fee")?.map(Amount::from),
        max_tip: row.maybe_number("max_tip")?.map(Amount::from),
        author: row.maybe_number("author")?,
        logs: row.number("logs")?,
    })
}

/// `/api/v1/transactions/{hash}`
pub async fn show(request: ApiRequest) -> Result<TransactionInFull, Problem> {
    let hash = request.hash()?;
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.kind, t.nonce, t.value, t.selector, t.input, t.gas_limit, \
             t.gas_used, t.gas_price, t.max_fee, t.max_tip, t.succeeded, t.author, t.logs, t.time_ms FROM transactions t \
             WHERE t.hash = $1";
    let Some(row) = sql(text).bind(hash.to_vec()).fetch_optional(request.app.database.readers()).await? else {
        return not_executed(&request.app, hash).await;
    };
    let (place, input, to) = (row.place("place")?, row.bytes("input")?, row.maybe_address("recipient")?);
    let (logs, transfers, calls) = tokio::try_join!(
        logs_of(&request.app, place, -1, FIRST),
        transfers_of(&request.app, place, -1, FIRST),
        calls_of(&request.app, place, -1, FIRST)
    )?;
    let known = KnownAbis::contracts(&request.app.database, to).await?;
    let transaction = of_rows(&request.app, &[row]).await?.pop();
    Ok(TransactionInFull {
        hash,
        status: transaction.as_ref().map_or_else(|| status::EXECUTED.to_owned(), |transaction| transaction.status.clone()),
        reason: None,
        transaction,
        call: to.and_then(|to| known.call(to, &input)).map(Decoded::from),
        input: Some(input.into()),
        complete: logs.next.is_none() && transfers.next.is_none() && calls.next.is_none(),
        logs: logs.items,
        transfers: transfers.items,
        calls: calls.items,
    })
}

/// Status of a transaction without execution: in the pool, dropped from it, skipped after ordering, or unknown.
async fn not_executed(app: &AppState, hash: B256) -> Result<TransactionInFull, Problem> {
    let bare = |status: &str, reason| TransactionInFull {
        hash,
        status: status.to_owned(),
        reason,
        transaction: None,
        input: None,
        call: None,
        logs: Vec::new(),
        transfers: Vec::new(),
        calls: Vec::new(),
        complete: true,
    };
    // The node may be unreachable; then the response has only data from the database.
    let answer = app.node.status(hash).await;
    let has_answered = answer.is_ok();
    if let Some(report) = answer.ok().flatten() {
        return Ok(match report.status {
            TransactionStatus::Pending => bare(status::PENDING, None),
            TransactionStatus::Ordered => bare(status::ORDERED, None),
            // Here a transaction is certified only if an indexed certificate covers it.
            TransactionStatus::Executed { .. } | TransactionStatus::Certified { .. } => bare(status::EXECUTED, None),
            TransactionStatus::Dropped { reason } => bare(status::DROPPED, Some(abi::text(&reason))),
            TransactionStatus::Replaced { by } => bare(status::REPLACED, Some(by.to_string())),
        });
    }
    let Some(row) = views::transactions::skip(app, hash).await? else {
        return Err(views::transactions::unknown(app, hash, has_answered).into());
    };
    Ok(bare(status::DROPPED, Some(abi::text(&row.text("reason")?))))
}
