//! The chain as a whole: progress, validators and statistics for each day; and search.

use super::{
    problem::Problem,
    request::{ApiRequest, Listing},
    schema::{ChecksumAddress, object},
};
use crate::{
    database::{DatabaseError, Read, sql},
    format, search,
    views::validators::records,
};
use alloy_primitives::{B256, Bytes};
use sqlx::any::AnyRow;

object! {
    /// Status of the explorer and its node.
    Status {
        /// Chain id. It and all other values from the node are null until the node responds for the first time.
        chain_id: Option<u64> = 31_337,
        /// Hash of the genesis block.
        genesis: Option<B256>,
        /// Ticker of the native currency, which has 18 decimals.
        currency: String = "CRN",
        /// True for a development chain, which can be reverted.
        development: bool = false,
        /// Name of the ordering engine.
        engine: Option<String> = "mahi-mahi",
        /// Newest executed block of the node.
        executed: Option<u64> = 1_026,
        /// Newest certified block of the node. The API reports blocks and transactions as certified once it has the certificate.
        certified: Option<u64> = 1_025,
        /// First indexed block after the genesis, if the node did not have the blocks below it; null for a whole chain. Totals and token balances begin with it.
        first: Option<u64> = null,
        /// Newest indexed block.
        indexed: Option<u64> = 1_026,
        /// Time of the newest indexed block in Unix milliseconds.
        indexed_ms: Option<u64> = 1_700_000_000_000u64,
        /// Newest block with indexed inner calls; null if the node serves no traces, or if the explorer is configured not to request them.
        traced: Option<u64> = 1_020,
        /// True if the indexer's last attempt failed; it retries.
        waits: bool = false,
        /// Reason why the indexer stopped permanently; null while it runs.
        halted: Option<String> = null,
    }
}

object! {
    /// Validators that order and sign blocks.
    Committee {
        /// Name of the ordering engine.
        engine: String = "mahi-mahi",
        /// Faults that the engine tolerates: `byzantine` for validators that lie, or `crash`.
        fault_model: String = "byzantine",
        /// Minimum votes of the signers of a certificate.
        quorum: u64 = 3,
        /// Validators that check the signature of a transaction: `everyone`, or `sharded` for validators with f + 1 votes, which attest the sender to the others.
        signatures: String = "everyone",
        /// Hash that identifies the committee in certificates.
        committee_hash: B256,
        /// Validators by position in the committee.
        validators: Vec<Validator>,
    }
}

object! {
    /// A validator, with its statistics for the last 30 days of the chain's time.
    Validator {
        /// Position in the committee.
        index: u64 = 2,
        /// Votes in every quorum.
        votes: u64 = 1,
        /// Recipient of its fees.
        fee_address: ChecksumAddress,
        /// ed25519 public key; signs the engine's messages.
        consensus_key: B256,
        /// BLS12-381 public key; signs headers.
        bls_key: Bytes = "0xb1c2d3",
        /// ed25519 public key; the identity of its connections.
        network_key: B256,
        /// Number of blocks it led.
        led: u64 = 250,
        /// Number of its ordered batches.
        batches: u64 = 1_001,
        /// Number of executed transactions in its batches.
        transactions: u64 = 60_600,
        /// Number of certificates with its signature.
        signed: u64 = 998,
        /// Number of certificates without its signature.
        missed: u64 = 3,
    }
}

object! {
    /// Statistics of a day.
    Day {
        /// Date in UTC.
        day: String = "2026-05-01",
        /// Number of blocks.
        blocks: u64,
        /// Number of executed transactions.
        transactions: u64 = 60_600,
        /// Number of executed transactions that failed.
        failed: u64 = 12,
        /// Number of transactions that were ordered but not executed.
        skipped: u64 = 0,
        /// Gas used by all transactions.
        gas_used: u64 = 3_100_000_000u64,
        /// Number of token transfers.
        transfers: u64 = 51_000,
        /// Number of created contracts.
        contracts: u64 = 2,
        /// Number of accounts that occur for the first time.
        new_accounts: u64 = 40,
    }
}

object! {
    /// Result of a search.
    Found {
        /// Hits, best first within each kind.
        hits: Vec<Hit>,
        /// Descriptions of all attempted searches.
        tried: Vec<String> = ["a token with a name or symbol that starts with “gold”"],
    }
}

object! {
    /// A search hit.
    Hit {
        /// `block`, `transaction`, `account`, `validator`, `peer`, `token`, `method` or `event`.
        kind: String = "token",
        /// Identifier: number, hash, address or signature.
        id: String = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        /// Title. Names of tokens in it are not verified.
        title: String = "Gold (GLD)",
        /// True for an exact match, false for a match of the beginning.
        exact: bool,
        /// Path of its page in the explorer.
        page: Option<String> = "/token/0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    }
}

/// `/api/v1/status`
pub async fn status(request: ApiRequest) -> Result<Status, Problem> {
    let now = request.app.status();
    Ok(Status {
        chain_id: now.chain_id,
        genesis: now.genesis,
        currency: now.currency,
        development: now.development,
        engine: now.committee.map(|committee| committee.engine),
        executed: now.heads.as_ref().map(|heads| heads.executed.number),
        certified: now.heads.as_ref().map(|heads| heads.certified.number),
        first: now.first,
        indexed: now.indexed.map(|(number, _)| number),
        indexed_ms: now.indexed.map(|(_, time_ms)| time_ms),
        traced: now.traced,
        waits: now.last_error.is_some(),
        halted: now.halt.map(|halt| halt.to_string()),
    })
}

/// `/api/v1/search`
pub async fn search(request: ApiRequest) -> Result<Found, Problem> {
    let question = request.query("q").ok_or_else(|| Problem::bad("q: expected a search text"))?;
    let found = search::find(&request.app, question).await?;
    let hit = |hit: search::Hit| Hit {
        kind: hit.kind.word().to_owned(),
        id: hit.id,
        title: hit.title,
        exact: hit.exact,
        page: hit.page,
    };
    Ok(Found { hits: found.hits.into_iter().map(hit).collect(), tried: found.tried })
}

/// `/api/v1/validators`
pub async fn validators(request: ApiRequest) -> Result<Committee, Problem> {
    let committee = request.app.status().committee;
    let committee = committee.ok_or_else(|| Problem::missing("validators unknown: the node has not responded yet"))?;
    let records = records(&request.app.database, request.app.today()).await?;
    let validator = |validator: corniche_api::Validator| {
        let record = records.get(&validator.index).copied().unwrap_or_default();
        let [_, _, (signed, missed)] = record.signatures;
        Validator {
            index: validator.index,
            votes: validator.votes,
            fee_address: ChecksumAddress(validator.fee_address),
            consensus_key: validator.consensus_key,
            bls_key: validator.bls_key,
            network_key: validator.network_key,
            led: record.led,
            batches: record.batches,
            transactions: record.transactions,
            signed,
            missed,
        }
    };
    let validators = committee.validators.into_iter().map(validator).collect();
    Ok(Committee {
        engine: committee.engine,
        fault_model: committee.fault_model.to_string(),
        quorum: committee.quorum,
        signatures: committee.signatures.to_string(),
        committee_hash: committee.committee_hash,
        validators,
    })
}

/// `/api/v1/statistics/days`
pub async fn days(request: ApiRequest) -> Result<Listing<Day>, Problem> {
    let (below, limit) = (request.number(i64::MAX)?, request.limit()?);
    let text = "SELECT * FROM days WHERE day < $1 ORDER BY day DESC LIMIT $2";
    let rows = sql(text).bind(below).bind(limit + 1).fetch_all(request.app.database.readers()).await?;
    Listing::of(rows, limit, "day", Day::of)
}

impl Day {
    fn of(row: &AnyRow) -> Result<Self, DatabaseError> {
        Ok(Self {
            day: format::day(row.number("day")?),
            blocks: row.number("blocks")?,
            transactions: row.number("transactions")?,
            failed: row.number("failed")?,
            skipped: row.number("skipped")?,
            gas_used: row.number("gas_used")?,
            transfers: row.number("transfers")?,
            contracts: row.number("contracts")?,
            new_accounts: row.number("new_accounts")?,
        })
    }
}
