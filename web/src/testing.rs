//! An application state for tests: a database in a temporary file, and a node that does not respond.

use crate::{
    app_state::AppState,
    clock::DAY_MS,
    database::{Database, Rows, amount},
    indexer::uploads,
    indexer_status::IndexerStatus,
    limits::{Rate, RateLimiter},
    live::Live,
    node::Node,
    peer_graph::PeerGraph,
};
use alloy_primitives::{Address, B256, U256};
use corniche_api::{Validator, Validators};
use corniche_types::{FaultModel, SignatureChecks};
use std::sync::Arc;
use tempfile::TempDir;

/// An application state, and the directory of its database.
pub struct TestApp {
    pub app: Arc<AppState>,
    _directory: TempDir,
}

/// Creates a state with four validators and a newest block on day 100.
pub async fn test_app() -> TestApp {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::in_file(&directory.path().join("explorer.db")).await.unwrap();
    let indexer_status = Arc::new(IndexerStatus::new("CRN".into()));
    indexer_status.set_chain(7, B256::repeat_byte(7), false, committee(&[1; 4], 3));
    indexer_status.set_indexed(1_000, 100 * DAY_MS);
    // No server listens on this port.
    let nobody = "http://127.0.0.1:1";
    let (node, peer_graph) = (Node::new(nobody), PeerGraph::new([nobody]));
    let (uploads, _) = uploads::channel();
    let app = AppState {
        database,
        node,
        peer_graph,
        indexer_status,
        live: Live::default(),
        limits: RateLimiter::new(Rate::default()),
        uploads,
    };
    TestApp { app: Arc::new(app), _directory: directory }
}

fn committee(votes: &[u64], quorum: u64) -> Validators {
    let validator = |(votes, index): (&u64, u64)| Validator {
        index,
        consensus_key: B256::with_last_byte(index as u8),
        bls_key: [index as u8; 96].into(),
        network_key: B256::with_last_byte(index as u8),
        fee_address: Address::with_last_byte(index as u8),
        votes: *votes,
    };
    let validators = votes.iter().zip(0..).map(validator).collect();
    Validators {
        epoch: 0,
        committee_hash: B256::ZERO,
        engine: "mahi-mahi".into(),
        fault_model: FaultModel::Byzantine,
        quorum,
        signatures: SignatureChecks::Everyone,
        validators,
    }
}

impl TestApp {
    /// Sets the engine that the node reports.
    pub fn introduce(&self, engine: &str) {
        let committee = Validators { engine: engine.into(), ..committee(&[1; 4], 3) };
        self.app.indexer_status.set_chain(7, B256::repeat_byte(7), false, committee);
    }

    /// Sets the votes of the validators that the node reports, and their quorum.
    pub fn introduce_votes(&self, votes: &[u64], quorum: u64) {
        self.app.indexer_status.set_chain(7, B256::repeat_byte(7), false, committee(votes, quorum));
    }

    pub async fn write(&self, rows: Rows) {
        rows.write(&mut self.app.database.writer().await.unwrap()).await.unwrap();
    }

    /// Writes a block of which only number and time matter.
    pub async fn write_block(&self, number: u64, time_ms: u64) {
        let columns = &[
            "number",
            "hash",
            "parent",
            "time_ms",
            "fee_address",
            "transactions",
            "skipped",
            "gas_used",
            "gas_limit",
            "base_fee",
            "bytes",
            "state_root",
            "transactions_root",
            "receipts_root",
            "randomness",
            "extra",
        ];
        let (hash, nothing) = (B256::with_last_byte(number as u8), B256::ZERO);
        let mut rows = Rows::new("blocks", columns);
        let counts = [0, 0, 0, 0, 0, 0u64].map(Into::into);
        let [transactions, skipped, gas_used, gas_limit, base_fee, bytes] = counts;
        rows.push([
            number.into(),
            hash.into(),
            nothing.into(),
            time_ms.into(),
            Address::ZERO.into(),
            transactions,
            skipped,
            gas_used,
            gas_limit,
            base_fee,
            bytes,
            nothing.into(),
            nothing.into(),
            nothing.into(),
            nothing.into(),
            nothing.into(),
        ]);
        self.write(rows).await;
    }

    /// Writes balances of a token, or of its ids.
    pub async fn write_balances(&self, token: Address, balances: &[(Address, Option<u64>, u64)]) {
        let mut rows = Rows::new("balances", &["token", "holder", "token_id", "amount"]);
        for (holder, id, balance) in balances {
            let id = id.map(|id| amount(U256::from(id))).unwrap_or_default();
            rows.push([token.into(), (*holder).into(), id.into(), U256::from(*balance).into()]);
        }
        self.write(rows).await;
    }
}
