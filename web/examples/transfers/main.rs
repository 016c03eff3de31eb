//! Writes many token transfers through the indexer's own write path, with all data that the indexer receives in
//! addition, and measures every page on them:
//! `cargo run --release -p corniche-web --example transfers -- sqlite 10000000 [SEED] [DIRECTORY]`, or `postgres`,
//! which
//! starts a server.
//! Both databases are deleted at the end. With the URL of a database instead, the data is kept: transfers that it
//! already has from the same seed are not written again.
//!
//! Accounts and tokens are chosen by Zipf's law: a few have most of the traffic. Exits with code 1 if the p99 of a page
//! exceeds the limit.

#![allow(clippy::print_stdout)] // The figures are the result.

mod besides;
#[path = "../../tests/indexing/blocks.rs"]
mod blocks;
mod pages;
#[path = "../../tests/indexing/postgres.rs"]
mod postgres;
#[path = "../../tests/indexing/random.rs"]
#[allow(dead_code, reason = "tests use the rest of it")]
mod random;
mod traffic;

use besides::Besides;
use corniche_web::{
    database::Database,
    indexer::{BLOCKS_IN_GROUP, TRANSACTIONS_IN_GROUP, contracts::Code, digest::digest, tokens::TokenMetadata, write},
};
use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use traffic::Traffic;

/// ABI of the tokens.
const INTERFACE: &str = include_str!("erc20.json");

/// Number of transfers between two lines of progress.
const STEP: u64 = 100_000;

#[tokio::main]
async fn main() -> ExitCode {
    let argument = |at| std::env::args().nth(at);
    let kind = argument(1).expect("sqlite, postgres or the URL of a database");
    let transfers: u64 = argument(2).expect("a number of transfers").parse().expect("a number of transfers");
    let seed: u64 = argument(3).map_or(1, |seed| seed.parse().expect("a seed"));
    let place = argument(4).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = TempDir::new_in(&place).expect("a directory");
    let postgres = match kind.as_str() {
        "postgres" => Some(postgres::Postgres::start_in(&place).await),
        _ => None,
    };
    let url = match (&postgres, kind.as_str()) {
        (Some(postgres), _) => postgres.database("transfers").await,
        (None, "sqlite") => format!("sqlite://{}?mode=rwc", directory.path().join("explorer.db").display()),
        (None, url) => url.to_owned(),
    };
    let database = Database::open(&url).await.expect("a database");
    let traffic = Traffic::new(seed, transfers);
    let name = format!("{}/transfers={transfers}/{}/seed={seed}", kind.split(':').next().unwrap_or_default(), traffic.name());
    let traffic = write_all(&database, traffic, &name).await;
    println!(
        "{name}/size: {:.0} bytes a transfer, {:.1} GB",
        bytes(&database).await / transfers as f64,
        bytes(&database).await / 1e9
    );
    // A server does this by itself after a while.
    if name.starts_with("postgres") {
        let mut connection = database.writer().await.expect("a connection");
        // This exceeds the explorer's statement timeout.
        sqlx::raw_sql("SET statement_timeout = 0").execute(&mut *connection).await.expect("all the time it needs");
        sqlx::raw_sql("ANALYZE").execute(&mut *connection).await.expect("statistics");
    }
    match pages::measure(database, &traffic, &name).await {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Writes the traffic like an indexer that catches up.
async fn write_all(database: &Database, mut traffic: Traffic, name: &str) -> Traffic {
    let mut connection = database.writer().await.expect("a connection");
    if let Some(tip) = write::tip(&mut connection).await.expect("its newest block") {
        while traffic.blocks < tip.number && traffic.next_block().is_some() {}
        assert_eq!(traffic.parent, tip.hash, "the database holds something else");
    }
    let code = Code::read(&corniche_abi::interface::embed(b"\0asm\x01\0\0\0", INTERFACE.as_bytes()));
    let (mut busy, mut step, mut written, mut said) = (Duration::ZERO, Duration::ZERO, 0, 0);
    loop {
        let (mut group, mut told, before) = (Vec::new(), Vec::new(), traffic.made());
        while group.len() < BLOCKS_IN_GROUP && traffic.made() - before < TRANSACTIONS_IN_GROUP {
            let Some(block) = traffic.next_block() else { break };
            told.push(Besides::of(&block, &traffic));
            group.push(block);
        }
        if group.is_empty() {
            break;
        }
        let began = Instant::now();
        let digests: Vec<_> = group.iter().map(|block| digest(block, None).expect("a digest")).collect();
        let unknown = write::missing_metadata(&mut connection, &digests).await.expect("what is unknown");
        let token = |at: usize| TokenMetadata { name: format!("Token {at}"), symbol: format!("TKN{at}"), decimals: 18 };
        let metadata = write::FetchedMetadata {
            tokens: unknown.tokens.into_iter().enumerate().map(|(at, address)| (address, token(at))).collect(),
            contracts: unknown.contracts.into_iter().map(|address| (address, code.clone())).collect(),
        };
        write::write(&mut connection, digests, &metadata).await.expect("written");
        besides::write(&mut connection, told).await;
        busy += began.elapsed();
        step += began.elapsed();
        written += traffic.made() - before;
        if written / STEP > said / STEP {
            let rate = (written - said) as f64 / step.as_secs_f64();
            println!("{name}/written={written}: {rate:.0} transfers a second, {:.2} GB", bytes(database).await / 1e9);
            (said, step) = (written, Duration::ZERO);
        }
    }
    besides::write_rounds(&mut connection, traffic.blocks).await;
    if written > 0 {
        let seconds = busy.as_secs_f64();
        println!("{name}/rate: {:.0} transfers a second in all, {seconds:.0} s", written as f64 / seconds);
    }
    traffic
}

/// Returns the size of the database.
async fn bytes(database: &Database) -> f64 {
    let lite = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
    let large = "SELECT pg_database_size(current_database())";
    let size = match sqlx::query_scalar::<_, i64>(lite).fetch_one(database.readers()).await {
        Ok(size) => size,
        Err(_) => sqlx::query_scalar::<_, i64>(large).fetch_one(database.readers()).await.expect("a size"),
    };
    size as f64
}
