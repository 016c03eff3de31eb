//! The same tables on both databases, whatever the groups in which blocks are written; and the right ones.

use super::{
    chain::Chain,
    dump::{all, assert_same, rows},
    model::Model,
    postgres, sqlite, write_all,
};
use alloy_primitives::U64;
use corniche_web::database::Database;

const BLOCKS: u64 = 120;

#[tokio::test]
async fn both_databases_hold_the_same() {
    let postgres = postgres().await;
    for seed in 1..=3 {
        let chain = Chain::new(seed, BLOCKS);
        let (lite, _directory) = sqlite().await;
        let large = Database::open(&postgres.database(&format!("same{seed}")).await).await.unwrap();
        write_all(&lite, &chain.blocks, &[1, 7, 50]).await;
        write_all(&large, &chain.blocks, &[1, 7, 50]).await;
        let (lite, large) = (all(&lite).await, all(&large).await);
        assert!(
            lite["balances"].len() > 50 && lite["approvals"].len() > 5 && lite["contracts"].len() > 5,
            "seed {seed}: too little"
        );
        assert_same(&lite, &large, &format!("seed {seed}, SQLite and PostgreSQL"));
    }
}

#[tokio::test]
async fn groups_make_no_difference() {
    for seed in 4..=8 {
        let chain = Chain::new(seed, BLOCKS);
        let (one, _directory) = sqlite().await;
        write_all(&one, &chain.blocks, &[1]).await;
        let one = all(&one).await;
        for groups in [&[BLOCKS as usize][..], &[3, 20]] {
            let (other, _directory) = sqlite().await;
            write_all(&other, &chain.blocks, groups).await;
            assert_same(&one, &all(&other).await, &format!("seed {seed}, one at a time and {groups:?}"));
        }
    }
}

#[tokio::test]
async fn gas_beyond_all_numbers_is_the_largest_one() {
    let mut blocks = Chain::new(25, 12).blocks;
    for whole in blocks.iter_mut().map(|made| &mut made.whole) {
        whole.block.gas_used = U64::MAX;
        whole.receipts.iter_mut().for_each(|receipt| receipt.gas_used = U64::MAX);
    }
    let postgres = postgres().await;
    for (groups, name) in [(&[1][..], "gas_apart"), (&[12], "gas_at_once"), (&[2, 5], "gas_in_groups")] {
        let (lite, _directory) = sqlite().await;
        let large = Database::open(&postgres.database(name).await).await.unwrap();
        for database in [&lite, &large] {
            write_all(database, &blocks, groups).await;
            let days = rows(database, "SELECT day, gas_used FROM days").await;
            assert!(days.len() < blocks.len(), "no day has two blocks: {days:?}");
            assert!(days.iter().all(|day| day.ends_with(&format!("gas_used={}", i64::MAX))), "{days:?}");
        }
        assert_same(&all(&lite).await, &all(&large).await, "SQLite and PostgreSQL");
    }
}

#[tokio::test]
async fn a_plain_model_agrees() {
    for seed in 9..=24 {
        let chain = Chain::new(seed, BLOCKS);
        let (database, _directory) = sqlite().await;
        write_all(&database, &chain.blocks, &[2, 30]).await;
        agrees(&database, &Model::of(&chain.blocks, std::iter::empty()), &format!("seed {seed}")).await;
    }
}

/// Panics with the first lines that differ.
pub async fn agrees(database: &Database, model: &Model, what: &str) {
    for (query, expected) in model.lines() {
        let found = rows(database, query).await;
        let missing: Vec<_> = expected.iter().filter(|line| !found.contains(line)).take(3).collect();
        let surplus: Vec<_> = found.iter().filter(|line| !expected.contains(line)).take(3).collect();
        assert!(found == expected, "{what}: {query}\nmissing: {missing:#?}\nsurplus: {surplus:#?}");
    }
}
