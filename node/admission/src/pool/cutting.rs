//! Cutting a batch: highest tips first, in nonce order per sender.

use super::Pool;
use crate::{
    batch,
    order::{BatchBuilder, CutKey},
};

/// Maximum number of senders skipped in one cut because their next transaction did not fit.
const MAX_MISFITS: usize = 32;

impl Pool {
    /// Best next transaction, of the order and of the followers of transactions already taken.
    pub(super) fn next_to_cut(&mut self, builder: &mut BatchBuilder) -> Option<CutKey> {
        match (self.cut_order.first(self.base_fee), builder.followers.first()) {
            (Some(first), Some(follower)) if *follower < first => builder.followers.pop_first(),
            (None, _) => builder.followers.pop_first(),
            _ => self.cut_order.pop_first(self.base_fee),
        }
    }

    /// Adds one transaction to the batch, or puts its sender aside; returns false if the batch is done.
    pub(super) fn cut_one(&mut self, key: CutKey, builder: &mut BatchBuilder) -> bool {
        let queue = self.senders.get_mut(&key.sender).expect("invariant: only pooled transactions are in the order");
        let entry = queue.entries().get(&key.nonce).expect("invariant: only pooled transactions are in the order");
        let spendable = builder.spendable.get_mut(&key.sender).expect("the caller looked at this sender");
        if entry.cost > *spendable {
            self.parked.insert(key.sender);
            return true;
        }
        let raw = entry.transaction.transaction().raw();
        let (bytes, gas) = (raw.len() + batch::ENTRY_OVERHEAD, entry.transaction.gas_limit());
        if bytes > builder.bytes_left || gas > builder.gas_left {
            // A transaction that fits into no batch of this size must not block others.
            builder.skipped += usize::from(bytes <= builder.bytes && gas <= builder.gas);
            return builder.skipped < MAX_MISFITS;
        }
        builder.bytes_left -= bytes;
        builder.gas_left -= gas;
        *spendable -= entry.cost;
        builder.raw.push(raw.clone());
        queue.mark_in_flight(key.nonce, self.blocks);
        let next = queue.next_waiting(key.nonce + 1);
        let next = next.filter(|entry| queue.due(entry, self.turn_ms).is_some_and(|due| due <= self.now));
        let follower = next.and_then(|entry| CutKey::of(key.sender, entry, self.base_fee));
        builder.followers.extend(follower);
        true
    }
}
