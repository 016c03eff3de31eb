//! Effects of transactions: logs, token transfers, inner calls.

use super::{
    problem::Problem,
    request::{ApiRequest, Listing},
    schema::{Amount, ChecksumAddress, object},
};
use crate::{
    abi::{self, KnownAbis},
    app_state::AppState,
    database::{DatabaseError, Place, Read, sql},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use sqlx::any::AnyRow;
use std::collections::BTreeSet;

object! {
    /// A decoded call or event.
    Decoded {
        /// Name and parameter types of the method or event.
        signature: String = "Transfer(address,address,uint256)",
        /// Values in order.
        values: Vec<NamedValue>,
    }
}

object! {
    /// A value of a call or an event. Long values are truncated and end with an ellipsis.
    NamedValue {
        /// Name in the ABI, or `#` and the position.
        name: String = "amount",
        /// Value as text.
        value: String = "5000000",
    }
}

object! {
    /// A log.
    Log {
        /// Number of its block.
        block: u64,
        /// Position among the logs of the block, from 0.
        position: u64 = 4,
        /// Contract that emitted it.
        address: ChecksumAddress,
        /// Topics, at most four; the first identifies the event.
        topics: Vec<B256>,
        /// Data: the values that are not topics.
        data: Bytes,
        /// Decoded event; null if the contract's ABI is not known.
        event: Option<Decoded>,
    }
}

object! {
    /// A token transfer, from the token's event.
    Transfer {
        /// Number of its block.
        block: u64,
        /// Position among the transfers of the block, from 0.
        position: u64 = 4,
        /// Time of its block in Unix milliseconds.
        time_ms: u64 = 1_700_000_000_000u64,
        /// Hash of its transaction.
        transaction: B256,
        /// Token contract.
        token: ChecksumAddress,
        /// Symbol of the token, from its contract; not verified.
        symbol: String = "GLD",
        /// Decimals of the token's amounts.
        decimals: u64 = 18,
        /// Token standard: 20, 721 or 1155.
        standard: u64 = 20,
        /// Sender; the zero address if the tokens were minted.
        from: ChecksumAddress,
        /// Recipient; the zero address if the tokens were burned.
        to: ChecksumAddress,
        /// Token id, for tokens with ids; otherwise null.
        token_id: Option<Amount> = null,
        /// Amount in the token's smallest unit.
        amount: Amount,
    }
}

object! {
    /// A call inside a transaction.
    Call {
        /// Number of its block.
        block: u64,
        /// Position among the calls of the block, from 0.
        position: u64 = 4,
        /// Hash of its transaction.
        transaction: B256,
        /// Call depth; 1 for a call by the contract that the transaction called.
        depth: u64 = 1,
        /// `CALL`, `DELEGATECALL`, `STATICCALL`, `CALLCODE`, `CREATE` or `CREATE2`.
        kind: String = "CALL",
        /// Caller.
        from: ChecksumAddress,
        /// Called or created contract.
        to: Option<ChecksumAddress>,
        /// Wei sent with the call.
        value: Amount = "0",
        /// First four bytes of its input.
        selector: Option<Bytes>,
        /// Gas used, including inner calls.
        gas_used: u64 = 2_100,
        /// Reason why it failed; null if it succeeded.
        error: Option<String> = null,
    }
}

/// Returns the place of the transaction in the request.
async fn place_of(request: &ApiRequest) -> Result<Place, Problem> {
    let hash = request.hash()?;
    let row = sql("SELECT place FROM transactions WHERE hash = $1").bind(hash.to_vec());
    let row = row.fetch_optional(request.app.database.readers()).await?;
    let row = row.ok_or_else(|| Problem::missing(format!("no executed transaction {hash}")))?;
    Ok(row.place("place")?)
}

/// `/api/v1/transactions/{hash}/logs`
pub async fn logs(request: ApiRequest) -> Result<Listing<Log>, Problem> {
    logs_of(&request.app, place_of(&request).await?, request.number(-1)?, request.limit()?).await
}

/// `/api/v1/transactions/{hash}/transfers`
pub async fn transfers(request: ApiRequest) -> Result<Listing<Transfer>, Problem> {
    transfers_of(&request.app, place_of(&request).await?, request.number(-1)?, request.limit()?).await
}

/// `/api/v1/transactions/{hash}/calls`
pub async fn calls(request: ApiRequest) -> Result<Listing<Call>, Problem> {
    calls_of(&request.app, place_of(&request).await?, request.number(-1)?, request.limit()?).await
}

/// Reads rows of a transaction after a place. They are in the block of the transaction, which bounds the index scan.
async fn rows(app: &AppState, text: &'static str, transaction: Place, after: i64, limit: i64) -> Result<Vec<AnyRow>, Problem> {
    let (first, until) = (Place::first(transaction.block()).0, Place::first(transaction.block() + 1).0);
    let query = sql(text).bind(transaction.0).bind(after.max(first - 1)).bind(until).bind(limit + 1);
    Ok(query.fetch_all(app.database.readers()).await?)
}

/// Reads logs of a transaction after a place.
pub async fn logs_of(app: &AppState, transaction: Place, after: i64, limit: i64) -> Result<Listing<Log>, Problem> {
    let text = "SELECT place, address, topics, data FROM logs WHERE transaction_place = $1 AND place > $2 AND place < $3 ORDER BY place LIMIT $4";
    let rows = rows(app, text, transaction, after, limit).await?;
    let contracts: BTreeSet<Address> = rows.iter().map(|row| row.address("address")).collect::<Result<_, _>>()?;
    let known = KnownAbis::contracts(&app.database, contracts).await?;
    Listing::of(rows, limit, "place", |row| {
        let (place, address, data) = (row.place("place")?, row.address("address")?, row.bytes("data")?);
        let topics: Vec<B256> = row.bytes("topics")?.chunks_exact(32).map(B256::from_slice).collect();
        let event = known.event(address, &topics, &data).map(Decoded::from);
        let (block, position) = (place.block(), place.position());
        Ok(Log { block, position, address: ChecksumAddress(address), topics, data: data.into(), event })
    })
}

/// Reads token transfers of a transaction after a place.
pub async fn transfers_of(app: &AppState, transaction: Place, after: i64, limit: i64) -> Result<Listing<Transfer>, Problem> {
    let text = "SELECT m.place, m.time_ms, m.token, m.sender, m.recipient, m.token_id, m.amount, k.name, k.symbol, \
             k.decimals, k.standard, t.hash FROM transfers m JOIN tokens k ON k.address = m.token JOIN transactions t ON \
             t.place = m.transaction_place WHERE m.transaction_place = $1 AND m.place > $2 AND m.place < $3 ORDER BY \
             m.place LIMIT $4";
    let rows = rows(app, text, transaction, after, limit).await?;
    Listing::of(rows, limit, "place", Transfer::of)
}

/// Reads inner calls of a transaction after a place.
pub async fn calls_of(app: &AppState, transaction: Place, after: i64, limit: i64) -> Result<Listing<Call>, Problem> {
    let text = "SELECT c.place, c.depth, c.kind, c.sender, c.recipient, c.value, c.selector, c.gas_used, c.error, t.hash \
             FROM calls c JOIN transactions t ON t.place = c.transaction_place WHERE c.transaction_place = $1 AND c.place \
             > $2 AND c.place < $3 ORDER BY c.place LIMIT $4";
    let rows = rows(app, text, transaction, after, limit).await?;
    Listing::of(rows, limit, "place", Call::of)
}

impl Transfer {
    /// Makes a transfer from a row of `transfers` with its token and its transaction.
    pub fn of(row: &AnyRow) -> Result<Self, DatabaseError> {
        let place = row.place("place")?;
        Ok(Self {
            block: place.block(),
            position: place.position(),
            time_ms: row.number("time_ms")?,
            transaction: row.hash("hash")?,
            token: ChecksumAddress(row.address("token")?),
            symbol: row.text("symbol")?,
            decimals: row.number("decimals")?,
            standard: row.number("standard")?,
            from: ChecksumAddress(row.address("sender")?),
            to: ChecksumAddress(row.address("recipient")?),
            token_id: row.maybe_bytes("token_id")?.map(|id| Amount(U256::from_be_slice(&id))),
            amount: Amount(row.amount("amount")?),
        })
    }
}

impl Call {
    /// Makes a call from a row of `calls` with its transaction.
    pub fn of(row: &AnyRow) -> Result<Self, DatabaseError> {
        let place = row.place("place")?;
        Ok(Self {
            block: place.block(),
            position: place.position(),
            transaction: row.hash("hash")?,
            depth: row.number("depth")?,
            kind: row.text("kind")?,
            from: ChecksumAddress(row.address("sender")?),
            to: row.maybe_address("recipient")?.map(ChecksumAddress),
            value: Amount(row.amount("value")?),
            selector: row.maybe_bytes("selector")?.map(Bytes::from),
            gas_used: row.number("gas_used")?,
            error: row.maybe_text("error")?.map(|error| abi::text(&error)),
        })
    }
}

impl From<abi::Decoded> for Decoded {
    fn from(decoded: abi::Decoded) -> Self {
        let text = |value| match value {
            abi::Value::Address(address) => address.to_string(),
            abi::Value::Text(text) => text,
        };
        let values = decoded.values.into_iter().map(|(name, value)| NamedValue { name, value: text(value) });
        Self { signature: decoded.signature, values: values.collect() }
    }
}
