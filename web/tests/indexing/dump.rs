//! Dumps a database as comparable lines.

use corniche_web::database::Database;
use sqlx::{AssertSqlSafe, Column, Row, any::AnyRow};
use std::{collections::BTreeMap, fs};

/// Columns with the explorer's clock, which are not part of the chain.
const CLOCKS: [&str; 2] = ["seen_ms", "certified_ms"];

/// Table with the node's statistics, which are not part of the chain. An interrupted indexer may miss them.
const OF_THE_NODE: &str = "executions";

/// Rows of each table, sorted.
pub type Dump = BTreeMap<String, Vec<String>>;

/// Returns the names of all tables of the chain, which migrations create.
fn tables() -> Vec<String> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/database/migrations");
    let files = fs::read_dir(directory).expect("the migrations").map(|file| file.expect("a migration").path());
    let schema: String = files.map(|path| fs::read_to_string(path).expect("a migration")).collect();
    let tables = schema.lines().filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split(' ').next());
    tables.filter(|table| *table != OF_THE_NODE).map(str::to_owned).collect()
}

/// Returns all rows of all tables, sorted.
pub async fn all(database: &Database) -> Dump {
    let mut dump = BTreeMap::new();
    for table in tables() {
        let rows = rows(database, &format!("SELECT * FROM {table}")).await;
        dump.insert(table, rows);
    }
    dump
}

/// Returns the rows of a query, sorted.
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
pub fn assert_same(left: &Dump, right: &Dump, what: &str) {
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
