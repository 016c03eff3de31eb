//! Paginated histories. Pages are found by an index scan of at most [`MAX_SCANNED`] rows. A request that needs more
//! fails with a hint to ask for fewer blocks.

use super::{Answer, EtherscanError, Parameters, list};
use crate::{
    abi::KnownAbis,
    app_state::AppState,
    database::{DatabaseError, Place, Read, sql},
    indexer::digest::role,
};
use alloy_primitives::{Address, U256};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use sqlx::any::AnyRow;
use std::collections::BTreeMap;

/// Default and maximum rows of a page, and the most rows up to the end of the last page.
const MAX_ROWS: u64 = 1_000;
const MAX_RESULT_WINDOW: u64 = 10_000;

/// Maximum number of bytes of inputs in one response.
const MAX_INPUT_BYTES: usize = 8 << 20;

/// Number of rows that one query reads, and of queries of one request at a time. The rows of a history are on separate
/// pages, so that waiting for the disk is most of the time.
const AT_ONCE: usize = 16;
const QUERIES: usize = 4;

/// Maximum number of index rows of one request, and the smallest and largest number of rows of one step.
const MAX_SCANNED: u64 = 50_000;
const MIN_STEP: u64 = 64;
const STEP: u64 = 2_000;

/// The requested part of a history.
struct Window {
    /// Places from `from` up to but without `until`.
    from: i64,
    until: i64,
    newest_first: bool,
    skip: u64,
    rows: u64,
}

impl Window {
    fn of(parameters: &Parameters) -> Result<Self, EtherscanError> {
        let (start, end) = (parameters.number("startblock", 0)?, parameters.number("endblock", u64::MAX)?);
        // Tools count pages from 0 or from 1, and send 0 for the default.
        let page = parameters.number("page", 1)?.max(1);
        let rows = Some(parameters.number("offset", MAX_ROWS)?).filter(|rows| *rows > 0).unwrap_or(MAX_ROWS);
        if rows > MAX_ROWS {
            // A page shorter than requested would mean to tools that it is the last one.
            return Err(EtherscanError::rejected(format!(
                "Result window is too large, Offset size must be less than or equal to {MAX_ROWS}"
            )));
        }
        let skip = (page - 1).saturating_mul(rows);
        if skip.saturating_add(rows) > MAX_RESULT_WINDOW {
            let text =
                format!("Result window is too large, PageNo x Offset size must be less than or equal to {MAX_RESULT_WINDOW}");
            return Err(EtherscanError::rejected(text));
        }
        // The largest place is that of the last block with a valid place.
        let last = (i64::MAX >> 20) as u64 - 1;
        let (from, until) = (Place::first(start.min(last)).0, Place::first(end.min(last - 1) + 1).0);
        Ok(Self { from, until, newest_first: parameters.get("sort") == Some("desc"), skip, rows })
    }
}

/// An index scan: one query in both directions. Parameters: address, first place, end place, number of rows.
struct IndexScan {
    up: &'static str,
    down: &'static str,
}

/// Returns the places of a window for which `wanted` is true.
async fn scan(
    app: &AppState,
    index_scan: &IndexScan,
    key: &[u8],
    window: &Window,
    wanted: impl Fn(&AnyRow) -> Result<bool, DatabaseError>,
) -> Result<Vec<Place>, EtherscanError> {
    let (mut from, mut until, mut scanned) = (window.from, window.until, 0);
    // Usually every row is wanted. Where few are, the steps grow.
    let mut step = (window.skip + window.rows).clamp(MIN_STEP, STEP);
    let mut places = Vec::new();
    let text = if window.newest_first { index_scan.down } else { index_scan.up };
    // A scan of exactly [`MAX_SCANNED`] rows may be complete; only a further row shows that it is not.
    while scanned <= MAX_SCANNED {
        let query = sql(text).bind(key.to_vec()).bind(from).bind(until).bind(step as i64);
        let rows = query.fetch_all(app.database.readers()).await?;
        for row in &rows {
            if wanted(row)? {
                places.push(row.place("place")?);
            }
        }
        let last = rows.last().map(|row| row.place("place")).transpose()?;
        let enough = places.len() as u64 >= window.skip + window.rows;
        let Some(last) = last.filter(|_| !enough && rows.len() as u64 == step) else {
            let page = places.into_iter().skip(window.skip as usize).take(window.rows as usize);
            return Ok(page.collect());
        };
        if window.newest_first {
            until = last.0;
        } else {
            from = last.0 + 1;
        }
        scanned += step;
        step = (2 * step).min(STEP).min((MAX_SCANNED + 1).saturating_sub(scanned));
    }
    // Etherscan's message, including its spelling.
    Err(EtherscanError::rejected("Query Timeout occured. Please select a smaller result dataset"))
}

/// `txlist`
pub async fn transactions(app: &AppState, parameters: &Parameters) -> Answer {
    const OWN: u64 = role::SENDER | role::RECIPIENT | role::CREATED;
    let index_scan = IndexScan {
        up: "SELECT place, roles FROM activity WHERE address = $1 AND place >= $2 AND place < $3 ORDER BY place LIMIT $4",
        down: "SELECT place, roles FROM activity WHERE address = $1 AND place >= $2 AND place < $3 ORDER BY place DESC \
                 LIMIT $4",
    };
    let (address, window) = (parameters.address("address")?, Window::of(parameters)?);
    let places = scan(app, &index_scan, address.as_slice(), &window, |row| Ok(row.number("roles")? & OWN != 0)).await?;
    let text = "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.nonce, t.value, t.selector, t.gas_limit, t.gas_used, \
                t.cumulative_gas, t.gas_price, t.succeeded, t.time_ms, t.input, b.hash AS block_hash FROM transactions t JOIN blocks b ON \
                b.number = t.place >> 20 WHERE t.place IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) LIMIT 16";
    let rows = rows_at(app, text, &places).await?;
    let known = KnownAbis::methods_of(&app.database, &rows).await?;
    let head = head(app);
    let one = |row: &AnyRow| -> Result<Value, DatabaseError> {
        let (place, input) = (row.place("place")?, row.bytes("input")?);
        let succeeded = row.int("succeeded")? == 1;
        let method = row.selector("selector")?.and_then(|selector| known.method(selector)).unwrap_or_default();
        Ok(json!({
            "blockNumber": place.block().to_string(),
            "timeStamp": seconds(row)?,
            "hash": row.hash("hash")?,
            "nonce": row.number("nonce")?.to_string(),
            "blockHash": row.hash("block_hash")?,
            "transactionIndex": place.position().to_string(),
            "from": small(Some(row.address("sender")?)),
            "to": small(row.maybe_address("recipient")?),
            "value": row.amount("value")?.to_string(),
            "gas": row.number("gas_limit")?.to_string(),
            "gasPrice": row.number("gas_price")?.to_string(),
            "isError": if succeeded { "0" } else { "1" },
            "txreceipt_status": if succeeded { "1" } else { "0" },
            "input": format!("0x{}", hex::encode(&input)),
            "contractAddress": small(row.maybe_address("created")?),
            "cumulativeGasUsed": row.number("cumulative_gas")?.to_string(),
            "gasUsed": row.number("gas_used")?.to_string(),
            "confirmations": head.saturating_sub(place.block()).to_string(),
            "methodId": format!("0x{}", hex::encode(input.get(..4).unwrap_or_default())),
            "functionName": method,
        }))
    };
    list(rows.iter().map(one).collect::<Result<_, _>>()?)
}

/// `txlistinternal`
pub async fn calls(app: &AppState, parameters: &Parameters) -> Answer {
    let mut window = Window::of(parameters)?;
    let carries = |row: &AnyRow| Ok(["CALL", "CREATE", "CREATE2"].contains(&row.text("kind")?.as_str()));
    let places = if parameters.get("txhash").is_some() {
        let index_scan = IndexScan {
            up: "SELECT c.place, c.kind FROM transactions t JOIN calls c ON c.transaction_place = t.place WHERE t.hash = $1 AND c.place \
                 >= $2 AND c.place < $3 ORDER BY c.place LIMIT $4",
            down: "SELECT c.place, c.kind FROM transactions t JOIN calls c ON c.transaction_place = t.place WHERE t.hash = $1 AND c.place \
                 >= $2 AND c.place < $3 ORDER BY c.place DESC LIMIT $4",
        };
        let hash = parameters.hash("txhash")?;
        let row = sql("SELECT place FROM transactions WHERE hash = $1").bind(hash.to_vec());
        let row = row.fetch_optional(app.database.readers()).await?.ok_or(EtherscanError::Empty)?;
        // The calls are in the block of the transaction, which bounds the index scan.
        let block = row.place("place")?.block();
        (window.from, window.until) = (window.from.max(Place::first(block).0), window.until.min(Place::first(block + 1).0));
        scan(app, &index_scan, hash.as_slice(), &window, carries).await?
    } else {
        let index_scan = IndexScan {
            up: "SELECT s.place, c.kind FROM call_sides s JOIN calls c ON c.place = s.place WHERE s.address = $1 AND s.place \
                 >= $2 AND s.place < $3 ORDER BY s.place LIMIT $4",
            down: "SELECT s.place, c.kind FROM call_sides s JOIN calls c ON c.place = s.place WHERE s.address = $1 AND s.place \
                 >= $2 AND s.place < $3 ORDER BY s.place DESC LIMIT $4",
        };
        scan(app, &index_scan, parameters.address("address")?.as_slice(), &window, carries).await?
    };
    let text = "SELECT c.place, c.kind, c.sender, c.recipient, c.value, c.gas_used, c.error, t.hash, t.time_ms FROM calls c JOIN \
                transactions t ON t.place = c.transaction_place WHERE c.place IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
                $14, $15, $16) ORDER BY c.place LIMIT 16";
    let rows = rows_at(app, text, &places).await?;
    list(rows.iter().map(call).collect::<Result<_, _>>()?)
}

fn call(row: &AnyRow) -> Result<Value, DatabaseError> {
    let (place, kind, error) = (row.place("place")?, row.text("kind")?, row.maybe_text("error")?);
    let (to, makes) = (row.maybe_address("recipient")?, kind != "CALL");
    Ok(json!({
        "blockNumber": place.block().to_string(),
        "timeStamp": seconds(row)?,
        "hash": row.hash("hash")?,
        "from": small(Some(row.address("sender")?)),
        "to": small(to.filter(|_| !makes)),
        "value": row.amount("value")?.to_string(),
        "contractAddress": small(to.filter(|_| makes)),
        "input": "",
        "type": kind.to_lowercase(),
        "gas": "0",
        "gasUsed": row.number("gas_used")?.to_string(),
        "traceId": place.position().to_string(),
        "isError": if error.is_some() { "1" } else { "0" },
        "errCode": error.unwrap_or_default(),
    }))
}

/// `tokentx`
pub async fn erc20(app: &AppState, parameters: &Parameters) -> Answer {
    transfers(app, parameters, 20).await
}

/// `tokennfttx`
pub async fn erc721(app: &AppState, parameters: &Parameters) -> Answer {
    transfers(app, parameters, 721).await
}

/// `token1155tx`
pub async fn erc1155(app: &AppState, parameters: &Parameters) -> Answer {
    transfers(app, parameters, 1155).await
}

async fn transfers(app: &AppState, parameters: &Parameters, standard: u64) -> Answer {
    let window = Window::of(parameters)?;
    let (account, token) = (parameters.maybe_address("address")?, parameters.maybe_address("contractaddress")?);
    let (index_scan, key) = match (account, token) {
        (Some(account), _) => {
            let index_scan = IndexScan {
                up: "SELECT s.place, m.token, k.standard FROM transfer_sides s JOIN transfers m ON m.place = s.place JOIN tokens \
                 k ON k.address = m.token WHERE s.address = $1 AND s.place >= $2 AND s.place < $3 ORDER BY s.place LIMIT $4",
                down: "SELECT s.place, m.token, k.standard FROM transfer_sides s JOIN transfers m ON m.place = s.place JOIN tokens \
                 k ON k.address = m.token WHERE s.address = $1 AND s.place >= $2 AND s.place < $3 ORDER BY s.place DESC LIMIT \
                 $4",
            };
            (index_scan, account)
        }
        (None, Some(token)) => {
            let index_scan = IndexScan {
                up: "SELECT m.place, m.token, k.standard FROM transfers m JOIN tokens k ON k.address = m.token WHERE m.token = $1 \
                 AND m.place >= $2 AND m.place < $3 ORDER BY m.place LIMIT $4",
                down: "SELECT m.place, m.token, k.standard FROM transfers m JOIN tokens k ON k.address = m.token WHERE m.token = $1 \
                 AND m.place >= $2 AND m.place < $3 ORDER BY m.place DESC LIMIT $4",
            };
            (index_scan, token)
        }
        (None, None) => return Err(EtherscanError::rejected("Error! Missing address or contract address")),
    };
    let places = scan(app, &index_scan, key.as_slice(), &window, |row| {
        let token = token.map(|token| Ok::<_, DatabaseError>(row.address("token")? == token)).transpose()?;
        Ok(row.number("standard")? == standard && token.unwrap_or(true))
    });
    let text = "SELECT m.place, m.token, m.sender, m.recipient, m.token_id, m.amount, m.time_ms, m.transaction_place, k.name, k.symbol, \
                k.decimals, t.hash, t.nonce, t.gas_limit, t.gas_price, t.gas_used, t.cumulative_gas, b.hash AS block_hash FROM transfers m \
                JOIN tokens k ON k.address = m.token JOIN transactions t ON t.place = m.transaction_place JOIN blocks b ON b.number = \
                m.place >> 20 WHERE m.place IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) LIMIT 16";
    let rows = rows_at(app, text, &places.await?).await?;
    let head = head(app);
    list(rows.iter().map(|row| transfer(row, standard, head)).collect::<Result<_, _>>()?)
}

fn transfer(row: &AnyRow, standard: u64, head: u64) -> Result<Value, DatabaseError> {
    let (place, transaction) = (row.place("place")?, row.place("transaction_place")?);
    let mut transfer = json!({
        "blockNumber": place.block().to_string(),
        "timeStamp": seconds(row)?,
        "hash": row.hash("hash")?,
        "nonce": row.number("nonce")?.to_string(),
        "blockHash": row.hash("block_hash")?,
        "from": small(Some(row.address("sender")?)),
        "contractAddress": small(Some(row.address("token")?)),
        "to": small(Some(row.address("recipient")?)),
        "tokenName": row.text("name")?,
        "tokenSymbol": row.text("symbol")?,
        "tokenDecimal": row.number("decimals")?.to_string(),
        "transactionIndex": transaction.position().to_string(),
        "gas": row.number("gas_limit")?.to_string(),
        "gasPrice": row.number("gas_price")?.to_string(),
        "gasUsed": row.number("gas_used")?.to_string(),
        "cumulativeGasUsed": row.number("cumulative_gas")?.to_string(),
        "input": "deprecated",
        "confirmations": head.saturating_sub(place.block()).to_string(),
    });
    let amount = row.amount("amount")?.to_string();
    let id = row.maybe_bytes("token_id")?.map(|id| U256::from_be_slice(&id).to_string());
    match standard {
        20 => transfer["value"] = json!(amount),
        721 => transfer["tokenID"] = json!(id),
        _ => (transfer["tokenID"], transfer["tokenValue"]) = (json!(id), json!(amount)),
    }
    Ok(transfer)
}

/// Reads the row of each place, with queries for [`AT_ONCE`] of them. Inputs are served whole, so their total size is
/// limited.
async fn rows_at(app: &AppState, text: &'static str, places: &[Place]) -> Result<Vec<AnyRow>, EtherscanError> {
    // No row has this place.
    const NONE: Place = Place(-1);
    let mut queries = Vec::new();
    for places in places.chunks(AT_ONCE) {
        let asked = places.iter().chain(std::iter::repeat(&NONE)).take(AT_ONCE);
        queries.push(asked.fold(sql(text), |query, place| query.bind(place.0)).fetch_all(app.database.readers()).boxed());
    }
    let mut answers = stream::iter(queries).buffered(QUERIES);
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    while let Some(rows) = answers.try_next().await? {
        for row in rows {
            bytes += row.bytes("input").map_or(0, |input| input.len());
            found.insert(row.place("place")?, row);
        }
        if bytes > MAX_INPUT_BYTES {
            return Err(EtherscanError::rejected(
                "These transactions' inputs are too large for one response. Please select a smaller result dataset",
            ));
        }
    }
    Ok(places.iter().filter_map(|place| found.remove(place)).collect())
}

fn head(app: &AppState) -> u64 {
    app.status().indexed.map_or(0, |(number, _)| number)
}

fn seconds(row: &AnyRow) -> Result<String, DatabaseError> {
    Ok((row.number("time_ms")? / 1_000).to_string())
}

/// Formats an address in lower case, as Etherscan does; empty for `None`.
fn small(address: Option<Address>) -> String {
    address.map(|address| format!("{address:#x}")).unwrap_or_default()
}
