//! Tokens, their holders and transfers.

use super::{
    accounts::keyed,
    effects::Transfer,
    problem::Problem,
    request::{ApiRequest, Listing},
    schema::{Amount, ChecksumAddress, object},
};
use crate::database::{DatabaseError, Read, int, sql};
use alloy_primitives::Address;
use sqlx::any::AnyRow;

object! {
    /// A token, known by its events. All numbers are computed from the contract's own events.
    Token {
        /// Token contract.
        address: ChecksumAddress,
        /// Token standard: 20, 721 or 1155.
        standard: u64 = 20,
        /// Name of the token, from its contract; not verified.
        name: String,
        /// Symbol of the token, from its contract; not verified.
        symbol: String = "GLD",
        /// Decimals of the token's amounts.
        decimals: u64 = 18,
        /// Total supply in the smallest unit, over all ids: minted minus burned.
        supply: Amount,
        /// Number of accounts with a balance.
        holders: u64 = 12,
        /// Number of transfers.
        transfers: u64 = 340,
        /// Block of its first transfer.
        first_block: u64 = 7,
        /// False if its events transferred more than the sender had.
        consistent: bool,
    }
}

object! {
    /// A token holder.
    Holder {
        /// Address of the holder.
        address: ChecksumAddress,
        /// Balance in the smallest unit, over all ids.
        amount: Amount,
    }
}

/// `/api/v1/tokens`
pub async fn list(request: ApiRequest) -> Result<Listing<Token>, Problem> {
    let limit = request.limit()?;
    let cursor = request.cursor(&[28])?.unwrap_or_else(|| int(u64::MAX).to_be_bytes().to_vec());
    let (holders, address) = cursor.split_at(8);
    let holders = i64::from_be_bytes(holders.try_into().unwrap_or([0; 8]));
    let text = "SELECT * FROM tokens WHERE (holders, address) < ($1, $2) ORDER BY holders DESC, address DESC LIMIT $3";
    let query = sql(text).bind(holders).bind(address.to_vec()).bind(limit + 1);
    let mut rows = query.fetch_all(request.app.database.readers()).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let items: Vec<_> = rows.iter().map(Token::of).collect::<Result<_, _>>()?;
    let key = |token: &Token| format!("{}{}", super::request::at(int(token.holders)), hex::encode(token.address.0));
    Ok(Listing { next: items.last().filter(|_| more).map(key), items })
}

/// Finds the token of the request.
async fn find(request: &ApiRequest) -> Result<(Address, Token), Problem> {
    let address = request.address()?;
    let row = sql("SELECT * FROM tokens WHERE address = $1").bind(address.to_vec());
    let row = row.fetch_optional(request.app.database.readers()).await?;
    let row = row.ok_or_else(|| Problem::missing(format!("no token {address}: no transfer event in the indexed blocks")))?;
    Ok((address, Token::of(&row)?))
}

/// `/api/v1/tokens/{address}`
pub async fn show(request: ApiRequest) -> Result<Token, Problem> {
    Ok(find(&request).await?.1)
}

/// `/api/v1/tokens/{address}/transfers`
pub async fn transfers(request: ApiRequest) -> Result<Listing<Transfer>, Problem> {
    let ((address, _), below, limit) = (find(&request).await?, request.below()?, request.limit()?);
    let text = "SELECT m.place, m.time_ms, m.token, m.sender, m.recipient, m.token_id, m.amount, k.name, k.symbol, \
             k.decimals, k.standard, t.hash FROM transfers m JOIN tokens k ON k.address = m.token JOIN transactions t ON \
             t.place = m.transaction_place WHERE m.token = $1 AND m.place < $2 ORDER BY m.place DESC LIMIT $3";
    let query = sql(text).bind(address.to_vec()).bind(below.0).bind(limit + 1);
    Listing::of(query.fetch_all(request.app.database.readers()).await?, limit, "place", Transfer::of)
}

/// `/api/v1/tokens/{address}/holders`
pub async fn holders(request: ApiRequest) -> Result<Listing<Holder>, Problem> {
    let ((address, _), limit) = (find(&request).await?, request.limit()?);
    // Above every amount.
    let cursor = request.cursor(&[52])?.unwrap_or_else(|| vec![0xff; 52]);
    let (amount, holder) = cursor.split_at(32);
    let text = "SELECT amount, holder FROM balances WHERE token = $1 AND token_id = $2 AND (amount, holder) < ($3, $4) \
                ORDER BY amount DESC, holder DESC LIMIT $5";
    // The empty id selects the total of all ids.
    let query = sql(text).bind(address.to_vec()).bind(Vec::new()).bind(amount.to_vec()).bind(holder.to_vec()).bind(limit + 1);
    keyed(query.fetch_all(request.app.database.readers()).await?, limit, &["amount", "holder"], |row| {
        Ok(Holder { address: ChecksumAddress(row.address("holder")?), amount: Amount(row.amount("amount")?) })
    })
}

impl Token {
    fn of(row: &AnyRow) -> Result<Self, DatabaseError> {
        Ok(Self {
            address: ChecksumAddress(row.address("address")?),
            standard: row.number("standard")?,
            name: row.text("name")?,
            symbol: row.text("symbol")?,
            decimals: row.number("decimals")?,
            supply: Amount(row.amount("supply")?),
            holders: row.number("holders")?,
            transfers: row.number("transfers")?,
            first_block: row.number("first_block")?,
            consistent: row.int("consistent")? == 1,
        })
    }
}
