//! A database of an earlier version keeps its data, and one of a newer version is refused.

use super::{
    dump::{all, assert_same, rows},
    postgres, sqlite,
};
use corniche_web::database::{Database, DatabaseError};
use sqlx::{AnyConnection, AssertSqlSafe, Connection};

/// Dump of a SQLite database that was made before there were migrations. It has six blocks, and an uploaded ABI.
const BEFORE_MIGRATIONS: &str = include_str!("before_migrations.sql");

/// A SQLite file and a PostgreSQL database, both empty.
async fn urls(postgres: &postgres::Postgres, directory: &tempfile::TempDir) -> [String; 2] {
    let lite = format!("sqlite://{}?mode=rwc", directory.path().join("explorer.db").display());
    [lite, postgres.database("migrated").await]
}

async fn execute(url: &str, statements: &str) {
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Translates the dump for PostgreSQL as that earlier version translated its schema.
fn for_postgres(dump: &str) -> String {
    let dump = dump.replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA").replace(") WITHOUT ROWID", ")");
    dump.replace("X'", "'\\x")
}

#[tokio::test]
async fn database_without_migrations_keeps_its_rows() {
    let (postgres, directory) = (postgres().await, tempfile::tempdir().unwrap());
    let mut dumps = Vec::new();
    for url in urls(&postgres, &directory).await {
        let is_postgres = url.starts_with("postgres");
        execute(&url, &if is_postgres { for_postgres(BEFORE_MIGRATIONS) } else { BEFORE_MIGRATIONS.to_owned() }).await;
        // The second time it has its migrations.
        for time in 1..=2 {
            let database = Database::open(&url).await.unwrap();
            let inserted = BEFORE_MIGRATIONS.lines().filter(|line| line.starts_with("INSERT INTO ")).count();
            let dump = all(&database).await;
            let executions = rows(&database, "SELECT * FROM executions").await;
            let kept = dump.values().map(Vec::len).sum::<usize>() + executions.len();
            assert_eq!(kept, inserted - 1, "{url}, time {time}: all rows but the version in meta");
            let uploaded = rows(&database, "SELECT abi FROM contracts WHERE abi_source = 'uploaded'").await;
            assert_eq!(uploaded, [r#"abi="[{\"type\":\"function\",\"name\":\"total\"}]""#]);
            assert_eq!(rows(&database, "SELECT * FROM meta WHERE key = 'schema'").await, Vec::<String>::new());
            assert_eq!(rows(&database, "SELECT version FROM _sqlx_migrations").await, ["version=1"]);
            dumps.push(dump);
        }
    }
    for dump in &dumps[1..] {
        assert_same(&dumps[0], dump, "SQLite and PostgreSQL, first and second time");
    }
}

/// Future migrations apply to old and new databases alike.
#[tokio::test]
async fn old_and_new_database_have_equal_tables() {
    const TABLES: &str = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%'";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("explorer.db");
    execute(&format!("sqlite://{}?mode=rwc", path.display()), BEFORE_MIGRATIONS).await;
    let (old, (new, _directory)) = (Database::in_file(&path).await.unwrap(), sqlite().await);
    let squeeze = |row: &String| row.replace("\\n", " ").split_whitespace().collect::<String>();
    let tables = |rows: Vec<String>| rows.iter().map(squeeze).collect::<Vec<_>>();
    let (old, new) = (tables(rows(&old, TABLES).await), tables(rows(&new, TABLES).await));
    assert!(old.len() > 50, "{} tables and indexes", old.len());
    assert_eq!(old, new);
}

#[tokio::test]
async fn newer_and_unknown_databases_are_refused() {
    let (postgres, directory) = (postgres().await, tempfile::tempdir().unwrap());
    for url in urls(&postgres, &directory).await {
        let cases = [
            ("INSERT INTO meta (key, value) VALUES ('schema', 'older')", "got older of an early build; delete the database"),
            (
                "DELETE FROM meta; INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (8, 'later', true, '', 0), (9, 'latest', true, '', 0)",
                "expected schema version 1 or an earlier one, got 9 of a newer version of this program; update this program, restore a \
                 backup from before that version, or use an empty database",
            ),
            (
                "DELETE FROM _sqlx_migrations WHERE version > 1; UPDATE _sqlx_migrations SET checksum = ''",
                "migration 1 was previously applied but has been modified; the database keeps its schema",
            ),
        ];
        Database::open(&url).await.unwrap();
        for (change, expected) in cases {
            execute(&url, change).await;
            let error = Database::open(&url).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{url}: {error}");
        }
        let error = Database::open(&url).await.unwrap_err();
        assert!(matches!(error, DatabaseError::Migration(_)), "{error}");
    }
}
