//! One schema and one text of every query, on SQLite and on PostgreSQL.
//!
//! SQLite lives in one file and needs no service; it has one writer, which is the indexer. PostgreSQL is for what a file is too small for.
//! Queries name their parameters `$1`, `$2`, which both understand, and touch only 64-bit integers, bytes and text, of which both have the
//! same idea. Numbers of 256 bits are 32 bytes ([`U256Bytes`]).

mod keys;
mod rows;

pub use keys::{Keys, select};
pub use rows::{Parameters, Rows, Value};

use alloy_primitives::{Address, B256, U256, keccak256};
use sqlx::{
    AnyConnection, AnyPool, AssertSqlSafe, Row,
    any::{AnyArguments, AnyPoolOptions, AnyRow},
    query::Query,
};
use std::{path::Path, time::Duration};

/// The tables, in SQLite's words.
const SCHEMA: &str = include_str!("database/schema.sql");

/// What of a schema is kept under `schema` in `meta`: a database with other tables is refused, and built again. Comments and white space make
/// no other tables.
fn version(schema: &str) -> String {
    let code: String = statements(schema).join(";").split_whitespace().collect();
    hex::encode(&keccak256(code)[..8])
}

/// Connections for pages and API; the indexer has one of its own.
const READERS: u32 = 8;

/// Positions within a block that a place has room for.
const PLACES: u32 = 20;

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// What the database said.
    #[error("the explorer's database: {0}")]
    Failed(#[from] sqlx::Error),
    /// It was written by another version of this program.
    #[error(
        "the explorer's database is of another version of this program, with tables {found} in place of {wanted}: delete it or name an empty \
         one, and start again: it is filled from the node, and only uploaded interfaces have to be uploaded again"
    )]
    Version {
        /// As it says itself.
        found: String,
        /// Of this program.
        wanted: String,
    },
    /// A row that this program would not have written.
    #[error("the explorer's database holds nonsense in {column}: {problem}")]
    Nonsense {
        /// Where.
        column: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The URL names no database we know.
    #[error("{0} is no database: use sqlite:PATH or postgres://USER@HOST/NAME")]
    Url(String),
}

/// A pool of readers, and where the writer connects.
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
            // Without what may be a password.
            _ => Err(DatabaseError::Url(url.split('@').next_back().unwrap_or_default().to_owned())),
        }
    }

    fn schema(self) -> String {
        match self {
            Self::Sqlite => SCHEMA.to_owned(),
            Self::Postgres => SCHEMA.replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA").replace(") WITHOUT ROWID", ")"),
        }
    }
}

impl Database {
    /// A database in a file of its own, made when it is not there.
    pub async fn in_file(path: &Path) -> Result<Self, DatabaseError> {
        Self::open(&format!("sqlite://{}?mode=rwc", path.display())).await
    }

    /// The database at this URL, with its tables. An empty one gets them.
    pub async fn open(url: &str) -> Result<Self, DatabaseError> {
        sqlx::any::install_default_drivers();
        let dialect = Dialect::of(url)?;
        let readers = pool(dialect, READERS).connect(url).await?;
        let database = Self { readers, url: url.to_owned(), dialect };
        database.prepare().await?;
        Ok(database)
    }

    /// Makes the tables where there are none.
    async fn prepare(&self) -> Result<(), DatabaseError> {
        let wanted = version(SCHEMA);
        let mut writer = self.writer().await?;
        // Asking is the only way that both have to find out.
        let found = sqlx::query("SELECT value FROM meta WHERE key = 'schema'").fetch_optional(&mut *writer).await;
        if let Ok(Some(row)) = found {
            let found: String = row.try_get(0)?;
            return if found == wanted { Ok(()) } else { Err(DatabaseError::Version { found, wanted }) };
        }
        let mut transaction = sqlx::Connection::begin(&mut *writer).await?;
        for statement in statements(&self.dialect.schema()) {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *transaction).await?;
        }
        let remember = sqlx::query("INSERT INTO meta (key, value) VALUES ('schema', $1)").bind(wanted);
        remember.execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// For pages and API.
    pub fn readers(&self) -> &AnyPool {
        &self.readers
    }

    /// A connection for the indexer. One at a time writes.
    pub async fn writer(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Any>, DatabaseError> {
        Ok(pool(self.dialect, 1).connect(&self.url).await?.acquire().await?)
    }

    /// How the database means to answer a query, as it says it; for tests that look for scans. PostgreSQL is asked for the way that it
    /// would go if tables were large: through indexes wherever there is one that serves.
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
            "SET LOCAL enable_hashjoin = off",
            "SET LOCAL enable_mergejoin = off",
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
    // A server may have hung up since a connection was used; a file does not.
    let options = AnyPoolOptions::new().max_connections(connections).test_before_acquire(dialect == Dialect::Postgres);
    options.acquire_timeout(Duration::from_secs(10)).after_connect(move |connection: &mut AnyConnection, _| {
        Box::pin(async move {
            let settings: &[&'static str] = match dialect {
                // Readers see a state while the writer goes on. A power cut may take the newest blocks, which are asked for again.
                Dialect::Sqlite => &[
                    "PRAGMA journal_mode = WAL",
                    "PRAGMA synchronous = NORMAL",
                    "PRAGMA busy_timeout = 10000",
                    "PRAGMA cache_size = -65536",
                    "PRAGMA temp_store = MEMORY",
                ],
                Dialect::Postgres => &["SET synchronous_commit = off", "SET statement_timeout = '10s'"],
            };
            for setting in settings {
                sqlx::query(*setting).execute(&mut *connection).await?;
            }
            Ok(())
        })
    })
}

/// The statements of the schema: what stands between semicolons, without comments.
fn statements(schema: &str) -> Vec<String> {
    let code: Vec<&str> = schema.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    let statements = code.join("\n");
    statements.split(';').map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}

/// A query whose text is fixed when this is compiled.
pub fn sql(text: &'static str) -> Query<'static, sqlx::Any, AnyArguments> {
    sqlx::query(text)
}

/// A transaction's, log's, transfer's or call's place: its block's number and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub i64);

impl Place {
    /// Above every place there is.
    pub const END: Self = Self(i64::MAX);

    /// Things of one kind that a block has places for.
    pub const ROOM: usize = 1 << PLACES;

    /// The place of the n-th thing of a block, counted from 0.
    pub fn new(block: u64, position: u64) -> Self {
        debug_assert!(position < 1 << PLACES);
        Self(((block << PLACES) | position) as i64)
    }

    /// The first place of a block.
    pub fn first(block: u64) -> Self {
        Self::new(block, 0)
    }

    /// The block's number.
    pub fn block(self) -> u64 {
        (self.0 >> PLACES) as u64
    }

    /// Counted from 0 within the block.
    pub fn position(self) -> u64 {
        self.0 as u64 & ((1 << PLACES) - 1)
    }
}

/// What a column is read as. A column that holds something else is damage, and said to be.
pub trait Read {
    /// A whole number.
    fn int(&self, column: &'static str) -> Result<i64, DatabaseError>;
    /// A whole number that may be missing.
    fn maybe_int(&self, column: &'static str) -> Result<Option<i64>, DatabaseError>;
    /// Bytes.
    fn bytes(&self, column: &'static str) -> Result<Vec<u8>, DatabaseError>;
    /// Bytes that may be missing.
    fn maybe_bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>, DatabaseError>;
    /// Text.
    fn text(&self, column: &'static str) -> Result<String, DatabaseError>;
    /// Text that may be missing.
    fn maybe_text(&self, column: &'static str) -> Result<Option<String>, DatabaseError>;

    /// A number that is never negative.
    fn number(&self, column: &'static str) -> Result<u64, DatabaseError> {
        Ok(self.int(column)?.max(0) as u64)
    }

    /// The same, which may be missing.
    fn maybe_number(&self, column: &'static str) -> Result<Option<u64>, DatabaseError> {
        Ok(self.maybe_int(column)?.map(|number| number.max(0) as u64))
    }

    /// Bytes that `SUBSTR` cut out of others. SQLite says null where these are empty, PostgreSQL says that they are empty.
    fn beginning(&self, column: &'static str) -> Result<Vec<u8>, DatabaseError> {
        Ok(self.maybe_bytes(column)?.unwrap_or_default())
    }

    /// A place.
    fn place(&self, column: &'static str) -> Result<Place, DatabaseError> {
        self.int(column).map(Place)
    }

    /// 20 bytes.
    fn address(&self, column: &'static str) -> Result<Address, DatabaseError> {
        Address::try_from(self.bytes(column)?.as_slice()).map_err(|error| nonsense(column, error))
    }

    /// 20 bytes that may be missing.
    fn maybe_address(&self, column: &'static str) -> Result<Option<Address>, DatabaseError> {
        let bytes = self.maybe_bytes(column)?;
        bytes.map(|bytes| Address::try_from(bytes.as_slice())).transpose().map_err(|error| nonsense(column, error))
    }

    /// 32 bytes.
    fn hash(&self, column: &'static str) -> Result<B256, DatabaseError> {
        B256::try_from(self.bytes(column)?.as_slice()).map_err(|error| nonsense(column, error))
    }

    /// The first four bytes of a call's input; `None` where it has fewer, or none at all.
    fn selector(&self, column: &'static str) -> Result<Option<[u8; 4]>, DatabaseError> {
        Ok(self.maybe_bytes(column)?.and_then(|bytes| bytes.try_into().ok()))
    }

    /// A number of 256 bits.
    fn amount(&self, column: &'static str) -> Result<U256, DatabaseError> {
        U256::try_from_be_slice(&self.bytes(column)?).ok_or_else(|| nonsense(column, "more than 32 bytes"))
    }
}

fn nonsense(column: &'static str, problem: impl ToString) -> DatabaseError {
    DatabaseError::Nonsense { column, problem: problem.to_string() }
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

/// 256 bits as the database orders them.
pub fn amount(number: U256) -> Vec<u8> {
    number.to_be_bytes::<32>().to_vec()
}

/// A number as the database holds it. What no chain reaches stays the largest.
pub fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_block_and_a_position() {
        let place = Place::new(1_000_000, 77);
        assert_eq!((place.block(), place.position()), (1_000_000, 77));
        assert!(Place::new(5, 1) > Place::new(5, 0));
        assert!(Place::new(6, 0) > Place::new(5, 1_000_000));
    }

    #[test]
    fn postgres_is_told_the_same_tables_in_its_words() {
        let schema = Dialect::Postgres.schema();
        for word in ["INTEGER", "BLOB", "ROWID"] {
            let code: Vec<_> = statements(&schema).into_iter().filter(|statement| statement.contains(word)).collect();
            assert_eq!(code, Vec::<String>::new(), "{word} is SQLite's");
        }
        assert_eq!(statements(&schema).len(), statements(SCHEMA).len());
    }

    #[test]
    fn only_other_tables_are_another_version() {
        let plain = version("CREATE TABLE a (b INTEGER);");
        let spoken = "-- What it is for; and why.\nCREATE TABLE a (\n    -- Of something.\n    b INTEGER -- or nothing\n);\n\n";
        assert_eq!(version(spoken), plain);
        for other in [
            "CREATE TABLE a (b BLOB);",
            "CREATE TABLE a (b INTEGER, c INTEGER);",
            "CREATE TABLE a (b INTEGER); CREATE INDEX i ON a (b);",
        ] {
            assert_ne!(version(other), plain, "{other}");
        }
    }

    #[test]
    fn what_is_no_database_is_said_without_its_password() {
        let error = Dialect::of("mysql://me:secret@host/name").unwrap_err();
        assert_eq!(error.to_string(), "host/name is no database: use sqlite:PATH or postgres://USER@HOST/NAME");
    }
}
