//! Applies a group of blocks to the token balances in the database.

use super::{
    digest::Digest,
    events::{Standard, TokenEvent},
    ledger::{Ledger, Sums, touched},
};
use crate::{
    clock::DAY_MS,
    database::{DatabaseError, Keys, Read, Rows, amount, sql},
};
use alloy_primitives::{Address, U256};
use sqlx::AnyConnection;
use std::collections::{BTreeMap, BTreeSet};

/// Balances and totals of tokens after a group of blocks.
pub struct TokenBalances {
    /// Balances and totals.
    pub ledger: Ledger,
    /// Number of transfers by token and day, and the supply after the last one.
    pub days: BTreeMap<(Address, u64), (u64, U256)>,
}

/// Loads balances and totals from before these blocks and applies the blocks to them.
pub async fn apply(connection: &mut AnyConnection, digests: &[Digest]) -> Result<TokenBalances, DatabaseError> {
    let mut ledger = before(connection, digests).await?;
    let mut days = BTreeMap::new();
    for digest in digests {
        for (_, moved) in &digest.token_events {
            ledger.apply(moved);
            let TokenEvent::Transfer { token, .. } = moved else { continue };
            let day: &mut (u64, U256) = days.entry((*token, digest.time_ms / DAY_MS)).or_default();
            *day = (day.0 + 1, ledger.sums().get(token).map_or(U256::ZERO, |sums| sums.supply));
        }
    }
    Ok(TokenBalances { ledger, days })
}

/// Loads the balances and totals that these blocks touch.
async fn before(connection: &mut AnyConnection, digests: &[Digest]) -> Result<Ledger, DatabaseError> {
    let moved = || digests.iter().flat_map(|digest| digest.token_events.iter().map(|(_, moved)| moved));
    // Includes tokens without a touched balance: a transfer from zero to zero touches none, but counts.
    let names = moved().filter_map(|moved| match moved {
        TokenEvent::Transfer { token, .. } => Some(*token),
        TokenEvent::Approval { .. } => None,
    });
    let mut tokens = Keys::new("tokens", &["address"]);
    names.collect::<BTreeSet<_>>().into_iter().for_each(|token| tokens.push([token.into()]));
    let mut balances = Keys::new("balances", &["token", "holder", "token_id"]);
    for (token, holder, id) in touched(moved()) {
        balances.push([token.into(), holder.into(), id_bytes(id).into()]);
    }
    let mut ledger = Ledger::default();
    for row in balances.read(connection, &["token", "holder", "token_id", "amount"]).await? {
        let id = Some(row.amount("token_id")?).filter(|_| row.bytes("token_id").is_ok_and(|id| !id.is_empty()));
        ledger.load((row.address("token")?, row.address("holder")?, id), row.amount("amount")?);
    }
    for row in tokens.read(connection, &["address", "standard", "supply", "holders", "transfers", "consistent"]).await? {
        let standard = match row.number("standard")? {
            721 => Standard::Erc721,
            1155 => Standard::Erc1155,
            _ => Standard::Erc20,
        };
        let sums = Sums {
            standard,
            supply: row.amount("supply")?,
            holders: row.number("holders")?,
            transfers: row.number("transfers")?,
            consistent: row.number("consistent")? == 1,
        };
        ledger.load_sums(row.address("address")?, sums);
    }
    Ok(ledger)
}

impl TokenBalances {
    /// Writes the changed balances. Deletes zero balances.
    pub async fn write_balances(&self, connection: &mut AnyConnection) -> Result<(), DatabaseError> {
        let columns = &["token", "holder", "token_id", "amount"];
        let conflict = "(token, holder, token_id) DO UPDATE SET amount = excluded.amount";
        let mut balances = Rows::or("balances", columns, conflict);
        for ((token, holder, id), amount) in self.ledger.changes() {
            if amount.is_zero() {
                let text = "DELETE FROM balances WHERE token = $1 AND holder = $2 AND token_id = $3";
                let delete = sql(text).bind(token.to_vec()).bind(holder.to_vec()).bind(id_bytes(id));
                delete.execute(&mut *connection).await?;
            } else {
                balances.push([token.into(), holder.into(), id_bytes(id).into(), amount.into()]);
            }
        }
        balances.write(connection).await
    }
}

/// Encodes a token id for the database; empty for `None`.
pub(super) fn id_bytes(id: Option<U256>) -> Vec<u8> {
    id.map(amount).unwrap_or_default()
}
