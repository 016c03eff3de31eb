//! The offline checker: one decision for each transaction, no committed writes that the program does not make, and an execution that equals the serial one in the order of timestamps.

use corniche_basil::Program;
use corniche_basil::attestation::{CheckedRoots, Checker, Decision};
use corniche_basil::certificate::Decided;
use corniche_basil::shards::{Key, Shards};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{Timestamp, TransactionId, Value, Version};
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
/// values below its timestamp.
pub fn check(shards: &Shards, decided: &[Shared<Decided>]) -> Result<History, String> {
    check_from(shards, decided, &BTreeMap::new(), &crate::Mixer)
}

/// As [`check`], with another program and values in the genesis.
pub fn check_from(
    shards: &Shards,
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
        one.check(&mut Checker::new(shards, &crate::Keys, &mut roots)).map_err(|error| format!("{id}: {error}"))?;
        if one.decision() == Decision::Commit {
            program.check(&one.transaction).map_err(|error| format!("transaction {id} is committed: {error}"))?;
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
        let version = Version { timestamp: *timestamp, writer: *id };
        for write in &transaction.writes {
            newest.insert(&write.key, (version, &write.value));
        }
    }
    let order = committed.keys().copied().collect();
    Ok(History { order, commits: committed.len(), aborts: decisions.len() - committed.len() })
}
