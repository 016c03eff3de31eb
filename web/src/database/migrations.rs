//! Versions of the schema. A new version of the program migrates the database, so that its data stays.
//!
//! A migration is a file in `migrations/`. To change the schema, add a file with the statements that turn the previous
//! schema into the new one. Never change a statement of a migration on `main`: databases remember its checksum.

use super::{DatabaseError, Dialect};
use sqlx::{
    AnyConnection, AssertSqlSafe, Row, SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};

/// Description and statements of each migration, in SQLite's dialect. Version 1 is the first.
const MIGRATIONS: [(&str, &str); 1] = [("tables", include_str!("migrations/0001_tables.sql"))];

/// Value of `schema` in `meta` of databases with the tables of migration 1 that were made before there were migrations.
const BEFORE_MIGRATIONS: &str = "b04595d0b09eb02e";

/// Brings a database to the newest version of the schema. Creates the tables if it is empty.
pub async fn run(connection: &mut AnyConnection, dialect: Dialect) -> Result<(), DatabaseError> {
    if dialect == Dialect::Postgres {
        // A migration of a large table exceeds the timeout for queries of pages.
        sqlx::query("SET statement_timeout = 0").execute(&mut *connection).await?;
    }
    let migrator = migrator(dialect);
    adopt(connection, &migrator).await?;
    match migrator.run(&mut *connection).await {
        // The error has the oldest of the unknown versions.
        Err(MigrateError::VersionMissing(_)) => {
            let found = newest(connection).await?;
            Err(DatabaseError::TooNew { found, known: MIGRATIONS.len() as i64 })
        }
        result => result.map_err(DatabaseError::Migration),
    }
}

/// Returns the newest version that was applied to a database with migrations.
async fn newest(connection: &mut AnyConnection) -> Result<i64, DatabaseError> {
    let row = sqlx::query("SELECT version FROM _sqlx_migrations ORDER BY version DESC LIMIT 1").fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}

/// Marks migration 1 as applied in a database with its tables that was made before there were migrations.
async fn adopt(connection: &mut AnyConnection, migrator: &Migrator) -> Result<(), DatabaseError> {
    // Both databases support only a trial query to find out whether the table exists.
    let row = sqlx::query("SELECT value FROM meta WHERE key = 'schema'").fetch_optional(&mut *connection).await;
    let Ok(Some(row)) = row else { return Ok(()) };
    let found: String = row.try_get(0)?;
    if found != BEFORE_MIGRATIONS {
        return Err(DatabaseError::TooOld { found, wanted: BEFORE_MIGRATIONS });
    }
    migrator.skip(&mut *connection, Some(1)).await.map_err(DatabaseError::Migration)?;
    sqlx::query("DELETE FROM meta WHERE key = 'schema'").execute(connection).await?;
    Ok(())
}

fn migrator(dialect: Dialect) -> Migrator {
    let migrations = (1..).zip(MIGRATIONS).map(|(version, (description, text))| {
        let text = AssertSqlSafe(dialect.translate(&statements(text))).into_sql_str();
        Migration::new(version, description.into(), MigrationType::Simple, text, false)
    });
    Migrator::with_migrations(migrations.collect())
}

impl Dialect {
    fn translate(self, statements: &str) -> String {
        match self {
            Self::Sqlite => statements.to_owned(),
            Self::Postgres => statements.replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA").replace(") WITHOUT ROWID", ")"),
        }
    }
}

/// Returns the statements without comments and line breaks, which therefore may change later.
fn statements(text: &str) -> String {
    let code: Vec<&str> = text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    code.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Databases remember the checksum of each migration, and are refused if it changes.
    #[test]
    fn migrations_keep_their_checksums() {
        let checksums = |dialect| {
            let migrator = migrator(dialect);
            migrator.iter().map(|migration| hex::encode(&migration.checksum[..8])).collect::<Vec<_>>()
        };
        assert_eq!(checksums(Dialect::Sqlite), ["ed45e802eeffa7f2"]);
        assert_eq!(checksums(Dialect::Postgres), ["623076a647012dc9"]);
    }

    #[test]
    fn every_file_is_a_migration() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/database/migrations");
        let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name()).collect();
        files.sort();
        let expected =
            (1..).zip(MIGRATIONS).map(|(version, (description, _))| format!("{version:04}_{description}.sql").into());
        assert_eq!(files, expected.collect::<Vec<std::ffi::OsString>>());
    }

    #[test]
    fn postgres_has_no_words_of_sqlite() {
        for migration in migrator(Dialect::Postgres).iter() {
            for word in ["INTEGER", "BLOB", "ROWID"] {
                assert!(!migration.sql.as_str().contains(word), "migration {}: {word} is SQLite's", migration.version);
            }
        }
    }

    #[test]
    fn comments_do_not_change_statements() {
        let plain = "CREATE TABLE a ( b INTEGER );";
        let spoken = "-- What it is for; and why.\nCREATE TABLE a (\n    -- Of something.\n    b INTEGER -- or nothing\n);\n\n";
        assert_eq!(statements(spoken), plain);
    }
}
