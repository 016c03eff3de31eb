//! Many rows at once.

use super::{DatabaseError, Place, amount, int};
use alloy_primitives::{Address, B256, Bytes, U256};
use sqlx::{
    Any, AnyConnection, AssertSqlSafe,
    any::{AnyArguments, AnyRow},
    query::Query,
};
use std::fmt::Write;

/// Most rows of one statement, and most parameters, of which PostgreSQL takes 65,535 and SQLite 32,766.
const MOST_ROWS: usize = 256;
const MOST_PARAMETERS: usize = 16_384;

/// What a column may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A whole number; `None` where there is none.
    Int(Option<i64>),
    /// Bytes.
    Bytes(Option<Vec<u8>>),
    /// Text.
    Text(Option<String>),
}

impl Value {
    /// Bytes beside the value itself.
    fn content(&self) -> usize {
        match self {
            Self::Bytes(Some(bytes)) => bytes.len(),
            Self::Text(Some(text)) => text.len(),
            _ => 0,
        }
    }
}

/// Rows for one table, written by as few statements as they need.
#[derive(Debug)]
pub struct Rows {
    table: &'static str,
    columns: &'static [&'static str],
    /// What to do where a row of that key is there: `DO NOTHING`, or `DO UPDATE SET …`.
    conflict: Option<&'static str>,
    values: Vec<Value>,
}

impl Rows {
    /// Rows that must not be there yet.
    pub fn new(table: &'static str, columns: &'static [&'static str]) -> Self {
        Self { table, columns, conflict: None, values: Vec::new() }
    }

    /// Rows of which some may be there: `conflict` says which columns tell, and what to do then.
    pub fn or(table: &'static str, columns: &'static [&'static str], conflict: &'static str) -> Self {
        Self { conflict: Some(conflict), ..Self::new(table, columns) }
    }

    /// One more row; as many values as there are columns.
    pub fn push<const N: usize>(&mut self, row: [Value; N]) {
        debug_assert_eq!(N, self.columns.len(), "{}", self.table);
        self.values.extend(row);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.values.len() / self.columns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// What they hold in memory.
    pub fn bytes(&self) -> usize {
        let content: usize = self.values.iter().map(Value::content).sum();
        content + size_of_val(self.values.as_slice())
    }

    /// The table's name.
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// Takes over rows for the same table.
    pub fn append(&mut self, other: Self) {
        debug_assert_eq!(self.table, other.table);
        self.values.extend(other.values);
    }

    /// Writes them. The caller has begun a transaction.
    pub async fn write(self, connection: &mut AnyConnection) -> Result<(), DatabaseError> {
        self.run(connection, None).await.map(|_| ())
    }

    /// Writes them, and answers this column of each as it is now.
    pub async fn write_and_read(
        self,
        connection: &mut AnyConnection,
        column: &'static str,
    ) -> Result<Vec<AnyRow>, DatabaseError> {
        self.run(connection, Some(column)).await
    }

    async fn run(self, connection: &mut AnyConnection, returning: Option<&'static str>) -> Result<Vec<AnyRow>, DatabaseError> {
        let mut returned = Vec::new();
        let (rows, width) = (self.len(), self.columns.len());
        let mut values = self.values.into_iter();
        let parameters = Parameters::of(connection);
        for rows in chunks(rows, width) {
            let mut text = insert(self.table, self.columns, self.conflict, rows, parameters);
            if let Some(column) = returning {
                text = format!("{text} RETURNING {column}");
            }
            let query = bind(sqlx::query(AssertSqlSafe(text)), values.by_ref().take(rows * width));
            match returning {
                Some(_) => returned.extend(query.fetch_all(&mut *connection).await?),
                None => _ = query.execute(&mut *connection).await?,
            }
        }
        Ok(returned)
    }
}

/// How many rows of so many columns go into each statement. Few different numbers, so that databases keep most of what they prepared: theirs
/// is room for a hundred texts.
pub(super) fn chunks(rows: usize, columns: usize) -> impl Iterator<Item = usize> {
    let most = MOST_ROWS.min(MOST_PARAMETERS / columns);
    let mut left = rows;
    std::iter::from_fn(move || {
        let rows = [1, 8, 64].map(|part| most / part).into_iter().find(|rows| (1..=left).contains(rows)).unwrap_or(1);
        left.checked_sub(rows).map(|after| {
            left = after;
            rows
        })
    })
}

/// Values in their order.
pub(super) fn bind(
    mut query: Query<'static, Any, AnyArguments>,
    values: impl Iterator<Item = Value>,
) -> Query<'static, Any, AnyArguments> {
    for value in values {
        query = match value {
            Value::Int(number) => query.bind(number),
            Value::Bytes(bytes) => query.bind(bytes),
            Value::Text(text) => query.bind(text),
        };
    }
    query
}

/// How parameters stand in a text. Both databases read numbers; but to SQLite a number is a name, which it looks up from the first one on
/// for each value that is bound, and thousands of them take longer than the writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameters {
    /// `$1`
    Numbered,
    /// `?`
    InOrder,
}

impl Parameters {
    /// What a database reads best.
    pub(super) fn of(connection: &AnyConnection) -> Self {
        match connection.backend_name() {
            "SQLite" => Self::InOrder,
            _ => Self::Numbered,
        }
    }
}

/// `($1,$2),($3,$4)`
pub(super) fn tuples(rows: usize, columns: usize, parameters: Parameters) -> String {
    let mut text = String::with_capacity(rows * columns * 6);
    for parameter in 0..rows * columns {
        text.push_str(match (parameter, parameter % columns) {
            (0, _) => "(",
            (_, 0) => "),(",
            _ => ",",
        });
        match parameters {
            Parameters::Numbered => _ = write!(text, "${}", parameter + 1),
            Parameters::InOrder => text.push('?'),
        }
    }
    text + ")"
}

fn insert(table: &str, columns: &[&str], conflict: Option<&str>, rows: usize, parameters: Parameters) -> String {
    let conflict = conflict.map(|conflict| format!(" ON CONFLICT {conflict}")).unwrap_or_default();
    format!("INSERT INTO {table} ({}) VALUES {}{conflict}", columns.join(","), tuples(rows, columns.len(), parameters))
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(Some(int(number)))
    }
}

impl From<Option<u64>> for Value {
    fn from(number: Option<u64>) -> Self {
        Self::Int(number.map(int))
    }
}

impl From<Place> for Value {
    fn from(place: Place) -> Self {
        Self::Int(Some(place.0))
    }
}

impl From<Option<Place>> for Value {
    fn from(place: Option<Place>) -> Self {
        Self::Int(place.map(|place| place.0))
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Int(Some(yes.into()))
    }
}

impl From<Address> for Value {
    fn from(address: Address) -> Self {
        Self::Bytes(Some(address.to_vec()))
    }
}

impl From<Option<Address>> for Value {
    fn from(address: Option<Address>) -> Self {
        Self::Bytes(address.map(|address| address.to_vec()))
    }
}

impl From<B256> for Value {
    fn from(hash: B256) -> Self {
        Self::Bytes(Some(hash.to_vec()))
    }
}

impl From<Option<B256>> for Value {
    fn from(hash: Option<B256>) -> Self {
        Self::Bytes(hash.map(|hash| hash.to_vec()))
    }
}

impl From<U256> for Value {
    fn from(number: U256) -> Self {
        Self::Bytes(Some(amount(number)))
    }
}

impl From<Bytes> for Value {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(Some(bytes.to_vec()))
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Some(bytes))
    }
}

impl From<Option<Vec<u8>>> for Value {
    fn from(bytes: Option<Vec<u8>>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        // PostgreSQL refuses this one character in text.
        Self::Text(Some(text.replace('\0', "\u{fffd}")))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Text(None), Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_numbers_its_parameters_through() {
        let found = insert("days", &["day", "blocks"], Some("DO NOTHING"), 2, Parameters::Numbered);
        assert_eq!(found, "INSERT INTO days (day,blocks) VALUES ($1,$2),($3,$4) ON CONFLICT DO NOTHING");
        assert_eq!(tuples(2, 2, Parameters::InOrder), "(?,?),(?,?)");
    }

    #[test]
    fn every_row_is_in_one_statement() {
        for (rows, columns) in [(0, 3), (1, 3), (15, 3), (16, 3), (300, 18), (255, 1), (1_000, 100)] {
            let chunks: Vec<_> = chunks(rows, columns).collect();
            assert_eq!(chunks.iter().sum::<usize>(), rows, "{chunks:?}");
            assert!(chunks.iter().all(|rows| rows * columns <= MOST_PARAMETERS && *rows > 0), "{chunks:?}");
            assert!(columns > 256 || chunks.len() <= rows / MOST_ROWS + 3 * 7, "{chunks:?}");
        }
    }
}
