//! Many rows at once.

use super::{DatabaseError, Place, amount, int};
use alloy_primitives::{Address, B256, Bytes, U256};
use sqlx::{AnyConnection, AssertSqlSafe};
use std::collections::BTreeMap;

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

/// Rows for one table, written by as few statements as they need. The texts of these are few, so that databases keep them prepared.
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
        let most = MOST_ROWS.min(MOST_PARAMETERS / self.columns.len());
        let mut texts = BTreeMap::new();
        let (mut left, mut values) = (self.len(), self.values.into_iter());
        while left > 0 {
            // Powers of two: nine texts at most for a table.
            let rows = if left >= most { most } else { 1 << left.ilog2() };
            let text: &String = texts.entry(rows).or_insert_with(|| text(self.table, self.columns, self.conflict, rows));
            let mut query = sqlx::query(AssertSqlSafe(text.clone()));
            for value in values.by_ref().take(rows * self.columns.len()) {
                query = match value {
                    Value::Int(number) => query.bind(number),
                    Value::Bytes(bytes) => query.bind(bytes),
                    Value::Text(text) => query.bind(text),
                };
            }
            query.execute(&mut *connection).await?;
            left -= rows;
        }
        Ok(())
    }
}

fn text(table: &str, columns: &[&str], conflict: Option<&str>, rows: usize) -> String {
    let row = |row: usize| {
        let first = row * columns.len() + 1;
        let parameters: Vec<_> = (first..first + columns.len()).map(|parameter| format!("${parameter}")).collect();
        format!("({})", parameters.join(","))
    };
    let rows: Vec<_> = (0..rows).map(row).collect();
    let conflict = conflict.map(|conflict| format!(" ON CONFLICT {conflict}")).unwrap_or_default();
    format!("INSERT INTO {table} ({}) VALUES {}{conflict}", columns.join(","), rows.join(","))
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
        let found = text("days", &["day", "blocks"], Some("DO NOTHING"), 2);
        assert_eq!(found, "INSERT INTO days (day,blocks) VALUES ($1,$2),($3,$4) ON CONFLICT DO NOTHING");
    }
}
