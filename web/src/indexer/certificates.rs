//! Who signed: the certificates of blocks that are written, and validators' records from them.

use super::{IndexError, digest::DAY_MS, now_ms, write};
use crate::{
    database::{DatabaseError, Read, Rows, int, sql},
    node::{Node, NodeError, quantity},
    state::Halt,
};
use corniche_api::Certificate;
use corniche_client::{ClientError, Request};
use corniche_types::SignerBitmap;
use serde_json::json;
use sqlx::{AnyConnection, AnyPool, Connection, any::AnyRow};
use std::collections::BTreeMap;

/// Certificates asked for in one request, and requests of one turn: as many as a turn reads blocks, so that neither leaves the other behind.
const AT_ONCE: u64 = 64;
const REQUESTS: u64 = 16;

/// Where it stands in `meta`: the newest block whose certificate is written.
const KEY: &str = "certified";

/// What the lane has to know of the chain.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Validators.
    pub committee: u64,
    /// Whether it may go back.
    pub development: bool,
    /// When the node said that these blocks are certified, by this machine's clock; `None` where the newest blocks are not new, so that the time
    /// says nothing. Nodes keep no such time, and answers with certificates come later by whatever there was to do before.
    pub heard_ms: Option<u64>,
}

/// The certificate that covers a block, its own or a later one's: with it the block is final. It is here a moment after the node said that it
/// has one.
pub async fn covering(readers: &AnyPool, block: u64) -> Result<Option<AnyRow>, DatabaseError> {
    let text = "SELECT * FROM certificates WHERE height >= $1 ORDER BY height LIMIT 1";
    Ok(sql(text).bind(int(block)).fetch_optional(readers).await?)
}

/// The newest block that a certificate covers, of those that are written.
pub async fn reached(connection: &mut AnyConnection) -> Result<Option<u64>, DatabaseError> {
    Ok(write::remembered(connection, KEY).await?.and_then(|known| known.parse().ok()))
}

/// Goes on up to `certified`, a block that is written. Answers the newest block that a certificate covers, if there is a newer one than
/// before.
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
    let last = certified.min(known + AT_ONCE);
    let request = |number| Request { method: "corniche_getCertificate", params: json!([quantity(number)]) };
    let requests = (known + 1..=last).map(request).collect();
    let answers: Vec<Result<Option<Certificate>, ClientError>> = node.ask_all(requests).await?;
    let mut by_height = BTreeMap::new();
    for answer in answers {
        // One that is not there yet comes in a later turn, and so does all after it.
        let Some(certificate) = answer.map_err(NodeError::from)? else { break };
        by_height.insert(certificate.block_number, certificate);
    }
    // A certificate for a block that is not written here yet waits until it is. One that covers less than was asked for says nothing.
    by_height.retain(|height, _| (known + 1..=certified).contains(height));
    let Some(reached) = by_height.keys().next_back().copied() else { return Ok(None) };
    let seen_ms = now_ms();
    let mut transaction = connection.begin().await.map_err(DatabaseError::from)?;
    let columns = &["height", "first", "signers", "signature", "fault_model", "seen_ms"];
    let mut rows = Rows::new("certificates", columns);
    let mut records: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
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
            let text = "UPDATE blocks SET certified_ms = $1 WHERE number BETWEEN $2 AND $3 AND seen_ms IS NOT NULL";
            sql(text)
                .bind(int(heard_ms))
                .bind(int(first))
                .bind(int(height))
                .execute(&mut *transaction)
                .await
                .map_err(DatabaseError::from)?;
        }
        let row =
            sql("SELECT hash, time_ms FROM blocks WHERE number = $1").bind(int(height)).fetch_one(&mut *transaction).await;
        let row = row.map_err(DatabaseError::from)?;
        if row.hash("hash")? != certificate.block_hash {
            return match chain.development {
                // It went back just now, which the next turn sees.
                true => Ok(None),
                false => Err(IndexError::Halt(Halt::Contradiction { number: height })),
            };
        }
        let day = row.number("time_ms")? / DAY_MS;
        let signers = signers(&certificate, chain.committee);
        for validator in 0..chain.committee {
            let record = records.entry((validator, day)).or_default();
            match signers.contains(&validator) {
                true => record.0 += 1,
                false => record.1 += 1,
            }
        }
        first = height + 1;
    }
    rows.write(&mut transaction).await?;
    let mut rows = write::validator_rows();
    for ((validator, day), (signed, missed)) in records {
        rows.push([validator, day, 0, 0, 0, signed, missed].map(Into::into));
    }
    rows.write(&mut transaction).await?;
    write::remember(&mut transaction, KEY, reached.to_string()).await?;
    transaction.commit().await.map_err(DatabaseError::from)?;
    Ok(Some(reached))
}

/// Validators by position in the committee; none where the bitmap is not one of this committee.
fn signers(certificate: &Certificate, committee: u64) -> Vec<u64> {
    let signers = SignerBitmap(certificate.signers.clone()).signers(committee as usize).unwrap_or_default();
    signers.into_iter().map(|signer| signer.0.into()).collect()
}
