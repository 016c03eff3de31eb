//! Writes many rows with few statements.

use super::{DatabaseError, Place, amount, int};
use alloy_primitives::{Address, B256, Bytes, U256};
use sqlx::{
    Any, AnyConnection, AssertSqlSafe,
    any::{AnyArguments, AnyRow},
    query::Query,
};
use std::fmt::Write;

/// Maximum number of rows, and of parameters, of one statement. PostgreSQL accepts 65,535 parameters, SQLite 32,766.
const MAX_ROWS: usize = 256;
const MAX_PARAMETERS: usize = 16_384;

/// A nullable value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An integer.
    Int(Option<i64>),
    /// Bytes.
    Bytes(Option<Vec<u8>>),
    /// Text.
    Text(Option<String>),
}

impl Value {
    /// Size in bytes of the heap data.
    fn content(&self) -> usize {
        match self {
            Self::Bytes(Some(bytes)) => bytes.len(),
            Self::Text(Some(text)) => text.len(),
            _ => 0,
        }
    }
}

/// Rows for one table.
#[derive(Debug)]
pub struct Rows {
    table: &'static str,
    columns: &'static [&'static str],
    /// Conflict clause: `DO NOTHING`, or `DO UPDATE SET …`.
    conflict: Option<&'static str>,
    values: Vec<Value>,
}

impl Rows {
    /// Creates an empty list of rows whose keys must not exist yet.
    pub fn new(table: &'static str, columns: &'static [&'static str]) -> Self {
        Self { table, columns, conflict: None, values: Vec::new() }
    }

    /// Creates an empty list of rows whose keys may exist. `conflict` is the clause after `ON CONFLICT`: key columns
    /// and action.
    pub fn or(table: &'static str, columns: &'static [&'static str], conflict: &'static str) -> Self {
        Self { conflict: Some(conflict), ..Self::new(table, columns) }
    }

    /// Adds a row.
    pub fn push<const N: usize>(&mut self, row: [Value; N]) {
        debug_assert_eq!(N, self.columns.len(), "{}", self.table);
        self.values.extend(row);
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.columns.len()
    }

    /// Returns `true` if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the size in memory in bytes.
    pub fn bytes(&self) -> usize {
        let content: usize = self.values.iter().map(Value::content).sum();
        content + size_of_val(self.values.as_slice())
    }

    /// Returns the name of the table.
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// Moves the rows of `other` into this list. Both must be for the same table.
    pub fn append(&mut self, other: Self) {
        debug_assert_eq!(self.table, other.table);
        self.values.extend(other.values);
    }

    /// Writes the rows. The caller has begun a transaction.
    pub async fn write(self, connection: &mut AnyConnection) -> Result<(), DatabaseError> {
        self.run(connection, None).await.map(|_| ())
    }

    /// Writes the rows and returns the new value of this column for each.
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

/// Splits rows into statements. Uses only few different sizes, so that databases keep the prepared statements: the
/// cache of each holds a hundred.
pub(super) fn chunks(rows: usize, columns: usize) -> impl Iterator<Item = usize> {
    let most = MAX_ROWS.min(MAX_PARAMETERS / columns);
    let mut left = rows;
    std::iter::from_fn(move || {
        let rows = [1, 8, 64].map(|part| most / part).into_iter().find(|rows| (1..=left).contains(rows)).unwrap_or(1);
        left.checked_sub(rows).map(|after| {
            left = after;
            rows
        })
    })
}

/// Binds values in order.
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

/// Syntax of parameters. Both databases accept numbered ones. But SQLite treats a number as a name and searches it
/// linearly for each bound value. With thousands of parameters that takes longer than the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameters {
    /// `$1`
    Numbered,
    /// `?`
    InOrder,
}

impl Parameters {
    /// Returns the faster syntax for this database.
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
        // PostgreSQL rejects NUL in text.
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
    fn insert_numbers_parameters_in_order() {
        let found = insert("days", &["day", "blocks"], Some("DO NOTHING"), 2, Parameters::Numbered);
        assert_eq!(found, "INSERT INTO days (day,blocks) VALUES ($1,$2),($3,$4) ON CONFLICT DO NOTHING");
        assert_eq!(tuples(2, 2, Parameters::InOrder), "(?,?),(?,?)");
    }

    #[test]
    fn chunks_cover_every_row_once() {
        for (rows, columns) in [(0, 3), (1, 3), (15, 3), (16, 3), (300, 18), (255, 1), (1_000, 100)] {
            let chunks: Vec<_> = chunks(rows, columns).collect();
            assert_eq!(chunks.iter().sum::<usize>(), rows, "{chunks:?}");
            assert!(chunks.iter().all(|rows| rows * columns <= MAX_PARAMETERS && *rows > 0), "{chunks:?}");
            assert!(columns > 256 || chunks.len() <= rows / MAX_ROWS + 3 * 7, "{chunks:?}");
        }
    }
}
