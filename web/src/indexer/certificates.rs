//! Certificates of indexed blocks, and the signing records of validators.

use super::{IndexError, write};
use crate::{
    clock::{DAY_MS, now_ms},
    database::{DatabaseError, Read, Rows, int, sql},
    indexer_status::Halt,
    node::{Node, NodeError, quantity},
};
use alloy_primitives::B256;
use corniche_api::{Certificate, ShardCertificate};
use corniche_client::{ClientError, Request};
use corniche_types::{FaultModel, SignerBitmap};
use serde_json::json;
use sqlx::{AnyConnection, AnyPool, Connection, any::AnyRow};
use std::collections::BTreeMap;

/// Certificates in one request, and requests in one turn: together as many as the blocks of a turn, so that neither
/// lags behind.
const AT_ONCE: u64 = 64;
const REQUESTS: u64 = 16;

/// Key in `meta`: the newest block whose certificate is written.
pub(super) const KEY: &str = "certified";

/// Facts about the chain that the task needs.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Number of validators.
    pub committee: u64,
    /// `true` if the chain may be reverted.
    pub development: bool,
    /// Time when the node reported these blocks as certified, on this machine's clock. `None` while the indexer catches
    /// up, because the time has no meaning then. Nodes do not record this time, and the certificates are fetched later.
    pub heard_ms: Option<u64>,
}

/// Returns the certificate that covers a block: its own or that of a later block. The block is final with it. It is
/// available shortly after the node reported it.
pub async fn covering(readers: &AnyPool, block: u64) -> Result<Option<AnyRow>, DatabaseError> {
    let text = "SELECT * FROM certificates WHERE height >= $1 ORDER BY height LIMIT 1";
    Ok(sql(text).bind(int(block)).fetch_optional(readers).await?)
}

/// Returns the newest indexed block that a certificate covers.
pub async fn reached(connection: &mut AnyConnection) -> Result<Option<u64>, DatabaseError> {
    Ok(write::meta(connection, KEY).await?.and_then(|known| known.parse().ok()))
}

/// Processes certificates up to the indexed block `certified`. Returns the newest covered block if it has advanced.
pub async fn follow(
    node: &Node,
    connection: &mut AnyConnection,
    certified: u64,
    chain: Chain,
) -> Result<Option<u64>, IndexError> {
    let mut reached = None;
    for _ in 0..REQUESTS {
        match step(node, connection, certified, chain).await? {
            Some(further) => reached = Some(further),
            None => break,
        }
    }
    Ok(reached)
}

async fn step(node: &Node, connection: &mut AnyConnection, certified: u64, chain: Chain) -> Result<Option<u64>, IndexError> {
    let known = reached(connection).await?.unwrap_or(0);
    if certified <= known {
        return Ok(None);
    }
    let by_height = fetch(node, known, certified).await?;
    let Some(reached) = by_height.keys().next_back().copied() else { return Ok(None) };
    let seen_ms = now_ms();
    let mut transaction = connection.begin().await.map_err(DatabaseError::from)?;
    let columns = &["height", "first", "signers", "signature", "fault_model", "seen_ms"];
    let mut rows = Rows::new("certificates", columns);
    let mut records = Records::new();
    let mut first = known + 1;
    for (height, certificate) in by_height {
        rows.push([
            height.into(),
            first.into(),
            certificate.signers.clone().into(),
            certificate.signature.clone().into(),
            certificate.fault_model.clone().into(),
            seen_ms.into(),
        ]);
        if let Some(heard_ms) = chain.heard_ms {
            set_certified(&mut transaction, first, height, heard_ms).await?;
        }
        let (hash, time_ms) = indexed(&mut transaction, height).await?;
        if hash != certificate.block_hash {
            return match chain.development {
                // The chain was just reverted; the next turn detects it.
                true => Ok(None),
                false => Err(IndexError::Halt(Halt::Contradiction { number: height })),
            };
        }
        count_signers(&mut records, &certificate, time_ms / DAY_MS, chain.committee);
        first = height + 1;
    }
    rows.write(&mut transaction).await?;
    let mut rows = write::validator_rows();
    for ((validator, day), (signed, missed)) in records {
        rows.push([validator, day, 0, 0, 0, signed, missed].map(Into::into));
    }
    rows.write(&mut transaction).await?;
    write::set_meta(&mut transaction, KEY, reached.to_string()).await?;
    transaction.commit().await.map_err(DatabaseError::from)?;
    Ok(Some(reached))
}

/// Requests the certificates after block `known`, up to block `certified`, at most [`AT_ONCE`].
async fn fetch(node: &Node, known: u64, certified: u64) -> Result<BTreeMap<u64, Certificate>, IndexError> {
    let last = certified.min(known + AT_ONCE);
    let request = |number| Request { method: "corniche_getCertificate", params: json!([quantity(number)]) };
    let requests = (known + 1..=last).map(request).collect();
    let responses: Vec<Result<Option<Certificate>, ClientError>> = node.ask_all(requests).await?;
    let mut by_height = BTreeMap::new();
    for response in responses {
        // A certificate that is not available yet is read in a later turn, and so are all after it.
        let Some(certificate) = response.map_err(NodeError::from)? else { break };
        by_height.insert(certificate.block_number, certificate);
    }
    if by_height.is_empty()
        && let Some(certificate) = node.shard_certificate(known + 1).await?
    {
        by_height.insert(certificate.last_block, of_shards(certificate));
    }
    // A certificate for a block that is not indexed yet has to wait. One that covers no new block is of no use.
    by_height.retain(|height, _| (known + 1..=certified).contains(height));
    Ok(by_height)
}

/// The signers of a certificate of a sharded chain. Its signatures are separate ones, which are not stored.
fn of_shards(ShardCertificate { last_block, block_hash, signers, .. }: ShardCertificate) -> Certificate {
    Certificate {
        epoch: 0,
        committee_hash: B256::ZERO,
        block_number: last_block,
        block_hash,
        fault_model: FaultModel::Byzantine.to_string(),
        signers,
        signature: Default::default(),
    }
}

/// Stores when the node reported these blocks as certified, unless they existed before the explorer observed.
async fn set_certified(connection: &mut AnyConnection, first: u64, last: u64, heard_ms: u64) -> Result<(), DatabaseError> {
    let text = "UPDATE blocks SET certified_ms = $1 WHERE number BETWEEN $2 AND $3 AND seen_ms IS NOT NULL";
    sql(text).bind(int(heard_ms)).bind(int(first)).bind(int(last)).execute(connection).await?;
    Ok(())
}

/// Returns the hash and the time of an indexed block.
async fn indexed(connection: &mut AnyConnection, number: u64) -> Result<(B256, u64), DatabaseError> {
    let row = sql("SELECT hash, time_ms FROM blocks WHERE number = $1").bind(int(number)).fetch_one(connection).await?;
    Ok((row.hash("hash")?, row.number("time_ms")?))
}

/// Number of signed and of missed certificates, by validator and day.
type Records = BTreeMap<(u64, u64), (u64, u64)>;

fn count_signers(records: &mut Records, certificate: &Certificate, day: u64, committee: u64) {
    let signers = signers(certificate, committee);
    for validator in 0..committee {
        let record = records.entry((validator, day)).or_default();
        match signers.contains(&validator) {
            true => record.0 += 1,
            false => record.1 += 1,
        }
    }
}

/// Returns the committee indexes of the signers; empty if the bitmap has another committee size.
fn signers(certificate: &Certificate, committee: u64) -> Vec<u64> {
    let signers = SignerBitmap(certificate.signers.clone()).signers(committee as usize).unwrap_or_default();
    signers.into_iter().map(|signer| signer.0.into()).collect()
}
