//! The offline checker of a history: one decision for each transaction, no committed writes that the program does not make, and an
//! execution that equals the serial one in the order of timestamps.

use crate::Program;
use crate::attestation::{CheckedRoots, Checker, Decision, Signatures};
use crate::certificate::Decided;
use crate::shards::{Key, Shards};
use crate::shared::Shared;
use crate::transaction::{Timestamp, TransactionId, Value, Version};
use std::collections::BTreeMap;

/// Counts of a history.
#[derive(Debug, Default)]
pub struct History {
    /// Committed transactions in the serial order.
    pub order: Vec<(Timestamp, TransactionId)>,
    pub commits: usize,
    pub aborts: usize,
}

/// Checks every certificate, that no transaction has two decisions, and that each committed transaction read the newest committed
/// values below its timestamp. `genesis` has the values before the first one.
///
/// # Errors
/// The first contradiction.
pub fn check(
    shards: &Shards,
    signatures: &dyn Signatures,
    decided: &[Shared<Decided>],
    genesis: &BTreeMap<Key, Value>,
    program: &dyn Program,
) -> Result<History, String> {
    let mut decisions: BTreeMap<TransactionId, Decision> = BTreeMap::new();
    let mut committed = BTreeMap::new();
    let mut roots = CheckedRoots::default();
    for one in decided {
        let id = one.transaction.id(shards);
        if let Some(other) = decisions.insert(id, one.decision()) {
            if other != one.decision() {
                return Err(format!("transaction {id} is committed and aborted"));
            }
            continue;
        }
        one.check(&mut Checker::new(shards, signatures, &mut roots)).map_err(|error| format!("{id}: {error}"))?;
        if one.decision() == Decision::Commit {
            committed.insert((one.transaction.timestamp, id), Shared::clone(&one.transaction));
        }
    }
    let mut newest: BTreeMap<&Key, (Version, &Value)> = BTreeMap::new();
    for ((timestamp, id), transaction) in &committed {
        for read in &transaction.reads {
            let (version, value) =
                newest.get(&read.key).copied().unwrap_or((Version::GENESIS, genesis.get(&read.key).unwrap_or(&None)));
            if read.version != version || read.value != *value {
                let time = |timestamp: Timestamp| timestamp.time_us;
                return Err(format!(
                    "transaction {id} at {} read {:?} of {}, the newest is of {}",
                    time(*timestamp),
                    read.key.account,
                    time(read.version.timestamp),
                    time(version.timestamp)
                ));
            }
        }
        // Constants are not among the reads, but transactions before it wrote them.
        let value = |key: &Key| newest.get(key).map_or_else(|| genesis.get(key)?.clone(), |(_, value)| (*value).clone());
        let constants = program.constants(transaction).into_iter().filter_map(|key| value(&key).map(|value| (key, value)));
        let checked = program.check(transaction, &constants.collect());
        checked.map_err(|error| format!("transaction {id} is committed: {error}"))?;
        let version = Version { timestamp: *timestamp, writer: *id };
        for write in &transaction.writes {
            newest.insert(&write.key, (version, &write.value));
        }
    }
    let order = committed.keys().copied().collect();
    Ok(History { order, commits: committed.len(), aborts: decisions.len() - committed.len() })
}
