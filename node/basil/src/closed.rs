//! Lists of closed ranges (A5): which transactions may have committed in a range, and the proof that it contains exactly those.

use crate::attestation::{Attestation, Checker, Statement};
use crate::certificate::{CertificateError, count_members, expect};
use crate::shards::{ReplicaId, ShardId, Shards};
use crate::transaction::TransactionId;
use corniche_types::B256;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of transactions in one list. A replica does not respond for a range with more.
pub const MAX_LISTED: usize = 1 << 18;

/// Transactions of a closed range that may have committed, from the lists of the replicas of one shard: those on f + 1 lists. `None` if
/// fewer than 4f + 1 replicas closed it.
pub fn candidates(lists: &BTreeMap<ReplicaId, Vec<TransactionId>>, shards: &Shards) -> Option<BTreeSet<TransactionId>> {
    if lists.len() < shards.reachable() {
        return None;
    }
    let mut counts: BTreeMap<TransactionId, usize> = BTreeMap::new();
    for id in lists.values().flatten() {
        *counts.entry(*id).or_default() += 1;
    }
    Some(counts.into_iter().filter(|(_, count)| *count >= shards.validity()).map(|(id, _)| id).collect())
}

/// Hash of a list of transactions, as in [`Statement::Closed`].
pub fn list_hash(shards: &Shards, transactions: &[TransactionId]) -> B256 {
    shards.digest("corniche-basil-closed", &transactions)
}

/// Checks that a range of the serial order contains exactly the committed transactions of these lists: 4f + 1 replicas of each shard
/// closed it, and signed its shard's list (A5).
///
/// # Errors
/// A signature is missing, repeated or not valid, or is one of another range or list.
pub fn check_closed(
    from_us: u64,
    below_us: u64,
    lists: &BTreeMap<ShardId, B256>,
    certificate: &[Attestation],
    checker: &mut Checker,
) -> Result<(), CertificateError> {
    let belongs = |signed: &Attestation| {
        let list = lists.get(&signed.replica.shard);
        list.is_some_and(|list| signed.statement == Statement::Closed { from_us, below_us, list: *list })
    };
    let counts = count_members(certificate, belongs, checker)?;
    checker.shards.ids().try_for_each(|shard| expect(&counts, shard, checker.shards.reachable()))
}
