//! Faulty proposers fill every batch completely with entries that are not transactions. Such entries declare no gas, so only
//! bytes bound the blocks that contain them.
//!
//! Requirement: blocks stay small enough to execute, store, send and follow; honest transfers succeed.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    insider::{self, Behaviour},
};
use corniche_admission::batch::{BATCH_OVERHEAD, ENTRY_OVERHEAD, MIN_TRANSACTION_BYTES, encode};
use corniche_types::Bytes;

pub const ATTACK: Attack = Attack {
    name: "junk-batches",
    item: "B3",
    about: "validators propose full batches of entries that are not transactions",
    by: By::Validators,
    engine: None,
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    let room = context.victims.genesis().batch_bytes as usize;
    insider::run(context, |_| Ok(Box::new(Junk { room, next: 0 }))).await
}

struct Junk {
    /// Bytes of a full batch.
    room: usize,
    next: u64,
}

impl Behaviour for Junk {
    fn batch(&mut self) -> Option<Bytes> {
        let count = (self.room - BATCH_OVERHEAD) / (MIN_TRANSACTION_BYTES + ENTRY_OVERHEAD);
        let entries = (0..count).map(|_| {
            self.next += 1;
            let mut entry = vec![0xff; MIN_TRANSACTION_BYTES];
            entry[..8].copy_from_slice(&self.next.to_le_bytes());
            Bytes::from(entry)
        });
        encode(&entries.collect::<Vec<_>>()).ok()
    }
}
