//! Writes digested blocks. Each group is written in one transaction together with the new tip, so that after a crash a
//! block is either complete or absent.

use super::{
    contracts::{self, Code},
    digest::Digest,
    events::{Standard, TokenEvent},
    token_balances::{self, TokenBalances, id_bytes},
    tokens::{self, TokenMetadata},
};
use crate::{
    abi::parse_abi,
    clock::DAY_MS,
    database::{DatabaseError, Keys, Place, Read, Rows, Value, amount, int, sql},
};
use alloy_primitives::{Address, B256, U256};
use sqlx::{AnyConnection, Connection};
use std::collections::{BTreeMap, BTreeSet};

/// The newest block in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
}

/// Data about a group of blocks that the node was asked for in addition.
#[derive(Debug, Default)]
pub struct FetchedMetadata {
    /// Metadata of new tokens.
    pub tokens: BTreeMap<Address, TokenMetadata>,
    /// Code of new contracts, as of now.
    pub contracts: BTreeMap<Address, Code>,
}

/// Tokens and contracts that the node must be asked about before a group is written.
#[derive(Debug, Default)]
pub struct MissingMetadata {
    /// Tokens without a row.
    pub tokens: Vec<Address>,
    /// Contracts without a row.
    pub contracts: Vec<Address>,
}

/// Returns the newest indexed block.
pub async fn tip(connection: &mut AnyConnection) -> Result<Option<Tip>, DatabaseError> {
    let row = sql("SELECT number, hash FROM blocks ORDER BY number DESC LIMIT 1").fetch_optional(connection).await?;
    row.map(|row| Ok(Tip { number: row.number("number")?, hash: row.hash("hash")? })).transpose()
}

/// Returns the hash of an indexed block.
pub async fn hash_of(connection: &mut AnyConnection, number: u64) -> Result<Option<B256>, DatabaseError> {
    let row = sql("SELECT hash FROM blocks WHERE number = $1").bind(int(number)).fetch_optional(connection).await?;
    row.map(|row| row.hash("hash")).transpose()
}

/// Returns the time of an indexed block in Unix milliseconds.
pub async fn time_of(connection: &mut AnyConnection, number: u64) -> Result<u64, DatabaseError> {
    let row = sql("SELECT time_ms FROM blocks WHERE number = $1").bind(int(number)).fetch_one(connection).await?;
    row.number("time_ms")
}

/// Returns a value of `meta`.
pub async fn meta(connection: &mut AnyConnection, key: &'static str) -> Result<Option<String>, DatabaseError> {
    let row = sql("SELECT value FROM meta WHERE key = $1").bind(key.to_owned()).fetch_optional(connection).await?;
    row.map(|row| row.text("value")).transpose()
}

/// Sets a value of `meta`.
pub async fn set_meta(connection: &mut AnyConnection, key: &'static str, value: String) -> Result<(), DatabaseError> {
    let text = "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    sql(text).bind(key.to_owned()).bind(value).execute(connection).await?;
    Ok(())
}

/// Returns the tokens and contracts of these blocks that have no row yet.
pub async fn missing_metadata(connection: &mut AnyConnection, digests: &[Digest]) -> Result<MissingMetadata, DatabaseError> {
    let mut tokens = BTreeSet::new();
    let mut contracts = BTreeSet::new();
    for digest in digests {
        tokens.extend(digest.token_events.iter().filter_map(|(_, moved)| match moved {
            TokenEvent::Transfer { token, .. } => Some(*token),
            TokenEvent::Approval { .. } => None,
        }));
        contracts.extend(&digest.loggers);
        contracts.extend(digest.created.iter().map(|(address, ..)| *address));
    }
    Ok(MissingMetadata {
        tokens: without_row(connection, "tokens", tokens).await?,
        contracts: without_row(connection, "contracts", contracts).await?,
    })
}

async fn without_row(
    connection: &mut AnyConnection,
    table: &'static str,
    mut addresses: BTreeSet<Address>,
) -> Result<Vec<Address>, DatabaseError> {
    let mut keys = Keys::new(table, &["address"]);
    addresses.iter().for_each(|address| keys.push([(*address).into()]));
    for row in keys.read(connection, &["address"]).await? {
        addresses.remove(&row.address("address")?);
    }
    Ok(addresses.into_iter().collect())
}

/// Writes a group of blocks that extend the tip.
pub async fn write(
    connection: &mut AnyConnection,
    digests: Vec<Digest>,
    metadata: &FetchedMetadata,
) -> Result<(), DatabaseError> {
    let mut transaction = connection.begin().await?;
    let token_balances = token_balances::apply(&mut transaction, &digests).await?;
    token_balances.write_balances(&mut transaction).await?;
    write_tokens(&mut transaction, &digests, token_balances, metadata).await?;
    write_contracts(&mut transaction, &digests, metadata).await?;
    let new_accounts = write_accounts(&mut transaction, &digests).await?;
    write_days(&mut transaction, &digests, &new_accounts).await?;
    write_approvals(&mut transaction, &digests).await?;
    let mut tables: BTreeMap<&'static str, Rows> = BTreeMap::new();
    for rows in digests.into_iter().flat_map(|digest| digest.rows) {
        match tables.get_mut(rows.table()) {
            Some(all) => all.append(rows),
            None => _ = tables.insert(rows.table(), rows),
        }
    }
    for rows in tables.into_values() {
        rows.write(&mut transaction).await?;
    }
    transaction.commit().await?;
    Ok(())
}

async fn write_tokens(
    connection: &mut AnyConnection,
    digests: &[Digest],
    token_balances: TokenBalances,
    metadata: &FetchedMetadata,
) -> Result<(), DatabaseError> {
    let mut first_seen = BTreeMap::new();
    for digest in digests {
        for (_, moved) in &digest.token_events {
            let TokenEvent::Transfer { token, .. } = moved else { continue };
            first_seen.entry(*token).or_insert(digest.number);
        }
    }
    let columns = &[
        "address",
        "standard",
        "name",
        "symbol",
        "name_key",
        "symbol_key",
        "decimals",
        "supply",
        "holders",
        "transfers",
        "first_block",
        "consistent",
    ];
    let conflict = "(address) DO UPDATE SET supply = excluded.supply, holders = excluded.holders, transfers = excluded.transfers, \
                    consistent = excluded.consistent";
    let mut rows = Rows::or("tokens", columns, conflict);
    for (token, sums) in token_balances.ledger.sums() {
        // An existing row keeps its name.
        let name = metadata.tokens.get(token).cloned().unwrap_or_default();
        // Tokens with ids are counted in pieces; the contract's `decimals()` is ignored.
        let decimals = if sums.standard == Standard::Erc20 { name.decimals } else { 0 };
        rows.push([
            (*token).into(),
            sums.standard.number().into(),
            name.name.clone().into(),
            name.symbol.clone().into(),
            tokens::key(&name.name).into(),
            tokens::key(&name.symbol).into(),
            decimals.into(),
            sums.supply.into(),
            sums.holders.into(),
            sums.transfers.into(),
            first_seen.get(token).copied().unwrap_or_default().into(),
            sums.consistent.into(),
        ]);
    }
    rows.write(connection).await?;

    let conflict = "(token, day) DO UPDATE SET transfers = token_days.transfers + excluded.transfers, supply = excluded.supply";
    let mut days = Rows::or("token_days", &["token", "day", "transfers", "supply"], conflict);
    for ((token, day), (transfers, supply)) in token_balances.days {
        days.push([token.into(), day.into(), transfers.into(), supply.into()]);
    }
    days.write(connection).await
}

async fn write_contracts(
    connection: &mut AnyConnection,
    digests: &[Digest],
    metadata: &FetchedMetadata,
) -> Result<(), DatabaseError> {
    let made: BTreeMap<_, _> =
        digests.iter().flat_map(|digest| &digest.created).map(|(address, by, place)| (*address, (*by, *place))).collect();
    for (address, code) in &metadata.contracts {
        let (creator, place) = made.get(address).copied().unzip();
        write_contract(connection, *address, creator, place, code).await?;
    }
    Ok(())
}

/// Writes a contract, unless it has a row already.
pub async fn write_contract(
    connection: &mut AnyConnection,
    address: Address,
    creator: Option<Address>,
    place: Option<Place>,
    code: &Code,
) -> Result<(), DatabaseError> {
    let columns = &["address", "creator", "transaction_place", "code_hash", "code_bytes", "abi", "abi_source", "facts"];
    let mut rows = Rows::or("contracts", columns, "(address) DO NOTHING");
    let source = if code.abi.is_empty() { "" } else { "module" };
    let facts = serde_json::to_string(&code.facts).unwrap_or_default();
    rows.push([
        address.into(),
        creator.into(),
        place.into(),
        code.hash.into(),
        code.bytes.into(),
        code.abi.clone().into(),
        source.to_owned().into(),
        facts.into(),
    ]);
    rows.write(connection).await?;
    write_names(connection, &code.abi).await
}

/// Writes the signatures of an ABI.
pub async fn write_names(connection: &mut AnyConnection, abi: &str) -> Result<(), DatabaseError> {
    let mut rows = Rows::or("selectors", &["selector", "signature", "name_key"], "DO NOTHING");
    for (selector, signature, name) in parse_abi(abi).iter().flat_map(contracts::names) {
        rows.push([selector.into(), signature.into(), tokens::key(&name).into()]);
    }
    rows.write(connection).await
}

/// Adds to the accounts' transaction counts. Returns the number of new accounts for each block.
async fn write_accounts(connection: &mut AnyConnection, digests: &[Digest]) -> Result<Vec<u64>, DatabaseError> {
    let mut sums: BTreeMap<Address, (usize, u64)> = BTreeMap::new();
    for (at, digest) in digests.iter().enumerate() {
        for (address, transactions) in &digest.accounts {
            sums.entry(*address).or_insert((at, 0)).1 += transactions;
        }
    }
    let conflict = "(address) DO UPDATE SET transactions = accounts.transactions + excluded.transactions";
    let mut rows = Rows::or("accounts", &["address", "first_block", "transactions"], conflict);
    for (address, (at, transactions)) in sums {
        rows.push([address.into(), digests[at].number.into(), transactions.into()]);
    }
    let mut new = vec![0; digests.len()];
    let Some(first) = digests.first().map(|digest| digest.number) else { return Ok(new) };
    for row in rows.write_and_read(connection, "first_block").await? {
        // An existing account keeps its first block, which is earlier than these.
        let seen = row.number("first_block")?.checked_sub(first).and_then(|at| new.get_mut(at as usize));
        seen.into_iter().for_each(|new| *new += 1);
    }
    Ok(new)
}

async fn write_days(connection: &mut AnyConnection, digests: &[Digest], new_accounts: &[u64]) -> Result<(), DatabaseError> {
    // A header may contain any amount of gas. On overflow SQLite switches to floating point, and PostgreSQL fails.
    let conflict = "(day) DO UPDATE SET blocks = days.blocks + excluded.blocks, transactions = days.transactions + excluded.transactions, \
                    failed = days.failed + excluded.failed, skipped = days.skipped + excluded.skipped, gas_used = CASE WHEN \
                    days.gas_used > 9223372036854775807 - excluded.gas_used THEN 9223372036854775807 ELSE days.gas_used + \
                    excluded.gas_used END, transfers = days.transfers + excluded.transfers, contracts = days.contracts + excluded.contracts, \
                    new_accounts = days.new_accounts + excluded.new_accounts";
    let columns = &["day", "blocks", "transactions", "failed", "skipped", "gas_used", "transfers", "contracts", "new_accounts"];
    let mut days: BTreeMap<u64, [u64; 8]> = BTreeMap::new();
    let mut validators: BTreeMap<(u64, u64), [u64; 3]> = BTreeMap::new();
    for (digest, new_accounts) in digests.iter().zip(new_accounts) {
        let day = digest.time_ms / DAY_MS;
        let transfers = digest.token_events.iter().filter(|(_, moved)| matches!(moved, TokenEvent::Transfer { .. })).count();
        let counts = [
            1,
            digest.transactions,
            digest.failed,
            digest.skipped,
            digest.gas_used,
            transfers as u64,
            digest.created.len() as u64,
            *new_accounts,
        ];
        days.entry(day).or_default().iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
        // Clamped as in the database, because PostgreSQL rejects two updates of one row in a statement.
        let held = |validator: u64| int(validator) as u64;
        if let Some(leader) = digest.leader {
            validators.entry((held(leader), day)).or_default()[0] += 1;
        }
        for (author, (batches, transactions)) in &digest.by_author {
            let record = validators.entry((held(*author), day)).or_default();
            record[1] += batches;
            record[2] += transactions;
        }
    }
    let mut rows = Rows::or("days", columns, conflict);
    for (day, [blocks, transactions, failed, skipped, gas_used, transfers, contracts, new_accounts]) in days {
        let counts = [day, blocks, transactions, failed, skipped, gas_used, transfers, contracts, new_accounts];
        rows.push(counts.map(Value::from));
    }
    rows.write(connection).await?;
    let mut rows = validator_rows();
    for ((validator, day), [led, batches, transactions]) in validators {
        rows.push([validator, day, led, batches, transactions, 0, 0].map(Value::from));
    }
    rows.write(connection).await
}

/// Returns rows whose conflict clause adds to validators' records.
pub fn validator_rows() -> Rows {
    let conflict = "(validator, day) DO UPDATE SET led = validator_days.led + excluded.led, batches = validator_days.batches + \
                    excluded.batches, transactions = validator_days.transactions + excluded.transactions, signed = validator_days.signed + \
                    excluded.signed, missed = validator_days.missed + excluded.missed";
    Rows::or("validator_days", &["validator", "day", "led", "batches", "transactions", "signed", "missed"], conflict)
}

/// Writes the newest allowance of each kind. The allowance for a single id ends when the id is transferred.
async fn write_approvals(connection: &mut AnyConnection, digests: &[Digest]) -> Result<(), DatabaseError> {
    let mut of_all = BTreeMap::new();
    let mut of_one = BTreeMap::new();
    for (place, moved) in digests.iter().flat_map(|digest| &digest.token_events) {
        match *moved {
            TokenEvent::Transfer { token, standard: Standard::Erc721, from, id: Some(id), .. } => {
                of_one.insert((from, token, id), None);
            }
            TokenEvent::Transfer { .. } => {}
            TokenEvent::Approval { token, owner, spender, id: None, amount } => {
                of_all.insert((owner, token, spender), (amount, *place));
            }
            TokenEvent::Approval { token, owner, spender, id: Some(id), .. } => {
                of_one.insert((owner, token, id), (!spender.is_zero()).then_some((spender, *place)));
            }
        }
    }
    let columns = &["owner", "token", "spender", "token_id", "amount", "place"];
    let conflict = "(owner, token, spender, token_id) DO UPDATE SET amount = excluded.amount, place = excluded.place";
    let mut rows = Rows::or("approvals", columns, conflict);
    for ((owner, token, spender), (amount, place)) in of_all {
        rows.push([owner.into(), token.into(), spender.into(), id_bytes(None).into(), amount.into(), place.into()]);
    }
    let mut ended = Keys::new("approvals", &["owner", "token", "token_id"]);
    for ((owner, token, id), granted) in of_one {
        ended.push([owner.into(), token.into(), id_bytes(Some(id)).into()]);
        if let Some((spender, place)) = granted {
            rows.push([owner.into(), token.into(), spender.into(), amount(id).into(), U256::ONE.into(), place.into()]);
        }
    }
    for row in ended.read(connection, &["owner", "token", "spender", "token_id"]).await? {
        let text = "DELETE FROM approvals WHERE owner = $1 AND token = $2 AND spender = $3 AND token_id = $4";
        let key = [row.bytes("owner")?, row.bytes("token")?, row.bytes("spender")?, row.bytes("token_id")?];
        key.into_iter().fold(sql(text), |query, value| query.bind(value)).execute(&mut *connection).await?;
    }
    rows.write(connection).await
}

/// Deletes all blocks and everything derived from them. Keeps the schema version and the chain's identity.
pub async fn clear(connection: &mut AnyConnection) -> Result<(), DatabaseError> {
    let mut transaction = connection.begin().await?;
    for table in TABLES {
        sqlx::query(sqlx::AssertSqlSafe(format!("DELETE FROM {table}"))).execute(&mut *transaction).await?;
    }
    sql("DELETE FROM meta WHERE key IN ('traced', 'certified', 'executions', 'first')").execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}

/// All tables that are filled from blocks.
const TABLES: [&str; 25] = [
    "blocks",
    "batches",
    "skipped",
    "transactions",
    "activity",
    "accounts",
    "logs",
    "calls",
    "call_sides",
    "undone",
    "tokens",
    "transfers",
    "transfer_sides",
    "balances",
    "approvals",
    "contracts",
    "selectors",
    "certificates",
    "validator_days",
    "days",
    "token_days",
    "dag_rounds",
    "leaders",
    "dag_cars",
    "executions",
];
