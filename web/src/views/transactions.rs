//! Transactions without execution.

use super::Failure;
use crate::{
    app_state::AppState,
    database::{DatabaseError, sql},
    format,
    texts::lookup,
};
use alloy_primitives::B256;
use sqlx::any::AnyRow;

/// Returns the newest block that ordered the transaction without executing it, with the reason.
pub async fn skip(app: &AppState, hash: B256) -> Result<Option<AnyRow>, DatabaseError> {
    let text = "SELECT block, reason FROM skipped WHERE hash = $1 ORDER BY block DESC LIMIT 1";
    Ok(sql(text).bind(hash.to_vec()).fetch_optional(app.database.readers()).await?)
}

/// Error for a transaction that the database does not contain. If the node did not respond, it may still know the transaction.
pub fn unknown(app: &AppState, hash: B256, has_answered: bool) -> Failure {
    let newest = format::number(app.status().indexed.map_or(0, |(number, _)| number));
    match has_answered {
        true => Failure::NotFound(lookup::no_transaction(hash, &newest)),
        false => Failure::Away(lookup::transaction_unknown(hash, &newest)),
    }
}
