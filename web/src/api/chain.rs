//! The chain as a whole: progress, validators and statistics for each day; and search.

use super::{
    ask::{Ask, Listing},
    form::{Checked, object},
    problem::Problem,
};
use crate::{
    database::{DatabaseError, Read, sql},
    format,
    pages::{days, validators::records},
    search,
};
use alloy_primitives::{B256, Bytes};
use sqlx::any::AnyRow;

object! {
    /// How the explorer and its node stand.
    Status {
        /// Null until the node answered once, as all that is the node's.
        chain_id: Option<u64> = 31_337,
        /// The first block's hash.
        genesis: Option<B256>,
        /// Ticker of the chain's currency, of 18 decimals.
        currency: String = "CRN",
        /// A chain for development, which may go back.
        development: bool = false,
        /// The ordering engine.
        engine: Option<String> = "mahi-mahi",
        /// The node's newest block.
        executed: Option<u64> = 1_026,
        /// The node's newest certified block. Blocks and transactions are called certified here when the certificate is here.
        certified: Option<u64> = 1_025,
        /// The newest block that is here.
        indexed: Option<u64> = 1_026,
        /// Its time in Unix milliseconds.
        indexed_ms: Option<u64> = 1_700_000_000_000u64,
        /// The newest block whose inner calls are here; null where they are not asked for, because the node serves no traces or the explorer
        /// was told not to.
        traced: Option<u64> = 1_020,
        /// Whether the last turn of the indexer failed; it tries again.
        waits: bool = false,
        /// Why the indexer stopped for good.
        halted: Option<String> = null,
    }
}

object! {
    /// Who orders and signs.
    Committee {
        /// The ordering engine.
        engine: String = "mahi-mahi",
        /// How many signatures make a certificate.
        quorum: u64 = 3,
        /// Names the committee in certificates.
        committee_hash: B256,
        /// By position.
        validators: Vec<Validator>,
    }
}

object! {
    /// A validator with its record of the last 30 days of the chain's time.
    Validator {
        /// Its position in the committee.
        index: u64 = 2,
        /// Where its fees go.
        fee_address: Checked,
        /// ed25519: signs the engine's messages.
        consensus_key: B256,
        /// BLS12-381: signs headers.
        bls_key: Bytes = "0xb1c2d3",
        /// ed25519: the identity of its connections.
        network_key: B256,
        /// Blocks it led.
        led: u64 = 250,
        /// Its batches that were ordered.
        batches: u64 = 1_001,
        /// Transactions in them that were executed.
        transactions: u64 = 60_600,
        /// Certificates with its signature.
        signed: u64 = 998,
        /// Certificates without.
        missed: u64 = 3,
    }
}

object! {
    /// Numbers of a day.
    Day {
        /// In UTC.
        day: String = "2026-05-01",
        /// Blocks.
        blocks: u64,
        /// Executed transactions.
        transactions: u64 = 60_600,
        /// Of these.
        failed: u64 = 12,
        /// Ordered and not executed.
        skipped: u64 = 0,
        /// By all transactions.
        gas_used: u64 = 3_100_000_000u64,
        /// Movements of tokens.
        transfers: u64 = 51_000,
        /// Contracts made.
        contracts: u64 = 2,
        /// Accounts that no block had named before.
        new_accounts: u64 = 40,
    }
}

object! {
    /// What a search found, and how it looked.
    Found {
        /// Best first within each kind.
        hits: Vec<Hit>,
        /// Everything that was looked for, in words.
        tried: Vec<String> = ["a token whose name or symbol begins with “gold”"],
    }
}

object! {
    /// Something that may have been meant.
    Hit {
        /// `block`, `transaction`, `account`, `validator`, `peer`, `token`, `method` or `event`.
        kind: String = "token",
        /// What it is named by: number, hash, address, or signature.
        id: String = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        /// In words, some of them a stranger's.
        title: String = "Gold (GLD)",
        /// Whether it is what was asked for, rather than something that begins like it.
        exact: bool,
        /// Its page here.
        page: Option<String> = "/token/0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    }
}

/// `/api/v1/status`
pub async fn status(ask: Ask) -> Result<Status, Problem> {
    let now = ask.site.now();
    Ok(Status {
        chain_id: now.chain_id,
        genesis: now.genesis,
        currency: now.currency,
        development: now.development,
        engine: now.committee.map(|committee| committee.engine),
        executed: now.heads.as_ref().map(|heads| heads.executed.number),
        certified: now.heads.as_ref().map(|heads| heads.certified.number),
        indexed: now.indexed.map(|(number, _)| number),
        indexed_ms: now.indexed.map(|(_, time_ms)| time_ms),
        traced: now.traced,
        waits: now.waits.is_some(),
        halted: now.halt.map(|halt| halt.to_string()),
    })
}

/// `/api/v1/search`
pub async fn search(ask: Ask) -> Result<Found, Problem> {
    let question = ask.query("q").ok_or_else(|| Problem::bad("q: what to look for"))?;
    let found = search::find(&ask.site, question).await?;
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
pub async fn validators(ask: Ask) -> Result<Committee, Problem> {
    let committee = ask.site.now().committee;
    let committee = committee.ok_or_else(|| Problem::missing("the node has not said yet who its validators are"))?;
    let records = records(&ask.site.database, days::today(&ask.site)).await?;
    let validator = |validator: corniche_api::Validator| {
        let record = records.get(&validator.index).copied().unwrap_or_default();
        let [_, _, (signed, missed)] = record.signatures;
        Validator {
            index: validator.index,
            fee_address: Checked(validator.fee_address),
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
    let (engine, quorum, committee_hash) = (committee.engine, committee.quorum, committee.committee_hash);
    Ok(Committee { engine, quorum, committee_hash, validators })
}

/// `/api/v1/statistics/days`
pub async fn days(ask: Ask) -> Result<Listing<Day>, Problem> {
    let (below, limit) = (ask.number(i64::MAX)?, ask.limit()?);
    let text = "SELECT * FROM days WHERE day < $1 ORDER BY day DESC LIMIT $2";
    let rows = sql(text).bind(below).bind(limit + 1).fetch_all(ask.site.database.readers()).await?;
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
