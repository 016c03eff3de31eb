//! Updates with accounts, blocks and fees, and consistency of indices and queues.

use super::{Indexed, Pool};
use crate::{
    DropReason, Event,
    order::{CutEntry, EvictEntry},
    sender::{Entry, Fees, SenderQueue},
};
use corniche_crypto::VerifiedTransaction;
use corniche_state::{Account, StateView};
use corniche_types::{Address, B256};
use std::{cell::OnceCell, collections::BTreeSet};

/// Number of blocks after which a transaction in flight counts as lost with its batch, and waits again.
const IN_FLIGHT_BLOCKS: u64 = 256;
/// Number of lost batches after which a transaction is dropped.
const MAX_LOST_BATCHES: u32 = 3;

impl Pool {
    /// Updates one sender's queue from its account, and the indices if it changed.
    pub(super) fn refresh(&mut self, sender: Address, account: &Account) {
        let Some(queue) = self.senders.get_mut(&sender) else { return };
        let mut changed = queue.set_nonce(account.nonce);
        changed |= self.blocks.checked_sub(IN_FLIGHT_BLOCKS).is_some_and(|cut_by| queue.mark_lost(cut_by));
        queue.last_check = Some((self.blocks, account.clone()));
        let leaving = self.leaving(&self.senders[&sender], account);
        changed |= !leaving.is_empty();
        for (nonce, reason) in leaving {
            self.drop_entry(sender, nonce, reason);
        }
        if changed {
            self.reindex(sender);
        }
    }

    /// True if checking this sender again would change nothing: same account, no block since, and nothing
    /// behind a gap, which can expire.
    pub(super) fn is_fresh(&self, sender: &Address, account: &Account) -> bool {
        self.senders.get(sender).is_some_and(|queue| {
            let same = queue.last_check.as_ref().is_some_and(|(blocks, as_of)| *blocks == self.blocks && as_of == account);
            same && queue.ready_len() == queue.entries().len()
        })
    }

    /// Transactions of a sender that must leave the pool.
    fn leaving(&self, queue: &SenderQueue, account: &Account) -> Vec<(u64, DropReason)> {
        let next_nonce = OnceCell::new();
        let is_behind_gap = |nonce| nonce > *next_nonce.get_or_init(|| queue.next_nonce());
        let is_old = |entry: &Entry| self.now.0 >= entry.arrived_at.0.saturating_add(self.config.queued_lifetime_ms);
        let reason = |nonce: u64, entry: &Entry| match entry {
            _ if nonce < account.nonce => Some(DropReason::Superseded { nonce }),
            entry if !entry.is_waiting() => None,
            entry if account.has_code() && !entry.transaction.is_impersonated() => Some(DropReason::SenderNotEoa),
            entry if entry.cost > account.balance => Some(DropReason::InsufficientFunds),
            entry if entry.lost >= MAX_LOST_BATCHES => Some(DropReason::Lost),
            entry if is_old(entry) && is_behind_gap(nonce) => Some(DropReason::Expired),
            _ => None,
        };
        queue.entries().iter().filter_map(|(&nonce, entry)| Some((nonce, reason(nonce, entry)?))).collect()
    }

    /// Checks the accounts of the next few senders, round robin.
    pub(super) fn sweep(&mut self, senders: usize, view: &dyn StateView) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let after = self.senders.range((Excluded(self.sweep_cursor), Unbounded));
        let before = self.senders.range((Unbounded, Included(self.sweep_cursor)));
        let turn: Vec<Address> = after.chain(before).map(|(sender, _)| *sender).take(senders).collect();
        self.sweep_cursor = turn.last().copied().unwrap_or(self.sweep_cursor);
        for sender in turn {
            self.refresh(sender, &view.account(&sender).unwrap_or_default());
        }
    }

    pub(super) fn requeue_entry(&mut self, sender: Address, nonce: u64) {
        self.parked.remove(&sender);
        if let Some(queue) = self.senders.get_mut(&sender) {
            queue.requeue_entry(nonce);
        }
    }

    pub(super) fn drop_entry(&mut self, sender: Address, nonce: u64, reason: DropReason) {
        if let Some(entry) = self.remove(sender, nonce) {
            self.events.push_back(Event::Dropped { hash: entry.transaction.hash(), reason });
        }
    }

    /// Drops the matching transactions that are not in flight; returns the hash of the last one.
    pub fn drop_waiting(&mut self, matches: impl Fn(&VerifiedTransaction) -> bool) -> Option<B256> {
        let entries = self.senders.iter().flat_map(|(sender, queue)| queue.entries().values().map(|entry| (*sender, entry)));
        let matching = entries.filter(|(_, entry)| entry.is_waiting() && matches(&entry.transaction));
        let matching: Vec<_> = matching.map(|(sender, entry)| (sender, entry.transaction.clone())).collect();
        for (sender, transaction) in &matching {
            self.drop_entry(*sender, transaction.nonce(), DropReason::Requested);
            self.reindex(*sender);
        }
        matching.last().map(|(_, transaction)| transaction.hash())
    }

    /// Removes an entry; the caller must reindex the sender.
    pub(super) fn remove(&mut self, sender: Address, nonce: u64) -> Option<Entry> {
        let entry = self.senders.get_mut(&sender)?.remove(nonce)?;
        self.by_hash.remove(&entry.transaction.hash());
        self.bytes -= entry.size();
        Some(entry)
    }

    /// Updates the indices for a new base fee: only senders whose next transaction has a border between the two.
    pub(super) fn set_base_fee(&mut self, base_fee: u64) {
        let old = std::mem::replace(&mut self.base_fee, base_fee);
        if base_fee != old {
            self.evict_order.set_base_fee(old, base_fee);
            let border = |base_fee: u64| (u128::from(base_fee), Address::ZERO);
            let crossed = self.fee_borders.range(border(old.min(base_fee))..border(old.max(base_fee)));
            let senders: BTreeSet<Address> = crossed.map(|(_, sender)| *sender).collect();
            senders.into_iter().for_each(|sender| self.reindex(sender));
        }
    }

    /// Updates the index entries of this sender from its queue.
    pub(super) fn reindex(&mut self, sender: Address) {
        #[cfg(test)]
        {
            self.reindexed += 1;
        }
        let old = self.indexed.remove(&sender).unwrap_or_default();
        old.cut.map(|entry| self.cut_order.remove(entry));
        old.borders.map(|borders| borders.map(|border| self.fee_borders.remove(&(border, sender))));
        if let Some(entry) = old.evict {
            self.evict_order.remove(&entry);
        }
        old.held.map(|key| self.held.remove(&key));
        old.turn.map(|key| self.turns.remove(&key));
        self.ready -= old.ready;
        let Some(queue) = self.senders.get_mut(&sender).filter(|queue| !queue.entries().is_empty()) else {
            self.senders.remove(&sender);
            self.parked.remove(&sender);
            return;
        };
        let parked = self.parked.contains(&sender);
        let fees = queue.next_waiting(queue.nonce()).filter(|_| !parked).map(Entry::fees);
        let is_proposable = fees.is_some_and(|fees| fees.tip(self.base_fee).is_some());
        queue.set_proposable(is_proposable, self.now, self.turn_ms);
        let next = queue.next_waiting(queue.nonce()).filter(|_| is_proposable);
        let due = next.and_then(|entry| queue.due(entry, self.turn_ms));
        let is_due = due.is_some_and(|due| due <= self.now);
        let ready = queue.ready_len();
        let evict = queue.tail().and_then(|tail| {
            let (fees, ready) = (queue.lowest_fees()?, ready == queue.entries().len());
            Some(EvictEntry { ready, fees, arrival: tail.arrival, sender })
        });
        let new = Indexed {
            cut: next.filter(|_| is_due).and_then(|entry| CutEntry::of(sender, entry, self.base_fee)),
            borders: fees.map(Fees::borders),
            evict,
            held: due.filter(|_| !is_due).map(|due| (due, sender)),
            turn: queue.turn_ends(self.turn_ms).map(|ends| (ends, sender)),
            ready,
        };
        new.cut.map(|entry| self.cut_order.insert(entry));
        self.fee_borders.extend(new.borders.into_iter().flatten().map(|border| (border, sender)));
        if let Some(entry) = &new.evict {
            self.evict_order.insert(entry, self.base_fee);
        }
        self.held.extend(new.held);
        self.turns.extend(new.turn);
        self.ready += new.ready;
        self.indexed.insert(sender, new);
    }
}
