//! The tables are equal on both databases, for any grouping of blocks; and correct.

use super::{
    blocks::{self, Call, Head, block, hash, transaction},
    chain::{Chain, person, token},
    dump::{all, assert_same, rows},
    model::Model,
    postgres, sqlite, write_all,
};
use alloy_primitives::{Bytes, U64, U256};
use corniche_api::BatchRange;
use corniche_web::{
    database::Database,
    indexer::{
        digest::digest_within,
        events::{Standard, TokenEvent},
    },
};

const BLOCKS: u64 = 120;

#[tokio::test]
async fn both_databases_have_equal_tables() {
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
async fn group_size_does_not_change_tables() {
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
async fn numbers_above_i64_are_clamped() {
    let mut blocks = Chain::new(25, 12).blocks;
    for whole in blocks.iter_mut().map(|made| &mut made.whole) {
        whole.block.gas_used = U64::MAX;
        whole.receipts.iter_mut().for_each(|receipt| receipt.gas_used = U64::MAX);
        let Some(ordering) = &mut whole.ordering else { continue };
        ordering.leader = u64::MAX;
        (0..).zip(&mut ordering.batches).for_each(|(at, batch)| batch.author = u64::MAX - at);
        // A batch without transactions in the block has the position of the next one.
        if let Some(first) = ordering.batches.first().cloned() {
            ordering.batches.insert(0, BatchRange { count: 0, ..first });
        }
    }
    let postgres = postgres().await;
    for (groups, name) in [(&[1][..], "apart"), (&[12][..], "at_once"), (&[2, 5][..], "in_groups")] {
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

/// Two transactions with three logs each; each log transfers two ids.
#[test]
fn items_beyond_capacity_are_omitted() {
    let moved = [1_u64, 2].map(|id| TokenEvent::Transfer {
        token: token(2),
        standard: Standard::Erc1155,
        from: person(1),
        to: person(2),
        id: Some(U256::from(id)),
        amount: U256::ONE,
    });
    let call = || Call {
        from: person(1),
        to: Some(token(2)),
        nonce: 0,
        input: Bytes::new(),
        gas_used: 60_000,
        succeeded: true,
        created: None,
        logs: vec![blocks::log(&moved); 3],
    };
    let head = Head {
        number: 7,
        hash: hash(&[7]),
        parent: hash(&[6]),
        time_ms: 1_700_000_000_000,
        leader: 0,
        batches: vec![(0, 2)],
        skipped: vec![],
    };
    let whole = block(&head, vec![transaction(hash(&[8]), call()), transaction(hash(&[9]), call())]);
    // Rows of transactions, logs and transfers; number of token events; number of omitted items.
    for (room, rows, moves, left_out) in
        [(12, [2, 6, 12], 12, 0), (5, [2, 5, 5], 12, 1 + 7), (2, [2, 2, 2], 12, 4 + 10), (1, [1, 1, 1], 6, 1 + 2 + 5)]
    {
        let digest = digest_within(&whole, None, room).unwrap();
        let count = |table| digest.rows.iter().filter(|rows| rows.table() == table).map(|rows| rows.len()).sum::<usize>();
        assert_eq!(["transactions", "logs", "transfers"].map(count), rows, "{room} places");
        assert_eq!((digest.token_events.len(), digest.left_out), (moves, left_out), "{room} places");
        assert_eq!((count("transfer_sides"), digest.transactions), (2 * rows[2], 2), "{room} places");
    }
}

#[tokio::test]
async fn tables_match_the_model() {
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
