//! Data that the indexer receives in addition to blocks: certificates, inner calls, execution statistics, and the
//! newest rounds of the DAG.

use super::{
    blocks::hash,
    random::Random,
    traffic::{Traffic, VALIDATORS},
};
use alloy_primitives::{B256, Bytes, U64};
use corniche_api::{DagVertex, Execution, LeaderSlot, SlotStatus};
use corniche_web::{
    database::Rows,
    indexer::{
        Keep, calls,
        dag::{self, Round},
        executions,
    },
    node::{CallFrame, TracedTransaction, WholeBlock},
};
use sqlx::AnyConnection;

/// One in this many transactions calls other contracts.
const WITH_CALLS: usize = 10;

const LANES: usize = 4;

/// Additional data of a block.
pub struct Besides {
    height: u64,
    traced: Vec<TracedTransaction>,
}

impl Besides {
    /// Generates the data of this block. Uses its own random numbers, so that the traffic is the same without it.
    pub fn of(whole: &WholeBlock, traffic: &Traffic) -> Self {
        let height = whole.block.number.to::<u64>();
        let mut random = Random::new(height);
        let one = |(at, transaction): (usize, &corniche_web::node::Transaction)| {
            let to = transaction.to.unwrap_or_default();
            let inner = |random: &mut Random, kind: &str, from, to| CallFrame {
                kind: kind.to_owned(),
                from,
                to: Some(to),
                gas_used: U64::from(3_000 + random.below(10_000)),
                input: transaction.input.clone(),
                ..CallFrame::default()
            };
            let mut outermost = inner(&mut random, "CALL", transaction.from, to);
            if at % WITH_CALLS == 0 {
                let (other, account) = (traffic.token(random.below(10)), traffic.account(random.below(1_000)));
                outermost.calls = vec![inner(&mut random, "STATICCALL", to, other), inner(&mut random, "CALL", to, account)];
            }
            if whole.receipts.get(at).is_some_and(|receipt| receipt.status.is_zero()) {
                outermost.error = Some("execution reverted".to_owned());
                outermost.revert_reason = Some("balance too low".to_owned());
            }
            TracedTransaction { result: Some(outermost) }
        };
        Self { height, traced: whole.block.transactions.iter().enumerate().map(one).collect() }
    }
}

/// Writes the data in the same way as the lanes.
pub async fn write(connection: &mut AnyConnection, group: Vec<Besides>) {
    let columns = &["height", "first", "signers", "signature", "fault_model", "seen_ms"];
    let (mut certificates, mut executions) = (Rows::new("certificates", columns), executions::rows());
    for Besides { height, traced } in group {
        let signers = vec![(1u8 << VALIDATORS) - 1];
        let (signature, model) = (vec![7u8; 48], "byzantine".to_owned());
        certificates.push([height.into(), height.into(), signers.into(), signature.into(), model.into(), 0u64.into()]);
        executions::push(&mut executions, height, traced.len() as u64, Some(execution(traced.len())));
        calls::write_block(connection, height, traced).await.expect("calls");
    }
    certificates.write(connection).await.expect("certificates");
    executions.write(connection).await.expect("executions");
}

fn execution(transactions: usize) -> Execution {
    let lane_of: Vec<u8> = (0..transactions).map(|at| (at % LANES) as u8).collect();
    let runs_of: Vec<u8> = (0..transactions).map(|at| 1 + u8::from(at % 9 == 0)).collect();
    let runs = runs_of.iter().map(|runs| u64::from(*runs)).sum();
    Execution {
        threads: LANES as u64,
        runs,
        runs_again: runs - transactions as u64,
        waits: 3,
        adopted: 0,
        duration_us: 9_000,
        lane_of: Bytes::from(lane_of),
        runs_of: Bytes::from(runs_of),
        received_of: Bytes::from(1_700_000_000_000_u64.to_be_bytes().repeat(transactions)),
    }
}

/// Writes as many rounds of the DAG as an explorer keeps. Each has a proposal of every validator, which references all
/// proposals of the previous round, and one leader.
pub async fn write_rounds(connection: &mut AnyConnection, newest: u64) {
    let digest = |round, author| hash(&[7, round, author]);
    let mut rounds = Vec::new();
    for round in newest.saturating_sub(Keep::default().dag_rounds) + 1..=newest {
        let vertex = |author| DagVertex {
            round,
            author,
            digest: digest(round, author),
            parents: (0..VALIDATORS).map(|author| digest(round - 1, author)).collect(),
            batch_bytes: 20_000,
            batch_digest: Some(hash(&[8, round, author])),
            proposed_ms: None,
            accepted_ms: Some(round),
            holders: Vec::new(),
        };
        let slot = LeaderSlot {
            round,
            rank: 0,
            validator: round % VALIDATORS,
            status: SlotStatus::Committed,
            digest: Some(digest(round, round % VALIDATORS)),
            why: Some("direct".to_owned()),
            decided_ms: Some(round),
            commit: Some(round),
            voters: Vec::new(),
            confirmers: Vec::new(),
        };
        rounds.push((round, Round { vertices: (0..VALIDATORS).map(vertex).collect(), slots: vec![slot] }));
    }
    for rows in dag::rows(rounds, newest) {
        rows.write(connection).await.expect("rounds");
    }
}

/// Returns a batch digest for the search.
pub fn batch(round: u64) -> B256 {
    hash(&[8, round, 0])
}
