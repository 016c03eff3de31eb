//! No query scans a large table, and every list has a limit. The queries are all string literals in the sources that
//! begin like one, so none can be forgotten. Another test checks that there are no other queries.

use super::{chain::Chain, postgres, sqlite, write_all};
use corniche_web::database::{Database, Parameters, select};
use sqlx::{AssertSqlSafe, Row};
use std::{collections::BTreeSet, fs, path::Path};

/// Tables that stay small: one row for each day, and one for each lane.
const SMALL: [&str; 2] = ["days", "meta"];

/// Files that build statements at runtime: rows and keys of variable number, tables to be cleared, query plans,
/// migrations.
const BUILDERS: [&str; 5] =
    ["database.rs", "database/rows.rs", "database/keys.rs", "database/migrations.rs", "indexer/write.rs"];

#[tokio::test]
async fn no_query_scans_a_large_table() {
    let postgres = postgres().await;
    let (lite, _directory) = sqlite().await;
    let large = Database::open(&postgres.database("plans").await).await.unwrap();
    let blocks = Chain::new(1, 150).blocks;
    let mut wrong = Vec::new();
    for (database, name) in [(&lite, "SQLite"), (&large, "PostgreSQL")] {
        write_all(database, &blocks, &[50]).await;
        let mut connection = database.writer().await.unwrap();
        sqlx::raw_sql("ANALYZE").execute(&mut *connection).await.unwrap();
        for query in queries().iter().chain(&by_keys(name)) {
            match database.plan(list_inside(query)).await {
                Ok(plan) => wrong.extend(scan(name, &plan).map(|step| format!("{name}: {step}\n  of {query}"))),
                Err(error) => wrong.push(format!("{name}: {error}\n  of {query}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_list_has_a_limit() {
    let (database, _directory) = sqlite().await;
    let mut unbounded = Vec::new();
    for query in queries().into_iter().filter(|query| query.starts_with("SELECT ")) {
        let one = ["SELECT CAST(", "SELECT COUNT(", "SELECT MAX(", "SELECT MIN("].iter().any(|start| query.starts_with(start));
        let bounded =
            query.contains(" LIMIT ") || one && !query.contains(" GROUP BY ") || names_one_row(&database, &query).await;
        if !bounded {
            unbounded.push(query);
        }
    }
    assert!(unbounded.is_empty(), "neither a LIMIT nor a unique key:\n{}", unbounded.join("\n"));
}

#[test]
fn no_list_reads_large_columns() {
    // Exceptions: the logs of one transaction, which are served with their data, and few transactions whose inputs are
    // limited.
    const SHOWN: [&str; 2] = [
        "SELECT place, address, topics, data FROM logs WHERE transaction_place = $1 AND place > $2",
        "SELECT t.place, t.hash, t.sender, t.recipient, t.created, t.nonce, t.value, t.selector, t.gas_limit, t.gas_used, \
         t.cumulative_gas, t.gas_price, t.succeeded, t.time_ms, t.input,",
    ];
    let is_large = |query: &&String| {
        let columns = query.strip_prefix("SELECT ").and_then(|query| query.split(" FROM ").next()).unwrap_or_default();
        let whole = columns.split(", ").filter(|column| !column.contains('('));
        let names = || whole.clone().map(|column| column.rsplit('.').next().unwrap_or_default());
        let all = (query.contains(" transactions") || query.contains(" logs")) && names().any(|name| name == "*");
        query.contains(" LIMIT ") && (all || names().any(|name| ["input", "data"].contains(&name)))
    };
    let (queries, mut large) = (queries(), Vec::new());
    large.extend(queries.iter().filter(is_large).filter(|query| !SHOWN.iter().any(|shown| query.starts_with(shown))));
    assert!(large.is_empty(), "lists of inputs or data, where a selector or a SUBSTR is shown: {large:#?}");
    assert!(queries.iter().filter(is_large).count() == SHOWN.len(), "one of {SHOWN:?} is gone: is the rest looked at?");
}

#[test]
fn every_query_is_static_text() {
    for (name, source) in sources() {
        let own = source.split("#[cfg(test)]").next().unwrap_or_default();
        let builds = own.contains("AssertSqlSafe") || own.contains("sqlx::query(") || own.contains("raw_sql");
        assert!(
            !builds || BUILDERS.contains(&name.as_str()),
            "{name} puts a statement together: write it as one text, for `sql`"
        );
    }
    let found = queries();
    assert!(found.len() > 25, "{} queries: are they written in another way now?", found.len());
    assert!(found.iter().all(|query| !query.contains('{')), "a text that is formatted: {found:#?}");
}

/// Returns the steps of a plan that read too much.
fn scan<'a>(database: &str, plan: &'a [String]) -> impl Iterator<Item = &'a String> {
    let lite = database == "SQLite";
    plan.iter().enumerate().filter_map(move |(at, step)| {
        let small = SMALL.iter().any(|table| step.contains(&format!(" {table}")));
        let large = match lite {
            true => {
                // `SCAN t` in the order of a key or an index stops at the LIMIT, so only a sort reads everything.
                // SQLite's plan does not show filters; PostgreSQL's plan of the same query does.
                let constant = ["CONSTANT ROW", "VALUES CLAUSE"].iter().any(|words| step.contains(words)) || step == "SCAN k";
                (step.starts_with("SCAN") && !constant && !step.contains("USING")) && !ordered(plan)
                    || step.contains("TEMP B-TREE")
                    || step.contains("AUTOMATIC")
            }
            false => {
                let of = |word: &str| {
                    plan[at + 1..].iter().take_while(|below| !below.contains("->")).any(|line| line.contains(word))
                };
                let scan = step.contains("Seq Scan");
                // An index scan over the whole index that only filters.
                let filter = step.contains("Scan using") && of("Filter:") && !of("Index Cond:");
                scan || filter || step.contains("Sort ")
            }
        };
        (large && !small).then_some(step)
    })
}

/// SQLite's plan for reading a table in key order is just SCAN.
fn ordered(plan: &[String]) -> bool {
    plan.len() == 1
}

/// Statements for many keys, which are built at runtime.
fn by_keys(database: &str) -> Vec<String> {
    let tables: [(&str, &[&str]); 4] = [
        ("tokens", &["address"]),
        ("contracts", &["address"]),
        ("balances", &["token", "holder", "token_id"]),
        ("approvals", &["owner", "token", "token_id"]),
    ];
    let value = if database == "SQLite" { "x'00'" } else { "'\\x00'::bytea" };
    let text = |(table, columns): &(&str, &[&str])| {
        let mut text = select(table, columns, &["*"], 3, Parameters::Numbered);
        for parameter in (1..=3 * columns.len()).rev() {
            text = text.replace(&format!("${parameter}"), value);
        }
        text
    };
    tables.iter().map(text).collect()
}

/// Returns `true` if a query compares all columns of a unique key of its first table by `=`, and joins others by unique
/// keys.
async fn names_one_row(database: &Database, query: &str) -> bool {
    let words: Vec<_> = query.split_whitespace().collect();
    let table = words.iter().skip_while(|word| **word != "FROM").nth(1).copied().unwrap_or_default();
    for joined in words.windows(6).filter(|words| words[0] == "JOIN") {
        let column = joined[4].rsplit('.').next().unwrap_or_default().to_owned();
        let by_key =
            joined[3] == "ON" && joined[5] == "=" && keys(database, joined[1]).await.contains(&BTreeSet::from([column]));
        if !by_key {
            return false;
        }
    }
    let equal: BTreeSet<String> = words
        .windows(3)
        .filter(|words| words[1] == "=" && words[2].starts_with(['$', '\'']))
        .map(|words| words[0].rsplit('.').next().unwrap_or_default().trim_matches('(').to_owned())
        .collect();
    let only_and = !words.contains(&"OR") && !words.contains(&"IN");
    only_and && keys(database, table).await.iter().any(|key| !key.is_empty() && key.is_subset(&equal))
}

/// Returns the columns of each unique key of a table.
async fn keys(database: &Database, table: &str) -> Vec<BTreeSet<String>> {
    let mut keys = vec![names(database, &format!("SELECT name FROM pragma_table_info('{table}') WHERE pk > 0")).await];
    for index in names(database, &format!("SELECT name FROM pragma_index_list('{table}') WHERE \"unique\" = 1")).await {
        keys.push(names(database, &format!("SELECT name FROM pragma_index_info('{index}')")).await);
    }
    keys
}

/// Returns the inner list of a query that aggregates a bounded list.
fn list_inside(query: &str) -> &str {
    let inside = query.split_once("FROM (SELECT ").and_then(|(_, rest)| rest.split_once(") AS "));
    match inside {
        Some((inside, _)) if inside.contains(" LIMIT ") => {
            &query[query.find("(SELECT ").unwrap_or_default() + 1..][..inside.len() + 7]
        }
        _ => query,
    }
}

async fn names(database: &Database, query: &str) -> BTreeSet<String> {
    let rows = sqlx::query(AssertSqlSafe(query.to_owned())).fetch_all(database.readers()).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Returns all string literals in the sources that begin like a query, except inserts.
fn queries() -> BTreeSet<String> {
    let texts = sources().into_iter().flat_map(|(_, source)| {
        let own = source.split("#[cfg(test)]").next().unwrap_or_default();
        texts(own)
    });
    let begins = |text: &String| ["SELECT ", "UPDATE ", "DELETE FROM ", "WITH "].iter().any(|word| text.starts_with(word));
    // The builders' own literals end where the table name is inserted.
    texts.filter(begins).filter(|text| !text.contains("{}") && !text.contains("{table}")).collect()
}

/// Returns the source files with their content.
fn sources() -> Vec<(String, String)> {
    fn walk(directory: &Path, files: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(directory).expect("the sources") {
            let path = entry.expect("a file").path();
            match path.is_dir() {
                true => walk(&path, files),
                false if path.extension().is_some_and(|kind| kind == "rs") && !is_test(&path) => files.push(path),
                false => {}
            }
        }
    }
    fn is_test(path: &Path) -> bool {
        ["tests.rs", "testing.rs"].iter().any(|name| path.ends_with(name))
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    let name = |path: &Path| path.strip_prefix(&root).expect("below it").to_string_lossy().into_owned();
    files.into_iter().map(|path| (name(&path), fs::read_to_string(&path).expect("a source"))).collect()
}

/// Returns the string literals of a source, unescaped.
fn texts(source: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, from) = rest.split_at(at);
        rest = match from.as_bytes() {
            [b'/', b'/', ..] => from.find('\n').map_or("", |end| &from[end..]),
            // A character literal; the remaining case is a lifetime or a slash.
            [b'\'', b'\\', ..] => &from[3 + from[3..].find('\'').map_or(0, |end| end + 1)..],
            [b'\'', _, b'\'', ..] => &from[3..],
            [b'"', ..] => {
                let hashes = before.len() - before.trim_end_matches('#').len();
                let raw = before.trim_end_matches('#').ends_with('r');
                let (text, after) = if raw { raw_text(&from[1..], hashes) } else { text(&from[1..]) };
                texts.push(text);
                after
            }
            _ => &from[1..],
        };
    }
    texts
}

fn raw_text(from: &str, hashes: usize) -> (String, &str) {
    let end = format!("\"{}", "#".repeat(hashes));
    let (text, after) = from.split_once(&end).expect("the end of a text");
    (text.to_owned(), after)
}

fn text(from: &str) -> (String, &str) {
    let mut text = String::new();
    let mut characters = from.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, &from[at + 1..]),
            '\\' => match characters.next() {
                // A line continuation.
                Some((at, '\n')) => {
                    let skipped = from[at + 1..].len() - from[at + 1..].trim_start().len();
                    let (rest, after) = self::text(&from[at + 1 + skipped..]);
                    return (text + &rest, after);
                }
                Some((_, escaped)) => text.push(escaped),
                None => break,
            },
            other => text.push(other),
        }
    }
    panic!("a text without an end: {from:.60}")
}

#[test]
fn string_literals_are_parsed_like_rustc() {
    let source = "let a = \"one \\\n         two\"; // \"no\"\nlet b = 'x'; let c = '\"'; fn f<'a>() { g(\"\\\"q\\\"\", r#\"raw \"text\"\"#) }";
    assert_eq!(texts(source), ["one two", "\"q\"", "raw \"text\""]);
}

#[test]
fn scanning_plans_are_detected() {
    let seen =
        |database, plan: &[&str]| scan(database, &plan.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>()).count();
    assert_eq!(seen("SQLite", &["SCAN a", "SEARCH b USING PRIMARY KEY (address=?)"]), 1);
    assert_eq!(seen("SQLite", &["SEARCH a USING INDEX i (x=?)", "USE TEMP B-TREE FOR ORDER BY"]), 1);
    assert_eq!(seen("SQLite", &["SEARCH a USING INDEX i (x=?)", "SCAN days"]), 0);
    assert_eq!(seen("PostgreSQL", &["Limit", "  ->  Seq Scan on logs  (cost=1)", "        Filter: (x = $1)"]), 1);
    assert_eq!(seen("PostgreSQL", &["Limit", "  ->  Index Scan using i on logs  (cost=1)", "        Filter: (x = $1)"]), 1);
    assert_eq!(
        seen(
            "PostgreSQL",
            &["Limit", "  ->  Index Scan using i on logs", "        Index Cond: (x = $1)", "        Filter: (y)"]
        ),
        0
    );
}
