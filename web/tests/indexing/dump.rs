//! What a database holds, as lines that can be compared.

use corniche_web::database::Database;
use sqlx::{AssertSqlSafe, Column, Row, any::AnyRow};
use std::collections::BTreeMap;

/// Columns that say when the explorer saw something, which is no matter of the chain.
const CLOCKS: [&str; 2] = ["seen_ms", "certified_ms"];

/// What the node said of itself, which is no matter of the chain either: an interrupted indexer may come too late for it.
const OF_THE_NODE: &str = "executions";

/// All tables of the chain.
pub fn tables() -> Vec<&'static str> {
    let schema = include_str!("../../src/database/schema.sql");
    let tables = schema.lines().filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split(' ').next());
    tables.filter(|table| *table != OF_THE_NODE).collect()
}

/// All rows of all tables, in an order of their own.
pub async fn all(database: &Database) -> BTreeMap<&'static str, Vec<String>> {
    let mut dump = BTreeMap::new();
    for table in tables() {
        dump.insert(table, rows(database, &format!("SELECT * FROM {table}")).await);
    }
    dump
}

/// What a query finds, sorted.
pub async fn rows(database: &Database, query: &str) -> Vec<String> {
    let rows = sqlx::query(AssertSqlSafe(query.to_owned())).fetch_all(database.readers()).await.expect(query);
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.sort();
    lines
}

fn line(row: &AnyRow) -> String {
    let cells = row.columns().iter().map(|column| match column.name() {
        clock if CLOCKS.contains(&clock) => format!("{clock}=·"),
        name => format!("{name}={}", cell(row, column.ordinal())),
    });
    cells.collect::<Vec<_>>().join(" ")
}

fn cell(row: &AnyRow, at: usize) -> String {
    if let Ok(number) = row.try_get::<Option<i64>, _>(at) {
        return number.map_or("null".into(), |number| number.to_string());
    }
    if let Ok(bytes) = row.try_get::<Vec<u8>, _>(at) {
        return format!("x{}", hex::encode(bytes));
    }
    format!("{:?}", row.try_get::<String, _>(at).expect("a column of one of three types"))
}

/// Panics with the first lines that differ.
pub fn assert_same(left: &BTreeMap<&'static str, Vec<String>>, right: &BTreeMap<&'static str, Vec<String>>, what: &str) {
    for (table, lines) in left {
        let others = &right[table];
        let only = |these: &[String], those: &[String]| -> Vec<String> {
            these.iter().filter(|line| !those.contains(line)).take(3).cloned().collect()
        };
        assert!(
            lines == others,
            "{what}: {table} differs, {} rows and {} rows\nonly left: {:#?}\nonly right: {:#?}",
            lines.len(),
            others.len(),
            only(lines, others),
            only(others, lines)
        );
    }
}
