//! Cutting a batch: the best first, each sender's in nonce order.

use super::Pool;
use crate::{
    batch,
    order::{CutKey, Cutting},
};

/// Senders passed over in one cut because their next transaction did not fit.
const MOST_MISFITS: usize = 32;

impl Pool {
    /// The best of the order and of what followed on transactions already taken.
    pub(super) fn next_to_cut(&mut self, cutting: &mut Cutting) -> Option<CutKey> {
        match (self.cut_order.first(), cutting.followers.first()) {
            (Some(first), Some(follower)) if follower < first => cutting.followers.pop_first(),
            (None, _) => cutting.followers.pop_first(),
            _ => self.cut_order.pop_first(),
        }
    }

    /// Puts one transaction into the batch, or its sender aside; false when no more should be tried.
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
            // One that fits no batch of this size must not keep the others out.
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
