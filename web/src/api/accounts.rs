//! Accounts: balances, transactions, transfers, calls, token balances and approvals.

use super::{
    effects::{Call, Transfer},
    problem::Problem,
    request::{ApiRequest, Listing, cut},
    schema::{Amount, ChecksumAddress, object},
    transactions::{self, Transaction},
};
use crate::{
    database::{DatabaseError, Place, Read, sql},
    indexer::digest::role,
};
use alloy_primitives::{B256, U256};
use sqlx::any::AnyRow;

object! {
    /// An account or a contract.
    Account {
        /// Address of the account.
        address: ChecksumAddress,
        /// Current balance in wei, from the node; null if the node does not respond.
        balance: Option<Amount>,
        /// Nonce of its next transaction, from the node; null if the node does not respond.
        nonce: Option<u64> = 4,
        /// True if it has code; null if no indexed block shows it and the node does not respond.
        is_contract: Option<bool> = false,
        /// True if it is a token contract, known by its transfer events.
        is_token: bool = false,
        /// First block in which it occurs; null if there is none.
        first_block: Option<u64> = 7,
        /// Number of transactions that it sent or received, or that created it.
        transactions: u64 = 9,
        /// Creator of the contract; null for genesis contracts.
        creator: Option<ChecksumAddress> = null,
        /// Transaction that created the contract.
        creation: Option<B256> = null,
    }
}

object! {
    /// A transaction that involves an account.
    Part {
        /// Roles of the account: `sender`, `recipient`, `created`, `logged` (emitted a log), `called` (by an inner call), `moved` (sender or
        /// recipient of tokens).
        roles: Vec<String> = ["sender"],
        /// The transaction.
        transaction: Transaction,
    }
}

object! {
    /// Token balance of an account, computed from the token's events.
    Balance {
        /// Token contract.
        token: ChecksumAddress,
        /// Name of the token, from its contract; not verified.
        name: String,
        /// Symbol of the token, from its contract; not verified.
        symbol: String = "GLD",
        /// Decimals of the token's amounts.
        decimals: u64 = 18,
        /// Token standard: 20, 721 or 1155.
        standard: u64 = 20,
        /// Token id, for tokens with ids; null for the total of the token.
        token_id: Option<Amount> = null,
        /// Balance in the token's smallest unit.
        amount: Amount,
    }
}

object! {
    /// A token approval, from the newest approval event. Amounts spent since then are not subtracted.
    Approval {
        /// Token contract.
        token: ChecksumAddress,
        /// Symbol of the token, from its contract; null if the token was never transferred.
        symbol: Option<String> = "GLD",
        /// Address that may spend the tokens.
        spender: ChecksumAddress,
        /// Token id, for tokens with ids; null for all of the token.
        token_id: Option<Amount> = null,
        /// Approved amount in the token's smallest unit; 1 or 0 for tokens with ids.
        amount: Amount,
        /// Block of the approval event.
        block: u64,
        /// Transaction of the approval event.
        transaction: B256,
    }
}

/// `/api/v1/accounts/{address}`
pub async fn show(request: ApiRequest) -> Result<Account, Problem> {
    let address = request.address()?;
    let readers = request.app.database.readers();
    let account = sql("SELECT first_block, transactions FROM accounts WHERE address = $1").bind(address.to_vec());
    let account = account.fetch_optional(readers).await?;
    let text = "SELECT c.creator, t.hash FROM contracts c LEFT JOIN transactions t ON t.place = c.transaction_place WHERE c.address = $1";
    let contract = sql(text).bind(address.to_vec()).fetch_optional(readers).await?;
    let token = sql("SELECT standard FROM tokens WHERE address = $1").bind(address.to_vec()).fetch_optional(readers).await?;
    // The node may be unreachable; then the response has only data from the database.
    let now = request.app.node.account(address).await.ok();
    let creation = contract.as_ref().map(|row| row.maybe_bytes("hash")).transpose()?.flatten();
    let creator = contract.as_ref().map(|row| row.maybe_address("creator")).transpose()?.flatten();
    Ok(Account {
        address: ChecksumAddress(address),
        balance: now.as_ref().map(|(balance, ..)| Amount(*balance)),
        nonce: now.as_ref().map(|(_, nonce, _)| *nonce),
        is_contract: if contract.is_some() { Some(true) } else { now.map(|(_, _, code)| !code.is_empty()) },
        is_token: token.is_some(),
        first_block: account.as_ref().map(|row| row.number("first_block")).transpose()?,
        transactions: account.as_ref().map(|row| row.number("transactions")).transpose()?.unwrap_or(0),
        creator: creator.map(ChecksumAddress),
        creation: creation.and_then(|hash| B256::try_from(hash.as_slice()).ok()),
    })
}

/// Reads rows of [`Part`]s, newest first.
pub async fn part_rows(request: &ApiRequest, below: Place, limit: i64) -> Result<Vec<AnyRow>, Problem> {
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.kind, t.nonce, t.value, t.selector, t.gas_limit, \
             t.gas_used, t.gas_price, t.max_fee, t.max_tip, t.succeeded, t.author, t.logs, t.time_ms, a.roles FROM \
             activity a JOIN transactions t ON t.place = a.place WHERE a.address = $1 AND a.place < $2 ORDER BY a.place \
             DESC LIMIT $3";
    let query = sql(text).bind(request.address()?.to_vec()).bind(below.0).bind(limit);
    Ok(query.fetch_all(request.app.database.readers()).await?)
}

/// Reads rows of [`Transfer`]s, newest first.
pub async fn transfer_rows(request: &ApiRequest, below: Place, limit: i64) -> Result<Vec<AnyRow>, Problem> {
    let text = "SELECT m.place, m.time_ms, m.token, m.sender, m.recipient, m.token_id, m.amount, k.name, k.symbol, \
             k.decimals, k.standard, t.hash FROM transfer_sides s JOIN transfers m ON m.place = s.place JOIN tokens k ON \
             k.address = m.token JOIN transactions t ON t.place = m.transaction_place WHERE s.address = $1 AND s.place < \
             $2 ORDER BY s.place DESC LIMIT $3";
    let query = sql(text).bind(request.address()?.to_vec()).bind(below.0).bind(limit);
    Ok(query.fetch_all(request.app.database.readers()).await?)
}

/// `/api/v1/accounts/{address}/transactions`
pub async fn transactions(request: ApiRequest) -> Result<Listing<Part>, Problem> {
    let limit = request.limit()?;
    let mut rows = part_rows(&request, request.below()?, limit + 1).await?;
    let next = cut(&mut rows, limit, "place")?;
    let transactions = transactions::of_rows(&request.app, &rows).await?;
    let part = |(row, transaction): (&AnyRow, Transaction)| -> Result<Part, DatabaseError> {
        Ok(Part { roles: roles(row.number("roles")?), transaction })
    };
    Ok(Listing { items: rows.iter().zip(transactions).map(part).collect::<Result<_, _>>()?, next })
}

/// Returns the names of the bits in `activity.roles`.
pub fn roles(roles: u64) -> Vec<String> {
    const WORDS: [(u64, &str); 6] = [
        (role::SENDER, "sender"),
        (role::RECIPIENT, "recipient"),
        (role::CREATED, "created"),
        (role::LOGGED, "logged"),
        (role::CALLED, "called"),
        (role::MOVED, "moved"),
    ];
    WORDS.iter().filter(|(bit, _)| roles & bit != 0).map(|(_, word)| (*word).to_owned()).collect()
}

/// `/api/v1/accounts/{address}/transfers`
pub async fn transfers(request: ApiRequest) -> Result<Listing<Transfer>, Problem> {
    let limit = request.limit()?;
    Listing::of(transfer_rows(&request, request.below()?, limit + 1).await?, limit, "place", Transfer::of)
}

/// `/api/v1/accounts/{address}/calls`
pub async fn calls(request: ApiRequest) -> Result<Listing<Call>, Problem> {
    let (address, below, limit) = (request.address()?, request.below()?, request.limit()?);
    let text = "SELECT c.place, c.depth, c.kind, c.sender, c.recipient, c.value, c.selector, c.gas_used, c.error, t.hash \
             FROM call_sides s JOIN calls c ON c.place = s.place JOIN transactions t ON t.place = c.transaction_place \
             WHERE s.address = $1 AND s.place < $2 ORDER BY s.place DESC LIMIT $3";
    let query = sql(text).bind(address.to_vec()).bind(below.0).bind(limit + 1);
    Listing::of(query.fetch_all(request.app.database.readers()).await?, limit, "place", Call::of)
}

/// `/api/v1/accounts/{address}/balances`
pub async fn balances(request: ApiRequest) -> Result<Listing<Balance>, Problem> {
    let (address, limit) = (request.address()?, request.limit()?);
    let after = request.cursor(&[20, 52])?.unwrap_or_default();
    let (token, id) = after.split_at_checked(20).unwrap_or_default();
    let text = "SELECT b.token, b.token_id, b.amount, k.name, k.symbol, k.decimals, k.standard FROM balances b JOIN tokens k ON k.address = \
                b.token WHERE b.holder = $1 AND (b.token, b.token_id) > ($2, $3) ORDER BY b.token, b.token_id LIMIT $4";
    let query = sql(text).bind(address.to_vec()).bind(token.to_vec()).bind(id.to_vec()).bind(limit + 1);
    let rows = query.fetch_all(request.app.database.readers()).await?;
    keyed(rows, limit, &["token", "token_id"], |row| {
        Ok(Balance {
            token: ChecksumAddress(row.address("token")?),
            name: row.text("name")?,
            symbol: row.text("symbol")?,
            decimals: row.number("decimals")?,
            standard: row.number("standard")?,
            token_id: token_id(row)?,
            amount: Amount(row.amount("amount")?),
        })
    })
}

/// `/api/v1/accounts/{address}/approvals`
pub async fn approvals(request: ApiRequest) -> Result<Listing<Approval>, Problem> {
    let (address, limit) = (request.address()?, request.limit()?);
    let after = request.cursor(&[40, 72])?.unwrap_or_default();
    let (token, after) = after.split_at_checked(20).unwrap_or_default();
    let (spender, id) = after.split_at_checked(20).unwrap_or_default();
    let text = "SELECT a.token, a.spender, a.token_id, a.amount, a.place, k.symbol, t.hash FROM approvals a JOIN transactions t ON t.place = \
                a.place LEFT JOIN tokens k ON k.address = a.token WHERE a.owner = $1 AND (a.token, a.spender, a.token_id) > ($2, $3, $4) \
                ORDER BY a.token, a.spender, a.token_id LIMIT $5";
    let query = sql(text).bind(address.to_vec()).bind(token.to_vec()).bind(spender.to_vec()).bind(id.to_vec()).bind(limit + 1);
    let rows = query.fetch_all(request.app.database.readers()).await?;
    keyed(rows, limit, &["token", "spender", "token_id"], |row| {
        Ok(Approval {
            token: ChecksumAddress(row.address("token")?),
            symbol: row.maybe_text("symbol")?,
            spender: ChecksumAddress(row.address("spender")?),
            token_id: token_id(row)?,
            amount: Amount(row.amount("amount")?),
            block: row.place("place")?.block(),
            transaction: row.hash("hash")?,
        })
    })
}

fn token_id(row: &AnyRow) -> Result<Option<Amount>, DatabaseError> {
    let id = row.bytes("token_id")?;
    Ok((!id.is_empty()).then(|| Amount(U256::from_be_slice(&id))))
}

/// Makes a page from `limit` + 1 rows that are sorted by the bytes of some columns.
pub fn keyed<T>(
    mut rows: Vec<AnyRow>,
    limit: i64,
    columns: &[&'static str],
    item: impl FnMut(&AnyRow) -> Result<T, DatabaseError>,
) -> Result<Listing<T>, Problem> {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let key = |row: &AnyRow| -> Result<String, DatabaseError> {
        let parts: Vec<_> = columns.iter().map(|column| row.bytes(column)).collect::<Result<_, _>>()?;
        Ok(hex::encode(parts.concat()))
    };
    let next = rows.last().filter(|_| more).map(key).transpose()?;
    Ok(Listing { items: rows.iter().map(item).collect::<Result<_, _>>()?, next })
}
