//! Blocks, their ordering and their certificates.

use super::{
    problem::Problem,
    request::{ApiRequest, Listing},
    schema::{Amount, ChecksumAddress, object},
};
use crate::{
    app_state::AppState,
    database::{DatabaseError, Read, int, sql},
    indexer::{certificates, dag::leader_of, executions},
    texts::status,
};
use alloy_primitives::{B256, Bytes};
use corniche_types::SignerBitmap;
use sqlx::any::AnyRow;

/// Maximum number of batches and skipped transactions in the response for one block.
const FIRST: i64 = 500;

object! {
    /// A block.
    Block {
        /// Height: number of blocks before it.
        number: u64,
        /// Hash of its header.
        hash: B256,
        /// Hash of the parent block.
        parent: B256,
        /// Agreed time of its order, in Unix milliseconds.
        time_ms: u64 = 1_700_000_000_000u64,
        /// `executed`; `certified` once a quorum signed it or a later block.
        status: String = "certified",
        /// When the explorer first saw it certified, in Unix milliseconds of its own clock; null for blocks from before the explorer's start.
        /// The explorer polls, at longer intervals under load, so the network may have been faster by one interval.
        certified_ms: Option<u64> = 1_700_000_000_180u64,
        /// Validator that led the commit, by position in the committee; null for the genesis block.
        leader: Option<u64> = 2,
        /// Fee address of the leader.
        fee_address: ChecksumAddress,
        /// Number of executed transactions.
        transactions: u64 = 120,
        /// Number of transactions that were ordered but not executed.
        skipped: u64 = 0,
        /// Gas used by all transactions.
        gas_used: u64 = 6_148_080,
        /// Gas limit of the block.
        gas_limit: u64 = 100_000_000,
        /// Base fee in wei per gas.
        base_fee: Amount = "1000000000",
        /// Size in bytes, RLP encoded.
        bytes: u64 = 18_211,
        /// Root of the state after the block.
        state_root: B256,
        /// Root of its transactions.
        transactions_root: B256,
        /// Root of their receipts.
        receipts_root: B256,
        /// Randomness available to contracts.
        randomness: B256,
    }
}

object! {
    /// A block with its ordering, execution and certificate.
    BlockInFull {
        /// The block.
        block: Block,
        /// First commit with transactions in the block.
        first_commit: Option<u64> = 2_047,
        /// Last commit with transactions in the block.
        last_commit: Option<u64> = 2_049,
        /// Round (under Autobahn and NeoBFT slot) whose leader made the first commit, as in `/api/v1/dag`; null if it is not kept.
        first_round: Option<u64> = 4_101,
        /// Round (under Autobahn and NeoBFT slot) whose leader made the last commit; null if it is not kept.
        last_round: Option<u64> = 4_105,
        /// Parts of validators' batches in the block, in order; at most 500.
        batches: Vec<Batch>,
        /// Transactions that were ordered but not executed; at most 500.
        skipped: Vec<Skipped>,
        /// Execution statistics of the explorer's node; null if the node did not provide them in time.
        execution: Option<Execution>,
        /// Certificate that covers the block; null until there is one.
        certificate: Option<Certificate>,
    }
}

object! {
    /// Statistics of one execution of a block on the node that the explorer follows. Not part of consensus: they differ between nodes.
    Execution {
        /// Threads that executed it in parallel; each is a lane, numbered from 0.
        threads: u64 = 4,
        /// Total executions of its transactions.
        runs: u64 = 123,
        /// Executions after a transaction's first one.
        runs_again: u64 = 3,
        /// Number of times a transaction waited for an earlier one.
        waits: u64 = 1,
        /// Transactions whose result was ready from a speculative run.
        adopted: u64 = 0,
        /// Duration of the execution in microseconds, until the state was updated.
        duration_us: u64 = 4_250,
        /// One byte per transaction of the block, in order: the lane that produced its result.
        lane_of: Bytes = "0x00030102",
        /// One byte per transaction of the block, in order: number of executions; 0 if its result was ready.
        runs_of: Bytes = "0x01010201",
    }
}

object! {
    /// Part of a validator's batch.
    Batch {
        /// Author, by position in the committee.
        author: u64 = 2,
        /// Digest of the batch.
        digest: B256,
        /// Position in the batch of the first transaction in this block, from 0.
        first: u64 = 0,
        /// Number of transactions of the batch in this block.
        count: u64 = 120,
    }
}

object! {
    /// A transaction that was ordered but not executed: no fee, no receipt.
    Skipped {
        /// Its position in the block's order, from 0.
        position: u64 = 17,
        /// Hash of the transaction.
        hash: B256,
        /// Reason why it was skipped.
        reason: String = "nonce too low",
    }
}

object! {
    /// Signatures of a quorum for a block. They make the block and all blocks before it final.
    Certificate {
        /// The signed block.
        block: u64,
        /// First block that no earlier certificate covers.
        first: u64 = 1_023,
        /// Validators that signed, by position in the committee.
        signers: Vec<u64> = [0, 1, 3],
        /// Aggregate signature: a compressed BLS12-381 point.
        signature: Bytes = "0xa1b2c3",
        /// Fault model that the certificate assumes: `byzantine` or `crash`.
        fault_model: String = "byzantine",
        /// When the explorer received it, in Unix milliseconds.
        seen_ms: u64 = 1_700_000_000_180u64,
    }
}

/// `/api/v1/blocks`
pub async fn list(request: ApiRequest) -> Result<Listing<Block>, Problem> {
    let (below, limit) = (request.number(i64::MAX)?, request.limit()?);
    let text = "SELECT * FROM blocks WHERE number < $1 ORDER BY number DESC LIMIT $2";
    let rows = sql(text).bind(below).bind(limit + 1).fetch_all(request.app.database.readers()).await?;
    let certified = request.app.certified();
    Listing::of(rows, limit, "number", |row| Block::of(row, certified))
}

/// Finds the block of the request by number or hash.
pub async fn find(request: &ApiRequest) -> Result<AnyRow, Problem> {
    let block = request.path("block").trim();
    let readers = request.app.database.readers();
    let row = match (block.parse::<u64>(), block.parse::<B256>()) {
        (Ok(number), _) => sql("SELECT * FROM blocks WHERE number = $1").bind(int(number)).fetch_optional(readers).await?,
        (_, Ok(hash)) => sql("SELECT * FROM blocks WHERE hash = $1").bind(hash.to_vec()).fetch_optional(readers).await?,
        _ => return Err(Problem::bad("block: expected a number, or a hash of 0x and 64 hexadecimal digits")),
    };
    let indexed = request.app.status().indexed.map_or(0, |(number, _)| number);
    row.ok_or_else(|| Problem::missing(format!("no block {block:.80}; the newest indexed block is {indexed}")))
}

/// `/api/v1/blocks/{block}`
pub async fn show(request: ApiRequest) -> Result<BlockInFull, Problem> {
    let row = find(&request).await?;
    let number = row.number("number")?;
    let readers = request.app.database.readers();
    let text = "SELECT author, digest, first, count FROM batches WHERE block = $1 ORDER BY position LIMIT $2";
    let batches = sql(text).bind(int(number)).bind(FIRST).fetch_all(readers).await?;
    let text = "SELECT position, hash, reason FROM skipped WHERE block = $1 ORDER BY position LIMIT $2";
    let skipped = sql(text).bind(int(number)).bind(FIRST).fetch_all(readers).await?;
    let (first_commit, last_commit) = (row.maybe_number("first_commit")?, row.maybe_number("last_commit")?);
    let certificate = covering(&request.app, number).await?;
    Ok(BlockInFull {
        block: Block::of(&row, certificate.as_ref().map(|certificate| certificate.block))?,
        first_commit,
        last_commit,
        first_round: round_of_commit(&request.app, first_commit).await?,
        last_round: round_of_commit(&request.app, last_commit).await?,
        batches: batches.iter().map(Batch::of).collect::<Result<_, _>>()?,
        skipped: skipped.iter().map(Skipped::of).collect::<Result<_, _>>()?,
        execution: executions::of_block(readers, number).await?.map(Execution::of),
        certificate,
    })
}

/// Returns the round whose leader made a commit.
async fn round_of_commit(app: &AppState, commit: Option<u64>) -> Result<Option<u64>, Problem> {
    let Some(commit) = commit else { return Ok(None) };
    Ok(leader_of(app.database.readers(), commit).await?.map(|leader| leader.round))
}

/// `/api/v1/certificates`
pub async fn certificates(request: ApiRequest) -> Result<Listing<Certificate>, Problem> {
    let (below, limit) = (request.number(i64::MAX)?, request.limit()?);
    let text = "SELECT * FROM certificates WHERE height < $1 ORDER BY height DESC LIMIT $2";
    let rows = sql(text).bind(below).bind(limit + 1).fetch_all(request.app.database.readers()).await?;
    Listing::of(rows, limit, "height", |row| Certificate::of(&request.app, row))
}

/// `/api/v1/certificates/{block}`
pub async fn certificate(request: ApiRequest) -> Result<Certificate, Problem> {
    let number = find(&request).await?.number("number")?;
    let certificate = covering(&request.app, number).await?;
    certificate.ok_or_else(|| Problem::missing(format!("block {number} is not certified yet")))
}

async fn covering(app: &AppState, block: u64) -> Result<Option<Certificate>, Problem> {
    let row = certificates::covering(app.database.readers(), block).await?;
    Ok(row.map(|row| Certificate::of(app, &row)).transpose()?)
}

impl Block {
    /// Makes a block from a row. Certificates cover all blocks up to `certified`.
    fn of(row: &AnyRow, certified: Option<u64>) -> Result<Self, DatabaseError> {
        let number = row.number("number")?;
        Ok(Self {
            number,
            hash: row.hash("hash")?,
            parent: row.hash("parent")?,
            time_ms: row.number("time_ms")?,
            status: status::of_block(number, certified).to_owned(),
            certified_ms: row.maybe_number("certified_ms")?,
            leader: row.maybe_number("leader")?,
            fee_address: ChecksumAddress(row.address("fee_address")?),
            transactions: row.number("transactions")?,
            skipped: row.number("skipped")?,
            gas_used: row.number("gas_used")?,
            gas_limit: row.number("gas_limit")?,
            base_fee: row.number("base_fee")?.into(),
            bytes: row.number("bytes")?,
            state_root: row.hash("state_root")?,
            transactions_root: row.hash("transactions_root")?,
            receipts_root: row.hash("receipts_root")?,
            randomness: row.hash("randomness")?,
        })
    }
}

impl Batch {
    fn of(row: &AnyRow) -> Result<Self, DatabaseError> {
        let (first, count) = (row.number("first")?, row.number("count")?);
        Ok(Self { author: row.number("author")?, digest: row.hash("digest")?, first, count })
    }
}

impl Skipped {
    fn of(row: &AnyRow) -> Result<Self, DatabaseError> {
        Ok(Self { position: row.number("position")?, hash: row.hash("hash")?, reason: row.text("reason")? })
    }
}

impl Execution {
    fn of(execution: corniche_api::Execution) -> Self {
        Self {
            threads: execution.threads,
            runs: execution.runs,
            runs_again: execution.runs_again,
            waits: execution.waits,
            adopted: execution.adopted,
            duration_us: execution.duration_us,
            lane_of: execution.lane_of,
            runs_of: execution.runs_of,
        }
    }
}

impl Certificate {
    fn of(app: &AppState, row: &AnyRow) -> Result<Self, DatabaseError> {
        let committee = app.status().committee.map_or(0, |committee| committee.validators.len());
        let signers = SignerBitmap(row.bytes("signers")?.into()).signers(committee).unwrap_or_default();
        Ok(Self {
            block: row.number("height")?,
            first: row.number("first")?,
            signers: signers.into_iter().map(|signer| signer.0.into()).collect(),
            signature: row.bytes("signature")?.into(),
            fault_model: row.text("fault_model")?,
            seen_ms: row.number("seen_ms")?,
        })
    }
}
