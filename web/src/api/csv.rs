//! An account's history as CSV files for spreadsheets (RFC 4180). Rows are read from the database and sent in bounded
//! chunks.
//!
//! Symbols and names are untrusted, and a spreadsheet evaluates text that looks like a formula. Such text gets an
//! apostrophe as prefix, which spreadsheets treat as a text marker.

use super::{
    accounts::{part_rows, roles, transfer_rows},
    effects::Transfer,
    problem::Problem,
    request::{ApiRequest, at},
    schema::ChecksumAddress,
    transactions::{Transaction, of_rows},
};
use crate::{
    database::{Place, Read},
    format,
};
use alloy_primitives::U256;
use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures::{StreamExt, future::BoxFuture, stream};

/// Maximum number of rows of a file, and rows of a chunk.
pub const MAX_ROWS: u64 = 50_000;
const PIECE: i64 = 500;

/// Columns of a file of transactions.
pub const TRANSACTIONS: &[&str] = &[
    "time",
    "block",
    "position",
    "hash",
    "roles",
    "result",
    "from",
    "to",
    "created",
    "method",
    "value",
    "fee",
    "value_wei",
    "fee_wei",
    "gas_used",
    "nonce",
];

/// Columns of a file of transfers.
pub const TRANSFERS: &[&str] = &[
    "time",
    "block",
    "transaction",
    "direction",
    "from",
    "to",
    "amount",
    "symbol",
    "token",
    "standard",
    "token_id",
    "amount_in_smallest_unit",
    "decimals",
];

/// Rows of a chunk and the place of the last row.
type Piece = Result<(Vec<Vec<String>>, Option<Place>), Problem>;

/// Reads at most this many rows below a place.
type Reader = fn(&ApiRequest, Place, i64) -> BoxFuture<'_, Piece>;

/// `/api/v1/accounts/{address}/transactions.csv`
pub async fn transactions(request: ApiRequest) -> Result<Response, Problem> {
    file(request, "transactions", TRANSACTIONS, |request, below, limit| Box::pin(transaction_rows(request, below, limit)))
}

/// `/api/v1/accounts/{address}/transfers.csv`
pub async fn transfers(request: ApiRequest) -> Result<Response, Problem> {
    file(request, "transfers", TRANSFERS, |request, below, limit| Box::pin(moved_rows(request, below, limit)))
}

async fn transaction_rows(request: &ApiRequest, below: Place, limit: i64) -> Piece {
    let rows = part_rows(request, below, limit).await?;
    let last = rows.last().map(|row| row.place("place")).transpose()?;
    let transactions = of_rows(&request.app, &rows).await?;
    let line = |(row, transaction): (&sqlx::any::AnyRow, Transaction)| {
        let address = |address: Option<ChecksumAddress>| address.map(|address| address.0.to_string()).unwrap_or_default();
        Ok(vec![
            format::iso(transaction.time_ms),
            transaction.block.to_string(),
            transaction.position.to_string(),
            transaction.hash.to_string(),
            roles(row.number("roles")?).join(" "),
            if transaction.succeeded { "succeeded" } else { "reverted" }.to_owned(),
            address(Some(transaction.from)),
            address(transaction.to),
            address(transaction.created),
            transaction.method.unwrap_or_default(),
            plain(transaction.value.0, format::COIN_DECIMALS),
            plain(transaction.fee.0, format::COIN_DECIMALS),
            transaction.value.0.to_string(),
            transaction.fee.0.to_string(),
            transaction.gas_used.to_string(),
            transaction.nonce.to_string(),
        ])
    };
    Ok((rows.iter().zip(transactions).map(line).collect::<Result<_, Problem>>()?, last))
}

async fn moved_rows(request: &ApiRequest, below: Place, limit: i64) -> Piece {
    let address = request.address()?;
    let rows = transfer_rows(request, below, limit).await?;
    let last = rows.last().map(|row| row.place("place")).transpose()?;
    let line = |row: &sqlx::any::AnyRow| {
        let transfer = Transfer::of(row)?;
        let direction = match (transfer.from.0 == address, transfer.to.0 == address) {
            (true, true) => "self",
            (true, false) => "out",
            _ => "in",
        };
        Ok(vec![
            format::iso(transfer.time_ms),
            transfer.block.to_string(),
            transfer.transaction.to_string(),
            direction.to_owned(),
            transfer.from.0.to_string(),
            transfer.to.0.to_string(),
            plain(transfer.amount.0, transfer.decimals),
            transfer.symbol,
            transfer.token.0.to_string(),
            transfer.standard.to_string(),
            transfer.token_id.map(|id| id.0.to_string()).unwrap_or_default(),
            transfer.amount.0.to_string(),
            transfer.decimals.to_string(),
        ])
    };
    Ok((rows.iter().map(line).collect::<Result<_, Problem>>()?, last))
}

/// Formats an amount without thousands separators.
fn plain(amount: U256, decimals: u64) -> String {
    format::amount(amount, decimals).replace(',', "")
}

/// State of a download.
struct Progress {
    request: ApiRequest,
    below: Place,
    sent: u64,
    read: Reader,
}

fn file(request: ApiRequest, name: &str, columns: &[&str], read: Reader) -> Result<Response, Problem> {
    let (address, below) = (request.address()?, request.below()?);
    let disposition = format!("attachment; filename=\"{name}-{address}.csv\"");
    let head = line(columns.iter().copied());
    let progress = Progress { request, below, sent: 0, read };
    let pieces = stream::unfold(Some(progress), |progress| async move {
        let (piece, progress) = piece(progress?).await;
        Some((piece, progress))
    });
    // The compression layer polls once more after the end; without `fuse`, `unfold` would panic.
    let body = stream::iter([Ok(Bytes::from(head))]).chain(pieces).fuse();
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present".to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Reads the next chunk. An error aborts the response, so that the client does not take it for complete.
async fn piece(mut progress: Progress) -> (Result<Bytes, std::io::Error>, Option<Progress>) {
    let left = MAX_ROWS - progress.sent;
    let wanted = PIECE.min(left as i64);
    let rows = match (progress.read)(&progress.request, progress.below, wanted).await {
        Ok(rows) => rows,
        Err(problem) => return (Err(std::io::Error::other(problem.message)), None),
    };
    let (rows, last) = rows;
    progress.sent += rows.len() as u64;
    let mut text: String = rows.iter().map(|row| line(row.iter().map(String::as_str))).collect();
    let Some(last) = last.filter(|_| rows.len() as i64 == wanted) else { return (Ok(text.into()), None) };
    progress.below = last;
    if progress.sent < MAX_ROWS {
        return (Ok(text.into()), Some(progress));
    }
    // One further row shows that the file is truncated.
    match (progress.read)(&progress.request, last, 1).await {
        Ok((more, _)) if !more.is_empty() => {
            let notice = format!("truncated after {MAX_ROWS} rows: request the next rows with cursor={}", at(last.0));
            text += &line([notice.as_str()].into_iter());
            (Ok(text.into()), None)
        }
        Ok(_) => (Ok(text.into()), None),
        Err(problem) => (Err(std::io::Error::other(problem.message)), None),
    }
}

/// Formats a line of a file.
fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<_> = cells.map(cell).collect();
    cells.join(",") + "\r\n"
}

/// Formats a cell: escapes formulas, and quotes where necessary.
fn cell(text: &str) -> String {
    let harmless = match text.trim_start().chars().next() {
        Some('=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | '|' | '%') => format!("'{text}"),
        _ if text.starts_with(['\t', '\r', '\n']) => format!("'{text}"),
        _ => text.to_owned(),
    };
    match harmless.contains(['"', ',', '\r', '\n', ';', '\t', '\'']) {
        true => format!("\"{}\"", harmless.replace('"', "\"\"")),
        false => harmless,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_cells_are_escaped() {
        for (text, expected) in [
            ("Gold", "Gold"),
            ("", ""),
            ("1.5", "1.5"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\r\nb", "\"a\r\nb\""),
            ("=1+1", "\"'=1+1\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            (" =1", "\"' =1\""),
            ("\t=1", "\"'\t=1\""),
            ("＝1", "\"'＝1\""),
            ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""),
        ] {
            assert_eq!(cell(text), expected, "{text}");
        }
        assert_eq!(line(["a", "=b"].into_iter()), "a,\"'=b\"\r\n");
    }
}
