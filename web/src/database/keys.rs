//! Reads many rows by key with few statements.

use super::{
    DatabaseError, Value,
    rows::{Parameters, bind, chunks, tuples},
};
use sqlx::{AnyConnection, AssertSqlSafe, any::AnyRow};

/// Keys of the wanted rows of one table.
#[derive(Debug)]
pub struct Keys {
    table: &'static str,
    columns: &'static [&'static str],
    values: Vec<Value>,
}

impl Keys {
    /// Creates an empty list of keys. The columns must be those of an index, or a prefix of them.
    pub fn new(table: &'static str, columns: &'static [&'static str]) -> Self {
        Self { table, columns, values: Vec::new() }
    }

    /// Adds a key. Keys must be distinct.
    pub fn push<const N: usize>(&mut self, key: [Value; N]) {
        debug_assert_eq!(N, self.columns.len(), "{}", self.table);
        self.values.extend(key);
    }

    /// Returns the `wanted` columns of the rows that exist, in no particular order.
    pub async fn read(
        self,
        connection: &mut AnyConnection,
        wanted: &'static [&'static str],
    ) -> Result<Vec<AnyRow>, DatabaseError> {
        let mut found = Vec::new();
        let (keys, width) = (self.values.len() / self.columns.len(), self.columns.len());
        let mut values = self.values.into_iter();
        let parameters = Parameters::of(connection);
        for keys in chunks(keys, width) {
            let query = sqlx::query(AssertSqlSafe(select(self.table, self.columns, wanted, keys, parameters)));
            let query = bind(query, values.by_ref().take(keys * width));
            found.extend(query.fetch_all(&mut *connection).await?);
        }
        Ok(found)
    }
}

/// Returns the text of a query for this number of keys. Only this form uses the index on both databases, also for keys
/// of several columns.
pub fn select(table: &str, columns: &[&str], wanted: &[&str], keys: usize, parameters: Parameters) -> String {
    let wanted: Vec<_> = wanted.iter().map(|column| format!("t.{column}")).collect();
    let same: Vec<_> = columns.iter().zip(1..).map(|(column, at)| format!("t.{column} = k.column{at}")).collect();
    format!(
        "SELECT {} FROM (VALUES {}) AS k CROSS JOIN {table} AS t WHERE {}",
        wanted.join(","),
        tuples(keys, columns.len(), parameters),
        same.join(" AND ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn select_numbers_keys_in_order() {
        let found = select("balances", &["token", "holder"], &["amount"], 2, Parameters::Numbered);
        let expected = "SELECT t.amount FROM (VALUES ($1,$2),($3,$4)) AS k CROSS JOIN balances AS t WHERE t.token = k.column1 AND t.holder \
                        = k.column2";
        assert_eq!(found, expected);
    }
}
