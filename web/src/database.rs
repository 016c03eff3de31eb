//! The explorer's database: one schema and one set of queries for SQLite and PostgreSQL.
//!
//! SQLite is one file and needs no server. It allows one writer, which is the indexer. PostgreSQL serves chains that
//! are too large for one file. Queries number their parameters `$1`, `$2` and use only 64-bit integers, bytes and text,
//! which both databases treat alike. 256-bit numbers are stored as 32 bytes ([`amount`]).

mod keys;
mod migrations;
mod rows;

pub use keys::{Keys, select};
pub use rows::{Parameters, Rows, Value};

use alloy_primitives::{Address, B256, U256};
use sqlx::{
    AnyConnection, AnyPool, AssertSqlSafe, Row,
    any::{AnyArguments, AnyPoolOptions, AnyRow},
    query::Query,
};
use std::{path::Path, time::Duration};

/// Connections for pages and the API. The indexer has its own.
const READERS: u32 = 8;

/// Number of bits for the position within a block in a [`Place`].
const PLACES: u32 = 20;

/// Error of the explorer's database.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Error of the database.
    #[error("explorer database: {0}")]
    Failed(#[from] sqlx::Error),
    /// The database is older than the first migration.
    #[error(
        "explorer database: expected schema {wanted} or a later one, got {found} of an early build; delete the database or use an empty \
         one, then start again. It is filled from the node; only uploaded ABIs have to be uploaded again"
    )]
    TooOld {
        /// Schema of the database.
        found: String,
        /// Oldest schema that this program can migrate.
        wanted: &'static str,
    },
    /// The database is newer than the newest migration of this program.
    #[error(
        "explorer database: expected schema version {known} or an earlier one, got {found} of a newer version of this program; update \
         this program, restore a backup from before that version, or use an empty database"
    )]
    TooNew {
        /// Newest schema version of the database.
        found: i64,
        /// Newest schema version of this program.
        known: i64,
    },
    /// A migration failed. It has no effect on the database.
    #[error(
        "explorer database: {0}; the database keeps its schema. Start again, use the version of this program that wrote it, or use an \
         empty database"
    )]
    Migration(sqlx::migrate::MigrateError),
    /// A row has a value that this program does not write.
    #[error("explorer database: invalid value in column {column}: {problem}")]
    InvalidValue {
        /// Column name.
        column: &'static str,
        /// Description of the invalid value.
        problem: String,
    },
    /// The URL scheme is neither `sqlite` nor `postgres`.
    #[error("{0}: expected a database URL sqlite:PATH or postgres://USER@HOST/NAME")]
    Url(String),
}

/// A pool of read connections, and the URL for the writer's connection.
#[derive(Clone, Debug)]
pub struct Database {
    readers: AnyPool,
    url: String,
    dialect: Dialect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    fn of(url: &str) -> Result<Self, DatabaseError> {
        match url.split(':').next() {
            Some("sqlite") => Ok(Self::Sqlite),
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            // Omits the part before `@`, which may contain a password.
            _ => Err(DatabaseError::Url(url.split('@').next_back().unwrap_or_default().to_owned())),
        }
    }
}

impl Database {
    /// Opens a SQLite file; creates it if it does not exist.
    pub async fn in_file(path: &Path) -> Result<Self, DatabaseError> {
        Self::open(&format!("sqlite://{}?mode=rwc", path.display())).await
    }

    /// Opens the database at this URL, and brings its tables to the newest version.
    pub async fn open(url: &str) -> Result<Self, DatabaseError> {
        sqlx::any::install_default_drivers();
        let dialect = Dialect::of(url)?;
        let readers = pool(dialect, READERS).connect(url).await?;
        let database = Self { readers, url: url.to_owned(), dialect };
        migrations::run(&mut *database.writer().await?, dialect).await?;
        Ok(database)
    }

    /// Returns the connection pool for pages and the API.
    pub fn readers(&self) -> &AnyPool {
        &self.readers
    }

    /// Returns a connection for the indexer. There must be only one writer at a time.
    pub async fn writer(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Any>, DatabaseError> {
        Ok(pool(self.dialect, 1).connect(&self.url).await?.acquire().await?)
    }

    /// Returns the query plan, so that tests can detect table scans. On PostgreSQL the planner is set to prefer
    /// indexes, as it would on large tables.
    pub async fn plan(&self, query: &str) -> Result<Vec<String>, DatabaseError> {
        let mut connection = self.readers.acquire().await?;
        if self.dialect == Dialect::Sqlite {
            let query = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {query}")));
            let rows = query.fetch_all(&mut *connection).await?;
            return rows.iter().map(|row| Ok(row.try_get(3)?)).collect();
        }
        let mut transaction = sqlx::Connection::begin(&mut *connection).await?;
        let parameters = (1..).take_while(|at| query.contains(&format!("${at}"))).map(|_| "NULL").collect::<Vec<_>>().join(",");
        let arguments = if parameters.is_empty() { String::new() } else { format!("({parameters})") };
        for setting in [
            "SET LOCAL plan_cache_mode = force_generic_plan",
            "SET LOCAL enable_seqscan = off",
            "SET LOCAL enable_bitmapscan = off",
            "SET LOCAL enable_sort = off",
        ] {
            sqlx::raw_sql(setting).execute(&mut *transaction).await?;
        }
        sqlx::raw_sql(AssertSqlSafe(format!("PREPARE asked AS {query}"))).execute(&mut *transaction).await?;
        let rows =
            sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN EXECUTE asked{arguments}"))).fetch_all(&mut *transaction).await?;
        sqlx::raw_sql("DEALLOCATE asked").execute(&mut *transaction).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }
}

fn pool(dialect: Dialect, connections: u32) -> AnyPoolOptions {
    // A server may have closed an idle connection; a file cannot.
    let options = AnyPoolOptions::new().max_connections(connections).test_before_acquire(dialect == Dialect::Postgres);
    options.acquire_timeout(Duration::from_secs(10)).after_connect(move |connection: &mut AnyConnection, _| {
        Box::pin(async move {
            let settings: &[&'static str] = match dialect {
                // WAL lets readers use a snapshot while the writer continues. A power failure may lose the newest
                // blocks, which are then fetched again.
                Dialect::Sqlite => &[
                    "PRAGMA journal_mode = WAL",
                    "PRAGMA synchronous = NORMAL",
                    "PRAGMA busy_timeout = 10000",
                    "PRAGMA cache_size = -65536",
                    "PRAGMA temp_store = MEMORY",
                ],
                // Lists read an index from a place on, and look the rest up row by row. The planner prefers a merge with the other
                // table for busy accounts, which begins at that table's end: from an old place, that reads millions of rows.
                Dialect::Postgres => &[
                    "SET synchronous_commit = off",
                    "SET statement_timeout = '10s'",
                    "SET enable_hashjoin = off",
                    "SET enable_mergejoin = off",
                ],
            };
            for setting in settings {
                sqlx::query(*setting).execute(&mut *connection).await?;
            }
            Ok(())
        })
    })
}

/// Creates a query with static text.
pub fn sql(text: &'static str) -> Query<'static, sqlx::Any, AnyArguments> {
    sqlx::query(text)
}

/// Position of a transaction, log, transfer or call in the chain: block number and position within the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub i64);

impl Place {
    /// Greater than every valid place.
    pub const END: Self = Self(i64::MAX);

    /// Maximum number of items of one kind in a block.
    pub const ROOM: usize = 1 << PLACES;

    /// Returns the place of item number `position` of a block, counted from 0.
    pub fn new(block: u64, position: u64) -> Self {
        debug_assert!(position < 1 << PLACES);
        Self(((block << PLACES) | position) as i64)
    }

    /// Returns the first place of a block.
    pub fn first(block: u64) -> Self {
        Self::new(block, 0)
    }

    /// Returns the block number.
    pub fn block(self) -> u64 {
        (self.0 >> PLACES) as u64
    }

    /// Returns the position within the block, counted from 0.
    pub fn position(self) -> u64 {
        self.0 as u64 & ((1 << PLACES) - 1)
    }
}

/// Typed access to the columns of a row. A value of another type is an error.
pub trait Read {
    /// Reads an integer.
    fn int(&self, column: &'static str) -> Result<i64, DatabaseError>;
    /// Reads a nullable integer.
    fn maybe_int(&self, column: &'static str) -> Result<Option<i64>, DatabaseError>;
    /// Reads bytes.
    fn bytes(&self, column: &'static str) -> Result<Vec<u8>, DatabaseError>;
    /// Reads nullable bytes.
    fn maybe_bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>, DatabaseError>;
    /// Reads text.
    fn text(&self, column: &'static str) -> Result<String, DatabaseError>;
    /// Reads nullable text.
    fn maybe_text(&self, column: &'static str) -> Result<Option<String>, DatabaseError>;

    /// Reads an integer that is never negative.
    fn number(&self, column: &'static str) -> Result<u64, DatabaseError> {
        Ok(self.int(column)?.max(0) as u64)
    }

    /// Reads a nullable integer that is never negative.
    fn maybe_number(&self, column: &'static str) -> Result<Option<u64>, DatabaseError> {
        Ok(self.maybe_int(column)?.map(|number| number.max(0) as u64))
    }

    /// Reads the result of `SUBSTR` on bytes. For an empty result SQLite returns null and PostgreSQL empty bytes.
    fn beginning(&self, column: &'static str) -> Result<Vec<u8>, DatabaseError> {
        Ok(self.maybe_bytes(column)?.unwrap_or_default())
    }

    /// Reads a place.
    fn place(&self, column: &'static str) -> Result<Place, DatabaseError> {
        self.int(column).map(Place)
    }

    /// Reads an address: 20 bytes.
    fn address(&self, column: &'static str) -> Result<Address, DatabaseError> {
        Address::try_from(self.bytes(column)?.as_slice()).map_err(|error| invalid_value(column, error))
    }

    /// Reads a nullable address: 20 bytes.
    fn maybe_address(&self, column: &'static str) -> Result<Option<Address>, DatabaseError> {
        let bytes = self.maybe_bytes(column)?;
        bytes.map(|bytes| Address::try_from(bytes.as_slice())).transpose().map_err(|error| invalid_value(column, error))
    }

    /// Reads a hash: 32 bytes.
    fn hash(&self, column: &'static str) -> Result<B256, DatabaseError> {
        B256::try_from(self.bytes(column)?.as_slice()).map_err(|error| invalid_value(column, error))
    }

    /// Reads the first four bytes of a call's input; `None` if there are fewer than four.
    fn selector(&self, column: &'static str) -> Result<Option<[u8; 4]>, DatabaseError> {
        Ok(self.maybe_bytes(column)?.and_then(|bytes| bytes.try_into().ok()))
    }

    /// Reads a 256-bit number.
    fn amount(&self, column: &'static str) -> Result<U256, DatabaseError> {
        U256::try_from_be_slice(&self.bytes(column)?).ok_or_else(|| invalid_value(column, "more than 32 bytes"))
    }
}

fn invalid_value(column: &'static str, problem: impl ToString) -> DatabaseError {
    DatabaseError::InvalidValue { column, problem: problem.to_string() }
}

impl Read for AnyRow {
    fn int(&self, column: &'static str) -> Result<i64, DatabaseError> {
        Ok(self.try_get(column)?)
    }

    fn maybe_int(&self, column: &'static str) -> Result<Option<i64>, DatabaseError> {
        Ok(self.try_get(column)?)
    }

    fn bytes(&self, column: &'static str) -> Result<Vec<u8>, DatabaseError> {
        Ok(self.try_get(column)?)
    }

    fn maybe_bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>, DatabaseError> {
        Ok(self.try_get(column)?)
    }

    fn text(&self, column: &'static str) -> Result<String, DatabaseError> {
        Ok(self.try_get(column)?)
    }

    fn maybe_text(&self, column: &'static str) -> Result<Option<String>, DatabaseError> {
        Ok(self.try_get(column)?)
    }
}

/// Encodes a 256-bit number so that the database sorts it by value.
pub fn amount(number: U256) -> Vec<u8> {
    number.to_be_bytes::<32>().to_vec()
}

/// Converts a number for the database. Numbers above `i64::MAX`, which no chain reaches, become `i64::MAX`.
pub fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_encodes_block_and_position() {
        let place = Place::new(1_000_000, 77);
        assert_eq!((place.block(), place.position()), (1_000_000, 77));
        assert!(Place::new(5, 1) > Place::new(5, 0));
        assert!(Place::new(6, 0) > Place::new(5, 1_000_000));
    }

    #[test]
    fn invalid_url_error_omits_password() {
        let error = Dialect::of("mysql://me:secret@host/name").unwrap_err();
        assert_eq!(error.to_string(), "host/name: expected a database URL sqlite:PATH or postgres://USER@HOST/NAME");
    }
}
