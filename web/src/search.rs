//! Search: finds everything that a query may mean.
//!
//! Each lookup uses one index and is bounded. Each one is also recorded as text, so that a reader without hits sees what was
//! tried.

pub(crate) mod texts;

use crate::{
    abi,
    app_state::AppState,
    database::{DatabaseError, Read, int, sql},
    format, links, peer_graph,
    texts::keys,
};
use alloy_primitives::{Address, B256};
use sqlx::any::AnyRow;
use std::{collections::BTreeSet, ops::RangeInclusive};

/// Maximum length of a query, in characters.
pub const MAX_QUERY_CHARS: usize = 200;

/// Maximum number of hits of one lookup.
const MAX_HITS: i64 = 20;

/// Digits of a validator's BLS key.
const BLS_DIGITS: usize = 192;

/// Length of a peer id in characters. The range also admits ids of other kinds of keys.
const PEER_LETTERS: RangeInclusive<usize> = 20..=64;

/// Kind of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A block.
    Block,
    /// A transaction: executed, skipped, or in the node's pool.
    Transaction,
    /// An account or a contract.
    Account,
    /// A validator.
    Validator,
    /// A node that the explorer queries, or one of its peers.
    Peer,
    /// A token.
    Token,
    /// A function or an error of a known interface.
    Method,
    /// An event of a known interface.
    Event,
}

impl Kind {
    /// All kinds, in the order in which pages list them.
    pub const ALL: [Self; 8] =
        [Self::Block, Self::Transaction, Self::Account, Self::Validator, Self::Peer, Self::Token, Self::Method, Self::Event];

    /// Name of the kind in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Transaction => "transaction",
            Self::Account => "account",
            Self::Validator => "validator",
            Self::Peer => "peer",
            Self::Token => "token",
            Self::Method => "method",
            Self::Event => "event",
        }
    }
}

/// A possible meaning of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Kind of the item.
    pub kind: Kind,
    /// Identifier of the item, such as a number, a hash or an address.
    pub id: String,
    /// Description of the item. It may contain text that a third party chose.
    pub title: String,
    /// `true` if the query names exactly this item; see [`Found::only`].
    pub exact: bool,
    /// Its page. Methods and events have none.
    pub page: Option<String>,
}

/// Result of a search.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Hits, sorted by kind.
    pub hits: Vec<Hit>,
    /// Descriptions of all lookups.
    pub tried: Vec<String>,
    /// Warning about the query. There may be hits all the same.
    pub warning: Option<&'static str>,
}

impl Found {
    /// Page of the only exact hit. Returns `None` if there is a warning or another number of exact hits.
    pub fn only(&self) -> Option<&str> {
        let mut exact = self.hits.iter().filter(|hit| hit.exact);
        match (exact.next(), exact.next(), self.warning) {
            (Some(hit), None, None) => hit.page.as_deref(),
            _ => None,
        }
    }

    fn tried(&mut self, what: impl Into<String>) {
        self.tried.push(what.into());
    }

    fn hit(&mut self, kind: Kind, id: impl ToString, title: impl Into<String>, exact: bool, page: Option<String>) {
        let hit = Hit { kind, id: id.to_string(), title: title.into(), exact, page };
        if !self.hits.iter().any(|known| known.kind == kind && known.id == hit.id) {
            self.hits.push(hit);
        }
    }
}

/// Form of a query.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Hash(B256),
    BlsKey(Vec<u8>),
    Address { address: Address, mistyped: bool },
    Selector([u8; 4]),
    Number(u64),
    Text,
}

impl Shape {
    fn of(query_text: &str) -> Self {
        let prefixed = query_text.strip_prefix("0x").or_else(|| query_text.strip_prefix("0X"));
        let digits = prefixed.unwrap_or(query_text);
        let is_hex = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_hexdigit());
        if let (true, 64, Ok(hash)) = (is_hex, digits.len(), digits.parse()) {
            return Self::Hash(hash);
        }
        if let (true, BLS_DIGITS, Ok(key)) = (is_hex, digits.len(), hex::decode(digits)) {
            return Self::BlsKey(key);
        }
        if let (true, 40, Ok(address)) = (is_hex, digits.len(), digits.parse::<Address>()) {
            return Self::Address { address, mistyped: is_mistyped(digits, address) };
        }
        if let (true, Some(digits)) = (is_hex, prefixed) {
            let selector = hex::decode(digits).ok().and_then(|bytes| bytes.try_into().ok());
            return match (selector, u64::from_str_radix(digits, 16)) {
                (Some(selector), _) => Self::Selector(selector),
                (None, Ok(number)) => Self::Number(number),
                (None, Err(_)) => Self::Text,
            };
        }
        let plain = query_text.replace([',', '_', ' ', '\u{a0}', '\u{202f}', '\''], "");
        match plain.parse() {
            Ok(number) if !query_text.starts_with('+') => Self::Number(number),
            _ => Self::Text,
        }
    }
}

/// Returns `true` if an address has letters of both cases that do not match its EIP-55 checksum. An address with letters of one
/// case only has no checksum.
fn is_mistyped(digits: &str, address: Address) -> bool {
    let mixed =
        digits.contains(|digit: char| digit.is_ascii_lowercase()) && digits.contains(|digit: char| digit.is_ascii_uppercase());
    mixed && address.to_checksum(None)[2..] != *digits
}

/// Finds everything that a query may mean.
pub async fn find(app: &AppState, query_text: &str) -> Result<Found, DatabaseError> {
    let query_text: String = query_text.trim().chars().take(MAX_QUERY_CHARS).collect();
    let mut found = Found::default();
    if query_text.is_empty() {
        return Ok(found);
    }
    match Shape::of(&query_text) {
        Shape::Hash(hash) => by_hash(app, hash, &mut found).await?,
        Shape::BlsKey(key) => by_key(app, &key, &mut found),
        Shape::Address { address, mistyped } => by_address(app, address, mistyped, &mut found).await?,
        Shape::Selector(selector) => {
            by_selector(app, &selector, &mut found).await?;
            by_number(app, u32::from_be_bytes(selector).into(), &mut found).await?;
        }
        Shape::Number(number) => {
            by_number(app, number, &mut found).await?;
            by_name(app, &query_text, &mut found).await?;
        }
        Shape::Text => {
            by_position(app, &query_text, &mut found);
            by_peer(app, &query_text, &mut found).await;
            by_name(app, &query_text, &mut found).await?;
        }
    }
    found.hits.sort_by_key(|hit| (hit.kind, !hit.exact));
    Ok(found)
}

async fn by_hash(app: &AppState, hash: B256, found: &mut Found) -> Result<(), DatabaseError> {
    let readers = app.database.readers();
    found.tried(texts::TRIED_TRANSACTION);
    let row = sql("SELECT place FROM transactions WHERE hash = $1").bind(hash.to_vec()).fetch_optional(readers).await?;
    if let Some(row) = row {
        let title = texts::in_block(&format::number(row.place("place")?.block()));
        found.hit(Kind::Transaction, hash, title, true, Some(links::transaction(hash)));
    }
    found.tried(texts::TRIED_BLOCK);
    let row = sql("SELECT number FROM blocks WHERE hash = $1").bind(hash.to_vec()).fetch_optional(readers).await?;
    if let Some(row) = row {
        let number = row.number("number")?;
        found.hit(Kind::Block, number, texts::block(&format::number(number)), true, Some(links::block(number)));
    }
    found.tried(texts::TRIED_SKIPPED);
    let text = "SELECT block FROM skipped WHERE hash = $1 ORDER BY block DESC LIMIT 1";
    if let Some(row) = sql(text).bind(hash.to_vec()).fetch_optional(readers).await? {
        let title = texts::skipped_in(&format::number(row.number("block")?));
        found.hit(Kind::Transaction, hash, title, true, Some(links::transaction(hash)));
    }
    found.tried(texts::TRIED_BATCH);
    let text = "SELECT author, block FROM batches WHERE digest = $1 ORDER BY author, block LIMIT $2";
    // Several blocks may contain parts of one batch.
    for row in sql(text).bind(hash.to_vec()).bind(MAX_HITS).fetch_all(readers).await? {
        let (author, number) = (row.number("author")?, row.number("block")?);
        let title = texts::block_with_batch(&format::number(number), author);
        found.hit(Kind::Block, number, title, true, Some(links::block(number)));
    }
    found.tried(texts::TRIED_CODE);
    let text = "SELECT address FROM contracts WHERE code_hash = $1 ORDER BY address LIMIT $2";
    for row in sql(text).bind(hash.to_vec()).bind(MAX_HITS).fetch_all(readers).await? {
        let address = row.address("address")?;
        found.hit(Kind::Account, address, texts::WITH_CODE, true, Some(links::account(address)));
    }
    by_key(app, hash.as_slice(), found);
    by_selector(app, hash.as_slice(), found).await?;
    if found.hits.is_empty() {
        found.tried(texts::TRIED_POOL);
        match app.node.status(hash).await {
            Ok(Some(_)) => {
                found.hit(Kind::Transaction, hash, texts::IN_POOL, true, Some(links::transaction(hash)));
            }
            Ok(None) => {}
            Err(_) => found.tried(texts::NODE_AWAY),
        }
    }
    Ok(())
}

/// Finds validators by one of their keys.
fn by_key(app: &AppState, key: &[u8], found: &mut Found) {
    let Some(committee) = app.status().committee else {
        found.tried(texts::NO_COMMITTEE);
        return;
    };
    found.tried(texts::TRIED_KEY);
    let named = committee.validators.iter().filter_map(|validator| {
        let keys = [
            (validator.consensus_key.as_slice(), keys::CONSENSUS_KEY),
            (&validator.bls_key[..], keys::BLS_KEY),
            (validator.network_key.as_slice(), keys::NETWORK_KEY),
        ];
        keys.into_iter().find(|(own, _)| *own == key).map(|(_, name)| (validator.index, name))
    });
    for (index, name) in named.take(MAX_HITS as usize) {
        found.hit(Kind::Validator, index, texts::validator(index, name), true, Some(links::validator(index)));
    }
}

/// Finds a validator by its position: `validator 2`.
fn by_position(app: &AppState, query_text: &str, found: &mut Found) {
    let query_text = query_text.to_lowercase();
    let position = query_text.strip_prefix(texts::VALIDATOR).map(|rest| rest.trim_start_matches([' ', '#']));
    let Some(index) = position.and_then(|position| position.parse::<u64>().ok()) else { return };
    found.tried(format!("{} {index}", texts::TRIED_POSITION));
    if app.status().committee.is_some_and(|committee| index < committee.validators.len() as u64) {
        found.hit(Kind::Validator, index, texts::at_position(index), true, Some(links::validator(index)));
    }
}

/// Finds a node by its peer id, which is an encoding of its public key.
async fn by_peer(app: &AppState, query_text: &str, found: &mut Found) {
    if !PEER_LETTERS.contains(&query_text.len()) || !query_text.bytes().all(|letter| letter.is_ascii_alphanumeric()) {
        return;
    }
    found.tried(texts::TRIED_PEER);
    let (poll, committee) = (app.peer_graph.now().await, app.status().committee);
    let mut peers = poll.rows.iter().flat_map(|row| row.own.iter().chain(row.peers.iter().flatten()));
    let Some(peer) = peers.find(|peer| peer.peer_id == query_text) else { return };
    match committee.and_then(|committee| peer_graph::committee_index(&committee, peer)) {
        Some(index) => found.hit(Kind::Peer, query_text, texts::at_position(index), true, Some(links::validator(index))),
        None => found.hit(Kind::Peer, query_text, texts::A_PEER, true, Some(links::NETWORK.to_owned())),
    }
}

async fn by_address(app: &AppState, address: Address, mistyped: bool, found: &mut Found) -> Result<(), DatabaseError> {
    let readers = app.database.readers();
    found.tried(texts::TRIED_ADDRESS);
    found.warning = mistyped.then_some(texts::MISTYPED);
    let row =
        sql("SELECT transactions FROM accounts WHERE address = $1").bind(address.to_vec()).fetch_optional(readers).await?;
    let title = match row {
        Some(row) => texts::transactions(&format::number(row.number("transactions")?)),
        None => texts::NEVER_SEEN.to_owned(),
    };
    found.hit(Kind::Account, address, title, true, Some(links::account(address)));
    let row = sql("SELECT address, name, symbol FROM tokens WHERE address = $1").bind(address.to_vec());
    if let Some(row) = row.fetch_optional(readers).await? {
        // Not exact: the account's page links to the token's page.
        found.hit(Kind::Token, address, token_title(&row)?, false, Some(links::token(address)));
    }
    Ok(())
}

async fn by_number(app: &AppState, number: u64, found: &mut Found) -> Result<(), DatabaseError> {
    found.tried(format!("{} {}", texts::TRIED_NUMBER, format::number(number)));
    let row = sql("SELECT number FROM blocks WHERE number = $1").bind(int(number));
    if row.fetch_optional(app.database.readers()).await?.is_some() {
        found.hit(Kind::Block, number, texts::block(&format::number(number)), true, Some(links::block(number)));
    }
    Ok(())
}

/// Finds functions and errors by their selector of four bytes, or events by their first topic.
async fn by_selector(app: &AppState, selector: &[u8], found: &mut Found) -> Result<(), DatabaseError> {
    found.tried(if selector.len() == 4 { texts::TRIED_SELECTOR } else { texts::TRIED_TOPIC });
    let text = "SELECT selector, signature FROM selectors WHERE selector = $1 ORDER BY signature LIMIT $2";
    let rows = sql(text).bind(selector.to_vec()).bind(MAX_HITS).fetch_all(app.database.readers()).await?;
    rows.iter().try_for_each(|row| signature(row, true, found))
}

async fn by_name(app: &AppState, query_text: &str, found: &mut Found) -> Result<(), DatabaseError> {
    let readers = app.database.readers();
    let key = query_text.to_lowercase();
    // The query may contain a method's parameters.
    let name = key.split('(').next().unwrap_or_default().to_owned();
    let (tokens, methods) = (range(&key), range(&name));
    found.tried(format!("{} “{query_text}”", texts::TRIED_TOKEN));
    let by_symbol =
        "SELECT address, name, symbol FROM tokens WHERE symbol_key >= $1 AND symbol_key < $2 ORDER BY symbol_key LIMIT $3";
    let by_name = "SELECT address, name, symbol FROM tokens WHERE name_key >= $1 AND name_key < $2 ORDER BY name_key LIMIT $3";
    for text in [by_symbol, by_name] {
        let rows = sql(text).bind(tokens.0.clone()).bind(tokens.1.clone()).bind(MAX_HITS).fetch_all(readers).await?;
        for row in rows {
            let (address, title) = (row.address("address")?, token_title(&row)?);
            let exact = [row.text("symbol")?, row.text("name")?].iter().any(|own| own.to_lowercase() == key);
            found.hit(Kind::Token, address, title, exact, Some(links::token(address)));
        }
    }
    found.tried(format!("{} “{query_text}”", texts::TRIED_METHOD));
    if methods.0.is_empty() {
        return Ok(());
    }
    let text = "SELECT selector, signature FROM selectors WHERE name_key >= $1 AND name_key < $2 ORDER BY name_key LIMIT $3";
    let rows = sql(text).bind(methods.0).bind(methods.1).bind(MAX_HITS).fetch_all(readers).await?;
    for row in rows {
        let own = row.text("signature")?.to_lowercase();
        if own.starts_with(&key) {
            signature(&row, own == key || own.split('(').next() == Some(key.as_str()), found)?;
        }
    }
    Ok(())
}

/// Range of all texts with this prefix: inclusive start, exclusive end.
fn range(prefix: &str) -> (Vec<u8>, Vec<u8>) {
    let mut end = prefix.as_bytes().to_vec();
    // Cannot overflow: no byte of UTF-8 is 255.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (prefix.as_bytes().to_vec(), end)
}

fn token_title(row: &AnyRow) -> Result<String, DatabaseError> {
    let (name, symbol) = (row.text("name")?, row.text("symbol")?);
    Ok(if symbol.is_empty() { name } else { format!("{name} ({symbol})") })
}

fn signature(row: &AnyRow, exact: bool, found: &mut Found) -> Result<(), DatabaseError> {
    let (selector, signature) = (row.bytes("selector")?, abi::text(&row.text("signature")?));
    let kind = if selector.len() == 4 { Kind::Method } else { Kind::Event };
    // Several signatures may have the same selector.
    let known: BTreeSet<_> = found.hits.iter().map(|hit| (hit.id.clone(), hit.title.clone())).collect();
    let id = format!("0x{}", hex::encode(selector));
    if !known.contains(&(id.clone(), signature.clone())) {
        found.hits.push(Hit { kind, id, title: signature, exact, page: None });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{database::Rows, testing};
    use alloy_primitives::address;

    #[test]
    fn query_kind_is_detected() {
        let account = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        let address = |mistyped| Shape::Address { address: account, mistyped };
        assert_eq!(Shape::of("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"), address(false));
        assert_eq!(Shape::of("f39fd6e51aad88f6f4ce6ab8827279cfffb92266"), address(false));
        assert_eq!(Shape::of("0XF39FD6E51AAD88F6F4CE6AB8827279CFFFB92266"), address(false));
        assert_eq!(Shape::of("0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266"), address(true));
        assert_eq!(Shape::of(&"ab".repeat(32)), Shape::Hash(B256::repeat_byte(0xab)));
        assert_eq!(Shape::of(&format!("0x{}", "AB".repeat(96))), Shape::BlsKey(vec![0xab; 96]));
        assert_eq!(Shape::of(&"ab".repeat(95)), Shape::Text);
        assert_eq!(Shape::of("0xa9059cbb"), Shape::Selector([0xa9, 0x05, 0x9c, 0xbb]));
        for (text, number) in [("1,234,567", 1_234_567), ("12 000", 12_000), ("7", 7), ("0x10", 16), ("12345678", 12_345_678)] {
            assert_eq!(Shape::of(text), Shape::Number(number), "{text}");
        }
        for text in
            ["gold", "a9059cbb", "0x", "+5", "-5", "0xzz", "1e6", "99999999999999999999", "ÄÖ", "(", "0x11223344556677889900"]
        {
            assert_eq!(Shape::of(text), Shape::Text, "{text}");
        }
    }

    #[tokio::test]
    async fn batch_digest_finds_all_its_blocks() {
        let filled = testing::test_app().await;
        let digest = B256::repeat_byte(0xba);
        let mut rows = Rows::new("batches", &["block", "position", "author", "digest", "first", "count"]);
        for (block, first) in [(7_u64, 0_u64), (8, 5)] {
            rows.push([block.into(), 0_u64.into(), 2_u64.into(), digest.into(), first.into(), 5_u64.into()]);
        }
        filled.write(rows).await;
        let found = find(&filled.app, &digest.to_string()).await.unwrap();
        let hits: Vec<_> = found.hits.iter().map(|hit| (hit.kind, hit.id.as_str(), hit.exact)).collect();
        assert_eq!(hits, [(Kind::Block, "7", true), (Kind::Block, "8", true)]);
        assert_eq!(found.only(), None, "either may be meant");
    }

    #[test]
    fn prefix_range_matches_prefix() {
        let (first, end) = range("gol");
        for (text, inside) in
            [("gol", true), ("gold", true), ("gol\u{10ffff}", true), ("gom", false), ("go", false), ("h", false)]
        {
            assert_eq!(text.as_bytes() >= &first[..] && text.as_bytes() < &end[..], inside, "{text}");
        }
    }
}
