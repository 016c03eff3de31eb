//! Tests of the indexer and its databases: equal tables on SQLite and PostgreSQL, correct according to a simple model,
//! complete after every interruption, and no query with a table scan.

mod blocks;
mod chain;
mod dump;
mod indexer_status;
mod migrations;
mod model;
mod node;
mod plans;
mod postgres;
mod pruned;
mod random;
mod resume;
mod tables;

use corniche_web::{database::Database, indexer::contracts::Code, indexer::write};
use tempfile::TempDir;

/// Creates a database in a file of a temporary directory.
async fn sqlite() -> (Database, TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let database = Database::in_file(&directory.path().join("explorer.db")).await.expect("a database");
    (database, directory)
}

/// Starts a PostgreSQL server for one test.
async fn postgres() -> postgres::Postgres {
    postgres::Postgres::start_in(&std::env::temp_dir()).await
}

/// Writes blocks in groups of these sizes, which repeat cyclically.
async fn write_all(database: &Database, blocks: &[chain::Made], groups: &[usize]) {
    let mut connection = database.writer().await.expect("a connection");
    let (mut left, mut groups) = (blocks, groups.iter().cycle());
    while !left.is_empty() {
        let (group, rest) = left.split_at((*groups.next().expect("a size")).min(left.len()));
        left = rest;
        let digests = group.iter().map(|made| corniche_web::indexer::digest::digest(&made.whole, None).expect("a digest"));
        let digests: Vec<_> = digests.collect();
        let unknown = write::missing_metadata(&mut connection, &digests).await.expect("what is unknown");
        let metadata = write::FetchedMetadata {
            tokens: unknown.tokens.into_iter().map(|token| (token, Default::default())).collect(),
            contracts: unknown
                .contracts
                .into_iter()
                .map(|contract| (contract, node::code(contract)))
                .filter(|(_, code)| !code.is_empty())
                .map(|(contract, code)| (contract, Code::read(&code)))
                .collect(),
        };
        write::write(&mut connection, digests, &metadata).await.expect("written");
    }
}
