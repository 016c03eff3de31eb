//! Cutting a batch: highest tips first, in nonce order per sender.

use super::Pool;
use crate::{
    batch,
    order::{CutKey, Cutting},
};

/// Maximum number of senders skipped in one cut because their next transaction did not fit.
const MOST_MISFITS: usize = 32;

impl Pool {
    /// Best next transaction, of the order and of the followers of transactions already taken.
    pub(super) fn next_to_cut(&mut self, cutting: &mut Cutting) -> Option<CutKey> {
        match (self.cut_order.first(), cutting.followers.first()) {
            (Some(first), Some(follower)) if follower < first => cutting.followers.pop_first(),
            (None, _) => cutting.followers.pop_first(),
            _ => self.cut_order.pop_first(),
        }
    }

    /// Adds one transaction to the batch, or puts its sender aside; returns false if the batch is done.
    pub(super) fn cut_one(&mut self, key: CutKey, cutting: &mut Cutting) -> bool {
        let queue = self.senders.get_mut(&key.sender).expect("invariant: only pooled transactions are in the order");
        let entry = queue.entries().get(&key.nonce).expect("invariant: only pooled transactions are in the order");
        let spendable = cutting.spendable.get_mut(&key.sender).expect("the caller looked at this sender");
        if entry.cost > *spendable {
            self.parked.insert(key.sender);
            return true;
        }
        let raw = entry.transaction.transaction().raw();
        let (bytes, gas) = (raw.len() + batch::ENTRY_OVERHEAD, entry.transaction.gas_limit());
        if bytes > cutting.bytes_left || gas > cutting.gas_left {
            // A transaction that fits into no batch of this size must not block others.
            cutting.misfits += usize::from(bytes <= cutting.bytes && gas <= cutting.gas);
            return cutting.misfits < MOST_MISFITS;
        }
        cutting.bytes_left -= bytes;
        cutting.gas_left -= gas;
        *spendable -= entry.cost;
        cutting.raw.push(raw.clone());
        queue.depart(key.nonce, self.blocks);
        let next = queue.next_waiting(key.nonce + 1);
        let next = next.filter(|entry| queue.due(entry, self.turn_ms).is_some_and(|due| due <= self.now));
        let follower = next.and_then(|entry| CutKey::of(key.sender, entry, self.base_fee));
        cutting.followers.extend(follower);
        true
    }
}
