//! Constants that the program needs: keys that can have one value only, as code by its hash. A transaction does not contain them.
//! Replicas of the shard that owns one have it from the transaction that wrote it. The others get it from them, and keep some.

use super::Replica;
use super::prepare::{MAX_FETCHES, Phase};
use crate::attestation::Decision;
use crate::message::{Message, Peer};
use crate::shards::{Key, number_of};
use crate::shared::Shared;
use crate::transaction::{SignedTransaction, TransactionId};
use corniche_types::{B256, Bytes, TimestampMs};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of constants that a transaction may use, each of at most [`MAX_VALUE_BYTES`](crate::transaction::MAX_VALUE_BYTES).
pub const MAX_CONSTANTS: usize = 64;
/// Number of constants of other shards that a replica keeps.
const MAX_KEPT: usize = 4 * MAX_CONSTANTS;
/// Number of constants that a replica asks for at once because of one peer's transactions.
const MAX_ASKED: usize = 4 * MAX_CONSTANTS;

#[derive(Default)]
pub(super) struct ConstantStore {
    kept: BTreeMap<Key, Bytes>,
    /// The oldest first.
    order: VecDeque<Key>,
    needed: BTreeMap<Key, Needed>,
    /// Times of the next questions.
    due: BTreeSet<(TimestampMs, Key)>,
}

/// A constant that others were asked for.
struct Needed {
    /// The peer that brought the first transaction that needs it.
    because_of: Option<Peer>,
    waiting: BTreeSet<TransactionId>,
    ask_at: TimestampMs,
    asks: u32,
}

impl ConstantStore {
    fn keep(&mut self, key: Key, value: Bytes) {
        if self.kept.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.kept.remove(&oldest);
        }
    }

    /// The transactions that wait for it. Nobody is asked for it any more.
    fn stop_asking(&mut self, key: &Key) -> BTreeSet<TransactionId> {
        let Some(needed) = self.needed.remove(key) else { return BTreeSet::new() };
        self.due.remove(&(needed.ask_at, key.clone()));
        needed.waiting
    }

    fn stop_needing(&mut self, key: &Key, id: &TransactionId) {
        if let Some(needed) = self.needed.get_mut(key) {
            needed.waiting.remove(id);
            if needed.waiting.is_empty() {
                self.stop_asking(key);
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<TimestampMs> {
        self.due.first().map(|(ask_at, _)| *ask_at)
    }

    pub(super) fn count(&self) -> usize {
        self.kept.len() + self.needed.len()
    }
}

impl Replica {
    /// The constants that a transaction needs. If some are missing, the transaction waits, or gets a vote, and the result is `None`.
    pub(super) fn gather(
        &mut self,
        now: TimestampMs,
        id: TransactionId,
        transaction: &Shared<SignedTransaction>,
    ) -> Option<BTreeMap<Key, Bytes>> {
        let (mut found, mut missing) = (BTreeMap::new(), BTreeSet::new());
        for key in self.program.constants(transaction) {
            match self.constant(&key) {
                Some(value) => _ = found.insert(key, value),
                None => _ = missing.insert(key),
            }
        }
        if missing.is_empty() && found.len() <= MAX_CONSTANTS {
            return Some(found);
        }
        let introducer = self.entry(id).introducer;
        let needed = &self.constants.needed;
        let asked = needed.values().filter(|needed| needed.because_of == introducer).count();
        let new = missing.iter().filter(|key| !needed.contains_key(key)).count();
        if found.len() + missing.len() > MAX_CONSTANTS || asked + new > MAX_ASKED {
            self.vote(now, id, Decision::Abort, None);
            return None;
        }
        for key in &missing {
            self.need(now, key, id, introducer);
        }
        self.entry(id).phase = Phase::Gathering { missing, found };
        None
    }

    fn need(&mut self, now: TimestampMs, key: &Key, id: TransactionId, because_of: Option<Peer>) {
        if let Some(needed) = self.constants.needed.get_mut(key) {
            needed.waiting.insert(id);
            return;
        }
        let ask_at = TimestampMs(now.0 + self.config.fetch_ms.max(1));
        self.constants.needed.insert(key.clone(), Needed { because_of, waiting: BTreeSet::from([id]), ask_at, asks: 1 });
        self.constants.due.insert((ask_at, key.clone()));
        // One of them is correct. Which ones depends on this replica, so that load spreads.
        self.ask(key, self.shards.validity());
    }

    fn ask(&mut self, key: &Key, count: usize) {
        let owners: Vec<_> = self.shards.replicas(self.shards.shard_of(key)).filter(|replica| *replica != self.id).collect();
        let start = number_of(&B256::right_padding_from(key.account.as_slice())) % 1_000 + u64::from(self.id.member);
        let start = usize::try_from(start).expect("below 1,000 and a member");
        for replica in owners.iter().cycle().skip(start % owners.len().max(1)).take(count.min(owners.len())) {
            self.send(Peer::Replica(*replica), Message::AskConstant(key.clone()));
        }
    }

    /// Asks all owners again. A constant that nobody has ends the transactions that wait for it.
    pub(super) fn ask_again(&mut self, now: TimestampMs) {
        while let Some((_, key)) = self.constants.due.first().filter(|(ask_at, _)| *ask_at <= now).cloned() {
            self.constants.due.pop_first();
            let next = TimestampMs(now.0 + self.config.fetch_ms.max(1));
            let Some(needed) = self.constants.needed.get_mut(&key) else { continue };
            (needed.ask_at, needed.asks) = (next, needed.asks + 1);
            if needed.asks > MAX_FETCHES {
                let waiting = needed.waiting.clone();
                waiting.into_iter().for_each(|id| self.vote(now, id, Decision::Abort, None));
                continue;
            }
            self.constants.due.insert((next, key.clone()));
            self.ask(&key, self.shards.all());
        }
    }

    /// The transaction does not wait for constants any more.
    pub(super) fn stop_gathering(&mut self, id: TransactionId) {
        if let Some(Phase::Gathering { missing, .. }) = self.transactions.get_mut(&id).map(|entry| &mut entry.phase) {
            let missing = std::mem::take(missing);
            missing.iter().for_each(|key| self.constants.stop_needing(key, &id));
        }
    }

    /// A constant, if this replica has it. It wrote its own shard's ones after the program's check.
    fn constant(&self, key: &Key) -> Option<Bytes> {
        let kept = self.constants.kept.get(key);
        kept.or_else(|| self.versions.any_value(key)).cloned()
    }

    pub(super) fn respond_to_constant(&mut self, from: Peer, key: Key) {
        if let Some(value) = self.constant(&key) {
            self.send(from, Message::Constant { key, value });
        }
    }

    /// Checks the transactions that have all their constants now.
    pub(super) fn receive_constant(&mut self, now: TimestampMs, key: Key, value: Bytes) {
        if !self.constants.needed.contains_key(&key) || !self.program.is_constant(&key, &value) {
            return;
        }
        let waiting = self.constants.stop_asking(&key);
        self.constants.keep(key.clone(), value.clone());
        for id in waiting {
            let entry = self.entry(id);
            let Phase::Gathering { missing, found } = &mut entry.phase else { continue };
            missing.remove(&key);
            found.insert(key.clone(), value.clone());
            if missing.is_empty()
                && let Some(transaction) = entry.transaction.clone()
            {
                let found = std::mem::take(found);
                entry.phase = Phase::Unknown;
                self.check_program(now, id, &transaction, &found);
            }
        }
    }
}
