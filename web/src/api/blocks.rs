//! Blocks, their ordering and their certificates.

use super::{
    ask::{Ask, Listing},
    form::{Amount, Checked, object},
    problem::Problem,
};
use crate::{
    database::{DatabaseError, Read, int, sql},
    indexer::{certificates, dag::leader_of, executions},
    site::Site,
    words::status,
};
use alloy_primitives::{B256, Bytes};
use corniche_types::SignerBitmap;
use sqlx::any::AnyRow;

/// Most batches and skipped transactions in the response for one block.
const FIRST: i64 = 500;

object! {
    /// A block.
    Block {
        /// Blocks before it.
        number: u64,
        /// Of its header.
        hash: B256,
        /// The block before.
        parent: B256,
        /// As agreed on with its order, in Unix milliseconds.
        time_ms: u64 = 1_700_000_000_000u64,
        /// `executed`, or `certified` once a quorum signed it or a later one.
        status: String = "certified",
        /// When the explorer was told that it is certified, by its own clock; null for what was there before it looked. It asks again and again, at
        /// longer intervals under load, and nodes keep no such time: the network was faster by up to that interval.
        certified_ms: Option<u64> = 1_700_000_000_180u64,
        /// The validator, by position in the committee, that led the commit; null for the genesis block.
        leader: Option<u64> = 2,
        /// That validator's.
        fee_address: Checked,
        /// Executed transactions.
        transactions: u64 = 120,
        /// Ordered and not executed.
        skipped: u64 = 0,
        /// By all transactions.
        gas_used: u64 = 6_148_080,
        /// The most they may use.
        gas_limit: u64 = 100_000_000,
        /// Wei per gas.
        base_fee: Amount = "1000000000",
        /// In RLP.
        bytes: u64 = 18_211,
        /// Of the state that it leaves.
        state_root: B256,
        /// Of its transactions.
        transactions_root: B256,
        /// Of their receipts.
        receipts_root: B256,
        /// What contracts read as randomness.
        randomness: B256,
    }
}

object! {
    /// A block with how it came about.
    BlockInFull {
        /// The block.
        block: Block,
        /// The first commit of the ordering that is in it.
        first_commit: Option<u64> = 2_047,
        /// The last one.
        last_commit: Option<u64> = 2_049,
        /// The round (under Autobahn the slot) whose leader made the first commit, as `/api/v1/dag` counts them; null where it is not kept.
        first_round: Option<u64> = 4_101,
        /// The same of the last commit.
        last_round: Option<u64> = 4_105,
        /// Parts of validators' batches that it was made of, in order; the first 500.
        batches: Vec<Batch>,
        /// What was ordered and not executed; the first 500.
        skipped: Vec<Skipped>,
        /// How the explorer's node ran it; null where it did not say in time.
        execution: Option<Execution>,
        /// The certificate that covers it, once there is one.
        certificate: Option<Certificate>,
    }
}

object! {
    /// What running a block took on the node that the explorer follows, that time. No fact of the chain: other nodes came to the same block
    /// another way.
    Execution {
        /// That ran it side by side; each is a lane, numbered from 0.
        threads: u64 = 4,
        /// Runs of its transactions, added up.
        runs: u64 = 123,
        /// Those of them after a transaction's first.
        runs_again: u64 = 3,
        /// How often a transaction had to wait for an earlier one.
        waits: u64 = 1,
        /// How many had their result ready from an early run.
        adopted: u64 = 0,
        /// Microseconds from when its execution began to the changed state.
        duration_us: u64 = 4_250,
        /// A byte for each transaction of the block, in order: the lane that came to its result.
        lane_of: Bytes = "0x00030102",
        /// The same: how often it ran; 0: its result was ready.
        runs_of: Bytes = "0x01010201",
    }
}

object! {
    /// Part of a validator's batch.
    Batch {
        /// The validator by position in the committee.
        author: u64 = 2,
        /// Names the batch.
        digest: B256,
        /// The first of its transactions that is in this block, from 0.
        first: u64 = 0,
        /// How many of them are.
        count: u64 = 120,
    }
}

object! {
    /// A transaction that was ordered and not executed: no fee, no receipt.
    Skipped {
        /// Its position in the block's order, from 0.
        position: u64 = 17,
        /// What it is named by.
        hash: B256,
        /// What the check said.
        reason: String = "nonce too low",
    }
}

object! {
    /// The signatures of a quorum under a block, which make all blocks up to it final.
    Certificate {
        /// The block that was signed.
        block: u64,
        /// The first block that no earlier certificate covers.
        first: u64 = 1_023,
        /// Validators by position in the committee.
        signers: Vec<u64> = [0, 1, 3],
        /// The aggregate of their signatures: a compressed point of BLS12-381.
        signature: Bytes = "0xa1b2c3",
        /// `byzantine` or `crash`: what it rests on.
        fault_model: String = "byzantine",
        /// When the explorer had it, in Unix milliseconds.
        seen_ms: u64 = 1_700_000_000_180u64,
    }
}

/// `/api/v1/blocks`
pub async fn list(ask: Ask) -> Result<Listing<Block>, Problem> {
    let (below, limit) = (ask.number(i64::MAX)?, ask.limit()?);
    let text = "SELECT * FROM blocks WHERE number < $1 ORDER BY number DESC LIMIT $2";
    let rows = sql(text).bind(below).bind(limit + 1).fetch_all(ask.site.database.readers()).await?;
    let certified = ask.site.certified();
    Listing::of(rows, limit, "number", |row| Block::of(row, certified))
}

/// Finds the block of the request by number or hash.
pub async fn find(ask: &Ask) -> Result<AnyRow, Problem> {
    let block = ask.path("block").trim();
    let readers = ask.site.database.readers();
    let row = match (block.parse::<u64>(), block.parse::<B256>()) {
        (Ok(number), _) => sql("SELECT * FROM blocks WHERE number = $1").bind(int(number)).fetch_optional(readers).await?,
        (_, Ok(hash)) => sql("SELECT * FROM blocks WHERE hash = $1").bind(hash.to_vec()).fetch_optional(readers).await?,
        _ => return Err(Problem::bad("block: a number, or a hash of 0x and 64 digits")),
    };
    let indexed = ask.site.now().indexed.map_or(0, |(number, _)| number);
    row.ok_or_else(|| Problem::missing(format!("no block {block:.80} here; the newest is {indexed}")))
}

/// `/api/v1/blocks/{block}`
pub async fn show(ask: Ask) -> Result<BlockInFull, Problem> {
    let row = find(&ask).await?;
    let number = row.number("number")?;
    let readers = ask.site.database.readers();
    let text = "SELECT author, digest, first, count FROM batches WHERE block = $1 ORDER BY position LIMIT $2";
    let batches = sql(text).bind(int(number)).bind(FIRST).fetch_all(readers).await?;
    let text = "SELECT position, hash, reason FROM skipped WHERE block = $1 ORDER BY position LIMIT $2";
    let skipped = sql(text).bind(int(number)).bind(FIRST).fetch_all(readers).await?;
    let (first_commit, last_commit) = (row.maybe_number("first_commit")?, row.maybe_number("last_commit")?);
    let certificate = covering(&ask.site, number).await?;
    Ok(BlockInFull {
        block: Block::of(&row, certificate.as_ref().map(|certificate| certificate.block))?,
        first_commit,
        last_commit,
        first_round: led_in(&ask.site, first_commit).await?,
        last_round: led_in(&ask.site, last_commit).await?,
        batches: batches.iter().map(Batch::of).collect::<Result<_, _>>()?,
        skipped: skipped.iter().map(Skipped::of).collect::<Result<_, _>>()?,
        execution: executions::of_block(readers, number).await?.map(Execution::of),
        certificate,
    })
}

/// Returns the round whose leader made a commit.
async fn led_in(site: &Site, commit: Option<u64>) -> Result<Option<u64>, Problem> {
    let Some(commit) = commit else { return Ok(None) };
    Ok(leader_of(site.database.readers(), commit).await?.map(|leader| leader.round))
}

/// `/api/v1/certificates`
pub async fn certificates(ask: Ask) -> Result<Listing<Certificate>, Problem> {
    let (below, limit) = (ask.number(i64::MAX)?, ask.limit()?);
    let text = "SELECT * FROM certificates WHERE height < $1 ORDER BY height DESC LIMIT $2";
    let rows = sql(text).bind(below).bind(limit + 1).fetch_all(ask.site.database.readers()).await?;
    Listing::of(rows, limit, "height", |row| Certificate::of(&ask.site, row))
}

/// `/api/v1/certificates/{block}`
pub async fn certificate(ask: Ask) -> Result<Certificate, Problem> {
    let number = find(&ask).await?.number("number")?;
    let certificate = covering(&ask.site, number).await?;
    certificate.ok_or_else(|| Problem::missing(format!("block {number} is not certified yet")))
}

async fn covering(site: &Site, block: u64) -> Result<Option<Certificate>, Problem> {
    let row = certificates::covering(site.database.readers(), block).await?;
    Ok(row.map(|row| Certificate::of(site, &row)).transpose()?)
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
            fee_address: Checked(row.address("fee_address")?),
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
    fn of(told: corniche_api::Execution) -> Self {
        Self {
            threads: told.threads,
            runs: told.runs,
            runs_again: told.runs_again,
            waits: told.waits,
            adopted: told.adopted,
            duration_us: told.duration_us,
            lane_of: told.lane_of,
            runs_of: told.runs_of,
        }
    }
}

impl Certificate {
    fn of(site: &Site, row: &AnyRow) -> Result<Self, DatabaseError> {
        let committee = site.now().committee.map_or(0, |committee| committee.validators.len());
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
